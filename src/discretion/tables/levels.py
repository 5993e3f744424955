"""Suppress until every sensitive cell has the interval it needs: a heuristic by linear programming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.context import Context
from discretion.errors import DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import LinearProgram, Matrix
from discretion.tables.attacker import Attacker, Prior, spread, without_repeats
from discretion.tables.audit import EXACT, SLACK, Clock, Targets, certify, push_many, targets_of
from discretion.tables.audit_insiders import Failure, Group, Knowledge, Proof, Secrets, without_room

if TYPE_CHECKING:
    from discretion.tables.audit import Audit
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
    raised: Bools
    """(shown columns,) those that may fall less far than their unknowns could"""

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
    below = every.T @ (cells.inner_value - prior.least(cells))
    plain = prior.percent is None and prior.lower is None and prior.upper is None
    ends = (below, np.full(len(below), np.inf)) if plain else None
    raised = np.bincount(column, prior.raised(cells), len(first)) > 0
    if (own >= 0).all() and cells.wide is None:
        return Frame(matrix, up, down, column, len(first), inside, ends, raised)
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
    below = unit.T @ np.where(own < 0, cells.inner_value - prior.least(cells), 0.0)
    extra = hstack([(own_rows - parts @ to_cells) @ together, -(parts @ unit)])
    blank: Matrix = csr_array((matrix.shape[0], hidden), dtype=np.float64)
    matrix = vstack([hstack([matrix, blank]), extra]).tocsr()
    return Frame(
        matrix, np.r_[up, np.full(hidden, np.inf)], np.r_[down, below], column, len(first), inside, ends, raised
    )


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
        self._rows = np.flatnonzero(~free | frame.raised)
        """the columns that cost something, may not differ, or may not fall as far as their unknowns"""
        self._place = np.full(frame.shown, -1, np.int64)
        self._place[self._rows] = np.arange(len(self._rows))
        self._extra: dict[int, int] = {}
        """rows added for columns that are free"""
        self._n, k = frame.inside.shape[1], len(self._rows)
        one = eye_array(k)
        matrix = hstack([frame.inside[self._rows], -one, one]).tocsr()
        up, down = (np.where(self._usable[self._rows], most, 0.0) for most in (np.inf, self._fall(self._rows)))
        bounds = np.r_[-frame.bounds[0], np.zeros(2 * k)], np.r_[frame.bounds[1], up, down]
        costs = np.r_[np.zeros(self._n), np.tile(cost[self._rows], 2)]
        self._program = LinearProgram(matrix, bounds, (np.zeros(k), np.zeros(k)), costs)

    def _fall(self, columns: Ints) -> Floats:
        """Give how far below their values columns may lie besides what their unknowns say."""
        return np.where(self._frame.raised[columns], self._frame.down[columns], np.inf)

    @staticmethod
    def suits(frame: Frame, free: Bools) -> bool:
        """Tell whether the program over inner cells is the smaller one."""
        if frame.bounds is None:
            return False
        entries = int(np.diff(frame.inside.indptr)[~free | frame.raised].sum())
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
        most = np.zeros(2) if closed else np.array([np.inf, self._fall(np.array([column]))[0]])
        self._program.bound(both, np.zeros(2), most)

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


CLEANUP_AROUND = 2000
"""Suppressed cells that a program has at least, if there are so many."""
NEAR = 1e-7
"""Share of the room asked for by which a solution may miss it; what is taken back is proved anew in the end."""


class Cleaner:
    """Tables that prove the room of sensitive cells, and the complementary cells they need.

    Starts from what is proved with the cells that stay (`shown` are sensitive cells, `kept` cells that stay suppressed,
    `proved` what these are seen to reach with the latter alone). Finds a table over the suppressed cells for each of
    the other sides, cells already needed being nearly free: what none of these tables needs is published again. Then
    the needed cells are tried, the most costly first: one goes when the sides whose tables need it have other tables.

    No side ever is without a table that proves it, up to the accuracy of the solver.
    """

    def __init__(
        self, cells: Cells, frame: Frame, hidden: Bools, kept: Bools, cost: Floats, taken: float, ctx: Context
    ) -> None:
        self.cells, self.hidden, self.kept, self.cost, self.ctx = cells, hidden.copy(), kept, cost, ctx
        self.taken = taken
        self.rooms = Rooms(frame, np.where(kept, taken, 1.0) * cost, hidden, CLEANUP_AROUND, kept)
        self.place = np.full(len(cells), -1, np.int64)
        self.proof: dict[int, Ints] = {}
        """the complementary cells in the table that proves a side (number of the cell times 2, plus 1 for above)"""
        self.users: dict[int, set[int]] = {}
        """the sides whose tables need a complementary cell"""
        self.sums, self.of_cell = cells.relations(), cells.relations().transposed

    def run(self, shown: Ints, goals: tuple[Floats, Floats], proved: Targets, programs: int) -> Bools:
        """Give the mask of suppressed cells after so many programs that try to publish needed ones."""
        self.shown, self.goals = shown, goals
        self.place[shown] = np.arange(len(shown))
        if self.prove(proved):
            spare = np.flatnonzero(self.hidden & ~self.kept)
            self.count = np.bincount(self.sums.rows, self.hidden[self.sums.indices], self.sums.shape[0])
            self.drop(spare[np.argsort(-self.cost[spare], kind="stable")], programs)
        return self.hidden

    def prove(self, proved: Targets) -> bool:
        """Find tables for all sides that are not proved yet, the largest first; tell whether it could be done."""
        slack = SLACK * proved.scale
        open_sides = [np.flatnonzero(proved.below < self.goals[0] - slack)]
        open_sides.append(np.flatnonzero(proved.above < self.goals[1] - slack))
        sides = np.concatenate([2 * open_sides[0], 2 * open_sides[1] + 1])
        need = np.concatenate([self.goals[side][open_sides[side]] for side in (0, 1)])
        waiting = {int(side): True for side in sides[np.argsort(-need, kind="stable")]}
        needed = self.kept.copy()
        for number, side in enumerate(list(waiting)):
            self.ctx.progress(number, len(sides), "what sensitive cells need")
            if side not in waiting:
                continue
            found = self.table(side, grow=True)
            if found is None:
                return False
            new = found[0][~needed[found[0]]]
            needed[new] = True
            self.rooms.price(new, self.taken * self.cost[new])
            for other in (side, *self.sides_of(*found)):
                if waiting.pop(other, None):
                    self.note(other, found[0])
        self.hidden = needed
        for cell in np.flatnonzero(self.rooms.open_cells & ~needed).tolist():
            self.rooms.close(cell, True)
        spare = np.flatnonzero(needed & ~self.kept)
        self.rooms.price(spare, self.cost[spare])
        return True

    def table(self, side: int, *, grow: bool) -> tuple[Ints, Floats] | None:
        """Find a table that proves a side."""
        i, above = divmod(side, 2)
        return self.rooms.room(int(self.shown[i]), float(self.goals[above][i]), above=bool(above), grow=grow)

    def sides_of(self, used: Ints, z: Floats) -> list[int]:
        """Give the sides that a table proves."""
        at = self.place[used]
        at, z = at[at >= 0], z[at >= 0]
        up = (z > 0) & (z >= self.goals[1][at] * (1 - NEAR))
        down = (z < 0) & (-z >= self.goals[0][at] * (1 - NEAR))
        found: list[int] = np.concatenate([2 * at[up] + 1, 2 * at[down]]).tolist()
        return found

    def note(self, side: int, used: Ints) -> None:
        """Let a table prove a side from now on."""
        for cell in self.proof.get(side, used[:0]).tolist():
            self.users[cell].discard(side)
        self.proof[side] = used[~self.kept[used]]
        for cell in self.proof[side].tolist():
            self.users.setdefault(cell, set()).add(side)

    def drop(self, spare: Ints, programs: int) -> None:
        """Try to publish complementary cells in turn."""
        last = self.rooms.solved + programs
        for number, cell in enumerate(spare.tolist()):
            self.ctx.progress(number, len(spare), "taking suppressions back")
            if self.users.get(cell) and (self.rooms.solved >= last or self.alone(cell)):
                continue
            self.rooms.close(cell, True)
            if self.elsewhere(cell, last):
                self.hidden[cell] = False
                self.count[self.of_cell.row(cell)] -= 1
            else:
                self.rooms.close(cell, False)

    def alone(self, cell: int) -> bool:
        """Tell whether a sum has no gap but this cell and a sensitive one, which would then follow."""
        rows = self.of_cell.row(cell)
        return any(self.cells.primary[self.sums.row(row)].any() for row in rows[self.count[rows] == 2].tolist())

    def elsewhere(self, cell: int, last: int) -> bool:
        """Find other tables for all sides that need a cell; nothing changes unless all are found."""
        waiting = sorted(self.users.get(cell, ()), key=lambda side: (-self.goals[side % 2][side // 2], side))
        found: dict[int, Ints] = {}
        for side in waiting:
            if side in found:
                continue
            other = self.table(side, grow=False) if self.rooms.solved < last else None
            if other is None:
                return False
            found |= dict.fromkeys({side, *self.sides_of(*other)} & set(waiting), other[0])
        for side, used in found.items():
            self.note(side, used)
        return True


Cost = Literal["value", "frequency", "unit"]
"""What suppressing a cell costs: its absolute value, its respondents, or 1."""

TAKEN = 1e-3
"""What using a cell that is suppressed already costs, as a share: with nothing to pay programs take far longer."""
PREFERRED = 1e-3
"""What a cell marked `preferred` costs, as a share of its cost."""
BATCH = 0.2
"""Share of the cells still open that get room before all are looked at again."""
SMALLEST = 10
"""But so many at least."""
WORTH = 0.02
"""And this share of the unknowns: looking at all again takes as long as room for so many."""
CLEAN_SHARE = 0.03
"""Programs spent on taking back suppressions where nothing is said, per sensitive cell."""
CLEAN_WORK = 10_000
"""But so many, divided by the sensitive cells: in small tables programs take no time."""
MARGINS = (0.0, 1e-8, 1e-6, 1e-4)
"""Shares of room asked for beyond what is needed, in turn, where rounding spoils a proof."""
_NAMED = 10


def levels(
    cells: Cells,
    *,
    start: Any = None,
    cost: Cost | Any = "value",
    prior: Prior | None = None,
    clean: int | None = None,
    keep_start: bool = True,
    ctx: Context | None = None,
) -> Bools:
    """Choose cells to suppress so that an attacker's bounds of every sensitive cell are as far away as required.

    Starts from the sensitive cells and `start` (complementary cells chosen before; none given: none). While a
    sensitive cell lacks room, a linear program finds the cheapest table that differs from the true one by what the cell
    needs and agrees with it in everything published; cells that differ in it are suppressed as well. In large tables
    the program takes only cells around it, and more where these leave no room. Then cells are published again, the
    most costly first, where all sensitive ones stay protected, for as long as `clean` linear programs take (0: not at
    all; none given: many in small tables, few per sensitive cell in large ones; more publish more). Cells in `start`
    stay unless `keep_start` is false: they may protect against respondents, which is not looked at here. Gives the
    mask of complementary cells.

    Every sensitive cell ends with its required level, proved by the same linear programs as the audit. The number and
    value of suppressed cells are good, not proven least. Does not look at respondents as attackers, nor at sums of
    cells: see `audit`. Empty cells are never suppressed for others, cells marked must-publish neither; where they make
    protection impossible `Infeasible` names them. Cost is that of one linear program per sensitive cell that lacks
    room, each going on from the last.

    References
    ----------
    Kelly, Golden & Assad (1992), Networks 22; Castro (2012), European J. Oper. Res. 216; catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.levels import levels
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> cells = cells.with_status(secondary=levels(cells))
    >>> int(cells.secondary.sum()), cells.audit().holds
    (3, True)
    """
    search = _Levels(cells, start, cost, prior or Prior.of(cells), ctx or Context(seed=0, step="levels"))
    return search.run(clean, keep_start)


def costs(cells: Cells, cost: Cost | Any = "value") -> Floats:
    """Give what suppressing each cell costs: by value, by respondents, 1, or as given; the user's own come first."""
    if isinstance(cost, str):
        choices = {
            "value": np.abs(cells.value),
            "frequency": cells.count.astype(np.float64),
            "unit": np.ones(len(cells)),
        }
        if cost not in choices:
            raise PlanError("cost: expected 'value', 'frequency', 'unit', or one number per cell")
        chosen = cells.status.cost if cells.status.cost is not None else choices[cost]
    else:
        chosen = np.asarray(cost, np.float64)
        if chosen.shape != (len(cells),) or not (chosen >= 0).all():
            raise PlanError(f"cost: expected {len(cells)} numbers of at least 0, one per cell")
    smallest = chosen[chosen > 0].min(initial=np.inf)
    filled: Floats = np.maximum(chosen, smallest if np.isfinite(smallest) else 1.0)
    return np.where(cells.status.preferred, PREFERRED * filled, filled)


