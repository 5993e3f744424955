"""Uniqueness: who is alone with a combination of values, in the sample and in the population? (R10)

Measures of uniqueness count who shares the published values. Sampling, recoding and suppression leave these true, if
coarser; noise, swapping, PRAM or microaggregation do not, and an intruder then errs in ways that a count of classes
does not see.

Every estimator for the population takes the vector of class-size frequencies S of the sample (S[i] classes have i
records; S[0] is not looked at, `np.bincount(sizes)` makes it) and the size N of the population, and gives the estimated
number of people who are alone with their values in the population. They assume a simple random sample without
replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.households import people_of
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import RiskShare, Score, as_percent, source_of
from discretion.part import Columns, Scale, confidential, path_field

if TYPE_CHECKING:
    import polars as pl


def having_column(original: Dataset, released: Dataset, column: str) -> Dataset:
    """Give the release, or its source where only that has the column (weights are often not published)."""
    if column not in released.columns:
        source = source_of(original, released)
        if source is not None and column in source.columns:
            return source
    released.require([column])
    return released


def perturbed_columns(original: Dataset, released: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the columns whose published values are not the true ones or coarser ones.

    Looks at cells that are there in both, at level 0 of a hierarchy, in columns that kept their type; of text
    only values that occur in the source (others are groups or ranges). A recoding gives
    equal values equal values, and gives a value it maps to back unchanged; numbers keep their order or move together.
    What else changed was perturbed. Rows from outside that nothing matches are compared as they stand, where there are
    as many: rather a warning too many. Nothing is found where the source is not known. Time linear.
    """
    source = source_of(original, released)
    if source is None and original is not released and len(original) == len(released):
        source = original
    if source is None:
        return ()
    both = [name for name in columns if name in source.columns and name in released.columns]
    return tuple(name for name in both if _perturbed(source, released, name))


def warning(original: Dataset, released: Dataset, columns: Sequence[str]) -> Mapping[str, Any]:
    """Give what a measure of uniqueness adds to its detail where quasi-identifiers were perturbed."""
    found = perturbed_columns(original, released, columns)
    if not found:
        return {}
    names = ", ".join(found)
    text = f"the published values of {names} were perturbed; this figure takes them as true, use a linkage attack"
    return {"warning": text, "perturbed": list(found)}


def said(meaning: str, warned: Mapping[str, Any]) -> str:
    """Give the meaning of a figure with the warning, where there is one."""
    return f"{meaning} Warning: {warned['warning']}." if warned else meaning


def _perturbed(source: Dataset, released: Dataset, column: str) -> bool:
    before, after = source.frame[column], released.frame[column]
    kinds = _kind(before), _kind(after)
    if kinds[0] != kinds[1] or before.equals(after, null_equal=True):
        return False
    compared = _plain_cells(source, released, column)
    if not compared.any():
        return False
    from discretion.kernels.classes import class_ids

    old, new = source.codes(column), released.codes(column)
    pairs = class_ids([old.codes[compared], new.codes[compared]], [old.size, new.size], int(compared.sum()))
    first = np.flatnonzero(compared)[pairs.first_row]
    distinct = len(np.unique(old.codes[first]))
    if distinct < len(first):
        return True  # the same value was published as different ones
    return not _is_recoding(before.gather(first), after.gather(first), pairs.counts)


def _plain_cells(source: Dataset, released: Dataset, column: str) -> Bools:
    """Tell which cells have a value in both that was not generalized."""
    old, new = source.codes(column), released.codes(column)
    plain = np.broadcast_to(released.levels.get(column, 0), len(released)) == 0
    if _kind(source.frame[column]) == "text":
        # a label that no record had is a group or a range, wherever it was made; perturbation draws from the values
        domain = set(map(str, old.values))
        plain = plain & np.array([str(value) in domain for value in new.values], dtype=np.bool_)[new.codes]
    return np.asarray((old.codes != old.missing) & (new.codes != new.missing) & plain)


