"""The data: a frame with roles, hierarchies, levels applied, suppressed cells and hidden row ids."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS
from discretion.data.codes import Classes, ColumnCodes, Missing, add_counts, count_few, encode, wildcard_sizes
from discretion.data.hierarchy import HierarchyLevels, MaskingHierarchy, canonical
from discretion.data.native import Source, finite, give_back, renewed, take_in
from discretion.data.schema import Role, Schema, Type
from discretion.data.text import not_numbers
from discretion.display import table
from discretion.errors import DataError, PlanError, unknown

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.text import Dialect
    from discretion.part import Part

Purpose = Literal["classes", "perturb", "compare", "compare-numbers"]
Level = int | NDArray[np.int64]
_T = TypeVar("_T")
_LARGE = 500_000
"""Rows from which on memory is scarcer than the time to make arrays of columns once more."""
_MADE_AGAIN = ("number", "codes", "classes", "wildcard-sizes", "texts", "compared with", "part of")
"""What is kept of columns for every row and quickly made again, by the first word of its key."""


def _trim() -> None:
    """Let the C library give freed memory back to the machine, where it can: it keeps arrays of some megabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


@dataclass(frozen=True)
class Piece:
    """A batch of at most 65,536 rows as they pass by: those of `data` from `start` to `stop`."""

    data: Dataset
    start: int
    stop: int
    place: int = 0
    """where the first of these rows stands in the file, where rows are not in memory"""

    def __len__(self) -> int:
        return self.stop - self.start

    def number(self, column: str) -> NDArray[np.float64]:
        """Give one numeric column as floats, missing as NaN."""
        return self.data.number(column)[self.start : self.stop]

    def series(self, column: str) -> pl.Series:
        """Give one column."""
        return self.data.series(column).slice(self.start, len(self))


