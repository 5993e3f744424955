"""Whether the values that answers were given about are still the same: between two runs, and before a table grows.

The audit takes each person's value as one unknown for all time. A value that changed between two answers would show in
their difference, and nothing in the history would know. So the ledger keeps a digest of every column; it is keyed with
the secret of the service, because whoever knows all values but one could otherwise try out the last.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError, PlanError
from discretion.online.backends import Backend, table_of
from discretion.online.ledger import Kind, Ledger
from discretion.online.question.answer import Desk
from discretion.online.question.query import Query

if TYPE_CHECKING:
    import polars as pl

# Whether two tables hold the same people's values: in order, or most of them in any order, under whatever names.
#
# Signs are kept in the ledger, so they tell as little as they can: the order is one keyed digest, and of the values
# only 16 bits of 64 keyed digests are kept, which any value agrees with by chance.

_RUNS = 32
"""changes from row to row from which on equal values in the same order are no accident"""
_KEPT = 64
_BYTES = 2


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
    return values.cast(pl.Float64) + 0.0 if number else values.cast(pl.String)


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
    found = (hashlib.blake2b(piece, key=inner, digest_size=_BYTES).digest() for piece in pieces)
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
_SERVICE = "service"


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
