"""The hash chain: each entry holds the hash of the one before, so that nothing can be changed inside unnoticed.

Whoever can write the whole file can also compute new hashes, and cutting off the *last* entries leaves a shorter chain
that fits. Against both, keep the head (number and hash of the last entry) somewhere else now and then, and verify
against it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from discretion.errors import DiscretionError, PlanError
from discretion.online.ledger.entries import ANSWERED, Entry

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
    """Give the hash of an entry's content and of the hash before it."""
    sets = None if entry.sets is None else hashlib.sha256(entry.sets).hexdigest()
    content = [
        entry.id, entry.time, entry.user, entry.table, entry.kind, entry.digest, entry.query, *entry.cost.amounts,
        sets, entry.refers, entry.answer, entry.previous,
    ]  # fmt: skip
    return hashlib.sha256(_text(content).encode()).hexdigest()


def sealed(entry: Entry) -> Entry:
    """Give the entry with its hash."""
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
