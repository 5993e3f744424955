"""Complementary suppression at the least cost possible, by cutting planes: for small tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discretion.context import Context
from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.levels import costs, levels
from discretion.tables.optimal_attack import Attack
from discretion.tables.optimal_master import Master
from discretion.tables.optimal_rows import bridges, first_cuts
from discretion.tables.respondents import audited, failing_pairs, protect_respondents

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

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
