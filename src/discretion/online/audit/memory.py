"""What all attackers have heard, computed from the entries of the ledger."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile

import numpy as np

from discretion.errors import DataError
from discretion.kernels.arrays import Ints
from discretion.online.audit.interval import IntervalAudit, Response
from discretion.online.audit.moments import Moments, told_moments
from discretion.online.audit.scope import Knowledge, Scope
from discretion.online.catalog import TableSpec
from discretion.online.ledger import EACH, Entry, Ledger, unpack_sets
from discretion.online.query import Query

EVERYBODY = EACH
"""In place of a user: everybody knows it, for instance whose value is missing."""


def pack_owners(start: int, owner: Ints) -> tuple[str, bytes]:
    """Give what the entry of an update says about appended records."""
    return json.dumps({"start": start, "records": len(owner)}), zlib.compress(owner.astype("<i8").tobytes())


class Memory:
    """The audits of each user and of all together; the same entries always give the same state."""

    def __init__(self, table: TableSpec, owner: Ints, primes: int, ledger: Ledger) -> None:
        self.table, self.owner = table, owner
        self.people = int(owner.max(initial=-1)) + 1
        """the number of people so far"""
        self.known: dict[str, list[Knowledge]] = {}
        self.seen = 0
        self.recorded = 0
        """records that the ledger knows of"""
        self._scopes: dict[str | None, Scope] = {}
        self._primes, self._ledger = primes, ledger

    def recall(self) -> None:
        """Take in what the ledger holds: of its entries only those that the audits are made from."""
        last = self._ledger.head().id
        entries = self._ledger.history(self.table.name, kinds=("exact", "insider", "update"))
        self.catch_up(takewhile(lambda entry: entry.id <= last, entries))
        self.seen = last

    def catch_up(self, entries: Iterable[Entry]) -> int:
        """Take in entries; give how many people are exposed by new knowledge of insiders."""
        return sum(self._take(entry) for entry in entries)

    def _take(self, entry: Entry) -> int:
        if entry.id <= self.seen:
            return 0
        exposed = 0
        if entry.kind == "exact" and entry.sets is not None:
            self._answered(entry, entry.sets)
        elif entry.kind == "insider" and entry.sets is not None:
            exposed = self._know(entry, entry.sets)
        elif entry.kind == "update" and entry.sets is not None:
            start = int(json.loads(entry.query)["start"])
            added = np.frombuffer(zlib.decompress(entry.sets), "<i8").astype(np.int64)
            self._grow(added[max(0, len(self.owner) - start) :])
            self.recorded = max(self.recorded, start + len(added))
        elif entry.kind == "answer":
            self._hear(entry)
        self.seen = entry.id
        return exposed

    def _answered(self, entry: Entry, packed: bytes) -> None:
        sets, records = unpack_sets(packed)
        if records > len(self.owner) > self.people:
            raise DataError(
                f"records were appended to {self.table.name!r} that the history does not know: use `extend`"
            )
        self._grow(np.arange(len(self.owner), records, dtype=np.int64))
        self.recorded = max(self.recorded, records)
        self.heard(entry.user, told_moments(Query.from_json(json.loads(entry.query)), self.table), sets)

    def watched(self, user: str, moments: Moments, *, over_all: bool) -> tuple[str | None, ...]:
        """Name the attackers for whom a question must be judged.

        All together have heard everything that a user has. What determines nobody for them determines nobody for the
        user, and the user need not be watched alone. That changes when somebody is exposed to all together, for
        instance because an insider knows a value: then the others must still not learn it.
        """
        if not over_all:
            return (user,)
        return (user, None) if self.scope(None).is_exposed(moments) else (None,)

    def heard(self, user: str, moments: Moments, sets: Sequence[Ints], judged: Sequence[str | None] = ()) -> None:
        """Take in an answered question, for all together at once, for the user where it is watched alone."""
        for name in (user, None):
            if name in judged:
                self.scope(name).commit(moments, sets)
            elif name is None or name in self._scopes:
                self.scope(name).remember(moments, sets, now=name is None)

    def answered(self, user: str | None, column: str) -> Iterator[tuple[tuple[int, ...], list[Ints]]]:
        """Give what a user (or anybody) was told about a column, from the ledger as far as it was read."""
        for entry in self._ledger.history(self.table.name, user, kinds=("exact",)):
            if entry.id > self.seen:
                return
            if entry.sets is not None:
                moments = told_moments(Query.from_json(json.loads(entry.query)), self.table)
                if column in moments:
                    yield moments[column], unpack_sets(entry.sets)[0]

    def _grow(self, added: Ints) -> None:
        if len(added):
            self.owner = np.append(self.owner, added)
            self.people = max(self.people, int(added.max()) + 1)
            for scope in self._scopes.values():
                scope.extend(added)

    def _know(self, entry: Entry, packed: bytes) -> int:
        columns = json.loads(entry.query)["columns"]
        people = tuple(int(person) for person in unpack_sets(packed)[0][0])
        known = Knowledge(people, None if columns is None else tuple(columns))
        self.known.setdefault(entry.user, []).append(known)
        exposed = 0
        for name, scope in self._scopes.items():
            if name is None or entry.user in (name, EVERYBODY):
                exposed += scope.learn(known)
        return exposed

    def _hear(self, answer: Entry) -> None:
        """Let the interval audits that exist take in the responses of an answer."""
        for name in (answer.user, None):
            scope = self._scopes.get(name)
            for column in scope.intervals if scope is not None else ():
                charge = self._ledger.entry(answer.refers or 0)
                if charge is not None:
                    _tell(charge, answer, scope.intervals[column], column)  # type: ignore[union-attr]

    def scope(self, user: str | None) -> Scope:
        """Give the audits of a user, or (None) of all together."""
        if user not in self._scopes:
            holders = list(self.known) if user is None else [user, EVERYBODY]
            known = [knowledge for holder in holders for knowledge in self.known.get(holder, [])]
            self._scopes[user] = Scope(self.owner, known, self._primes, partial(self.answered, user))
        return self._scopes[user]

    def interval(self, user: str | None, column: str) -> IntervalAudit:
        """Give the interval audit of a column, made from the ledger when it is first needed."""
        scope = self.scope(user)
        if column not in scope.intervals:
            spec = self.table.column(column)
            lower, upper = spec.required_limits()
            whole = spec.type != "number" or spec.whole is not False
            made = IntervalAudit(len(self.owner), lower, upper, integral=whole)
            for known in scope.knowledge:
                if known.about(column):
                    made.know(known.people)
            for answer, charge in sorted(self._settled(user), key=lambda pair: pair[0].id):
                _tell(charge, answer, made, column)
            scope.intervals[column] = made
        return scope.intervals[column]

    def _settled(self, user: str | None) -> Iterator[tuple[Entry, Entry]]:
        """Give the true answers of a user (or of all) with their charges, as far as the ledger was read."""
        for charge in self._ledger.history(self.table.name, user, kinds=("exact",)):
            answer = self._ledger.answer_to(charge.id)
            if answer is not None and answer.id <= self.seen:
                yield answer, charge

    def tell(self, user: str, column: str, members: Ints, response: Response) -> None:
        """Let the interval audits that exist take in a response."""
        for name in (user, None):
            audit = self.scope(name).intervals.get(column)
            if audit is not None:
                audit.tell(members, response)

    def discard(self) -> None:
        """Forget what is pending in all audits."""
        for scope in self._scopes.values():
            scope.discard()

    def forget_intervals(self) -> None:
        """Make the interval audits again from the ledger when next needed."""
        for scope in self._scopes.values():
            scope.intervals.clear()


def _tell(charge: Entry, answer: Entry, audit: IntervalAudit, column: str) -> None:
    """Let an interval audit take in the responses of an answer about a column."""
    responses = json.loads(answer.answer or "{}").get("responses", {}).get(column, ())
    sets = unpack_sets(charge.sets)[0] if charge.sets is not None else []
    for members, (kind, value) in zip(sets, responses, strict=False):
        audit.tell(members, Response(kind, value))
