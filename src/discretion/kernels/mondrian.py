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

from discretion.kernels.arrays import Bools, Codes, Floats, Index, Ints, Ints32
from discretion.kernels.jit import helper, kernel

# Where a range of records is split in Mondrian, and how its records are moved.
#
# These helpers take arrays one by one, not in tuples: taking them out of a tuple in every call costs more than the work
# on a small range.


Rows = NDArray[Any]

LANES = 8
"""Columns whose extremes are found together; rows are padded to a multiple."""
MOST_BINS = 1 << 16
"""Bins of a histogram: it stays in the second-level cache."""
CHUNK = 512
"""Rows after which the extremes found are compared with what is possible."""
_DIGITS = 1e9  # of bits that count
_FEW = 24  # codes up to which comparing all with all finds the median fastest


@helper
def extremes(x: Rows, ends: Rows, start: Index, stop: Index, low: Rows, high: Rows, at: Index) -> None:
    """Find the smallest and the largest code of each column; stop early when they are the possible ones."""
    for base in range(0, ends.shape[1], LANES):
        done = min(stop, start + CHUNK)
        _extremes_of_lanes(x, ends, start, done, base, True)
        while done < stop:
            reached = True
            for j in range(base, base + LANES):
                reached &= ends[0, j] == low[at, j] and ends[1, j] == high[at, j]
            if reached:
                break
            upto = min(stop, done + CHUNK)
            _extremes_of_lanes(x, ends, done, upto, base, False)
            done = upto


@helper
def _extremes_of_lanes(x: Rows, ends: Rows, start: Index, stop: Index, b: Index, first: bool) -> None:
    """Find the extremes of eight columns; as single variables they stay in registers and are compared at once."""
    if first:
        for j in range(b, b + LANES):
            ends[0, j] = ends[1, j] = x[start, j]
    l0, l1, l2, l3 = ends[0, b], ends[0, b + 1], ends[0, b + 2], ends[0, b + 3]
    l4, l5, l6, l7 = ends[0, b + 4], ends[0, b + 5], ends[0, b + 6], ends[0, b + 7]
    h0, h1, h2, h3 = ends[1, b], ends[1, b + 1], ends[1, b + 2], ends[1, b + 3]
    h4, h5, h6, h7 = ends[1, b + 4], ends[1, b + 5], ends[1, b + 6], ends[1, b + 7]
    for i in range(start, stop):
        x0, x1, x2, x3 = x[i, b], x[i, b + 1], x[i, b + 2], x[i, b + 3]
        x4, x5, x6, x7 = x[i, b + 4], x[i, b + 5], x[i, b + 6], x[i, b + 7]
        l0, l1, l2, l3 = min(l0, x0), min(l1, x1), min(l2, x2), min(l3, x3)
        l4, l5, l6, l7 = min(l4, x4), min(l5, x5), min(l6, x6), min(l7, x7)
        h0, h1, h2, h3 = max(h0, x0), max(h1, x1), max(h2, x2), max(h3, x3)
        h4, h5, h6, h7 = max(h4, x4), max(h5, x5), max(h6, x6), max(h7, x7)
    ends[0, b], ends[0, b + 1], ends[0, b + 2], ends[0, b + 3] = l0, l1, l2, l3
    ends[0, b + 4], ends[0, b + 5], ends[0, b + 6], ends[0, b + 7] = l4, l5, l6, l7
    ends[1, b], ends[1, b + 1], ends[1, b + 2], ends[1, b + 3] = h0, h1, h2, h3
    ends[1, b + 4], ends[1, b + 5], ends[1, b + 6], ends[1, b + 7] = h4, h5, h6, h7


@helper
def records_in(index: Ints32, weights: Ints, start: Index, stop: Index) -> Index:
    """Count the records of a range: its rows, or what they stand for."""
    if weights.size == 0:
        return stop - start
    total = np.int64(0)
    for i in range(start, stop):
        total += weights[index[i]]
    return total


