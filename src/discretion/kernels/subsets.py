"""Walk through the subsets of some columns, splitting groups of rows that agree; and count what is told apart.

Rows are the distinct combinations of codes, so that no two agree on all columns. The walk visits subsets in an
order in which every subset comes after all of its own subsets. It starts from the groups of the subset without its
lowest column and splits them by that column. A row that is alone stays alone on every larger subset: it takes no
part in the rest of that branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Ints, Ints32
from discretion.kernels.jit import kernel

Progress = Callable[[int, int, str], None]

_WANTED = 1 << 32
_ALONE, _DROPPED = -1, -2


class Column(NamedTuple):
    """The codes 0 … size−1 of a column, all of which occur, in the narrowest type."""

    codes: Codes
    size: int

    @classmethod
    def of(cls, codes: Codes) -> Column:
        """Renumber the codes that occur. Time O(n + largest code)."""
        present = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
        present[codes] = True
        size = int(present.sum())
        numbers = np.cumsum(present) - 1
        narrow: Codes = numbers.astype(np.uint8) if size <= 256 else numbers.astype(np.int32)
        return cls(narrow[codes], size)


class Node(NamedTuple):
    """A subset of columns and what it does to the rows."""

    mask: int
    """the subset: bit b stands for column b"""
    rows: Ints32
    """rows that agree with another row, one group after the other"""
    starts: Ints32
    """group g is rows[starts[g]] … rows[starts[g + 1] − 1]"""
    alone: Ints32
    """rows that are alone here and were not on the subset without its lowest column"""


class Scratch(NamedTuple):
    """Memory that the splits of one walk share."""

    tally: Ints
    """how often each code occurs in a group; all zero between groups"""
    places: Ints32
    seen: Ints32


def subset_count(columns: int, max_size: int) -> int:
    """Count the non-empty subsets of at most `max_size` of some columns."""
    from math import comb

    return sum(comb(columns, size) for size in range(1, min(max_size, columns) + 1))


def walk(
    columns: Sequence[Column],
    n_wanted: int,
    max_size: int,
    progress: Progress,
    label: str,
    *,
    keep_leaves: bool,
) -> Iterator[Node]:
    """Yield every subset of at most `max_size` columns whose branch still has a group, smaller subsets first.

    Only rows 0 … n_wanted−1 are looked for: a group without any of them is dropped. Without `keep_leaves` a
    subset that no other one is built from comes without groups. Time at most O(rows) a subset, memory O(rows) for
    each column of the largest subset.
    """
    n = columns[0].codes.size
    most = max(column.size for column in columns)
    scratch = Scratch(np.zeros(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32))
    everything = (np.arange(n, dtype=np.int32), np.array([0, n], np.int32))
    total = subset_count(len(columns), max_size)
    done = 0

    def below(mask: int, rows: Ints32, starts: Ints32, low: int, size: int) -> Iterator[Node]:
        nonlocal done
        for column in range(low):
            progress(done, total, label)
            inner = column > 0 and size + 1 < max_size
            kept, begins, alone = _split_once(
                rows, starts, columns[column], n_wanted, inner or keep_leaves, scratch
            )  # fmt: skip
            done += 1
            yield Node(mask | 1 << column, kept, begins, alone)
            if inner and kept.size:
                yield from below(mask | 1 << column, kept, begins, column, size + 1)
            elif inner:
                done += subset_count(column, max_size - size - 1)

    if n:
        yield from below(0, *everything, len(columns), 0)
    progress(total, total, label)


def _split_once(
    rows: Ints32, starts: Ints32, column: Column, n_wanted: int, keep: bool, scratch: Scratch
) -> tuple[Ints32, Ints32, Ints32]:
    alone = np.empty(rows.size, np.int32)
    if not keep:
        n_alone = _singles(rows, starts, column.codes, column.size, alone, *scratch)
        return alone[:0], np.zeros(1, np.int32), alone[:n_alone]
    kept = np.empty(rows.size, np.int32)
    begins = np.empty(rows.size // 2 + 1, np.int32)
    n_kept, n_groups, n_alone = _split(rows, starts, column.codes, n_wanted, kept, begins, alone, *scratch)
    return kept[:n_kept], begins[: n_groups + 1], alone[:n_alone]


@kernel
def _singles(
    rows: Ints32, starts: Ints32, codes: Codes, n_codes: int, alone: Ints32, tally: Ints, places: Ints32, seen: Ints32
) -> int:
    """List the rows whose code nobody else in their group has; return how many they are.

    A group is left as soon as all codes have been seen twice.
    """
    n_alone = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        if end - start == 2:
            if codes[rows[start]] != codes[rows[start + 1]]:
                alone[n_alone] = rows[start]
                alone[n_alone + 1] = rows[start + 1]
                n_alone += 2
            continue
        n_seen, n_shared = 0, 0
        for place in range(start, end):
            code = codes[rows[place]]
            tally[code] += 1
            if tally[code] == 1:
                seen[n_seen] = code
                n_seen += 1
                places[code] = rows[place]
            elif tally[code] == 2:
                n_shared += 1
                if n_shared == n_codes:
                    break
        for number in range(n_seen):
            code = seen[number]
            if tally[code] == 1:
                alone[n_alone] = places[code]
                n_alone += 1
            tally[code] = 0
    return n_alone


@kernel
def _split(
    rows: Ints32,
    starts: Ints32,
    codes: Codes,
    n_wanted: int,
    kept: Ints32,
    begins: Ints32,
    alone: Ints32,
    tally: Ints,
    places: Ints32,
    seen: Ints32,
) -> tuple[int, int, int]:
    """Split every group by a column; return how many rows and groups are left, and how many rows are now alone."""
    n_kept, n_groups, n_alone = 0, 0, 0
    begins[0] = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        if end - start == 2:
            one, two = rows[start], rows[start + 1]
            if codes[one] == codes[two]:
                kept[n_kept], kept[n_kept + 1] = one, two
                n_kept += 2
                n_groups += 1
                begins[n_groups] = n_kept
            else:
                alone[n_alone], alone[n_alone + 1] = one, two
                n_alone += 2
            continue
        n_seen = 0
        for place in range(start, end):
            row = rows[place]
            code = codes[row]
            if tally[code] == 0:
                seen[n_seen] = code
                n_seen += 1
            tally[code] += _WANTED + 1 if row < n_wanted else 1  # two counts in one number
        for number in range(n_seen):
            code = seen[number]
            count = tally[code] & (_WANTED - 1)
            places[code] = _ALONE if count == 1 else _DROPPED
            if count > 1 and tally[code] >= _WANTED:
                places[code] = n_kept
                n_kept += count
                n_groups += 1
                begins[n_groups] = n_kept
            tally[code] = 0
        for place in range(start, end):
            row = rows[place]
            code = codes[row]
            where = places[code]
            if where >= 0:
                kept[where] = row
                places[code] = where + 1
            elif where == _ALONE:
                alone[n_alone] = row
                n_alone += 1
    return n_kept, n_groups, n_alone


class Separation(NamedTuple):
    """How well a subset of columns tells records apart."""

    distinct: int
    """different combinations of values"""
    together: int
    """pairs of records that agree on all columns of the subset"""


def separations(
    columns: Sequence[Column], weights: Ints, max_size: int, progress: Progress, label: str
) -> dict[int, Separation]:
    """Count, for every subset of at most `max_size` columns, the distinct combinations and the pairs that agree.

    `columns` are the codes of the distinct rows and `weights` how many records each of them stands for. Keys of the
    result are bit masks. Time at most O(rows) a subset.
    """
    found: dict[int, Separation] = {}
    settled = {0: Separation(0, 0)}  # what the rows that are alone contribute, for the subset and all larger ones
    for node in walk(columns, weights.size, max_size, progress, label, keep_leaves=True):
        before = settled[node.mask & (node.mask - 1)]
        now = Separation(before.distinct + node.alone.size, before.together + _pairs_alone(node.alone, weights))
        settled[node.mask] = now
        groups = node.starts.size - 1
        found[node.mask] = Separation(
            now.distinct + groups, now.together + _pairs_in_groups(node.rows, node.starts, weights)
        )
    if weights.size:
        _fill_in(found, len(columns), max_size)
    return found


def _fill_in(found: dict[int, Separation], columns: int, max_size: int) -> None:
    """Give a subset the walk had no need to visit the figures of the subset where every row was alone already."""

    def below(mask: int, low: int, size: int) -> None:
        for column in range(low):
            child = mask | 1 << column
            if child not in found:
                found[child] = found[mask]
            if size + 1 < max_size:
                below(child, column, size + 1)

    below(0, columns, 0)


@kernel
def _pairs_alone(alone: Ints32, weights: Ints) -> int:
    pairs = 0
    for place in range(alone.size):
        weight = weights[alone[place]]
        pairs += weight * (weight - 1) // 2
    return pairs


@kernel
def _pairs_in_groups(rows: Ints32, starts: Ints32, weights: Ints) -> int:
    pairs = 0
    for group in range(starts.size - 1):
        weight = 0
        for place in range(starts[group], starts[group + 1]):
            weight += weights[rows[place]]
        pairs += weight * (weight - 1) // 2
    return pairs
