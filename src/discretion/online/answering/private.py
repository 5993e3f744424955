"""Answers with noise that spend a privacy budget."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from discretion.errors import PlanError, QueryRefused
from discretion.online.answering.mode import Desk, Told, Wish, whole
from discretion.online.answering.synthetic import SyntheticFile
from discretion.online.answers import Figures, Value
from discretion.online.backend import GroupKey
from discretion.online.dp.answer import PrivateAnswer, answer
from discretion.online.dp.price import Price, policy_budget, policy_filter, price
from discretion.online.estimate import Estimate, TableBudget
from discretion.online.ledger import FREE, Cost, Limit
from discretion.online.policy import DpPolicy
from discretion.online.query import Query
from discretion.privacy.accounting import NANO, exact, nano_rho_within

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

    def ask(self, query: Query, user: str, wish: Wish) -> Told:
        """Price, charge, draw, record, answer; a charge whose answer was not recorded stays spent."""
        question = query.canonical()
        try:
            priced = self._price(question, wish)
            stored = self._stored(question, user, priced)
            if stored is not None:
                return Told(stored, cached=True)
            entry = self._desk.charge(question, user, "dp", priced.cost, self._limits(user))
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        figures = _figures(answer(priced, self._desk.backend), question, priced)
        self._desk.ledger.record_answer(entry.id, figures.to_text())
        return Told(figures, priced.cost)

    def synthetic(self, user: str, epsilon: float | None) -> tuple[Any, Cost, bool]:
        """Give rows of a synthetic file, what they cost, and whether the user had them before."""
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

    def dry_run(self, query: Query, user: str, wish: Wish) -> Estimate:
        """Say what an answer would cost and how exact it would be; reads nothing but the declarations."""
        priced = self._price(query, wish)
        left = self.remaining(user)
        cached = self._stored(query.canonical(), user, priced) is not None
        kinds = {error.error_of for error in priced.errors}
        ranks = [note for kind, note in (("rank", _RANKS), ("count", _MODE)) if kind in kinds]
        notes = (*_notes(priced), *ranks)
        errors = {error.figure: error.error for error in priced.errors}
        covered = cached or left.covers(priced.cost)
        return Estimate(self.name, priced.cost, left, covered, cached, priced.confidence, errors, notes)

    def budget(self, user: str) -> TableBudget:
        """Give what a user may spend and has spent in the running period."""
        ledger, table, policy = self._desk.ledger, self._desk.table.name, self._policy
        charges = tuple(ledger.spending(user, self._people, policy.period))
        limit, spent = policy_budget(policy), ledger.spent(user, self._people, policy.period)
        return TableBudget(table, self.name, policy.period, limit, spent, self.remaining(user), charges)

    def _limits(self, user: str) -> tuple[Limit, ...]:
        own = Limit(self._budget, self._people, user, self._policy.period)
        return (own, *self._shared)

    def remaining(self, user: str) -> Cost:
        """Give what is left under all budgets together."""
        accountant = self._policy.accountant
        left = [self._desk.ledger.remaining(limit, user, accountant) for limit in self._limits(user)]
        return Cost(*(min(cost.amounts[i] for cost in left) for i in range(3)))

    def _price(self, query: Query, wish: Wish) -> Price:
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

    def _stored(self, question: Query, user: str, priced: Price) -> Figures | None:
        """Find an earlier answer that was paid for with at least as much."""
        found = self._desk.stored(question, user, "dp")
        if found is None or found.answer is None:
            return None
        figures = Figures.from_text(found.answer)
        return figures if figures.price >= _units(priced.cost) else None


def _units(cost: Cost) -> int:
    return cost.nano_rho or cost.micro_epsilon


def _notes(priced: Price) -> tuple[str, ...]:
    few = (_FEW.format(priced.threshold.threshold),) if priced.by_threshold else ()
    return (_NOTE, *few)


def _figures(drawn: PrivateAnswer, question: Query, priced: Price) -> Figures:
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

    return Figures(keys, rows(0), rows(1), rows(2), priced.confidence, _notes(priced), _units(priced.cost))
