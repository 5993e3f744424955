"""Microaggregation of sorted values: each column on its own (P15), or all along one axis (P16)."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Decision, Purpose
from discretion.part import Columns, Scale
from discretion.protect.microaggregation_groups import (
    AggregatesGroups,
    Encoded,
    Microaggregation,
    labels_by_pattern,
    publish,
    require_k,
    values_of,
)
from discretion.protect.ordered import mixed_order

# Microaggregation along one axis: sort the records by a projection and cut (P16).

_ROBUST_ROWS = 10_000
"""The robust covariance is computed on at most this many records, drawn at random, to bound its time."""


class ProjectionMicroaggregation(Microaggregation, kind="projection-microaggregation"):
    """Replace values by the mean of k records that follow each other along one axis through the data.

    The records are sorted by their first principal component (of the columns divided by their standard deviation, its
    sign such that the first column counts positively) and cut into groups of k, the last of k to 2k−1. `axis: robust`
    takes the component of a robust covariance (minimum covariance determinant), which outliers do not turn, and
    `axis: z-scores` the sum of the standardized values; `sort_by` sorts by a column instead. Much faster than `Mdav`,
    and loses more the less one axis says about all columns. No axis keeps apart what lies beside it: outliers that
    project among ordinary records share groups with them and spoil their means, also with `axis: robust`.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all values are replaced; with
    `replace: one` it does not hold. Does not protect against attribute disclosure inside a group. Means of the columns
    hold exactly (with `aggregate: mean`, all values replaced, nothing suppressed).

    Missing values are treated as by `Mdav`: records are grouped with those that miss the same columns, and rare
    patterns are suppressed. The robust covariance starts from random subsets of at most 10,000 records, so that another
    seed may give other groups. Of equal records cut in two, a keyed mix of their place in the file says which go where.
    Time O(n log n), memory linear.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1), single-axis methods; Rousseeuw & Van Driessen (1999),
    Technometrics 41(3); Templ (2008), TDP 1(2); catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> data = pl.DataFrame({"a": [1.0, 9.0, 2.0, 8.0], "b": [10.0, 50.0, 20.0, 60.0]})
    >>> dc.ProjectionMicroaggregation(columns=["a", "b"], k=2)(data).rows()
    [(1.5, 15.0), (8.5, 55.0), (1.5, 15.0), (8.5, 55.0)]
    """

    axis: Literal["component", "robust", "z-scores"] = "component"
    """what records are sorted by: first principal component, the same of a robust covariance, or the sum of z-scores"""
    sort_by: str | None = None
    """a numeric column to sort by instead of an axis; it need not be one of `columns`"""

    scale: ClassVar[Scale] = "columns"
    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are exact where groups are replaced by their means; variances are too small, correlations too large, "
        "tails and percentiles smoothed."
    )
    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of records that follow each other along one axis, so "
        "that no record can be told from the others of its group by these columns (unless the settings say that one "
        "value per group was replaced)."
    )

    @model_validator(mode="after")
    def _one_order(self) -> Self:
        if self.sort_by is not None and self.axis != "component":
            raise ValueError("give `axis` or `sort_by`, not both")
        return self

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and to sort by, and those that form groups."""
        return (*super().holds(data), *([self.sort_by] if self.sort_by else []))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Sort, cut, and replace the values."""
        if self.sort_by is None:
            return super().rewrite(data, decision, ctx)
        columns = data.choose(self.columns, "perturb")
        if data.count_missing(self.sort_by):
            raise DataError(f"column {self.sort_by!r} has missing values; records cannot be sorted by it")
        x = np.column_stack([data.numbers(columns), data.number(self.sort_by)])
        members = labels_by_pattern(x, columns, self.k, lambda part: _cut(part[:, -1], self.k, ctx))
        encoded = [Encoded(name, "number", data.number(name)) for name in columns]
        values = values_of(data, encoded, members, self.aggregate, self.replace)
        new = publish(data, values, members, self.replace, self.integers or self.aggregate == "mode", ctx)
        return self.in_precision(data, new, columns)

    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group complete records."""
        ctx.progress(0, len(x), ctx.step)
        center, spread = x.mean(axis=0), x.std(axis=0)
        direction = np.ones(x.shape[1])
        if self.axis == "component" and x.shape[1] > 1:
            z = (x - center) / np.where(spread > 0, spread, 1.0)
            direction = _first_component(z.T @ z)
        elif self.axis == "robust" and x.shape[1] > 1:
            center, spread, direction = _robust(x, spread, ctx)
        score = np.zeros(len(x))
        for j in range(x.shape[1]):  # column by column: the same numbers for the same record, wherever it stands
            ctx.progress(0, len(x), ctx.step)
            score += (x[:, j] - center[j]) * (direction[j] / spread[j] if spread[j] > 0 else 0.0)
        return _cut(score, self.k, ctx)


