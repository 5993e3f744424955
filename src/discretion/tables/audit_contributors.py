"""Respondents as attackers: they know what they contributed themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.circuits import Net
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Matrix, Prior, System
from discretion.tables.audit import outsider
from discretion.tables.audit_certify import Clock
from discretion.tables.audit_report import Audit
from discretion.tables.audit_witness import Witness

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
    def of(cls, cells: Cells, few: int = 1) -> Knowledge:
        """Take contributions from the records; where there are none, from inner cells with few respondents.

        Of those nothing is known but their number: they count as equal, and each is in one cell only.
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
        count = cells.count[own]
        inner = np.repeat(np.arange(len(own)), np.where(count <= few, count, 0))
        labels = [f"one in cell {cell}" for cell in own[inner].tolist()]
        return cls(inner, np.arange(len(inner)), (cells.inner_value / np.maximum(count, 1))[inner], len(own), labels)

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

    def amount(self, group: Group, cell: int) -> float:
        """Give what a group contributes to a cell."""
        return sum(amount for who in group for inner, amount in self._of(who) if self._within(inner, cell))

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
