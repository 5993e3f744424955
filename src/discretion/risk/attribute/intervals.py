"""Interval disclosure: how often does the published value give the true one away, within a small interval? (R1–R3)"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.kernels.order import places
from discretion.measure import RiskShare, Score, as_percent
from discretion.part import Columns, Scale
from discretion.risk.identity.distances import robust_moments, whitening
from discretion.risk.identity.transparency.steps import History

_LOOKED_AT = 20_000


class _Tests(NamedTuple):
    """For each record and column: disclosed, disclosed by a random other record's value, and counted."""

    hit: Bools
    informed: Bools
    """disclosed to somebody who knows how the column was changed; as `hit` where that does not help"""
    chance: Bools
    constant: Bools
    """disclosed by the best single guess for everybody"""
    counted: Bools
    columns: tuple[str, ...]
    hidden: int
    """values that are missing in the release and not in the original"""
    known_of: dict[str, str]
    """for each column what its method told"""

    @property
    def note(self) -> str:
        """Say how many values count as safe because they are not there."""
        share = self.hidden / max(int(self.counted.sum()), 1)
        return (
            f" {as_percent(share)} of the values are missing in the release and count as safe." if self.hidden else ""
        )


class _OnNumbers(RiskShare):
    """What measures of published numbers share."""

    columns: Columns = ()
    """numeric columns to test; without it, the numeric quasi-identifiers and sensitive columns"""
    knows_method: bool | None = None
    """whether the intruder also uses the steps that made the release, where they are known (default) or not (false)"""

    scale: ClassVar[Scale] = "columns"
    screens_with: ClassVar[int | None] = 0

    def _tested(self, original: Dataset, released: Dataset) -> tuple[str, ...]:
        """Choose the columns to test."""
        columns = original.choose(self.columns, "perturb")
        if not self.columns:
            columns = tuple(name for name in columns if not original.is_category(name))
            if not columns:
                raise PlanError(f"{self.kind}: all numeric columns are categories (few whole numbers); give `columns`")
        released.require(columns)
        return columns

    def _history(self, original: Dataset, released: Dataset) -> History:
        """Give the steps that made the release, as far as the intruder uses them."""
        return History(original, () if self.knows_method is False else released.steps[len(original.steps) :])


