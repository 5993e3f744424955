"""A table in PostgreSQL: asked in read-only transactions with a time limit, never copied.

The service sees the rows up to the last `row_key` it has read; rows that are appended later come in with `refresh`, so
that an answer and the audit of it speak about the same people. Only keys of rows and people are held in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.database import Address, parse_url, quoted
from discretion.data.sql_filter import Filter, Scalar
from discretion.errors import DataError, PlanError, QueryRefused, need, unknown
from discretion.kernels.arrays import Ints
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
    emit_filter,
    exact_frame,
    group_key,
    joined,
    quote,
    require_public,
    table_of,
)
from discretion.online.declare import TableSpec
from discretion.online.question.query import Aggregate, Query, admit

if TYPE_CHECKING:
    import polars as pl

_TYPES = {
    "number": ("smallint", "integer", "bigint", "real", "double precision", "numeric"),
    "integer": ("smallint", "integer", "bigint"),
    "category": ("text", "character varying", "character", "uuid", "USER-DEFINED", "smallint", "integer", "bigint"),
    "truth": ("boolean",),
    "date": ("date",),
}
_INFINITE = ("'-Infinity'", "'Infinity'")
_PLAIN = {"integer": ("bigint",), "category": ("text", "character varying"), "truth": ("boolean",), "date": ("date",)}


@dataclass(frozen=True)
class _Known:
    """The people and rows that the service knows: their keys as text, in the order of their numbers."""

    last: Any
    row_keys: tuple[str, ...]
    person_of_rows: Ints
    people: Mapping[str, int]


class PostgresBackend:
    """One declared table of a PostgreSQL database."""

    def __init__(self, table: TableSpec, limits: Limits | None = None) -> None:
        self.tables: Mapping[str, TableSpec] = MappingProxyType({table.name: table})
        self._spec = table
        self._limits = limits or Limits()
        self._address = _address(table)
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        try:
            self._layout = self._describe()
            self._known = self._read_keys()
        except BaseException:
            self.close()
            raise

    # --- what it answers --------------------------------------------------------------------------------------

    def people(self, table: str) -> int:
        """Count the people (privacy units)."""
        return len(self._of(table).people)

    def rows(self, table: str) -> int:
        """Count the rows."""
        return len(self._of(table).row_keys)

    def person_of_rows(self, table: str) -> Ints:
        """Return for every row the number of its person."""
        return self._of(table).person_of_rows

    def find_people(self, table: str, keys: Iterable[Scalar]) -> Ints:
        """Return the numbers of people by their key in the person column, or by the row key without one."""
        known, wanted = self._of(table), {str(key) for key in keys}
        absent = [key for key in wanted if key not in known.people]
        if absent:
            raise DataError(f"table {table!r}: {len(absent)} of {len(wanted)} keys belong to nobody")
        return np.array(sorted(known.people[key] for key in wanted), np.int64)

    def members(
        self, table: str, where: Filter, group_by: tuple[str, ...] = (), *, unit: Unit = "person"
    ) -> dict[GroupKey, Ints]:
        """Return who is in each group: ascending numbers without repetition. Only public columns may choose."""
        known = self._of(table)
        query = admit(Query(table, (Aggregate("count"),), where, group_by), self._spec)
        require_public(self._spec, query.columns_in_where(), group_by)
        layout = self._seen(known)
        row_key = _quoted(str(self._spec.row_key))
        numbers = {key: number for number, key in enumerate(known.row_keys)}
        groups = "".join(f", {layout.column(name)}" for name in group_by)
        statement = f"SELECT CAST({row_key} AS text){groups} FROM {layout.source} WHERE "
        found: dict[GroupKey, list[int]] = {} if group_by else {(): []}
        condition = layout.always + " AND " + emit_filter(query.where, layout)
        with self._cursor() as cursor:
            for row in _run(cursor, statement + condition):
                found.setdefault(group_key(row[1:]), []).append(numbers[row[0]])
        if len(found) > self._limits.groups:
            raise QueryRefused(f"the answer would have more than {self._limits.groups:,} groups")
        rows = {key: np.sort(np.array(numbers, np.int64)) for key, numbers in found.items()}
        return rows if unit == "row" else {key: np.unique(known.person_of_rows[at]) for key, at in rows.items()}

    def missing(self, table: str, column: str) -> Ints:
        """Return the numbers of the rows without a value in a column."""
        known = self._of(table)
        self._spec.column(column)
        layout = self._seen(known)
        numbers = {key: number for number, key in enumerate(known.row_keys)}
        row_key = _quoted(str(self._spec.row_key))
        statement = f"SELECT CAST({row_key} AS text) FROM {layout.source} WHERE {layout.column(column)} IS NULL AND "
        with self._cursor() as cursor:
            found = [numbers[row[0]] for row in _run(cursor, statement + layout.always)]
        return np.array(sorted(found), np.int64)

    def column(self, table: str, name: str) -> pl.Series:
        """Return all values of a declared column in the order of the rows."""
        import polars as pl

        layout, kind = self._seen(self._of(table)), self._spec.column(name).type
        row_key = _quoted(str(self._spec.row_key))
        statement = f"SELECT {layout.column(name)} FROM {layout.source} WHERE " + layout.always + f" ORDER BY {row_key}"
        with self._cursor() as cursor:
            found = [row[0] for row in _run(cursor, statement)]
        kinds: dict[str, Any] = {"number": pl.Float64, "integer": pl.Int64, "truth": pl.Boolean, "date": pl.Date}
        return pl.Series(name, found, dtype=kinds.get(kind, pl.String))

    def exact(self, query: Query) -> pl.DataFrame:
        """Compute the true aggregates: group columns, then one column per aggregate; a histogram is a list."""
        layout = self._seen(self._of(query.table))
        query = admit(query, self._spec)
        with self._cursor() as cursor:
            return exact_frame(query, layout, lambda sql: _run(cursor, sql), self._limits)

    def bounded(self, query: Query) -> dict[GroupKey, Bounded]:
        """Compute what private answers need, after clamping and bounding what one person contributes."""
        layout = self._seen(self._of(query.table))
        query = admit(query, self._spec)
        if self._spec.person is not None:
            layout = _ranked(layout, self._spec)
        with self._cursor() as cursor:
            return bounded_groups(query, layout, lambda sql: _run(cursor, sql), self._limits)

    def digests(self, table: str, columns: Iterable[str], rows: int, key: bytes) -> dict[str, str]:
        """Return for columns ("": the people) a digest of the values in the first rows, which a secret key decides."""
        self._of(table)
        names, row_key = tuple(columns), _quoted(str(self._spec.row_key))
        person = row_key if self._spec.person is None else _quoted(self._spec.person)
        figures = []
        for name in names:
            value = f"CAST({self._layout.column(name) if name else person} AS text)"
            text = f"%s || CAST({row_key} AS text) || CASE WHEN {value} IS NULL THEN '-' ELSE '=' || {value} END"
            piece = f"sum(CAST(CAST('x' || substr(md5({text}), 1, 15) AS bit(60)) AS bigint))"
            figures.append(Sql(piece, (f"{key.hex()} {name} ",)))
        source = f"(SELECT * FROM {self._layout.source} ORDER BY {row_key} LIMIT {rows:d}) AS known"
        with self._cursor() as cursor:
            (found,) = _run(cursor, "SELECT " + joined(figures, ", ") + f" FROM {source}")
        return {name: str(total or 0) for name, total in zip(names, found, strict=True)}

    def signatures(self, table: str) -> dict[str, str]:
        """Give for each column ("": the keys of the people) a figure that equal values give in any order; "" if few."""
        layout = self._seen(self._of(table))
        names = ("", *self._spec.visible) if self._spec.person else self._spec.visible
        figures = []
        for name in names:
            text = f"CAST({layout.column(name) if name else _quoted(str(self._spec.person))} AS text)"
            value = f"CAST(CAST('x' || substr(md5({text}), 1, 15) AS bit(60)) AS bigint)"
            counted = f"DISTINCT {value}" if not name else value
            figures.append(f"count(DISTINCT {text}), sum({counted}), count({text if name else counted})")
        with self._cursor() as cursor:
            (row,) = _run(cursor, f"SELECT {', '.join(figures)} FROM {layout.source} WHERE " + layout.always)
        found = zip(names, row[::3], row[1::3], row[2::3], strict=True)
        return {name: f"postgresql {total} {count}" if many >= FEW else "" for name, many, total, count in found}

    def version(self, table: str) -> str:
        """Add up who wrote the known rows last (`xmin`, which each update changes); of a view the values themselves."""
        known = self._of(table)
        if not self._is_stored:
            return " ".join(self.digests(table, ("", *self._spec.visible), len(known.row_keys), b"").values())
        layout, row_key = self._seen(known), _quoted(str(self._spec.row_key))
        written = f"hashtextextended(CAST({row_key} AS text) || ' ' || CAST(xmin AS text), 0)"
        with self._cursor() as cursor:
            ((rows, total),) = _run(
                cursor, f"SELECT count(*), sum({written}) FROM {layout.source} WHERE " + layout.always
            )
        return f"{rows} {total}"

    def refresh(self, table: str, data: Any = None) -> int:
        """Let rows in that were appended; rows that the service knows must still be there."""
        if data is not None:
            raise PlanError(f"table {table!r} is in a database; rows are appended there")
        before, after = self._of(table), self._read_keys()
        count = len(before.row_keys)
        same = after.row_keys[:count] == before.row_keys
        if not same or not np.array_equal(after.person_of_rows[:count], before.person_of_rows):
            raise DataError(
                f"table {table!r}: earlier rows have gone or others came between; rows may only be appended"
            )
        with self._lock:
            self._known = after
        return len(after.people)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # --- opening ----------------------------------------------------------------------------------------------

    def _of(self, table: str) -> _Known:
        table_of(self.tables, table)
        with self._lock:
            return self._known

    def _describe(self) -> Layout:
        """Compare the declaration with the columns that are there."""
        schema, _, name = (self._address.table or "").rpartition(".")
        statement = Sql(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND table_schema = "
            + ("%s" if schema else "current_schema()"),
            (name, schema) if schema else (name,),
        )
        kind = Sql(
            "SELECT CAST(relkind AS text) FROM pg_class WHERE oid = to_regclass(%s)",
            (quoted(str(self._address.table)),),
        )
        with self._cursor() as cursor:
            there = dict(_run(cursor, statement))
            self._is_stored = _run(cursor, kind) == [("r",)]
        if not there:
            raise DataError(f"{self._address.name}: no table {self._address.table!r}")
        spec = self._spec
        needed = [*spec.visible, *filter(None, (spec.person, spec.row_key))]
        problems = [unknown("column", column, there) for column in dict.fromkeys(needed) if column not in there]
        problems += [
            f"column {column!r} is declared as {spec.columns[column].type}, but has the type {there[column]}"
            for column in spec.visible
            if column in there and there[column] not in _TYPES[spec.columns[column].type]
        ]
        if problems:
            raise PlanError([f"table {spec.name!r}: {problem}" for problem in problems])
        columns = {column: _expression(column, spec.columns[column].type, there[column]) for column in spec.visible}
        return Layout("postgresql", spec, quoted(str(self._address.table)).replace("%", "%%"), columns.__getitem__)

    def _read_keys(self) -> _Known:
        """Read the keys of all rows and people in the order of the row key."""
        row_key = _quoted(str(self._spec.row_key))
        person = row_key if self._spec.person is None else _quoted(self._spec.person)
        statement = f"SELECT {row_key}, CAST({row_key} AS text), CAST({person} AS text) FROM {self._layout.source}"
        with self._cursor() as cursor:
            rows = _run(cursor, Sql(f"{statement} ORDER BY 1"))
        keys = tuple(row[1] for row in rows)
        if None in keys or len(set(keys)) < len(keys):
            raise DataError(f"table {self._spec.name!r}: the row key {self._spec.row_key!r} is missing or repeated")
        if any(row[2] is None for row in rows):
            raise DataError(f"table {self._spec.name!r}: rows have no person in column {self._spec.person!r}")
        people: dict[str, int] = {}
        numbers = np.fromiter((people.setdefault(row[2], len(people)) for row in rows), np.int64, len(rows))
        return _Known(rows[-1][0] if rows else None, keys, numbers, MappingProxyType(people))

    def _seen(self, known: _Known) -> Layout:
        """Return the table as far as the service knows it."""
        row_key = _quoted(str(self._spec.row_key))
        always = Sql("FALSE") if known.last is None else Sql(f"{row_key} <= %s", (known.last,))
        return replace(self._layout, always=always)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Return a cursor in a read-only transaction with a time limit; what the database says is never passed on."""
        psycopg = need("psycopg", "PostgreSQL", "online")
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or _connect(self._address, self._limits)
            with connection.transaction(), connection.cursor() as cursor:
                yield cursor
        except psycopg.errors.QueryCanceled:
            _discard(connection)
            raise QueryTimeout(f"the question took longer than {self._limits.seconds:g} seconds") from None
        except psycopg.OperationalError:
            _discard(connection)
            raise DataError(f"{self._address.name}: the database cannot be reached") from None
        except psycopg.Error:
            _discard(connection)
            raise QueryRefused("the database could not compute this; the figures are too large or too many") from None
        except BaseException:
            _discard(connection)
            raise
        with self._lock:
            self._idle.append(connection)


