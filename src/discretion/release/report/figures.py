"""Which pictures the report shows, with their captions, and why others are missing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discretion.data.hierarchy import canonical
from discretion.release.facts import strength_withheld
from discretion.release.report import svg
from discretion.release.report.charts import (
    FEWEST_COLUMNS,
    FEWEST_IN_BAR,
    FEWEST_RECORDS,
    MOST_CORRELATED,
    Correlations,
    ErrorCurve,
    Sides,
    class_sizes_of,
    correlations_of,
    draw_class_sizes,
    draw_correlations,
    draw_error_curve,
    draw_histogram,
    draw_record_risk,
    error_curve_of,
    histogram_of,
    plain_columns,
    record_risk_of,
    sides_of,
)
from discretion.release.report.wording import count, counted, number, shorten, title_of
from discretion.utility.marginals import pair_differences

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release

# The released categories of columns that were generalized or changed. The original is not looked at.

FEWEST = 10
"""Released records a named category has, at least."""
MOST = 12
_ROW = 21
_LEFT = 172


@dataclass(frozen=True)
class Categories:
    """Shares of records (rounded to 0.1 %) of the most frequent categories, and of everything else together."""

    column: str
    labels: tuple[str, ...]
    shares: tuple[float, ...]
    rest: tuple[str, float] | None
    missing: float


def categories_of(data: Dataset, column: str) -> Categories | None:
    """Count the released categories; None where no category has enough records."""
    codes = data.codes(column)
    sizes = np.bincount(codes.codes.astype(np.int64), minlength=codes.size)
    totals: Counter[str] = Counter()
    for value, size in zip(codes.values, sizes.tolist(), strict=True):
        if value is not None and size:
            totals[_label(value)] += size
    ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    named = [item for item in ranked[:MOST] if item[1] >= FEWEST]
    if not named:
        return None
    others = ranked[len(named) :]
    named = _in_natural_order(named)
    n = len(data)
    rest = (f"{counted(len(others), 'other')}", _share(sum(size for _, size in others), n)) if others else None
    return Categories(
        column=column,
        labels=tuple(label for label, _ in named),
        shares=tuple(_share(size, n) for _, size in named),
        rest=rest,
        missing=_share(n - sum(totals.values()), n),
    )


def _label(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(sorted(canonical(item) for item in value)) or "(empty set)"
    return "* (any value)" if value == "*" else canonical(value)


def _in_natural_order(items: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sort intervals and other labels with a number by that number; everything else stays by frequency."""
    found = [re.search(r"-?\d+(?:\.\d+)?", label) for label, _ in items]
    if not all(found):
        return items
    return sorted(items, key=lambda item: (_first_number(item[0]), item[0]))


def _first_number(label: str) -> float:
    found = re.search(r"-?\d+(?:\.\d+)?", label)
    return float(found[0]) if found else 0.0


def _share(records: int, total: int) -> float:
    return round(1000 * records / max(total, 1)) / 1000


def beside(data: Dataset, found: Categories) -> tuple[float, ...]:
    """Give the shares that the same categories have in other data (the original: never for the public)."""
    codes = data.codes(found.column)
    sizes = np.bincount(codes.codes.astype(np.int64), minlength=codes.size)
    totals: Counter[str] = Counter()
    for value, size in zip(codes.values, sizes.tolist(), strict=True):
        if value is not None and size:
            totals[_label(value)] += size
    return tuple(_share(totals[label], len(data)) for label in found.labels)


def draw(found: Categories, original: tuple[float, ...] = ()) -> str:
    """Draw one horizontal bar for each category; with shares of the original, one of these below each."""
    rows = list(zip(found.labels, found.shares, strict=True))
    bars = [(label, share, svg.RELEASED) for label, share in rows]
    if original:
        pairs = zip(bars, (("in the original", share, svg.ORIGINAL) for share in original), strict=True)
        bars = [bar for pair in pairs for bar in pair]
    if found.rest:
        bars.append((*found.rest, svg.ORIGINAL))
    if found.missing:
        bars.append(("missing or suppressed", found.missing, svg.ORIGINAL))
    top = max(share for _, share, _ in bars) or 0.001
    across = svg.ChartAxis(0.0, top, _LEFT, svg.WIDTH - 60)
    body = [svg.text(_LEFT, 14, "share of released records", fill=svg.MUTED, font_size=11)]
    for place, (label, share, color) in enumerate(bars):
        y = 24 + place * _ROW
        body.append(svg.text(_LEFT - 8, y + 13, shorten(label, 26), text_anchor="end", font_size=11))
        body.append(svg.rect(_LEFT, y + 2, across(share) - _LEFT, _ROW - 6, color))
        body.append(svg.text(across(share) + 6, y + 13, f"{number(100 * share)}%", font_size=11))
    height = 24 + len(bars) * _ROW + 8
    body.append(svg.line(_LEFT, 22, _LEFT, height - 6, svg.MUTED))
    words = "; ".join(f"{label}: {number(100 * share)}%" for label, share, _ in bars)
    return svg.picture(svg.WIDTH, height, f"Released categories of {found.column}", words, body)


