"""Data whose rows stay where they are: columns one at a time, classes with counts, rows batch by batch.

A step is decided on summaries of the whole and carried out on batches of 65,536 rows, each with the generator that it
has in memory too: the same seed gives the same values on every engine.
"""

from __future__ import annotations

import errno
import io
import operator
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, Context, KeyNeeded, Progress, ignore_progress
from discretion.data.dataset import Dataset, Level, Piece, as_read, stacked_levels
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.data.schema import Schema
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    import polars as pl

    from discretion.part import Part

_T = TypeVar("_T")
COUNT, FIRST = "discretion:records", "discretion:row"
"""Columns of a frequency table: how many records a class has, and its first row."""
_HIDDEN = "discretion:suppressed:"
"""Before the name of a column: which of its cells were suppressed."""
_KEPT_BYTES = 1 << 30
"""What whole columns may take in memory after they were used; one column is always kept."""
MOST_OPEN = 32
"""Columns of a data set that wait in private files, each of which is open; those of one summary may be more."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
LEARNED = 100_000
"""Records, drawn at random, from which a model of all is learned; trees are fitted on as many in memory too."""
MOST_CLASSES = 10_000_000
"""Combinations of values that are kept in memory with their counts, on whatever engine they are counted."""
_MERGE_AT = 2_000_000
"""Classes of single batches that are gathered before they are added up."""


@contextmanager
def spilling() -> Iterator[None]:
    """Say what to do where private files do not fit on the disk."""
    from polars.exceptions import ComputeError

    try:
        yield
    except (OSError, ComputeError) as error:
        told = any(f"(os error {number})" in str(error) for number in _FULL)  # polars tells it in its text only
        if getattr(error, "errno", None) not in _FULL and not told:
            raise
        raise DataError("the disk is full: give a folder with more room as `spill`, or set TMPDIR") from None


def drawn_places(height: int, most: int, ctx: Context) -> NDArray[np.int64]:
    """Draw the places of some rows, in their order; where there are no more than wanted, those of all."""
    if height <= most:
        return np.arange(height)
    return np.sort(ctx.rng.choice(height, most, replace=False, shuffle=False)).astype(np.int64)


class ManyClasses(DataError):
    """There are more combinations of values than are kept in memory."""

    def __init__(self, names: Iterable[str], number: int, *, remote: bool = False) -> None:
        kept = "that come to the driver" if remote else "that are kept in memory"
        super().__init__(
            f"{number:,} different combinations of {', '.join(names)}{'' if remote else ', if not more'}: more than "
            f"the {MOST_CLASSES:,} {kept}. Generalize these columns in a step before (`generalize`, `recode`, `round`)"
            ", or name fewer of them"
        )


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
    remote: bool
    """whether rows are worked on elsewhere: then only summaries of them come here, by `each_batch`"""
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

    def different(self, name: str) -> pl.Series:
        """Give the different values of a column, in the order of their first rows."""

    def keep(self, frames: Iterator[pl.DataFrame]) -> ScanStore:
        """Write rows that were made up into a private file, as they come, and give them."""


class RemoteStore(ScanStore, Protocol):
    """Rows that are worked on elsewhere."""

    def each_batch(
        self, rows: Passing, look: Callable[[Piece], _T], merge: Callable[[_T, _T], _T] | None = None
    ) -> list[_T]:
        """Give what is found in each batch, in their order, or in several of them put together."""

    def spread(self, items: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
        """Work on items there, and give what was found, in the order of the items."""

    def first_batch(self, rows: Passing, look: Callable[[Piece], _T]) -> _T:
        """Give what is found in the first batch."""

    def classes_after(self, rows: Passing, kinds: Mapping[str, pl.DataType]) -> pl.DataFrame:
        """Count the combinations of values after some steps: the columns, COUNT, and FIRST."""


@dataclass(frozen=True)
class PendingStep:
    """A step that was decided, and is carried out whenever rows pass by."""

    method: RowMethod
    decision: Any
    ctx: Context
    touched: frozenset[str]
    """columns that it may change or take out"""
    draws: bool
    """whether records with the same values may come to differ"""
    drops: bool = False
    part: Part | None = None
    """the method that was carried out, where `method` only puts its result in place"""
    reads: frozenset[str] = frozenset()
    """further columns on which its result depends"""

    def to_travel(self) -> PendingStep:
        """Give the step as it goes to other machines: with the keys it draws from, without the seed."""
        return replace(self, ctx=travelling(self.ctx))

    def carried_out(self, data: Dataset, batch: int = 0) -> Dataset:
        """Give a batch after the step."""
        ctx = replace(self.ctx, first_batch=batch, progress=ignore_progress)
        return self.method.perform(data, self.decision, ctx).after(self.part or cast("Part", self.method), data)


@dataclass(frozen=True)
class Passing:
    """What must be known to read rows and to carry out steps on them; it can travel to other machines."""

    schema: Schema
    hierarchies: Mapping[str, HierarchyLevels]
    columns: tuple[str, ...]
    """what is read"""
    steps: tuple[PendingStep, ...]

    def states(self, number: int, frame: pl.DataFrame) -> list[Dataset]:
        """Give a batch as it was read, and after each of the steps; row ids count from its first row."""
        whole = Dataset(frame, schema=self.schema)
        for name, known in self.hierarchies.items():
            whole._cache["hierarchy", name] = known
        states = [whole._derive(whole._frame, (), {})]
        for step in self.steps:
            states.append(step.carried_out(states[-1], number))
        return states


@dataclass(frozen=True)
class _Tried:
    """What a step made of the first batch, without its rows."""

    before: tuple[str, ...]
    frame: pl.DataFrame
    changed: frozenset[str]
    schema: Schema
    levels: Mapping[str, Level]
    lost: int

    @classmethod
    def on(cls, data: Dataset, method: RowMethod, decision: Any, ctx: Context) -> _Tried:
        """Carry out a step on a batch."""
        probe = data._derive(data.frame, (), {})
        probe._changed = frozenset()
        done = method.perform(probe, decision, replace(ctx, progress=ignore_progress))
        levels = known_levels(done)
        gone = len(probe) - len(done)
        return cls(probe.columns, done._frame.clear(), done._changed, done.schema, levels, gone)


class _Spool:
    """Columns of all rows in a private file without a name, read batch by batch; gone with the process."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as the columns are read
        weakref.finalize(self, self._file.close)
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, values: pl.DataFrame) -> None:
        """Add the values of the next batch, of whatever types they have there."""
        values.write_ipc_stream(self._file)
        self._ends.append(self._file.tell())

    def batch(self, number: int) -> pl.DataFrame:
        """Give the values of a batch."""
        import polars as pl

        self._file.seek(self._ends[number])
        return pl.read_ipc_stream(io.BytesIO(self._file.read(self._ends[number + 1] - self._ends[number])))


