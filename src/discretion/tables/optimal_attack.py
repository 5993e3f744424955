"""Attackers of a pattern, whole or fractional, who say what a better pattern must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.errors import DiscretionError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker_system import Prior
from discretion.tables.audit import whole_numbers
from discretion.tables.audit_certify import EXACT
from discretion.tables.audit_contributors import Group, Knowledge
from discretion.tables.levels import empty
from discretion.tables.linear_program import LARGEST, quiet_solver

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
        import highspy

        self._statuses = highspy.HighsModelStatus
        negative = Prior.of(cells).negative
        reach = 2.0 * float(np.abs(cells.inner_value).sum()) + float(cells.upper_required.max(initial=0.0)) + 1.0
        self.high = np.full(len(cells), reach)
        self.low = np.full(len(cells), reach) if negative else np.abs(cells.value)
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
        self._solver: Any = quiet_solver(primal=True)
        self._solver.passModel(self._model(cells, highspy))
        self._numbers = np.arange(len(self._cell), dtype=np.int32)
        self.goals = _goals(cells, negative)

    def _model(self, cells: Cells, highspy: Any) -> Any:
        from scipy.sparse import eye_array, hstack

        sums = cells.x.to_scipy().T.tocsr()[self._outer]
        rows = hstack([sums, -eye_array(len(self._outer))]).tocsr()
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = rows.shape
        lp.col_cost_ = lp.col_lower_ = lp.col_upper_ = np.zeros(rows.shape[1])
        lp.row_lower_ = lp.row_upper_ = np.zeros(rows.shape[0])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = rows.indptr.astype(np.int32)
        lp.a_matrix_.index_ = rows.indices.astype(np.int32)
        lp.a_matrix_.value_ = rows.data
        return lp

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
            rest = abs(float(self._cells.value[cell])) - float(floor[inside].sum())
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
        self._solver.changeColsBounds(len(below), self._numbers, -below, above)

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
        self._solver.changeColsCost(len(self._numbers), self._numbers, -objective)
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
        price = np.asarray(solution.col_dual, np.float64)
        return np.asarray(solution.col_value, np.float64), np.where(np.abs(price) < 1e-9, 0.0, price)


def _by_size(goals: list[Goal]) -> Iterator[tuple[float, list[Goal]]]:
    """Give goals of similar size, with the power of 2 above them."""
    classes: dict[int, list[Goal]] = {}
    for goal in goals:
        classes.setdefault(int(np.ceil(np.log2(goal.least))), []).append(goal)
    for power in sorted(classes):
        yield 2.0**power, classes[power]


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
