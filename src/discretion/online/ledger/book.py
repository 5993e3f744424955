"""The ledger: what was asked, what it cost, what was answered. Written before an answer exists, never changed."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from operator import attrgetter
from typing import IO, Any, Literal, Protocol

from discretion.errors import BudgetExhausted, PlanError
from discretion.online.ledger.entries import (
    ANSWERED,
    COSTS,
    Charge,
    Entry,
    Head,
    Kind,
    Verification,
    microseconds,
    moment_of,
    sealed,
    verify_chain,
)
from discretion.privacy.accounting import FREE, Accountant, Cost, PrivacyFilter

Calendar = Literal["day", "week", "month", "quarter", "year", "ever"]
Period = Calendar | timedelta
"""A calendar period (UTC), for ever, or a rolling window of some length."""
EACH = "*"
"""In place of a user: every user has this budget."""


def start_of(period: Calendar, moment: datetime) -> int:
    """Return the start of the calendar period around a moment, in microseconds since 1970.

    Examples
    --------
    >>> from datetime import UTC
    >>> from discretion.online.ledger.entries import moment_of
    >>> moment_of(start_of("quarter", datetime(2024, 8, 9, tzinfo=UTC))).date().isoformat()
    '2024-07-01'
    """
    if period == "ever":
        return 0
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return microseconds(day)
    if period == "week":
        return microseconds(day - timedelta(days=day.weekday()))
    if period == "month":
        return microseconds(day.replace(day=1))
    if period == "quarter":
        return microseconds(day.replace(day=1, month=day.month - (day.month - 1) % 3))
    if period == "year":
        return microseconds(day.replace(day=1, month=1))
    raise PlanError(f"unknown period {period!r}; known are day, week, month, quarter, year, ever")


@dataclass(frozen=True)
class Limit:
    """A budget: what is spent in any measure counts against it, see `PrivacyFilter`."""

    most: PrivacyFilter
    table: str | tuple[str, ...] | None = None
    """the table it is for, or several tables about the same people; none: all tables together"""
    user: str | None = None
    """the user it is for; none: all users together; `EACH`: every user by itself"""
    period: Period = "ever"

    def __post_init__(self) -> None:
        if isinstance(self.period, timedelta) and self.period <= timedelta(0):
            raise PlanError("a rolling period is longer than nothing")

    def scope(self, user: str) -> Scope:
        """Return what is added up for a user."""
        return Scope(user if self.user == EACH else self.user, self.table, self.period)


@dataclass(frozen=True)
class Scope:
    """Whose spending, on which table (or tables together), in which period."""

    user: str | None = None
    table: str | tuple[str, ...] | None = None
    period: Period = "ever"

    def since(self, moment: datetime) -> int:
        """Return where the period starts that holds (or ends at) a moment."""
        if isinstance(self.period, timedelta):
            return microseconds(moment - self.period) + 1
        return start_of(self.period, moment)

    def holds(self, entry: Entry | Charge) -> bool:
        """Say whether an entry's user and table are meant."""
        tables = (self.table,) if isinstance(self.table, str) else self.table
        return self.user in (None, entry.user) and (tables is None or entry.table in tables)


class _Window:
    """The running total of one scope. Calendar windows need their sum only, rolling ones what they will let go."""

    def __init__(self, since: int, spent: Cost | Iterable[tuple[int, Cost]]) -> None:
        self.since = since
        self.total = spent if isinstance(spent, Cost) else FREE
        self._queue: deque[tuple[int, Cost]] | None = None
        if not isinstance(spent, Cost):
            self._queue = deque()
            for time, cost in spent:
                self.add(time, cost)

    def add(self, time: int, cost: Cost) -> None:
        if cost == FREE or time < self.since:
            return
        self.total += cost
        if self._queue is not None:
            self._queue.append((time, cost))

    def move(self, since: int) -> bool:
        """Let the window start later; False when it must be read again."""
        if since == self.since:
            return True
        if self._queue is None or since < self.since:
            return False
        self.since = since
        while self._queue and self._queue[0][0] < since:
            self.total = self.total.less(self._queue.popleft()[1])
        return True


Reader = Callable[[Scope, int], Iterable[tuple[int, Cost]]]
"""Reads times and costs of a scope since a time."""
Adder = Callable[[Scope, int], Cost]
"""Adds up the costs of a scope since a time."""


