"""Histograms of original and released values that give nobody away.

Every bar stands for at least `FEWEST` original records. The range is cut at the 1st and 99th percentile of the original
values, rounded outward to two significant digits of the range; what lies beyond is one open bar at each end.
Shares are rounded to 0.1 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats
from discretion.release.report import svg
from discretion.release.report.wording import number

FEWEST = 10
"""Original records a bar stands for, at least."""
FEWEST_VALUES = 50
"""Below so many values there is no histogram."""
_BARS = 30
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
    step = svg.nice_step(high - low, _BARS, whole=whole)
    coarse = max(round(10.0 ** (math.floor(math.log10(high - low)) - 1) / step), 1)
    first = math.floor(low / (coarse * step) + 1e-9) * coarse
    last = math.ceil(high / (coarse * step) - 1e-9) * coarse
    if abs(first) > 2**40 or abs(last) > 2**40:
        return None
    edges = np.array([float(f"{index * step:.12g}") for index in range(first, last + 1)])
    return edges, step


def _merge(counts: Sequence[int]) -> list[int]:
    """Choose the edges to keep so that at least `FEWEST` records lie between neighbors and beyond the outer ones."""
    kept: list[int] = []
    waiting = 0
    for edge, inside in enumerate(counts[:-1]):
        waiting += inside
        if waiting >= FEWEST:
            kept.append(edge)
            waiting = 0
    waiting += counts[-1]
    if waiting < FEWEST and kept:
        kept.pop()
    return kept


def _shares(counts: NDArray[np.int64]) -> tuple[float, ...]:
    total = max(int(counts.sum()), 1)
    return tuple(round(1000 * int(inside) / total) / 1000 for inside in counts)


def draw(histogram: BinnedHistogram) -> str:
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
        _describe(histogram),
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


def _describe(histogram: BinnedHistogram) -> str:
    peak = int(np.argmax(histogram.original))
    before, after = histogram.original[peak], histogram.released[peak]
    return (
        f"{len(histogram.original)} bars; the fullest one holds {number(100 * before)}% of the original records "
        f"and {number(100 * after)}% of the released ones."
    )
