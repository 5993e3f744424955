"""Where a range of records is split in Mondrian, and how its records are moved.

These helpers take arrays one by one, not in tuples: taking them out of a tuple in every call costs more than the work
on a small range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Index, Ints, Ints32
from discretion.kernels.jit import helper

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
def find_widths(
    x: Rows, ends: Rows, facts: Ints, positions: Floats, bits: Floats, start: Index, stop: Index, widths: Floats
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
            for i in range(start, stop):
                own += bits[table + x[i, j]]
            inside = positions[table + high] - (positions[table + low - 1] if low > 0 else 0.0)
            lost = np.log2(inside) - own / (stop - start)
            wide = positions[j] * np.floor(lost * _DIGITS + 0.5) / _DIGITS  # sums differ with the order of the records
        widths[j] = wide


@helper
def next_split(
    x: Rows,
    ends: Rows,
    bins: Ints32,
    facts: Ints,
    widths: Floats,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
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
            for i in range(start, stop):
                left += x[i, j] == 0
            if left >= k and stop - start - left >= k:
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
            x, ends, bins, facts, boundary, start, stop, k, strict, widest, first - attempt, found
        ):
            found[0] += attempt
            return True
        attempt += 2


@helper
def _split_column(
    x: Rows,
    ends: Rows,
    bins: Ints32,
    facts: Ints,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
    k: int,
    strict: bool,
    column: Index,
    first: Index,
    found: Ints,
) -> bool:
    """Find the boundaries of one column on both sides of the median, and take the allowed one nearest to it."""
    n = stop - start
    if facts[column, 1]:
        base, high = np.int64(ends[0, column]), np.int64(ends[1, column])
        value, below, equal = _median(x, bins, start, stop, column, base, high)
        above = below + equal
        if not strict:
            if first <= 0:
                found[0], found[1], found[2], found[3], found[4] = 0, column, value - 1, n // 2, n // 2 - below
            return bool(first <= 0)
        last_below, last_above = value - 1, value
    else:
        last_below, below, last_above, above = _branches(x, ends, bins, facts, boundary, start, stop, column)
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
    x: Rows, bins: Ints32, start: Index, stop: Index, column: Index, base: Index, high: Index
) -> tuple[Index, Index, Index]:
    """Find the code at rank n/2, how many are smaller and how many equal: by histograms of ever smaller ranges."""
    span = high - base + 1
    rank = (stop - start) // 2
    if stop - start <= _FEW:
        return _median_of_few(x, bins, start, stop, column, rank)
    most = 32
    while most < MOST_BINS and most < 2 * (stop - start):
        most *= 2
    shift = _shift(span, most)
    bins[: ((span - 1) >> shift) + 1] = 0
    for i in range(start, stop):
        bins[(np.int64(x[i, column]) - base) >> shift] += 1
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
                bins[place >> shift] += 1
        smaller, b = _bin_of_rank(bins, smaller, rank)
    return base + b, smaller, np.int64(bins[b])


@helper
def _median_of_few(
    x: Rows, few: Ints32, start: Index, stop: Index, column: Index, rank: Index
) -> tuple[Index, Index, Index]:
    """Find the median of a few codes by comparing all with all."""
    n = stop - start
    for i in range(n):
        few[i] = x[start + i, column]
    for i in range(n):
        code = few[i]
        smaller = np.int32(0)
        upto = np.int32(0)
        for other in range(n):
            smaller += np.int32(few[other] < code)
            upto += np.int32(few[other] <= code)
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
    facts: Ints,
    boundary: NDArray[np.uint8],
    start: Index,
    stop: Index,
    column: Index,
) -> tuple[Index, Index, Index, Index]:
    """Find where two children of the label that covers the range meet, below and above the median.

    Returns the last code and the number of records on the left for both; 0 records where there is no such place.
    """
    base, high = np.int64(ends[0, column]), np.int64(ends[1, column])
    table = facts[column, 0]
    for b in range(high - base + 1):
        bins[b] = 0
    for i in range(start, stop):
        bins[np.int64(x[i, column]) - base] += 1
    inner = base + 1 if facts[column, 2] and base == 0 else base
    apart = np.uint8(0)
    for t in range(inner, high):
        apart = max(apart, boundary[table + t])
    last_below: Index = base
    below = left = 0
    for t in range(base, high):
        left += bins[t - base]
        if t >= inner and boundary[table + t] == apart:
            if left > (stop - start) // 2:
                return last_below, below, t, left
            last_below, below = t, left
    return last_below, below, high, stop - start


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