@dataclass(frozen=True)
class _Replacement:
    """Puts columns that were rewritten in memory in place, batch by batch."""

    kind: str
    perturbs: bool
    spool: _Spool
    kinds: Mapping[str, pl.DataType]
    levels: Mapping[str, Level]

    def perform(self, data: Dataset, decision: Any, ctx: Context) -> Dataset:  # noqa: ARG002
        """Read the rows of the batch."""
        frame = self.spool.batch(ctx.first_batch)
        new = data.with_columns({name: frame[name].cast(kind) for name, kind in self.kinds.items()}, levels=self.levels)
        hidden = {name: frame[_HIDDEN + name].to_numpy() for name in self.kinds if _HIDDEN + name in frame.columns}
        return new.with_columns({}, suppressed=hidden) if hidden else new


class Scan(Dataset):
    """A `Dataset` whose rows stay in their files (`dc.scan`).

    Steps that work row by row are decided now and carried out when the rows are read; privacy models, the optimal
    search and measures of uniqueness work on the classes with their counts. Everything else refuses it by name. A few
    batches are in memory at a time; columns that are summarized several times wait in private files.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.scan("register/*.parquet", roles={"age": "quasi", "income": "sensitive"})  # doctest: +SKIP
    """

    __slots__ = ("_kept", "_made_up", "_spools", "carried", "matched", "pending", "places", "store")

    def __init__(self, store: ScanStore, schema: Schema) -> None:
        import polars as pl

        super().__init__(pl.DataFrame(schema=store.kinds), schema=schema)
        self.store = store
        self.pending: tuple[PendingStep, ...] = ()
        self.carried: CarriedRows | None = None
        self.matched: Scan | None = None
        self.places: NDArray[np.int64] | None = None
        self._made_up = False
        self._kept: dict[str, pl.Series] = {}
        self._spools: dict[str, _Spool] = {}

    def match(self, original: Scan, places: NDArray[np.int64] | None) -> None:
        """Say of what data this is a release that was made elsewhere: its hierarchies count.

        `places` has for each row its place in the original, −1 where it was made up; None: nobody can tell.
        """
        self.matched, self.places = original, places

    # --- looking: what a Dataset answers from its frame, answered from the store ------------------------------------

    def __len__(self) -> int:
        return self.store.height - self.lost_records

    @property
    def has_new_rows(self) -> bool:
        """Whether rows were made up, so that nothing tells which belongs to whom."""
        return self._made_up or (self.places is not None and bool((self.places < 0).any()))

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
        if self.store.remote:
            self._refuse()
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
            if self.store.remote:
                found = self.cached("different values", self._different)[column]
            else:
                found = as_read(self.store.different(column).to_frame(), self.schema.only([column]))[column]
            present = found.fill_nan(None).drop_nulls() if found.dtype.is_float() else found.drop_nulls()
            return recipe.bind(present.unique(maintain_order=True).to_list(), column)

        return self.cached(("hierarchy", column), bind)

    def _different(self) -> dict[str, pl.Series]:
        """List the different values of every column with a hierarchy, in the order of their first rows."""
        names = [name for name, column in self.schema.columns.items() if column.hierarchy is not None]
        look = partial(_different_values, names)
        return reduce(_more_values, self.each_batch(names, look, _more_values))

    def at_hand(self) -> Dataset:
        """Give the columns and their types, without rows."""
        return self._like(self._frame)

    def _like(self, frame: pl.DataFrame) -> Dataset:
        """Give data in memory with some of the columns, in the state they are in."""
        data = self.original._derive(frame, (), {})
        data.schema, data.steps = self.schema.only(frame.columns), self.steps
        data.levels = MappingProxyType(
            {name: level for name, level in self.levels.items() if name in frame.columns and isinstance(level, int)}
        )
        return data

    def each_batch(
        self, columns: Sequence[str], look: Callable[[Piece], _T], merge: Callable[[_T, _T], _T] | None = None
    ) -> list[_T]:
        """Give what is found in each batch of 65,536 rows, in their order."""
        if self.store.remote:
            return self._remote.each_batch(self.passing(columns), look, merge)
        found = []
        for number, frame in enumerate(self._spooled_batches(columns)):
            data = self._like(frame)
            found.append(look(Piece(data, 0, len(data), number * BATCH_ROWS)))
        return found

    def _spooled_batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        spools = self._spooled(columns)
        for number in range(len(spools[0])):
            yield pl.concat([spool.batch(number) for spool in spools], how="horizontal")

    def stream_keeping(self, columns: Sequence[str]) -> Iterator[Dataset]:
        """Give all rows as `stream` does; some columns are kept in private files on the way."""
        made = {name: _Spool(self.store.spill) for name in columns}
        with spilling():
            for data in self.stream():
                for name, spool in made.items():
                    spool.add(data.frame.select(name))
                yield data
        self._spools.update(made)

    def rows_at(
        self, places: NDArray[np.int64], progress: Progress = ignore_progress, keeping: Sequence[str] = ()
    ) -> list[pl.DataFrame]:
        """Give the rows at some places, which are in order; some columns are kept on the way."""
        found = []
        for number, data in enumerate(self.stream_keeping(keeping)):
            start = number * BATCH_ROWS
            progress(start, len(self), "reading")
            low, high = np.searchsorted(places, [start, start + len(data)])
            if high > low:
                found.append(data.frame[places[low:high] - start])
        progress(len(self), len(self), "reading")
        return found

    def in_memory(self, frames: Sequence[pl.DataFrame]) -> Dataset:
        """Give some rows as data of its own, with the hierarchies of the whole."""
        import polars as pl

        if not frames:
            raise DataError("the data has no rows")
        made = Dataset(pl.concat(frames, how="vertical_relaxed"), schema=self.schema)
        for name, column in self.schema.columns.items():
            if column.hierarchy is not None:
                made._cache["hierarchy", name] = self.hierarchy(name)
        return made

    def _spooled(self, columns: Sequence[str]) -> list[_Spool]:
        """Give columns as private files, of batches of 65,536 rows; those that are not there yet are read once."""
        if lacking := [name for name in dict.fromkeys(columns) if name not in self._spools]:
            made = {name: _Spool(self.store.spill) for name in lacking}
            with spilling():
                for frame in _evenly(data.frame for data in self.stream(lacking)):
                    for name, spool in made.items():
                        spool.add(frame.select(name))
            self._spools.update(made)
            others = [name for name in self._spools if name not in columns]
            for name in others[: max(0, len(self._spools) - MOST_OPEN)]:
                del self._spools[name]
        return [self._spools[name] for name in columns]

    @property
    def _remote(self) -> RemoteStore:
        return cast(RemoteStore, self.store)

    def hashes(self, hash_of: Callable[[Path], str]) -> dict[Path, str]:
        """Hash the files, each where it is read."""
        files = self.store.files
        found = self._remote.spread(files, hash_of) if self.store.remote else map(hash_of, files)
        return dict(zip(files, found, strict=True))

    def passing(self, columns: Sequence[str] | None = None) -> Passing:
        """Give what must be known to make batches of some columns, or of all after every step, on other machines."""
        root = self.original
        needed, steps = (list(root.columns), list(self.pending)) if columns is None else self._inputs(columns)
        named = {name for step in steps for name in step.touched}
        bound = {name: root.hierarchy(name) for name in needed if name in named and root.schema[name].hierarchy}
        return Passing(root.schema.only(needed), bound, tuple(needed), tuple(step.to_travel() for step in steps))

    def extremes(self, column: str) -> tuple[float, float]:
        """Give the smallest and the largest value of a numeric column; NaN where there is none."""

        def find() -> tuple[float, float]:
            found = np.array(self.each_batch([column], lambda piece: piece.data.extremes(column), _wider))
            return float(np.fmin.reduce(found[:, 0])), float(np.fmax.reduce(found[:, 1]))

        return self.cached(("extremes", column), find)

    def count_missing(self, column: str) -> int:
        """Count the missing values of a column."""
        self.require([column])

        def count() -> int:
            return sum(self.each_batch([column], lambda piece: piece.data.count_missing(column), operator.add))

        return self.cached(("missing", column), count)

    def texts(self, column: str, most: int) -> list[bytes] | None:
        """List the different texts of a column in order; None where there are `most` or more."""

        def merge(one: set[bytes] | None, other: set[bytes] | None) -> set[bytes] | None:
            together = None if one is None or other is None else one | other
            return None if together is None or len(together) >= most else together

        def look(piece: Piece) -> set[bytes] | None:
            found = piece.data.texts(column, most)
            return None if found is None else set(found)

        every = reduce(merge, self.each_batch([column], look, merge))
        return None if every is None else sorted(every)

    def quantiles(self, column: str, shares: Sequence[float]) -> NDArray[np.float64]:
        """Give quantiles of the values present in a numeric column (linear interpolation)."""
        present = len(self) - self.count_missing(column)
        if not present:
            raise DataError(f"column {column!r} has no values")
        places = (present - 1) * np.asarray(shares, dtype=np.float64)
        below = np.floor(places).astype(np.int64)
        ranks = np.unique(np.concatenate([below, np.minimum(below + 1, present - 1)]))
        values = dict(zip(ranks.tolist(), selected(self, column, ranks.tolist()), strict=True))
        pairs = [(values[low], values[min(low + 1, present - 1)]) for low in below.tolist()]
        between = (places - below).tolist()
        return np.array([float(np.quantile(pair, share)) for pair, share in zip(pairs, between, strict=True)])

    def value_counts(self, column: str) -> dict[str, int]:
        """Count the records of each value, by its name; missing values are left out."""
        table = self.table([column])
        counts = np.bincount(table.codes(column).codes, table.counts, table.codes(column).size).astype(np.int64)
        named = zip(table.codes(column).values, counts.tolist(), strict=True)
        return dict(sorted((canonical(value), count) for value, count in named if value is not None))

    def class_counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Give the sizes of the classes in no particular order."""
        return self.table(columns).class_counts(columns)

    def to_native(self) -> Any:
        """Give all rows as a polars frame."""
        return self.collect().frame

    def collect(self) -> Dataset:
        """Read all rows into memory, the pending steps carried out."""
        data = Dataset.stack(list(self.stream()), like=self.original)
        if self._made_up:
            data._rows = np.full(len(data), -1)
        return data

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

    @property
    def read_from(self) -> Scan:
        """The data that a plan began with: where rows were made up since, not the first of these."""
        root = self.original
        return root.matched if root._made_up and root.matched is not None else root

    def _as_read(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Give rows of the store as they count; what was made up is taken as it was drawn."""
        root = self.original
        return frame if root._made_up else as_read(frame, root.schema.only(frame.columns))

    def stream(self, columns: Iterable[str] | None = None) -> Iterator[Dataset]:
        """Give the rows 65,536 at a time, in their order, the pending steps carried out."""
        wanted = self.columns if columns is None else tuple(columns)
        if self.carried is not None:
            yield from self._stream_carried(self.carried, wanted)
            return
        needed, steps = self._inputs(wanted)
        root = self.original
        kept = needed and all(name in root._spools for name in needed)
        for number, frame in enumerate(root._spooled_batches(needed) if kept else self.store.batches(needed)):
            start = number * BATCH_ROWS
            data = root._derive(self._as_read(frame), (), {})
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
            data.schema, data.steps = self.schema.only(wanted), self.steps
            data.levels = MappingProxyType({n: level for n, level in self.levels.items() if isinstance(level, int)})
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
                needed |= step.touched | step.reads
        return [name for name in self.original.columns if name in needed], steps[::-1]

    def _collected(self, columns: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        _, steps = self._inputs(columns)
        if not steps:
            return self._as_read(self.store.columns(columns))
        return pl.concat([part.frame.select(columns) for part in self.stream(columns)], how="vertical_relaxed")

    def table(self, columns: Sequence[str]) -> Dataset:
        """Give the classes over some columns as data with counts, in the order of their first rows.

        Where only steps that draw nothing changed the columns, the classes of the original are counted by the engine
        and the steps carried out on them; otherwise, or where these are too many, the rows pass by once. Memory: the
        classes.
        """
        self.require(columns)
        columns = list(dict.fromkeys(columns))
        return self.cached(("table", tuple(columns)), lambda: self._table(columns))

    def _table(self, columns: list[str]) -> Dataset:
        needed, steps = self._inputs(columns)
        if any(step.draws for step in steps):
            return self._table_of_rows(columns)
        root = self.original
        try:
            found = root.cached(("classes in files", tuple(needed)), lambda: self.store.classes(needed))
        except ManyClasses:
            if not steps:
                raise
            return self._table_of_rows(columns)
        data = self._counted(self._as_read(found.select(needed)), found)
        for step in steps:
            data = step.carried_out(data)
        return self._own(data.drop([name for name in data.columns if name not in columns]))

    def _table_of_rows(self, columns: list[str]) -> Dataset:
        import polars as pl

        if self.store.remote:
            return self._table_elsewhere(columns)
        adding = (pl.col(COUNT).sum(), pl.col(FIRST).min())
        parts: list[pl.DataFrame] = []
        gathered, merge_at = 0, _MERGE_AT
        last: Dataset | None = None
        for last in self.stream(columns):
            rows = last.frame.select(columns).with_columns(pl.Series(FIRST, last.row_ids))
            parts.append(rows.group_by(columns).agg(pl.len().cast(pl.Int64).alias(COUNT), pl.col(FIRST).min()))
            gathered += len(parts[-1])
            if gathered > merge_at:
                parts = [pl.concat(parts, how="vertical_relaxed").group_by(columns).agg(adding)]
                gathered = len(parts[0])
                if gathered > MOST_CLASSES:
                    raise ManyClasses(columns, gathered)
                merge_at = 2 * gathered + _MERGE_AT
        if last is None:
            raise DataError("the data has no rows")
        found = pl.concat(parts, how="vertical_relaxed").group_by(columns).agg(adding).sort(FIRST)
        if len(found) > MOST_CLASSES:
            raise ManyClasses(columns, len(found))
        data = self._counted(found.select(columns), found)
        data._changed, data.steps, data.schema = last._changed, last.steps, last.schema
        data.levels = MappingProxyType({n: level for n, level in last.levels.items() if isinstance(level, int)})
        return self._own(data)

    def _table_elsewhere(self, columns: list[str]) -> Dataset:
        rows = self.passing(columns)
        kinds = reduce(
            wider, self.each_batch(columns, lambda piece: dict(piece.data.frame.select(columns).schema), wider)
        )
        found = self._remote.classes_after(rows, kinds)
        data = self._counted(found.select(columns), found)
        data._changed, data.steps = self._changed, self.steps
        data.schema = self.schema.only(columns)
        data.levels = MappingProxyType(
            {name: level for name, level in self.levels.items() if name in columns and isinstance(level, int)}
        )
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
        if several := [name for name in names if not isinstance(self.levels.get(name, 0), int)]:
            raise PlanError(
                f"column {several[0]!r} was generalized record by record; a method that needs whole columns must come "
                "before the step that does so"
            )
        return self._like(self._collected(names))

    def beside(self, released: Scan, columns: Sequence[str]) -> tuple[Dataset, Dataset]:
        """Give some columns of all records of this data and of a release of it in memory, for what compares records."""
        before = self._standing(columns)
        if released is self:
            return before, before
        after = released._standing(columns)
        if released.has_new_rows:
            after._root, after._rows = before, np.full(len(after), -1)
            return before, after
        if released.matched is self and released.places is not None:
            after = after.matched_to(before, released.places)
            after.steps = released.steps
            return before, after
        if released.original is self.original:
            after._root = before
            if released.carried is not None:
                after.mark_missing(before, after.row_ids)
        return before, after

    def too_large(self, released: Scan, columns: Sequence[str], work: int) -> str:
        """Say why some columns of this data and of a release cannot be worked on in memory; empty where they can.

        `work`: how many times the columns what works on them needs, with the columns themselves.
        """
        if self.store.remote:
            return "records do not come to the driver of a Spark cluster; use the engine `duckdb`"
        needed = work * sum(side._bytes_of(columns) for side in (self, released))
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
            known = {name for part in parts for name in part.levels if name in names}
            every = slice(None)
            data.levels = MappingProxyType({name: stacked_levels(name, parts, every) for name in known})
            hidden = {name for part in parts for name in part.suppressed_cells}
            data._masks = MappingProxyType(
                {name: np.concatenate([p.suppressed(name) for p in parts]) for name in hidden}
            )
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
        names = [name for name in done.columns if name in touched]
        hidden = [pl.Series(_HIDDEN + name, done.suppressed(name)) for name in names if name in done.suppressed_cells]
        kept, spool = done.frame.select(*names, *hidden), _Spool(self.store.spill)
        with spilling():
            for start in range(0, len(kept), BATCH_ROWS):
                spool.add(kept[start : start + BATCH_ROWS])
        kinds = {name: done.frame.schema[name] for name in names}
        levels = {name: one_level(name, level) for name, level in done.levels.items() if name in touched}
        step = _Replacement(method.kind, method.perturbs, spool, kinds, levels)
        first = next(self.stream())
        new = self._derived(step.perform(first, None, ctx))
        used = ctx.stream is not None and ctx.stream.used is not None
        new.pending = (*self.pending, PendingStep(step, None, ctx, touched, used, part=cast("Part", method)))
        new.steps = (*self.steps, cast("Part", method))
        return new

    def with_rows_made_up(self, method: RowMethod, frames: Iterator[pl.DataFrame]) -> Scan:
        """Give new rows in place of these, which belong to nobody; they are written to a private file as they come."""
        store = self.store.keep(frames)
        new = Scan(store, self.schema.only(list(store.kinds)))
        new.match(self.original, None)
        new._made_up, new._changed, new.steps = True, frozenset(new.columns), (*self.steps, cast("Part", method))
        new.levels = MappingProxyType({name: level for name, level in self.levels.items() if name in new.columns})
        return new

    def advance(self, method: RowMethod, decision: Any, ctx: Context, lost: int = 0, reads: Iterable[str] = ()) -> Scan:
        """Add a step; it is carried out on the first batch now, so that what is wrong with it is said.

        `lost`: the records that it drops. What draws must come before: its batches are those of all rows. `reads`:
        columns that it looks at and leaves as they are.
        """
        if not self.store.height:
            raise DataError("the data has no rows")
        tried = self._tried(method, decision, ctx)
        draws = ctx.stream is not None and ctx.stream.used is not None
        if tried.lost and not lost:
            raise PlanError(f"{method.kind} drops records, which data that stays in its files cannot follow")
        if draws and any(step.drops for step in self.pending):
            raise PlanError(f"{method.kind} draws for each record; put it before the step that drops records")
        named = getattr(method, "columns", ()) or (getattr(method, "column", None) or (), getattr(method, "levels", ()))
        gone = frozenset(tried.before) - frozenset(tried.frame.columns)
        levels = _names(tuple(decision.values.get("levels", ())))
        lost_by = frozenset() if decision.dropped is None else frozenset(decision.dropped.columns)
        looked_up = frozenset() if decision.lookup is None else frozenset(decision.lookup.columns)
        touched = tried.changed | gone | lost_by | looked_up | ((_names(named) | levels) & frozenset(tried.before))
        done = self._like(tried.frame)
        done.schema, done.levels = tried.schema, MappingProxyType(tried.levels)
        done._changed = tried.changed
        new = self._derived(done)
        by_row = draws or (decision.lookup is not None and decision.lookup.by_place)
        step = PendingStep(method, decision, ctx, touched, by_row, bool(lost), reads=frozenset(reads))
        new.pending = (*self.pending, step)
        if not lost:
            new._spools = {name: one for name, one in self._spools.items() if name not in touched}
        new.steps = (*self.steps, cast("Part", method))
        new.lost_records = self.lost_records + lost
        return new

    def _tried(self, method: RowMethod, decision: Any, ctx: Context) -> _Tried:
        if not self.store.remote:
            return _Tried.on(next(self.stream()), method, decision, ctx)
        rows, sent = self.passing(), travelling(ctx)
        stream = ctx.stream
        for key in ("steady", "key", ""):
            try:
                return self._remote.first_batch(rows, lambda piece: _Tried.on(piece.data, method, decision, sent))  # noqa: B023
            except KeyNeeded:
                if stream is None or not key:
                    raise
                getattr(stream, key)
                sent = travelling(ctx)
        raise KeyNeeded

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
        new.levels = MappingProxyType(known_levels(like))
        new.store, new.pending, new._kept, new._spools = self.store, self.pending, {}, {}
        new.carried, new.matched, new.places, new._made_up = None, self.matched, self.places, self._made_up
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


def _evenly(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Cut rows anew into batches of 65,536, where some were dropped; only the last may have fewer."""
    import polars as pl

    left: pl.DataFrame | None = None
    for frame in frames:
        waiting = frame if left is None or not len(left) else pl.concat([left, frame], how="vertical_relaxed")
        while len(waiting) >= BATCH_ROWS:
            yield waiting[:BATCH_ROWS]
            waiting = waiting[BATCH_ROWS:]
        left = waiting
    if left is not None and len(left):
        yield left


def travelling(ctx: Context) -> Context:
    """Give a context as it goes to other machines: with the keys of its stream in place of the seed."""
    return replace(ctx, progress=ignore_progress, seed=ctx.seed if ctx.stream is None else 0)


def wider(one: Mapping[str, pl.DataType], other: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Give the types that hold what either of two holds."""
    import polars as pl

    if one == other:
        return dict(one)
    return dict(pl.concat([pl.DataFrame(schema=one), pl.DataFrame(schema=other)], how="vertical_relaxed").schema)


def _wider(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return float(np.fmin(one[0], other[0])), float(np.fmax(one[1], other[1]))


def _different_values(names: Sequence[str], piece: Piece) -> dict[str, pl.Series]:
    return {name: piece.data.frame[name].unique(maintain_order=True) for name in names}


def _more_values(one: Mapping[str, pl.Series], other: Mapping[str, pl.Series]) -> dict[str, pl.Series]:
    import polars as pl

    found = {}
    for name in one:
        found[name] = pl.concat([one[name], other[name]]).unique(maintain_order=True)
        if len(found[name]) > MOST_CLASSES:
            raise ManyClasses([name], len(found[name]))
    return found


_DIGIT_BITS = (11, 11, 11, 11, 11, 9)
"""The digits of a number of 64 bits by which values are told apart, one pass each."""


def selected(data: Dataset, column: str, ranks: Sequence[int]) -> list[float]:
    """Give the values of some ranks among those present: digit by digit, by counting. No value leaves its place."""
    found = [0] * len(ranks)
    left, shift = list(ranks), 64
    for width in _DIGIT_BITS:
        shift -= width
        prefixes = sorted(set(found))
        look = partial(_count_digits, column, prefixes, shift, width)
        counts = np.sum(data.each_batch([column], look, np.add), axis=0)
        for place, prefix in enumerate(found):
            upto = np.cumsum(counts[prefixes.index(prefix)])
            digit = int(np.searchsorted(upto, left[place], side="right"))
            left[place] -= int(upto[digit - 1]) if digit else 0
            found[place] = (prefix << width) | digit
    bits = np.array(found, np.uint64)
    bits ^= (~bits.view(np.int64) >> 63).view(np.uint64) | _SIGN
    return [float(value) for value in bits.view(np.float64)]


_SIGN = np.uint64(1 << 63)


def _count_digits(column: str, prefixes: list[int], shift: int, width: int, piece: Piece) -> NDArray[np.int64]:
    """Count the next digit of values that begin with each of some prefixes; floats in the order of their bits."""
    x = piece.number(column)
    bits = (x[~np.isnan(x)] + 0.0).view(np.uint64)
    bits ^= (bits.view(np.int64) >> 63).view(np.uint64) | _SIGN
    digits = bits >> np.uint64(shift)
    begins = digits >> np.uint64(width)
    digits &= np.uint64((1 << width) - 1)
    chosen = [digits[begins == np.uint64(prefix)].astype(np.int64) for prefix in prefixes]
    return np.array([np.bincount(one, minlength=1 << width) for one in chosen])


def _names(found: Any) -> frozenset[str]:
    """Gather the names in a field of columns, in a single name, or in the keys of a mapping."""
    if isinstance(found, str):
        return frozenset([found])
    return frozenset().union(*(_names(one) for one in found)) if found else frozenset()


_SEVERAL = np.empty(0, np.int64)
"""The level of a column whose cells have several: which one is known where its rows are."""


def known_levels(data: Dataset) -> dict[str, Level]:
    """Give the level of each column, as far as it is one for all rows, whichever batch this is."""
    return {name: level if isinstance(level, int) else _SEVERAL for name, level in data.levels.items()}


def one_level(name: str, level: Level) -> int:
    """Give the level of a column that has one for all rows."""
    if isinstance(level, int):
        return level
    found = np.unique(level)
    if len(found) != 1:
        raise DataError(f"column {name!r} has several levels; data that stays in its files has one for each column")
    return int(found[0])
