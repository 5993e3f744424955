"""The memory of an on-line service: an append-only ledger of questions, costs and answers, in SQLite or PostgreSQL."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Literal, Protocol, get_args

import numpy as np

from discretion.errors import BudgetExhausted, DataError, DiscretionError, PlanError, need
from discretion.kernels.arrays import Ints
from discretion.privacy.accounting import FREE, Accountant, Cost, PrivacyFilter

__all__ = [
    "EACH",
    "FREE",
    "Charge",
    "Cost",
    "Entry",
    "Head",
    "Kind",
    "Ledger",
    "Limit",
    "NoLedger",
    "Page",
    "Period",
    "PrivacyFilter",
    "Verification",
    "open_ledger",
    "pack_sets",
    "unpack_sets",
    "utc_now",
    "verify_chain",
]


class NoLedger(DataError):
    """There is no ledger where one was to be read."""


Kind = Literal["exact", "dp", "perturbed", "refused", "insider", "update", "groups", "limit", "answer"]
ANSWERED: tuple[Kind, ...] = ("exact", "dp", "perturbed")
"""Kinds of entries that an answer may follow."""
_KINDS = frozenset(get_args(Kind))
_THIN = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Charge:
    """A question that is about to be answered, or an event that the history must know."""

    user: str
    table: str
    kind: Kind
    digest: str = ""
    """name of the question: equal questions have equal digests"""
    query: str = "{}"
    """the canonical question, as JSON"""
    cost: Cost = FREE
    sets: bytes | None = None
    """query sets of a true answer, as `pack_sets` gives them; of a perturbed one the number of its cells"""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS or self.kind == "answer":
            raise PlanError(f"unknown kind of entry {self.kind!r}")
        if self.kind not in ANSWERED and self.cost != FREE:
            raise PlanError(f"an entry of kind {self.kind!r} costs nothing")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; never changed, never removed."""

    id: int
    time: int
    """microseconds since 1970, UTC; never earlier than the entry before"""
    user: str
    table: str
    kind: Kind
    digest: str
    query: str
    cost: Cost
    sets: bytes | None
    refers: int | None
    """of an answer: the charge it belongs to"""
    answer: str | None
    """of an answer: its JSON"""
    previous: str
    """hash of the entry before"""
    hash: str

    @property
    def moment(self) -> datetime:
        """The time as a date."""
        return moment_of(self.time)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        content = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("cost", "sets")
        }
        sets = None if self.sets is None else base64.b64encode(self.sets).decode("ascii")
        costs = dict(zip(("micro_epsilon", "nano_rho", "nano_delta"), self.cost.amounts, strict=True))
        return {**content, **costs, "sets": sets, "moment": self.moment.isoformat()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Entry:
        """Read an exported entry."""
        try:
            amounts = [content[name] for name in ("micro_epsilon", "nano_rho", "nano_delta")]
            sets = None if content["sets"] is None else base64.b64decode(content["sets"], validate=True)
            names = [field.name for field in fields(cls) if field.name not in ("cost", "sets")]
            entry = well_formed(cls(cost=Cost(*amounts), sets=sets, **{name: content[name] for name in names}))
            told = content["moment"]
        except (KeyError, TypeError, ValueError, PlanError) as error:
            raise DataError("a line of the export is not an entry of a ledger") from error
        if told != entry.moment.isoformat():
            raise DataError(f"entry {entry.id} of the export tells another moment than its time")
        return entry


_TEXTS = ("user", "table", "kind", "digest", "query", "previous", "hash")


def well_formed(entry: Entry) -> Entry:
    """Return the entry back, or raise DataError where a field holds what no ledger writes (SQLite would keep it)."""
    texts = [getattr(entry, name) for name in _TEXTS]
    whole = [entry.id, entry.time] if entry.refers is None else [entry.id, entry.time, entry.refers]
    texts += [] if entry.answer is None else [entry.answer]
    good = all(type(text) is str for text in texts) and all(type(number) is int for number in whole)
    good = good and 0 <= entry.time <= _LATEST and (entry.sets is None or isinstance(entry.sets, bytes))
    if not good or any("\ud800" <= sign <= "\udfff" for text in texts for sign in text if not text.isascii()):
        raise DataError(f"the entry numbered {entry.id if type(entry.id) is int else '?'} is none that a ledger writes")
    return entry


def moment_of(time: int) -> datetime:
    """Return a moment from microseconds."""
    return _EPOCH + timedelta(microseconds=time)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def pack_sets(sets: Sequence[Ints], records: int) -> bytes:
    """Write query sets (ascending numbers below `records`) in few bytes: gaps of thin sets, else bit maps."""
    parts = []
    for members in sets:
        if len(members) < records // _THIN:
            parts.append((1, zlib.compress(np.diff(members, prepend=-1).astype("<u4").tobytes(), 1)))
        else:
            mask = np.zeros(records, np.bool_)
            mask[members] = True
            parts.append((0, zlib.compress(np.packbits(mask).tobytes(), 1)))
    header = json.dumps({"version": 1, "records": records, "parts": [(form, len(data)) for form, data in parts]})
    return header.encode() + b"\n" + b"".join(data for _, data in parts)


def unpack_sets(packed: bytes) -> tuple[list[Ints], int]:
    """Read query sets, and the number of records at that time."""
    header, _, data = packed.partition(b"\n")
    about = json.loads(header)
    records, start, sets = int(about["records"]), 0, []
    for form, length in about["parts"]:
        content = zlib.decompress(data[start : start + length])
        start += length
        if form == 1:
            members = np.cumsum(np.frombuffer(content, "<u4").astype(np.int64)) - 1
        else:
            members = np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8), count=records))
        sets.append(members.astype(np.int64))
    return sets, records


