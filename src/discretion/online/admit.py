"""Whether a question fits the declared table: names, types of columns and of the values they are compared with.

Both roads, SQL and JSON, end here. The values of conditions are brought into one form (30.0 and 30 are the same
number, `BETWEEN` is two comparisons, `> 5` of whole numbers is `>= 6`), so that the same question has the same digest.
A refusal names columns and kinds of values, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from discretion.data.conditions import And, Condition, Filter, Not, Or, Scalar
from discretion.errors import QueryRefused, did_you_mean
from discretion.online.catalog import ServiceSpec, TableSpec, tables_of
from discretion.online.column import ColumnSpec
from discretion.online.query import Query

_LARGEST = 2**53
_MOST_VALUES = 1000
_MOST_AGGREGATES = 32
_MOST_CUTS = 1025
_NEEDED = {"category": "a text in single quotes", "truth": "TRUE or FALSE", "date": "a date such as '2024-12-31'"}


def admit(query: Query, tables: ServiceSpec | TableSpec | Mapping[str, TableSpec]) -> Query:
    """Give the question with its values in one form, or refuse it.

    Examples
    --------
    >>> from discretion.online.query import Aggregate
    >>> table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
    >>> admit(Query("t", (Aggregate("count"),), Condition("age", ">", (30.0,))), table).where
    Condition(column='age', op='>=', values=(31,))
    """
    known = tables_of(tables)
    if query.table not in known:
        raise QueryRefused(f"unknown table{did_you_mean(query.table, known)}")
    table = known[query.table]
    if len(query.aggregates) > _MOST_AGGREGATES:
        raise QueryRefused(f"a question asks for at most {_MOST_AGGREGATES} figures")
    for aggregate in query.aggregates:
        if len(aggregate.cuts) > _MOST_CUTS:
            raise QueryRefused(f"a histogram has at most {_MOST_CUTS - 1} bins")
        if aggregate.column is not None:
            _check_measured(aggregate.function, aggregate.column, table.column(aggregate.column))
    for name in query.group_by:
        table.column(name)
    if sum(len(condition.values) for condition in query.conditions()) > _MOST_VALUES:
        raise QueryRefused(f"the conditions hold more than {_MOST_VALUES} values")
    return replace(query, where=_filter(query.where, table))


def _check_measured(function: str, name: str, spec: ColumnSpec) -> None:
    if function in ("count-distinct", "mode"):
        return
    if not spec.is_numeric:
        raise QueryRefused(f"{function!r} needs numbers; {name!r} is of type {spec.type}")
    if spec.type == "truth" and function not in ("sum", "mean"):
        raise QueryRefused(f"{function!r} needs numbers; of {name!r}, yes or no, there is a sum and a mean")


def _filter(where: Filter, table: TableSpec) -> Filter:
    if isinstance(where, Condition):
        spec = table.column(where.column)
        if spec.type in ("category", "truth") and where.op in ("<", "<=", ">", ">=", "between"):
            raise QueryRefused(f"{where.column!r} of type {spec.type} has no order; use =, != or IN")
        found = replace(where, values=tuple(_value(value, where.column, spec) for value in where.values))
        ends: tuple[Condition, ...] = (found,)
        if found.op == "between":
            low, high = found.values
            ends = (Condition(found.column, ">=", (low,)), Condition(found.column, "<=", (high,)))
        written = tuple(_whole(end) for end in ends) if spec.type == "integer" else ends
        return And(written) if len(written) > 1 else written[0]
    if isinstance(where, Not):
        return Not(_filter(where.part, table))
    if isinstance(where, And | Or):
        return type(where)(tuple(_filter(part, table) for part in where.parts))
    return where


def _whole(where: Condition) -> Condition:
    """Write a comparison of whole numbers in one way: `> 5`, `> 5.5` and `>= 6` choose the same records."""
    bound = next((value for value in where.values if isinstance(value, int | float)), 0)
    if where.op in (">", ">="):
        return replace(where, op=">=", values=(math.floor(bound) + 1 if where.op == ">" else math.ceil(bound),))
    if where.op in ("<", "<="):
        return replace(where, op="<=", values=(math.ceil(bound) - 1 if where.op == "<" else math.floor(bound),))
    return where


def _value(value: Scalar, name: str, spec: ColumnSpec) -> Scalar:
    if spec.type in ("number", "integer"):
        return _number(value, name)
    if spec.type == "truth":
        fits = isinstance(value, bool)
    elif spec.type == "date":
        fits = isinstance(value, str) and _is_date(value)
    else:
        fits = isinstance(value, str)
    if not fits:
        raise QueryRefused(f"{name!r} is compared with {_NEEDED[spec.type]}")
    return value


def _number(value: Scalar, name: str) -> Scalar:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryRefused(f"{name!r} is compared with a number, without quotes")
    if abs(value) > _LARGEST:
        raise QueryRefused(f"a number that {name!r} is compared with is too large")
    return int(value) if value == int(value) else value


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
