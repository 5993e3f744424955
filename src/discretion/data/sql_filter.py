"""The conditions of a WHERE: comparisons of a column with constants, AND, OR, NOT.

A comparison, also a negated one (`!=`, `NOT IN`, `NOT BETWEEN`, `NOT age > 30`), is never fulfilled by a missing value,
as in SQL. `NOT (…)` with brackets is the complement: all records that do not fulfil the condition, those with missing
values among them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from discretion.errors import QueryRefused

Scalar = str | int | float | bool
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "between", "is-missing", "not-missing"]

_VALUES = {"between": 2, "is-missing": 0, "not-missing": 0}


@dataclass(frozen=True)
class Condition:
    """One comparison of a column with constants."""

    column: str
    op: Operator
    values: tuple[Scalar, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in get_args(Operator):
            raise QueryRefused(f"unknown comparison; allowed are {', '.join(get_args(Operator))}")
        wanted = _VALUES.get(self.op, 1)
        if (self.op == "in" and not self.values) or (self.op != "in" and len(self.values) != wanted):
            raise QueryRefused(f"the comparison {self.op!r} of {self.column!r} has the wrong number of values")
        if not all(_is_scalar(value) for value in self.values):
            raise QueryRefused(f"{self.column!r} is compared with something that is not a finite number, text or truth")


@dataclass(frozen=True)
class Linear:
    """A comparison of a weighted sum of columns with a number: `income = wage + rent` is income − wage − rent = 0."""

    terms: tuple[tuple[str, float], ...]
    op: Literal["=", "!=", "<", "<=", ">", ">="]
    constant: float = 0.0
    target: str = ""
    """the column that the sum defines, where it stands alone on the left"""


@dataclass(frozen=True)
class Everything:
    """No condition: every record."""


@dataclass(frozen=True)
class And:
    """All parts hold."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Filter


Filter = Condition | Linear | Everything | And | Or | Not


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return is_text(value) or isinstance(value, int)


