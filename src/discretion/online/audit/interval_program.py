"""The linear program of the interval audit: which sums leave a person's value wide enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints

TOLERANCE = 1e-9
"""How far the solver may miss a bound, in units of the range of one value."""


class WidthProgram:
    """Two copies of everything the attacker cannot exclude, which give the new sum the same value s.

    The unknowns are sums y over atoms (people who are in the same answered sets), between 0 and the number of people,
    in units of a value's range. In the first copy a person of the chosen atom is as high as possible (≤ 1 and ≤ y), in
    the second as low as possible (≥ 0 and ≥ y − people + 1); both are attained, since within an atom every division
    of y is possible. The person's interval given s is at least `width` wide exactly for the s of this program.
    """

    def __init__(self, sizes: Floats, rows: Bools, lower: Floats, upper: Floats, asked: Bools, width: float) -> None:
        import highspy

        self._sizes, self._atoms = sizes, len(sizes)
        make: Any = highspy.Highs  # has no types
        self._highs = make()
        for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex")):
            self._highs.setOptionValue(option, value)
        for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            self._highs.setOptionValue(option, TOLERANCE)
        self._optimal, self._infeasible = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible
        self._minimize, self._maximize = highspy.ObjSense.kMinimize, highspy.ObjSense.kMaximize
        self._build(rows, lower, upper, asked, width, highspy.kHighsInf)

    def _build(self, rows: Bools, lower: Floats, upper: Floats, asked: Bools, width: float, infinite: float) -> None:
        count = self._atoms
        first, second = np.arange(count), np.arange(count, 2 * count)
        self._high, self._low, self._s = 2 * count, 2 * count + 1, 2 * count + 2
        add = self._highs.addVars
        add(count, np.zeros(count), self._sizes)
        add(count, np.zeros(count), self._sizes)
        add(3, np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, float(self._sizes[asked].sum())]))
        self._highs.changeColCost(self._s, 1.0)
        for copy in (first, second):
            for row, low, high in zip(rows, lower, upper, strict=True):
                self._row(low, high, copy[row], np.ones(int(row.sum())))
            members = np.append(copy[asked], self._s)
            self._row(0.0, 0.0, members, np.append(np.ones(len(members) - 1), -1.0))
        self._row(width, infinite, np.array([self._high, self._low]), np.array([1.0, -1.0]))
        self._row_high = self._highs.getNumRow()
        self._row(-infinite, infinite, np.array([self._high]), np.array([1.0]))
        self._row(-infinite, infinite, np.array([self._low]), np.array([-1.0]))
        self._infinite = infinite

    def _row(self, low: float, high: float, columns: Ints, values: Floats) -> None:
        self._highs.addRow(low, high, len(columns), columns.astype(np.int32), values)

    def sums(self, atom: int) -> tuple[float, float] | None:
        """Give the least and largest sum that leaves a person of an atom wide enough; None when there is none."""
        highs, row = self._highs, self._row_high
        highs.changeCoeff(row, atom, -1.0)
        highs.changeRowBounds(row, -self._infinite, 0.0)
        highs.changeCoeff(row + 1, self._atoms + atom, 1.0)
        highs.changeRowBounds(row + 1, -self._infinite, float(self._sizes[atom]) - 1.0)
        try:
            least = self._solve(self._minimize)
            largest = None if least is None else self._solve(self._maximize)
        finally:
            highs.changeCoeff(row, atom, 0.0)
            highs.changeCoeff(row + 1, self._atoms + atom, 0.0)
        return None if least is None or largest is None else (least, largest)

    def _solve(self, sense: Any) -> float | None:
        self._highs.changeObjectiveSense(sense)
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == self._infeasible:
            return None
        if status != self._optimal:
            raise DiscretionError("the linear program of the interval audit was not solved")
        return float(self._highs.getInfo().objective_function_value)
