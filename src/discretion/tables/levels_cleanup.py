"""Take back suppressions that are not needed, the most costly first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.audit_certify import SLACK
from discretion.tables.levels_model import Frame, RoomModel

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


class Proofs:
    """For each side of each sensitive cell one table that shows its room: which cells differ in it."""

    def __init__(self, shown: Ints, below: Floats, above: Floats, m: int) -> None:
        self.shown = shown
        self.goal = np.r_[below, above]
        """(2k,) what each side must reach: first all below, then all above"""
        self._place = np.full(m, -1, np.int64)
        self._place[shown] = np.arange(len(shown))
        self._tables: list[Ints] = []
        self._proof = np.full(2 * len(shown), -1, np.int64)
        self._users: list[set[int]] = [set() for _ in range(m)]
        self._slack = SLACK * np.maximum(self.goal, 1.0)

    def note(self, used: Ints, z: Floats) -> None:
        """Keep a table as the proof of the sides it shows that have none."""
        at = self._place[used]
        seen = at >= 0
        side = np.where(z[seen] < 0, at[seen], at[seen] + len(self.shown))
        good = side[np.abs(z[seen]) >= (self.goal - self._slack)[side]]
        good = good[self._proof[good] < 0]
        if not len(good):
            return
        number = len(self._tables)
        self._tables.append(used)
        self._proof[good] = number
        for cell in used.tolist():
            self._users[cell].add(number)

    def open(self) -> Ints:
        """Give the sides that need a proof and have none."""
        return np.flatnonzero((self.goal > 0) & (self._proof < 0))

    def using(self, cell: int) -> Ints:
        """Give the sides whose proof lets a cell differ."""
        tables = np.fromiter(self._users[cell], np.int64, len(self._users[cell]))
        return np.flatnonzero(np.isin(self._proof, tables))

    def proved(self, side: int) -> bool:
        """Tell whether a side has a proof."""
        return bool(self._proof[side] >= 0)

    def forget(self, sides: Ints) -> None:
        """Drop the proofs of some sides."""
        self._proof[sides] = -1

    def snapshot(self) -> Ints:
        """Give the present proofs, to come back to."""
        return self._proof.copy()

    def restore(self, proofs: Ints) -> None:
        """Come back to earlier proofs."""
        self._proof = proofs


def cleaned(
    cells: Cells, hidden: Bools, cost: Floats, frame: Frame, goals: tuple[Floats, Floats], ctx: Context
) -> Bools:
    """Publish again what the sensitive cells can do without; each keeps a table that proves its room.

    First the proofs are found anew among the suppressed cells, the cheapest for each side in turn, cells already used
    for free; cells in no proof go. Then cell by cell, the most costly first: a cell goes if every proof that uses it
    can be replaced by one that does not.
    """
    shown = np.flatnonzero(cells.primary)
    price = np.where(cells.primary, 0.0, cost)
    hidden = hidden & (_chosen_anew(frame, hidden, price, Proofs(shown, *goals, len(cells)), ctx) | cells.primary)
    model = RoomModel(frame, price, hidden)
    proofs = Proofs(shown, *goals, len(cells))
    _prove(model, proofs, proofs.open(), ctx)
    spare = hidden & ~cells.primary
    order = np.flatnonzero(spare)
    order = order[np.argsort(-cost[order], kind="stable")]
    for number, cell in enumerate(order.tolist()):
        ctx.progress(number, len(order), "taking suppressions back")
        if _spared(model, proofs, cell):
            hidden[cell] = False
    return hidden


def _chosen_anew(frame: Frame, hidden: Bools, price: Floats, proofs: Proofs, ctx: Context) -> Bools:
    """Choose among suppressed cells again, the sides that need least first; give the cells chosen."""
    model = RoomModel(frame, price, hidden)
    chosen = np.zeros(len(hidden), np.bool_)
    sides = proofs.open()
    sides = sides[np.argsort(proofs.goal[sides], kind="stable")]
    for number, side in enumerate(sides.tolist()):
        ctx.progress(number, len(sides), "choosing again")
        if proofs.proved(side):
            continue
        used = _room(model, proofs, side)
        if used is not None:
            new = used[~chosen[used]]
            chosen[new] = True
            model.price(new, 0.0)
        else:
            return hidden
    return chosen


def _room(model: RoomModel, proofs: Proofs, side: int) -> Ints | None:
    """Find a proof for one side and keep it; None when there is none."""
    k = len(proofs.shown)
    found = model.room(int(proofs.shown[side % k]), float(proofs.goal[side]), above=side >= k)
    if found is None:
        return None
    proofs.note(*found)
    return found[0] if proofs.proved(side) else None


def _prove(model: RoomModel, proofs: Proofs, sides: Ints, ctx: Context) -> None:
    for number, side in enumerate(sides.tolist()):
        ctx.progress(number, len(sides), "proving room")
        if not proofs.proved(side):
            _room(model, proofs, side)


def _spared(model: RoomModel, proofs: Proofs, cell: int) -> bool:
    """Try to do without a cell: every proof that uses it must have another."""
    before = proofs.snapshot()
    sides = proofs.using(cell)
    proofs.forget(sides)
    model.close(cell, True)
    for side in sides.tolist():
        if not proofs.proved(side) and _room(model, proofs, side) is None:
            proofs.restore(before)
            model.close(cell, False)
            return False
    return True
