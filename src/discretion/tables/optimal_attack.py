"""Attackers of a pattern, whole or fractional, who say what a better pattern must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import solver
from discretion.tables.audit import whole_numbers
from discretion.tables.audit_certify import EXACT

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

_TOLERANCE = 1e-7
_ROOM = 1e3
"""How much more than exactness asks a cell without required level gets, so that the audit cannot doubt it."""

Cut = tuple[float, Ints, Floats]
"""Σ weights · chosen ≥ least: (least, cells, weights)."""


@dataclass(frozen=True)
class Goal:
    """How far a sensitive cell must be able to deviate: above (+1), below (−1), or in sum of both (0)."""

    cell: int
    side: int
    least: float


class Attack:
    """Deviations z of the inner cells; a cell chosen to the extent s_j deviates by −s_j·low_j to s_j·high_j."""

    def __init__(self, cells: Cells) -> None:
        import highspy

        self._statuses = highspy.HighsModelStatus
        m, n = len(cells), len(cells.inner_codes)
        negative = bool((cells.inner_value < 0).any())
        reach = 2.0 * float(np.abs(cells.inner_value).sum()) + float(cells.upper_required.max(initial=0.0)) + 1.0
        self.high = np.full(m, reach)
        self.low = np.full(m, reach) if negative else np.abs(cells.value)
        self.empty: Bools = (cells.count == 0 if cells.response.counted else cells.value == 0) & ~cells.primary
        self._constant = np.where(cells.inner_cell >= 0, np.inf, reach if negative else np.abs(cells.inner_value))
        members = cells.x.transposed
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = n, m
        lp.col_cost_ = np.zeros(n)
        lp.col_lower_, lp.col_upper_ = -self._constant, np.full(n, np.inf)
        lp.row_lower_, lp.row_upper_ = np.zeros(m), np.zeros(m)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = members.indptr.astype(np.int32)
        lp.a_matrix_.index_ = members.indices.astype(np.int32)
        lp.a_matrix_.value_ = members.data.astype(np.float64)
        self._members = members
        self._solver: Any = solver(primal=False)
        self._solver.passModel(lp)
        self.goals = _goals(cells, negative)

    def set(self, chosen: Floats) -> None:
        """Look at another pattern."""
        m = len(chosen)
        rows = np.arange(m, dtype=np.int32)
        self._chosen = chosen
        for row, low, high in zip(rows.tolist(), -self.low * chosen, self.high * chosen, strict=True):
            self._solver.changeRowBounds(row, float(low), float(high))

    def objection(self, goal: Goal) -> Cut | None:
        """Give the condition that the pattern misses for a goal, None where it meets it."""
        sides = (1, -1) if goal.side == 0 else (goal.side,)
        reach, least = 0.0, goal.least
        weights = np.zeros(len(self.high))
        for side in sides:
            found, more, constant = self._farthest(goal.cell, side)
            reach += found
            weights += more
            least -= constant
        if reach >= goal.least - _TOLERANCE * max(goal.least, 1.0) or least <= 0:
            return None
        weights = np.minimum(weights, least)
        cells = np.flatnonzero(weights > 1e-9 * least)
        return 1.0, cells, weights[cells] / least

    def _farthest(self, cell: int, side: int) -> tuple[float, Floats, float]:
        """Give how far a cell can deviate to one side, and the dual: weights of the cells, and a constant."""
        rows = self._members.row(cell).astype(np.int32)
        self._solver.changeColsCost(len(rows), rows, np.full(len(rows), -float(side)))
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != self._statuses.kOptimal:
            self._solver.clearSolver()
            self._solver.run()
            status = self._solver.getModelStatus()
        if status != self._statuses.kOptimal:
            raise DiscretionError(
                f"optimal: an attacker's program could not be solved ({self._solver.modelStatusToString(status)})"
            )
        solution = self._solver.getSolution()
        reach = -float(self._solver.getInfo().objective_function_value)
        price = np.asarray(solution.row_dual, np.float64)
        rest = np.asarray(solution.col_dual, np.float64)
        self._solver.changeColsCost(len(rows), rows, np.zeros(len(rows)))
        weights = np.where(price < 0, -price * self.high, price * self.low)
        own = np.isfinite(self._constant) & (rest > 0)
        return reach, weights, float((rest[own] * self._constant[own]).sum())


def _goals(cells: Cells, negative: bool) -> list[Goal]:
    """List what sensitive cells need; a lower level beyond the value is cut there unless cells may be negative."""
    goals = []
    whole = whole_numbers(cells)
    for cell in np.flatnonzero(cells.primary).tolist():
        value = abs(float(cells.value[cell]))
        above, below = float(cells.upper_required[cell]), float(cells.lower_required[cell])
        if not negative:
            below = min(below, value)
        if max(above, below) <= 0:
            goals.append(Goal(cell, 0, 1.0 if whole else _ROOM * EXACT * max(value, 1.0)))
        goals += [Goal(cell, side, need) for side, need in ((1, above), (-1, below)) if need > 0]
    return goals
