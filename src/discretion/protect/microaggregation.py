"""Microaggregation: records are published as the mean of a small group of similar ones (P15, P16)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Mdav(StratifiedMethod, kind="mdav"):
    """Replace each record's values by the mean of its group of at least k similar records.

    Groups of k to 2k−1 records are built by MDAV: the record farthest from the center and its k−1 nearest form a
    group, then the record farthest from that one and its nearest, until fewer than 3k are left. Distances are
    Euclidean on columns divided by their standard deviation. Guarantees k-anonymity over `columns` taken together
    (and only over these). Means of the columns hold exactly; variances shrink. Does not protect against attribute
    disclosure inside a group: similar records have similar secrets.

    Records with missing values are grouped with those that miss the same columns. Where fewer than k records share a
    pattern of missing values, their values in these columns are suppressed, so that the guarantee holds. Ties go to
    the lowest row. Time about O(n log n) for few columns, memory linear in n.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1); Domingo-Ferrer & Torra (2005), DMKD 11; catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.Mdav(columns=["age"], k=3)(ages)["age"].round(2).to_list()
    [42.0, 21.0, 42.0, 21.0, 21.0, 61.33, 42.0, 42.0, 61.33, 61.33]
    """

    columns: Columns = ()
    """numeric columns to aggregate together; without it, the numeric quasi-identifiers and sensitive columns"""
    k: int = Field(3, ge=2)
    """smallest group size"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""

    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Records were published as means of small groups of similar records, so that no record can be told from the "
        "others of its group by these columns; the group's average is still close to each member."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Group the records and replace their values by the group means."""
        columns = data.choose(self.columns, "perturb")
        x = data.numbers(columns)
        _require_k(len(x), self.k, columns)
        missing = np.isnan(x)
        if not missing.any():
            return data.with_columns(_by_name(columns, mdav_means(x, self.k, ctx)), integers=self.integers)
        hidden = _hide_rare_patterns(x, missing, self.k)
        missing = missing | hidden[:, None]
        means = _means_by_pattern(x, missing, self.k, ctx)
        new = data.with_columns(_by_name(columns, means), integers=self.integers)
        masks = {name: hidden & ~np.isnan(x[:, j]) for j, name in enumerate(columns)}
        return new.with_columns({}, suppressed={name: mask for name, mask in masks.items() if mask.any()})


class OptimalMicroaggregation(StratifiedMethod, kind="optimal-microaggregation"):
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

    columns: Columns = ()
    """numeric columns, each aggregated on its own; without it, the numeric quasi-identifiers and sensitive columns"""
    k: int = Field(3, ge=2)
    """smallest group size"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""

    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Each value was replaced by the mean of a small group of neighboring values, column by column."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Cut each sorted column at the optimal bounds."""
        from discretion.kernels.order import sorted_with_order
        from discretion.kernels.univariate import optimal_bounds, replace_by_mean

        columns = data.choose(self.columns, "perturb")
        new: dict[str, Any] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{ctx.step}: {name}")
            x = data.number(name)
            present = ~np.isnan(x) if data.count_missing(name) else None
            values = x if present is None else x[present]
            _require_k(len(values), self.k, [name])
            ranked, order = sorted_with_order(values)
            means = replace_by_mean(ranked, optimal_bounds(ranked, self.k), order)
            if present is not None:
                filled = np.full(len(x), np.nan)
                filled[present] = means
                means = filled
            new[name] = means
        ctx.progress(len(columns), len(columns), ctx.step)
        return data.with_columns(new, integers=self.integers)


def mdav_means(x: Floats, k: int, ctx: Context) -> Floats:
    """Give each record the mean of its MDAV group; complete columns only."""
    from discretion.kernels.mdav import group_means, mdav_groups
    from discretion.kernels.order import sorted_with_order
    from discretion.kernels.univariate import mdav_bounds, replace_by_mean

    if x.shape[1] == 1:
        ranked, order = sorted_with_order(x[:, 0])
        return replace_by_mean(ranked, mdav_bounds(ranked, k, order), order).reshape(-1, 1)
    sd = x.std(axis=0)
    groups = mdav_groups(x / np.where(sd > 0, sd, 1.0), k, ctx.progress)
    return group_means(x, groups, int(groups.max()) + 1)


def _by_name(columns: tuple[str, ...], values: Floats) -> dict[str, Floats]:
    return {name: np.ascontiguousarray(values[:, j]) for j, name in enumerate(columns)}


def _require_k(rows: int, k: int, columns: tuple[str, ...] | list[str]) -> None:
    if rows < k:
        raise DataError(f"k = {k} is larger than the {rows} records with values in {', '.join(columns)}")


def _hide_rare_patterns(x: Floats, missing: Bools, k: int) -> Bools:
    """Choose the records whose values must be suppressed so that every pattern of missing values has k records."""
    _, pattern, counts = np.unique(missing, axis=0, return_inverse=True, return_counts=True)
    pattern = pattern.ravel()
    empty = missing.all(axis=1)
    hidden: Bools = (counts < k)[pattern] & ~empty
    lacking = k - int((hidden | empty).sum())
    if not (hidden | empty).any() or lacking <= 0:
        return hidden
    largest = (pattern == counts.argmax()) & ~hidden & ~empty
    if largest.sum() - lacking < k:
        raise DataError(f"too few records with values to build groups of k = {k} beside those with missing values")
    rows = np.flatnonzero(largest)
    seen = ~missing[rows[0]]
    part = x[np.ix_(rows, np.flatnonzero(seen))]
    spread = part.std(axis=0)
    distance = (((part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) ** 2).sum(axis=1)
    hidden[rows[np.argsort(-distance, kind="stable")[:lacking]]] = True
    return hidden


def _means_by_pattern(x: Floats, missing: Bools, k: int, ctx: Context) -> Floats:
    out = np.full(x.shape, np.nan)
    patterns, pattern = np.unique(missing, axis=0, return_inverse=True)
    for number, absent in enumerate(patterns):
        if absent.all():
            continue
        place = np.ix_(pattern.ravel() == number, ~absent)
        out[place] = mdav_means(np.ascontiguousarray(x[place]), k, ctx)
    return out