class Dataset:
    """An immutable table of microdata.

    Every row carries a hidden id (its position in the data it came from) through every step; `levels` records
    how far each column has been generalized; suppressed cells are missing *and* marked. Derived data shares the
    columns it did not change and the work that was cached for them. The repr shows shape and columns, never values.

    `counts` names a column that tells how many records each row stands for: a frequency table of classes is data, too.
    What counts classes (privacy models, the optimal search, uniqueness) takes it like the rows themselves; what needs
    the rows refuses it.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Dataset(pl.DataFrame({"age": [30, 41], "income": [10.0, 20.0]}), roles={"age": "quasi"})
    Dataset(2 rows × 2 columns: age [quasi], income)
    """

    __slots__ = (
        "_cache",
        "_changed",
        "_counts",
        "_frame",
        "_masks",
        "_root",
        "_rows",
        "_source",
        "came_from",
        "copy_column",
        "dialect",
        "levels",
        "lost_records",
        "schema",
        "steps",
    )

    def __init__(
        self,
        frame: Any,
        *,
        roles: Mapping[str, object] | None = None,
        types: Mapping[str, object] | None = None,
        hierarchies: Mapping[str, object] | None = None,
        missing_codes: Mapping[str, object] | None = None,
        orders: Mapping[str, Sequence[object]] | None = None,
        schema: Schema | None = None,
        counts: str | None = None,
    ) -> None:
        if schema is None:
            schema = Schema.build(roles, types, hierarchies, missing_codes, orders)
        table, taken = take_in(frame)
        source: Source | None = taken
        _check_names(schema, table.columns)
        self._counts: tuple[str, NDArray[np.int64]] | None = None
        if counts is not None:
            self._counts = counts, _as_counts(table, counts)
            table, source = table.drop(counts), None
        self._source = source
        self._frame = as_read(table, schema)
        self.schema = schema.only(table.columns)
        self._changed: frozenset[str] = frozenset()
        self._rows: NDArray[np.int64] | None = None
        self._root: Dataset | None = None
        self._masks: Mapping[str, NDArray[np.bool_]] = MappingProxyType({})
        self._cache: dict[object, Any] = {}
        self.came_from: Mapping[str, Any] = MappingProxyType({})
        self.copy_column: str | None = None
        self.dialect: Dialect | None = None
        self.levels: Mapping[str, Level] = MappingProxyType({})
        self.lost_records = 0
        self.steps: tuple[Part, ...] = ()

    @classmethod
    def of(cls, data: Any, each: str = "") -> Dataset:
        """Take a Dataset as it is, or a frame without roles; `each`: what needs every record, and no classes."""
        found = data if isinstance(data, Dataset) else cls(data)
        if each:
            found.require_rows(each)
        return found

    def projected(self, columns: Sequence[str]) -> Dataset:  # noqa: ARG002 - for data that stays in its files
        """Give data whose rows are in memory with at least some columns: itself."""
        return self

    # --- looking ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._frame.height

    def __repr__(self) -> str:
        shown = [
            f"{name} [{', '.join(self.schema[name].roles)}]" if self.schema[name].roles != ("other",) else name
            for name in self.columns
        ]
        size = f"{len(self)} rows" if self._counts is None else f"{self.records} records in {len(self)} rows"
        return f"Dataset({size} × {len(self.columns)} columns: {', '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = [
            (name, ", ".join(self.schema[name].roles), self.type_of(name), "yes" if self.schema[name].hierarchy else "")
            for name in self.columns
        ]
        title = f"Dataset: {len(self):,} rows × {len(self.columns)} columns"
        return table(title, ("column", "roles", "type", "hierarchy"), rows, "Values are not shown.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._frame.columns)

    @property
    def frame(self) -> pl.DataFrame:
        """The data as a polars frame (missing codes as null)."""
        return self._frame

    def series(self, column: str) -> pl.Series:
        """Give one column as a polars series."""
        return self._frame[column]

    @property
    def kinds(self) -> Mapping[str, pl.DataType]:
        """The polars type of each column."""
        return self._frame.schema

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """How many records each row stands for; None where every row is a record."""
        return None if self._counts is None else self._counts[1]

    @property
    def records(self) -> int:
        """The number of records: of rows, or of what the rows stand for."""
        return len(self) if self._counts is None else int(self._counts[1].sum())

    def tally(self, rows: NDArray[np.bool_]) -> int:
        """Count the records of some rows."""
        return int(rows.sum() if self._counts is None else self._counts[1][rows].sum())

    def average(self, figures: NDArray[Any], rows: NDArray[np.bool_]) -> float:
        """Average a figure of some rows over their records."""
        chosen = figures[rows]
        return float(chosen.mean() if self._counts is None else np.average(chosen, weights=self._counts[1][rows]))

    @property
    def origin(self) -> Dataset:
        """The data this was derived from (itself, if it was not)."""
        return self if self._root is None else self._root

    @property
    def row_ids(self) -> NDArray[np.int64]:
        """For each row its position in the data it came from; −1 for a row that was made up and belongs to nobody."""
        return np.arange(len(self)) if self._rows is None else self._rows

    @property
    def has_new_rows(self) -> bool:
        """Whether rows were made up, so that nothing tells which belongs to whom."""
        return self._rows is not None and bool((self._rows < 0).any())

    def head(self, rows: int = 5) -> Any:
        """Give the first rows, in the frame library the data came in: private, for the owner of the data to look at.

        The only display of a Dataset that shows values of people; reprs, reports and errors show none.
        """
        if rows < 0:
            raise PlanError(f"rows: expected a number of at least 0, got {rows}")
        return self.take(np.arange(min(rows, len(self)))).to_native()

    def to_native(self) -> Any:
        """Give the data in the frame library it came in, index, column order and untouched columns kept."""
        if self._counts is not None:
            import polars as pl

            return self._frame.with_columns(pl.Series(*self._counts))
        if self._source is None:
            return self._frame
        return give_back(self._source, self._frame, self._rows, self._changed, self.origin._frame)

    @property
    def changed(self) -> frozenset[str]:
        """The columns that do not go out as they came in: codes for missing values in them are plain missing."""
        return self._changed

    def having(self, *roles: Role) -> tuple[str, ...]:
        """Name the columns that have any of these roles and are still there."""
        return tuple(name for name in self.schema.having(*roles) if name in self.columns)

    def type_of(self, column: str) -> Type:
        """Give the type of a column: the schema's, or the one its values suggest."""
        import polars as pl

        self.require([column])
        declared = self.schema[column].type
        kind = self._frame.schema[column]
        if declared is not None and not (declared == "continuous" and kind == pl.String):
            return declared
        if kind.is_numeric():
            return "continuous"
        if kind.is_temporal():
            return "date"
        if isinstance(kind, pl.List):
            return "set"
        return "ordinal" if kind == pl.Enum else "nominal"

    def is_numeric(self, column: str) -> bool:
        """Tell whether the values of a column are numbers."""
        return self._frame.schema[column].is_numeric()

    def is_quantity(self, column: str) -> bool:
        """Tell whether a column is one of numbers that count or measure; digits that name things are codes.

        A column of numbers is a code if its type is `nominal`, or if it has a masking hierarchy (as postal codes have)
        and nobody gave its type.
        """
        known = self.schema[column]
        named = isinstance(known.hierarchy, MaskingHierarchy) if known.type is None else known.type == "nominal"
        return self.is_numeric(column) and not named

    def is_category(self, column: str) -> bool:
        """Tell whether a column of numbers names categories for attacks and measures: 0/1, few-valued codes.

        The declared type decides; without one, numbers with labels or a masking hierarchy are categories, and whole
        numbers (also stored as floats) with at most 10 different values, in at least 30 records and 5 for each value.
        """
        root = self.origin if column in self.origin.columns else self
        known = root.schema[column]
        if not self.is_numeric(column) or known.type is not None:
            return known.type == "nominal"
        if self.is_labelled(column) or isinstance(known.hierarchy, MaskingHierarchy):
            return True
        few = self.cached(("few", column), lambda: count_few(self.series(column)))
        return few > 1 and (self.records >= max(30, 5 * few) if root is self else root.is_category(column))

    def is_labelled(self, column: str) -> bool:
        """Tell whether most of the different values of a column have labels, and not only those of refusals."""
        labels = self.schema[column].value_labels
        if not labels:
            return False
        present = self.series(column).drop_nulls().unique().to_frame()
        known = present.select(_is_one_of(column, present.schema[column], tuple(labels)))[column]
        return bool(2 * known.sum() >= len(present))

    # --- choosing columns --------------------------------------------------------------------------------------

    def require(self, columns: Iterable[str]) -> None:
        """Raise if a column does not exist."""
        problems = [unknown("column", name, self.columns) for name in columns if name not in self.columns]
        if problems:
            raise DataError("\n".join(problems))

    def choose(self, named: Sequence[str] | None, purpose: Purpose) -> tuple[str, ...]:
        """Give the named columns, or those that their roles make the default for a purpose."""
        if named:
            self.require(named)
            if len(set(named)) < len(named):
                raise PlanError("a column is named twice")
            return tuple(named)
        if not self.schema.has_roles:
            raise PlanError("no columns named and the data has no roles; give `columns`")
        found = self._default_columns(purpose)
        if not found:
            raise PlanError(f"no column has a role and type that fits ({_WANTED[purpose]}); give `columns`")
        return found

    def _default_columns(self, purpose: Purpose) -> tuple[str, ...]:
        if purpose == "classes":
            return self.having("quasi")
        if purpose == "perturb":
            return tuple(name for name in self.having("quasi", "sensitive") if self.is_quantity(name))
        excluded = self.having("identifier", "weight", "household", "unit")
        rest = tuple(name for name in self.columns if name not in excluded)
        if purpose == "compare":
            return rest
        return tuple(name for name in rest if self.is_quantity(name) and not self.is_category(name))

    # --- values as arrays (cached) -------------------------------------------------------------------------------

    def cached(self, key: object, make: Callable[[], _T]) -> _T:
        """Keep a result with the data, so that several parts share the work."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[no-any-return]

    def forget(self, kinds: tuple[str, ...] = _MADE_AGAIN) -> None:
        """Let go of columns as arrays and codes, where the data is large: together they are larger than the data."""
        if len(self) >= _LARGE:
            for key in [key for key in self._cache if isinstance(key, tuple) and str(key[0]).startswith(kinds)]:
                del self._cache[key]
            _trim()

    def number(self, column: str) -> NDArray[np.float64]:
        """Give one numeric column as floats, missing as NaN."""
        return self.cached(("number", column), lambda: self._number(column))

    def _number(self, column: str) -> NDArray[np.float64]:
        import polars as pl

        self.require([column])
        if not self.is_numeric(column):
            raise DataError(f"column {column!r} {not_numbers(self.series(column))}; a numeric column is needed")
        values = self.series(column).cast(pl.Float64).to_numpy()
        values.flags.writeable = False
        return values

    def numbers(self, columns: Sequence[str], *, missing: Literal["nan", "error"] = "nan") -> NDArray[np.float64]:
        """Give numeric columns as a matrix of floats, missing as NaN or refused."""
        for name in columns:
            if missing == "error" and (count := self.count_missing(name)):
                raise DataError(f"column {name!r} has {count} missing values; this needs complete columns")
        arrays = [self.number(name) for name in columns]
        return arrays[0].reshape(-1, 1) if len(arrays) == 1 else np.column_stack(arrays)

    def each_batch(
        self,
        columns: Sequence[str],  # noqa: ARG002 - what is read, where rows are not in memory
        look: Callable[[Piece], _T],
        merge: Callable[[_T, _T], _T] | None = None,  # noqa: ARG002
    ) -> list[_T]:
        """Give what is found in each batch of 65,536 rows, in their order.

        Summaries are made of these, so that they are the same wherever the rows are. `merge` puts what was found in
        neighboring batches together, where it does not matter in which order: whole numbers, sets, extremes.
        """
        starts = range(0, len(self), BATCH_ROWS)
        return [look(Piece(self, start, min(start + BATCH_ROWS, len(self)))) for start in starts]

    def at_hand(self) -> Dataset:
        """Give the data as far as it is in memory, at least what columns there are and of what types: all of it."""
        return self

    def texts(self, column: str, most: int) -> list[bytes] | None:
        """List the different texts of a column in order; None where there are `most` or more."""
        import polars as pl

        coded = self.codes(column)
        counts, rows = coded.counts_and_rows
        used = np.flatnonzero(counts)
        used = used[used != coded.missing]
        if len(used) >= most:
            return None
        return sorted(text.encode() for text in coded.series.gather(rows[used]).cast(pl.String).to_list())

    def value_counts(self, column: str) -> dict[str, int]:
        """Count the records of each value, by its name and in the order of names; missing values are left out."""

        def make() -> dict[str, int]:
            counts = self.codes(column).counts_and_rows[0]
            named = zip(self.codes(column).values, counts.tolist(), strict=True)
            return dict(sorted((canonical(value), count) for value, count in named if value is not None))

        return self.cached(("value-counts", column), make)

    def require_spread(self, columns: Sequence[str]) -> None:
        """Raise if a numeric column has no values or only one value: nothing can be scaled by its spread."""
        for name in columns:
            low, high = self.extremes(name)
            if np.isnan(low):
                raise DataError(f"column {name!r} has no values")
            if low == high:
                raise DataError(f"column {name!r} is constant: all {len(self)} values are equal or missing")

    def extremes(self, column: str) -> tuple[float, float]:
        """Give the smallest and the largest value of a numeric column; NaN where there is none."""

        def make() -> tuple[float, float]:
            x = self.number(column)
            if not len(x):
                return float("nan"), float("nan")
            low, high = x.min(), x.max()
            return (float(np.fmin.reduce(x)), float(np.fmax.reduce(x))) if np.isnan(low) else (float(low), float(high))

        return self.cached(("extremes", column), make)

    def quantiles(self, column: str, shares: Sequence[float]) -> NDArray[np.float64]:
        """Give quantiles of the values present in a numeric column (linear interpolation)."""
        x = self.number(column)
        x = x[~np.isnan(x)]
        if not len(x):
            raise DataError(f"column {column!r} has no values")
        return np.asarray(np.quantile(x, np.asarray(shares)))

    def count_missing(self, column: str) -> int:
        """Count the missing values of a column."""
        self.require([column])
        return self.cached(("missing", column), lambda: _count_missing(self.series(column)))

    def codes(self, column: str) -> ColumnCodes:
        """Give a column as integer codes; missing values have their own."""
        self.require([column])
        return self.cached(("codes", column), lambda: encode(self.series(column)))

    def classes(self, columns: Sequence[str]) -> Classes:
        """Give the equivalence classes over some columns, missing as a category of its own."""

        def make() -> Classes:
            from discretion.kernels.classes import class_ids

            coded = [self.codes(name) for name in columns]
            found = class_ids([c.codes for c in coded], [c.size for c in coded], len(self))
            ids = found.ids.astype(np.int64, copy=False)
            sizes = found.counts if self.counts is None else add_counts(ids, self.counts, len(found.counts))
            return Classes(ids, sizes, found.first_row)

        return self.cached(("classes", tuple(columns)), make)

    def class_sizes(self, columns: Sequence[str], missing: Missing = "category") -> NDArray[np.float64]:
        """Give each record the number of records it may be confused with, itself included; NaN where it is left out."""
        columns = tuple(columns)
        coded = [self.codes(name) for name in columns]
        if missing == "wildcard" and any(c.missing >= 0 for c in coded):
            return self.cached(("wildcard-sizes", columns), lambda: wildcard_sizes(coded, self.counts))
        sizes = self.classes(columns).sizes.astype(np.float64)
        if missing == "ignore":
            for c in coded:
                sizes[c.codes == c.missing] = np.nan
        return sizes

    def class_counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Give the sizes of the classes in no particular order (missing as a category), without numbering the rows."""
        columns = tuple(columns)
        if ("classes", columns) in self._cache or self._counts is not None:
            return self.classes(columns).counts

        def make() -> NDArray[np.int64]:
            from discretion.kernels.classes import class_counts

            coded = [self.codes(name) for name in columns]
            return class_counts([c.codes for c in coded], [c.size for c in coded], len(self))

        return self.cached(("class-counts", columns), make)

    def require_rows(self, what: str) -> None:
        """Raise if the rows stand for several records each, for something that needs every record."""
        if self._counts is not None:
            raise DataError(
                f"{what}: the rows of this data are classes with counts (column {self._counts[0]!r}), and this needs "
                "every record; give the records themselves"
            )

    def class_key(self, columns: Sequence[str], row: int) -> dict[str, str | None]:
        """Give the values a class is known by, from one of its rows."""
        values = self._frame.row(int(row), named=True)
        return {name: _key_text(values[name]) for name in columns}

    # --- hierarchies and levels ------------------------------------------------------------------------------------

    def hierarchy(self, column: str) -> HierarchyLevels:
        """Give the hierarchy of a column, bound to the values of the original data."""
        root = self.origin
        if root is not self:
            return root.hierarchy(column)
        self.require([column])
        recipe = self.schema[column].hierarchy
        if recipe is None:
            known = [name for name, c in self.schema.columns.items() if c.hierarchy is not None]
            raise DataError(f"column {column!r} has no hierarchy; columns with one: {', '.join(known) or 'none'}")
        values = [value for value in self.codes(column).values if value is not None]
        return self.cached(("hierarchy", column), lambda: recipe.bind(values, column))

    def cell_levels(self, column: str) -> Level:
        """Give the level of a column's values: as recorded, or inferred from the labels of data from elsewhere."""
        if column in self.levels:
            return self.levels[column]
        if self._root is not None and column not in self._changed:
            return 0
        hierarchy = self.hierarchy(column)
        texts = [None if value is None else canonical(value) for value in self.codes(column).values]
        known = [text for text in texts if text is not None]
        if self._root is None and all(text in hierarchy.leaf_index for text in known):
            return 0
        found = dict(zip(known, hierarchy.level_of(known).tolist(), strict=True))
        per_code = np.array([0 if text is None else found[text] for text in texts], dtype=np.int64)
        return np.asarray(per_code[self.codes(column).codes])

    def stands_in_hierarchy(self, column: str) -> bool:
        """Tell whether each value's level is known; values moved by noise or averaging stand at no level."""
        try:
            self.cell_levels(column)
        except DataError:
            return False
        return True

    def suppressed(self, column: str) -> NDArray[np.bool_]:
        """Tell which cells of a column were suppressed."""
        mask = self._masks.get(column)
        return np.zeros(len(self), dtype=np.bool_) if mask is None else mask

    @property
    def suppressed_cells(self) -> Mapping[str, int]:
        """The number of suppressed cells of each column that has any."""
        return {name: int(mask.sum()) for name, mask in self._masks.items() if mask.any()}

    # --- deriving -----------------------------------------------------------------------------------------------

    def _derive(self, frame: pl.DataFrame, changed: Iterable[str], cache: dict[object, Any]) -> Dataset:
        new = object.__new__(Dataset)
        new._frame = frame
        new.schema = self.schema.only(frame.columns)
        new._source = self._source
        new._counts = self._counts
        new._changed = self._changed | frozenset(changed)
        new._rows = self._rows
        new._root = self.origin
        new._masks = self._masks
        new._cache = cache
        new.came_from, new.dialect = self.came_from, self.dialect
        new.copy_column = self.copy_column
        new.levels = self.levels
        new.lost_records = self.lost_records
        new.steps = self.steps
        return new

    def after(self, step: Part, before: Dataset) -> Dataset:
        """Give the data as the result of one more step on `before`; `steps` is for attacks, never for the public."""
        new = copy(self)
        new._root = self.origin
        new.steps = (*before.steps, step)
        return new

    def with_columns(
        self,
        values: Mapping[str, Any],
        *,
        levels: Mapping[str, Level] | None = None,
        suppressed: Mapping[str, NDArray[np.bool_]] | None = None,
        integers: bool = False,
    ) -> Dataset:
        """Give the data with some columns replaced; `integers` rounds back columns that were whole numbers."""
        import polars as pl

        series = [_as_series(name, column, self._frame.schema.get(name), integers) for name, column in values.items()]
        touched = set(values)
        cache = {key: made for key, made in list(self._cache.items()) if not touched & _columns_of(key)}
        frame = self._frame.with_columns(series)
        new = self._derive(frame, touched, cache)
        if levels:
            new.levels = MappingProxyType({**self.levels, **levels})
        if suppressed:
            merged = {name: mask | self.suppressed(name) for name, mask in suppressed.items()}
            new._masks = MappingProxyType({**self._masks, **merged})
            new._frame = new._frame.with_columns(
                pl.when(pl.Series(merged[name])).then(None).otherwise(pl.col(name)).alias(name) for name in merged
            )
            new._changed |= frozenset(merged)
            new._cache = {k: made for k, made in cache.items() if not set(merged) & _columns_of(k)}
        return new

    def drop(self, columns: Iterable[str]) -> Dataset:
        """Give the data without some columns."""
        gone = set(columns)
        self.require(gone)
        cache = {key: made for key, made in list(self._cache.items()) if not gone & _columns_of(key)}
        return self._derive(self._frame.drop(list(gone)), (), cache)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_], *, suppressed: bool = False) -> Dataset:
        """Give some rows (by position or mask); `suppressed`: the others were suppressed, not left unsampled."""
        positions = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64)
        new = self._derive(self._frame[positions], (), {})
        new._rows = self.row_ids[positions]
        if self._counts is not None:
            new._counts = self._counts[0], self._counts[1][positions]
        new._masks = MappingProxyType({name: mask[positions] for name, mask in self._masks.items()})
        new.levels = MappingProxyType(
            {name: level if isinstance(level, int) else level[positions] for name, level in self.levels.items()}
        )
        if suppressed:
            new.lost_records = self.lost_records + self.records - new.records
        return new

    def divided(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> Dataset:
        """Give rows that stand for other numbers of records: one that is named several times is divided."""
        new = self.take(rows)
        new._counts = "n" if self._counts is None else self._counts[0], counts
        return new

    @staticmethod
    def stack(parts: Sequence[Dataset], like: Dataset) -> Dataset:
        """Put parts of a data set together again, rows in the order they had in `like`."""
        import polars as pl

        if not parts:
            return like
        rows = np.concatenate([part.row_ids for part in parts])
        made_up = bool((rows < 0).any())
        order = np.arange(len(rows)) if made_up else np.argsort(_places(rows, like), kind="stable")
        changed = frozenset().union(*(part._changed for part in parts))
        new = like._derive(pl.concat([part.frame for part in parts], how="vertical_relaxed")[order], changed, {})
        new._rows = None if len(rows) == len(like) and like._rows is None and not made_up else rows[order]
        if like._counts is not None:
            every = np.concatenate([part._counts[1] for part in parts if part._counts is not None])
            new._counts = like._counts[0], every[order]
        masked = {name for part in parts for name in part._masks}
        new._masks = MappingProxyType(
            {name: np.concatenate([part.suppressed(name) for part in parts])[order] for name in masked}
        )
        new.levels = MappingProxyType(
            {name: stacked_levels(name, parts, order) for name in {name for part in parts for name in part.levels}}
        )
        new.lost_records = like.lost_records + sum(part.lost_records - like.lost_records for part in parts)
        return new

    def with_new_rows(self, frame: pl.DataFrame, *, forget: bool = False) -> Dataset:
        """Give data with made-up rows instead of these: the same columns or fewer, and no row belongs to anybody.

        `forget`: not even the types of these columns are kept, which a value of one person may have decided.
        """
        new = self._derive(frame, frame.columns, {})
        new._counts = None
        new._rows = np.full(frame.height, -1, dtype=np.int64)
        new._masks = MappingProxyType({})
        new.levels = MappingProxyType({name: level for name, level in self.levels.items() if name in frame.columns})
        new.lost_records = 0
        if forget and self._source is not None:
            new._source = renewed(self._source, frame)
        return new

    @staticmethod
    def of_copies(parts: Sequence[Dataset], column: str = "copy") -> Dataset:
        """Put several synthetic copies of the same data under each other; a new column numbers them 1, 2, …"""
        import polars as pl

        first = parts[0]
        if column in first.columns:
            raise DataError(f"the copies are numbered in a new column {column!r}, and the data has one; rename it")
        number = np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])
        frame = pl.concat([part.frame for part in parts], how="vertical_relaxed").with_columns(
            pl.Series(column, number, dtype=pl.Int64)
        )
        changed = frozenset().union(*(part._changed for part in parts)) | {column}
        new = first._derive(frame, changed, {})
        new._rows = np.concatenate([part.row_ids for part in parts])
        masked = {name for part in parts for name in part._masks}
        new._masks = MappingProxyType(
            {name: np.concatenate([part.suppressed(name) for part in parts]) for name in masked}
        )
        new.levels = MappingProxyType({n: level for n, level in first.levels.items() if isinstance(level, int)})
        new.copy_column = column
        return new

    def copies(self) -> list[Dataset]:
        """Give the synthetic copies of which this data consists, each without the column that numbers them."""
        if self.copy_column is None or self.copy_column not in self.columns:
            return [self]
        numbers = self._frame[self.copy_column].to_numpy()
        whole = self.drop([self.copy_column])
        whole.copy_column = None
        return [whole.take(numbers == number) for number in np.unique(numbers)]

    def with_schema(self, schema: Schema) -> Dataset:
        """Give the data with other roles, types or hierarchies."""
        new = self._derive(self._frame, (), self._cache)
        new.schema = schema
        return new

    def with_levels(self, levels: Mapping[str, Level]) -> Dataset:
        """Give the data with the levels applied recorded (for data that was generalized elsewhere)."""
        new = self._derive(self._frame, (), self._cache)
        new.levels = MappingProxyType({**self.levels, **levels})
        return new

    def matched_to(self, original: Dataset, rows: NDArray[np.int64]) -> Dataset:
        """Give data from outside with row ids that refer to `original`, whose hierarchies are used from then on.

        `rows` has for each row the position in `original`, which may itself be a part of other data.
        A cell that is missing here and not there counts as suppressed.
        """
        new = self._derive(self._frame, self.columns, {})
        ids = original.row_ids[rows] if len(original) else rows
        new._source, new._rows, new._root, new.steps = None, np.where(rows < 0, -1, ids), original.origin, ()
        if new.has_new_rows:
            return new
        new.mark_missing(original, rows)
        return new

    def mark_missing(self, original: Dataset, rows: NDArray[np.int64]) -> None:
        """Count cells as suppressed that are missing here and not in these rows of the original."""
        hidden = {
            name: _is_missing(self._frame[name]) & ~_is_missing(original.frame[name])[rows]
            for name in self.columns
            if name in original.columns and self.count_missing(name)
        }
        self._masks = MappingProxyType({name: mask for name, mask in hidden.items() if mask.any()})

    # --- kept in files ---------------------------------------------------------------------------------------------

    def checkpoint(self, folder: Path) -> bool:
        """Write derived data into a folder so that `restored` gives it back; False where it cannot be told in full.

        Frame, row ids, suppressed cells, levels and the steps that made it; like the data it is private. What has
        another schema than its original, or another source, is made again by its steps instead.
        """
        root = self.origin
        known = self.schema.columns == root.schema.only(self.columns).columns
        if not known or self._source is not root._source:
            return False
        arrays: dict[str, Any] = {} if self._rows is None else {"rows": self._rows}
        whole = {name: level for name, level in self.levels.items() if isinstance(level, int)}
        single = {name: level for name, level in self.levels.items() if not isinstance(level, int)}
        arrays |= {f"mask{place}": mask for place, mask in enumerate(self._masks.values())}
        arrays |= {f"level{place}": level for place, level in enumerate(single.values())}
        facts = {
            "changed": sorted(self._changed), "masks": list(self._masks), "whole": whole, "single": list(single),
            "lost": self.lost_records, "copy": self.copy_column, "steps": [step.to_plan() for step in self.steps],
        }  # fmt: skip
        self._frame.write_ipc(folder / "data.arrow")
        np.savez(folder / "data.npz", **arrays)
        (folder / "data.json").write_text(json.dumps(facts), encoding="utf-8")  # last: it says that all is there
        return True

    def restored(self, folder: Path) -> Dataset | None:
        """Give the data that was derived from this one and written by `checkpoint`; None where there is none."""
        import polars as pl

        from discretion.part import parse

        if not (folder / "data.json").exists():
            return None
        facts = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        with np.load(folder / "data.npz", allow_pickle=False) as arrays:
            kept = dict(arrays)
        new = self._derive(pl.read_ipc(folder / "data.arrow"), facts["changed"], {})
        new._rows = kept.get("rows")
        new._masks = MappingProxyType({name: kept[f"mask{place}"] for place, name in enumerate(facts["masks"])})
        single = {name: kept[f"level{place}"] for place, name in enumerate(facts["single"])}
        new.levels = MappingProxyType({**facts["whole"], **single})
        new.lost_records, new.copy_column = facts["lost"], facts["copy"]
        new.steps = tuple(parse(step, "method") for step in facts["steps"])
        return new


