"""What a question needs: the noisy numbers it is computed from, each paid for once, and their parts of the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from discretion.errors import PlanError, QueryRefused
from discretion.online.backend import Bounded
from discretion.online.catalog import TableSpec
from discretion.online.column import ColumnSpec
from discretion.online.dp import sensitivity
from discretion.online.dp.sensitivity import MANY, Sensitivity, Unit
from discretion.online.query import Aggregate, Query

Kind = Literal[
    "keys", "rows", "present", "distinct", "total", "centered", "spread", "bins", "quantile", "min", "max", "mode"
]

RECIPES: dict[str, tuple[Kind, ...]] = {
    "count": ("rows",),
    "count-distinct": ("distinct",),
    "sum": ("total",),
    "mean": ("present", "centered"),
    "variance": ("present", "centered", "spread"),
    "histogram": ("bins",),
    "quantile": ("quantile",),
    "min": ("min",),
    "max": ("max",),
    "mode": ("mode",),
}
"""What each function is computed from. The parts of one function have equal shares of its loss: it is spent once."""
CHOICES: tuple[Kind, ...] = ("quantile", "min", "max", "mode")
_FINE = 2**30
"""a sum is counted in steps so that one row is at most this many of them, which leaves room for 2³² rows"""


def center(column: ColumnSpec) -> int:
    """Give the middle code: sums of distances to it need half the noise, and its multiple is added afterwards."""
    low, high = column.codes
    return (low + high) // 2


def reach(column: ColumnSpec) -> int:
    """Give the largest distance of a code to the middle."""
    low, high = column.codes
    return max(high - center(column), center(column) - low)


def half_square(column: ColumnSpec) -> int:
    """Give the middle of the squared distances."""
    return reach(column) ** 2 // 2


@dataclass(frozen=True)
class Ingredient:
    """One noisy number per cell, or one choice per group."""

    kind: Kind
    place: int
    """the aggregate whose figures hold it"""
    aggregate: Aggregate
    weight: Fraction
    """its part of the loss of the whole answer"""
    sensitivity: Sensitivity | None
    """of the numbers in their steps; choices know their own"""
    step: int = 1
    """units of the code that one step is worth"""

    @property
    def name(self) -> tuple[object, ...]:
        """What makes two ingredients the same."""
        return name_of(self.kind, self.aggregate)

    def numbers(self, group: Bounded, column: ColumnSpec | None) -> tuple[int, ...]:
        """Read the true numbers of a group, in steps."""
        if self.kind == "rows":
            return (group.rows,)
        figure = group.figures[self.place]
        if self.kind == "bins":
            return figure.bins
        if self.kind in ("present", "distinct"):
            return (figure.present if self.kind == "present" else figure.distinct,)
        if column is None:
            raise PlanError("a sum needs a column")
        middle = center(column)
        if self.kind == "total":
            return (figure.total // self.step,)
        if self.kind == "centered":
            return ((figure.total - middle * figure.present) // self.step,)
        squares = figure.squares - 2 * middle * figure.total + middle * middle * figure.present
        return ((squares - half_square(column) * figure.present) // self.step,)


def name_of(kind: Kind, aggregate: Aggregate) -> tuple[object, ...]:
    """Name an ingredient: figures of the same column share their number of values and their sums."""
    if kind in ("rows", "keys"):
        return (kind,)
    if kind in ("bins", *CHOICES):
        return (kind, aggregate.column, aggregate.share, aggregate.cuts)
    return (kind, aggregate.column)


def ingredients(query: Query, table: TableSpec, groups: int) -> tuple[Ingredient, ...]:
    """List what the answer is made of; the weights add up to one.

    Where keys must pass a threshold (`groups` is `MANY`), counting the people behind them is one more part; with one
    row per person these are the rows, and a count is read off them instead of being paid for again.
    """
    by_threshold = groups >= MANY
    reads_keys = by_threshold and table.rows_per_person == 1
    pieces: list[tuple[Kind, int, Fraction]] = []
    for place, aggregate in enumerate(query.aggregates):
        recipe = RECIPES[aggregate.function]
        for kind in recipe:
            real: Kind = "keys" if kind == "rows" and reads_keys else kind
            pieces.append((real, place, Fraction(1, len(recipe))))
    if by_threshold and not any(kind == "keys" for kind, _, _ in pieces):
        pieces.append(("keys", 0, Fraction(1)))
    whole = sum(weight for _, _, weight in pieces)
    merged: dict[tuple[object, ...], Ingredient] = {}
    for kind, place, weight in pieces:
        aggregate = query.aggregates[place]
        name = name_of(kind, aggregate)
        earlier = merged[name].weight if name in merged else Fraction(0)
        merged[name] = _ingredient(kind, place, aggregate, earlier + weight / whole, table, groups)
    return tuple(merged.values())


def _ingredient(
    kind: Kind, place: int, aggregate: Aggregate, weight: Fraction, table: TableSpec, groups: int
) -> Ingredient:
    unit = Unit.of(table)
    if kind in CHOICES:
        if kind == "mode" and not table.column(aggregate.column or "").keys:
            raise QueryRefused("the column has no declared categories to choose the most frequent one from")
        if kind != "mode" and aggregate.column is not None:
            table.column(aggregate.column).required_limits()
        return Ingredient(kind, place, aggregate, weight, None)
    if kind == "keys":
        return Ingredient(kind, place, aggregate, weight, sensitivity.people(unit, groups))
    if kind == "bins":
        cells = min(groups * (len(aggregate.cuts) - 1), MANY)
        return Ingredient(kind, place, aggregate, weight, sensitivity.counts(unit, cells))
    if kind in ("rows", "present"):
        return Ingredient(kind, place, aggregate, weight, sensitivity.counts(unit, groups))
    if kind == "distinct":
        return Ingredient(kind, place, aggregate, weight, sensitivity.distinct(unit, groups))
    low, high = _span(kind, table.column(aggregate.column or ""))
    found = sensitivity.totals(unit, low, high, groups)
    step = 2 ** max(0, math.ceil(math.log2(max(abs(low), abs(high), 1) / _FINE)))
    return Ingredient(kind, place, aggregate, weight, found.coarsened(step), step)


def _span(kind: Kind, column: ColumnSpec) -> tuple[int, int]:
    """Give what one row can add to a sum, at least and at most."""
    low, high = column.codes
    if kind == "total":
        return low, high
    if kind == "centered":
        return low - center(column), high - center(column)
    return -half_square(column), reach(column) ** 2 - half_square(column)