def _address(table: TableSpec) -> Address:
    address = parse_url(str(table.source), None, None)
    problems = []
    if address.engine != "postgresql" or not address.table:
        problems.append("a database is postgresql://user@host/base?table=name")
    if table.row_key is None:
        problems.append("a table of a database needs `row_key`, a column that grows with every appended row")
    if problems:
        raise PlanError([f"table {table.name!r}: {problem}" for problem in problems])
    return address


def _connect(address: Address, limits: Limits) -> Any:
    psycopg = need("psycopg", "PostgreSQL", "online")
    connection = psycopg.connect(address.url, autocommit=True)
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    milliseconds = max(1, round(limits.seconds * 1000))
    connection.execute("SELECT set_config('statement_timeout', %s, false)", (str(milliseconds),))
    return connection


def _discard(connection: Any) -> None:
    if connection is not None:
        connection.close()


def _quoted(name: str) -> str:
    return quote(name, "postgresql")


def _expression(name: str, kind: str, there: str) -> str:
    """Write a column in its declared type; what is no finite number, or none that a float can be, is missing."""
    column = _quoted(name)
    if kind == "number":
        value = f"CAST({column} AS double precision)"
        ends = {"numeric": ("-1e308", "1e308"), "real": _INFINITE, "double precision": _INFINITE}.get(there)
        return value if ends is None else f"(CASE WHEN {column} > {ends[0]} AND {column} < {ends[1]} THEN {value} END)"
    wanted = {"integer": "bigint", "category": "text", "truth": "boolean", "date": "date"}[kind]
    return column if there in _PLAIN[kind] else f"CAST({column} AS {wanted})"


def _ranked(layout: Layout, spec: TableSpec) -> Layout:
    """Rank the rows of each person that the service knows, so that only the first ones are kept."""
    person, row_key = _quoted(str(spec.person)), _quoted(str(spec.row_key))
    rank = f'row_number() OVER (PARTITION BY {person} ORDER BY {row_key}) AS "rank of row"'
    source = f"(SELECT *, {rank} FROM {layout.source}) AS ranked"
    kept = Sql('"rank of row" <= %s', (spec.rows_per_person,))
    return replace(layout, source=source, kept=kept, person=f"CAST({person} AS text)")


def _run(cursor: Any, statement: Sql) -> list[tuple[Any, ...]]:
    cursor.execute(statement.text, statement.values)
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
