"""The pictures of a report: histograms and ordered errors, correlations, class sizes, risk per record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import Score, align
from discretion.release.ranking import baseline_of
from discretion.release.report import svg
from discretion.release.report.wording import number, percent, shorten, title_of

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release


@dataclass(frozen=True)
class Sides:
    """Original and release; `aligned` tells whether row i of both is the same record."""

    original: Dataset
    released: Dataset
    aligned: bool

    def numbers(self, column: str) -> tuple[Floats, Floats]:
        """Give the values of a numeric column that are present (in both, where the rows are aligned)."""
        x, y = self.original.number(column), self.released.number(column)
        if not self.aligned:
            return x[~np.isnan(x)], y[~np.isnan(y)]
        present = ~(np.isnan(x) | np.isnan(y))
        return x[present], y[present]

    def changed(self, column: str) -> bool:
        """Tell whether the release shows other values than the original."""
        if not self.aligned:
            return True
        one, other = self.original.frame[column], self.released.frame[column]
        return one.dtype != other.dtype or not one.equals(other, null_equal=True)

    def is_numeric(self, column: str) -> bool:
        """Tell whether a column is a number in both data sets."""
        return self.original.is_numeric(column) and self.released.is_numeric(column)


def sides_of(release: Release) -> Sides:
    """Match the rows of original and release where that is possible.

    Plots look at no order: the release as it stood before its rows were put in another one needs no second original.
    """
    original, made, data = release.study.original, release.study.current, release.data
    as_made = len(made) == len(data) and not data.has_new_rows and {*data.columns} <= {*made.columns}
    gone = [name for name in made.columns if name not in data.columns]
    return sides_between(original, (made.drop(gone) if gone else made) if as_made else data)


def sides_between(before: Dataset, after: Dataset) -> Sides:
    """Match the rows of two data sets where that is possible."""
    try:
        original, released = align(before, after)
    except DataError:
        return Sides(before, after, aligned=False)
    return Sides(original, released, aligned=True)


def plain_columns(sides: Sides) -> list[str]:
    """Name the columns of both data sets that describe persons: no identifiers, weights or household numbers."""
    excluded = sides.original.having("identifier", "weight", "household", "unit")
    return [name for name in sides.released.columns if name in sides.original.columns and name not in excluded]


FEWEST_IN_BAR = 10
"""Original records a bar stands for, at least."""
FEWEST_VALUES = 50
"""Below so many values there is no histogram."""
_HISTOGRAM_BARS = 30
_TAIL = 26.0


@dataclass(frozen=True)
class BinnedHistogram:
    """Bars between `edges`, with an open one below the first edge (≤) and one above the last (>)."""

    column: str
    edges: tuple[float, ...]
    width: float
    """width of a plain bar; merged bars are several of them wide"""
    original: tuple[float, ...]
    released: tuple[float, ...]
    """shares of the records, the open bars first and last"""
    counts: tuple[int, ...]
    """original records of each bar; never drawn"""


def histogram_of(column: str, original: Floats, released: Floats) -> BinnedHistogram | None:
    """Bin the values; None where too few records would stand behind the bars."""
    if len(original) < FEWEST_VALUES or not len(released):
        return None
    grid = _grid(original)
    if grid is None:
        return None
    edges, width = grid
    counts = np.bincount(np.searchsorted(edges, original, side="left"), minlength=len(edges) + 1)
    kept = _merge(counts.tolist())
    if len(kept) < 2:
        return None
    edges = edges[np.array(kept)]
    counts, after = (
        np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
        for values in (original, released)
    )
    return BinnedHistogram(
        column=column,
        edges=tuple(float(edge) for edge in edges),
        width=width,
        original=_shares(counts),
        released=_shares(after),
        counts=tuple(counts.tolist()),
    )


def _grid(values: Floats) -> tuple[Floats, float] | None:
    """Give equally wide bins from the 1st to the 99th percentile, both rounded outward to round numbers."""
    low, high = (float(bound) for bound in np.quantile(values, [0.01, 0.99]))
    whole = bool((values == np.floor(values)).all())
    if not high > low or not math.isfinite(high - low):
        return None
    step = svg.nice_step(high - low, _HISTOGRAM_BARS, whole=whole)
    coarse = max(round(10.0 ** (math.floor(math.log10(high - low)) - 1) / step), 1)
    first = math.floor(low / (coarse * step) + 1e-9) * coarse
    last = math.ceil(high / (coarse * step) - 1e-9) * coarse
    if abs(first) > 2**40 or abs(last) > 2**40:
        return None
    edges = np.array([float(f"{index * step:.12g}") for index in range(first, last + 1)])
    return edges, step


def _merge(counts: Sequence[int]) -> list[int]:
    """Choose the edges to keep: at least `FEWEST_IN_BAR` records lie between neighbors and beyond the outer ones."""
    kept: list[int] = []
    waiting = 0
    for edge, inside in enumerate(counts[:-1]):
        waiting += inside
        if waiting >= FEWEST_IN_BAR:
            kept.append(edge)
            waiting = 0
    waiting += counts[-1]
    if waiting < FEWEST_IN_BAR and kept:
        kept.pop()
    return kept


def _shares(counts: NDArray[np.int64]) -> tuple[float, ...]:
    total = max(int(counts.sum()), 1)
    return tuple(round(1000 * int(inside) / total) / 1000 for inside in counts)


def draw_histogram(histogram: BinnedHistogram) -> str:
    """Draw the original as gray bars and the release as a blue outline."""
    inner = svg.ChartAxis(
        histogram.edges[0], histogram.edges[-1], svg.LEFT + _TAIL + 6, svg.WIDTH - svg.RIGHT - _TAIL - 6
    )
    before, after = _heights(histogram, histogram.original), _heights(histogram, histogram.released)
    top = max(*before, *after, 0.001)
    scale = svg.ChartAxis(0.0, top * 1.05, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    marks = [(mark, f"{number(100 * mark)}%") for mark in svg.ticks(0.0, top * 1.05, 4)]
    places = _places(histogram, inner)
    body = [
        svg.y_axis(scale, marks, "share of records"),
        svg.legend([("original", svg.ORIGINAL_FILL, svg.ORIGINAL), ("released", "none", svg.RELEASED)]),
    ]
    base = scale(0.0)
    for (x, width), share in zip(places, before, strict=True):
        y = scale(share)
        body.append(svg.rect(x, y, width, base - y, svg.ORIGINAL_FILL, stroke=svg.ORIGINAL, stroke_width=0.8))
    body.append(_outline(places, [scale(share) for share in after], base))
    body.append(svg.x_axis(_x_marks(histogram, inner), histogram.column))
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        f"Histogram of {histogram.column}: original and released values",
        _describe_histogram(histogram),
        body,
    )


def _heights(histogram: BinnedHistogram, shares: Sequence[float]) -> list[float]:
    """Give the share per plain bar width, so that merged bars do not look too large; open bars stand for themselves."""
    wide = [round((high - low) / histogram.width) for low, high in pairwise(histogram.edges)]
    return [shares[0], *(share / max(w, 1) for share, w in zip(shares[1:-1], wide, strict=True)), shares[-1]]


def _places(histogram: BinnedHistogram, inner: svg.ChartAxis) -> list[tuple[float, float]]:
    edges = [inner(edge) for edge in histogram.edges]
    between = [(low, high - low) for low, high in pairwise(edges)]
    return [(float(svg.LEFT), _TAIL), *between, (svg.WIDTH - svg.RIGHT - _TAIL, _TAIL)]


def _outline(places: Sequence[tuple[float, float]], tops: Sequence[float], base: float) -> str:
    def steps(which: slice) -> list[tuple[float, float]]:
        bars = zip(places[which], tops[which], strict=True)
        corners = [(x + side, y) for (x, width), y in bars for side in (0, width)]
        return [(corners[0][0], base), *corners, (corners[-1][0], base)]

    pieces = [slice(0, 1), slice(1, -1), slice(-1, None)]
    return "".join(svg.polyline(steps(piece), svg.RELEASED) for piece in pieces if places[piece])


def _x_marks(histogram: BinnedHistogram, inner: svg.ChartAxis) -> list[tuple[float, str]]:
    """Label the open bars, and round numbers between them where there is room."""
    low, high = histogram.edges[0], histogram.edges[-1]
    digits = max(4, 2 + round(math.log10(max(abs(low), abs(high)) / histogram.width)))
    first = (svg.LEFT + _TAIL / 2, f"≤ {number(low, digits)}")
    last = (svg.WIDTH - svg.RIGHT - _TAIL / 2 - 4, f"> {number(high, digits)}")
    between: list[tuple[float, str]] = []
    for mark in svg.ticks(low, high, 6):
        label = (inner(mark), number(mark, digits))
        if svg.apart((between or [first])[-1], label) and svg.apart(label, last):
            between.append(label)
    return [first, *between, last]


def _describe_histogram(histogram: BinnedHistogram) -> str:
    peak = int(np.argmax(histogram.original))
    before, after = histogram.original[peak], histogram.released[peak]
    return (
        f"{len(histogram.original)} bars; the fullest one holds {number(100 * before)}% of the original records "
        f"and {number(100 * after)}% of the released ones."
    )


FEWEST_RECORDS = 100
"""Below so many records no curve, and below so many complete pairs no difference, is published."""
_FEWEST_INTERNAL = 10
_BEYOND = 10


@dataclass(frozen=True)
class ErrorCurve:
    """Errors at percentiles; `scaled` tells that they are shares of the largest one drawn."""

    column: str
    percentiles: tuple[int, ...]
    errors: tuple[float, ...]
    scaled: bool


def error_curve_of(
    column: str, original: Floats, released: Floats, *, internal: bool, withhold_scale: bool
) -> ErrorCurve | None:
    """Take percentiles of |x − x'| in standard deviations of the original; None for too few records or no spread."""
    n = len(original)
    if n < (_FEWEST_INTERNAL if internal else FEWEST_RECORDS) or n != len(released):
        return None
    sd = float(original.std(ddof=1))
    if not sd > 0 or not math.isfinite(sd):
        return None
    last = 99 if internal else min(99, math.floor(100 * (1 - _BEYOND / n)))
    percentiles = np.arange(1, last + 1)
    errors = np.quantile(np.abs(original - released) / sd, percentiles / 100)
    if not errors[-1] > 0:
        return None
    scaled = withhold_scale and not internal
    if scaled:
        errors = errors / errors[-1]
    rounded = tuple(float(f"{error:.2g}") for error in errors)
    return ErrorCurve(column, tuple(percentiles.tolist()), rounded, scaled)


