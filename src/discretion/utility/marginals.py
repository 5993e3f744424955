"""How far distributions moved: columns, tables of counts, and the shape of the data cloud (U12)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values
from discretion.measure import Measure, Score
from discretion.part import Columns, Scale
from discretion.utility.errors import Pair, as_codes, choose_columns, numeric_columns, read_pair, shares_of, unseen


class _Shape(Measure):
    """What measures that compare matrices of the two data sets share; the rows need not belong together."""

    columns: Columns = ()
    """numeric columns; without it, all numbers but identifiers and weights (one generalized is an error)"""

    scale: ClassVar[Scale] = "columns"
    aligned: ClassVar[bool] = False

    def _read(self, data: Dataset, columns: tuple[str, ...], name: str) -> tuple[Floats, Floats, int]:
        """Give the complete records, their shares of the weight, and how many others there are."""
        x = data.numbers(columns)
        complete = ~np.isnan(x).any(axis=1)
        shares = shares_of(data, self.kind)[complete]
        if complete.sum() < 2 or not shares.sum() > 0:
            raise DataError(f"{self.kind}: the {name} has fewer than two complete records of {', '.join(columns)}")
        x, shares = x[complete], shares / shares.sum()
        for j, column in enumerate(columns):
            weighed = x[shares > 0, j]
            if weighed.min() == weighed.max():
                raise DataError(f"{self.kind}: column {column!r} is constant in the complete records of the {name}")
        return x, shares, int((~complete).sum())


def correlation(x: Floats, shares: Floats) -> Floats:
    """Give the weighted correlation matrix."""
    away = x - shares @ x
    covariance = (away * shares[:, None]).T @ away
    sd = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(sd, sd))


class _Eigenvalues(_Shape):
    @abstractmethod
    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:
        """Give the matrix whose eigenvalues are compared."""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare eigenvalues from the largest to the smallest."""
        columns = numeric_columns(original, released, self.columns, self.kind)
        values, left_out = [], []
        for data, name in ((original, "original"), (released, "release")):
            x, shares, incomplete = self._read(data, columns, name)
            values.append(np.linalg.eigvalsh(self._matrix(x, shares, ctx, columns))[::-1])
            left_out.append(incomplete)
        before, after = values
        if before[-1] <= 1e-12 * before[0]:
            raise DataError(
                f"{self.kind}: a column of the original is determined by the others ({', '.join(columns)}), so that an "
                "eigenvalue is zero; leave one out"
            )
        relative = np.abs(before - after) / before
        value = float(relative.mean())
        note, absent = unseen(original, released, self.columns)
        return self.score(
            value,
            f"The eigenvalues of the {len(columns)} columns' correlations changed by {value:.3%} on average.{note}",
            sum=float(relative.sum()),
            original=before.tolist(),
            released=after.tolist(),
            columns=list(columns),
            incomplete_records=left_out,
            **absent,
        )


class EigenDifference(_Eigenvalues, kind="eigen-difference"):
    """Mean relative difference of the eigenvalues of the correlation matrices.

    Each data set is standardized by its own means and standard deviations, so that units and the number of records do
    not matter; |λ − λ'|/λ is averaged over the eigenvalues λ of the original, largest first (the detail has the sum,
    which other programs print). 0: the clouds have the same shape. It sees how much the columns depend on each other,
    not which ones: exchanging two columns changes nothing, nor do shifts and changes of scale. Weights count; records
    with missing values are left out and counted. Few small eigenvalues can dominate. A column that was generalized is
    no number any more and is an error. Time O(n·m²) for m columns.

    References
    ----------
    Templ & Meindl (2008), Robust statistics meets SDC; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [2.0, 1, 4, 3]})
    >>> y = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3]})
    >>> round(dc.EigenDifference(columns=["a", "b"])(x, y).value, 4)
    0.3125
    """

    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:  # noqa: ARG002
        return correlation(x, shares)


