"""The memory of exact answers: the ledger is the truth, the audits are computed from it."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from discretion.data.sql_filter import Scalar
from discretion.errors import DataError, QueryRefused
from discretion.kernels.arrays import Ints
from discretion.online.audit.linear import SQUARES, SUM, AnsweredSum, Band, IntervalAudit, LinearAudit, ascending
from discretion.online.declare import ExactPolicy, TableSpec
from discretion.online.ledger import EACH, Charge, Entry, Ledger, Limit, pack_sets, unpack_sets
from discretion.online.question.query import Query

Moments = Mapping[str, tuple[int, ...]]
"""Sensitive columns, and which powers of their values are added up."""
_POWERS = {"sum": (SUM,), "mean": (SUM,), "variance": (SUM, SQUARES)}


def moments_of(query: Query, table: TableSpec) -> Moments:
    """Return what a question adds up of sensitive columns, or refuse it.

    - Counts over public properties add nothing: anybody could make them. Figures of public columns neither.
    - A sum or a mean is Σx (the number of people is public); a variance is Σx and Σx².
    - A minimum, maximum, quantile, number of different values or a histogram of a sensitive column is not linear: the
      value told belongs to somebody. It is refused; ask under differential privacy.
    - A condition or a group on a sensitive column would make the query set itself depend on values, and so a refusal.
    """
    for name in sorted(query.columns_in_where() | set(query.group_by)):
        if table.column(name).role != "public":
            raise QueryRefused(f"true answers cannot be chosen by the sensitive column {name!r}")
    for aggregate in query.aggregates:
        if aggregate.function == "mode":
            raise QueryRefused("the most frequent category is told under differential privacy only")
        if aggregate.column is None or table.column(aggregate.column).role == "public":
            continue
        if aggregate.function not in _POWERS:
            what = f"{aggregate.function!r} of the sensitive column {aggregate.column!r}"
            raise QueryRefused(f"{what} would tell a value of somebody; there is no true answer to it")
    return told_moments(query, table)


def told_moments(query: Query, table: TableSpec) -> Moments:
    """Return what an answered question added up, also when the declaration has changed since.

    Who was in its query sets stands in the ledger, so it does not matter whether its conditions could be asked today.
    A column that is hidden today, or not declared, keeps what was told about it.
    """
    found: dict[str, set[int]] = {}
    for aggregate in query.aggregates:
        if aggregate.column is not None and aggregate.column not in table.public and aggregate.function in _POWERS:
            found.setdefault(aggregate.column, set()).update(_POWERS[aggregate.function])
    return {column: tuple(sorted(powers)) for column, powers in sorted(found.items())}


def size_problem(people_in_set: int, people: int, least: int) -> str | None:
    """Say what is wrong with the size of a set: too few people in it, or too few outside.

    Everybody together is allowed. An empty set is too: that nobody is in it is public, and nobody's value is told.
    Both sides count, because a small set is as good as its complement to whoever knows the total. Alone this stops
    nobody: a tracker asks for two allowed sets that differ by one person. The audit does.
    """
    if 0 < people_in_set < least:
        return "too few people are in a query set"
    if people_in_set and 0 < people - people_in_set < least:
        return "too few people are outside a query set"
    return None


class AnsweredSets:
    """All different answered sets as bit maps, to see how many records a new one shares with each."""

    def __init__(self) -> None:
        self._bits = np.zeros((16, 0), np.uint8)
        self.count = 0
        self._names: set[bytes] = set()

    def add(self, members: Ints, records: int) -> None:
        """Remember a set."""
        packed = self._packed(members, records)
        name = _name(packed)
        if name in self._names or len(members) == 0:
            return
        self._names.add(name)
        if len(packed) > self._bits.shape[1]:
            wider = np.zeros((len(self._bits), len(packed)), np.uint8)
            wider[:, : self._bits.shape[1]] = self._bits
            self._bits = wider
        if self.count == len(self._bits):
            self._bits = np.vstack([self._bits, np.zeros_like(self._bits)])
        self._bits[self.count, : len(packed)] = packed
        self.count += 1

    def largest_overlap(self, members: Ints, records: int) -> int:
        """Return how many records a set shares at most with an answered one; asking the same set again shares none."""
        whole = self._packed(members, records)
        if self.count == 0 or _name(whole) in self._names:
            return 0
        packed = whole[: self._bits.shape[1]]
        common = np.bitwise_count(self._bits[: self.count, : len(packed)] & packed)
        return int(common.sum(axis=1, dtype=np.int64).max())

    @staticmethod
    def _packed(members: Ints, records: int) -> NDArray[np.uint8]:
        mask = np.zeros(records, np.bool_)
        mask[members] = True
        return np.packbits(mask)


def _name(packed: NDArray[np.uint8]) -> bytes:
    """Return a short name of a set that does not change when records are appended."""
    return hashlib.sha256(packed.tobytes().rstrip(b"\0")).digest()


def overlap_within(sets: list[Ints], records: int) -> int:
    """Return how many records two different sets of one question share at most."""
    seen, most = AnsweredSets(), 0
    for members in sets:
        most = max(most, seen.largest_overlap(members, records))
        seen.add(members, records)
    return most


@dataclass(frozen=True)
class InsiderKnowledge:
    """People whose values somebody knows anyway, in some columns (none: all)."""

    people: tuple[int, ...]
    columns: tuple[str, ...] | None = None

    def about(self, column: str) -> bool:
        """Say whether a column is known."""
        return self.columns is None or column in self.columns


Replay = Callable[[str], Iterable[tuple[tuple[int, ...], Sequence[Ints]]]]
"""Gives for a column the answered questions so far: which powers were added up, over which sets."""


class AttackerAudits:
    """The audits of one attacker, a system of unknowns per sensitive column; made from the ledger when first needed."""

    def __init__(self, owner: Ints, knowledge: Iterable[InsiderKnowledge], primes: int, replay: Replay) -> None:
        self._owner, self._primes, self._replay = owner, primes, replay
        self.knowledge = list(knowledge)
        self.linear: dict[str, LinearAudit] = {}
        self.intervals: dict[str, IntervalAudit] = {}
        self._answered: dict[str, AnsweredSets] = {}

    def audit(self, column: str) -> LinearAudit:
        """Return the linear audit of a column."""
        if column not in self.linear:
            people = int(self._owner.max(initial=-1)) + 1
            made = LinearAudit(people, owner=self._owner, primes=self._primes)
            for known in self.knowledge:
                if known.about(column):
                    made.know(known.people)
            for powers, sets in self._replay(column):
                made.remember(*_rows(powers, sets))
            self.linear[column] = made
        return self.linear[column]

    def is_exposed(self, columns: Iterable[str]) -> bool:
        """Say whether this attacker knows anybody's value in one of the columns."""
        return any(bool(self.audit(column).determined.any()) for column in columns)

    def judge(self, moments: Moments, sets: Sequence[Ints], max_overlap: int | None) -> str | None:
        """Say why a question must be refused, or None; then its rows are pending."""
        for column, powers in moments.items():
            audit = self.audit(column)
            if max_overlap is not None and self._overlap(column, sets) > max_overlap:
                return "a query set shares too many people with an earlier one"
            verdict = audit.judge(*_rows(powers, sets))
            if not verdict.safe:
                return verdict.reason
        return None

    def _overlap(self, column: str, sets: Sequence[Ints]) -> int:
        records = len(self._owner)
        if column not in self._answered:
            self._answered[column] = AnsweredSets()
            for _, told in self._replay(column):
                self._note(column, told)
        earlier = max((self._answered[column].largest_overlap(members, records) for members in sets), default=0)
        return max(earlier, overlap_within(list(sets), records))

    def commit(self, moments: Moments, sets: Sequence[Ints]) -> None:
        """Keep what is pending."""
        for column in moments:
            self.linear[column].commit()
            self._note(column, sets)

    def discard(self) -> None:
        """Forget what is pending."""
        for audit in self.linear.values():
            audit.discard()

    def remember(self, moments: Moments, sets: Sequence[Ints], *, now: bool = True) -> None:
        """Take in an answered question; unless `now`, audits that do not exist yet will read it in the ledger."""
        for column, powers in moments.items():
            if now or column in self.linear:
                self.audit(column).remember(*_rows(powers, sets))
            self._note(column, sets)

    def _note(self, column: str, sets: Sequence[Ints]) -> None:
        """Remember answered sets for the limit of overlaps, where somebody has one."""
        if column in self._answered:
            for members in sets:
                self._answered[column].add(members, len(self._owner))

    def learn(self, known: InsiderKnowledge) -> int:
        """Take in what this attacker knows anyway; give how many other people that exposes."""
        self.knowledge.append(known)
        exposed = [audit.know(known.people) for column, audit in self.linear.items() if known.about(column)]
        for column, audit in self.intervals.items():
            if known.about(column):
                audit.know(known.people)
        return sum(exposed)

    def extend(self, owner: Ints) -> None:
        """Take in appended records."""
        self._owner = np.append(self._owner, owner)
        for audit in self.linear.values():
            audit.extend(owner=owner)
        for interval in self.intervals.values():
            interval.extend(len(owner))


