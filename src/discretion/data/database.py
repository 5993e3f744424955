"""Tables of databases: addresses, what may be asked, and reading (duckdb, SQLite, PostgreSQL).

Connections for reading are read-only, and only a single SELECT is sent.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from discretion.data.text import existing_file, parse_dates
from discretion.errors import DataError, PlanError, did_you_mean, need

if TYPE_CHECKING:
    import sqlite3

    import polars as pl

# Tables of databases out, each in one transaction: the table is there whole, or not at all.


def write_database(frame: pl.DataFrame, address: Address, *, overwrite: bool) -> None:
    """Write a table; one that exists is replaced only with `overwrite`."""
    check_address(address)
    _WRITERS[address.engine](frame, address, overwrite)


def check_address(address: Address) -> None:
    """Raise unless a table is named, and for a database file also a folder that exists."""
    if address.query is not None:
        raise PlanError("a query cannot be written to; name a table")
    if not address.table:
        raise PlanError(f"{address.name}: name the table to write with table=")
    if address.engine != "postgresql":
        _check_place(address.path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; name a database file")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r}; make it first")


def _refuse(address: Address, tables: list[str], overwrite: bool) -> None:
    if address.table in tables and not overwrite:
        raise DataError(f"{address.name}: the table {address.table!r} exists; overwrite=True replaces it")


@contextlib.contextmanager
def _new_file_or_none(path: Path) -> Iterator[None]:
    """Remove a database file that a failed write has created."""
    _check_place(path)
    existed = path.exists()
    try:
        yield
    except BaseException:
        if not existed:
            for extra in ("", ".wal", "-journal", "-wal"):
                path.with_name(path.name + extra).unlink(missing_ok=True)
        raise


def _write_duckdb(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
    import duckdb
    import polars as pl

    table = quoted(str(address.table))
    with _new_file_or_none(address.path):
        try:
            with duckdb.connect(str(address.path)) as base:
                _refuse(address, duckdb_tables(base), overwrite)
                base.register("incoming", frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))
                base.begin()
                if overwrite:
                    base.execute(f"drop table if exists {table}")
                base.execute(f"create table {table} as select * from incoming")
                base.commit()
        except duckdb.Error as error:
            raise _failed(address, error) from None


def _write_sqlite(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
    import sqlite3
    from contextlib import closing

    table = quoted(str(address.table))
    columns = ", ".join(f"{quoted_column(name)} {_sqlite_type(kind)}" for name, kind in frame.schema.items())
    marks = ", ".join("?" * frame.width)
    with _new_file_or_none(address.path):
        try:
            with closing(sqlite3.connect(address.path, isolation_level=None)) as base:
                _refuse(address, sqlite_tables(base), overwrite)
                base.execute("begin immediate")
                if overwrite:
                    base.execute(f"drop table if exists {table}")
                base.execute(f"create table {table} ({columns})")
                for part in _as_text_and_numbers(frame).iter_slices(_BATCH):
                    base.executemany(f"insert into {table} values ({marks})", part.iter_rows())
                base.execute("commit")
        except sqlite3.Error as error:
            raise _failed(address, error) from None


def _write_postgresql(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
    psycopg: Any = need("psycopg", "PostgreSQL", "io")
    table = quoted(str(address.table))
    columns = ", ".join(f"{quoted_column(name)} {_postgresql_type(kind)}" for name, kind in frame.schema.items())
    try:
        with connect_postgresql(psycopg, address) as base, base.cursor() as cursor:
            _refuse(address, postgresql_tables(base), overwrite)
            if overwrite:
                cursor.execute(f"drop table if exists {table}")
            cursor.execute(f"create table {table} ({columns})")
            with cursor.copy(f"copy {table} from stdin (format csv)") as copy:
                for part in frame.iter_slices(_BATCH):
                    copy.write(part.write_csv(include_header=False))
    except psycopg.Error as error:
        raise _failed(address, error) from None


def _failed(address: Address, error: Exception) -> DataError:
    """Word a failure without the database's message, which may quote values."""
    return DataError(f"{address.name}: the table {address.table!r} was not written ({type(error).__name__})")