def draw_error_curve(curve: ErrorCurve) -> str:
    """Draw the errors from the smallest to the largest."""
    top = max(curve.errors)
    across = svg.ChartAxis(0.0, 100.0, svg.LEFT, svg.WIDTH - svg.RIGHT)
    up = svg.ChartAxis(0.0, top * 1.05, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    marks = [
        (mark, f"{number(100 * mark)}%" if curve.scaled else number(mark)) for mark in svg.ticks(0.0, top * 1.05, 4)
    ]
    unit = "largest error drawn" if curve.scaled else "standard deviations"
    points = [(across(p), up(error)) for p, error in zip(curve.percentiles, curve.errors, strict=True)]
    body = [
        svg.y_axis(up, marks, f"error, in {unit}" if not curve.scaled else f"error, as a share of the {unit}"),
        svg.polyline(points, svg.RELEASED),
        svg.x_axis([(across(p), f"{p}%") for p in (0, 25, 50, 75, 100)], "records, by the size of their error"),
    ]
    half = curve.errors[min(49, len(curve.errors) - 1)]
    middle = f"{number(100 * half)}% of the largest error drawn" if curve.scaled else f"{number(half)} {unit}"
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        f"Errors of {curve.column}, sorted ascending",
        f"The error rises from left to right; in the middle it is {middle}.",
        body,
    )


