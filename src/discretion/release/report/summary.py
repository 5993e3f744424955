"""The first screen: what goes out, could anyone be found, what was lost, in words without jargon."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import DataError
from discretion.measure import align
from discretion.part import find
from discretion.release.facts import (
    PublicFigures,
    households_alone,
    one_digit,
    people_alone,
    public_figures,
    recurring_identifiers,
    sets_alone,
    smallest_class,
)
from discretion.release.gate import is_limited
from discretion.release.order import order_words
from discretion.release.plan import OUTPUT_FORMATS
from discretion.release.published import together, weight_lost
from discretion.release.ranking import MANY_FOUND, attackers_by, chance_of
from discretion.release.report.wording import (
    NOTHING,
    WITHHELD,
    ShownSetting,
    counted,
    figure,
    file_name,
    listed,
    of_people,
    percent,
    plain_summary,
    settings_of,
    title_of,
)
from discretion.release.under_policy import waiver_words

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
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
    return tuple(_score_row(release, item, internal) for item in release.measured if item.measure.family == family)


def _score_row(release: Release, item: Measured, internal: bool) -> ScoreRow:
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
        about=_about_score(item.after.detail) if shown else "",
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


def _about_score(detail: Mapping[str, Any]) -> str:
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


_SENTENCES = 2
_WORTH_SAYING = 0.05
"""Part of the way from guessing to certainty that an attack on values must come to stand on the first screen."""
_AS_THEY_ARE = "value-agreement"
_TRIFLE = 0.01
"""Share of the records whose value the group tells from which on it stands on the first screen."""


@dataclass(frozen=True)
class PlainAnswer:
    """A question that everybody asks, its answer in a sentence, and what there is to add."""

    question: str
    short: str
    more: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The summary: what must be said first, and three questions with their answers."""

    title: str
    about: str
    """the file, its records and the day"""
    sentences: tuple[str, ...]
    details: tuple[str, ...]
    """what was counted of edit rules and earlier releases, for the internal side"""
    answers: tuple[PlainAnswer, ...]
    may_publish: bool
    verdict: str
    caution: bool = False
    """whether an attack that no requirement limits finds many people"""


def summary_of(
    release: Release, risk: tuple[ScoreRow, ...], utility: tuple[ScoreRow, ...], *, internal: bool = False
) -> Summary:
    """Word the summary from figures that may be shown."""
    steps = len(release.study.done)
    met = sum(finding.holds for finding in release.findings)
    sentences = [
        *release.notes,
        *(f"{words[:1].upper()}{words[1:]}." for words in waiver_words(release.plan.waivers) if internal),
        f"{counted(steps, 'protection step was', 'protection steps were')} applied to the original data."
        if steps
        else "No protection step was applied to the original data.",
        *_requirements(met, len(release.findings)),
    ]
    details = [one.explain() for one in release.edit_checks if internal]
    details += [one.explain() for one in release.combined if internal]
    details += [found.explain(release.lineage.journals) for found in release.averaging if internal]
    return Summary(
        title=release.plan.title.strip() or (internal and _file_title(release)) or "Release report",
        about=_about_file(release, internal),
        sentences=tuple(sentences),
        details=tuple(f"{words[:1].upper()}{words[1:]}." for words in details),
        answers=(_goes_out(release), _found(release, risk), _lost(release, utility)),
        may_publish=met == len(release.findings),
        verdict=_verdict(release, risk),
        caution=_unbounded(release, risk),
    )


def _verdict(release: Release, risk: tuple[ScoreRow, ...]) -> str:
    if not release.findings:
        return "Published without requirements"
    if not all(one.holds for one in release.findings):
        return "Requirements are not met"
    beyond = ", but none of them limits an attack that finds many people" if _unbounded(release, risk) else ""
    return f"All requirements hold{beyond}"


def _unbounded(release: Release, risk: tuple[ScoreRow, ...]) -> bool:
    """Tell whether an attack of a kind that no requirement limits finds more people than the limits would allow."""
    quasi = release.study.original.having("quasi")
    limited = [is_limited(release.findings, row.kind, row.columns or quasi, _after(row)) for row in risk]
    free = [row for row, held in zip(risk, limited, strict=True) if not held and not row.doubtful]
    return _strongest(free) > MANY_FOUND


