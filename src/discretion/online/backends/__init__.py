"""What the service asks of a database: few questions, all of them written here and never by an analyst.

A backend numbers the people of a table 0, 1, 2, … in the order of their first row. Rows are only ever appended, so
that a number stays with its person and a new person has a new number; an audit that remembers query sets relies on it.

Names are quoted by us, every constant is a bound parameter. Missing values mean the same in both: a missing value
fulfils no comparison, and `Not(x)` holds for exactly the records for which x does not hold, those with missing values
among them. SQL's third truth value never appears: negations are carried down to the comparisons (`Not(age > 30)` is
`age IS NULL OR age <= 30`), and AND and OR of comparisons that are unknown choose the same records as AND and OR of
comparisons that are false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from discretion.data.sql_filter import And, Condition, Everything, Filter, Linear, Not, Operator, Or, Scalar
from discretion.errors import PlanError, QueryRefused, did_you_mean
from discretion.kernels.arrays import Ints
from discretion.online.declare import ColumnSpec, TableSpec
from discretion.online.question.query import Aggregate, Query

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
    from discretion.data.text import is_url

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


Engine = Literal["duckdb", "postgresql"]
_SWAPPED: dict[Operator, Operator] = {"is-missing": "not-missing", "not-missing": "is-missing"}
_SQL = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SMALL_CODE = 2**31


@dataclass(frozen=True)
class Sql:
    """A piece of SQL and the values of its parameters, in their order."""

    text: str
    values: tuple[Any, ...] = ()

    def __add__(self, other: Sql | str) -> Sql:
        piece = other if isinstance(other, Sql) else Sql(other)
        return Sql(self.text + piece.text, self.values + piece.values)

    def __radd__(self, other: str) -> Sql:
        return Sql(other) + self


def joined(pieces: list[Sql], between: str) -> Sql:
    """Put pieces one after the other."""
    found = Sql("")
    for number, piece in enumerate(pieces):
        found = found + (between if number else "") + piece
    return found


@dataclass(frozen=True)
class Layout:
    """Where a declared table is in a database, and what its columns are called there."""

    engine: Engine
    spec: TableSpec
    source: str
    """what stands after FROM, quoted"""
    column: Callable[[str], str]
    """declared name → expression that gives the value, missing as NULL"""
    always: Sql = field(default_factory=lambda: Sql(""))
    """condition on every statement (rows that are known to the service)"""
    kept: Sql = field(default_factory=lambda: Sql(""))
    """condition that keeps the rows a person may contribute"""
    person: str = ""
    """expression of the person, where one row is not one person"""
    codes: Mapping[str, str] = field(default_factory=dict)
    """declared name → column that holds the fixed-point code, where it was computed beforehand"""

    @property
    def mark(self) -> str:
        """The sign of a parameter."""
        return "?" if self.engine == "duckdb" else "%s"

    def bind(self, *values: Any) -> Sql:
        """Return parameters, separated by commas."""
        return Sql(", ".join([self.mark] * len(values)), values)


def quote(name: str, engine: Engine) -> str:
    """Quote a name; for psycopg the sign of parameters is doubled."""
    text = '"' + name.replace('"', '""') + '"'
    return text if engine == "duckdb" else text.replace("%", "%%")


# --- conditions ---------------------------------------------------------------------------------------------------


def emit_filter(where: Filter, layout: Layout, *, negated: bool = False) -> Sql:
    """Write a filter as a condition; it may be unknown only where it does not hold."""
    if isinstance(where, Everything):
        return Sql("FALSE" if negated else "TRUE")
    if isinstance(where, Not):
        return emit_filter(where.part, layout, negated=not negated)
    if isinstance(where, And | Or):
        if not where.parts:
            return Sql("FALSE" if negated == isinstance(where, And) else "TRUE")
        parts = [emit_filter(part, layout, negated=negated) for part in where.parts]
        return "(" + joined(parts, " AND " if isinstance(where, And) != negated else " OR ") + ")"
    assert not isinstance(where, Linear)  # rules alone compare sums of columns
    return _negative(where, layout) if negated else _positive(where, layout)


def _positive(condition: Condition, layout: Layout) -> Sql:
    column = layout.column(condition.column)
    values = _constants(condition, layout.spec.columns[condition.column])
    if condition.op == "is-missing":
        return Sql(f"{column} IS NULL")
    if condition.op == "not-missing":
        return Sql(f"{column} IS NOT NULL")
    if condition.op == "in":
        return f"{column} IN (" + layout.bind(*values) + ")"
    if condition.op == "between":
        return Sql(f"({column} >= {layout.mark} AND {column} <= {layout.mark})", values)
    return f"{column} {_SQL[condition.op]} " + layout.bind(*values)


def _negative(condition: Condition, layout: Layout) -> Sql:
    """Say that a comparison does not hold; it holds for no missing value, so it fails there."""
    if condition.op in _SWAPPED:
        return _positive(replace(condition, op=_SWAPPED[condition.op]), layout)
    return f"({layout.column(condition.column)} IS NULL OR NOT (" + _positive(condition, layout) + "))"


def _constants(condition: Condition, spec: ColumnSpec) -> tuple[Any, ...]:
    if spec.type == "date":
        return tuple(date.fromisoformat(str(value)) for value in condition.values)
    return condition.values


# --- statements ---------------------------------------------------------------------------------------------------


def select(figures: list[Sql], query: Query, layout: Layout, *, bounded: bool, extra: tuple[Sql, ...] = ()) -> Sql:
    """Write one SELECT: the group columns g0, g1, …, the figures a0, a1, …; `extra` are further things to group by."""
    groups = [Sql(layout.column(name)) for name in query.group_by]
    chosen = [piece + f" AS g{i}" for i, piece in enumerate([*groups, *extra])]
    chosen += [piece + f" AS a{i}" for i, piece in enumerate(figures)]
    statement = "SELECT " + joined(chosen, ", ") + f" FROM {layout.source}"
    conditions = [layout.always, layout.kept if bounded else Sql("")]
    if not isinstance(query.where, Everything):
        conditions.append(emit_filter(query.where, layout))
    conditions = [piece for piece in conditions if piece.text]
    if conditions:
        statement = statement + " WHERE " + joined(conditions, " AND ")
    if groups or extra:
        statement = statement + " GROUP BY " + ", ".join(str(i + 1) for i in range(len(groups) + len(extra)))
    return statement


def is_binned(aggregate: Aggregate, *, bounded: bool) -> bool:
    """Tell whether an aggregate is computed by counting records per bin."""
    return aggregate.function == "histogram" or (bounded and aggregate.function in ("quantile", "min", "max", "mode"))


def emit_exact(query: Query, layout: Layout) -> Sql:
    """Write the aggregates that are no histograms, after a count of the records."""
    plain = [_exact(a, layout) for a in query.aggregates if not is_binned(a, bounded=False)]
    return select([Sql("count(*)"), *plain], query, layout, bounded=False)


def _exact(aggregate: Aggregate, layout: Layout) -> Sql:
    if aggregate.column is None:
        return Sql("count(*)")
    spec, column = layout.spec.columns[aggregate.column], layout.column(aggregate.column)
    value = _yes_as_one(column) if spec.type == "truth" and aggregate.function != "count-distinct" else column
    if aggregate.function == "count-distinct":
        return Sql(f"count(DISTINCT {value})")
    if aggregate.function == "quantile":
        if layout.engine == "duckdb":
            return Sql(f"quantile_cont({value}, {layout.mark})", (aggregate.share,))
        return Sql(f"percentile_cont({layout.mark}) WITHIN GROUP (ORDER BY {value})", (aggregate.share,))
    if aggregate.function == "mode":
        raise QueryRefused("a mode has no true answer; it is told under differential privacy")
    function = {"sum": "sum", "mean": "avg", "variance": "var_samp", "min": "min", "max": "max"}[aggregate.function]
    return Sql(f"{function}({value})")


def _yes_as_one(column: str) -> str:
    return f"CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END"


def emit_bounded(query: Query, layout: Layout, *, people: bool) -> Sql:
    """Write what private answers need: records, people, then present, total, squares or distinct of each aggregate."""
    figures = [Sql("count(*)")]
    if people and layout.person:
        figures.append(Sql(f"count(DISTINCT {layout.person})"))
    for aggregate in query.aggregates:
        figures += _bounded(aggregate, layout)
    return select(figures, query, layout, bounded=True)


def _bounded(aggregate: Aggregate, layout: Layout) -> list[Sql]:
    if aggregate.column is None or is_binned(aggregate, bounded=True):
        return []
    spec, column = layout.spec.columns[aggregate.column], layout.column(aggregate.column)
    if aggregate.function == "count-distinct":
        return [Sql(f"count({column})"), Sql(f"count(DISTINCT {column})")]
    ready = layout.codes.get(aggregate.column)
    code = emit_code(column, spec, layout) if ready is None else Sql(ready)
    found = [Sql(f"count({column})"), "sum(" + code + ")"]
    if aggregate.function == "variance":
        found.append("sum(" + _squared(code, spec) + ")")
    return found


def emit_code(column: str, spec: ColumnSpec, layout: Layout) -> Sql:
    """Write the fixed-point code of the clamped value; missing stays missing (`least` would skip it)."""
    if spec.type == "truth":
        return Sql(_yes_as_one(column))
    if spec.type == "integer" and spec.unit == 1:
        return _clamped(column, *spec.codes, layout)
    value = _clamped(f"CAST({column} AS double precision)", *spec.required_limits(), layout)
    scaled = "floor((" + value + f") / {layout.mark} + 0.5)"
    return "CAST(" + replace(scaled, values=(*value.values, spec.unit)) + " AS bigint)"


def _clamped(value: str, lower: float, upper: float, layout: Layout) -> Sql:
    mark = layout.mark
    text = f"CASE WHEN {value} < {mark} THEN {mark} WHEN {value} > {mark} THEN {mark} ELSE {value} END"
    return Sql(text, (lower, lower, upper, upper))


def _squared(code: Sql, spec: ColumnSpec) -> Sql:
    """Write the square of the distance to `square_origin`."""
    origin = square_origin(spec)
    far = "(CAST(" + code + f" AS bigint) - ({origin}))" if origin else "CAST(" + code + " AS bigint)"
    return far + " * " + far


def square_origin(spec: ColumnSpec) -> int:
    """Return the code from which distances are squared: 0, or of large codes the middle one.

    Codes span at most 2³² steps, so that no square exceeds 2⁶², and no sum of 2⁶⁴ of them what a database adds up; the
    squares of codes near 2⁵² would overflow with eight million records.
    """
    low, high = spec.codes
    return 0 if max(abs(low), abs(high)) < _SMALL_CODE else (low + high) // 2


# --- bins ---------------------------------------------------------------------------------------------------------


def emit_bins(aggregate: Aggregate, query: Query, layout: Layout, *, bounded: bool) -> Sql:
    """Write the count of records per bin; the number of the bin stands after the group columns, missing included."""
    column = aggregate.column or ""
    if aggregate.function == "histogram":
        piece = _bin_of_cuts(layout.column(column), aggregate.cuts, layout)
    elif aggregate.function == "mode":
        piece = _bin_of_categories(column, layout)
    else:
        piece = _bin_of_grid(layout.column(column), layout.spec.columns[column], layout)
    return select([Sql("count(*)")], query, layout, bounded=bounded, extra=(piece,))


def _bin_of_cuts(column: str, cuts: tuple[float, ...], layout: Layout) -> Sql:
    """Find the bin [a, b) by halving; the last bin is closed, values outside get -1, missing values nothing."""
    even = all(cut == cuts[0] + number * (cuts[1] - cuts[0]) for number, cut in enumerate(cuts))
    search = _stepped(column, cuts, layout) if even else _halved(column, cuts, 0, len(cuts) - 1, layout)
    outside = f"WHEN {column} < {layout.mark} OR {column} > {layout.mark} THEN -1"
    ends = (cuts[0], cuts[-1])
    return Sql(f"CASE WHEN {column} IS NULL THEN NULL {outside} ELSE ", ends) + search + " END"


def _bin_of_categories(column: str, layout: Layout) -> Sql:
    """Find the place among the declared categories; other values are in no bin."""
    cases = [
        "WHEN " + emit_filter(Condition(column, "=", (value,)), layout) + f" THEN {place}"
        for place, value in enumerate(layout.spec.columns[column].keys)
    ]
    return "CASE " + joined(cases, " ") + " END"


def _stepped(column: str, cuts: tuple[float, ...], layout: Layout) -> Sql:
    """Find the bin between borders at equal distances by division; a comparison with the borders mends its rounding."""
    first, width, last = cuts[0], cuts[1] - cuts[0], len(cuts) - 2
    mark = layout.mark
    value = f"CAST({column} AS double precision)"
    guess = Sql(f"floor(({value} - {mark}) / {mark})", (first, width))
    border = Sql(f"{mark} + ", (first,)) + guess + Sql(f" * {mark}", (width,))
    following = Sql(f"{mark} + (", (first,)) + guess + Sql(f" + 1) * {mark}", (width,))
    mended = (
        guess + f" + CASE WHEN {value} < " + border + f" THEN -1 WHEN {value} >= " + following + " THEN 1 ELSE 0 END"
    )
    return Sql(f"CASE WHEN {value} >= {mark} THEN {last} ELSE CAST(", (cuts[-2],)) + mended + " AS bigint) END"


def _halved(column: str, cuts: tuple[float, ...], first: int, last: int, layout: Layout) -> Sql:
    if last - first == 1:
        return Sql(str(first))
    middle = (first + last) // 2
    below, above = _halved(column, cuts, first, middle, layout), _halved(column, cuts, middle, last, layout)
    return Sql(f"CASE WHEN {column} < {layout.mark} THEN ", (cuts[middle],)) + below + " ELSE " + above + " END"


def _bin_of_grid(column: str, spec: ColumnSpec, layout: Layout) -> Sql:
    """Find the step of the column's grid after clamping: floor((x - lower) * steps / width), the last step closed."""
    lower, upper = spec.required_limits()
    value = _clamped(f"CAST({column} AS double precision)", lower, upper, layout)
    mark, top = layout.mark, spec.grid - 1
    step = f"CAST(floor(({value.text} - {mark}) * {mark}) AS bigint)"
    values = (*value.values, lower, spec.grid / (upper - lower))
    return Sql(f"CASE WHEN {step} > {top} THEN {top} ELSE {step} END", values * 2)


