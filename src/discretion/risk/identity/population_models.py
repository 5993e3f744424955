"""How many people are unique in the population? Estimated from the class sizes of a sample (R10).

Every estimator takes the vector of class-size frequencies S of the sample (S[i] classes have i records; S[0] is not
looked at, `np.bincount(sizes)` makes it) and the size N of the population, and gives the estimated number of people who
are alone with their values in the population. They assume a simple random sample without replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints

_LARGE_RATIO = 1e3
"""θ/α above which differences of gamma functions lose too many digits."""


class _Sample(NamedTuple):
    """The class sizes that occur, how many classes have each, and the totals."""

    sizes: Ints
    counts: Ints
    records: int
    classes: int
    ones: int
    twos: int
    population: int

    @property
    def fraction(self) -> float:
        return self.records / self.population


def _sample(frequencies: ArrayLike, population: int) -> _Sample:
    given = np.asarray(frequencies, dtype=np.int64)
    sizes = np.flatnonzero(given)
    sizes = sizes[sizes > 0]
    counts = given[sizes]
    if not len(sizes) or counts.min() < 0:
        raise DataError("population uniqueness: the sample has no classes")
    records = int((sizes * counts).sum())
    if population < records:
        raise DataError(f"population uniqueness: the population of {population} is smaller than the {records} records")
    ones, twos = (int(given[i]) if len(given) > i else 0 for i in (1, 2))
    return _Sample(sizes, counts, records, int(counts.sum()), ones, twos, int(population))


def _settled(sample: _Sample) -> float | None:
    """Give the answer where nothing must be estimated: no sample uniques, everybody sampled, nobody shares a class."""
    if sample.ones == 0 or sample.records == sample.population:
        return float(sample.ones)
    return float(sample.population) if sample.ones == sample.records else None


def zayatz(frequencies: ArrayLike, population: int) -> float:
    """Estimate by Zayatz (1991): the class sizes of the sample stand for those of the population.

    The probability that a sample unique is a population unique is that a class of one gives a class of one, relative to
    all classes that may give one (hypergeometric).
    """
    sample = _sample(frequencies, population)
    known = _settled(sample)
    if known is not None:
        return known
    n, total = sample.records, sample.population
    # the probability that exactly one of i members is drawn: i · n/N · Π_{j=0}^{i−2} (N−n−j)/(N−1−j)
    steps = np.arange(int(sample.sizes[-1]) - 1)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(total - n - steps, 0)) - np.log(total - 1 - steps)
    none_else = np.exp(np.concatenate([[0.0], np.cumsum(logs)]))[sample.sizes - 1]
    drawn_once = sample.sizes * sample.fraction * none_else
    unique = sample.ones * sample.fraction / float((sample.counts * drawn_once).sum())
    return float(sample.ones * unique / sample.fraction)


class PitmanFit(NamedTuple):
    """The parameters of Pitman's sampling formula that fit a sample best."""

    theta: float
    alpha: float


def fit_pitman(frequencies: ArrayLike, population: int) -> PitmanFit:
    """Fit Pitman's model by maximum likelihood (Hoshino 2001), with 0 ≤ α < 1 and θ > −α.

    By Newton's method, from a second start where the first does not arrive at a maximum; where neither does (it lies at
    the border), by a search with bounds.
    """
    from discretion.kernels.pitman import fit

    sample = _sample(frequencies, population)
    start = _pitman_start(sample)
    for theta, alpha in (start, (float(sample.classes), 0.5)):
        found = fit(theta, alpha, sample.sizes, sample.counts)
        if found is not None:
            return PitmanFit(*found)
    return _fit_within_bounds(sample, start)


def _fit_within_bounds(sample: _Sample, start: PitmanFit) -> PitmanFit:
    from scipy.optimize import minimize

    def loss(x: Floats) -> tuple[float, Floats]:
        value, slope = _pitman_likelihood(sample, float(np.exp(x[0]) - x[1]), float(x[1]))
        gradient = np.array([slope[0] * np.exp(x[0]), slope[1] - slope[0]])  # θ = e^x0 − α
        return -value / sample.records, -gradient / sample.records

    bounds = [(-30.0, 60.0), (1e-9, 1 - 1e-9)]
    candidates = [np.array([np.log(start.theta + start.alpha), start.alpha]), np.array([np.log(sample.classes), 0.5])]
    found = [
        minimize(
            loss, x0, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 500}
        )
        for x0 in candidates
    ]
    best = min(found, key=lambda one: float(one.fun))
    if not np.isfinite(best.fun) or np.abs(best.x[0]) > 29.9:
        raise DataError("pitman: the model does not fit these class sizes; use another estimator")
    return _polish(sample, PitmanFit(float(np.exp(best.x[0]) - best.x[1]), float(best.x[1])))


