"""Every respondent as an attacker: few proofs hold for many, and only those who know a part of one need another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.circuits import Net, certified
from discretion.solve import LinearProgram, Matrix
from discretion.tables.attacker import Attacker, Prior, System
from discretion.tables.audit import (
    SLACK,
    Audit,
    Bounds,
    Clock,
    Targets,
    bounds_of,
    certify,
    outsider,
    push_many,
    whole_numbers,
)

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

SIZES = (200, 1000, 5000)
"""Unknowns that a program has at least, in turn, before it has all that are tied to the sum."""
SHARED = 2
"""How many of these sizes are tried for several attackers together, before each is asked for alone."""
TINY = 1e-9
"""Deviations below this share of the amount asked for are rounding of the solver."""


@dataclass(frozen=True, eq=False)
class Witness:
    """A table that agrees with everything published: the unknowns that deviate, by how much, and what it misses."""

    unknowns: Ints
    z: Floats
    missed: float

    @cached_property
    def by_unknown(self) -> dict[int, float]:
        """How far each unknown deviates."""
        return dict(zip(self.unknowns.tolist(), self.z.tolist(), strict=True))

    def times(self, share: float) -> Witness:
        """Give a share of all deviations, which is possible too."""
        return Witness(self.unknowns, share * self.z, share * self.missed)


class Witnesses:
    """Finds tables in which a sum of unknowns deviates by an amount, and few unknowns do."""

    def __init__(self, whole: System, weight: Floats) -> None:
        self.whole = whole
        self.weight = weight
        """(unknowns,) what a deviation of each costs"""
        self.solved = 0
        """linear programs solved so far"""
        self._columns = whole.A.T.tocsr()
        self._ties = abs(whole.A)
        self._last: tuple[bytes, dict[int, Nearby]] = b"", {}
        self._first = 0
        """which of the sizes was large enough for the last sum"""

    def find(
        self, target: Matrix, amount: float, known: Ints, partly: Ints, low: Floats, *, grow: bool = True
    ) -> Witness | None:
        """Give a table where a sum (one row) deviates by at least an amount (below 0: downwards).

        Nothing in `known` deviates, and the unknowns in `partly` not below `low`. None when there is no such table;
        without `grow`, when there is none around the sum.
        """
        self._turn(target)
        sizes = (*(size for size in SIZES if 2 * size < self.whole.size), self.whole.size)
        for number in range(self._first, len(sizes) if grow else min(max(SHARED, self._first + 1), len(sizes))):
            near = self._near(target, max(sizes[number], len(target.indices)))
            self.solved += 1
            found = near.find(amount, known, partly, low)
            if found is not None:
                self._first = number
            if found is not None or near.complete:
                return found
        return None

    def _turn(self, target: Matrix) -> None:
        """Forget the programs of another sum."""
        key = target.indices.tobytes()
        if self._last[0] != key:
            self._last, self._first = (key, {}), 0

    def _near(self, target: Matrix, least: int) -> Nearby:
        kept = self._last[1]
        if least not in kept:
            region, complete = self._region(target, least)
            kept[least] = Nearby(self.whole, self._columns[region], target, region, self.weight[region], complete)
        return kept[least]

    def _region(self, target: Matrix, least: int) -> tuple[Ints, bool]:
        """Give so many unknowns around a sum, twice as many at most, and whether these are all that are tied to it."""
        inside = np.zeros(self.whole.size, np.bool_)
        inside[target.indices] = True
        new = target.indices.astype(np.int64)
        while inside.sum() < least:
            rows = np.unique(_entries(self._columns, new))
            reached, ties = np.unique(_entries(self._ties, rows), return_counts=True)
            new, ties = reached[~inside[reached]], ties[~inside[reached]]
            if not len(new):
                return np.flatnonzero(inside), True
            if len(new) > (most := 2 * least - int(inside.sum())):
                new = new[np.argsort(-ties, kind="stable")[:most]]
            inside[new] = True
        return np.flatnonzero(inside), bool(inside.all())


class Nearby:
    """One program: the unknowns around a sum; all others stay as they are, so that what is found holds for the whole.

    What an attacker knows is a change of bounds, and the solver goes on from its last solution.
    """

    def __init__(
        self, whole: System, columns: Matrix, target: Matrix, region: Ints, weight: Floats, complete: bool
    ) -> None:
        """Take the columns (one row each) of the unknowns in a region, which are in ascending order."""
        from scipy.sparse import csr_array, hstack

        self.complete = complete
        """whether these are all unknowns that are tied to the sum"""
        self._region, self._n = region, len(region)
        rows, row = np.unique(columns.indices, return_inverse=True)
        column = np.repeat(np.arange(self._n), np.diff(columns.indptr))
        self._sums: Matrix = csr_array((columns.data, (row, column)), shape=(len(rows), self._n))
        self._row_low, self._row_high = whole.row_low[rows], whole.row_high[rows]
        self._low, self._high = whole.low[region], whole.high[region]
        self._program = LinearProgram(
            hstack([self._sums, -self._sums]),
            (np.zeros(2 * self._n), np.r_[self._high, -self._low]),
            (self._row_low, self._row_high),
            np.tile(weight, 2),
            tight=True,
        )
        at = np.searchsorted(region, target.indices)
        self._target = self._program.add_row(np.r_[at, at + self._n], np.r_[target.data, -target.data])
        self._touched = np.zeros(0, np.int64)

    def find(self, amount: float, known: Ints, partly: Ints, low: Floats) -> Witness | None:
        """Give a table where the sum deviates by an amount, for somebody who knows some unknowns, some in part."""
        self._bound(self._touched, self._low[self._touched], self._high[self._touched])
        still, some = self._inside(known), self._inside(partly)
        at, here = some[some >= 0], low[some >= 0]
        self._bound(at, np.maximum(here, self._low[at]), self._high[at])
        still = still[still >= 0]
        self._bound(still, np.zeros(len(still)), np.zeros(len(still)))
        self._touched = np.r_[at, still]
        self._program.bound_row(self._target, *((amount, np.inf) if amount > 0 else (-np.inf, amount)))
        return self._witness(amount) if self._program.settle() else None

    def _inside(self, unknowns: Ints) -> Ints:
        """Give the places of unknowns in the region, −1 for those outside."""
        place = np.minimum(np.searchsorted(self._region, unknowns), self._n - 1)
        return np.where(self._region[place] == unknowns, place, -1)

    def _bound(self, place: Ints, low: Floats, high: Floats) -> None:
        if len(place):
            both = np.r_[place, place + self._n]
            self._program.bound(both, np.zeros(len(both)), np.r_[high, -low])

    def _witness(self, amount: float) -> Witness:
        values = np.clip(self._program.values, self._program.low, self._program.high)
        z = values[: self._n] - values[self._n :]
        z[np.abs(z) <= TINY * abs(amount)] = 0.0
        sums = self._sums @ z
        missed = float(np.maximum(sums - self._row_high, self._row_low - sums).max(initial=0.0))
        some = np.flatnonzero(z)
        return Witness(self._region[some], z[some], missed)


def _entries(matrix: Matrix, rows: Ints) -> Ints:
    """Give the columns of some rows of a sparse matrix, one after the other."""
    start, count = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    found: Ints = matrix.indices[np.repeat(start, count) + inside].astype(np.int64)
    return found


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
    def of(cls, cells: Cells, few: int = 1) -> Knowledge:
        """Take contributions from the records; of ready-made cells, what is known of each inner cell.

        That is the number of respondents, each in one cell only, and their largest contributions: of counts 1 each. The
        others count as equal. Of cells with more than `few` nobody else needs to be listed than one who is missing
        in every coalition; nothing is known of those whose contributions are not.
        """
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
        if (own < 0).any():
            raise PlanError("attacker: ready-made linked tables do not tell who is in their common inner cells")
        count, top = cells.count[own], np.zeros((len(own), 0))
        if cells.response.frequency:
            top = (np.arange(few) < count[:, None]).astype(np.float64)
        elif (cells.inner_value >= 0).all():  # largest contributions are absolute
            top = cells.response.top[own]
        listed = np.minimum((top > 0).sum(axis=1), count)
        each = np.where((count <= few) | (listed > 0), np.minimum(count, np.maximum(listed, few) + 1), 0)
        inner = np.repeat(np.arange(len(own)), each)
        place = np.arange(len(inner)) - np.repeat(np.cumsum(each) - each, each)
        share = (cells.inner_value - top.sum(axis=1)) / np.maximum(count - listed, 1)
        padded = np.hstack([top, np.zeros((len(own), 1))])[inner, np.minimum(place, top.shape[1])]
        x = np.where(place < listed[inner], padded, share[inner])
        labels = [f"one in cell {cell}" for cell in own[inner].tolist()]
        return cls(inner, np.arange(len(inner)), x, len(own), labels)

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

    @cached_property
    def everybody(self) -> Ints:
        """(inner cells,) how many respondents each has."""
        return np.bincount(self.inner, minlength=self.n_inner)


class Secrets:
    """What respondents know of the unknowns of a table with gaps: those that are all theirs, and a part of others.

    A coalition knows an unknown when all its respondents are in the coalition; of others it knows that they are not
    smaller than its own part.
    """

    def __init__(self, cells: Cells, knowledge: Knowledge, spread: Matrix, low: Floats, coalition: int) -> None:
        """Take which inner cells each unknown is the sum of, and how far it can lie below its value (−∞: any)."""
        self.coalition, self.label, self._x = coalition, knowledge.label, cells.x
        self._total = spread.T @ np.nan_to_num(cells.inner_value)
        self._floors = not bool(np.isneginf(low).any())
        prior = Prior.of(cells)
        self._least = prior.least(cells)
        self._sums = np.zeros(len(cells)) if prior.negative else cells.x.transposed.dot(self._least)
        self._listed = self._sums if prior.negative else prior.floor(cells)
        """(cells,) what each has at least, as it is listed; before that what follows of its inner cells"""
        self._packed = prior.packed(cells)
        self._low = low
        self._every = knowledge.everybody
        filled = np.diff(spread.indptr) > 0
        self.unknown = np.full(len(filled), -1, np.int64)
        self.unknown[filled] = spread.indices
        """(inner cells,) the unknown each is a part of, −1 for none"""
        self._by_who = np.argsort(knowledge.who, kind="stable")
        self._starts = np.searchsorted(knowledge.who[self._by_who], np.arange(knowledge.who.max(initial=-1) + 2))
        self._entries = knowledge.inner, knowledge.x
        place = self.unknown[knowledge.inner]
        self._owners: list[dict[int, float]] = [{} for _ in range(len(low))]
        some = np.flatnonzero(place >= 0)
        entries = (place[some].tolist(), knowledge.who[some].tolist(), knowledge.x[some].tolist())
        for at, who, amount in zip(*entries, strict=True):
            self._owners[at][who] = self._owners[at].get(who, 0.0) + amount
        empty = np.bincount(spread.indices, self._every[filled] == 0, len(low)) > 0
        count = np.array([len(owners) for owners in self._owners], np.int64)
        self.known_to_some: Bools = (count > 0) & (count <= coalition) & ~empty
        """(unknowns,) which all respondents of a possible coalition make"""
        self.people = len(np.unique(knowledge.who[some]))
        """how many respondents have a part in an unknown"""
        self.numbers = int(knowledge.who.max(initial=-1)) + 1
        """respondents are numbered below this"""
        self._groups: dict[Group, tuple[Ints, Ints, Floats]] = {}

    def _of(self, who: int) -> list[tuple[int, float]]:
        """Give the inner cells of a respondent, and what it contributes to each."""
        at = self._by_who[self._starts[who] : self._starts[who + 1]]
        inner, amount = self._entries
        return list(zip(inner[at].tolist(), amount[at].tolist(), strict=True))

    @cached_property
    def of_all(self) -> tuple[Ints, Ints, Floats]:
        """What any possible coalition knows, as for one group: of other unknowns, the largest part one of them has."""
        largest = np.array([sum(sorted(o.values())[-self.coalition :]) for o in self._owners], np.float64)
        partly = np.flatnonzero((largest > 0) & ~self.known_to_some & self._floors)
        low = np.maximum(self._low[partly], (largest - self._total)[partly])
        return np.flatnonzero(self.known_to_some), partly, np.minimum(low, 0.0)

    def net(self, whole: System) -> tuple[Net, Floats]:
        """Give the unknowns of a system with their owners for a search for circuits, and how far each may fall.

        The first counts what any coalition knows of unknowns it does not make alone. Unknowns that do not count once
        in a sum never deviate.
        """
        _, partly, low = self.of_all
        own_fall, rise = -whole.low, whole.high.copy()
        odd = np.unique(whole.A.indices[whole.A.data != 1])
        own_fall[odd] = rise[odd] = 0.0
        fall = own_fall.copy()
        fall[partly] = np.minimum(fall[partly], -low)
        owners = [list(self._owners[u]) if self.known_to_some[u] else [] for u in range(whole.size)]
        owners_start = np.r_[0, np.cumsum([len(people) for people in owners])].astype(np.int64)
        everyone = np.array([who for people in owners for who in people], np.int32)
        columns = whole.A.T.tocsr()
        rows = np.repeat(np.arange(whole.A.shape[0]), np.diff(whole.A.indptr))
        order = np.lexsort((-fall[whole.A.indices], self.known_to_some[whole.A.indices], rows))
        net = Net(
            columns.indptr.astype(np.int64),
            columns.indices.astype(np.int32),
            whole.A.indptr.astype(np.int64),
            whole.A.indices[order].astype(np.int32),
            fall,
            rise,
            owners_start,
            everyone,
        )
        return net, own_fall

    def of_group(self, group: Group) -> tuple[Ints, Ints, Floats]:
        """Give the unknowns a group knows, those it has a part in, and the smallest deviation of these."""
        if group not in self._groups:
            mine = {int(self.unknown[inner]) for who in group for inner, _ in self._of(who)} - {-1}
            known = sorted(u for u in mine if self.known_to_some[u] and self._owners[u].keys() <= group)
            partly = [u for u in sorted(mine - set(known)) if self._floors and self._part(u, group) > 0]
            at = np.array(partly, np.int64)
            part = np.array([self._part(u, group) for u in partly], np.float64)
            low = np.minimum(np.maximum(self._low[at], part - self._total[at]), 0.0)
            self._groups[group] = np.array(known, np.int64), at, low
        return self._groups[group]

    def of_groups(self, groups: Sequence[Group]) -> tuple[Ints, Ints, Floats]:
        """Give what any of several groups knows; a table that agrees with all of it is possible for each of them."""
        if len(groups) == 1:
            return self.of_group(groups[0])
        known, partly, low = (np.concatenate(parts) for parts in zip(*map(self.of_group, groups), strict=True))
        order = np.lexsort((-low, partly))
        partly, low = partly[order], low[order]
        first = np.r_[True, partly[1:] != partly[:-1]][: len(partly)]
        return np.unique(known), partly[first], low[first]

    def _part(self, place: int, group: Group) -> float:
        return sum(amount for who, amount in self._owners[place].items() if who in group)

    def allows(self, proof: Witness, group: Group) -> bool:
        """Tell whether a table is possible for a group."""
        known, partly, low = self.of_group(group)
        z = proof.by_unknown
        return all(place not in z for place in known.tolist()) and all(
            z.get(place, 0.0) >= least for place, least in zip(partly.tolist(), low.tolist(), strict=True)
        )

    def hurt(self, proof: Witness, group: Group) -> dict[Group, float]:
        """Give larger groups such that every coalition that a table is not possible for contains one of them.

        Who knows too much of an unknown is in all of it, or has the largest part of the coalition's: so large at least.
        Beside each stands how much deviates of what it knows.
        """
        larger: dict[Group, float] = {}
        room = self.coalition - len(group)
        for place, z in proof.by_unknown.items() if room > 0 else ():
            owners = self._owners[place]
            found = []
            if self.known_to_some[place] and len(owners.keys() - group) <= room:
                found.append(group | frozenset(owners))
            if z < 0 and self._floors:
                spare = float(self._total[place]) + z - self._part(place, group)
                found += [group | {who} for who, part in owners.items() if who not in group and room * part > spare]
            for other in found:
                larger[other] = larger.get(other, 0.0) + abs(z)
        return larger

    def beyond(self, group: Group, cell: int) -> float:
        """Give what a group contributes to a cell beyond what everybody knows to be in it."""
        parts: dict[int, float] = {}
        for who in group:
            for inner, amount in self._of(who):
                if self._within(inner, cell):
                    parts[inner] = parts.get(inner, 0.0) + amount
        known = sum(max(part - max(float(self._least[inner]), 0.0), 0.0) for inner, part in parts.items())
        known += float(self._sums[cell])
        for other in self._packed.get(cell, ()):  # somebody is in each of these
            own = sum(part for inner, part in parts.items() if self._within(inner, other))
            known += max(float(self._listed[other]) - own, 0.0)
        return max(known - float(self._listed[cell]), 0.0)

    def all_theirs(self, group: Group, cell: int) -> bool:
        """Tell whether nobody else has a part in a cell."""
        size = int(self._x.transposed.indptr[cell + 1] - self._x.transposed.indptr[cell])
        if size > sum(int(self._starts[who + 1] - self._starts[who]) for who in group):
            return False
        held: dict[int, int] = {}
        for who in group:
            for inner, _ in self._of(who):
                held[inner] = held.get(inner, 0) + 1
        alone = sum(1 for inner, n in held.items() if n == self._every[inner] and self._within(inner, cell))
        return alone == size

    def _within(self, inner: int, cell: int) -> bool:
        row = self._x.row(inner)
        at = int(np.searchsorted(row, cell))
        return at < len(row) and int(row[at]) == cell


def one_coalition(
    cells: Cells,
    labels: Sequence[Any],
    wanted: Bools,
    prior: Prior,
    rules: Sequence[Any] | None,
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
    capped = _own_part_apart(cells, floor, prior)
    return outsider(capped, attacker, judged, prior, rules, exact, clock, f"{len(group)} respondents together")


def _others(cells: Cells, known: Bools) -> Bools:
    """Tell in which cells somebody else has a part."""
    others: Bools = cells.x.transposed.dot(~known) > 0
    return others


def _own_part_apart(cells: Cells, floor: Floats, prior: Prior) -> Cells:
    """Nobody can be led to believe in less than the own contribution: cut what is required below the rest."""
    known = np.maximum(cells.x.transposed.dot(np.maximum(floor, prior.least(cells))), prior.floor(cells))
    rest = np.maximum(np.nan_to_num(cells.value) - known, 0.0)
    return cells.with_status(lower_required=np.minimum(cells.lower_required, rest))


MANY = 300
"""Sensitive cells from which on circuits are looked for first; fewer are soon decided by linear programs."""
POOL = 8
"""Proofs kept for each side of a cell besides its own."""
UNKNOWN_TO_ALL = 0.05
"""What a deviation costs that no attacker can know to be none, where one that somebody knows costs 1."""

_RANKS = {"complementary": -1, "protected": 0, "undecided": 1, "under-protected": 2, "disclosed": 3}
Side = tuple[int, int]
"""A place (of the suppressed cells) and a direction: 1 above, −1 below, 0 either."""


Failure = tuple[int, int, Group]
"""A cell, a direction, and who leaves it no room there."""
Proof = tuple[int, int, Ints, Floats]
"""A cell, a direction, and a table in which it deviates so far as it must: inner cells and their deviations."""


def every_contributor(
    found: Audit, coalition: int, wanted: Bools, prior: Prior, clock: Clock, proofs: Sequence[Proof] = ()
) -> Audit:
    """Audit against all coalitions of respondents who know a suppressed inner cell; keep the worst for each cell.

    A table in which nothing deviates that somebody knows is possible for them. So a table that proves the room of a
    cell with few deviations does so for all coalitions but those who know one of these few; each of these is asked for
    again with what it knows held still, and again those who know a deviation of the new table besides, until the
    coalitions are as large as allowed. A cell that fails once is afterwards only asked whether somebody finds it
    exactly. `proofs` are tables found before, by an engine: each is checked, and saves a program if it is right.
    """
    panel = _Panel(found, coalition, wanted, prior, clock)
    panel.take(proofs)
    panel.run()
    secrets = panel.secrets
    who = f"an outsider and {secrets.people:,} respondent{'' if secrets.people == 1 else 's'}"
    return found.with_bounds(
        panel.bounds,
        attacker=who + (f" in coalitions of up to {coalition}" if coalition > 1 else ""),
        worst=tuple(panel.worst),
        programs=found.programs + panel.attacker.solved + panel.witnesses.solved,
    )


def without_room(
    cells: Cells, coalition: int, wanted: Bools, clock: Clock, proofs: Sequence[Proof], *, near: bool = False
) -> tuple[list[Failure], list[Proof]]:
    """Give the sides of cells to which a group leaves no room, and the tables that prove the other sides.

    With `near` room is looked for around each cell only, where a group knows something. Bounds are not computed. A side
    that has room keeps it whatever is suppressed besides, so that after a change only those that had none need to be
    asked for again.
    """
    shown = np.flatnonzero(cells.suppressed)
    value, sure = cells.value[shown], np.zeros(len(shown), np.bool_)
    bounds = Bounds(value, value, sure, sure, np.full(len(shown), "protected", "<U15"), np.zeros(len(shown)))
    nothing = Audit(cells=cells, cell=shown, bounds=bounds, sums=None, attacker="an outsider", programs=0)
    panel = _Panel(nothing, coalition, wanted, Prior.of(cells), clock)
    panel.judging, panel.near = False, near
    panel.take(proofs)
    panel.run()
    return panel.failing, panel.proofs()


class _Panel:
    """The suppressed cells, what they need, and the worst that was found about each."""

    def __init__(self, found: Audit, coalition: int, wanted: Bools, prior: Prior, clock: Clock) -> None:
        cells, shown = found.cells, found.cell
        attacker = Attacker(cells, prior=prior)
        whole = attacker.system
        secrets = Secrets(cells, Knowledge.of(cells, coalition), whole.spread, whole.low, coalition)
        self.cells, self.secrets, self.prior, self.clock, self.attacker = cells, secrets, prior, clock, attacker
        self.judging = True
        """whether bounds are computed of cells that fail"""
        self.near = False
        """whether room against respondents is looked for around cells only"""
        self.failing: list[Failure] = []
        self._used: dict[Side, list[Witness]] = {}
        """the tables that proved a side, where one table was not enough for everybody all of them"""
        self.shown, self.rows = shown, whole.members[shown].tocsr()
        self.value = whole.center[shown]
        self.bounds: Bounds = replace(found.bounds, **{k: v.copy() for k, v in vars(found.bounds).items()})
        self.worst: list[Any] = [None] * len(shown)
        lower = cells.lower_required[shown]
        self._room = prior.room(cells)[shown]
        self.lower = np.minimum(lower, self._room)
        self.upper = cells.upper_required[shown].copy()
        relaxed = (found.status == "under-protected") | np.isnan(cells.value[shown])
        self.lower[relaxed] = self.upper[relaxed] = 0.0
        self.asked = np.flatnonzero(wanted[shown] & (found.status != "disclosed"))
        self._known_value = np.nan_to_num(self.value)
        self.scale = np.maximum(np.abs(self._known_value), 1.0)
        self.whole_numbers = whole_numbers(cells)
        idle = np.zeros(len(shown), np.bool_)
        self.least = Targets(self.rows, self.value, lower, lower, idle, self.whole_numbers).room
        self.witnesses = Witnesses(whole, np.where(secrets.known_to_some, 1.0, UNKNOWN_TO_ALL))
        self._turned = self.rows.T.tocsr()
        self._weight = np.asarray(abs(self.rows).sum(axis=1)).ravel()
        self._pool: dict[Side, list[Witness]] = {}
        self._last: tuple[int, Matrix] | None = None
        self._sure: set[Side] = set()

    def take(self, proofs: Sequence[Proof]) -> None:
        """Keep tables found before if they agree with everything published now, with what they miss of it."""
        from scipy.sparse import csc_array

        whole, place = self.attacker.system, np.full(len(self.cells), -1, np.int64)
        place[self.shown] = np.arange(len(self.shown))
        kept: list[tuple[Side, Ints, Floats]] = []
        for cell, direction, inner, z in proofs:
            at = self.secrets.unknown[inner]
            inside = (at >= 0).all() and (z >= whole.low[at]).all() and (z <= whole.high[at]).all()
            if inside and cell < len(place) and place[cell] >= 0:
                kept.append(((int(place[cell]), direction), at, z))
        if not kept:
            return
        start = np.r_[0, np.cumsum([len(at) for _, at, _ in kept])]
        entries = np.concatenate([z for *_, z in kept]), np.concatenate([at for _, at, _ in kept])
        sums = (whole.A @ csc_array((*entries, start), shape=(whole.size, len(kept)))).tocoo()
        missed = np.zeros(len(kept))
        over = np.maximum(sums.data - whole.row_high[sums.row], whole.row_low[sums.row] - sums.data)
        np.maximum.at(missed, sums.col, over)
        for (side, at, z), loss in zip(kept, missed.tolist(), strict=True):
            self._pool.setdefault(side, []).append(Witness(at, z, max(loss, 0.0)))

    def proofs(self) -> list[Proof]:
        """Give the tables that proved sides."""
        inner = self.attacker.system.spread.tocsc()
        first = inner.indices[inner.indptr[:-1]]
        return [
            (int(self.shown[place]), 1 if self._far(proof, place) > 0 else -1, first[proof.unknowns], proof.z)
            for (place, _), found in self._used.items()
            for proof in found
            if len(proof.unknowns)
        ]

    def run(self) -> None:
        """Look at all cells, those that need least first: most of them are soon decided."""
        if not self.secrets.people:
            return
        self._everybody()
        need = np.maximum(self.lower, self.upper)[self.asked]
        order = self.asked[np.argsort(need, kind="stable")]
        for number, place in enumerate(order.tolist()):
            if self.clock.over:
                self._doubt(order[number:])
                return
            self.clock.tell(number, len(order))
            if self._weight[place] > 0 and not self._settled(place):
                self._doubt(np.array([place]))

    def _everybody(self) -> None:
        """Find the sides that have room against all: by circuits, then in tables where nobody knows what deviates."""
        self._by_circuits()
        idle = np.zeros(len(self.asked), np.bool_)
        targets = Targets(
            self.rows[self.asked],
            self.value[self.asked],
            self.lower[self.asked],
            self.upper[self.asked],
            idle,
            self.whole_numbers,
        )
        with self._knowing(*self.secrets.of_all):
            push_many(self.attacker, targets, self.clock)
        slack = SLACK * targets.scale
        for side, met in (
            (1, targets.above >= targets.upper - slack),
            (-1, targets.below >= targets.lower - slack),
            (0, np.maximum(targets.above, targets.below) >= targets.room - slack),
        ):
            self._sure |= {(place, side) for place in self.asked[met].tolist()}

    def _by_circuits(self) -> None:
        """Find the sides that few equal deviations prove for everybody, without a linear program."""
        if len(self.asked) < MANY:
            return
        rows = self.rows[self.asked]
        odd = np.bincount(np.repeat(np.arange(len(self.asked)), np.diff(rows.indptr)), rows.data != 1, len(self.asked))
        asked = self.asked[odd == 0]
        net, own_fall = self.secrets.net(self.attacker.system)
        size = np.diff(self.attacker.system.spread.tocsc().indptr)
        inner = np.diff(self.cells.x.transposed.indptr)[self.shown]
        alone = (np.diff(self.rows.indptr) == 1) & (self.rows @ size == inner)
        for side, need in ((1, self.upper), (-1, self.lower), (0, np.where(self.upper < self.least, self.least, 0.0))):
            places = asked[need[asked] > 0]
            rows = self.rows[places]
            lists = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
            ways = np.full(len(places), side or 1, np.int64)
            apart, people = self.secrets.coalition + 1, self.secrets.numbers
            met = certified(net, lists, need[places], alone[places], own_fall, ways, apart, people)
            self._sure |= {(place, side) for place in places[met].tolist()}

    @contextmanager
    def _knowing(self, known: Ints, partly: Ints, low: Floats) -> Iterator[None]:
        """Let the attacker's program know more for a while."""
        whole = self.attacker.system
        below, above = whole.low.copy(), whole.high.copy()
        below[partly] = np.maximum(low, below[partly])
        below[known] = above[known] = 0.0
        touched = np.r_[known, partly].astype(np.int64)
        self.attacker.narrow(touched, below[touched], above[touched])
        try:
            yield
        finally:
            self.attacker.narrow(touched, whole.low[touched], whole.high[touched])

    def _settled(self, place: int) -> bool:
        """Decide one cell against everybody; tell whether there was time enough."""
        sides = self._sides(place)
        while sides:
            side = sides.pop()
            done = self._side_settled(place, side)
            if done is None:
                return False
            if not done and self.judging:
                sides = self._sides(place) if side and self.bounds.status[place] == "under-protected" else []
        return True

    def _side_settled(self, place: int, side: int) -> bool | None:
        """Decide one side of a cell; tell whether it holds against everybody, None where time was not enough.

        Groups are asked together, and apart only where no table is possible for all of them.
        """
        seen: set[Group] = set()
        waiting: list[list[Group]] = [[frozenset()]]
        while waiting:
            batch = [group for group in waiting.pop() if group not in seen and not self._all_theirs(place, group)]
            if not batch:
                continue
            if self.clock.over:
                return None
            for proof, group in self._kept_for(place, side, batch):
                waiting.append(self._next(proof, [group]))
                seen.add(group)
            batch = [group for group in batch if group not in seen]
            if not batch:
                continue
            found = self._proof(place, side, batch)
            if found is None and len(batch) > 1:
                half = (len(batch) + 1) // 2
                waiting += [batch[half:], batch[:half]]
                continue
            if found is None and self.judging:
                found = self._judged(place, side, batch[0])
            elif found is None:
                self.failing.append((int(self.shown[place]), side, batch[0]))
            if found is None:
                return False
            self._used.setdefault((place, side), []).append(found)
            seen.update(batch)
            others = self._next(found, batch)
            waiting += [others[1:], others[:1]]
        return True

    def _kept_for(self, place: int, side: int, batch: list[Group]) -> Iterator[tuple[Witness, Group]]:
        """Give groups for whom a table that was found before proves one side of a cell, each with that table."""
        need = max(self._need(place, side, group) for group in batch)
        if need <= SLACK * self.scale[place]:
            return
        left = list(batch)
        for direction in (side,) if side else (1, -1):
            for proof in self._pool.get((place, direction), ()):
                fitting = self._scaled(proof, place, direction * need)
                possible = [group for group in left if fitting is not None and self.secrets.allows(fitting, group)]
                if fitting is None or not possible:
                    continue
                self._used.setdefault((place, side), []).append(fitting)
                left = [group for group in left if group not in possible]
                yield from ((fitting, group) for group in possible)
                if not left:
                    return

    def _next(self, proof: Witness, batch: list[Group]) -> list[Group]:
        """Give the groups that a table does not hold for, those who know most of it first: they fail if any does."""
        hurt: dict[Group, float] = {}
        for group in batch:
            for larger, amount in self.secrets.hurt(proof, group).items():
                hurt[larger] = max(hurt.get(larger, 0.0), amount)
        return sorted(hurt, key=lambda group: (-hurt[group], sorted(group)))

    def _sides(self, place: int) -> list[int]:
        """Give the directions in which it is open whether a cell has room."""
        sides = [side for side, need in ((-1, self.lower[place]), (1, self.upper[place])) if need > 0]
        if self.upper[place] < self.least[place]:
            sides.append(0)
        return [side for side in sides if (place, side) not in self._sure]

    def _need(self, place: int, side: int, group: Group = frozenset()) -> float:
        """Give how far a cell must deviate; nobody can be led to believe in less than the own contribution."""
        if side == 0:
            return float(self.least[place])
        if side > 0:
            return float(self.upper[place])
        if not group:
            return float(self.lower[place])
        rest = self._room[place] - self.secrets.beyond(group, int(self.shown[place]))
        return float(min(self.lower[place], max(rest, 0.0)))

    def _all_theirs(self, place: int, group: Group) -> bool:
        return bool(group) and self.secrets.all_theirs(group, int(self.shown[place]))

    def _proof(self, place: int, side: int, groups: list[Group]) -> Witness | None:
        """Find a table that proves one side of a cell for several groups."""
        need = max(self._need(place, side, group) for group in groups)
        if need <= SLACK * self.scale[place]:
            return Witness(np.zeros(0, np.int64), np.zeros(0), 0.0)
        directions = (side,) if side else (1, -1)
        known = self.secrets.of_groups(groups)
        for direction in directions:
            grow = len(groups) == 1 and not (self.near and groups[0])
            found = self.witnesses.find(self._row(place), direction * need, *known, grow=grow)
            if found is not None and self._shows(found, place, direction * need):
                self._share(found)
                return found
        return None

    def _row(self, place: int) -> Matrix:
        """Give how one cell deviates."""
        if self._last is None or self._last[0] != place:
            self._last = place, self.rows[[place]]
        return self._last[1]

    def _far(self, proof: Witness, place: int) -> float:
        """Give how far a table takes a cell from its value."""
        row, z = self._row(place), proof.by_unknown
        entries = zip(row.indices.tolist(), row.data.tolist(), strict=True)
        return float(sum(weight * z.get(unknown, 0.0) for unknown, weight in entries))

    def _shows(self, proof: Witness, place: int, amount: float) -> bool:
        far = self._far(proof, place) * np.sign(amount) - proof.missed * self._weight[place]
        return bool(far >= abs(amount) - SLACK * self.scale[place])

    def _scaled(self, proof: Witness, place: int, amount: float) -> Witness | None:
        """Give as much of a table as takes a cell so far from its value, if it does."""
        if not self._shows(proof, place, amount):
            return None
        share = (abs(amount) + proof.missed * self._weight[place]) / abs(self._far(proof, place))
        return proof.times(share) if share < 1 else proof

    def _share(self, proof: Witness) -> None:
        """Keep as much of a table as is possible for all sides of cells that it proves."""
        proof = proof.times(self._most(proof))
        off = self._turned[proof.unknowns].T @ proof.z
        place = np.flatnonzero(off)
        off, loss = off[place], proof.missed * self._weight[place] - SLACK * self.scale[place]
        for direction, need in ((1, self.upper), (-1, self.lower)):
            enough = direction * off - loss >= np.where(need[place] > 0, need[place], self.least[place])
            for cell in place[enough].tolist():
                kept = self._pool.setdefault((cell, direction), [])
                if len(kept) < POOL:
                    kept.append(proof)

    def _most(self, proof: Witness) -> float:
        """Give how many times a table is possible at most."""
        whole, some = self.attacker.system, np.flatnonzero(proof.z)
        at, z = proof.unknowns[some], proof.z[some]
        most = float((np.where(z > 0, whole.high[at], whole.low[at]) / z).min(initial=np.inf))
        return max((1 - SLACK) * most, 1.0) if np.isfinite(most) else 1.0

    def _judged(self, place: int, side: int, group: Group) -> Witness | None:
        """Compute what a group finds out about a cell, and note it; where it is enough, give the table that shows it.

        Small programs found no table for this side: mostly the cell fails.
        """
        with self._knowing(*self.secrets.of_group(group)):
            targets = Targets(
                self._row(place),
                self.value[[place]],
                np.array([self._need(place, -1, group)]),
                self.upper[[place]],
                idle=np.zeros(1, np.bool_),
                whole=self.whole_numbers,
            )
            certify(self.attacker, targets, replace(self.clock, silent=True))
            seen = bounds_of(targets, np.ones(1, np.bool_), targets.value, targets.lower, targets.upper)
            failed = self._note(place, seen, group)
            return None if failed else self._vertex(place, side, self._need(place, side, group))

    def _vertex(self, place: int, side: int, need: float) -> Witness | None:
        """Give a table found by the attacker's own program."""
        for direction in (side,) if side else (1, -1):
            _, found = self.attacker.reach(direction * self._row(place))
            along = float((self._row(place) @ found.ray)[0])
            z = found.z + found.ray * (direction * need / along if direction * along > 0 else 0.0)
            some = np.flatnonzero(z)
            proof = Witness(some, z[some], found.missed)
            if self._shows(proof, place, direction * need):
                return proof
        self._doubt(np.array([place]))
        return None

    def _note(self, place: int, seen: Bounds, group: Group) -> bool:
        """Keep what is worse than before, and tell whether the cell failed; then it is asked for less from now on."""
        failed = str(seen.status[0]) in ("under-protected", "disclosed")
        if failed and _RANKS[str(seen.status[0])] > _RANKS[str(self.bounds.status[place])]:
            for name, values in vars(seen).items():
                getattr(self.bounds, name)[place] = values[0]
            self.worst[place] = tuple(self.secrets.label(who) for who in sorted(group)) if group else None
        if failed:
            self.lower[place] = self.upper[place] = 0.0
        return failed

    def _doubt(self, places: Ints) -> None:
        """Nothing is called protected while attackers are left to try."""
        self.bounds.status[places[self.bounds.status[places] == "protected"]] = "undecided"
