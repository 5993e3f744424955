"""Suppress what single respondents would need to compute the cells of others: the repair of a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools, Ints
from discretion.tables.attacker_system import Prior, spread
from discretion.tables.audit import EXACT, Clock
from discretion.tables.audit_insiders import Group, Knowledge, Proof, Secrets, without_room
from discretion.tables.levels import TAKEN, InnerModel, Rooms, costs, empty, frame_of

if TYPE_CHECKING:
    from discretion.tables.audit import Audit
    from discretion.tables.cells import Cells

MARGIN = 1e-6
"""Share of room asked for beyond what is needed, so that rounding does not spoil the proof."""
AROUND = 4000
"""Columns around a cell in which room is looked for first; tables with fewer are one program."""
TURNS = 50
"""Turns after which a repair is given up; each adds cells, so that few are needed."""
_FAILING = ("under-protected", "disclosed")


def knows_respondents(cells: Cells) -> bool:
    """Tell whether it is known who contributes to inner cells, or how many."""
    return cells.source is not None or (cells.response.counted and bool((cells.inner_cell >= 0).all()))


def protect_respondents(
    cells: Cells,
    secondary: Bools,
    *,
    cost: Any = "value",
    coalition: int = 1,
    settled: int = 0,
    ctx: Context | None = None,
) -> tuple[Bools, list[Proof]]:
    """Suppress more cells until no respondent comes too close to another's cell; give them, and tables that show it.

    Every respondent (with `coalition`: every group of so many) is an attacker who knows the inner cells that are all
    its own and that the others are not smaller than its own part. For each sensitive cell that fails against one, the
    cheapest table is found in which the cell deviates as far as it must while what that respondent knows stands still;
    what differs in it and is published becomes suppressed. Then those cells are asked for again. Cells that cannot be
    given room (they would need cells that must be published, or empty ones) stay as they are, and the audit says so.
    The first `settled` cells were looked at before, with fewer cells suppressed, and are not again.

    The pattern is good, not proven least. All cells are looked at once, those that failed again in each turn, with one
    linear program more for each of them.
    """
    repair = _Repair(cells, secondary, cost, coalition, ctx or Context(seed=0, step="respondents"))
    return repair.run(settled)


def audited(cells: Cells, hidden: Bools, coalition: int, ctx: Context, proofs: Sequence[Proof] = ()) -> Audit:
    """Audit a pattern against respondents, with no sums."""
    done = cells.with_status(secondary=hidden & ~cells.primary)
    options = {"attacker": "contributors", "coalition": coalition, "rules": (), "exact": False, "proofs": proofs}
    return done.audit(**options, ctx=ctx.within("audit"))


def failing_pairs(cells: Cells, hidden: Bools, coalition: int, ctx: Context) -> list[tuple[int, Group]]:
    """Give the sensitive cells that fail, each with one of those it fails against; those that need most first."""
    found, knowledge = audited(cells, hidden, coalition, ctx), Knowledge.of(cells, coalition)
    numbers: dict[Any, list[int]] = {}
    for who in np.unique(knowledge.who).tolist():
        numbers.setdefault(knowledge.label(who), []).append(who)

    def group(labels: tuple[Any, ...] | None) -> Group:
        """Give the numbers of respondents by their labels; several of one label are several people."""
        taken: list[int] = []
        for label in labels or ():
            taken.append(next(who for who in numbers[label] if who not in taken))
        return frozenset(taken)

    failing = zip(found.cell.tolist(), found.worst, found.status.tolist(), strict=True)
    pairs = [(cell, group(worst)) for cell, worst, state in failing if state in _FAILING]
    most = np.maximum(found.cells.upper_required, found.cells.lower_required)
    return sorted(pairs, key=lambda pair: -most[pair[0]])


class _Repair:
    """The pattern, the program that finds room, and what respondents know of its unknowns."""

    def __init__(self, cells: Cells, secondary: Bools, cost: Any, coalition: int, ctx: Context) -> None:
        self.cells, self.hidden = cells, cells.primary | secondary
        self.coalition, self.ctx = coalition, ctx
        self.cost = costs(cells, cost)
        self.frame = frame_of(cells, Prior.of(cells))
        self.knowledge = Knowledge.of(cells, coalition)
        assert self.frame.bounds is not None  # the prior is plain
        every = spread(cells, np.ones(len(cells.inner_codes), np.bool_))
        self.secrets = Secrets(cells, self.knowledge, every, -self.frame.bounds[0], coalition)
        usable = (~cells.status.must_publish & ~empty(cells)) | self.hidden
        price = np.where(self.hidden, TAKEN, 1.0) * self.cost
        self._taken = self.frame.of_columns(TAKEN * self.cost, usable)[0]
        self.model: InnerModel | None = None
        self.rooms: Rooms | None = None
        if (cells.inner_cell >= 0).all() and cells.wide is None and self.frame.shown > AROUND:
            self.rooms = Rooms(self.frame, price, usable, AROUND)
        else:
            self.model = InnerModel(
                self.frame, *self.frame.of_columns(price, usable), np.zeros(self.frame.shown, np.bool_)
            )

    def run(self, settled: int) -> tuple[Bools, list[Proof]]:
        """Look for cells without room, and make some, in turn."""
        wanted, proofs = self.cells.primary & (np.arange(len(self.cells)) >= settled), list[Proof]()
        most = np.maximum(self.cells.upper_required, self.cells.lower_required)
        tried: set[tuple[int, Group]] = set()
        for turn in range(TURNS):
            if not wanted.any():
                break
            done = self.cells.with_status(secondary=self.hidden & ~self.cells.primary)
            clock = Clock(None, self.ctx.within("audit"), "room against respondents")
            failing, found = without_room(done, self.coalition, wanted, clock, proofs)
            proofs += found
            wanted = np.zeros(len(self.cells), np.bool_)
            failing = sorted((pair for pair in failing if pair not in tried), key=lambda pair: -most[pair[0]])
            tried.update(failing)
            for number, (cell, group) in enumerate(failing):
                self.ctx.progress(number, len(failing), f"room against respondents, turn {turn + 1}")
                wanted[cell] |= self._make_room(cell, group)
        return self.hidden & ~self.cells.primary, proofs

    def _make_room(self, cell: int, group: Group) -> bool:
        """Suppress what a cell needs against a group (none: an outsider); tell whether there was a way."""
        known, partly, low = self.secrets.of_group(group)
        if self.model is not None:
            self.model.hold(known, partly, low)
        if self.rooms is not None:
            self.rooms.hold(self.cells.inner_cell[known], self.cells.inner_cell[partly], low)
        ways = [self._suppressed(cell, sides) for sides in self._wanted(cell, group)]
        return all(ways)

    def _wanted(self, cell: int, group: Group) -> Iterator[list[tuple[float, bool]]]:
        """Give what a cell needs: each an amount and a direction, or two of which one is enough."""
        cells = self.cells
        value, more = float(cells.value[cell]), 1 + MARGIN
        above, below = float(cells.upper_required[cell]), float(cells.lower_required[cell])
        rest = max(value - self.secrets.amount(group, cell), 0.0) if group else max(value, 0.0)
        below = min(below * more, rest) if self.frame.down[self.frame.column[cell]] < np.inf else below * more
        yield from ([(need, up)] for need, up in ((above * more, True), (below, False)) if need > 0)
        if above <= 0 and below <= 0:
            whole = bool((cells.inner_value == np.round(cells.inner_value)).all())
            least = 1.0 if whole else 1e3 * EXACT * max(abs(value), 1.0)
            yield [(least, True), (least, False)]

    def _suppressed(self, cell: int, ways: list[tuple[float, bool]]) -> bool:
        """Suppress what the cheapest table of the first way that exists takes."""
        for amount, above in ways:
            new = self._differing(cell, amount, above)
            if new is None:
                continue
            new = new[~self.hidden[new]]
            self.hidden[new] = True
            columns = np.unique(self.frame.column[new])
            if self.model is not None:
                self.model.price(columns, self._taken[columns])
            if self.rooms is not None:
                self.rooms.price(new, TAKEN * self.cost[new])
            return True
        return False

    def _differing(self, cell: int, amount: float, above: bool) -> Ints | None:
        """Give the cells that differ in the cheapest table where one does by an amount; in large tables, around it."""
        if self.rooms is not None:
            near = self.rooms.room(cell, amount, above=above)
            return None if near is None else near[0]
        assert self.model is not None
        found = self.model.room(int(self.frame.column[cell]), amount, above=above)
        return None if found is None else self.frame.cells_of(found[0])[0]
