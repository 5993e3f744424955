"""Is every sensitive cell of a table with changed values protected? For rounding by linear programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.errors import DiscretionError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.rounding import rounding_reach

if TYPE_CHECKING:
    from discretion.tables.cells import Cells
    from discretion.tables.rounding import Rounded

SLACK = 1e-7
"""Share of a value by which a bound may miss what is required through the solver's accuracy."""

_ROUNDS = 12


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedAudit:
    """What an attacker learns of the sensitive cells of a table whose values were changed."""

    cells: Cells
    cell: Ints
    """(k,) the numbers of the sensitive cells"""
    low: Floats
    """(k,) smallest true value the attacker must hold possible, at least as far from the truth as computed"""
    high: Floats
    """(k,) largest"""
    holds_each: Bools
    """(k,) whether the bounds are as far away as the rules require"""

    @property
    def holds(self) -> bool:
        """Whether every sensitive cell is protected."""
        return bool(self.holds_each.all())

    @property
    def failing(self) -> Ints:
        """The numbers of the cells that are not."""
        return self.cell[~self.holds_each]

    @property
    def summary(self) -> str:
        """What was found, without values."""
        bad = len(self.failing)
        text = f"Of {len(self.cell):,} sensitive cells {len(self.cell) - bad:,} are protected, {bad:,} are not."
        return text + (" The table holds." if self.holds else " The table must not go out like this.")

    def __repr__(self) -> str:
        return f"ReleasedAudit({len(self.cell)} sensitive cells: {len(self.failing)} not protected)"


def audit_adjusted(cells: Cells) -> ReleasedAudit:
    """Check that every sensitive cell of an adjusted table is a required level away from the truth.

    A reader who takes the table as it is errs by at least that much; who knows that values were adjusted but not how
    cannot tell in which direction. The interval given is the one between truth and release.
    """
    released = _released(cells)
    where = np.flatnonzero(cells.primary)
    truth, shown = cells.value[where], released[where]
    slack = SLACK * np.maximum(np.abs(truth), 1.0)
    change = shown - truth
    far = (change >= cells.upper_required[where] - slack) | (-change >= cells.lower_required[where] - slack)
    moved = np.abs(change) > slack
    return ReleasedAudit(cells, where, np.minimum(truth, shown), np.maximum(truth, shown), far & moved)


def audit_rounded(rounded: Rounded, *, progress: Progress = ignore_progress) -> ReleasedAudit:
    """Compute how closely somebody who knows base and steps can bound the sensitive cells of a rounded table.

    Every true value lies less than (1 + steps) bases from the one shown, true values add up, and none is negative where
    none is shown to be. Many cells are decided by each of a few linear programs, the rest one by one. A level required
    below 0 is cut there.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.released_audit import audit_rounded
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> audit_rounded(cells.round_controlled(5)).holds
    True
    """
    cells = rounded.cells
    where = np.flatnonzero(cells.primary)
    truth = cells.value[where]
    floor = -np.inf if (cells.value < 0).any() else 0.0
    need_low = np.maximum(truth - cells.lower_required[where], floor)
    need_high = truth + cells.upper_required[where]
    low, high = truth.copy(), truth.copy()
    if len(where):
        _widen(_Attack(rounded, floor), where, (need_low, need_high), low, high, progress)
    slack = SLACK * np.maximum(np.abs(truth), 1.0)
    exact = cells.response.frequency and bool((cells.value == np.round(cells.value)).all())
    single = high - low < (1.0 - 1e-6 if exact else 2 * slack)
    return ReleasedAudit(cells, where, low, high, (low <= need_low + slack) & (high >= need_high - slack) & ~single)


def _released(cells: Cells) -> Floats:
    if cells.status.released is None:
        raise PlanError("the table publishes its true values; there is nothing to compare")
    return cells.status.released


def _widen(
    attack: _Attack, where: Ints, need: tuple[Floats, Floats], low: Floats, high: Floats, progress: Progress
) -> None:
    """Push bounds outward: first many cells at once in random directions, then those that still lack, one by one."""
    slack = SLACK * np.maximum(np.abs(need[1]), 1.0)
    rng = Context(seed=0, step="audit-rounded").rng
    for number in range(_ROUNDS):
        progress(number, _ROUNDS, "auditing the rounded table")
        lacks_up, lacks_down = high < need[1] - slack, low > need[0] + slack
        if not (lacks_up | lacks_down).any():
            return
        both = lacks_up & lacks_down
        pull = np.where(both, rng.choice([-1.0, 1.0], len(where)), lacks_up * 1.0 - lacks_down * 1.0)
        found = attack.farthest(where, pull * rng.random(len(where)))[where]
        np.minimum(low, found, out=low)
        np.maximum(high, found, out=high)
    for k in range(len(where)):
        progress(k, len(where), "auditing the rounded table, cell by cell")
        for sign, lacks in ((1.0, high[k] < need[1][k] - slack[k]), (-1.0, low[k] > need[0][k] + slack[k])):
            if lacks:
                found = attack.farthest(where[[k]], np.array([sign]))[where]
                np.minimum(low, found, out=low)
                np.maximum(high, found, out=high)


class _Attack:
    """All true tables that a rounded one leaves possible, as a linear program that stays in the solver."""

    def __init__(self, rounded: Rounded, floor: float) -> None:
        import highspy

        from discretion.tables.attacker import solver

        cells, shown = rounded.cells, _released(rounded.cells)
        reach = rounding_reach(cells, rounded.base, rounded.steps)
        self.members = cells.x.transposed.to_scipy()
        low, high = np.maximum(shown - reach, floor), shown + reach
        n = len(cells.inner_codes)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = n, len(cells)
        lp.col_cost_ = np.zeros(n)
        lp.col_lower_, lp.col_upper_ = np.full(n, floor), np.full(n, np.inf)
        lp.row_lower_, lp.row_upper_ = low, high
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = self.members.indptr.astype(np.int32)
        lp.a_matrix_.index_ = self.members.indices.astype(np.int32)
        lp.a_matrix_.value_ = self.members.data
        self._solver: Any = solver(primal=True)
        self._solver.passModel(lp)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._columns = np.arange(n, dtype=np.int32)

    def farthest(self, cells: Ints, weight: Floats) -> Floats:
        """Give the possible table that makes a weighted sum of cells largest."""
        cost = -(self.members[cells].T @ weight)
        self._solver.changeColsCost(len(self._columns), self._columns, np.asarray(cost, np.float64))
        self._solver.run()
        if self._solver.getModelStatus() != self._optimal:
            raise DiscretionError("the audit's linear program could not be solved; nothing is claimed")
        table: Floats = self.members @ np.asarray(self._solver.getSolution().col_value, np.float64)
        return table