def quoted_column(name: str) -> str:
    """Quote the name of a column."""
    return '"' + name.replace('"', '""') + '"'


def _as_text_and_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Write dates as ISO text and truth as 0 and 1, for SQLite has neither."""
    import polars as pl
    import polars.selectors as cs

    return frame.with_columns(
        cs.date().dt.to_string("iso:strict"),
        cs.datetime().dt.strftime("%Y-%m-%d %H:%M:%S%.6f"),
        cs.time().cast(pl.String),
        cs.boolean().cast(pl.Int64),
        (cs.categorical() | cs.enum()).cast(pl.String),
        cs.decimal().cast(pl.Float64),
    )


def _sqlite_type(kind: pl.DataType) -> str:
    import polars as pl

    if kind == pl.Boolean:
        return "BOOLEAN"
    if kind.is_integer():
        return "INTEGER"
    if kind.is_numeric():
        return "REAL"
    return {pl.Date: "DATE", pl.Datetime: "TIMESTAMP"}.get(kind.base_type(), "TEXT")


def _postgresql_type(kind: pl.DataType) -> str:
    import polars as pl

    if isinstance(kind, pl.Datetime):
        return "timestamptz" if kind.time_zone else "timestamp"
    if kind == pl.UInt64:
        return "numeric(20)"
    if kind.is_integer():
        return "bigint"
    if kind.is_float():
        return "double precision"
    if isinstance(kind, pl.Decimal):
        return "numeric"
    return {pl.Boolean: "boolean", pl.Date: "date", pl.Time: "time"}.get(kind.base_type(), "text")


_WRITERS: Mapping[Engine, Callable[[Any, Address, bool], None]] = {
    "duckdb": _write_duckdb,
    "sqlite": _write_sqlite,
    "postgresql": _write_postgresql,
}


Engine = Literal["duckdb", "sqlite", "postgresql"]

_BATCH = 50_000
_LITERALS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$""", re.VERBOSE | re.DOTALL
)


@dataclass(frozen=True)
class Address:
    """Where a table is: `url` is used for PostgreSQL, `path` for the others."""

    engine: Engine
    path: Path = Path()
    url: str = ""
    table: str | None = None
    query: str | None = None

    @property
    def name(self) -> str:
        """What messages call the database: no user, no password."""
        if self.engine != "postgresql":
            return repr(str(self.path))
        parts = urlsplit(self.url)
        return f"postgresql://{parts.hostname or ''}{parts.path}"


def parse_url(source: str, table: str | None, query: str | None) -> Address:
    """Take an address apart: `duckdb:///file?table=t`, `sqlite:///file`, `postgresql://user@host/base`."""
    parts = urlsplit(source)
    options = dict(parse_qsl(parts.query))
    told_table, told_query = options.pop("table", None), options.pop("query", None)
    if (table and told_table) or (query and told_query):
        raise PlanError("the table or query stands both in the address and beside it; give it once")
    table, query = table or told_table, query or told_query
    if table and query:
        raise PlanError("give either table= or query=, not both")
    if parts.scheme.lower().startswith("postgres"):
        url = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
        return Address("postgresql", url=url, table=table, query=query)
    engine: Engine = "duckdb" if parts.scheme.lower() == "duckdb" else "sqlite"
    if parts.netloc or len(parts.path) < 2:
        raise PlanError(f"a {engine} address has three slashes and a file: {engine}:///file.db")
    return Address(engine, path=_file(unquote(parts.path[1:])), table=table, query=query)


def _file(text: str) -> Path:
    """Take `///name` as relative, `////name` as absolute; where only `/name` exists, it is meant."""
    options = [Path(text), Path("/" + text)]
    there = [path for path in options if path.exists()] or [path for path in options if path.parent.is_dir()]
    return (there or options)[0]