def _requirements(met: int, total: int) -> list[str]:
    if not total:
        return []  # the notes say it
    if met == total:
        return ["The one requirement holds." if total == 1 else f"All {total} requirements hold."]
    return [f"{total - met} of {counted(total, 'requirement')} {'does' if total - met == 1 else 'do'} not hold."]


# --- what goes out ---------------------------------------------------------------------------------------------------


def _file_name(release: Release) -> str:
    """Give the name of the file that was read; empty for databases and frames."""
    path = str(release.plan.data.get("path") or "")
    return "" if "://" in path else file_name(path)


def _file_title(release: Release) -> str:
    stem = _file_name(release).partition(".")[0].replace("_", " ").strip()
    return f"{stem[:1].upper()}{stem[1:]}: release report" if stem else ""


def _about_file(release: Release, internal: bool) -> str:
    """Say what the files are; the name of the one that was read may tell a ward or a study: not for the public."""
    source = _file_name(release) if internal else ""
    made = f" (made from {source})" if source else ""
    extension = OUTPUT_FORMATS.get(release.plan.output.format, release.plan.output.format)
    day = dt.datetime.now(dt.UTC)
    copies = len(release.data.copies())
    files = f"data.{extension}" if copies == 1 else f"data-1.{extension} … data-{copies}.{extension}"
    return f"{files}{made} · {_records(release)} · {day.day} {day:%B %Y}"


def _records(release: Release) -> str:
    """Say how many records there are, in each of several copies."""
    copies = release.data.copies()
    sizes = sorted({len(copy) for copy in copies})
    if len(copies) == 1:
        return counted(release.records, "record")
    return f"{len(copies)} copies of {'about ' if len(sizes) > 1 else ''}{counted(sizes[0], 'record')}"


def _goes_out(release: Release) -> PlainAnswer:
    data, original = release.data, release.study.original
    inside = [name for name in original.columns if name not in data.columns]
    published = [name for name in data.columns if name != data.copy_column]
    coarser, changed = _touched(release)
    empty = emptied(release)
    renumbered = list(data.having("household", "unit"))
    apart = {*empty, *renumbered}
    coarser, changed = ([name for name in names if name not in apart] for names in (coarser, changed))
    touched = {*coarser, *changed, *empty, *renumbered}
    same = [name for name in published if name not in touched]
    left = ", in the records that are left" if data.lost_records else ""
    lists = (
        (f"As in the original{left}: ", same, ""),
        ("Made up: " if data.has_new_rows else "Renumbered: ", renumbered, ""),
        ("With less detail, or values taken out: ", coarser, ""),
        (
            "Drawn from a model, so that no value is anybody's: "
            if data.has_new_rows
            else "With changed values, which may be true for one person and wrong for another: ",
            changed,
            "",
        ),
        ("Nothing is left of: ", empty, _still_told(release, empty)),
        ("Left out: ", inside, _still_told(release, inside)),
    )
    return PlainAnswer(
        "What goes out?",
        f"{_records(release)} with "
        + (f"{len(published)} of {len(original.columns)} columns." if inside else f"all {len(published)} columns."),
        (
            *(f"{words}{listed(names)}{more}." for words, names, more in lists if names),
            *_gaps_stay(release, [name for name in published if name not in empty]),
            order_words(release.plan.order, data),
        ),
    )


def _still_told(release: Release, names: Sequence[str]) -> str:
    """Name the columns that were emptied, and whose gaps still tell who had a value: those that had gaps before."""
    original, data = release.study.original, release.data
    shown = [name for name in names if name in data.columns and original.count_missing(name)]
    partly = [name for name in shown if 0 < data.count_missing(name) < len(data)]
    said = [f"of {listed(partly)} it is still told who had a value"] if partly else []
    for name in names if any(done.step.method.kind == "shuffle" for done in release.study.done) else ():
        carried = [one for one in _carried(release) if one["column"] == name]
        by = dict.fromkeys(source for one in carried for source in one["by"])
        much = "much" if any(one["stops"] for one in carried) else "something"
        said += [f"{listed(list(by))} still {'tells' if len(by) == 1 else 'tell'} {much} of {name}"] if by else []
    return f" (but {'; '.join(said)})" if said else ""


