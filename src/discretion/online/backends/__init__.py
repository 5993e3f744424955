"""The databases that a service can stand on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any


from discretion.data.conditions import Filter, Scalar
from discretion.data.database import is_url
from discretion.errors import PlanError
from discretion.kernels.arrays import Ints
from discretion.online.backend import Backend, Bounded, GroupKey, Limits, Unit, by_name, table_of
from discretion.online.catalog import TableSpec
from discretion.online.query import Query

if TYPE_CHECKING:
    import polars as pl


def route(tables: tuple[TableSpec, ...], data: Mapping[str, Any], limits: Limits) -> Backend:
    """Open every table with the backend that its source needs."""
    known = by_name(tables)
    problems = [f"data for {name!r}, which is no declared table" for name in data if name not in known]
    problems += [
        f"table {name!r}: it has no source and no frame was given"
        for name, table in known.items()
        if table.source is None and name not in data and table.join is None
    ]
    if problems:
        raise PlanError(problems)
    remote = [t for t in tables if t.name not in data and t.source is not None and is_url(t.source)]
    apart = [t.name for t in tables if t.join and {one.name for one in remote} & set(t.join)]
    if apart:
        raise PlanError(f"table {apart[0]!r}: tables of a database are joined there, by a view")
    backends: list[Backend] = []
    try:
        local = [table for table in tables if table not in remote]
        if local:
            from discretion.online.backends.duckdb import DuckdbBackend

            backends.append(DuckdbBackend(local, data, limits))
        if remote:
            from discretion.online.backends.postgres import PostgresBackend

            backends += [PostgresBackend(table, limits) for table in remote]
    except BaseException:
        for backend in backends:
            backend.close()
        raise
    return backends[0] if len(backends) == 1 else Routed(backends)


class Routed:
    """Several backends as one: a question goes to the one that has its table."""

    def __init__(self, backends: Iterable[Backend]) -> None:
        self._backends = tuple(backends)
        self.tables = by_name(table for backend in self._backends for table in backend.tables.values())

    def _of(self, table: str) -> Backend:
        table_of(self.tables, table)
        return next(backend for backend in self._backends if table in backend.tables)

    def people(self, table: str) -> int:
        """Count the people of a table."""
        return self._of(table).people(table)

    def rows(self, table: str) -> int:
        """Count the rows of a table."""
        return self._of(table).rows(table)

    def person_of_rows(self, table: str) -> Ints:
        """Give for every row the number of its person."""
        return self._of(table).person_of_rows(table)

    def find_people(self, table: str, keys: Iterable[Scalar]) -> Ints:
        """Give the numbers of people by their keys."""
        return self._of(table).find_people(table, keys)

    def members(
        self, table: str, where: Filter, group_by: tuple[str, ...] = (), *, unit: Unit = "person"
    ) -> dict[GroupKey, Ints]:
        """Give who is in each group."""
        return self._of(table).members(table, where, group_by, unit=unit)

    def missing(self, table: str, column: str) -> Ints:
        """Give the numbers of the rows without a value in a column."""
        return self._of(table).missing(table, column)

    def column(self, table: str, name: str) -> pl.Series:
        """Give all values of a column."""
        return self._of(table).column(table, name)

    def exact(self, query: Query) -> pl.DataFrame:
        """Compute the true aggregates."""
        return self._of(query.table).exact(query)

    def bounded(self, query: Query) -> dict[GroupKey, Bounded]:
        """Compute what private answers need."""
        return self._of(query.table).bounded(query)

    def digests(self, table: str, columns: Iterable[str], rows: int, key: bytes) -> dict[str, str]:
        """Give for columns a digest of the values in the first rows."""
        return self._of(table).digests(table, columns, rows, key)

    def signatures(self, table: str) -> dict[str, str]:
        """Give for each column a figure that equal values give in any order."""
        return self._of(table).signatures(table)

    def version(self, table: str) -> str:
        """Give a text that changes when known rows are written to."""
        return self._of(table).version(table)

    def refresh(self, table: str, data: Any = None) -> int:
        """Read appended rows."""
        return self._of(table).refresh(table, data)

    def close(self) -> None:
        """Let go of everything."""
        for backend in self._backends:
            backend.close()
