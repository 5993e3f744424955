"""Records that widen their group more than they are worth.

A group costs its records times the sum of its columns' widths. The records that have the smallest or the largest code
of a column in their group may be left out; each of them then costs a price instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.jit import helper, kernel
from discretion.kernels.mondrian import SplitColumn

_TINY = 1e-9  # gains below are rounding


class Widths(NamedTuple):
    """What a range of codes costs in each column; the tables of all columns stand one after another."""

    starts: Ints  # where the table of each column begins
    tables: Floats  # the place of each code, or the records up to and with each code
    weights: Floats
    scale: float  # 0 where the cost is the distance of the ends, else 1 / log2(all records)


class Trims(NamedTuple):
    """For each group the records to leave out: gain for each of them, how many, which column, whether at its top."""

    gains: Floats  # 0 where nothing is gained
    counts: Ints
    columns: Ints
    at_top: Bools


def cost_tables(columns: Sequence[SplitColumn], by_bits: bool) -> Widths:
    """Lay out the costs: the distance of the ends, or the share of log2(n) bits that a range leaves open."""
    sizes = [column.positions.size for column in columns]
    tables = [column.positions for column in columns]
    if by_bits:
        tables = [
            np.cumsum(np.bincount(column.codes, minlength=size)).astype(np.float64)
            for column, size in zip(columns, sizes, strict=True)
        ]
    return Widths(
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.concatenate(tables).astype(np.float64),
        np.array([column.weight for column in columns]),
        1.0 / max(np.log2(columns[0].codes.size), 1.0) if by_bits else 0.0,
    )


def best_trims(codes: Ints32, starts: Ints, widths: Widths, k: int, allowed: int) -> Trims:
    """Find for each group the end of a column that gains most for each record left out.

    Group g has the records starts[g] … starts[g+1]−1; k of them must stay, at most `allowed` go. Equal gains: the
    first column, its lower end. Time O(n·columns²).
    """
    groups = len(starts) - 1
    found = Trims(np.zeros(groups), np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.bool_))
    _best_trims(codes, starts, widths, k, allowed, found)
    return found


@kernel
def _best_trims(codes: Ints32, starts: Ints, widths: Widths, k: int, allowed: int, found: Trims) -> None:
    d = codes.shape[1]
    low, high = np.zeros(d, np.int64), np.zeros(d, np.int64)
    inner_low, inner_high = np.zeros(d, np.int64), np.zeros(d, np.int64)
    price = widths.weights.sum()
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        size = end - begin
        if size <= k:
            continue
        _ends_without(codes, begin, end, -1, 0, low, high)
        cost = _cost(widths, low, high) * size
        for j in range(d):
            for top in range(2):
                code = high[j] if top else low[j]
                if low[j] == high[j]:
                    continue
                left = _ends_without(codes, begin, end, j, code, inner_low, inner_high)
                out = size - left
                if left < k or out > allowed:
                    continue
                gain = (cost - _cost(widths, inner_low, inner_high) * left) / out - price
                if gain > found.gains[g] + _TINY:
                    found.gains[g], found.counts[g], found.columns[g], found.at_top[g] = gain, out, j, top == 1


@helper
def _ends_without(codes: Ints32, begin: int, end: int, column: int, code: int, low: Ints, high: Ints) -> int:
    """Find the extremes of the records that do not have a code in a column; return their number."""
    left = 0
    for i in range(begin, end):
        if column >= 0 and codes[i, column] == code:
            continue
        for j in range(low.size):
            own = np.int64(codes[i, j])
            low[j] = own if left == 0 else min(low[j], own)
            high[j] = own if left == 0 else max(high[j], own)
        left += 1
    return left


@helper
def _cost(widths: Widths, low: Ints, high: Ints) -> float:
    """Return what a record of a group with these extremes costs."""
    total = 0.0
    for j in range(low.size):
        at = widths.starts[j]
        if widths.scale == 0.0:
            wide = widths.tables[at + high[j]] - widths.tables[at + low[j]]
        else:
            before = widths.tables[at + low[j] - 1] if low[j] > 0 else 0.0
            wide = np.log2(widths.tables[at + high[j]] - before) * widths.scale
        total += widths.weights[j] * wide
    return total
