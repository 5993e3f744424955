"""What the methods that aggregate groups of records share: their fields, missing values, and the released values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, Scale
from discretion.protect.noise_keep import Precision, decimals_of

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.microaggregate import How, Members

# The columns that microaggregation works on: as numbers, ranks or categories, and back again.

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


Aggregate = Literal["mean", "median", "mode"]
Replace = Literal["all", "one"]
Grouping = Callable[[Floats], NDArray[np.signedinteger]]
"""From a complete matrix of records to the group of each."""


class AggregatesGroups(StratifiedMethod):
    """The fields of methods that replace values by what stands for a group of at least k."""

    columns: Columns = ()
    """numeric columns to aggregate together; without it, the numeric quasi-identifiers and sensitive columns"""
    k: int = Field(3, ge=2)
    """smallest group size"""
    aggregate: Aggregate = "mean"
    """what stands for a group: its mean, its median, or its most frequent value (the smallest of equals)"""
    replace: Replace = "all"
    """replace all values of a group, or one of each column, drawn at random ("blurring": no k-anonymity)"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""
    precision: Precision = "full"
    """`full`: publish all digits of means; `original`: round to the number of decimals of the column (whole numbers
    stay whole), after which means hold only nearly"""

    by_group: ClassVar[bool] = True

    def in_precision(self, before: Dataset, after: Dataset, columns: Sequence[str]) -> Dataset:
        """Round the new numbers as the plan says; a value of the column's precision lies on the same side of a center.

        (Rounding is monotone and leaves such values alone: what an intruder says of centers next to a value still
        holds.)
        """
        if self.precision == "full":
            return after
        import polars as pl

        new = {}
        numbers = [name for name in columns if before.is_numeric(name) and after.frame.schema[name].is_float()]
        for name, digits in decimals_of(before, numbers).items():
            rounded = pl.Series(np.round(after.number(name), digits) + 0.0).fill_nan(None)
            kind = before.frame.schema[name]
            new[name] = rounded.cast(kind) if kind.is_integer() else rounded
        return after.with_columns(new) if new else after


class Microaggregation(AggregatesGroups):
    """A method that groups similar records on numeric columns and replaces values by what stands for their group."""

    scale: ClassVar[Scale] = "blocks"

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Group the records and replace their values."""
        columns = data.choose(self.columns, "perturb")
        x = data.numbers(columns)
        labels = labels_by_pattern(x, columns, self.k, lambda part: self._groups(part, ctx))
        encoded = [Encoded(name, "number", data.number(name)) for name in columns]
        values = values_of(data, encoded, labels, self.aggregate, self.replace)
        new = publish(data, values, labels, self.replace, self.integers or self.aggregate == "mode", ctx)
        return self.in_precision(data, new, columns)

    @abstractmethod
    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group records without missing values; give the group of each."""


def standardized(x: Floats) -> Floats:
    """Divide each column by its standard deviation (1/N), constant columns by one."""
    sd = x.std(axis=0)
    return np.asarray(x / np.where(sd > 0, sd, 1.0))


def require_k(rows: int, k: int, columns: Sequence[str]) -> None:
    """Raise if there are fewer records than a group needs."""
    if rows < k:
        raise DataError(f"k = {k} is larger than the {rows} records with values in {', '.join(columns)}")


def labels_by_pattern(x: Floats, columns: Sequence[str], k: int, group: Grouping) -> Members:
    """Group records with those that miss the same values; those with a rare pattern, or without values, are in none."""
    from discretion.kernels.classes import patterns
    from discretion.kernels.microaggregate import group_members

    require_k(len(x), k, columns)
    missing = np.isnan(x)
    if not missing.any():
        return group_members(group(x))
    missing |= _hide_rare_patterns(x, missing, k)[:, None]
    labels = np.full(len(x), -1, dtype=np.int64)
    kinds, pattern = patterns(missing)
    parts = np.split(np.argsort(pattern, kind="stable"), np.cumsum(np.bincount(pattern, minlength=len(kinds)))[:-1])
    first = 0
    for absent, rows in zip(kinds, parts, strict=True):
        if not absent.all():
            found = group(np.ascontiguousarray(x[np.ix_(rows, np.flatnonzero(~absent))]))
            labels[rows] = found + np.int64(first)
            first += int(found.max()) + 1
    return group_members(labels)