def is_text(value: object) -> bool:
    """Tell whether something is a text that a database can hold: Unicode without lone surrogates and zero bytes."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return len(value.encode()) >= 0
    except UnicodeEncodeError:
        return False


def comparisons(where: Filter) -> Iterator[Condition]:
    """Give every comparison of a filter."""
    if isinstance(where, Condition):
        yield where
    elif isinstance(where, Not):
        yield from comparisons(where.part)
    elif isinstance(where, And | Or):
        for part in where.parts:
            yield from comparisons(part)


def columns_of(where: Filter) -> frozenset[str]:
    """Name the columns that a filter is about."""
    if isinstance(where, Linear):
        return frozenset(name for name, _ in where.terms)
    if isinstance(where, Condition):
        return frozenset((where.column,))
    if isinstance(where, Not):
        return columns_of(where.part)
    if isinstance(where, And | Or):
        return frozenset[str]().union(*(columns_of(part) for part in where.parts))
    return frozenset()


def depth_of(where: Filter) -> int:
    """Count how deeply conditions are nested."""
    if isinstance(where, Not):
        return 1 + depth_of(where.part)
    if isinstance(where, And | Or):
        return 1 + max((depth_of(part) for part in where.parts), default=0)
    return 1


# Looking at nodes of a syntax tree: nothing unexpected inside, constants as plain values.

_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def only(node: Any, allowed: Collection[str], names: Mapping[str, str]) -> None:
    """Refuse a node that has anything beside the allowed entries; `names` says what an entry is called in SQL."""
    for key, value in node.args.items():
        if key not in allowed and value not in (None, False, [], ""):
            what = names.get(key, "something in this question")
            raise QueryRefused(f"{what} {'are' if what in _PLURAL else 'is'} not allowed here")


_PLURAL = (
    "joins (one table at a time)",
    "window functions",
    "other names of tables",
    "schemas of tables",
)


def plain_number(node: Any) -> int | float:
    """Give the number that a node is, or refuse."""
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryRefused("a number is needed here")
    return value


def constant(node: Any) -> Scalar:
    """Give the number, text or truth that a node is, or refuse."""
    from sqlglot import exp

    if type(node) is exp.Boolean:
        return bool(node.this)
    if type(node) is exp.Neg:
        only(node, {"this"}, {})
        if type(node.this) is exp.Literal and not node.this.is_string:
            return -_number(str(node.this.this))
    if type(node) is exp.Literal:
        only(node, {"this", "is_string"}, {})
        return str(node.this) if node.is_string else _number(str(node.this))
    raise QueryRefused("columns are compared with constants: numbers, texts in single quotes, TRUE and FALSE")


def _number(text: str) -> int | float:
    if _WHOLE.fullmatch(text):
        return int(text)
    if not _DECIMAL.fullmatch(text) or len(text) > 40 or not math.isfinite(float(text)):
        raise QueryRefused("a number of this question cannot be read, or is too large")
    return float(text)


_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class FilterReader:
    """Reads conditions; `column` resolves the name of a column or refuses.

    With `arithmetic` a side of a comparison may be a sum of columns with constant factors; without, as on-line,
    columns are compared with constants.
    """

    def __init__(self, column: Callable[[Any, str], str], *, arithmetic: bool = False) -> None:
        self._column, self._arithmetic = column, arithmetic

    def read(self, where: Any) -> Filter:
        """Read a WHERE; without one, everything."""
        if where is None:
            return Everything()
        only(where, {"this"}, {})
        return self._filter(where.this)

    def _filter(self, node: Any) -> Filter:
        from sqlglot import exp

        kind = type(node)
        if kind is exp.Paren:
            only(node, {"this"}, {})
            return self._filter(node.this)
        if kind in (exp.And, exp.Or):
            parts = tuple(self._filter(part) for part in _chain(node))
            return And(parts) if kind is exp.And else Or(parts)
        if kind is exp.Not:
            only(node, {"this"}, {})
            return self._negated(node.this)
        return self._comparison(node)

    def _negated(self, node: Any) -> Filter:
        from sqlglot import exp

        if type(node) in (exp.Paren, exp.Not):
            return Not(self._filter(node))
        found = self._comparison(node)
        if isinstance(found, Linear):
            return Not(found)
        if found.op in _OPPOSITE:
            return Condition(found.column, _OPPOSITE[found.op], found.values)
        if found.op == "is-missing":
            return Condition(found.column, "not-missing")
        return And((Condition(found.column, "not-missing"), Not(found)))

    def _comparison(self, node: Any) -> Condition | Linear:
        from sqlglot import exp

        comparisons: dict[type, Operator]
        comparisons = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        kind = type(node)
        if kind in comparisons:
            return self._two_sides(node, comparisons[kind])
        if kind is exp.Column:
            return Condition(self._column(node, "WHERE"), "=", (True,))
        if kind is exp.In:
            only(node, {"this", "expressions"}, {"query": "a subquery", "unnest": "a function", "field": "a column"})
            values = tuple(constant(item) for item in node.expressions)
            return Condition(self._column(node.this, "IN"), "in", values)
        if kind is exp.Between:
            only(node, {"this", "low", "high"}, {"symmetric": "SYMMETRIC"})
            values = constant(node.args["low"]), constant(node.args["high"])
            return Condition(self._column(node.this, "BETWEEN"), "between", values)
        if kind is exp.Is:
            return self._is(node)
        raise QueryRefused(
            "a condition compares a column with constants: =, !=, <, <=, >, >=, IN, BETWEEN, IS NULL; AND, OR, NOT; "
            "LIKE, functions, arithmetic and subqueries are not allowed"
        )

    def _two_sides(self, node: Any, op: Operator) -> Condition | Linear:
        from sqlglot import exp

        only(node, {"this", "expression"}, {})
        left, right = node.this, node.expression
        if self._arithmetic and (sums := self._sums(left, right, op)) is not None:
            return sums
        if type(right) is exp.Column and type(left) is not exp.Column:
            left, right, op = right, left, _FLIPPED[op]
        return Condition(self._column(left, "a comparison"), op, (constant(right),))

    def _sums(self, left: Any, right: Any, op: Operator) -> Linear | None:
        """Read a comparison of sums; None where it is one of a column with a constant."""
        from sqlglot import exp

        plain = (exp.Column, exp.Literal, exp.Boolean, exp.Neg)
        sides = [node for node in (left, right) if type(node) is exp.Column]
        if isinstance(left, plain) and isinstance(right, plain) and len(sides) < 2:
            return None
        terms: dict[str, float] = {}
        constant = -self._add(left, 1.0, terms) - self._add(right, -1.0, terms)
        if not terms:
            raise QueryRefused("a comparison needs a column")
        if op not in ("=", "!=", "<", "<=", ">", ">="):
            raise QueryRefused("sums are compared by =, !=, <, <=, >, >=")
        alone = [self._column(node, "a sum") for node in (left, right) if type(node) is exp.Column]
        target = alone[0] if op == "=" and alone else ""
        if any(not factor for factor in terms.values()):
            raise QueryRefused("a column stands on both sides and cancels itself")
        return Linear(tuple(terms.items()), op, constant, target)

    def _add(self, node: Any, factor: float, terms: dict[str, float]) -> float:
        """Add a sum of columns to `terms`; give its constant part."""
        from sqlglot import exp

        kind = type(node)
        if kind is exp.Paren:
            return self._add(node.this, factor, terms)
        if kind in (exp.Add, exp.Sub):
            first = self._add(node.this, factor, terms)
            return first + self._add(node.expression, factor if kind is exp.Add else -factor, terms)
        if kind is exp.Neg:
            return self._add(node.this, -factor, terms)
        if kind is exp.Mul:
            sides = (node.this, node.expression)
            numbers = [one for one in sides if type(one) is exp.Literal]
            others = [one for one in sides if type(one) is not exp.Literal]
            if len(numbers) != 1:
                raise QueryRefused("a column is multiplied by a number, not by a column")
            return self._add(others[0], factor * float(plain_number(numbers[0])), terms)
        if kind is exp.Literal:
            return factor * float(plain_number(node))
        name = self._column(node, "a sum")
        terms[name] = terms.get(name, 0.0) + factor
        return 0.0

    def _is(self, node: Any) -> Condition:
        from sqlglot import exp

        only(node, {"this", "expression"}, {})
        column = self._column(node.this, "IS")
        if type(node.expression) is exp.Null:
            return Condition(column, "is-missing")
        if type(node.expression) is exp.Boolean:
            return Condition(column, "=", (bool(node.expression.this),))
        raise QueryRefused("IS is followed by NULL, NOT NULL, TRUE or FALSE")


def _chain(node: Any) -> list[Any]:
    """List the parts of a chain of ANDs or ORs, however long, in their order."""
    kind, parts = type(node), []
    stack = [node]
    while stack:
        top = stack.pop()
        if type(top) is kind:
            only(top, {"this", "expression"}, {})
            stack += [top.expression, top.this]
        else:
            parts.append(top)
    return parts