def _cut(score: Floats, k: int, ctx: Context) -> NDArray[np.signedinteger]:
    from discretion.kernels.microaggregate import cut_labels, fixed_bounds

    return cut_labels(fixed_bounds(len(score), k), mixed_order(score, None, ctx)[1])


def _first_component(covariance: Floats) -> Floats:
    """Give the eigenvector of the largest eigenvalue, with a positive first entry."""
    vector = np.linalg.eigh(covariance)[1][:, -1]
    first = vector[np.flatnonzero(np.abs(vector) > 1e-12)[0]]
    return np.asarray(vector * np.sign(first))


def _robust(x: Floats, spread: Floats, ctx: Context) -> tuple[Floats, Floats, Floats]:
    """Give robust centers and spreads, and the first component of the robust correlation."""
    from sklearn.covariance import MinCovDet

    varied = np.flatnonzero(spread > 0)
    center, scale, direction = x.mean(axis=0), spread.copy(), np.ones(x.shape[1])
    if len(varied) < 2:
        return center, scale, direction
    if len(x) < 2 * (len(varied) + 1):
        raise DataError(f"{len(x)} records are too few for a robust covariance of {len(varied)} columns")
    rng = ctx.rng
    rows = np.sort(rng.choice(len(x), _ROBUST_ROWS, replace=False)) if len(x) > _ROBUST_ROWS else np.arange(len(x))
    z = (x[np.ix_(rows, varied)] - center[varied]) / spread[varied]
    ranked, half = np.sort(z, axis=0), len(z) // 2
    if (ranked[half:] == ranked[: len(z) - half]).any():
        raise DataError("more than half of the records agree in one column; a robust covariance does not exist")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that half of the records lie on a plane, which is no fault here
        fit = MinCovDet(random_state=int(rng.integers(2**31))).fit(z)
    variance = np.diag(fit.covariance_)
    sd = np.sqrt(np.where(variance > 0, variance, 1.0))
    center[varied] += fit.location_ * spread[varied]
    scale[varied] = spread[varied] * sd
    direction[varied] = _first_component(fit.covariance_ / np.outer(sd, sd))
    return center, scale, direction


