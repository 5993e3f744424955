"""Respondents as attackers: they know what they contributed themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior
from discretion.tables.audit import bounds_of, outsider, targets_of
from discretion.tables.audit_certify import Clock, Targets, certify
from discretion.tables.audit_report import STATES, Audit, Bounds

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

Group = frozenset[int]
"""Numbers of respondents who put together what they know."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Who contributes how much to each inner cell."""

    inner: Ints
    """(p,) inner cell of each entry, ascending"""
    who: Ints
    """(p,) respondent"""
    x: Floats
    """(p,) contribution"""
    n_inner: int
    labels: Sequence[Any]

    @classmethod
    def of(cls, cells: Cells) -> Knowledge:
        """Take contributions from the records, or from inner cells with few respondents where there are none."""
        if cells.source is not None:
            x = cells.source.x[:, cells.active]
            there = ~np.isnan(x)
            return cls(
                cells.source.inner[there],
                cells.source.contributor[there].astype(np.int64),
                x[there],
                len(cells.inner_codes),
                cells.contributors,
            )
        if not cells.response.counted:
            raise PlanError("attacker: it is not known which cells have one respondent; give the column `count`")
        own = cells.inner_cell
        single = np.flatnonzero((own >= 0) & (cells.count[own] == 1))
        return cls(single, single, cells.inner_value[single], len(own), [f"the one in cell {i}" for i in own.tolist()])

    def label(self, who: int) -> Any:
        """Give the name of a respondent."""
        return self.labels[who] if len(self.labels) else who

    def of_group(self, group: Group) -> tuple[Bools, Floats]:
        """Give the inner cells that are all theirs, and what they contributed to each."""
        theirs = np.isin(self.who, np.fromiter(group, np.int64, len(group)))
        part = np.bincount(self.inner, theirs, self.n_inner)
        floor: Floats = np.bincount(self.inner, np.where(theirs, self.x, 0.0), self.n_inner).astype(np.float64)
        every = np.bincount(self.inner, minlength=self.n_inner)
        return (part > 0) & (part == every), floor

    def groups(self, hidden: Bools, coalition: int, together: Iterator[Ints]) -> Iterator[Group]:
        """Give who to try: the respondents of hidden inner cells with few, and several alone in cells of one sum."""
        starts = np.searchsorted(self.inner, np.arange(self.n_inner + 1))
        size = np.diff(starts)
        seen: set[Group] = set()
        for cell in np.flatnonzero(hidden & (size > 0) & (size <= coalition)).tolist():
            group = frozenset(self.who[starts[cell] : starts[cell + 1]].tolist())
            if group not in seen:
                seen.add(group)
                yield group
        for row in together if coalition > 1 else ():
            lone = sorted({int(self.who[starts[cell]]) for cell in row.tolist() if size[cell] == 1})
            for chosen in combinations(lone, coalition):
                group = frozenset(chosen)
                if group not in seen:
                    seen.add(group)
                    yield group


def one_coalition(
    cells: Cells,
    labels: Sequence[Any],
    wanted: Bools,
    prior: Prior,
    rules: Sequence[Any],
    exact: bool | None,
    clock: Clock,
) -> Audit:
    """Audit against respondents that are named."""
    if cells.source is None:
        raise PlanError("attacker: respondents are known only in tables made from records")
    knowledge = Knowledge.of(cells)
    names = [knowledge.label(i) for i in range(int(knowledge.who.max(initial=-1)) + 1)]
    numbers = {name: i for i, name in enumerate(names)}
    for label in labels:
        if label not in numbers:
            raise PlanError(unknown("respondent", str(label), map(str, names[:0])))
    group = frozenset(numbers[label] for label in labels)
    known, floor = knowledge.of_group(group)
    attacker = Attacker(cells, prior=prior, known=known, floor=floor)
    judged = wanted & _others(cells, known)
    capped = _own_part_apart(cells, floor)
    return outsider(capped, attacker, judged, prior, rules, exact, clock, f"{len(group)} respondents together")


def _others(cells: Cells, known: Bools) -> Bools:
    """Tell in which cells somebody else has a part."""
    others: Bools = cells.x.transposed.dot(~known) > 0
    return others


def _own_part_apart(cells: Cells, floor: Floats) -> Cells:
    """Nobody can be led to believe in less than the own contribution: cut what is required below the rest."""
    rest = np.maximum(np.nan_to_num(cells.value) - cells.x.transposed.dot(floor), 0.0)
    return cells.with_status(lower_required=np.minimum(cells.lower_required, rest))


