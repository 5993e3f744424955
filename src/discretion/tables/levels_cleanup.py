"""Take back suppressions that are not needed, the most costly first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior, blocks, system
from discretion.tables.audit_certify import Clock, Targets, certify, push_many

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

VERIFIED = 8
"""Cells taken back before all sensitive cells are looked at again."""


def cleaned(
    cells: Cells,
    hidden: Bools,
    kept: Bools,
    cost: Floats,
    needs: Targets,
    prior: Prior,
    programs: int,
    ctx: Context,
) -> Bools:
    """Publish again what the sensitive cells can do without, trying the most costly first, with so many programs.

    Cells in `kept` stay suppressed. A cell goes when the sensitive cells that share a sum with it keep their room;
    after a few that went, all sensitive cells are looked at again, and where one lost its room as many of these come
    back as it takes.
    """
    return _Cleaning(cells, hidden, kept, cost, needs, prior, ctx).run(programs)


class _Cleaning:
    """A system in which suppressed cells can be published one by one without building it anew."""

    def __init__(
        self, cells: Cells, hidden: Bools, kept: Bools, cost: Floats, needs: Targets, prior: Prior, ctx: Context
    ) -> None:
        from scipy.sparse import vstack

        self.cells, self.hidden, self.ctx, self.needs = cells, hidden.copy(), ctx, needs
        spare = np.flatnonzero(hidden & ~kept)
        self.spare = spare[np.argsort(-cost[spare], kind="stable")]
        base = system(cells, hidden, prior)
        A = vstack([base.A, base.members[self.spare]]).tocsr()
        free = np.full(len(self.spare), np.inf)
        self.first = base.A.shape[0]
        self.attacker = Attacker.on(
            replace(base, A=A, row_low=np.r_[base.row_low, -free], row_high=np.r_[base.row_high, free], block=blocks(A))
        )
        self.shown = np.flatnonzero(cells.primary)
        self.place = np.full(len(cells), -1, np.int64)
        self.place[self.shown] = np.arange(len(self.shown))
        self.sums, self.of_cell = cells.relations(), cells.relations().transposed
        self.count = np.bincount(self.sums.rows, hidden[self.sums.indices], self.sums.shape[0])
        self.clock = Clock(None, ctx.within("clean"))

    def run(self, programs: int) -> Bools:
        """Try the complementary cells in turn until so many programs are solved."""
        pending: list[int] = []
        for number, cell in enumerate(self.spare.tolist()):
            self.ctx.progress(number, len(self.spare), "taking suppressions back")
            if self.attacker.solved >= programs:
                break
            if self.alone(cell):
                continue
            self.publish(number, True)
            if self.neighbors_hold(cell):
                pending.append(number)
            else:
                self.publish(number, False)
            if len(pending) >= VERIFIED:
                self.verify(pending, programs)
                pending = []
        self.verify(pending, programs)
        return self.hidden

    def alone(self, cell: int) -> bool:
        """Tell whether a sum has no gap but this cell and a sensitive one, which would then follow."""
        rows = self.of_cell.row(cell)
        for row in rows[self.count[rows] == 2].tolist():
            members = self.sums.row(row)
            if self.cells.primary[members].any():
                return True
        return False

    def publish(self, number: int, published: bool) -> None:
        """Publish a complementary cell, or suppress it again."""
        cell = self.spare[number]
        self.hidden[cell] = not published
        self.count[self.of_cell.row(cell)] += -1 if published else 1
        self.attacker.tie(self.first + number, published)

    def some(self, at: Ints) -> Targets:
        """Give some of the sensitive cells as targets of which nothing is known yet."""
        rows = self.attacker.system.members[self.shown[at]]
        needs = self.needs
        return Targets(rows, needs.value[at], needs.lower[at], needs.upper[at], needs.idle[at], needs.whole)

    def neighbors_hold(self, cell: int) -> bool:
        """Tell whether the sensitive cells that share a sum with a cell have their room."""
        near = np.concatenate([self.sums.row(row) for row in self.of_cell.row(cell).tolist()])
        at = np.unique(self.place[near])
        return self.have_room(at[at >= 0])

    def have_room(self, at: Ints) -> bool:
        """Tell whether some sensitive cells have their room; gives up at the first that has not."""
        targets = self.some(at)
        push_many(self.attacker, targets, self.clock, patience=1)
        for i in np.flatnonzero(~targets.met).tolist():
            for side, sign in ((0, -1.0), (1, 1.0)):
                if not targets.met[i] and targets.open_at(i)[side]:
                    _, z, missed = self.attacker.reach(sign * targets.rows[[i]])
                    targets.see(z, missed)
                    if not targets.either[i] and targets.open_at(i)[side]:
                        return False
            if not targets.met[i]:
                return False
        return True

    def lost(self) -> Ints:
        """Give the sensitive cells that have no longer their room."""
        targets = self.some(np.arange(len(self.shown)))
        certify(self.attacker, targets, self.clock)
        return np.flatnonzero(~targets.met)

    def verify(self, pending: list[int], programs: int) -> None:
        """Look at all sensitive cells; while one lost its room, suppress the last cells again, the cheapest first."""
        while pending and len(lost := self.lost()):
            enough = self.attacker.solved >= programs
            while pending and (enough or not self.have_room(lost[:1]) or not self.have_room(lost)):
                self.publish(pending.pop(), False)