@helper
def find_widths(
    x: Rows,
    ends: Rows,
    index: Ints32,
    weights: Ints,
    facts: Ints,
    positions: Floats,
    bits: Floats,
    start: Index,
    stop: Index,
    total: Index,
    widths: Floats,
) -> None:
    """Find the width of each column in a range of records: the distance of its ends, or the mean bits that it loses."""
    for j in range(facts.shape[0]):
        table, low, high = facts[j, 0], np.int64(ends[0, j]), np.int64(ends[1, j])
        if bits.size == 0:
            wide = positions[j] * (high - low)
            if wide < 0:  # unevenly spaced: look it up
                wide = positions[table + high] - positions[table + low]
        elif low == high:
            wide = 0.0
        else:
            own = 0.0
            if weights.size == 0:
                for i in range(start, stop):
                    own += bits[table + x[i, j]]
            else:
                for i in range(start, stop):
                    own += bits[table + x[i, j]] * weights[index[i]]
            inside = positions[table + high] - (positions[table + low - 1] if low > 0 else 0.0)
            lost = np.log2(inside) - own / total
            wide = positions[j] * np.floor(lost * _DIGITS + 0.5) / _DIGITS  # sums differ with the order of the records
        widths[j] = wide


@helper
def next_split(
    x: Rows,
    ends: Rows,
    bins: Ints32,
    index: Ints32,
    weights: Ints,
    facts: Ints,
    widths: Floats,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
    total: Index,
    k: int,
    strict: bool,
    first: Index,
    found: Ints,
) -> bool:
    """Find the next split that leaves k records on both sides, the attempts before `first` left out.

    First each column's missing values against its values, then the columns from the widest to the narrowest, each with
    the boundary nearest to the median on the better and on the other side.
    """
    d = facts.shape[0]
    for j in range(d):
        if j >= first and facts[j, 2] and ends[0, j] == 0 and ends[1, j] > 0:
            left = 0
            if weights.size == 0:
                for i in range(start, stop):
                    left += x[i, j] == 0
            else:
                for i in range(start, stop):
                    left += weights[index[i]] * (x[i, j] == 0)
            if left >= k and total - left >= k:
                found[0], found[1], found[2], found[3], found[4] = j, j, 0, left, 0
                return True
    attempt = d
    before, last = np.inf, -1  # the columns come in order of width, equal widths in their own order
    while True:
        widest, width = -1, 0.0
        for j in range(d):
            wide = widths[j]
            if wide > width and (wide < before or (wide == before and j > last)):
                widest, width = j, wide
        if widest < 0:
            return False
        before, last = width, widest
        if attempt + 1 >= first and _split_column(
            x,
            ends,
            bins,
            index,
            weights,
            facts,
            boundary,
            start,
            stop,
            total,
            k,
            strict,
            widest,
            first - attempt,
            found,
        ):
            found[0] += attempt
            return True
        attempt += 2


@helper
def _split_column(
    x: Rows,
    ends: Rows,
    bins: Ints32,
    index: Ints32,
    weights: Ints,
    facts: Ints,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
    n: Index,
    k: int,
    strict: bool,
    column: Index,
    first: Index,
    found: Ints,
) -> bool:
    """Find the boundaries of one column on both sides of the median, and take the allowed one nearest to it."""
    if facts[column, 1]:
        base, high = np.int64(ends[0, column]), np.int64(ends[1, column])
        value, below, equal = _median(x, bins, index, weights, start, stop, n, column, base, high)
        above = below + equal
        if not strict:
            if first <= 0:
                found[0], found[1], found[2], found[3], found[4] = 0, column, value - 1, n // 2, n // 2 - below
            return bool(first <= 0)
        last_below, last_above = value - 1, value
    else:
        last_below, below, last_above, above = _branches(
            x, ends, bins, index, weights, facts, boundary, start, stop, n, column
        )
    below_first = n - 2 * below <= 2 * above - n
    for choice in range(2):
        use_below = below_first == (choice == 0)
        left = below if use_below else above
        if choice >= first and left >= k and n - left >= k:
            last = last_below if use_below else last_above
            found[0], found[1], found[2], found[3], found[4] = choice, column, last, left, 0
            return True
    return False


@helper
def _median(
    x: Rows,
    bins: Ints32,
    index: Ints32,
    weights: Ints,
    start: Index,
    stop: Index,
    n: Index,
    column: Index,
    base: Index,
    high: Index,
) -> tuple[Index, Index, Index]:
    """Find the code at rank n/2, how many are smaller and how many equal: by histograms of ever smaller ranges."""
    span = high - base + 1
    rank = n // 2
    if stop - start <= _FEW:
        return _median_of_few(x, bins, index, weights, start, stop, column, rank)
    most = 32
    while most < MOST_BINS and most < 2 * (stop - start):
        most *= 2
    shift = _shift(span, most)
    bins[: ((span - 1) >> shift) + 1] = 0
    if weights.size == 0:
        for i in range(start, stop):
            bins[(np.int64(x[i, column]) - base) >> shift] += 1
    else:
        for i in range(start, stop):
            bins[(np.int64(x[i, column]) - base) >> shift] += np.int32(weights[index[i]])
    smaller, b = _bin_of_rank(bins, 0, rank)
    while shift > 0:
        base += b << shift
        width = np.int64(1) << shift
        span = width if width < span - (b << shift) else span - (b << shift)
        shift = _shift(span, most)
        bins[: ((span - 1) >> shift) + 1] = 0
        for i in range(start, stop):
            place = np.int64(x[i, column]) - base
            if 0 <= place < span:
                bins[place >> shift] += np.int32(1 if weights.size == 0 else weights[index[i]])
        smaller, b = _bin_of_rank(bins, smaller, rank)
    return base + b, smaller, np.int64(bins[b])


