"""From noisy numbers to figures with intervals. Nothing here sees the data: what is computed from noise costs nothing.

The intervals hold the figure that clamped, bounded data give, with the stated probability over the noise alone; they
say nothing about sampling, and nothing about what clamping and bounding changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from discretion.data.conditions import Scalar
from discretion.online.column import ColumnSpec
from discretion.online.dp.plan import Ingredient, center, half_square, name_of
from discretion.online.query import Aggregate

ErrorOf = Literal["value", "rank", "count"]


@dataclass(frozen=True)
class Estimate:
    """A private figure: its value, an interval, and the half width (or the number of records) it may be off."""

    value: Scalar
    """a number; of a mode the category"""
    lower: float | None
    upper: float | None
    error: float
    error_of: ErrorOf = "value"

    def at_least_zero(self) -> Estimate:
        """Move what is negative to zero: costs nothing, but sums of many such figures come out too large."""
        low, mid, high = (max(0.0, float(number or 0)) for number in (self.lower, self.value, self.upper))
        return Estimate(mid, low, high, self.error, self.error_of)


@dataclass(frozen=True)
class Noisy:
    """A noisy number in code units, and how far it may be off: `off(confidence)`."""

    value: int
    ingredient: Ingredient
    scale_of_error: Mapping[float, int]

    def within(self, confidence: float) -> tuple[float, float]:
        """Give the bounds of the true number; a number in steps was rounded down by less than one."""
        step, off = self.ingredient.step, self.scale_of_error[confidence]
        return (self.value - off) * step, (self.value + off + (step > 1)) * step

    @property
    def middle(self) -> float:
        """The best guess of the true number."""
        step = self.ingredient.step
        return self.value * step + (step / 2 if step > 1 else 0)


def parts_confidence(confidence: float, parts: int) -> float:
    """Give the confidence of each part such that all hold together with the wanted one."""
    return 1 - (1 - confidence) / parts


def counted(noisy: Noisy, confidence: float) -> Estimate:
    """Give a count or the number of different values."""
    low, high = noisy.within(confidence)
    return Estimate(float(noisy.value), low, high, (high - low) / 2)


def summed(noisy: Noisy, column: ColumnSpec, confidence: float) -> Estimate:
    """Give a sum in the units of the column."""
    low, high = noisy.within(confidence)
    unit = column.unit
    return Estimate(noisy.middle * unit, low * unit, high * unit, (high - low) / 2 * unit)


def averaged(present: Noisy, total: Noisy, column: ColumnSpec, confidence: float) -> Estimate:
    """Give a mean: the middle of the bounds plus noisy sum over noisy number, kept within the bounds."""
    each = parts_confidence(confidence, 2)
    low, high = _ratio(total.within(each), present.within(each), *_limits(column))
    value = _clip(total.middle / max(present.value, 1), *_limits(column))
    unit, middle = column.unit, center(column)
    return Estimate((middle + value) * unit, (middle + low) * unit, (middle + high) * unit, (high - low) / 2 * unit)


def varied(present: Noisy, total: Noisy, spread: Noisy, column: ColumnSpec, confidence: float) -> Estimate:
    """Give a variance (N − 1): mean square minus squared mean around the middle of the bounds, kept possible."""
    each = parts_confidence(confidence, 3)
    number = present.within(each)
    half = half_square(column)
    limits = _limits(column)
    most = ((limits[1] - limits[0]) / 2) ** 2
    mean_low, mean_high = _ratio(total.within(each), number, *limits)
    square_low, square_high = _ratio(spread.within(each), number, -half, max(limits[0] ** 2, limits[1] ** 2) - half)
    smallest = 0.0 if mean_low <= 0 <= mean_high else min(mean_low**2, mean_high**2)
    low = max(0.0, square_low + half - max(mean_low**2, mean_high**2))
    high = min(most, square_high + half - smallest)
    mean = _clip(total.middle / max(present.value, 1), *limits)
    value = _clip(spread.middle / max(present.value, 1) + half - mean * mean, 0.0, most)
    unit = column.unit**2
    low, high = low * _sample(number[1]), max(low, high) * _sample(number[0])
    value *= _sample(present.value)
    return Estimate(value * unit, low * unit, high * unit, (high - low) / 2 * unit)


def _sample(number: float) -> float:
    """Give N/(N − 1), for two people or more."""
    return max(number, 2) / (max(number, 2) - 1)


def _limits(column: ColumnSpec) -> tuple[float, float]:
    low, high = column.codes
    return float(low - center(column)), float(high - center(column))


def _ratio(over: tuple[float, float], under: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """Give the bounds of a mean from bounds of its sum and of its number, within what one value can be."""
    if under[0] < 1:
        return low, high
    quotients = [a / b for a in over for b in under]
    return _clip(min(quotients), low, high), _clip(max(quotients), low, high)


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def estimate(
    aggregate: Aggregate, found: Mapping[tuple[object, ...], Noisy], column: ColumnSpec | None, confidence: float
) -> Estimate:
    """Compute a figure that is neither a histogram nor a choice from its noisy numbers."""

    def noisy(kind: str) -> Noisy:
        return found[name_of(kind, aggregate)]  # type: ignore[arg-type]  # one of the kinds

    if aggregate.function == "count":
        return counted(found.get(("rows",)) or found[("keys",)], confidence)
    if aggregate.function == "count-distinct" or column is None:
        return counted(noisy("distinct"), confidence)
    if aggregate.function == "sum":
        return summed(noisy("total"), column, confidence)
    if aggregate.function == "mean":
        return averaged(noisy("present"), noisy("centered"), column, confidence)
    return varied(noisy("present"), noisy("centered"), noisy("spread"), column, confidence)


def confidences(aggregate: Aggregate, confidence: float) -> float:
    """Give the confidence at which the parts of a figure are needed."""
    return parts_confidence(confidence, {"mean": 2, "variance": 3}.get(aggregate.function, 1))
