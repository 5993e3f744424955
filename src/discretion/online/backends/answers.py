"""From the rows of statements to answers: the same for every database."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from discretion.errors import QueryRefused
from discretion.online.backend import Bounded, Figure, GroupKey, Limits
from discretion.online.column import ColumnSpec
from discretion.online.query import Aggregate, Query
from discretion.online.sql_emit import Layout, Sql, emit_bins, emit_bounded, emit_exact, is_binned, square_origin

if TYPE_CHECKING:
    import polars as pl

Run = Callable[[Sql], Sequence[tuple[Any, ...]]]
"""Runs a statement and gives all its rows."""

_LARGEST_INTEGER = 2**63 - 1


def group_key(values: Sequence[Any]) -> GroupKey:
    """Give the key of a group as plain values: dates as text, missing as None."""
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
    """Give a figure as integer or float; one that is no finite number is missing."""
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
) -> Figure:
    if aggregate.function == "count":
        return Figure(present=rows)
    if is_binned(aggregate, bounded=True):
        return Figure(present=sum(bins), bins=bins)
    present, second = following(), following()
    if aggregate.function == "count-distinct":
        return Figure(present=present, distinct=second)
    if aggregate.function != "variance":
        return Figure(present=present, total=second)
    origin = square_origin(layout.spec.columns[aggregate.column or ""])
    squares = following() + 2 * origin * second - origin * origin * present
    return Figure(present=present, total=second, squares=squares)


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
