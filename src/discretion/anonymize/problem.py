"""A problem for the search: data, models, loss and limits, checked and made ready."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.explorer import Explorer, Node
from discretion.anonymize.judge import Judge, common_columns, populations, sensitive_columns
from discretion.anonymize.losses import (
    AggregateName,
    EntropyBasedLoss,
    EntropyLoss,
    HeightLoss,
    LeafLoss,
    Loss,
    LossName,
    NormalizedEntropyLoss,
    Outcome,
    PrecisionLoss,
    SummarizedLoss,
)
from discretion.anonymize.records import Axis, Bounds, NodeClasses, RollUp, SearchRecords, Steps, check_bounds, compress
from discretion.context import Progress
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.households import count_units, unit_codes
from discretion.engines.scan import Scan
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.rollup import sum_of_products
from discretion.measure import as_percent
from discretion.privacy.class_table import ClassModel, sensitive_domain
from discretion.privacy.population import Profitability

SummaryName = Literal["mean", "geometric-mean", "median", "interval", "set"]
_NUMERIC: tuple[SummaryName, ...] = ("mean", "geometric-mean", "median")


def check_summary(data: Dataset, column: str, kind: SummaryName) -> None:
    """Refuse a summary that the values of a column do not have."""
    if kind not in get_args(SummaryName):
        raise PlanError(f"summarize: {kind!r} is no summary; there are {', '.join(get_args(SummaryName))}")
    if kind in _NUMERIC:
        numbers = data.number(column)
        if kind == "geometric-mean" and (numbers <= 0).any():
            few = int((numbers <= 0).sum())
            raise DataError(f"summarize: column {column!r} has {few} values that are not above 0; no geometric mean")
    elif kind == "interval" and not (
        data.schema[column].order or data.type_of(column) in ("continuous", "ordinal", "date")
    ):
        raise PlanError(
            f"summarize: the values of column {column!r} have no order; declare their `order`, or use `set`"
        )


def summarize(data: Dataset, column: str, classes: NDArray[np.integer[Any]], kind: SummaryName) -> Any:
    """Give each record the summary of its class; missing values do not count, and are what a class without others has.

    Records of a class all get the same, also those whose value is missing, so that the class stays one.
    """
    import polars as pl

    if kind in _NUMERIC:
        frame = pl.DataFrame({"class": classes, "value": data.number(column)}).with_columns(
            pl.col("value").fill_nan(None)
        )
        value = pl.col("value")
        figures = {"mean": value.mean(), "median": value.median(), "geometric-mean": value.log().mean().exp()}
        return frame.select(figures[kind].over("class")).to_series().to_numpy()
    domain, ranks = sensitive_domain(data, column)
    codes = data.codes(column)
    first = np.zeros(domain.size, np.int64)
    first[ranks[::-1]] = np.arange(len(ranks) - 1, -1, -1)
    texts = [
        None if (value := codes.values[code]) is None else canonical(value) for code in codes.codes[first].tolist()
    ]
    frame = pl.DataFrame({"class": classes, "rank": ranks}).filter(pl.col("rank") < _missing_from(texts))
    found: list[str | None] = [None] * (int(classes.max(initial=-1)) + 1)
    for number, members in frame.group_by("class").agg(pl.col("rank").unique().sort()).iter_rows():
        names = [str(texts[rank]) for rank in members]
        if kind == "set":
            found[number] = "{" + ", ".join(names) + "}"
        else:
            found[number] = names[0] if len(names) == 1 else f"[{names[0]}, {names[-1]}]"
    return pl.Series([found[number] for number in classes.tolist()], dtype=pl.String)


def too_few(
    data: Dataset, column: str, classes: NDArray[np.integer[Any]], k: int, units: Sequence[Ints]
) -> NDArray[np.bool_]:
    """Tell which records are in a class where some, but fewer than k, have a value: a summary would be about them."""
    codes = data.codes(column)
    known = np.where(codes.codes != codes.missing, classes, -1)
    number = int(classes.max(initial=-1)) + 1
    found = count_units(units, known, number)
    present = np.bincount(known[known >= 0], minlength=number) if found is None else found
    return np.asarray(((present > 0) & (present < k))[classes])


def _missing_from(texts: list[str | None]) -> int:
    """Give the rank of the missing value, which is the last; the number of ranks where none is missing."""
    return len(texts) - (len(texts) > 0 and texts[-1] is None)


# Losses that look at whole classes: their number and sizes, what they cover, divergence. Conventions: see `losses`.


class _ClassLoss(Loss):
    """A loss that looks at the classes as a whole."""

    def floor_everywhere(self) -> Floats:
        """Bound by the number of groups of each column alone."""
        axes = len(self.records.axes)
        total: Floats = np.zeros([1] * axes)
        for place, axis in enumerate(self.records.axes):
            sizes = self._terms(place, axis.steps)
            total = total + sizes.reshape([-1 if place == other else 1 for other in range(axes)])
        return np.asarray(self._from_terms(total))

    def _terms(self, place: int, steps: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.log(np.array(self.records.axes[place].sizes, float)))

    @abstractmethod
    def _from_terms(self, total: Floats) -> Floats:
        """Give the bound from the sum of the columns' terms."""


