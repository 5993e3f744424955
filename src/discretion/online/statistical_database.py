"""The statistical database: questions in, statistics out, and a memory of everything that was told.

The audit takes each person's value as one unknown for all time. A value that changed between two answers would show in
their difference, and nothing in the history would know. So the ledger keeps a digest of every column; it is keyed with
the secret of the service, because whoever knows all values but one could otherwise try out the last.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.data.codes import plain
from discretion.data.sql_filter import is_text
from discretion.errors import DataError, PlanError, QueryRefused
from discretion.online.audit.exact import ExactMode, SumProtection
from discretion.online.audit.history import AnswerHistory
from discretion.online.backends import Backend, Limits, open_backend, table_of
from discretion.online.declare import DpPolicy, ExactPolicy, Policy, ServiceSpec, TableSpec, checked_name, declare
from discretion.online.dp.answer import NOTE, PrivateMode, SyntheticFile
from discretion.online.ledger import Entry, Kind, Ledger, Limit, open_ledger, utc_now
from discretion.online.perturbed import CellKeys, PerturbedMode
from discretion.online.question.answer import Answer, AnswerMode, Desk, Estimate, RequestedAccuracy, TableBudget
from discretion.online.question.query import Query, admit, parse_sql
from discretion.privacy.accounting import PrivacyFilter

if TYPE_CHECKING:
    import polars as pl

_SERVICE = "service"

# Whether two tables hold the same people's values: in order, or most of them in any order, under whatever names.
#
# Signs are kept in the ledger, so they tell as little as they can: the order is one keyed digest, and of the values
# only 16 bits of 64 keyed digests are kept, which any value agrees with by chance.

_RUNS = 32
"""changes from row to row from which on equal values in the same order are no accident"""
_KEPT = 64
_SIGN_BYTES = 2


class Sign(NamedTuple):
    """What is remembered of a column."""

    rows: int
    order: str
    """digest of the values in their order; "" where they change too seldom"""
    some: tuple[int, ...]
    """digests of 64 values that the key chooses; none where fewer than half as many values differ as there are rows"""


def signs(backend: Backend, table: str, key: bytes, rows: int | None = None) -> dict[str, Sign]:
    """Return the signs of the visible columns, of all rows or of the first ones; reads each column once."""
    found = {}
    for name in table_of(backend.tables, table).visible:
        values = _plain(backend.column(table, name))
        found[name] = _sign(values if rows is None else values.head(rows), key)
    return found


def alike(some: Mapping[str, Sign], others: Mapping[str, Sign]) -> tuple[str, str] | None:
    """Name two columns that hold the same values in the same order, or half of whose values are the same.

    Examples
    --------
    >>> first, second = Sign(40, "a1", ()), Sign(40, "a1", ())
    >>> alike({"age": first}, {"years": second}), alike({"age": first}, {"years": Sign(40, "b2", ())})
    (('age', 'years'), None)
    """
    for one, sign in some.items():
        for other, known in others.items():
            in_order = sign.order == known.order != "" and sign.rows == known.rows
            if in_order or len({*sign.some} & {*known.some}) >= _KEPT // 2:
                return one, other
    return None


def _plain(values: pl.Series) -> pl.Series:
    """Return numbers as floats and everything else as text, so that types do not matter."""
    import polars as pl

    number = values.dtype.is_numeric() or values.dtype == pl.Boolean
    return plain(values.cast(pl.Float64)) if number else values.cast(pl.String)


def _sign(values: pl.Series, key: bytes) -> Sign:
    runs = int(values.ne_missing(values.shift()).sum())
    different = values.drop_nulls().unique()
    is_long = len(different) >= max(_KEPT, len(values) / 2)
    return Sign(len(values), _order(values, key) if runs >= _RUNS else "", _some(different, key) if is_long else ())


def _order(values: pl.Series, key: bytes) -> str:
    digest = hashlib.blake2b(key=hmac.digest(key, b"order", "sha256"), digest_size=16)
    digest.update(values.is_null().to_numpy().tobytes())
    if values.dtype.is_float():
        digest.update(values.fill_null(0).to_numpy().tobytes())
    else:
        digest.update(values.str.len_bytes().fill_null(0).to_numpy().tobytes())
        digest.update((values.str.join("").item() or "").encode())
    return digest.hexdigest()


def _some(different: pl.Series, key: bytes) -> tuple[int, ...]:
    """Choose values by a keyed mix of their bits, the same ones wherever they stand, and give digests of them."""
    pieces: list[bytes]
    if different.dtype.is_float():
        bits = different.to_numpy().view(np.uint64)
        chosen = bits[np.argsort(_mixed(bits, key), kind="stable")[:_KEPT]]
        pieces = [int(value).to_bytes(8, "little") for value in chosen]
    else:
        texts = [text.encode() for text in different.to_list()]
        pieces = sorted(texts, key=lambda text: hashlib.blake2b(text, key=key[:32], digest_size=8).digest())[:_KEPT]
    inner = hmac.digest(key, b"values", "sha256")
    found = (hashlib.blake2b(piece, key=inner, digest_size=_SIGN_BYTES).digest() for piece in pieces)
    return tuple(sorted({int.from_bytes(short, "little") for short in found}))


def _mixed(bits: NDArray[np.uint64], key: bytes) -> NDArray[np.uint64]:
    """Scatter numbers by a key (the finalizer of splitmix64 twice)."""
    first, second = np.frombuffer(hmac.digest(key, b"mix", "sha256")[:16], np.uint64)
    found = bits.copy()
    for start in (first, second):
        found ^= start
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
        found ^= found >> np.uint64(31)
    return found


PEOPLE = ""
"""stands for the people of the rows, in place of the name of a column"""
_TOLD: tuple[Kind, ...] = ("exact", "perturbed")


def tables_about(ledger: Ledger, people: str) -> tuple[str, ...]:
    """Name the tables that the ledger knows to be, or to have been, about some people."""
    found = (
        entry.table for entry in ledger.history(kinds=("update",)) if json.loads(entry.query).get("people") == people
    )
    return tuple(dict.fromkeys(found))


def told_about(ledger: Ledger, table: str) -> bool:
    """Say whether true or perturbed figures about a table were charged."""
    return next(ledger.history(table, kinds=_TOLD), None) is not None


@dataclass(frozen=True)
class Values:
    """The digests of one table's columns, in the ledger.

    Without a `secret` that outlives the service nothing is kept, and changes between two runs are not noticed.
    """

    desk: Desk
    secret: bytes | None

    def note(self) -> None:
        """Compare with what the ledger knows, then write down what is new: answers from before are out of date.

        Raises DataError when rows are gone, or when values have changed of which true or perturbed figures were told.
        Private answers do not rely on earlier ones, and who is chosen by public columns stands in the history itself.
        """
        name, rows = self.desk.table.name, self.desk.backend.rows(self.desk.table.name)
        last = self._last()
        known = None if last is None else last["start"] + last["records"]
        if known is not None and known > rows:
            raise DataError(f"table {name!r} has fewer rows than the ledger knows; rows may only be appended")
        kept: dict[str, list[Any]] = {} if last is None else last.get("values", {})
        same = self._check(kept)
        people = {"people": self.desk.table.people} if self.desk.table.people else {}
        noted = people == {key: value for key, value in (last or {}).items() if key == "people"}
        signed = set(self.desk.table.visible) <= set((last or {}).get("signs", {}))
        if known == rows and (self.secret is None or (same and signed)) and noted:
            return
        found = {column: [rows, digest] for column, digest in self._digests(self._columns(), rows).items()}
        about = {"start": rows, "records": 0, **people, **({"values": {**kept, **found}} if found else {})}
        if self.secret is not None:
            about["signs"] = signs(self.desk.backend, name, self._likeness)
        self.desk.ledger.charge(_SERVICE, name, "", kind="update", query=json.dumps(about, sort_keys=True))

    def require_new(self) -> None:
        """Raise PlanError when a table that the ledger does not know holds a column of one that it does.

        Under another name the same data would have its whole budget again. A column is recognized under any name by its
        values in the same order, also with rows appended; one of many different values also in another order and with
        up to half of the rows exchanged. A declared `people` says whose budget it is.
        """
        table, ledger = self.desk.table, self.desk.ledger
        if self.secret is None or table.people or self._last() is not None:
            return
        updates = [(entry.table, json.loads(entry.query)) for entry in ledger.history(kinds=("update",))]
        known = {name: about.get("values") for name, about in updates}
        signed = {name: {c: Sign(*s) for c, s in about["signs"].items()} for name, about in updates if "signs" in about}
        for earlier, signs_of in signed.items():
            self._require_unlike(earlier, signs_of)
        telling = {column for column, sign in self.desk.backend.signatures(table.name).items() if sign}
        for earlier, values in known.items():
            shared = [column for column in values or {} if column in telling]
            for rows in {values[column][0] for column in shared}:
                found = self._digests(shared, rows, earlier) if rows <= self.desk.backend.rows(table.name) else {}
                if same := [column for column, digest in found.items() if values[column] == [rows, digest]]:
                    raise self._known_already(same[0] or "the people", earlier)

    def _require_unlike(self, earlier: str, known: dict[str, Sign]) -> None:
        """Raise PlanError when a column holds the values of one that the ledger knows."""
        backend, name = self.desk.backend, self.desk.table.name
        whole = backend.rows(name)
        for rows in {whole, *(sign.rows for sign in known.values() if sign.rows < whole)}:
            if (found := alike(signs(backend, name, self._likeness, rows), known)) is not None:
                raise self._known_already(", ".join(dict.fromkeys(found)), earlier)

    def _known_already(self, columns: str, earlier: str) -> PlanError:
        return PlanError(
            f"table {self.desk.table.name!r} holds the values ({columns}) of the table {earlier!r}, which this ledger "
            "knows: give it that name again, so that budget and history go on, or say with `people: NAME` whom it is "
            "about"
        )

    @property
    def _likeness(self) -> bytes:
        """The key of the signs, the same for all tables."""
        return hmac.digest(self.secret or b"", b"likeness", "sha256")

    def check(self) -> None:
        """Raise DataError when values have changed of which true or perturbed figures were told."""
        last = self._last()
        if last is not None:
            self._check(last.get("values", {}))

    def _check(self, kept: dict[str, list[Any]]) -> bool:
        """Say whether every column is kept and has its digest; raise when one that matters has not."""
        columns = self._columns()
        changed: set[str] = set()
        for rows in sorted({rows for column, (rows, _) in kept.items() if column in columns}):
            wanted = [column for column in columns if column in kept and kept[column][0] == rows]
            found = self._digests(wanted, rows)
            changed |= {column for column, digest in found.items() if digest != kept[column][1]}
        self.require_untold(changed)
        return not changed and set(columns) <= set(kept)

    def require_untold(self, changed: set[str]) -> None:
        """Raise DataError when figures were told of columns whose values have changed."""
        told = self._told() if changed else set()
        problems = [self._problem(column) for column in (PEOPLE, *self.desk.table.visible) if column in changed & told]
        if problems:
            raise DataError("\n".join(problems))

    def _problem(self, column: str) -> str:
        what = "the people of earlier rows" if column == PEOPLE else f"column {column!r}: earlier values"
        return (
            f"table {self.desk.table.name!r}, {what} are not what they were when figures about them were told; new "
            "figures beside the old ones would tell whom the change is about. Put the earlier data back and append "
            "what is new as new rows, or serve the changed data as a table of another name with the same `people` and "
            "a policy of mode dp"
        )

    def _told(self) -> set[str]:
        """Name the columns of which true or perturbed figures were told, and the people with them."""
        found: set[str] = set()
        for entry in self.desk.ledger.history(self.desk.table.name, kinds=_TOLD):
            query = Query.from_json(json.loads(entry.query))
            measured = {a.column for a in query.aggregates if a.column is not None}
            found |= measured - set(self.desk.table.public)
        return {*found, PEOPLE} if found else found

    def _last(self) -> dict[str, Any] | None:
        """Return what the last update says, with the digests of the last one that has any."""
        found: dict[str, Any] | None = None
        for entry in self.desk.ledger.latest(self.desk.table.name, "update"):
            about = json.loads(entry.query)
            found = found or about
            if "values" in about or self.secret is None:
                return {**found, "values": about.get("values", {}), "signs": about.get("signs", {})}
        return found

    def _columns(self) -> tuple[str, ...]:
        return () if self.secret is None else (PEOPLE, *self.desk.table.visible)

    def _digests(self, columns: Iterable[str], rows: int, name: str | None = None) -> dict[str, str]:
        """Return digests of the first rows, with the key of this table, or of one of another name."""
        wanted = tuple(columns)
        if self.secret is None or not wanted:
            return {}
        key = hmac.digest(self.secret, b"values of " + (name or self.desk.table.name).encode(), "sha256")
        return self.desk.backend.digests(self.desk.table.name, wanted, rows, key)


class Turns:
    """One at a time for each name: of two equal questions asked at once, the second finds the first one's answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextmanager
    def take(self, name: Hashable) -> Iterator[None]:
        """Wait until nobody else has this name."""
        with self._guard:
            lock, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._held[name]
                if waiting == 1:
                    del self._held[name]
                else:
                    self._held[name] = (lock, waiting - 1)


