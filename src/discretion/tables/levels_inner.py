"""The cheapest way to make room where most cells are suppressed already: a program over the inner cells."""

from __future__ import annotations

import numpy as np

from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.levels_model import NONZERO, Frame
from discretion.tables.linear_program import LinearProgram

WIDE = 2.0
"""Entries that the sums of inner cells may have, as a multiple of those of the sums of cells, to be used instead."""


class InnerModel:
    """All tables that differ from the true one in their inner cells, and what the cells that then differ would cost.

    Cells that cost nothing (`free`: suppressed already) need neither row nor variable. So in a table with few other
    cells the program is small, where one over all cells is large and has many solutions that cost the same. Answers as
    `RoomModel` does, which asks the same question.
    """

    def __init__(self, frame: Frame, cost: Floats, usable: Bools, free: Bools) -> None:
        from scipy.sparse import eye_array, hstack

        if frame.bounds is None:
            raise DiscretionError("levels: totals have bounds of their own")
        self._frame, self._usable = frame, usable[: frame.shown].copy()
        self._bounds, self._held = frame.bounds, np.zeros(0, np.int64)
        self._free = free
        self._rows = np.flatnonzero(~free)
        """the columns that cost something, or may not differ"""
        self._place = np.full(frame.shown, -1, np.int64)
        self._place[self._rows] = np.arange(len(self._rows))
        self._extra: dict[int, int] = {}
        """rows added for columns that are free"""
        self._n, k = frame.inside.shape[1], len(self._rows)
        one = eye_array(k)
        matrix = hstack([frame.inside[self._rows], -one, one]).tocsr()
        most = np.where(self._usable[self._rows], np.inf, 0.0)
        bounds = np.r_[-frame.bounds[0], np.zeros(2 * k)], np.r_[frame.bounds[1], most, most]
        costs = np.r_[np.zeros(self._n), np.tile(cost[self._rows], 2)]
        self._program = LinearProgram(matrix, bounds, (np.zeros(k), np.zeros(k)), costs)

    @staticmethod
    def suits(frame: Frame, free: Bools) -> bool:
        """Tell whether the program over inner cells is the smaller one."""
        if frame.bounds is None:
            return False
        entries = int(np.diff(frame.inside.indptr)[~free].sum())
        return entries <= WIDE * int(frame.sums.nnz)

    def price(self, columns: Ints, cost: Floats) -> None:
        """Change what columns cost; those that are free stay so."""
        place = self._place[columns]
        cost, place = cost[place >= 0], place[place >= 0]
        both = self._n + np.r_[place, place + len(self._rows)]
        self._program.price(both, np.tile(cost, 2).astype(np.float64))

    def close(self, column: int, closed: bool) -> None:
        """Forbid a column to differ, or allow it again."""
        place, k = int(self._place[column]), len(self._rows)
        if place < 0:
            raise DiscretionError("levels: a cell that stays suppressed cannot be closed")
        self._usable[column] = not closed
        both = self._n + np.array([place, place + k])
        self._program.bound(both, np.zeros(2), np.full(2, 0.0 if closed else np.inf))

    def hold(self, known: Ints, partly: Ints, low: Floats) -> None:
        """Let unknowns stand still, and others fall no farther than `low`, until `release`."""
        self.release()
        below, above = self._bounds
        at = np.r_[known, partly]
        still = np.zeros(len(known))
        self._program.bound(at, np.r_[still, np.maximum(low, -below[partly])], np.r_[still, above[partly]])
        self._held = at

    def release(self) -> None:
        """Give unknowns that were held their own bounds back."""
        below, above = self._bounds
        at = self._held
        self._program.bound(at, -below[at], above[at])
        self._held = np.zeros(0, np.int64)

    def room(self, column: int, amount: float, *, above: bool) -> tuple[Ints, Floats] | None:
        """Give the columns that differ, and by how much, in the cheapest table where one differs by at least an amount.

        None when there is no such table.
        """
        amount = min(amount, float((self._frame.up if above else self._frame.down)[column]))
        row = self._row(column)
        self._program.bound_row(row, *((amount, np.inf) if above else (-np.inf, -amount)))
        found = self._differing(amount) if self._program.solve_checked() else None
        self._program.bound_row(row, -np.inf, np.inf)
        return found

    def _row(self, column: int) -> int:
        """Give the row that holds how far a column differs; it binds nothing unless told so."""
        if column not in self._extra:
            inside = self._frame.inside[[column]]
            self._extra[column] = self._program.add_row(inside.indices, inside.data)
        return self._extra[column]

    def _differing(self, amount: float) -> tuple[Ints, Floats]:
        values = self._program.values
        k = len(self._rows)
        z: Floats = self._frame.inside @ values[: self._n]
        z[self._rows] = values[self._n : self._n + k] - values[self._n + k :]
        used = np.flatnonzero((np.abs(z) > NONZERO * max(amount, 1e-3)) & self._usable)
        return used, z[used]
