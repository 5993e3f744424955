"""Columns as a generator sees them: numbers, or codes of levels; and generated numbers as columns again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

MOST_LEVELS = 10_000
_ALONE_SHARE = 0.5
_FEW_LEVELS = 30
_MOST_ITEMS = 200


@dataclass(frozen=True)
class Variable:
    """One column, or one item of a column of sets: numbers (NaN: missing), or codes 0 … size−1."""

    column: str
    values: Floats
    size: int = 0
    """number of levels; 0 for numbers"""
    ordered: bool = True
    """whether the codes have an order of their own"""
    item: int = -1
    """of a column of sets: the item, or −2 for whether there is a set at all"""
    units: Ints | None = None
    """the person or household each row belongs to, where the data says so"""

    def part(self, rows: Ints) -> Variable:
        """Give the variable of some rows."""
        units = None if self.units is None else self.units[rows]
        return replace(self, values=self.values[rows], units=units)

    @property
    def rows_per_unit(self) -> float:
        """Rows that a person or household has, on average."""
        return 1.0 if self.units is None else len(self.units) / max(len(np.unique(self.units)), 1)

    def level_counts(self) -> Ints:
        """For each level the number of people (or households) that have it."""
        codes = codes_of(self.values)
        if self.units is not None:
            codes = np.unique(self.units * self.size + codes) % self.size
        return np.bincount(codes, minlength=self.size)

    @property
    def key(self) -> str:
        """The name of the variable."""
        return self.column if self.item == -1 else f"{self.column}/{self.item}"

    @property
    def weight(self) -> int:
        """How late the variable is drawn: numbers early, nominal columns of many levels last."""
        return _NUMBER_WEIGHT if not self.size else self.size


_NUMBER_WEIGHT = 3


@dataclass(frozen=True)
class ColumnKind:
    """How a column is written: what a generated code stands for."""

    column: str
    kind: str
    """number, level or set"""
    labels: tuple[Any, ...] = ()
    """the levels (missing as None), or the items of the sets"""
    missing: bool = False
    """of sets: whether some are missing"""

    def to_plain(self) -> dict[str, Any]:
        """Give the description as plain data."""
        return {"column": self.column, "kind": self.kind, "labels": list(self.labels), "missing": self.missing}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> ColumnKind:
        """Read a description that was saved."""
        return cls(known["column"], known["kind"], tuple(known["labels"]), bool(known["missing"]))

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the column's variables."""
        if self.kind != "set":
            return (self.column,)
        first = (f"{self.column}/-2",) if self.missing else ()
        return (*first, *(f"{self.column}/{item}" for item in range(len(self.labels))))

    def series(self, drawn: Mapping[str, Floats], dtype: pl.DataType) -> pl.Series:
        """Write generated numbers as a column of the data's type."""
        import polars as pl

        if self.kind == "number":
            values = pl.Series(self.column, drawn[self.column]).fill_nan(None)
            return _as_number(values, dtype)
        if self.kind == "level":
            levels = pl.Series(self.column, [_plain_to(label, dtype) for label in self.labels], dtype=dtype)
            return levels.gather(drawn[self.column].astype(np.int64))
        return self._sets(drawn, dtype)

    def _sets(self, drawn: Mapping[str, Floats], dtype: pl.DataType) -> pl.Series:
        import polars as pl

        columns = [drawn[f"{self.column}/{item}"] > 0 for item in range(len(self.labels))]
        members = np.column_stack(columns)
        rows = [[self.labels[item] for item in np.flatnonzero(row)] for row in members]
        series = pl.Series(self.column, rows, dtype=dtype)
        if not self.missing:
            return series
        return series.set(pl.Series(drawn[f"{self.column}/-2"] == 0), None)