class RunningTotals:
    """Running totals of all scopes that were ever asked for, kept up with the ledger entry by entry."""

    def __init__(self, reader: Reader, adder: Adder) -> None:
        self._read, self._add_up = reader, adder
        self._windows: dict[Scope, _Window] = {}

    @property
    def any_kept(self) -> bool:
        """Whether there is a total to keep up."""
        return bool(self._windows)

    def see(self, entry: Entry) -> None:
        """Count an entry that is now in the ledger."""
        for scope, window in self._windows.items():
            if scope.holds(entry):
                window.add(entry.time, entry.cost)

    def spent(self, scope: Scope, moment: datetime) -> Cost:
        """Return what a scope has spent in its period at a moment."""
        since = scope.since(moment)
        window = self._windows.get(scope)
        if window is None or not window.move(since):
            read = self._read if isinstance(scope.period, timedelta) else self._add_up
            window = self._windows[scope] = _Window(since, read(scope, since))
        return window.total

    def check(self, charge: Charge, limits: Iterable[Limit], moment: datetime, pending: Sequence[Entry]) -> None:
        """Refuse a charge that would exceed a budget, pending charges of the same transaction included."""
        if charge.cost == FREE:
            return
        for limit in limits:
            scope = limit.scope(charge.user)
            if limit.user not in (None, EACH, charge.user) or not scope.holds(charge):
                continue
            spent = self.spent(scope, moment)
            for entry in pending:
                if scope.holds(entry):
                    spent += entry.cost
            if not limit.most.admits(spent + charge.cost):
                counts: Accountant = "zcdp" if charge.cost.nano_rho else "approximate"
                raise BudgetExhausted(_words(limit, charge, limit.most.left(spent, counts)))


def _words(limit: Limit, charge: Charge, left: Cost) -> str:
    whose = "of all users" if limit.user is None else f"of {charge.user!r}"
    about = "" if limit.table in (None, charge.table) else " and other tables about the same people"
    where = "" if limit.table is None else f" for {charge.table!r}{about}"
    when = "" if limit.period == "ever" else f" in this {limit.period if isinstance(limit.period, str) else 'period'}"
    return f"the privacy budget {whose}{where}{when} does not cover the question: it costs {charge.cost}, left: {left}"


_PORTION = 500
_NUMBERS = 2**62


def utc_now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class Store(Protocol):
    """Where entries lie; one transaction at a time writes, and what it wrote is on disk when it ends."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Begin a transaction that nobody else can run beside; commit at the end, roll back on an error."""
        ...

    def insert(self, entry: Entry) -> None:
        """Append an entry; only inside `exclusive`."""
        ...

    def last(self) -> tuple[int, str, int] | None:
        """Return number, hash and time of the last entry."""
        ...

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries; `where` is written with ? for values."""
        ...

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs of entries that cost something, in the order of entries."""
        ...

    def total(self, where: str, values: Sequence[Any] = ()) -> Cost:
        """Add up costs where the entries lie."""
        ...

    def faults(self) -> list[str]:
        """Say what is wrong with the store itself, beside its entries."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Page:
    """A transaction on the ledger: look at what is there, charge, and only then is anything written."""

    def __init__(self, ledger: Ledger, store: Store, totals: RunningTotals, moment: datetime) -> None:
        self._ledger, self._store, self._totals = ledger, store, totals
        last = store.last()
        self.head = Head() if last is None else Head(last[0], last[1])
        self.time = max(microseconds(moment), 0 if last is None else last[2])
        self.written: list[Entry] = []

    @property
    def moment(self) -> datetime:
        """The time of this transaction; never before the last entry's."""
        return moment_of(self.time)

    def entries_after(self, number: int, table: str) -> Iterator[Entry]:
        """Read the entries of a table after a number."""
        return self._store.select("id > ? AND subject = ?", (number, table))

    def latest(self, table: str, kind: Kind) -> Entry | None:
        """Return the last entry of one kind about a table."""
        found = self._store.select("subject = ? AND kind = ?", (table, kind), "ORDER BY id DESC LIMIT 1")
        return next(found, None)

    def charge(self, charge: Charge, limits: Iterable[Limit] = ()) -> Entry:
        """Append a charge if all budgets cover it, those of the ledger and `limits`."""
        self._totals.check(charge, (*self._ledger.limits, *limits), self.moment, self.written)
        return self._append(charge)

    def answer(self, number: int, answer: str) -> Entry:
        """Append the answer to a charge: once."""
        charged = next(self._store.select("id = ?", (number,)), None)
        if charged is None or charged.kind not in ANSWERED:
            raise PlanError(f"entry {number} of the ledger is not a charge that can be answered")
        if next(self._store.select("refers = ?", (number,)), None) is not None:
            raise PlanError(f"entry {number} of the ledger has its answer already")
        return self._append(charged, "answer", number, answer)

    def _append(
        self, about: Charge | Entry, kind: Kind | None = None, refers: int | None = None, answer: str | None = None
    ) -> Entry:
        query, cost, sets = ("{}", FREE, None) if kind == "answer" else (about.query, about.cost, about.sets)
        entry = Entry(
            self.head.id + 1, self.time, about.user, about.table, kind or about.kind, about.digest, query, cost, sets,
            refers, answer, self.head.hash, "",
        )  # fmt: skip
        entry = sealed(entry)
        self._store.insert(entry)
        self.head = Head(entry.id, entry.hash)
        self.written.append(entry)
        return entry