@helper
def _median_of_few(
    x: Rows, few: Ints32, index: Ints32, weights: Ints, start: Index, stop: Index, column: Index, rank: Index
) -> tuple[Index, Index, Index]:
    """Find the median of a few codes by comparing all with all."""
    n = stop - start
    for i in range(n):
        few[i] = x[start + i, column]
    for i in range(n):
        code = few[i]
        smaller = np.int32(0)
        upto = np.int32(0)
        if weights.size == 0:
            for other in range(n):
                smaller += np.int32(few[other] < code)
                upto += np.int32(few[other] <= code)
        else:
            for other in range(n):
                weight = np.int32(weights[index[start + other]])
                smaller += weight * np.int32(few[other] < code)
                upto += weight * np.int32(few[other] <= code)
        if smaller <= rank < upto:
            return np.int64(code), np.int64(smaller), np.int64(upto - smaller)
    return np.int64(0), np.int64(0), np.int64(0)  # not reached: some code has the rank


@helper
def _shift(span: Index, most: Index) -> Index:
    """Return by how many bits a range must be narrowed to fit into the bins."""
    shift = np.int64(0)
    while (span - 1) >> shift >= most:
        shift += 1
    return shift


@helper
def _bin_of_rank(bins: Ints32, smaller: Index, rank: Index) -> tuple[Index, Index]:
    """Return how many values lie below the bin of the value at a rank, and the bin."""
    b = np.int64(0)
    while smaller + bins[b] <= rank:
        smaller += bins[b]
        b += 1
    return smaller, b


@helper
def _branches(
    x: Rows,
    ends: Rows,
    bins: Ints32,
    index: Ints32,
    weights: Ints,
    facts: Ints,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
    n: Index,
    column: Index,
) -> tuple[Index, Index, Index, Index]:
    """Find where two children of the label that covers the range meet, below and above the median.

    Returns the last code and the number of records on the left for both; 0 records where there is no such place.
    """
    base, high = np.int64(ends[0, column]), np.int64(ends[1, column])
    table = facts[column, 0]
    for b in range(high - base + 1):
        bins[b] = 0
    if weights.size == 0:
        for i in range(start, stop):
            bins[np.int64(x[i, column]) - base] += 1
    else:
        for i in range(start, stop):
            bins[np.int64(x[i, column]) - base] += np.int32(weights[index[i]])
    inner = base + 1 if facts[column, 2] and base == 0 else base
    apart = np.uint8(0)
    for t in range(inner, high):
        apart = max(apart, boundary[table + t])
    last_below: Index = base
    below = left = 0
    for t in range(base, high):
        left += bins[t - base]
        if t >= inner and boundary[table + t] == apart:
            if left > n // 2:
                return last_below, below, t, left
            last_below, below = t, left
    return last_below, below, high, n


@helper
def part_range(x: Rows, words: NDArray[np.uint64], index: Ints32, start: Index, stop: Index, found: Ints) -> Index:
    """Move the records of a range so that the left side of its split stands first; return where it ends."""
    column, last, ties = found[1], found[2], found[4]
    if ties > 0 or words.shape[1] > 2:
        return _part_wide(x, words, index, start, stop, column, last, ties)
    return _part_two_words(x, words, index, start, stop, column, last)


@helper
def _part_two_words(
    x: Rows, words: NDArray[np.uint64], index: Ints32, start: Index, stop: Index, column: Index, last: Index
) -> Index:
    middle = start
    for i in range(start, stop):
        left = np.int64(x[i, column]) <= last
        one, two, record = words[i, 0], words[i, 1], index[i]
        words[i, 0], words[i, 1], index[i] = words[middle, 0], words[middle, 1], index[middle]
        words[middle, 0], words[middle, 1], index[middle] = one, two, record
        middle += left
    return middle