MOST_CORRELATED = 12
FEWEST_COLUMNS = 3
_NEGATIVE, _POSITIVE = (156, 74, 0), (23, 86, 143)


@dataclass(frozen=True)
class Correlations:
    """Differences of correlations below the diagonal; None where too few records have both values."""

    columns: tuple[str, ...]
    differences: tuple[tuple[float | None, ...], ...]
    """row i holds the differences with columns 0 … i−1"""


def correlations_of(sides: Sides, columns: list[str], *, internal: bool, digits: int = 2) -> Correlations | None:
    """Compare the correlation matrices of up to twelve columns, pair by pair of complete records."""
    fewest = _FEWEST_INTERNAL if internal else FEWEST_RECORDS
    varied = [name for name in columns if all(_varies(values) for values in sides.numbers(name))][:MOST_CORRELATED]
    if len(varied) < FEWEST_COLUMNS:
        return None
    rows = tuple(
        tuple(_difference(sides, varied[i], varied[j], fewest, digits) for j in range(i)) for i in range(len(varied))
    )
    if all(value is None for row in rows for value in row):
        return None
    return Correlations(tuple(varied), rows)


def _varies(values: Floats) -> bool:
    return len(values) > 1 and bool(values.min() < values.max())


def _difference(sides: Sides, one: str, other: str, fewest: int, digits: int) -> float | None:
    before = (sides.original.number(one), sides.original.number(other))
    after = (sides.released.number(one), sides.released.number(other))
    if sides.aligned:
        present = ~np.isnan(np.array([*before, *after])).any(axis=0)
        masks = (present, present)
    else:
        masks = (~np.isnan(np.array(before)).any(axis=0), ~np.isnan(np.array(after)).any(axis=0))
    found = [_correlation(x[mask], y[mask], fewest) for (x, y), mask in zip((before, after), masks, strict=True)]
    if found[0] is None or found[1] is None:
        return None
    return round(found[1] - found[0], digits) + 0.0