_WANTED: Mapping[Purpose, str] = {
    "classes": "quasi-identifiers",
    "perturb": "numeric quasi-identifiers or sensitive columns, not codes",
    "compare": "columns other than identifiers and weights",
    "compare-numbers": "numeric columns other than identifiers, weights and codes",
}


def _columns_of(key: object) -> set[str]:
    """Name the columns a cached result depends on: every string or tuple of strings after the first item of its key."""
    names: set[str] = set()
    for item in key[1:] if isinstance(key, tuple) else ():
        names |= set(item) if isinstance(item, tuple) else {item}
    return names


def _places(rows: NDArray[np.int64], data: Dataset) -> NDArray[np.int64]:
    """Find the position in `data` of each row id (of the first row that has it)."""
    if data._rows is None:
        return rows
    order = np.argsort(data.row_ids, kind="stable")
    return np.asarray(order[np.searchsorted(data.row_ids[order], rows)])


def _key_text(value: object) -> str | None:
    """Write a value as the key of a class: missing (also NaN) as None, sets in order."""
    if value is None or value != value:  # noqa: PLR0124 - NaN differs from itself
        return None
    return "|".join(sorted({canonical(item) for item in value})) if isinstance(value, list) else canonical(value)


def stacked_levels(name: str, parts: Sequence[Dataset], order: NDArray[np.int64] | slice) -> Level:
    """Give the levels of a column in parts put together, in an order of their rows."""
    found = [part.levels.get(name, 0) for part in parts]
    if all(isinstance(level, int) for level in found) and len(set(found)) == 1:
        return found[0]
    return np.concatenate([np.broadcast_to(level, len(part)) for level, part in zip(found, parts, strict=True)])[order]


