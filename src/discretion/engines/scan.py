"""Data whose rows stay where they are: columns one at a time, classes with counts, rows batch by batch.

A step is decided on summaries of the whole and carried out on batches of 65,536 rows, each with the generator that it
has in memory too: the same seed gives the same values on every engine.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, Context, ignore_progress
from discretion.data.dataset import Dataset, Level, as_read
from discretion.data.hierarchy import HierarchyLevels
from discretion.data.schema import Schema
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    import polars as pl

    from discretion.part import Part

COUNT, FIRST = "discretion:records", "discretion:row"
"""Columns of a frequency table: how many records a class has, and its first row."""
_HIDDEN = "discretion:suppressed:"
"""Before the name of a column: which of its cells were suppressed."""
_KEPT_BYTES = 1 << 30
"""What whole columns may take in memory after they were used; one column is always kept."""
_MERGE_AT = 2_000_000
"""Classes of single batches that are gathered before they are added up."""


@contextmanager
def spilling() -> Iterator[None]:
    """Say what to do where private files do not fit on the disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError("the disk is full: give a folder with more room as `spill`, or set TMPDIR") from None


class RowMethod(Protocol):
    """What a scan asks of a method."""

    @property
    def kind(self) -> str:
        """What it is called."""

    @property
    def perturbs(self) -> bool:
        """Whether it publishes values that are not true."""

    def perform(self, data: Dataset, decision: Any, ctx: Context) -> Dataset:
        """Change rows by a decision."""


