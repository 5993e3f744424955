"""Rows in Parquet files: counted by duckdb, which may spill to disk, and read batch by batch in their order."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS
from discretion.data.read import text_to_parquet
from discretion.data.schema import Schema
from discretion.data.text import Given, format_of
from discretion.data.write import private_folder
from discretion.engines.scan import COUNT, FIRST, MOST_CLASSES, ManyClasses, Scan, spilling
from discretion.errors import DataError, PlanError, unknown

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

_SPILL = "discretion-spill-"
_FEW_PLACES, _FEW_TEXTS = 1 << 16, 1 << 12
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", re.IGNORECASE)


class DuckdbRows:
    """The rows of Parquet files in the order of their names; `memory` bounds what duckdb keeps before it spills.

    What is spilled lies in a folder of its own that only its owner can read, and is gone when the rows are no longer
    needed; `spill` says below which folder. Text files are written there as Parquet first, with the values that
    `dc.read` finds in them; `schema` and `given` say how they are read.
    """

    name = "duckdb"
    remote = False

    def __init__(
        self,
        files: Sequence[Path],
        memory: str = "4GB",
        spill: str | Path | None = None,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        given: Given | None = None,
    ) -> None:
        self.room = _bytes(memory)
        self.files, self.memory, self._chosen = tuple(files), memory, columns
        self.spill = spill_folder(spill)
        weakref.finalize(self, shutil.rmtree, self.spill, ignore_errors=True)
        self._parquet = [
            self._converted(file, schema or Schema.build(), given) if format_of(file, None) == "csv" else file
            for file in self.files
        ]
        self._heights = [_metadata(file).num_rows for file in self._parquet]

    def _converted(self, file: Path, schema: Schema, given: Given | None) -> Path:
        """Write a text file as Parquet among the spilled files."""
        number = self.files.index(file)
        target = self.spill / f"input-{number:05}.parquet"
        with spilling():
            text_to_parquet(file, target, schema, given, self._chosen)
        return target

    @cached_property
    def kinds(self) -> dict[str, pl.DataType]:
        """The polars type of each column, which must be the same in all files."""
        import polars as pl

        first, *others = [dict(pl.read_parquet_schema(file)) for file in self._parquet]
        for file, found in zip(self.files[1:], others, strict=True):
            if found != first:
                differing = sorted(name for name in first.keys() | found.keys() if first.get(name) != found.get(name))
                raise DataError(
                    f"{file.name}: its columns differ from those of {self.files[0].name} in {', '.join(differing)}: "
                    "all parts must have the same columns, of the same types, in the same order"
                )
        if self._chosen is None:
            return first
        if lacking := [unknown("column", name, list(first)) for name in self._chosen if name not in first]:
            raise DataError("\n".join(lacking))
        return {name: kind for name, kind in first.items() if name in self._chosen}

    @property
    def parquet(self) -> tuple[Path, ...]:
        """Give the files in which the rows are read: text files as they were converted."""
        return tuple(self._parquet)

    @property
    def height(self) -> int:
        """The number of rows."""
        return sum(self._heights)

    def keep(self, frames: Iterator[pl.DataFrame]) -> DuckdbRows:
        """Write rows that were made up into a private file, as they come, and give them."""
        import pyarrow.parquet as pq

        folder = Path(tempfile.mkdtemp(dir=self.spill))
        file, first = folder / "rows.parquet", next(frames).to_arrow()
        with spilling(), pq.ParquetWriter(file, first.schema) as writer:
            writer.write_table(first)
            for frame in frames:
                writer.write_table(frame.to_arrow())
        made = DuckdbRows([file], self.memory, self.spill.parent)
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
        return made

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Give some columns of all rows."""
        import polars as pl

        with _reading():
            return pl.scan_parquet(self._parquet, glob=False).select(names).collect()

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Give some columns in their order, 65,536 rows at a time."""
        import polars as pl

        kinds = {name: self.kinds[name] for name in names}
        for batch in _rechunked(self._arrow(names)):
            frame = pl.DataFrame(pl.from_arrow(batch))
            yield frame if dict(frame.schema) == kinds else frame.cast(pl.Schema(kinds))

    def _arrow(self, names: Sequence[str]) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with _reading():
            for file in self._parquet:
                with pq.ParquetFile(file, pre_buffer=False) as opened:
                    for batch in opened.iter_batches(BATCH_ROWS, columns=list(names)):
                        yield pa.Table.from_batches([batch])

    def classes(self, names: Sequence[str]) -> pl.DataFrame:
        """Count the combinations of values as they stand, in the order of their first rows."""
        with _reading():
            found = self._counted_by_place(names)
        return self._counted_by_query(names) if found is None else found

    def different(self, name: str) -> pl.Series:
        """Give the different values of a column, in the order of their first rows."""
        import polars as pl

        line = self._line(name) if self.kinds[name].is_integer() else None
        if line is None or line.size > _FEW_PLACES:
            return self.classes([name])[name]
        found = pl.Series(name, [], self.kinds[name])
        for frame in self.batches([name]):
            found = pl.concat([found, frame[name]]).unique(maintain_order=True)
            if len(found) == line.size:  # all that the bounds of the files leave
                break
        return found

    def _counted_by_query(self, names: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        starts = [sum(self._heights[:place]) for place in range(len(self.files))]
        listed = ", ".join(_quoted(name) for name in names)
        query = (
            f'SELECT {listed}, count(*) AS "{COUNT}", '
            f'min($starts[(file_index + 1)::BIGINT] + file_row_number) AS "{FIRST}" '
            f"FROM read_parquet($files, file_row_number = true) GROUP BY {listed} LIMIT {MOST_CLASSES + 1}"
        )
        with self._connection() as connection, _reading():
            given = {"starts": starts, "files": [str(file) for file in self._parquet]}
            frame = pl.DataFrame(pl.from_arrow(connection.sql(query, params=given).to_arrow_table())).sort(FIRST)
        if len(frame) > MOST_CLASSES:
            raise ManyClasses(names, len(frame))
        kinds: dict[str, pl.DataType] = {name: self.kinds[name] for name in names}
        return frame.cast(pl.Schema({**kinds, COUNT: pl.Int64(), FIRST: pl.Int64()}))

    def _counted_by_place(self, names: Sequence[str]) -> pl.DataFrame | None:
        """Count in a table that has a place for each combination that may occur; None where these are too many.

        Whole numbers lie between the bounds that the files give for them, which is checked; texts are listed first.
        """
        import polars as pl
        import pyarrow.parquet as pq

        from discretion.kernels.hashing import count_places

        lines: list[_Line] = []
        for name in names:
            line = self._line(name)
            most = min(self.room // 128, max(4 * self.height, _FEW_PLACES)) // math.prod(one.size for one in lines)
            if line is None or not 0 < line.size <= most:
                return None
            lines.append(line)
        counts: NDArray[Any] = np.zeros(math.prod(one.size for one in lines), "i8" if self.height >> 31 else "i4")
        first = np.empty(len(counts), np.int64)
        texts, start = [line.name for line in lines if line.texts is not None], 0
        for part in self._parquet:
            with pq.ParquetFile(part, read_dictionary=texts, pre_buffer=False) as opened:
                for batch in opened.iter_batches(BATCH_ROWS, columns=list(names)):
                    places = np.zeros(batch.num_rows, np.int64)
                    for line in lines:
                        codes = line.codes(batch.column(line.name))
                        if codes.size and not 0 <= codes.min() <= codes.max() < line.size:
                            return None
                        places *= line.size
                        places += codes
                    count_places(places, start, counts, first)
                    start += batch.num_rows
        used = np.flatnonzero(counts)
        if len(used) > MOST_CLASSES:
            raise ManyClasses(names, len(used))
        used = used[np.argsort(first[used])]
        columns, left = [pl.Series(COUNT, counts[used].astype(np.int64)), pl.Series(FIRST, first[used])], used
        for line in reversed(lines):
            left, codes = np.divmod(left, line.size)
            columns.insert(0, line.values(codes, self.kinds[line.name]))
        return pl.DataFrame(columns)

    def _line(self, name: str) -> _Line | None:
        """Find within what bounds a column lies; None where that is not known, or its type is another."""
        import polars as pl

        kind = self.kinds[name]
        if kind == pl.String:
            return self._text_line(name)
        if kind != pl.Boolean and (not kind.is_integer() or kind in (pl.UInt64, pl.Int128, pl.UInt128)):
            return None
        bounds, missing = [], False
        for part in self._parquet:
            metadata = _metadata(part)
            place = [metadata.schema.column(one).path for one in range(metadata.num_columns)].index(name)
            for number in range(metadata.num_row_groups):
                column = metadata.row_group(number).column(place)
                told = column.statistics
                if told is None or not told.has_null_count:
                    return None
                missing |= told.null_count > 0
                if told.has_min_max:
                    bounds += [int(told.min), int(told.max)]
                elif told.null_count < column.num_values:
                    return None
        return _Line(name, min(bounds), max(bounds) - min(bounds) + 1, missing) if bounds else None

    def _text_line(self, name: str) -> _Line | None:
        import pyarrow.parquet as pq

        found: dict[str, int] = {}
        missing = False
        for part in self._parquet:
            with pq.ParquetFile(part, read_dictionary=[name], pre_buffer=False) as opened:
                for batch in opened.iter_batches(BATCH_ROWS, columns=[name]):
                    column = batch.column(0)
                    missing |= column.null_count > 0
                    for text in column.dictionary.to_pylist() if len(column.dictionary) <= _FEW_TEXTS else ():
                        found.setdefault(text, len(found))
                    if max(len(found), len(column.dictionary)) > _FEW_TEXTS:
                        return None
        return _Line(name, 0, len(found), missing, found)

    def _connection(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        settings: dict[str, Any] = {"memory_limit": self.memory, "temp_directory": str(self.spill)}
        connection = duckdb.connect(config=settings)
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET enable_external_file_cache = false")  # it holds the files in memory up to the limit
        return connection


@dataclass(frozen=True)
class _Line:
    """The values that a column may have, as whole numbers from 0 on; the last is what is missing, if anything is."""

    name: str
    low: int
    different: int
    missing: bool
    texts: Mapping[str, int] | None = None

    @property
    def size(self) -> int:
        return self.different + self.missing

    def codes(self, column: Any) -> NDArray[np.int64]:
        """Give the number of each value."""
        import polars as pl
        import pyarrow.compute as pc

        if self.texts is not None:
            known = [self.different if text is None else self.texts[text] for text in column.dictionary.to_pylist()]
            rows: NDArray[np.int32] = pc.fill_null(column.indices, -1).to_numpy()
            return np.array([*known, self.different], np.int64)[rows]
        series = pl.Series(pl.from_arrow(column))
        series = series.cast(pl.UInt8) if series.dtype == pl.Boolean else series
        codes: NDArray[np.int64] = series.fill_null(self.low).to_numpy().astype(np.int64) - self.low
        if series.null_count():
            codes[series.is_null().to_numpy()] = self.different
        return codes

    def values(self, codes: NDArray[np.int64], kind: pl.DataType) -> pl.Series:
        """Give the values of some numbers."""
        import polars as pl

        if self.texts is not None:
            return pl.Series(self.name, [*self.texts, None], kind).gather(codes)
        series = pl.Series(self.name, codes + self.low).cast(kind)
        return pl.select(pl.when(pl.Series(codes < self.different)).then(series)).to_series().alias(self.name)


def _bytes(memory: str) -> int:
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise PlanError(f"memory: expected a size such as 4GB or 500MB, got {memory!r}")
    power = 1 + "KMGT".index(found[2].upper())
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def spill_folder(below: str | Path | None) -> Path:
    """Make a private folder for what is spilled; those of processes that were killed are removed first."""
    return private_folder(Path(below or tempfile.gettempdir()), _SPILL)


class _reading:  # noqa: N801 - used like a function
    """Turn what the readers of Parquet raise into an error that says what to do."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        import duckdb
        import polars as pl
        import pyarrow as pa

        if isinstance(error, duckdb.OutOfMemoryException):
            raise DataError("duckdb needs more memory, or more room on the disk to spill; raise `memory`") from None
        if isinstance(error, duckdb.IOException | pa.ArrowException | pl.exceptions.PolarsError | OSError):
            said = str(error).partition("\n")[0]
            raise DataError(f"a part cannot be read as Parquet, copy or download it again ({said})") from None


