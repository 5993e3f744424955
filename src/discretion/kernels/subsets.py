"""Walk through the subsets of some columns, splitting groups of rows that agree.

Rows are the distinct combinations of codes, so that no two agree on all columns. The walk visits subsets in an
order in which every subset comes after all of its own subsets. It starts from the groups of the subset without its
lowest column and splits them by that column. A row that is alone on a subset is alone on every larger one, and no
other row is like it there: it takes no part in any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Codes, Floats, Index, Ints, Ints32, Keys, Progress
from discretion.kernels.jit import helper, kernel

# How well the subsets of some columns tell records apart.

MOST_PAIR_BYTES = 1 << 28
"""Memory for the sets of rows that are alone; without it fewer rows can be passed over."""


class Separation(NamedTuple):
    """How well a subset of columns tells records apart."""

    distinct: int
    """different combinations of values"""
    together: int
    """pairs of records that agree on all columns of the subset"""


def separations(
    columns: Sequence[CodedColumn], weights: Ints, max_size: int, progress: Progress, label: str
) -> dict[int, Separation]:
    """Count, for every subset of at most `max_size` columns, the distinct combinations and the pairs that agree.

    `columns` are the codes of the distinct rows and `weights` how many records each of them stands for. Keys of the
    result are bit masks. Time at most O(rows) a subset.
    """
    n = weights.size
    if not n:
        progress(1, 1, label)
        return {}
    several = weights > 1
    order = np.concatenate((np.flatnonzero(~several), np.flatnonzero(several)))
    weights, n_single = weights[order], n - int(several.sum())
    columns = [CodedColumn(codes[order], size) for codes, size in columns]
    walk = Walk(columns, n, n, max_size, progress, label, minimal=False, most_bytes=MOST_PAIR_BYTES)
    all_pairs = int((weights * (weights - 1) // 2).sum())
    most = max(column.size for column in columns)
    sums, seen = np.zeros(most, np.int64), np.empty(most + 1, np.int32)
    found: dict[int, Separation] = {}
    for node in walk.nodes():
        if node.column is None:
            distinct, together = _groups(node.rows, node.starts, weights, n_single)
        else:
            codes = columns[node.column].codes
            distinct, together = _groups_by(node.rows, node.starts, codes, weights, n_single, sums, seen)
        found[node.mask] = Separation(n + int(distinct), all_pairs + int(together))
    for mask in _masks(len(columns), max_size):
        found.setdefault(mask, Separation(n, all_pairs))
    return found


def _masks(columns: int, max_size: int) -> list[int]:
    """List the subsets of at most `max_size` columns."""
    return [
        sum(1 << column for column in chosen)
        for size in range(1, max_size + 1)
        for chosen in combinations(range(columns), size)
    ]


@kernel
def _groups(rows: Ints32, starts: Ints32, weights: Ints, n_single: int) -> tuple[Index, Index]:
    """Give what some groups change: combinations (fewer than rows) and pairs of records that agree (more).

    Rows below n_single stand for one record, and come first in their group.
    """
    together: Index = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        weight = np.int64(end - start)
        while end > start and rows[end - 1] >= n_single:
            end -= 1
            more = weights[rows[end]]
            weight += more - 1
            together -= more * (more - 1) // 2
        together += weight * (weight - 1) // 2
    return starts.size - 1 - rows.size, together


@kernel
def _groups_by(
    rows: Ints32, starts: Ints32, codes: Codes, weights: Ints, n_single: int, sums: Ints, seen: Ints32
) -> tuple[Index, Index]:
    """The same for the groups that come of splitting them by a column; `sums` are zero before and after."""
    distinct: Index = 0
    together: Index = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        if end - start == 2 and rows[start + 1] < n_single:
            alike = np.int64(codes[rows[start]] == codes[rows[start + 1]])
            together += alike
            distinct += 2 - alike
            continue
        n_seen = 0
        for place in range(start, end):
            row = rows[place]
            code = codes[row]
            seen[n_seen] = code
            n_seen += sums[code] == 0
            weight = np.int64(1)
            if row >= n_single:
                weight = weights[row]
                together -= weight * (weight - 1) // 2
            sums[code] += weight
        for number in range(n_seen):
            weight = sums[seen[number]]
            sums[seen[number]] = 0
            together += weight * (weight - 1) // 2
        distinct += n_seen
    return distinct - rows.size, together


# Minimal sample uniques: the smallest sets of columns on which a row is alone, added up for each row.

MOST_BYTES = 1 << 28
"""Memory for the sets of rows that are alone on each set of columns; where it is not enough, rows come in parts."""
_BLOCK = 64
"""Words of rows whose sums stay in the processor's cache."""
_FEWEST = 64
"""Rows that are never looked for in parts: their bits are one word for each set."""
_LABEL = "minimal sample uniques"


