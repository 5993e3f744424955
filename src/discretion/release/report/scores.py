"""Risk and utility before and after, in words; what a figure would give away is withheld."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.release.facts import PublicFigures, one_digit, public_figures, recurring_identifiers
from discretion.release.ranking import chance_of
from discretion.release.report.settings import ShownSetting, settings_of
from discretion.release.report.wording import NOTHING, WITHHELD, figure, plain_summary, title_of

if TYPE_CHECKING:
    from discretion.part import Family
    from discretion.release.release import Measured, Release


@dataclass(frozen=True)
class ScoreRange:
    """Where before, after and the chance level lie between the smallest and the largest possible value."""

    before: float | None
    after: float
    chance: float | None
    low: str
    high: str


@dataclass(frozen=True)
class OfColumn:
    """What a measure says of one column, and what guessing reaches there."""

    name: str
    after: float
    chance: float | None


@dataclass(frozen=True)
class ScoreRow:
    """One measure with its figures as texts."""

    title: str
    kind: str
    what: str
    before: str
    after: str
    chance: str
    better: str
    meaning: str
    withheld: bool
    settings: tuple[ShownSetting, ...]
    range: ScoreRange | None
    rounded: bool
    doubtful: bool
    """whether the attack takes values as true that were perturbed"""
    values: tuple[float | None, float] | None
    """the figures before and after, where they may be shown"""
    guessing: float | None
    """what guessing reaches, where it may be shown"""
    columns: tuple[str, ...]
    """columns that it looks at, as far as it says"""
    certain: float | None = None
    """share of the people whom it finds and knows it, where it says so and that may be shown"""
    about: str = ""
    """the column whose values the figure is about, and the one that tells it, where it is about one"""
    each: tuple[OfColumn, ...] = ()
    """the figures of single columns, the one that gains most over guessing first, where they may be shown"""
    who: str = "people"
    """whom the figures count: records, where a person may have several and nothing tells whose they are"""


def scores_of(release: Release, family: Family, *, internal: bool) -> tuple[ScoreRow, ...]:
    """Describe the measures of one family in their order."""
    return tuple(_row(release, item, internal) for item in release.measured if item.measure.family == family)


def _row(release: Release, item: Measured, internal: bool) -> ScoreRow:
    measure, limits = item.measure, item.measure.limits
    shown = _exact_figures(item) if internal else public_figures(release, item)
    chance = None if shown is None else shown.chance
    return ScoreRow(
        title=title_of(measure.kind),
        kind=measure.kind,
        what=plain_summary(measure),
        before=figure(shown.before, limits) if shown else WITHHELD,
        after=("about " if shown.rounded else "") + figure(shown.after, limits) if shown else WITHHELD,
        chance=figure(chance, limits) if shown else WITHHELD,
        better=item.after.better,
        meaning=shown.meaning if shown else "The figure depends on a confidential setting and would give it away.",
        withheld=shown is None,
        settings=settings_of(measure, internal=internal, publish=item.publish),
        range=_range(shown.before, shown.after, chance, limits) if shown else None,
        rounded=shown is not None and shown.rounded,
        doubtful="warning" in item.after.detail,
        values=(shown.before, shown.after) if shown else None,
        guessing=chance,
        columns=_columns(item),
        certain=_certain(item, shown),
        about=_about(item.after.detail) if shown else "",
        each=_each(item, shown) if shown else (),
        who="records" if recurring_identifiers(release) else "people",
    )


def _exact_figures(item: Measured) -> PublicFigures:
    before = item.before.value if item.before else None
    return PublicFigures(before, item.after.value, chance_of(item.after), item.after.meaning, rounded=False)


def _certain(item: Measured, shown: PublicFigures | None) -> float | None:
    """Give the share of people whom an attack finds and knows it, rounded as the figure itself."""
    found = item.after.detail.get("known_reid")
    if shown is None or not isinstance(found, float):
        return None
    return one_digit(found) if shown.rounded else found


def _about(detail: Mapping[str, Any]) -> str:
    """Name the column that is learnt: the one looked for, or the worst of several, and where it is read off."""
    of = detail.get("column") or detail.get("target") or detail.get("worst_column")
    each = detail.get("per_column")
    if of is None and isinstance(each, Mapping) and each and all(isinstance(one, float) for one in each.values()):
        of = max(each, key=lambda name: each[name])
    source = detail.get("source")
    return "" if not isinstance(of, str) else f"{of}, read off {source}" if isinstance(source, str) else of


def _each(item: Measured, shown: PublicFigures) -> tuple[OfColumn, ...]:
    """Give the figures of the single columns, or of the worst; of groups what a stranger learns for certain."""
    detail, measure = item.after.detail, item.measure
    each, chances = detail.get("per_column", {}), detail.get("chance_per_column", {})
    if measure.kind == "group-attack":
        asked_otherwise = {"coalition", "share", "published", "truth"} & set(measure.settings())
        chances = {} if asked_otherwise else {name: one["chance"] for name, one in detail["attacks"].items()}
    found = [(name, float(each[name]), float(chance)) for name, chance in chances.items()]
    if shown.rounded:
        found = [(name, one_digit(after), one_digit(chance)) for name, after, chance in found]
    if not found and "worst" in detail:
        worst = float(detail["worst"])
        return (OfColumn(str(detail["worst_column"]), one_digit(worst) if shown.rounded else worst, None),)
    columns = [OfColumn(*one) for one in found]
    return tuple(sorted(columns, key=lambda one: gain_over(one.after, one.chance), reverse=True))


def gain_over(success: float, chance: float | None) -> float:
    """Give the part of the way from guessing to certainty that an attack comes."""
    if chance is None:
        return success
    return 0.0 if chance >= 1 else (success - chance) / (1 - chance)


def _columns(item: Measured) -> tuple[str, ...]:
    named = getattr(item.measure, "columns", ()) or item.after.detail.get("per_column") or ()
    return tuple(str(name) for name in named)


def _range(
    before: float | None, after: float, chance: float | None, limits: tuple[float | None, float | None]
) -> ScoreRange | None:
    low, high = limits
    if low is None or high is None or not high > low:
        return None

    def place(value: float) -> float:
        return round(min(max((value - low) / (high - low), 0.0), 1.0), 4)

    return ScoreRange(
        before=None if before is None else place(before),
        after=place(after),
        chance=None if chance is None else place(chance),
        low=figure(low, limits).replace(NOTHING, "0"),
        high=figure(high, limits),
    )
