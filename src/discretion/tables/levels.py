"""Suppress until every sensitive cell has the interval it needs: a heuristic by linear programming."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.context import Context
from discretion.errors import DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior
from discretion.tables.audit import targets_of
from discretion.tables.audit_certify import SLACK, Clock, Targets, certify, push_many
from discretion.tables.levels_cleanup import Cleaner
from discretion.tables.levels_local import Rooms
from discretion.tables.levels_model import Frame, frame_of

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

Cost = Literal["value", "frequency", "unit"]
"""What suppressing a cell costs: its absolute value, its respondents, or 1."""

TAKEN = 1e-3
"""What using a cell that is suppressed already costs, as a share: with nothing to pay programs take far longer."""
PREFERRED = 1e-3
"""What a cell marked `preferred` costs, as a share of its cost."""
BATCH = 0.2
"""Share of the cells still open that get room before all are looked at again."""
SMALLEST = 10
"""But so many at least."""
WORTH = 0.02
"""And this share of the unknowns: looking at all again takes as long as room for so many."""
CLEAN_SHARE = 0.03
"""Programs spent on taking back suppressions where nothing is said, per sensitive cell."""
CLEAN_WORK = 10_000
"""But so many, divided by the sensitive cells: in small tables programs take no time."""
MARGINS = (0.0, 1e-8, 1e-6, 1e-4)
"""Shares of room asked for beyond what is needed, in turn, where rounding spoils a proof."""
_NAMED = 10


def levels(
    cells: Cells,
    *,
    start: Any = None,
    cost: Cost | Any = "value",
    prior: Prior | None = None,
    clean: int | None = None,
    keep_start: bool = True,
    ctx: Context | None = None,
) -> Bools:
    """Choose cells to suppress so that an attacker's bounds of every sensitive cell are as far away as required.

    Starts from the sensitive cells and `start` (complementary cells chosen before; none given: none). While a
    sensitive cell lacks room, a linear program finds the cheapest table that differs from the true one by what the cell
    needs and agrees with it in everything published; cells that differ in it are suppressed as well. In large tables
    the program takes only cells around it, and more where these leave no room. Then cells are published again, the
    most costly first, where all sensitive ones stay protected, for as long as `clean` linear programs take (0: not at
    all; none given: many in small tables, few per sensitive cell in large ones; more publish more). Cells in `start`
    stay unless `keep_start` is false: they may protect against respondents, which is not looked at here. Gives the
    mask of complementary cells.

    Every sensitive cell ends with its required level, proved by the same linear programs as the audit. The number and
    value of suppressed cells are good, not proven least. Does not look at respondents as attackers, nor at sums of
    cells: see `audit`. Empty cells are never suppressed for others, cells marked must-publish neither; where they make
    protection impossible `Infeasible` names them. Cost is that of one linear program per sensitive cell that lacks
    room, each going on from the last.

    References
    ----------
    Kelly, Golden & Assad (1992), Networks 22; Castro (2012), European J. Oper. Res. 216; catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.levels import levels
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> cells = cells.with_status(secondary=levels(cells))
    >>> int(cells.secondary.sum()), cells.audit().holds
    (3, True)
    """
    search = _Levels(cells, start, cost, prior or Prior.of(cells), ctx or Context(seed=0, step="levels"))
    return search.run(clean, keep_start)


def costs(cells: Cells, cost: Cost | Any = "value") -> Floats:
    """Give what suppressing each cell costs: by value, by respondents, 1, or as given; the user's own come first."""
    if isinstance(cost, str):
        choices = {
            "value": np.abs(cells.value),
            "frequency": cells.count.astype(np.float64),
            "unit": np.ones(len(cells)),
        }
        if cost not in choices:
            raise PlanError("cost: expected 'value', 'frequency', 'unit', or one number per cell")
        chosen = cells.status.cost if cells.status.cost is not None else choices[cost]
    else:
        chosen = np.asarray(cost, np.float64)
        if chosen.shape != (len(cells),) or not (chosen >= 0).all():
            raise PlanError(f"cost: expected {len(cells)} numbers of at least 0, one per cell")
    smallest = chosen[chosen > 0].min(initial=np.inf)
    filled: Floats = np.maximum(chosen, smallest if np.isfinite(smallest) else 1.0)
    return np.where(cells.status.preferred, PREFERRED * filled, filled)


