"""Which classes of a node the privacy models let stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.losses import Loss
from discretion.anonymize.records import NodeClasses, RollUp, SearchRecords, Steps
from discretion.data.dataset import Dataset
from discretion.data.households import count_units
from discretion.data.population import load_population
from discretion.errors import PlanError
from discretion.kernels.rollup import sensitive_triples
from discretion.privacy.class_table import ClassModel, ClassTable, SensitiveCounts
from discretion.privacy.k_anonymity import KAnonymity

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NodeJudgement:
    """What the models say about a node."""

    classes: NodeClasses
    gone: Bools
    """classes that are suppressed"""
    least: int
    """records that every less general node suppresses too"""
    dooms: bool
    """whether no less general node can satisfy the models without suppression"""
    broken: bool = False
    """whether a model fails whatever is suppressed: it needs records in a class that only the population has"""


@dataclass(frozen=True)
class ModelFailure:
    """How far a model is from holding at a node."""

    kind: str
    records: int
    reached: float
    required: float
    absent: int = 0
    """classes of the population without records, where they break the model"""

    @property
    def words(self) -> str:
        """Say what is reached and what is required."""
        absent = f"{self.absent} classes of the population have no record, and its lower bound is above 0"
        reached = f"reached {self.reached:.4g}, required {self.required:g}"
        return f"{absent} ({reached})" if self.absent else reached


class Judge:
    """Privacy models, applied to the nodes of a lattice."""

    def __init__(self, models: Sequence[ClassModel], records: SearchRecords, roll: RollUp, loss: Loss) -> None:
        self._by_class = [model for model in models if type(model).suppress is ClassModel.suppress]
        self.models = [*self._by_class, *(model for model in models if model not in self._by_class)]
        self.records = records
        self._roll, self._loss = roll, loss

    @cached_property
    def smallest_class(self) -> int:
        """The size below which a class certainly fails."""
        return max(model.smallest_class for model in self.models)

    @cached_property
    def by_size(self) -> bool:
        """Whether the size of a class is all that counts."""
        return not self.records.units and all(type(model) is KAnonymity for model in self.models)

    @cached_property
    def always_monotone(self) -> bool:
        """Whether a record that is suppressed at a node is suppressed at every less general one."""
        return all(model.monotone for model in self.models)

    @cached_property
    def _dooming(self) -> list[ClassModel]:
        return [model for model in self.models if model.monotone or model.monotone_without_suppression]

    @cached_property
    def may_suppress(self) -> bool:
        """Whether records can be dropped: not where a model needs a record in every class of the population."""
        return not any(model.needs_every_class for model in self.models)

    def judge(self, steps: Steps, allowed: int) -> NodeJudgement:
        """Find the classes to suppress; it stops early where more must be suppressed than is allowed."""
        classes = self._roll.classes(steps)
        small = (classes.counts < self.smallest_class) & (classes.counts > 0)
        least = int(classes.counts[small].sum())
        if self.by_size or least > allowed:
            return NodeJudgement(classes, small, least, least > 0)
        classes, numbers = self._roll.numbered(steps)
        table, alive = self.table(steps, classes, numbers)
        gone, failing = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
        dooms = False
        for model in self.models:
            before = gone
            gone = model.suppress(table, gone)
            alone = model in self._by_class or not before.any()  # what others took away can break a model of the whole
            dooms |= alone and model in self._dooming and bool((gone & ~before).any())
            if model.monotone:
                failing |= model.failing(table)
        whole = np.zeros(len(classes), np.bool_)
        whole[alive] = gone
        broken = any(self._absent(model, classes, numbers) for model in self.models)
        return NodeJudgement(classes, whole, int(table.sizes[failing].sum()), dooms or broken, broken)

    def _absent(self, model: ClassModel, classes: NodeClasses, numbers: NDArray[np.int32]) -> int:
        """Count the classes of a model's population that have no record, where they break the model.

        A less general node divides them into classes that have none either.
        """
        if not model.needs_every_class or model.population_name is None:
            return 0
        people = np.bincount(numbers, weights=self.records.population[model.population_name], minlength=len(classes))
        return int(((people > 0) & (classes.counts == 0)).sum())

    def suppressed(self, steps: Steps, classes: NodeClasses, numbers: NDArray[np.int32]) -> Bools:
        """Tell which classes of a node are suppressed, whatever their number."""
        table, alive = self.table(steps, classes, numbers)
        gone = np.zeros(len(table), np.bool_)
        for model in self.models:
            gone = model.suppress(table, gone)
        whole = np.zeros(len(classes), np.bool_)
        whole[alive] = gone
        return whole

    def failures(self, steps: Steps) -> list[ModelFailure]:
        """Say which models fail at a node, for how many records, and what they reach."""
        classes, numbers = self._roll.numbered(steps)
        table, _ = self.table(steps, classes, numbers)
        result = []
        for model in self.models:
            failing = model.suppress(table, np.zeros(len(table), np.bool_))
            absent = self._absent(model, classes, numbers)
            if failing.any() or absent:
                records = int(table.sizes[failing].sum())
                result.append(ModelFailure(model.kind, records, model.reached(table), model.required, absent))
        return result

    def table(self, steps: Steps, classes: NodeClasses, numbers: NDArray[np.int32]) -> tuple[ClassTable, Ints]:
        """Build what the models look at, and say which classes these are.

        Classes that only a population has are left out (see `Judgement.broken`). A model that suppresses some of
        several classes of the same size takes them in the order of the table: as in ARX, those that lose least come
        first, then those whose first record does.
        """
        alive = np.flatnonzero(classes.counts > 0)
        if len(self._by_class) < len(self.models):
            costs = self._loss.class_costs(steps, classes, self._roll)
            if costs is not None:
                alive = alive[np.argsort(costs[alive], kind="stable")]
        place = np.full(len(classes), -1, np.int32)
        place[alive] = np.arange(len(alive), dtype=np.int32)
        owners = place[numbers]
        sensitive = {}
        for name, entries in self.records.sensitive.items():
            triples = sensitive_triples(
                owners[entries.combination], entries.values, entries.counts, len(alive), entries.domain.size
            )
            sensitive[name] = SensitiveCounts(entries.domain, *triples)
        population = {
            name: np.bincount(numbers, weights=counts, minlength=len(classes)).astype(np.int64)[alive]
            for name, counts in self.records.population.items()
        }
        units: Ints | None = None
        for combination, of in self.records.units:
            found = count_units([of], owners[combination], len(alive))
            units = found if units is None or found is None else np.minimum(units, found)
        return ClassTable(
            classes.counts[alive], MappingProxyType(sensitive), MappingProxyType(population), units
        ), alive

    def refuse_impossible(self) -> None:
        """Raise if a model could not hold however the data is generalized."""
        top = tuple(steps - 1 for steps in self.records.shape)
        table, _ = self.table(top, *self._roll.numbered(top))
        for model in self.models:
            model.refuse_impossible(table)


def common_columns(models: Sequence[ClassModel], columns: Sequence[str]) -> tuple[str, ...]:
    """Give the columns of the search: those named, or those that all the models name."""
    named = {tuple(sorted(model.columns)): model.columns for model in models if model.columns}
    if columns:
        named[tuple(sorted(columns))] = tuple(columns)
    if len(named) > 1:
        listed = "; ".join(", ".join(given) for given in named.values())
        raise PlanError(f"a search has one set of quasi-identifiers for all its models; got: {listed}")
    return tuple(columns) if columns else next(iter(named.values()), ())


def sensitive_columns(models: Sequence[ClassModel], data: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the sensitive columns of the models; none may be a quasi-identifier."""
    found: dict[str, str] = {}
    for model in models:
        found |= {name: model.kind for name in model.sensitive_columns(data) if name not in found}
    for name, kind in found.items():
        if name in columns:
            raise PlanError(
                f"{kind}: {name!r} is both a quasi-identifier and sensitive; a class would know its own secret. "
                "Name `columns` without it"
            )
    return tuple(found)


def populations(models: Sequence[ClassModel]) -> Mapping[str, tuple[Dataset, str]]:
    """Load the populations of the models by the names they use, each with its column of frequencies (or "")."""
    found: dict[str, tuple[Dataset, str]] = {}
    for model in models:
        name = model.population_name
        if name is not None and name not in found:
            given: Any = model  # the models that name a population have these fields
            found[name] = load_population(given.population), str(given.frequency)
    return found
