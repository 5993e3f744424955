"""Conditions that records must fulfil, written as in a WHERE, and the records of a frame that break them."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discretion.data.hierarchy import ENDS, canonical, end_or_nan, interval_bounds
from discretion.data.sql_filter import And, Condition, Everything, Filter, Linear, Not, Or, columns_of
from discretion.errors import PlanError, QueryRefused, unknown
from discretion.kernels.arrays import Bools, Ints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    problems += [
        f"edit_rules: no value of {name!r} fulfils the ranges of the rules"
        for name in _empty(rule.where for rule in rules)
    ]
    if circle := _circle(rules):
        problems.append(f"edit_rules: the sums define each other in a circle: {' <- '.join(circle)}")
    problems = problems or list(_contradictions(tuple(rules)))
    if problems:
        raise PlanError(problems)
    return tuple(rules)


@cache
def _contradictions(rules: tuple[LevelRule, ...]) -> tuple[str, ...]:
    """Word which rules no record without missing values can keep together, also those that a condition brings in.

    A condition that the ranges and sums exclude anyway is no fault: the rule then says nothing.
    """
    found: list[str] = []
    joined: list[list[LevelRule]] = []
    for rule in rules:  # those without a common column do not touch each other
        near = [group for group in joined if any(rule.columns & one.columns for one in group)]
        joined = [group for group in joined if group not in near] + [[*(one for group in near for one in group), rule]]
    for group in joined:
        found += _contradicting([rule for rule in rules if rule in group]) if len(group) > 1 else []
    return tuple(dict.fromkeys(found))


def _contradicting(rules: Sequence[LevelRule]) -> list[str]:
    if not _possible([rule.where for rule in rules]):
        return [f"edit_rules: no record can keep these rules together: {_fewest(rules, None)}"]
    found = []
    always = [rule.where for rule in rules if not isinstance(rule.where, Or)]
    for rule in rules:
        where = rule.where
        if not (isinstance(where, Or) and len(where.parts) == 2 and isinstance(where.parts[0], Not)):
            continue
        given = where.parts[0].part
        if _possible([given, *always]) and not _possible([given, *(one.where for one in rules)]):
            said = _implied(rule.text)[0].strip()
            found.append(f"edit_rules: where {said}, these rules cannot be kept together: {_fewest(rules, given)}")
    return found


def _fewest(rules: Sequence[LevelRule], given: Filter | None) -> str:
    """Leave out every rule without which the others still cannot be kept; give the texts of the rest."""
    left, more = list(rules), [] if given is None else [given]
    for rule in rules:
        fewer = [one for one in left if one is not rule]
        if not _possible([*more, *(one.where for one in fewer)]):
            left = fewer
    return "; ".join(repr(rule.text) for rule in left)


_MOST_BRANCHES = 300
"""Branches up to which alternatives are followed; what is left then is taken to be possible."""
_OPPOSITE: dict[str, Any] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
                             "is-missing": "not-missing", "not-missing": "is-missing"}  # fmt: skip


def _possible(wanted: Sequence[Filter]) -> bool:
    """Tell whether a record can fulfil conditions, following their alternatives; numbers need not be whole."""
    branches = 0

    def follow(open_: list[Filter], held: list[Condition | Linear]) -> bool:
        nonlocal branches
        branches += 1
        held, choices = list(held), []
        while open_:
            part = _unfolded(open_.pop())
            if isinstance(part, And):
                open_ = [*open_, *part.parts]
            elif isinstance(part, Or):
                choices.append(part)
            elif isinstance(part, Condition | Linear):
                held.append(part)
        if branches > _MOST_BRANCHES:
            return True
        if not _consistent(held, sums=branches < 10 or not choices):
            return False
        choices.sort(key=lambda one: len(one.parts))
        return not choices or any(follow([part, *choices[1:]], held) for part in choices[0].parts)

    return follow(list(wanted), [])


def _unfolded(where: Filter) -> Filter:
    """Write a condition with comparisons that are not negated, and of numbers by <, <=, >, >= and = alone."""
    if isinstance(where, Not):
        part = where.part
        if isinstance(part, Not):
            return _unfolded(part.part)
        if isinstance(part, And | Or):
            other = Or if isinstance(part, And) else And
            return other(tuple(Not(one) for one in part.parts))
        if isinstance(part, Everything):
            return Or(())
        if isinstance(part, Linear):
            return _unfolded(replace(part, op=_OPPOSITE[part.op]))
        if part.op == "between":
            return Or((Condition(part.column, "<", part.values[:1]), Condition(part.column, ">", part.values[1:])))
        if part.op == "in":
            return And(tuple(Condition(part.column, "!=", (value,)) for value in part.values))
        return _unfolded(Condition(part.column, _OPPOSITE[part.op], part.values))
    if isinstance(where, Linear) and where.op == "!=":
        return Or((replace(where, op="<"), replace(where, op=">")))
    if isinstance(where, Condition) and where.op == "between":
        return And((Condition(where.column, ">=", where.values[:1]), Condition(where.column, "<=", where.values[1:])))
    if isinstance(where, Condition) and where.values and all(_is_number(value) for value in where.values):
        if where.op == "in":
            return Or(tuple(Condition(where.column, "=", (value,)) for value in where.values))
        if where.op == "!=":
            return Or((Condition(where.column, "<", where.values), Condition(where.column, ">", where.values)))
    return where


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _consistent(held: Sequence[Condition | Linear], *, sums: bool) -> bool:
    """Tell whether comparisons can hold at once: texts by sets, numbers by ranges, `sums` by a linear program too.

    What is missing breaks no comparison; texts by their order are not looked at.
    """
    named = [one for one in held if isinstance(one, Condition)]
    missing = {one.column for one in named if one.op == "is-missing"}
    if missing & {one.column for one in named if one.op == "not-missing"}:
        return False
    numbers: list[Linear] = []
    allowed: dict[str, set[Any]] = {}
    for one in held:
        if isinstance(one, Linear):
            numbers += [one] if not missing & {name for name, _ in one.terms} else []
        elif one.column in missing or not one.values:
            continue
        elif all(_is_number(value) for value in one.values):
            numbers.append(Linear(((one.column, 1.0),), cast("Any", one.op), float(one.values[0])))
        elif one.op in ("=", "in"):
            allowed[one.column] = allowed.get(one.column, {*one.values}) & {*one.values}
    for one in named:
        if one.op == "!=" and one.column in allowed:
            allowed[one.column] -= {*one.values}
    ranges = [Condition(one.terms[0][0], one.op, (one.constant,)) for one in numbers if len(one.terms) == 1]
    if not all(allowed.values()) or _empty(ranges):
        return False
    added = {name for one in numbers if sums and len(one.terms) > 1 for name, _ in one.terms}
    return not added or _solvable(frozenset(one for one in numbers if one.terms[0][0] in added))


@cache
def _solvable(sums: frozenset[Linear]) -> bool:
    """Tell whether numbers fulfil all of some linear comparisons, by the largest margin of the strict ones."""
    from scipy.optimize import linprog

    place = {name: number for number, name in enumerate(dict.fromkeys(name for one in sums for name, _ in one.terms))}
    equal: list[tuple[Any, float]] = []
    below: list[tuple[Any, float]] = []
    for one in sums:
        row = np.zeros(len(place) + 1)
        for name, factor in one.terms:
            row[place[name]] += factor
        if one.op == "=":
            equal.append((row, one.constant))
            continue
        sign = -1.0 if one.op in (">", ">=") else 1.0
        row *= sign
        row[-1] = 1.0 if one.op in ("<", ">") else 0.0
        below.append((row, sign * one.constant))
    strict = any(row[-1] for row, _ in below)
    (a, b), (c, d) = (
        (np.array([row for row, _ in given]), [end for _, end in given]) if given else (None, None)
        for given in (below, equal)
    )
    aim = np.append(np.zeros(len(place)), -1.0)
    found = linprog(aim, A_ub=a, b_ub=b, A_eq=c, b_eq=d, bounds=[(None, None)] * len(place) + [(0, 1)])
    return found.status != 2 and not (strict and found.status == 0 and -(found.fun or 0.0) < 1e-7)


def _empty(conditions: Iterable[Filter]) -> list[str]:
    """Name the columns whose ranges have nothing in common."""
    ends: dict[str, list[tuple[float, bool]]] = {}
    for where in conditions:
        numbers = [float(one) for one in getattr(where, "values", ()) if isinstance(one, int | float)]
        if not isinstance(where, Condition) or not numbers:
            continue
        low, high = ends.setdefault(where.column, [(-np.inf, False), (np.inf, False)])
        if where.op in (">", ">=", "between", "="):
            low = max(low, (numbers[0], where.op == ">"))
        if where.op in ("<", "<=", "between", "="):
            high = min(high, (numbers[-1], where.op != "<"))
        ends[where.column] = [low, high]
    return [
        name
        for name, ((low, above), (high, within)) in ends.items()
        if low > high or (low == high and (above or not within))
    ]


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
    import sqlglot
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
    """Tell which records break an edit rule; None where it cannot be judged of any, see `judge_rule`."""
    found = judge_rule(rule, data)
    return None if found is None else found.broken


@dataclass(frozen=True, eq=False)
class RuleJudgement:
    """Which records break a rule, and of which the published ranges do not say whether they do."""

    broken: Bools
    undecided: Bools


def judge_rule(rule: LevelRule, data: Dataset) -> RuleJudgement | None:
    """Judge a rule record by record; None where its columns are not there, or nothing in them can be compared.

    A suppressed value could be any: a record that has one in the rule's columns breaks nothing. A generalized value (an
    interval, a set, a label of the column's hierarchy) breaks a rule where every value that it stands for does.
    """
    if not rule.columns <= {*data.columns}:
        return None
    frame = data.frame.select(sorted(rule.columns))
    coarse = {name: found for name in frame.columns if (found := _coarse(rule, data, name)) is not None}
    undecided = np.zeros(len(data), np.bool_)
    if coarse:
        try:
            holds, breaks = _surely(rule.where, frame, coarse)
        except PlanError:
            return None
        broken = breaks
        undecided = ~(holds | breaks)
        for name in coarse:
            undecided &= frame[name].is_not_null().to_numpy()
    else:
        try:
            broken = rule.broken(frame)
        except PlanError:
            return None
    for name in rule.columns:
        broken, undecided = broken & ~data.suppressed(name), undecided & ~data.suppressed(name)
    return None if coarse and undecided.sum() == len(data) else RuleJudgement(broken, undecided)


def check_edit_rules(data: Dataset) -> None:
    """Refuse edit rules that compare columns of the original with something of another type; all at once."""
    problems = []
    for rule in read_edit_rules(data.schema.edit_rules):
        if not rule.columns <= {*data.columns}:
            continue
        coarse = {name: found for name in sorted(rule.columns) if (found := _coarse(rule, data, name)) is not None}
        problems += [
            f"edit_rules: the rule {rule.text!r} compares the column {name!r}, which holds texts, with numbers"
            for name, found in coarse.items()
            if all(one is None or one == _ANY for one in found.stands) and data.count_missing(name) < len(data)
        ]
        try:
            if not coarse:
                rule.broken(data.frame.select(sorted(rule.columns)))
        except PlanError as error:
            problems += [f"edit_rules: {text}" for text in error.problems]
    if problems:
        raise PlanError(problems)


_ANY = (-np.inf, np.inf, ())
"""A label that may stand for every value."""
_Stands = tuple[float, float, tuple[str, ...]]
"""The smallest and the largest number that a label stands for, and the texts; without texts a range of numbers."""


@dataclass(frozen=True, eq=False)
class _CoarseColumn:
    """What the labels of a column stand for, and the label of each record (the last one: missing)."""

    stands: tuple[_Stands | None, ...]
    label: Ints


def _coarse(rule: LevelRule, data: Dataset, name: str) -> _CoarseColumn | None:
    """Give what the values of a column stand for, if some of them are ranges or names of groups."""
    import polars as pl

    if data.frame.schema[name] not in (pl.String, pl.Categorical, pl.Enum):
        return None
    origin = data.origin
    known = origin is not data and name in origin.columns
    kind = origin.frame.schema[name] if known else pl.String()
    numeric = kind.is_numeric() or kind.is_temporal() or (not known and name in _numeric_columns(rule.where))
    codes = data.codes(name)
    texts = [None if value is None else canonical(value) for value in codes.values]
    if not numeric:
        own = {canonical(value) for value in origin.codes(name).values if value is not None} if known else set()
        if not known or {text for text in texts if text is not None} <= own:
            return None
    else:
        own = set()
    below = _leaves(data, name)
    stands = tuple(
        None if text is None else _stands(text, below.get(text, ()), text in own, numeric, kind.is_integer())
        for text in texts
    )
    return _CoarseColumn((*stands, None), np.asarray(codes.codes, np.int64))


def _leaves(data: Dataset, name: str) -> dict[str, tuple[str, ...]]:
    """Give the values below each label of a column's hierarchy."""
    from discretion.errors import DataError

    if name not in data.origin.columns or data.origin.schema[name].hierarchy is None:
        return {}
    try:
        table = data.hierarchy(name).table
    except DataError:
        return {}
    found: dict[str, set[str]] = {}
    for level in table[1:]:
        for leaf, label in zip(table[0], level, strict=True):
            found.setdefault(label, set()).add(leaf)
    return {label: tuple(sorted(leaves)) for label, leaves in found.items()}


