"""A problem for the search: data, models, loss and limits, checked and made ready."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.class_losses import make_loss
from discretion.anonymize.explorer import Explorer, Node
from discretion.anonymize.judge import (
    Judge,
    common_columns,
    populations,
    sensitive_columns,
)
from discretion.anonymize.lattice import Bounds, check_bounds
from discretion.anonymize.losses import AggregateName, Loss, LossName
from discretion.anonymize.records import RollUp, SearchRecords, Steps, compress
from discretion.anonymize.summaries import SummaryName, check_summary, summarize
from discretion.context import Progress
from discretion.data.dataset import Dataset
from discretion.data.households import unit_codes
from discretion.errors import DataError, Infeasible, PlanError
from discretion.measure import as_percent
from discretion.privacy.class_table import ClassModel
from discretion.privacy.profitability import Profitability

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
        self.allowed = math.floor(settings.suppression_limit * len(data) + 1e-9)
        self.loss = self._loss()
        self.judge = Judge(self.models, self.records, self.roll, self.loss)
        if not self.judge.may_suppress:
            self.allowed = self.loss.allowed = 0
        if self.judge.smallest_class > len(data):
            raise Infeasible(
                f"the models ask for classes of at least {self.judge.smallest_class} records, but the data has "
                f"{len(data)} in all: fully generalized, its one class has {len(data)}"
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
        return data.with_columns(new, integers=True)

    def infeasible(self, evaluated: Iterable[Node]) -> Infeasible:
        """Say why nothing satisfies the models, and what comes closest."""
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
