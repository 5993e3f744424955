"""A question to a statistical database: aggregates over the records that fulfil conditions, as data or in SQL.

The service never runs what an analyst typed. A question becomes a `Query`, everything that a `Query` cannot say is
refused, and the statement that reaches the database is written from it. Two ways to ask the same thing have one
canonical form, so that an answer already given is found again.

SQL is taken apart into a syntax tree, each node that a question may have is looked at by itself, with every entry it
has, and what was not expected is refused. Reasons name what is allowed; they never repeat the text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from discretion.data.sql_filter import (
    And,
    Condition,
    Everything,
    Filter,
    FilterReader,
    Not,
    Operator,
    Or,
    Scalar,
    comparisons,
    depth_of,
    is_text,
    only,
    plain_number,
)
from discretion.errors import QueryRefused, did_you_mean
from discretion.online.declare import ColumnSpec, ServiceSpec, TableSpec, checked_name, tables_of

if TYPE_CHECKING:
    from sqlglot import exp

Function = Literal["count", "count-distinct", "sum", "mean", "variance", "min", "max", "quantile", "mode", "histogram"]

_CONDITION_FORM: dict[str, Any] = {
    "type": "object",
    "description": "a `column`, an `op` and `values`; or one of `and`, `or` (lists of conditions) and `not`",
    "properties": {
        "column": {"type": "string"},
        "op": {"enum": list(get_args(Operator))},
        "values": {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
        "and": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "or": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "not": {"type": "object"},
    },
    "additionalProperties": False,
}
_AGGREGATE_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "function": {"enum": list(get_args(Function))},
        "column": {"type": "string"},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "cuts": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        "name": {"type": "string"},
    },
    "required": ["function"],
    "additionalProperties": False,
}
QUERY_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "aggregates": {"type": "array", "items": _AGGREGATE_FORM, "minItems": 1},
        "where": {"anyOf": [_CONDITION_FORM, {"type": "null"}]},
        "group_by": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["table", "aggregates"],
    "additionalProperties": False,
}
"""The form of a question as plain data: what `Query.from_json` reads and what OpenAPI says."""
_MOST_DEPTH = 32
_EVERYTHING = Everything()


@dataclass(frozen=True)
class Aggregate:
    """One figure: a function of a column over the chosen records; `count` has no column."""

    function: Function
    column: str | None = None
    share: float | None = None
    """for `quantile`: the share of records below it (median: 0.5)"""
    cuts: tuple[float, ...] = ()
    """for `histogram`: the borders of the bins, ascending"""
    name: str = ""
    """name of the figure in the answer; without it, made from function and column"""

    def __post_init__(self) -> None:
        if self.function not in get_args(Function):
            raise QueryRefused(f"unknown function; allowed are {', '.join(get_args(Function))}")
        if (self.column is None) != (self.function == "count"):
            raise QueryRefused("`count` takes no column, every other function takes one")
        if (self.share is not None) != (self.function == "quantile"):
            raise QueryRefused("`quantile` takes a share between 0 and 1, and only `quantile` does")
        if self.share is not None and not 0 < self.share < 1:
            raise QueryRefused("the share of a quantile lies between 0 and 1")
        ascending = all(a < b for a, b in zip(self.cuts, self.cuts[1:], strict=False))
        if (len(self.cuts) >= 2) != (self.function == "histogram") or not ascending:
            raise QueryRefused("`histogram` takes two or more ascending cuts, and only `histogram` does")

    @property
    def label(self) -> str:
        """Return the name of the figure in the answer."""
        made = self.function if self.column is None else f"{self.function}_{self.column}"
        return self.name or (made if self.share is None else f"{made}_{self.share:g}")


@dataclass(frozen=True)
class Query:
    """Aggregates of one table over the records that fulfil `where`, for each combination of `group_by`."""

    table: str
    aggregates: tuple[Aggregate, ...]
    where: Filter = _EVERYTHING
    group_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise QueryRefused("a question asks for at least one aggregate")
        labels = [aggregate.label for aggregate in self.aggregates]
        if len(set(labels) | set(self.group_by)) < len(labels) + len(self.group_by):
            raise QueryRefused("two columns of the answer would have the same name; name the figures with AS")
        if depth_of(self.where) > _MOST_DEPTH:
            raise QueryRefused("the conditions are nested too deeply")

    def conditions(self) -> Iterator[Condition]:
        """Return every comparison of the filter."""
        yield from comparisons(self.where)

    def columns_in_where(self) -> frozenset[str]:
        """Name the columns that choose the records."""
        return frozenset(condition.column for condition in self.conditions())

    def columns(self) -> frozenset[str]:
        """Name every column the question touches."""
        measured = {aggregate.column for aggregate in self.aggregates if aggregate.column is not None}
        return frozenset(measured | self.columns_in_where() | set(self.group_by))

    def canonical(self) -> Query:
        """Return the one form of all questions that ask the same: order, repetition and names do not matter."""
        return self._canonical

    @cached_property
    def _canonical(self) -> Query:
        unnamed = {replace(aggregate, name="") for aggregate in self.aggregates}
        ordered = sorted(unnamed, key=lambda a: json.dumps(_aggregate_json(a), sort_keys=True))
        groups = tuple(sorted(set(self.group_by)))
        return Query(self.table, told_apart(ordered, groups), _canonical(self.where), groups)

    def place_of(self, aggregate: Aggregate) -> int:
        """Return the place of a figure in this question, whatever it is called in either."""
        return [replace(own, name="") for own in self.aggregates].index(replace(aggregate, name=""))

    def digest(self) -> str:
        """Return a name for the canonical form."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        text = json.dumps(self.canonical().to_json(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the question as plain data."""
        return {
            "table": self.table,
            "aggregates": [_aggregate_json(aggregate) for aggregate in self.aggregates],
            "where": _filter_json(self.where),
            "group_by": list(self.group_by),
        }

    @classmethod
    def from_json(cls, content: Any) -> Query:
        """Read a question from plain data; anything unexpected is refused."""
        found = _mapping(content, QUERY_FORM, "a question")
        table, aggregates, group_by = found.get("table"), found.get("aggregates"), found.get("group_by", [])
        if not isinstance(table, str) or not isinstance(aggregates, list):
            raise QueryRefused("a question has a `table` (text) and `aggregates` (a list)")
        if not isinstance(group_by, list) or not all(isinstance(name, str) for name in group_by):
            raise QueryRefused("`group_by` is a list of column names")
        where = _filter_of(found["where"]) if found.get("where") is not None else Everything()
        return cls(table, told_apart([_aggregate_of(item) for item in aggregates], group_by), where, tuple(group_by))


