"""Microaggregation of each column on its own (P15): no k-anonymity over several columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Decision
from discretion.part import Columns
from discretion.protect.microaggregation_columns import Encoded
from discretion.protect.microaggregation_groups import AggregatesGroups, publish, require_k, values_of
from discretion.protect.ordered import mixed_order


class _ColumnByColumn(AggregatesGroups):
    """A method that sorts each column, cuts it into groups and replaces the values of each group."""

    columns: Columns = ()
    """numeric columns, each aggregated on its own; without it, the numeric quasi-identifiers and sensitive columns"""

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Cut each sorted column and replace the values present."""
        columns = data.choose(self.columns, "perturb")
        plain = self.aggregate == "mean" and self.replace == "all"
        new: dict[str, Floats] = {}
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
        return data.with_columns(new, integers=self.integers) if plain else data

    def _means(self, x: Floats, present: Ints | None, ctx: Context) -> Floats:
        """Give each value the mean of its group, without listing the groups."""
        from discretion.kernels.univariate import replace_by_mean

        ranked, rows = mixed_order(x, present, ctx)
        if present is None:
            return replace_by_mean(ranked, self._bounds(ranked), rows)
        filled = np.full(len(x), np.nan)
        filled[present] = replace_by_mean(ranked, self._bounds(ranked), np.searchsorted(present, rows))
        return filled

    def _aggregated(self, data: Dataset, name: str, present: Ints | None, ctx: Context) -> Dataset:
        """Replace the values of one column by what stands for their groups."""
        from discretion.kernels.groups import cut_labels, group_members

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

    guarantee: ClassVar[str] = (
        "Each value was replaced by what stands for a small group of neighboring values, column by column (unless the "
        "settings say that one value per group was replaced); over several columns together, records can still be told "
        "apart."
    )

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.groups import fixed_bounds

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

    guarantee: ClassVar[str] = (
        "Each value was replaced by what stands for a small group of neighboring values, column by column (unless the "
        "settings say that one value per group was replaced); over several columns together, records can still be told "
        "apart."
    )

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.univariate import optimal_bounds

        return optimal_bounds(ranked, self.k)
