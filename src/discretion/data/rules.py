"""Conditions that records must fulfil, written as in a WHERE, and the records of a frame that break them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.data.conditions import And, Condition, Everything, Filter, Linear, Not, Or, columns_of
from discretion.errors import PlanError, QueryRefused, need, unknown
from discretion.kernels.arrays import Bools

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from discretion.data.dataset import Dataset


TOLERANCE = 1e-6
"""Sums hold up to this much of their largest term, and half a unit in the last place of whole numbers is no fault."""


@dataclass(frozen=True)
class LevelRule:
    """A condition with the text it was written as."""

    text: str
    where: Filter
    judges_missing: bool = True
    """whether a comparison with a missing value is broken; an edit rule cannot be judged there, and is not broken"""

    @property
    def columns(self) -> frozenset[str]:
        """The columns it is about."""
        return columns_of(self.where)

    @property
    def identity(self) -> Linear | None:
        """The sum that the rule says always holds, if it is one."""
        return self.where if isinstance(self.where, Linear) and self.where.op == "=" else None

    def broken(self, frame: pl.DataFrame) -> Bools:
        """Tell which rows break the rule."""
        try:
            held = frame.select(_expression(self.where, frame.schema, self.judges_missing)).to_series()
        except Exception as error:
            if isinstance(error, PlanError):
                raise PlanError(f"the rule {self.text!r}: {error}") from None
            raise PlanError(
                f"the rule {self.text!r} compares a column with a constant of another type "
                f"(columns {', '.join(sorted(self.columns))})"
            ) from None
        if len(held) != frame.height:  # a rule on no column at all
            held = held.new_from_index(0, frame.height)
        return ~held.fill_null(not self.judges_missing).to_numpy()


def read_rules(
    texts: Sequence[str], columns: Sequence[str] | None, who: str, *, judges_missing: bool = True
) -> tuple[LevelRule, ...]:
    """Read rules: comparisons of columns with constants or sums of columns, AND, OR, NOT, as in a WHERE of SQL.

    `condition -> condition` says what must hold where something else does. Without `columns` any name is one.
    """
    return tuple(LevelRule(text, _read(text, columns, who), judges_missing) for text in texts)


def read_edit_rules(texts: Sequence[str]) -> tuple[LevelRule, ...]:
    """Read the edit rules of a schema; sums that define each other in a circle are an error."""
    rules: list[LevelRule] = []
    problems: list[str] = []
    for text in texts:
        try:
            rules.append(read_rules([text], None, "edit_rules", judges_missing=False)[0])
        except PlanError as error:
            problems += error.problems
    if circle := _circle(rules):
        problems.append(f"edit_rules: the sums define each other in a circle: {' <- '.join(circle)}")
    if problems:
        raise PlanError(problems)
    return tuple(rules)


def _circle(rules: Sequence[LevelRule]) -> list[str]:
    """Find columns each of which is a sum of the next, the last of the first; empty where there are none."""
    parts: dict[str, set[str]] = {}
    for rule in rules:
        if (found := rule.identity) is not None and found.target:
            parts.setdefault(found.target, set()).update(name for name, _ in found.terms if name != found.target)

    def follow(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        return next((one for part in sorted(parts.get(name, ())) if (one := follow(part, [*path, name]))), [])

    return next((circle for name in parts if (circle := follow(name, []))), [])


def resummed(rules: Sequence[LevelRule], frame: pl.DataFrame) -> dict[str, pl.Series]:
    """Give the columns that sums define, made from their parts anew, those that others need first.

    Where a part or the sum itself is missing, the sum stays as it is.
    """
    import polars as pl

    found: dict[str, pl.Series] = {}
    waiting = [rule.identity for rule in rules if rule.identity is not None and rule.identity.target]
    sums = [one for one in waiting if one is not None and {name for name, _ in one.terms} <= set(frame.columns)]
    while sums:
        open_ = {one.target for one in sums}
        ready = next((one for one in sums if not open_ & {n for n, _ in one.terms if n != one.target}), sums[0])
        sums.remove(ready)
        factors = dict(ready.terms)
        kind = frame.schema[ready.target]
        total = pl.lit(ready.constant)
        for name, factor in factors.items():
            if name != ready.target:
                total = total - factor * pl.col(name).cast(pl.Float64)
        total = total / factors[ready.target]
        new = (total.round() if kind.is_integer() else total).cast(kind)
        kept = new.is_null() | pl.col(ready.target).is_null()
        frame = frame.with_columns(pl.when(kept).then(pl.col(ready.target)).otherwise(new).alias(ready.target))
        found[ready.target] = frame[ready.target]
    return found


def _read(text: str, columns: Sequence[str] | None, who: str) -> Filter:
    if not isinstance(text, str):
        raise PlanError(f"{who}: a rule is a text, as 'age >= 16 OR job IS NULL'")
    sides = _implied(text)
    if len(sides) > 2:
        raise PlanError(f"{who}: the rule {text!r} has several arrows; write one rule for each")
    read = [_condition(side, text, columns, who) for side in sides]
    return read[0] if len(read) == 1 else Or((Not(read[0]), read[1]))


def _implied(text: str) -> list[str]:
    """Split a rule at its arrows, those inside quotes excepted."""
    return ["".join(part) for part in re.split(r"->(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)", text)]


def _condition(side: str, text: str, columns: Sequence[str] | None, who: str) -> Filter:
    sqlglot = need("sqlglot", "a rule", "online")
    from sqlglot import exp

    from discretion.data.sql_filter import FilterReader, only

    def column(node: Any, what: str) -> str:
        if type(node) is not exp.Column or {k for k, v in node.args.items() if v} != {"this"}:
            raise QueryRefused(f"{what} takes the name of a column")
        if columns is not None and node.name not in columns:
            raise QueryRefused(unknown("column", node.name, columns))
        return str(node.name)

    try:
        tree = sqlglot.parse_one(f"SELECT 1 WHERE {_single_quoted(side, columns)}", read="duckdb")
    except (Exception, RecursionError):
        example = "age >= 16 OR job IS NULL"
        raise PlanError(f"{who}: the rule {text!r} cannot be read; write it as in {example!r}") from None
    try:
        if type(tree) is not exp.Select:
            raise QueryRefused("one condition at a time")
        only(tree, {"expressions", "where"}, {})
        if tree.args.get("where") is None:
            raise QueryRefused("a condition is missing")
        return FilterReader(column, arithmetic=True).read(tree.args.get("where"))
    except QueryRefused as error:
        raise PlanError(f"{who}: the rule {text!r}: {error}") from None


def _single_quoted(side: str, columns: Sequence[str] | None) -> str:
    """Read `== "single"` as a comparison with a text: after an operator double quotes hold no column.

    Where the columns are known, one of that name is meant all the same.
    """

    def text(found: re.Match[str]) -> str:
        inner = found.group(2)
        if columns is not None and inner in columns:
            return found.group(0)
        return found.group(1) + "'" + inner.replace("'", "''") + "'"

    return re.sub(r"((?:[=<>(,]|\bIN\b)\s*)\"([^\"]*)\"", text, side)


def _expression(where: Filter, schema: Any, judges_missing: bool) -> pl.Expr:
    """Write a condition for polars; missing values fulfil no comparison, or leave it unknown."""
    import polars as pl

    if isinstance(where, Condition):
        found = _comparison(where, schema)
        return found.fill_null(False) if judges_missing else found
    if isinstance(where, Linear):
        found = _sum(where, schema)
        return found.fill_null(False) if judges_missing else found
    if isinstance(where, Not):
        return ~_expression(where.part, schema, judges_missing)
    if isinstance(where, And):
        return pl.all_horizontal([_expression(part, schema, judges_missing) for part in where.parts])
    if isinstance(where, Or):
        return pl.any_horizontal([_expression(part, schema, judges_missing) for part in where.parts])
    assert isinstance(where, Everything)
    return pl.lit(True)


_POLARS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _sum(where: Linear, schema: Any) -> pl.Expr:
    """Write a comparison of sums; two columns of dates or texts are compared as they are."""
    import polars as pl

    kinds = [schema[name] for name, _ in where.terms]
    factors = [factor for _, factor in where.terms]
    if not all(kind.is_numeric() for kind in kinds):
        if sorted(factors) != [-1.0, 1.0] or where.constant or kinds[0] != kinds[1]:
            raise PlanError("only numbers can be added up and compared")
        left, right = (pl.col(name) for name, _ in sorted(where.terms, key=lambda term: -term[1]))
        expression: pl.Expr = getattr(left, _POLARS[where.op])(right)
        return expression
    columns = [pl.col(name).cast(pl.Float64).fill_nan(None) * factor for name, factor in where.terms]
    total = columns[0]
    size = columns[0].abs()
    for column in columns[1:]:
        total, size = total + column, size + column.abs()
    gap, slack = total - where.constant, TOLERANCE * size + TOLERANCE
    if where.op in ("=", "!="):
        same = gap.abs() <= slack
        return same if where.op == "=" else ~same
    if where.op in ("<=", "<"):
        return gap <= slack if where.op == "<=" else gap < -slack
    return gap >= -slack if where.op == ">=" else gap > slack


def _comparison(where: Condition, schema: Any) -> pl.Expr:
    import polars as pl

    kind = schema[where.column]
    column = pl.col(where.column)
    if kind.is_float():
        column = column.fill_nan(None)
    if where.op in ("is-missing", "not-missing"):
        return column.is_null() if where.op == "is-missing" else column.is_not_null()
    if kind in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    values = [_constant(value, kind, where.column) for value in where.values]
    if where.op == "in":
        found = pl.any_horizontal([column == value for value in values])
    elif where.op == "between":
        found = (column >= values[0]) & (column <= values[1])
    else:
        found = getattr(column, _POLARS[where.op])(values[0])
    return found


def _constant(value: Any, kind: Any, name: str) -> Any:
    import polars as pl

    if kind.is_temporal() and isinstance(value, str):
        return (
            pl.lit(value).cast(pl.String).str.to_datetime().cast(kind)
            if kind != pl.Date
            else pl.lit(value).str.to_date()
        )
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if kind.is_numeric() != numeric:
        raise PlanError(f"column {name!r} of the type {kind} is compared with a constant of another type")
    return pl.lit(value)


def edit_rules_of(data: Dataset, texts: Sequence[str], who: str) -> tuple[LevelRule, ...]:
    """Give the edit rules that are named, or those of the data's schema; none at all is an error."""
    rules = read_edit_rules(tuple(texts) or data.schema.edit_rules)
    if not rules:
        raise PlanError(f"{who}: there are no edit rules; write them under `edit_rules` in the plan, or as `rules`")
    lacking = [(rule, name) for rule in rules for name in sorted(rule.columns - {*data.columns})]
    if texts and lacking:
        raise PlanError(
            [f"{who}: the rule {rule.text!r}: {unknown('column', name, data.columns)}" for rule, name in lacking]
        )
    return rules


def broken_rows(rule: LevelRule, data: Dataset) -> Bools | None:
    """Tell which records break an edit rule; None where its columns are not there, or no longer of that type.

    A suppressed value could be any: a record that has one in the rule's columns breaks nothing.
    """
    if not rule.columns <= {*data.columns}:
        return None
    try:
        found = rule.broken(data.frame.select(sorted(rule.columns)))
    except PlanError:
        return None
    for name in rule.columns:
        found &= ~data.suppressed(name)
    return found