def single_select(query: str) -> str:
    """Give the query without its last semicolon; anything but one SELECT is refused."""
    bare = _LITERALS.sub(" ", query).strip()
    if ";" in bare.rstrip("; \t\n"):
        raise PlanError("query: more than one statement; give a single SELECT")
    if not re.match(r"(?i)\(*\s*(select|with)\b", bare):
        raise PlanError("query: only a SELECT is allowed; the database is read, never changed")
    return query.strip().rstrip("; \t\n")


def quoted(table: str) -> str:
    """Quote the name of a table, each part of `schema.table` by itself."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def read_database(address: Address) -> pl.DataFrame:
    """Read a table, or the answer to a query."""
    query = None if address.query is None else single_select(address.query)
    with _OPENERS[address.engine](address) as (tables, run):
        if query is None:
            check_table(address, tables)
            query = f"select * from {quoted(str(address.table))}"
        frame: pl.DataFrame = run(query)
        return frame


def check_table(address: Address, tables: Sequence[str]) -> None:
    """Raise unless the table is there; the tables are listed."""
    if address.table is None:
        listed = ", ".join(sorted(tables)) or "none"
        raise PlanError(f"{address.name}: name a table with table= or give a query=; tables: {listed}")
    if address.table not in tables:
        hint = did_you_mean(address.table, tables) if tables else "; it has no tables"
        raise DataError(f"{address.name}: no table {address.table!r}{hint}")


_Opened = tuple[Sequence[str], Callable[[str], Any]]


@contextmanager
def _duckdb(address: Address) -> Iterator[_Opened]:
    import duckdb

    existing_file(address.path)
    try:
        base = duckdb.connect(str(address.path), read_only=True, config={"enable_external_access": "false"})
    except duckdb.Error:
        raise DataError(f"{address.name} is not a duckdb database, or another program is writing it") from None
    with base:
        yield duckdb_tables(base), lambda query: _ask_duckdb(base, query)


def duckdb_tables(base: Any) -> list[str]:
    """List the tables and views of a duckdb database; those of the main schema without it."""
    rows = base.execute("select table_schema, table_name from information_schema.tables").fetchall()
    return [name if schema == "main" else f"{schema}.{name}" for schema, name in rows]


def _ask_duckdb(base: Any, query: str) -> pl.DataFrame:
    import duckdb

    try:
        return base.sql(query).pl()  # type: ignore[no-any-return]
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise PlanError(f"query: {str(error).partition(chr(10))[0]}") from None
    except duckdb.Error as error:
        raise DataError(f"the query failed ({type(error).__name__}); only tables of the database may be read") from None


@contextmanager
def _sqlite(address: Address) -> Iterator[_Opened]:
    import sqlite3
    from contextlib import closing

    existing_file(address.path)
    with closing(sqlite3.connect(f"{address.path.resolve().as_uri()}?mode=ro", uri=True)) as base:
        try:
            tables = sqlite_tables(base)
        except sqlite3.DatabaseError:
            raise DataError(f"{address.name} is not a SQLite database") from None
        flags = _sqlite_flags(base, address.table) if address.table in tables else []
        base.set_authorizer(_only_reading)
        yield tables, lambda query: _ask_sqlite(base, query, flags)


def sqlite_tables(base: sqlite3.Connection) -> list[str]:
    """List the tables and views of a SQLite database."""
    rows = base.execute("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'")
    return [name for (name,) in rows.fetchall()]


def _only_reading(action: int, *_: object) -> int:
    import sqlite3

    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _sqlite_flags(base: sqlite3.Connection, table: str | None) -> list[str]:
    """Name the columns declared Boolean."""
    rows = base.execute("select name, type from pragma_table_info(?)", (table,)).fetchall()
    return [name for name, declared in rows if declared.upper().startswith("BOOL")]


def _ask_sqlite(base: sqlite3.Connection, query: str, flags: Sequence[str]) -> pl.DataFrame:
    import sqlite3

    import polars as pl

    try:
        cursor = base.execute(query)
        names = [column[0] for column in cursor.description]
        frame = _collect(cursor, names)
    except sqlite3.OperationalError as error:
        raise PlanError(f"query: {error}") from None
    except sqlite3.DatabaseError:
        raise PlanError("query: it was refused; the database is read, never changed") from None
    return parse_dates(frame.with_columns(pl.col(name).cast(pl.Boolean) for name in flags if name in names))


def _collect(
    cursor: Any, names: Sequence[str], change: Mapping[str, Callable[[Any], Any]] | None = None
) -> pl.DataFrame:
    """Fetch rows in batches into columns; a column of numbers and text is refused."""
    import polars as pl

    if len(set(names)) < len(names):
        raise DataError("the query gives two columns of the same name; rename one with AS")
    parts: list[pl.DataFrame] = []
    kinds: list[set[type]] = [set() for _ in names]
    while rows := cursor.fetchmany(_BATCH):
        columns = []
        for name, cells, seen in zip(names, zip(*rows, strict=True), kinds, strict=True):
            if change and name in change:
                cells = tuple(None if cell is None else change[name](cell) for cell in cells)  # noqa: PLW2901
            seen.update({type(cell) for cell in cells} - {type(None)})
            if len(seen) > 1 and seen != {int, float}:
                raise DataError(f"column {name!r} mixes kinds of values; CAST it to one kind in a query")
            columns.append(pl.Series(name, cells, dtype=pl.Float64 if float in seen else None, strict=False))
        parts.append(pl.DataFrame(columns))
    if not parts:
        return pl.DataFrame({name: [] for name in names})
    frame = pl.concat(parts, how="vertical_relaxed")
    return frame.with_columns(pl.col(pl.Null).cast(pl.String))


@contextmanager
def _postgresql(address: Address) -> Iterator[_Opened]:
    psycopg: Any = need("psycopg", "PostgreSQL", "io")
    with connect_postgresql(psycopg, address) as base:
        base.read_only = True
        yield postgresql_tables(base), lambda query: _ask_postgresql(psycopg, base, query)


def connect_postgresql(psycopg: Any, address: Address) -> Any:
    """Connect, or say why it did not work; the password is never shown."""
    try:
        return psycopg.connect(address.url, connect_timeout=10)
    except psycopg.Error as error:
        first = str(error).strip().partition("\n")[0]
        password = urlsplit(address.url).password
        shown = first.replace(password, "…") if password else first
        raise DataError(f"no connection to {address.name}: {shown}") from None


def postgresql_tables(base: Any) -> list[str]:
    """List the tables and views that may be read; those of the current schema also without its name."""
    rows = base.execute(
        "select table_schema, table_name, table_schema = current_schema() from information_schema.tables "
        "where table_schema not in ('pg_catalog', 'information_schema')"
    ).fetchall()
    return [f"{schema}.{name}" for schema, name, _ in rows] + [name for _, name, here in rows if here]


def _ask_postgresql(psycopg: Any, base: Any, query: str) -> pl.DataFrame:
    try:
        with base.cursor(name="discretion") as cursor:
            cursor.execute(query)
            names = [column.name for column in cursor.description]
            change = {column.name: how for column in cursor.description if (how := _plain(column)) is not None}
            return _collect(cursor, names, change)
    except psycopg.ProgrammingError as error:
        raise PlanError(f"query: {error.diag.message_primary or type(error).__name__}") from None
    except psycopg.Error as error:
        raise DataError(f"the query failed ({type(error).__name__}); the database is read, never changed") from None


def _plain(column: Any) -> Callable[[Any], Any] | None:
    """Say how values of a type that frames do not have become numbers or text."""
    kind = column.type_display.partition("(")[0]
    if kind == "numeric":
        return int if column.scale == 0 else float
    return str if kind in ("uuid", "json", "jsonb", "inet", "cidr", "interval") else None


_OPENERS: Mapping[Engine, Callable[[Address], Any]] = {
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
}
