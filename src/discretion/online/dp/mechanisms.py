"""The noise: OpenDP's exact integer mechanisms, sized by a sensitivity and a privacy loss.

Everything here is a 64-bit integer from end to end. There is no floating-point noise whose low bits would tell the true
value, sums are counted in units of a fixed step, and values that would not fit are clamped first (a clamp moves
neighbors no further apart). The draws come from the operating system's secure source; there is no seed. Each mechanism
is asked, before its first draw, what it costs at the given sensitivity, and is not used if that is more than allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from statistics import NormalDist
from typing import Any, Literal

from discretion.data.sql_filter import Scalar
from discretion.errors import PlanError, QueryRefused
from discretion.online.declare import ColumnSpec
from discretion.online.dp.sensitivity import (
    Sensitivity,
    Unit,
    extreme_scores,
    is_monotonic,
    mode_scores,
    quantile_scores,
)
from discretion.privacy.accounting import MICRO, NANO, DiscreteGaussian, checked, clamped, library, scale_above

_WIDEN = 1 + 2.0**-40
_WIDER = 1 + 2.0**-20
"""for thresholds: the library rounds its δ up by more, and must agree"""


@dataclass(frozen=True)
class PrivacyLoss:
    """What one mechanism may spend: an ε (pure) or a ρ (zero-concentrated), exactly."""

    measure: Literal["epsilon", "rho"]
    amount: Fraction

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise PlanError("a mechanism needs a privacy loss above 0; ask for fewer figures or spend more")

    @classmethod
    def micro_epsilon(cls, units: int) -> PrivacyLoss:
        """Take millionths of ε."""
        return cls("epsilon", Fraction(units, MICRO))

    @classmethod
    def nano_rho(cls, units: int) -> PrivacyLoss:
        """Take billionths of ρ."""
        return cls("rho", Fraction(units, NANO))


@dataclass(frozen=True)
class Additive:
    """Integer noise on a vector of integers: discrete Laplace for an ε, discrete Gaussian for a ρ.

    Guarantees the loss for vectors that differ at most by the sensitivity between neighbors: Laplace by its L1 norm,
    scale L1/ε; Gaussian by its L2 norm, standard deviation L2/√(2ρ). Entries of empty cells get noise like all others.

    References
    ----------
    Ghosh, Roughgarden & Sundararajan (2012); Canonne, Kamath & Steinke (2020); catalogue O3.

    Examples
    --------
    >>> from discretion.online.dp import sensitivity
    >>> noise = Additive(sensitivity.counts(sensitivity.Unit()), Loss.micro_epsilon(500_000))
    >>> noise.law, round(noise.scale, 9), noise.accuracy(0.95)
    ('laplace', 2.0, 6)
    """

    sensitivity: Sensitivity
    loss: PrivacyLoss

    @property
    def law(self) -> Literal["laplace", "gaussian"]:
        """The distribution of the noise."""
        return "laplace" if self.loss.measure == "epsilon" else "gaussian"

    @cached_property
    def scale(self) -> float:
        """Scale of the Laplace law, standard deviation of the Gaussian; rounded up."""
        if self.law == "laplace":
            return scale_above(self.sensitivity.l1 / float(self.loss.amount))
        return self._gaussian.scale

    @property
    def _gaussian(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.sensitivity.l2_squared, self.loss.amount)

    @cached_property
    def _release(self) -> Callable[[Sequence[int]], list[int]]:
        if self.law == "gaussian":
            noise = self._gaussian
            noise.prepare()
            return noise.release
        dp = library()
        values = dp.vector_domain(dp.atom_domain(T="i64"))
        found = dp.m.make_laplace(values, dp.l1_distance(T="i64"), scale=self.scale)
        checked(found, found.map(self.sensitivity.l1), self.loss.amount)
        return lambda numbers: [int(value) for value in found(clamped(numbers))]

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        self._release  # noqa: B018 - made and checked

    def release(self, values: Sequence[int]) -> list[int]:
        """Return the values with fresh noise."""
        return self._release(values) if len(values) else []

    def accuracy(self, confidence: float) -> int:
        """Return the least a (Gaussian: a little more) such that the noise lies within ±a with this probability.

        Laplace: P(|Z| > a) = 2·q^(a+1)/(1 + q), q = e^(−1/scale). Gaussian: P(Z ≥ a + 1) ≤ P(N(0, σ²) ≥ a) for the
        discrete law (Canonne, Kamath & Steinke 2020, proposition 25).
        """
        beta = 1 - confidence
        if self.law == "gaussian":
            return math.ceil(self.scale * NormalDist().inv_cdf(1 - beta / 2))
        ratio = math.exp(-1 / self.scale)
        return max(0, math.ceil(self.scale * math.log(2 / (beta * (1 + ratio))) - 1))

    @property
    def variance(self) -> float:
        """Variance of the noise (of the Gaussian: at most this)."""
        if self.law == "gaussian":
            return self.scale**2
        half = math.sinh(1 / (2 * self.scale))
        return 1 / (2 * half * half)


@dataclass(frozen=True)
class ExponentialChoice:
    """Choose the best of several candidates, the better ones more likely: the exponential mechanism (noisy maximum).

    Guarantees the loss when every score moves by at most the sensitivity's linf between neighbors; where all scores
    move in the same direction (`monotonic`), with half the noise.

    References
    ----------
    McSherry & Talwar (2007); McKenna & Sheldon (2020); catalogue O3.
    """

    sensitivity: Sensitivity
    loss: PrivacyLoss
    monotonic: bool = False

    @cached_property
    def scale(self) -> float:
        """Scale of the noise on the scores; rounded up."""
        range_ = self.sensitivity.linf * (1 if self.monotonic else 2)
        if self.loss.measure == "epsilon":
            return scale_above(range_ / float(self.loss.amount))
        return scale_above(range_ / math.sqrt(8 * self.loss.amount))

    @cached_property
    def _measurement(self) -> Any:
        dp = library()
        scores = dp.vector_domain(dp.atom_domain(T="i64"))
        distance = dp.linf_distance(T="i64", monotonic=self.monotonic)
        measure = dp.max_divergence() if self.loss.measure == "epsilon" else dp.zero_concentrated_divergence()
        found = dp.m.make_noisy_max(scores, distance, measure, scale=self.scale)
        return checked(found, found.map(self.sensitivity.linf), self.loss.amount)

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        self._measurement  # noqa: B018 - made and checked

    def choose(self, scores: Sequence[int]) -> int:
        """Return the position of the chosen candidate."""
        if len(scores) == 0:
            raise PlanError("a choice needs at least one candidate")
        return int(self._measurement(clamped(scores)))

    def accuracy(self, candidates: int, confidence: float) -> int:
        """Return how far, at most, the chosen score lies below the best, with this probability: scale·ln(k/β)."""
        return math.ceil(self.scale * math.log(max(candidates, 1) / (1 - confidence)))


@dataclass(frozen=True)
class ThresholdedCounts:
    """Counts of keys that nobody declared: noise on each, and only counts of at least τ are told, with their keys.

    Guarantees (ε, δ), or ρ-zCDP up to δ. A key that exists because of one person is told with probability at most δ in
    all. The keys that stay hidden leave no trace.

    References
    ----------
    Korolova, Kenthapadi, Mishra & Ntoulas (2009); Rogers (2023), A unifying privacy analysis framework for unknown
    domain algorithms; catalogue O3.
    """

    sensitivity: Sensitivity
    loss: PrivacyLoss
    delta: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise QueryRefused("groups whose keys are not declared need a δ above 0; declare categories, or set δ")

    @cached_property
    def noise(self) -> Additive:
        """The noise on each count."""
        whole = self.sensitivity
        root = math.isqrt(whole.l2_squared - 1) + 1
        return Additive(Sensitivity(whole.l0, whole.l1, root * root, whole.linf, whole.why), self.loss)

    def _make(self, threshold: int) -> tuple[Any, tuple[float, float]]:
        dp = library()
        domain = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
        each, whole = dp.absolute_distance(T="i64"), self.noise.sensitivity
        if self.loss.measure == "epsilon":
            found = dp.m.make_laplace_threshold(domain, dp.l01inf_distance(each), self.noise.scale, threshold)
            return found, found.map((whole.l0, whole.l1, whole.linf))
        found = dp.m.make_gaussian_threshold(domain, dp.l02inf_distance(each), self.noise.scale, threshold)
        return found, found.map((whole.l0, math.isqrt(whole.l2_squared), whole.linf))

    @cached_property
    def threshold(self) -> int:
        """The least τ that keeps to δ: a person is behind at most l0 keys alone, each told if linf + noise ≥ τ.

        l0·P(Z ≥ τ − linf) ≤ δ, with P(Z ≥ k) = q^k/(1 + q), q = e^(−1/scale), for Laplace noise and P(Z ≥ k) ≤ P(N ≥
        k − 1) for Gaussian. The library's own δ leaves out the case in which a noisy count is exactly τ (opendp issue
        2922), so it is not relied on.
        """
        each, scale = float(self.delta) / self.sensitivity.l0, self.noise.scale
        if self.loss.measure == "epsilon":
            beyond = scale * math.log(1 / (each * (1 + math.exp(-1 / scale))))
        else:
            beyond = 1 - scale * NormalDist().inv_cdf(min(each, 0.5))
        return self.sensitivity.linf + max(1, math.ceil(beyond * _WIDER))

    @cached_property
    def _measurement(self) -> Any:
        found, (spent, delta) = self._make(self.threshold)
        checked(found, delta, self.delta)
        return checked(found, spent, self.loss.amount)

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        self._measurement  # noqa: B018 - made and checked

    def release(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the noisy counts that reach the threshold, by number of the key, ascending."""
        values = dict(zip(counts, clamped(list(counts.values())), strict=True))
        return dict(sorted((int(key), int(value)) for key, value in self._measurement(values).items()))


