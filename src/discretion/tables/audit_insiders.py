"""Every respondent as an attacker: protection is proved for many respondents and many cells by one linear program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior
from discretion.tables.audit import bounds_of, whole_numbers
from discretion.tables.audit_certify import SLACK, Clock, Targets, certify, push_many
from discretion.tables.audit_contributors import Group, Knowledge
from discretion.tables.audit_report import Audit, Bounds

CHUNK = 1024
"""Attackers looked at together: memory is suppressed cells × this."""
WORTH = 0.2
"""Share of the open pairs of cell and attacker that a common program must close for the next to be as large."""

_RANKS = {"complementary": -1, "protected": 0, "undecided": 1, "under-protected": 2, "disclosed": 3}


@dataclass(frozen=True, eq=False)
class Insider:
    """A respondent, or several together, and what follows from what they contributed."""

    group: Group
    fixed: Ints
    """unknowns that are all theirs"""
    partly: Ints
    """unknowns they have a part in"""
    low: Floats
    """smallest deviation of those: what is not theirs"""
    own: Ints
    """places (of the suppressed cells) in which nobody else has a part"""
    shared: Ints
    """places of suppressed cells they have a part in"""
    amount: Floats
    """how much"""


def every_contributor(found: Audit, coalition: int, wanted: Bools, prior: Prior, clock: Clock) -> Audit:
    """Audit against each respondent (or coalition) that knows a suppressed inner cell; keep the worst for each cell.

    A table in which nothing deviates that any of several attackers knows is possible for each of them. So random halves
    of the attackers are first held against all cells at once, then smaller shares; what is left is looked at one by
    one. A cell that fails once is afterwards only asked whether somebody finds it exactly.
    """
    cells = found.cells
    knowledge = Knowledge.of(cells)
    panel = _Panel(found, knowledge, wanted, prior, clock)
    sums = (abs(panel.whole.A) @ panel.whole.spread.T).tocsr()
    rows = (sums.indices[sums.indptr[i] : sums.indptr[i + 1]] for i in range(sums.shape[0]))
    own = cells.inner_cell
    groups = knowledge.groups((own < 0) | cells.suppressed[own], coalition, rows)
    tried = panel.run(groups)
    who = f"an outsider and {tried:,} respondents" + (f" in coalitions of up to {coalition}" if coalition > 1 else "")
    return found.with_bounds(
        panel.bounds, attacker=who, worst=tuple(panel.worst), programs=found.programs + panel.attacker.solved
    )


class _Panel:
    """The suppressed cells, what they need, and the worst that was found about each."""

    def __init__(self, found: Audit, knowledge: Knowledge, wanted: Bools, prior: Prior, clock: Clock) -> None:
        from scipy.sparse import csr_array

        cells, shown = found.cells, found.cell
        self.cells, self.knowledge, self.prior, self.clock = cells, knowledge, prior, clock
        self.attacker = Attacker(cells, prior=prior)
        self.whole = self.attacker.system
        self.rows = self.whole.members[shown]
        self.value = self.whole.center[shown]
        self.bounds: Bounds = replace(found.bounds, **{k: v.copy() for k, v in vars(found.bounds).items()})
        self.worst: list[Any] = [None] * len(shown)
        self._place = np.full(len(cells), -1, np.int64)
        self._place[shown] = np.arange(len(shown))
        value = np.nan_to_num(cells.value[shown])
        lower = cells.lower_required[shown]
        self.lower = lower.copy() if prior.negative else np.minimum(lower, np.maximum(value, 0.0))
        self.upper = cells.upper_required[shown].copy()
        self._asked = wanted[shown] & (found.status != "disclosed")
        self._relax(np.flatnonzero((found.status == "under-protected") | np.isnan(cells.value[shown])))
        self._unknown = np.full(self.whole.spread.shape[0], -1, np.int64)
        self._unknown[np.diff(self.whole.spread.indptr) > 0] = self.whole.spread.indices
        self._inside = np.bincount(self.whole.spread.indices, minlength=self.whole.size)
        parts = csr_array(
            (np.ones(self.whole.size), (np.arange(self.whole.size), self.whole.block)),
            shape=(self.whole.size, int(self.whole.block.max(initial=-1)) + 1),
        )
        self._by_block = (abs(self.rows) @ parts).tocsc()

    def run(self, groups: Iterator[Group]) -> int:
        """Look at all attackers; give how many were."""
        tried = 0
        while chunk := list(islice(groups, CHUNK)):
            if self.clock.over:
                self._doubt(np.arange(len(self.value)))
                break
            insiders = [self._insider(group) for group in chunk]
            open_ = np.zeros((len(self.value), len(insiders)), np.bool_)
            for column, insider in enumerate(insiders):
                open_[self._near(insider), column] = True
                open_[insider.own, column] = False
            open_ &= self._asked[:, None]
            self._together(insiders, open_)
            self._alone(insiders, open_)
            tried += len(chunk) - int(open_.any(axis=0).sum())
            self._doubt(np.flatnonzero(open_.any(axis=1)))
        return tried

    def _insider(self, group: Group) -> Insider:
        """Work out what a group knows of the unknowns, and of the suppressed cells."""
        inner, amount, alone = self.knowledge.entries(group)
        unknown = self._unknown[inner]
        free = unknown >= 0
        names, at = np.unique(unknown[free], return_inverse=True)
        fixed = np.bincount(at, alone[free], len(names)) == self._inside[names]
        part = np.bincount(at, amount[free], len(names))
        partly = ~fixed & (part > 0) & (not self.prior.negative)
        total = self.whole.spread[:, names[partly]].T @ np.nan_to_num(self.cells.inner_value)
        low = np.maximum(self.whole.low[names[partly]], part[partly] - total)
        x = self.cells.x
        inside = [x.row(i) for i in inner.tolist()]
        cell, at = np.unique(np.concatenate(inside), return_inverse=True)
        length = [len(row) for row in inside]
        theirs = np.bincount(at, np.repeat(alone, length), len(cell))
        own = cell[theirs == np.diff(x.transposed.indptr)[cell]]
        place = self._place[cell]
        return Insider(
            group,
            names[fixed],
            names[partly],
            low,
            self._place[own][self._place[own] >= 0],
            place[place >= 0],
            np.bincount(at, np.repeat(amount, length), len(cell))[place >= 0].astype(np.float64),
        )

    def _near(self, insider: Insider) -> Ints:
        """Give the places that what an attacker knows can matter for."""
        blocks = np.unique(self.whole.block[np.r_[insider.fixed, insider.partly]])
        near: Ints = np.unique(self._by_block[:, blocks].indices).astype(np.int64)
        return near

    def _together(self, insiders: list[Insider], open_: Bools) -> None:
        """Close pairs of cell and attacker with programs that hold for many attackers."""
        rng, share = self.clock.ctx.rng, 0.5
        while not self.clock.over:
            active = np.flatnonzero(open_.any(axis=0))
            before = int(open_.sum())
            if share * len(active) < 2:
                return
            drawn = rng.choice(active, max(int(share * len(active)), 2), replace=False)
            self._close(insiders, drawn, open_)
            if before - int(open_.sum()) < WORTH * share * before:
                share /= 2

    def _close(self, insiders: list[Insider], drawn: Ints, open_: Bools) -> None:
        asked = np.flatnonzero(open_[:, drawn].any(axis=1))
        targets = self._targets(asked, self.lower[asked])
        self._knowing([insiders[i] for i in drawn.tolist()], lambda: push_many(self.attacker, targets, self.clock, 1))
        met = targets.met
        open_[np.ix_(asked[met], drawn)] = False
        slack = SLACK * targets.scale
        above = (targets.above >= targets.upper - slack) & (
            np.maximum(targets.below, targets.above) >= targets.room - slack
        )
        for column in drawn.tolist():
            enough = targets.below >= self._rest(insiders[column], asked) - slack
            open_[asked[above & enough], column] = False

    def _alone(self, insiders: list[Insider], open_: Bools) -> None:
        """Decide for each attacker what is still open."""
        for column, insider in enumerate(insiders):
            asked = np.flatnonzero(open_[:, column])
            if self.clock.over:
                return
            if not len(asked):
                continue
            self.clock.tell(column, len(insiders))
            targets = self._targets(asked, self._rest(insider, asked))
            self._knowing([insider], lambda targets=targets: certify(self.attacker, targets, self.clock))
            yes = np.ones(len(asked), np.bool_)
            seen = bounds_of(targets, yes, targets.value, targets.lower, targets.upper)
            self._note(asked, seen, insider, open_)
            open_[asked[seen.status != "undecided"], column] = False

    def _note(self, asked: Ints, seen: Bounds, insider: Insider, open_: Bools) -> None:
        """Keep what is worse than before; cells that failed are only asked for exact disclosure from now on."""
        failed = np.isin(seen.status, ("under-protected", "disclosed"))
        worse = failed & (_rank(seen.status) > _rank(self.bounds.status[asked]))
        for name, values in vars(seen).items():
            getattr(self.bounds, name)[asked[worse]] = values[worse]
        for place in asked[worse].tolist():
            self.worst[place] = tuple(self.knowledge.label(who) for who in sorted(insider.group))
        self._relax(asked[worse])
        found = asked[worse & (seen.status == "disclosed")]
        self._asked[found] = False
        open_[found] = False

    def _relax(self, places: Ints) -> None:
        self.lower[places] = self.upper[places] = 0.0

    def _rest(self, insider: Insider, asked: Ints) -> Floats:
        """Give the lower levels asked for; nobody can be led to believe in less than the own contribution."""
        lower: Floats = self.lower.copy()
        others = np.maximum(np.nan_to_num(self.value[insider.shared]) - insider.amount, 0.0)
        lower[insider.shared] = np.minimum(lower[insider.shared], others)
        return lower[asked]

    def _targets(self, asked: Ints, lower: Floats) -> Targets:
        idle = np.zeros(len(asked), np.bool_)
        whole = whole_numbers(self.cells)
        return Targets(self.rows[asked], self.value[asked], lower, self.upper[asked], idle=idle, whole=whole)

    def _knowing(self, insiders: list[Insider], work: Any) -> None:
        """Do some work while nothing deviates that any of the attackers knows."""
        low, high = self.whole.low.copy(), self.whole.high.copy()
        for insider in insiders:
            np.maximum.at(low, insider.partly, insider.low)
        fixed = np.unique(np.concatenate([insider.fixed for insider in insiders]))
        low[fixed] = high[fixed] = 0.0
        touched = np.unique(np.concatenate([fixed, *(insider.partly for insider in insiders)]))
        self.attacker.narrow(touched, low[touched], high[touched])
        try:
            work()
        finally:
            self.attacker.narrow(touched, self.whole.low[touched], self.whole.high[touched])

    def _doubt(self, places: Ints) -> None:
        """Nothing is called protected while attackers are left to try."""
        self.bounds.status[places[self.bounds.status[places] == "protected"]] = "undecided"


def _rank(status: Any) -> Ints:
    return np.array([_RANKS[str(state)] for state in status], np.int64)
