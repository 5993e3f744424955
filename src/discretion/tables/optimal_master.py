"""The program that chooses a pattern: cheapest, under the conditions attackers have raised so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints


class Master:
    """A yes or no for each cell (1: suppressed); sensitive cells are 1, unusable ones 0."""

    def __init__(self, cost: Floats, primary: Bools, usable: Bools) -> None:
        import highspy

        self._highspy = highspy
        make: Any = highspy.Highs
        self._solver: Any = make()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._solver.setOptionValue("mip_rel_gap", 0.0)
        self._solver.setOptionValue("mip_abs_gap", 0.0)
        self.size = len(cost)
        self._numbers = np.arange(self.size, dtype=np.int32)
        self._low, self._high = primary.astype(np.float64), usable.astype(np.float64)
        self._solver.addVars(self.size, self._low, self._high)
        self._solver.changeColsCost(self.size, self._numbers, cost)

    def whole(self) -> None:
        """Ask for whole numbers from now on."""
        kind = self._highspy.HighsVarType.kInteger
        self._solver.changeColsIntegrality(self.size, self._numbers, np.full(self.size, kind))

    def add(self, least: float, cells: Ints, weights: Floats) -> None:
        """Require Σ weights · chosen ≥ least."""
        self._solver.addRow(least, self._highspy.kHighsInf, len(cells), cells.astype(np.int32), weights)

    def exclude(self, room: float) -> int:
        """Exclude cells that cost more than `room` beyond the program just solved (no whole numbers); count them."""
        reduced = np.asarray(self._solver.getSolution().col_dual, np.float64)
        out = (reduced > room) & (self._low == 0) & (self._high == 1)
        self._high[out] = 0.0
        self._solver.changeColsBounds(self.size, self._numbers, self._low, self._high)
        return int(out.sum())

    def start(self, chosen: Bools) -> None:
        """Tell the solver a pattern that is known to be possible."""
        solution = self._highspy.HighsSolution()
        solution.col_value = np.maximum(chosen, self._low).astype(np.float64).tolist()
        self._solver.setSolution(solution)

    def solve(self, seconds: float, bound: float) -> tuple[Floats | None, float]:
        """Give the cheapest choice and a lower bound of the cost; None when time is over, or no choice is left."""
        if np.isfinite(seconds):
            self._solver.setOptionValue("time_limit", self._solver.getRunTime() + max(seconds, 0.01))
        self._solver.run()
        status = self._solver.getModelStatus()
        statuses = self._highspy.HighsModelStatus
        if status == statuses.kTimeLimit:
            dual = float(self._solver.getInfo().mip_dual_bound)
            return None, max(bound, dual) if np.isfinite(dual) else bound
        if status == statuses.kInfeasible:
            return None, np.inf
        if status != statuses.kOptimal:
            raise DiscretionError(
                f"optimal: the program could not be solved ({self._solver.modelStatusToString(status)})"
            )
        value = np.clip(np.asarray(self._solver.getSolution().col_value, np.float64), 0.0, 1.0)
        value[value < 1e-9] = 0.0
        return value, max(bound, float(self._solver.getInfo().objective_function_value))
