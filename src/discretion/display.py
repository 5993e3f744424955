"""How objects look in a notebook: small tables, escaped, without values of people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = "text-align:left;padding:.2em .8em .2em 0;vertical-align:top;overflow-wrap:anywhere"
_MOST_ROWS = 100
"""Rows that are shown; of more, the first ones."""


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Give a titled table as HTML; every text is escaped."""
    top = "".join(f'<th scope="col" style="{_CELL}">{escape(head)}</th>' for head in heads)
    listed = list(rows)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in listed[:_MOST_ROWS])
    more = f"… and {len(listed) - _MOST_ROWS:,} more rows. " if len(listed) > _MOST_ROWS else ""
    below = f"<p>{escape(more + note)}</p>" if more + note else ""
    grid = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return f'<div style="overflow-x:auto"><p><strong>{escape(title)}</strong></p>{grid}{below}</div>'


def figure(value: float) -> str:
    """Write a number with four significant digits."""
    return f"{value:,.4g}"


def _cell(content: object) -> str:
    return f'<td style="{_CELL}">{escape(str(content))}</td>'
