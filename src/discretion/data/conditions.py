"""Conditions on records: comparisons of a column with constants, AND, OR, NOT; in rules also sums of columns.

Negation is two-valued: a comparison is never fulfilled by a missing value, and `Not` is the complement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from discretion.errors import DataError, QueryRefused

if TYPE_CHECKING:
    import polars as pl


# Numbers that can be computed with: infinity and numbers near it are refused, or bounded for private steps.


LARGEST = 1e150
"""The largest size of a number: the squares of larger ones, and their sums, are soon infinite."""


_BOUND = 1e18
"""Where numbers are bounded: its square fits into the shortest floats that models use."""
_bounded: ContextVar[bool] = ContextVar("bounded", default=False)


@contextmanager
def bounding_numbers(wanted: bool) -> Iterator[None]:
    """Read data for a private step: a number that is too large is bounded; an error would tell of a person."""
    token = _bounded.set(wanted or _bounded.get())
    try:
        yield
    finally:
        _bounded.reset(token)


def finite(frame: pl.DataFrame) -> pl.DataFrame:
    """Raise if a column has infinity or numbers beyond `LARGEST`; says which and how many, never the values."""
    import polars as pl
    import polars.selectors as cs

    if _bounded.get():
        return frame.with_columns(cs.float().clip(-_BOUND, _BOUND))
    ends = frame.select(cs.float().abs().max())
    bad = [one.name for one in ends if one.item() is not None and one.item() > LARGEST]
    if not bad:
        return frame
    infinite = frame.select(pl.col(bad).is_infinite().sum())
    beyond = frame.select((pl.col(bad).is_finite() & (pl.col(bad).abs() > LARGEST)).sum())
    declare = "if they stand for missing values, declare them as a missing code"
    found = (
        ("infinite values", infinite, "replace them or declare a missing code"),
        (f"numbers beyond ±{LARGEST:g}", beyond, declare),
    )
    problems = []
    for what, counts, hint in found:
        if listed := [f"{one.name!r} ({one.item()})" for one in counts if one.item()]:
            problems.append(f"{what} in {', '.join(listed)}; {hint}")
    raise DataError("\n".join(problems))


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