def _rechunked(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Cut a stream of tables into tables of exactly 65,536 rows; only the last may have fewer."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        left = table
        while rows + left.num_rows >= BATCH_ROWS:
            cut = BATCH_ROWS - rows
            yield pa.concat_tables([*waiting, left.slice(0, cut)])
            left, waiting, rows = left.slice(cut), [], 0
        if left.num_rows:
            waiting.append(left)
            rows += left.num_rows
    if rows:
        yield pa.concat_tables(waiting)


def _metadata(file: Path) -> Any:
    import pyarrow.parquet as pq

    with _reading():
        return pq.read_metadata(file)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def data_files(source: str | Path) -> list[Path]:
    """List the Parquet or text files of a file, a folder or a pattern, in the order of their names."""
    path = Path(source)
    if path.is_dir():
        found = sorted(path.glob("*.parquet")) or sorted(path.glob("*.csv"))
    elif path.is_file():
        found = [path]
    else:
        found = sorted(file for file in path.parent.glob(path.name) if file.is_file())
    if not found:
        raise DataError(f"{str(source)!r}: no Parquet or CSV file there")
    kinds = {format_of(file, None) for file in found}
    if not kinds <= {"parquet", "csv"} or len(kinds) > 1:
        wrong = next((file for file in found if format_of(file, None) not in ("parquet", "csv")), found[-1])
        raise PlanError(
            f"{wrong.name!r}: rows that stay in their files are read from Parquet or from delimited text, all parts "
            "from the same; convert the file first"
        )
    return found


def scan(
    source: Any,
    *,
    roles: Mapping[str, object] | None = None,
    types: Mapping[str, object] | None = None,
    hierarchies: Mapping[str, object] | None = None,
    missing_codes: Mapping[str, object] | None = None,
    orders: Mapping[str, Sequence[object]] | None = None,
    columns: Sequence[str] | None = None,
    memory: str = "4GB",
    spill: str | Path | None = None,
    engine: Literal["duckdb", "spark"] = "duckdb",
    master: str | None = None,
    session: Any = None,
) -> Scan:
    """Open Parquet files whose rows stay where they are: a file, a folder, or a pattern such as `register/*.parquet`.

    CSV and other delimited text is written as Parquet first, below `spill`, never all of it in memory.
    What comes back takes the place of a `Dataset` for steps that work row by row, for privacy models, the optimal
    search and measures of uniqueness; parts that need all rows refuse it by name. `memory` bounds what duckdb keeps
    while it counts, before it spills below the folder `spill` (a private one of the system by default).

    With `engine="spark"` the machines of a Spark cluster do the work: that of `session`, of a session that is there, or
    of `master` (`local[2]`, this machine, by default). They must see the files and `spill`. `source` may be a Spark
    frame, which is written below `spill` first.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.scan("register/*.parquet", roles={"age": "quasi"}, memory="8GB")  # doctest: +SKIP
    >>> dc.KAnonymity(k=5)(people).holds  # doctest: +SKIP
    """
    schema = Schema.build(roles, types, hierarchies, missing_codes, orders)
    if engine == "spark":
        from discretion.engines.spark import open_spark

        return Scan(open_spark(source, master, session, memory, spill, columns, schema), schema)
    if engine != "duckdb" or master is not None or session is not None:
        raise PlanError("engine: expected `duckdb` or `spark`; `master` and `session` go with `spark`")
    return Scan(DuckdbRows(data_files(source), memory, spill, columns, schema), schema)
