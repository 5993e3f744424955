"""Minimal sample uniques: the smallest sets of columns on which a row is alone, added up for each row."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32, Keys
from discretion.kernels.jit import kernel
from discretion.kernels.subset_splits import set_bits
from discretion.kernels.subsets import Column, FullError, Progress, Walk, words_for

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
class Sums:
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
    coded = [Column.of(codes) for codes in columns]
    order = sorted(range(len(columns)), key=lambda j: coded[j].size)
    found = Sums(n_unique, weights).finish()
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
    sums = Sums(n, weights)
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
    columns: Sequence[Column],
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
        columns = [Column(np.roll(codes, -start), size) for codes, size in columns]
    most = MOST_BYTES if wanted > _FEWEST else sys.maxsize
    walk = Walk(columns, wanted, covered, max_size, told.of(start, end), _LABEL, minimal=True, most_bytes=most)
    sums = Sums(wanted, weights)
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
