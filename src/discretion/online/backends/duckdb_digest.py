"""Digests of the columns of an embedded table: the same values in the same order give the same digest, on any version.

Nothing of the database's own (hashes, layouts in memory) is in them, since they are compared between two runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discretion.online.backends.duckdb_load import Loaded

if TYPE_CHECKING:
    import polars as pl

_PORTION = 2**20
_DIGEST = 32


def column_digests(cursor: Any, loaded: Loaded, columns: Sequence[str], rows: int, key: bytes) -> dict[str, str]:
    """Give for each column ("": the people) a digest of the first rows; reads a million rows at a time."""
    places = [loaded.layout.column(name) if name else loaded.person for name in columns]
    found = [hashlib.blake2b(name.encode(), digest_size=_DIGEST, key=key) for name in columns]
    chosen = ", ".join(f"{place} AS v{i}" for i, place in enumerate(places))
    for start in range(0, min(rows, loaded.rows), _PORTION):
        stop = min(start + _PORTION, rows)
        part = cursor.sql(f"SELECT {chosen} FROM data WHERE rowid >= {start:d} AND rowid < {stop:d} ORDER BY rowid")
        for digest, values in zip(found, part.pl(), strict=True):
            for piece in _pieces(values):
                digest.update(piece)
    return {name: digest.hexdigest() for name, digest in zip(columns, found, strict=True)}


def _pieces(values: pl.Series) -> list[Any]:
    """Give the bytes of a column: what is missing, then lengths and texts, or numbers of one width."""
    import polars as pl

    missing = values.is_null().to_numpy()
    if values.dtype == pl.String:
        lengths = values.str.len_bytes().cast(pl.Int64).fill_null(0).to_numpy()
        return [missing, lengths, (values.str.join("").item() or "").encode()]
    wide = pl.Float64 if values.dtype.is_float() else pl.Int64
    return [missing, values.to_physical().cast(wide).fill_null(0).to_numpy()]
