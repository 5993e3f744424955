"""A plain evaluator of questions over lists of records: what every database must agree with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from discretion.data.sql_filter import And, Condition, Filter, Not, Or
from discretion.online.backends import Bounded, ClampedFigure
from discretion.online.declare import TableSpec
from discretion.online.question.query import Aggregate, Query

Record = Mapping[str, Any]
_TESTS = {
    "=": lambda x, v: x == v[0],
    "!=": lambda x, v: x != v[0],
    "<": lambda x, v: x < v[0],
    "<=": lambda x, v: x <= v[0],
    ">": lambda x, v: x > v[0],
    ">=": lambda x, v: x >= v[0],
    "in": lambda x, v: x in v,
    "between": lambda x, v: v[0] <= x <= v[1],
}


def holds(where: Filter, record: Record) -> bool:
    if isinstance(where, Condition):
        value = record[where.column]
        if where.op in ("is-missing", "not-missing"):
            return (value is None) == (where.op == "is-missing")
        return value is not None and bool(_TESTS[where.op](value, where.values))
    if isinstance(where, Not):
        return not holds(where.part, record)
    if isinstance(where, And):
        return all(holds(part, record) for part in where.parts)
    if isinstance(where, Or):
        return any(holds(part, record) for part in where.parts)
    return True


def groups(query: Query, records: Sequence[Record]) -> dict[tuple[Any, ...], list[Record]]:
    found: dict[tuple[Any, ...], list[Record]] = {} if query.group_by else {(): []}
    for record in records:
        if holds(query.where, record):
            found.setdefault(tuple(record[name] for name in query.group_by), []).append(record)
    return found


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def figure(aggregate: Aggregate, records: list[Record]) -> Any:
    if aggregate.column is None:
        return len(records)
    values = [r[aggregate.column] for r in records if r[aggregate.column] is not None]
    if aggregate.function == "count-distinct":
        return len(set(values))
    if aggregate.function == "histogram":
        cuts = aggregate.cuts
        bins = pairwise(cuts)
        return [sum(a <= x < b or (b == cuts[-1] == x) for x in values) for a, b in bins]
    if aggregate.function == "variance":
        if len(values) < 2:
            return None
        mean = math.fsum(values) / len(values)
        return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)
    if not values:
        return None
    if aggregate.function == "quantile":
        return quantile(values, aggregate.share or 0)
    return {"sum": math.fsum, "mean": lambda v: math.fsum(v) / len(v), "min": min, "max": max}[aggregate.function](
        values
    )


def kept(spec: TableSpec, records: Sequence[Record]) -> list[Record]:
    """The first rows of each person."""
    if spec.person is None:
        return list(records)
    seen: dict[Any, int] = {}
    found = []
    for record in records:
        seen[record[spec.person]] = seen.get(record[spec.person], 0) + 1
        if seen[record[spec.person]] <= spec.rows_per_person:
            found.append(record)
    return found


def bounded_figure(aggregate: Aggregate, spec: TableSpec, records: list[Record]) -> ClampedFigure:
    if aggregate.column is None:
        return ClampedFigure(present=len(records))
    values = [r[aggregate.column] for r in records if r[aggregate.column] is not None]
    if aggregate.function == "count-distinct":
        return ClampedFigure(present=len(values), distinct=len(set(values)))
    if aggregate.function == "histogram":
        bins = tuple(figure(aggregate, records))
        return ClampedFigure(present=sum(bins), bins=bins)
    column = spec.columns[aggregate.column]
    lower, upper = column.required_limits()
    clamped = [min(max(float(x), lower), upper) for x in values]
    if aggregate.function in ("quantile", "min", "max"):
        bins = [0] * column.grid
        for x in clamped:
            bins[min(column.grid - 1, math.floor((x - lower) * (column.grid / (upper - lower))))] += 1
        return ClampedFigure(present=len(values), bins=tuple(bins))
    codes = [column.code(x) for x in clamped]
    squares = sum(code * code for code in codes) if aggregate.function == "variance" else 0
    return ClampedFigure(present=len(values), total=sum(codes), squares=squares)


def bounded(query: Query, spec: TableSpec, records: Sequence[Record]) -> dict[tuple[Any, ...], Bounded]:
    found = groups(query, kept(spec, records))
    declared = spec.declared_groups(query.group_by)
    keys = list(found) if declared is None else declared
    answer = {}
    for key in keys:
        rows = found.get(key, [])
        people = len({r[spec.person] for r in rows}) if spec.person else len(rows)
        figures = tuple(bounded_figure(a, spec, rows) for a in query.aggregates)
        answer[key] = Bounded(len(rows), people if declared is None else None, figures)
    return answer
