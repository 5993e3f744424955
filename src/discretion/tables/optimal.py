"""Complementary suppression at the least cost possible, by cutting planes: for small tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discretion.context import Context
from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import LARGEST, GrowingProgram, LinearProgram
from discretion.tables.attacker import Prior
from discretion.tables.audit import EXACT, whole_numbers
from discretion.tables.audit_insiders import Group, Knowledge
from discretion.tables.levels import audited, costs, empty, failing_pairs, levels, protect_respondents

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

TOLERANCE = 1e-7
"""Share of what a sensitive cell needs by which a program may miss it."""
VIOLATED = 1e-5
"""By how much a pattern must miss a condition, whose right side is 1, for it to be raised."""
_ROOM = 1e3
"""How much more than exactness asks a cell without required level gets, so that the audit cannot doubt it."""
_STALL = 2
"""Common programs in a row that decide little before attackers are asked one by one."""

Cut = tuple[Ints, Floats]
"""Σ weights · chosen ≥ 1: (cells, weights)."""


@dataclass(frozen=True)
class Goal:
    """How far a sensitive cell must be able to deviate: above (+1), below (−1), or in sum of both (0)."""

    cell: int
    side: int
    least: float

    @property
    def sides(self) -> tuple[int, ...]:
        """The directions to look in."""
        return (1, -1) if self.side == 0 else (self.side,)


class Attack:
    """Deviations of the inner cells and of the sums of them that the table shows.

    A cell j chosen to the extent s_j deviates by −s_j·low_j to s_j·high_j. Prices of the sums give weights with
    reach ≤ Σ weights · s for every pattern; sensitive cells are always chosen, so their weights are taken off what
    is needed, and no cell needs a weight above the rest of it. Conditions that are strong in this sense are looked for
    with deviations of all cells cut at what is needed; a whole pattern is accepted only by the program that is cut at a
    million times as much, of which the other is a part.
    """

    def __init__(self, cells: Cells) -> None:
        prior = Prior.of(cells)
        negative, self._least = prior.negative, prior.least(cells)
        reach = 2.0 * float(np.abs(cells.inner_value).sum()) + float(cells.upper_required.max(initial=0.0)) + 1.0
        self.high = np.full(len(cells), reach)
        self.low = np.full(len(cells), reach) if negative else prior.room(cells)
        self.primary = cells.primary
        self.empty: Bools = empty(cells) & ~cells.primary
        own = cells.inner_cell
        self._outer = np.setdiff1d(np.arange(len(cells)), own)
        self._cell = np.r_[own, self._outer]
        """the cell of each unknown, −1 for inner cells that linked tables do not show"""
        self._constant = np.where(own >= 0, 0.0, reach if negative else np.abs(cells.inner_value))
        self._place = np.empty(len(cells), np.int64)
        self._place[self._cell[self._cell >= 0]] = np.flatnonzero(self._cell >= 0)
        shown = self._cell >= 0
        self._most_below = np.where(shown, self.low[self._cell], np.r_[self._constant, np.zeros(len(self._outer))])
        """(unknowns,) how far below its value each may lie when it is chosen; who knows more knows less room"""
        self._most_above = np.full(len(self._cell), reach)
        self._cells, self._amounts, self._floors = cells, cells.inner_value, not negative
        self._program = self._program_of(cells)
        self._numbers = np.arange(len(self._cell))
        self.goals = _goals(cells, prior)

    def _program_of(self, cells: Cells) -> LinearProgram:
        from scipy.sparse import eye_array, hstack

        sums = cells.x.to_scipy().T.tocsr()[self._outer]
        rows = hstack([sums, -eye_array(len(self._outer))]).tocsr()
        nothing = tuple(np.zeros(size) for size in rows.shape)
        return LinearProgram(rows, (nothing[1],) * 2, (nothing[0],) * 2, nothing[1], primal=True)

    def objections(self, chosen: Floats, whole: bool, ctx: Context, weary: Any) -> list[Cut]:
        """Give conditions that a pattern misses; none for a whole pattern means that it protects every cell."""
        cuts: list[Cut] = []
        for unit, goals in _by_size(self.goals):
            self._look(chosen, unit, cut=True)
            left = self._unmet(goals, unit, ctx)
            found = []
            for number, goal in enumerate(left):
                if weary():
                    return cuts
                ctx.progress(number, len(left), "optimal: attackers")
                reach, cut = self._objection(goal, chosen, unit)
                if cut is not None:
                    cuts.append(cut)
                elif reach < goal.least * (1 - TOLERANCE):
                    found.append(goal)
            if whole and found:
                self._look(chosen, unit, cut=False)
                cuts += [cut for goal in found if (cut := self._objection(goal, chosen, unit)[1]) is not None]
        return cuts

    def respondents_object(self, failing: list[tuple[int, Group]], chosen: Floats, coalition: int) -> Iterator[Cut]:
        """Give the conditions that respondents raise who come too close to cells of a whole pattern.

        They are attackers whose own inner cells stand still, and others fall no lower than their own part.
        """
        knowledge = Knowledge.of(self._cells, coalition)
        below, above = self._most_below.copy(), self._most_above.copy()
        for cell, group in failing:
            known, floor = knowledge.of_group(group)
            n, rests = len(known), np.abs(self._amounts - floor) if self._floors else below[: len(known)]
            self._most_below[:n] = np.where(known, 0.0, np.minimum(below[:n], rests))
            self._most_above[:n] = np.where(known, 0.0, above[:n])
            inside = self._cells.x.transposed.row(cell)
            rest = abs(float(self._cells.value[cell])) - float(np.maximum(floor, self._least)[inside].sum())
            rest = min(rest, float(self.low[cell]))
            for goal in self.goals:
                if goal.cell != cell:
                    continue
                least = min(goal.least, max(rest, 0.0)) if goal.side < 0 and self._floors else goal.least
                if least <= 0:
                    continue
                for cut in (True, False):
                    unit = 2.0 ** float(np.ceil(np.log2(least)))
                    self._look(chosen, unit, cut=cut)
                    found = self._objection(Goal(cell, goal.side, least), chosen, unit)[1]
                    if found is not None:
                        yield found
                        break
        self._most_below, self._most_above = below, above

    def _look(self, chosen: Floats, unit: float, *, cut: bool) -> None:
        """Set the bounds of a pattern, in units."""
        most = 1.0 if cut else LARGEST
        shown = self._cell >= 0
        extent = np.where(shown, chosen[self._cell], 1.0)
        below = np.minimum(self._most_below / unit, most) * extent
        above = np.minimum(self._most_above / unit, most) * extent
        self._program.bound(self._numbers, -below, above)

    def _unmet(self, goals: list[Goal], unit: float, ctx: Context) -> list[Goal]:
        """Push all goals at once in random directions, and give those that were not seen to be met."""
        at = self._place[[goal.cell for goal in goals]]
        side = np.array([goal.side for goal in goals])
        least = np.array([goal.least for goal in goals]) / unit * (1 - TOLERANCE)
        above, below = np.zeros(len(goals)), np.zeros(len(goals))
        stalled, open_ = 0, np.ones(len(goals), np.bool_)
        while open_.any() and stalled < _STALL:
            sign = np.where(side == 0, ctx.rng.choice([-1.0, 1.0], len(goals)), side)
            push = open_ * sign * ctx.rng.random(len(goals))
            objective = np.bincount(at, push, len(self._cell)).astype(np.float64)
            z = self._farthest(objective)[0][at]
            above, below = np.maximum(above, z), np.maximum(below, -z)
            reached = np.select([side > 0, side < 0], [above, below], above + below)
            before = int(open_.sum())
            open_ = reached < least
            stalled = stalled + 1 if before - int(open_.sum()) <= 0.02 * before else 0
        return [goal for goal, left in zip(goals, open_.tolist(), strict=True) if left]

    def _objection(self, goal: Goal, chosen: Floats, unit: float) -> tuple[float, Cut | None]:
        """Give how far a cell can deviate, and the condition that the pattern misses, if there is one."""
        reach, least = 0.0, goal.least
        weights = np.zeros(len(self.high))
        place = self._place[goal.cell]
        for side in goal.sides:
            objective = np.zeros(len(self._cell))
            objective[place] = side
            z, price = self._farthest(objective)
            reach += side * z[place] * unit
            more, constant = self._weights(price)
            weights += more
            least -= constant
        return reach, self.strengthened(least, weights, chosen)

    def strengthened(self, least: float, weights: Floats, chosen: Floats) -> Cut | None:
        """Give Σ weights · s ≥ least as a condition on the other cells, None where the pattern meets it."""
        least -= float(weights[self.primary].sum())
        if least <= TOLERANCE * max(float(weights.max(initial=0.0)), 1e-300):
            return None
        some = np.flatnonzero((weights > 1e-9 * least) & ~self.primary)
        capped = np.minimum(weights[some] / least, 1.0)
        return (some, capped) if capped @ chosen[some] < 1 - VIOLATED else None

    def _weights(self, price: Floats) -> tuple[Floats, float]:
        """Turn reduced costs into weights of the cells, and a constant for inner cells that are not shown."""
        shown = self._cell >= 0
        weights = np.zeros(len(self.high))
        worth = np.where(price > 0, price * self._most_below, -price * self._most_above)
        weights[self._cell[shown]] = worth[shown]
        return weights, float(worth[~shown].sum())

    def _farthest(self, objective: Floats) -> tuple[Floats, Floats]:
        """Give the deviations (in units) that make an objective largest, and the reduced costs."""
        found, _ = self._program.farthest(objective)
        price = self._program.reduced_costs
        return found, np.where(np.abs(price) < 1e-9, 0.0, price)


def _by_size(goals: list[Goal]) -> Iterator[tuple[float, list[Goal]]]:
    """Give goals of similar size, with the power of 2 above them."""
    classes: dict[int, list[Goal]] = {}
    for goal in goals:
        classes.setdefault(int(np.ceil(np.log2(goal.least))), []).append(goal)
    for power in sorted(classes):
        yield 2.0**power, classes[power]


def _goals(cells: Cells, prior: Prior) -> list[Goal]:
    """List what sensitive cells need; a lower level beyond what may be believed is cut there."""
    goals = []
    whole, room = whole_numbers(cells), prior.room(cells)
    for cell in np.flatnonzero(cells.primary).tolist():
        value = abs(float(cells.value[cell]))
        above, below = float(cells.upper_required[cell]), min(float(cells.lower_required[cell]), float(room[cell]))
        if max(above, below) <= 0:
            goals.append(Goal(cell, 0, 1.0 if whole else _ROOM * EXACT * max(value, 1.0)))
        goals += [Goal(cell, side, need) for side, need in ((1, above), (-1, below)) if need > 0]
    return goals


# The program that chooses a pattern: cheapest, under the conditions attackers have raised so far.


class Master:
    """A yes or no for each cell (1: suppressed); sensitive cells are 1, unusable ones 0."""

    def __init__(self, cost: Floats, primary: Bools, usable: Bools) -> None:
        self._program = GrowingProgram(primary.astype(np.float64), usable.astype(np.float64), cost, exact=True)

    def whole(self) -> None:
        """Ask for whole numbers from now on."""
        self._program.make_whole(np.arange(self._program.size))

    def add(self, least: float, cells: Ints, weights: Floats) -> None:
        """Require Σ weights · chosen ≥ least."""
        self._program.add(cells, weights, least)

    def exclude(self, room: float) -> int:
        """Exclude cells that cost more than `room` beyond the program just solved (no whole numbers); count them."""
        low, high = self._program.low, self._program.high
        out = (self._program.reduced_costs > room) & (low == 0) & (high == 1)
        self._program.limit(np.where(out, 0.0, high))
        return int(out.sum())

    def start(self, chosen: Bools) -> None:
        """Tell the solver a pattern that is known to be possible."""
        self._program.start(chosen.astype(np.float64))

    def solve(self, seconds: float, bound: float) -> tuple[Floats | None, float]:
        """Give the cheapest choice and a lower bound of the cost; None when time is over, or no choice is left."""
        found = self._program.solve(seconds)
        if not found.found:
            return None, max(bound, found.bound)
        value = np.clip(found.x, 0.0, 1.0)
        value[value < 1e-9] = 0.0
        return value, max(bound, found.objective)


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
            if self.over():
                break
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
            return otherwise if self.over() else work(replace(self.ctx, progress=progress))
        except _TimeIsOver:
            return otherwise

    def everything(self) -> Bools:
        """Give the pattern of all cells that may be suppressed, if it protects: no other can where it does not."""
        pattern: Bools = self.usable & ~self.cells.primary
        if (
            not self.cells.with_status(secondary=pattern)
            .audit(attacker="outsider", rules=(), exact=False, seconds=1.0, ctx=self.ctx)
            .holds
        ):
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
            if chosen is None or self.bound >= self.target or self.over():
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
