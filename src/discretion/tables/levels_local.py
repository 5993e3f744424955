"""Room for a cell from the cells around it: small programs whose solutions hold for the whole table."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.levels_inner import InnerModel
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
    the table; what it finds may cost more than what a program over the whole table would. Where most cells are `free`
    (suppressed, and to stay so) there is one program over the inner cells instead.
    """

    def __init__(
        self, frame: Frame, cost: Floats, usable: Bools, around: int = AROUND, free: Bools | None = None
    ) -> None:
        self.frame = frame
        self.around = around
        self.solved = 0
        """linear programs solved so far"""
        self._cell_cost, self.open_cells = cost.copy(), usable.copy()
        """what each cell costs, and which may differ"""
        self._cost, self._usable = frame.of_columns(cost, usable)
        self._sums = abs(frame.sums).tocsr()
        self._of = self._sums.T.tocsr()
        self._whole: RoomModel | InnerModel | None = None
        if free is not None and InnerModel.suits(frame, kept := frame.of_columns(cost, free)[1][: frame.shown]):
            self._whole = InnerModel(frame, self._cost, self._usable, kept & self._usable[: frame.shown])
        self._last: tuple[int, int, RoomModel] | None = None
        self._held: tuple[Ints, Ints, Floats] = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)

    def price(self, cells: Ints, cost: Floats) -> None:
        """Change what cells cost."""
        self._cell_cost[cells] = cost
        columns = np.unique(self.frame.column[cells])
        members, place = self.frame.cells_of(columns)
        self._cost[columns] = np.bincount(place, self._cell_cost[members], len(columns))
        for model in self._models():
            model.price(columns, self._cost[columns])

    def close(self, cell: int, closed: bool) -> None:
        """Forbid a cell to differ, or allow it again; cells with the same inner cells differ together or not at all."""
        self.open_cells[cell] = not closed
        column = int(self.frame.column[cell])
        self._usable[column] = self.open_cells[self.frame.cells_of(np.array([column]))[0]].all()
        for model in self._models():
            model.close(column, not self._usable[column])

    def hold(self, known: Ints, partly: Ints, low: Floats) -> None:
        """Let cells stand still, and others fall no farther than `low`, until others are held."""
        self._held = self.frame.column[known], self.frame.column[partly], low

    def room(self, cell: int, amount: float, *, above: bool, grow: bool = True) -> tuple[Ints, Floats] | None:
        """Give the cells that differ, and by how much, in the cheapest table found where one differs by an amount.

        None when there is no such table; without `grow`, when there is none that differs around the cell only.
        """
        size, column = self.around, int(self.frame.column[cell])
        if not self._usable[column] or (amount > 0 and (self.frame.up if above else self.frame.down)[column] <= 0):
            return None
        while True:
            model = self._model(column, size)
            self.solved += 1
            found = self._found(model, column, amount, above)
            if found is not None:
                cells, place = self.frame.cells_of(found[0])
                return cells, found[1][place]
            if model is self._whole or not grow:
                return None
            size *= GROWTH

    def _found(
        self, model: RoomModel | InnerModel, column: int, amount: float, above: bool
    ) -> tuple[Ints, Floats] | None:
        """Ask a program, with what is held."""
        if isinstance(model, InnerModel) or not len(self._held[0]) + len(self._held[1]):
            return model.room(column, amount, above=above)
        model.hold(*self._held)
        found = model.room(column, amount, above=above)
        model.release()
        return found

    def region(self, column: int, size: int) -> Bools:
        """Give the columns around one: so many at least, or all that are tied to it."""
        inside = np.zeros(len(self._usable))
        inside[column] = 1.0
        count = 1
        while count < size:
            inside = ((self._of @ (self._sums @ inside) > 0) & self._usable).astype(np.float64)
            before, count = count, int(inside.sum())
            if count == before:
                break
        return inside > 0

    def _model(self, column: int, size: int) -> RoomModel | InnerModel:
        if size >= int(self._usable.sum()) or isinstance(self._whole, InnerModel):
            if self._whole is None:
                self._whole = RoomModel(self.frame, self._cost, self._usable)
            return self._whole
        if self._last is None or self._last[:2] != (column, size):
            self._last = column, size, RoomModel(self.frame, self._cost, self.region(column, size))
        return self._last[2]

    def _models(self) -> list[RoomModel | InnerModel]:
        return [model for model in (self._whole, self._last[2] if self._last else None) if model is not None]