def _rows(powers: Sequence[int], sets: Sequence[Ints]) -> tuple[list[Ints], list[int]]:
    """List every set with every power."""
    return [members for members in sets for _ in powers], [power for _ in sets for power in powers]


EVERYBODY = EACH
"""In place of a user: everybody knows it, for instance whose value is missing."""


def pack_owners(start: int, owner: Ints) -> tuple[str, bytes]:
    """Return what the entry of an update says about appended records."""
    return json.dumps({"start": start, "records": len(owner)}), zlib.compress(owner.astype("<i8").tobytes())


class Memory:
    """The audits of each user and of all together; the same entries always give the same state."""

    def __init__(self, table: TableSpec, owner: Ints, primes: int, ledger: Ledger) -> None:
        self.table, self.owner = table, owner
        self.people = int(owner.max(initial=-1)) + 1
        """the number of people so far"""
        self.known: dict[str, list[InsiderKnowledge]] = {}
        self.seen = 0
        self.recorded = 0
        """records that the ledger knows of"""
        self._scopes: dict[str | None, AttackerAudits] = {}
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
        """Return what a user (or anybody) was told about a column, from the ledger as far as it was read."""
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
        known = InsiderKnowledge(people, None if columns is None else tuple(columns))
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

    def scope(self, user: str | None) -> AttackerAudits:
        """Return the audits of a user, or (None) of all together."""
        if user not in self._scopes:
            holders = list(self.known) if user is None else [user, EVERYBODY]
            known = [knowledge for holder in holders for knowledge in self.known.get(holder, [])]
            self._scopes[user] = AttackerAudits(self.owner, known, self._primes, partial(self.answered, user))
        return self._scopes[user]

    def interval(self, user: str | None, column: str) -> IntervalAudit:
        """Return the interval audit of a column, made from the ledger when it is first needed."""
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
        """Return the true answers of a user (or of all) with their charges, as far as the ledger was read."""
        for charge in self._ledger.history(self.table.name, user, kinds=("exact",)):
            answer = self._ledger.answer_to(charge.id)
            if answer is not None and answer.id <= self.seen:
                yield answer, charge

    def tell(self, user: str, column: str, members: Ints, response: AnsweredSum) -> None:
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
        audit.tell(members, AnsweredSum(kind, value))


