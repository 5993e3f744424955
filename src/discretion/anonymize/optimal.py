"""The optimal generalization as a method: search, generalize, suppress what still fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from discretion.anonymize.losses import OF_CLASSES, AggregateName, LossName
from discretion.anonymize.problem import SearchProblem, Settings, SummaryName, bounds_of, classes_of
from discretion.anonymize.records import Bounds
from discretion.anonymize.solutions import Solution, solve
from discretion.context import Context, Progress
from discretion.data.dataset import Dataset
from discretion.engines.scan import Scan, without_classes
from discretion.errors import Infeasible, PlanError
from discretion.measure import as_percent
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, ColumnWeights, FrozenMapping, Scale, confidential
from discretion.protect.recode import Generalize
from discretion.protect.suppress import ClassModels


def _levels(given: object) -> object:
    return MappingProxyType(bounds_of(given)) if isinstance(given, Mapping) else given


LevelBounds = Annotated[
    FrozenMapping[str, tuple[int | None, int | None]],
    BeforeValidator(_levels),
    PlainSerializer(lambda levels: {name: list(bounds) for name, bounds in levels.items()}),
]


class OptimalGeneralization(Method, kind="optimal-generalization"):
    """Generalize the quasi-identifiers as little as the privacy models allow, and drop the records that still fail.

    Of all combinations of hierarchy levels (one level per column for all records), the one with the least loss is found
    that satisfies every model when at most `suppression_limit` of the records are dropped. Guarantees that the models
    hold for the release (those that compare a class with the whole table, as t-closeness does: with the table before
    records were dropped), and that no other combination of levels loses less (unless it says "not proven"). Does not
    protect against anything the models do not cover, and never looks at levels that differ from record to record: see
    `mondrian` and `local-recoding`.

    The loss of suppressed records counts (see the losses below); they are dropped and count as `lost_records`. Losses:
    `loss` (share of the hierarchy that a value could stand for), `precision-loss` (level over height), `height` (sum of
    levels), `aecs` (average class size), `discernibility`, `entropy` (non-uniform), `ambiguity`; all as ARX computes
    them. A release that drops every record does not count as a solution. A quasi-identifier without a hierarchy keeps
    its values (level 0). Missing values stay missing and count as a category of their own, whatever the models say.

    Columns of `summarize` are microaggregated inside the classes that the others make: their records share one value,
    so that the models hold for all columns together. An interval or a set is true of every record; a mean is not. A
    summary is suppressed where fewer records of a class have a value than its smallest size. Who knows all values of a
    class but one computes that one from the mean; ends of an interval and members of a set are values of somebody.

    The records are compressed once; most of the lattice is excluded by bounds, which takes time linear in the number of
    nodes up to 20 million of them. Larger lattices, or those that `seconds` does not suffice for, get the best answer
    found, with a bound and the words "not proven". Memory linear in the records and in the nodes.

    The decision holds the levels; on other data the same levels are applied, the records of failing classes are
    dropped, and it is an error if they are more than the limit allows.

    References
    ----------
    Kohlmayer, Prasser, Eckert, Kemper & Kuhn (2012), Flash, PASSAT; Prasser, Bild, Eicher, Spengler, Kohlmayer & Kuhn
    (2016), Lightning, Trans. Data Privacy 9(2); El Emam et al. (2009), JAMIA 16(5); catalogue M1, P3.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> quasi = ["age", "sex", "region"]
    >>> search = dc.OptimalGeneralization(models=[{"k-anonymity": {"k": 5}}], columns=quasi, suppression_limit=0.02)
    >>> dc.KAnonymity(k=5, columns=quasi)(search(people)).holds
    True
    """

    models: ClassModels = confidential()
    """privacy models that the release must satisfy, all at once"""
    columns: Columns = ()
    """quasi-identifiers to generalize; without it, those that the models name, or the columns with the role `quasi`"""
    loss: LossName = "loss"
    """what is minimized"""
    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the records that may be dropped"""
    importance: ColumnWeights = Field(default_factory=lambda: MappingProxyType({}))
    """weight of each column in the loss; columns not named weigh 1, and the largest counts as 1"""
    levels: LevelBounds = Field(default_factory=lambda: MappingProxyType({}))
    """bounds of the levels: a level for each column, [lowest, highest] or {min, max}; columns not named are free"""
    suppression_factor: float = Field(0.5, ge=0, le=1)
    """balance of suppression and generalization in the loss: 0 favors suppression, 1 generalization, 0.5 neither"""
    aggregate: AggregateName | None = None
    """how the columns' losses are put together; without it, as is usual for the loss"""
    summarize: FrozenMapping[str, SummaryName] = Field(default_factory=lambda: MappingProxyType({}))
    """quasi-identifiers whose values become, inside each class, their `mean`, `geometric-mean`, `median`, `interval` or
    `set`, the same for all its records; they do not divide the classes unless `cluster` names them"""
    cluster: Columns = ()
    """columns of `summarize` whose hierarchies divide the classes too, before the values are summarized"""
    seconds: float | None = Field(None, gt=0)
    """time limit; without it, as long as the proof takes (50 seconds for lattices of more than a million nodes)"""

    scale: ClassVar[Scale] = "classes"
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    guarantee: ClassVar[str] = (
        "Values were replaced by broader categories and some records dropped, so that the privacy models of this step "
        "hold; what is said is true, but less detailed (means and medians inside classes, where the settings ask for "
        "them, are true of the class)."
    )

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        """Whether values are published that are not true: means and medians of classes are."""
        return any(kind not in ("interval", "set") for kind in self.summarize.values())

    @field_validator("models", mode="after")
    @classmethod
    def _some(cls, models: tuple[Any, ...]) -> tuple[Any, ...]:
        if not models:
            raise ValueError("expected privacy models, for example [{k-anonymity: {k: 5}}]")
        return models

    @model_validator(mode="after")
    def _columns_count(self) -> Self:
        for name, given in (("importance", self.importance), ("aggregate", self.aggregate)):
            if given and self.loss in OF_CLASSES:
                raise ValueError(f"the loss {self.loss} has no part for each column; leave out `{name}`")
        return self

    def _settings(self, columns: Sequence[str], levels: Mapping[str, Bounds]) -> Settings:
        return Settings(
            models=self.models,
            columns=tuple(columns),
            loss=self.loss,
            suppression_limit=self.suppression_limit,
            importance=self.importance,
            levels=levels,
            suppression_factor=self.suppression_factor,
            aggregate=self.aggregate,
            summarize=self.summarize,
            cluster=self.cluster,
        )

    def solve(self, data: Dataset, progress: Progress | None = None) -> Solution:
        """Search and give the solution with its space of alternatives."""
        settings = self._settings(self.columns, self.levels)
        return solve(SearchProblem(classes_of(data, settings), settings), self.seconds, progress)

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the levels."""
        found = self.solve(data, ctx.progress)
        values = {
            "levels": found.levels,
            "score": found.score,
            "suppressed": found.suppressed,
            "proven": found.proven,
            "bound": found.bound if math.isfinite(found.bound) else None,
            "words": found.words,
        }
        return Decision(MappingProxyType(values))

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:
        """Find the classes that the levels leave failing, and so the records to drop."""
        if self.summarize:
            raise PlanError(f"{self.kind} with `summarize` needs all rows in memory")
        names = tuple(decision["levels"])
        table = classes_of(data, self._settings(names, self.levels))
        kept = self.rewrite(table, decision, Context(0))
        whole = Generalize(levels=_raised(table, decision))(table) if _raised(table, decision) else table
        gone = (
            whole.frame.select(names)
            .unique()
            .join(kept.frame.select(names).unique(), on=names, how="anti", nulls_equal=True)
        )
        return Decision(decision.values, gone), table.records - kept.records

    def _rewrite_batch(self, data: Dataset, decision: Decision) -> Dataset:
        raised, gone = _raised(data, decision), decision.dropped
        data = Generalize(levels=raised).rewrite(data, decision, Context(0)) if raised else data
        return without_classes(data, gone)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Apply the levels and drop the records of classes that fail."""
        if decision.dropped is not None:
            return self._rewrite_batch(data, decision)
        fixed: dict[str, Bounds] = {name: (level, level) for name, level in decision["levels"].items()}
        others = [name for name in self.summarize if name not in fixed]
        problem = SearchProblem(data, self._settings([*fixed, *others], fixed))
        steps = (0,) * len(problem.columns)
        result = problem.generalized(steps)
        lost = data.records - result.records
        if problem.judge.judge(steps, problem.allowed).broken:
            said = "; ".join(f"{one.kind}: {one.words}" for one in problem.judge.failures(steps))
            raise Infeasible(f"the levels found earlier break a model on this data: {said}; search anew")
        if lost > problem.allowed or not len(result):
            raise Infeasible(
                f"with the levels found earlier, {lost} of {data.records} records "
                f"({as_percent(lost / data.records)}) of "
                f"this data would be dropped, more than the limit of {self.suppression_limit:g} allows; search anew"
            )
        return result


def _raised(data: Dataset, decision: Decision) -> dict[str, int]:
    """Give the levels of the columns that are to be raised."""
    return {
        name: level for name, level in decision["levels"].items() if level > 0 and data.levels.get(name, 0) != level
    }
