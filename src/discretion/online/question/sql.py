"""SQL to a `Query`: one SELECT of aggregates from one declared table; everything else is refused with the reason.

The text is taken apart into a syntax tree, each node that a question may have is looked at by itself, with every
entry it has, and what was not expected is refused. Reasons name what is allowed; they never repeat the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.data.conditions import And, Condition, is_text
from discretion.data.sql_filter import FilterReader, only, plain_number
from discretion.errors import QueryRefused, did_you_mean
from discretion.online.declare.catalog import ServiceSpec, TableSpec, checked_name, tables_of
from discretion.online.question.query import Aggregate, Function, Query, admit, told_apart

if TYPE_CHECKING:
    from sqlglot import exp

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
