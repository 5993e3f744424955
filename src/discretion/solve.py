"""The one place that calls HiGHS: programs that stay in the solver, programs that grow, programs solved once.

Tables may be in cents or in billions. Programs are solved in units in which no bound is above a million, so that the
solver's tolerances mean the same everywhere: without that, sums of 10⁹ cannot be kept to 10⁻⁹ in double precision, and
the solver gives up, or calls programs endless that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from discretion.context import Progress, ignore_progress
from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints

Matrix = Any
"""A sparse matrix of scipy."""
FEASIBILITY = 1e-9
"""How far a tight program may miss a sum or a bound, in its units; what is missed is taken off the interval found."""
LARGEST = 2.0**20
"""The largest bound, in units of the program; units are powers of 2, so that no digit is lost."""
AGAIN: tuple[dict[str, Any], ...] = (
    {},
    {"simplex_strategy": 1},
    {"simplex_strategy": 1, "presolve": "on"},
    {"solver": "ipm"},
)
"""Settings tried in turn where the solver loses its way."""
RAY = 1e-7
"""How much a sum must grow along an endless direction (whose largest entry is 1) to count as growing."""


def power_above(values: Floats, largest: float = LARGEST) -> float:
    """Give the least power of 2, not below 1, in units of which no finite value is above the largest."""
    most = float(np.abs(values, where=np.isfinite(values), out=np.zeros(len(values))).max(initial=0.0))
    return float(2.0 ** max(np.ceil(np.log2(most / largest)), 0.0)) if most > 0 else 1.0


class LinearProgram:
    """Minimize cost · x where low ≤ x ≤ high and row_low ≤ A·x ≤ row_high; all amounts in the table's own units.

    `primal` for programs whose cost changes (the last vertex stays possible), otherwise those whose bounds do; `tight`
    keeps sums and bounds to `FEASIBILITY`.
    """

    def __init__(
        self,
        rows: Matrix,
        bounds: tuple[Floats, Floats],
        row_bounds: tuple[Floats, Floats],
        cost: Floats,
        *,
        primal: bool = False,
        tight: bool = False,
    ) -> None:
        import highspy

        self.A = rows.tocsr()
        self.low, self.high = (np.array(ends, np.float64) for ends in bounds)
        self.row_low, self.row_high = (np.array(ends, np.float64) for ends in row_bounds)
        self.unit = power_above(np.concatenate([self.low, self.high, self.row_low, self.row_high]))
        self._price = power_above(cost)
        self._statuses: Any = highspy.HighsModelStatus
        low, high, row_low, row_high = (one / self.unit for one in (self.low, self.high, self.row_low, self.row_high))
        self._solver = _quiet(presolve="off", solver="simplex", simplex_strategy=4 if primal else 1)
        if tight or primal:
            self._solver.setOptionValue("primal_feasibility_tolerance", FEASIBILITY)
            self._solver.setOptionValue("dual_feasibility_tolerance", FEASIBILITY)
        _pass(self._solver, self.A, cost / self._price, (low, high), (row_low, row_high))

    def bound(self, columns: Ints, low: Floats, high: Floats) -> None:
        """Give variables other bounds."""
        self.low[columns], self.high[columns] = low, high
        self._solver.changeColsBounds(len(columns), columns.astype(np.int32), low / self.unit, high / self.unit)

    def bound_row(self, row: int, low: float, high: float) -> None:
        """Give a sum other bounds."""
        if row < len(self.row_low):
            self.row_low[row], self.row_high[row] = low, high
        self._solver.changeRowBounds(row, low / self.unit, high / self.unit)

    def add_row(self, columns: Ints, weights: Floats) -> int:
        """Add a sum that binds nothing unless `bound_row` says so, and give its number."""
        self._solver.addRow(-np.inf, np.inf, len(columns), columns.astype(np.int32), weights)
        return int(self._solver.getNumRow()) - 1

    def price(self, columns: Ints, cost: Floats) -> None:
        """Give variables other costs."""
        self._solver.changeColsCost(len(columns), columns.astype(np.int32), cost / self._price)

    def settle(self) -> bool | None:
        """Solve, from nothing if going on from the last vertex fails; tell whether there is a solution, None: unknown.

        A program without end counts as unknown.
        """
        known = {self._statuses.kOptimal: True, self._statuses.kInfeasible: False}
        for _ in range(2):
            self._solver.run()
            status = self._solver.getModelStatus()
            if status in known:
                return known[status]
            self._solver.clearSolver()
        return None

    def solve_checked(self) -> bool:
        """Solve, and tell whether there is a solution; anything else is an error."""
        found = self.settle()
        if found is None:
            raise DiscretionError(f"a linear program could not be solved ({self._said})")
        return found

    @property
    def values(self) -> Floats:
        """The variables of the last solution."""
        return np.asarray(self._solver.getSolution().col_value, np.float64) * self.unit

    @property
    def reduced_costs(self) -> Floats:
        """What the last objective of `farthest` gains by a unit more of each variable, with the sign of a minimum."""
        return np.asarray(self._solver.getSolution().col_dual, np.float64) * self._most

    def farthest(self, objective: Floats, seconds: float = np.inf) -> tuple[Floats, bool]:
        """Give the variables that make an objective largest, and whether they are a direction without end.

        There must be a solution. Variables are clipped to their bounds. All are 0 where the time did not suffice.
        """
        every = np.arange(len(self.low), dtype=np.int32)
        self._most = float(np.abs(objective).max(initial=0.0)) or 1.0
        self._solver.changeColsCost(len(every), every, -objective / self._most)
        limit = self._solver.getRunTime() + max(seconds, 0.01)
        self._solver.setOptionValue("time_limit", limit)
        self._solver.run()
        self._solver.setOptionValue("time_limit", np.inf)
        if self._solver.getModelStatus() == self._statuses.kTimeLimit:
            return np.zeros(len(every)), False
        found = self._extreme()
        return self._again() if found is None else found

    def _extreme(self) -> tuple[Floats, bool] | None:
        """Read what the solver found; None where it did not come to an end, or to a direction that is none."""
        status = self._solver.getModelStatus()
        if status == self._statuses.kOptimal:
            return np.clip(self.values, self.low, self.high), False
        if status == self._statuses.kUnbounded:
            _, has, ray = self._solver.getPrimalRay()
            if has and self._is_endless(found := np.asarray(ray, np.float64)):
                return found, True
        return None

    def _is_endless(self, ray: Floats) -> bool:
        """Tell whether a direction keeps all sums and bounds, however far one goes."""
        most = float(np.abs(ray).max(initial=0.0))
        if not np.isfinite(most) or most == 0:
            return False
        both = ((ray / most, self.low, self.high), (self.A @ (ray / most), self.row_low, self.row_high))
        return all(
            bool((along[np.isfinite(low)] >= -RAY).all() and (along[np.isfinite(high)] <= RAY).all())
            for along, low, high in both
        )

    def _again(self) -> tuple[Floats, bool]:
        """Solve once more from nothing, by other ways."""
        for way in AGAIN:
            kept = {name: self._solver.getOptionValue(name)[1] for name in way}
            for name, value in way.items():
                self._solver.setOptionValue(name, value)
            self._solver.clearSolver()
            self._solver.run()
            found = self._extreme()
            for name, value in kept.items():
                self._solver.setOptionValue(name, value)
            if found is not None:
                return found
        raise DiscretionError(f"the audit's linear program could not be solved ({self._said}); nothing is claimed")

    @property
    def _said(self) -> str:
        return str(self._solver.modelStatusToString(self._solver.getModelStatus()))

    def missed(self, x: Floats) -> float:
        """Give by how much variables miss the sums they must keep."""
        sums = self.A @ x
        return float(np.maximum(sums - self.row_high, self.row_low - sums).max(initial=0.0))


def _quiet(**options: Any) -> Any:
    """Return HiGHS that says nothing and takes one thread; without presolve it goes on from the last vertex."""
    import highspy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in {"output_flag": False, "threads": 1, **options}.items():
        highs.setOptionValue(option, value)
    return highs


def _pass(
    solver: Any,
    rows: Matrix,
    cost: Floats,
    bounds: tuple[Floats, Floats],
    row_bounds: tuple[Floats, Floats],
    whole: Bools | None = None,
) -> None:
    """Hand a program over to the solver as arrays: as a model every number is converted, which can outlast solving."""
    import highspy

    m, n = rows.shape
    kinds = np.zeros(n, np.int32) if whole is None else whole.astype(np.int32)  # 0 continuous, 1 whole
    sizes = n, m, rows.nnz, int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMinimize), 0.0
    entries = rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data.astype(np.float64)
    if solver.passModel(*sizes, cost, *bounds, *row_bounds, *entries, kinds) == highspy.HighsStatus.kError:
        raise DiscretionError("a program was refused by the solver")


WHOLE = 1e-6
"""How far from a whole number the solver's answer may be to count as one."""

State = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, eq=False)
class Program:
    """Minimize cost·x with row_low ≤ A·x ≤ row_high and low ≤ x ≤ high; some of x may have to be whole."""

    A: Any
    """a scipy sparse matrix"""
    low: Floats
    high: Floats
    cost: Floats
    row_low: Floats
    row_high: Floats
    whole: Bools | None = None
    """which unknowns must be whole numbers; None: none"""


@dataclass(frozen=True, eq=False)
class ProgramSolution:
    """What the solver found: the optimum, a solution and how much better one could be, a proof of none, or nothing."""

    state: State
    x: Floats
    objective: float
    bound: float
    """nothing better than this exists"""

    @property
    def found(self) -> bool:
        """Whether there is a solution."""
        return self.state in ("optimal", "feasible")

    @property
    def gap(self) -> float:
        """How much better, as a share of the objective, a solution could be at most; 0 when it is the optimum."""
        if not self.found:
            return float("inf")
        return max(self.objective - self.bound, 0.0) / max(abs(self.objective), 1e-10)

    def is_whole(self) -> bool:
        """Tell whether all unknowns are whole numbers."""
        return bool((np.abs(self.x - np.round(self.x)) <= WHOLE).all())


_NO_GAP = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0}
_TIGHT = {
    "presolve": "off", "solver": "simplex",
    "primal_feasibility_tolerance": FEASIBILITY, "dual_feasibility_tolerance": FEASIBILITY,
}  # fmt: skip


