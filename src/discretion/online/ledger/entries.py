"""What stands in a ledger: costs in whole units, entries, and query sets packed small."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from discretion.errors import DataError, PlanError
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
        """Give the entry as plain data."""
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
    """Give the entry back, or raise DataError where a field holds what no ledger writes (SQLite would keep it)."""
    texts = [getattr(entry, name) for name in _TEXTS]
    whole = [entry.id, entry.time] if entry.refers is None else [entry.id, entry.time, entry.refers]
    texts += [] if entry.answer is None else [entry.answer]
    good = all(type(text) is str for text in texts) and all(type(number) is int for number in whole)
    good = good and 0 <= entry.time <= _LATEST and (entry.sets is None or isinstance(entry.sets, bytes))
    if not good or any("\ud800" <= sign <= "\udfff" for text in texts for sign in text if not text.isascii()):
        raise DataError(f"the entry numbered {entry.id if type(entry.id) is int else '?'} is none that a ledger writes")
    return entry


def moment_of(time: int) -> datetime:
    """Give a moment from microseconds."""
    return _EPOCH + timedelta(microseconds=time)


def microseconds(moment: datetime) -> int:
    """Give microseconds since 1970."""
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