VERSION = 1
"""The form of the stored table; a ledger of a later form is not touched."""

COLUMNS = (
    "id", "time", "who", "subject", "kind", "digest", "query", "micro_epsilon", "nano_rho", "nano_delta", "sets",
    "refers", "answer", "previous", "hash",
)  # fmt: skip

COSTS = "(micro_epsilon > 0 OR nano_rho > 0 OR nano_delta > 0)"
"""The condition that an entry spends something."""

AMOUNTS = ("micro_epsilon", "nano_rho", "nano_delta")
_HALF = 32
TOTALS = ", ".join(
    f"COALESCE(SUM({name} >> {_HALF}), 0), COALESCE(SUM({name} & {2**_HALF - 1}), 0)" for name in AMOUNTS
)
"""The sums of the upper and of the lower halves of each amount: neither can overflow."""


def total_of(halves: Sequence[Any]) -> Cost:
    """Put the sums of `TOTALS` together."""
    upper, lower = halves[::2], halves[1::2]
    return Cost(*((int(high) << _HALF) + int(low) for high, low in zip(upper, lower, strict=True)))


def row_of(entry: Entry) -> tuple[Any, ...]:
    """Return the values of the columns."""
    return (
        entry.id, entry.time, entry.user, entry.table, entry.kind, entry.digest, entry.query, *entry.cost.amounts,
        entry.sets, entry.refers, entry.answer, entry.previous, entry.hash,
    )  # fmt: skip


def entry_of(row: Sequence[Any]) -> Entry:
    """Return the entry of a row; DataError when somebody put something into it that no ledger writes."""
    number, time, user, table, kind, digest, query, epsilon, rho, delta, sets, refers, answer, previous, own = row
    packed = bytes(sets) if isinstance(sets, memoryview | bytearray) else sets
    cost = Cost(epsilon, rho, delta)
    return well_formed(
        Entry(number, time, user, table, kind, digest, query, cost, packed, refers, answer, previous, own)
    )


# The hash chain: each entry holds the hash of the one before, so that nothing can be changed inside unnoticed.
#
# Whoever can write the whole file can also compute new hashes, and cutting off the *last* entries leaves a shorter
# chain that fits. Against both, keep the head (number and hash of the last entry) somewhere else now and then, and
# verify against it.

GENESIS = hashlib.sha256(b"discretion ledger, version 1").hexdigest()
"""What stands before the first entry."""
_MOST_PROBLEMS = 20
_text = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class Head:
    """Number and hash of the last entry: a receipt for everything up to it."""

    id: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read `number:hash`."""
        number, _, digest = text.partition(":")
        if not (number.isascii() and number.isdigit()) or not re.fullmatch("[0-9a-fA-F]{64}", digest):
            raise PlanError("a head is written as the number of an entry, a colon and its hash (64 hexadecimal digits)")
        return cls(int(number), digest.lower())


def hash_of(entry: Entry) -> str:
    """Return the hash of an entry's content and of the hash before it."""
    sets = None if entry.sets is None else hashlib.sha256(entry.sets).hexdigest()
    content = [
        entry.id, entry.time, entry.user, entry.table, entry.kind, entry.digest, entry.query, *entry.cost.amounts,
        sets, entry.refers, entry.answer, entry.previous,
    ]  # fmt: skip
    return hashlib.sha256(_text(content).encode()).hexdigest()