def _as_number(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    import polars as pl

    if dtype.is_integer() or dtype.is_temporal():
        values = values.round().cast(pl.Int64)
        return values.cast(pl.Int32).cast(dtype) if dtype == pl.Date else values.cast(dtype)
    return values.cast(dtype)


def _plain_to(label: Any, dtype: pl.DataType) -> Any:
    return label if label is None or not dtype.is_float() else float(label)


def describe(data: Dataset, column: str, who: str) -> tuple[ColumnKind, tuple[Variable, ...]]:
    """Read a column for learning: what its values stand for, and its variables."""
    import polars as pl

    dtype = data.frame.schema[column]
    if not isinstance(data.levels.get(column, 0), int):
        raise DataError(f"{who}: column {column!r} was generalized record by record; synthesize the data before that")
    if isinstance(dtype, pl.List):
        return _describe_sets(data, column, who)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise DataError(f"{who}: column {column!r} holds values of the type {dtype}, which cannot be drawn; drop it")
    if is_number(data, column):
        return ColumnKind(column, "number"), (Variable(column, as_number(data, column)),)
    kind = ColumnKind(column, "level", _labels(data, column))
    return kind, (_levels(data, kind),)


def reread(data: Dataset, kind: ColumnKind) -> tuple[Variable, ...]:
    """Read a column as it was read for learning; a level that was not seen then counts as missing, or as the first."""
    if kind.kind == "number":
        return (Variable(kind.column, as_number(data, kind.column)),)
    if kind.kind == "set":
        return _set_variables(data, kind)
    return (_levels(data, kind),)


def is_number(data: Dataset, column: str) -> bool:
    """Tell whether a column is drawn as numbers: quantities and dates, not codes with few values."""
    if data.frame.schema[column].is_temporal():
        return True
    return data.is_numeric(column) and data.is_quantity(column) and not data.is_category(column)


def as_number(data: Dataset, column: str) -> Floats:
    """Give a column of quantities or dates as floats: dates as days, times as their smallest unit."""
    import polars as pl

    series = data.frame[column]
    if series.dtype.is_temporal():
        return series.to_physical().cast(pl.Float64).to_numpy()
    return data.number(column)


def too_many_levels(data: Dataset, column: str) -> str:
    """Say why a column cannot be drawn level by level: it names people, or is free text; empty where it can."""
    coded = data.codes(column)
    counts = coded.counts_and_rows[0]
    if coded.missing >= 0:
        counts = np.delete(counts, coded.missing)
    counts = counts[counts > 0]
    alone = int((counts == 1).sum())
    if len(counts) > MOST_LEVELS:
        return f"has {len(counts):,} different values; more than {MOST_LEVELS:,} cannot be drawn"
    if len(counts) > _FEW_LEVELS and alone > _ALONE_SHARE * len(data):
        return f"has {len(counts):,} different values in {len(data):,} rows, most of them of one person only"
    return ""


def _labels(data: Dataset, column: str) -> tuple[Any, ...]:
    """List the levels that occur, in their own order or by value; missing last."""
    coded = data.codes(column)
    present = [value for value in coded.values if value is not None]
    order = data.schema[column].order
    if order:
        places = {text: place for place, text in enumerate(order)}
        present.sort(key=lambda value: (places.get(canonical(value), len(places)), canonical(value)))
    elif _is_enum(data, column):
        places = {text: place for place, text in enumerate(data.frame.schema[column].categories.to_list())}  # type: ignore[attr-defined]
        present.sort(key=lambda value: places[str(value)])
    elif data.is_numeric(column):
        present.sort()
    else:
        present.sort(key=canonical)
    return (*present, *([None] if data.count_missing(column) else []))


def _is_enum(data: Dataset, column: str) -> bool:
    import polars as pl

    return isinstance(data.frame.schema[column], pl.Enum)


def _levels(data: Dataset, kind: ColumnKind) -> Variable:
    coded = data.codes(kind.column)
    place = {label: float(code) for code, label in enumerate(kind.labels)}
    unknown = place.get(None, 0.0)
    numbers = np.array([place.get(value, unknown) for value in coded.values] or [0.0])
    ordered = bool(data.schema[kind.column].order) or _is_enum(data, kind.column) or data.is_numeric(kind.column)
    ordered = ordered and None not in kind.labels
    return Variable(kind.column, numbers[coded.codes], len(kind.labels), ordered or len(kind.labels) <= 2)


def _describe_sets(data: Dataset, column: str, who: str) -> tuple[ColumnKind, tuple[Variable, ...]]:
    items = data.frame[column].explode().drop_nulls().unique().sort().to_list()
    if len(items) > _MOST_ITEMS:
        raise DataError(
            f"{who}: column {column!r} holds sets of {len(items):,} different items; at most {_MOST_ITEMS} can be "
            "drawn one by one: group the items first, or drop the column"
        )
    kind = ColumnKind(column, "set", tuple(items), bool(data.count_missing(column)))
    return kind, _set_variables(data, kind)


def _set_variables(data: Dataset, kind: ColumnKind) -> tuple[Variable, ...]:
    import polars as pl

    series = data.frame[kind.column]
    found = []
    if kind.missing:
        found.append(Variable(kind.column, series.is_not_null().cast(pl.Float64).to_numpy(), 2, item=-2))
    for number, item in enumerate(kind.labels):
        has = series.list.contains(item).fill_null(False).cast(pl.Float64).to_numpy()
        found.append(Variable(kind.column, has, 2, item=number))
    return tuple(found)


def by_key(variables: Sequence[Variable]) -> dict[str, Floats]:
    """Give the values of variables by their names."""
    return {variable.key: variable.values for variable in variables}


def codes_of(values: Floats) -> Ints:
    """Give codes as whole numbers."""
    return values.astype(np.int64)
