"""`dc.compare`: attack and measure several finished releases alike, and read them from their folders."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as count_up
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError
from discretion.measure import Better, Measure, as_percent, match_by, match_rows
from discretion.part import Family, find
from discretion.release.attack_set import run_with_holdout
from discretion.release.journal import ORDER_FILE, in_journal_order
from discretion.release.ranking import standard_error
from discretion.release.report.attack_lines import NARROW, WIDTH, Line, draw
from discretion.release.report.charts import plain_columns, sides_between
from discretion.release.report.figures import FigureGroup, column_figure, pair_figure
from discretion.release.report.page import template
from discretion.release.report.wording import NOTHING, count, figure, percent, title_of
from discretion.release.tune_scales import NEVER, Figure, figure_of, gain_of, loss_of, take_measures

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan

# A page that puts several releases side by side: overall, then measure by measure. Internal.

MOST_DRAWN = 16
"""Columns of which a comparison shows the distributions."""
_FAMILIES = (("risk", "Risk: what an attacker can do"), ("utility", "Utility: what was lost"))


def comparison_page(found: Comparison, title: str) -> str:
    """Give the page as one HTML file that needs nothing else: pictures first, then the tables."""
    return template("comparison.html").render(
        title=title, internal=True, charts=_charts(found), groups=_pictures(found), **_content(found)
    )


def _charts(found: Comparison) -> list[dict[str, Any]]:
    """Draw the attacks from guessing to success and the losses, for every release."""
    from markupsafe import Markup

    attacks = [row for row in found.rows if row.family == "risk" and row.measure.limits == (0.0, 1.0)]
    attacks = [row for row in attacks if row.figures]
    attacks.sort(key=lambda row: (_doubtful(row), -max(gain_of(one) for one in row.figures.values()), row.title))
    risks = [
        Line(
            _title(row),
            "takes perturbed values as true" if _doubtful(row) else "",
            (row.chance, *(one.chance if (one := row.figures.get(name)) else None for name in found.names)),
            (row.before, *(one.value if (one := row.figures.get(name)) else None for name in found.names)),
            _doubtful(row),
        )
        for row in attacks
    ]
    none = (None,) * len(found.names)
    losses = [Line(_title(row), "", none, tuple(row.loss(name) for name in found.names)) for row in found.scaled]
    charts = []
    if risks:
        names = ("the original", *found.names)
        title = "Every attack, from guessing to success"
        drawn = [Markup(draw(risks, names, title, width=width)) for width in (WIDTH, NARROW)]
        words = (
            "The share of people for whom each attack is right, for the original and for every release; the attack "
            "that gains most over guessing comes first. A short line is good."
        )
        charts.append({"key": "attack-lines", "title": title, "words": words, "pictures": drawn})
    if losses:
        title = "What was lost"
        drawn = [
            Markup(draw(losses, found.names, title, original=False, guessing=False, width=width))
            for width in (WIDTH, NARROW)
        ]
        words = "Each measure put between 0% (nothing lost) and 100%; what a release does not have is lost."
        charts.append({"key": "loss-lines", "title": title, "words": words, "pictures": drawn})
    return charts


def _pictures(found: Comparison) -> list[FigureGroup]:
    """Draw each column and the tables of all pairs, release beside release; of several synthetic copies the first."""
    if found.original is None:
        return []
    sides = {name: sides_between(found.original, data.copies()[0]) for name, data in found.data.items()}
    shown = [name for name in found.original.columns if any(name in plain_columns(one) for one in sides.values())]
    drawn = [
        column_figure(one, column, f"{column}: {name}")
        for column in shown[:MOST_DRAWN]
        for name, one in sides.items()
        if column in plain_columns(one) and not found.original.frame.schema[column].is_nested()
    ]
    left = f" {len(shown) - MOST_DRAWN} more columns are not drawn." if len(shown) > MOST_DRAWN else ""
    words = (
        "The original and each release: bars and outline of numbers, shares of categories. A histogram has at least "
        f"ten original records behind each bar.{left}"
    )
    pairs = [pair_figure(one, f"All pairs: {name}") for name, one in sides.items()]
    moved = (
        "For every pair of columns the share of records that lie in another cell of their table than in the original "
        "(numbers in fifths): 0 means that the table was kept. Chance alone moves tables of many cells."
    )
    groups = (
        FigureGroup("columns", "Column by column", words, tuple(one for one in drawn if one is not None)),
        FigureGroup("pairs", "Pair by pair", moved, tuple(one for one in pairs if one is not None)),
    )
    return [group for group in groups if group.figures]


def _doubtful(row: ComparedRelease) -> bool:
    return any(one.doubtful for one in row.figures.values())


def _title(row: ComparedRelease) -> str:
    return title_of(row.kind) + row.title.removeprefix(row.kind)


def table(found: Comparison) -> str:
    """Give the verdict and the tables alone, for a notebook."""
    from markupsafe import Markup

    return Markup("<p>{}</p>").format(found.verdict) + Markup(
        template("comparison_tables.html").render(**_content(found))
    )


def _content(found: Comparison) -> dict[str, Any]:
    return {
        "verdict": found.verdict,
        "names": found.names,
        "overall": [_overall(found, name) for name in found.names],
        "families": [
            {"key": key, "title": title, "rows": [_figure_row(found, row) for row in found.rows if row.family == key]}
            for key, title in _FAMILIES
        ],
        "scaled": [title_of(row.kind) for row in found.scaled],
        "reasons": [
            {"title": row.title, "name": name, "reason": reason}
            for row in found.rows
            for name, reason in row.reasons.items()
        ],
        "doubtful": any(figure.doubtful for row in found.rows for figure in row.figures.values()),
    }


def _overall(found: Comparison, name: str) -> dict[str, Any]:
    overall = found.overall(name)
    lacking = ", ".join(found.lacking[name])
    return {
        "name": name,
        "gain": percent(overall.gain),
        "attack": overall.attack or NOTHING,
        "loss": percent(overall.loss),
        "records": count(found.records[name]),
        "lacking": lacking or "none",
        "better": found.better == name,
    }


def _figure_row(found: Comparison, row: ComparedRelease) -> dict[str, Any]:
    limits = row.measure.limits
    cells = []
    for name in found.names:
        known = row.figures.get(name)
        text = "not run" if known is None else figure(known.value, limits)
        cells.append(
            {
                "name": name,
                "text": text + ("*" if known is not None and known.doubtful else ""),
                "wins": row.winner == name,
            }
        )
    return {
        "title": _title(row),
        "what": row.measure.summary(),
        "better": row.better,
        "before": figure(row.before, limits),
        "chance": figure(row.chance, limits),
        "cells": cells,
        "winner": row.winner or NOTHING,
    }


_ALIKE = 1e-9
_Z = 1.96
_T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""Student's 97.5 % points, by the number of differences."""


