"""Conditions that records must fulfil, written as in a WHERE, and the records of a frame that break them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.data.conditions import And, Condition, Everything, Filter, Not, Or, comparisons
from discretion.errors import PlanError, QueryRefused, need, unknown
from discretion.kernels.arrays import Bools

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


@dataclass(frozen=True)
class LevelRule:
    """A condition with the text it was written as."""

    text: str
    where: Filter

    @property
    def columns(self) -> frozenset[str]:
        """The columns it is about."""
        return frozenset(condition.column for condition in comparisons(self.where))

    def broken(self, frame: pl.DataFrame) -> Bools:
        """Tell which rows break the rule; a comparison with a missing value does not hold."""
        try:
            return ~frame.select(_expression(self.where, frame.schema)).to_series().to_numpy()
        except Exception as error:
            if isinstance(error, PlanError):
                raise PlanError(f"the rule {self.text!r}: {error}") from None
            raise PlanError(
                f"the rule {self.text!r} compares a column with a constant of another type "
                f"(columns {', '.join(sorted(self.columns))})"
            ) from None


def read_rules(texts: Sequence[str], columns: Sequence[str], who: str) -> tuple[LevelRule, ...]:
    """Read rules: comparisons of columns with constants, AND, OR, NOT, as in a WHERE of SQL."""
    return tuple(LevelRule(text, _read(text, columns, who)) for text in texts)


def _read(text: str, columns: Sequence[str], who: str) -> Filter:
    sqlglot = need("sqlglot", "a rule", "online")
    from sqlglot import exp

    from discretion.data.sql_filter import FilterReader, only

    def column(node: Any, what: str) -> str:
        if type(node) is not exp.Column or {k for k, v in node.args.items() if v} != {"this"}:
            raise QueryRefused(f"{what} takes the name of a column")
        if node.name not in columns:
            raise QueryRefused(unknown("column", node.name, columns))
        return str(node.name)

    try:
        tree = sqlglot.parse_one(f"SELECT 1 WHERE {text}", read="duckdb")
    except (Exception, RecursionError):
        example = "age >= 16 OR job IS NULL"
        raise PlanError(f"{who}: the rule {text!r} cannot be read; write it as in {example!r}") from None
    try:
        if type(tree) is not exp.Select:
            raise QueryRefused("one condition at a time")
        only(tree, {"expressions", "where"}, {})
        return FilterReader(column).read(tree.args.get("where"))
    except QueryRefused as error:
        raise PlanError(f"{who}: the rule {text!r}: {error}") from None


def _expression(where: Filter, schema: Any) -> pl.Expr:
    """Write a condition for polars; missing values fulfil no comparison."""
    import polars as pl

    if isinstance(where, Condition):
        return _comparison(where, schema)
    if isinstance(where, Not):
        return ~_expression(where.part, schema)
    if isinstance(where, And):
        return pl.all_horizontal([_expression(part, schema) for part in where.parts])
    if isinstance(where, Or):
        return pl.any_horizontal([_expression(part, schema) for part in where.parts])
    assert isinstance(where, Everything)
    return pl.lit(True)


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
        operators = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
        found = getattr(column, operators[where.op])(values[0])
    return found.fill_null(False)


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