def _is_recoding(before: pl.Series, after: pl.Series, counts: NDArray[np.int64]) -> bool:
    """Tell whether a map from values to values is a recoding; `counts` tells how many records each value has."""
    ordered = before.dtype.is_numeric() or before.dtype.is_temporal()
    if ordered:
        before, after = before.to_physical().cast(float), after.to_physical().cast(float)
        steps = after[before.arg_sort()].diff().drop_nulls()
        if steps.is_empty() or bool((steps >= 0).all()) or bool((steps <= 0).all()):
            return True
    told = dict(zip(*(map(str, values.to_list()) for values in (before, after)), strict=True))
    if any(told.get(value, value) != value for value in set(told.values())):
        return False
    moved = np.array([old != new for old, new in told.items()])
    # values that each occur once and moved across each other: noise rather than a group that was renamed
    return not ordered or bool((counts[moved] > 1).any())


def _kind(series: pl.Series) -> str:
    """Name the kind of a column's values; those of one kind are compared."""
    import polars as pl

    if series.dtype.is_numeric():
        return "number"
    return "text" if series.dtype in (pl.String, pl.Categorical, pl.Enum) else str(series.dtype)


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
    from discretion.kernels.distributions import fit

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


_TOLERANCE = 1e-10
"""largest error of a fitted margin, as a share of the records"""
_CYCLES = 10_000


class _Fit(NamedTuple):
    """The fitted probability of each record's cell, and the sum of the squares over all cells."""

    of_record: Floats
    squares: float


class LogLinearRisk(RiskShare, kind="log-linear-risk"):
    """Share of the unique records whose person is expected to be unique in the population.

    The counts of all cells of the cross product of `columns` are taken as Poisson with means from a log-linear model
    (main effects, and the `interactions` given), fitted by iterative proportional fitting. With λ = μ̂/π people expected
    in a cell, a sample unique is a population unique with probability exp(−λ(1−π)). The value is the mean of these over
    the sample uniques (0 where there are none); `per_record` is the probability, 0 for records that are not unique. In
    the detail: `tau1`, the expected number of sample uniques that are population uniques; `tau2`, the expected number
    of right matches, Σ (1−exp(−λ(1−π)))/(λ(1−π)); `misfit`, about standard normal where the model holds and large
    where the columns depend on each other in ways that the model leaves out: then name interactions.

    Assumes Poisson (or simple random) sampling with the same fraction everywhere and unperturbed columns. Does not see
    combinations that cannot exist (structural zeros). Columns that no interaction connects are fitted apart, so that
    time and memory are linear in the records and in the cells of the largest connected set of columns.

    References
    ----------
    Skinner & Shlomo (2008), JASA 103(483); Elamir & Skinner (2006); Bishop, Fienberg & Holland (1975); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "sex": ["F", "F", "M"]})
    >>> score = dc.LogLinearRisk(columns=["zip", "sex"], share=0.5)(table)
    >>> round(score.detail["tau1"], 4), round(score.detail["tau2"], 4)
    (0.7165, 0.8504)
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population, where the sampling fraction is not given"""
    interactions: tuple[Columns, ...] = ()
    """sets of columns whose joint counts the model keeps, e.g. [[age, marital_status]]; without it, main effects"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""
    max_cells: int = Field(20_000_000, ge=1)
    """largest table that is fitted; 16 bytes a cell are needed"""

    needs: ClassVar[Literal["both", "released"]] = "released"

    @model_validator(mode="after")
    def _one_size(self) -> LogLinearRisk:
        if (self.share is None) == (self.population_size is None):
            raise ValueError("give either `share` or `population_size`")
        if any(len(set(names)) < 2 for names in self.interactions):
            raise ValueError("an interaction is of at least two columns")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit the model, then judge the sample uniques by it."""
        columns = released.choose(self.columns, "classes")
        if strange := sorted({name for names in self.interactions for name in names} - set(columns)):
            raise DataError(f"{self.kind}: interactions name columns that are not among `columns`: {strange}")
        rows = self._rows(released, columns)
        counted = released if len(rows) == len(released) else released.take(rows)
        n = len(counted)
        pi = self._fraction(n)
        fits = [self._fit(counted, names, ctx) for names in _connected(columns, self.interactions)]
        mean = n * math.prod([fit.of_record for fit in fits], start=np.ones(n))
        squares = n**2 * math.prod(fit.squares for fit in fits)
        classes = counted.classes(columns)
        unique = classes.first_rows[classes.counts == 1]
        others = mean[unique] / pi * (1 - pi)
        alone = np.exp(-others)
        right = np.where(others > 0, -np.expm1(-others) / np.where(others > 0, others, 1.0), 1.0)
        per_record = np.full(len(released), np.nan)
        per_record[rows] = 0.0
        per_record[rows[unique]] = alone
        excess = float((classes.counts.astype(np.float64) ** 2).sum() - 2 * mean.sum() + squares - n)
        value = float(alone.sum() / max(len(unique), 1))
        warned = warning(original, released, columns)
        meaning = (
            f"Of the {len(unique)} records that are alone in the file, {as_percent(value)} are expected to be alone in "
            "the population too."
        )
        return self.score(
            value,
            said(meaning, warned),
            per_record=per_record,
            columns=list(columns),
            records=n,
            share=pi,
            sample_uniques=len(unique),
            tau1=float(alone.sum()),
            tau2=float(right.sum()),
            match_probability=float(right.sum() / max(len(unique), 1)),
            cells=math.prod(len(counted.classes([name])) for name in columns),
            misfit=excess / math.sqrt(2 * squares),
            **warned,
        )

    def _rows(self, data: Dataset, columns: tuple[str, ...]) -> Ints:
        """Give the rows that count."""
        kept = np.ones(len(data), dtype=np.bool_)
        for coded in [data.codes(name) for name in columns] if self.missing == "ignore" else []:
            kept &= coded.codes != coded.missing
        if not kept.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        return np.flatnonzero(kept)

    def _fraction(self, records: int) -> float:
        if self.population_size is None:
            return float(self.share or 1)
        if self.population_size < records:
            raise DataError(f"{self.kind}: the population of {self.population_size} is smaller than {records} records")
        return records / self.population_size

    def _fit(self, data: Dataset, columns: tuple[str, ...], ctx: Context) -> _Fit:
        """Fit the columns that interactions connect; one set of all of them is the table as observed."""
        n = len(data)
        sets = [names for names in self.interactions if set(names) <= set(columns)]
        if len(columns) == 1 or any(set(names) == set(columns) for names in sets):
            classes = data.classes(columns)
            probability = classes.counts / n
            return _Fit(probability[classes.ids], float((probability**2).sum()))
        levels = [data.classes([name]) for name in columns]
        shape = tuple(len(found) for found in levels)
        if math.prod(shape) > self.max_cells:
            raise DataError(
                f"{self.kind}: the interactions connect {', '.join(columns)} with {math.prod(shape):,} cells, more "
                f"than `max_cells` {self.max_cells:,}; leave out an interaction, recode a column, or allow more memory"
            )
        axes = [tuple(columns.index(name) for name in names) for names in sets]
        place = np.ravel_multi_index(tuple(found.ids for found in levels), shape)
        table = _proportional_fit(np.bincount(place, minlength=math.prod(shape)).reshape(shape), axes, ctx)
        return _Fit(table.ravel()[place], float((table**2).sum()))