class _AverageClassLoss(_ClassLoss):
    """`aecs`: records per class."""

    counts_classes = True

    def _value(self, classes: Floats, extra: Floats | float) -> Floats:
        with np.errstate(divide="ignore"):  # nothing kept and nothing that counts instead: infinitely bad
            return np.asarray(self.n / (self.suppression * classes + self.generalization * extra))

    def _from_terms(self, total: Floats) -> Floats:
        return self._value(np.exp(np.minimum(total, np.log(self.n))), 1.0)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        return self._value(np.full(len(least), float(self.n)) if most is None else most, 1.0)

    def score(self, outcome: Outcome) -> float:
        return float(self._value(np.array(float(outcome.kept)), float(outcome.suppressed > 0)))


class _DiscernibilityLoss(_ClassLoss):
    """`discernibility`: the records each record cannot be told from."""

    counts_classes = True

    def _value(self, classes: Floats, least: Ints | float) -> Floats:
        spread = (self.n - least) ** 2 / np.maximum(classes, 1.0) + self.n * np.asarray(least, float)
        return np.asarray(np.where(classes < 2, np.minimum(spread, 0.75 * self.n**2), spread))

    def _from_terms(self, total: Floats) -> Floats:
        return self._value(np.exp(np.minimum(total, np.log(self.n))), 0.0)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        return self._value(np.full(len(least), float(self.n)) if most is None else most, least.astype(float))

    def score(self, outcome: Outcome) -> float:
        return outcome.squares + float(self.n) * outcome.suppressed


class _StarLoss(_DiscernibilityLoss):
    """`discernibility-star`: the same, a suppressed record being told from those of other classes."""

    def _value(self, classes: Floats, least: Ints | float) -> Floats:  # noqa: ARG002
        return np.asarray(self.n**2 / np.clip(classes, 1.0, self.n))

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:
        if self.allowed == 0 and most is not None:
            return self._value(most, least)
        sizes = [np.log(np.array(axis.sizes, float))[steps[:, i]] for i, axis in enumerate(self.records.axes)]
        return self._from_terms(np.sum(sizes, axis=0))

    def score(self, outcome: Outcome) -> float:
        return float((outcome.classes.counts.astype(float) ** 2).sum())