Run = Callable[[Sql], Sequence[tuple[Any, ...]]]
"""Runs a statement and gives all its rows."""

_LARGEST_INTEGER = 2**63 - 1


def group_key(values: Sequence[Any]) -> GroupKey:
    """Return the key of a group as plain values: dates as text, missing as None."""
    return tuple(value.isoformat() if isinstance(value, date) else value for value in values)


# --- true aggregates ----------------------------------------------------------------------------------------------


def exact_frame(query: Query, layout: Layout, run: Run, limits: Limits) -> pl.DataFrame:
    """Compute the true aggregates, groups in the order of their keys, missing keys last."""
    width = len(query.group_by)
    found = {group_key(row[:width]): row[width + 1 :] for row in run(emit_exact(query, layout))}
    if len(found) > limits.groups:
        raise QueryRefused(f"the answer would have more than {limits.groups:,} groups")
    keys = sorted(found, key=lambda key: tuple((value is None, "" if value is None else value) for value in key))
    columns: dict[str, list[Any]] = {name: [key[i] for key in keys] for i, name in enumerate(query.group_by)}
    place = 0
    for aggregate in query.aggregates:
        if is_binned(aggregate, bounded=False):
            bins = _bins(aggregate, query, layout, run, bounded=False)
            columns[aggregate.label] = [list(bins.get(key, _no_bins(aggregate, layout))) for key in keys]
        else:
            columns[aggregate.label] = [_finite(found[key][place]) for key in keys]
            place += 1
    return _frame(columns, query, layout)