def _connected(columns: Sequence[str], interactions: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Split the columns into sets that no interaction connects."""
    sets = [{name} for name in columns]
    for names in interactions:
        touched = [one for one in sets if one & set(names)]
        sets = [one for one in sets if not one & set(names)] + [set[str]().union(*touched)]
    return [tuple(name for name in columns if name in one) for one in sets]


def _proportional_fit(counts: Ints, margins: Sequence[tuple[int, ...]], ctx: Context) -> Floats:
    """Give the probabilities that have the margins of the table and no other dependence (IPF)."""
    n = counts.sum()
    away = [tuple(axis for axis in range(counts.ndim) if axis not in kept) for kept in margins]
    wanted = [counts.sum(axis=axes, keepdims=True) / n for axes in away]
    fitted = np.full(counts.shape, 1.0 / counts.size)
    for cycle in range(_CYCLES):
        ctx.progress(cycle, _CYCLES, "fitting the log-linear model")
        for axes, target in zip(away, wanted, strict=True):
            now = fitted.sum(axis=axes, keepdims=True)
            fitted *= np.divide(target, now, out=np.zeros_like(now), where=now > 0)
        worst = max(
            float(np.abs(fitted.sum(axis=axes, keepdims=True) - target).max())
            for axes, target in zip(away, wanted, strict=True)
        )
        if worst <= _TOLERANCE:
            ctx.progress(_CYCLES, _CYCLES, "fitting the log-linear model")
            return fitted
    raise DataError(f"log-linear-risk: the model does not converge in {_CYCLES:,} cycles; use fewer interactions")


LEVELS = (
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.125, 0.143, 0.167,
    0.2, 0.25, 0.334, 0.5, 1.0,
)  # fmt: skip
"""Upper ends of the intervals of risk in which records are counted (those of ARX, so that figures compare)."""

_MEANING = {
    "prosecutor": "Somebody who knows that a person is in the file finds the person with probability up to {highest}, "
    "on average {average}",
    "journalist": "Somebody with a register of the population says whose record it is with probability up to "
    "{highest}, on average {average}",
    "marketer": "Somebody who links all records is right for {average} of them, and finds the most exposed with "
    "probability {highest}",
}


class AttackerRisk(RiskShare, kind="attacker-risk"):
    """Probability that an intruder who knows the quasi-identifiers picks the right person.

    The `prosecutor` knows that the person is in the file and picks one of the f records of the class: 1/f. The
    `journalist` wants to show that anybody can be found and picks one of the F people of the population who fit a
    record: 1/F. For these two the value is the highest risk. The `marketer` links all records and accepts errors: the
    value is the mean risk. `per_record` has the risks; the detail has the share of records above `threshold`, the
    highest, the lowest and the mean risk, how many records have them, and the distribution of the risks. Where a column
    with the role `unit` tells that a person has m of the f records, any of them is the right one: m/f.

    Without a `population` the file stands for it, which overstates the risk of the journalist and the marketer for a
    sample. A population must contain the data; its values are generalized to the levels of the release. Does not see
    what somebody learns from a class without finding the record, and assumes unperturbed quasi-identifiers. Time
    linear.

    References
    ----------
    El Emam (2013), Guide to the de-identification of personal health information; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"]})
    >>> town = pl.DataFrame({"zip": ["40831"] * 4 + ["97206"] * 4})
    >>> dc.AttackerRisk(columns=["zip"])(table).value
    1.0
    >>> dc.AttackerRisk(attacker="journalist", columns=["zip"], population=town)(table).value
    0.25
    """

    columns: Columns = ()
    """columns the attacker knows; without it, the quasi-identifiers"""
    attacker: Literal["prosecutor", "journalist", "marketer"] = "prosecutor"
    """who attacks: one who knows that a person is in the file, one who does not, one who wants many"""
    threshold: float = confidential(0.2, ge=0, le=1)
    """risk above which a record counts as at risk"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population, for the journalist and the marketer"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"

    @model_validator(mode="after")
    def _who_needs_what(self) -> AttackerRisk:
        if self.population is not None and self.attacker == "prosecutor":
            raise ValueError(
                "the prosecutor looks at the file alone; a `population` is for the journalist and marketer"
            )
        if self.population is not None and self.missing == "wildcard":
            raise ValueError("with a `population` a missing value is a category or its record is left out")
        if self.frequency and self.population is None:
            raise ValueError("`frequency` names a column of the population: give `population`")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count each record's class, in the file or in the population."""
        columns = released.choose(self.columns, "classes")
        sizes, people = self._sizes(released, columns)
        risk = self._own(released, columns) / sizes
        rows = ~np.isnan(risk)
        counted = risk[rows]
        if not len(counted):
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        average, highest, lowest = released.average(risk, rows), float(counted.max()), float(counted.min())
        at_risk = released.average(risk > self.threshold, rows)
        warned = warning(original, released, columns)
        wording = _MEANING[self.attacker].format(highest=as_percent(highest), average=as_percent(average))
        return self.score(
            average if self.attacker == "marketer" else highest,
            said(
                f"{wording} (guessing: {as_percent(1.0 / people)}); {as_percent(at_risk)} of the records are above the "
                "threshold.",
                warned,
            ),
            per_record=risk,
            columns=list(columns),
            attacker=self.attacker,
            records=released.tally(rows),
            records_at_risk=at_risk,
            highest=highest,
            success_rate=average,
            lowest=lowest,
            share_at_highest=released.average(risk == highest, rows),
            share_at_lowest=released.average(risk == lowest, rows),
            chance=1.0 / people,
            distribution=_distribution(released, risk, rows),
            **warned,
        )

    def _sizes(self, released: Dataset, columns: tuple[str, ...]) -> tuple[Floats, int]:
        """Give for each record how many may be meant, and how many people there are in all."""
        sizes = released.class_sizes(columns, self.missing)
        if self.population is None:
            return sizes, max(released.tally(~np.isnan(sizes)), 1)
        classes = released.classes(columns)
        found = count_population(released, columns, classes, load_population(self.population), self.frequency)
        fit = np.where(np.isnan(sizes), np.nan, found.counts[classes.ids])
        if short := released.tally(fit < sizes):
            raise DataError(
                f"{self.kind}: {short} records are in classes with more records than people of the population; the "
                "population must contain the data, with the same labels and not perturbed"
            )
        return fit, int(found.counts.sum() + found.others.sum())

    def _own(self, released: Dataset, columns: tuple[str, ...]) -> Floats:
        """Count the records of each record's person in its class: any of them is the right one."""
        people = people_of(released) if self.population is None else None
        if people is None:
            return np.ones(len(released))
        pairs = released.classes(columns).ids.astype(np.int64) * (int(people.max()) + 1) + people
        _, number, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        return np.asarray(counts[number], np.float64)


def _distribution(released: Dataset, risk: Floats, rows: Bools) -> dict[str, Any]:
    """Give the share of records in each interval of risk, the upper end included, and up to it."""
    up_to = np.array([released.average(risk <= level, rows) for level in LEVELS])
    return {
        "up_to": list(LEVELS),
        "share": np.diff(up_to, prepend=0.0).tolist(),
        "cumulative": up_to.tolist(),
    }


# Population uniqueness: how many people are alone with their values in the whole population? (R10)


Estimator = Literal["dankar", "pitman", "zayatz", "snb"]


class PopulationUniqueness(RiskShare, kind="population-uniqueness"):
    """Share of the people who are alone with their quasi-identifier values in the population.

    Over a simple random sample it is also the expected share of records whose person anybody with a register of the
    population finds for certain. Estimated from the class sizes of the sample: `pitman` (a superpopulation model,
    closest for small fractions), `zayatz` (Bayesian), `snb` (slide negative binomial), or `dankar`, the published rule
    that chooses among them; the detail has all four, None where one does not fit. With a `population` file nothing is
    estimated: the value is the true share, and the detail tells how many unique records are unique there, too; its
    values are generalized to the levels of the release.

    An estimate has an error, large for small samples; it assumes a simple random sample and unperturbed
    quasi-identifiers. Does not see people who share their values with few others. Time linear, plus the fits.

    References
    ----------
    Dankar, El Emam, Neisa & Roffey (2012), BMC Med. Inform. Decis. Mak. 12:66; Hoshino (2001); Chen & Keller-McNulty
    (1998); Zayatz (1991); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [20, 20, 21, 21, 22, 22, 23]})
    >>> round(dc.PopulationUniqueness(columns=["age"], share=0.5, estimator="zayatz")(ages).value, 4)
    0.0338
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data, where the size of the population is not given"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""
    estimator: Estimator = "dankar"
    """how the uniques of the population are estimated"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"

    @model_validator(mode="after")
    def _one_size(self) -> PopulationUniqueness:
        if sum(given is not None for given in (self.population_size, self.share, self.population)) != 1:
            raise ValueError("give one of `population_size`, `share` and `population`")
        if self.frequency and self.population is None:
            raise ValueError("`frequency` names a column of the population: give `population`")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count the classes of each size, then estimate or look up."""
        columns = released.choose(self.columns, "classes")
        rows = np.flatnonzero(~np.isnan(released.class_sizes(columns, self.missing)))
        if not len(rows):
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        counted = released if len(rows) == len(released) else released.take(rows)
        warned = warning(original, released, columns)
        classes = counted.classes(columns)
        detail: dict[str, Any] = {
            "columns": list(columns),
            "records": counted.records,
            "sample_uniques": int((classes.counts == 1).sum()),
            "classes": len(classes),
        }
        if self.population is None:
            size = self.population_size or round(counted.records / (self.share or 1))
            frequencies = np.bincount(classes.counts)
            value = min(ESTIMATORS[self.estimator](frequencies, size) / size, 1.0)
            meaning = f"{as_percent(value)} of the people are alone with their values in the population (estimated)."
        else:
            found = count_population(counted, columns, classes, load_population(self.population), self.frequency)
            size = int(found.counts.sum() + found.others.sum())
            if size == 0:
                raise DataError(f"{self.kind}: the population is empty")
            alone = int((found.counts == 1).sum() + (found.others == 1).sum())
            both = int(((classes.counts == 1) & (found.counts == 1)).sum())
            detail |= {"population_uniques": alone, "records_unique_in_population": both}
            value = alone / size
            meaning = f"{as_percent(value)} of the people are alone with their values in the population."
        detail |= {"population_size": size, "estimator": self.estimator, "estimates": _all(classes.counts, size)}
        detail["people"] = value * size
        return self.score(value, said(meaning, warned), **detail, **warned)


def _all(counts: Any, size: int) -> dict[str, float | None]:
    """Estimate the share by every estimator; None where one does not fit."""
    found: dict[str, float | None] = {}
    for name, estimate in ESTIMATORS.items():
        try:
            found[name] = min(estimate(np.bincount(counts), size) / size, 1.0)
        except DataError:
            found[name] = None
    return found


# Rare categories and extreme numbers: who stands out by one published column alone? (R10)


_FENCES = 3.0
"""Interquartile ranges beyond the quartiles at which a number is far from the rest (Tukey's outer fence)."""


class RareValues(RiskShare, kind="rare-values"):
    """Share of records that stand out by a single published value: a rare category, or an extreme number.

    A category is rare when fewer than `k` records have it. A number is extreme when fewer than `k` records are at it or
    beyond, and it lies more than three interquartile ranges outside the quartiles (where half the values are equal, of
    those that differ from the median): the one large income, the one man of 104. A set counts as a whole: who knows all
    the diagnoses of somebody finds the record that has just these. Columns count whatever their role, because everybody
    may read every published column; identifiers, weights, households and units are left out. Few-valued whole numbers
    are categories. `per_record` is 1/(records that share the rarest such value), 0 for the others; the detail has the
    counts of each column, without the values (of sets also `alone`: records whose set nobody else has).

    Does not see combinations of columns (`SampleUniqueness`, `Suda`). Missing values do not count as rare. Assumes
    unperturbed values, and warns where they were perturbed. Time O(n log n) for each column, memory linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.2; Tukey (1977), Exploratory data analysis (fences);
    catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse"] * 20 + ["mayor"]})
    >>> round(dc.RareValues(k=3, columns=["job"])(jobs).value, 4)
    0.0476
    """

    columns: Columns = ()
    """columns to look at; without it, all but identifiers, weights, households and units"""
    k: int = confidential(3, ge=2)
    """a value is rare when fewer records have it"""

    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count the records of each rare value."""
        columns = self.columns or released.choose((), "compare")
        released.require(columns)
        risk = np.zeros(len(released))
        per_column: dict[str, dict[str, Any]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            is_number = released.is_quantity(name) and not released.is_category(name)
            sharing = _extremes(released.number(name), self.k) if is_number else _rare(released, name, self.k)
            found = sharing > 0
            np.maximum(risk, np.where(found, 1.0 / np.maximum(sharing, 1), 0.0), out=risk)
            if found.any():
                is_set = released.type_of(name) == "set"
                what = "extremes" if is_number else "rare_sets" if is_set else "rare_categories"
                per_column[name] = {what: int(found.sum()), "fewest": int(sharing[found].min())}
                if is_set:
                    per_column[name]["alone"] = int((sharing == 1).sum())
        value = float((risk > 0).mean())
        warned = warning(original, released, tuple(per_column))
        worst = sorted(per_column, key=lambda name: per_column[name]["fewest"])[:3]
        where = f", by {', '.join(worst)}" if worst else ""
        return self.score(
            value,
            said(f"{as_percent(value)} of the records have a rare or extreme value in a single column{where}.", warned),
            per_record=risk,
            columns=list(columns),
            chance=1.0 / len(released),
            records=len(released),
            mean_risk=float(risk.mean()),
            per_column=per_column,
            **warned,
        )


def _rare(data: Dataset, name: str, k: int) -> NDArray[np.int64]:
    """Give the records that share each record's category where they are fewer than k; 0 for the others."""
    coded = data.codes(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    if coded.missing >= 0:
        counts[coded.missing] = 0
    return np.asarray(np.where(counts < k, counts, 0)[coded.codes])


def _extremes(x: Floats, k: int) -> NDArray[np.int64]:
    """Give for each number far from the rest how many records are at it or beyond, where fewer than k; 0 otherwise."""
    result = np.zeros(len(x), np.int64)
    present = np.flatnonzero(~np.isnan(x))
    if len(present) < 4 * k:
        return result
    values = x[present]
    spread = values
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high == low:
        spread = values[values != middle]
        if len(spread) < 4 * k:
            return result
        low, high = np.quantile(spread, [0.25, 0.75])
    reach = _FENCES * (high - low)
    for side, beyond in ((values, values < low - reach), (-values, values > high + reach)):
        outer = side[beyond]
        counts = np.searchsorted(np.sort(outer), outer, "right")  # whoever is farther out is beyond the fence as well
        result[present[beyond]] = np.where(counts < k, counts, 0)
    return result


class SampleUniqueness(RiskShare, kind="sample-uniqueness"):
    """Share of records that nobody else shares the quasi-identifier values of.

    Such a person is found by anybody who knows these values. Without more, the value is the share of unique records.
    With `share` (the sampling fraction π) it is the estimated probability that a unique match is right,
    π·S1/(π·S1 + 2(1−π)·S2), S1 and S2 the numbers of classes with one and two records; with `population` it is the
    share of sample uniques that are unique in the population too (its values are generalized to the levels of the
    release). `per_record` is 1/(size of the record's class): the probability of picking the right record.

    Assumes unperturbed quasi-identifiers, and warns (in the meaning and as `warning` in the detail) where the source of
    the release is known and they were perturbed. Does not see what a class of several records gives away. Time linear.

    References
    ----------
    Skinner & Elliot (2002), JRSS B 64; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "sex": ["F", "M", "M"]})
    >>> dc.SampleUniqueness(columns=["zip"])(table).value
    0.3333333333333333
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data; gives the probability that a unique match is right"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population"""

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"
    screens_with: ClassVar[int | None] = 0

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count classes of one and two records."""
        columns = released.choose(self.columns, "classes")
        sizes = released.class_sizes(columns, self.missing)
        counted = ~np.isnan(sizes)
        if not counted.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        unique = sizes == 1
        records = released.tally(counted)
        share_unique = released.tally(unique) / records
        pairs = released.tally(sizes == 2) / 2
        detail: dict[str, Any] = {
            "columns": list(columns),
            "unique_records": released.tally(unique),
            "share_unique": share_unique,
            "pairs": pairs,
            "records": records,
            "mean_risk": released.average(1.0 / sizes, counted),
        }
        detail["chance"] = (self.share or 1.0) / detail["records"]
        value, meaning = share_unique, f"{as_percent(share_unique)} of the records are alone with their values"
        if self.population is not None:
            in_population, people = self._in_population(released, columns)
            in_population, detail["chance"] = in_population[unique], 1.0 / max(people, 1)
            value = float((in_population == 1).sum() / max(len(in_population), 1))
            detail["not_in_population"] = int((in_population == 0).sum())
            meaning = f"{as_percent(value)} of the records that are alone in the file are alone in the population too"
        elif self.share is not None:
            single = float(released.tally(unique))
            value = self.share * single / max(self.share * single + 2 * (1 - self.share) * pairs, 1e-300)
            meaning = f"A unique match with the population is right with probability {as_percent(value)} (estimated)"
        meaning += f" (guessing finds {as_percent(detail['chance'])} of the people)."
        warned = warning(original, released, columns)
        return self.score(value, said(meaning, warned), per_record=1.0 / sizes, **detail, **warned)

    def _in_population(self, released: Dataset, columns: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        """Give for each record the number of people of the population in its class, and the number of all people."""
        classes = released.classes(columns)
        found = count_population(released, columns, classes, load_population(self.population))
        return found.counts[classes.ids], int(found.counts.sum() + found.others.sum())
