"""A page about one table: the table drawn, what its signs mean, how it was protected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.release.report.page import template
from discretion.release.report.settings import settings_of
from discretion.release.report.svg import RELEASED, note, picture, rect, text
from discretion.release.report.wording import count, number, title_of
from discretion.tables.pivot import Pivot, pivoted

if TYPE_CHECKING:
    from discretion.release.table_run import TableRelease
    from discretion.tables.cells import Cells

ROWS, COLUMNS = 400, 40
"""Rows and columns of a table that the page draws; the files have all of them."""

OPEN = 30
"""Rows up to which the parts of groups are shown at once; those of larger tables are folded."""


@dataclass(frozen=True)
class Drawn:
    """One place of the drawn table."""

    text: str
    kind: str
    """value, hidden, primary, secondary or empty"""
    title: str = ""
    note: str = ""
    """what the internal page says below the value"""


def render_table(release: TableRelease, *, internal: bool) -> str:
    """Give the report on a table as one HTML file that needs nothing else.

    The public version marks suppressed cells alike and tells no parameter. The internal version says of every
    suppressed cell whether it is sensitive, by which rules, or suppressed for others, with true values, settings and
    what the audit found, and says on top that it is not for publication.
    """
    from discretion.release.table_files import public_facts
    from discretion.release.table_run import WORDS

    cells, plan = release.cells, release.plan
    return template("table_page.html").render(
        internal=internal,
        title=plan.plan.title or f"{title_of(cells.response.name)} by {' and '.join(map(' × '.join, cells.tables))}",
        meaning=WORDS[plan.protect.kind],
        facts=public_facts(release),
        hidden=count(int(cells.suppressed.sum())),
        total=count(len(cells)),
        tables=[_drawn(cells, k, internal) for k in range(len(cells.tables))],
        lost=_lost_by_level(cells, internal),
        verdicts=release.verdicts if internal else (),
        override=release.override if internal else None,
        rules=[(title_of(rule.kind), settings_of(rule, internal=True)) for rule in plan.rules] if internal else [],
        options=[(name, str(value)) for name, value in plan.protect.options.items()] if internal else [],
        loss=[(name.replace("_", " "), number(float(value))) for name, value in release.loss.items()]
        if internal
        else [],
        holds=release.holds,
    )


def _drawn(cells: Cells, table: int, internal: bool) -> dict[str, Any]:
    found = pivoted(cells, None, table)
    rows, columns = min(ROWS, len(found.labels)), min(COLUMNS, len(found.columns))
    drawn = [
        {
            "labels": list(zip(found.labels[row], found.depths[row], strict=True)),
            "level": sum(found.depths[row]),
            "places": [_place(found, row, column, internal) for column in range(columns)],
        }
        for row in range(rows)
    ]
    starts = [row for row in range(rows) if row == 0 or sum(found.depths[row]) <= 1]
    groups = [drawn[i:j] for i, j in pairwise([*starts, len(drawn)])]
    return {
        "title": _capital(" × ".join(cells.tables[table])),
        "caption": _capital(cells.response.name),
        "row_names": found.row_names,
        "column_name": found.column_name,
        "columns": found.columns[:columns],
        "groups": groups,
        "folds": sum(len(group) > 1 for group in groups) > 1,
        "open": rows <= OPEN,
        "left_out": len(found.labels) > rows or len(found.columns) > columns,
        "shown": f"{count(rows)} of {count(len(found.labels))} rows, "
        f"{count(columns)} of {count(len(found.columns))} columns",
    }


def _place(found: Pivot, row: int, column: int, internal: bool) -> Drawn:
    cells, cell = found.cells, int(found.place[row, column])
    if cell < 0:
        return Drawn("", "empty") if found.cells.status.released is None else Drawn("0", "value")
    status = cells.status
    truth = _text(float(cells.value[cell]))
    released = cells.value if status.released is None else status.released
    hidden = bool(cells.suppressed[cell])
    if not internal:
        return Drawn("c", "hidden", "confidential") if hidden else Drawn(_text(float(released[cell])), "value")
    reasons = ", ".join(name for bit, name in enumerate(status.reasons) if int(status.reason[cell]) >> bit & 1)
    if status.primary[cell]:
        return Drawn(truth if hidden else _text(float(released[cell])), "primary", f"sensitive: {reasons}", reasons)
    if status.secondary[cell] and hidden:
        return Drawn(truth, "secondary", "suppressed to protect others", "for others")
    title = f"true value {truth}" if status.released is not None and released[cell] != cells.value[cell] else ""
    return Drawn(_text(float(released[cell])), "value", title)


def _lost_by_level(cells: Cells, internal: bool) -> tuple[str, str] | None:
    """Draw what was lost at each level of each variable: cells not shown, or (internally) how far values changed."""
    hidden = cells.suppressed
    changed = cells.status.released is not None
    if not hidden.any() and not (changed and internal):
        return None
    size = np.abs(np.nan_to_num(cells.value))
    off = np.abs(np.asarray(cells.status.released) - cells.value) if changed else np.zeros(len(cells))
    bars = []
    for j, dim in enumerate(cells.dims):
        depth = np.maximum.reduce(dim.depths)[cells.codes[:, j]]
        for level in np.unique(depth).tolist():
            here = depth == level
            if changed:
                share = float(off[here].sum() / size[here].sum()) if size[here].any() else 0.0
            else:
                share = float(hidden[here].mean())
            bars.append((dim.name, "total" if level == 0 else f"level {level}", int(here.sum()), share))
    what = "Mean change of the values, in percent of them" if changed else "Cells not shown, in percent"
    return what, _bars(bars, what)


def _bars(bars: list[tuple[str, str, int, float]], what: str) -> str:
    wide, high, left = 560, 24, 200
    most = max([share for *_, share in bars], default=0.0) or 1.0
    body = []
    for row, (name, level, cells, share) in enumerate(bars):
        y = 8 + high * row
        length = (wide - left - 130) * share / most
        body += [
            text(left - 10, y + 13, f"{name}, {level}", text_anchor="end"),
            rect(left, y, max(length, 1.0), high - 8, RELEASED),
            note(left + length + 6, y + 13, f"{100 * share:.3g} % of {count(cells)}", "start"),
        ]
    told = "; ".join(f"{name}, {level}: {100 * share:.3g} %" for name, level, _, share in bars)
    return picture(wide, 12 + high * len(bars), what, told, body)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _text(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value == np.round(value):
        return f"{int(value):,}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−") if abs(value) < 1e6 else f"{value:,.2f}".replace("-", "−")
