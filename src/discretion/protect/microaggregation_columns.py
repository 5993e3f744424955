"""The columns that microaggregation works on: as numbers, ranks or categories, and back again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "ordinal", "nominal"]


@dataclass(frozen=True)
class Encoded:
    """One column as numbers; ranks and categories are 0 … size−1 in their order. NaN is missing."""

    name: str
    kind: Kind
    values: Floats
    size: int = 0
    examples: Ints | None = None
    """a row that has each rank or category (any row for one that does not occur)"""

    def decode(self, values: Floats, series: pl.Series) -> pl.Series:
        """Give values, ranks or categories as the column's own values; NaN as null. `series` is the original."""
        import polars as pl

        absent = np.isnan(values)
        if self.examples is not None:
            codes = np.where(absent, 0, values).astype(np.int64)
            found = series.gather(self.examples[codes])
        elif series.dtype.is_temporal():
            found = pl.Series(np.where(absent, 0, np.round(values)).astype(np.int64)).cast(series.dtype)
        else:
            return pl.Series(values, nan_to_null=True)
        return pl.select(pl.when(pl.Series(~absent)).then(found)).to_series() if absent.any() else found


def kind_of(data: Dataset, name: str) -> Kind:
    """Tell whether a column is averaged (numbers, dates), ordered or only compared."""
    kind, dtype = data.type_of(name), data.frame.schema[name]
    if kind == "set" or dtype.is_nested():
        raise DataError(f"column {name!r} holds sets; they are aggregated alone, with distance: jaccard")
    if kind == "ordinal":
        return "ordinal"
    averaged = dtype.is_temporal() or (dtype.is_numeric() and kind != "nominal")
    return "number" if averaged else "nominal"


def encode(data: Dataset, name: str) -> Encoded:
    """Give a column by its kind."""
    import polars as pl

    kind = kind_of(data, name)
    if kind == "number":
        series = data.frame[name]
        if series.dtype.is_temporal():
            return Encoded(name, kind, series.to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return Encoded(name, kind, data.number(name))
    codes = data.codes(name)
    used = np.flatnonzero(codes.first_rows >= 0)
    used = used[used != codes.missing]
    ranks, size = _ranks(data, name, kind, codes.series.gather(codes.first_rows[used]))
    rank = np.full(max(codes.size, 1), np.nan)
    rank[used] = ranks
    examples = np.zeros(max(size, 1), dtype=np.int64)
    examples[ranks] = codes.first_rows[used]
    return Encoded(name, kind, rank[codes.codes] if len(codes.codes) else np.empty(0), size, examples)


def _ranks(data: Dataset, name: str, kind: Kind, distinct: pl.Series) -> tuple[Ints, int]:
    """Number distinct values in the order of the schema, of the type, or of the values; and say how many there are."""
    import polars as pl

    declared = {text: place for place, text in enumerate(data.schema[name].order)}
    dtype = distinct.dtype
    if declared:
        texts = [canonical(value) for value in distinct.to_list()]
        unknown = [text for text in texts if text not in declared]
        if unknown:
            raise DataError(f"column {name!r} has {len(unknown)} values that its order does not list")
        return np.array([declared[text] for text in texts], dtype=np.int64), len(declared)
    if isinstance(dtype, pl.Enum):
        return distinct.to_physical().to_numpy().astype(np.int64), len(dtype.categories)
    if kind == "ordinal" and not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean):
        raise DataError(f"column {name!r} is ordinal, but nothing says in which order; give it under `orders`")
    plain = distinct if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean else distinct.cast(pl.String)
    ranks = np.empty(len(distinct), dtype=np.int64)
    ranks[plain.arg_sort().to_numpy()] = np.arange(len(distinct))
    return ranks, len(distinct)
