"""Rank swapping: values change places with values of nearby rank (P13, P14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, confidential

Permute = Callable[[int, int, NDArray[np.float64]], NDArray[Any]]
"""From (number of ranks, ranks in reach, uniforms) to the rank whose value each rank takes."""


def _swap_columns(data: Dataset, columns: Columns, percent: float, permute: Permute, ctx: Context) -> Dataset:
    from discretion.kernels.order import stable_order

    chosen = data.choose(columns, "perturb")
    data.require_spread(chosen)
    new: dict[str, Any] = {}
    for number, name in enumerate(chosen):
        ctx.progress(number, len(chosen), f"{ctx.step}: {name}")
        x = data.number(name)
        missing = data.count_missing(name)
        present = np.flatnonzero(~np.isnan(x)) if missing else None
        order = stable_order(x if present is None else x[present])
        reach = int(np.floor(percent * len(order) / 100 + 1e-9))
        if reach < 1:
            raise DataError(
                f"column {name!r}: {percent:g} percent of {len(order)} values reaches no other rank; "
                f"at least {100 / len(order):.3g} percent is needed"
            )
        donor = permute(len(order), reach, ctx.within(name).rng.random(len(order)))
        if present is not None:
            order = present[order]
        new[name] = _moved(data, name, order, order[donor])
    ctx.progress(len(chosen), len(chosen), ctx.step)
    return data.with_columns(new)


def _moved(data: Dataset, column: str, to: NDArray[Any], origin: NDArray[Any]) -> Any:
    """Give the column with the values of rows `origin` at rows `to`, in exactly its own type."""
    import polars as pl

    series = data.frame[column]
    if series.dtype == pl.Float64 and not series.null_count():
        values = series.to_numpy()
        moved = np.empty_like(values) if len(to) == len(values) else values.copy()
        moved[to] = values[origin]
        return pl.Series(column, moved)
    rows = np.arange(len(series), dtype=np.uint32)
    rows[to] = origin
    return series.gather(rows)


class RankSwap(StratifiedMethod, kind="rank-swap"):
    """Exchange each value with a value whose rank lies at most a given percentage of the records away.

    Ranks are visited in ascending order; each rank that was not swapped yet exchanges its value with a random
    unswapped rank in its window; a rank whose window holds none stays where it is. Every column is swapped on its
    own. The marginal distribution (every mean, quantile and frequency of one column) stays exactly the same, also
    its type: whole numbers stay whole. Relations between columns are weakened. Does not give k-anonymity; whoever
    knows the percentage can narrow a value to its window (the percentage is therefore confidential). Missing values
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

    columns: Columns = ()
    """numeric columns to swap; without it, the numeric quasi-identifiers and sensitive columns"""
    percent: float = confidential(gt=0, le=100)
    """size of the window: how far a value may move, in percent of the records"""

    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Values were exchanged between records of similar rank: each column's distribution is exact, but a value "
        "need not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, find partners, exchange."""
        from discretion.kernels.rank_swap import swap_partners

        return _swap_columns(data, self.columns, self.percent, swap_partners, ctx)


class BlockRankSwap(StratifiedMethod, kind="block-rank-swap"):
    """Shuffle the values inside consecutive blocks of ranks.

    The sorted values are cut into blocks of a given percentage of the records and shuffled inside each block. The
    marginal distribution stays exactly the same. Weaker than rank swapping with a window of the same size: a value
    never leaves its block, and whoever knows the block bounds knows the value's range. Missing values stay where
    they are. Time O(n log n), memory linear.

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

    columns: Columns = ()
    """numeric columns to shuffle; without it, the numeric quasi-identifiers and sensitive columns"""
    percent: float = confidential(gt=0, le=100)
    """size of the blocks, in percent of the records"""

    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Values were shuffled inside blocks of similar rank: each column's distribution is exact, but a value need "
        "not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, shuffle inside blocks, put back."""
        from discretion.kernels.rank_swap import block_shuffle

        return _swap_columns(data, self.columns, self.percent, block_shuffle, ctx)