def _as_counts(frame: pl.DataFrame, column: str) -> NDArray[np.int64]:
    """Read how many records each row stands for: whole numbers of at least 1."""
    import polars as pl

    if column not in frame.columns:
        raise PlanError(unknown("column", column, frame.columns))
    found = frame[column]
    whole = found.dtype.is_integer() and not found.null_count() and (not len(found) or bool((found >= 1).all()))
    if not whole:
        raise DataError(f"counts: column {column!r} must hold whole numbers of at least 1, none of them missing")
    return found.cast(pl.Int64).to_numpy()


def _check_names(schema: Schema, columns: Sequence[str]) -> None:
    problems = [unknown("column", name, columns) for name in schema.columns if name not in columns]
    if problems:
        raise PlanError(problems)


def as_read(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Make missing codes null, and refuse numbers that cannot be computed with."""
    return finite(_apply_missing_codes(frame, schema))


def _apply_missing_codes(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Make the missing codes null; a column that no step touches still goes out as it came in."""
    import polars as pl

    recoded = []
    for name, column in schema.columns.items():
        if not column.missing_codes:
            continue
        kind = frame.schema[name]
        if kind.is_nested():
            raise DataError(f"column {name!r} holds sets; missing codes are for single values")
        hit = _is_one_of(name, kind, column.missing_codes)
        recoded.append(pl.when(hit).then(None).otherwise(pl.col(name)).alias(name))
    return frame.with_columns(recoded) if recoded else frame


def _is_one_of(name: str, kind: pl.DataType, codes: Sequence[str | float]) -> pl.Expr:
    """Tell which values of a column are among codes: 1 is 1.0, whichever of them the file or the codes hold."""
    import polars as pl

    given = [_as_number(code) if kind.is_numeric() else code for code in codes]
    if kind.is_float():
        return pl.col(name).cast(pl.Float64).is_in([float(code) for code in given if not isinstance(code, str)])
    return pl.col(name).cast(pl.String).is_in([canonical(code) for code in given])


def _as_number(code: str | float) -> str | float:
    try:
        return code if isinstance(code, int) else float(code)
    except ValueError:
        return code


def _is_missing(series: pl.Series) -> NDArray[np.bool_]:
    absent = series.is_null() | series.is_nan().fill_null(True) if series.dtype.is_float() else series.is_null()
    return absent.to_numpy()


def _count_missing(series: pl.Series) -> int:
    nulls = series.null_count()
    if series.dtype.is_float():
        nulls += int(series.is_nan().sum() or 0)
    return nulls


def _as_series(name: str, values: Any, before: Any, integers: bool) -> pl.Series:
    """Make a column of the old type where the values allow it; NaN becomes null."""
    import polars as pl

    series = values.alias(name) if isinstance(values, pl.Series) else pl.Series(name, values)
    if series.dtype.is_float():
        array = series.to_numpy()
        if np.isnan(array).any():
            series = series.fill_nan(None)
    if before is None or series.dtype == before:
        return series
    if before.is_float() and series.dtype.is_float():
        return series.cast(before)
    if before.is_integer() and series.dtype.is_float():
        return series.round().cast(before) if integers else series
    if before == pl.Categorical and series.dtype == pl.String:
        return series.cast(before)
    return series