def empty(cells: Cells) -> Bools:
    """Tell which cells nobody is in; these are suppressed for others only where they are marked preferred.

    Without counts: those of 0.
    """
    nobody: Bools = cells.count == 0 if cells.response.counted else cells.value == 0
    return nobody & ~cells.status.preferred


class _Levels:
    """The state of the search."""

    def __init__(self, cells: Cells, start: Any, cost: Any, prior: Prior, ctx: Context) -> None:
        if np.isnan(cells.value).any():
            raise PlanError("the values of suppressed cells must be known to protect them")
        self.cells, self.prior, self.ctx = cells, prior, ctx
        self.hidden = cells.primary.copy()
        if start is not None:
            mask = np.asarray(start, np.bool_)
            if mask.shape != (len(cells),):
                raise PlanError(f"start: expected {len(cells)} entries, one per cell")
            if (mask & cells.status.must_publish).any():
                raise PlanError("start: cells that must be published are among those to suppress")
            self.hidden |= mask
        self.shown = np.flatnonzero(cells.primary)
        self.place = np.full(len(cells), -1, np.int64)
        self.place[self.shown] = np.arange(len(self.shown))
        self.downward = np.zeros(len(self.shown), np.bool_)
        """(sensitive cells,) those that must only not be found exactly and have no room above"""
        self.cost = costs(cells, cost)
        self.frame: Frame = frame_of(cells, prior)
        self.rooms = self.open_rooms()

    def run(self, clean: int | None, keep_start: bool) -> Bools:
        """Make room for all, then take back what is not needed."""
        if not len(self.shown):
            return self.hidden & ~self.cells.primary
        kept = self.hidden.copy() if keep_start else self.cells.primary
        if clean is None:
            clean = max(int(CLEAN_SHARE * len(self.shown)), CLEAN_WORK // len(self.shown))
        if clean:
            proved = self.pushed(kept)[1]
            self.make_all_room(MARGINS[0], deepcopy(proved) if keep_start else None)
            cleaner = Cleaner(self.cells, self.frame, self.hidden, kept, self.cost, TAKEN, self.ctx)
            self.hidden = cleaner.run(self.shown, self.goals(proved), proved, clean)
            self.rooms = self.open_rooms()
        self.protect()
        return self.hidden & ~self.cells.primary

    def open_rooms(self) -> Rooms:
        """Give the programs that make room, with what every cell costs now."""
        usable = (~self.cells.status.must_publish & ~empty(self.cells)) | self.hidden
        return Rooms(self.frame, np.where(self.hidden, TAKEN, 1.0) * self.cost, usable, free=self.hidden)

    def protect(self) -> None:
        """Suppress cells until the audit's own programs prove the room of all sensitive cells.

        Cells get room in turn; what a solver missed by rounding shows in the proof, and gets more room than it needs.
        """
        for margin in MARGINS:
            attacker, targets = self.make_all_room(margin)
            certify(attacker, targets, Clock(None, self.ctx.within("certify")))
            if targets.met.all():
                return
        raise DiscretionError("the solver's accuracy is not enough to prove that all sensitive cells are protected")

    def make_all_room(self, margin: float, seen: Targets | None = None) -> tuple[Attacker, Targets]:
        """Suppress cells until all have room as far as their own programs say; give the attacker that proves it.

        `seen` is what is proved already with the cells that are suppressed now.
        """
        total, changed = len(self.shown), False
        attacker, targets = self.pushed(self.hidden) if seen is None else (self.attack(self.hidden)[0], seen)
        while (lacking := ~targets.met).any():
            self.ctx.progress(total - int(lacking.sum()), total, "room for sensitive cells")
            changed = True
            least = max(SMALLEST, int(WORTH * attacker.system.size))
            self.make_room(targets, lacking, margin, least)
            if lacking.sum() > least:
                attacker, targets = self.pushed(self.hidden, targets)
        return self.attack(self.hidden) if changed else (attacker, targets)

    def attack(self, hidden: Bools) -> tuple[Attacker, Targets]:
        """Give the attacker on a table with gaps, and what must be out of its reach."""
        attacker = Attacker(self.cells, suppressed=hidden, prior=self.prior)
        return attacker, targets_of(self.cells, attacker, self.shown, self.cells.primary, self.prior)

    def pushed(self, hidden: Bools, seen: Targets | None = None) -> tuple[Attacker, Targets]:
        """Prove as many cells as random programs can, besides what was seen with fewer gaps."""
        attacker, targets = self.attack(hidden)
        if seen is not None:
            targets.below[:], targets.above[:] = seen.below, seen.above
        push_many(attacker, targets, Clock(None, self.ctx.within("certify")))
        return attacker, targets

    def make_room(self, targets: Targets, lacking: Bools, margin: float, least: int) -> None:
        """Suppress what the neediest of the open cells need; the tables found prove others on the way."""
        goals = self.goals(targets)
        order = np.flatnonzero(lacking)
        order = order[np.argsort(-np.maximum(*goals)[order], kind="stable")]
        left = max(int(np.ceil(BATCH * len(order))), least)
        reached = targets.below, targets.above
        for number, i in enumerate(order.tolist()):
            if left <= 0:
                return
            self.ctx.progress(number, len(order), "room for sensitive cells")
            for side in (1, 0):
                goal = goals[side][i]
                if reached[side][i] >= goal - SLACK * targets.scale[i]:
                    continue
                if side and targets.either[i] and self.blocked(int(self.shown[i]), float(goal)):
                    self.downward[i] = True
                    goals[0][i], goals[1][i] = goal, 0.0
                    continue
                used, z = self.room(int(self.shown[i]), float(goal), margin, bool(side))
                left -= 1
                at = self.place[used]
                np.maximum.at(targets.above, at[at >= 0], z[at >= 0])
                np.maximum.at(targets.below, at[at >= 0], -z[at >= 0])
                reached[side][i] = max(reached[side][i], goal)

    def goals(self, targets: Targets) -> tuple[Floats, Floats]:
        """Give how far below and above each cell must reach; one that must only not be exact gets room on one side."""
        loose = np.maximum(targets.room, LOOSE * targets.scale)
        return (
            np.where(targets.either, np.where(self.downward, loose, 0.0), targets.lower),
            np.where(targets.either, np.where(self.downward, 0.0, loose), targets.upper),
        )

    def blocked(self, cell: int, amount: float) -> bool:
        """Tell whether a cell has no room above, but has some below."""
        return self.rooms.room(cell, amount, above=True) is None and (
            self.rooms.room(cell, amount, above=False) is not None
        )

    def room(self, cell: int, amount: float, margin: float, above: bool) -> tuple[Ints, Floats]:
        """Make room for one side of one cell, if possible a little more than it needs, and suppress what it takes."""
        found = self.rooms.room(cell, amount * (1 + margin), above=above) if margin else None
        found = found or self.rooms.room(cell, amount, above=above)
        if found is None:
            raise Infeasible(self.obstacle(cell, amount, above))
        new = found[0][~self.hidden[found[0]]]
        if len(new):
            self.hidden[new] = True
            self.rooms.price(new, TAKEN * self.cost[new])
        return found

    def obstacle(self, cell: int, amount: float, above: bool) -> str:
        """Say which cells that must be published stand in the way of a cell's protection."""
        cells = self.cells
        blocked = cells.status.must_publish & ~self.hidden
        free = np.where(self.hidden, 0.0, np.where(blocked, self.cost.sum() + 1.0, self.cost))
        found = Rooms(self.frame, free, np.ones(len(cells), np.bool_)).room(cell, amount, above=above)
        where = ", ".join(f"{name}={code}" for name, code in cells.label(cell).items())
        if found is None:
            return f"the sensitive cell ({where}) cannot get the protection it needs whatever is suppressed"
        causes = found[0][blocked[found[0]]]
        named = list(_labels(cells, causes[:_NAMED]))
        more = f" and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
        if not named:
            return (
                f"the sensitive cell ({where}) can be protected only by suppressing empty cells, as all beside it "
                "are 0; mark cells beside it 'preferred' to let them go, or give `count` if somebody is in them"
            )
        return (
            f"the sensitive cell ({where}) cannot be protected while these cells must be published: "
            f"{'; '.join(named)}{more}; let one of them be suppressed"
        )


LOOSE = 0.01
"""Room made for a cell that must only not be found exactly, as a share of its value."""


def _labels(cells: Cells, chosen: Ints) -> Iterator[str]:
    for cell in chosen.tolist():
        yield "(" + ", ".join(f"{name}={code}" for name, code in cells.label(cell).items()) + ")"


MARGIN = 1e-6
"""Share of room asked for beyond what is needed, so that rounding does not spoil the proof."""
RESPONDENTS_AROUND = 4000
"""Columns around a cell in which room is looked for first; tables with fewer are one program."""
TURNS = 50
"""Turns after which a repair is given up; each adds cells, so that few are needed."""
_FAILING = ("under-protected", "disclosed")


def protect_respondents(
    cells: Cells,
    secondary: Bools,
    *,
    cost: Any = "value",
    coalition: int = 1,
    settled: int = 0,
    ctx: Context | None = None,
) -> tuple[Bools, list[Proof]]:
    """Suppress more cells until no respondent comes too close to another's cell; give them, and tables that show it.

    Every respondent (with `coalition`: every group of so many) is an attacker who knows the inner cells that are all
    its own and that the others are not smaller than its own part. For each sensitive cell that fails against one, the
    cheapest table is found in which the cell deviates as far as it must while what that respondent knows stands still;
    what differs in it and is published becomes suppressed. Then those cells are asked for again. Cells that cannot be
    given room (they would need cells that must be published, or empty ones) stay as they are, and the audit says so.
    The first `settled` cells were looked at before, with fewer cells suppressed, and are not again.

    The pattern is good, not proven least. All cells are looked at once, those that failed again in each turn, with one
    linear program more for each of them.
    """
    repair = _Repair(cells, secondary, cost, coalition, ctx or Context(seed=0, step="respondents"))
    return repair.run(settled)


def audited(cells: Cells, hidden: Bools, coalition: int, ctx: Context, proofs: Sequence[Proof] = ()) -> Audit:
    """Audit a pattern against respondents, with no sums."""
    done = cells.with_status(secondary=hidden & ~cells.primary)
    options = {"attacker": "contributors", "coalition": coalition, "rules": (), "exact": False, "proofs": proofs}
    return done.audit(**options, ctx=ctx.within("audit"))


def failing_pairs(cells: Cells, hidden: Bools, coalition: int, ctx: Context) -> list[tuple[int, Group]]:
    """Give the sensitive cells that fail, each with one of those it fails against; those that need most first."""
    found, knowledge = audited(cells, hidden, coalition, ctx), Knowledge.of(cells, coalition)
    numbers: dict[Any, list[int]] = {}
    for who in np.unique(knowledge.who).tolist():
        numbers.setdefault(knowledge.label(who), []).append(who)

    def group(labels: tuple[Any, ...] | None) -> Group:
        """Give the numbers of respondents by their labels; several of one label are several people."""
        taken: list[int] = []
        for label in labels or ():
            taken.append(next(who for who in numbers[label] if who not in taken))
        return frozenset(taken)

    failing = zip(found.cell.tolist(), found.worst, found.status.tolist(), strict=True)
    pairs = [(cell, group(worst)) for cell, worst, state in failing if state in _FAILING]
    most = np.maximum(found.cells.upper_required, found.cells.lower_required)
    return sorted(pairs, key=lambda pair: -most[pair[0]])


class _Repair:
    """The pattern, the program that finds room, and what respondents know of its unknowns."""

    def __init__(self, cells: Cells, secondary: Bools, cost: Any, coalition: int, ctx: Context) -> None:
        self.cells, self.hidden = cells, cells.primary | secondary
        self.coalition, self.ctx = coalition, ctx
        self.cost = costs(cells, cost)
        self.frame = frame_of(cells, Prior.of(cells))
        self.knowledge = Knowledge.of(cells, coalition)
        self.inner = np.full(len(cells), -1, np.int64)
        """(cells,) the inner cell that each is, where all inner cells are cells"""
        if (cells.inner_cell >= 0).all():
            self.inner[cells.inner_cell] = np.arange(len(cells.inner_cell))
        self.made: list[Proof] = []
        """tables that made room, to be checked as proofs"""
        assert self.frame.bounds is not None  # the prior is plain
        every = spread(cells, np.ones(len(cells.inner_codes), np.bool_))
        self.secrets = Secrets(cells, self.knowledge, every, -self.frame.bounds[0], coalition)
        usable = (~cells.status.must_publish & ~empty(cells)) | self.hidden
        price = np.where(self.hidden, TAKEN, 1.0) * self.cost
        self._taken = self.frame.of_columns(TAKEN * self.cost, usable)[0]
        self.model: InnerModel | None = None
        self.rooms: Rooms | None = None
        if (cells.inner_cell >= 0).all() and cells.wide is None and self.frame.shown > RESPONDENTS_AROUND:
            self.rooms = Rooms(self.frame, price, usable, RESPONDENTS_AROUND)
        else:
            self.model = InnerModel(
                self.frame, *self.frame.of_columns(price, usable), np.zeros(self.frame.shown, np.bool_)
            )

    def run(self, settled: int) -> tuple[Bools, list[Proof]]:
        """Look for cells without room, and make some, in turn."""
        wanted, proofs = self.cells.primary & (np.arange(len(self.cells)) >= settled), list[Proof]()
        most = np.maximum(self.cells.upper_required, self.cells.lower_required)
        tried: set[Failure] = set()
        near = True
        for turn in range(TURNS):
            if not wanted.any():
                break
            done = self.cells.with_status(secondary=self.hidden & ~self.cells.primary)
            clock = Clock(None, self.ctx.within("audit"), "room against respondents")
            failing, found = without_room(done, self.coalition, wanted, clock, proofs, near=near)
            proofs += found
            wanted = np.zeros(len(self.cells), np.bool_)
            again = tried.intersection(failing) if near else set()
            wanted[[cell for cell, *_ in again]] = True
            near = near and not again
            failing = sorted((side for side in failing if side not in tried), key=lambda side: -most[side[0]])
            tried.update(failing)
            for number, (cell, side, group) in enumerate(failing):
                self.ctx.progress(number, len(failing), f"room against respondents, turn {turn + 1}")
                wanted[cell] |= self._make_room(cell, side, group)
            proofs += self.made
            self.made = []
        return self.hidden & ~self.cells.primary, proofs

    def _make_room(self, cell: int, side: int, group: Group) -> bool:
        """Suppress what a side of a cell needs against a group (none: an outsider); tell whether there was a way."""
        known, partly, low = self.secrets.of_group(group)
        if self.model is not None:
            self.model.hold(known, partly, low)
        if self.rooms is not None:
            self.rooms.hold(self.cells.inner_cell[known], self.cells.inner_cell[partly], low)
        return self._suppressed(cell, self._ways(cell, side, group))

    def _ways(self, cell: int, side: int, group: Group) -> list[tuple[float, bool]]:
        """Give what a side of a cell needs: an amount and a direction, or two of which one is enough."""
        cells = self.cells
        more, room = 1 + MARGIN, float(self.frame.down[self.frame.column[cell]])
        if side > 0:
            return [(float(cells.upper_required[cell]) * more, True)]
        if side < 0:
            below = float(cells.lower_required[cell]) * more
            if room < np.inf:
                below = min(below, max(room - (self.secrets.beyond(group, cell) if group else 0.0), 0.0))
            return [(below, False)]
        whole = bool((cells.inner_value == np.round(cells.inner_value)).all())
        least = 1.0 if whole else 1e3 * EXACT * max(abs(float(cells.value[cell])), 1.0)
        return [(least, True), (least, False)]

    def _suppressed(self, cell: int, ways: list[tuple[float, bool]]) -> bool:
        """Suppress what the cheapest table of the first way that exists takes."""
        for amount, above in ways:
            found = self._differing(cell, amount, above)
            if found is None:
                continue
            used, z = found
            if (inner := self.inner[used] >= 0).any():
                self.made.append((cell, 1 if above else -1, self.inner[used[inner]], z[inner]))
            new = used[~self.hidden[used]]
            self.hidden[new] = True
            columns = np.unique(self.frame.column[new])
            if self.model is not None:
                self.model.price(columns, self._taken[columns])
            if self.rooms is not None:
                self.rooms.price(new, TAKEN * self.cost[new])
            return True
        return False

    def _differing(self, cell: int, amount: float, above: bool) -> tuple[Ints, Floats] | None:
        """Give the cells that differ in the cheapest table where one does by an amount; in large tables, around it."""
        if self.rooms is not None:
            return self.rooms.room(cell, amount, above=above)
        assert self.model is not None
        found = self.model.room(int(self.frame.column[cell]), amount, above=above)
        if found is None:
            return None
        used, place = self.frame.cells_of(found[0])
        return used, found[1][place]
