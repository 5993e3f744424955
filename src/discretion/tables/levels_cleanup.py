"""Take back suppressions that are not needed: every sensitive cell keeps a table that proves its room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.audit_certify import SLACK, Targets
from discretion.tables.levels_local import Rooms
from discretion.tables.levels_model import Frame

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

AROUND = 2000
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
        self.rooms = Rooms(frame, np.where(kept, taken, 1.0) * cost, hidden, AROUND, kept)
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
