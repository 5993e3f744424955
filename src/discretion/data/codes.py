"""Integer codes of columns, and the equivalence classes built on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS

if TYPE_CHECKING:
    import polars as pl

Missing = Literal["category", "wildcard", "ignore"]
"""How a missing value counts: as a category of its own, as matching anything, or by leaving its record out."""

_DIRECT = 1 << 22


@dataclass(frozen=True)
class ColumnCodes:
    """One column as integers 0 … size−1; `missing` is the code of missing values, −1 where there are none."""

    codes: NDArray[np.integer[Any]]
    size: int
    missing: int
    series: pl.Series = field(repr=False)

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """A row for each code (−1 for a code that does not occur)."""
        first = np.full(self.size, -1, dtype=np.int64)
        first[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return first

    @cached_property
    def counts_and_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records have each code, and a row that has it; in blocks that stay in the processor's cache."""
        counts = np.zeros(self.size, np.int64)
        rows = np.zeros(self.size, np.int64)
        block = max(BATCH_ROWS, self.size)
        for start in range(0, len(self.codes), block):
            codes = self.codes[start : start + block]
            found = np.bincount(codes, minlength=self.size)
            if ((counts == 0) & (found > 0)).any():
                rows[codes] = np.arange(start, start + len(codes))
            counts += found
        return counts, rows

    @cached_property
    def values(self) -> list[object]:
        """The value each code stands for; None for missing and for codes that do not occur."""
        rows = self.first_rows
        found = plain(self.series.gather(np.where(rows < 0, 0, rows))).to_list() if len(self.series) else []
        return [
            value if row >= 0 and code != self.missing else None
            for code, (value, row) in enumerate(zip(found, rows, strict=True))
        ]


@dataclass(frozen=True)
class Classes:
    """Records that agree on some columns: class of each record, size and one row of each class."""

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The size of each record's class."""
        return self.counts[self.ids]


def add_counts(groups: NDArray[np.integer[Any]], counts: NDArray[np.int64] | None, size: int) -> NDArray[np.int64]:
    """Add up the records of the rows of each group; every row is a record where no counts are given."""
    return np.bincount(groups, counts, minlength=size).astype(np.int64)  # sums of whole numbers below 2^53 are exact


def wildcard_sizes(
    coded: Sequence[ColumnCodes], counts: NDArray[np.int64] | None = None, alpha: float = 1.0
) -> NDArray[np.float64]:
    """Count the records that each record may equal when a missing value may be anything.

    One that has missing values itself counts `alpha`; `counts`: how many records each row stands for.
    """
    from discretion.kernels.classes import wildcard_counts

    missing = [c.missing if c.missing >= 0 else None for c in coded]
    rows, weights = wildcard_counts([c.codes for c in coded], missing, [c.size for c in coded], counts, alpha)
    return np.asarray(rows if weights is None else weights, dtype=np.float64)


def count_few(series: pl.Series, most: int = 10) -> int:
    """Count the different values of a column of whole numbers, also stored as floats; 0 if more than `most` or others.

    A part of the rows is looked at first, so that columns of many values take no time.
    """
    for part in (series.head(1000), series):
        values = part.drop_nulls().drop_nans() if part.dtype.is_float() else part.drop_nulls()
        found = values.unique()
        if len(found) > most or (found.dtype.is_float() and bool((found != found.round()).any())):
            return 0
    return len(found)


def encode(series: pl.Series) -> ColumnCodes:
    """Give the codes of a column; NaN counts as missing, −0.0 as 0.0."""
    import polars as pl

    kind = series.dtype
    if kind == pl.Boolean:
        plain = series.cast(pl.UInt8)
        return _narrow(series, plain.fill_null(2).to_numpy(), 3 if series.null_count() else 2, series.null_count())
    if kind in (pl.Categorical, pl.Enum):
        return _from_physical(series, series.to_physical())
    if kind == pl.String:
        local = pl.Categorical(pl.Categories.random())
        return _from_physical(series, series.cast(local).to_physical())
    if kind in (pl.Int128, pl.UInt128):
        return encode_as(series, series.cast(pl.String))
    if kind.is_integer() or kind.is_temporal():
        return _from_integers(series, series.to_physical())
    if kind.is_float():
        return _from_floats(series)
    if isinstance(kind, pl.List | pl.Array):
        return encode_as(series, set_keys(series))
    if kind == pl.Binary:
        return encode_as(series, series.bin.encode("hex"))
    return encode_as(series, series.cast(pl.String))