class _DivergenceLoss(Loss):
    """`kl`: bits by which the published classes, spread over what they cover, differ from the data."""

    @cached_property
    def _shares(self) -> tuple[Floats, Floats]:
        """Give, for each combination of the lattice, the sums over its records of the weight and of weight·log2 p."""
        rows = self.records.rows
        alike = self.records.counts[rows] if self.alike is None else self.alike()
        p = alike / self.n
        weight = self._weight(p) * (1 if self.records.row_counts is None else self.records.row_counts)
        size = len(self.records.counts)
        own = np.bincount(rows, weight, minlength=size)
        return own.astype(float), np.bincount(rows, weight * np.log2(p), minlength=size).astype(float)

    def _weight(self, p: Floats) -> Floats:
        return np.full(len(p), 1 / self.n)

    @cached_property
    def _covered(self) -> list[list[Floats]]:
        """The bits of the leaves below each value of the lowest level, by column and step."""
        return [
            [np.log2(leaves)[group] for leaves, group in zip(axis.leaves, axis.groups, strict=True)]
            for axis in self.records.axes
        ]

    @cached_property
    def _terms(self) -> list[Floats]:
        """For each column and step, the part of the loss that the leaves make up."""
        own = self._shares[0]
        return [
            np.array([float(own @ bits[codes]) for bits in steps])
            for steps, codes in zip(self._covered, self.records.codes, strict=True)
        ]

    @cached_property
    def _spread(self) -> list[Floats]:
        """For each column and step, the least bits of the sizes of classes: none is larger than its column's group.

        Suppressed records may have none of these; so many are left out, with the most that one could have.
        """
        own, heaviest = self._shares[0], float(self._weight(np.ones(1))[0])
        found = []
        for axis, codes, marginals in zip(self.records.axes, self.records.codes, self.records.marginals, strict=True):
            steps = []
            for group, counts in zip(axis.groups, marginals, strict=True):
                bits = np.log2(self.n / np.maximum(counts, 1))
                most = min(self.allowed, self.n) * heaviest * float(bits.max(initial=0.0))
                steps.append(max(float(own @ bits[group[codes]]) - most, 0.0))
            found.append(np.array(steps))
        return found

    def _total(self, terms: Floats, spread: Floats) -> Floats:
        return np.asarray((terms + spread + float(self._shares[1].sum())) * (1 - 1e-12))

    def floor_everywhere(self) -> Floats:
        """Add the columns' terms, and the largest of their spreads."""
        axes = len(self.records.axes)
        terms, spread = np.zeros([1] * axes), np.zeros([1] * axes)
        for place in range(axes):
            along = [-1 if place == other else 1 for other in range(axes)]
            terms = terms + self._terms[place].reshape(along)
            spread = np.maximum(spread, self._spread[place].reshape(along))
        return self._total(terms, spread)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        """Add the columns' terms, and the largest of their spreads."""
        terms = np.sum([self._terms[place][steps[:, place]] for place in range(steps.shape[1])], axis=0)
        return self._total(terms, np.max([self._spread[i][steps[:, i]] for i in range(steps.shape[1])], axis=0))

    def score(self, outcome: Outcome) -> float:
        """Follow every combination to its class; classes stand in order of first appearance, however rolled up."""
        classes, numbers = outcome.roll.numbered(outcome.steps)
        own, constant = self._shares
        area = np.zeros(len(own))
        for place, step in enumerate(outcome.steps):
            area += self._covered[place][step][self.records.codes[place]]
        sizes, covered = classes.counts[numbers], area
        if outcome.suppressed:
            gone = outcome.gone[numbers]
            sizes = np.where(gone, outcome.suppressed, sizes)
            covered = np.where(gone, sum(float(np.log2(axis.domain)) for axis in self.records.axes), area)
        return float(constant.sum() + (own * (covered + np.log2(self.n / np.maximum(sizes, 1)))).sum())


class _ArxDivergenceLoss(_DivergenceLoss):
    """`kl-arx`: as ARX sums it, over records weighted by the share of their combination."""

    def _weight(self, p: Floats) -> Floats:
        return p


class _AmbiguityLoss(_ClassLoss):
    """`ambiguity`: the combinations of leaves that a class covers."""

    @cached_property
    def _whole(self) -> float:
        return float(np.prod([axis.domain for axis in self.records.axes], dtype=float))

    def _terms(self, place: int, steps: int) -> Floats:  # noqa: ARG002
        """The mean logarithm of the leaves: by convexity a mean of products is at least the product of these."""
        pairs = zip(self.records.marginals[place], self.records.axes[place].leaves, strict=True)
        return np.array([float(counts @ np.log(leaves)) / self.n for counts, leaves in pairs])

    def _from_terms(self, total: Floats) -> Floats:
        return self.n * np.exp(total) * (1 - 1e-12)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        total, widest = np.zeros(len(steps)), np.ones(len(steps))
        for place, axis in enumerate(self.records.axes):
            total += self._terms(place, axis.steps)[steps[:, place]]
            widest *= np.array([leaves.max() for leaves in axis.leaves], float)[steps[:, place]]
        return self._from_terms(total) + least * (self._whole - widest)

    def class_costs(self, steps: Steps, classes: NodeClasses, roll: RollUp) -> Floats:
        """Multiply records and leaves."""
        cost = classes.counts.astype(float)
        for axis, step, values in zip(self.records.axes, steps, roll.values(classes), strict=True):
            cost *= axis.leaves[step][values]
        return cost

    def score(self, outcome: Outcome) -> float:
        fields, _ = outcome.roll.fields(outcome.steps)
        pairs = zip(self.records.axes, outcome.steps, strict=True)
        factors = np.concatenate([axis.leaves[step] for axis, step in pairs]).astype(float)
        kept = sum_of_products(outcome.classes.keys, outcome.classes.counts, outcome.gone, fields, factors)
        return kept + outcome.suppressed * self._whole