class Scored(NamedTuple):
    """What is added up for each row."""

    scores: Floats
    """sum of the weights of a row's minimal sample uniques"""
    contributions: Floats
    """rows × columns: sum of the weights of the minimal sample uniques the column is in"""
    special: Bools
    """whether the row has any"""
    by_size: Ints
    """number of minimal sample uniques of each size; place 0 is empty"""


@dataclass
class SubsetSums:
    """Sums over sets of columns, added up some sets at a time so that the rows are gone through in order."""

    rows: int
    weights: Floats
    """weight of a set by its size; columns are one fewer"""
    _sets: list[Keys] = field(default_factory=list)
    _masks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = self.weights.size - 1
        by_column = np.zeros((self.rows, columns))
        self.sums = Scored(
            np.zeros(self.rows), by_column, np.zeros(self.rows, np.bool_), np.zeros(columns + 1, np.int64)
        )

    def add(self, mask: int, fresh: Keys) -> None:
        """Add a set of columns for the rows whose bits are set."""
        self._sets.append(fresh)
        self._masks.append(mask)
        if len(self._sets) * fresh.nbytes > MOST_BYTES // 8:
            self.finish()

    def finish(self) -> Scored:
        """Add what is waiting and give the sums."""
        if self._sets:
            inside = [[j for j in range(self.weights.size - 1) if mask >> j & 1] for mask in self._masks]
            ends = np.cumsum([0, *map(len, inside)])
            columns = np.array([j for one in inside for j in one], np.int64)
            _add_up(np.stack(self._sets), columns, ends, self.weights, *self.sums)
            self._sets.clear()
            self._masks.clear()
        return self.sums


def minimal_uniques(
    columns: Sequence[Codes],
    n_unique: int,
    max_size: int,
    weights: Floats,
    progress: Progress,
    left_out: Sequence[Bools] | None = None,
) -> Scored:
    """Find every set of at most `max_size` columns on which a row is alone and on no smaller one of them.

    `columns` hold the codes of the distinct combinations; the first `n_unique` stand for one record each, the
    others for several, which are never alone. A set of s columns counts weights[s]. Exact. Time at most
    O(combinations) a subset; far less where rows become alone early, for which columns with many values are taken
    first. `left_out` tells for each column which of the rows have no set that contains it. Memory
    O(combinations · columns), and a bit for each combination and subset up to `MOST_BYTES`: beyond it
    the rows are looked for in parts, in as many walks.
    """
    coded = [CodedColumn.of(codes) for codes in columns]
    order = sorted(range(len(columns)), key=lambda j: coded[j].size)
    found = SubsetSums(n_unique, weights).finish()
    told = _Told(n_unique, progress)
    parts = [(0, n_unique)] if n_unique else []
    while parts:
        start, end = parts.pop()
        try:
            some = _part([coded[j] for j in order], order, start, end, n_unique, max_size, weights, told, left_out)
        except FullError:
            middle = (start + end) // 2
            parts += [(middle, end), (start, middle)]
            continue
        for whole, piece in zip(found[:3], some[:3], strict=True):
            whole[start:end] = piece
        found.by_size[:] += some.by_size
    return found


