"""Private answers: what they cost before anything is spent, figures with noise, and what is known about their error."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.native import bounding_numbers
from discretion.data.sql_filter import Scalar
from discretion.errors import DataError, PlanError, QueryRefused
from discretion.method import Decision, Method
from discretion.online.backends import Backend, Bounded, GroupKey
from discretion.online.declare import ColumnSpec, DpPolicy, TableSpec
from discretion.online.dp import sensitivity
from discretion.online.dp.mechanisms import (
    Additive,
    Extreme,
    ExtremeValue,
    ModalCategory,
    PrivacyLoss,
    QuantileValue,
    ThresholdedCounts,
)
from discretion.online.dp.sensitivity import MANY, Sensitivity, Unit
from discretion.online.ledger import Limit
from discretion.online.question.answer import (
    AnswerFigures,
    Desk,
    Estimate,
    Reply,
    RequestedAccuracy,
    TableBudget,
    Value,
    whole,
)
from discretion.online.question.query import Aggregate, Query, admit
from discretion.part import find, parse
from discretion.privacy.accounting import (
    FREE,
    MICRO,
    NANO,
    Cost,
    Number,
    PrivacyFilter,
    cost,
    exact,
    nano_rho_within,
    units_up,
)

if TYPE_CHECKING:
    import polars as pl

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
    """Return the middle code: sums of distances to it need half the noise, and its multiple is added afterwards."""
    low, high = column.codes
    return (low + high) // 2


def reach(column: ColumnSpec) -> int:
    """Return the largest distance of a code to the middle."""
    low, high = column.codes
    return max(high - center(column), center(column) - low)


def half_square(column: ColumnSpec) -> int:
    """Return the middle of the squared distances."""
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
    """Return what one row can add to a sum, at least and at most."""
    low, high = column.codes
    if kind == "total":
        return low, high
    if kind == "centered":
        return low - center(column), high - center(column)
    return -half_square(column), reach(column) ** 2 - half_square(column)


# From noisy numbers to figures with intervals. Nothing here sees the data: what is computed from noise costs nothing.
#
# The intervals hold the figure that clamped, bounded data give, with the stated probability over the noise alone; they
# say nothing about sampling, and nothing about what clamping and bounding changed.

ErrorOf = Literal["value", "rank", "count"]


@dataclass(frozen=True)
class PrivateEstimate:
    """A private figure: its value, an interval, and the half width (or the number of records) it may be off."""

    value: Scalar
    """a number; of a mode the category"""
    lower: float | None
    upper: float | None
    error: float
    error_of: ErrorOf = "value"

    def at_least_zero(self) -> PrivateEstimate:
        """Move what is negative to zero: costs nothing, but sums of many such figures come out too large."""
        low, mid, high = (max(0.0, float(number or 0)) for number in (self.lower, self.value, self.upper))
        return PrivateEstimate(mid, low, high, self.error, self.error_of)


@dataclass(frozen=True)
class Noisy:
    """A noisy number in code units, and how far it may be off: `off(confidence)`."""

    value: int
    ingredient: Ingredient
    scale_of_error: Mapping[float, int]

    def within(self, confidence: float) -> tuple[float, float]:
        """Return the bounds of the true number; a number in steps was rounded down by less than one."""
        step, off = self.ingredient.step, self.scale_of_error[confidence]
        return (self.value - off) * step, (self.value + off + (step > 1)) * step

    @property
    def middle(self) -> float:
        """The best guess of the true number."""
        step = self.ingredient.step
        return self.value * step + (step / 2 if step > 1 else 0)


def parts_confidence(confidence: float, parts: int) -> float:
    """Return the confidence of each part such that all hold together with the wanted one."""
    return 1 - (1 - confidence) / parts


def counted(noisy: Noisy, confidence: float) -> PrivateEstimate:
    """Return a count or the number of different values."""
    low, high = noisy.within(confidence)
    return PrivateEstimate(float(noisy.value), low, high, (high - low) / 2)


def summed(noisy: Noisy, column: ColumnSpec, confidence: float) -> PrivateEstimate:
    """Return a sum in the units of the column."""
    low, high = noisy.within(confidence)
    unit = column.unit
    return PrivateEstimate(noisy.middle * unit, low * unit, high * unit, (high - low) / 2 * unit)


def averaged(present: Noisy, total: Noisy, column: ColumnSpec, confidence: float) -> PrivateEstimate:
    """Return a mean: the middle of the bounds plus noisy sum over noisy number, kept within the bounds."""
    each = parts_confidence(confidence, 2)
    low, high = _ratio(total.within(each), present.within(each), *_limits(column))
    value = _clip(total.middle / max(present.value, 1), *_limits(column))
    unit, middle = column.unit, center(column)
    return PrivateEstimate(
        (middle + value) * unit, (middle + low) * unit, (middle + high) * unit, (high - low) / 2 * unit
    )


def varied(present: Noisy, total: Noisy, spread: Noisy, column: ColumnSpec, confidence: float) -> PrivateEstimate:
    """Return a variance (N − 1): mean square minus squared mean around the middle of the bounds, kept possible."""
    each = parts_confidence(confidence, 3)
    number = present.within(each)
    half = half_square(column)
    limits = _limits(column)
    most = ((limits[1] - limits[0]) / 2) ** 2
    mean_low, mean_high = _ratio(total.within(each), number, *limits)
    square_low, square_high = _ratio(spread.within(each), number, -half, max(limits[0] ** 2, limits[1] ** 2) - half)
    smallest = 0.0 if mean_low <= 0 <= mean_high else min(mean_low**2, mean_high**2)
    low = max(0.0, square_low + half - max(mean_low**2, mean_high**2))
    high = min(most, square_high + half - smallest)
    mean = _clip(total.middle / max(present.value, 1), *limits)
    value = _clip(spread.middle / max(present.value, 1) + half - mean * mean, 0.0, most)
    unit = column.unit**2
    low, high = low * _sample(number[1]), max(low, high) * _sample(number[0])
    value *= _sample(present.value)
    return PrivateEstimate(value * unit, low * unit, high * unit, (high - low) / 2 * unit)


def _sample(number: float) -> float:
    """Give N/(N − 1), for two people or more."""
    return max(number, 2) / (max(number, 2) - 1)


def _limits(column: ColumnSpec) -> tuple[float, float]:
    low, high = column.codes
    return float(low - center(column)), float(high - center(column))


def _ratio(over: tuple[float, float], under: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """Return the bounds of a mean from bounds of its sum and of its number, within what one value can be."""
    if under[0] < 1:
        return low, high
    quotients = [a / b for a in over for b in under]
    return _clip(min(quotients), low, high), _clip(max(quotients), low, high)


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def estimate(
    aggregate: Aggregate, found: Mapping[tuple[object, ...], Noisy], column: ColumnSpec | None, confidence: float
) -> PrivateEstimate:
    """Compute a figure that is neither a histogram nor a choice from its noisy numbers."""

    def noisy(kind: str) -> Noisy:
        return found[name_of(kind, aggregate)]  # type: ignore[arg-type]  # one of the kinds

    if aggregate.function == "count":
        return counted(found.get(("rows",)) or found[("keys",)], confidence)
    if aggregate.function == "count-distinct" or column is None:
        return counted(noisy("distinct"), confidence)
    if aggregate.function == "sum":
        return summed(noisy("total"), column, confidence)
    if aggregate.function == "mean":
        return averaged(noisy("present"), noisy("centered"), column, confidence)
    return varied(noisy("present"), noisy("centered"), noisy("spread"), column, confidence)


def confidences(aggregate: Aggregate, confidence: float) -> float:
    """Return the confidence at which the parts of a figure are needed."""
    return parts_confidence(confidence, {"mean": 2, "variance": 3}.get(aggregate.function, 1))


def number_of_groups(query: Query, table: TableSpec) -> int:
    """Count the groups of an answer as far as they are declared; `MANY` when their keys are not."""
    return table.count_declared_groups(query.group_by) or MANY


def in_order(key: GroupKey) -> tuple[tuple[bool, str, str], ...]:
    """Return what keys are sorted by: nothing but the key itself, so that the order tells nothing."""
    return tuple((value is None, type(value).__name__, str(value)) for value in key)


def declared(query: Query, table: TableSpec, found: Mapping[GroupKey, Bounded]) -> dict[GroupKey, Bounded]:
    """Return the figures of every declared group, in the declared order, the empty ones too, and of no other."""
    keys = table.declared_groups(query.group_by)
    if keys is None:
        raise PlanError("the keys of these groups are not declared; they must pass a threshold")
    missing = sum(key not in found for key in keys)
    if missing:
        raise DataError(f"the database gave no figures for {missing} of {len(keys)} declared groups")
    return {key: found[key] for key in keys}


def passing(found: Mapping[GroupKey, Bounded], threshold: ThresholdedCounts) -> dict[GroupKey, int]:
    """Return the keys that enough people stand behind, with their noisy numbers of people."""
    keys = sorted((key for key, group in found.items() if (group.people or 0) > 0), key=in_order)
    released = threshold.release({number: found[key].people or 0 for number, key in enumerate(keys)})
    return {keys[number]: count for number, count in released.items()}


def policy_filter(policy: DpPolicy) -> PrivacyFilter:
    """Return the budget of a user in a period, as the ledger keeps it."""
    if policy.accountant != "pure" and not policy.delta:
        raise PlanError(f"{policy.accountant} accounting needs a δ between 0 and 1")
    return PrivacyFilter(policy.epsilon, policy.delta)


def policy_budget(policy: DpPolicy) -> Cost:
    """Return what a user may spend in a period, in the measure of the policy."""
    return policy_filter(policy).left(FREE, policy.accountant)


def policy_cost(policy: DpPolicy, *, delta: Number = 0) -> Cost:
    """Return what an answer spends when the question does not say: the policy's ε per question.

    Under zero-concentrated accounting it is the ρ of a single answer that alone would be (ε per question, δ/2).
    """
    if policy.accountant == "zcdp":
        rho = nano_rho_within(policy.epsilon_per_query, exact(policy.delta) / 2)
        return Cost(0, max(rho, 1), units_up(delta, NANO))
    return cost(epsilon=policy.epsilon_per_query, delta=delta)


@dataclass(frozen=True)
class ExpectedError:
    """How far a figure may be off, with the confidence of the policy."""

    figure: str
    error: float | None
    """half width of the interval, or number of records; none where it depends on how many records there are"""
    error_of: ErrorOf


@dataclass(frozen=True)
class PricedQuery:
    """A question with what it will cost: everything that an answer needs except the data."""

    query: Query
    table: TableSpec
    cost: Cost
    confidence: float
    records: int | None = None
    """records the asker expects in a group; errors of means and variances depend on it"""

    @cached_property
    def groups(self) -> int:
        """Number of groups, `MANY` when their keys must pass a threshold."""
        return number_of_groups(self.query, self.table)

    @cached_property
    def parts(self) -> tuple[Ingredient, ...]:
        """What the answer is made of."""
        return ingredients(self.query, self.table, self.groups)

    def loss(self, part: Ingredient) -> PrivacyLoss:
        """Return the part of the loss that an ingredient may spend; rounded down, so that all stay within the cost."""
        if self.cost.nano_rho:
            return PrivacyLoss.nano_rho(math.floor(self.cost.nano_rho * part.weight))
        return PrivacyLoss.micro_epsilon(math.floor(self.cost.micro_epsilon * part.weight))

    def noise(self, part: Ingredient) -> Additive:
        """Return the noise of an ingredient."""
        if part.kind == "keys":
            return self.threshold.noise
        if part.sensitivity is None:
            raise PlanError("a choice has no additive noise")
        if part.name not in self._noises:
            self._noises[part.name] = Additive(part.sensitivity, self.loss(part))
        return self._noises[part.name]

    @cached_property
    def _noises(self) -> dict[tuple[object, ...], Additive]:
        """The noises that were made: the one that is checked before the charge is the one that is drawn."""
        return {}

    def prepare(self) -> None:
        """Make every mechanism, so that nothing can fail between the charge and the draw."""
        for part in self.parts:
            if part.kind == "keys":
                self.threshold.prepare()
            elif part.kind not in CHOICES:
                self.noise(part).prepare()
        for choice in self._choices.values():
            choice.prepare()

    @cached_property
    def threshold(self) -> ThresholdedCounts:
        """Return the threshold that keys must pass which are not declared."""
        keys = next(part for part in self.parts if part.kind == "keys")
        if keys.sensitivity is None:
            raise PlanError("the people behind a key have a sensitivity")
        return ThresholdedCounts(keys.sensitivity, self.loss(keys), Fraction(self.cost.nano_delta, NANO))

    @property
    def by_threshold(self) -> bool:
        """Whether keys of groups are not declared."""
        return self.groups >= MANY

    def column(self, aggregate: Aggregate) -> ColumnSpec | None:
        """Return the column that is measured."""
        return None if aggregate.column is None else self.table.column(aggregate.column)

    @cached_property
    def _choices(self) -> dict[str, QuantileValue | ExtremeValue | ModalCategory]:
        asked = [aggregate for aggregate in self.query.aggregates if aggregate.function in CHOICES]
        return {aggregate.label: self._make_choice(aggregate) for aggregate in asked}

    def choice(self, aggregate: Aggregate) -> QuantileValue | ExtremeValue | ModalCategory:
        """Return the mechanism of a quantile, minimum, maximum or mode."""
        return self._choices[aggregate.label]

    def _make_choice(self, aggregate: Aggregate) -> QuantileValue | ExtremeValue | ModalCategory:
        column = self.column(aggregate)
        part = next(p for p in self.parts if p.name == name_of(aggregate.function, aggregate))  # type: ignore[arg-type]
        if column is None:
            raise PlanError("a choice needs a column")
        unit, loss = Unit.of(self.table), self.loss(part)
        if aggregate.function == "quantile":
            return QuantileValue(column, aggregate.share or 0.5, unit, loss, self.confidence, self.groups)
        if aggregate.function == "mode":
            return ModalCategory(column, unit, loss, self.confidence)
        which: Extreme = "min" if aggregate.function == "min" else "max"
        return ExtremeValue(column, which, unit, loss, self.confidence, self.groups)

    def accuracies(self, part: Ingredient) -> Mapping[float, int]:
        """Return how far the noise of an ingredient reaches, at every confidence that a figure needs."""
        return self._accuracies[part.name]

    @cached_property
    def _accuracies(self) -> dict[tuple[object, ...], dict[float, int]]:
        wanted = {confidences(aggregate, self.confidence) for aggregate in self.query.aggregates} | {self.confidence}
        noises = {part.name: self.noise(part) for part in self.parts if part.kind not in CHOICES}
        return {name: {level: noise.accuracy(level) for level in wanted} for name, noise in noises.items()}

    @cached_property
    def errors(self) -> tuple[ExpectedError, ...]:
        """Say how exact each figure will be."""
        return tuple(self._error(aggregate) for aggregate in self.query.aggregates)

    def _error(self, aggregate: Aggregate) -> ExpectedError:
        if aggregate.function in CHOICES:
            choice = self.choice(aggregate)
            if isinstance(choice, ModalCategory):
                return ExpectedError(aggregate.label, float(choice.count_error), "count")
            return ExpectedError(aggregate.label, float(choice.rank_error), "rank")
        parts = {part.name: part for part in self.parts if part.kind not in CHOICES}
        if aggregate.function == "histogram":
            part = parts[name_of("bins", aggregate)]
            return ExpectedError(aggregate.label, float(self.accuracies(part)[self.confidence]), "value")
        if aggregate.function in ("mean", "variance") and self.records is None:
            return ExpectedError(aggregate.label, None, "value")
        assumed = {
            name: Noisy(self.records or 0 if part.kind == "present" else 0, part, self.accuracies(part))
            for name, part in parts.items()
            if part.kind != "bins"
        }
        found = estimate(aggregate, assumed, self.column(aggregate), self.confidence)
        return ExpectedError(aggregate.label, found.error, "value")


def price(
    query: Query,
    table: TableSpec,
    policy: DpPolicy,
    *,
    epsilon: Number | None = None,
    rho: Number | None = None,
    error: float | None = None,
    delta: Number | None = None,
    records: int | None = None,
) -> PricedQuery:
    """Say what an answer costs and how exact it will be; reads no data and spends nothing.

    Say what to spend (`epsilon`, or `rho` where the policy counts zero-concentrated), or the `error` wanted for every
    figure, or neither (the policy's amount per question). `delta` is spent only on groups whose keys are not declared;
    by default as much of the policy's δ as the question takes of its ε. `records` is a guess of the number of records
    per group, from which the errors of means and variances are computed.

    Examples
    --------
    >>> from discretion.online.question.query import Aggregate
    >>> table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
    >>> found = price(Query("t", (Aggregate("count"),)), table, DpPolicy(mode="dp", epsilon=1), epsilon=0.5)
    >>> found.cost.micro_epsilon, found.errors[0].error
    (500000, 6.0)
    """
    if sum(given is not None for given in (epsilon, rho, error)) > 1:
        raise PlanError("say what to spend, or the error that is wanted, not both")
    if records is not None and records < 1:
        raise PlanError("`records` is the number of records that are expected, at least 1")
    zcdp = policy.accountant == "zcdp"
    if (epsilon is not None and zcdp) or (rho is not None and not zcdp):
        raise PlanError(f"the policy counts {policy.accountant}: say `{'rho' if zcdp else 'epsilon'}`")
    question = admit(query, table)

    def made(units: int) -> PricedQuery:
        whole = Cost(0, units) if zcdp else Cost(units)
        spent = whole + Cost(0, 0, _nano_delta(question, table, policy, whole, delta))
        return PricedQuery(question, table, spent, policy.confidence, records)

    if error is not None:
        return _checked(_cheapest(made, error), policy)
    given = rho if zcdp else epsilon
    usual = policy_cost(policy)
    units = max(usual.nano_rho, usual.micro_epsilon) if given is None else units_up(given, NANO if zcdp else MICRO)
    if units < 1:
        raise PlanError("a private answer spends more than nothing")
    return _checked(made(units), policy)


def _checked(found: PricedQuery, policy: DpPolicy) -> PricedQuery:
    """Refuse what the policy does not allow, and what cannot be computed, before anything is charged."""
    most = policy.max_epsilon_per_query
    if most is not None:
        zcdp = policy.accountant == "zcdp"
        allowed = nano_rho_within(most, exact(policy.delta) / 2) if zcdp else units_up(most, MICRO)
        if max(found.cost.nano_rho, found.cost.micro_epsilon) > allowed:
            raise QueryRefused("the question would spend more than the policy allows for one answer")
    found.prepare()
    found.errors  # noqa: B018 - what the answer says about its error can be computed
    return found


def _nano_delta(query: Query, table: TableSpec, policy: DpPolicy, whole: Cost, delta: Number | None) -> int:
    if number_of_groups(query, table) < MANY:
        if delta:
            raise PlanError("δ is spent only on groups whose keys are not declared; this question has none")
        return 0
    if policy.accountant == "pure":
        raise QueryRefused("the keys of these groups are not declared: they need a policy with δ, not pure accounting")
    if delta is not None:
        return units_up(delta, NANO)
    reserve = exact(policy.delta) / (2 if whole.nano_rho else 1)
    if whole.nano_rho:
        share = Fraction(whole.nano_rho, max(1, nano_rho_within(policy.epsilon, exact(policy.delta) / 2)))
    else:
        share = Fraction(whole.micro_epsilon, MICRO) / exact(policy.epsilon)
    return max(1, math.floor(min(share, Fraction(1)) * reserve * NANO))


def _cheapest(made: Callable[[int], PricedQuery], wanted: float) -> PricedQuery:
    """Find the least cost at which every figure is as exact as wanted: errors fall as more is spent."""
    if not wanted > 0:
        raise PlanError("the wanted error is a positive number")

    def fits(units: int) -> bool:
        try:
            errors = [found.error for found in made(units).errors]
        except (QueryRefused, PlanError):
            return False
        if any(found is None for found in errors):
            raise PlanError("the error of a mean or variance depends on how many records there are: say `records`")
        return all(found is not None and found <= wanted for found in errors)

    low, high = 0, 1024
    while not fits(high):
        low, high = high, high * 4
        if high > 2**50:
            raise PlanError("no privacy loss makes the figures as exact as wanted")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return made(high)


Numbers = dict[GroupKey, dict[tuple[object, ...], tuple[int, ...]]]


@dataclass(frozen=True)
class PrivateFigure:
    """One figure of one group; of a histogram one bin."""

    group: GroupKey
    figure: str
    estimate: PrivateEstimate
    bin: tuple[float, float] | None = None


@dataclass(frozen=True)
class PrivateAnswer:
    """All figures of an answer, as they were drawn; `frame` has one line for each, `values` one line per group."""

    group_by: tuple[str, ...]
    figures: tuple[PrivateFigure, ...]

    def frame(self) -> pl.DataFrame:
        """Return one line per figure: group, figure, bin, value, lower, upper, error and what the error is of.

        With a mode among them all values are texts.
        """
        import polars as pl

        columns: dict[str, Any] = {name: [f.group[i] for f in self.figures] for i, name in enumerate(self.group_by)}
        own: dict[str, Any] = {"figure": [f.figure for f in self.figures]}
        if any(f.bin is not None for f in self.figures):
            for side, name in enumerate(("bin_from", "bin_to")):
                own[name] = [None if f.bin is None else f.bin[side] for f in self.figures]
        for name in ("value", "lower", "upper", "error", "error_of"):
            own[name] = [getattr(f.estimate, name) for f in self.figures]
        categories = any(isinstance(value, str | bool) for value in own["value"])
        if categories:  # of modes: texts
            own["value"] = [str(value) for value in own["value"]]
        for name, content in own.items():
            columns[_free(name, self.group_by)] = content
        texts = ("figure", "error_of", *(("value",) if categories else ()))
        types = {_free(name, self.group_by): pl.String for name in texts}
        types |= {_free(n, self.group_by): pl.Float64 for n in own if n not in texts}  # type: ignore[misc]
        return pl.DataFrame(columns, schema_overrides=types, strict=False)

    def values(self) -> pl.DataFrame:
        """Return one line per group with a column per figure, as a true answer has them; a histogram is a list."""
        import polars as pl

        lines: dict[GroupKey, dict[str, Any]] = {}
        for found in self.figures:
            line = lines.setdefault(found.group, dict(zip(self.group_by, found.group, strict=True)))
            if found.bin is None:
                line[found.figure] = found.estimate.value
            else:
                line.setdefault(found.figure, []).append(found.estimate.value)
        return pl.DataFrame(list(lines.values()), infer_schema_length=None)


def _free(name: str, taken: Sequence[str]) -> str:
    """Return a name for a column that no group column has."""
    while name in taken:
        name += "_"
    return name


def answer(priced: PricedQuery, backend: Backend, *, nonnegative: bool = False) -> PrivateAnswer:
    """Draw an answer whose cost was charged before.

    Every call draws new noise and must be paid for; an answer is stored and given again, never drawn again. With
    `nonnegative`, counts below zero become zero (afterwards, at no cost).

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.online.backends import open_backend
    >>> from discretion.online.declare import TableSpec
    >>> from discretion.online.declare import DpPolicy
    >>> from discretion.online.question.query import Query
    >>> table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
    >>> question = Query("t", (Aggregate("count"),))
    >>> priced = price(question, table, DpPolicy(mode="dp", epsilon=10), epsilon=10)
    >>> found = answer(priced, open_backend([table], {"t": pl.DataFrame({"age": [30] * 50})}))
    >>> abs(found.frame()["value"].item() - 50) < 20
    True
    """
    found = backend.bounded(priced.query)
    numbers: Numbers = {}
    if priced.by_threshold:
        people = passing(found, priced.threshold)
        groups = {key: found[key] for key in people}
        numbers = {key: {("keys",): (count,)} for key, count in people.items()}
    else:
        groups = declared(priced.query, priced.table, found)
        numbers = {key: {} for key in groups}
    for part in priced.parts:
        if part.kind not in ("keys", *CHOICES):
            _draw(priced, part, groups, numbers)
    figures = [
        figure
        for key, group in groups.items()
        for place, aggregate in enumerate(priced.query.aggregates)
        for figure in _figures(priced, place, aggregate, key, group, numbers[key])
    ]
    if nonnegative:
        figures = [_nonnegative(figure, priced) for figure in figures]
    return PrivateAnswer(priced.query.group_by, tuple(figures))


def _draw(priced: PricedQuery, part: Ingredient, groups: Mapping[GroupKey, Bounded], numbers: Numbers) -> None:
    """Draw the noise of one ingredient for all groups at once."""
    column = priced.column(part.aggregate)
    true = {key: part.numbers(group, column) for key, group in groups.items()}
    noisy = iter(priced.noise(part).release([number for line in true.values() for number in line]))
    for key, line in true.items():
        numbers[key][part.name] = tuple(next(noisy) for _ in line)


def _figures(
    priced: PricedQuery,
    place: int,
    aggregate: Aggregate,
    key: GroupKey,
    group: Bounded,
    numbers: Mapping[tuple[object, ...], tuple[int, ...]],
) -> list[PrivateFigure]:
    if aggregate.function in CHOICES:
        choice = priced.choice(aggregate)
        if isinstance(choice, ModalCategory):
            chosen = choice.find(group.figures[place].bins)
            made = PrivateEstimate(chosen, None, None, float(choice.count_error), "count")
            return [PrivateFigure(key, aggregate.label, made)]
        found = choice.find(group.figures[place].bins)
        made = PrivateEstimate(found.value, found.lower, found.upper, float(choice.rank_error), "rank")
        return [PrivateFigure(key, aggregate.label, made)]
    parts = {part.name: part for part in priced.parts}
    if aggregate.function == "histogram":
        name = name_of("bins", aggregate)
        off = priced.accuracies(parts[name])[priced.confidence]
        bins = zip(aggregate.cuts, aggregate.cuts[1:], numbers[name], strict=False)
        return [
            PrivateFigure(
                key, aggregate.label, PrivateEstimate(float(n), float(n - off), float(n + off), float(off)), (a, b)
            )
            for a, b, n in bins
        ]
    noisy = {
        name: Noisy(line[0], parts[name], priced.accuracies(parts[name]))
        for name, line in numbers.items()
        if parts[name].kind != "bins"
    }
    made = estimate(aggregate, noisy, priced.column(aggregate), priced.confidence)
    return [PrivateFigure(key, aggregate.label, made)]


def _nonnegative(figure: PrivateFigure, priced: PricedQuery) -> PrivateFigure:
    counted = {a.label for a in priced.query.aggregates if a.function in ("count", "count-distinct", "histogram")}
    if figure.figure not in counted:
        return figure
    return PrivateFigure(figure.group, figure.figure, figure.estimate.at_least_zero(), figure.bin)


# Synthetic files of a table: a private generator of the registry, its values declared by the owner of the table.

_STEPS = 16
"""classes of a bounded number, where the owner declares none"""
_OWN = ("person", "rows_per_person", "delta")
"""fields that follow from the table and the policy"""
NOTE = (
    "all rows are synthetic; asking for the same file again costs nothing and gives the same one. Intervals computed "
    "from it do not know its noise"
)


@dataclass(frozen=True)
class SyntheticFile:
    """One file that a user may have: the generator with everything it needs, and its name in the ledger."""

    table: TableSpec
    generator: Method

    @classmethod
    def of(cls, table: TableSpec, epsilon: float | None, delta: float) -> SyntheticFile:
        """Build the generator that the owner named, with the values the table declares; reads no data."""
        if table.synthetic is None:
            raise QueryRefused("the owner of this table hands out no synthetic file")
        ((kind, given),) = table.synthetic.items()
        fields = dict(given or {})
        if not getattr(find(kind), "private", False):
            raise PlanError(f"table {table.name!r}: synthetic: {kind} gives no differential privacy")
        wrong = [name for name in _OWN if name in fields]
        if wrong:
            raise PlanError(f"table {table.name!r}: synthetic: `{wrong[0]}` follows from the table and the policy")
        if table.adjacency != "add-remove":
            raise PlanError(f"table {table.name!r}: synthetic files protect the presence of people (`add-remove`)")
        dropped = fields.get("drop", ())
        wanted = [name for name in table.visible if name not in dropped]
        declared = {name: _values(name, table.columns[name]) for name in wanted if name not in fields.get("domain", {})}
        fields["domain"] = {**declared, **fields.get("domain", {})}
        fields |= {} if epsilon is None else {"epsilon": epsilon}
        fields.setdefault("epsilon", 1.0)
        person = {} if table.person is None else {"person": _person(table), "rows_per_person": table.rows_per_person}
        made = parse({kind: {**fields, "delta": delta, **person}}, "method")
        if not isinstance(made, Method):
            raise PlanError(f"table {table.name!r}: synthetic: {kind} is not a method")
        made.ready(Dataset(_frame(table, {name: [] for name in table.visible}, [])))
        return cls(table, made)

    @property
    def text(self) -> str:
        """The question for the ledger."""
        return json.dumps({"synthetic": self.generator.to_plan()}, sort_keys=True, ensure_ascii=False)

    @property
    def digest(self) -> str:
        """The name of the question: equal files have equal ones."""
        return hashlib.sha256(f"{self.table.name}\n{self.text}".encode()).hexdigest()

    def learn(self, backend: Backend) -> str:
        """Read the data once and give what the generator learned, with its noise, for the ledger."""
        columns = {name: backend.column(self.table.name, name) for name in self.table.visible}
        with bounding_numbers(True):  # an error about one number would tell of its person
            data = Dataset(_frame(self.table, columns, backend.person_of_rows(self.table.name)))
            return self.generator.fit(data, Context(0, "synthetic")).to_json()

    def write(self, learned: str) -> Any:
        """Return the rows, dates as text; the same noisy tables give the same rows. Reads no data."""
        import polars as pl

        seed = int.from_bytes(hashlib.sha256(learned.encode()).digest()[:16], "big")
        empty = Dataset(_frame(self.table, {name: [] for name in self.table.visible}, []))
        made = self.generator.rewrite(empty, Decision.from_json(learned), Context(seed, "synthetic")).frame
        return made.with_columns(made[name].cast(pl.String) for name in made.columns if made[name].dtype.is_temporal())


def _values(name: str, column: ColumnSpec) -> dict[str, Any]:
    """Return the declared values of a column: categories, truth, or equal steps between the bounds."""
    if column.keys:
        return {"categories": list(column.keys), "missing": True}
    if column.bounds is None:
        raise PlanError(
            f"synthetic: column {name!r} has no declared `categories` or `bounds`; declare them, its values in the "
            "generator's `domain`, or name it in `drop`"
        )
    low, high = column.bounds
    cuts: list[Any] = [low + (high - low) * i / _STEPS for i in range(_STEPS + 1)]
    if column.type == "integer":
        cuts = sorted({round(cut) for cut in cuts})
    return {"cuts": cuts, "missing": True}


def _person(table: TableSpec) -> str:
    name = "person of the row"
    while name in table.columns:
        name += "_"
    return name


def _frame(table: TableSpec, columns: Mapping[str, Any], person: Any) -> Any:
    import polars as pl

    known = {} if table.person is None else {_person(table): person}
    return pl.DataFrame({**columns, **known})


_NOTE = "intervals are about the noise only; values outside the declared bounds were moved to them first"
_FEW = "the keys of these groups are not declared: groups of fewer than about {} people are not shown"
_MODE = "errors of modes are numbers of records by which the category told may lie below the most frequent one"
_RANKS = "errors of quantiles, minimum and maximum are numbers of records, not values"


class PrivateMode:
    """Differentially private answers of one user about one table."""

    name = "dp"

    def __init__(self, desk: Desk, policy: DpPolicy, people: tuple[str, ...], shared: Sequence[Limit] = ()) -> None:
        self._desk, self._policy, self._people, self._shared = desk, policy, people, tuple(shared)
        self._budget = policy_filter(policy)

    def ask(self, query: Query, user: str, wish: RequestedAccuracy) -> Reply:
        """Price, charge, draw, record, answer; a charge whose answer was not recorded stays spent."""
        question = query.canonical()
        try:
            priced = self._price(question, wish)
            stored = self._stored(question, user, priced)
            if stored is not None:
                return Reply(stored, cached=True)
            entry = self._desk.charge(question, user, "dp", priced.cost, self._limits(user))
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        figures = _rows_per_group(answer(priced, self._desk.backend), question, priced)
        self._desk.ledger.record_answer(entry.id, figures.to_text())
        return Reply(figures, priced.cost)

    def synthetic(self, user: str, epsilon: float | None) -> tuple[Any, Cost, bool]:
        """Return rows of a synthetic file, what they cost, and whether the user had them before."""
        policy, desk = self._policy, self._desk
        if not policy.delta:
            raise QueryRefused("a synthetic file needs a δ: the policy has none")
        if epsilon is not None and policy.max_epsilon_per_query is not None and epsilon > policy.max_epsilon_per_query:
            raise QueryRefused(f"one answer may spend at most ε {policy.max_epsilon_per_query:g}")
        try:
            file = SyntheticFile.of(desk.table, epsilon, float(exact(policy.delta) / 2))
            cost: Cost = file.generator.cost
        except PlanError as fault:
            raise QueryRefused(str(fault)) from None
        stored = desk.ledger.find_answer(desk.table.name, file.digest, user=user, kind="dp")
        if stored is not None and stored.answer is not None:
            return file.write(stored.answer), FREE, True
        name, text = desk.table.name, file.text
        try:
            entry = desk.ledger.charge(user, name, file.digest, cost, "dp", query=text, limits=self._limits(user))
        except QueryRefused:
            desk.ledger.charge(user, name, file.digest, FREE, "refused", query=text)
            raise
        learned = file.learn(desk.backend)
        desk.ledger.record_answer(entry.id, learned)
        return file.write(learned), cost, False

    def dry_run(self, query: Query, user: str, wish: RequestedAccuracy) -> Estimate:
        """Say what an answer would cost and how exact it would be; reads nothing but the declarations."""
        priced = self._price(query, wish)
        left = self.remaining(user)
        cached = self._stored(query.canonical(), user, priced) is not None
        kinds = {error.error_of for error in priced.errors}
        ranks = [note for kind, note in (("rank", _RANKS), ("count", _MODE)) if kind in kinds]
        notes = (*_notes(priced), *ranks)
        errors = {error.figure: error.error for error in priced.errors}
        covered = cached or left.covers(priced.cost)
        return Estimate(
            mode=self.name, cost=priced.cost, remaining=left, affordable=covered, cached=cached,
            confidence=priced.confidence, errors=errors, notes=notes,
        )  # fmt: skip

    def budget(self, user: str) -> TableBudget:
        """Return what a user may spend and has spent in the running period."""
        ledger, table, policy = self._desk.ledger, self._desk.table.name, self._policy
        charges = tuple(ledger.spending(user, self._people, policy.period))
        limit, spent = policy_budget(policy), ledger.spent(user, self._people, policy.period)
        return TableBudget(table, self.name, policy.period, limit, spent, self.remaining(user), charges)

    def _limits(self, user: str) -> tuple[Limit, ...]:
        own = Limit(self._budget, self._people, user, self._policy.period)
        return (own, *self._shared)

    def remaining(self, user: str) -> Cost:
        """Return what is left under all budgets together."""
        accountant = self._policy.accountant
        left = [self._desk.ledger.remaining(limit, user, accountant) for limit in self._limits(user)]
        return Cost(*(min(cost.amounts[i] for cost in left) for i in range(3)))

    def _price(self, query: Query, wish: RequestedAccuracy) -> PricedQuery:
        """Price a question; what is wrong with the wish is a refusal, it reads no data."""
        policy, most = self._policy, self._desk.max_groups
        if most is not None and self._desk.table.count_declared_groups(query.group_by) > most:
            raise QueryRefused(f"the answer would have more than {most:,} groups")
        try:
            if wish.epsilon is not None and policy.accountant == "zcdp":
                units = max(1, nano_rho_within(wish.epsilon, exact(policy.delta) / 2))
                return price(query, self._desk.table, policy, rho=Fraction(units, NANO), records=wish.records)
            return price(query, self._desk.table, policy, epsilon=wish.epsilon, error=wish.error, records=wish.records)
        except PlanError as fault:
            raise QueryRefused(str(fault)) from None

    def _stored(self, question: Query, user: str, priced: PricedQuery) -> AnswerFigures | None:
        """Find an earlier answer that was paid for with at least as much."""
        found = self._desk.stored(question, user, "dp")
        if found is None or found.answer is None:
            return None
        figures = AnswerFigures.from_text(found.answer)
        return figures if figures.price >= _units(priced.cost) else None


def _units(cost: Cost) -> int:
    return cost.nano_rho or cost.micro_epsilon


def _notes(priced: PricedQuery) -> tuple[str, ...]:
    few = (_FEW.format(priced.threshold.threshold),) if priced.by_threshold else ()
    return (_NOTE, *few)


def _rows_per_group(drawn: PrivateAnswer, question: Query, priced: PricedQuery) -> AnswerFigures:
    """Bring the figures of an answer into rows per group."""
    cells: dict[GroupKey, dict[str, list[tuple[Value, Value, Value]]]] = {}
    for figure in drawn.figures:
        made = figure.estimate
        found = cells.setdefault(figure.group, {}).setdefault(figure.figure, [])
        found.append((made.value, made.lower, made.upper))
    keys = tuple(cells)

    def rows(part: int) -> tuple[tuple[Value, ...], ...]:
        return tuple(
            tuple(
                whole(a, [item[part] for item in cells[key][a.label]])  # type: ignore[misc]
                if a.function == "histogram"
                else whole(a, cells[key][a.label][0][part])
                for a in question.aggregates
            )
            for key in keys
        )

    return AnswerFigures(keys, rows(0), rows(1), rows(2), priced.confidence, _notes(priced), _units(priced.cost))