def _pitman_start(sample: _Sample) -> PitmanFit:
    """Give Hoshino's approximate solution, moved into the allowed range."""
    n, u, ones = sample.records, sample.classes, sample.ones
    c = ones * (ones - 1) / max(sample.twos, 1)
    below = 2 * ones * u + ones * c - n * c
    theta = (n * u * c - ones * (n - 1) * (2 * u + c)) / below if below else float(u)
    alpha = (theta * (ones - n) + (n - 1) * ones) / (n * u)
    alpha = min(max(alpha, 0.01), 0.99)
    return PitmanFit(theta if theta > -alpha + 1e-6 else 1.0, alpha)


def _rising(theta: float, alpha: float, classes: int) -> tuple[float, float, float]:
    """Give Σ ln(θ+iα) for i = 1 … u−1 and its slopes by θ and α.

    By gamma functions, which is quick; where θ/α is large their difference would lose its digits, and it is summed.
    """
    from scipy.special import digamma, gammaln

    ratio = theta / alpha
    if abs(ratio) > _LARGE_RATIO:
        steps = np.arange(1, classes)
        terms = theta + steps * alpha
        return float(np.log(terms).sum()), float((1 / terms).sum()), float((steps / terms).sum())
    value = (classes - 1) * np.log(alpha) + gammaln(ratio + classes) - gammaln(ratio + 1)
    rise = digamma(ratio + classes) - digamma(ratio + 1)
    return float(value), float(rise / alpha), float((classes - 1) / alpha - rise * theta / alpha**2)


def _pitman_likelihood(sample: _Sample, theta: float, alpha: float) -> tuple[float, Floats]:
    """Give the log-likelihood and its slopes by θ and α; the other sums are ratios of gamma functions too."""
    from scipy.special import digamma, gammaln

    n = sample.records
    value, by_theta, by_alpha = _rising(theta, alpha, sample.classes)
    value += gammaln(theta + 1) - gammaln(theta + n)
    value += (sample.counts * (gammaln(sample.sizes - alpha) - gammaln(1 - alpha))).sum()
    by_theta += digamma(theta + 1) - digamma(theta + n)
    by_alpha -= (sample.counts * (digamma(sample.sizes - alpha) - digamma(1 - alpha))).sum()
    return float(value), np.array([by_theta, by_alpha])


def _polish(sample: _Sample, fit: PitmanFit) -> PitmanFit:
    """Take Newton steps while they bring the slope closer to zero; a maximum at the border stays."""
    if not 1e-6 < fit.alpha < 1 - 1e-6:
        return fit
    x = np.array([fit.theta, fit.alpha])
    slope = _pitman_likelihood(sample, *x)[1]
    for _ in range(20):
        step = np.linalg.solve(_curvature(sample, *x), slope)
        new = x - step
        if not (0 < new[1] < 1 and new[0] > -new[1]):
            break
        after = _pitman_likelihood(sample, *new)[1]
        if np.abs(after).max() >= np.abs(slope).max():
            break
        x, slope = new, after
    return PitmanFit(float(x[0]), float(x[1]))


def _curvature(sample: _Sample, theta: float, alpha: float) -> Floats:
    from scipy.special import digamma, polygamma

    n, u = sample.records, sample.classes
    ratio = theta / alpha
    rise = digamma(ratio + u) - digamma(ratio + 1)
    bend = polygamma(1, ratio + u) - polygamma(1, ratio + 1)
    by_theta = bend / alpha**2 - polygamma(1, theta + n) + polygamma(1, theta + 1)
    mixed = -rise / alpha**2 - bend * theta / alpha**3
    by_alpha = -(u - 1) / alpha**2 + 2 * rise * theta / alpha**3 + bend * theta**2 / alpha**4
    by_alpha += float((sample.counts * (polygamma(1, sample.sizes - alpha) - polygamma(1, 1 - alpha))).sum())
    return np.array([[by_theta, mixed], [mixed, by_alpha]])