@dataclass(frozen=True)
class RandomAnswer:
    """Randomized response: the true category with probability e^ε/(e^ε + k − 1), else another one, evenly.

    Guarantees ε for the value of each person before anybody collects it. Two categories and ε = ln 3 are the two coins:
    the truth with probability 3/4.

    References
    ----------
    Warner (1965); catalogue P18, O3.
    """

    categories: tuple[str, ...]
    loss: PrivacyLoss

    def __post_init__(self) -> None:
        if len(set(self.categories)) < 2 or len(set(self.categories)) < len(self.categories):
            raise PlanError("randomized response needs at least two different categories")
        if self.loss.measure != "epsilon":
            raise PlanError("randomized response is counted in ε")

    @cached_property
    def truth(self) -> float:
        """Probability of the true category; rounded down."""
        others = (len(self.categories) - 1) * math.exp(-float(self.loss.amount))
        return max(1 / len(self.categories), 1 / (1 + others) / _WIDEN)

    @cached_property
    def _measurement(self) -> Any:
        dp = library()
        found = dp.m.make_randomized_response(categories=list(self.categories), prob=self.truth)
        return checked(found, found.map(1), self.loss.amount)

    def release(self, values: Sequence[str]) -> list[str]:
        """Return an answer for each person."""
        if not set(values) <= set(self.categories):
            raise PlanError("a value is not one of the declared categories")
        return [str(self._measurement(value)) for value in values]

    def estimate(self, answers: Sequence[str], category: str) -> tuple[float, float]:
        """Estimate the true share of a category and its standard error from the answers."""
        other = (1 - self.truth) / (len(self.categories) - 1)
        found = sum(answer == category for answer in answers) / len(answers)
        gain = self.truth - other
        return (found - other) / gain, math.sqrt(found * (1 - found) / len(answers)) / gain