def _stands(text: str, leaves: tuple[str, ...], own: bool, numeric: bool, whole: bool) -> _Stands:
    """Tell what a label stands for: numbers between two ends, or one of some texts."""
    if not numeric:
        members = re.fullmatch(r"\{(.+)\}", text, re.DOTALL)
        listed = (text,) if own else leaves or (tuple(members[1].split(", ")) if members else ())
        return (np.nan, np.nan, listed) if listed else _ANY
    bounds = interval_bounds(text)
    if bounds is None:
        numbers = [end_or_nan(read, one) for one in (leaves or (text,)) for read in ENDS[: 1 if leaves else 2]]
        known = [number for number in numbers if not np.isnan(number)]
        complete = known and (not leaves or len(known) == len(leaves))
        return (min(known), max(known), ()) if complete else _ANY
    _, low, high, closed = bounds  # not the values of the hierarchy: it may have those of the data alone
    if whole:
        low = low if np.isinf(low) else (np.ceil(low) if closed[0] else np.floor(low) + 1)
        high = high if np.isinf(high) else (np.floor(high) if closed[1] else np.ceil(high) - 1)
    else:
        low = low if closed[0] else np.nextafter(low, np.inf)
        high = high if closed[1] else np.nextafter(high, -np.inf)
    return float(low), float(high), ()


