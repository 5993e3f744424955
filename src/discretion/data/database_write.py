"""Tables of databases out, each in one transaction: the table is there whole, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.database import (
    Address,
    Engine,
    connect_postgresql,
    duckdb_tables,
    postgresql_tables,
    quoted,
    sqlite_tables,
)
from discretion.errors import DataError, PlanError, need

if TYPE_CHECKING:
    import polars as pl

_BATCH = 50_000


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


def _duckdb(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
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


def _sqlite(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
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


def _postgresql(frame: pl.DataFrame, address: Address, overwrite: bool) -> None:
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
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
}
