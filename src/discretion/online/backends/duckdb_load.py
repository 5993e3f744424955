"""Loading a declared table into a fresh duckdb that is locked afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import DataError, PlanError, unknown
from discretion.online.backend import Limits
from discretion.online.catalog import PERSON, TableSpec
from discretion.online.sql_emit import Layout, Sql, emit_code, joined, quote

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

    @property
    def person(self) -> str:
        """The expression of a row's person."""
        return self.layout.person or "rowid"

    def fingerprint(self, rows: int) -> int:
        """Give a figure that changes when one of the first rows changes or moves."""
        columns = ", ".join(self.layout.column(name) for name in self.layout.spec.visible)
        statement = f"SELECT bit_xor(hash(rowid, {self.person}, {columns})) FROM data WHERE rowid < ?"
        (found,) = self.connection.cursor().execute(statement, [rows]).fetchone()
        return int(found or 0)


def load(spec: TableSpec, data: Any, limits: Limits) -> Loaded:
    """Read the declared columns, number the people, mark the rows a person may contribute, lock the database."""
    import duckdb

    threads = {} if limits.threads is None else {"threads": limits.threads}
    settings: dict[str, Any] = {"memory_limit": limits.memory, "temp_directory": "", **threads}
    connection = duckdb.connect(config=settings)
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
    return Loaded(connection, layout, rows, rows if people is None else people)


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


def _source(connection: Any, spec: TableSpec, data: Any) -> tuple[str, list[str]]:
    from discretion.data.dataset import Dataset

    if data is None:
        path = Path(str(spec.source))
        if not path.is_file():
            raise DataError(f"table {spec.name!r}: no file {path.name!r}")
        reader = _READERS.get(path.suffix.lower())
        if reader is not None:
            return reader, [str(path)]
        from discretion.data.read import read

        data = read(path)
    connection.register("given", Dataset.of(data).frame.to_arrow())
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


def _check_values(connection: Any, spec: TableSpec, source: str, values: list[str]) -> None:
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
