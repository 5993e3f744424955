"""Walk through the subsets of some columns, splitting groups of rows that agree.

Rows are the distinct combinations of codes, so that no two agree on all columns. The walk visits subsets in an
order in which every subset comes after all of its own subsets. It starts from the groups of the subset without its
lowest column and splits them by that column. A row that is alone on a subset is alone on every larger one, and no
other row is like it there: it takes no part in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Index, Ints32, Keys
from discretion.kernels.subset_splits import Scratch, set_bits, singles, split

Progress = Callable[[int, int, str], None]


class FullError(MemoryError):
    """The sets of rows that are alone need more memory than is allowed."""


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

    columns: Sequence[Column]
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

    def nodes(self) -> Iterator[Node]:
        """Yield every subset that is not dropped, each after all of its own subsets."""
        n = self.columns[0].codes.size
        self._total = subset_count(len(self.columns), self.max_size)
        if n and self.n_wanted:
            self._scratch = Scratch.of(n, max(column.size for column in self.columns))
            self._nobody = np.zeros(words_for(self.n_covered), np.uint64)
            yield from self._below(0, np.arange(n, dtype=np.int32), np.array([0, n], np.int32), len(self.columns), 0)
        self.progress(self._total, self._total, self.label)

    def _below(self, mask: int, rows: Ints32, starts: Ints32, low: int, size: int) -> Iterator[Node]:
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
                yield Node(subset, rows, starts, column, None)
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

    def _visit(self, subset: int, parts: Sequence[int], rows: Ints32, starts: Ints32, column: int, inner: bool) -> Node:
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
        return Node(subset, kept, begins, None, fresh)

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
