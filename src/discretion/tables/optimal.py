"""Complementary suppression at the least cost possible, by cutting planes: for small tables."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.tables.levels import costs, levels
from discretion.tables.optimal_attack import Attack
from discretion.tables.optimal_master import Master

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


@dataclass(frozen=True, eq=False)
class Optimum:
    """The pattern found."""

    secondary: Bools
    """complementary cells"""
    cost: float
    """what they cost"""
    gap_share: float
    """(cost − least cost that is not excluded) / cost; 0 where the pattern is proven to be the cheapest"""
    cuts: int
    """conditions that attackers raised"""


def optimal(
    cells: Cells,
    *,
    cost: Any = "value",
    seconds: float | None = None,
    largest: int = 2000,
    ctx: Context | None = None,
) -> Optimum:
    """Choose the cheapest complementary cells that give every sensitive cell the interval it needs.

    A program with a yes or no for each cell chooses a pattern; for every sensitive cell an attacker looks for the
    farthest it can deviate in tables that agree with the published cells. Where that is not enough, linear duality
    gives a condition that every good pattern meets and this one does not; it joins the program, until nobody objects.
    First without whole numbers, which is cheaper and gives most conditions. Cells with no level required must only not
    be found exactly. Attackers know that no cell is negative (where none is). The pattern of `levels` is the fall-back
    when `seconds` are over.

    Does not look at respondents as attackers. Time grows exponentially in the worst case; tables of more than `largest`
    cells are refused.

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
    search = _Search(cells, costs(cells, cost), ctx, seconds)
    return search.run(cost)


class _Search:
    """The state of the search."""

    def __init__(self, cells: Cells, cost: Floats, ctx: Context, seconds: float | None) -> None:
        self.cells, self.cost, self.ctx = cells, np.where(cells.primary, 0.0, cost), ctx
        self.attack = Attack(cells)
        self.usable = ~cells.status.must_publish & ~self.attack.empty
        self.end = time.monotonic() + seconds if seconds else np.inf
        self.cuts = 0

    def run(self, cost: Any) -> Optimum:
        best = levels(self.cells, cost=cost, ctx=self.ctx)
        best_cost = float(self.cost[best].sum())
        master = Master(self.cost, self.cells.primary, self.usable | self.cells.primary)
        bound = 0.0
        for whole in (False, True):
            master.whole(whole)
            while time.monotonic() < self.end:
                chosen, bound = master.solve(self.end - time.monotonic(), bound)
                self.ctx.progress(self.cuts, self.cuts + 1, "optimal: conditions of attackers")
                if chosen is None:
                    break
                if bound >= best_cost - 1e-9 * max(best_cost, 1.0):
                    return self.result(best, best_cost, best_cost)
                found = self.object_to(chosen, master)
                if found:
                    continue
                if whole or (np.abs(chosen - np.round(chosen)) < 1e-6).all():
                    pattern = (chosen > 0.5) & ~self.cells.primary
                    return self.result(pattern, float(self.cost[pattern].sum()), bound)
                break
        return self.result(best, best_cost, bound)

    def object_to(self, chosen: Floats, master: Master) -> int:
        """Let every sensitive cell's attacker object; give how many did."""
        found = 0
        self.attack.set(chosen)
        for goal in self.attack.goals:
            if time.monotonic() > self.end:
                break
            self.ctx.progress(self.cuts, self.cuts + 1, "optimal: conditions of attackers")
            cut = self.attack.objection(goal)
            if cut is not None:
                master.add(*cut)
                found += 1
        self.cuts += found
        return found

    def result(self, pattern: Bools, cost: float, bound: float) -> Optimum:
        gap = max(cost - bound, 0.0) / cost if cost > 0 else 0.0
        return Optimum(pattern, cost, 0.0 if gap < 1e-9 else gap, self.cuts)