def _hide_rare_patterns(x: Floats, missing: Bools, k: int) -> Bools:
    """Choose the records whose values must be suppressed so that every pattern of missing values has k records."""
    from discretion.kernels.classes import patterns

    pattern = patterns(missing)[1]
    counts = np.bincount(pattern)
    empty = missing.all(axis=1)
    hidden: Bools = (counts < k)[pattern] & ~empty
    lacking = k - int((hidden | empty).sum())
    if not (hidden | empty).any() or lacking <= 0:
        return hidden
    largest = (pattern == counts.argmax()) & ~hidden & ~empty
    if largest.sum() - lacking < k:
        raise DataError(f"too few records with values to build groups of k = {k} beside those with missing values")
    rows = np.flatnonzero(largest)
    seen = ~missing[rows[0]]
    part = x[np.ix_(rows, np.flatnonzero(seen))]
    spread = part.std(axis=0)
    distance = (((part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) ** 2).sum(axis=1)
    hidden[rows[np.argsort(-distance, kind="stable")[:lacking]]] = True
    return hidden


def values_of(
    data: Dataset, columns: Sequence[Encoded], members: Members, aggregate: Aggregate, replace: Replace
) -> dict[str, pl.Series]:
    """Give for each column the value of each group: numbers as asked for, the median rank, the most frequent category.

    A group in which somebody misses the value has none where all values are replaced, else the value of the others.
    """
    from discretion.kernels.microaggregate import group_values

    how: Mapping[str, How] = {"number": aggregate, "ordinal": "low-median", "nominal": "mode"}
    found = {}
    for column in columns:
        values = group_values(column.values, members, how[column.kind], skip_missing=replace == "one")
        found[column.name] = column.decode(values, data.frame[column.name])
    return found


def publish(
    data: Dataset, values: Mapping[str, pl.Series], members: Members, replace: Replace, integers: bool, ctx: Context
) -> Dataset:
    """Give the data with the values of groups; what is lost where nobody misses a value is marked as suppressed."""
    import polars as pl

    from discretion.kernels.microaggregate import choose_one

    new, hidden = {}, {}
    for name, of_groups in values.items():
        series = data.frame[name]
        present = ~_missing(series)
        if replace == "one":
            chosen = choose_one(members, present, ctx.within(name).rng)
            groups = np.flatnonzero(chosen >= 0)
            places = np.arange(len(series))
            places[chosen[groups]] = len(series) + groups
            whole = integers and series.dtype.is_integer()  # the values that stay are not to pass through fractions
            drawn = of_groups.round().cast(series.dtype) if whole else of_groups
            both = pl.concat([series.to_frame(name), drawn.alias(name).to_frame()], how="vertical_relaxed")
            new[name] = both[name].gather(places)
            continue
        in_group = members.labels >= 0
        spread = of_groups.gather(np.where(in_group, members.labels, 0)) if len(of_groups) else series
        if not in_group.all():
            spread = pl.select(pl.when(pl.Series(in_group)).then(spread)).to_series()
        new[name] = spread
        lost = _missing(spread) & present
        if lost.any():
            hidden[name] = lost
    changed = data.with_columns(new, integers=integers)
    return changed.with_columns({}, suppressed=hidden) if hidden else changed


def _missing(series: pl.Series) -> Bools:
    absent = series.is_null()
    return np.asarray(((absent | series.is_nan()) if series.dtype.is_float() else absent).to_numpy())
