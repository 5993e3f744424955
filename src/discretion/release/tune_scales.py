"""The two figures that tuning weighs: one for risk, one for utility, each from one measure or from several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError
from discretion.measure import Better, Measure, Score
from discretion.method import Method
from discretion.part import Family, find, parse
from discretion.release.tune_cache import Figure
from discretion.release.tune_space import Setting

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

NEVER = ("average-divergence",)
"""Measures that say nothing about loss and cannot guide anything (catalogue U3)."""
_WORTH_DRAWING = 5
"""People are drawn from data that has so many times as many rows."""
_ON_NUMBERS = ("interval-risk", "rank-interval")


def figure_of(score: Score, *, sampled: bool = False) -> Figure:
    """Take from a score what tuning needs; `sampled`: it is that of some people drawn at random."""
    chance, ends = score.detail.get("chance"), score.detail.get("interval") if sampled else None
    return Figure(
        score.value,
        float(chance) if isinstance(chance, int | float) else None,
        "warning" in score.detail,
        None if ends is None else (float(ends[0]), float(ends[1])),
    )


def screened(measure: Measure, rows: int) -> Measure:
    """Give a measure as settings are tried with it: where that takes less time, on some of the people."""
    few: Any = measure.screens_with
    if not few or getattr(measure, "sample", few) or rows < _WORTH_DRAWING * few:
        return measure
    return measure.model_copy(update={"sample": few})


def gain_of(figure: Figure) -> float:
    """Give the part of the way from guessing to certainty that an attack gains: (s − c)/(1 − c), at least 0."""
    if figure.chance is None:
        return figure.value
    return 0.0 if figure.chance >= 1 else max(0.0, (figure.value - figure.chance) / (1 - figure.chance))


def loss_of(measure: Measure, value: float) -> float:
    """Put a figure between 0 (nothing lost) and 1 (all lost) by the limits of its measure."""
    low, high = measure.limits
    if low is None or high is None:
        raise PlanError(f"{measure.kind} has no smallest and largest value and cannot be put on a scale from 0 to 1")
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    return share if measure.better == "lower" else 1.0 - share


@dataclass(frozen=True)
class Scale:
    """One figure from one or several measures of a family."""

    measures: tuple[Measure, ...]
    family: Family

    def __post_init__(self) -> None:
        problems = [problem for measure in self.measures if (problem := self._fault(measure))]
        if not self.measures:
            problems.append(f"{self.family}: no measure")
        if problems:
            raise PlanError(problems)

    def _fault(self, measure: Measure) -> str:
        if measure.kind in NEVER:
            return f"{measure.kind} is not zero for identical data and says nothing about loss; it cannot guide tuning"
        if measure.family != self.family:
            return f"{measure.kind} is a measure of {measure.family}; one of {self.family} is needed here"
        if self.family == "risk" and measure.better != "lower":
            return f"{measure.kind}: a risk that is better when higher cannot be limited"
        if self.family == "risk" and len(self.measures) > 1 and measure.limits != (0.0, 1.0):
            return f"{measure.kind} is not a share of people; beside other risks only shares can be compared"
        if self.family == "utility" and len(self.measures) > 1 and None in measure.limits:
            return f"{measure.kind} has no smallest and largest value; it can stand alone, not beside other measures"
        return ""

    @property
    def better(self) -> Better:
        """The direction: that of the only measure; several risks are better lower, several utilities higher."""
        if len(self.measures) == 1:
            return self.measures[0].better
        return "lower" if self.family == "risk" else "higher"

    @property
    def title(self) -> str:
        """What the figure is."""
        if len(self.measures) == 1:
            return self.measures[0].kind
        if self.family == "risk":
            return "best attack's gain over guessing"
        return "utility (1 − mean loss)"

    @property
    def is_share(self) -> bool:
        """Tell whether the figure lies between 0 and 1."""
        return len(self.measures) > 1 or self.measures[0].limits == (0.0, 1.0)

    @property
    def ideal(self) -> float | None:
        """The best possible figure; None where there is none."""
        if len(self.measures) > 1:
            return 0.0 if self.family == "risk" else 1.0
        low, high = self.measures[0].limits
        return low if self.better == "lower" else high

    def value(self, figures: Sequence[Figure]) -> float:
        """Give the figure of one release.

        One measure: its own value. Several risks: the largest gain over guessing of the attacks that do not take
        perturbed values as true (of all, if all do). Several utilities: one minus the mean loss, each between 0 and 1.
        """
        if len(self.measures) == 1:
            return figures[0].value
        if self.family == "risk":
            return max(gain_of(one) for one in _credible(figures))
        losses = [loss_of(measure, one.value) for measure, one in zip(self.measures, figures, strict=True)]
        return 1.0 - sum(losses) / len(losses)

    def leading(self, figures: Sequence[Figure]) -> str:
        """Name the measure that decides the figure."""
        if len(self.measures) == 1 or self.family != "risk":
            return self.title
        credible = _credible(figures)
        pairs = [
            (gain_of(one), measure.kind) for measure, one in zip(self.measures, figures, strict=True) if one in credible
        ]
        return max(pairs, key=lambda pair: pair[0])[1]

    def cost(self, value: float) -> float:
        """Give the figure such that lower is better."""
        return value if self.better == "lower" else -value


def _credible(figures: Sequence[Figure]) -> Sequence[Figure]:
    return [one for one in figures if not one.doubtful] or figures


def take_measures(given: Any, family: Family) -> tuple[Measure, ...]:
    """Take one measure or several: parts, kinds, or entries of a plan."""
    several = given if isinstance(given, list | tuple) else [given]
    found: list[Measure] = []
    problems: list[str] = []
    for one in several:
        try:
            part = one if isinstance(one, Measure) else parse(one, "risk", "utility")
        except PlanError as error:
            problems += [f"{family}: {problem}" for problem in error.problems]
            continue
        if isinstance(part, Measure):
            found.append(part)
    if problems:
        raise PlanError(problems)
    return tuple(found)


def default_risk(data: Dataset, settings: Sequence[Setting]) -> tuple[Measure, ...]:
    """Choose the attacks that roles and types allow and whose success is a share of people.

    Numbers with a hierarchy are left out of attacks on intervals where a method makes values coarser: they may be
    intervals themselves afterwards.
    """
    from discretion.release.measures import default_measures

    layered = _generalized(data, settings)
    chosen: list[Measure] = []
    for one in default_measures(data, data):
        if one.family != "risk" or one.limits != (0.0, 1.0):
            continue
        columns = getattr(one, "columns", ())
        if one.kind in _ON_NUMBERS and (kept := [name for name in columns if name not in layered]) != list(columns):
            if kept:
                chosen.append(one.model_copy(update={"columns": tuple(kept)}))
        else:
            chosen.append(one)
    if not chosen:
        raise PlanError("no attack fits the roles and types of the data; give roles, or `risk`")
    return tuple(chosen)


def default_utility(data: Dataset, settings: Sequence[Setting]) -> tuple[Measure, ...]:
    """Choose how far values moved, and the detail left for columns that a method generalizes by their hierarchy."""
    columns = [name for name in data.choose((), "compare") if data.type_of(name) != "set"]
    layered = [name for name in columns if name in _generalized(data, settings)]
    perturbed = touched((m for s in settings for m in s.methods if m.perturbs), data.columns)
    moved = [name for name in columns if name not in layered or name in perturbed]
    chosen = [("variable-change", moved), ("precision", layered)]
    built = [find(kind)(columns=names) for kind, names in chosen if names]
    return tuple(measure for measure in built if isinstance(measure, Measure))


def _generalized(data: Dataset, settings: Sequence[Setting]) -> frozenset[str]:
    """Name the columns that a method makes coarser by their hierarchy."""
    coarser = [
        method
        for setting in settings
        for method in setting.methods
        if not method.perturbs and ("levels" in type(method).model_fields or ".anonymize." in type(method).__module__)
    ]
    layered = [name for name in data.columns if data.schema[name].hierarchy is not None]
    return touched(coarser, layered) & frozenset(layered)


def touched(methods: Iterable[Method], otherwise: Iterable[str]) -> frozenset[str]:
    """Name the columns that methods name in their fields; one that names none may touch any."""
    found: set[str] = set()
    for method in methods:
        single = getattr(method, "column", None)
        named = {*(getattr(method, "columns", None) or ()), *(getattr(method, "levels", None) or ())}
        found |= named | ({single} if isinstance(single, str) else set()) or set(otherwise)
    return frozenset(found)