MOST_COLUMNS = 8
"""Columns of each kind that are drawn."""


@dataclass(frozen=True)
class Chart:
    """A picture and its caption; without a picture, the reason."""

    title: str
    svg: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class FigureGroup:
    """Pictures that answer one question."""

    key: str
    title: str
    intro: str
    figures: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


def figures_of(release: Release, *, internal: bool) -> tuple[FigureGroup, ...]:
    """Draw everything that can be drawn; groups without a picture and without a note are left out."""
    if release.is_private and not internal:
        names = [name for name in release.data.columns if not release.data.is_numeric(name)]
        group = _categories(release, names, both=False)
        return (group,) if group.figures else ()
    sides = sides_of(release)
    changed = [name for name in plain_columns(sides) if sides.changed(name)]
    numeric = [name for name in changed if sides.is_numeric(name)]
    other = [name for name in changed if not sides.is_numeric(name)]
    groups = [
        _class_sizes(release),
        _numbers(release, sides, numeric, internal),
        _categories(release, other, both=internal and not sides.aligned),
        _correlations(release, sides, numeric, internal),
        _pairs(release, sides),
        *([_record_risks(release)] if internal else []),
    ]
    return tuple(group for group in groups if group.figures or group.notes)


def _record_risks(release: Release) -> FigureGroup:
    intro = "How many records are at which risk, for every attack that has a figure for each record. Internal only."
    found = [record_risk_of(item.after) for item in release.measured]
    figures = tuple(
        Chart(
            f"{title_of(risk.kind)}: records at risk",
            draw_record_risk(risk),
            f"{title_of(risk.kind)}: share of the records whose risk is at least the level below the bar. Dashed: "
            "guessing.",
        )
        for risk in found
        if risk is not None
    )
    return FigureGroup("record-risk", "Risk per record", intro, figures)


def _class_sizes(release: Release) -> FigureGroup:
    found = None if release.data.has_new_rows else class_sizes_of(release)
    intro = (
        "Somebody who knows the quasi-identifiers of a person finds all records with these values. The larger this "
        "class, the better the person is hidden; a record alone in its class is unique."
    )
    if found is None:
        return FigureGroup("class-sizes", "Class sizes", intro, ())
    caption = (
        f"Share of records in classes of each size, over {', '.join(found.columns)}. "
        "Missing values count as a value of their own; shares are rounded to 0.1%."
    )
    return FigureGroup("class-sizes", "Class sizes", intro, (Chart("Class sizes", draw_class_sizes(found), caption),))


def _numbers(release: Release, sides: Sides, columns: list[str], internal: bool) -> FigureGroup:
    intro = (
        "Original and released values of numeric columns that were changed. A bar stands for at least "
        f"{FEWEST_IN_BAR} original records; bars with fewer were merged with their neighbors and show the average "
        "over their width. The bars at both ends hold everything beyond. Values that are missing or suppressed are "
        "left out. An error is the distance between the released and the original value of a record."
    )
    figures, notes = [], []
    for name in columns[:MOST_COLUMNS]:
        drawn, missing = _number_figures(release, sides, name, internal)
        figures += drawn
        notes += missing
    if len(columns) > MOST_COLUMNS:
        left = counted(
            len(columns) - MOST_COLUMNS, "more changed numeric column is", "more changed numeric columns are"
        )
        notes.append(f"{left} not drawn.")
    return FigureGroup("numbers", "Numbers that were changed", intro, tuple(figures), tuple(notes))


def _number_figures(release: Release, sides: Sides, name: str, internal: bool) -> tuple[list[Chart], list[str]]:
    original, released = sides.numbers(name)
    figures, notes = [], []
    bars = histogram_of(name, original, released)
    if bars is not None:
        caption = f"{name}: distribution of {counted(len(original), 'original value')} and of the released ones."
        figures.append(Chart(f"{name}: values", draw_histogram(bars), caption))
    else:
        notes.append(f"{name}: no histogram, because too few records would stand behind its bars.")
    if not sides.aligned:
        notes.append(f"{name}: no errors, because released records do not belong to original ones.")
        return figures, notes
    hidden = strength_withheld(release, name)
    curve = error_curve_of(name, original, released, internal=internal, withhold_scale=hidden)
    if curve is None:
        fewest = FEWEST_RECORDS
        reason = f"they are drawn for {count(fewest)} records or more, where values differ"
        notes.append(f"{name}: no errors, because {reason}.")
    else:
        figures.append(Chart(f"{name}: errors", draw_error_curve(curve), _curve_caption(curve)))
    return figures, notes