class _Interval(_OnNumbers):
    """What the three interval measures share: a test per value, shares per column, the chance level beside them."""

    @abstractmethod
    def _disclosed(self, original: Floats, released: Floats, guess: Floats) -> Bools:
        """Tell for each value whether the interval around a guess (the published value itself) holds the true one.

        Guesses may also stand under each other, each for all the values.
        """

    @abstractmethod
    def _ranks_inside(self, original: Floats, released: Floats, ranked: Floats) -> Floats:
        """Give for each published value how many ranks the interval reaches to one side."""

    def _tests(self, original: Dataset, released: Dataset, ctx: Context) -> _Tests:
        """Test every value, and every value against that of a random other record."""
        columns = self._tested(original, released)
        shuffled = ctx.rng.permutation(len(original))
        hit, informed, chance, constant, counted, hidden = [], [], [], [], [], 0
        known_of: dict[str, str] = {}
        history = self._history(original, released)
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            true, published = original.number(name), released.number(name)
            if np.isnan(published).all() or np.isnan(true).all():
                raise DataError(f"{self.kind}: column {name!r} has no values to attack")
            hit.append(self._disclosed(true, published, published))
            step: Any = history.only_step(name)
            guess = None if step is None else self._guess(true, published, step)
            informed.append(hit[-1] if guess is None else self._disclosed(true, published, guess))
            if guess is not None:
                known_of[name] = step.kind
            chance.append(self._disclosed(true, published[shuffled], published[shuffled]))
            constant.append(self._disclosed(true, published, np.full(len(true), self._single_guess(true, published))))
            counted.append(~np.isnan(true))
            hidden += int((np.isnan(published) & counted[-1]).sum())
        a, b, c, d, e = (np.column_stack(tests) for tests in (hit, informed, chance, constant, counted))
        return _Tests(a, b, c, d, e, columns, hidden, known_of)

    def _single_guess(self, true: Floats, published: Floats) -> float:
        """Give what is right most often as a guess for everybody: the commonest value, or one of forty quantiles."""
        present = published[~np.isnan(published)]
        values, counts = np.unique(present, return_counts=True)
        both = np.flatnonzero(~np.isnan(true) & ~np.isnan(published))
        some = both[:: max(1, -(-len(both) // _LOOKED_AT))]
        guesses: list[float] = [float(values[counts.argmax()]), *np.quantile(present, np.linspace(0, 1, 40)).tolist()]
        if not len(some):
            return guesses[0]
        x, y = true[some], published[some]
        parts = np.array_split(np.array(guesses), 4)  # all at once would not stay in the processor's cache
        shares = np.concatenate([self._disclosed(x, y, part[:, None]).mean(axis=1) for part in parts])
        return guesses[int(np.argmax(shares))]

    def _guess(self, true: Floats, published: Floats, step: Any) -> Floats | None:
        """Give where somebody who knows the step looks for the true values; None where at the published ones."""
        if step.kind == "rank-swap" and not step.by and not (step.bottom_share or step.top_share):
            ranked = np.sort(published[~np.isnan(published)])
            return _swapped_from(published, ranked, self._ranks_inside(true, published, ranked), step.percent)
        return _without_noise(published, step)


def _without_noise(y: Floats, step: Any) -> Floats | None:
    """Take off what a step adds on average: noise by the best linear prediction, rounding by half the base.

    Noise of variance s·σ² leaves E(x|y) = μ + (y − μ)/(1 + s) for normal values, a mixture a·x + noise of the same
    variance μ + a·(y − μ), log-normal factors the same on logarithms; all from the published moments.
    """
    mean = float(np.nanmean(y))
    if step.kind in ("additive-noise", "correlated-noise"):
        sd_share = getattr(step, "sd_share", None)
        return np.asarray(mean + (y - mean) / (1.0 + (step.variance_share if sd_share is None else sd_share**2)))
    if step.kind in ("variance-preserving-noise", "orthogonal-noise"):
        share = step.variance_share
        return np.asarray(mean + (y - mean) * (np.sqrt(1 - share) if step.kind.startswith("var") else 1 - share / 2))
    if step.kind == "multiplicative-noise" and np.nanmin(y) > 0:
        logs, noise = np.log(y), float(np.log1p(step.sd**2))
        center, spread = float(np.nanmean(logs)), float(np.nanvar(logs))
        kept = max(spread - noise, 0.0) / spread if spread > 0 else 1.0
        return np.asarray(np.exp(center + noise / 2 + (logs - center) * kept))
    if step.kind == "round" and step.how in ("up", "down"):
        return np.asarray(y + (step.base / 2 if step.how == "down" else -step.base / 2))
    return None


def _swapped_from(y: Floats, ranked: Floats, inside: Floats, percent: float) -> Floats:
    """Give the middle of the likeliest interval of original ranks: around the value, or at an end of its window.

    Rank swapping exchanges rather with the ends of the window than with neighbors (see `kernels.swap_law`). `inside` is
    how many ranks the interval reaches to one side.
    """
    from discretion.kernels.swap import swap_law

    n = len(ranked)
    reach = max(1, int(np.floor(percent * n / 100 + 1e-9)))
    lower, upper, _ = swap_law(n, reach)
    low, high = (np.exp(part - part.max()) for part in (lower, upper))
    from_end = np.append(np.cumsum(low[::-1])[::-1], 0.0)  # both sums grow toward the larger terms: no digits are lost
    from_start = np.concatenate([[0.0], np.cumsum(high)])
    place = (places(ranked, y) + places(ranked, y, "right") - 1) // 2
    place, half = np.clip(place, 0, n - 1), np.minimum(inside, reach / 2).astype(np.int64)

    def mass(first: NDArray[np.int64], last: NDArray[np.int64]) -> Floats:
        first, last = np.maximum(first, place - reach), np.minimum(last, place + reach)
        below = from_end[np.clip(first, 0, n)] - from_end[np.clip(np.minimum(last + 1, place), 0, n)]
        above = from_start[np.clip(last + 1, 0, n)] - from_start[np.clip(np.maximum(first, place + 1), 0, n)]
        return np.asarray(np.maximum(below, 0.0) * high[place] + np.maximum(above, 0.0) * low[place])

    centers = np.stack([place, place - reach + half, place + reach - half])
    best = np.argmax(np.stack([mass(center - half, center + half) for center in centers]), axis=0)
    chosen = np.take_along_axis(centers, best[None], axis=0)[0]
    return np.where(np.isnan(y), np.nan, ranked[np.clip(chosen, 0, n - 1)])


def _sd(x: Floats) -> float:
    """Give the standard deviation (N−1) of the values present; 0 for a single one."""
    present = x[~np.isnan(x)]
    return float(present.std(ddof=1)) if len(present) > 1 else 0.0


def _ranks_within(y: Floats, ranked: Floats, half: float) -> Floats:
    """Give half the number of published values within a distance of each."""
    inside = places(ranked, y + half, "right") - places(ranked, y - half)
    return np.asarray(inside / 2.0)


def _told(plain: float, known: float) -> str:
    """Say what the figure is without the knowledge of the method, where that raised it."""
    return f" Looked for by an intruder who knows the method; without: {as_percent(plain)}." if known > plain else ""


def _both(plain: float, known: float, known_of: dict[str, str]) -> dict[str, Any]:
    """Give both figures for the detail, where a method told something."""
    return {"plain": plain, "informed": known, "known_of": known_of} if known_of else {}


def _worst(per_column: dict[str, float]) -> dict[str, Any]:
    """Name the column whose values are disclosed most often: a figure over several columns hides an untouched one."""
    name = max(per_column, key=lambda one: per_column[one])
    return {"worst_column": name, "worst": per_column[name]} if len(per_column) > 1 else {}


def _said(worst: dict[str, Any]) -> str:
    return f" The worst column is {worst['worst_column']}: {as_percent(worst['worst'])}." if worst else ""


def _share(hit: Bools, counted: Bools) -> float:
    return float(hit[counted].mean())


def _of_counted(hit: Bools, counted: Bools) -> Floats:
    """Give each record the share of its values that are disclosed; NaN for a record without values."""
    total = counted.sum(axis=1)
    return np.where(total > 0, hit.sum(axis=1) / np.maximum(total, 1), np.nan)


class _PerColumnInterval(_Interval):
    """The value is the mean over columns of the share of disclosed values."""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Test every value."""
        tests = self._tests(original, released, ctx)
        hit, informed, chance, constant, counted, columns, hidden, known_of = tests
        shares = [[_share(x[:, j], counted[:, j]) for j in range(len(columns))] for x in (hit, informed)]
        hit = np.where(np.greater(shares[1], shares[0]), informed, hit)  # the better attack on each column
        per_column = {name: _share(hit[:, j], counted[:, j]) for j, name in enumerate(columns)}
        plain, value = float(np.mean(shares[0])), float(np.mean(list(per_column.values())))
        known = value
        by_chance, single = (
            float(np.mean([_share(x[:, j], counted[:, j]) for j in range(len(columns))])) for x in (chance, constant)
        )
        worst = _worst(per_column)
        return self.score(
            value,
            f"{as_percent(value)} of the true values lie in the interval around the published value "
            f"({as_percent(max(by_chance, single))} would by guessing).{_said(worst)}{_told(plain, known)}{tests.note}",
            per_record=_of_counted(hit & counted, counted),
            **_both(plain, known, known_of),
            chance=by_chance,
            best_constant=single,
            per_column=per_column,
            **worst,
            values_tested=int(counted.sum()),
            values_hidden=hidden,
        )


class IntervalRisk(_Interval, kind="interval-risk"):
    """Share of records whose true values all lie close to the published ones.

    The interval is the published value ± sd_share · σ', σ' the standard deviation of the published column; with
    several columns a record counts when it is inside in all of them, so that one well-protected column hides an
    untouched one: the worst column stands beside it (`worst`), and a requirement that names no columns is judged by it.
    Values missing in the release count as safe, values missing in the original are left out. Beside it stands the share
    that a random other record's values would hit. Time linear.

    References
    ----------
    Mateo-Sanz, Sebé & Domingo-Ferrer (2004); catalogue R3 (`dRisk` of sdcMicro).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.5)(people, seed=7)
    >>> dc.IntervalRisk(columns=["income"], sd_share=0.05)(people, noisy).value < 0.2
    True
    """

    sd_share: float = Field(0.05, gt=0)
    """half width of the interval, in standard deviations of the published column"""

    def _disclosed(self, original: Floats, released: Floats, guess: Floats) -> Bools:
        half = self.sd_share * _sd(released)
        return (original >= guess - half) & (original <= guess + half)

    def _ranks_inside(self, original: Floats, released: Floats, ranked: Floats) -> Floats:  # noqa: ARG002
        return _ranks_within(released, ranked, self.sd_share * _sd(released))

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Test every record."""
        tests = self._tests(original, released, ctx)
        hit, informed, chance, constant, counted, columns, hidden, known_of = tests
        rows = np.asarray(counted.any(axis=1))
        plain, known = (float(np.asarray((x | ~counted).all(axis=1))[rows].mean()) for x in (hit, informed))
        hit = informed if known > plain else hit
        inside: Bools = np.asarray((hit | ~counted).all(axis=1))
        value = max(plain, known)
        by_chance, single = (float(np.asarray((x | ~counted).all(axis=1))[rows].mean()) for x in (chance, constant))
        per_column = {name: _share(hit[:, j], counted[:, j]) for j, name in enumerate(columns)}
        worst = _worst(per_column)
        return self.score(
            value,
            f"For {as_percent(value)} of the records the true values lie in the interval around the published ones "
            f"({as_percent(max(by_chance, single))} would by guessing).{_said(worst)}{_told(plain, known)}{tests.note}",
            per_record=inside & rows,
            **_both(plain, known, known_of),
            chance=by_chance,
            best_constant=single,
            per_column=per_column,
            **worst,
            records_tested=int(rows.sum()),
            values_hidden=hidden,
        )


class SdInterval(_PerColumnInterval, kind="sd-interval"):
    """Share of values whose published value is closer than a percentage of the standard deviation.

    A value counts when |true − published| ≤ percent · σ / 100, σ the standard deviation of the original column.
    Several columns are averaged; the worst one stands beside it (`worst`), and a requirement that names no columns is
    judged by it. Values missing in the release count as safe. Time linear.

    References
    ----------
    Catalogue R2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [1.0, 2, 9]})
    >>> dc.SdInterval(columns=["x"], percent=10)(x, y).value
    0.6666666666666666
    """

    percent: float = Field(10.0, gt=0)
    """half width of the interval, in percent of the original column's standard deviation"""

    def _disclosed(self, original: Floats, released: Floats, guess: Floats) -> Bools:  # noqa: ARG002
        half = self.percent / 100 * _sd(original)
        return np.abs(original - guess) <= half

    def _ranks_inside(self, original: Floats, released: Floats, ranked: Floats) -> Floats:
        return _ranks_within(released, ranked, self.percent / 100 * _sd(original))


class RankInterval(_PerColumnInterval, kind="rank-interval"):
    """Share of values that lie within a percentage of the ranks around the published value.

    The published values are ranked; the interval reaches from the value w ranks below to the value w ranks above the
    published one, w = percent · N / 200 rounded down; tied published values take the widest interval. Several
    columns are averaged; the worst one stands beside it (`worst`), and a requirement that names no columns is judged by
    it. Values missing in the release count as safe. Time O(n log n).

    References
    ----------
    Catalogue R1 (with the bounds of the source put right).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"x": [1.0, 2, 3, 4]})
    >>> dc.RankInterval(columns=["x"], percent=50)(x, x).value
    1.0
    """

    percent: float = Field(10.0, gt=0, le=200)
    """width of the interval, in percent of the records"""

    def _ranks_inside(self, original: Floats, released: Floats, ranked: Floats) -> Floats:  # noqa: ARG002
        return np.full(len(released), np.floor(self.percent * len(ranked) / 200 + 1e-9))

    def _disclosed(self, original: Floats, released: Floats, guess: Floats) -> Bools:
        ranked = np.sort(released[~np.isnan(released)])
        n = len(ranked)
        reach = int(np.floor(self.percent * n / 200 + 1e-9))
        lowest = places(ranked, guess)
        highest = np.maximum(places(ranked, guess, "right") - 1, 0)
        below = ranked[np.clip(lowest - reach, 0, n - 1)]
        above = ranked[np.clip(highest + reach, 0, n - 1)]
        return np.asarray((original >= below) & (original <= above) & ~np.isnan(released))


class OutlierInterval(_OnNumbers, kind="outlier-interval"):
    """Share of records with a published value close to the true one, where close means less for outliers.

    An outlier is recognized also when its values have moved. The columns are standardized, the release by its own
    moments; around each true value lies an interval of ± sd_share standard deviations times the record's robust
    Mahalanobis distance (from center and covariance of the bulk, by the minimum covariance determinant). A record
    counts when one of its published values lies inside. In the detail: `isolated`, the share of records that count and
    whose published values have no others closer than `isolation` (nobody to be confused with), and `weighted`, the
    share of all robust distances that belong to records that count. Records with a missing true value are left out,
    values missing in the release are safe. Beside it stands what a random other record's values would hit. No matrix of
    all pairs: time O(n log n), memory linear. It needs columns whose bulk does not lie in a plane.

    References
    ----------
    Templ & Meindl (2008), Privacy in Statistical Databases (RMDID1, RMDID1w, RMDID2; `dRiskRMD` of sdcMicro, whose
    `k` is 20 times `sd_share`); catalogue R3.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["income", "savings"], sd_share=0.5)(people, seed=7)
    >>> measure = dc.OutlierInterval(columns=["income", "savings"])
    >>> measure(people, noisy).value < measure(people, people).value
    True
    """

    sd_share: float = Field(0.01, gt=0)
    """half width of the interval of a record at robust distance 1, in standard deviations"""
    isolation: float = Field(0.05, ge=0)
    """distance (in standard deviations) within which another published record makes one not isolated"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Measure the distances, then test every value."""
        columns, history = self._tested(original, released), self._history(original, released)
        true, shown = (np.column_stack([data.number(name) for name in columns]) for data in (original, released))
        for name, *both in zip(columns, true.T, shown.T, strict=True):
            if not all(map(_sd, both)):
                raise DataError(f"{self.kind}: column {name!r} does not vary; leave it out")
        mean, sd = np.nanmean(true, axis=0), np.nanstd(true, axis=0, ddof=1)
        rows = np.asarray(~np.isnan(true).any(axis=1))
        x = ((true - mean) / sd)[rows]
        y = ((shown - np.nanmean(shown, axis=0)) / np.nanstd(shown, axis=0, ddof=1))[rows]
        informed, known_of = y.copy(), {}
        for j, name in enumerate(columns):
            step = history.only_step(name)
            guess = None if step is None else _without_noise(shown[:, j], step)
            if step is not None and guess is not None:
                informed[:, j], known_of[name] = ((guess - mean[j]) / sd[j])[rows], step.kind
        center, covariance = robust_moments(x, ctx)
        turned = (x - center) @ whitening(covariance)
        distance = np.sqrt(np.einsum("ij,ij->i", turned, turned))
        half = self.sd_share * distance[:, None]
        near = [np.abs(part - x) < half for part in (y, informed, y[ctx.rng.permutation(len(y))])]
        plain, known, by_chance = (float(part.any(axis=1).mean()) for part in near)
        hit, value = near[1] if known > plain else near[0], max(plain, known)
        found = hit.any(axis=1)
        alone = float((found & (_nearest_other(y) > self.isolation)).mean())
        per_column = {name: float(hit[:, j].mean()) for j, name in enumerate(columns)}
        every, worst = np.zeros(len(rows), np.bool_), _worst(per_column)
        every[rows] = found
        return self.score(
            value,
            f"For {as_percent(value)} of the records a published value lies in the interval around the true one, wider "
            f"for outliers ({as_percent(by_chance)} by another record's values); {as_percent(alone)} also have nobody "
            f"near them in the release.{_said(worst)}{_told(plain, known)}",
            per_record=every,
            **_both(plain, known, known_of),
            chance=by_chance,
            isolated=alone,
            weighted=float(distance[found].sum() / distance.sum()),
            per_column=per_column,
            **worst,
            records_tested=int(rows.sum()),
            values_hidden=int(np.isnan(y).sum()),
        )


def _nearest_other(x: Floats) -> Floats:
    """Give the distance of each record to the nearest other one; infinite where a value is missing."""
    from scipy.spatial import cKDTree

    complete = ~np.isnan(x).any(axis=1)
    result = np.full(len(x), np.inf)
    if complete.sum() > 1:
        distances, _ = cKDTree(x[complete]).query(x[complete], k=2)
        result[complete] = np.asarray(distances)[:, 1]
    return result