def _correlation(x: Floats, y: Floats, fewest: int) -> float | None:
    if len(x) < fewest or not (_varies(x) and _varies(y)):
        return None
    value = float(np.corrcoef(x, y)[0, 1])
    return value if np.isfinite(value) else None


SIGNED = ("Change of correlations, released minus original", "released is lower ← → released is higher")


def draw_correlations(found: Correlations, words: tuple[str, str] = SIGNED) -> str:
    """Draw a triangle of colored cells, rows named and columns numbered, with the color scale beside it.

    `words`: the title, and what stands below the scale; figures that cannot be negative have a scale from 0 on.
    """
    n = len(found.columns)
    cell, left, top = 44 if n <= 6 else 36, 170, 30
    largest = max((abs(v) for row in found.differences for v in row if v is not None), default=0.0)
    bound = max(0.1, np.ceil(largest * 10) / 10)
    body = []
    for i, name in enumerate(found.columns):
        y = top + i * cell
        label = f"{i + 1}  {shorten(name, 22)}"
        body.append(svg.text(left - 8, y + cell / 2 + 4, label, text_anchor="end", font_size=11))
        if i < n - 1:
            body.append(svg.note(left + (i + 0.5) * cell, top - 8, str(i + 1)))
        for j, value in enumerate(found.differences[i]):
            body.append(_cell(left + j * cell, y, cell, value, bound))
    height = top + n * cell + 52
    signed = any(value < 0 for row in found.differences for value in row if value is not None) or words == SIGNED
    body.append(_scale(left, height - 40, bound, words[1], signed))
    width = left + max(n * cell, 240) + 20
    return svg.picture(width, height, words[0], _describe_correlations(found), body)


def _cell(x: float, y: float, size: float, value: float | None, bound: float) -> str:
    if value is None:
        return svg.rect(x, y, size - 1.5, size - 1.5, "#ffffff", stroke=svg.GRID)
    drawn = svg.rect(x, y, size - 1.5, size - 1.5, _color(value / bound))
    ink = "#ffffff" if abs(value) / bound > 0.55 else svg.INK
    words = f"{value:+.2f}".replace("-", "−") if value else "0"
    small = 11 if size > 40 else 10
    middle = (x + size / 2 - 0.75, y + size / 2 + 3)
    return drawn + svg.text(*middle, words, text_anchor="middle", font_size=small, fill=ink)