@helper
def _part_wide(
    x: Rows,
    words: NDArray[np.uint64],
    index: Ints32,
    start: Index,
    stop: Index,
    column: Index,
    last: Index,
    ties: Index,
) -> Index:
    middle = start
    for i in range(start, stop):
        code = np.int64(x[i, column])
        tied = ties > 0 and code == last + 1
        ties -= tied
        record = index[i]
        index[i] = index[middle]
        index[middle] = record
        for w in range(words.shape[1]):
            word = words[i, w]
            words[i, w] = words[middle, w]
            words[middle, w] = word
        middle += tied or code <= last
    return middle


# Records that widen their group more than they are worth.
#
# A group costs its records times the sum of its columns' widths. The records that have the smallest or the largest code
# of a column in their group may be left out; each of them then costs a price instead.


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


def cost_tables(columns: Sequence[SplitColumn], by_bits: bool, counts: Ints | None = None) -> Widths:
    """Lay out the costs: the distance of the ends, or the share of log2(n) bits that a range leaves open.

    `counts`: how many records each row stands for.
    """
    sizes = [column.positions.size for column in columns]
    tables = [column.positions for column in columns]
    if by_bits:
        tables = [
            np.cumsum(np.bincount(column.codes, counts, minlength=size)).astype(np.float64)
            for column, size in zip(columns, sizes, strict=True)
        ]
    return Widths(
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.concatenate(tables).astype(np.float64),
        np.array([column.weight for column in columns]),
        1.0 / max(np.log2(columns[0].codes.size if counts is None else counts.sum()), 1.0) if by_bits else 0.0,
    )


def best_trims(codes: Ints32, starts: Ints, widths: Widths, k: int, allowed: int, weights: Ints) -> Trims:
    """Find for each group the end of a column that gains most for each record left out.

    Group g has the rows starts[g] … starts[g+1]−1, which stand for so many records as `weights` says (one each where it
    is empty); k of them must stay, at most `allowed` go. Equal gains: the first column, its lower end. Time
    O(n·columns²).
    """
    groups = len(starts) - 1
    found = Trims(np.zeros(groups), np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.bool_))
    _best_trims(codes, starts, widths, k, allowed, weights, found)
    return found


@kernel
def _best_trims(codes: Ints32, starts: Ints, widths: Widths, k: int, allowed: int, weights: Ints, found: Trims) -> None:
    d = codes.shape[1]
    low, high = np.zeros(d, np.int64), np.zeros(d, np.int64)
    inner_low, inner_high = np.zeros(d, np.int64), np.zeros(d, np.int64)
    price = widths.weights.sum()
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        size = _ends_without(codes, begin, end, -1, 0, weights, low, high)
        if size <= k:
            continue
        cost = _cost(widths, low, high) * size
        for j in range(d):
            for top in range(2):
                code = high[j] if top else low[j]
                if low[j] == high[j]:
                    continue
                left = _ends_without(codes, begin, end, j, code, weights, inner_low, inner_high)
                out = size - left
                if left < k or out > allowed:
                    continue
                gain = (cost - _cost(widths, inner_low, inner_high) * left) / out - price
                if gain > found.gains[g] + _TINY:
                    found.gains[g], found.counts[g], found.columns[g], found.at_top[g] = gain, out, j, top == 1


@helper
def _ends_without(
    codes: Ints32, begin: int, end: int, column: int, code: int, weights: Ints, low: Ints, high: Ints
) -> int:
    """Find the extremes of the records that do not have a code in a column; return their number."""
    left = 0
    for i in range(begin, end):
        if column >= 0 and codes[i, column] == code:
            continue
        for j in range(low.size):
            own = np.int64(codes[i, j])
            low[j] = own if left == 0 else min(low[j], own)
            high[j] = own if left == 0 else max(high[j], own)
        left += 1 if weights.size == 0 else weights[i]
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
    weights: Ints  # how many records each row stands for, by its number; empty where every row is a record


class _Pending(NamedTuple):
    """Ranges of places that are still to be split, and what is known of their extremes."""

    bounds: Ints  # (depth, 2)
    low: Rows
    high: Rows
    counters: Ints  # [0] waiting, [1] groups, [2] records done


