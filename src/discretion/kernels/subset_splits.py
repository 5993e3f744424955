"""Split groups of rows by a column, and list the rows that are then alone in their group.

Most groups are small and their rows differ at random, so that a branch for each row would often be guessed wrong: the
rows are sorted out by two words of 64 bits instead, one with the codes seen and one with those seen twice. Codes of
more than 64 values share bits; the few rows that a shared bit leaves in doubt are counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Index, Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel

_WANTED = 1 << 32
_ALONE, _DROPPED = -1, -2
_SMALL = 96
"""Rows of a group up to which the words of bits are worth their while."""
_ONE, _BITS = np.uint64(1), np.uint64(63)


class Scratch(NamedTuple):
    """Memory that the splits of one walk share."""

    tally: Ints
    """how often each code occurs in a group; all zero between groups"""
    places: Ints32
    seen: Ints32
    rows: Ints32
    """rows of a group that no smaller subset tells apart"""
    codes: Ints32
    """their codes"""
    alone: Ints32
    """rows found alone by the last split"""

    @classmethod
    def of(cls, n: int, most_codes: int) -> Scratch:
        """Make room for groups of up to n rows, and for what is written and not read: sorting out without branches."""
        per_code = [np.empty(most_codes + 1, np.int32) for _ in range(2)]
        return cls(np.zeros(most_codes, np.int64), *per_code, *(np.empty(n + 2, np.int32) for _ in range(3)))


@helper
def _is_covered(covered: Keys, n_covered: int, row: Index) -> Index:
    """Tell as 0 or 1 whether a row has its bit set; rows from n_covered on have none."""
    inside = row < n_covered
    place = row if inside else 0
    return np.int64((covered[place >> 6] >> np.uint64(place & 63)) & _ONE) & inside


@helper
def _gather(
    group: Ints32, start: int, end: int, codes: Codes, covered: Keys, n_covered: int, rows: Ints32, found: Ints32
) -> tuple[Index, np.uint64]:
    """Write down the rows that are not covered and their codes; return how many, and the bits seen twice."""
    once, twice = np.uint64(0), np.uint64(0)
    count: Index = 0
    for place in range(start, end):
        row = group[place]
        code = codes[row]
        rows[count] = row
        found[count] = code
        free = 1 - _is_covered(covered, n_covered, row) if n_covered else 1
        bit = np.uint64(free) << (np.uint64(code) & _BITS)
        twice |= once & bit
        once |= bit
        count += free
    return count, twice


@helper
def _set_aside(
    rows: Ints32, found: Ints32, count: Index, twice: np.uint64, alone: Ints32, n_alone: Index
) -> tuple[Index, Index]:
    """Move the rows whose bit was seen once to `alone`; return how many are left, and how many are alone."""
    left: Index = 0
    for place in range(count):
        row, code = rows[place], found[place]
        alone[n_alone] = row
        rows[left], found[left] = row, code
        shared = np.int64((twice >> (np.uint64(code) & _BITS)) & _ONE)
        left += shared
        n_alone += 1 - shared
    return left, n_alone


@helper
def _pair(
    one: Index, two: Index, codes: Codes, covered: Keys, n_covered: int, alone: Ints32, n_alone: Index
) -> tuple[Index, Index]:
    """Sort out a group of two rows; return how many rows are alone, and 1 where the two stay together."""
    differ = np.int64(codes[one] != codes[two])
    free_one = 1 - _is_covered(covered, n_covered, one)
    free_two = 1 - _is_covered(covered, n_covered, two)
    alone[n_alone] = one
    n_alone += free_one & (differ | 1 - free_two)
    alone[n_alone] = two
    n_alone += free_two & (differ | 1 - free_one)
    return n_alone, free_one & free_two & (1 - differ)


@kernel
def singles(
    rows: Ints32, starts: Ints32, codes: Codes, n_codes: int, covered: Keys, n_covered: int, scratch: Scratch
) -> Index:
    """List the rows that are not covered and whose code nobody else in their group has; return how many they are.

    A row that is covered is alone by what a smaller subset tells: it is like no other row, and none is like it. A
    large group is left as soon as all codes have been seen twice.
    """
    tally, places, seen, kept, found, alone = scratch
    n_alone: Index = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        n_seen = 0
        if end - start == 2:
            n_alone, _ = _pair(rows[start], rows[start + 1], codes, covered, n_covered, alone, n_alone)
            continue
        if end - start <= 8 * n_codes:
            count, twice = _gather(rows, start, end, codes, covered, n_covered, kept, found)
            left, n_alone = _set_aside(kept, found, count, twice, alone, n_alone)
            if n_codes <= 64 or left == 0:
                continue
            for place in range(left):
                code = found[place]
                seen[n_seen] = code
                n_seen += tally[code] == 0
                tally[code] += 1
                places[code] = kept[place]
        else:
            n_shared = 0
            for place in range(start, end):
                row = rows[place]
                if n_covered and _is_covered(covered, n_covered, row):
                    continue
                code = codes[row]
                tally[code] += 1
                if tally[code] == 1:
                    seen[n_seen] = code
                    n_seen += 1
                    places[code] = row
                elif tally[code] == 2:
                    n_shared += 1
                    if n_shared == n_codes:
                        break
        for number in range(n_seen):
            code = seen[number]
            alone[n_alone] = places[code]
            n_alone += tally[code] == 1
            tally[code] = 0
    return n_alone


@helper
def _distribute(
    count: Index,
    n_wanted: int,
    kept: Ints32,
    begins: Ints32,
    scratch: Scratch,
    n_kept: Index,
    n_groups: Index,
    n_alone: Index,
) -> tuple[Index, Index, Index]:
    """Count the codes of the rows written down and make a group of each; return the counts brought up to date."""
    tally, places, seen, some, found, alone = scratch
    n_seen = 0
    for place in range(count):
        code = found[place]
        seen[n_seen] = code
        n_seen += tally[code] == 0
        tally[code] += 1 + _WANTED * (some[place] < n_wanted)  # two counts in one number
    for number in range(n_seen):
        code = seen[number]
        both = tally[code]
        tally[code] = 0
        size = both & (_WANTED - 1)
        places[code] = _ALONE if size == 1 else _DROPPED
        if size > 1 and both >= _WANTED:
            places[code] = n_kept
            n_kept += size
            n_groups += 1
            begins[n_groups] = n_kept
    for place in range(count):
        code = found[place]
        where = places[code]
        if where >= 0:
            kept[where] = some[place]
            places[code] = where + 1
        elif where == _ALONE:
            alone[n_alone] = some[place]
            n_alone += 1
    return n_kept, n_groups, n_alone


@kernel
def split(
    rows: Ints32,
    starts: Ints32,
    codes: Codes,
    n_codes: int,
    covered: Keys,
    n_covered: int,
    n_wanted: int,
    kept: Ints32,
    begins: Ints32,
    scratch: Scratch,
) -> tuple[Index, Index, Index]:
    """Split every group by a column; return how many rows and groups are left, and how many rows are now alone.

    Rows that are covered, and groups without any row below `n_wanted`, are left out.
    """
    some, found, alone = scratch.rows, scratch.codes, scratch.alone
    n_kept: Index = 0
    n_groups: Index = 0
    n_alone: Index = 0
    begins[0] = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        if end - start == 2:
            one, two = rows[start], rows[start + 1]
            n_alone, together = _pair(one, two, codes, covered, n_covered, alone, n_alone)
            stay = together & (one < n_wanted)
            kept[n_kept], kept[n_kept + 1] = one, two
            n_kept += 2 * stay
            n_groups += stay
            begins[n_groups] = n_kept
            continue
        count, twice = _gather(rows, start, end, codes, covered, n_covered, some, found)
        if count <= _SMALL:
            count, n_alone = _set_aside(some, found, count, twice, alone, n_alone)
            if n_codes <= 64 and twice & (twice - _ONE) == 0:  # one code is left; the lowest row comes first
                if count > 0 and some[0] < n_wanted:
                    for place in range(count):
                        kept[n_kept] = some[place]
                        n_kept += 1
                    n_groups += 1
                    begins[n_groups] = n_kept
                continue
        n_kept, n_groups, n_alone = _distribute(count, n_wanted, kept, begins, scratch, n_kept, n_groups, n_alone)
    return n_kept, n_groups, n_alone


@kernel
def set_bits(rows: Ints32, n_covered: int, bits: Keys) -> None:
    """Set the bits of the rows below `n_covered`."""
    for place in range(rows.size):
        row = rows[place]
        if row < n_covered:
            bits[row >> 6] |= _ONE << np.uint64(row & 63)