def pitman(frequencies: ArrayLike, population: int) -> float:
    """Estimate by Pitman's model: Γ(θ+1)/Γ(θ+α)·N^α."""
    from scipy.special import gammaln

    sample = _sample(frequencies, population)
    known = _settled(sample)
    if known is not None:
        return known
    theta, alpha = fit_pitman(frequencies, population)
    logarithm = gammaln(theta + 1) - gammaln(theta + alpha) + alpha * np.log(sample.population)
    return float(min(np.exp(logarithm), sample.population))


def number_of_classes(frequencies: ArrayLike, population: int) -> float:
    """Estimate the number of classes in the population by Shlosser's estimator as modified by Haas & Stokes (1998)."""
    sample = _sample(frequencies, population)
    pi, i, s = sample.fraction, sample.sizes.astype(np.float64), sample.counts.astype(np.float64)
    if pi == 1:
        return float(sample.classes)
    first = (i * pi**2 * (1 - pi**2) ** (i - 1) * s).sum() / ((1 - pi) ** i * ((1 + pi) ** i - 1) * s).sum()
    second = ((1 - pi) ** i * s).sum() / (i * pi * (1 - pi) ** (i - 1) * s).sum()
    return float(sample.classes + sample.ones * first * second**2)


def snb(frequencies: ArrayLike, population: int) -> float:
    """Estimate by the slide negative binomial model (Chen & Keller-McNulty 1998): F − 1 ~ NB(a, b) in each class.

    a and b are such that the expected numbers of classes with one and two sample records are those observed.
    """
    sample = _sample(frequencies, population)
    known = _settled(sample)
    if known is not None:
        return known
    classes = number_of_classes(frequencies, population)
    a, b = _fit_snb(sample, classes)
    return float(min(classes * b**a, sample.population))


def expected_snb(classes: float, fraction: float, a: float, b: float) -> tuple[float, float]:
    """Give the expected numbers of classes with one and with two sample records."""
    miss = (1 - fraction) * (1 - b)
    d = 1 - miss
    base = (b / d) ** a
    one = classes * fraction * base * (1 + a * miss / d)
    two = classes * fraction**2 * base * a * (1 - b) * (2 - (1 - a) * miss) / (2 * d**2)
    return one, two


def _fit_snb(sample: _Sample, classes: float) -> tuple[float, float]:
    """Solve both equations in log a and logit b, from several starts."""
    from scipy.optimize import least_squares
    from scipy.special import expit

    wanted = np.log(np.array([sample.ones, max(sample.twos, 1e-9)]))

    def miss(x: Floats) -> Floats:
        one, two = expected_snb(classes, sample.fraction, float(np.exp(x[0])), float(expit(x[1])))
        return np.asarray(np.log(np.maximum([one, two], 1e-300)) - wanted)

    best = None
    for start in ((0.0, 0.0), (-2.0, -4.0), (-4.0, -8.0), (2.0, 2.0), (-1.0, -2.0)):
        found = least_squares(miss, np.array(start), bounds=([-30, -40], [30, 40]), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if best is None or found.cost < best.cost:
            best = found
    if best is None or best.cost > 1e-12:
        raise DataError("snb: the model does not fit these class sizes; use another estimator")
    return float(np.exp(best.x[0])), float(expit(best.x[1]))


def dankar(frequencies: ArrayLike, population: int) -> float:
    """Choose by the rule of Dankar et al. (2012): up to a tenth sampled Pitman, else the smaller of SNB and Zayatz."""
    sample = _sample(frequencies, population)
    first, other = (pitman, None) if sample.fraction <= 0.1 else (snb, zayatz)
    try:
        found = first(frequencies, population)
    except DataError:
        return zayatz(frequencies, population)
    return found if other is None else min(found, other(frequencies, population))


ESTIMATORS: Mapping[str, Callable[[ArrayLike, int], float]] = MappingProxyType(
    {"dankar": dankar, "pitman": pitman, "zayatz": zayatz, "snb": snb}
)
"""The estimators by name."""
