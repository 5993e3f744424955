"""Complementary suppression at the least cost possible, by cutting planes: for small tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discretion.context import Context
from discretion.errors import DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.levels import costs, levels
from discretion.tables.linear_program import power_above
from discretion.tables.optimal_attack import VIOLATED, Attack, Cut
from discretion.tables.respondents import audited, failing_pairs, protect_respondents

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


# The program that chooses a pattern: cheapest, under the conditions attackers have raised so far.


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
        self._unit = power_above(cost)
        self._solver.changeColsCost(self.size, self._numbers, cost / self._unit)

    def whole(self) -> None:
        """Ask for whole numbers from now on."""
        kind = self._highspy.HighsVarType.kInteger
        self._solver.changeColsIntegrality(self.size, self._numbers, np.full(self.size, kind))

    def add(self, least: float, cells: Ints, weights: Floats) -> None:
        """Require Σ weights · chosen ≥ least."""
        self._solver.addRow(least, self._highspy.kHighsInf, len(cells), cells.astype(np.int32), weights)

    def exclude(self, room: float) -> int:
        """Exclude cells that cost more than `room` beyond the program just solved (no whole numbers); count them."""
        reduced = np.asarray(self._solver.getSolution().col_dual, np.float64) * self._unit
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
            dual = float(self._solver.getInfo().mip_dual_bound) * self._unit
            return None, max(bound, dual) if np.isfinite(dual) else bound
        if status == statuses.kInfeasible:
            return None, np.inf
        if status != statuses.kOptimal:
            raise DiscretionError(
                f"optimal: the program could not be solved ({self._solver.modelStatusToString(status)})"
            )
        value = np.clip(np.asarray(self._solver.getSolution().col_value, np.float64), 0.0, 1.0)
        value[value < 1e-9] = 0.0
        return value, max(bound, float(self._solver.getInfo().objective_function_value) * self._unit)


# Conditions on a pattern that follow from one sum of the table at a time.


def first_cuts(cells: Cells, attack: Attack, usable: Bools) -> Iterator[Cut]:
    """Give what each sum asks for a sensitive cell in it: the other cells of the sum must be able to make room.

    A cell deviates upwards by no more than its total does and its siblings do downwards; where nothing else is
    suppressed in a sum the cell can be computed.
    """
    sums = cells.relations()
    nobody = np.zeros(len(cells))
    by_cell = sums.transposed
    for goal in attack.goals:
        for row in by_cell.row(goal.cell).tolist():
            inside = slice(sums.indptr[row], sums.indptr[row + 1])
            member, sign = sums.indices[inside], sums.data[inside]
            others = (member != goal.cell) & (usable[member] | cells.primary[member])
            along = sign * sign[member == goal.cell][0] < 0
            weights = np.zeros(len(cells))
            for side in goal.sides:
                up = along if side > 0 else ~along
                weights[member] += np.where(up, attack.high[member], attack.low[member]) * others
            cut = attack.strengthened(goal.least, weights, nobody)
            if cut is not None:
                yield cut


def bridges(cells: Cells, chosen: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Give Σ weights · chosen ≥ 0 where a cell is suppressed to a larger extent than all others of a sum together.

    A complementary cell that is alone in a sum can be computed and protects nothing: the cheapest pattern has none.
    """
    sums = cells.relations()
    extent = chosen[sums.indices]
    whole = np.bincount(sums.rows, extent, sums.shape[0])
    alone = (2 * extent > whole[sums.rows] + VIOLATED) & ~cells.primary[sums.indices]
    for entry in np.flatnonzero(alone).tolist():
        row = int(sums.rows[entry])
        member = sums.row(row).astype(np.int64)
        yield member, np.where(member == sums.indices[entry], -1.0, 1.0)


_FIRST = 0.05
"""Seconds that the first program gets even when time is over, so that there may be a bound."""
_EQUAL = 1e-7
"""Share of the cost by which the bound may be lower and still prove it."""

T = TypeVar("T")