__all__ = ["EVERYBODY", "Admission", "AnswerHistory"]

GroupKey = tuple[Scalar | None, ...]
Sums = Mapping[str, Sequence[float]]
"""For each sensitive column the true sums, one per set of the admission, in its order."""


@dataclass(frozen=True)
class Admission:
    """A question that may be answered; its charge is in the ledger."""

    entry: Entry
    keys: tuple[GroupKey, ...]
    """groups that are answered, in order"""
    sets: tuple[Ints, ...]
    """records of each group"""
    columns: tuple[str, ...]
    """sensitive columns of which sums are told"""
    policy: ExactPolicy


class AnswerHistory:
    """Decide which true answers may be given, remember them in the ledger, and rebuild everything after a restart.

    Guarantees: a question is admitted only if, with all questions answered to the same user, and with all answered to
    anybody (collusion), it determines nobody's value; see `LinearAudit` for what that means and `IntervalAudit` for
    values with bounds. Decision and charge are one transaction of the ledger, so that two servers on the same ledger
    decide as one would. A question that was charged counts as answered, even if the answer never went out.

    Refusals depend on query sets and earlier responses, never on values that were not told.

    Parameters
    ----------
    ledger : where questions are charged.
    table : roles and bounds of the columns.
    records : the number of records (each a person), or for each record the number of its person.
    primes : see `LinearAudit`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from discretion.online.ledger import open_ledger
    >>> from discretion.online.question.query import Aggregate
    >>> columns = {"sex": {"role": "public", "type": "category"}, "income": {"role": "sensitive", "type": "number"}}
    >>> table = TableSpec(name="students", columns=columns)
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = open_ledger(Path(folder.name) / "ledger.db")
    >>> history = AnswerHistory(ledger, table, 9)
    >>> query, policy = Query("students", (Aggregate("sum", "income"),)), ExactPolicy(min_query_size=2)
    >>> admission = history.admit("ann", query, {(): np.arange(9)}, policy)
    >>> history.settle(admission, {"income": [598_000.0]})["income"]
    [Response(kind='exact', value=598000.0)]
    >>> history.admit("bob", query, {(): np.arange(8)}, ExactPolicy(min_query_size=2))
    Traceback (most recent call last):
    ...
    discretion.errors.QueryRefused: too few people are outside a query set
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, ledger: Ledger, table: TableSpec, records: int | Ints, *, primes: int = 1) -> None:
        self.ledger, self.table = ledger, table
        owner = np.arange(records, dtype=np.int64) if isinstance(records, int) else np.asarray(records, np.int64)
        self._memory = Memory(table, owner, primes, ledger)
        self._lock = threading.RLock()
        self._memory.recall()
        if self._memory.recorded > len(owner):
            raise DataError(f"{table.name!r} has fewer records than were asked about; records are only ever appended")
        if 0 < self._memory.recorded < len(owner):
            self._note_growth(self._memory.recorded, owner[self._memory.recorded :], "owner")

    @property
    def people(self) -> int:
        """The number of people so far."""
        return self._memory.people

    @property
    def insiders(self) -> list[tuple[tuple[int, ...], tuple[str, ...] | None]]:
        """Who is known to somebody anyway, and in which columns (none: in all)."""
        return [(known.people, known.columns) for listed in self._memory.known.values() for known in listed]

    def admit(
        self,
        user: str,
        query: Query,
        sets: Mapping[GroupKey, Ints],
        policy: ExactPolicy,
        limits: Iterable[Limit] = (),
        everybody: int | None = None,
    ) -> Admission:
        """Charge a question that may be answered truly; raise QueryRefused (and note it) for any other.

        `sets` are the records of each group, chosen by public columns only. `everybody` is the number of people who
        have a value at all, where some have none; the size of the rest is counted among them.
        """
        name, canonical = query.digest(), json.dumps(query.canonical().to_json(), sort_keys=True, ensure_ascii=False)
        groups = [(key, ascending(np.asarray(members, np.int64))) for key, members in sets.items()]
        with self._lock:
            reason, entry, moments = self._judge_and_charge(
                user, name, canonical, query, groups, policy, tuple(limits), everybody
            )
        if entry is None:
            raise QueryRefused(reason)
        keys, members = tuple(key for key, _ in groups), tuple(found for _, found in groups)
        return Admission(entry, keys, members, tuple(moments), policy)

    def _judge_and_charge(
        self,
        user: str,
        name: str,
        canonical: str,
        query: Query,
        groups: Sequence[tuple[GroupKey, Ints]],
        policy: ExactPolicy,
        limits: tuple[Limit, ...],
        everybody: int | None,
    ) -> tuple[str, Entry | None, Moments]:
        memory = self._memory
        moments: Moments = {}
        sets = [members for _, members in groups]
        try:
            with self.ledger.page() as page:
                memory.catch_up(page.entries_after(memory.seen, self.table.name))
                reason, moments = self._reason(user, query, sets, policy, everybody)
                if reason is None:
                    packed = pack_sets(sets, len(memory.owner)) if moments else None
                    entry = page.charge(Charge(user, self.table.name, "exact", name, canonical, sets=packed), limits)
                else:
                    noted = json.dumps({"query": json.loads(canonical), "reason": reason}, ensure_ascii=False)
                    page.charge(Charge(user, self.table.name, "refused", name, noted))
        except BaseException:
            memory.discard()
            raise
        memory.seen = page.head.id
        if reason is not None:
            memory.discard()
            return reason, None, moments
        memory.recorded = max(memory.recorded, len(memory.owner)) if moments else memory.recorded
        memory.heard(user, moments, sets, memory.watched(user, moments, over_all=policy.over_all_users))
        return "", entry, moments

    def _reason(
        self, user: str, query: Query, sets: Sequence[Ints], policy: ExactPolicy, everybody: int | None
    ) -> tuple[str | None, Moments]:
        """Say why a question is refused (or None), and what it adds up."""
        try:
            moments = moments_of(query, self.table)
            self._check_policy(moments, policy)
        except QueryRefused as refusal:
            return str(refusal), {}
        if not moments:
            return None, moments
        for members in sets:
            if len(members) and (members[0] < 0 or members[-1] >= len(self._memory.owner)):
                raise DataError(f"a query set names a record outside 0 … {len(self._memory.owner) - 1}")
            problem = size_problem(
                self.people_in(members), self.people if everybody is None else everybody, policy.min_query_size
            )
            if problem is not None:
                return problem, moments
        for name in self._memory.watched(user, moments, over_all=policy.over_all_users):
            problem = self._memory.scope(name).judge(moments, sets, policy.max_overlap)
            if problem is not None:
                return problem, moments
        return None, moments

    def people_in(self, members: Ints) -> int:
        """Count the people of a set of records."""
        if self.people == len(self._memory.owner):
            return len(members)
        inside = np.zeros(self.people, np.bool_)
        inside[self._memory.owner[members]] = True
        return int(inside.sum())

    def _check_policy(self, moments: Moments, policy: ExactPolicy) -> None:
        squared = [column for column, powers in moments.items() if SQUARES in powers]
        if squared and (not policy.variance or policy.interval_audit):
            raise QueryRefused(f"variances of the sensitive column {squared[0]!r} are not told")
        if not policy.interval_audit:
            yes_no = [column for column in moments if self.table.column(column).is_yes_or_no]
            if yes_no:  # a count of 0, or of all, tells everybody's value
                raise QueryRefused(f"counts of the sensitive yes-or-no column {yes_no[0]!r} need the interval audit")
            return
        for column in moments:
            if self.table.column(column).limits is None:
                raise QueryRefused(f"the column {column!r} has no declared bounds, which the interval audit needs")
        if moments and self.people < len(self._memory.owner):
            raise QueryRefused("the interval audit needs tables with one record per person")

    def settle(
        self,
        admission: Admission,
        sums: Sums,
        render: Callable[[Mapping[str, list[AnsweredSum]]], object] | None = None,
    ) -> dict[str, list[AnsweredSum]]:
        """Turn true sums into responses, record the answer, and only then give the responses back.

        Without the interval audit they are the sums. With it a sum may be told as a bound, or withheld, set by set; a
        set is judged with the responses to those before it. `render` makes the answer that is stored for re-asking.
        """
        wrong = [column for column in admission.columns if len(sums.get(column, ())) != len(admission.sets)]
        if wrong or set(sums) != set(admission.columns):
            raise DataError("the sums do not fit the admitted question: one for each sensitive column and set")
        memory = self._memory
        with self._lock:
            try:
                with self.ledger.page() as page:
                    memory.catch_up(page.entries_after(memory.seen, self.table.name))
                    responses = {c: self._respond(c, sums[c], admission) for c in admission.columns}
                    told = {c: [(r.kind, r.value) for r in listed] for c, listed in responses.items()}
                    content = {"responses": told, "answer": None if render is None else render(responses)}
                    page.answer(admission.entry.id, json.dumps(content, ensure_ascii=False))
            except BaseException:
                memory.forget_intervals()
                raise
            memory.seen = page.head.id
        return responses

    def _respond(self, column: str, totals: Sequence[float], admission: Admission) -> list[AnsweredSum]:
        policy, user = admission.policy, admission.entry.user
        names = (user, None) if policy.over_all_users else (user,)
        responses = []
        for members, total in zip(admission.sets, totals, strict=True):
            response = AnsweredSum("exact", float(total))
            if policy.interval_audit:
                response = AnsweredSum.to(float(total), self._band(names, column, members, policy.interval_percent))
            self._memory.tell(user, column, members, response)
            responses.append(response)
        return responses

    def _band(self, names: Iterable[str | None], column: str, members: Ints, percent: float) -> Band | None:
        band: Band | None = Band(-math.inf, math.inf)
        for name in names:
            audit = self._memory.interval(name, column)
            width = (audit.upper - audit.lower) * percent / 100
            band = None if band is None else band.within(audit.band(members, width=width))
        return band

    def find_answer(self, query: Query, *, user: str | None = None) -> object | None:
        """Return what `render` made of the answer to the same question, if it was answered since the last update."""
        found = self.ledger.find_answer(self.table.name, query.digest(), user=user, kind="exact")
        if found is None or found.answer is None:
            return None
        stored: object | None = json.loads(found.answer).get("answer")
        return stored

    def learn(self, user: str, people: Iterable[int], columns: Sequence[str] | None = None) -> int:
        """Take in that a user (or EVERYBODY) knows people's values; give how many others their answers now expose."""
        wanted = sorted({int(person) for person in people})
        names = None if columns is None else tuple(sorted(columns))
        if wanted and not 0 <= wanted[0] <= wanted[-1] < self.people:
            raise DataError(f"people are numbered 0 … {self.people - 1}")
        memory = self._memory
        with self._lock:
            with self.ledger.page() as page:
                memory.catch_up(page.entries_after(memory.seen, self.table.name))
                known = {p for k in memory.known.get(user, []) if k.columns in (None, names) for p in k.people}
                new = np.array([person for person in wanted if person not in known], np.int64)
                if len(new) == 0:
                    return 0
                about, packed = json.dumps({"columns": names}), pack_sets([new], self.people)
                entry = page.charge(Charge(user, self.table.name, "insider", "", about, sets=packed))
            return memory.catch_up([entry])

    def extend(self, owner: int | Ints, *, user: str = "owner") -> None:
        """Take in appended records: so many new people, or for each new record the number of its person.

        Answers recorded before are no longer given back as if they were current.
        """
        added = self.people + np.arange(owner) if isinstance(owner, int) else np.asarray(owner)
        with self._lock:
            self._note_growth(None, added.astype(np.int64), user)

    def _note_growth(self, start: int | None, added: Ints, user: str) -> None:
        with self.ledger.page() as page:
            self._memory.catch_up(page.entries_after(self._memory.seen, self.table.name))
            about, packed = pack_owners(len(self._memory.owner) if start is None else start, added)
            entry = page.charge(Charge(user, self.table.name, "update", "", about, sets=packed))
        self._memory.catch_up([entry])
