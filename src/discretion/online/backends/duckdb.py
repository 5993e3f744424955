"""Files and frames in an embedded duckdb: read once, then locked.

Tables are in memory; those of scanned rows (`dc.scan`) in a file in their private folder, so that they may be larger.
Only declared, visible columns are read, each with its declared type, under names of our own (c0, c1, …). Afterwards the
database has no access to files or network and its settings cannot change. Statements come from `sql_emit` alone.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.sql_filter import Filter, Scalar
from discretion.errors import DataError, PlanError, QueryRefused, unknown
from discretion.kernels.arrays import Ints
from discretion.online.audit.linear import ascending
from discretion.online.backends import (
    FEW,
    Bounded,
    GroupKey,
    Layout,
    Limits,
    QueryTimeout,
    Sql,
    Unit,
    bounded_groups,
    by_name,
    emit_code,
    emit_filter,
    exact_frame,
    group_key,
    joined,
    quote,
    require_public,
    table_of,
)
from discretion.online.declare import PERSON, TableSpec
from discretion.online.question.query import Aggregate, Query, admit

if TYPE_CHECKING:
    import polars as pl

_TYPES = {"number": "DOUBLE", "integer": "BIGINT", "category": "VARCHAR", "truth": "BOOLEAN", "date": "DATE"}
_READERS = {".parquet": "read_parquet(?)", ".csv": "read_csv(?, all_varchar = true)"}
_YES = "('true', 't', 'yes', 'y', '1', '1.0')"
_NO = "('false', 'f', 'no', 'n', '0', '0.0')"
_LOCKS = ("enable_external_access = false", "lock_configuration = true")


@dataclass(frozen=True)
class Loaded:
    """One table in its own locked database."""

    connection: Any
    layout: Layout
    rows: int
    people: int
    held: Any = None
    """the scanned rows in whose private folder the database lies: it is removed with them"""

    @property
    def person(self) -> str:
        """The expression of a row's person."""
        return self.layout.person or "rowid"

    def fingerprint(self, rows: int) -> int:
        """Return a figure that changes when one of the first rows changes or moves."""
        columns = ", ".join(self.layout.column(name) for name in self.layout.spec.visible)
        statement = f"SELECT bit_xor(hash(rowid, {self.person}, {columns})) FROM data WHERE rowid < ?"
        (found,) = self.connection.cursor().execute(statement, [rows]).fetchone()
        return int(found or 0)


def load(spec: TableSpec, data: Any, limits: Limits) -> Loaded:
    """Read the declared columns, number the people, mark the rows a person may contribute, lock the database."""
    import duckdb

    from discretion.engines.scan import Scan

    threads = {} if limits.threads is None else {"threads": limits.threads}
    spill = data.store.spill if isinstance(data, Scan) else None
    settings: dict[str, Any] = {"memory_limit": limits.memory, "temp_directory": str(spill or ""), **threads}
    place = ":memory:" if spill is None else str(spill / f"service-{secrets.token_hex(8)}.duckdb")
    connection = duckdb.connect(place, config=settings)
    try:
        try:
            places, codes = _copy(connection, spec, data)
            people = _number_people(connection, spec)
            for lock in _LOCKS:
                connection.execute(f"SET {lock}")
            (rows,) = connection.execute("SELECT count(*) FROM data").fetchone() or (0,)
        except duckdb.Error:
            raise DataError(f"table {spec.name!r}: the source cannot be read, or does not fit into memory") from None
    except BaseException:
        connection.close()
        raise
    several = spec.person is not None
    layout = Layout(
        "duckdb",
        spec,
        "data",
        places.__getitem__,
        kept=Sql("kept") if several else Sql(""),
        person="person" if several else "",
        codes=codes,
    )
    return Loaded(connection, layout, rows, rows if people is None else people, None if spill is None else data.store)


def joined_rows(left: Loaded, right: Loaded) -> pl.DataFrame:
    """Put the kept rows of two tables together, person by person, in the order of the rows."""
    frames: list[pl.DataFrame] = []
    for loaded in (left, right):
        names = ", ".join(f"{loaded.layout.column(n)} AS {quote(n, 'duckdb')}" for n in loaded.layout.spec.visible)
        statement = (
            f"SELECT people.key AS {quote(PERSON, 'duckdb')}, {names} FROM data JOIN people "
            "ON data.person = people.number WHERE data.kept ORDER BY data.rowid"
        )
        frames.append(loaded.connection.cursor().sql(statement).pl())
    return frames[0].join(frames[1], on=PERSON, how="inner", maintain_order="left_right")