def _numeric_columns(where: Filter) -> set[str]:
    """Name the columns that a condition compares with numbers or adds up."""
    if isinstance(where, Condition):
        number = any(isinstance(value, int | float) and not isinstance(value, bool) for value in where.values)
        return {where.column} if number else set()
    if isinstance(where, Linear):
        return {name for name, _ in where.terms}
    parts = (where.part,) if isinstance(where, Not) else where.parts if isinstance(where, And | Or) else ()
    return {name for part in parts for name in _numeric_columns(part)}


def _surely(where: Filter, frame: pl.DataFrame, coarse: dict[str, _CoarseColumn]) -> tuple[Bools, Bools]:
    """Tell of which records a condition holds, and of which it does not, whatever their ranges stand for."""
    if isinstance(where, Not):
        holds, breaks = _surely(where.part, frame, coarse)
        return breaks, holds
    if isinstance(where, And | Or):
        parts = [_surely(part, frame, coarse) for part in where.parts]
        every, some = (0, 1) if isinstance(where, And) else (1, 0)
        found = {
            every: np.logical_and.reduce([part[every] for part in parts]),
            some: np.logical_or.reduce([part[some] for part in parts]),
        }
        return found[0], found[1]
    if isinstance(where, Linear) and any(name in coarse for name, _ in where.terms):
        return _sum_between(where, frame, coarse)
    if isinstance(where, Condition) and where.column in coarse:
        column = coarse[where.column]
        table = np.array([_label_holds(where, one) for one in column.stands], np.bool_).reshape(-1, 2)
        holds, breaks = table[column.label].T
        return holds, breaks
    held = frame.select(_expression(where, frame.schema, False)).to_series()
    if len(held) != frame.height:
        held = held.new_from_index(0, frame.height)
    return held.fill_null(False).to_numpy(), (~held).fill_null(False).to_numpy()