class RobustEigenDifference(_Eigenvalues, kind="robust-eigen-difference"):
    """Mean relative difference of the eigenvalues of robust correlation matrices.

    As `EigenDifference`, with the correlations of the bulk of the records (minimum covariance determinant, reweighted)
    in place of those of all: outliers, which a method may treat apart, do not decide the figure. It is blind for
    what happens to the outliers. Records stand in the order of their values, so that row order does not matter;
    the search starts at random subsets. Weights are not used by the search and are an error. Time O(n·m²) a step.

    References
    ----------
    Rousseeuw & Van Driessen (1999), Technometrics 41; Templ & Meindl (2008); catalogue U12.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame(np.random.default_rng(1).normal(size=(200, 2)), schema=["a", "b"])
    >>> dc.RobustEigenDifference(columns=["a", "b"])(x, x).value
    0.0
    """

    support_share: float | None = Field(None, gt=0.5, le=1)
    """share of the records that the ellipse is fitted to; without it, the smallest that is safe (about half)"""

    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:
        if not np.allclose(shares, shares[0], rtol=1e-9):
            raise DataError(f"{self.kind}: it cannot use weights; leave the role `weight` out or use eigen-difference")
        import warnings

        from sklearn.covariance import MinCovDet

        z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
        z = z[np.lexsort(z.T[::-1])]
        ctx.progress(0, 1, ctx.step)
        seed = int(ctx.rng.integers(2**31 - 1))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found: Any = MinCovDet(support_fraction=self.support_share, random_state=seed).fit(z)
        except (ValueError, Warning):
            raise DataError(
                f"{self.kind}: columns {', '.join(columns)}: more than half of the records lie on one plane (many "
                "equal values, or columns that determine each other), so that no ellipse fits; leave a column out"
            ) from None
        sd = np.sqrt(np.diag(found.covariance_))
        return np.asarray(found.covariance_ / np.outer(sd, sd))


class CorrelationChange(_Shape, kind="correlation-change"):
    """Distance between the diagonals of the inverse correlation matrices, between 0 and 1.

    The diagonal of the inverse correlation matrix says how well each column is explained by all others together (its
    entries are 1/(1 − R²)). Both diagonals are scaled to length one; the value is their distance divided by √2. Only
    the pattern counts: when all columns become less dependent alike, or there is no dependence on either side, the
    value is 0, and for weak dependence it is close to 0 whatever happened. Weights count; records with missing
    values are left out. Time O(n·m²).

    References
    ----------
    Młodak (2020), Information loss resulting from statistical disclosure control; IL_correl of sdcMicro; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3], "c": [5.0, 1, 2, 6]})
    >>> dc.CorrelationChange(columns=["a", "b", "c"])(x, x).value
    0.0
    """

    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare the scaled diagonals."""
        columns = numeric_columns(original, released, self.columns, self.kind)
        if len(columns) < 2:
            raise DataError(f"{self.kind}: it needs at least two columns")
        diagonals = []
        for data, name in ((original, "original"), (released, "release")):
            x, shares, _ = self._read(data, columns, name)
            matrix = correlation(x, shares)
            if np.linalg.cond(matrix) > 1e13:
                raise DataError(f"{self.kind}: a column of the {name} is determined by the others; leave one out")
            diagonal = np.diag(np.linalg.inv(matrix))
            diagonals.append(diagonal)
        a, b = (d / np.sqrt((d**2).sum()) for d in diagonals)
        value = min(float(np.sqrt(((a - b) ** 2).sum() / 2)), 1.0)
        note, absent = unseen(original, released, self.columns)
        return self.score(
            value,
            f"How well each column is explained by the others changed by {value:.3g} (0: the same pattern).{note}",
            original=dict(zip(columns, map(float, diagonals[0]), strict=True)),
            released=dict(zip(columns, map(float, diagonals[1]), strict=True)),
            **absent,
        )


# How wrong are counts that a user asks for? (U12)


class RangeQueries(Measure, kind="range-queries"):
    """Mean relative error of random range counts.

    Each query takes `size` columns and counts the records whose numbers lie between two values of the original and
    whose categories belong to a random set; the ranges are drawn such that a query expects the share `selectivity` of
    the records if the columns were independent. The error |p − q|/max(p, floor) compares the shares of both files;
    the floor (`floor_share`) keeps queries that hardly anybody answers from deciding the figure. Weights of each file
    count, missing answers no query. The detail has the median and the 95th percentile of the errors. The value
    is random; the same seed asks the same queries. It sees counts only. A generalized column answers no query about
    its old values: compare with the original generalized alike. Time O(queries·n).

    References
    ----------
    LeFevre, DeWitt & Ramakrishnan (2006), ICDE; Xiao & Tao (2006), VLDB; catalogue U12.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": np.arange(100.0)})
    >>> dc.RangeQueries(columns=["a"])(x, x).value
    0.0
    """

    columns: Columns = ()
    """columns the queries may use; without it, all but identifiers and weights"""
    queries: int = Field(500, ge=1)
    """number of queries"""
    size: int = Field(2, ge=1)
    """columns in a query (all columns, if there are fewer)"""
    selectivity: float = Field(0.1, gt=0, lt=1)
    """share of the records that a query selects if its columns were independent"""
    floor_share: float = Field(0.001, gt=0, lt=1)
    """errors of smaller counts are divided by this share of the records"""

    scale: ClassVar[Scale] = "columns"
    aligned: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Ask the same questions of both."""
        columns = choose_columns(original, released, self.columns, self.kind)
        pairs = [read_pair(original, released, name) for name in columns]
        before, after = shares_of(original, self.kind), shares_of(released, self.kind)
        ladders = [_ladder(pair) for pair in pairs]
        usable = [j for j, ladder in enumerate(ladders) if len(ladder)]
        if not usable:
            raise DataError(f"{self.kind}: no column of the original has a value")
        rng = ctx.rng
        count = min(self.size, len(usable))
        width = self.selectivity ** (1 / count)
        truth, answer = np.empty(self.queries), np.empty(self.queries)
        for number in range(self.queries):
            if number % 16 == 0:
                ctx.progress(number, self.queries, ctx.step)
            chosen = np.sort(rng.choice(usable, count, replace=False))
            first, second = np.ones(len(original), np.bool_), np.ones(len(released), np.bool_)
            for j in chosen:
                in_first, in_second = _ask(pairs[j], ladders[j], width, rng)
                first &= in_first
                second &= in_second
            truth[number], answer[number] = before[first].sum(), after[second].sum()
        errors = np.abs(truth - answer) / np.maximum(truth, self.floor_share)
        errors[np.abs(truth - answer) < 1e-12] = 0.0
        value = float(errors.mean())
        return self.score(
            value,
            f"{self.queries} random counts over {count} columns are off by {value:.1%} of their size on average "
            f"(half of them by at most {np.median(errors):.1%}).",
            median=float(np.median(errors)),
            percentile_95=float(np.quantile(errors, 0.95)),
            mean_share=float(truth.mean()),
            queries=self.queries,
            below_floor=int((truth < self.floor_share).sum()),
        )