def sealed(entry: Entry) -> Entry:
    """Return the entry with its hash."""
    return Entry(
        entry.id, entry.time, entry.user, entry.table, entry.kind, entry.digest, entry.query, entry.cost, entry.sets,
        entry.refers, entry.answer, entry.previous, hash_of(entry),
    )  # fmt: skip


@dataclass(frozen=True)
class Verification:
    """What a check of a ledger found."""

    entries: int
    head: Head
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_chain(entries: Iterable[Entry], expected: Head | None = None) -> Verification:
    """Find entries that were changed, removed, added or moved, answers without a charge, and a lost end."""
    problems: list[str] = []
    last, count, time = Head(), 0, 0
    open_charges: set[int] = set()
    reached = expected is None or expected == Head()
    for entry in _readable(entries, problems):
        count += 1
        problems += _faults(entry, last, time, open_charges)
        reached = reached or (expected is not None and (entry.id, entry.hash) == (expected.id, expected.hash))
        last, time = Head(entry.id, entry.hash), entry.time
        if len(problems) >= _MOST_PROBLEMS:
            problems.append("… (the check stopped here)")
            return Verification(count, last, tuple(problems))
    if expected is not None and not reached:
        problems.append(
            f"entry {expected.id} with the hash given as head is not there: the end was cut off or rewritten"
        )
    return Verification(count, last, tuple(problems))


def _readable(entries: Iterable[Entry], problems: list[str]) -> Iterator[Entry]:
    try:
        yield from entries
    except DiscretionError as error:
        problems.append(f"what follows cannot be read: {error}")


def _faults(entry: Entry, last: Head, time: int, open_charges: set[int]) -> list[str]:
    faults = []
    if entry.id != last.id + 1:
        faults.append(f"entry {entry.id} stands after entry {last.id}: entries are missing or moved")
    if entry.previous != last.hash:
        faults.append(f"entry {entry.id} does not follow from the entry before it")
    if hash_of(entry) != entry.hash:
        faults.append(f"entry {entry.id} was changed: its content does not give its hash")
    if entry.time < time:
        faults.append(f"entry {entry.id} is earlier than the entry before it")
    if entry.kind == "answer":
        if entry.refers not in open_charges:
            faults.append(f"entry {entry.id} is an answer without a charge of its own")
        open_charges.discard(entry.refers or 0)
    elif entry.kind in ANSWERED:
        open_charges.add(entry.id)
    return faults


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
    >>> from discretion.online.ledger import moment_of
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