def _label_holds(where: Condition, stands: _Stands | None) -> tuple[bool, bool]:
    """Tell whether a comparison holds for all, and for none, of what a label stands for."""
    if where.op in ("is-missing", "not-missing"):
        return (stands is None) == (where.op == "is-missing"), (stands is None) != (where.op == "is-missing")
    if stands is None or stands == _ANY:
        return False, False
    low, high, texts = stands
    if texts:
        values = [str(value) for value in where.values]
        found = [_compared(text, where.op, values) for text in texts]
        return all(found), not any(found)
    ends = [float(v) if not isinstance(v, str) else end_or_nan(ENDS[1], v) for v in where.values]
    if any(np.isnan(end) for end in ends):
        return False, False
    if where.op in ("=", "in", "!="):
        same, apart = low == high and low in ends, not any(low <= end <= high for end in ends)
        return (apart, same) if where.op == "!=" else (same, apart)
    if where.op == "between":
        return ends[0] <= low and high <= ends[1], high < ends[0] or low > ends[1]
    first, second = (low, high) if where.op in (">", ">=") else (high, low)
    return _compared(first, where.op, ends), not _compared(second, where.op, ends)


def _compared(value: Any, op: str, values: Sequence[Any]) -> bool:
    if op == "in":
        return value in values
    if op == "between":
        return bool(values[0] <= value <= values[1])
    return bool(getattr(operator, _POLARS[op])(value, values[0]))