def prepare(
    columns: Sequence[SplitColumn], by_bits: bool = False, counts: Ints | None = None
) -> tuple[Work, SplitSpace]:
    """Lay out records row by row. Memory: two or four bytes per cell, and what the tables need.

    `by_bits`: the width of a column is the mean number of bits that its values lose when they are replaced by their
    range, log2(records of all with a value in the range / records of all with the value), not the distance of its ends.
    `counts`: how many records each row stands for.
    """
    n, d = columns[0].codes.size, len(columns)
    if (records := n if counts is None else int(counts.sum())) > 2**31 - 1:
        raise ValueError(f"at most 2**31 - 1 records, got {records}")
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
    positions, bits = _bit_tables(columns, counts) if by_bits else (_distance_tables(columns), np.empty(0))
    widest = max([size for size, column in zip(sizes, columns, strict=True) if column.boundary is not None], default=0)
    work = Work(
        rows,
        rows.view(np.uint64),
        np.arange(n, dtype=np.int32),
        np.zeros((2, rows.shape[1]), kind),
        np.zeros(max(MOST_BINS, widest) + 1, np.int32),
        np.empty(0, np.int64) if counts is None else counts,
    )
    return work, SplitSpace(facts, positions, boundary, bits, np.zeros(d))


def _distance_tables(columns: Sequence[SplitColumn]) -> Floats:
    steps = [(_even_step(column.positions), column.weight) for column in columns]
    weighted = [step * weight if step > 0 else step for step, weight in steps]
    return np.concatenate([weighted, *(column.positions * column.weight for column in columns)]).astype(np.float64)


def _bit_tables(columns: Sequence[SplitColumn], records: Ints | None) -> tuple[Floats, Floats]:
    """Give the weights and the records up to each code, and the bits of each code."""
    counts = [
        np.bincount(column.codes, records, minlength=column.positions.size).astype(np.float64) for column in columns
    ]
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
    columns: Sequence[SplitColumn],
    k: int,
    strict: bool,
    progress: Progress | None = None,
    by_bits: bool = False,
    counts: Ints | None = None,
) -> Ints32:
    """Split records into groups of at least k; return the group of each record.

    `counts`: how many equal records each row stands for, which stay together: only with `strict`.

    A group is split by the column in which its values are widest, at the boundary nearest to its median that leaves
    k records on both sides; columns that cannot be split so are passed over. Missing values are split off first where
    k of them stand on both sides. `strict`: equal values stay together; otherwise the values equal to the median go to
    both sides, so that they are equally large (not in columns with a hierarchy). `by_bits`: see `prepare`. Needs
    n ≥ k ≥ 1 records.
    `progress(done, total, "splitting")` may raise to cancel. Time about O(n·columns·log(n/k)).
    """
    n = columns[0].codes.size
    if not 1 <= k <= (n if counts is None else int(counts.sum())):
        raise ValueError(f"groups of k = {k} cannot be made of {n} records")
    if counts is not None and not strict:
        raise ValueError("equal records stand together, and cannot go to both sides")
    work, space = prepare(columns, by_bits, counts)
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
    x, words, index, ends, bins, weights = work
    facts, positions, boundary, bits, widths = space
    bounds, low, high, counters = waiting
    found = np.zeros(5, np.int64)
    while counters[0] > 0 and budget > 0:
        top = counters[0] - 1
        start, stop = bounds[top, 0], bounds[top, 1]
        budget -= stop - start
        split = False
        total = records_in(index, weights, start, stop)
        if total >= 2 * k:
            extremes(x, ends, start, stop, low, high, top)
            find_widths(x, ends, index, weights, facts, positions, bits, start, stop, total, widths)
            split = next_split(
                x, ends, bins, index, weights, facts, widths, boundary, start, stop, total, k, strict, 0, found
            )
        if not split:
            for place in range(start, stop):
                groups[index[place]] = counters[1]
            counters[1] += 1
            counters[2] += stop - start
            counters[0] = top
            continue
        middle = part_range(x, words, index, start, stop, found)
        large = 0 if 2 * found[3] >= total else 1  # the larger side waits below the smaller
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
    x, _, index, ends, bins, weights = work
    facts, positions, boundary, bits, widths = space
    low = np.zeros((1, ends.shape[1]), x.dtype)
    high = np.zeros((1, ends.shape[1]), x.dtype)
    high[:] = np.iinfo(x.dtype).max
    sides[:] = -1
    for number in range(attempts.size):
        start, stop = bounds[number]
        next_one = found[number]
        split = False
        total = records_in(index, weights, start, stop)
        if total >= 2 * k:
            extremes(x, ends, start, stop, low, high, 0)
            find_widths(x, ends, index, weights, facts, positions, bits, start, stop, total, widths)
            first = attempts[number]
            split = next_split(
                x, ends, bins, index, weights, facts, widths, boundary, start, stop, total, k, strict, first, next_one
            )
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
