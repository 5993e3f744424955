"""Keyed fingerprints of columns: equal for equal values, wherever they were read, and nothing to anybody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, keyed_hash
from discretion.data.codes import ColumnCodes
from discretion.data.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

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
        contents = _contents(data, column, key)
        kind = next(contents)
        known[key] = keyed_hash(key, column, kind, str(len(data)), *(keyed_hash(key, one) for one in contents))
    return known[key]


def _contents(data: Dataset, column: str, key: bytes) -> Iterator[bytes]:
    """Yield the kind of the column, then each batch of it."""
    import polars as pl

    series, kind = data.series(column), data.kinds[column]
    if kind.is_numeric():
        yield b"numbers"
        yield from _numbers(data.number(column), key)
    elif kind in (pl.String, pl.Categorical, pl.Enum):
        yield from _texts(data.codes(column))
    elif kind.is_temporal() or kind == pl.Boolean:
        yield str(kind.base_type()).replace("Datetime", "Date").encode()  # pandas has no dates without time
        moments = series.cast(pl.Datetime("us")) if kind == pl.Date else series
        whole = moments.dt.cast_time_unit("us") if isinstance(moments.dtype, pl.Datetime | pl.Duration) else moments
        yield from _whole(whole.to_physical().cast(pl.Int64))
    else:
        yield str(kind.base_type()).encode()
        yield from (json.dumps(part.to_list(), default=str).encode() for part in _parts(series))


def _parts(series: pl.Series) -> Iterator[pl.Series]:
    return (series.slice(start, BATCH_ROWS) for start in range(0, len(series), BATCH_ROWS))


def _numbers(x: NDArray[np.float64], key: bytes) -> Iterator[bytes]:
    from discretion.kernels.hashing import MORE_KEYS, hash_floats

    pads = np.random.Philox(key=int.from_bytes(keyed_hash(key, "numbers")[:16], "big"))
    keys = np.asarray(pads.random_raw(min(len(x), BATCH_ROWS) + MORE_KEYS), np.uint64)
    for start in range(0, len(x), BATCH_ROWS):
        yield hash_floats(x[start : start + BATCH_ROWS], keys).tobytes()


def _whole(series: pl.Series) -> Iterator[bytes]:
    for part in _parts(series):
        yield part.is_null().to_numpy().tobytes() + part.fill_null(0).to_numpy().tobytes()


def _texts(coded: ColumnCodes) -> Iterator[bytes]:
    """Yield texts as their ranks among the different ones, which stand before them; many different as they are."""
    import polars as pl

    counts, rows = coded.counts_and_rows
    used = np.flatnonzero(counts)
    used = used[used != coded.missing]
    if len(used) < _FEW:
        texts = [text.encode() for text in coded.series.gather(rows[used]).cast(pl.String).to_list()]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        yield b"texts" + b"".join(len(texts[place]).to_bytes(8, "big") + texts[place] for place in order)
        ranks = np.full(max(coded.size, 256), len(texts), np.uint8 if len(texts) < 256 else np.uint16)
        ranks[used[order]] = np.arange(len(texts))
        narrow = ranks.dtype == np.uint8 == coded.codes.dtype
        for start in range(0, len(coded.codes), BATCH_ROWS):
            codes = coded.codes[start : start + BATCH_ROWS]
            yield codes.tobytes().translate(ranks.tobytes()) if narrow else ranks[codes].tobytes()
        return
    yield b"many texts"
    for part in _parts(coded.series.cast(pl.String)):
        lengths = part.str.len_bytes().cast(pl.Int64).fill_null(-1).to_numpy()
        yield lengths.tobytes() + str(part.str.join("").item() or "").encode()