def _carried(release: Release) -> list[dict[str, Any]]:
    """Give what columns that were dealt out by a model tell of hidden ones."""
    if release.is_private or release.data.has_new_rows or release.dependence is None:
        return []
    return list(release.dependence.detail["carried"])


def _gaps_stay(release: Release, names: Sequence[str]) -> list[str]:
    """Name the columns whose gaps are published as they were: who did not answer stays visible."""
    before = release.study.original
    names = [name for name in names if name in before.columns and before.count_missing(name)]
    if release.is_private or release.data.has_new_rows or not names:
        return []
    try:
        original, data = align(release.study.original, release.data)
    except DataError:
        return []
    kept = []
    for name in names:
        was, stays = (one.frame[name].is_null().to_numpy() for one in (original, data))
        kept += [name] if was.any() and not (was & ~stays).any() and (stays & ~was).sum() < was.sum() else []
    named = listed(kept)
    return (
        [f"Who had no value of {named} (did not answer) has none here either, and can be told by it."] if kept else []
    )


def emptied(release: Release) -> list[str]:
    """Name the published columns that have one value left at most (beside missing), and had several."""
    original, data = release.study.original, release.data
    if release.is_private:
        return []
    both = [name for name in data.columns if name in original.columns]
    return [name for name in both if _values(data, name) <= 1 < _values(original, name)]


def _values(data: Dataset, name: str) -> int:
    """Count the different values of a column, missing apart."""
    return int(data.frame[name].drop_nulls().n_unique())


def _touched(release: Release) -> tuple[list[str], list[str]]:
    """Name the published columns that lost detail only, and those whose values were changed."""
    coarser: set[str] = set()
    changed: set[str] = set()
    for done, names in zip(release.study.done, release.changes, strict=True):
        (changed if done.step.method.perturbs else coarser).update(names)
    published = release.data.columns
    return [name for name in published if name in coarser - changed], [name for name in published if name in changed]


# --- could anyone be found -------------------------------------------------------------------------------------------


def _found(release: Release, rows: tuple[ScoreRow, ...]) -> PlainAnswer:
    """Say in one short sentence whether people can be found; then why, how they were looked for, and what was not."""
    if release.data.has_new_rows:
        return _found_in_synthetic(release, rows)
    people, values = _attacks(rows)
    found, homes = smallest_class(release), households_alone(release) or 0.0
    most = _strongest(rows)
    sure = max((row.certain or 0.0 for row in _people_rows(rows)), default=0.0)
    worse = most > (0.0 if found is None else found.share or 1 / max(found.size, 1))
    worse |= sure > 0 and (found is None or found.size > 1)
    candidates = _candidates(release, " and nothing else" if worse or homes else "")
    if worse and most > 0:
        short = f"{'Yes' if most > MANY_FOUND else 'A few'}: an attack that was tried finds {_most_found(rows)}."
        said = [*people, *candidates[1:]]
    elif homes and found is not None and found.size > 1:
        short = f"Some families could: {of_people(homes, 'records')} live in a household like no other."
        said = [*candidates[1:], *people]
    else:
        short, *said = [*candidates, *people] or [""]
    said += _households(homes)
    said += _people(release)
    said += _several(release) if rows else []
    said += _sets(release)
    said += values
    if not rows:
        said.append("No risk was measured.")
    elif all(row.withheld for row in rows):
        said.append("The risk figures are withheld.")
    elif not _comparable(rows):
        said.append("No attack whose success is a share of the people was tried.")
    beyond = together(release.data).replace("the quasi-identifiers", "what others may know").partition(";")[0]
    said += [f"{beyond[0].upper()}{beyond[1:]}."] if beyond else []
    if not short:
        short, *said = said
    last = " ".join([*_assumed(release, rows), *_untried(release)])
    return PlainAnswer("Could anyone be found?", short, (*said, *([last] if last else [])))


