"""Rank swapping: values change places with values of nearby rank (P13, P14)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import BATCH_ROWS, Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, Scale, confidential
from discretion.protect.ordered import mixed_order, ordered

if TYPE_CHECKING:
    import polars as pl

Permute = Callable[[int, int, Floats], NDArray[Any]]
"""From (number of ranks, ranks in reach, uniforms) to the rank whose value each rank takes."""


class _Swap(StratifiedMethod):
    """What rank swapping and its variant in blocks share."""

    columns: Columns = ()
    """numbers, dates or ordered categories to swap; without it, numeric quasi-identifiers and sensitive columns"""
    percent: float = confidential(gt=0, le=100)
    """how far a value may move, in percent of the records that have one"""
    bottom_share: float = confidential(0.0, ge=0, lt=1)
    """share of the lowest values that are left out and stay where they are"""
    top_share: float = confidential(0.0, ge=0, lt=1)
    """share of the highest values that are left out and stay where they are"""

    scale: ClassVar[Scale] = "columns"
    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    _fewest: ClassVar[int] = 1
    """Ranks that must be in reach, or else nothing could move."""

    @model_validator(mode="after")
    def _something_left(self) -> Self:
        if self.bottom_share + self.top_share >= 1:
            raise ValueError("`bottom_share` and `top_share` together must be less than 1")
        return self

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to swap and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def _swap(self, data: Dataset, permute: Permute, ctx: Context) -> Dataset:
        chosen = data.choose(self.columns, "perturb")
        lines = [ordered(data, name) for name in chosen]
        for line in lines:
            line.require_spread()
        new: dict[str, Any] = {}
        for number, line in enumerate(lines):
            ctx.progress(number, len(lines), f"{ctx.step}: {line.column}")
            inner = ctx.within(line.column)
            missing = data.count_missing(line.column)
            present = np.flatnonzero(~np.isnan(line.places)) if missing else None
            order = mixed_order(line.places, present, inner)[1]
            reach = int(np.floor(self.percent * len(order) / 100 + 1e-9))
            if reach < self._fewest:
                raise DataError(
                    f"column {line.column!r}: {self.percent:g} percent of {len(order)} values reaches no other rank; "
                    f"at least {100 * self._fewest / len(order):.3g} percent is needed"
                )
            low, high = (math.floor(share * len(order) + 1e-9) for share in (self.bottom_share, self.top_share))
            order = order[low : len(order) - high]
            donor = permute(len(order), reach, inner.rng.random(len(order)))
            new[line.column] = _moved(line.series, order, order[donor])
        ctx.progress(len(lines), len(lines), ctx.step)
        return data.with_columns(new)


def _moved(series: pl.Series, to: NDArray[Any], origin: NDArray[Any]) -> pl.Series:
    """Give the column with the values of rows `origin` at rows `to`, in exactly its own type."""
    import polars as pl

    if series.dtype == pl.Float64 and not series.null_count():
        values = series.to_numpy()
        moved = np.empty_like(values) if len(to) == len(values) else values.copy()
        for start in range(0, len(to), BATCH_ROWS):
            moved[to[start : start + BATCH_ROWS]] = values[origin[start : start + BATCH_ROWS]]
        return pl.Series(series.name, moved)
    rows = np.arange(len(series), dtype=np.uint32)
    rows[to] = origin
    return series.gather(rows)


class RankSwap(_Swap, kind="rank-swap"):
    """Exchange each value with a value whose rank lies at most a given percentage of the records away.

    Ranks are visited in ascending order; each rank that was not swapped yet exchanges its value with a random unswapped
    rank in its window; a rank whose window holds none stays where it is. Every column is swapped on its own; equal
    values are ranked by a keyed mix of their place in the file, so that the place does not tell who moves far. For
    numbers, dates, and categories whose order is known (from the schema or an Enum). The marginal distribution (every
    mean, quantile and frequency of one column) stays exactly the same, also its type: whole numbers stay whole.
    Relations between columns are weakened. Does not give k-anonymity. Does not protect against somebody who has the
    values of everybody: exchanges in pairs can be unravelled, nearly completely for amounts that few people share
    (`DistanceLinkage` measures it; `Shuffle` and `BlockRankSwap` exchange nothing in pairs). Whoever knows the
    percentage can narrow a value to its window (the percentage is therefore confidential). Values left out by
    `bottom_share` and `top_share` stay where they are and are *not* protected: top-code them as well. Missing values
    stay where they are. Time O(n log n), memory linear.

    References
    ----------
    Moore (1996), Controlled data-swapping techniques; catalogue P13 (Algorithm 1 of the source).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> swapped = dc.RankSwap(columns=["income"], percent=10)(people, seed=7)
    >>> bool((swapped.frame["income"].sort() == people.frame["income"].sort()).all())
    True
    """

    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "The distribution of each column is exact; correlations with other columns, and regressions on them, are "
        "pulled toward zero."
    )
    guarantee: ClassVar[str] = (
        "Values were exchanged between records of similar rank: each column's distribution is exact, but a value "
        "need not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, find partners, exchange."""
        from discretion.kernels.swap import swap_partners

        return self._swap(data, swap_partners, ctx)


class BlockRankSwap(_Swap, kind="block-rank-swap"):
    """Shuffle the values inside consecutive blocks of ranks.

    The sorted values are cut into blocks of a given percentage of the records and shuffled inside each block. The
    marginal distribution stays exactly the same. For numbers, dates, and categories whose order is known; equal values
    are ranked by a keyed mix of their place in the file. Weaker than rank swapping with a window of the same size: a
    value never leaves its block, and whoever knows the block bounds knows the value's range. Values left out by
    `bottom_share` and `top_share` stay where they are and are *not* protected. Missing values stay where they are. Time
    O(n log n), memory linear.

    References
    ----------
    Catalogue P14 (the "Mk2" variant of the source).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> swapped = dc.BlockRankSwap(columns=["income"], percent=10)(people, seed=7)
    >>> bool((swapped.frame["income"].sort() == people.frame["income"].sort()).all())
    True
    """

    percent: float = confidential(gt=0, le=100)
    """size of the blocks, in percent of the records that have a value; a block has at least two"""

    _fewest: ClassVar[int] = 2

    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "The distribution of each column is exact; correlations with other columns, and regressions on them, are "
        "pulled toward zero."
    )
    guarantee: ClassVar[str] = (
        "Values were shuffled inside blocks of similar rank: each column's distribution is exact, but a value need "
        "not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, shuffle inside blocks, put back."""
        from discretion.kernels.swap import block_shuffle

        return self._swap(data, block_shuffle, ctx)
