"""Linear and integer programs over the cells of a table, solved with HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from discretion.context import Progress, ignore_progress
from discretion.kernels.arrays import Bools, Floats
from discretion.tables.linear_program import power_above

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

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(seconds)), ("mip_rel_gap", gap)):
        solver.setOptionValue(option, value)
    price = power_above(program.cost)
    solver.passModel(_model(program, price, highspy))
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


def _model(program: Program, price: float, highspy: Any) -> Any:
    matrix = program.A.tocsr()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.shape[1], matrix.shape[0]
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost / price, program.low, program.high
    lp.row_lower_, lp.row_upper_ = program.row_low, program.row_high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = matrix.data.astype(np.float64)
    if program.whole is not None and program.whole.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in program.whole]
    return lp


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
