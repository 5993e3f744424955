"""OpenDP's exact integer mechanisms: how they are reached, what fits them, and the discrete Gaussian on a vector.

Integers from end to end: there is no floating-point noise whose low bits would tell the true value. The draws come from
the operating system's secure source; there is no seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discretion.errors import PlanError, QueryRefused, need

LARGEST = 2**62
"""figures are clamped between −2⁶² and 2⁶² before noise is added"""
_MOST_SCALE = 2.0**54
_WIDEN = 1 + 2.0**-40


def library() -> Any:
    """Import OpenDP with the mechanisms that are used here."""
    found = need("opendp.prelude", "differential privacy", "online")
    found.enable_features("contrib")
    return found


def clamped(values: Sequence[int]) -> list[int]:
    """Give integers that fit 64 bits with room for noise."""
    return [max(-LARGEST, min(LARGEST, int(value))) for value in values]


def scale_above(value: float) -> float:
    """Give a scale of noise a little above the wanted one, so that rounding never makes it smaller."""
    scale = value * _WIDEN
    if not 0 < scale <= _MOST_SCALE:
        raise QueryRefused("the noise would be larger than any figure; narrow the bounds or spend more")
    return scale


def checked(measurement: Any, spent: float, allowed: Fraction) -> Any:
    """Let a mechanism pass only if the library's own account stays within what is allowed."""
    if not math.isfinite(spent) or Fraction(spent) > allowed:
        raise PlanError("the mechanism would spend more than it is allowed; nothing was drawn")
    return measurement


def root_above(square: int) -> float:
    """Give the square root of a whole number, never rounded down."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on a vector of integers: ρ-zCDP for vectors that differ by at most an L2 norm.

    The standard deviation is L2/√(2ρ). The mechanism is asked, before its first draw, what it costs, and is not used
    if that is more than ρ.

    References
    ----------
    Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy; catalogue O3.

    Examples
    --------
    >>> noise = DiscreteGaussian(4, Fraction(1, 8))
    >>> round(noise.scale, 9)
    4.0
    """

    l2_squared: int
    """square of the largest Euclidean distance between neighbors"""
    rho: Fraction
    """what it may spend"""

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the noise; rounded up."""
        if self.rho <= 0:
            raise PlanError("a mechanism needs a privacy loss above 0; ask for fewer figures or spend more")
        return scale_above(root_above(self.l2_squared) / math.sqrt(2 * self.rho))

    @cached_property
    def _measurement(self) -> Any:
        dp = library()
        values = dp.vector_domain(dp.atom_domain(T="i64"))
        found = dp.m.make_gaussian(values, dp.l2_distance(T=float), scale=self.scale)
        return checked(found, found.map(root_above(self.l2_squared)), self.rho)

    def prepare(self) -> None:
        """Raise now, before anything is charged or read, what a draw would raise."""
        self._measurement  # noqa: B018 - made and checked

    def release(self, values: Sequence[int]) -> list[int]:
        """Give the values with fresh noise."""
        return [int(value) for value in self._measurement(clamped(values))] if len(values) else []


def choose_best(scores: Sequence[int], sensitivity: int, epsilon: float) -> int:
    """Choose a place, high scores more likely: the exponential mechanism (noisy maximum), for ε.

    Between neighbors all scores must move in the same direction, each by at most the sensitivity.
    """
    dp = library()
    values, distance = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    found = dp.m.make_noisy_max(values, distance, dp.max_divergence(), scale=scale_above(sensitivity / epsilon))
    checked(found, found.map(sensitivity), Fraction(epsilon))
    return int(found(clamped(scores)))
