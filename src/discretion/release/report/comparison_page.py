"""A page that puts several releases side by side: overall, then measure by measure. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discretion.release.report.page import template
from discretion.release.report.wording import NOTHING, count, figure, percent, title_of

if TYPE_CHECKING:
    from discretion.release.comparison import Compared, Comparison

_FAMILIES = (("risk", "Risk: what an attacker can do"), ("utility", "Utility: what was lost"))


def comparison_page(found: Comparison, title: str) -> str:
    """Give the page as one HTML file that needs nothing else."""
    return template("comparison.html").render(title=title, internal=True, **_content(found))


def table(found: Comparison) -> str:
    """Give the verdict and the tables alone, for a notebook."""
    from markupsafe import Markup

    return Markup("<p>{}</p>").format(found.verdict) + Markup(
        template("comparison_tables.html").render(**_content(found))
    )


def _content(found: Comparison) -> dict[str, Any]:
    return {
        "verdict": found.verdict,
        "names": found.names,
        "overall": [_overall(found, name) for name in found.names],
        "families": [
            {"key": key, "title": title, "rows": [_row(found, row) for row in found.rows if row.family == key]}
            for key, title in _FAMILIES
        ],
        "scaled": [title_of(row.kind) for row in found.scaled],
        "reasons": [
            {"title": row.title, "name": name, "reason": reason}
            for row in found.rows
            for name, reason in row.reasons.items()
        ],
        "doubtful": any(figure.doubtful for row in found.rows for figure in row.figures.values()),
    }


def _overall(found: Comparison, name: str) -> dict[str, Any]:
    overall = found.overall(name)
    lacking = ", ".join(found.lacking[name])
    return {
        "name": name,
        "gain": percent(overall.gain),
        "attack": overall.attack or NOTHING,
        "loss": percent(overall.loss),
        "records": count(found.records[name]),
        "lacking": lacking or "none",
        "better": found.better == name,
    }


def _row(found: Comparison, row: Compared) -> dict[str, Any]:
    limits = row.measure.limits
    cells = []
    for name in found.names:
        known = row.figures.get(name)
        text = "not run" if known is None else figure(known.value, limits)
        cells.append(
            {
                "name": name,
                "text": text + ("*" if known is not None and known.doubtful else ""),
                "wins": row.winner == name,
            }
        )
    return {
        "title": title_of(row.kind) + row.title.removeprefix(row.kind),
        "what": row.measure.summary(),
        "better": row.better,
        "before": figure(row.before, limits),
        "chance": figure(row.chance, limits),
        "cells": cells,
        "winner": row.winner or NOTHING,
    }
