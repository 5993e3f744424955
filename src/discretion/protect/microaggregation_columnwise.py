"""Microaggregation of each column on its own (P15): no k-anonymity over several columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns
from discretion.protect.microaggregation_groups import require_k

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _ColumnByColumn(StratifiedMethod):
    """A method that sorts each column, cuts it into groups and replaces the values of each group."""

    columns: Columns = ()
    """numeric columns, each aggregated on its own; without it, the numeric quasi-identifiers and sensitive columns"""
    k: int = Field(3, ge=2)
    """smallest group size"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""

    by_group: ClassVar[bool] = True

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Cut each sorted column and replace the values present."""
        from discretion.kernels.order import sorted_with_order

        columns = data.choose(self.columns, "perturb")
        new: dict[str, Floats] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{ctx.step}: {name}")
            x = data.number(name)
            present = ~np.isnan(x) if data.count_missing(name) else None
            values = x if present is None else x[present]
            require_k(len(values), self.k, [name])
            ranked, order = sorted_with_order(values)
            released = self._replace(ranked, np.asarray(order))
            if present is not None:
                filled = np.full(len(x), np.nan)
                filled[present] = released
                released = filled
            new[name] = released
        ctx.progress(len(columns), len(columns), ctx.step)
        return data.with_columns(new, integers=self.integers)

    @abstractmethod
    def _replace(self, ranked: Floats, order: NDArray[np.signedinteger]) -> Floats:
        """Give the released value of each row, from the sorted values and the row of each."""


class IndividualRanking(_ColumnByColumn, kind="individual-ranking"):
    """Replace each value by the mean of k neighboring values, each column on its own.

    Each column is sorted and cut into groups of k; the last group has k to 2k−1. Guarantees that each published value
    of a column is shared by at least k records. Does *not* give k-anonymity over several columns: each is grouped on
    its own, and the combination of a record's values stays nearly unique. Keeps the columns' distributions best of all
    microaggregation, and protects least: a value lies between its neighbors. Means hold exactly with `aggregate: mean`.
    Equal values may stand on both sides of a cut; the lower rows go to the lower group. Missing values stay missing.
    Time O(n), memory linear.

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

    aggregate: Literal["mean", "median"] = "mean"
    """what stands for a group: its mean or its median"""

    guarantee: ClassVar[str] = (
        "Each value was replaced by what stands for a small group of neighboring values, column by column; over "
        "several columns together, records can still be told apart."
    )

    def _replace(self, ranked: Floats, order: NDArray[np.signedinteger]) -> Floats:
        from discretion.kernels.groups import fixed_bounds
        from discretion.kernels.univariate import replace_by_mean

        bounds = fixed_bounds(len(ranked), self.k)
        if self.aggregate == "mean":
            return replace_by_mean(ranked, bounds, order)
        low, high = (bounds[:-1] + bounds[1:] - 1) // 2, (bounds[:-1] + bounds[1:]) // 2
        medians = ranked[low] + (ranked[high] - ranked[low]) / 2
        out = np.empty(len(ranked))
        out[order] = np.repeat(medians, np.diff(bounds))
        return out


class OptimalMicroaggregation(_ColumnByColumn, kind="optimal-microaggregation"):
    """Replace each value by the mean of its group, each column on its own, with the least possible squared error.

    The groups of at least k consecutive values that minimise the sum of squared errors are found exactly. Guarantees
    that each published value of a column is shared by at least k records. Does *not* give k-anonymity over several
    columns: each is grouped on its own. Missing values stay missing. Time O(n log n + k·n), memory linear.

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
        "Each value was replaced by the mean of a small group of neighboring values, column by column; over several "
        "columns together, records can still be told apart."
    )

    def _replace(self, ranked: Floats, order: NDArray[np.signedinteger]) -> Floats:
        from discretion.kernels.univariate import optimal_bounds, replace_by_mean

        return replace_by_mean(ranked, optimal_bounds(ranked, self.k), order)
