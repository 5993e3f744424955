"""The cheapest way to make room for a cell: a linear program over the deviations of all cells of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker_system import Matrix, Prior, spread, without_repeats
from discretion.tables.linear_program import LinearProgram

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

NONZERO = 1e-7
"""Deviations below this share of the room asked for are rounding of the solver."""


@dataclass(frozen=True, eq=False)
class Frame:
    """How cells (and after them unpublished inner cells) are tied together, and how far each may differ.

    Cells with the same inner cells always differ by the same amount and are one column.
    """

    sums: Matrix
    """(sums × columns) every row times the deviations is 0"""
    up: Floats
    """(columns,) how far above its value each may lie"""
    down: Floats
    """(columns,) how far below"""
    column: Ints
    """(cells,) the column of each cell"""
    shown: int
    """how many of the columns are cells"""
    inside: Matrix
    """(shown columns × unknowns) the inner cells of each column; those in exactly the same cells are one unknown"""
    bounds: tuple[Floats, Floats] | None
    """(unknowns,) how far below and above its value each unknown may lie; None where totals have bounds of their own"""

    @cached_property
    def _by_column(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.column, kind="stable")
        return order, np.r_[0, np.cumsum(np.bincount(self.column, minlength=self.shown))]

    def cells_of(self, columns: Ints) -> tuple[Ints, Ints]:
        """Give the cells of some columns, and for each the place of its column among them."""
        order, start = self._by_column
        count = start[columns + 1] - start[columns]
        place = np.repeat(np.arange(len(columns)), count)
        inside = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        return order[start[columns][place] + inside], place

    def of_columns(self, cost: Floats, usable: Bools) -> tuple[Floats, Bools]:
        """Add up what cells of a column cost, and tell which columns have only usable cells; the rest are free."""
        beyond = len(self.up) - self.shown
        price = np.bincount(self.column, cost, self.shown)
        barred = np.bincount(self.column, ~usable, self.shown) > 0
        return np.r_[price, np.zeros(beyond)], np.r_[~barred, np.ones(beyond, np.bool_)]


class RoomModel:
    """All tables that differ from the true one, and what the cells that differ would cost if they were suppressed.

    Two variables per column (it lies above, below its value), one row per sum; `room` asks for the cheapest table in
    which a column differs by a given amount. Columns outside `usable` never differ: a table found for a part of them is
    one for all. The solver goes on from the last solution.
    """

    def __init__(self, frame: Frame, cost: Floats, usable: Bools) -> None:
        from scipy.sparse import hstack

        self.columns = np.flatnonzero(usable)
        self._shown = frame.shown
        self._place = np.full(len(frame.up), -1, np.int64)
        self._place[self.columns] = np.arange(len(self.columns))
        self._up, self._down = frame.up[self.columns], frame.down[self.columns]
        self._most = self._up.copy(), self._down.copy()
        """what columns may differ by when nothing is held"""
        sums = frame.sums
        rows = sums[:, self.columns].tocsr()
        rows.eliminate_zeros()
        rows = rows[np.flatnonzero(np.diff(rows.indptr) > 0)]
        still = np.zeros(rows.shape[0])
        bounds = np.zeros(2 * len(self.columns)), np.r_[self._up, self._down]
        self._program = LinearProgram(hstack([rows, -rows]), bounds, (still, still), np.tile(cost[self.columns], 2))
        self._held = np.zeros(0, np.int64)
        self.solved = 0

    def price(self, columns: Ints, cost: Floats) -> None:
        """Change what columns cost; those that are not in the program have no price."""
        place = self._place[columns]
        cost = cost[place >= 0]
        place = place[place >= 0]
        self._program.price(np.r_[place, place + len(self.columns)], np.tile(cost, 2).astype(np.float64))

    def close(self, column: int, closed: bool) -> None:
        """Forbid a column to differ, or allow it again."""
        i, n = int(self._place[column]), len(self.columns)
        if i < 0:
            return
        most = np.zeros(2) if closed else np.array([self._up[i], self._down[i]])
        self._program.bound(np.array([i, i + n]), np.zeros(2), most)

    def hold(self, known: Ints, partly: Ints, low: Floats) -> None:
        """Let columns stand still, and others fall no farther than `low`, until `release`."""
        self.release()
        place = self._place[np.r_[known, partly]]
        most = np.r_[np.zeros(len(known)), np.full(len(partly), np.inf)], np.r_[np.zeros(len(known)), -low]
        here = place >= 0
        place = place[here]
        self._held = place
        up, down = np.minimum(self._up[place], most[0][here]), np.minimum(self._down[place], most[1][here])
        self._bound(place, up, down)

    def release(self) -> None:
        """Give columns that were held their own bounds back."""
        self._bound(self._held, self._most[0][self._held], self._most[1][self._held])
        self._held = self._held[:0]

    def _bound(self, place: Ints, up: Floats, down: Floats) -> None:
        self._up[place], self._down[place] = up, down
        both = np.r_[place, place + len(self.columns)]
        self._program.bound(both, np.zeros(len(both)), np.r_[up, down])

    def room(self, column: int, amount: float, *, above: bool) -> tuple[Ints, Floats] | None:
        """Give the columns that differ, and by how much, in the cheapest table where one differs by at least an amount.

        None when there is no such table.
        """
        i, n = int(self._place[column]), len(self.columns)
        here = np.array([i, i + n] if above else [i + n, i])
        own = np.array([self._up[i], self._down[i]] if above else [self._down[i], self._up[i]])
        amount = min(amount, float(self._most[0 if above else 1][i]))
        if amount > own[0]:
            return None
        self._program.bound(here, np.array([amount, 0.0]), np.array([own[0], 0.0]))
        self.solved += 1
        found = None
        if self._program.solve_checked():
            columns = self._program.values
            z = columns[:n] - columns[n:]
            used = np.flatnonzero(np.abs(z) > NONZERO * max(amount, 1e-3))
            used = used[self.columns[used] < self._shown]
            found = self.columns[used], z[used]
        self._program.bound(here, np.zeros(2), own)
        return found


def first_equal(cells: Cells) -> Ints:
    """Give for each cell the first one that consists of the same inner cells: they stand and fall together."""
    members = cells.x.transposed
    marks = np.random.default_rng(0).integers(0, 2**63, (len(cells.inner_codes), 2), dtype=np.int64)
    filled = np.flatnonzero(np.diff(members.indptr) > 0)
    keys = np.zeros((len(cells), 2), np.int64)
    for k in (0, 1) if len(filled) else ():
        keys[filled, k] = np.add.reduceat(marks[members.indices, k], members.indptr[filled])
    order = np.lexsort((keys[:, 0], keys[:, 1]))
    new = np.r_[True, (keys[order[1:]] != keys[order[:-1]]).any(axis=1)][: len(order)]
    first = np.empty(len(cells), np.int64)
    first[order] = order[new][np.cumsum(new) - 1]
    return first


def frame_of(cells: Cells, prior: Prior) -> Frame:
    """Tie all cells together. Published cells of linked tables that no relation takes apart are sums of inner cells."""
    from scipy.sparse import csr_array, hstack, vstack

    low, high = prior.bounds(cells, np.ones(len(cells), np.bool_))
    first, column = np.unique(first_equal(cells), return_inverse=True)
    together: Matrix = csr_array((np.ones(len(cells)), (np.arange(len(cells)), column)), shape=(len(cells), len(first)))
    sums = cells.relations()
    matrix: Matrix = without_repeats(sums.to_scipy() @ together)
    up, down = np.full(len(first), np.inf), np.full(len(first), np.inf)
    np.minimum.at(up, column, high - cells.value)
    np.minimum.at(down, column, cells.value - low)
    own = cells.inner_cell
    every = spread(cells, np.ones(len(own), np.bool_))
    inside = (cells.x.transposed.to_scipy()[first] @ every).tocsr()
    below = np.full(every.shape[1], np.inf) if prior.negative else every.T @ cells.inner_value
    plain = prior.percent is None and prior.lower is None and prior.upper is None
    ends = (below, np.full(len(below), np.inf)) if plain else None
    if (own >= 0).all() and cells.wide is None:
        return Frame(matrix, up, down, column, len(first), inside, ends)
    unit = spread(cells, own < 0)
    hidden = unit.shape[1]
    bottom = np.ones(len(cells), np.bool_)
    bottom[sums.indices[sums.data > 0]] = False
    bottom[own[own >= 0]] = False
    bare = np.flatnonzero(bottom)
    parts = cells.x.transposed.to_scipy()[bare]
    seen = np.flatnonzero(own >= 0)
    to_cells: Matrix = csr_array((np.ones(len(seen)), (seen, own[seen])), shape=(len(own), len(cells)))
    own_rows: Matrix = csr_array((np.ones(len(bare)), (np.arange(len(bare)), bare)), shape=(len(bare), len(cells)))
    below = np.full(hidden, np.inf) if prior.negative else unit.T @ np.where(own < 0, cells.inner_value, 0.0)
    extra = hstack([(own_rows - parts @ to_cells) @ together, -(parts @ unit)])
    blank: Matrix = csr_array((matrix.shape[0], hidden), dtype=np.float64)
    matrix = vstack([hstack([matrix, blank]), extra]).tocsr()
    return Frame(matrix, np.r_[up, np.full(hidden, np.inf)], np.r_[down, below], column, len(first), inside, ends)