def every_contributor(found: Audit, coalition: int, wanted: Bools, prior: Prior, clock: Clock) -> Audit:
    """Audit against each respondent (or coalition) that knows a suppressed inner cell; keep the worst for each cell."""
    cells = found.cells
    knowledge = Knowledge.of(cells)
    attacker = Attacker(cells, prior=prior)
    whole = attacker.system
    own = cells.inner_cell
    hidden = (own < 0) | cells.suppressed[own]
    sums = (abs(whole.A) @ whole.spread.T).tocsr()
    rows = (sums.indices[sums.indptr[i] : sums.indptr[i + 1]] for i in range(sums.shape[0]))
    worst: list[Any] = [None] * len(found.cell)
    bounds, tried = found.bounds, 0
    for group in knowledge.groups(hidden, coalition, rows):
        if clock.over:
            bounds = _unfinished(bounds)
            break
        tried += 1
        clock.tell(tried, 0)
        known, floor = knowledge.of_group(group)
        seen = _from_inside(_own_part_apart(cells, floor), attacker, known, floor, found.cell, wanted, prior, clock)
        if seen is None:
            continue
        worse = _rank(seen.status) > _rank(bounds.status)
        bounds = _where(worse, seen, bounds)
        for i in np.flatnonzero(worse).tolist():
            worst[i] = tuple(knowledge.label(who) for who in sorted(group))
    who = f"an outsider and {tried:,} respondents" + (f" in coalitions of up to {coalition}" if coalition > 1 else "")
    return found.with_bounds(bounds, attacker=who, worst=tuple(worst), programs=found.programs + attacker.solved)


def _from_inside(
    cells: Cells,
    attacker: Attacker,
    known: Bools,
    floor: Floats,
    shown: Ints,
    wanted: Bools,
    prior: Prior,
    clock: Clock,
) -> Bounds | None:
    """Audit with the unknowns of some respondents held at their values and the others kept above their parts."""
    whole = attacker.system
    theirs = whole.spread.T @ (~known).astype(np.float64) == 0
    part = whole.spread.T @ floor
    touched = np.flatnonzero(theirs | ((part > 0) & (not prior.negative)))
    if not len(touched):
        return None
    blocks = np.unique(whole.block[touched])
    at = np.flatnonzero(np.isin(whole.block, blocks))
    near = np.zeros(whole.size)
    near[at] = 1.0
    judged = (wanted & _others(cells, known))[shown] & (whole.members[shown] @ near > 0)
    total = whole.spread.T @ np.nan_to_num(cells.inner_value)
    low = np.where(theirs, 0.0, np.maximum(whole.low, np.where(part > 0, part - total, -np.inf)))
    high = np.where(theirs, 0.0, whole.high)
    attacker.narrow(touched, low[touched], high[touched])
    chosen = np.flatnonzero(judged)
    every = targets_of(cells, attacker, shown[chosen], wanted, prior)
    try:
        certify(attacker, every, clock)
    finally:
        attacker.narrow(touched, whole.low[touched], whole.high[touched])
    return _spread_out(every, chosen, cells, shown)


def _spread_out(targets: Targets, chosen: Ints, cells: Cells, shown: Ints) -> Bounds:
    """Put the bounds of some of the suppressed cells in the places of all; the others are not judged."""
    some = shown[chosen]
    yes = np.ones(len(chosen), np.bool_)
    found = bounds_of(targets, yes, cells.value[some], cells.lower_required[some], cells.upper_required[some])
    n = len(shown)
    full = Bounds(
        np.zeros(n), np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.full(n, "complementary"), np.zeros(n)
    )
    for name, values in vars(found).items():
        getattr(full, name)[chosen] = values
    return full


_RANKS = {"complementary": -1, "protected": 0, "undecided": 1, "under-protected": 2, "disclosed": 3}


def _rank(status: Any) -> Ints:
    return np.array([_RANKS[str(state)] for state in status], np.int64)


def _where(chosen: Bools, one: Bounds, other: Bounds) -> Bounds:
    return Bounds(*(np.where(chosen, getattr(one, name), getattr(other, name)) for name in vars(one)))


def _unfinished(bounds: Bounds) -> Bounds:
    """Nobody is called protected while attackers are left to try."""
    status = np.where(bounds.status == STATES[0], "undecided", bounds.status)
    return Bounds(bounds.low, bounds.high, bounds.low_exact, bounds.high_exact, status, bounds.short)
