"""Keyed fingerprints of columns: equal for equal values, wherever they were read, and nothing to anybody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, keyed_hash
from discretion.data.dataset import Dataset, Piece

_FEW = 65_536
"""Texts with at most as many different values are hashed as their ranks among these."""


def fingerprint(data: Dataset, column: str, key: bytes) -> bytes:
    """Hash the values of a column, in their order, under a key: batches of 65,536 rows, then the batches together.

    Numbers count as numbers whatever their width, categories as text, NaN as missing: the same data gives the same
    fingerprint from pandas, polars and pyarrow, and from every file format that keeps its values. It is kept with the
    data. A fingerprint without a secret key would let people guess rare values: it must never be public.
    """
    known: dict[bytes, bytes] = data.cached(("fingerprint", column), dict)
    if key not in known:
        kind, look = _looking(data.at_hand_of([column]), column, key)
        digests = data.at_hand_of([column]).each_batch([column], lambda piece: keyed_hash(key, look(piece)))
        known[key] = keyed_hash(key, column, kind, str(len(data)), *digests)
    return known[key]


def _looking(data: Dataset, column: str, key: bytes) -> tuple[bytes, Callable[[Piece], bytes]]:
    """Give the kind of the column, and what writes a batch of it as bytes."""
    import polars as pl

    kind = data.kinds[column]
    if kind.is_numeric():
        return b"numbers", partial(_numbers, column, key)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        texts = data.texts(column, _FEW)
        if texts is None:
            return b"many texts", partial(_many_texts, column)
        listed = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
        return b"texts" + listed, partial(_few_texts, column, texts)
    if kind.is_temporal() or kind == pl.Boolean:  # pandas has no dates without time
        return str(kind.base_type()).replace("Datetime", "Date").encode(), partial(_whole, column)
    return str(kind.base_type()).encode(), partial(_nested, column)


@lru_cache(maxsize=1)
def _pads(key: bytes) -> NDArray[np.uint64]:
    from discretion.kernels.hashing import MORE_KEYS

    pads = np.random.Philox(key=int.from_bytes(keyed_hash(key, "numbers")[:16], "big"))
    return np.asarray(pads.random_raw(BATCH_ROWS + MORE_KEYS), np.uint64)


def _numbers(column: str, key: bytes, piece: Piece) -> bytes:
    from discretion.kernels.hashing import hash_floats

    return hash_floats(piece.number(column), _pads(key)).tobytes()


def _whole(column: str, piece: Piece) -> bytes:
    import polars as pl

    series = piece.series(column)
    moments = series.cast(pl.Datetime("us")) if series.dtype == pl.Date else series
    timed = isinstance(moments.dtype, pl.Datetime | pl.Duration)
    whole = (moments.dt.cast_time_unit("us") if timed else moments).to_physical().cast(pl.Int64)
    return bytes(whole.is_null().to_numpy().tobytes() + whole.fill_null(0).to_numpy().tobytes())


def _nested(column: str, piece: Piece) -> bytes:
    return json.dumps(piece.series(column).to_list(), default=str).encode()


def _few_texts(column: str, texts: Sequence[bytes], piece: Piece) -> bytes:
    """Write texts as their ranks among the different ones."""
    coded = piece.data.codes(column)

    def make() -> NDArray[Any]:
        import polars as pl

        counts, rows = coded.counts_and_rows
        used = np.flatnonzero(counts)
        used = used[used != coded.missing]
        place = {text: rank for rank, text in enumerate(texts)}
        ranks = np.full(max(coded.size, 256), len(texts), np.uint8 if len(texts) < 256 else np.uint16)
        ranks[used] = [place[text.encode()] for text in coded.series.gather(rows[used]).cast(pl.String).to_list()]
        return ranks

    ranks = piece.data.cached(("ranks", column), make)
    codes = coded.codes[piece.start : piece.stop]
    narrow = ranks.dtype == np.uint8 == codes.dtype
    return codes.tobytes().translate(ranks.tobytes()) if narrow else ranks[codes].tobytes()


def _many_texts(column: str, piece: Piece) -> bytes:
    import polars as pl

    part = piece.series(column).cast(pl.String)
    lengths = part.str.len_bytes().cast(pl.Int64).fill_null(-1).to_numpy()
    return bytes(lengths.tobytes() + str(part.str.join("").item() or "").encode())
