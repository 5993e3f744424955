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
from statistics import NormalDist
from typing import Any, Literal

from discretion.errors import PlanError, QueryRefused
from discretion.online.dp.sensitivity import Sensitivity
from discretion.privacy.accounting import MICRO, NANO
from discretion.privacy.mechanisms import DiscreteGaussian, checked, clamped, library, scale_above

_WIDEN = 1 + 2.0**-40
_WIDER = 1 + 2.0**-20
"""for thresholds: the library rounds its δ up by more, and must agree"""


@dataclass(frozen=True)
class Loss:
    """What one mechanism may spend: an ε (pure) or a ρ (zero-concentrated), exactly."""

    measure: Literal["epsilon", "rho"]
    amount: Fraction

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise PlanError("a mechanism needs a privacy loss above 0; ask for fewer figures or spend more")

    @classmethod
    def micro_epsilon(cls, units: int) -> Loss:
        """Take millionths of ε."""
        return cls("epsilon", Fraction(units, MICRO))

    @classmethod
    def nano_rho(cls, units: int) -> Loss:
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
    loss: Loss

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
        """Give the values with fresh noise."""
        return self._release(values) if len(values) else []

    def accuracy(self, confidence: float) -> int:
        """Give the least a (Gaussian: a little more) such that the noise lies within ±a with this probability.

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
class Choice:
    """Choose the best of several candidates, the better ones more likely: the exponential mechanism (noisy maximum).

    Guarantees the loss when every score moves by at most the sensitivity's linf between neighbors; where all scores
    move in the same direction (`monotonic`), with half the noise.

    References
    ----------
    McSherry & Talwar (2007); McKenna & Sheldon (2020); catalogue O3.
    """

    sensitivity: Sensitivity
    loss: Loss
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
        """Give the position of the chosen candidate."""
        if len(scores) == 0:
            raise PlanError("a choice needs at least one candidate")
        return int(self._measurement(clamped(scores)))

    def accuracy(self, candidates: int, confidence: float) -> int:
        """Give how far, at most, the chosen score lies below the best, with this probability: scale·ln(k/β)."""
        return math.ceil(self.scale * math.log(max(candidates, 1) / (1 - confidence)))


@dataclass(frozen=True)
class Threshold:
    """Counts of keys that nobody declared: noise on each, and only counts of at least τ are told, with their keys.

    Guarantees (ε, δ), or ρ-zCDP up to δ. A key that exists because of one person is told with probability at most δ in
    all. The keys that stay hidden leave no trace.

    References
    ----------
    Korolova, Kenthapadi, Mishra & Ntoulas (2009); Rogers (2023), A unifying privacy analysis framework for unknown
    domain algorithms; catalogue O3.
    """

    sensitivity: Sensitivity
    loss: Loss
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
        """Give the noisy counts that reach the threshold, by number of the key, ascending."""
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
    loss: Loss

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
        """Give an answer for each person."""
        if not set(values) <= set(self.categories):
            raise PlanError("a value is not one of the declared categories")
        return [str(self._measurement(value)) for value in values]

    def estimate(self, answers: Sequence[str], category: str) -> tuple[float, float]:
        """Estimate the true share of a category and its standard error from the answers."""
        other = (1 - self.truth) / (len(self.categories) - 1)
        found = sum(answer == category for answer in answers) / len(answers)
        gain = self.truth - other
        return (found - other) / gain, math.sqrt(found * (1 - found) / len(answers)) / gain
