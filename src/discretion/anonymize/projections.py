"""What three columns alone say about every node: records that must be suppressed, classes that can be kept.

A record in a cell of fewer than k records over some of the columns is in a class of fewer than k records over all of
them. So the records in small cells, counted for every combination of levels of three columns, bound the suppressed
records of every node with these levels from below; and the cells of k records or more bound the classes that can be
kept from above. Without evaluating a node, most of the lattice is excluded in a few milliseconds.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.lattice import Axis
from discretion.anonymize.records import SearchRecords
from discretion.kernels.projections import small_cells

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Grid = NDArray[np.int32]

_VALUES = 512
"""The largest column that is counted at its lowest level; larger ones from the first level that fits."""
_CELLS = 1 << 21
"""The largest table of three columns."""
_FEW_CELLS = 1 << 20
_CELLS_PER_ROW = 32
"""Cells of all tables, at all levels, together: as many as cost little, or as many for each combination of values."""
_COUNTED = 40_000_000
"""Records counted into tables, together."""
_GRIDS = 1 << 29
"""Entries of grids that are compared with tables when all nodes are bounded at once."""


class Projections:
    """Tables over three columns, and the bounds they give."""

    def __init__(self, records: SearchRecords, k: int) -> None:
        self._records = records
        self._k = k
        self._tables: list[tuple[tuple[int, ...], Ints, Ints]] = []
        for chosen in _choose(records.axes, len(records.counts)):
            small, big = _count(records, chosen, k)
            self._tables.append((chosen, small, big))
        self._tables.sort(key=lambda table: (-float(table[1].mean()), table[0]))

    def least(self, steps: Ints) -> Ints:
        """Give the records that each node (a row of steps) must suppress at least."""
        result = np.zeros(len(steps), np.int64)
        for chosen, small, _ in self._tables:
            np.maximum(result, small[tuple(steps[:, list(chosen)].T)], out=result)
        return result

    def least_everywhere(self) -> Grid:
        """Give the records that must be suppressed at least, for every node of the lattice."""
        shape = self._records.shape
        grid = np.zeros(shape, np.int32)
        for chosen, small, _ in self._tables[: max(1, _GRIDS // grid.size)]:
            if small.any():
                np.maximum(grid, _spread(small.astype(np.int32), chosen, len(shape)), out=grid)
        return grid

    def most(self, steps: Ints, least: Ints) -> Floats:
        """Give the classes that each node can keep at most, given the records it suppresses at least."""
        result = (self._records.n - least) / max(self._k, 1)
        sizes = [np.log(np.array(axis.sizes, float))[steps[:, j]] for j, axis in enumerate(self._records.axes)]
        total = np.sum(sizes, axis=0)
        best = total
        for chosen, _, big in self._tables:
            cells = np.log(np.maximum(big[tuple(steps[:, list(chosen)].T)], 0.5))
            best = np.minimum(best, total - sum(sizes[j] for j in chosen) + cells)
        return np.asarray(np.minimum(np.floor(result), np.round(np.exp(np.minimum(best, 80.0)) + 0.49)))


def _choose(axes: tuple[Axis, ...], combinations_of_values: int) -> list[tuple[int, ...]]:
    """Choose the triples of columns to count: the small ones first, as long as the work stays small."""
    lowest = [axis.sizes[_first(axis)] for axis in axes]
    totals = [sum(axis.sizes[_first(axis) :]) for axis in axes]
    sized = [
        (math.prod(totals[j] for j in chosen), chosen)
        for chosen in combinations(range(len(axes)), min(3, len(axes)))
        if math.prod(lowest[j] for j in chosen) <= _CELLS
    ]
    result, cells, counted = [], 0, 0
    for every, chosen in sorted(sized):
        cells += every
        counted += combinations_of_values
        if cells > max(_FEW_CELLS, _CELLS_PER_ROW * combinations_of_values) or counted > _COUNTED:
            break
        result.append(chosen)
    return result


def _first(axis: Axis) -> int:
    """The lowest step that is counted: that of a column with many values is a higher one."""
    fitting = [step for step, size in enumerate(axis.sizes) if size <= _VALUES]
    return fitting[0] if fitting else axis.steps - 1


def _count(records: SearchRecords, chosen: tuple[int, ...], k: int) -> tuple[Ints, Ints]:
    """Count the table of up to three columns; a column that is not there has one value and one level.

    At steps below the lowest counted one, at least as much is suppressed as there, and nothing is known of the classes.
    """
    axes = [records.axes[j] for j in chosen]
    firsts = [_first(axis) for axis in axes]
    steps = max(axis.steps - first for axis, first in zip(axes, firsts, strict=True))
    widest = max(axis.sizes[first] for axis, first in zip(axes, firsts, strict=True))
    parents = np.zeros((3, max(steps - 1, 1), widest), np.int32)
    sizes = np.zeros((3, steps), np.int64)
    sizes[:, 0] = 1
    codes = np.zeros((3, len(records.counts)), np.int32)
    for row, (place, axis, first) in enumerate(zip(chosen, axes, firsts, strict=True)):
        codes[row] = records.codes[place] if first == 0 else axis.groups[first][records.codes[place]]
        sizes[row, : axis.steps - first] = axis.sizes[first:]
        for step, up in enumerate(axis.up[first:]):
            parents[row, step, : len(up)] = up
    small, big = small_cells(codes, records.counts, parents, sizes, k)
    shape = tuple(axis.steps - first for axis, first in zip(axes, firsts, strict=True))
    small, big = small.reshape(shape), big.reshape(shape)
    for place, first in enumerate(firsts):
        if first:
            below = [(first, 0) if place == other else (0, 0) for other in range(len(axes))]
            small = np.pad(small, below, mode="edge")
            big = np.pad(big, below, constant_values=records.n)
    return small, big


def _spread(table: Grid, chosen: tuple[int, ...], axes: int) -> Grid:
    """Lay a table of a few columns along the axes of the lattice."""
    shape = [1] * axes
    for size, place in zip(table.shape, chosen, strict=True):
        shape[place] = size
    return table.reshape(shape)