def _found_in_synthetic(release: Release, rows: tuple[ScoreRow, ...]) -> PlainAnswer:
    """Say what a file of rows that belong to nobody tells about the people whom it was learned from."""
    known = [row for row in rows if row.values is not None and row.range is not None]
    short = "No record is a person's: all rows are synthetic."
    if not rows:
        said = ["No risk was measured: what the file gives away about people in the data is not known."]
    elif not known:
        said = ["The risk figures are withheld."]
    else:
        most = max(known, key=_gain)
        if _gain(most) > _WORTH_SAYING:
            short += " It still tells something about the people it was made from."
        said = [
            "Attacks compare people in the data with people outside it. The one that gains most: the "
            f"{_words(most)} is {most.after} (guessing: {most.chance}).",
        ]
    last = " ".join([*_assumed(release, rows), *_untried(release)])
    return PlainAnswer("Could anyone be found?", short, (*said, *([last] if last else [])))


def _most_found(rows: Sequence[ScoreRow]) -> str:
    better = [row for row in _people_rows(rows) if _gain(row) > 0]
    best, surest = max(better, key=_after), max(better, key=lambda row: row.certain or 0.0)
    return _right_for(best) + _surely(surest)


def _households(alone: float) -> list[str]:
    return (
        [
            "The number of the household is published: it tells how many live together and who. "
            f"Whoever knows all members of a family finds it for {of_people(alone, 'records')}."
        ]
        if alone
        else []
    )


def _people(release: Release) -> list[str]:
    alone = people_alone(release) or 0.0
    return (
        [
            "The number of the person is published (given anew): it tells which records belong to one person. Whoever "
            f"knows of all records of a person what others may know finds them for {of_people(alone, 'records')}."
        ]
        if alone
        else []
    )


def _several(release: Release) -> list[str]:
    """Say that the figures count records where a person may have several."""
    names = recurring_identifiers(release)
    said = f"The figures count records: the values of {listed(names)} recur in the original, so that a person may have "
    return [f"{said}several and is found by any of them."] if names else []


def _sets(release: Release) -> list[str]:
    """Say what whole sets tell, and of which of them nothing was required."""
    from discretion.privacy.km_anonymity import KmAnonymity

    required: set[str] = set()
    for one in release.findings:
        if isinstance(one.requirement.part, KmAnonymity):
            required.update(one.requirement.part.columns or release.data.having("quasi", "sensitive"))
    said = []
    for name, alone in sets_alone(release).items():
        free = "" if name in required else " No requirement limits what a few items tell."
        if alone or free:
            said.append(f"By all items of {name} together, {of_people(alone, 'records')} stand alone.{free}")
    return said


def _untried(release: Release) -> list[str]:
    """Count the kinds of attackers whom nobody played."""
    cards = release.attackers()
    left = sum(card.success is None for card in cards)
    return [f"Not tried: {left} of {len(cards)} kinds of attackers."] if left else []


