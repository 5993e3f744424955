"""Whether two tables hold the same people's values: in order, or most of them in any order, under whatever names.

Signs are kept in the ledger, so they tell as little as they can: the order is one keyed digest, and of the values only
16 bits of 64 keyed digests are kept, which any value agrees with by chance.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.online.backend import Backend, table_of

if TYPE_CHECKING:
    import polars as pl

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
    """Give the signs of the visible columns, of all rows or of the first ones; reads each column once."""
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
    """Give numbers as floats and everything else as text, so that types do not matter."""
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