class _TimeIsOver(Exception):
    """Raised from inside a search that does not end in time."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The pattern found."""

    secondary: Bools
    """complementary cells"""
    cost: float
    """what they cost"""
    gap_share: float
    """(cost − least cost that is not excluded) / cost; 0 where the pattern is proven to be the cheapest; inf where it
    does not keep all respondents out, so that there is nothing to prove"""
    cuts: int
    """conditions that attackers raised"""


def optimal(
    cells: Cells,
    *,
    cost: Any = "value",
    seconds: float | None = None,
    largest: int = 2000,
    coalition: int = 0,
    ctx: Context | None = None,
) -> Optimum:
    """Choose the cheapest complementary cells that give every sensitive cell the interval it needs.

    A program with a yes or no for each cell chooses a pattern; for every sensitive cell an attacker looks for the
    farthest it can deviate in tables that agree with the published cells. Where that is not enough, linear duality
    gives a condition that every good pattern meets and this one does not; it joins the program, until nobody objects.
    First without whole numbers, which is cheaper, gives most conditions and a first bound of the cost; cells too
    expensive for that bound and the best pattern known (of `levels`, from nothing and from this choice) drop out. Every
    condition is scaled so that no cell counts for more than is needed. Cells with no level required must only not be
    found exactly. Attackers know that no cell is negative (where none is). When `seconds` are over, whatever is under
    way, the best pattern known is given, with the gap to the bound reached: if not even `levels` came to an end, all
    cells that may be suppressed, if that protects (otherwise `Infeasible`).

    With a `coalition` of at least 1 respondents attack too, each (or each group of so many) with what it knows:
    whenever no outsider objects to a pattern, they are asked, and their conditions join the program. Time grows
    exponentially in the worst case; tables of more than `largest` cells are refused.

    References
    ----------
    Fischetti & Salazar (2001), Management Science 47(7); catalogue T4.
    """
    if len(cells) > largest:
        raise PlanError(
            f"optimal: the table has {len(cells):,} cells and at most {largest:,} are allowed; use 'levels', "
            "or raise `largest` and give `seconds`"
        )
    ctx = ctx or Context(seed=0, step="optimal")
    search = _Search(cells, costs(cells, cost), ctx, seconds, coalition)
    return search.run(cost)