def plain(series: pl.Series) -> pl.Series:
    """Write values that count as the same alike: NaN as missing, −0.0 as 0.0."""
    if not series.dtype.is_float():
        return series
    known = series.fill_nan(None)
    return known.set(known == 0, 0.0)


def as_texts(series: pl.Series) -> pl.Series:
    """Write values as text; durations as hierarchies write them, for polars has no text for them."""
    import polars as pl

    if series.dtype == pl.Duration:
        return pl.Series(series.name, [None if value is None else str(value) for value in series], pl.String)
    return series.cast(pl.String)


def encode_as(series: pl.Series, text: pl.Series) -> ColumnCodes:
    """Encode by another representation of the same column."""
    found = encode(text)
    return ColumnCodes(found.codes, found.size, found.missing, series)


def set_keys(series: pl.Series) -> pl.Series:
    """Write each set as text that no other set has: every item once, by its length and itself, in order."""
    import polars as pl

    if isinstance(series.dtype, pl.Array):
        series = series.arr.to_list()
    item = pl.element().cast(pl.String)
    keys = (item.str.len_bytes().cast(pl.String) + ":" + item).unique().sort()
    return series.to_frame("set").select(pl.col("set").list.eval(keys).list.join("")).to_series()


def _from_physical(series: pl.Series, physical: pl.Series) -> ColumnCodes:
    nulls = physical.null_count()
    top = physical.max()
    size = 0 if top is None else int(cast(int, top)) + 1
    if size > max(4 * len(series), _DIRECT):
        return _by_hash(series, physical.cast(int), nulls)
    if nulls:
        physical = physical.fill_null(size)
    return _narrow(series, physical.to_numpy(), size + bool(nulls), nulls)


def _from_integers(series: pl.Series, physical: pl.Series) -> ColumnCodes:
    import polars as pl

    nulls = physical.null_count()
    low, high = physical.min(), physical.max()
    if low is None or high is None:
        return _narrow(series, np.zeros(len(series), np.uint8), 1, nulls)
    span = int(cast(int, high)) - int(cast(int, low)) + 1
    if span > max(2 * len(series), 1 << 16):
        return _by_hash(series, physical.cast(pl.Int64, wrap_numerical=True), nulls)
    wide = physical if physical.dtype == pl.UInt64 else physical.cast(pl.Int64)
    shifted = (wide - low).fill_null(span) if nulls else wide - low
    return _narrow(series, shifted.to_numpy(), span + bool(nulls), nulls)


def _from_floats(series: pl.Series) -> ColumnCodes:
    import polars as pl

    clean = series.cast(pl.Float64).fill_nan(None)
    bits = pl.Series((clean.fill_null(0.0).to_numpy() + 0.0).view(np.int64))  # + 0.0 turns −0.0 into 0.0
    nulls = clean.null_count()
    if nulls:
        bits = pl.select(pl.when(clean.is_null()).then(None).otherwise(bits)).to_series()
    return _by_hash(series, bits, nulls)


def _by_hash(series: pl.Series, integers: pl.Series, nulls: int) -> ColumnCodes:
    from discretion.kernels.hashing import dense_ids_by_hash

    present = np.ascontiguousarray(integers.drop_nulls().to_numpy())
    ids, counts, _ = dense_ids_by_hash(present.view(np.uint64))
    size = len(counts)
    if not nulls:
        return _narrow(series, ids, size, 0)
    codes = np.full(len(integers), size, dtype=np.int64)
    codes[integers.is_not_null().to_numpy()] = ids
    return _narrow(series, codes, size + 1, nulls)


def _narrow(series: pl.Series, codes: NDArray[np.integer[Any]], size: int, nulls: int) -> ColumnCodes:
    for kind in (np.uint8, np.uint16, np.uint32):
        if size <= np.iinfo(kind).max:
            codes = codes.astype(kind, copy=False)
            break
    return ColumnCodes(codes, size, size - 1 if nulls else -1, series)
