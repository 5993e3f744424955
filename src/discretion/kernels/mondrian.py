"""Mondrian: records are split at medians, again and again, as long as both sides stay large enough.

Records stand row by row with all their codes side by side, so that a split moves whole records and the extremes of
eight columns are found at once. A column's codes follow the order of its values; where it has a hierarchy, they follow
the leaves from left to right, so that every label of the hierarchy is a range of codes. `boundary[t]` tells how high
one must climb to find what the codes t and t+1 have in common: the children of the lowest label that covers a range
meet where this height is largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32
from discretion.kernels.jit import kernel
from discretion.kernels.mondrian_splits import (
    CHUNK,
    LANES,
    MOST_BINS,
    Rows,
    extremes,
    find_widths,
    next_split,
    part_range,
)

Progress = Callable[[int, int, str], object]

_DEPTH = 80  # the larger side waits, so that at most log2(n) ranges wait
_SLICE = 4_000_000  # rows looked at between two reports of progress


@dataclass(frozen=True)
class SplitColumn:
    """One column to split by: codes 0 … size−1 in the order of its values, with the missing values at code 0."""

    codes: Codes
    positions: Floats
    """where each code lies between 0 and 1: the width of a range is the distance of its ends"""
    boundary: NDArray[np.uint8] | None = None
    """how far apart the codes t and t+1 are in the hierarchy; None where every boundary may be a split"""
    has_missing: bool = False
    weight: float = 1.0
    """what the column's width is multiplied by; a column of weight 0 is never split, but for its missing values"""


class SplitSpace(NamedTuple):
    """What splits need to know about the columns; tables of all columns stand one after another."""

    facts: (
        Ints  # (columns, 3): where the tables of the column begin, any boundary may be a split, it has missing values
    )
    positions: Floats  # first the distance of neighbors in each column, −1 where it differs, then the tables
    boundary: NDArray[np.uint8]
    bits: Floats  # log2 of the records with each code, like the tables; empty where widths are distances
    widths: Floats  # room for the width of each column in a range


class Work(NamedTuple):
    """Records in the order of their groups, and room for the search.

    Helpers take the arrays one by one: taking them out of a tuple again in every call costs more than their work.
    """

    rows: Rows  # (n, columns): codes, padded with zeros
    words: NDArray[np.uint64]  # the same memory, to move rows by
    places: Ints32  # the record that stands in each place
    ends: Rows  # (2, columns): the smallest and the largest codes of a range
    bins: Ints32


class _Pending(NamedTuple):
    """Ranges of places that are still to be split, and what is known of their extremes."""

    bounds: Ints  # (depth, 2)
    low: Rows
    high: Rows
    counters: Ints  # [0] waiting, [1] groups, [2] records done