class _Search:
    """The state of the search."""

    def __init__(self, cells: Cells, cost: Floats, ctx: Context, seconds: float | None, coalition: int) -> None:
        self.coalition = coalition
        self.cells, self.cost, self.ctx = cells, np.where(cells.primary, 0.0, cost), ctx
        self.attack = Attack(cells)
        self.usable = ~cells.status.must_publish & ~self.attack.empty
        self.end = time.monotonic() + seconds if seconds else np.inf
        self.master = Master(self.cost, cells.primary, self.usable | cells.primary)
        self.best = np.zeros(len(cells), np.bool_)
        self.best_cost = np.inf
        self.bound = 0.0
        self.cuts = 0

    def run(self, cost: Any) -> Optimum:
        """Converge without whole numbers, exclude cells that are too expensive, then choose with whole numbers."""
        first = self.in_time(lambda ctx: levels(self.cells, cost=cost, ctx=ctx), None)
        if first is None:
            first = self.everything()
        repaired, holds = self.repaired(first, cost)
        asked, self.coalition = self.coalition, self.coalition if holds else 0
        self.keep(repaired if holds else first)
        for members, weights in first_cuts(self.cells, self.attack, self.usable):
            self.add(1.0, members, weights)
        chosen = self.converge(whole=False)
        if chosen is not None and self.bound < self.best_cost and not self.over():
            start = chosen > 0.5
            found = self.in_time(
                lambda ctx: levels(self.cells, start=start, keep_start=False, cost=cost, ctx=ctx), None
            )
            better, good = (self.best, False) if found is None else self.repaired(found, cost)
            if good:
                self.keep(better)
            self.master.exclude(self.best_cost - self.bound + 1e-6 * max(self.best_cost, 1.0))
        if self.bound < self.target and not self.over():
            self.master.whole()
            chosen = self.converge(whole=True)
            if chosen is not None:
                self.keep((chosen > 0.5) & ~self.cells.primary)
        if asked and not self.coalition:  # no pattern holds against all of them: as far as it goes, and no gap is known
            self.best = self.in_time(
                lambda ctx: protect_respondents(self.cells, self.best, cost=cost, coalition=asked, ctx=ctx)[0],
                self.best,
            )
            return Optimum(self.best, float(self.cost[self.best].sum()), np.inf, self.cuts)
        gap = max(self.best_cost - self.bound, 0.0) / self.best_cost if self.best_cost > 0 else 0.0
        return Optimum(self.best, self.best_cost, 0.0 if gap < _EQUAL else gap, self.cuts)

    @property
    def target(self) -> float:
        """The bound that proves the best pattern found to be the cheapest."""
        return self.best_cost - _EQUAL * max(self.best_cost, 1.0)

    def over(self) -> bool:
        """Tell whether time is over."""
        return time.monotonic() > self.end

    def repaired(self, pattern: Bools, cost: Any) -> tuple[Bools, bool]:
        """Protect a pattern against respondents; tell whether it then holds."""
        if not self.coalition:
            return pattern, True
        found = self.in_time(
            lambda ctx: protect_respondents(self.cells, pattern, cost=cost, coalition=self.coalition, ctx=ctx), None
        )
        if found is None:
            return pattern, False
        hidden, proofs = self.cells.primary | found[0], found[1]
        audit = self.in_time(lambda ctx: audited(self.cells, hidden, self.coalition, ctx, proofs), None)
        return found[0], audit is not None and audit.holds

    def in_time(self, work: Callable[[Context], T], otherwise: T) -> T:
        """Do something that reports its progress until time is over; give `otherwise` if it does not end by then."""

        def progress(done: int, total: int, label: str) -> None:
            if self.over():
                raise _TimeIsOver
            self.ctx.progress(done, total, label)

        try:
            return work(replace(self.ctx, progress=progress))
        except _TimeIsOver:
            return otherwise

    def everything(self) -> Bools:
        """Give the pattern of all cells that may be suppressed, if it protects: no other can where it does not."""
        pattern: Bools = self.usable & ~self.cells.primary
        if not self.cells.with_status(secondary=pattern).audit(rules=(), exact=False, seconds=1.0, ctx=self.ctx).holds:
            raise Infeasible("optimal: no pattern that protects was found in time; allow more `seconds`")
        return pattern

    def keep(self, pattern: Bools) -> None:
        """Keep a pattern that protects all cells if it is the cheapest so far."""
        price = float(self.cost[pattern].sum())
        if price < self.best_cost:
            self.best, self.best_cost = pattern, price

    def add(self, least: float, members: Ints, weights: Floats) -> None:
        """Add a condition."""
        self.master.add(least, members, weights)
        self.cuts += 1

    def converge(self, *, whole: bool) -> Floats | None:
        """Choose, let attackers object, and choose again until nobody does; None if it need or could not end."""
        first = not whole
        while first or not self.over():
            if whole:
                self.master.start(self.best)
            chosen, self.bound = self.master.solve(max(self.end - time.monotonic(), _FIRST * first), self.bound)
            first = False
            self.bound = min(self.bound, self.best_cost)
            self.ctx.progress(self.cuts, self.cuts + 1, "optimal: conditions of attackers")
            if chosen is None or self.bound >= self.target:
                return None
            before = self.cuts
            for members, weights in bridges(self.cells, chosen):
                self.add(0.0, members, weights)
            for members, weights in self.attack.objections(chosen, whole, self.ctx, self.over):
                self.add(1.0, members, weights)
            if self.cuts == before and whole and self.coalition and not self.over():
                asked = chosen > 0.5
                failing = self.in_time(lambda ctx: failing_pairs(self.cells, asked, self.coalition, ctx), None)  # noqa: B023
                if failing is None:
                    return None
                for members, weights in self.attack.respondents_object(failing, chosen, self.coalition):
                    self.add(1.0, members, weights)
                if failing and self.cuts == before:
                    return None  # no condition can be told from rounding: the best pattern known stays
            if self.cuts == before:
                return None if self.over() else chosen
        return None
