"""What the service asks of a database: few questions, all of them written here and never by an analyst.

A backend numbers the people of a table 0, 1, 2, … in the order of their first row. Rows are only ever appended, so
that a number stays with its person and a new person has a new number; an audit that remembers query sets relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from discretion.data.conditions import Filter, Scalar
from discretion.errors import PlanError, QueryRefused, did_you_mean
from discretion.kernels.arrays import Ints
from discretion.online.declare.catalog import TableSpec
from discretion.online.question.query import Query

if TYPE_CHECKING:
    import polars as pl

GroupKey = tuple[Scalar | None, ...]
"""values of the group columns, missing as None; without groups ()"""
Unit = Literal["person", "row"]
FEW = 12
"""Columns with fewer different values may be equal in two tables by accident."""


class QueryTimeout(QueryRefused):
    """The question took longer than the owner allows; nothing was answered."""


@dataclass(frozen=True)
class Limits:
    """What a question may use."""

    seconds: float = 30.0
    """longest time a question may take"""
    memory: str = "1GB"
    """memory of the embedded database"""
    threads: int | None = None
    """threads of the embedded database; none: one per core"""
    groups: int = 10_000
    """most groups of one answer"""


@dataclass(frozen=True)
class ClampedFigure:
    """What one aggregate of one group needs for a private answer; numbers as fixed-point codes (`ColumnSpec.code`)."""

    present: int = 0
    """kept records with a value"""
    total: int = 0
    """sum of the codes of the clamped values (sum, mean, variance)"""
    squares: int = 0
    """sum of the squares of these codes (variance)"""
    distinct: int = 0
    """number of different values (count-distinct)"""
    bins: tuple[int, ...] = ()
    """records per bin: of a histogram's cuts, or of the column's grid (quantile, min, max)"""


@dataclass(frozen=True)
class Bounded:
    """The figures of one group, from at most `rows_per_person` rows of every person."""

    rows: int = 0
    """kept records"""
    people: int | None = None
    """people with a kept record; counted only where the keys of the groups are not declared"""
    figures: tuple[ClampedFigure, ...] = field(default=())
    """one per aggregate of the question, in its order"""


class Backend(Protocol):
    """A database that answers only what the service asks."""

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """The tables it serves, by name."""
        ...

    def people(self, table: str) -> int:
        """Count the people (privacy units); they are numbered from 0."""
        ...

    def rows(self, table: str) -> int:
        """Count the rows; they are numbered from 0 in their order."""
        ...

    def person_of_rows(self, table: str) -> Ints:
        """Return for every row the number of its person."""
        ...

    def find_people(self, table: str, keys: Iterable[Scalar]) -> Ints:
        """Return the numbers of people by their key in the person column (or row key, or number of the row)."""
        ...

    def members(
        self, table: str, where: Filter, group_by: tuple[str, ...] = (), *, unit: Unit = "person"
    ) -> dict[GroupKey, Ints]:
        """Return who is in each group: ascending numbers without repetition. Only public columns may choose."""
        ...

    def missing(self, table: str, column: str) -> Ints:
        """Return the numbers of the rows without a value in a column, ascending; for the audit, never for an answer."""
        ...

    def column(self, table: str, name: str) -> pl.Series:
        """Return all values of a declared column in the order of the rows; for the service, never for an answer."""
        ...

    def exact(self, query: Query) -> pl.DataFrame:
        """Compute the true aggregates: group columns, then one column per aggregate; a histogram is a list."""
        ...

    def bounded(self, query: Query) -> dict[GroupKey, Bounded]:
        """Compute what private answers need, after clamping and bounding what one person contributes.

        When all group columns declare their categories there is exactly one entry for each declared combination, also
        for empty ones, and none for others; otherwise the groups that exist, which must pass a threshold first.
        """
        ...

    def digests(self, table: str, columns: Iterable[str], rows: int, key: bytes) -> dict[str, str]:
        """Return for columns ("": the people) a digest of the values in the first rows, which a secret key decides."""
        ...

    def signatures(self, table: str) -> dict[str, str]:
        """Return for each column ("": the keys of the people) a figure that equal values give in any order; "" if few.

        Columns of two tables with the same figure hold the same values: for the owner's check at the start.
        """
        ...

    def version(self, table: str) -> str:
        """Return a text that changes when the rows that the service knows are written to; "" where they cannot be."""
        ...

    def refresh(self, table: str, data: Any = None) -> int:
        """Read appended rows, from the source or from a new frame; give the number of people now.

        Rows may only be appended: where earlier rows have changed or gone, it is a DataError and nothing changes.
        """
        ...

    def close(self) -> None:
        """Close everything."""
        ...


def table_of(tables: Mapping[str, TableSpec], name: str) -> TableSpec:
    """Return a declared table, or refuse."""
    if name not in tables:
        raise QueryRefused(f"unknown table{did_you_mean(name, tables)}")
    return tables[name]


def require_public(table: TableSpec, where_columns: Iterable[str], group_by: Iterable[str]) -> None:
    """Refuse to choose records by anything but public columns."""
    for name in {*where_columns, *group_by}:
        if table.column(name).role != "public":
            raise QueryRefused(f"the column {name!r} is sensitive: it must not choose who is counted")


def by_name(tables: Iterable[TableSpec]) -> dict[str, TableSpec]:
    """Index tables by name; two of the same name are an error."""
    listed = tuple(tables)
    found = {table.name: table for table in listed}
    if len(found) < len(listed):
        names = [table.name for table in listed]
        raise PlanError([f"the table {name!r} is declared twice" for name in found if names.count(name) > 1])
    return found


def open_backend(
    tables: Iterable[TableSpec], data: Mapping[str, Any] | None = None, limits: Limits | None = None
) -> Backend:
    """Open the tables where they are: files and frames in an embedded duckdb, the others in PostgreSQL.

    `data` gives frames or Datasets for tables without a source.
    """
    from discretion.data.database import is_url

    listed, frames, most = tuple(tables), dict(data or {}), limits or Limits()
    known = by_name(listed)
    problems = [f"data for {name!r}, which is no declared table" for name in frames if name not in known]
    problems += [
        f"table {name!r}: it has no source and no frame was given"
        for name, table in known.items()
        if table.source is None and name not in frames and table.join is None
    ]
    if problems:
        raise PlanError(problems)
    remote = [t for t in listed if t.name not in frames and t.source is not None and is_url(t.source)]
    apart = [t.name for t in listed if t.join and {one.name for one in remote} & set(t.join)]
    if apart:
        raise PlanError(f"table {apart[0]!r}: tables of a database are joined there, by a view")
    backends: list[Backend] = []
    try:
        local = [table for table in listed if table not in remote]
        if local:
            from discretion.online.backends.duckdb import DuckdbBackend

            backends.append(DuckdbBackend(local, frames, most))
        if remote:
            from discretion.online.backends.postgres import PostgresBackend

            backends += [PostgresBackend(table, most) for table in remote]
    except BaseException:
        for backend in backends:
            backend.close()
        raise
    return backends[0] if len(backends) == 1 else cast("Backend", Routed(backends))


class Routed:
    """Several backends as one: every verb goes to the one that has the table of its first argument."""

    def __init__(self, backends: Iterable[Backend]) -> None:
        self._backends = tuple(backends)
        self.tables = by_name(table for backend in self._backends for table in backend.tables.values())

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def ask(about: str | Query, *rest: Any, **options: Any) -> Any:
            table = about.table if isinstance(about, Query) else about
            table_of(self.tables, table)
            backend = next(backend for backend in self._backends if table in backend.tables)
            return getattr(backend, verb)(about, *rest, **options)

        return ask

    def close(self) -> None:
        """Close all of them."""
        for backend in self._backends:
            backend.close()