def _frame(columns: dict[str, list[Any]], query: Query, layout: Layout) -> pl.DataFrame:
    import polars as pl

    kinds: dict[str, Any] = {"integer": pl.Int64, "number": pl.Float64, "truth": pl.Boolean}
    types: dict[str, Any]
    types = {name: kinds.get(layout.spec.columns[name].type, pl.String) for name in query.group_by}
    for aggregate in query.aggregates:
        if aggregate.function == "histogram":
            types[aggregate.label] = pl.List(pl.Int64)
        elif _is_whole(aggregate, layout, columns[aggregate.label]):
            types[aggregate.label] = pl.Int64
        else:
            types[aggregate.label] = pl.Float64
    series = [pl.Series(name, values, dtype=types[name], strict=False) for name, values in columns.items()]
    return pl.DataFrame(series)


def _is_whole(aggregate: Aggregate, layout: Layout, values: list[Any]) -> bool:
    if any(value is not None and abs(value) > _LARGEST_INTEGER for value in values):
        return False
    if aggregate.function in ("count", "count-distinct") or aggregate.column is None:
        return True
    whole = layout.spec.columns[aggregate.column].type in ("integer", "truth")
    return whole and aggregate.function in ("sum", "min", "max")


def _finite(value: Any) -> Any:
    """Return a figure as integer or float; one that is no finite number is missing."""
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(value) if value == int(value) and abs(number) >= 2**53 and not isinstance(value, float) else number


