"""Several finished releases side by side: the same attacks and measures on each, and which way is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.measure import Better, Measure, as_percent
from discretion.part import Family
from discretion.release.report.attack_lines import NARROW, WIDTH, Line, draw
from discretion.release.report.charts import plain_columns, sides_between
from discretion.release.report.figures import FigureGroup, column_figure, pair_figure
from discretion.release.report.page import template
from discretion.release.report.wording import NOTHING, count, figure, percent, title_of
from discretion.release.tune_cache import Figure
from discretion.release.tune_scales import gain_of, loss_of

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

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
            {"key": key, "title": title, "rows": [_row(found, row) for row in found.rows if row.family == key]}
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


def _row(found: Comparison, row: ComparedRelease) -> dict[str, Any]:
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
