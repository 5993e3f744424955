"""The attacker: how closely suppressed cells can be computed from everything that is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker_system import Matrix, Prior, System, system
from discretion.tables.linear_program import RAY, LinearProgram

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


@dataclass(frozen=True, eq=False)
class Found:
    """Tables an attacker must hold possible: deviations, and any multiple of an endless direction besides."""

    z: Floats
    """(unknowns,)"""
    ray: Floats
    """(unknowns,) 0 where there is no such direction"""
    missed: float
    """by how much the deviations miss the sums they must keep"""


class Block(LinearProgram):
    """One connected part of the system as a linear program that stays in the solver: only its objective changes."""

    def __init__(self, whole: System, unknowns: Ints, rows: Ints) -> None:
        self.unknowns = unknowns
        self._own = whole.row_low[rows], whole.row_high[rows]
        super().__init__(
            whole.A[rows][:, unknowns],
            (whole.low[unknowns], whole.high[unknowns]),
            self._own,
            np.zeros(len(unknowns)),
            primal=True,
        )

    def tie(self, row: int, tied: bool) -> None:
        """Hold a sum (number inside the block) at its value, or let it go again."""
        low, high = self._own
        self.bound_row(row, *((0.0, 0.0) if tied else (float(low[row]), float(high[row]))))


class Attacker:
    """Somebody who has the published cells, knows how they add up, and has a linear program.

    Unknowns are inner cells; cells are sums of them. The true table is one of those that agree with everything
    published; over all of them the attacker looks for the smallest and the largest value of a suppressed cell. `prior`
    says what is known beforehand (nothing given: no inner cell is negative), `known` which inner cells the attacker
    knows (its own), `floor` what it contributed to each inner cell itself. Independent parts of the table are programs
    of their own, made when they are first needed, and each goes on from its last solution.

    The interval is right to the solver's accuracy, and never wider than the truth by more than that: what a solution
    misses of the published sums is taken off.

    References
    ----------
    Fischetti & Salazar (2000), J. Amer. Statist. Assoc. 95; Hundepool et al. (2012), ch. 4; catalogue T8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.attacker import Attacker
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [3, 4, 5, 9]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").mark([{"row": "a"}, {"row": "b"}], "unsafe")
    >>> cells = cells.mark([{"row": r, "col": c} for r in "ab" for c in "xy"], "unsafe")
    >>> Attacker(cells).interval(cells.index({"row": "a", "col": "x"}))
    (0.0, 8.0)
    """

    def __init__(
        self,
        cells: Cells,
        *,
        suppressed: Bools | None = None,
        prior: Prior | None = None,
        known: Bools | None = None,
        floor: Floats | None = None,
    ) -> None:
        if cells.status.released is not None:
            raise PlanError("the audit is for suppression: this table publishes other values than the true ones")
        hidden = cells.suppressed if suppressed is None else np.asarray(suppressed, np.bool_)
        if hidden.shape != (len(cells),):
            raise PlanError(f"suppressed: expected {len(cells)} entries, one per cell, got the shape {hidden.shape}")
        self._take(system(cells, hidden, prior, known=known, floor=floor))

    @classmethod
    def on(cls, known: System) -> Attacker:
        """Give an attacker who has a system written down already."""
        new = cls.__new__(cls)
        new._take(known)
        return new

    def _take(self, known: System) -> None:
        self.system = known
        self.solved = 0
        """linear programs solved so far"""
        self._open = np.bincount(known.A.indices, minlength=known.size) == 0
        self._loose_low, self._loose_high = known.low.copy(), known.high.copy()
        self._blocks: dict[int, Block] = {}
        order = np.argsort(known.block, kind="stable")
        self._unknowns = np.split(order, np.cumsum(np.bincount(known.block))[:-1]) if len(order) else []
        self._rows = _rows_by_block(known)

    def __repr__(self) -> str:
        return f"Attacker({self.system.size} unknowns, {self.system.A.shape[0]} sums, {len(self._unknowns)} parts)"

    def interval(self, cell: int) -> tuple[float, float]:
        """Give the smallest and the largest value a cell can have; both are its value when it is published."""
        below, above = self.deviations(self.system.members[[cell]])
        value = float(self.system.center[cell])
        return value + below, value + above

    def deviations(self, target: Matrix) -> tuple[float, float]:
        """Give how far below and above its center a sum of unknowns (one row) can lie: (≤ 0, ≥ 0)."""
        return -self.reach(-target)[0], self.reach(target)[0]

    def reach(self, target: Matrix) -> tuple[float, Found]:
        """Give how far a sum of unknowns can deviate, and a table in which it does.

        What that table misses of the published sums is taken off.
        """
        objective = np.zeros(self.system.size)
        objective[target.indices] = target.data
        found = self.push(objective)
        if not len(target.indices):
            return 0.0, found
        if float(target.data @ found.ray[target.indices]) > RAY:
            return np.inf, found
        far = float(target.data @ found.z[target.indices])
        return max(far - found.missed * len(target.indices), 0.0), found

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """Bounds of the deviation of each unknown that follow from its own bounds and from single sums."""
        whole = self.system
        high = whole.high.copy()
        if np.isfinite(whole.low).all():
            rows = np.repeat(np.arange(whole.A.shape[0]), np.diff(whole.A.indptr))
            room = whole.row_high - whole.A @ whole.low
            np.minimum.at(high, whole.A.indices, room[rows] + whole.low[whole.A.indices])
        return whole.low, high

    def push(self, objective: Floats) -> Found:
        """Give a table that makes an objective over the unknowns largest, part by part.

        Parts that the objective does not touch, and those in which it has no end, stay as they are.
        """
        z, ray = np.zeros(self.system.size), np.zeros(self.system.size)
        loose = self._open & (objective != 0)
        z[loose] = np.where(objective[loose] > 0, self._loose_high[loose], self._loose_low[loose])
        ray[loose] = np.where(np.isinf(z[loose]), np.sign(z[loose]), 0.0)
        z[loose] = np.where(np.isinf(z[loose]), 0.0, z[loose])
        missed = 0.0
        for number in np.unique(self.system.block[(objective != 0) & ~self._open]).tolist():
            block = self.part(number)
            found, endless = block.farthest(objective[block.unknowns])
            self.solved += 1
            if endless:
                ray[block.unknowns] = found / np.abs(found).max()
            else:
                missed = max(missed, block.missed(found))
                z[block.unknowns] = found
        return Found(z, ray, missed)

    def tie(self, row: int, tied: bool) -> None:
        """Hold a row of the system at 0, or give it its own bounds back."""
        whole = self.system
        first, last = whole.A.indptr[row : row + 2]
        if first == last:
            return
        number = int(whole.block[whole.A.indices[first]])
        place = int(np.searchsorted(self._rows[number], row))
        self.part(number).tie(place, tied)

    def narrow(self, unknowns: Ints, low: Floats, high: Floats) -> None:
        """Give unknowns other bounds (of their deviations), for an attacker who knows more; or their own back."""
        self._loose_low[unknowns], self._loose_high[unknowns] = low, high
        block = self.system.block[unknowns]
        for number in np.unique(block).tolist():
            chosen = np.flatnonzero((block == number) & ~self._open[unknowns])
            if len(chosen):
                part = self.part(number)
                part.bound(np.searchsorted(part.unknowns, unknowns[chosen]), low[chosen], high[chosen])

    def part(self, number: int) -> Block:
        """Give one connected part of the system as a linear program."""
        if number not in self._blocks:
            self._blocks[number] = Block(self.system, self._unknowns[number], self._rows[number])
        return self._blocks[number]


def _rows_by_block(whole: System) -> list[Ints]:
    """Give the rows of each connected part."""
    if not whole.size:
        return []
    filled = np.flatnonzero(np.diff(whole.A.indptr) > 0)
    block = whole.block[whole.A.indices[whole.A.indptr[filled]]]
    count = int(whole.block.max()) + 1
    return np.split(filled[np.argsort(block, kind="stable")], np.cumsum(np.bincount(block, minlength=count))[:-1])