class _ColumnByColumn(AggregatesGroups):
    """A method that sorts each column, cuts it into groups and replaces the values of each group."""

    columns: Columns = ()
    """numeric columns, each aggregated on its own; without it, the numeric quasi-identifiers and sensitive columns"""

    scale: ClassVar[Scale] = "columns"
    effect: ClassVar[str] = (
        "Means are exact and the distribution of the column is nearly so; variances are a little too small."
    )
    guarantee: ClassVar[str] = (
        "Each value was replaced by what stands for a small group of neighboring values, column by column (unless the "
        "settings say that one value per group was replaced); over several columns together, records can still be told "
        "apart."
    )

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Cut each sorted column and replace the values present."""
        columns = data.choose(self.columns, "perturb")
        plain = self.aggregate == "mean" and self.replace == "all"
        before, new = data, dict[str, Floats]()
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{ctx.step}: {name}")
            missing = data.count_missing(name)
            present = np.flatnonzero(~np.isnan(data.number(name))) if missing else None
            require_k(len(data) - missing, self.k, [name])
            if plain:
                new[name] = self._means(data.number(name), present, ctx.within(name))
            else:
                data = self._aggregated(data, name, present, ctx)
        ctx.progress(len(columns), len(columns), ctx.step)
        return self.in_precision(before, data.with_columns(new, integers=self.integers) if plain else data, columns)

    def _means(self, x: Floats, present: Ints | None, ctx: Context) -> Floats:
        """Give each value the mean of its group, without listing the groups."""
        from discretion.kernels.microaggregate import replace_by_mean

        ranked, rows = mixed_order(x, present, ctx)
        if present is None:
            return replace_by_mean(ranked, self._bounds(ranked), rows)
        filled = np.full(len(x), np.nan)
        filled[present] = replace_by_mean(ranked, self._bounds(ranked), np.searchsorted(present, rows))
        return filled

    def _aggregated(self, data: Dataset, name: str, present: Ints | None, ctx: Context) -> Dataset:
        """Replace the values of one column by what stands for their groups."""
        from discretion.kernels.microaggregate import cut_labels, group_members

        x = data.number(name)
        ranked, rows = mixed_order(x, present, ctx.within(name))
        if present is None:
            labels = cut_labels(self._bounds(ranked), rows)
        else:
            labels = np.full(len(x), -1)
            labels[present] = cut_labels(self._bounds(ranked), np.searchsorted(present, rows))
        members = group_members(labels)
        values = values_of(data, [Encoded(name, "number", x)], members, self.aggregate, self.replace)
        return publish(data, values, members, self.replace, self.integers or self.aggregate == "mode", ctx)

    @abstractmethod
    def _bounds(self, ranked: Floats) -> Ints:
        """Cut sorted values into groups: the first position of each, and the number of values at the end."""


class IndividualRanking(_ColumnByColumn, kind="individual-ranking"):
    """Replace each value by the mean of k neighboring values, each column on its own.

    Each column is sorted and cut into groups of k; the last group has k to 2k−1. Guarantees that each published value
    of a column is shared by at least k records, when all values are replaced. Does *not* give k-anonymity over several
    columns: each is grouped on its own, and the combination of a record's values stays nearly unique. Keeps the
    columns' distributions best of all microaggregation, and protects least: a value lies between its neighbors. Means
    hold exactly with `aggregate: mean`. Equal values may stand on both sides of a cut; a keyed mix of their place in
    the file says which. Missing values stay missing. Time O(n), memory linear.

    References
    ----------
    Defays & Nanopoulos (1993); Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1); catalogue P15.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.IndividualRanking(columns=["age"], k=3)(ages)["age"].to_list()
    [39.333333333333336, 21.0, 58.5, 21.0, 21.0, 58.5, 39.333333333333336, 39.333333333333336, 58.5, 58.5]
    """

    purpose: ClassVar[Purpose] = "hide exact numbers"

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.microaggregate import fixed_bounds

        return fixed_bounds(len(ranked), self.k)


class OptimalMicroaggregation(_ColumnByColumn, kind="optimal-microaggregation"):
    """Replace each value by the mean of its group, each column on its own, with the least possible squared error.

    The groups of at least k consecutive values that minimize the sum of squared errors are found exactly. Guarantees
    that each published value of a column is shared by at least k records, when all values are replaced. Does *not* give
    k-anonymity over several columns: each is grouped on its own. The groups are those that are best for the mean; with
    `aggregate: median` or `mode` they are the same. Of equal values cut in two, a keyed mix of their place in the file
    says which go where. Missing values stay missing. Time O(n log n + k·n), memory linear.

    References
    ----------
    Hansen & Mukherjee (2003), IEEE TKDE 15(4); catalogue P15.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.OptimalMicroaggregation(columns=["age"], k=3)(ages)["age"].to_list()
    [46.0, 23.25, 46.0, 23.25, 23.25, 61.333333333333336, 23.25, 46.0, 61.333333333333336, 61.333333333333336]
    """

    purpose: ClassVar[Purpose] = "hide exact numbers"

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.microaggregate import optimal_bounds

        return optimal_bounds(ranked, self.k)
