"""A page that puts several releases side by side: overall, then measure by measure. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discretion.release.report.attack_lines import NARROW, WIDTH, Line, draw
from discretion.release.report.figures import FigureGroup, column_figure, pair_figure
from discretion.release.report.page import template
from discretion.release.report.pairs import plain_columns, sides_between
from discretion.release.report.wording import NOTHING, count, figure, percent, title_of
from discretion.release.tune_scales import gain_of

if TYPE_CHECKING:
    from discretion.release.comparison import ComparedRelease, Comparison

MOST_DRAWN = 16
"""Columns of which a comparison shows the distributions."""
_FAMILIES = (("risk", "Risk: what an attacker can do"), ("utility", "Utility: what was lost"))


def comparison_page(found: Comparison, title: str) -> str:
    """Give the page as one HTML file that needs nothing else: pictures first, then the tables."""
    return template("comparison.html").render(
        title=title, internal=True, charts=_charts(found), groups=_pictures(found), **_content(found)
    )


def _charts(found: Comparison) -> list[dict[str, Any]]:
    """Draw the attacks from guessing to success and the losses, for every release."""
    from markupsafe import Markup

    attacks = [row for row in found.rows if row.family == "risk" and row.measure.limits == (0.0, 1.0)]
    attacks = [row for row in attacks if row.figures]
    attacks.sort(key=lambda row: (_doubtful(row), -max(gain_of(one) for one in row.figures.values()), row.title))
    risks = [
        Line(
            _title(row),
            "takes perturbed values as true" if _doubtful(row) else "",
            (row.chance, *(one.chance if (one := row.figures.get(name)) else None for name in found.names)),
            (row.before, *(one.value if (one := row.figures.get(name)) else None for name in found.names)),
            _doubtful(row),
        )
        for row in attacks
    ]
    none = (None,) * len(found.names)
    losses = [Line(_title(row), "", none, tuple(row.loss(name) for name in found.names)) for row in found.scaled]
    charts = []
    if risks:
        names = ("the original", *found.names)
        title = "Every attack, from guessing to success"
        drawn = [Markup(draw(risks, names, title, width=width)) for width in (WIDTH, NARROW)]
        words = (
            "The share of people for whom each attack is right, for the original and for every release; the attack "
            "that gains most over guessing comes first. A short line is good."
        )
        charts.append({"key": "attack-lines", "title": title, "words": words, "pictures": drawn})
    if losses:
        title = "What was lost"
        drawn = [
            Markup(draw(losses, found.names, title, original=False, guessing=False, width=width))
            for width in (WIDTH, NARROW)
        ]
        words = "Each measure put between 0% (nothing lost) and 100%; what a release does not have is lost."
        charts.append({"key": "loss-lines", "title": title, "words": words, "pictures": drawn})
    return charts


def _pictures(found: Comparison) -> list[FigureGroup]:
    """Draw each column and the tables of all pairs, release beside release; of several synthetic copies the first."""
    if found.original is None:
        return []
    sides = {name: sides_between(found.original, data.copies()[0]) for name, data in found.data.items()}
    shown = [name for name in found.original.columns if any(name in plain_columns(one) for one in sides.values())]
    drawn = [
        column_figure(one, column, f"{column}: {name}")
        for column in shown[:MOST_DRAWN]
        for name, one in sides.items()
        if column in plain_columns(one) and not found.original.frame.schema[column].is_nested()
    ]
    left = f" {len(shown) - MOST_DRAWN} more columns are not drawn." if len(shown) > MOST_DRAWN else ""
    words = (
        "The original and each release: bars and outline of numbers, shares of categories. A histogram has at least "
        f"ten original records behind each bar.{left}"
    )
    pairs = [pair_figure(one, f"All pairs: {name}") for name, one in sides.items()]
    moved = (
        "For every pair of columns the share of records that lie in another cell of their table than in the original "
        "(numbers in fifths): 0 means that the table was kept. Chance alone moves tables of many cells."
    )
    groups = (
        FigureGroup("columns", "Column by column", words, tuple(one for one in drawn if one is not None)),
        FigureGroup("pairs", "Pair by pair", moved, tuple(one for one in pairs if one is not None)),
    )
    return [group for group in groups if group.figures]


def _doubtful(row: ComparedRelease) -> bool:
    return any(one.doubtful for one in row.figures.values())


def _title(row: ComparedRelease) -> str:
    return title_of(row.kind) + row.title.removeprefix(row.kind)


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


def _row(found: Comparison, row: ComparedRelease) -> dict[str, Any]:
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
        "title": _title(row),
        "what": row.measure.summary(),
        "better": row.better,
        "before": figure(row.before, limits),
        "chance": figure(row.chance, limits),
        "cells": cells,
        "winner": row.winner or NOTHING,
    }