def _beyond_chance(apart: Sequence[float]) -> bool:
    """Tell whether a difference that was measured without each part of the rows is above zero by more than chance.

    The jackknife's standard error of a mean over all rows: √((K−1)/K·Σ(Dₖ − D̄)²); t test, 95 %.
    """
    count = len(apart)
    error = math.sqrt(count - 1) * float(np.std(apart))
    return float(np.mean(apart)) > _T[count] * error + _ALIKE


@dataclass(frozen=True)
class ComparedRelease:
    """One measure on every release; a release that it could not run on has a reason instead of a figure."""

    measure: Measure
    before: float | None
    """the figure of the original itself, for risks"""
    figures: Mapping[str, Figure]
    reasons: Mapping[str, str]
    published: Mapping[str, float] = field(default_factory=dict)
    """for utilities, the share of what they compare that each release has at all (records and columns)"""
    note: str = ""
    """tells measures of one kind apart"""
    errors: Mapping[str, float] = field(default_factory=dict)
    """for risks, the standard error of each figure: of the people tried, and between synthetic copies"""
    parts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """for utilities, the figure of each release without each fifth of the rows, of the same people; may be empty"""

    def loss(self, name: str, part: int | None = None) -> float:
        """Give the loss of a release (without one part) between 0 and 1: what it does not have at all is lost."""
        value = self.figures[name].value if part is None else self.parts[name][part]
        loss = loss_of(self.measure, value)
        return loss + (1.0 - self.published.get(name, 1.0)) * (1.0 - loss)

    def leads(self, name: str, other: str) -> bool:
        """Tell whether a release is better than another by more than chance: another draw, or other people."""
        ahead = self._cost(other) - self._cost(name)
        if ahead <= _ALIKE or ahead <= _Z * math.hypot(self.errors.get(name, 0.0), self.errors.get(other, 0.0)):
            return False
        apart = [self._cost(other, k) - self._cost(name, k) for k in range(len(self.parts.get(name, ())))]
        return not apart or _beyond_chance(apart)

    def _cost(self, name: str, part: int | None = None) -> float:
        """Give the figure such that lower is better; where releases lack records or columns, the loss."""
        if len({round(share, 12) for share in self.published.values()}) > 1:
            return self.loss(name, part)
        value = self.figures[name].value if part is None else self.parts[name][part]
        return value if self.better == "lower" else -value

    @property
    def kind(self) -> str:
        """The kind of the measure."""
        return self.measure.kind

    @property
    def title(self) -> str:
        """The kind, and what tells it from others of that kind: the target, or the number of columns."""
        target = getattr(self.measure, "target", None)
        beside = target if isinstance(target, str) and target else self.note
        return f"{self.kind} ({beside})" if beside else self.kind

    @property
    def family(self) -> Family:
        """Risk or utility."""
        return self.measure.family

    @property
    def better(self) -> Better:
        """The direction of the figure."""
        return self.measure.better

    @property
    def everywhere(self) -> bool:
        """Tell whether every release has a figure."""
        return not self.reasons

    @property
    def chance(self) -> float | None:
        """What guessing reaches (the largest over the releases)."""
        known = [figure.chance for figure in self.figures.values() if figure.chance is not None]
        return max(known) if known else None

    @property
    def winner(self) -> str | None:
        """The release with the best figure; None if another is as good, or may be by chance, or one has none.

        Where releases lack records or columns, what they lack counts as lost; a sum has no such loss, and no winner.
        """
        if not self.everywhere or any(figure.doubtful for figure in self.figures.values()):
            return None
        if len({round(share, 12) for share in self.published.values()}) > 1 and None in self.measure.limits:
            return None
        best, *others = sorted(self.figures, key=self._cost)
        return best if all(self.leads(best, other) for other in others) else None

    def to_dict(self) -> dict[str, Any]:
        """Give the row as plain data."""
        return {
            "measure": self.measure.to_plan(),
            "family": self.family,
            "better": self.better,
            "before": self.before,
            "chance": self.chance,
            "values": {name: figure.value for name, figure in self.figures.items()},
            "takes_perturbed_values_as_true": [name for name, figure in self.figures.items() if figure.doubtful],
            "not_run": dict(self.reasons),
            "published": dict(self.published),
            "standard_errors": dict(self.errors),
            "without_parts": {name: list(values) for name, values in self.parts.items()},
            "winner": self.winner,
        }


