"""Room for a cell from the cells around it: small programs whose solutions hold for the whole table."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.levels_model import Frame, RoomModel

AROUND = 8000
"""Columns that a program has at least, if there are so many; tables with fewer are one program."""
GROWTH = 4
"""How many times more columns a program gets when those around a cell leave no room."""


class Rooms:
    """The cheapest way to make room for a cell, looked for around it first.

    The cells around a cell are those that share a sum with it, those that share a sum with these, and so on, until
    there are `around` of them. Cells farther away stay as they are, so a table found holds for all cells; where none
    is found more cells are taken in, in the end all. A program over all cells stays in the solver and goes on from its
    last solution; a smaller one serves both sides of its cell. Time of a small program grows with `around`, not with
    the table; what it finds may cost more than what a program over the whole table would.
    """

    def __init__(self, frame: Frame, cost: Floats, usable: Bools, around: int = AROUND) -> None:
        beyond = len(frame.up) - frame.cells
        self.frame = frame
        self.around = around
        self.solved = 0
        """linear programs solved so far"""
        self._cost = np.r_[cost, np.zeros(beyond)]
        self._usable: Bools = np.r_[usable, np.ones(beyond, np.bool_)]
        self._sums = abs(frame.sums).tocsr()
        self._of = self._sums.T.tocsr()
        self._whole: RoomModel | None = None
        self._last: tuple[int, int, RoomModel] | None = None

    def price(self, cells: Ints, cost: Floats) -> None:
        """Change what cells cost."""
        self._cost[cells] = cost
        for model in self._models():
            model.price(cells, cost)

    def close(self, cell: int, closed: bool) -> None:
        """Forbid a cell to differ, or allow it again."""
        self._usable[cell] = not closed
        for model in self._models():
            model.close(cell, closed)

    @property
    def open_cells(self) -> Bools:
        """Which cells may differ."""
        cells: Bools = self._usable[: self.frame.cells]
        return cells

    def room(self, cell: int, amount: float, *, above: bool, grow: bool = True) -> tuple[Ints, Floats] | None:
        """Give the cells that differ, and by how much, in the cheapest table found where one differs by an amount.

        None when there is no such table; without `grow`, when there is none that differs around the cell only.
        """
        size = self.around
        while True:
            model = self._model(cell, size)
            self.solved += 1
            found = model.room(cell, amount, above=above)
            if found is not None or model is self._whole or not grow:
                return found
            size *= GROWTH

    def region(self, cell: int, size: int) -> Bools:
        """Give the columns around a cell: so many at least, or all that are tied to it."""
        inside = np.zeros(len(self._usable))
        inside[cell] = 1.0
        count = 1
        while count < size:
            inside = ((self._of @ (self._sums @ inside) > 0) & self._usable).astype(np.float64)
            before, count = count, int(inside.sum())
            if count == before:
                break
        return inside > 0

    def _model(self, cell: int, size: int) -> RoomModel:
        if size >= int(self._usable.sum()):
            if self._whole is None:
                self._whole = RoomModel(self.frame, self._cost, self._usable)
            return self._whole
        if self._last is None or self._last[:2] != (cell, size):
            self._last = cell, size, RoomModel(self.frame, self._cost, self.region(cell, size))
        return self._last[2]

    def _models(self) -> list[RoomModel]:
        return [model for model in (self._whole, self._last[2] if self._last else None) if model is not None]