def _color(share: float) -> str:
    target = _POSITIVE if share > 0 else _NEGATIVE
    mixed = (round(247 + (part - 247) * min(abs(share), 1.0)) for part in target)
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _scale(x: float, y: float, bound: float, legend: str, signed: bool) -> str:
    steps = 21
    wide = 200 / steps
    low = -1.0 if signed else 0.0
    colors = [_color(low + (1 - low) * k / (steps - 1)) for k in range(steps)]
    drawn = [svg.rect(x + k * wide, y, wide + 0.5, 10, color) for k, color in enumerate(colors)]
    ends = ((0.0, f"−{bound:.1f}"), (100.0, "0")) if signed else ((0.0, "0"),)
    for place, words in (*ends, (200.0, f"{'+' if signed else ''}{bound:.1f}")):
        drawn.append(svg.note(x + place, y + 23, words))
    drawn.append(svg.note(x + 100, y + 37, legend))
    return "".join(drawn)


def _describe_correlations(found: Correlations) -> str:
    pairs = [
        (abs(value), found.columns[j], found.columns[i], value)
        for i, row in enumerate(found.differences)
        for j, value in enumerate(row)
        if value is not None
    ]
    size, one, other, value = max(pairs, key=lambda pair: pair[0])
    if not size:
        return "Nothing changed by 0.01 or more."
    return f"The largest change is {value:+.2f}, between {one} and {other}."


_STARTS = (1, 2, 3, 5, 10, 20, 50)
LABELS = ("1", "2", "3–4", "5–9", "10–19", "20–49", "50+")


@dataclass(frozen=True)
class ClassSizes:
    """Shares of records (rounded to 0.1 %) in classes of each size."""

    columns: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


def class_sizes_of(release: Release) -> ClassSizes | None:
    """Count the classes over the published quasi-identifiers; None where there are none."""
    original, released = release.study.original, release.data
    columns = tuple(name for name in original.having("quasi") if name in released.columns)
    if not columns or not len(released) or not len(original):
        return None
    return ClassSizes(columns, shares_of(original, columns), shares_of(released, columns))


def shares_of(data: Dataset, columns: tuple[str, ...]) -> tuple[float, ...]:
    """Give the shares of records in classes of 1, 2, 3–4, 5–9, 10–19, 20–49 and 50 or more records."""
    counts = np.asarray(data.class_counts(columns), dtype=np.int64)
    place = np.searchsorted(_STARTS, counts, side="right") - 1
    records = np.bincount(place, weights=counts, minlength=len(_STARTS))
    return tuple(round(1000 * float(inside) / len(data)) / 1000 for inside in records)


def draw_class_sizes(sizes: ClassSizes) -> str:
    """Draw two bars for each size of class."""
    top = max(*sizes.before, *sizes.after, 0.001)
    up = svg.ChartAxis(0.0, top * 1.12, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    slot = (svg.WIDTH - svg.RIGHT - svg.LEFT) / len(LABELS)
    bar = slot * 0.38
    marks = [(mark, f"{number(100 * mark)}%") for mark in svg.ticks(0.0, top * 1.1, 4)]
    body = [
        svg.y_axis(up, marks, "share of records"),
        svg.legend([("original", svg.ORIGINAL_FILL, svg.ORIGINAL), ("released", svg.RELEASED, svg.RELEASED)]),
    ]
    base = up(0.0)
    middles = []
    for number_, (before, after) in enumerate(zip(sizes.before, sizes.after, strict=True)):
        middle = svg.LEFT + slot * (number_ + 0.5)
        middles.append((middle, LABELS[number_]))
        body.append(_bar(middle - bar, up(before), bar, base, svg.ORIGINAL_FILL, svg.ORIGINAL))
        body.append(_bar(middle, up(after), bar, base, svg.RELEASED, svg.RELEASED))
    body.append(svg.x_axis(middles, "records that share the same values (size of the class)"))
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        "Class sizes over the quasi-identifiers, original and released",
        _describe_class_sizes(sizes),
        body,
    )