def _curve_caption(curve: ErrorCurve) -> str:
    words = f"{curve.column}: errors of all records sorted from the smallest to the largest, percentile by percentile"
    if curve.scaled:
        return f"{words}. Only the shape is shown: the size would give a withheld setting away."
    return f"{words}, in standard deviations of the original column."


def _categories(release: Release, columns: list[str], *, both: bool) -> FigureGroup:
    """Draw released values; `both`: with their shares in the original, never for the public."""
    intro = (
        "The most frequent synthetic values, with their shares in the original below. Internal only."
        if both
        else f"The most frequent values of changed columns, counted in the release only. Values of fewer than "
        f"{FEWEST} records are not named."
    )
    figures, notes = [], []
    for name in columns[:MOST_COLUMNS]:
        found = categories_of(release.data, name)
        if found is None:
            notes.append(f"{name}: no picture, because no value occurs in {FEWEST} records or more.")
        else:
            caption = f"{name}: shares of the released records, rounded to 0.1%."
            original = beside(release.study.original, found) if both else ()
            figures.append(Chart(f"{name}: released values", draw(found, original), caption))
    if len(columns) > MOST_COLUMNS:
        notes.append(f"Columns that were changed and are not drawn: {len(columns) - MOST_COLUMNS}.")
    return FigureGroup("categories", "Categories that were changed", intro, tuple(figures), tuple(notes))


def _pairs(release: Release, sides: Sides) -> FigureGroup:
    """Draw how far the tables of all pairs of columns moved, for synthetic rows."""
    intro = (
        "For every pair of columns the share of records that lie in another cell of their table than in the original "
        "(numbers in fifths): 0 means that the table was kept. Chance alone moves tables of many cells."
    )
    drawn = pair_figure(sides) if release.data.has_new_rows else None
    return FigureGroup("pairs", "Relations between all columns", intro, () if drawn is None else (drawn,))


def pair_figure(sides: Sides, title: str = "Difference of the tables of pairs") -> Chart | None:
    """Draw how far the table of each pair of columns moved; None for few columns or records."""
    columns = [name for name in plain_columns(sides) if not sides.original.frame.schema[name].is_nested()]
    columns = columns[:MOST_CORRELATED]
    fewest = min(len(sides.original), len(sides.released))
    if len(columns) < FEWEST_COLUMNS or fewest < FEWEST_RECORDS:
        return None
    found = pair_differences(sides.original, sides.released, columns)
    rows = tuple(tuple(round(value, 2) for value in row) for row in found)
    drawn = draw_correlations(Correlations(tuple(columns), rows), (title, "kept ← → moved"))
    caption = "½Σ|p − q| over the cells of each table, rounded to two decimals. Columns are numbered as the rows are."
    return Chart(title, drawn, caption, wide=len(columns) > 6)


def column_figure(sides: Sides, name: str, title: str) -> Chart | None:
    """Draw the original and the released distribution of a column; None where too few records stand behind it. Not
    for the public."""
    if sides.is_numeric(name):
        bars = histogram_of(name, *sides.numbers(name))
        return None if bars is None else Chart(title, draw_histogram(bars), f"{title}: original and released values.")
    found = categories_of(sides.released, name)
    if found is None:
        return None
    original = beside(sides.original, found)
    drawn = draw(found, original if any(original) else ())
    return Chart(title, drawn, f"{title}: shares of the released records{' and of the original' * any(original)}.")


def _correlations(release: Release, sides: Sides, changed: list[str], internal: bool) -> FigureGroup:
    intro = (
        "A correlation says how strongly two columns move together, from −1 to +1. The picture shows by how much each "
        "one differs in the release: 0 means that the relation was kept."
    )
    numeric = [name for name in plain_columns(sides) if sides.is_numeric(name)]
    empty = FigureGroup("correlations", "Relations between numbers", intro, ())
    if not changed or len(numeric) < FEWEST_COLUMNS:
        return empty
    hidden = not internal and any(strength_withheld(release, name) for name in numeric)
    found = correlations_of(sides, numeric, internal=internal, digits=1 if hidden else 2)
    if found is None:
        return empty
    caption = (
        "Correlation in the release minus correlation in the original, over records that have both values, rounded to "
        f"{'one decimal' if hidden else 'two decimals'}. Columns are numbered as the rows are."
    )
    figure = Chart("Change of correlations", draw_correlations(found), caption, wide=len(found.columns) > 6)
    return FigureGroup("correlations", "Relations between numbers", intro, (figure,))
