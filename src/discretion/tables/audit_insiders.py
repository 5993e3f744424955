"""Every respondent as an attacker: few proofs hold for many, and only those who know a part of one need another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.circuits import certified
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Matrix, Prior
from discretion.tables.audit import bounds_of, whole_numbers
from discretion.tables.audit_certify import SLACK, Clock, Targets, certify, push_many
from discretion.tables.audit_contributors import Group, Knowledge, Secrets
from discretion.tables.audit_report import Audit, Bounds
from discretion.tables.audit_witness import Witness, Witnesses

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

MANY = 300
"""Sensitive cells from which on circuits are looked for first; fewer are soon decided by linear programs."""
POOL = 8
"""Proofs kept for each side of a cell besides its own."""
UNKNOWN_TO_ALL = 0.05
"""What a deviation costs that no attacker can know to be none, where one that somebody knows costs 1."""

_RANKS = {"complementary": -1, "protected": 0, "undecided": 1, "under-protected": 2, "disclosed": 3}
Side = tuple[int, int]
"""A place (of the suppressed cells) and a direction: 1 above, −1 below, 0 either."""


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
    cells: Cells, coalition: int, wanted: Bools, clock: Clock, proofs: Sequence[Proof]
) -> tuple[list[tuple[int, Group]], list[Proof]]:
    """Give cells with a group that leaves one of their sides no room, and the tables that prove the other sides.

    Bounds are not computed. A side that has room keeps it whatever is suppressed besides, so that after a change only
    cells that had none need to be asked for again.
    """
    shown = np.flatnonzero(cells.suppressed)
    value, sure = cells.value[shown], np.zeros(len(shown), np.bool_)
    bounds = Bounds(value, value, sure, sure, np.full(len(shown), "protected", "<U15"), np.zeros(len(shown)))
    nothing = Audit(cells=cells, cell=shown, bounds=bounds, sums=None, attacker="an outsider", programs=0)
    panel = _Panel(nothing, coalition, wanted, Prior.of(cells), clock)
    panel.judging = False
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
        self.failing: list[tuple[int, Group]] = []
        self._used: dict[Side, list[Witness]] = {}
        """the tables that proved a side, where one table was not enough for everybody all of them"""
        self.shown, self.rows = shown, whole.members[shown].tocsr()
        self.value = whole.center[shown]
        self.bounds: Bounds = replace(found.bounds, **{k: v.copy() for k, v in vars(found.bounds).items()})
        self.worst: list[Any] = [None] * len(shown)
        value = np.nan_to_num(cells.value[shown])
        lower = cells.lower_required[shown]
        self.lower = lower.copy() if prior.negative else np.minimum(lower, np.maximum(value, 0.0))
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
            if inside and place[cell] >= 0:
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
                self.failing.append((int(self.shown[place]), batch[0]))
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
        rest = float(self._known_value[place]) - self.secrets.amount(group, int(self.shown[place]))
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
            found = self.witnesses.find(self._row(place), direction * need, *known, grow=len(groups) == 1)
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