class GrowthLock:
    """Many read a table, or one lets it grow: an answer and its audit speak about the same rows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._growing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the table as it is."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Wait for the readers and keep new ones out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._growing = True
            self._changed.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            with self._changed:
                self._growing = False
                self._changed.notify_all()


_RULES = {"none": "dp only", "groups": "base groups", "audit": "linear audit"}


class TableService:
    """One table: all its users share its history, its budget and its cell keys."""

    def __init__(
        self,
        spec: ServiceSpec,
        name: str,
        backend: Backend,
        ledger: Ledger,
        secret: bytes,
        *,
        lasting: bool = False,
    ) -> None:
        self.table, self.growth = spec.tables[name], GrowthLock()
        self._spec, self._desk = spec, Desk(self.table, backend, ledger, spec.server.max_groups, self._confirm)
        self._looking = threading.Lock()
        self._keys = CellKeys(secret, name)
        policies = {user: spec.policy_for(user, name) for user in spec.users if name in spec.tables_for(user)}
        earlier = tables_about(ledger, self.table.people) if self.table.people else ()
        self._people = tuple(dict.fromkeys((*spec.same_people(name), *earlier)))
        self._shared = shared_limits(spec, name, self._people)
        for limit in self._shared:  # add up now what everybody spent, not while the first user waits
            ledger.remaining(limit, _SERVICE)
        self.history: AnswerHistory | None = None
        self._protection: SumProtection | None = None
        if any(isinstance(policy, ExactPolicy) for policy in policies.values()):
            self.history = AnswerHistory(ledger, self.table, backend.person_of_rows(name))
            self._teach(self.history)
            self._protection = SumProtection(self._desk, self.history.insiders)
        self._modes = {user: self._made(policy) for user, policy in policies.items()}
        self._values = Values(self._desk, secret if lasting else None)
        self._values.require_new()
        self._values.note()
        self._key = secrets.token_bytes(32)
        self._version = ""
        self._digests: dict[str, str] = {}
        self._look()

    def mode(self, user: str) -> AnswerMode:
        """Return the way in which a user is answered."""
        self._spec.table_for(user, self.table.name)
        return self._modes[user]

    def rules(self) -> dict[str, tuple[str, str]]:
        """Say for each sensitive column by which rule it is answered, and why."""
        if self._protection is None:
            named = [name for name in self.table.visible if self.table.columns[name].role == "sensitive"]
            return dict.fromkeys(named, (_RULES["none"], "nobody has true answers about this table"))
        return {name: (_RULES[found.rule], found.why) for name, found in self._protection.rulings().items()}

    def watch(self, mode: AnswerMode) -> None:
        """Raise DataError when known rows were written to so that values changed of which figures were told.

        Asked before a true or a perturbed answer is computed; private answers do not rely on earlier ones.
        """
        if mode.name != "dp":
            self._changed()

    def _confirm(self) -> None:
        """Raise DataError when known rows were written to while a question was answered.

        The history says who is in the answer, and the answer may be about others by now, or about other values. So it
        is not recorded and nobody hears it, now or later; its charge stays and counts as answered, which forbids more
        than it must and never less.
        """
        if self._changed():
            raise DataError(
                f"table {self.table.name!r} was written to while the question was answered; nothing was told, ask again"
            )

    def _changed(self) -> set[str]:
        """Name the columns whose known values were written to since the last look; raise when one of them was told."""
        with self._looking:
            if self._desk.backend.version(self.table.name) == self._version:
                return set()
            before = self._digests
            self._look()
            changed = {column for column, digest in self._digests.items() if digest != before[column]}
            try:
                self._values.require_untold(changed)
            except DataError:
                self._digests = before
                self._version = "?"  # looked at again by the next question
                raise
            return changed

    def _look(self) -> None:
        """Remember what stands in the table, where others can write to it."""
        backend, name = self._desk.backend, self.table.name
        self._version, self._digests = backend.version(name), {}
        if self._version:
            self._digests = backend.digests(name, (PEOPLE, *self.table.visible), backend.rows(name), self._key)

    def refresh(self, data: Any = None) -> int:
        """Let appended rows in while nobody is being answered."""
        name, backend = self.table.name, self._desk.backend
        with self.growth.growing():
            self._values.check()
            before = backend.rows(name)
            people = backend.refresh(name, data)
            added = backend.person_of_rows(name)[before:]
            if len(added) and self.history is not None:
                self.history.extend(added, user=_SERVICE)
            if len(added) and self._protection is not None:
                self._protection.refresh()
            self._values.note()
            self._look()
        return people

    def _made(self, policy: Policy) -> AnswerMode:
        if isinstance(policy, DpPolicy):
            return PrivateMode(self._desk, policy, self._people, self._shared)
        if isinstance(policy, ExactPolicy):
            if self.history is None or self._protection is None:
                raise PlanError("true answers need a history")
            return ExactMode(self._desk, policy, self.history, self._protection)
        return PerturbedMode(self._desk, policy, self._keys)

    def _teach(self, history: AnswerHistory) -> None:
        """Tell the audits what users know anyway."""
        for user, spec in self._spec.users.items():
            if keys := spec.knows.get(self.table.name):
                history.learn(user, (int(n) for n in self._desk.backend.find_people(self.table.name, keys)))


def shared_limits(spec: ServiceSpec, name: str, people: tuple[str, ...]) -> tuple[Limit, ...]:
    """Give the budgets of all users together for the people of a table: its own, and those of tables about the same."""
    tables = [spec.tables[one] for one in spec.same_people(name)]
    budgets = {(table.epsilon, table.delta) for table in tables if table.epsilon is not None}
    return tuple(Limit(PrivacyFilter(epsilon, delta), people) for epsilon, delta in sorted(budgets))


def check_people(spec: ServiceSpec, backend: Backend, ledger: Ledger) -> None:
    """Raise when two tables seem to be about the same people and nobody said whether they are, or tell both truly.

    True and perturbed figures are judged beside what was told of the same table. So of the tables about some people,
    those that the ledger knows among them, only one has such answers, for ever.
    """
    names = list(spec.tables)
    key, several = secrets.token_bytes(32), names if len(names) > 1 else []
    equal_signs = {name: backend.signatures(name) for name in several}
    known = {name: signs(backend, name, key) for name in several}
    problems = [
        f"table {name!r} is a join: only policies of mode dp can answer about it"
        for name, table in spec.tables.items()
        if table.join is not None
        for user in spec.users
        if name in spec.tables_for(user) and not isinstance(spec.policy_for(user, name), DpPolicy)
    ][:1]
    for one, other in combinations(names, 2):
        first, second = spec.tables[one], spec.tables[other]
        if other in spec.same_people(one):
            if all(_tells(spec, name) for name in (one, other)):
                problems.append(
                    f"tables {one!r} and {other!r} are about the same people: only one of them can be answered "
                    "exactly or perturbed, since each knows its own history only; give the other a policy of mode dp"
                )
        elif first.people is None or second.people is None:
            first_signs, second_signs = equal_signs[one], equal_signs[other]
            equal = [(a, b) for a, sign in first_signs.items() for b in second_signs if sign == second_signs[b] != ""]
            if found := equal[0] if equal else alike(known[one], known[other]):
                a, b = (name or "the people" for name in found)
                problems.append(
                    f"tables {one!r} and {other!r} hold the same values ({a}, {b}): if they are about the same people, "
                    "give both the same `people: NAME`, so that they share one budget; if not, give each its own"
                )
    for name, table in spec.tables.items():
        earlier = tables_about(ledger, table.people) if table.people and _tells(spec, name) else ()
        problems += [
            f"true or perturbed figures about the people of {name!r} were told from the table {other!r}: give {name!r} "
            "a policy of mode dp"
            for other in earlier
            if other != name and told_about(ledger, other)
        ]
    if problems:
        raise PlanError(problems)


def _tells(spec: ServiceSpec, name: str) -> bool:
    """Say whether somebody has true or perturbed answers about a table."""
    users = [user for user in spec.users if name in spec.tables_for(user) and spec.user(user).role != "auditor"]
    return any(not isinstance(spec.policy_for(user, name), DpPolicy) for user in users)


def check_budgets(spec: ServiceSpec) -> None:
    """Raise when the budget of a table has no δ and its users need one."""
    problems = [
        f"table {name!r} has a budget without `delta`, and its users count {' and '.join(found)}: give it a δ"
        for name, table in spec.tables.items()
        if table.epsilon is not None and not table.delta and (found := _accountants(spec, name) - {"pure"})
    ]
    if problems:
        raise PlanError(problems)


def _accountants(spec: ServiceSpec, name: str) -> set[str]:
    tables = spec.same_people(name)
    policies = [spec.policy_for(user, one) for user in spec.users for one in spec.tables_for(user) if one in tables]
    return {policy.accountant for policy in policies if isinstance(policy, DpPolicy)}


Question = str | Query | Mapping[str, Any]


class StatisticalDatabase:
    """Answer questions about groups of people so that no sequence of answers gives anyone away.

    The owner declares tables, users and policies; every question is parsed, checked against the policy of its user and
    then answered truly (`exact+audit`), with noise that spends a privacy budget (`dp`), or changed a little
    (`perturbed`). What is told is in the ledger before it is told, so that a crash loses neither a charge nor the
    history. The same question asked again gets the same answer at no cost.

    True sums are told by base groups: fixed, disjoint groups of at least ten people, made from public columns; each
    figure comes with the number and the share of the records it is over, and beyond the sum of their group nothing
    about anybody is told. Of numbers without bounds for which the owner confirms `whole: false`, any sums are told
    under the audit of all earlier answers: it determines nobody over the real numbers and promises no more; whoever
    knows a unit in which the values are whole, or that two people have the same value, computes everybody's. Yes or no,
    columns of fewer than 12 values or of which more than .3 of the people have one value have no true sums: that a
    column is refused tells this much about it.

    Does not protect against: what the mean of a group says about its members, a group in which all have one value, the
    owner's confirmation where it is wrong, many perturbed answers together, users who share one budget
    under several names (limit the table's own ε), and whoever can read the data or the ledger directly. How long an
    answer takes depends on the data; a server tells private answers on a schedule (`answer_step_seconds`).

    Parameters
    ----------
    source
        a service file, a `ServiceSpec`, or the data itself (frame, Dataset or file), then with the keywords below
    columns
        column → what the owner declares of it; default for a Dataset: from the roles of its schema
    table
        what the table is called in questions
    policy
        how questions are answered; default: true answers under the audit
    users
        user → declaration; default: one analyst called "analyst"
    ledger
        where to keep the history; default in memory for data, and what the service file says otherwise
    data
        table → frame, for tables of a `ServiceSpec` without a source
    clock
        gives the time in UTC
    options
        more entries of the table's declaration, such as `person` and `rows_per_person`

    References
    ----------
    Catalogue O1–O4, M4; Adam & Wortmann (1989), ACM Computing Surveys 21(4); Dwork & Roth (2014).

    Examples
    --------
    >>> import discretion as dc
    >>> students = dc.StatisticalDatabase(
    ...     dc.datasets.students(),
    ...     table="students",
    ...     columns={
    ...         "sex": {"role": "public", "type": "category"},
    ...         "major": {"role": "public", "type": "category"},
    ...         "income": {"role": "sensitive", "type": "number", "whole": False},
    ...     },
    ...     policy={"mode": "exact+audit", "min_query_size": 2},
    ... )
    >>> students.ask("SELECT sum(income) AS total FROM students WHERE major = 'EE'").frame["total"].item()
    240000.0
    >>> students.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'")
    Traceback (most recent call last):
    discretion.errors.QueryRefused: together with earlier answers it would determine somebody's value
    >>> students.close()
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Mapping[str, Any] | None = None,
        table: str = "data",
        policy: Any = None,
        users: Mapping[str, Any] | None = None,
        ledger: str | Path | None = None,
        data: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> None:
        given = {"columns": columns, "policy": policy, "users": users, **options}
        self.spec, frames = _declared(source, given, table, ledger, data)
        check_budgets(self.spec)
        for declared in self.spec.tables.values():
            if declared.synthetic is not None:
                SyntheticFile.of(declared, None, 1e-6)
        server = self.spec.server
        limits = Limits(server.query_seconds, server.memory, server.threads, server.max_groups)
        self._turns = Turns()
        self.ledger: Ledger = open_ledger(self.spec.ledger, clock=clock)
        opened: list[Any] = [self.ledger]
        try:
            self._backend = open_backend(self.spec.tables.values(), frames, limits)
            opened.append(self._backend)
            check_people(self.spec, self._backend, self.ledger)
            secret, lasting = read_secret(self.spec), secret_place(self.spec) is not None
            self._desks = {
                name: TableService(self.spec, name, self._backend, self.ledger, secret, lasting=lasting)
                for name in self.spec.tables
            }
        except BaseException:
            for one in opened:
                one.close()
            raise

    def __enter__(self) -> StatisticalDatabase:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StatisticalDatabase({', '.join(self.spec.tables)}; {len(self.spec.users)} users)"

    def read(self, question: Question, *, user: str | None = None) -> Query:
        """Understand a question in SQL, as plain data or as a `Query`; refuse what the user may not ask."""
        name = self._user(user)
        known = {table: self.spec.tables[table] for table in self.spec.tables_for(name)}
        try:
            if isinstance(question, str):
                query = parse_sql(question, known)
            else:
                query = question if isinstance(question, Query) else Query.from_json(dict(question))
                query = admit(query, known)
            for aggregate in query.aggregates:
                if not is_text(aggregate.label) or (aggregate.name and checked_name(aggregate.name) != aggregate.name):
                    raise QueryRefused("a figure has a name that cannot be written")
            query.digest()
        except QueryRefused:
            raise
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise QueryRefused("the question has values or names that cannot be used") from None
        return query

    def ask(
        self,
        question: Question,
        *,
        user: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        records: int | None = None,
    ) -> Answer:
        """Answer a question, or raise QueryRefused (BudgetExhausted when the budget does not cover it).

        Under differential privacy say what to spend (`epsilon`) or how exact every figure should be (`error`; for means
        with the number of `records` you expect); otherwise what the owner set is spent.
        """
        name = self._user(user)
        query = self.read(question, user=name)
        desk = self._desks[query.table]
        mode = desk.mode(name)
        with self._turns.take((name, query.table, query.digest())), desk.growth.reading():
            desk.watch(mode)
            told = mode.ask(query, name, RequestedAccuracy(epsilon, error, records))
        values, low, high, covered, share = told.figures.frames(query, desk.table)
        return Answer(
            values, mode.name, low, high, told.figures.confidence, told.cost, mode.remaining(name),
            told.cached, told.figures.notes, query, covered, share,
        )  # fmt: skip

    def dry_run(
        self,
        question: Question,
        *,
        user: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        records: int | None = None,
    ) -> Estimate:
        """Tell what an answer would cost and how exact it would be; spends nothing and reads no data."""
        name = self._user(user)
        query = self.read(question, user=name)
        return self._desks[query.table].mode(name).dry_run(query, name, RequestedAccuracy(epsilon, error, records))

    def synthetic(self, table: str, *, user: str | None = None, epsilon: float | None = None) -> Answer:
        """Return a synthetic file of a table, paid from the budget of its user; the same file again costs nothing.

        The owner declares the generator (`synthetic` of the table) and with it the usual ε. The answer's `frame` holds
        the rows; they belong to nobody. For users of mode dp with a δ.
        """
        name = self._user(user)
        self.spec.table_for(name, table)
        desk = self._desks[table]
        mode = desk.mode(name)
        if not isinstance(mode, PrivateMode):
            raise QueryRefused("synthetic files are for users whose answers are differentially private")
        with self._turns.take((name, table, NOTE)), desk.growth.reading():
            rows, cost, cached = mode.synthetic(name, epsilon)
        return Answer(rows, mode.name, cost=cost, remaining=mode.remaining(name), cached=cached, notes=(NOTE,))

    def budget(self, user: str | None = None) -> list[TableBudget]:
        """Return for each table that a user may ask what may be spent and what was spent."""
        name = self._user(user, asks=False)
        return [self._desks[table].mode(name).budget(name) for table in self.spec.tables_for(name)]

    def tables(self, user: str | None = None) -> list[dict[str, Any]]:
        """Describe the tables that a user may ask; everything comes from the declarations, nothing from the data."""
        name = self._user(user, asks=False)
        return [_described(self.spec.tables[t], self._desks[t].mode(name).name) for t in self.spec.tables_for(name)]

    def people(self, table: str) -> int:
        """Count the people of a table: for the owner."""
        return self._backend.people(table)

    def rules(self, table: str) -> dict[str, tuple[str, str]]:
        """Say for each sensitive column by which rule it is answered and why: for the owner.

        `dp only`, `base groups` or `linear audit`; without true answers of the table always `dp only` (perturbed
        answers have no rule).
        """
        return self._desks[table].rules()

    def history(
        self, *, table: str | None = None, of: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Return the entries of the ledger, of a table, of a user, after a number: for owner and auditor."""
        found: Iterable[Entry] = self.ledger.history(table, of, after)
        return list(islice(found, limit))

    def refresh(self, table: str, data: Any = None) -> int:
        """Read rows that were appended to a table (or take the longer frame); gives the number of people now.

        Everything told before stays in the history: new people are new unknowns. Answers are computed anew.
        """
        if table not in self._desks:
            raise QueryRefused("unknown table")
        if self.spec.tables[table].join is not None:
            raise QueryRefused("a join is read anew when the service starts")
        return self._desks[table].refresh(data)

    def close(self) -> None:
        """Close the data and the ledger."""
        self._backend.close()
        self.ledger.close()

    def _user(self, user: str | None, *, asks: bool = True) -> str:
        if user is None:
            if len(self.spec.users) != 1:
                raise PlanError("say which `user` asks")
            user = next(iter(self.spec.users))
        if self.spec.user(user).role == "auditor" and asks:
            raise QueryRefused("an auditor reads the ledger and asks nothing")
        return user


def _declared(
    source: Any, given: dict[str, Any], table: str, ledger: str | Path | None, data: Mapping[str, Any] | None
) -> tuple[ServiceSpec, dict[str, Any]]:
    """Return the declaration of the service and the frames of its tables."""
    named = [name for name, value in given.items() if value is not None]
    is_file = isinstance(source, str | Path) and Path(source).suffix.lower() in (".yaml", ".yml")
    if isinstance(source, ServiceSpec) or is_file:
        if named:
            raise PlanError(f"the service declares its tables and users itself; drop {', '.join(named)}")
        spec = source if isinstance(source, ServiceSpec) else ServiceSpec.load(source)
        return (spec if ledger is None else spec.model_copy(update={"ledger": str(ledger)})), dict(data or {})
    spec = declare(source, table=table, ledger=":memory:" if ledger is None else str(ledger), **given)
    return spec, {} if spec.tables[table].source else {table: source}


def _described(table: TableSpec, mode: str) -> dict[str, Any]:
    shown = ("role", "type", "bounds", "categories", "description")
    columns = [
        {"name": name, **table.columns[name].model_dump(mode="json", include={*shown})} for name in table.visible
    ]
    return {"name": table.name, "description": table.description, "mode": mode, "columns": columns}


# The secret of a service: made once, kept in a file that only its owner can read.

_BYTES = 32
_LEAST = 16


def read_secret(spec: ServiceSpec) -> bytes:
    """Return the secret of a service: from its file, made when absent; beside a SQLite ledger unless said otherwise.

    A ledger in memory has a secret that is forgotten with it.
    """
    place = secret_place(spec)
    if place is None:
        return secrets.token_bytes(_BYTES)
    if not place.exists():
        _make(place)
    return _read(place)


def _make(place: Path) -> None:
    """Write a new secret so that it appears whole or not at all; whoever comes second takes the first one's."""
    temporary = place.with_name(f".{secrets.token_hex(6)}.{place.name}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(_BYTES) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(temporary, place)
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"the secret cannot be written to {place}: {error.strerror}") from None


def secret_place(spec: ServiceSpec) -> Path | None:
    """Name the file of the secret; none when nothing needs to outlive the service."""
    if spec.secret_file is not None:
        return Path(spec.secret_file)
    if spec.ledger == ":memory:":
        return None
    if spec.ledger.startswith("sqlite:///") or "://" not in spec.ledger:
        path = Path(spec.ledger.removeprefix("sqlite:///"))
        return path.with_name(f"{path.name}.secret")
    if any(spec.policy_for(user, table).mode == "perturbed" for user in spec.users for table in spec.tables):
        raise PlanError("perturbed answers need a `secret_file`: without it a restart would change every figure")
    return None


def _read(place: Path) -> bytes:
    try:
        found = bytes.fromhex(place.read_text(encoding="ascii").strip())
    except OSError as error:
        raise DataError(f"the secret in {place} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{place} does not hold the secret of a service") from None
    if len(found) < _LEAST:
        raise DataError(f"{place} holds a secret of fewer than {_LEAST} bytes")
    return found
