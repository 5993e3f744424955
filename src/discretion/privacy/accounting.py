"""Privacy loss in whole numbers: millionths of ε, billionths of ρ and δ. Costs are rounded up, budgets down.

Three ways to count: `pure` (ε only), `approximate` (ε and δ add up) and `zcdp` (zero-concentrated: ρ adds up, which
lets many small answers cost less). A number that a person wrote is taken as the decimal that was written: 0.1 is
100,000 millionths and not one more. Whatever was spent in whichever way counts against one budget (`PrivacyFilter`).

OpenDP's mechanisms take integers from end to end: there is no floating-point noise whose low bits would tell the true
value. The draws come from the operating system's secure source; there is no seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

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


Accountant = Literal["pure", "approximate", "zcdp"]
_MOST = 2**62

MICRO = 10**6
NANO = 10**9
_FLOAT_MARGIN = 1 + 1e-12
"""covers the rounding of the logarithms and roots below, which err by less than 1e-14"""

Number = float | int | Fraction


@dataclass(frozen=True)
class Cost:
    """What an answer spends, in whole units, rounded up by whoever computes it: nothing is lost in small change.

    Examples
    --------
    >>> Cost(micro_epsilon=100_000) + Cost(micro_epsilon=50_000, nano_delta=1)
    Cost(micro_epsilon=150000, nano_rho=0, nano_delta=1)
    """

    micro_epsilon: int = 0
    """millionths of ε (pure or approximate differential privacy)"""
    nano_rho: int = 0
    """billionths of ρ (zero-concentrated differential privacy)"""
    nano_delta: int = 0
    """billionths of δ"""

    def __post_init__(self) -> None:
        for name, amount in zip(("micro_epsilon", "nano_rho", "nano_delta"), self.amounts, strict=True):
            if type(amount) is not int or not 0 <= amount <= _MOST:
                raise PlanError(f"`{name}` is a whole number from 0 to 2⁶²: round costs up before they are charged")

    @property
    def amounts(self) -> tuple[int, int, int]:
        """The three amounts."""
        return self.micro_epsilon, self.nano_rho, self.nano_delta

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.micro_epsilon + other.micro_epsilon,
            self.nano_rho + other.nano_rho,
            self.nano_delta + other.nano_delta,
        )

    def covers(self, other: Cost) -> bool:
        """Say whether every amount is at least the other's."""
        return all(a >= b for a, b in zip(self.amounts, other.amounts, strict=True))

    def less(self, other: Cost) -> Cost:
        """Give what is left after spending the other, at least 0."""
        return Cost(*(max(0, a - b) for a, b in zip(self.amounts, other.amounts, strict=True)))

    def __str__(self) -> str:
        scales = (("ε", 10**6), ("ρ", 10**9), ("δ", 10**9))
        named = [
            f"{sign} {amount / unit:g}" for (sign, unit), amount in zip(scales, self.amounts, strict=True) if amount
        ]
        return ", ".join(named) or "nothing"


FREE = Cost()