class Ledger:
    """An append-only account of questions, costs and answers.

    Guarantees: a charge is on disk, and inside every budget, before the caller gets it back; so an answer computed
    after `charge` never exists without its cost, wherever the power fails. Charges of all processes happen one after
    the other, so that no budget is spent twice. Entries form a hash chain (`verify`).

    A charge whose answer was never recorded stays spent: nobody knows whether somebody saw the answer. Asked again, the
    question is charged again, because new noise would otherwise be free. `find_answer` gives back recorded answers.

    Does not protect against an owner who rewrites the whole ledger: keep `head()` elsewhere.

    Cost: O(1) per charge, with one fsync; the first use of a budget reads its entries once.

    References
    ----------
    Catalogue O3; McSherry (2009), Privacy integrated queries.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from discretion.online.ledger import Cost, Limit, PrivacyFilter, open_ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> limit = Limit(PrivacyFilter(1), table="people")
    >>> ledger = open_ledger(Path(folder.name) / "ledger.db", limits=[limit])
    >>> entry = ledger.charge("ann", "people", "a question", Cost(micro_epsilon=400_000))
    >>> _ = ledger.record_answer(entry.id, '{"count": 12}')
    >>> ledger.find_answer("people", "a question").answer
    '{"count": 12}'
    >>> str(ledger.remaining(limit, "ann"))
    'ε 0.6'
    >>> ledger.verify().holds
    True
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, store: Store, limits: Iterable[Limit] = (), clock: Callable[[], datetime] = utc_now) -> None:
        self.limits = tuple(limits)
        self._store, self._clock = store, clock
        self._totals = RunningTotals(
            lambda scope, since: store.spending(*self._spent_where(scope, since)),
            lambda scope, since: store.total(*self._spent_where(scope, since)),
        )
        self._seen = 0
        self._writing = False
        self._lock = threading.RLock()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Begin a transaction that nobody else runs beside: what it reads stays true until it has written."""
        with self._lock:
            with self._store.exclusive():
                page = Page(self, self._store, self._totals, self._clock())
                self._catch_up(page.head)
                self._writing = True
                try:
                    yield page
                finally:
                    self._writing = False
            for entry in page.written:
                self._totals.see(entry)
                self._seen = entry.id

    def charge(
        self,
        user: str,
        table: str,
        digest: str,
        cost: Cost = FREE,
        kind: Kind = "dp",
        *,
        query: str = "{}",
        sets: bytes | None = None,
        limits: Iterable[Limit] = (),
    ) -> Entry:
        """Charge a question before it is answered; BudgetExhausted (and nothing written) when a budget is too small."""
        return self.charge_all([Charge(user, table, kind, digest, query, cost, sets)], limits)[0]

    def charge_all(self, charges: Sequence[Charge], limits: Iterable[Limit] = ()) -> list[Entry]:
        """Charge several questions at once: all of them, or none."""
        more = tuple(limits)
        with self.page() as page:
            return [page.charge(charge, more) for charge in charges]

    def record_answer(self, number: int, answer: str) -> Entry:
        """Append the answer (JSON) to a charge, before anybody is told."""
        with self.page() as page:
            return page.answer(number, answer)

    def find_answer(
        self, table: str, digest: str, *, user: str | None = None, kind: Kind | None = None
    ) -> Entry | None:
        """Return the latest recorded answer to a question since the table was last updated, or None."""
        with self._lock:
            where, values = "subject = ? AND digest = ? AND kind = 'answer'", [table, digest]
            if user is not None:
                where, values = f"{where} AND who = ?", [*values, user]
            for answer in self._store.select(where, values, "ORDER BY id DESC"):
                updates = self._store.select("subject = ? AND kind = 'update' AND id > ?", (table, answer.refers))
                if next(updates, None) is not None:
                    return None
                if kind is None or next(self._store.select("id = ?", (answer.refers,))).kind == kind:
                    return answer
        return None

    def spent(self, user: str | None = None, table: str | tuple[str, ...] | None = None, period: Any = "ever") -> Cost:
        """Return what was spent by a user (or all), on a table or several (or all), in the running period."""
        with self._lock:
            return self._now(Scope(user, table, period))

    def remaining(self, limit: Limit, user: str, accountant: Accountant = "pure") -> Cost:
        """Return what a user who counts in one way may still spend under a budget."""
        with self._lock:
            return limit.most.left(self._now(limit.scope(user)), accountant)

    def spending(self, user: str, table: str | tuple[str, ...], period: Any = "ever") -> list[tuple[datetime, Cost]]:
        """Give when a user spent how much on a table (or several) in the running period; reads times and costs only."""
        with self._lock:
            since = Scope(user, table, period).since(self._moment(self._store.last()))
            where, values = _condition([("who", user), ("subject", table)])
            found = self._store.spending(f"{where} AND time >= ?", (*values, since))
            return [(moment_of(time), cost) for time, cost in found]

    def history(
        self, table: str | None = None, user: str | None = None, after: int = 0, kinds: Sequence[Kind] | None = None
    ) -> Iterator[Entry]:
        """Return entries in their order, of a table, of a user, after a number, of some kinds."""
        named: list[tuple[str, Any]] = [("subject", table), ("who", user)]
        if kinds is None:
            return self._portions(named, after)
        streams = [self._portions([*named, ("kind", kind)], after) for kind in kinds]
        return merge(*streams, key=attrgetter("id"))

    def _portions(self, wanted: Iterable[tuple[str, Any]], after: int) -> Iterator[Entry]:
        where, values = _condition(wanted)
        at = after
        while True:
            with self._lock:
                portion = list(
                    self._store.select(f"{where} AND id > ?", (*values, at), f"ORDER BY id LIMIT {_PORTION}")
                )
            yield from portion
            if len(portion) < _PORTION:
                return
            at = portion[-1].id

    def latest(self, table: str, kind: Kind) -> Iterator[Entry]:
        """Return the entries of one kind about a table, the last one first; reads as far as it is asked."""
        where, values = _condition([("subject", table), ("kind", kind)])
        before = _NUMBERS
        while True:
            with self._lock:
                found = list(self._store.select(f"{where} AND id < ?", (*values, before), "ORDER BY id DESC LIMIT 1"))
            if not found:
                return
            yield found[0]
            before = found[0].id

    def entry(self, number: int) -> Entry | None:
        """Return the entry of a number."""
        with self._lock:
            return next(self._store.select("id = ?", (number,)), None)

    def answer_to(self, number: int) -> Entry | None:
        """Return the recorded answer to the charge of a number."""
        with self._lock:
            return next(self._store.select("refers = ?", (number,)), None)

    def head(self) -> Head:
        """Return number and hash of the last entry: keep it elsewhere, and `verify` against it later."""
        with self._lock:
            last = self._store.last()
            return Head() if last is None else Head(last[0], last[1])

    def verify(self, expected: Head | None = None) -> Verification:
        """Check the whole chain, that it still holds a head kept elsewhere, and the file or table it lies in."""
        found = verify_chain(self.history(), expected)
        with self._lock:
            return replace(found, problems=(*found.problems, *self._store.faults()))

    def export(self, stream: IO[str]) -> int:
        """Write every entry as a line of JSON; give their number."""
        count = 0
        for entry in self.history():
            stream.write(json.dumps(entry.to_json(), ensure_ascii=False) + "\n")
            count += 1
        return count

    def close(self) -> None:
        """Close the file or connection when the transaction that runs has ended."""
        with self._lock:
            self._store.close()

    def _now(self, scope: Scope) -> Cost:
        """Return what a scope has spent, at the time that the next entry would have."""
        last = self._store.last()
        if last is None:
            return FREE
        if not self._writing:
            self._catch_up(Head(last[0], last[1]))
        return self._totals.spent(scope, self._moment(last))

    def _moment(self, last: tuple[int, str, int] | None) -> datetime:
        """Return the time that the next entry would have: never before the last one's."""
        return moment_of(max(microseconds(self._clock()), 0 if last is None else last[2]))

    def _catch_up(self, head: Head) -> None:
        """Count what other processes wrote since this one looked last."""
        if head.id > self._seen:
            new = self._store.select(f"id > ? AND id <= ? AND {COSTS}", (self._seen, head.id))
            for entry in new if self._totals.any_kept else ():
                self._totals.see(entry)
            self._seen = head.id

    def _spent_where(self, scope: Scope, since: int) -> tuple[str, list[Any]]:
        """Choose what a scope spent, as far as this process has counted the ledger."""
        where, values = _condition([("who", scope.user), ("subject", scope.table)])
        return f"{where} AND time >= ? AND id <= ?", [*values, since, self._seen]


def _condition(wanted: Iterable[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """Return the condition that columns have values (or one of several), where one is wanted."""
    given = [(column, value if isinstance(value, tuple) else (value,)) for column, value in wanted if value is not None]
    parts = [f"{column} IN ({', '.join('?' * len(values))})" for column, values in given]
    return " AND ".join(parts) or "TRUE", [value for _, values in given for value in values]