def _people_rows(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Give the attacks that look for people."""
    return [row for row in _comparable(rows) if find(row.kind).__module__.split(".")[-2] == "identity"]


def _strongest(rows: Sequence[ScoreRow]) -> float:
    """Give the share of people whom the strongest attack that beats guessing finds."""
    return max((_after(row) for row in _people_rows(rows) if _gain(row) > 0), default=0.0)


def _candidates(release: Release, only: str) -> list[str]:
    """Say how many records share what others may know about a person: anybody can count it in the published file."""
    found = smallest_class(release)
    if found is None:
        return []
    known = listed(found.columns)
    if (more := _told_besides(release, found.columns)) and found.size > 1:
        return [
            f"By what others may know of a person alone, at least {found.size:,} records fit.",
            f"Whoever compares {known} of one record with nothing else is left with these; but {more}, so that more "
            "people can be found than one in so many.",
        ]
    if found.people is not None and found.share is not None and found.people > 1:
        return [
            "Nobody stands alone by what others may know of a person: records of at least "
            f"{counted(found.people, 'person', 'people')} fit.",
            f"Whoever knows {known}{only} of somebody has a chance of {_one_in(found.share)} at best to pick a record "
            "of that person: some have several of the records that fit.",
        ]
    if found.people is not None and found.size > 1:
        return [
            "Some could: there are people of whom all the records that fit what others may know are theirs.",
            f"Whoever knows {known} of such a person has the records.",
        ]
    if found.size > 1:
        one_of = (
            f"has a chance of 1 in {found.size:,} at best to pick the right record: anybody can count it in the file."
        )
        return [
            f"Nobody stands alone by what others may know of a person: at least {found.size:,} records fit.",
            f"Whoever knows {known}{only} of somebody {one_of}",
        ]
    alone = found.alone / max(release.records, 1)
    _, changed = _touched(release)
    doubt = " if these values are true; some were changed" if set(changed) & set(found.columns) else ""
    return [
        f"Some could: {of_people(alone, 'records')} look like no other, by what others may know.",
        f"Whoever knows {known} of such a person has the record{doubt}: anybody can count it in the file.",
    ]


def _told_besides(release: Release, columns: Sequence[str]) -> str:
    """Say why who knows these columns alone finds more than by counting: dealt values, or records that are joined."""
    linked = [one for one in release.attacks() if one.measure == "distance-linkage"]
    own = [one for one in linked if set(one.detail.get("columns", ())) <= set(columns)]
    said = []
    for one in own:
        plain, informed = one.detail.get("plain", 0.0), one.detail.get("informed", 0.0)
        told = [
            n for n, text in one.detail.get("known_of", {}).items() if text.startswith("shuffle") and n not in columns
        ]
        if told:
            said.append(
                f"{listed(told)}, dealt out by a model of such columns, {'tells' if len(told) == 1 else 'tell'} more"
            )
        joined = {name: share for name, share in one.detail.get("joined", {}).items() if share > max(plain, informed)}
        if joined:
            said.append(f"{listed(list(joined))} joins records that tell more together")
    return " and ".join(dict.fromkeys(said))


def _one_in(share: float) -> str:
    """Write a chance as one in so many, rounded so that it is not understated; above a half as so many of a hundred."""
    return f"1 in {math.floor(1 / share + 1e-9):,}" if share <= 1 / 2 + 1e-9 else f"{math.ceil(100 * share)} in 100"


def _comparable(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    known = [row for row in rows if row.values is not None and row.range is not None and row.better == "lower"]
    return [row for row in known if not row.doubtful] or known


def _attacks(rows: tuple[ScoreRow, ...]) -> tuple[list[str], list[str]]:
    """Say what the strongest attack that looks for people reaches, and what is learnt about values.

    The strongest attack that looks for values, what is published as it is, and what a group tells for certain.
    """
    known = _comparable(rows)
    people = _people_rows(rows)
    others = [row for row in known if row not in people and row.kind != _AS_THEY_ARE]
    values = [row for row in others if _gain(row) > _WORTH_SAYING]
    found, learnt = [], []
    if people:
        row = max(people, key=_gain)
        before = row.values[0] if row.values else None
        earlier = "" if before is None else f" With the unprotected data it would be {of_people(before, row.who)}."
        who = f"{listed(row.columns)} of everybody" if row.columns else _knows(row)
        by = f", by somebody who knows {who}," if who else ""
        found.append(
            f"No attack that looked for people found more than guessing does ({_guess(row)}).{earlier}"
            if _gain(row) <= 0
            else f"The strongest attack that was tried{by} finds {_right_for(row)}{_surely(row)} "
            f"(guessing: {_guess(row)}).{earlier}"
        )
    if values:
        learnt.append(_learning(max(values, key=_gain)))
    learnt += [_learning(row) for row in known if row.kind == _AS_THEY_ARE and _most_gained(row) > _WORTH_SAYING]
    return found, [*learnt, *(words for row in known for words in _by_group(row))]


def _learning(row: ScoreRow) -> str:
    """Say how much of the values is learnt: of several columns the worst first, since a mean hides it."""
    unprotected = "" if row.values is None or row.values[0] is None else f"; unprotected data: {row.before}"
    said = f"Learning a value instead of finding a person: the {_words(row)} is "
    if len(row.columns) > 1 and row.each:
        worst = row.each[0]
        about = "about " if row.rounded and 0 < worst.after < 1 else ""
        guessing = "" if worst.chance is None else f" (guessing: {about}{percent(worst.chance)})"
        return (
            f"{said}{about}{percent(worst.after)} for {worst.name}{guessing}, and {row.after} on average over "
            f"{listed(row.columns)} (guessing: {row.chance}{unprotected})."
        )
    named = f"{row.about}; " if row.about else ""
    return f"{said}{row.after} ({named}guessing: {row.chance}{unprotected})."


def _most_gained(row: ScoreRow) -> float:
    """Give how far the column comes that gains most over guessing."""
    return max([_gain(row), *(gain_over(one.after, one.chance) for one in row.each)])


def _by_group(row: ScoreRow) -> list[str]:
    """Say which values are told to whoever knows what others may know, without finding the record."""
    if row.kind != "group-attack" or row.doubtful:
        return []
    about = "about " if row.rounded else ""
    nearly = " (or nearly, of a number)" if any(one.name == "percent" for one in row.settings) else ""
    return [
        f"Without finding the record: for {about}{percent(one.after)} of the records, all who share what others may "
        f"know have the same value of {one.name}{nearly}, so that it is learnt for certain (naming the most frequent "
        f"value for everybody is right for {about}{percent(one.chance)}, and never certain)."
        for one in row.each
        if one.after > _TRIFLE and (one.chance is None or one_digit(one.chance) < 1)
    ]


def _assumed(release: Release, rows: Sequence[ScoreRow]) -> list[str]:
    """Say who was assumed to attack, in words."""
    known = list(dict.fromkeys(words for row in rows if (words := _knows(row))))
    unaware = "" if release.plan.knows_method else " He is assumed not to know how the data was protected."
    more = f"; and {counted(len(known) - _SENTENCES, 'other')}" if len(known) > _SENTENCES else ""
    return (
        [f"Assumed to attack: somebody who knows {'; or '.join(known[:_SENTENCES])}{more} (see Attackers).{unaware}"]
        if known
        else []
    )


def _knows(row: ScoreRow) -> str:
    """Say what the attacker knows who is played by a measure."""
    who = attackers_by(row.kind)
    return who[0].knows.replace("quasi-identifiers", "characteristics that others may know") if who else ""


def _after(row: ScoreRow) -> float:
    return row.values[1] if row.values else 0.0


def _right_for(row: ScoreRow) -> str:
    return _about(_after(row), row)


def _about(share: float, row: ScoreRow) -> str:
    return ("" if not row.rounded or share <= 0 else "nearly " if share >= 1 else "about ") + of_people(share, row.who)


def _surely(row: ScoreRow) -> str:
    if not row.certain:
        return ""
    words = of_people(row.certain, row.who)  # other attackers may prove more
    return f", {f'at least {words}' if words[0].isdigit() else _about(row.certain, row)} for certain"


def _guess(row: ScoreRow) -> str:
    return "not known" if row.guessing is None else of_people(row.guessing, row.who)


def _gain(row: ScoreRow) -> float:
    """Give the part of the way from guessing to certainty that an attack comes."""
    return gain_over(_after(row), row.guessing)


def _words(row: ScoreRow) -> str:
    words = row.what.partition(". ")[0].rstrip(".")
    return words[:1].lower() + words[1:]


# --- what was lost ---------------------------------------------------------------------------------------------------


def _lost(release: Release, rows: tuple[ScoreRow, ...]) -> PlainAnswer:
    told = [row for row in rows if not row.withheld and row.meaning]
    detail_first = sorted(told, key=lambda row: row.kind != "precision")
    said = [words for row in detail_first if (words := _plainly(release, row))] or [
        f"{row.what.rstrip('.')}: {row.after}." for row in told[:_SENTENCES]
    ]
    said += _unrelated(release) + _suppressed(release)
    return PlainAnswer(
        "What was lost?",
        said[0] if said else "This was not measured." if not rows else "The figures are withheld.",
        (*said[1:], *(["All figures stand under Utility."] if len(told) > len(said) else [])),
    )


def _unrelated(release: Release) -> list[str]:
    """Say what columns that a model dealt out no longer have to do with: columns that the model did not look at."""
    from discretion.protect.shuffle import Shuffle

    original, said = release.study.original, []
    for step in release.data.steps:
        if isinstance(step, Shuffle):
            dealt, seen = original.choose(step.columns, "perturb"), step.holds(original)
            others = [name for name in release.data.columns if name in original.columns and name not in seen]
            if others:
                said.append(f"What {listed(dealt)} had to do with {listed(others)} is lost.")
    return said


def _suppressed(release: Release) -> list[str]:
    data = release.data
    per_column = release.suppressed_cells
    cells = sum(per_column.values())
    every = release.records * len(data.columns)
    lost = []
    if data.lost_records:
        lost.append(counted(data.lost_records, "record"))
    if cells:
        lost.append(f"{counted(cells, 'single value')} ({percent(one_digit(cells / max(every, 1)))} of all)")
    verb = "was" if data.lost_records + cells == 1 else "were"
    said = f"{' and '.join(lost)} {verb} taken out" if lost else ""
    if cells:
        worst = max(per_column, key=lambda name: per_column[name])
        said += f"; most of {worst}: {percent(float(f'{per_column[worst] / max(len(data), 1):.1e}'))} of its values"
    weights = () if release.is_private else weight_lost(release.study.original, data)
    return [f"{said}.", *_tilted(release), *(f"{words[0].upper()}{words[1:]}." for words in weights)] if said else []


_TILTED = 0.1
"""Part of its share by which a category may grow or shrink when records are dropped before it is said."""
_FEWEST = 10
"""People behind a figure that is published."""


def _tilted(release: Release) -> list[str]:
    """Say which sensitive column changed most because the records taken out are not like the others."""
    original, data = release.study.original, release.data
    if not data.lost_records or release.is_private or data.has_new_rows:
        return []
    taken = ~np.isin(original.row_ids, data.row_ids)
    told: list[tuple[bool, float, str]] = []
    empty = emptied(release)
    for name in data.columns:
        if name not in original.columns or name in empty or original.type_of(name) == "set":
            continue
        if original.is_quantity(name) and not original.is_category(name):
            continue
        coded = original.codes(name)
        every, gone = (np.bincount(codes, minlength=coded.size) for codes in (coded.codes, coded.codes[taken]))
        left = every - gone
        before, after = every / len(original), left / max(len(data), 1)
        moved = np.where(gone >= _FEWEST, np.abs(after - before) / np.maximum(before, 1e-12), 0.0)
        worst = int(np.argmax(moved))
        if moved[worst] >= _TILTED:
            words = " of all records, and has ".join(
                _share_of(int(counts[worst]), total) for counts, total in ((every, len(original)), (left, len(data)))
            )
            sensitive = name in original.having("sensitive")
            told.append((sensitive, float(moved[worst]), f"{name}: one of its values had {words}"))
    return [f"The records taken out are unlike the others, most in {max(told)[-1]}."] if told else []


def _share_of(count: int, total: int) -> str:
    """Write a share of original values by a count rounded as in the codebook: the share of 14 people would tell it."""
    if count < _FEWEST:
        return "hardly any"
    rounded = (count + _FEWEST // 2) // _FEWEST * _FEWEST / max(total, 1)
    return percent(float(f"{rounded:.1e}"))


def _plainly(release: Release, row: ScoreRow) -> str:
    """Say what a figure means to somebody who knows no statistics; empty where there are no such words."""
    names = listed(row.columns)
    if row.kind == "precision":
        return f"Of the detail of {names}, {row.after} is left."
    if row.kind == "il1s" and row.values is not None:
        # from public figures only: the figure as it is shown, and the values that are published
        moving = set().union(*release.changes)
        published = [name for name in row.columns if name in release.data.columns and name in moving]
        if not published:
            return ""
        values = sum(len(release.data) - release.data.count_missing(name) for name in published)
        moved = one_digit(math.sqrt(2) * row.values[1] / max(values, 1))
        names = listed(published)
        return f"On average a value of {names} moved by about {percent(moved)} of the usual spread of its column."
    if row.kind == "mae" and any(one.name == "on" and one.value == "correlation" for one in row.settings):
        return f"How strongly {names} go together (their correlations, from −1 to 1) changed by {row.after} on average."
    return ""