# --- figures for private answers ----------------------------------------------------------------------------------


def bounded_groups(query: Query, layout: Layout, run: Run, limits: Limits) -> dict[GroupKey, Bounded]:
    """Compute what private answers need: one entry per declared group, or per group that exists."""
    require_bounds(query, layout)
    if layout.spec.count_declared_groups(query.group_by) > limits.groups:
        raise QueryRefused(f"the answer would have more than {limits.groups:,} groups")
    declared = layout.spec.declared_groups(query.group_by)
    width, count_people = len(query.group_by), declared is None
    found = {group_key(row[:width]): row[width:] for row in run(emit_bounded(query, layout, people=count_people))}
    bins = [
        _bins(aggregate, query, layout, run, bounded=True) if is_binned(aggregate, bounded=True) else {}
        for aggregate in query.aggregates
    ]
    keys: Sequence[GroupKey] = list(found) if declared is None else declared
    return {
        key: _group(query, layout, found.get(key), [counts.get(key) for counts in bins], people=count_people)
        for key in keys
    }


def require_bounds(query: Query, layout: Layout) -> None:
    """Refuse before anything is computed when a column that needs bounds has none."""
    for aggregate in query.aggregates:
        if aggregate.column is not None and aggregate.function not in ("count-distinct", "histogram", "mode"):
            layout.spec.columns[aggregate.column].required_limits()