class _PayoutLoss(EntropyBasedLoss):
    """`payout`: what a publisher misses in the game of `profitability`."""

    game: Profitability

    @cached_property
    def _parts(self) -> list[list[Floats]]:
        return [[np.log(leaves) * self._counts(axis) for leaves in axis.leaves] for axis in self.records.axes]

    def _counts(self, axis: Axis) -> float:
        """Give the weight of a column's bits: none where nothing can be lost."""
        logs = [float(np.log(one.domain)) for one in self.records.axes if one.height]
        return self.game.benefit / max(sum(logs), 1e-10) if axis.height else 0.0

    def _column(self, place: int) -> float:
        axis = self.records.axes[place]
        return float(np.log(axis.domain)) * self._counts(axis)

    def score(self, outcome: Outcome) -> float:
        """Add what attacks cost to what generalization and suppression do."""
        sizes = people = outcome.classes.counts
        name = self.game.population_name
        if name is not None:
            _, numbers = outcome.roll.numbered(outcome.steps)
            people = np.bincount(numbers, self.records.population[name], len(sizes)).astype(np.int64)
        harmed = self.game.attacked(people) & ~outcome.gone & (sizes > 0)
        harm = self.game.loss * float((sizes[harmed] / np.maximum(people[harmed], 1)).sum())
        return float(self.exact(outcome).sum()) + harm


_LOSSES: dict[LossName, tuple[type[Loss], AggregateName]] = {
    "loss": (LeafLoss, "geometric-mean"),
    "height": (HeightLoss, "sum"),
    "precision-loss": (PrecisionLoss, "mean"),
    "aecs": (_AverageClassLoss, "sum"),
    "discernibility": (_DiscernibilityLoss, "sum"),
    "discernibility-star": (_StarLoss, "sum"),
    "entropy": (EntropyLoss, "sum"),
    "normalized-entropy": (NormalizedEntropyLoss, "sum"),
    "entropy-based": (EntropyBasedLoss, "sum"),
    "kl": (_DivergenceLoss, "sum"),
    "kl-arx": (_ArxDivergenceLoss, "sum"),
    "ambiguity": (_AmbiguityLoss, "sum"),
    "payout": (_PayoutLoss, "sum"),
}


def make_loss(
    name: LossName,
    records: SearchRecords,
    weights: Floats | None = None,
    factor: float = 0.5,
    aggregate: AggregateName | None = None,
    alike: Callable[[], Ints] | None = None,
    games: Sequence[Profitability] = (),
) -> Loss:
    """Give a loss by its name, with its usual aggregate unless another is asked for; `alike`: see `Loss`.

    `games`: the models that say what a publisher gains and loses, for the loss `payout`.
    """
    kind, usual = _LOSSES[name]
    if issubclass(kind, _PayoutLoss):
        if len(games) != 1:
            raise PlanError(f"the loss payout needs one model profitability, which says the amounts; got {len(games)}")
        made = kind(records, np.ones(len(records.axes)), 0.5, "sum")
        made.game = games[0]
        return made
    if kind is LeafLoss and records.summarized:
        kind = SummarizedLoss
    columns = len(records.axes) + (len(records.summarized) if kind is SummarizedLoss else 0)
    given = np.ones(columns) if weights is None else weights[:columns] / weights.max()
    return kind(records, given, factor, aggregate or usual, alike)


_NOTHING: Mapping[str, Bounds] = MappingProxyType({})


@dataclass(frozen=True)
class Settings:
    """What is asked of a search."""

    models: tuple[ClassModel, ...]
    columns: tuple[str, ...] = ()
    loss: LossName = "loss"
    suppression_limit: float = 0.0
    importance: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    levels: Mapping[str, Bounds] = field(default_factory=lambda: _NOTHING)
    suppression_factor: float = 0.5
    aggregate: AggregateName | None = None
    summarize: Mapping[str, SummaryName] = field(default_factory=lambda: MappingProxyType({}))
    cluster: tuple[str, ...] = ()


