"""Rows on a Spark cluster: read, counted and rewritten by its machines; only summaries come to the driver.

A task has a run of whole batches of 65,536 rows, which it reads from the Parquet files by their place: the position of
a row is that of its file among the files and of the row in the file, never that of a Spark partition. What each batch
gives is therefore the same on every engine, and the same again when Spark repeats a task whose machine was lost.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import discretion.errors
from discretion.context import BATCH_ROWS, KeyNeeded
from discretion.data.dataset import Dataset, Piece
from discretion.data.read import text_to_parquet
from discretion.data.schema import Schema
from discretion.data.text import Given
from discretion.engines.duckdb import DuckdbRows, _metadata, _reading, _rechunked, data_files, spill_folder
from discretion.engines.scan import COUNT, FIRST, MOST_CLASSES, ManyClasses, Passing, spilling
from discretion.errors import DataError, DiscretionError, PlanError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_T = TypeVar("_T")
_LOCAL = re.compile(r"local\[(\d+|\*)\]")
_TRIES = 4
"""How often a task is tried, also on this machine, where Spark itself would give up at once."""
_BUCKET_ROWS, _MOST_BUCKETS = 1 << 22, 64
"""Records whose classes a task adds up, about, and into how many such tasks classes are dealt at most."""
_RUN = 16
"""Batches of a task, about: a million rows."""


def spark_session(master: str | None = None, memory: str = "1GB", spill: str | Path | None = None) -> Any:
    """Give the session that is there, or start one: `master` as Spark names it, by default this machine alone.

    `memory` bounds the Java process that a session on this machine starts. Without Java this is an error that says
    what to install.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise PlanError("the engine `spark` needs pyspark: pip install 'discretion[spark]'") from None
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    if not (shutil.which("java") or Path(os.environ.get("JAVA_HOME", ""), "bin/java").is_file()):
        raise PlanError(
            "Spark needs Java 17: install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME to where it is"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    named = master = master or "local[2]"
    size = re.sub(r"\s|i?B$", "", memory, flags=re.IGNORECASE)
    settings = {
        "spark.driver.memory": str(max(512, round(_megabytes(size)))) + "m",
        "spark.driver.maxResultSize": "0",
        "spark.task.maxFailures": str(_TRIES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    if local := _LOCAL.fullmatch(master):
        master = f"local[{local[1]},{_TRIES}]"
        folder = spill_folder(spill)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder),
        }
    chosen = SparkConf().setMaster(master).setAppName("discretion").setAll(list(settings.items()))
    try:
        with _without_warnings():
            quiet = None if SparkContext._gateway else launch_gateway(chosen, {"stderr": subprocess.DEVNULL})
            return SparkSession(SparkContext(conf=chosen, gateway=quiet))
    except Exception as error:
        raise PlanError(
            f"Spark did not start with the master {named!r} ({_kind_of(error)}): is the master there, and is Java 17?"
        ) from None


def open_spark(
    source: Any,
    master: str | None = None,
    session: Any = None,
    memory: str = "4GB",
    spill: str | Path | None = None,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    given: Given | None = None,
) -> SparkRows:
    """Open files, or a frame of Spark, whose order is that in which its parts are written first."""
    framed = not isinstance(source, str | Path)
    if session is None:
        session = source.sparkSession if framed else spark_session(master, memory, spill)
    if not framed:
        return SparkRows(data_files(source), session, spill, columns, schema, given)
    folder = spill_folder(spill)
    try:
        with _on_cluster():
            source.write.parquet(str(folder / "frame"))
        rows = SparkRows(data_files(folder / "frame"), session, spill, columns, schema, given)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    return rows


def _megabytes(size: str) -> float:
    return float(size[:-1]) * {"k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}[size[-1].lower()]


@dataclass(frozen=True)
class RowFiles:
    """Parquet files as every machine reads them: by the place of a row among all."""

    paths: tuple[str, ...]
    heights: tuple[int, ...]
    kinds: Mapping[str, pl.DataType]

    def batches(self, run: tuple[int, int], names: Sequence[str]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Give some batches with their numbers."""
        import polars as pl

        kinds = pl.Schema({name: self.kinds[name] for name in names})
        for number, table in enumerate(_rechunked(self._tables(run, names)), run[0]):
            yield number, pl.DataFrame(pl.from_arrow(table)).cast(kinds)

    def _tables(self, run: tuple[int, int], names: Sequence[str]) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        first, last = run[0] * BATCH_ROWS, run[1] * BATCH_ROWS
        start = 0
        for path, height in zip(self.paths, self.heights, strict=True):
            low, high = max(first - start, 0), min(last - start, height)
            start += height
            if low >= high:
                continue
            with _reading(), pq.ParquetFile(path) as opened:
                sizes = [opened.metadata.row_group(place).num_rows for place in range(opened.num_row_groups)]
                ends = np.cumsum(sizes)
                groups = [place for place, end in enumerate(ends.tolist()) if end > low and end - sizes[place] < high]
                at = int(ends[groups[0]]) - sizes[groups[0]]
                for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(names)):
                    cut = batch.slice(max(low - at, 0), max(min(high - at, len(batch)) - max(low - at, 0), 0))
                    at += len(batch)
                    if len(cut):
                        yield pa.Table.from_batches([cut])
                    if at >= high:
                        break


class SparkRows(DuckdbRows):
    """The rows of Parquet files, worked on by a Spark cluster: its machines must see the files and `spill`."""

    name = "spark"
    remote = True

    def __init__(
        self,
        files: Sequence[Path],
        session: Any,
        spill: str | Path | None = None,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        given: Given | None = None,
    ) -> None:
        self.session = session
        super().__init__(files, spill=spill, columns=columns, schema=schema, given=given)

    def _converted(self, file: Path, schema: Schema, given: Given | None) -> Path:
        """Let one of the machines write a text file as Parquet."""
        target = self.spill / f"input-{self.files.index(file):05}.parquet"
        chosen = self._chosen
        self.spread([file], lambda one: text_to_parquet(one, target, schema, given, chosen))
        return target

    # --- the one door to the cluster -------------------------------------------------------------------------------

    def spread(self, items: Sequence[_T], work: Callable[[_T], Any]) -> list[Any]:
        """Let the machines work on items, one task each, and give what they found, in the order of the items."""
        from pyspark.cloudpickle import dumps, loads

        sent = dumps((list(items), work))

        def serve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            every, doing = loads(sent)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    found = dumps(_answer(doing, every[number]))
                    yield pa.RecordBatch.from_pydict({"id": [number], "found": [found]})

        tasks = len(items)
        table = self._collected(self._mapped(tasks, serve, "id long, found binary"))
        answers = dict(zip(table["id"].to_pylist(), table["found"].to_pylist(), strict=True))
        return [_opened(loads(answers[number])) for number in range(tasks)]

    def _mapped(self, tasks: int, serve: Callable[..., Any], kinds: str) -> Any:
        with _without_warnings():
            return self.session.range(0, tasks, 1, tasks).mapInArrow(serve, kinds)

    def _collected(self, frame: Any) -> pa.Table:
        """Bring a small table to the driver: nothing else does."""
        with _without_warnings(), _on_cluster():
            return frame.toArrow()

    # --- rows ------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> RowFiles:
        """The files as the machines read them."""
        return RowFiles(tuple(str(file.absolute()) for file in self._parquet), tuple(self._heights), self.kinds)

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Runs of batches, a task each: they begin where groups of rows do, so that little is read twice."""
        total = -(-self.height // BATCH_ROWS)
        starts, at = {0}, 0
        for file in self._parquet:
            metadata = _metadata(file)
            for place in range(metadata.num_row_groups):
                starts.add(-(-at // BATCH_ROWS))
                at += metadata.row_group(place).num_rows
        borders = [0]
        for start in sorted(starts | set(range(0, total, 4 * _RUN))):
            if start - borders[-1] >= _RUN and start < total:
                borders.append(start)
        return list(zip(borders, [*borders[1:], total], strict=True))

    def each_batch(
        self, rows: Passing, look: Callable[[Piece], _T], merge: Callable[[_T, _T], _T] | None = None
    ) -> list[_T]:
        """Give what is found in each batch, in their order, or in several of them put together."""
        if not self.height:
            raise DataError("the data has no rows")
        files = self.rows

        def work(run: tuple[int, int]) -> list[_T]:
            made = (
                _piece(rows.states(number, frame)[-1], number) for number, frame in files.batches(run, rows.columns)
            )
            found = (look(piece) for piece in made)
            return list(found) if merge is None else [reduce(merge, found)]

        return [one for found in self.spread(self.runs, work) for one in found]

    def first_batch(self, rows: Passing, look: Callable[[Piece], _T]) -> _T:
        """Give what is found in the first batch."""
        files = self.rows

        def work(run: tuple[int, int]) -> _T:
            number, frame = next(files.batches(run, rows.columns))
            return look(_piece(rows.states(number, frame)[-1], number))

        found: _T = self.spread([(0, 1)], work)[0]
        return found

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Refuse: whole columns do not come to the driver."""
        raise PlanError(f"whole columns ({', '.join(names)}) do not come to the driver; use the engine `duckdb`")

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Refuse: rows do not come to the driver."""
        raise PlanError(f"rows ({', '.join(names)}) do not come to the driver; use the engine `duckdb`")

    # --- classes ---------------------------------------------------------------------------------------------------

    def classes(self, names: Sequence[str]) -> pl.DataFrame:
        """Count the combinations of values as they stand, in the order of their first rows."""
        kinds = {name: self.kinds[name] for name in names}
        return self._counted(lambda _, frame: (frame, np.arange(len(frame))), tuple(names), kinds)

    def different(self, name: str) -> pl.Series:
        """Give the different values of a column, in the order of their first rows."""
        return self.classes([name])[name]

    def classes_after(self, rows: Passing, kinds: Mapping[str, pl.DataType]) -> pl.DataFrame:
        """Count the combinations of values after some steps, in the order of their first rows."""

        def after(number: int, frame: pl.DataFrame) -> tuple[pl.DataFrame, Any]:
            data = rows.states(number, frame)[-1]
            return data.frame, data.row_ids

        return self._counted(after, rows.columns, kinds)

    def _counted(
        self,
        make: Callable[[int, pl.DataFrame], tuple[pl.DataFrame, Any]],
        needed: tuple[str, ...],
        kinds: Mapping[str, pl.DataType],
    ) -> pl.DataFrame:
        """Count each run of batches where it is, dealt into buckets of which each is then added up by one task."""
        import polars as pl

        files, buckets = self.rows, min(_MOST_BUCKETS, -(-self.height // _BUCKET_ROWS)) or 1
        folder = Path(tempfile.mkdtemp(prefix="classes-", dir=self.spill))

        def deal(run: tuple[int, int]) -> list[int]:
            each = (
                _tallied(*make(number, frame), kinds, number * BATCH_ROWS)
                for number, frame in files.batches(run, needed)
            )
            return _dealt(_added(each), folder / f"{run[0]}", buckets)

        def add(bucket: int) -> pl.DataFrame:
            return _added(pl.read_ipc(file) for file in sorted(folder.glob(f"*-{bucket}.arrow")))

        try:
            dealt = np.array(self.spread(self.runs, deal)).sum(axis=0)
            chosen = np.flatnonzero(dealt).tolist()
            number = int(dealt.sum())
            if number > MOST_CLASSES:
                number = sum(self.spread(chosen, lambda one: len(add(one))))
            if number > MOST_CLASSES:
                raise ManyClasses(kinds, number, remote=True)
            found: pl.DataFrame = pl.concat(self.spread(chosen, add)).sort(FIRST).cast(dict(kinds))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return found


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name to write under; the file gets its own when it is whole, also where another task writes it too."""
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep to itself what pyspark says of newer libraries than it was tried with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _on_cluster() -> Iterator[None]:
    """Say in one line what the cluster did not manage."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"Spark gave a task up after {_TRIES} tries ({_kind_of(error)}); the logs of its machines say more"
        ) from None


def _kind_of(error: Exception) -> str:
    """Name the innermost error that a message of Spark tells of; its words might hold values."""
    said = re.findall(r"^(?:Caused by: )?(?:[\w.$]+\.)?(\w+(?:Error|Exception))\b", str(error), re.MULTILINE)
    return said[-1] if said else type(error).__name__


def _answer(work: Callable[[_T], Any], item: _T) -> tuple[str, Any]:
    """Do a piece of work; what is wrong with data or plan is an answer too, since to try again would not help."""
    try:
        with spilling():
            return "", work(item)
    except KeyNeeded:
        return "KeyNeeded", ""
    except DiscretionError as error:
        known = (one.__name__ for one in type(error).__mro__)
        return next(name for name in known if hasattr(discretion.errors, name)), str(error)


def _opened(answer: tuple[str, Any]) -> Any:
    wrong, found = answer
    if wrong == "KeyNeeded":
        raise KeyNeeded
    if wrong:
        raise getattr(discretion.errors, wrong)(found)
    return found


def _piece(data: Dataset, number: int) -> Piece:
    return Piece(data, 0, len(data), number * BATCH_ROWS)


def _tallied(frame: pl.DataFrame, rows: Any, kinds: Mapping[str, pl.DataType], start: int) -> pl.DataFrame:
    """Count the classes of a batch: values that are equal written alike, how many, and the first row."""
    import polars as pl

    if sets := [name for name, kind in kinds.items() if kind.is_nested()]:
        raise PlanError(f"columns {', '.join(sets)} hold sets, which are not counted on Spark; use the engine `duckdb`")
    alike = []
    for name, kind in kinds.items():
        column = pl.col(name).cast(kind)
        if kind.is_float():
            zero = pl.when(column == 0).then(pl.lit(0.0, kind)).otherwise(column)
            column = pl.when(column.is_nan()).then(pl.lit(float("nan"), kind)).otherwise(zero).alias(name)
        alike.append(column.cast(pl.String) if kind in (pl.Categorical, pl.Enum) else column)
    tally = pl.Series(FIRST, np.asarray(rows, np.int64) + start)
    return _added([frame.select(alike).with_columns(tally, pl.lit(1, pl.Int64).alias(COUNT))])


def _added(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    whole = pl.concat(parts)
    keys = [name for name in whole.columns if name not in (COUNT, FIRST)]
    return whole.group_by(keys).agg(pl.col(COUNT).sum(), pl.col(FIRST).min())


def _dealt(classes: pl.DataFrame, stem: Path, buckets: int) -> list[int]:
    """Write classes into a file for each bucket, which the values decide; give how many each has."""
    import polars as pl

    bucket = classes.drop(COUNT, FIRST).hash_rows(seed=0) % buckets
    sizes = []
    for number in range(buckets):
        part = classes.filter(bucket == pl.lit(number, pl.UInt64))
        sizes.append(len(part))
        if len(part):
            with whole(stem.with_name(f"{stem.name}-{number}.arrow")) as new:
                part.write_ipc(new)
    return sizes