# Quantiles, minimum and maximum on a declared grid, modes among declared categories, by the exponential mechanism.
#
# The steps of the grid are the candidates. With below(c) and above(c) the numbers of records below the border c and
# from it on, g(c) = (whole − part)·below(c) − part·above(c) rises with c, and the quantile of share part/whole lies
# where it passes 0. The score of a step [a, b) for a target t is minus the distance of t to the interval [g(a), g(b)];
# the first step reaches down and the last one up without end. So one step always has the score 0, and the chosen one
# misses the target by at most r = scale·ln(steps/β) with probability 1 − β, whatever the data. With t = −r its lower
# border is a lower bound of the quantile, with t = +r its upper border an upper bound: that is the interval given with
# a quantile.

_WHOLE = 10_000
SHARES = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
"""of the loss of a quantile: for the value, its lower and its upper bound"""

Extreme = Literal["min", "max"]


@dataclass(frozen=True)
class ValueWithBounds:
    """A value with bounds, and how many records it may be away from the rank that was asked for."""

    value: float
    lower: float
    upper: float


def scores(bins: Sequence[int], part: int, whole: int, target: int = 0) -> list[int]:
    """Return minus the distance of the target to [g(a), g(b)] for each step [a, b) of the grid.

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
class QuantileValue:
    """The private quantile of one column: three choices that share one loss.

    Examples
    --------
    >>> age = ColumnSpec(role="sensitive", type="integer", bounds=(0, 100), grid=100)
    >>> median = QuantileValue(age, 0.5, Unit(), Loss.micro_epsilon(50_000_000), 0.95)
    >>> found = median.find([0] * 40 + [1000] + [0] * 59)
    >>> found.lower <= 40.5 <= found.upper
    True
    """

    column: ColumnSpec
    share: float
    unit: Unit
    loss: PrivacyLoss
    confidence: float
    groups: int = 1

    @property
    def part(self) -> int:
        """The share in ten-thousandths."""
        return min(_WHOLE - 1, max(1, round(self.share * _WHOLE)))

    @cached_property
    def _choices(self) -> tuple[ExponentialChoice, ...]:
        sensitivity = quantile_scores(self.unit, self.part, _WHOLE, self.groups)
        return tuple(
            ExponentialChoice(sensitivity, PrivacyLoss(self.loss.measure, self.loss.amount * share)) for share in SHARES
        )

    def prepare(self) -> None:
        """Raise now, before anything is charged, what a draw would raise."""
        for choice in self._choices:
            choice.prepare()

    def miss(self, number: int, confidence: float) -> int:
        """Return how far the value (0), the lower (1) or the upper bound (2) misses its target, in units of g."""
        return self._choices[number].accuracy(self.column.grid, confidence)

    @property
    def rank_error(self) -> int:
        """How many records the value may be away from the wanted rank."""
        return math.ceil(self.miss(0, self.confidence) / _WHOLE)

    def find(self, bins: Sequence[int]) -> ValueWithBounds:
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
        return ValueWithBounds(found, min(lower, found), max(upper, found))


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
    loss: PrivacyLoss
    confidence: float
    groups: int = 1

    @cached_property
    def _choice(self) -> ExponentialChoice:
        return ExponentialChoice(extreme_scores(self.unit, self.groups), self.loss)

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

    def find(self, bins: Sequence[int]) -> ValueWithBounds:
        """Draw the extreme; on the far side only the declared bound is known."""
        counts = list(bins) if self.which == "min" else list(reversed(bins))
        step = self._choice.choose(scores(counts, part=0, whole=1, target=self.target))
        lower, upper = self.column.required_limits()
        borders = self.column.candidates()
        if self.which == "min":
            return ValueWithBounds(value_of_step(self.column, step), lower, borders[step + 1])
        step = len(counts) - 1 - step
        return ValueWithBounds(value_of_step(self.column, step), borders[step], upper)


@dataclass(frozen=True)
class ModalCategory:
    """The private mode: one of the declared categories, the more frequent ones more likely.

    Fewer than `count_error` records, with the confidence, separate its count from the largest one. Nothing is told of
    the counts; a category that nobody has can be chosen, and without records all are equally likely.

    References
    ----------
    McSherry & Talwar (2007), exponential mechanism; McKenna & Sheldon (2020), permute and flip; catalogue O3.

    Examples
    --------
    >>> major = ColumnSpec(role="sensitive", type="category", categories=("CS", "EE", "MA"))
    >>> ModalCategory(major, Unit(), Loss.micro_epsilon(1_000_000), 0.95).find([10, 500, 20])
    'EE'
    """

    column: ColumnSpec
    unit: Unit
    loss: PrivacyLoss
    confidence: float

    @cached_property
    def _choice(self) -> ExponentialChoice:
        return ExponentialChoice(mode_scores(self.unit), self.loss, is_monotonic(self.unit))

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
    """Return the value that stands for a step: its middle; of whole numbers the first one in it, or the last before."""
    borders = column.candidates()
    low, high = borders[step], borders[step + 1]
    if _tells_whole(column):
        first, is_last = math.ceil(low), step == len(borders) - 2
        return float(first if first < high or (is_last and first == high) else math.floor(low))
    return (low + high) / 2


def _tells_whole(column: ColumnSpec) -> bool:
    return column.type == "integer" or column.whole is True