@dataclass(frozen=True)
class Overall:
    """One figure for risk and one for utility of a release, comparable between the releases of one comparison."""

    gain: float | None
    """the largest gain over guessing of an attack that ran on all releases"""
    attack: str
    loss: float | None
    """the mean loss, each between 0 and 1, over the measures that ran on all releases; what is not published is lost"""


@dataclass(frozen=True)
class Comparison:
    """The same attacks and measures on several releases of one original."""

    rows: tuple[ComparedRelease, ...]
    names: tuple[str, ...]
    records: Mapping[str, int]
    lacking: Mapping[str, tuple[str, ...]]
    """columns of the original (identifiers aside) that a release does not have"""
    original: Dataset | None = field(default=None, repr=False, compare=False)
    data: Mapping[str, Dataset] = field(default_factory=dict, repr=False, compare=False)
    """the releases, for the pictures of the page"""

    def __repr__(self) -> str:
        return f"Comparison({' · '.join(self.names)}: {self.verdict})"

    def overall(self, name: str) -> Overall:
        """Give the best attacker's gain and the mean loss of a release."""
        attacks = [
            (gain_of(row.figures[name]), row.title)
            for row in self.rows
            if row.everywhere and row.family == "risk" and row.measure.limits == (0.0, 1.0)
            if not row.figures[name].doubtful
        ]
        losses = [row.loss(name) for row in self.scaled]
        gain, attack = max(attacks, key=lambda one: one[0]) if attacks else (None, "")
        return Overall(gain, attack, sum(losses) / len(losses) if losses else None)

    @property
    def scaled(self) -> tuple[ComparedRelease, ...]:
        """The utilities whose figures have a smallest and a largest value, and that ran on all releases."""
        return tuple(
            row for row in self.rows if row.everywhere and row.family == "utility" and None not in row.measure.limits
        )

    @property
    def better(self) -> str | None:
        """The release that leads every other in one of the overall figures and trails none in the other; or None.

        What chance explains (another draw, other people) is neither a lead nor a lag.
        """
        if any(one.gain is None or one.loss is None for one in map(self.overall, self.names)):
            return None
        for name in self.names:
            if all(self._dominates(name, other) for other in self.names if other != name):
                return name
        return None

    def _dominates(self, name: str, other: str) -> bool:
        leads = [self.safer(name, other), self.more_useful(name, other)]
        lags = [self.safer(other, name), self.more_useful(other, name)]
        return any(leads) and not any(lags)

    def safer(self, name: str, other: str) -> bool:
        """Tell whether the best attack gains less on a release than on another, by more than chance."""
        (mine, error), (theirs, other_error) = (self._best_attack(one) for one in (name, other))
        return theirs - mine > max(_ALIKE, _Z * math.hypot(error, other_error))

    def more_useful(self, name: str, other: str) -> bool:
        """Tell whether less is lost in a release than in another, by more than chance."""
        mine, theirs = (self.overall(one).loss or 0.0 for one in (name, other))
        if theirs - mine <= _ALIKE:
            return False
        known = [row for row in self.scaled if row.parts]
        if not known:
            return True
        parts = range(len(next(iter(known[0].parts.values()))))
        apart = [float(np.mean([row.loss(other, k) - row.loss(name, k) for row in known])) for k in parts]
        return _beyond_chance(apart)

    def _best_attack(self, name: str) -> tuple[float, float]:
        """Give the largest gain over guessing, and its standard error."""
        found = self.overall(name)
        row = next(row for row in self.rows if row.title == found.attack and row.family == "risk" and row.everywhere)
        room = max(1.0 - (row.figures[name].chance or 0.0), 1e-12)
        return found.gain or 0.0, row.errors.get(name, 0.0) / room

    @property
    def verdict(self) -> str:
        """Say in a sentence which way is better."""
        overall = {name: self.overall(name) for name in self.names}
        if any(one.gain is None or one.loss is None for one in overall.values()):
            return "The releases cannot be compared overall: no attack, or no utility from 0 to 1, ran on all."
        if (name := self.better) is not None:
            mine = overall[name]
            return (
                f"{name} is better: an attacker gains {as_percent(mine.gain or 0.0)} with the best attack and "
                f"{as_percent(mine.loss or 0.0)} of the utility is lost; {self._others(name, overall)}."
                f"{self._unclear(name)}"
            )
        gains, losses = ([getattr(one, field) for one in overall.values()] for field in ("gain", "loss"))
        if max(gains) - min(gains) <= _ALIKE and max(losses) - min(losses) <= _ALIKE:
            return "The releases are equally good in both overall figures."
        safest = min(overall, key=lambda name: (overall[name].gain or 0.0, overall[name].loss or 0.0))
        useful = min(overall, key=lambda name: (overall[name].loss or 0.0, overall[name].gain or 0.0))
        safe = [name for name in self.names if self.safer(safest, name)]
        use = [name for name in self.names if self.more_useful(useful, name)]
        if not safe and not use:
            return (
                f"No clear difference: the best attack gains {as_percent(min(gains))} to {as_percent(max(gains))} and "
                f"{as_percent(min(losses))} to {as_percent(max(losses))} of the utility is lost; another draw, or "
                "other people, could turn this round."
            )
        head = "Neither dominates" if len(self.names) == 2 else "None dominates"
        if safest == useful:
            return f"{head}: {safest} is best in both figures, but another is equally good, or may be by chance."
        return (
            f"{head}: {safest} is safer (the best attack gains {as_percent(overall[safest].gain or 0.0)} against "
            f"{as_percent(overall[useful].gain or 0.0)}), {useful} is more useful (loss "
            f"{as_percent(overall[useful].loss or 0.0)} against {as_percent(overall[safest].loss or 0.0)})."
        )

    def _unclear(self, name: str) -> str:
        """Name the overall figure in which a lead, if any, may be chance."""
        others = [other for other in self.names if other != name]
        figures = (("gains", self.safer, "gain"), ("losses", self.more_useful, "loss"))
        doubtful = [
            words
            for words, clearly, figure in figures
            if any(
                not clearly(name, other)
                and abs((getattr(self.overall(other), figure) or 0) - (getattr(self.overall(name), figure) or 0))
                > _ALIKE
                for other in others
            )
        ]
        return f" The difference of the {' and '.join(doubtful)} may be chance." if doubtful else ""

    def _others(self, best: str, overall: Mapping[str, Overall]) -> str:
        return ", ".join(
            f"{name}: {as_percent(one.gain or 0.0)} and {as_percent(one.loss or 0.0)}"
            for name, one in overall.items()
            if name != best
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the comparison as plain data."""
        return {
            "releases": list(self.names),
            "records": dict(self.records),
            "columns_not_released": {name: list(columns) for name, columns in self.lacking.items()},
            "measures": [row.to_dict() for row in self.rows],
            "overall": {name: vars(self.overall(name)) for name in self.names},
            "better": self.better,
            "verdict": self.verdict,
        }

    def page(self, title: str = "Comparison of releases") -> str:
        """Give the comparison as one HTML file that needs nothing else."""
        return comparison_page(self, title)

    def _repr_html_(self) -> str:
        return table(self)


_UTILITIES = ("marginals", "contingency", "variable-change", "interval-overlap", "correlation-change", "propensity")
_PARTS, _LEAST_IN_PART, _FEW_PERMUTATIONS = 5, 20, 3
_MOST_TREES = 20_000
"""Above so many records the propensity score is left to those who ask for it."""


def compare(
    original: Any,
    releases: Mapping[str, Any],
    *,
    measures: Sequence[Any] | None = None,
    id_column: str | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Run the same attacks and utility measures on several releases of one original, and say which way is better.

    Without `measures`, all attacks that roles, types and the matching of rows allow for any of the releases, and
    general measures of utility. A measure that cannot run on a release says why, and counts for none overall. The
    overall risk of a release is the largest gain over guessing, (s − c)/(1 − c), of the attacks that ran on all of them
    and do not take perturbed values as true; the overall loss is the mean loss, each between 0 and 1, of the utilities
    that have such limits. What a release does not have is lost: columns for every utility that does not name its own,
    records for the utilities that follow records (distributions of a sample may be as good as those of all). One
    release is better if it leads in one of the two and does not trail in the other. A lead counts only if it is beyond
    chance (95 %): for attacks beyond the intervals of the people tried and the spread of synthetic copies, for
    utilities beyond what leaving out each fifth of the rows changes (jackknife, t test). Otherwise there is no clear
    difference.

    Rows are matched by their hidden ids, by `id_column`, or by what `match_rows` finds: an id or an index that both
    have, or their position where the values agree far above chance. What needs matched rows does not run on others.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(300, seed=1)
    >>> light, heavy = (dc.RankSwap(columns=["income"], percent=p)(people, seed=1) for p in (2, 30))
    >>> measures = [dc.RankInterval(columns=["income"]), dc.VariableChange(columns=["income"])]
    >>> dc.compare(people, {"light": light, "heavy": heavy}, measures=measures).better is None
    True
    """
    before = Dataset.of(original)
    if len(releases) < 2:
        raise PlanError("a comparison needs two releases or more")
    matched = {str(name): match(before, Dataset.of(data), id_column) for name, data in releases.items()}
    chosen = _chosen(measures) if measures is not None else comparable_measures(before, list(matched.values()))
    if not chosen:
        raise PlanError("nothing to compare by: give the original roles, or `measures`")
    wanted = [name for name in before.columns if name not in before.having("identifier")]
    rows = []
    for number, measure in enumerate(chosen):
        progress(number, len(chosen), f"measuring: {measure.kind}")
        row = _row(measure, before, matched, Context(seed, f"measure/{measure.kind}", progress))
        named = () if measures is None else _named(measure)
        rows.append(replace(row, published=_published(measure, named, before, matched)))
    return Comparison(
        _told_apart(rows),
        tuple(matched),
        {name: len(data) for name, data in matched.items()},
        {name: tuple(c for c in wanted if c not in data.columns) for name, data in matched.items()},
        before,
        matched,
    )


def _told_apart(rows: Sequence[ComparedRelease]) -> tuple[ComparedRelease, ...]:
    """Name rows of one title by who attacks (members of the group), then by their number of columns."""
    insiders = "by members of the group"
    rows = [replace(row, note=insiders) if getattr(row.measure, "coalition", 0) else row for row in rows]
    titles = [row.title for row in rows]
    return tuple(
        replace(row, note=", ".join(filter(None, (row.note, f"{len(named)} columns"))))
        if titles.count(row.title) > 1 and (named := _named(row.measure))
        else row
        for row in rows
    )


def _chosen(given: Sequence[Any]) -> tuple[Measure, ...]:
    measures = take_measures(list(given), "utility")
    if refused := [measure.kind for measure in measures if measure.kind in NEVER]:
        raise PlanError(f"{refused[0]} is not zero for identical data and says nothing about loss; leave it out")
    return measures


def match(original: Dataset, released: Dataset, id_column: str | None = None) -> Dataset:
    """Give a release the roles of the original, and its row ids where they can be found."""
    if released.origin is original.origin:
        return released
    schema = original.schema.only(released.columns)
    data = Dataset(released.frame, schema=schema)
    if id_column is not None:
        return match_by(original, data, id_column)
    try:
        return match_rows(original, data).give(original, data)
    except DataError:
        return data


def comparable_measures(original: Dataset, releases: Sequence[Dataset]) -> tuple[Measure, ...]:
    """Choose the attacks that fit any of the releases, and general measures of utility on the columns that each has."""
    from discretion.release.attack_set import attack_set

    found: dict[str, Measure] = {}
    for released in releases:
        for one in attack_set(original, released):
            measure = _on_common(one, releases) if one.family == "utility" else one
            if measure is not None and measure.kind not in NEVER:
                found.setdefault(json.dumps(measure.to_plan(), sort_keys=True, default=str), measure)
    wanted = [name for name in original.choose((), "compare") if original.type_of(name) != "set"]
    columns = [name for name in wanted if all(name in released.columns for released in releases)]
    numbers = [name for name in columns if all(data.is_numeric(name) for data in (original, *releases))]
    for kind in _UTILITIES:
        few = kind in ("interval-overlap", "correlation-change")
        least = 2 if kind in ("correlation-change", "contingency") else 1
        large = kind == "propensity" and len(original) > _MOST_TREES
        if len(numbers if few else columns) >= least and not large:
            # unnamed: all columns that a release has, so that a change to one that another lacks is seen
            part = find(kind)(columns=numbers if few else columns if columns == wanted else ())
            if isinstance(part, Measure):
                found.setdefault(json.dumps(part.to_plan(), sort_keys=True), part)
    return tuple(found.values())


def _on_common(measure: Measure, releases: Sequence[Dataset]) -> Measure | None:
    """Restrict a measure to the columns that all releases have; None where it has none of them."""
    named = getattr(measure, "columns", ())
    kept = tuple(name for name in named if all(name in released.columns for released in releases))
    if kept == tuple(named):
        return measure
    return measure.model_copy(update={"columns": kept}) if kept else None


def _row(measure: Measure, original: Dataset, releases: Mapping[str, Dataset], ctx: Context) -> ComparedRelease:
    figures: dict[str, Figure] = {}
    reasons: dict[str, str] = {}
    errors: dict[str, float] = {}
    for name, released in releases.items():
        try:
            score = run_with_holdout(measure, original, released, ctx)
        except (DataError, PlanError, Infeasible) as error:
            reasons[name] = str(error)
            continue
        figures[name] = figure_of(score)
        if measure.family == "risk":
            errors[name] = standard_error(score)
    before: float | None = None
    if measure.family == "risk" or measure.needs == "released":
        try:
            before = run_with_holdout(measure, original, original, ctx).value
        except (DataError, PlanError, Infeasible):
            before = None
    judged = measure.family == "utility" and not reasons
    parts = _without_parts(measure, original, releases, ctx) if judged else {}
    return ComparedRelease(measure, before, figures, reasons, errors=errors, parts=parts)


def _without_parts(
    measure: Measure, original: Dataset, releases: Mapping[str, Dataset], ctx: Context
) -> dict[str, tuple[float, ...]]:
    """Measure every release without each of five parts of the rows; nothing where a part is small, or the rest fails.

    Whoever stands in a part of the original stands in the same part of a release, where rows belong to people; rows
    that belong to nobody are dealt out at random, and the original stays whole where all are such. How far the
    differences between releases vary from part to part tells what another draw, or other people, would change (the
    jackknife by groups).
    """
    if min(len(data) for data in (original, *releases.values())) < _PARTS * _LEAST_IN_PART:
        return {}
    if "permutations" in type(measure).model_fields:  # what chance gives is nearly the same without a part
        measure = measure.model_copy(update={"permutations": _FEW_PERMUTATIONS})
    rng = ctx.within("parts").rng
    part_of = rng.permutation(int(original.row_ids.max()) + 1) % _PARTS
    places = {
        name: part_of[data.row_ids] if _is_matched(original, data) else rng.permutation(len(data)) % _PARTS
        for name, data in releases.items()
    }
    apart = any(_is_matched(original, data) for data in releases.values())  # else only the draws differ
    found: dict[str, list[float]] = {name: [] for name in releases}
    for k in range(_PARTS):
        rest = original.take(part_of[original.row_ids] != k) if apart else original
        for name, data in releases.items():
            try:
                found[name].append(measure.run(rest, data.take(places[name] != k), ctx).value)
            except (DataError, PlanError, Infeasible):
                return {}
    return {name: tuple(values) for name, values in found.items()}


def _is_matched(original: Dataset, released: Dataset) -> bool:
    """Tell whether it is known whose row each one is."""
    return released.origin is original.origin and bool((released.row_ids >= 0).all())


def _named(measure: Measure) -> tuple[str, ...]:
    """Give the columns that a measure names."""
    return tuple(getattr(measure, "columns", None) or getattr(measure, "features", None) or ())


def _published(
    measure: Measure, named: Sequence[str], original: Dataset, releases: Mapping[str, Dataset]
) -> dict[str, float]:
    """Give the share of what a utility compares that each release has: columns, and the records that it follows."""
    if measure.family != "utility":
        return {}
    left_aside = original.having("identifier", "weight", "household", "unit")
    wanted = named or [n for n in original.columns if n not in left_aside and original.type_of(n) != "set"]
    follows = measure.aligned and measure.needs == "both"
    found = {}
    for name, released in releases.items():
        columns = sum(column in released.columns for column in wanted) / max(len(wanted), 1)
        found[name] = columns * (min(len(released) / len(original), 1.0) if follows else 1.0)
    return found


# --- releases on disk --------------------------------------------------------------------------------------------


def data_file(place: str | Path) -> Path:
    """Give the data file of a release: the path itself, or the one that the folder's report.json names."""
    path = Path(place)
    if not path.is_dir():
        return path
    report = path / "report.json"
    if not report.is_file():
        raise DataError(f"{str(place)!r} is not the folder of a release: it has no report.json")
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        file = path / Path(str(content["data"]["file"])).name
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{str(report)!r} is not the report of a release") from None
    if not file.is_file():
        raise DataError(f"the release {str(place)!r} lacks its data file {file.name!r}")
    return file


def plan_beside(place: str | Path) -> Plan | None:
    """Give the plan in the private folder beside a release, where it is: it knows the original and its roles."""
    from discretion.release.plan import Plan

    path = Path(place)
    beside = path.with_name(path.name + "-private") / "plan.yaml"
    return Plan.load(beside) if path.is_dir() and beside.is_file() else None


def short_names(places: Sequence[str]) -> list[str]:
    """Name releases by the last part of their path; by the whole path where that is not enough."""
    names = [Path(place).name or str(place) for place in places]
    return names if len(set(names)) == len(names) else list(places)


def _input_of(place: str | Path) -> dict[str, Any]:
    """Give what the private folder beside a release says of the original; empty where there is none."""
    path = Path(place)
    journal = path.with_name(path.name + "-private") / "journal.json"
    if not path.is_dir() or not journal.is_file():
        return {}
    content = json.loads(journal.read_text(encoding="utf-8"))
    return dict(content.get("input") or {})


def require_one_original(original: Dataset, places: Sequence[str], *, named: bool) -> None:
    """Refuse releases that were not made of the same original: attacks on them would compare other people.

    The journals have a hash of the original's file or rows, how many records and which columns it had. Where the
    original is `named`, it may lie in another file, and only records and columns are compared with it.
    """
    inputs = {str(place): facts for place in places if (facts := _input_of(place))}
    if not named and len(inputs) > 1:
        (first, known), *others = inputs.items()
        for place, facts in others:
            hashes = [
                (known[name], facts[name]) for name in ("sha256", "rows_sha256") if {name} <= known.keys() & facts
            ]
            if any(one != other for one, other in hashes) or _shape(known) != _shape(facts):
                raise DataError(
                    f"{first!r} and {place!r} were made of different originals ({_words(known)}; {_words(facts)}); "
                    "only releases of one original can be compared. If these are the same data in two files, name "
                    "one as --original"
                )
    for place, facts in inputs.items():
        if _shape(facts) != (len(original), sorted(original.columns)):
            now = {"records": len(original), "columns": original.columns}
            raise DataError(
                f"{place!r} was not made of this original: it was made of {_words(facts)}, the original has "
                f"{_words(now)}"
            )


def _shape(facts: Mapping[str, Any]) -> tuple[int, list[str]]:
    return int(facts.get("records", -1)), sorted(facts.get("columns", ()))


def _words(facts: Mapping[str, Any]) -> str:
    file = f"{Path(facts['file']).name!r}, " if facts.get("file") else ""
    return f"{file}{facts.get('records', '?')} records with {len(facts.get('columns', ()))} columns"


def read_releases(original: Dataset, places: Sequence[str], read: Callable[[Path], Dataset]) -> dict[str, Dataset]:
    """Read several releases by name, each with the part of the original's roles that it has."""
    if len(set(places)) < len(places):
        raise PlanError("a release is named twice")
    found = {}
    for name, place in zip(short_names(places), places, strict=True):
        parts = []
        for file in _copies(data_file(place)) if Path(place).is_dir() else [data_file(place)]:
            data = read(file)
            if not set(data.columns) & set(original.columns):
                raise DataError(f"{str(place)!r} has no column of the original: it is no release of it")
            data = Dataset(data.frame, schema=original.schema.only(data.columns))
            journal = Path(place).with_name(Path(place).name + "-private")
            known = Path(place).is_dir() and (journal / ORDER_FILE).is_file()
            parts.append(in_journal_order(original, data, journal, file) if known else data)
        found[name] = parts[0] if len(parts) == 1 else Dataset.of_copies(parts)
    return found


def _copies(file: Path) -> list[Path]:
    """Give the files of all synthetic copies where a release's file is the first of several."""
    if not file.stem.endswith("-1"):
        return [file]
    every = (file.with_name(f"{file.stem[:-1]}{number}{file.suffix}") for number in count_up(1))
    return list(takewhile(Path.is_file, every))
