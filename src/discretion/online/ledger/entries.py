"""What stands in a ledger: costs in whole units, entries, and query sets packed small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from discretion.errors import DataError, DiscretionError, PlanError
from discretion.kernels.arrays import Ints
from discretion.privacy.accounting import FREE, Cost


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
