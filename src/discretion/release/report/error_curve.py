"""Ordered errors: how far released values lie from the original ones, sorted.

Percentiles with fewer than ten records beyond them are not drawn in public, and what is drawn is rounded to two digits.
Where the strength of a step is withheld, the scale is withheld too: errors in standard deviations would give the
strength of noise away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Floats
from discretion.release.report import svg
from discretion.release.report.wording import number

FEWEST_RECORDS = 100
"""Below so many records no curve is published."""
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


def draw(curve: ErrorCurve) -> str:
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