class GrowingProgram:
    """Minimize cost · x where low ≤ x ≤ high, under sums that are added as they are found to be needed.

    `exact`: with whole numbers no gap is left. `tight`: sums and bounds are kept to `FEASIBILITY`, and the solver goes
    on from its last vertex.
    """

    def __init__(self, low: Floats, high: Floats, cost: Floats, *, exact: bool = False, tight: bool = False) -> None:
        import highspy

        self._highspy = highspy
        self.low, self.high = (np.array(ends, np.float64) for ends in (low, high))
        self.size, self._unit = len(cost), power_above(cost)
        self._every = np.arange(self.size, dtype=np.int32)
        self._solver = _quiet(**(_NO_GAP if exact else {}), **(_TIGHT if tight else {}))
        self._solver.addVars(self.size, self.low, self.high)
        self._solver.changeColsCost(self.size, self._every, cost / self._unit)

    @property
    def rows(self) -> int:
        """The number of sums added so far."""
        return int(self._solver.getNumRow())

    @property
    def reduced_costs(self) -> Floats:
        """What the last solution would cost more by a unit more of each variable (no whole numbers)."""
        return np.asarray(self._solver.getSolution().col_dual, np.float64) * self._unit

    def add(self, columns: Ints, weights: Floats, least: float, most: float = np.inf) -> int:
        """Require least ≤ Σ weights · x ≤ most, and return the number of the sum."""
        self._solver.addRow(least, most, len(columns), columns.astype(np.int32), weights.astype(np.float64))
        return self.rows - 1

    def put(self, row: int, column: int, weight: float) -> None:
        """Give a variable another weight in a sum."""
        self._solver.changeCoeff(row, column, weight)

    def bound_row(self, row: int, least: float, most: float) -> None:
        """Give a sum other bounds."""
        self._solver.changeRowBounds(row, least, most)

    def limit(self, high: Floats) -> None:
        """Give the variables other upper bounds."""
        self.high = np.array(high, np.float64)
        self._solver.changeColsBounds(self.size, self._every, self.low, self.high)

    def make_whole(self, columns: Ints) -> None:
        """Ask for whole numbers from now on."""
        kinds = np.full(len(columns), self._highspy.HighsVarType.kInteger)
        self._solver.changeColsIntegrality(len(columns), columns.astype(np.int32), kinds)

    def start(self, values: Floats) -> None:
        """Tell the solver a solution that is known to be possible."""
        solution = self._highspy.HighsSolution()
        solution.col_value = np.maximum(values, self.low).tolist()
        self._solver.setSolution(solution)

    def solve(self, seconds: float = np.inf, *, largest: bool = False) -> ProgramSolution:
        """Return the optimum (the `largest` cost instead of the least), or when time is over the bound alone."""
        senses = self._highspy.ObjSense
        self._solver.changeObjectiveSense(senses.kMaximize if largest else senses.kMinimize)
        if np.isfinite(seconds):
            self._solver.setOptionValue("time_limit", self._solver.getRunTime() + max(seconds, 0.01))
        self._solver.run()
        status, kinds, info = self._solver.getModelStatus(), self._highspy.HighsModelStatus, self._solver.getInfo()
        if status == kinds.kTimeLimit:
            dual = float(info.mip_dual_bound) * self._unit
            return ProgramSolution("unknown", np.zeros(0), np.inf, dual if np.isfinite(dual) else -np.inf)
        if status == kinds.kInfeasible:
            return ProgramSolution("infeasible", np.zeros(0), np.inf, np.inf)
        if status != kinds.kOptimal:
            raise DiscretionError(f"a program could not be solved ({self._solver.modelStatusToString(status)})")
        cost = float(info.objective_function_value) * self._unit
        dual = float(info.mip_dual_bound) * self._unit
        values = np.asarray(self._solver.getSolution().col_value, np.float64)
        return ProgramSolution("optimal", values, cost, dual if np.isfinite(dual) else cost)