def told_apart(aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> tuple[Aggregate, ...]:
    """Return figures without a name that would be called like another column of the answer names with a number.

    Two histograms of one column with other borders are two figures; the same figure twice stays an error.

    Examples
    --------
    >>> coarse, fine = Aggregate("histogram", "x", cuts=(0.0, 2.0)), Aggregate("histogram", "x", cuts=(0.0, 1.0, 2.0))
    >>> [aggregate.label for aggregate in told_apart([coarse, fine], ())]
    ['histogram_x', 'histogram_x_2']
    """
    taken = {*group_by, *(aggregate.name for aggregate in aggregates if aggregate.name)}
    seen: set[Aggregate] = set()
    found = []
    for aggregate in aggregates:
        if not aggregate.name and aggregate not in seen:
            seen.add(aggregate)
            number, label = 1, aggregate.label
            while label in taken:
                number += 1
                label = f"{aggregate.label}_{number}"
            taken.add(label)
            found.append(aggregate if number == 1 else replace(aggregate, name=label))
        else:
            found.append(aggregate)
    return tuple(found)


def _canonical(where: Filter) -> Filter:
    if isinstance(where, Condition):
        if where.op != "in":
            return where
        return replace(where, values=tuple(sorted(set(where.values), key=lambda value: (type(value).__name__, value))))
    if isinstance(where, Not):
        inner = _canonical(where.part)
        return inner.part if isinstance(inner, Not) else Not(inner)
    if not isinstance(where, And | Or):
        return where
    kind = type(where)
    parts: set[Filter] = set()
    for part in map(_canonical, where.parts):
        parts.update(part.parts if isinstance(part, kind) else (part,))
    if kind is And:
        parts.discard(Everything())
    elif Everything() in parts:
        return Everything()
    if not parts:
        return Everything()
    ordered = tuple(sorted(parts, key=lambda part: json.dumps(_filter_json(part), sort_keys=True)))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def _aggregate_json(aggregate: Aggregate) -> dict[str, Any]:
    found = {name: getattr(aggregate, name) for name in _AGGREGATE_FORM["properties"]}
    found["cuts"] = list(aggregate.cuts)
    unsaid: dict[str, Any] = {"column": None, "share": None, "cuts": [], "name": ""}
    return {name: value for name, value in found.items() if name not in unsaid or value != unsaid[name]}


def _aggregate_of(content: Any) -> Aggregate:
    found = _mapping(content, _AGGREGATE_FORM, "an aggregate")
    column, share, cuts, name = (found.get(key) for key in ("column", "share", "cuts", "name"))
    if not isinstance(found.get("function"), str) or not isinstance(column, str | None):
        raise QueryRefused("an aggregate has a `function` and a `column`, both texts")
    if not isinstance(share, int | float | None) or isinstance(share, bool) or not isinstance(name, str | None):
        raise QueryRefused("the `share` of an aggregate is a number and its `name` a text")
    if not isinstance(cuts, list | None) or not all(_is_number(cut) for cut in cuts or ()):
        raise QueryRefused("the `cuts` of an aggregate are a list of finite numbers")
    borders = tuple(float(cut) for cut in cuts or ())
    return Aggregate(found["function"], column, None if share is None else float(share), borders, name or "")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # NaN compares as false; whole numbers too large for a float do not pass


def _filter_json(where: Filter) -> Any:
    if isinstance(where, Condition):
        return {"column": where.column, "op": where.op, "values": list(where.values)}
    if isinstance(where, Not):
        return {"not": _filter_json(where.part)}
    if isinstance(where, And | Or):
        return {"and" if isinstance(where, And) else "or": [_filter_json(part) for part in where.parts]}
    return None


def _filter_of(content: Any, depth: int = 0) -> Filter:
    if depth > _MOST_DEPTH:
        raise QueryRefused("the conditions are nested too deeply")
    if content is None:
        return Everything()
    found = _mapping(content, _CONDITION_FORM, "a condition")
    if set(found) == {"not"}:
        return Not(_filter_of(found["not"], depth + 1))
    if len(found) == 1 and (key := next(iter(found))) in ("and", "or"):
        if not isinstance(found[key], list) or not found[key]:
            raise QueryRefused(f"{key!r} takes a list of conditions")
        parts = tuple(_filter_of(part, depth + 1) for part in found[key])
        return And(parts) if key == "and" else Or(parts)
    column, op, values = found.get("column"), found.get("op"), found.get("values", [])
    if not isinstance(column, str) or not isinstance(op, str) or not isinstance(values, list) or len(found) > 3:
        raise QueryRefused("a condition has a `column`, an `op` and `values`; or it is one of `and`, `or`, `not`")
    return Condition(column, op, tuple(values))  # type: ignore[arg-type]  # Condition refuses other operators


def _mapping(content: Any, form: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    allowed = form["properties"]
    if not isinstance(content, dict) or not content.keys() <= allowed.keys():
        raise QueryRefused(f"{what} is an object with {', '.join(sorted(allowed))} and nothing else")
    return content


# Both roads, SQL and JSON, end here: whether a question fits the declared table. The values of conditions are brought
# into one form (30.0 and 30 are the same number, `BETWEEN` is two comparisons, `> 5` of whole numbers is `>= 6`), so
# that the same question has the same digest. A refusal names columns and kinds of values, never a value.

_LARGEST = 2**53
_MOST_VALUES = 1000
_MOST_AGGREGATES = 32
_MOST_CUTS = 1025
_NEEDED = {"category": "a text in single quotes", "truth": "TRUE or FALSE", "date": "a date such as '2024-12-31'"}


def admit(query: Query, tables: ServiceSpec | TableSpec | Mapping[str, TableSpec]) -> Query:
    """Return the question with its values in one form, or refuse it.

    Examples
    --------
    >>> from discretion.online.question.query import Aggregate
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


LONGEST = 10_000
"""characters of a question"""
_MOST_TOKENS = 3000
_DEEPEST = 12
_LONGEST_RUN = 12
FUNCTIONS = (
    "count, sum, avg, variance, min, max, median, quantile_cont(column, share), mode(column), "
    "histogram(column, [borders])"
)
_REASONS = {
    "with": "WITH",
    "with_": "WITH",
    "joins": "joins (one table at a time)",
    "laterals": "joins (one table at a time)",
    "distinct": "SELECT DISTINCT",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "window functions",
    "order": "ORDER BY (sort the answer)",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "sample": "sampling",
    "into": "INTO",
    "pivots": "PIVOT",
}


def parse_sql(text: str, tables: ServiceSpec | TableSpec | Mapping[str, TableSpec]) -> Query:
    """Read a question in SQL; raises nothing but `QueryRefused`.

    Complexity: linear in the length of the text, which is limited.

    Examples
    --------
    >>> table = TableSpec(
    ...     name="students",
    ...     columns={
    ...         "sex": {"role": "public", "type": "category"},
    ...         "income": {"role": "sensitive", "type": "number"},
    ...     },
    ... )
    >>> query = parse_sql("SELECT sex, avg(income) AS mean FROM students GROUP BY sex", table)
    >>> query.group_by, query.aggregates[0].function
    (('sex',), 'mean')
    >>> parse_sql("SELECT * FROM students", table)
    Traceback (most recent call last):
    discretion.errors.QueryRefused: `*` would show rows; ask for aggregates: count, sum, avg, …
    """
    known = tables_of(tables)
    select = _tree(text)
    only(select, {"expressions", "from_", "from", "where", "group"}, _REASONS)
    table = _table(select, known)
    return admit(_Reader(table).query(select), known)


def _tree(text: str) -> exp.Select:
    """Parse one SELECT; sizes are limited before the parser sees the text."""
    if not is_text(text) or len(text) > LONGEST:
        raise QueryRefused(f"a question is a text of at most {LONGEST:,} characters, without zero bytes")
    import sqlglot
    from sqlglot import exp

    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
        _check_tokens(tokens)
        trees = sqlglot.Dialect.get_or_raise("duckdb").parser().parse(tokens, text)
    except QueryRefused:
        raise
    except (Exception, RecursionError):  # whatever the parser does with a strange text: its message quotes the text
        raise QueryRefused("this is not SQL that can be read; write SELECT aggregates FROM table") from None
    if len(trees) != 1 or type(trees[0]) is not exp.Select:
        raise QueryRefused("one SELECT at a time, without UNION and the like")
    return trees[0]


def _check_tokens(tokens: Any) -> None:
    from sqlglot import TokenType

    kinds = [token.token_type for token in tokens]
    while kinds and kinds[-1] == TokenType.SEMICOLON:
        del kinds[-1], tokens[len(kinds) :]
    if not kinds or kinds[0] != TokenType.SELECT or TokenType.SEMICOLON in kinds:
        raise QueryRefused("a question is one statement and begins with SELECT")
    opens = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
    closes = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
    depth = run = 0
    previous = None
    for kind in kinds:
        depth += (kind in opens) - (kind in closes)
        run = run + 1 if kind == previous else 1
        previous = kind
        if depth > _DEEPEST or run > _LONGEST_RUN:
            raise QueryRefused("the question is nested too deeply")
    if len(kinds) > _MOST_TOKENS:
        raise QueryRefused(f"the question has more than {_MOST_TOKENS:,} words and signs")


def _table(select: exp.Select, known: Mapping[str, TableSpec]) -> TableSpec:
    from sqlglot import exp

    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise QueryRefused("name a table with FROM")
    only(source, {"this"}, _REASONS)
    if type(source.this) is not exp.Table or type(source.this.this) is not exp.Identifier:
        raise QueryRefused("FROM names one declared table; subqueries, files and functions are not allowed")
    only(source.this, {"this"}, {"alias": "other names of tables", "db": "schemas of tables", **_REASONS})
    name = resolve_name(source.this.this, known)
    if name is None:
        raise QueryRefused(f"unknown table{did_you_mean(source.this.name, known)}")
    return known[name]


def resolve_name(identifier: exp.Identifier, known: Any) -> str | None:
    """Find a name; without quotes upper and lower case do not matter if only one name fits."""
    text = str(identifier.this)
    if text in known or identifier.args.get("quoted"):
        return text if text in known else None
    folded = [name for name in known if name.casefold() == text.casefold()]
    return folded[0] if len(folded) == 1 else None


@dataclass(frozen=True)
class _Asked:
    """An aggregate as it was written: `count` may still have a column."""

    function: Function
    column: str | None
    share: float | None = None
    cuts: tuple[float, ...] = ()
    name: str = ""

    def finished(self) -> Aggregate:
        column = None if self.function == "count" else self.column
        return Aggregate(self.function, column, self.share, self.cuts, self.name)


class _Reader:
    """Reads the parts of a SELECT from one table."""

    def __init__(self, table: TableSpec) -> None:
        self.table = table

    def query(self, select: exp.Select) -> Query:
        group_by = self._group_by(select.args.get("group"))
        chosen = [self._chosen(item, group_by) for item in select.expressions]
        aggregates = [item for item in chosen if item is not None]
        where = FilterReader(self.column).read(select.args.get("where"))
        present = {item.column for item in aggregates if item.function == "count" and item.column is not None}
        if present:
            if {item.column for item in aggregates} != present or len(present) > 1:
                raise QueryRefused(
                    "count(column) counts records with a value: ask it apart from figures of other columns and count(*)"
                )
            where = And((where, Condition(present.pop(), "not-missing")))
        figures = told_apart([item.finished() for item in aggregates], group_by)
        return Query(self.table.name, figures, where, group_by)

    def column(self, node: Any, what: str) -> str:
        """Return the declared column that a node names, or refuse."""
        from sqlglot import exp

        if type(node) is not exp.Column or type(node.this) is not exp.Identifier:
            words = [str(one.this).casefold() for one in node.find_all(exp.Identifier, bfs=False)]
            meant = [name for name in self.table.visible if re.split(r"\W+", name.casefold()) == words]
            hint = f'; the column {meant[0]!r} is written in double quotes: "{meant[0]}"' if meant else ""
            raise QueryRefused(
                f"{what} takes the name of a column; expressions, functions and casts are not allowed{hint}"
            )
        only(node, {"this", "table"}, {})
        qualifier = node.args.get("table")
        if qualifier is not None and resolve_name(qualifier, [self.table.name]) is None:
            raise QueryRefused("a column belongs to the one table of the question")
        name = resolve_name(node.this, self.table.visible)
        if name is None:
            raise QueryRefused(f"unknown column{did_you_mean(str(node.this.this), self.table.visible)}")
        return name

    def _group_by(self, group: Any) -> tuple[str, ...]:
        if group is None:
            return ()
        only(group, {"expressions"}, {"all": "GROUP BY ALL"})
        return tuple(self.column(item, "GROUP BY") for item in group.expressions)

    def _chosen(self, item: Any, group_by: tuple[str, ...]) -> _Asked | None:
        """Read one entry of the select list: an aggregate, or a group column (nothing to compute)."""
        from sqlglot import exp

        name = ""
        if type(item) is exp.Alias:
            only(item, {"this", "alias"}, {})
            name, item = _alias(item.args["alias"]), item.this
        if type(item) is exp.Star:
            raise QueryRefused("`*` would show rows; ask for aggregates: count, sum, avg, …")
        if type(item) is exp.Column:
            column = self.column(item, "the select list")
            if column not in group_by:
                raise QueryRefused(f"{column!r} by itself would show rows; group by it, or ask for an aggregate of it")
            if name not in ("", column):
                raise QueryRefused("a group column keeps its name")
            return None
        return self._aggregate(item, name)

    def _aggregate(self, node: Any, name: str) -> _Asked:
        from sqlglot import exp

        simple: dict[type, Function]
        simple = {
            exp.Sum: "sum",
            exp.Avg: "mean",
            exp.Variance: "variance",
            exp.Min: "min",
            exp.Max: "max",
            exp.Mode: "mode",
        }
        kind = type(node)
        if kind is exp.Count:
            return self._count(node, name)
        if kind in simple:
            only(node, {"this"}, {})
            return _Asked(simple[kind], self.column(node.this, simple[kind]), name=name)
        if kind is exp.Median:
            only(node, {"this"}, {})
            return _Asked("quantile", self.column(node.this, "median"), 0.5, name=name)
        if kind is exp.PercentileCont:
            only(node, {"this", "expression"}, {})
            return _Asked(
                "quantile", self.column(node.this, "quantile_cont"), float(plain_number(node.expression)), name=name
            )
        if kind is exp.Anonymous and str(node.this).casefold() in ("mean", "histogram"):
            return self._anonymous(node, name)
        raise QueryRefused(_hint(node))

    def _count(self, node: Any, name: str) -> _Asked:
        from sqlglot import exp

        only(node, {"this", "big_int"}, {"expressions": "count of several columns"})
        inner = node.this
        if inner is None or type(inner) is exp.Star:
            if inner is not None:
                only(inner, set(), {})
            return _Asked("count", None, name=name)
        if type(inner) is exp.Distinct:
            only(inner, {"expressions"}, {})
            if len(inner.expressions) != 1:
                raise QueryRefused("count(DISTINCT …) takes one column")
            return _Asked("count-distinct", self.column(inner.expressions[0], "count(DISTINCT …)"), name=name)
        return _Asked("count", self.column(inner, "count"), name=name)

    def _anonymous(self, node: Any, name: str) -> _Asked:
        from sqlglot import exp

        only(node, {"this", "expressions"}, {})
        given = node.expressions
        if str(node.this).casefold() == "mean" and len(given) == 1:
            return _Asked("mean", self.column(given[0], "mean"), name=name)
        if str(node.this).casefold() == "mean" or len(given) != 2 or type(given[1]) is not exp.Array:
            raise QueryRefused("write mean(column), or histogram(column, [borders])")
        only(given[1], {"expressions"}, {})
        cuts = tuple(float(plain_number(item)) for item in given[1].expressions)
        return _Asked("histogram", self.column(given[0], "histogram"), cuts=cuts, name=name)


def _alias(identifier: Any) -> str:
    try:
        return checked_name(str(identifier.this))
    except ValueError as error:
        raise QueryRefused(f"the name of a figure: {error}") from None


def _hint(node: Any) -> str:
    from sqlglot import exp

    hints = {
        exp.Window: "window functions (OVER) are not allowed",
        exp.Filter: "FILTER is not allowed; put the condition into WHERE",
        exp.Subquery: "subqueries are not allowed",
        exp.Stddev: "the standard deviation is the root of the variance; ask for variance(column)",
        exp.StddevSamp: "the standard deviation is the root of the variance; ask for variance(column)",
        exp.StddevPop: "the standard deviation is the root of the variance; ask for variance(column)",
        exp.VariancePop: "variance(column) divides by n - 1; multiply it by (n - 1) / n",
        exp.Quantile: "write quantile_cont(column, share)",
        exp.WithinGroup: "write quantile_cont(column, share)",
    }
    hint = hints.get(type(node), "only aggregates of a column can be asked for")
    return f"{hint}; allowed are {FUNCTIONS}"