_WAIT_SECONDS = 60.0
_PAGES_OF_LOG = 4000
"""pages of SQLite's log before it is brought into the file, which takes two syncs more (SQLite's own: 1000)"""
_APPLICATION = int.from_bytes(b"dcld", "big")
_EARLIER = ("questions", "subjects", "users", "tables", "by_table", "by_user")
"""indexes of ledgers that were written before"""
_INSERT = f"INSERT INTO ledger ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_SQLITE_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS ledger (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon INTEGER NOT NULL, nano_rho INTEGER NOT NULL,
        nano_delta INTEGER NOT NULL, sets BLOB, refers INTEGER REFERENCES ledger (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ledger_answers ON ledger (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS ledger_asked ON ledger (subject, digest, who) WHERE kind = 'answer'",
    # one index for kinds in their order and for costs: every further one is a page more that a charge must sync
    f"CREATE INDEX IF NOT EXISTS ledger_entries ON ledger (subject, kind, id, who, time, {', '.join(AMOUNTS)})",
    *(f"DROP INDEX IF EXISTS ledger_{name}" for name in _EARLIER),
    """CREATE TRIGGER IF NOT EXISTS ledger_no_update BEFORE UPDATE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_no_delete BEFORE DELETE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_in_order BEFORE INSERT ON ledger
        WHEN NEW.id <> (SELECT COALESCE(MAX(id), 0) + 1 FROM ledger)
        BEGIN SELECT RAISE(ABORT, 'the ledger is written in order'); END""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may only be read",
    "SQLITE_BUSY": "another process keeps it to itself",
    "SQLITE_LOCKED": "another process keeps it to itself",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_NOTADB": "it is not a SQLite file",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_IOERR": "the disk cannot be read or written",
}


class SqliteStore:
    """Entries in a SQLite file in WAL mode; every commit is on disk before it returns (synchronous = FULL).

    A new file can be read by its owner only: it will hold every answer.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.is_file():
            raise NoLedger(f"there is no ledger at {path}")
        self._where = str(path)
        self._explained = _Explained(self._where)
        with self._explained:
            if create and self._where != ":memory:":
                _make_private(path)
            self._open(path, create)

    def _open(self, path: Path, create: bool) -> None:
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_OF_LOG}")
            empty = self._check_kind()
            if create:
                self._connection.execute("PRAGMA journal_mode = WAL")
                with self.exclusive():
                    for statement in _SQLITE_SCHEMA:
                        self._connection.execute(statement)
            elif empty:
                raise NoLedger(f"there is no ledger at {path}")
        except BaseException:
            self._connection.close()
            raise

    def _check_kind(self) -> bool:
        """Say whether the file is still empty; raise when it belongs to something else or to a later version."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application == _APPLICATION and version > VERSION:
            raise DataError(f"{self._where} was written by a later version of discretion (form {version})")
        columns = tuple(row[1] for row in self._connection.execute("PRAGMA table_info(ledger)"))
        (objects,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application not in (0, _APPLICATION) or (columns != COLUMNS and objects):
            raise DataError(f"{self._where} cannot be used as a ledger: it holds something else")
        return not objects

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        with self._explained:
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._explained:
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        with self._explained:
            self._connection.execute(_INSERT, row_of(entry))

    def last(self) -> tuple[int, str, int] | None:
        """Return number, hash and time of the last entry."""
        with self._explained:
            row = self._connection.execute("SELECT id, hash, time FROM ledger ORDER BY id DESC LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries; those after a number in the order of the table, so that nothing is sorted."""
        if "id > ?" in where and "kind" not in where:
            where = where.replace("subject", "+subject").replace("who", "+who")  # no index
        query = f"SELECT {', '.join(COLUMNS)} FROM ledger WHERE {where} {tail}"
        with self._explained:
            for row in self._connection.execute(query, values):
                yield entry_of(row)

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        query = f"SELECT time, micro_epsilon, nano_rho, nano_delta FROM ledger WHERE {COSTS} AND {where} ORDER BY id"
        with self._explained:
            return [(time, Cost(*amounts)) for time, *amounts in self._connection.execute(query, values)]

    def total(self, where: str, values: Sequence[Any] = ()) -> Cost:
        """Add up costs; DataError when somebody put something into them that no ledger writes."""
        wrong = " + ".join(f"(typeof({name}) <> 'integer' OR {name} < 0)" for name in AMOUNTS)
        query = f"SELECT COALESCE(SUM({wrong}), 0), {TOTALS} FROM ledger WHERE {COSTS} AND {where}"
        with self._explained:
            strange, *halves = self._connection.execute(query, values).fetchone()
        if strange:
            raise DataError(f"{self._where} cannot be used as a ledger: it holds costs that no ledger writes")
        return total_of(halves)

    def faults(self) -> list[str]:
        """Let SQLite check its file, indexes included, and whether the triggers that keep it append-only are there."""
        with self._explained:
            found = [str(text) for (text,) in self._connection.execute("PRAGMA integrity_check(5)")]
            there = {
                name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")
            }
        problems = [] if found == ["ok"] else [f"the file is damaged: {' '.join(text.split())}" for text in found]
        lost = {"ledger_no_update", "ledger_no_delete", "ledger_in_order"} - there
        return problems + [f"the trigger {name} is missing; the service makes it anew" for name in sorted(lost)]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class _Explained:
    """Turns errors of SQLite into ours; its own words may quote what stands in the file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            name = getattr(error, "sqlite_errorname", None) or ""
            reason = next((text for start, text in _REASONS.items() if name.startswith(start)), "the file is damaged")
            raise DataError(f"{self._where} cannot be used as a ledger: {reason}") from None


def _make_private(path: Path) -> None:
    """Make an absent file that only its owner can read; SQLite gives its log beside it the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise DataError(f"{path} cannot be used as a ledger: {error.strerror}") from None


_SETTINGS = (
    "synchronous_commit = on", "client_min_messages = warning", "lock_timeout = '60s'", "tcp_keepalives_idle = 30",
    "tcp_keepalives_interval = 10", "tcp_keepalives_count = 3",
)  # fmt: skip
_TRIGGERS = ("no_change", "no_truncate", "in_order")
_MARK = "discretion ledger, form "

_POSTGRES_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS {name} (
        id BIGINT PRIMARY KEY, time BIGINT NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon BIGINT NOT NULL, nano_rho BIGINT NOT NULL,
        nano_delta BIGINT NOT NULL, sets BYTEA, refers BIGINT REFERENCES {name} (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS {name}_answers ON {name} (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {name}_asked ON {name} (subject, digest, who) WHERE kind = 'answer'",
    "CREATE INDEX IF NOT EXISTS {name}_kinds ON {name} (subject, kind, id)",
    f"CREATE INDEX IF NOT EXISTS {{name}}_by_table ON {{name}} (subject, id) INCLUDE (time, {', '.join(AMOUNTS)})",
    f"CREATE INDEX IF NOT EXISTS {{name}}_by_user ON {{name}} (who, subject, id) INCLUDE (time, {', '.join(AMOUNTS)})",
    """CREATE OR REPLACE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$""",
    """CREATE OR REPLACE TRIGGER {name}_no_change BEFORE UPDATE OR DELETE ON {name}
        FOR EACH ROW EXECUTE FUNCTION {name}_refuse()""",
    """CREATE OR REPLACE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {name}
        FOR EACH STATEMENT EXECUTE FUNCTION {name}_refuse()""",
    """CREATE OR REPLACE FUNCTION {name}_order() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
            IF NEW.id <> (SELECT COALESCE(MAX(id), 0) + 1 FROM {name})
            THEN RAISE EXCEPTION 'the ledger is written in order'; END IF;
            RETURN NEW;
        END $$""",
    """CREATE OR REPLACE TRIGGER {name}_in_order BEFORE INSERT ON {name}
        FOR EACH ROW EXECUTE FUNCTION {name}_order()""",
    f"COMMENT ON TABLE {{name}} IS '{_MARK}{VERSION}'",
)


class PostgresStore:
    """Entries in a PostgreSQL table; one advisory lock per ledger puts writers in a row.

    The lock is taken before anything is read, at isolation level READ COMMITTED: every statement after it sees all
    that the holders before wrote. A connection that broke is opened again by the next transaction or read. A server
    that vanished gives the lock back when its connection is found dead.

    A ledger that is there already is not altered: then SELECT and INSERT on its table are rights enough.
    """

    def __init__(self, url: str, *, name: str = "discretion_ledger", create: bool = True) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
            raise PlanError("the name of a ledger is made of small letters, digits and underscores")
        self._url, self._name = url, name
        self._key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self._inside = False
        self._connection: Any = self._connect()
        try:
            if self._read("SELECT to_regclass(%s)", (self._name,))[0][0] is not None:
                self._check_kind()
            elif not create:
                raise NoLedger("there is no ledger in this database")
            if create and self._lost_triggers():
                with self.exclusive(), _explained():
                    for statement in _POSTGRES_SCHEMA:
                        self._connection.execute(statement.format(name=name))
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        psycopg = need("psycopg", "a ledger in PostgreSQL", "online")
        try:
            connection: Any = psycopg.connect(self._url, autocommit=True, connect_timeout=30)
        except psycopg.OperationalError as error:
            raise DataError("the PostgreSQL server of the ledger does not answer, or does not let us in") from error
        except psycopg.Error:
            raise PlanError("the address of the ledger is not written like postgresql://user@host/base") from None
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")
        return connection

    def _check_kind(self) -> None:
        """Raise when the table belongs to something else or to a later version."""
        where = "attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        columns = tuple(row[0] for row in self._read(f"SELECT attname FROM pg_attribute WHERE {where}", (self._name,)))
        if columns != COLUMNS:
            raise DataError(f"the table {self._name} cannot be used as a ledger: it holds something else")
        mark = self._read("SELECT obj_description(to_regclass(%s), 'pg_class')", (self._name,))[0][0] or ""
        form = mark.removeprefix(_MARK)
        if mark.startswith(_MARK) and form.isdecimal() and int(form) > VERSION:
            raise DataError(f"the ledger {self._name} was written by a later version of discretion (form {form})")

    def _lost_triggers(self) -> list[str]:
        """Name the triggers that keep the table append-only and are not there, or switched off."""
        query = "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled <> 'D'"
        there = {row[0] for row in self._read(query, (self._name,))}
        return [name for name in (f"{self._name}_{part}" for part in _TRIGGERS) if name not in there]

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        self._read("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._inside = True
        try:
            with _explained():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._key,))
            yield
            with _explained():
                self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._inside = False

    def _roll_back(self) -> None:
        """Undo the transaction; a connection that cannot is closed, which undoes it too."""
        import psycopg

        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        row = row_of(entry)
        places = ", ".join(["%s"] * len(row))
        with _explained():
            self._connection.execute(f"INSERT INTO {self._name} ({', '.join(COLUMNS)}) VALUES ({places})", row)

    def last(self) -> tuple[int, str, int] | None:
        """Return number, hash and time of the last entry."""
        found = self._read(f"SELECT id, hash, time FROM {self._name} ORDER BY id DESC LIMIT 1")
        return (found[0][0], found[0][1], found[0][2]) if found else None

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries."""
        query = f"SELECT {', '.join(COLUMNS)} FROM {self._name} WHERE {where.replace('?', '%s')} {tail}"
        for row in self._read(query, values):
            yield entry_of(row)

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        columns = "time, micro_epsilon, nano_rho, nano_delta"
        query = f"SELECT {columns} FROM {self._name} WHERE {COSTS} AND {where.replace('?', '%s')} ORDER BY id"
        return [(time, Cost(*amounts)) for time, *amounts in self._read(query, values)]

    def total(self, where: str, values: Sequence[Any] = ()) -> Cost:
        """Add up costs."""
        query = f"SELECT {TOTALS} FROM {self._name} WHERE {COSTS} AND {where.replace('?', '%s')}"
        return total_of(self._read(query, values)[0])

    def faults(self) -> list[str]:
        """Say which triggers are missing or switched off."""
        return [f"the trigger {name} is missing or switched off" for name in self._lost_triggers()]

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement that changes nothing, once more on a new connection when this one broke before it began."""
        import psycopg

        with _explained():
            for last_try in (self._inside, True):
                try:
                    if not self._inside and (self._connection.closed or self._connection.broken):
                        self._connection = self._connect()
                    cursor = self._connection.execute(query, values)
                    return list(cursor.fetchall()) if cursor.description is not None else []
                except psycopg.OperationalError:
                    if last_try or not (self._connection.closed or self._connection.broken):
                        raise
        return []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of PostgreSQL into ours; its own words may quote what stands in the table."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise DataError("another process keeps the ledger to itself") from None
    except psycopg.errors.InsufficientPrivilege:
        raise DataError("the PostgreSQL user may not read or write the ledger") from None
    except psycopg.errors.DiskFull:
        raise DataError("the disk of the PostgreSQL server of the ledger is full") from None
    except psycopg.OperationalError:
        raise DataError("the PostgreSQL server of the ledger does not answer") from None
    except psycopg.Error as error:
        raise DataError(f"the ledger in PostgreSQL cannot be used: {type(error).__name__}") from None


def open_ledger(
    url: str | Path,
    *,
    limits: Iterable[Limit] = (),
    clock: Callable[[], datetime] = utc_now,
    create: bool = True,
    name: str = "discretion_ledger",
) -> Ledger:
    """Open a ledger: a path or sqlite:///path, or postgresql://user@host/base; made when absent, unless told not to.

    `name` is the table in PostgreSQL. `clock` gives the time in UTC.
    """
    text = str(url)
    if text.startswith(("postgresql://", "postgres://")):
        return Ledger(PostgresStore(text, name=name, create=create), limits, clock)
    if isinstance(url, str) and "://" in text and not text.startswith("sqlite:///"):
        raise PlanError("a ledger is a path, sqlite:///path or postgresql://user@host/base")
    return Ledger(SqliteStore(Path(text.removeprefix("sqlite:///")), create=create), limits, clock)