def _bar(x: float, y: float, width: float, base: float, fill: str, stroke: str) -> str:
    return svg.rect(x, y, width, base - y, fill, stroke=stroke, stroke_width=0.8) if base - y > 0 else ""


def _describe_class_sizes(sizes: ClassSizes) -> str:
    return "; ".join(
        f"classes of {label}: {number(100 * before)}% before, {number(100 * after)}% after"
        for label, before, after in zip(LABELS, sizes.before, sizes.after, strict=True)
    )


_RISK_BARS = 20


@dataclass(frozen=True)
class RecordRisk:
    """Shares of records at or above each level of risk."""

    kind: str
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    chance: float | None = None
    """what guessing reaches, where it is known"""
    certain: bool = False
    """whether a record is found or not, so that guessing finds a share of them; otherwise each is at that risk"""


def record_risk_of(score: Score) -> RecordRisk | None:
    """Take the share of records at or above each of twenty levels; None where a measure has no figure per record."""
    if score.family != "risk" or score.per_record is None or not len(score.per_record):
        return None
    risk: NDArray[np.float64] = np.asarray(score.per_record, dtype=np.float64)
    risk = risk[~np.isnan(risk)]
    if not len(risk) or risk.min() < 0:
        return None
    top = max(1.0, float(risk.max()))
    levels = np.linspace(0, top, _RISK_BARS + 1)[1:]
    ordered = np.sort(risk)
    at_least = 1 - np.searchsorted(ordered, levels - 1e-12, side="left") / len(ordered)
    certain = bool(np.isin(risk, (0.0, 1.0)).all())
    return RecordRisk(score.measure, tuple(levels.tolist()), tuple(at_least.tolist()), baseline_of(score), certain)


def draw_record_risk(found: RecordRisk) -> str:
    """Draw the share of records (up) whose risk is at least the level (across), and what guessing reaches."""
    level = found.chance if found.certain and found.chance is not None else 0.0
    top = max(*found.shares, level, 0.01)
    across = svg.ChartAxis(0.0, found.levels[-1], svg.LEFT, svg.WIDTH - svg.RIGHT)
    up = svg.ChartAxis(0.0, top * 1.05, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    width = across(found.levels[0]) - across(0.0)
    bars = [
        svg.rect(across(level) - width + 1, up(share), width - 2, up(0.0) - up(share), svg.RELEASED)
        for level, share in zip(found.levels, found.shares, strict=True)
    ]
    marks = [(mark, percent(mark)) for mark in svg.ticks(0.0, top * 1.05, 4)]
    places = [(across(level), number(level)) for level in svg.ticks(0.0, found.levels[-1], 5)]
    body = [svg.y_axis(up, marks, "share of records"), *bars, svg.x_axis(places, "risk of the record, at least")]
    guessing = ""
    if found.chance is not None:
        guessing = f" Guessing reaches {percent(found.chance)}."
        x, y = across(min(found.chance, found.levels[-1])), up(found.chance)
        x1, y1, x2, y2 = (svg.LEFT, y, svg.WIDTH - svg.RIGHT, y) if found.certain else (x, svg.TOP - 8, x, up(0.0))
        body.append(svg.line(x1, y1, x2, y2, "#fff", stroke_width=5, stroke_opacity="0.75"))
        body.append(svg.line(x1, y1, x2, y2, svg.CHANCE, stroke_width=1.8, stroke_dasharray="5 3"))
        words = f"guessing: {percent(found.chance)}"
        body.append(svg.text(svg.WIDTH - svg.RIGHT, 14, words, font_size=11, fill=svg.CHANCE, text_anchor="end"))
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        f"{title_of(found.kind)}: risk per record",
        f"{percent(found.shares[-1])} of the records have the largest risk.{guessing}",
        body,
    )