def empty(cells: Cells) -> Bools:
    """Tell which cells nobody is in; these are suppressed for others only where they are marked preferred.

    Without counts: those of 0.
    """
    nobody: Bools = cells.count == 0 if cells.response.counted else cells.value == 0
    return nobody & ~cells.status.preferred


class _Levels:
    """The state of the search."""

    def __init__(self, cells: Cells, start: Any, cost: Any, prior: Prior, ctx: Context) -> None:
        if np.isnan(cells.value).any():
            raise PlanError("the values of suppressed cells must be known to protect them")
        self.cells, self.prior, self.ctx = cells, prior, ctx
        self.hidden = cells.primary.copy()
        if start is not None:
            mask = np.asarray(start, np.bool_)
            if mask.shape != (len(cells),):
                raise PlanError(f"start: expected {len(cells)} entries, one per cell")
            if (mask & cells.status.must_publish).any():
                raise PlanError("start: cells that must be published are among those to suppress")
            self.hidden |= mask
        self.shown = np.flatnonzero(cells.primary)
        self.place = np.full(len(cells), -1, np.int64)
        self.place[self.shown] = np.arange(len(self.shown))
        self.downward = np.zeros(len(self.shown), np.bool_)
        """(sensitive cells,) those that must only not be found exactly and have no room above"""
        self.cost = costs(cells, cost)
        self.frame: Frame = frame_of(cells, prior)
        self.rooms = self.open_rooms()

    def run(self, clean: int | None, keep_start: bool) -> Bools:
        """Make room for all, then take back what is not needed."""
        if not len(self.shown):
            return self.hidden & ~self.cells.primary
        kept = self.hidden.copy() if keep_start else self.cells.primary
        if clean is None:
            clean = max(int(CLEAN_SHARE * len(self.shown)), CLEAN_WORK // len(self.shown))
        if clean:
            proved = self.pushed(kept)[1]
            self.make_all_room(MARGINS[0], deepcopy(proved) if keep_start else None)
            cleaner = Cleaner(self.cells, self.frame, self.hidden, kept, self.cost, TAKEN, self.ctx)
            self.hidden = cleaner.run(self.shown, self.goals(proved), proved, clean)
            self.rooms = self.open_rooms()
        self.protect()
        return self.hidden & ~self.cells.primary

    def open_rooms(self) -> Rooms:
        """Give the programs that make room, with what every cell costs now."""
        usable = (~self.cells.status.must_publish & ~empty(self.cells)) | self.hidden
        return Rooms(self.frame, np.where(self.hidden, TAKEN, 1.0) * self.cost, usable, free=self.hidden)

    def protect(self) -> None:
        """Suppress cells until the audit's own programs prove the room of all sensitive cells.

        Cells get room in turn; what a solver missed by rounding shows in the proof, and gets more room than it needs.
        """
        for margin in MARGINS:
            attacker, targets = self.make_all_room(margin)
            certify(attacker, targets, Clock(None, self.ctx.within("certify")))
            if targets.met.all():
                return
        raise DiscretionError("the solver's accuracy is not enough to prove that all sensitive cells are protected")

    def make_all_room(self, margin: float, seen: Targets | None = None) -> tuple[Attacker, Targets]:
        """Suppress cells until all have room as far as their own programs say; give the attacker that proves it.

        `seen` is what is proved already with the cells that are suppressed now.
        """
        total, changed = len(self.shown), False
        attacker, targets = self.pushed(self.hidden) if seen is None else (self.attack(self.hidden)[0], seen)
        while (lacking := ~targets.met).any():
            self.ctx.progress(total - int(lacking.sum()), total, "room for sensitive cells")
            changed = True
            least = max(SMALLEST, int(WORTH * attacker.system.size))
            self.make_room(targets, lacking, margin, least)
            if lacking.sum() > least:
                attacker, targets = self.pushed(self.hidden, targets)
        return self.attack(self.hidden) if changed else (attacker, targets)

    def attack(self, hidden: Bools) -> tuple[Attacker, Targets]:
        """Give the attacker on a table with gaps, and what must be out of its reach."""
        attacker = Attacker(self.cells, suppressed=hidden, prior=self.prior)
        return attacker, targets_of(self.cells, attacker, self.shown, self.cells.primary, self.prior)

    def pushed(self, hidden: Bools, seen: Targets | None = None) -> tuple[Attacker, Targets]:
        """Prove as many cells as random programs can, besides what was seen with fewer gaps."""
        attacker, targets = self.attack(hidden)
        if seen is not None:
            targets.below[:], targets.above[:] = seen.below, seen.above
        push_many(attacker, targets, Clock(None, self.ctx.within("certify")))
        return attacker, targets

    def make_room(self, targets: Targets, lacking: Bools, margin: float, least: int) -> None:
        """Suppress what the neediest of the open cells need; the tables found prove others on the way."""
        goals = self.goals(targets)
        order = np.flatnonzero(lacking)
        order = order[np.argsort(-np.maximum(*goals)[order], kind="stable")]
        left = max(int(np.ceil(BATCH * len(order))), least)
        reached = targets.below, targets.above
        for number, i in enumerate(order.tolist()):
            if left <= 0:
                return
            self.ctx.progress(number, len(order), "room for sensitive cells")
            for side in (1, 0):
                goal = goals[side][i]
                if reached[side][i] >= goal - SLACK * targets.scale[i]:
                    continue
                if side and targets.either[i] and self.blocked(int(self.shown[i]), float(goal)):
                    self.downward[i] = True
                    goals[0][i], goals[1][i] = goal, 0.0
                    continue
                used, z = self.room(int(self.shown[i]), float(goal), margin, bool(side))
                left -= 1
                at = self.place[used]
                np.maximum.at(targets.above, at[at >= 0], z[at >= 0])
                np.maximum.at(targets.below, at[at >= 0], -z[at >= 0])
                reached[side][i] = max(reached[side][i], goal)

    def goals(self, targets: Targets) -> tuple[Floats, Floats]:
        """Give how far below and above each cell must reach; one that must only not be exact gets room on one side."""
        loose = np.maximum(targets.room, LOOSE * targets.scale)
        return (
            np.where(targets.either, np.where(self.downward, loose, 0.0), targets.lower),
            np.where(targets.either, np.where(self.downward, 0.0, loose), targets.upper),
        )

    def blocked(self, cell: int, amount: float) -> bool:
        """Tell whether a cell has no room above, but has some below."""
        return self.rooms.room(cell, amount, above=True) is None and (
            self.rooms.room(cell, amount, above=False) is not None
        )

    def room(self, cell: int, amount: float, margin: float, above: bool) -> tuple[Ints, Floats]:
        """Make room for one side of one cell, if possible a little more than it needs, and suppress what it takes."""
        found = self.rooms.room(cell, amount * (1 + margin), above=above) if margin else None
        found = found or self.rooms.room(cell, amount, above=above)
        if found is None:
            raise Infeasible(self.obstacle(cell, amount, above))
        new = found[0][~self.hidden[found[0]]]
        if len(new):
            self.hidden[new] = True
            self.rooms.price(new, TAKEN * self.cost[new])
        return found

    def obstacle(self, cell: int, amount: float, above: bool) -> str:
        """Say which cells that must be published stand in the way of a cell's protection."""
        cells = self.cells
        blocked = cells.status.must_publish & ~self.hidden
        free = np.where(self.hidden, 0.0, np.where(blocked, self.cost.sum() + 1.0, self.cost))
        found = Rooms(self.frame, free, np.ones(len(cells), np.bool_)).room(cell, amount, above=above)
        where = ", ".join(f"{name}={code}" for name, code in cells.label(cell).items())
        if found is None:
            return f"the sensitive cell ({where}) cannot get the protection it needs whatever is suppressed"
        causes = found[0][blocked[found[0]]]
        named = list(_labels(cells, causes[:_NAMED]))
        more = f" and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
        if not named:
            return (
                f"the sensitive cell ({where}) can be protected only by suppressing empty cells, as all beside it "
                "are 0; mark cells beside it 'preferred' to let them go, or give `count` if somebody is in them"
            )
        return (
            f"the sensitive cell ({where}) cannot be protected while these cells must be published: "
            f"{'; '.join(named)}{more}; let one of them be suppressed"
        )


LOOSE = 0.01
"""Room made for a cell that must only not be found exactly, as a share of its value."""


def _labels(cells: Cells, chosen: Ints) -> Iterator[str]:
    for cell in chosen.tolist():
        yield "(" + ", ".join(f"{name}={code}" for name, code in cells.label(cell).items()) + ")"