def _copy(connection: Any, spec: TableSpec, data: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Create `data` from the source; give the declared names with the names of the columns and of their codes."""
    source, values = _source(connection, spec, data)
    there = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}", values).fetchall()]
    wanted = [*spec.visible, *([spec.person] if spec.person else [])]
    problems = [
        f"table {spec.name!r}: {unknown('column', name, there)}" for name in dict.fromkeys(wanted) if name not in there
    ]
    if problems:
        raise PlanError(problems)
    places = {name: f"c{i}" for i, name in enumerate(spec.visible)}
    codes = {name: f"k{i}" for i, name in enumerate(spec.visible) if spec.columns[name].bounds is not None}
    chosen = [Sql(f"{_value(spec, name)} AS {place}") for name, place in places.items()]
    chosen += [_code(spec, name) + f" AS {place}" for name, place in codes.items()]
    if spec.person:
        chosen.append(Sql(f"CAST({quote(spec.person, 'duckdb')} AS VARCHAR) AS key"))
    _check_values(connection, spec, source, values)
    statement = "CREATE TABLE data AS SELECT " + joined(chosen, ", ") + f" FROM {source}"
    connection.execute(statement.text, [*statement.values, *values])
    if source == "given":
        connection.unregister(source)
    return places, codes


def _code(spec: TableSpec, name: str) -> Sql:
    """Write the code of the clamped value, computed once: private sums then cost as little as plain ones."""
    column = spec.columns[name]
    code = emit_code(_value(spec, name), column, Layout("duckdb", spec, "data", str))
    return "CAST(" + code + f" AS {'INTEGER' if max(map(abs, column.codes)) < 2**31 else 'BIGINT'})"


def _source(connection: Any, spec: TableSpec, data: Any) -> tuple[str, list[Any]]:
    from discretion.data.dataset import Dataset
    from discretion.engines.duckdb import DuckdbRows
    from discretion.engines.scan import Scan

    if isinstance(data, Scan):
        if not isinstance(data.store, DuckdbRows) or data.store.remote or data.pending or data.matched is not None:
            raise PlanError(f"table {spec.name!r}: scanned rows are served as they stand in their files, by `duckdb`")
        if coded := [name for name in spec.visible if name in data.columns and data.schema[name].missing_codes]:
            raise PlanError(
                f"table {spec.name!r}: missing codes of scanned rows ({', '.join(coded)}) are not read; make them empty"
            )
        return "read_parquet(?)", [[str(file) for file in data.store.parquet]]
    if data is None:
        path = Path(str(spec.source))
        if not path.is_file():
            raise DataError(f"table {spec.name!r}: no file {path.name!r}")
        reader = _READERS.get(path.suffix.lower())
        if reader is not None:
            return reader, [str(path)]
        from discretion.data.read import read

        data = read(path)
    connection.register("given", Dataset.of(data, "a statistical database").frame.to_arrow())
    return "given", []


def _value(spec: TableSpec, name: str) -> str:
    """Write a column in its declared type; what is no number is missing."""
    kind, column = spec.columns[name].type, quote(name, "duckdb")
    if kind == "truth":  # a cast would take every number but 0 for yes
        text = _plain_text(column)
        return f"CASE WHEN {text} IN {_YES} THEN TRUE WHEN {text} IN {_NO} THEN FALSE END"
    value = f"TRY_CAST({column} AS {_TYPES[kind]})"
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END" if kind == "number" else value


def _plain_text(column: str) -> str:
    return f"lower(trim(CAST({column} AS VARCHAR)))"


def _check_values(connection: Any, spec: TableSpec, source: str, values: list[Any]) -> None:
    """Raise when values are not of the declared type, infinite, or when a row belongs to nobody."""
    checks = {name: _is_wrong(spec, name) for name in spec.visible}
    texts = {name: f"is not of type {spec.columns[name].type}, or infinite" for name in checks}
    counted = [f"count(*) FILTER (WHERE {check})" for check in checks.values()]
    if spec.person:
        counted.append(f"count(*) FILTER (WHERE {quote(spec.person, 'duckdb')} IS NULL)")
    found = connection.execute(f"SELECT {', '.join(counted)} FROM {source}", values).fetchone()
    problems = [
        f"table {spec.name!r}, column {name!r}: the value {texts[name]} in {count:,} rows"
        for name, count in zip(checks, found, strict=False)
        if count
    ]
    if spec.person and found[-1]:
        problems.append(f"table {spec.name!r}: {found[-1]:,} rows have no person in column {spec.person!r}")
    if problems:
        raise DataError("\n".join(problems))


def _is_wrong(spec: TableSpec, name: str) -> str:
    kind, column = spec.columns[name].type, quote(name, "duckdb")
    if kind == "truth":
        return f"{column} IS NOT NULL AND {_plain_text(column)} <> 'nan' AND ({_value(spec, name)}) IS NULL"
    unreadable = f"({column} IS NOT NULL AND TRY_CAST({column} AS {_TYPES[kind]}) IS NULL)"
    number = f"TRY_CAST({column} AS DOUBLE)"
    if kind == "number":
        return f"{unreadable} OR isinf({number})"
    if kind == "integer":
        return f"({unreadable} AND NOT coalesce(isnan({number}), FALSE)) OR {number} <> floor({number})"
    return unreadable


def _number_people(connection: Any, spec: TableSpec) -> int | None:
    """Number the people in the order of their first row and mark each person's first rows."""
    if spec.person is None:
        return None
    connection.execute(
        "CREATE TABLE people AS "
        "SELECT key, row_number() OVER (ORDER BY min(rowid)) - 1 AS number FROM data GROUP BY key"
    )
    connection.execute(
        "CREATE TABLE numbered AS SELECT data.* EXCLUDE (key), number AS person, "
        "row_number() OVER (PARTITION BY data.key ORDER BY data.rowid) <= ? AS kept "
        "FROM data JOIN people ON data.key = people.key ORDER BY data.rowid",
        [spec.rows_per_person],
    )
    connection.execute("DROP TABLE data")
    connection.execute("ALTER TABLE numbered RENAME TO data")
    (count,) = connection.execute("SELECT count(*) FROM people").fetchone()
    return int(count)


_PORTION = 2**20
_DIGEST = 32


def column_digests(cursor: Any, loaded: Loaded, columns: Sequence[str], rows: int, key: bytes) -> dict[str, str]:
    """Return for each column ("": the people) a digest of the first rows; reads a million rows at a time.

    The same values in the same order give the same digest on any version: nothing of the database's own (hashes,
    layouts in memory) is in them, since they are compared between two runs.
    """
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
    """Return the bytes of a column: what is missing, then lengths and texts, or numbers of one width."""
    import polars as pl

    missing = values.is_null().to_numpy()
    if values.dtype == pl.String:
        lengths = values.str.len_bytes().cast(pl.Int64).fill_null(0).to_numpy()
        return [missing, lengths, (values.str.join("").item() or "").encode()]
    wide = pl.Float64 if values.dtype.is_float() else pl.Int64
    return [missing, values.to_physical().cast(wide).fill_null(0).to_numpy()]


_KEYS = "SELECT count(*), sum(hash(key)), count(*) FROM people"


class DuckdbBackend:
    """The tables of a service, one locked database per table: in memory, or beside scanned rows in a private file.

    Examples
    --------
    >>> import polars as pl
    >>> table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
    >>> backend = DuckdbBackend([table], {"t": pl.DataFrame({"age": [30, 41, 58]})})
    >>> backend.exact(Query("t", (Aggregate("mean", "age"),)))["mean_age"].item()
    43.0
    """

    def __init__(
        self, tables: Iterable[TableSpec], data: Mapping[str, Any] | None = None, limits: Limits | None = None
    ) -> None:
        self.tables: Mapping[str, TableSpec] = MappingProxyType(by_name(tables))
        self._limits = limits or Limits()
        self._data = dict(data or {})
        self._lock = threading.Lock()
        self._clock = _Clock(self._limits.seconds)
        self._loaded: dict[str, Loaded] = {}
        for name, table in sorted(self.tables.items(), key=lambda item: item[1].join is not None):
            if table.join is not None:
                self._data[name] = joined_rows(*(self._loaded[one] for one in table.join))
            self._loaded[name] = load(table, self._data.get(name), self._limits)

    def people(self, table: str) -> int:
        """Count the people (privacy units)."""
        return self._of(table).people

    def rows(self, table: str) -> int:
        """Count the rows."""
        return self._of(table).rows

    def person_of_rows(self, table: str) -> Ints:
        """Return for every row the number of its person."""
        loaded = self._of(table)
        if loaded.layout.spec.person is None:
            return np.arange(loaded.rows)
        return self._numbers(loaded, Sql(f"SELECT {loaded.person} FROM {loaded.layout.source} ORDER BY rowid"))

    def find_people(self, table: str, keys: Iterable[Scalar]) -> Ints:
        """Return the numbers of people by their key in the person column; without one, the keys are row numbers."""
        loaded, wanted = self._of(table), list(keys)
        if loaded.layout.spec.person is None:
            found = np.unique(np.array([key for key in wanted if isinstance(key, int)], np.int64))
            if len(found) < len(set(wanted)) or (len(found) and (found[0] < 0 or found[-1] >= loaded.rows)):
                raise DataError(f"table {table!r}: a key is not the number of a row")
            return found
        texts = sorted({str(key) for key in wanted})
        if not texts:
            return np.zeros(0, np.int64)
        marks = loaded.layout.bind(*texts)
        found = self._numbers(loaded, "SELECT number FROM people WHERE key IN (" + marks + ") ORDER BY 1")
        if len(found) < len(texts):
            raise DataError(f"table {table!r}: {len(texts) - len(found)} of {len(texts)} keys belong to nobody")
        return found

    def members(
        self, table: str, where: Filter, group_by: tuple[str, ...] = (), *, unit: Unit = "person"
    ) -> dict[GroupKey, Ints]:
        """Return who is in each group: ascending numbers without repetition. Only public columns may choose."""
        loaded = self._of(table)
        query = admit(Query(table, (Aggregate("count"),), where, group_by), loaded.layout.spec)
        require_public(loaded.layout.spec, query.columns_in_where(), group_by)
        number = loaded.person if unit == "person" else "rowid"
        condition = emit_filter(query.where, loaded.layout)
        if not group_by:
            statement = f"SELECT {number} FROM {loaded.layout.source} WHERE " + condition
            return {(): ascending(self._numbers(loaded, statement))}
        listed = ", ".join(loaded.layout.column(name) for name in group_by)
        rest = f" FROM {loaded.layout.source} WHERE " + condition + f" GROUP BY {listed} ORDER BY {listed}"
        with self._cursor(loaded) as cursor:
            gather = f"SELECT {listed}, list({number})" + rest
            frame = cursor.sql(gather.text, params=list(gather.values)).pl()
        if len(frame) > self._limits.groups:
            raise QueryRefused(f"the answer would have more than {self._limits.groups:,} groups")
        if frame.is_empty():
            return {}
        keys, found = frame[:, :-1].rows(), frame[:, -1]
        ends = np.cumsum(found.list.len().to_numpy())[:-1]
        parts = np.split(found.explode().to_numpy().astype(np.int64, copy=False), ends)
        return {group_key(key): ascending(numbers) for key, numbers in zip(keys, parts, strict=True)}

    def missing(self, table: str, column: str) -> Ints:
        """Return the numbers of the rows without a value in a column."""
        loaded = self._of(table)
        loaded.layout.spec.column(column)
        statement = f"SELECT rowid FROM {loaded.layout.source} WHERE {loaded.layout.column(column)} IS NULL ORDER BY 1"
        return self._numbers(loaded, Sql(statement))

    def column(self, table: str, name: str) -> pl.Series:
        """Return all values of a declared column in the order of the rows."""
        loaded = self._of(table)
        loaded.layout.spec.column(name)
        statement = f"SELECT {loaded.layout.column(name)} AS found FROM {loaded.layout.source} ORDER BY rowid"
        with loaded.connection.cursor() as cursor:
            found: pl.Series = cursor.sql(statement).pl()["found"]
        return found

    def exact(self, query: Query) -> pl.DataFrame:
        """Compute the true aggregates: group columns, then one column per aggregate; a histogram is a list."""
        loaded = self._of(query.table)
        query = admit(query, loaded.layout.spec)
        with self._cursor(loaded) as cursor:
            return exact_frame(query, loaded.layout, lambda sql: _rows(cursor, sql), self._limits)

    def bounded(self, query: Query) -> dict[GroupKey, Bounded]:
        """Compute what private answers need, after clamping and bounding what one person contributes."""
        loaded = self._of(query.table)
        query = admit(query, loaded.layout.spec)
        with self._cursor(loaded) as cursor:
            return bounded_groups(query, loaded.layout, lambda sql: _rows(cursor, sql), self._limits)

    def digests(self, table: str, columns: Iterable[str], rows: int, key: bytes) -> dict[str, str]:
        """Return for columns ("": the people) a digest of the values in the first rows, which a secret key decides."""
        loaded = self._of(table)
        with loaded.connection.cursor() as cursor:
            return column_digests(cursor, loaded, tuple(columns), rows, key)

    def signatures(self, table: str) -> dict[str, str]:
        """Give for each column ("": the keys of the people) a figure that equal values give in any order; "" if few."""
        loaded = self._of(table)
        spec = loaded.layout.spec
        numbers = [name for name in spec.visible if spec.columns[name].type in ("number", "integer")]
        places = {
            name: f"CAST({place} AS {'DOUBLE' if name in numbers else 'VARCHAR'})"
            for name in spec.visible
            for place in (loaded.layout.column(name),)
        }
        with loaded.connection.cursor() as cursor:
            wanted = [f"approx_count_distinct({v}), sum(hash({v})), count({v})" for v in places.values()]
            row = cursor.execute(f"SELECT {', '.join(wanted)} FROM data").fetchone() or ()
            people = [("", row_of) for row_of in ([] if spec.person is None else cursor.execute(_KEYS).fetchall())]
        found = [*zip(places, zip(row[::3], row[1::3], row[2::3], strict=True), strict=True), *people]
        return {name: f"duckdb {total} {count}" if many >= FEW else "" for name, (many, total, count) in found}

    def version(self, table: str) -> str:
        """Nobody writes to a table that was read and locked."""
        table_of(self.tables, table)
        return ""

    def refresh(self, table: str, data: Any = None) -> int:
        """Read the source again, or take a longer frame; earlier rows must be the same as before."""
        before = self._of(table)
        spec = before.layout.spec
        after = load(spec, data if data is not None else self._data.get(table), self._limits)
        if after.rows < before.rows or after.fingerprint(before.rows) != before.fingerprint(before.rows):
            after.connection.close()
            raise DataError(f"table {table!r}: earlier rows have changed, moved or gone; rows may only be appended")
        with self._lock:
            self._loaded[table] = after
            if data is not None:
                self._data[table] = data
        return after.people

    def close(self) -> None:
        """Close the databases."""
        for loaded in self._loaded.values():
            loaded.connection.close()

    def _of(self, table: str) -> Loaded:
        table_of(self.tables, table)
        with self._lock:
            return self._loaded[table]

    def _numbers(self, loaded: Loaded, statement: Sql) -> Ints:
        with self._cursor(loaded) as cursor:
            (found,) = cursor.execute(statement.text, statement.values).fetchnumpy().values()
        return np.asarray(found, np.int64)

    @contextmanager
    def _cursor(self, loaded: Loaded) -> Iterator[Any]:
        """Return a cursor that is interrupted when the time is over; what the database says is never passed on."""
        import duckdb

        cursor = loaded.connection.cursor()
        over = threading.Event()

        def stop() -> None:
            over.set()
            cursor.interrupt()

        try:
            with self._clock.limit(stop):
                yield cursor
        except duckdb.Error:
            if over.is_set():
                raise QueryTimeout(f"the question took longer than {self._limits.seconds:g} seconds") from None
            raise QueryRefused("the database could not compute this; the figures are too large or too many") from None
        finally:
            cursor.close()


class _Clock:
    """Stops what takes too long: one thread for all questions, which starts with the first and ends when none runs.

    A thread for each question would cost as much as a small answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock = seconds, threading.Lock()
        self._waiting: deque[_Deadline] = deque()  # all have as long as each other: the first ends first
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` if what follows is not done in time; never later."""
        mine = _Deadline(time.monotonic() + self._seconds, stop)
        with self._lock:
            self._waiting.append(mine)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                mine.stop = None

    def _watch(self) -> None:
        while True:
            with self._lock:
                while self._waiting and self._waiting[0].stop is None:
                    self._waiting.popleft()
                if not self._waiting:
                    self._thread = None
                    return
                first = self._waiting[0]
                pause = first.moment - time.monotonic()
                if pause <= 0 and first.stop is not None:
                    first.stop()
                    first.stop = None
            time.sleep(max(pause, 0))


@dataclass
class _Deadline:
    """When to stop what; nothing: it is done."""

    moment: float
    stop: Callable[[], None] | None


def _rows(cursor: Any, statement: Sql) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = cursor.execute(statement.text, statement.values).fetchall()
    return found
