"""Private answers: figures with noise, intervals and what is known about their error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discretion.context import Context
from discretion.data.conditions import bounding_numbers
from discretion.data.dataset import Dataset
from discretion.errors import PlanError, QueryRefused
from discretion.method import Decision, Method
from discretion.online.backends import Backend, Bounded, GroupKey
from discretion.online.declare.catalog import ColumnSpec, DpPolicy, TableSpec
from discretion.online.dp.mechanisms import ModalCategory
from discretion.online.dp.price import (
    CHOICES,
    Ingredient,
    Noisy,
    PricedQuery,
    PrivateEstimate,
    declared,
    estimate,
    name_of,
    passing,
    policy_budget,
    policy_filter,
    price,
)
from discretion.online.ledger import FREE, Cost, Limit
from discretion.online.mode import Desk, Reply, RequestedAccuracy, whole
from discretion.online.question.answer import AnswerFigures, Estimate, TableBudget, Value
from discretion.online.question.query import Aggregate, Query
from discretion.part import find, parse
from discretion.privacy.accounting import NANO, exact, nano_rho_within

if TYPE_CHECKING:
    import polars as pl

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
    >>> from discretion.online.declare.catalog import TableSpec
    >>> from discretion.online.declare.catalog import DpPolicy
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