def _ladder(pair: Pair) -> Floats:
    """Give the original's values in ascending order: numbers, or the categories that occur."""
    if isinstance(pair.original, Numbers):
        return np.sort(pair.original.values[~pair.original.missing])
    return np.unique(pair.original.codes[~pair.original.missing]).astype(np.float64)


def _ask(pair: Pair, ladder: Floats, width: float, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Draw a condition on a column and tell who meets it."""
    if isinstance(pair.original, Numbers):
        start = rng.uniform(0, 1 - width)
        last = len(ladder) - 1
        low, high = ladder[round(start * last)], ladder[round((start + width) * last)]
        first, second = (_between(side, float(low), float(high)) for side in (pair.original, pair.released))
        return first, second
    size = max(1, round(width * len(ladder)))
    wanted = rng.choice(ladder, size, replace=False)
    first, second = (_among(side, wanted) for side in (pair.original, pair.released))
    return first, second


def _between(side: Values, low: float, high: float) -> Bools:
    values = side.values if isinstance(side, Numbers) else np.full(len(side.codes), np.nan)
    return np.asarray((values >= low) & (values <= high))


def _among(side: Values, wanted: Floats) -> Bools:
    codes = side.codes if isinstance(side, Labels) else np.full(len(side.values), -1)
    return np.isin(codes, wanted.astype(np.int64))


# How far tables of counts moved (U12).

_SHOWN = 20


class Contingency(Measure, kind="contingency"):
    """Mean difference between the tables of counts of the original and of the release.

    All tables of `ways` columns are compared. With p and q the shares of a cell: `absolute` is ½Σ|p − q| (the share
    of records in other cells), `root` is √(½Σ(√p − √q)²) (Hellinger's distance: small cells weigh more), both between 0
    and 1; `relative` is the mean of |p − q|/p over the cells the original has. The value is the mean over the
    tables. The detail has the worst tables, and for each the means over its cells on the scale of counts (|o − s|,
    |o − s|/o, |√o − √s|), cells that lost all records (`false_zero`) and cells that the original does not have
    (`false_nonzero`). Numbers are cut into `bins` at the original's quantiles. Weights of each file count;
    missing is a category. With many cells and few records most of the difference is chance: two samples from one
    population differ by about √((cells − 1)/(π·n)) in `absolute`. A generalized column has other labels: compare with
    the original generalized alike. Time O(n) per table.

    References
    ----------
    Raab, Nowok & Dibben (2021), Assessing, visualizing and improving the utility of synthetic data; infoLoss of
    sdcMicro; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": ["u", "u", "v", "v"], "b": ["k", "l", "k", "l"]})
    >>> y = pl.DataFrame({"a": ["u", "u", "v", "v"], "b": ["k", "k", "l", "l"]})
    >>> dc.Contingency(columns=["a", "b"], ways=1)(x, y).value, dc.Contingency(columns=["a", "b"])(x, y).value
    (0.0, 0.5)
    """

    columns: Columns = ()
    """columns of the tables; without it, all but identifiers and weights"""
    ways: int = Field(2, ge=1, le=3)
    """columns in a table"""
    difference: Literal["absolute", "relative", "root"] = "absolute"
    """the difference that is averaged"""
    bins: int = Field(5, ge=2)
    """bins for numbers, at the original's quantiles"""

    scale: ClassVar[Scale] = "columns"
    aligned: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count and compare every table."""
        columns = choose_columns(original, released, self.columns, self.kind)
        if len(columns) < self.ways:
            raise DataError(f"{self.kind}: {len(columns)} columns are too few for tables of {self.ways}")
        before, after = shares_of(original, self.kind), shares_of(released, self.kind)
        coded = {n: as_codes(read_pair(original, released, n), before, self.bins) for n in columns}
        tables = list(combinations(columns, self.ways))
        found: list[tuple[str, dict[str, Any]]] = []
        for number, names in enumerate(tables):
            ctx.progress(number, len(tables), ctx.step)
            p, q = _cells([coded[name] for name in names], before, after)
            found.append((" × ".join(names), compare_cells(p, q, len(original))))
        value = float(np.mean([figures[self.difference] for _, figures in found]))
        found.sort(key=lambda item: (-item[1][self.difference], item[0]))
        worst, figures = found[0]
        return self.score(
            value,
            f"Tables of {self.ways} columns differ by {value:.3g} on average ({self.difference}; 0: the same), most "
            f"{worst} ({figures[self.difference]:.3g}).",
            difference=self.difference,
            tables=len(found),
            worst_tables=dict(found[:_SHOWN]),
        )


def pair_differences(original: Dataset, released: Dataset, columns: Sequence[str], bins: int = 5) -> list[list[float]]:
    """Give ½Σ|p − q| of the table of every pair of columns: row i has those with columns 0 … i−1."""
    before, after = (np.full(len(data), 1 / len(data)) for data in (original, released))
    coded = [as_codes(read_pair(original, released, name), before, bins) for name in columns]
    return [
        [float(np.abs(np.subtract(*_cells([coded[i], coded[j]], before, after))).sum() / 2) for j in range(i)]
        for i in range(len(columns))
    ]


def _cells(coded: list[tuple[Ints, Ints, int]], before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Give the shares of all cells that occur in either data set."""
    from discretion.kernels.classes import class_ids

    stacked = [np.concatenate([first, second]) for first, second, _ in coded]
    found = class_ids(stacked, [size for _, _, size in coded])
    cells = len(found.counts)
    ids = found.ids
    first, second = ids[: len(before)], ids[len(before) :]
    return np.asarray(np.bincount(first, before, cells), float), np.asarray(np.bincount(second, after, cells), float)


def compare_cells(p: Floats, q: Floats, records: int) -> dict[str, Any]:
    """Give the differences of a table; `records` turns shares into counts on the scale of the original."""
    has = p > 0
    gap = np.abs(p - q)
    roots = np.abs(np.sqrt(p) - np.sqrt(q))
    return {
        "absolute": float(gap.sum() / 2),
        "relative": float((gap[has] / p[has]).mean()),
        "root": float(np.sqrt((roots**2).sum() / 2)),
        "cells": len(p),
        "mean_absolute_count": float(gap.mean() * records),
        "mean_root_count": float(roots.mean() * np.sqrt(records)),
        "false_zero": int((has & (q == 0)).sum()),
        "false_nonzero": int((~has & (q > 0)).sum()),
    }


class Marginals(Measure, kind="marginals"):
    """Mean distance between the original's and the release's distribution of each column, between 0 and 1.

    Distances: `hellinger` √(1 − Σ√(p·q)), `total-variation` ½Σ|p − q|, `kolmogorov` max|F − G|, `wasserstein`
    ∫|F − G| divided by the range. The first two cut numbers into bins at the original's quantiles; the last two need
    an order, and for categories are the total variation. Missing counts as a category, for `kolmogorov` as a
    value above all others. `wasserstein` is (1 − m)·W + |a − b|, where a and b are the shares of missing values, m the
    larger of them, and W the distance of the distributions of the values that are there, divided by the range of both
    files together: a value that went missing counts as moved by that whole range. All four stand in the detail for
    each column. Weights of each file count. A generalized column has other labels and is at distance 1: compare with
    the original generalized alike to see what else changed. Dependence between columns is not seen (`Contingency`,
    `Propensity`). A file of n records differs from its own population by about 1/√n. Time O(n·log n) per column.

    References
    ----------
    Domingo-Ferrer & Torra (2001); Hellinger (1909); catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"a": ["u", "u", "v", "v"]}), pl.DataFrame({"a": ["u", "v", "v", "v"]})
    >>> dc.Marginals(columns=["a"], distance="total-variation")(x, y).value
    0.25
    """

    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""
    distance: Literal["hellinger", "total-variation", "kolmogorov", "wasserstein"] = "hellinger"
    """the distance that is averaged"""
    bins: int = Field(20, ge=2)
    """bins for numbers, at the original's quantiles"""

    scale: ClassVar[Scale] = "columns"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare each column on its own."""
        columns = choose_columns(original, released, self.columns, self.kind)
        shares = shares_of(original, self.kind), shares_of(released, self.kind)
        per_column = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), ctx.step)
            per_column[name] = _distances(read_pair(original, released, name), *shares, self.bins)
        value = float(np.mean([figures[self.distance] for figures in per_column.values()]))
        worst = max(per_column, key=lambda name: per_column[name][self.distance])
        return self.score(
            value,
            f"The distributions of the columns moved by {value:.3g} on average ({self.distance}; 0: the same, 1: "
            f"nothing in common), most for {worst} ({per_column[worst][self.distance]:.3g}).",
            distance=self.distance,
            per_column=per_column,
        )


def _distances(pair: Pair, before: Floats, after: Floats, bins: int) -> dict[str, float]:
    first, second, size = as_codes(pair, before, bins)
    p, q = np.bincount(first, before, size), np.bincount(second, after, size)
    variation = min(float(np.abs(p - q).sum() / 2), 1.0)
    figures = {
        "hellinger": float(np.sqrt(np.clip(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2, 0, 1))),
        "total-variation": variation,
        "kolmogorov": variation,
        "wasserstein": variation,
    }
    if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
        figures |= _ordered(pair.original.values, pair.released.values, before, after)
    return figures


def _ordered(x: Floats, y: Floats, before: Floats, after: Floats) -> dict[str, float]:
    """Compare two distributions of numbers by their distribution functions."""
    values = np.concatenate([x, y])
    mass = np.concatenate([before, -after])
    present = ~np.isnan(values)
    lost = float(before[np.isnan(x)].sum()), float(after[np.isnan(y)].sum())
    if not present.any():
        return {"kolmogorov": 0.0, "wasserstein": 0.0}
    ladder, place = np.unique(values[present], return_inverse=True)
    gap = np.cumsum(np.bincount(place, mass[present]))
    kolmogorov = min(float(np.abs(gap).max()), 1.0)
    if min(1 - lost[0], 1 - lost[1]) <= 1e-12 or len(ladder) == 1:
        return {"kolmogorov": kolmogorov, "wasserstein": abs(lost[0] - lost[1])}
    sides = np.concatenate([before / (1 - lost[0]), -after / (1 - lost[1])])[present]
    area = float((np.abs(np.cumsum(np.bincount(place, sides)))[:-1] * np.diff(ladder)).sum() / (ladder[-1] - ladder[0]))
    wasserstein = (1 - max(lost)) * area + abs(lost[0] - lost[1])
    return {"kolmogorov": kolmogorov, "wasserstein": min(max(wasserstein, 0.0), 1.0)}
