"""Which classes of a node the privacy models let stand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.anonymize.losses import Loss
from discretion.anonymize.records import NodeClasses, RollUp, SearchRecords, Steps
from discretion.data.codes import add_counts
from discretion.data.dataset import Dataset
from discretion.data.households import count_units, unit_codes
from discretion.data.population_classes import load_population
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.classes import ClassTest, ClassValues, ClassWork, judge_classes, keep_large, make_work
from discretion.kernels.rollup import sensitive_triples
from discretion.part import ColumnWeights
from discretion.privacy.class_table import (
    ClassModel,
    ClassTable,
    SensitiveCounts,
    SensitiveModel,
    sensitive_domain,
    smallest_standing,
)
from discretion.privacy.k_anonymity import KAnonymity
from discretion.protect.suppress import ReachesModels

_NONE = np.empty(0, np.int64)
_NO_TABLE = np.empty((0, 0), np.int32)


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
    complete: bool = True
    """whether all the classes to suppress were found; false where it stopped because they are too many"""


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


@dataclass(frozen=True)
class _Tested:
    """A model that is a test of single classes, for one of its columns."""

    model: ClassModel
    column: str
    test: ClassTest
    work: ClassWork


class Judge:
    """Privacy models, applied to the nodes of a lattice.

    Classes that are too small go first. Models that are tests of single classes are applied in kernels, to counts of
    the sensitive values that are rolled up like the classes themselves. Then come those that look at sizes only, and at
    last those that need the whole table. After each, nothing more is done where more is lost than is allowed.
    """

    def __init__(self, models: Sequence[ClassModel], records: SearchRecords, roll: RollUp, loss: Loss) -> None:
        self._by_class = [model for model in models if type(model).suppress is ClassModel.suppress]
        self.models = [*self._by_class, *(model for model in models if model not in self._by_class)]
        self.records = records
        self._roll, self._loss = roll, loss
        self._tested: list[_Tested] = []
        self._others: list[ClassModel] = []
        for model in self.models:
            tests = self._tests(model)
            if tests is None:
                self._others.append(model)
            else:
                self._tested += tests

    def _tests(self, model: ClassModel) -> list[_Tested] | None:
        """Give the tests that a model consists of beside its smallest class; None if it is more than that."""
        if type(model) is KAnonymity and not self.records.units:
            return []
        if not isinstance(model, SensitiveModel) or (model.counts_units and self.records.units):
            return None
        found = []
        for name, entries in self.records.sensitive.items():
            if not model.sensitive or name in model.sensitive:
                test = model.class_test(entries.domain)
                if test is None:
                    return None
                found.append(_Tested(model, name, test, make_work(test)))
        return found

    @cached_property
    def smallest_class(self) -> int:
        """The size below which a class certainly fails."""
        tested = [smallest_standing(one.test) for one in self._tested]
        return max([model.smallest_class for model in self.models] + tested)

    @cached_property
    def by_size(self) -> bool:
        """Whether the size of a class is all that counts."""
        return not self._tested and not self._others

    @cached_property
    def teaches(self) -> bool:
        """Whether every model that fails at a node says something about the less general ones."""
        alike = (ClassModel.kept_below, ClassModel.lost_below)
        return all(
            model.monotone or (type(model).kept_below, type(model).lost_below) != alike for model in self._others
        )

    @cached_property
    def _dooming(self) -> list[ClassModel]:
        return [model for model in self.models if model.monotone or model.monotone_without_suppression]

    @cached_property
    def may_suppress(self) -> bool:
        """Whether records can be dropped: not where a model needs a record in every class of the population."""
        return not any(model.needs_every_class for model in self.models)

    def judge(self, steps: Steps, allowed: int) -> NodeJudgement:
        """Find the classes to suppress; it stops early where more must be suppressed than is allowed."""
        classes, hub, numbers = self._roll.from_hub(steps)
        sizes = classes.counts
        gone, keep = np.empty(len(classes), np.bool_), np.empty(len(classes), np.int64)
        lost = keep_large(sizes, self.smallest_class, gone, keep)
        dooms = lost > 0
        if self.by_size or lost > allowed:
            return NodeJudgement(classes, gone, lost, dooms, complete=self.by_size)
        if self._tested:
            found = self._found(steps, classes, hub, numbers, keep)
            for one in self._tested:
                lost, failed = judge_classes(
                    one.test, found[one.column], one.work, sizes, self.smallest_class, allowed, lost, gone, keep
                )
                dooms |= failed > 0 and one.model in self._dooming
                if lost > allowed:
                    return NodeJudgement(classes, gone, lost, dooms, complete=False)
        if not self._others:
            return NodeJudgement(classes, gone, lost, dooms or lost > 0)
        return self._judge_others(
            steps, classes, gone, keep, NodeJudgement(classes, gone, lost, dooms or lost > 0), allowed
        )

    def _found(
        self, steps: Steps, classes: NodeClasses, hub: NodeClasses, numbers: NDArray[np.int32], keep: Ints
    ) -> dict[str, ClassValues]:
        """Count the sensitive values of the classes of which something can be kept."""
        result, first = {}, 0
        table = self._roll.count_values(hub, numbers, keep)
        if table is not None:
            for name, entries in self.records.sensitive.items():
                result[name] = ClassValues(table, first, _NONE, _NONE, _NONE)
                first += entries.domain.size
            return result
        _, owners = self._roll.numbered(steps)
        for name, entries in self.records.sensitive.items():
            triples = sensitive_triples(
                owners[entries.combination], entries.values, entries.counts, len(classes), entries.domain.size
            )
            result[name] = ClassValues(_NO_TABLE, 0, *triples)
        return result

    def _judge_others(
        self, steps: Steps, classes: NodeClasses, gone: Bools, keep: Ints, before: NodeJudgement, allowed: int
    ) -> NodeJudgement:
        """Apply the models that are no tests: first by the sizes alone, then with all they look at."""
        lost, dooms = before.least, before.dooms
        alive = np.flatnonzero(classes.counts > 0)
        plain = ClassTable(classes.counts[alive])
        by_sizes = [model for model in self._others if model.by_sizes]
        out = gone[alive]
        for model in by_sizes:
            lost = max(lost, model.lost_below(plain))
            alone = not out.any()
            out = model.suppress(plain, out, allowed)
            dooms |= alone and model in self._dooming and bool(out.any())
        if int(plain.sizes[out].sum()) > allowed:
            whole = gone.copy()
            whole[alive] = out
            return NodeJudgement(classes, whole, lost, dooms, complete=False)
        classes, numbers = self._roll.numbered(steps)
        table, alive = self.table(steps, classes, numbers)
        out, kept = gone[alive], keep[alive]
        for model in self._others:
            if model.by_sizes:
                continue
            failing = model.failing(table)
            out = out | failing
            dooms |= model in self._dooming and bool(failing.any())
            kept = np.minimum(kept, model.kept_below(table))
        lost = max(lost, int((table.sizes - kept).sum()))
        for model in by_sizes:
            out = model.suppress(table, out, allowed)
        whole = np.zeros(len(classes), np.bool_)
        whole[alive] = out
        broken = any(self._absent(model, classes, numbers) for model in self.models)
        complete = lost <= allowed and int(table.sizes[out].sum()) <= allowed
        return NodeJudgement(classes, whole, lost, dooms or broken, broken, complete)

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

        Classes that only a population has are left out (see `NodeJudgement.broken`). A model that suppresses some of
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
        lost = self._lost(steps, classes)[alive] if any(model.looks_at_loss for model in self.models) else None
        return ClassTable(
            classes.counts[alive], MappingProxyType(sensitive), MappingProxyType(population), units, lost
        ), alive

    def _lost(self, steps: Steps, classes: NodeClasses) -> NDArray[np.float64]:
        """Give the entropy-based loss of each class, over the columns that have hierarchies."""
        lost, most = np.zeros(len(classes)), 0.0
        for axis, step, values in zip(self.records.axes, steps, self._roll.values(classes), strict=True):
            if axis.height:
                lost += np.log(axis.leaves[step])[values]
                most += float(np.log(axis.domain))
        return lost / most if most else lost

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


class GroupJudge:
    """Models, made ready to judge any grouping of the records of a data set.

    A missing value counts as a category of its own. Models about the whole table (average risk) cannot guide the
    building of single groups; they are checked when the groups are there.
    """

    def __init__(
        self, data: Dataset, columns: Sequence[str], k: int | None, models: Sequence[ClassModel], kind: str
    ) -> None:
        found = [*models, *([KAnonymity(k=k)] if k else [])]
        if outside := [model for model in found if model.population_name is not None]:
            raise PlanError(
                f"{kind}: {outside[0].kind!r} compares with a population, which groups of records do not divide; "
                "use optimal-generalization"
            )
        self.kind = kind
        self.columns = data.choose(common_columns(found, columns), "classes")
        self.k = max([1, *(model.smallest_class for model in found)])
        self._found = found
        self._units = unit_codes(data) if any(model.counts_units for model in found) else ()
        by_class = [model for model in found if type(model).suppress is ClassModel.suppress]
        self._local = [model for model in by_class if self._units or type(model) is not KAnonymity]
        self._whole = [m for m in found if type(m).suppress is not ClassModel.suppress]
        self._n, self._rows, self.counts = data.records, len(data), data.counts
        self._sensitive = {name: sensitive_domain(data, name) for name in sensitive_columns(found, data, self.columns)}
        if self.k > self._n:
            raise DataError(f"{kind}: groups of k = {self.k} cannot be made of {self._n} records")

    @property
    def by_size(self) -> bool:
        """Whether the size of a group is all that counts while groups are built."""
        return not self._local

    def table(self, groups: NDArray[np.integer[Any]], count: int, rows: Ints | None = None) -> ClassTable:
        """Build what the models look at, from the group of each record (or of some rows)."""
        from discretion.kernels.rollup import sensitive_triples

        ids = groups.astype(np.int32)
        counts = self.counts if rows is None or self.counts is None else self.counts[rows]
        sizes = add_counts(ids, counts, count)
        each = np.ones(len(ids), np.int64) if counts is None else counts
        sensitive = {}
        for name, (domain, values) in self._sensitive.items():
            own = values if rows is None else values[rows]
            sensitive[name] = SensitiveCounts(domain, *sensitive_triples(ids, own, each, count, domain.size))
        units = count_units([of if rows is None else of[rows] for of in self._units], ids, count)
        return ClassTable(sizes, MappingProxyType(sensitive), units=units)

    def failing(self, table: ClassTable) -> Bools:
        """Tell which groups are too small or break a model."""
        result = np.asarray(table.sizes < self.k)
        for model in self._local:
            result = result | model.failing(table)
        return result

    def refuse_impossible(self) -> None:
        """Raise if the models do not even hold when all records are one group."""
        table = self.table(np.zeros(self._rows, np.int32), 1)
        for model in self._found:
            model.refuse_impossible(table)
            if model.suppress(table, np.zeros(1, np.bool_)).any():
                raise Infeasible(
                    f"{self.kind}: {model.kind} does not hold even when all {self._n} records are one group "
                    f"(reached {model.reached(table):.4g}, required {model.required:g}); relax it"
                )

    def stands_alone(self, data: Dataset, groups: NDArray[np.integer[Any]], kept: Ints) -> bool:
        """Tell whether the models hold for the records kept by themselves, without what the others add to the totals.

        Some models compare a group with the whole table, which is another one when records were dropped.
        """
        if len(kept) == len(data) or self.by_size:
            return True
        rest = GroupJudge(data.take(kept), self.columns, None, self._found, self.kind)
        _, number = np.unique(groups[kept], return_inverse=True)
        return not rest.failing(rest.table(number, int(number.max()) + 1)).any()

    def confirm(self, groups: NDArray[np.integer[Any]], count: int, rows: Ints | None = None) -> None:
        """Check all models once more on the groups that were built, also those about the whole table."""
        table = self.table(groups, count, rows)
        if self.failing(table).any():
            raise Infeasible(f"{self.kind}: no grouping was found in which every group satisfies the models")
        for model in self._whole:
            if model.failing(table).any():
                raise Infeasible(
                    f"{self.kind}: {model.kind} is about all groups together and does not hold for those found "
                    f"(reached {model.reached(table):.4g}, required {model.required:g}); ask for a larger k"
                )


class GroupsRecords(ReachesModels):
    """A search that puts records into groups, and drops some where that loses less."""

    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the records that may be dropped"""
    importance: ColumnWeights = Field(default_factory=lambda: MappingProxyType({}))
    """weight of each column's loss; columns not named weigh 1"""

    def _allowed(self, records: int) -> int:
        """Count the records that may be dropped."""
        return math.floor(self.suppression_limit * records + 1e-9)

    def _weights(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Give the weight of each column, the largest as 1."""
        if unknown := [name for name in self.importance if name not in columns]:
            raise PlanError(f"importance: {unknown[0]!r} is not among the columns")
        weights = np.array([self.importance.get(name, 1.0) for name in columns])
        if not weights.max() > 0:
            raise PlanError("importance: at least one column must have a weight above 0")
        return np.asarray(weights / weights.max())