def solve(
    program: Program,
    *,
    seconds: float,
    gap: float = 0.0,
    start: Floats | None = None,
    progress: Progress = ignore_progress,
    label: str = "",
) -> ProgramSolution:
    """Solve a program within a time limit, to within the share `gap`; `start` is a solution to begin with."""
    import highspy

    solver, price = _quiet(time_limit=float(seconds), mip_rel_gap=gap), power_above(program.cost)
    ends = (program.low, program.high), (program.row_low, program.row_high)
    _pass(solver, program.A.tocsr(), program.cost / price, *ends, program.whole)
    if start is not None:
        given = highspy.HighsSolution()
        given.col_value = start.tolist()
        solver.setSolution(given)
    stop = _Stop(progress, label, seconds)
    if progress is not ignore_progress:
        for interrupt in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
            interrupt.subscribe(stop)
    solver.run()
    if stop.error is not None:
        raise stop.error
    return _read(solver, highspy, program, price)


class _Stop:
    """Reports progress from inside the solver, and has it stop when the report raises."""

    def __init__(self, progress: Progress, label: str, seconds: float) -> None:
        self.progress, self.label, self.seconds = progress, label, seconds
        self.error: BaseException | None = None

    def __call__(self, event: Any) -> None:
        try:
            done = min(float(event.data_out.running_time) / self.seconds, 1.0)
            self.progress(int(1000 * done), 1000, self.label)
        except BaseException as error:  # raised again when the solver has stopped
            self.error = error
            event.data_in.user_interrupt = True


def _read(solver: Any, highspy: Any, program: Program, price: float) -> ProgramSolution:
    status, info = solver.getModelStatus(), solver.getInfo()
    kinds = highspy.HighsModelStatus
    nothing = np.zeros(0)
    if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):
        return ProgramSolution("infeasible", nothing, float("inf"), float("inf"))
    feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    if not feasible and status != kinds.kOptimal:
        return ProgramSolution("unknown", nothing, float("inf"), -float("inf"))
    x = np.clip(np.asarray(solver.getSolution().col_value, np.float64), program.low, program.high)
    mixed = program.whole is not None and bool(program.whole.any())
    if mixed and program.whole is not None:
        x = np.where(program.whole, np.round(x), x)
    objective = float(program.cost @ x)
    bound = price * float(info.mip_dual_bound) if mixed else objective if status == kinds.kOptimal else -float("inf")
    return ProgramSolution("optimal" if status == kinds.kOptimal else "feasible", x, objective, bound)
