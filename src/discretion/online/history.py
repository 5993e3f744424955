"""The memory of exact answers: the ledger is the truth, the audits are computed from it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discretion.data.conditions import Scalar
from discretion.errors import DataError, QueryRefused
from discretion.kernels.arrays import Ints
from discretion.online.audit.elements import ascending
from discretion.online.audit.interval import Band, Response
from discretion.online.audit.limits import size_problem
from discretion.online.audit.linear import SQUARES
from discretion.online.audit.memory import EVERYBODY, Memory, pack_owners
from discretion.online.audit.moments import Moments, moments_of
from discretion.online.catalog import TableSpec
from discretion.online.ledger import Charge, Entry, Ledger, Limit, pack_sets
from discretion.online.policy import ExactPolicy
from discretion.online.query import Query

__all__ = ["EVERYBODY", "Admission", "History"]

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


class History:
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
    >>> from discretion.online.query import Aggregate
    >>> columns = {"sex": {"role": "public", "type": "category"}, "income": {"role": "sensitive", "type": "number"}}
    >>> table = TableSpec(name="students", columns=columns)
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = open_ledger(Path(folder.name) / "ledger.db")
    >>> history = History(ledger, table, 9)
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
        self, admission: Admission, sums: Sums, render: Callable[[Mapping[str, list[Response]]], object] | None = None
    ) -> dict[str, list[Response]]:
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

    def _respond(self, column: str, totals: Sequence[float], admission: Admission) -> list[Response]:
        policy, user = admission.policy, admission.entry.user
        names = (user, None) if policy.over_all_users else (user,)
        responses = []
        for members, total in zip(admission.sets, totals, strict=True):
            response = Response("exact", float(total))
            if policy.interval_audit:
                response = Response.to(float(total), self._band(names, column, members, policy.interval_percent))
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
        """Give what `render` made of the answer to the same question, if it was answered since the last update."""
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