def add_up_sets(nodes: Iterable[tuple[int, Ints32]], n: int, weights: Floats) -> Scored:
    """Add up sets of columns that come as bit masks, small ones first, each with all of the rows that are alone."""
    sums = SubsetSums(n, weights)
    smaller: dict[int, Keys] = {}
    same: dict[int, Keys] = {}
    size = 1
    for mask, rows in nodes:
        if mask.bit_count() > size:
            smaller, same, size = same, {}, size + 1
        alone = np.zeros(words_for(n), np.uint64)
        set_bits(rows, n, alone)
        same[mask] = alone
        fresh = alone.copy()
        for column in range(weights.size - 1):
            if mask >> column & 1 and mask != 1 << column:
                fresh &= ~smaller[mask ^ 1 << column]
        sums.add(mask, fresh)
    return sums.finish()


@dataclass
class _Told:
    """Progress over several walks, which never goes back."""

    rows: int
    progress: Progress
    most: int = 0

    def of(self, start: int, end: int) -> Progress:
        def tell(done: int, total: int, label: str) -> None:
            self.most = max(self.most, (start * total + (end - start) * done) // self.rows)
            self.progress(self.most, total, label)

        return tell


def _part(
    columns: Sequence[CodedColumn],
    order: Sequence[int],
    start: int,
    end: int,
    n_unique: int,
    max_size: int,
    weights: Floats,
    told: _Told,
    left_out: Sequence[Bools] | None,
) -> Scored:
    """Find the sets of the rows from start to end; `order` are the numbers of the columns."""
    n = columns[0].codes.size
    wanted = end - start
    covered = n
    if wanted < n_unique:
        covered = wanted  # bits for the others would need the memory that is lacking
        columns = [CodedColumn(np.roll(codes, -start), size) for codes, size in columns]
    most = MOST_BYTES if wanted > _FEWEST else sys.maxsize
    walk = Walk(columns, wanted, covered, max_size, told.of(start, end), _LABEL, minimal=True, most_bytes=most)
    sums = SubsetSums(wanted, weights)
    without = [_bits(rows[start:end]) for rows in left_out or ()]
    for node in walk.nodes():
        if node.fresh is not None:
            chosen = [column for place, column in enumerate(order) if node.mask >> place & 1]
            fresh = node.fresh
            if without:  # a smaller set without the column is not affected, so that minimal sets stay minimal
                fresh = fresh[: words_for(wanted)] & ~np.bitwise_or.reduce([without[column] for column in chosen])
            sums.add(sum(1 << column for column in chosen), fresh)
    return sums.finish()


def _bits(rows: Bools) -> Keys:
    """Give the numbers of some rows as bits."""
    bits = np.zeros(words_for(rows.size), np.uint64)
    set_bits(np.flatnonzero(rows).astype(np.int32), rows.size, bits)
    return bits


_NUMBER = np.uint64(0x03F79D71B4CB0A89)
"""A de Bruijn sequence: the highest six bits of its product with 1 << b are different for every b."""
_BIT = np.zeros(64, np.int64)
_BIT[[(int(_NUMBER) << bit) % (1 << 64) >> 58 for bit in range(64)]] = np.arange(64)


@kernel
def _add_up(
    sets: Keys,
    columns: Ints,
    ends: Ints,
    weights: Floats,
    scores: Floats,
    contributions: Floats,
    special: Bools,
    by_size: Ints,
) -> None:
    """Add each set of columns[ends[i]] … to the rows whose bits are set in sets[i], block after block of rows."""
    words = min(sets.shape[1], (scores.size + 63) // 64)
    for block in range(0, words, _BLOCK):
        for number in range(sets.shape[0]):
            first, end = ends[number], ends[number + 1]
            size = end - first
            weight = weights[size]
            for place in range(block, min(block + _BLOCK, words)):
                word = sets[number, place]
                while word != 0:
                    low = word & (~word + np.uint64(1))
                    word ^= low
                    row = place * 64 + _BIT[(low * _NUMBER) >> np.uint64(58)]
                    if row >= scores.size:
                        break
                    by_size[size] += 1
                    special[row] = True
                    scores[row] += weight
                    for one in range(first, end):
                        contributions[row, columns[one]] += weight


# Split groups of rows by a column, and list the rows that are then alone in their group.
#
# Most groups are small and their rows differ at random, so that a branch for each row would often be guessed wrong:
# the rows are sorted out by two words of 64 bits instead, one with the codes seen and one with those seen twice. Codes
# of more than 64 values share bits; the few rows that a shared bit leaves in doubt are counted.

_WANTED = 1 << 32
_ALONE, _DROPPED = -1, -2
_SMALL = 96
"""Rows of a group up to which the words of bits are worth their while."""
_ONE, _BITS = np.uint64(1), np.uint64(63)


class SplitMemory(NamedTuple):
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
    def of(cls, n: int, most_codes: int) -> SplitMemory:
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
    rows: Ints32, starts: Ints32, codes: Codes, n_codes: int, covered: Keys, n_covered: int, scratch: SplitMemory
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
    scratch: SplitMemory,
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
    scratch: SplitMemory,
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


class FullError(MemoryError):
    """The sets of rows that are alone need more memory than is allowed."""


class CodedColumn(NamedTuple):
    """The codes 0 … size−1 of a column, all of which occur, in the narrowest type."""

    codes: Codes
    size: int

    @classmethod
    def of(cls, codes: Codes) -> CodedColumn:
        """Renumber the codes that occur. Time O(n + largest code)."""
        present = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
        present[codes] = True
        size = int(present.sum())
        numbers = np.cumsum(present) - 1
        narrow: Codes = numbers.astype(np.uint8) if size <= 256 else numbers.astype(np.int32)
        return cls(narrow[codes], size)


class SubsetNode(NamedTuple):
    """A subset of columns and what it does to the rows."""

    mask: int
    """the subset: bit b stands for column b"""
    rows: Ints32
    """rows that agree with another row, one group after the other; at a leaf those of the subset without `column`"""
    starts: Ints32
    """group g is rows[starts[g]] … rows[starts[g + 1] − 1]"""
    column: int | None
    """the lowest column, by which the groups of a leaf are still to be split; None where it was done"""
    fresh: Keys | None
    """the rows, as bits, that are alone here and on no smaller subset; None where there are none"""


def subset_count(columns: int, max_size: int) -> int:
    """Count the non-empty subsets of at most `max_size` of some columns."""
    return sum(comb(columns, size) for size in range(1, min(max_size, columns) + 1))


def words_for(rows: int) -> int:
    """Count the words of 64 bits that hold a bit for each row."""
    return max(1, -(-rows // 64))


@dataclass
class Walk:
    """A walk through the subsets of at most `max_size` columns; a leaf is a subset that no other one is built from.

    Only rows 0 … n_wanted−1 are looked for: a group without any of them is dropped, and so is a subset on which all
    of them were alone before. Rows 0 … n_covered−1 are left out as soon as they are alone on any subset, the others
    when they are alone on the one a subset is built from. Time at most O(rows) a subset; memory O(rows) for each
    column of the largest subset, and one bit for each row up to n_covered and each subset.
    """

    columns: Sequence[CodedColumn]
    n_wanted: int
    n_covered: int
    max_size: int
    progress: Progress
    label: str
    minimal: bool
    """split the groups of leaves too, so that `fresh` is known; without it leaves come unsplit"""
    most_bytes: int
    """largest size of the sets of rows that are alone; a walk that needs them all ends with FullError"""
    _alone: dict[int, Keys | None] = field(default_factory=dict, init=False)
    """for each subset visited the rows alone on it; a subset that is not there was dropped: all are alone"""
    _bytes: int = field(default=0, init=False)
    _done: int = field(default=0, init=False)

    def nodes(self) -> Iterator[SubsetNode]:
        """Yield every subset that is not dropped, each after all of its own subsets."""
        n = self.columns[0].codes.size
        self._total = subset_count(len(self.columns), self.max_size)
        if n and self.n_wanted:
            self._scratch = SplitMemory.of(n, max(column.size for column in self.columns))
            self._nobody = np.zeros(words_for(self.n_covered), np.uint64)
            yield from self._below(0, np.arange(n, dtype=np.int32), np.array([0, n], np.int32), len(self.columns), 0)
        self.progress(self._total, self._total, self.label)

    def _below(self, mask: int, rows: Ints32, starts: Ints32, low: int, size: int) -> Iterator[SubsetNode]:
        for column in range(low):
            self.progress(self._done, self._total, self.label)
            subset = mask | 1 << column
            inner = column > 0 and size + 1 < self.max_size
            later = self._done + 1 + (subset_count(column, self.max_size - size - 1) if inner else 0)
            self._done += 1
            if inner or self.minimal:
                parts = self._parts(subset)
                if all(part in self._alone for part in parts):
                    node = self._visit(subset, parts, rows, starts, column, inner)
                    yield node
                    if node.rows.size:
                        yield from self._below(subset, node.rows, node.starts, column, size + 1)
            else:
                yield SubsetNode(subset, rows, starts, column, None)
            self._done = later

    def _parts(self, subset: int) -> list[int]:
        """Name the non-empty subsets with one column less."""
        parts = []
        rest = subset
        while rest:
            low = rest & -rest
            rest ^= low
            if subset != low:
                parts.append(subset ^ low)
        return parts

    def _visit(
        self, subset: int, parts: Sequence[int], rows: Ints32, starts: Ints32, column: int, inner: bool
    ) -> SubsetNode:
        """Split the groups of a subset and note who is alone."""
        covered = self._covered(parts)
        known = (self._nobody, 0) if covered is None else (covered, self.n_covered)
        codes, n_codes = self.columns[column]
        if inner:
            kept, begins = np.empty(rows.size + 2, np.int32), np.empty(rows.size // 2 + 1, np.int32)
            found = split(rows, starts, codes, n_codes, *known, self.n_wanted, kept, begins, self._scratch)
            kept, begins, n_alone = kept[: found[0]], begins[: found[1] + 1], found[2]
        else:
            n_alone = singles(rows, starts, codes, n_codes, *known, self._scratch)
            kept, begins = rows[:0], starts[:1]
        fresh = self._fresh(n_alone)
        if (kept.size or not inner) and subset.bit_count() < self.max_size:
            self._note(subset, covered, fresh)
        return SubsetNode(subset, kept, begins, None, fresh)

    def _covered(self, parts: Sequence[int]) -> Keys | None:
        """Give the rows that are alone on one of some subsets; None where there are none."""
        sets = [alone for alone in map(self._alone.__getitem__, parts) if alone is not None]
        if len(sets) < 2:
            return sets[0] if sets else None
        covered: Keys = sets[0] | sets[1]
        for alone in sets[2:]:
            covered |= alone
        return covered

    def _fresh(self, n_alone: Index) -> Keys | None:
        if not n_alone:
            return None
        bits = np.zeros(words_for(self.n_covered), np.uint64)
        set_bits(self._scratch.alone[:n_alone], self.n_covered, bits)
        return bits

    def _note(self, subset: int, covered: Keys | None, fresh: Keys | None) -> None:
        """Keep who is alone on a subset, for the larger ones."""
        both = covered | fresh if covered is not None and fresh is not None else covered if fresh is None else fresh
        if both is not None:
            self._bytes += both.nbytes
        if self._bytes > self.most_bytes:
            if self.minimal:
                raise FullError
            both = None
        self._alone[subset] = both