def prepare(columns: Sequence[SplitColumn], by_bits: bool = False) -> tuple[Work, SplitSpace]:
    """Lay out records row by row. Memory: two or four bytes per cell, and what the tables need.

    `by_bits`: the width of a column is the mean number of bits that its values lose when they are replaced by their
    range, log2(records of all with a value in the range / records of all with the value), not the distance of its ends.
    """
    n, d = columns[0].codes.size, len(columns)
    if n > 2**31 - 1:
        raise ValueError(f"at most 2**31 - 1 records, got {n}")
    sizes = [column.positions.size for column in columns]
    kind: type[np.unsignedinteger[Any]] = np.uint16 if max(sizes) <= 2**16 else np.uint32
    rows = np.zeros((n, -(-d // LANES) * LANES), kind)
    for j, column in enumerate(columns):
        rows[:, j] = column.codes
    facts = np.zeros((d, 3), np.int64)
    facts[:, 0] = np.cumsum([d, *sizes[:-1]])
    facts[:, 1] = [column.boundary is None for column in columns]
    facts[:, 2] = [column.has_missing for column in columns]
    boundary = np.zeros(d + sum(sizes), np.uint8)
    for start, column in zip(facts[:, 0], columns, strict=True):
        if column.boundary is not None:
            boundary[start : start + column.boundary.size] = column.boundary
    positions, bits = _bit_tables(columns) if by_bits else (_distance_tables(columns), np.empty(0))
    widest = max([size for size, column in zip(sizes, columns, strict=True) if column.boundary is not None], default=0)
    work = Work(
        rows,
        rows.view(np.uint64),
        np.arange(n, dtype=np.int32),
        np.zeros((2, rows.shape[1]), kind),
        np.zeros(max(MOST_BINS, widest) + 1, np.int32),
    )
    return work, SplitSpace(facts, positions, boundary, bits, np.zeros(d))


def _distance_tables(columns: Sequence[SplitColumn]) -> Floats:
    steps = [(_even_step(column.positions), column.weight) for column in columns]
    weighted = [step * weight if step > 0 else step for step, weight in steps]
    return np.concatenate([weighted, *(column.positions * column.weight for column in columns)]).astype(np.float64)


def _bit_tables(columns: Sequence[SplitColumn]) -> tuple[Floats, Floats]:
    """Give the weights and the records up to each code, and the bits of each code."""
    counts = [np.bincount(column.codes, minlength=column.positions.size).astype(np.float64) for column in columns]
    weights = np.array([column.weight for column in columns])
    sums = np.concatenate([weights, *(np.cumsum(found) for found in counts)])
    return sums, np.concatenate([np.zeros(len(columns)), *(np.log2(np.maximum(found, 1.0)) for found in counts)])


def _even_step(positions: Floats) -> float:
    """Return the distance of neighboring positions if it is always the same, else −1."""
    if positions.size < 2:
        return 0.0
    gaps = np.diff(positions)
    return float(gaps.mean()) if np.ptp(gaps) < 1e-9 * gaps.mean() + 1e-14 else -1.0


def mondrian_groups(
    columns: Sequence[SplitColumn], k: int, strict: bool, progress: Progress | None = None, by_bits: bool = False
) -> Ints32:
    """Split records into groups of at least k; return the group of each record.

    A group is split by the column in which its values are widest, at the boundary nearest to its median that leaves
    k records on both sides; columns that cannot be split so are passed over. Missing values are split off first where
    k of them stand on both sides. `strict`: equal values stay together; otherwise the values equal to the median go to
    both sides, so that they are equally large (not in columns with a hierarchy). `by_bits`: see `prepare`. Needs
    n ≥ k ≥ 1 records.
    `progress(done, total, "splitting")` may raise to cancel. Time about O(n·columns·log(n/k)).
    """
    n = columns[0].codes.size
    if not 1 <= k <= n:
        raise ValueError(f"groups of k = {k} cannot be made of {n} records")
    work, space = prepare(columns, by_bits)
    lanes = work.rows.shape[1]
    waiting = _Pending(
        np.zeros((_DEPTH, 2), np.int64),
        np.zeros((_DEPTH, lanes), work.rows.dtype),
        np.full((_DEPTH, lanes), np.iinfo(work.rows.dtype).max, work.rows.dtype),
        np.array([1, 0, 0]),
    )
    waiting.bounds[0] = (0, n)
    groups = np.empty(n, np.int32)
    while waiting.counters[0]:
        _split_some(work, space, waiting, k, strict, groups, _SLICE)
        if progress is not None:
            progress(int(waiting.counters[2]), n, "splitting")
    return groups


def group_ends(codes: Codes, groups: Ints32, count: int) -> tuple[Ints, Ints]:
    """Return the smallest and the largest code of each group; every group has a record. Time O(n)."""
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.full(count, -1, np.int64)
    _widen_ends(codes, groups, low, high)
    return low, high


@kernel
def _widen_ends(codes: Codes, groups: Ints32, low: Ints, high: Ints) -> None:
    for i in range(codes.size):
        code = np.int64(codes[i])
        low[groups[i]] = min(low[groups[i]], code)
        high[groups[i]] = max(high[groups[i]], code)


@kernel
def _split_some(
    work: Work, space: SplitSpace, waiting: _Pending, k: int, strict: bool, groups: Ints32, budget: int
) -> None:
    """Split ranges until none waits or the budget of rows is used up."""
    x, words, index, ends, bins = work
    facts, positions, boundary, bits, widths = space
    bounds, low, high, counters = waiting
    found = np.zeros(5, np.int64)
    while counters[0] > 0 and budget > 0:
        top = counters[0] - 1
        start, stop = bounds[top, 0], bounds[top, 1]
        budget -= stop - start
        split = False
        if stop - start >= 2 * k:
            extremes(x, ends, start, stop, low, high, top)
            find_widths(x, ends, facts, positions, bits, start, stop, widths)
            split = next_split(x, ends, bins, facts, widths, boundary, start, stop, k, strict, 0, found)
        if not split:
            for place in range(start, stop):
                groups[index[place]] = counters[1]
            counters[1] += 1
            counters[2] += stop - start
            counters[0] = top
            continue
        middle = part_range(x, words, index, start, stop, found)
        large = 0 if middle - start >= stop - middle else 1  # the larger side waits below the smaller
        bounds[top + large, 0], bounds[top + large, 1] = start, middle
        bounds[top + 1 - large, 0], bounds[top + 1 - large, 1] = middle, stop
        if stop - start > CHUNK:  # smaller ranges are looked at whole
            for j in range(ends.shape[1]):
                low[top, j] = low[top + 1, j] = ends[0, j]
                high[top, j] = high[top + 1, j] = ends[1, j]
        counters[0] = top + 2


@kernel
def find_splits(
    work: Work, space: SplitSpace, bounds: Ints, attempts: Ints, k: int, strict: bool, found: Ints, sides: Ints32
) -> None:
    """Find for each range the next split (from number `attempts` on) and the side of each record: 2·range, or 1 more.

    `found` holds for each range: the number of the attempt (−1 where there is none left), column, last code on the
    left, records on the left, and records with the next code that also go left. Records of other ranges get −1.
    """
    x, _, index, ends, bins = work
    facts, positions, boundary, bits, widths = space
    low = np.zeros((1, ends.shape[1]), x.dtype)
    high = np.zeros((1, ends.shape[1]), x.dtype)
    high[:] = np.iinfo(x.dtype).max
    sides[:] = -1
    for number in range(attempts.size):
        start, stop = bounds[number]
        next_one = found[number]
        split = False
        if stop - start >= 2 * k:
            extremes(x, ends, start, stop, low, high, 0)
            find_widths(x, ends, facts, positions, bits, start, stop, widths)
            first = attempts[number]
            split = next_split(x, ends, bins, facts, widths, boundary, start, stop, k, strict, first, next_one)
        if not split:
            next_one[0] = -1
            continue
        column, last, ties = next_one[1], next_one[2], next_one[4]
        for place in range(start, stop):
            code = np.int64(x[place, column])
            right = code > last
            if right and ties > 0 and code == last + 1:
                right = False
                ties -= 1
            sides[index[place]] = 2 * number + right


@kernel
def apply_splits(work: Work, bounds: Ints, found: Ints, chosen: Bools, middles: Ints) -> None:
    """Move the records of the chosen ranges so that the left side of the split stands first; note where it ends."""
    for number in range(chosen.size):
        if chosen[number]:
            start, stop = bounds[number]
            middles[number] = part_range(work.rows, work.words, work.places, start, stop, found[number])