def _sum_between(where: Linear, frame: pl.DataFrame, coarse: dict[str, _CoarseColumn]) -> tuple[Bools, Bools]:
    """Judge a sum by the smallest and the largest that it can be."""
    import polars as pl

    low = high = size = np.zeros(frame.height)
    for name, factor in where.terms:
        if name in coarse:
            ends = np.array([(np.nan, np.nan) if one is None or one[2] else one[:2] for one in coarse[name].stands])
            ends = ends[coarse[name].label].T * factor
        elif frame.schema[name].is_numeric():
            ends = np.tile(frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy() * factor, (2, 1))
        else:
            raise PlanError("only numbers can be added up and compared")
        low, high = low + ends.min(axis=0), high + ends.max(axis=0)
        size = size + np.where(np.isfinite(ends), np.abs(ends), 0.0).max(axis=0)
    low, high, slack = low - where.constant, high - where.constant, TOLERANCE * size + TOLERANCE
    near = (np.abs(low) <= slack) & (np.abs(high) <= slack), (low > slack) | (high < -slack)
    found = {
        "=": near,
        "!=": near[::-1],
        "<=": (high <= slack, low > slack),
        "<": (high < -slack, low >= -slack),
        ">=": (low >= -slack, high < -slack),
        ">": (low > slack, high <= slack),
    }
    return found[where.op]
