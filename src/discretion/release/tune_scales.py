"""The two figures that tuning weighs: one for risk, one for utility, each from one measure or from several."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion import __version__
from discretion.data.population_classes import IN_MEMORY as DATA_IN_MEMORY
from discretion.errors import DataError, PlanError
from discretion.learning.fitting import IN_MEMORY as ESTIMATOR_IN_MEMORY
from discretion.measure import Better, Measure, Score
from discretion.method import Method
from discretion.part import Family, find, parse
from discretion.release.tune_space import Setting

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.measure import Measure
    from discretion.method import Method

FORMAT = 3
"""Goes into every key; raised when the same key would stand for another figure."""


@dataclass(frozen=True)
class Figure:
    """What one measure gave for one release."""

    value: float
    chance: float | None = None
    doubtful: bool = False
    """the attack takes perturbed values as true"""
    interval: tuple[float, float] | None = None
    """what the value may be for everybody, where the attack looked for a sample of the people"""

    def at(self, end: int) -> Figure:
        """Give the figure at the lower (0) or upper (1) end of its interval."""
        return self if self.interval is None else replace(self, value=self.interval[end])


class FigureCache:
    """Figures by (data, rows, steps, seed) and measure. A file holds no values of people and no seed.

    Writing is whole or not at all; only the owner may read the folder. What cannot be written as text (data or an
    estimator in memory) is not kept.
    """

    def __init__(self, memory: dict[str, dict[str, Figure]], folder: str | Path | None = None) -> None:
        self._memory = memory
        self._folder = None if folder is None else Path(folder)
        if self._folder is not None:
            if self._folder.exists() and not self._folder.is_dir():
                raise DataError(f"{str(folder)!r} is a file; the cache is a folder")
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, release: str | None, measure: Measure) -> Figure | None:
        """Give a figure that is known."""
        name = _text_of(measure)
        if release is None or name is None:
            return None
        if release not in self._memory:
            self._memory[release] = self._read(release)
        return self._memory[release].get(name)

    def keep(self, release: str | None, figures: Sequence[tuple[Measure, Figure]]) -> None:
        """Keep the figures of one release."""
        if release is None:
            return
        named = {name: figure for measure, figure in figures if (name := _text_of(measure)) is not None}
        known = self._memory.setdefault(release, self._read(release))
        if all(known.get(name) == figure for name, figure in named.items()):
            return
        known.update(named)
        if self._folder is not None:
            from discretion.data.write import write_text

            content = {"format": FORMAT, "figures": {name: asdict(figure) for name, figure in known.items()}}
            write_text(self._folder / f"{release}.json", json.dumps(content), overwrite=True, private=True)

    def _read(self, release: str) -> dict[str, Figure]:
        """Read a file of the folder; one that is damaged is as good as none."""
        if self._folder is None or not (file := self._folder / f"{release}.json").is_file():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return {str(name): _figure(fields) for name, fields in content["figures"].items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            return {}


def _figure(fields: dict[str, Any]) -> Figure:
    ends = fields.get("interval")
    return Figure(**{**fields, "interval": None if ends is None else (float(ends[0]), float(ends[1]))})


def release_key(data: str, rows: str, steps: tuple[Method, ...], seed: int) -> str | None:
    """Give the hash of a release before it is made; None where it cannot be repeated or written as text."""
    texts = [_text_of(method) for method in steps]
    if any(text is None for text in texts) or not all(method.seeded for method in steps):
        return None
    return _digest([FORMAT, __version__, data, rows, texts, hex(seed)])


def data_digest(data: Dataset) -> str:
    """Give the hash of everything in a data set that methods and measures look at."""
    import polars as pl

    from discretion.release.plan import Plan

    levels = {name: level if isinstance(level, int) else _array(level) for name, level in data.levels.items()}
    masks = {name: _array(data.suppressed(name)) for name in data.suppressed_cells}
    facts = [pl.__version__, data.columns, [str(kind) for kind in data.frame.dtypes], levels, masks]
    steps = [step.to_plan() for step in data.steps]
    schema = Plan(schema=data.schema).to_dict()
    return _digest([_array(data.frame.hash_rows(seed=0).to_numpy()), facts, steps, schema, data.lost_records])


def rows_digest(rows: NDArray[np.int64] | None) -> str:
    """Give the hash of a sample of rows."""
    return "all" if rows is None else _array(rows)


def _array(values: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(part: Measure | Method) -> str | None:
    """Write a part with all it depends on; None where something of it is only in memory."""
    text = json.dumps(part.to_plan(), sort_keys=True, default=str, ensure_ascii=False)
    if DATA_IN_MEMORY in text or ESTIMATOR_IN_MEMORY in text:
        return None
    files = [getattr(part, name) for name in part.path_fields()]
    stamps = [_stamp(file) for file in files if isinstance(file, str)]
    return f"{text} {stamps}" if stamps else text


def _stamp(file: str) -> tuple[int, int] | None:
    """Tell one version of a file from another."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


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
    from discretion.release.attack_set import default_measures

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