class CarriedRows(Protocol):
    """All rows after the steps, kept once these were carried out."""

    @property
    def places(self) -> NDArray[np.int64]:
        """Where each row stood in the original."""

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Give some columns, so many rows at a time."""


class ScanStore(Protocol):
    """Where rows lie: what an engine must be able to do."""

    name: str
    """what reports and journals call the engine"""
    files: tuple[Path, ...]
    """where the rows lie, in their order"""
    room: int
    """bytes that columns of all rows may take in memory where something needs several of them at once"""

    @property
    def kinds(self) -> dict[str, pl.DataType]:
        """The polars type of each column."""

    @property
    def height(self) -> int:
        """The number of rows."""

    @property
    def spill(self) -> Path:
        """A folder that only its owner can read, for what does not fit into memory; gone with the store."""

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Give some columns of all rows."""

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Give some columns in their order, 65,536 rows at a time; only the last batch may have fewer."""

    def classes(self, names: Sequence[str]) -> pl.DataFrame:
        """Count the combinations of values as they stand: the columns, COUNT, and FIRST."""


@dataclass(frozen=True)
class PendingStep:
    """A step that was decided, and is carried out whenever rows pass by."""

    method: RowMethod
    decision: Any
    ctx: Context
    touched: frozenset[str]
    """columns that it may change or take out"""
    draws: bool
    drops: bool = False
    part: Part | None = None
    """the method that was carried out, where `method` only puts its result in place"""

    def carried_out(self, data: Dataset, batch: int = 0) -> Dataset:
        """Give a batch after the step."""
        ctx = replace(self.ctx, first_batch=batch, progress=ignore_progress)
        return self.method.perform(data, self.decision, ctx).after(self.part or cast("Part", self.method), data)


@dataclass(frozen=True)
class _Replacement:
    """Puts columns that were rewritten in memory in place, batch by batch."""

    kind: str
    perturbs: bool
    file: Path
    kinds: Mapping[str, pl.DataType]
    levels: Mapping[str, Level]

    def perform(self, data: Dataset, decision: Any, ctx: Context) -> Dataset:  # noqa: ARG002
        """Read the rows of the batch from its group of the file."""
        import polars as pl
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.file) as opened:
            frame = pl.DataFrame(pl.from_arrow(opened.read_row_group(ctx.first_batch)))
        new = data.with_columns({name: frame[name].cast(kind) for name, kind in self.kinds.items()}, levels=self.levels)
        hidden = {name: frame[_HIDDEN + name].to_numpy() for name in self.kinds if _HIDDEN + name in frame.columns}
        return new.with_columns({}, suppressed=hidden) if hidden else new


class Scan(Dataset):
    """A `Dataset` whose rows stay in their files (`dc.scan`).

    Steps that work row by row are decided now and carried out when the rows are read; privacy models, the optimal
    search and measures of uniqueness work on the classes with their counts. Everything else refuses it by name. At most
    one column of all rows is in memory at a time (more of them up to a gigabyte), and a few batches.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.scan("register/*.parquet", roles={"age": "quasi", "income": "sensitive"})  # doctest: +SKIP
    """

    __slots__ = ("_kept", "carried", "matched", "pending", "places", "store")

    def __init__(self, store: ScanStore, schema: Schema) -> None:
        import polars as pl

        super().__init__(pl.DataFrame(schema=store.kinds), schema=schema)
        self.store = store
        self.pending: tuple[PendingStep, ...] = ()
        self.carried: CarriedRows | None = None
        self.matched: Scan | None = None
        self.places: NDArray[np.int64] | None = None
        self._kept: dict[str, pl.Series] = {}

    def match(self, original: Scan, places: NDArray[np.int64] | None) -> None:
        """Say of what data this is a release that was made elsewhere: its hierarchies count.

        `places` has for each row its place in the original; None: nobody can tell.
        """
        self.matched, self.places = original, places

    # --- looking: what a Dataset answers from its frame, answered from the store ------------------------------------

    def __len__(self) -> int:
        return self.store.height - self.lost_records

    @property
    def frame(self) -> NoReturn:
        """Refuse: the rows are not in memory."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DataError(
            f"this needs all rows in memory, and they are read by {self.store.name}; `collect()` gives them, where "
            "they fit"
        )

    def series(self, column: str) -> pl.Series:
        """Give one column of all rows; those asked for last are kept, as far as they fit."""
        found = self._kept.pop(column, None)
        if found is None:
            found = self._collected([column])[column]
            room = _KEPT_BYTES - found.estimated_size()
            while self._kept and sum(one.estimated_size() for one in self._kept.values()) > room:
                del self._kept[next(iter(self._kept))]
        self._kept[column] = found
        return found

    def number(self, column: str) -> NDArray[np.float64]:
        """Give one numeric column as floats, missing as NaN; not kept."""
        return self._number(column)

    def codes(self, column: str) -> Any:
        """Give a column as integer codes; not kept."""
        from discretion.data.codes import encode

        return encode(self.series(column))

    def hierarchy(self, column: str) -> HierarchyLevels:
        """Give the hierarchy of a column, bound to the values that occur in the original."""
        if (before := self._root or self.matched) is not None:
            return before.hierarchy(column)
        recipe = self.schema[column].hierarchy
        if recipe is None:
            return super().hierarchy(column)

        def bind() -> HierarchyLevels:
            found = as_read(self.store.classes([column]).select(column), self.schema.only([column]))[column]
            present = found.fill_nan(None).drop_nulls() if found.dtype.is_float() else found.drop_nulls()
            return recipe.bind(present.unique(maintain_order=True).to_list(), column)

        return self.cached(("hierarchy", column), bind)

    def class_counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Give the sizes of the classes in no particular order."""
        return self.table(columns).class_counts(columns)

    def to_native(self) -> Any:
        """Give all rows as a polars frame."""
        return self.collect().frame

    def collect(self) -> Dataset:
        """Read all rows into memory, the pending steps carried out."""
        return Dataset.stack(list(self.stream()), like=self.original)

    def take(self, rows: Any, *, suppressed: bool = False) -> NoReturn:  # noqa: ARG002
        """Refuse: which rows are where is known only while they pass by."""
        self._refuse()

    def with_columns(self, *args: Any, **options: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: columns are replaced by steps, while the rows pass by."""
        self._refuse()

    def classes(self, columns: Sequence[str]) -> NoReturn:  # noqa: ARG002
        """Refuse: only the classes and their counts are known (`table`), not that of each row."""
        self._refuse()

    # --- the rows ---------------------------------------------------------------------------------------------------

    @property
    def original(self) -> Scan:
        """The data before any step."""
        root = self.origin
        if not isinstance(root, Scan):
            raise DataError("the data was not scanned")
        return root

    def stream(self, columns: Iterable[str] | None = None) -> Iterator[Dataset]:
        """Give the rows 65,536 at a time, in their order, the pending steps carried out."""
        wanted = self.columns if columns is None else tuple(columns)
        if self.carried is not None:
            yield from self._stream_carried(self.carried, wanted)
            return
        needed, steps = self._inputs(wanted)
        root = self.original
        for number, frame in enumerate(self.store.batches(needed)):
            start = number * BATCH_ROWS
            data = root._derive(as_read(frame, root.schema.only(needed)), (), {})
            data._rows = np.arange(start, start + len(frame))
            for step in steps:
                data = step.carried_out(data, number)
            gone = [name for name in data.columns if name not in wanted]
            yield data.drop(gone) if gone else data

    def _stream_carried(self, carried: CarriedRows, wanted: Sequence[str]) -> Iterator[Dataset]:
        places, start = carried.places, 0
        for frame in carried.batches(wanted):
            data = self.original._derive(frame, self._changed, {})
            data._rows = np.asarray(places[start : start + len(frame)])
            data.schema, data.levels, data.steps = self.schema.only(wanted), self.levels, self.steps
            yield data
            start += len(frame)

    def stream_states(self) -> Iterator[list[Dataset]]:
        """Give the rows 65,536 at a time, in their order: as they were read, and after each of the pending steps."""
        root = self.original
        for number, data in enumerate(root.stream()):
            states = [data]
            for step in self.pending:
                states.append(step.carried_out(states[-1], number))
            yield states

    def _inputs(self, wanted: Sequence[str]) -> tuple[list[str], list[PendingStep]]:
        """Give the columns to be read for some columns, and the steps they depend on."""
        needed, steps = set(wanted), []
        for step in reversed(self.pending):
            if step.touched & needed or step.drops:
                steps.append(step)
                needed |= step.touched
        return [name for name in self.original.columns if name in needed], steps[::-1]

    def _collected(self, columns: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        _, steps = self._inputs(columns)
        if not steps:
            return as_read(self.store.columns(columns), self.original.schema.only(columns))
        return pl.concat([part.frame.select(columns) for part in self.stream(columns)], how="vertical_relaxed")

    def table(self, columns: Sequence[str]) -> Dataset:
        """Give the classes over some columns as data with counts, in the order of their first rows.

        Where only steps that draw nothing changed the columns, the classes of the original are counted by the engine
        and the steps carried out on them; otherwise the rows pass by once. Memory: the classes.
        """
        self.require(columns)
        columns = list(dict.fromkeys(columns))
        return self.cached(("table", tuple(columns)), lambda: self._table(columns))

    def _table(self, columns: list[str]) -> Dataset:
        needed, steps = self._inputs(columns)
        if any(step.draws for step in steps):
            return self._table_of_rows(columns)
        root = self.original
        found = root.cached(("classes in files", tuple(needed)), lambda: self.store.classes(needed))
        data = self._counted(as_read(found.select(needed), self.original.schema.only(needed)), found)
        for step in steps:
            data = step.carried_out(data)
        return self._own(data.drop([name for name in data.columns if name not in columns]))

    def _table_of_rows(self, columns: list[str]) -> Dataset:
        import polars as pl

        adding = (pl.col(COUNT).sum(), pl.col(FIRST).min())
        parts: list[pl.DataFrame] = []
        gathered = 0
        last: Dataset | None = None
        for last in self.stream(columns):
            rows = last.frame.select(columns).with_columns(pl.Series(FIRST, last.row_ids))
            parts.append(rows.group_by(columns).agg(pl.len().cast(pl.Int64).alias(COUNT), pl.col(FIRST).min()))
            gathered += len(parts[-1])
            if gathered > _MERGE_AT:
                parts = [pl.concat(parts, how="vertical_relaxed").group_by(columns).agg(adding)]
                gathered = len(parts[0])
        if last is None:
            raise DataError("the data has no rows")
        found = pl.concat(parts, how="vertical_relaxed").group_by(columns).agg(adding).sort(FIRST)
        data = self._counted(found.select(columns), found)
        data._changed, data.steps, data.schema = last._changed, last.steps, last.schema
        data.levels = MappingProxyType({name: _one_level(name, level) for name, level in last.levels.items()})
        return self._own(data)

    def _counted(self, frame: pl.DataFrame, counted: pl.DataFrame) -> Dataset:
        root = self.original
        data = root._derive(frame, (), {})
        data._rows = counted[FIRST].to_numpy()
        data._counts = COUNT, counted[COUNT].to_numpy()
        return data

    def _own(self, data: Dataset) -> Dataset:
        """Let a table stand for itself, with the hierarchies of the whole data."""
        data._root, data.lost_records = None, self.lost_records
        for name in data.columns:
            if data.schema[name].hierarchy is not None:
                data._cache["hierarchy", name] = self.hierarchy(name)
        return data

    # --- deriving ---------------------------------------------------------------------------------------------------

    def projected(self, columns: Sequence[str]) -> Dataset:
        """Give some columns of all rows in memory, for a method that needs these."""
        if self.lost_records:
            raise PlanError("a method that needs whole columns must come before the step that drops records")
        names = [name for name in self.columns if name in columns]
        data = self.original._derive(self._collected(names), (), {})
        data.schema, data.steps = self.schema.only(names), self.steps
        data.levels = MappingProxyType({name: level for name, level in self.levels.items() if name in names})
        return data

    def beside(self, released: Scan, columns: Sequence[str]) -> tuple[Dataset, Dataset]:
        """Give some columns of all records of this data and of a release of it in memory, for what compares records."""
        before = self._standing(columns)
        if released is self:
            return before, before
        after = released._standing(columns)
        if released.matched is self and released.places is not None:
            after = after.matched_to(before, released.places)
            after.steps = released.steps
            return before, after
        if released.original is self.original:
            after._root = before
        return before, after

    def too_large(self, released: Scan, columns: Sequence[str]) -> str:
        """Say why some columns of this data and of a release cannot be held in memory; empty where they can.

        They may take half of the memory that was given: the other half is for the work on them.
        """
        needed = 2 * sum(side._bytes_of(columns) for side in (self, released))
        if needed <= self.store.room:
            return ""
        named = [name for name in self.columns if name in columns]
        return (
            f"{len(self):,} records of {', '.join(named)} need about {needed / 1e9:.2g} GB, more than the "
            f"{self.store.room / 1e9:.2g} GB of `memory`; name fewer columns, or give it more memory"
        )

    def _standing(self, columns: Sequence[str]) -> Dataset:
        """Give some columns of all rows as data in memory that stands for itself; the last is kept (`let_go`)."""
        import polars as pl

        names = [name for name in self.columns if name in columns]
        kept = self._cache.get("held")
        if kept is not None and kept[0] == names:
            return cast(Dataset, kept[1])
        self.let_go()
        if not self.pending:
            data = Dataset(self._collected(names), schema=self.schema.only(names))
        else:
            parts = list(self.stream(names))
            whole = pl.concat([part.frame for part in parts], how="vertical_relaxed")
            data = self.original._derive(whole, (), {})
            data._changed, data._rows = self._changed & set(names), np.concatenate([part.row_ids for part in parts])
            data.schema, data.steps, data.lost_records = self.schema.only(names), self.steps, self.lost_records
            data.levels = MappingProxyType({name: level for name, level in self.levels.items() if name in names})
        self._cache["held"] = names, self._own(data)
        return data

    def let_go(self) -> None:
        """Forget columns that are held in memory."""
        self._cache.pop("held", None)

    def _bytes_of(self, columns: Sequence[str]) -> int:
        """Estimate what some columns of all rows take in memory, by the first rows."""
        first = next(self.stream([name for name in self.columns if name in columns]), None)
        if first is None:
            raise DataError("the data has no rows")
        return int(first.frame.estimated_size() * len(self) / max(len(first), 1))

    def replaced(self, method: RowMethod, done: Dataset, ctx: Context) -> Scan:
        """Add a step that was carried out on columns in memory: they are kept in a private file, by batches."""
        import polars as pl

        touched = frozenset(done.changed)
        if len(done) != len(self):
            raise PlanError(f"{method.kind} drops records, which data that stays in its files cannot follow")
        file = self.store.spill / f"columns-{len(self.pending)}.parquet"
        names = [name for name in done.columns if name in touched]
        hidden = [pl.Series(_HIDDEN + name, done.suppressed(name)) for name in names if name in done.suppressed_cells]
        with spilling():
            done.frame.select(*names, *hidden).write_parquet(file, row_group_size=BATCH_ROWS)
        kinds = {name: done.frame.schema[name] for name in names}
        levels = {name: _one_level(name, level) for name, level in done.levels.items() if name in touched}
        step = _Replacement(method.kind, method.perturbs, file, kinds, levels)
        first = next(self.stream())
        new = self._derived(step.perform(first, None, ctx))
        used = ctx.stream is not None and ctx.stream.used is not None
        new.pending = (*self.pending, PendingStep(step, None, ctx, touched, used, part=cast("Part", method)))
        new.steps = (*self.steps, cast("Part", method))
        return new

    def advance(self, method: RowMethod, decision: Any, ctx: Context, lost: int = 0) -> Scan:
        """Add a step; it is carried out on the first batch now, so that what is wrong with it is said.

        `lost`: the records that it drops. What draws must come before: its batches are those of all rows.
        """
        first = next(self.stream(), None)
        if first is None:
            raise DataError("the data has no rows")
        probe = first._derive(first.frame, (), {})
        probe._changed = frozenset()
        done = method.perform(probe, decision, replace(ctx, progress=ignore_progress))
        draws = ctx.stream is not None and ctx.stream.used is not None
        if len(done) != len(probe) and not lost:
            raise PlanError(f"{method.kind} drops records, which data that stays in its files cannot follow")
        if draws and any(step.drops for step in self.pending):
            raise PlanError(f"{method.kind} draws for each record; put it before the step that drops records")
        named = getattr(method, "columns", ()) or (getattr(method, "column", None) or (), getattr(method, "levels", ()))
        gone = frozenset(probe.columns) - frozenset(done.columns)
        levels = _names(tuple(decision.values.get("levels", ())))
        lost_by = frozenset() if decision.dropped is None else frozenset(decision.dropped.columns)
        touched = done._changed | gone | lost_by | ((_names(named) | levels) & frozenset(probe.columns))
        new = self._derived(done)
        new.pending = (*self.pending, PendingStep(method, decision, ctx, touched, draws, bool(lost)))
        new.steps = (*self.steps, cast("Part", method))
        new.lost_records = self.lost_records + lost
        return new

    def drop(self, columns: Iterable[str]) -> Scan:
        """Give the data without some columns."""
        gone = list(columns)
        self.require(gone)
        new = self._derived(self)
        new._frame = new._frame.drop(gone)
        new.schema = self.schema.only(new._frame.columns)
        return new

    def _derived(self, like: Dataset) -> Scan:
        """Give a scan of the same rows with the columns, types and levels of other data."""
        new: Scan = object.__new__(Scan)
        made = Dataset._derive(self, like._frame.clear(), like._changed, {})
        for name in Dataset.__slots__:
            setattr(new, name, getattr(made, name))
        new.schema, new.steps = like.schema, self.steps
        new.levels = MappingProxyType({name: _one_level(name, level) for name, level in like.levels.items()})
        new.store, new.pending, new._kept = self.store, self.pending, {}
        new.carried, new.matched, new.places = None, self.matched, self.places
        return new


def without_classes(data: Dataset, gone: pl.DataFrame) -> Dataset:
    """Give rows without those of some classes, which were suppressed."""
    if not len(gone):
        return data
    rows = data.frame.select(gone.columns).with_row_index(FIRST)
    lost = rows.join(gone, on=gone.columns, how="semi", nulls_equal=True)[FIRST].to_numpy()
    keep = np.ones(len(data), np.bool_)
    keep[lost] = False
    return data.take(keep, suppressed=True)


def _names(found: Any) -> frozenset[str]:
    """Gather the names in a field of columns, in a single name, or in the keys of a mapping."""
    if isinstance(found, str):
        return frozenset([found])
    return frozenset().union(*(_names(one) for one in found)) if found else frozenset()


def _one_level(name: str, level: Level) -> int:
    if isinstance(level, int):
        return level
    found = np.unique(level)
    if len(found) != 1:
        raise DataError(f"column {name!r} has several levels; data that stays in its files has one for each column")
    return int(found[0])