def exact(value: Number) -> Fraction:
    """Take a number as it was written: 0.1 is one tenth."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError("a privacy loss is a finite number")
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def units_up(value: Number, unit: int) -> int:
    """Give the number of units, rounded up."""
    return math.ceil(exact(value) * unit)


def units_down(value: Number, unit: int) -> int:
    """Give the number of units, rounded down."""
    return math.floor(exact(value) * unit)


def cost(*, epsilon: Number = 0, rho: Number = 0, delta: Number = 0) -> Cost:
    """Give what an answer spends, each amount rounded up.

    Examples
    --------
    >>> cost(epsilon=0.1, delta=1e-6)
    Cost(micro_epsilon=100000, nano_rho=0, nano_delta=1000)
    """
    return Cost(units_up(epsilon, MICRO), units_up(rho, NANO), units_up(delta, NANO))


def epsilon_of_rho(rho: Number, delta: Number) -> float:
    """Give an ε for which ρ-zCDP implies (ε, δ): never too small.

    For every order α > 1, δ ≤ exp((α−1)(αρ−ε))/(α−1)·(1−1/α)^α (Canonne, Kamath & Steinke 2020, proposition 12). Each α
    gives a valid ε, so a search that misses the best one errs on the safe side.
    """
    loss, probability = exact(rho), exact(delta)
    if not 0 < probability < 1:
        raise PlanError("ρ becomes (ε, δ) only with a δ between 0 and 1")
    if loss < 0:
        raise PlanError("a privacy loss is not negative")
    if loss == 0:
        return 0.0
    r, log_delta = float(loss), math.log(probability.numerator) - math.log(probability.denominator)

    def bound(t: float) -> float:
        above = math.exp(t)
        alpha = 1 + above
        return alpha * r + math.log(above / alpha) - (log_delta + math.log(alpha)) / above

    low, high = -20.0, 40.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if bound(a) <= bound(b) else (a, high)
    simple = r + 2 * math.sqrt(-r * log_delta)
    return max(0.0, min(bound((low + high) / 2), simple)) * _FLOAT_MARGIN


def nano_rho_within(epsilon: Number, delta: Number) -> int:
    """Give the most billionths of ρ that imply (ε, δ)."""
    if exact(epsilon) <= 0:
        return 0
    low, high = 0, NANO
    while exact(epsilon_of_rho(Fraction(high, NANO), delta)) <= exact(epsilon):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        fits = exact(epsilon_of_rho(Fraction(middle, NANO), delta)) <= exact(epsilon)
        low, high = (middle, high) if fits else (low, middle)
    return low


def as_epsilon_delta(spent: Cost, delta: Number = 0) -> tuple[float, float]:
    """Say what was spent as (ε, δ); `delta` is the δ at which ρ is read, and is added to the δ spent."""
    epsilon = Fraction(spent.micro_epsilon, MICRO)
    spent_delta = Fraction(spent.nano_delta, NANO)
    if spent.nano_rho:
        read = epsilon_of_rho(Fraction(spent.nano_rho, NANO), delta)
        epsilon += Fraction(units_up(read, MICRO), MICRO)
        spent_delta += exact(delta)
    return float(epsilon), float(spent_delta)


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget (ε, δ) of one group of people: says whether what was spent, in whichever measure, still keeps it.

    Spending E in pure ε, R in ρ and D in δ is within (ε, δ) if E + ε(R, δ/2) ≤ ε and D ≤ δ/2, or, where no ρ was ever
    spent, if E ≤ ε and D ≤ δ. Questions and prices may be chosen after earlier answers were seen: a step of pure ε has
    a Rényi divergence of at most ε at every order α, one of ρ at most αρ, and while Σε ≤ E and Σρ ≤ R hold, all steps
    together have at most E + αR (Feldman & Zrnic 2021); ε(R, δ) turns αR into (ε, δ), and E is added. Nothing is
    forgiven: who counts in another way from tomorrow on has spent what was spent until today. Without a δ nothing that
    was spent in ρ fits any budget.

    Examples
    --------
    >>> budget = PrivacyFilter(1, 1e-6)
    >>> budget.admits(Cost(micro_epsilon=1_000_000)), budget.admits(Cost(micro_epsilon=999_999, nano_rho=1000))
    (True, False)
    """

    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        if exact(self.epsilon) <= 0 or not 0 <= exact(self.delta) < 1:
            raise PlanError("a privacy budget has an ε above 0 and a δ of at least 0 and below 1")

    def admits(self, spent: Cost) -> bool:
        """Say whether so much may have been spent in all."""
        if spent.nano_delta > self._nano_delta(spent):
            return False
        if spent.nano_rho and not spent.micro_epsilon:
            return spent.nano_rho <= self._nano_rho(0)
        lost = self._micro_epsilon(spent)
        return lost is not None and lost <= self._most_micro_epsilon

    def left(self, spent: Cost, accountant: Accountant) -> Cost:
        """Give what may still be spent by somebody who counts in one way; δ only where its half is not needed for ρ."""
        if accountant == "zcdp":
            counted = Cost(spent.micro_epsilon, max(spent.nano_rho, 1), spent.nano_delta)
            rho = max(0, self._nano_rho(spent.micro_epsilon) - spent.nano_rho)
            return Cost(0, rho, max(0, self._nano_delta(counted) - spent.nano_delta))
        lost = self._micro_epsilon(spent)
        if lost is None:
            return FREE
        left = max(0, self._most_micro_epsilon - lost)
        return Cost(left, 0, max(0, self._nano_delta(spent) - spent.nano_delta))

    def _micro_epsilon(self, spent: Cost) -> int | None:
        """Give what was spent in all as ε; None where ρ was spent and there is no δ at which it could be read."""
        if not spent.nano_rho:
            return spent.micro_epsilon
        if not self.delta:
            return None
        read = epsilon_of_rho(Fraction(spent.nano_rho, NANO), exact(self.delta) / 2)
        return spent.micro_epsilon + units_up(read, MICRO)

    def _nano_delta(self, spent: Cost) -> int:
        """Give the most δ that may be spent: half of it, once ρ was spent."""
        whole, half = self._most_nano_delta
        return half if spent.nano_rho else whole

    def _nano_rho(self, micro_epsilon: int) -> int:
        """Give the most ρ that may be spent beside some pure ε."""
        if not self.delta:
            return 0
        if not micro_epsilon:
            return self._rho_alone
        left = Fraction(self._most_micro_epsilon - micro_epsilon, MICRO)
        return nano_rho_within(left, exact(self.delta) / 2)

    @cached_property
    def _most_micro_epsilon(self) -> int:
        return units_down(self.epsilon, MICRO)

    @cached_property
    def _most_nano_delta(self) -> tuple[int, int]:
        return units_down(self.delta, NANO), units_down(exact(self.delta) / 2, NANO)

    @cached_property
    def _rho_alone(self) -> int:
        return nano_rho_within(self.epsilon, exact(self.delta) / 2)