def classes_of(data: Dataset, settings: Settings) -> Dataset:
    """Give the classes of data that stays in its files, as far as a search looks at them; other data as it is."""
    if not isinstance(data, Scan):
        return data
    models = list(settings.models)
    columns = data.choose(common_columns(models, settings.columns), "classes")
    if any(model.counts_units for model in models) and data.original.having("household", "unit"):
        raise PlanError("the schema declares households or people; a search in files counts records: `count: records`")
    return data.table([*columns, *sensitive_columns(models, data, columns)])


class SearchProblem:
    """Data with its lattice, models and loss, ready to be searched."""

    def __init__(self, data: Dataset, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.models: list[ClassModel] = list(settings.models)
        self.chosen = data.choose(common_columns(self.models, settings.columns), "classes")
        """all quasi-identifiers; those that are only summarized are not in the lattice"""
        self._check_summaries()
        self.summarized = tuple(name for name in settings.summarize if name not in settings.cluster)
        self.columns = tuple(name for name in self.chosen if name not in self.summarized)
        if not self.columns:
            raise PlanError("summarize: at least one quasi-identifier must divide the classes; all are summarized")
        check_bounds(settings.levels, self.columns)
        sensitive = sensitive_columns(self.models, data, self.chosen)
        if not len(data):
            raise DataError("the data has no rows; there is nothing to generalize")
        units = unit_codes(data) if any(model.counts_units for model in self.models) else ()
        self.records: SearchRecords = compress(
            data, self.columns, settings.levels, sensitive, populations(self.models), units, self.summarized
        )
        self.roll = RollUp(self.records)
        self.allowed = math.floor(settings.suppression_limit * data.records + 1e-9)
        self.loss = self._loss()
        self.judge = Judge(self.models, self.records, self.roll, self.loss)
        if not self.judge.may_suppress:
            self.allowed = self.loss.allowed = 0
        if self.judge.smallest_class > data.records:
            raise Infeasible(
                f"the models ask for classes of at least {self.judge.smallest_class} records, but the data has "
                f"{data.records} in all: fully generalized, its one class has {data.records}"
            )
        self.judge.refuse_impossible()

    def _check_summaries(self) -> None:
        settings = self.settings
        for name, kind in settings.summarize.items():
            if name not in self.chosen:
                raise PlanError(f"summarize: {name!r} is not among the quasi-identifiers ({', '.join(self.chosen)})")
            check_summary(self.data, name, kind)
        if wrong := [name for name in settings.cluster if name not in settings.summarize]:
            raise PlanError(f"cluster: {wrong[0]!r} is not summarized; only columns of `summarize` can be")
        for model in self.models if settings.summarize else ():
            if model.population_name is not None:
                raise PlanError(
                    f"{model.kind}: how many people fit a summary of a class is not counted; no `summarize`"
                )
            if model.looks_at_loss:
                raise PlanError(f"{model.kind}: what a summary loses has no worth in this game; no `summarize`")

    def _loss(self) -> Loss:
        settings = self.settings
        if unknown := [name for name in settings.importance if name not in self.chosen]:
            raise PlanError(f"importance: {unknown[0]!r} is not among the columns of the search")
        every = (*self.columns, *self.summarized)
        weights = np.array([settings.importance.get(name, 1.0) for name in every], float)
        if not weights.max() > 0:
            raise PlanError("importance: at least one column must have a weight above 0")
        made = make_loss(
            settings.loss,
            self.records,
            weights,
            settings.suppression_factor,
            settings.aggregate,
            lambda: self.data.class_sizes(self.columns).astype(np.int64),
            [model for model in self.models if isinstance(model, Profitability)],
        )
        made.allowed = self.allowed
        return made

    def explore(self, progress: Progress | None = None) -> Explorer:
        """Get ready to evaluate nodes."""
        return Explorer(self.records, self.roll, self.judge, self.loss, self.allowed, progress)

    def steps_of(self, levels: Mapping[str, int]) -> Steps:
        """Find the node with these levels; columns not named stay at their lowest level."""
        if unknown := [name for name in levels if name not in self.columns]:
            raise PlanError(f"levels: {unknown[0]!r} is not among the columns of the search")
        steps = []
        for axis in self.records.axes:
            step = levels.get(axis.column, axis.low) - axis.low
            if not 0 <= step < axis.steps:
                raise PlanError(
                    f"levels: column {axis.column!r} can have the levels {axis.low} to {axis.low + axis.steps - 1}"
                )
            steps.append(step)
        return tuple(steps)

    def suppressed_rows(self, steps: Steps) -> NDArray[np.bool_]:
        """Tell which records a node suppresses."""
        classes, numbers = self.roll.numbered(steps)
        return np.asarray(self.judge.suppressed(steps, classes, numbers)[numbers][self.records.rows])

    def generalized(self, steps: Steps) -> Dataset:
        """Give the data at a node, without the records that it suppresses."""
        from discretion.protect.recode import Generalize

        summaries = self.settings.summarize
        levels = {name: level for name, level in self.records.levels(steps).items() if name not in summaries}
        raised = {name: level for name, level in levels.items() if level > 0 and self.data.levels.get(name, 0) != level}
        data = Generalize(levels=raised)(self.data, seed=0) if raised else self.data
        gone = self.suppressed_rows(steps)
        data = data.take(~gone, suppressed=True) if gone.any() else data
        if not summaries:
            return data
        classes = self.roll.numbered(steps)[1][self.records.rows][~gone]
        new = {name: summarize(data, name, classes, kind) for name, kind in summaries.items()}
        k = max(model.smallest_class for model in self.models)
        units = unit_codes(data) if any(model.counts_units for model in self.models) else ()
        few = {name: too_few(data, name, classes, k, units) for name in summaries}
        return data.with_columns(
            new, suppressed={name: mask for name, mask in few.items() if mask.any()}, integers=True
        )

    def infeasible(self, evaluated: Collection[Node], certain: bool) -> Infeasible:
        """Say why nothing satisfies the models, or that nothing was found that does, and what comes closest."""
        top = tuple(steps - 1 for steps in self.records.shape)
        exact = [node for node in evaluated if node.exact and node.classes]
        closest = min(exact, key=lambda node: (node.suppressed, node.rank), default=None)
        failures = self.judge.failures(top)
        said = [
            f"{one.kind} fails for {one.records} of {self.records.n} records even when every column is at its highest "
            f"level ({one.words})"
            for one in failures
        ]
        limit = f"a suppression limit of {self.settings.suppression_limit:g} ({self.allowed} records)"
        if not self.judge.may_suppress:
            limit = "the levels allowed; no record may be dropped, as its class of the population would be left empty"
        lines = [f"no generalization of {', '.join(self.columns)} satisfies the models within {limit}", *said]
        if not certain:
            lines[0] = f"no generalization was found in this time that satisfies the models within {limit}"
            lines.insert(1, f"{self.records.nodes - len(evaluated)} of {self.records.nodes} were not looked at")
        if fixed := without_hierarchy(self.data, self.columns):
            lines.append(f"{fixed}; give a hierarchy")
        if self.judge.may_suppress:
            lines.append(self._closest(closest))
        return Infeasible("; ".join(lines))

    def _closest(self, node: Node | None) -> str:
        if node is None:
            return "every record would have to be suppressed"
        levels = ", ".join(f"{name}: {level}" for name, level in self.records.levels(node.steps).items())
        share = node.suppressed / self.records.n
        return (
            f"the least found to be suppressed is {node.suppressed} records ({as_percent(share)}), at the levels "
            f"{levels}; a limit of {math.ceil(share * 1e4) / 1e4:g} would allow it"
        )


def without_hierarchy(data: Dataset, columns: Iterable[str]) -> str:
    """Say which columns have no hierarchy and therefore keep their values; nothing if all have one."""
    names = [name for name in columns if data.origin.schema[name].hierarchy is None]
    if not names:
        return ""
    keep = "has no hierarchy and keeps its values" if len(names) == 1 else "have no hierarchy and keep their values"
    return f"{', '.join(names)} {keep}"


def bounds_of(levels: Mapping[str, object] | None) -> dict[str, Bounds]:
    """Read bounds of levels: a level, a pair `[lowest, highest]`, or a mapping with `min` and `max`."""
    return {name: _bounds(name, given) for name, given in (levels or {}).items()}


def _bounds(name: str, given: object) -> Bounds:
    pair: Sequence[object]
    if isinstance(given, Mapping) and set(given) <= {"min", "max"}:
        pair = (given.get("min"), given.get("max"))
    elif isinstance(given, list | tuple) and len(given) == 2:
        pair = given
    else:
        pair = (given, given)
    low, high = pair
    for bound in (low, high):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            raise ValueError(f"{name}: expected a level, [lowest, highest] or {{min, max}}, levels from 0")
    return (low if isinstance(low, int) else None, high if isinstance(high, int) else None)
