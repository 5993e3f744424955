"""Quantiles, minimum and maximum on a declared grid, modes among declared categories, by the exponential mechanism.

The steps of the grid are the candidates. With below(c) and above(c) the numbers of records below the border c and from
it on, g(c) = (whole − part)·below(c) − part·above(c) rises with c, and the quantile of share part/whole lies where it
passes 0. The score of a step [a, b) for a target t is minus the distance of t to the interval [g(a), g(b)]; the first
step reaches down and the last one up without end. So one step always has the score 0, and the chosen one misses the
target by at most r = scale·ln(steps/β) with probability 1 − β, whatever the data. With t = −r its lower border is a
lower bound of the quantile, with t = +r its upper border an upper bound: that is the interval given with a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Literal

from discretion.data.conditions import Scalar
from discretion.online.column import ColumnSpec
from discretion.online.dp.mechanisms import Choice, Loss
from discretion.online.dp.sensitivity import Unit, extreme_scores, is_monotonic, mode_scores, quantile_scores

_WHOLE = 10_000
SHARES = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
"""of the loss of a quantile: for the value, its lower and its upper bound"""

Extreme = Literal["min", "max"]


@dataclass(frozen=True)
class Found:
    """A value with bounds, and how many records it may be away from the rank that was asked for."""

    value: float
    lower: float
    upper: float


def scores(bins: Sequence[int], part: int, whole: int, target: int = 0) -> list[int]:
    """Give minus the distance of the target to [g(a), g(b)] for each step [a, b) of the grid.

    Examples
    --------
    >>> scores([1, 1, 1, 1], part=1, whole=2)
    [-2, 0, 0, -2]
    """
    total = sum(bins)
    below = [0, *accumulate(bins)]
    g = [(whole - part) * count - part * (total - count) for count in below]
    last = len(bins) - 1
    found = []
    for step in range(len(bins)):
        short = 0 if step == last else target - g[step + 1]
        beyond = 0 if step == 0 else g[step] - target
        found.append(-max(0, short, beyond))
    return found


@dataclass(frozen=True)
class Quantile:
    """The private quantile of one column: three choices that share one loss.

    Examples
    --------
    >>> age = ColumnSpec(role="sensitive", type="integer", bounds=(0, 100), grid=100)
    >>> median = Quantile(age, 0.5, Unit(), Loss.micro_epsilon(50_000_000), 0.95)
    >>> found = median.find([0] * 40 + [1000] + [0] * 59)
    >>> found.lower <= 40.5 <= found.upper
    True
    """

    column: ColumnSpec
    share: float
    unit: Unit
    loss: Loss
    confidence: float
    groups: int = 1

    @property
    def part(self) -> int:
        """The share in ten-thousandths."""
        return min(_WHOLE - 1, max(1, round(self.share * _WHOLE)))

    @cached_property
    def _choices(self) -> tuple[Choice, ...]:
        sensitivity = quantile_scores(self.unit, self.part, _WHOLE, self.groups)
        return tuple(Choice(sensitivity, Loss(self.loss.measure, self.loss.amount * share)) for share in SHARES)

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        for choice in self._choices:
            choice.prepare()

    def miss(self, number: int, confidence: float) -> int:
        """Give how far the value (0), the lower (1) or the upper bound (2) misses its target, in units of g."""
        return self._choices[number].accuracy(self.column.grid, confidence)

    @property
    def rank_error(self) -> int:
        """How many records the value may be away from the wanted rank."""
        return math.ceil(self.miss(0, self.confidence) / _WHOLE)

    def find(self, bins: Sequence[int]) -> Found:
        """Draw the value, a lower and an upper bound."""
        side = (1 + self.confidence) / 2
        borders = self.column.candidates()
        targets = (0, -self.miss(1, side), self.miss(2, side))
        value, low, high = (
            choice.choose(scores(bins, self.part, _WHOLE, target))
            for choice, target in zip(self._choices, targets, strict=True)
        )
        found = value_of_step(self.column, value)
        lower, upper = borders[low], borders[high + 1]
        if _tells_whole(self.column):
            lower, upper = float(math.floor(lower)), float(math.ceil(upper))
        return Found(found, min(lower, found), max(upper, found))


@dataclass(frozen=True)
class ExtremeValue:
    """A private minimum or maximum: the step of the grid beyond which only few records lie.

    The step holds, or lies inside of, the true extreme with the confidence, and at most `rank_error` records lie
    outside of it. The target is r + 1 records beyond the far border: the extreme itself is one person's value, and no
    private answer can be it.
    """

    column: ColumnSpec
    which: Extreme
    unit: Unit
    loss: Loss
    confidence: float
    groups: int = 1

    @cached_property
    def _choice(self) -> Choice:
        return Choice(extreme_scores(self.unit, self.groups), self.loss)

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        self._choice.prepare()

    @property
    def target(self) -> int:
        """Number of records that should lie beyond the far border of the chosen step."""
        return self._choice.accuracy(self.column.grid, self.confidence) + 1

    @property
    def rank_error(self) -> int:
        """How many records, at most, lie beyond the chosen step."""
        return 2 * self.target - 1

    def find(self, bins: Sequence[int]) -> Found:
        """Draw the extreme; on the far side only the declared bound is known."""
        counts = list(bins) if self.which == "min" else list(reversed(bins))
        step = self._choice.choose(scores(counts, part=0, whole=1, target=self.target))
        lower, upper = self.column.required_limits()
        borders = self.column.candidates()
        if self.which == "min":
            return Found(value_of_step(self.column, step), lower, borders[step + 1])
        step = len(counts) - 1 - step
        return Found(value_of_step(self.column, step), borders[step], upper)


@dataclass(frozen=True)
class Mode:
    """The private mode: one of the declared categories, the more frequent ones more likely.

    Fewer than `count_error` records, with the confidence, separate its count from the largest one. Nothing is told of
    the counts; a category that nobody has can be chosen, and without records all are equally likely.

    References
    ----------
    McSherry & Talwar (2007), exponential mechanism; McKenna & Sheldon (2020), permute and flip; catalogue O3.

    Examples
    --------
    >>> major = ColumnSpec(role="sensitive", type="category", categories=("CS", "EE", "MA"))
    >>> Mode(major, Unit(), Loss.micro_epsilon(1_000_000), 0.95).find([10, 500, 20])
    'EE'
    """

    column: ColumnSpec
    unit: Unit
    loss: Loss
    confidence: float

    @cached_property
    def _choice(self) -> Choice:
        return Choice(mode_scores(self.unit), self.loss, is_monotonic(self.unit))

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        self._choice.prepare()

    @property
    def count_error(self) -> int:
        """How many records fewer than the most frequent category the chosen one has at most."""
        return self._choice.accuracy(len(self.column.keys), self.confidence)

    def find(self, bins: Sequence[int]) -> Scalar:
        """Draw a category by the numbers of its records."""
        return self.column.keys[self._choice.choose(bins)]


def value_of_step(column: ColumnSpec, step: int) -> float:
    """Give the value that stands for a step: its middle; of whole numbers the first one in it, or the last before."""
    borders = column.candidates()
    low, high = borders[step], borders[step + 1]
    if _tells_whole(column):
        first, is_last = math.ceil(low), step == len(borders) - 2
        return float(first if first < high or (is_last and first == high) else math.floor(low))
    return (low + high) / 2


def _tells_whole(column: ColumnSpec) -> bool:
    return column.type == "integer" or column.whole is True