def _group(
    query: Query, layout: Layout, row: Sequence[Any] | None, bins: list[tuple[int, ...] | None], *, people: bool
) -> Bounded:
    """Take the figures of one group apart, in the order in which they were asked for; an empty group has zeros."""
    given = iter(() if row is None else row)

    def following() -> int:
        value = next(given, 0)
        return 0 if value is None else int(value)

    rows = following()
    count = following() if people and layout.person else rows
    figures = tuple(
        _figure(aggregate, layout, rows, following, counts if counts is not None else _no_bins(aggregate, layout))
        for aggregate, counts in zip(query.aggregates, bins, strict=True)
    )
    return Bounded(rows, count if people else None, figures)


def _figure(
    aggregate: Aggregate, layout: Layout, rows: int, following: Callable[[], int], bins: tuple[int, ...]
) -> ClampedFigure:
    if aggregate.function == "count":
        return ClampedFigure(present=rows)
    if is_binned(aggregate, bounded=True):
        return ClampedFigure(present=sum(bins), bins=bins)
    present, second = following(), following()
    if aggregate.function == "count-distinct":
        return ClampedFigure(present=present, distinct=second)
    if aggregate.function != "variance":
        return ClampedFigure(present=present, total=second)
    origin = square_origin(layout.spec.columns[aggregate.column or ""])
    squares = following() + 2 * origin * second - origin * origin * present
    return ClampedFigure(present=present, total=second, squares=squares)


# --- bins ---------------------------------------------------------------------------------------------------------


def _bins(
    aggregate: Aggregate, query: Query, layout: Layout, run: Run, *, bounded: bool
) -> dict[GroupKey, tuple[int, ...]]:
    width = len(query.group_by)
    size = len(_no_bins(aggregate, layout))
    counts: dict[GroupKey, list[int]] = {}
    for row in run(emit_bins(aggregate, query, layout, bounded=bounded)):
        place = row[width]
        if place is not None and 0 <= place < size:
            counts.setdefault(group_key(row[:width]), [0] * size)[int(place)] += int(row[-1])
    return {key: tuple(found) for key, found in counts.items()}


def _no_bins(aggregate: Aggregate, layout: Layout) -> tuple[int, ...]:
    if aggregate.function == "histogram":
        return (0,) * (len(aggregate.cuts) - 1)
    if aggregate.column is None or aggregate.function not in ("quantile", "min", "max", "mode"):
        return ()
    spec: ColumnSpec = layout.spec.columns[aggregate.column]
    return (0,) * (len(spec.keys) if aggregate.function == "mode" else spec.grid)
