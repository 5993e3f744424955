"""What an answer costs and how exact it will be, before anything is spent and without looking at the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from discretion.errors import PlanError, QueryRefused
from discretion.online.admit import admit
from discretion.online.catalog import TableSpec
from discretion.online.column import ColumnSpec
from discretion.online.dp.figures import ErrorOf, Noisy, confidences, estimate
from discretion.online.dp.groups import number_of_groups
from discretion.online.dp.mechanisms import Additive, Loss, Threshold
from discretion.online.dp.plan import CHOICES, Ingredient, ingredients, name_of
from discretion.online.dp.quantiles import Extreme, ExtremeValue, Mode, Quantile
from discretion.online.dp.sensitivity import MANY, Unit
from discretion.online.policy import DpPolicy
from discretion.online.query import Aggregate, Query
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


def policy_filter(policy: DpPolicy) -> PrivacyFilter:
    """Give the budget of a user in a period, as the ledger keeps it."""
    if policy.accountant != "pure" and not policy.delta:
        raise PlanError(f"{policy.accountant} accounting needs a δ between 0 and 1")
    return PrivacyFilter(policy.epsilon, policy.delta)


def policy_budget(policy: DpPolicy) -> Cost:
    """Give what a user may spend in a period, in the measure of the policy."""
    return policy_filter(policy).left(FREE, policy.accountant)


def policy_cost(policy: DpPolicy, *, delta: Number = 0) -> Cost:
    """Give what an answer spends when the question does not say: the policy's ε per question.

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
class Price:
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

    def loss(self, part: Ingredient) -> Loss:
        """Give the part of the loss that an ingredient may spend; rounded down, so that all stay within the cost."""
        if self.cost.nano_rho:
            return Loss.nano_rho(math.floor(self.cost.nano_rho * part.weight))
        return Loss.micro_epsilon(math.floor(self.cost.micro_epsilon * part.weight))

    def noise(self, part: Ingredient) -> Additive:
        """Give the noise of an ingredient."""
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
    def threshold(self) -> Threshold:
        """Give the threshold that keys must pass which are not declared."""
        keys = next(part for part in self.parts if part.kind == "keys")
        if keys.sensitivity is None:
            raise PlanError("the people behind a key have a sensitivity")
        return Threshold(keys.sensitivity, self.loss(keys), Fraction(self.cost.nano_delta, NANO))

    @property
    def by_threshold(self) -> bool:
        """Whether keys of groups are not declared."""
        return self.groups >= MANY

    def column(self, aggregate: Aggregate) -> ColumnSpec | None:
        """Give the column that is measured."""
        return None if aggregate.column is None else self.table.column(aggregate.column)

    @cached_property
    def _choices(self) -> dict[str, Quantile | ExtremeValue | Mode]:
        asked = [aggregate for aggregate in self.query.aggregates if aggregate.function in CHOICES]
        return {aggregate.label: self._make_choice(aggregate) for aggregate in asked}

    def choice(self, aggregate: Aggregate) -> Quantile | ExtremeValue | Mode:
        """Give the mechanism of a quantile, minimum, maximum or mode."""
        return self._choices[aggregate.label]

    def _make_choice(self, aggregate: Aggregate) -> Quantile | ExtremeValue | Mode:
        column = self.column(aggregate)
        part = next(p for p in self.parts if p.name == name_of(aggregate.function, aggregate))  # type: ignore[arg-type]
        if column is None:
            raise PlanError("a choice needs a column")
        unit, loss = Unit.of(self.table), self.loss(part)
        if aggregate.function == "quantile":
            return Quantile(column, aggregate.share or 0.5, unit, loss, self.confidence, self.groups)
        if aggregate.function == "mode":
            return Mode(column, unit, loss, self.confidence)
        which: Extreme = "min" if aggregate.function == "min" else "max"
        return ExtremeValue(column, which, unit, loss, self.confidence, self.groups)

    def accuracies(self, part: Ingredient) -> Mapping[float, int]:
        """Give how far the noise of an ingredient reaches, at every confidence that a figure needs."""
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
            if isinstance(choice, Mode):
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
) -> Price:
    """Say what an answer costs and how exact it will be; reads no data and spends nothing.

    Say what to spend (`epsilon`, or `rho` where the policy counts zero-concentrated), or the `error` wanted for every
    figure, or neither (the policy's amount per question). `delta` is spent only on groups whose keys are not declared;
    by default as much of the policy's δ as the question takes of its ε. `records` is a guess of the number of records
    per group, from which the errors of means and variances are computed.

    Examples
    --------
    >>> from discretion.online.query import Aggregate
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

    def made(units: int) -> Price:
        whole = Cost(0, units) if zcdp else Cost(units)
        spent = whole + Cost(0, 0, _nano_delta(question, table, policy, whole, delta))
        return Price(question, table, spent, policy.confidence, records)

    if error is not None:
        return _checked(_cheapest(made, error), policy)
    given = rho if zcdp else epsilon
    usual = policy_cost(policy)
    units = max(usual.nano_rho, usual.micro_epsilon) if given is None else units_up(given, NANO if zcdp else MICRO)
    if units < 1:
        raise PlanError("a private answer spends more than nothing")
    return _checked(made(units), policy)


def _checked(found: Price, policy: DpPolicy) -> Price:
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


def _cheapest(made: Callable[[int], Price], wanted: float) -> Price:
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
