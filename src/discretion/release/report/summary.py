"""The first screen: what goes out, could anyone be found, what was lost, in words without jargon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.part import find
from discretion.release.facts import one_digit, smallest_class
from discretion.release.order import order_words
from discretion.release.published import together
from discretion.release.ranking import MANY_FOUND, attackers_by
from discretion.release.report.scores import ScoreRow
from discretion.release.report.wording import counted, listed, of_people, percent

if TYPE_CHECKING:
    from discretion.release.release import Release

_SENTENCES = 2


@dataclass(frozen=True)
class Answer:
    """A question that everybody asks, its answer in a sentence, and what there is to add."""

    question: str
    short: str
    more: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The summary: what must be said first, and three questions with their answers."""

    title: str
    sentences: tuple[str, ...]
    answers: tuple[Answer, ...]
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
        f"{counted(steps, 'protection step was', 'protection steps were')} applied to the original data."
        if steps
        else "No protection step was applied to the original data.",
        *_requirements(met, len(release.findings)),
        *(f"{found.explain(len(release.plan.previous))}." for found in release.averaging if internal),
    ]
    return Summary(
        title=release.plan.title.strip() or "Release report",
        sentences=tuple(sentences),
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
    limited = [(one.kind, tuple(getattr(one.requirement.part, "columns", ()) or ())) for one in release.findings]
    free = [row for row in risk if (row.kind, row.columns) not in limited and not row.doubtful]
    return _strongest(free) > MANY_FOUND


def _requirements(met: int, total: int) -> list[str]:
    if not total:
        return []  # the notes say it
    if met == total:
        return ["The one requirement holds." if total == 1 else f"All {total} requirements hold."]
    return [f"{total - met} of {counted(total, 'requirement')} {'does' if total - met == 1 else 'do'} not hold."]


# --- what goes out ---------------------------------------------------------------------------------------------------


def _goes_out(release: Release) -> Answer:
    data, original = release.data, release.study.original
    inside = [name for name in original.columns if name not in data.columns]
    coarser, changed = _touched(release)
    same = [name for name in data.columns if name not in coarser and name not in changed]
    lists = (
        ("As in the original: ", same),
        ("With less detail, or values taken out: ", coarser),
        ("With changed values, which may be true for one person and wrong for another: ", changed),
        ("Nothing is left of: ", emptied(release)),
        ("Left out: ", inside),
    )
    return Answer(
        "What goes out?",
        f"{counted(len(data), 'record')} with "
        + (
            f"{len(data.columns)} of {len(original.columns)} columns."
            if inside
            else f"all {len(data.columns)} columns."
        ),
        (*(f"{words}{listed(names)}." for words, names in lists if names), order_words(release.plan.order, data)),
    )


def emptied(release: Release) -> list[str]:
    """Name the published columns that have one value left, and had several."""
    original, data = release.study.original, release.data
    if release.is_private:
        return []
    both = [name for name in data.columns if name in original.columns]
    return [name for name in both if data.frame[name].n_unique() <= 1 < original.frame[name].n_unique()]


def _touched(release: Release) -> tuple[list[str], list[str]]:
    """Name the published columns that lost detail only, and those whose values were changed."""
    coarser: set[str] = set()
    changed: set[str] = set()
    for done, names in zip(release.study.done, release.changes, strict=True):
        (changed if done.step.method.perturbs else coarser).update(names)
    published = release.data.columns
    return [name for name in published if name in coarser - changed], [name for name in published if name in changed]


# --- could anyone be found -------------------------------------------------------------------------------------------


def _found(release: Release, rows: tuple[ScoreRow, ...]) -> Answer:
    """Say how many records fit a known person, what the strongest attacks reach, and who was assumed to attack."""
    candidates, attacks = _candidates(release), _attacks(rows)
    found = smallest_class(release)
    worse = _strongest(rows) > (1.0 if found is None else 1 / max(found.size, 1)) or not candidates
    said = [*attacks, *candidates] if worse and attacks else [*candidates, *attacks]
    if not rows:
        said.append("No risk was measured.")
    elif all(row.withheld for row in rows):
        said.append("The risk figures are withheld.")
    elif not _comparable(rows):
        said.append("No attack whose success is a share of the people was tried.")
    beyond = together(release.data).replace("the quasi-identifiers", "what others may know")
    more = (*said[1:], *([f"{beyond[0].upper()}{beyond[1:]}."] if beyond else []), *_untried(release))
    return Answer("Could anyone be found?", said[0], (*more, *_assumed(release, rows)))


def _untried(release: Release) -> list[str]:
    """Name the kinds of attackers whom nobody played."""
    cards = release.attackers()
    left = [card.attacker for card in cards if card.success is None]
    return [f"Not tried: {len(left)} of {len(cards)} kinds of attackers ({'; '.join(left)})."] if left else []


def _people_rows(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Give the attacks that look for people."""
    return [row for row in _comparable(rows) if find(row.kind).__module__.split(".")[-2] == "identity"]


def _strongest(rows: Sequence[ScoreRow]) -> float:
    """Give the share of people whom the strongest attack that beats guessing finds."""
    return max((_after(row) for row in _people_rows(rows) if _gain(row) > 0), default=0.0)


def _candidates(release: Release) -> list[str]:
    """Say how many records share what others may know about a person: anybody can count it in the published file."""
    found = smallest_class(release)
    if found is None:
        return []
    known = listed(found.columns)
    if found.size > 1:
        return [
            f"Nobody stands alone: by what others may know of a person, at least {found.size:,} records fit.",
            f"Whoever knows {known} of somebody has a chance of 1 in {found.size:,} at best to pick the right record: "
            "anybody can count it in the file.",
        ]
    alone = found.alone / max(len(release.data), 1)
    _, changed = _touched(release)
    doubt = " if these values are true; some were changed" if set(changed) & set(found.columns) else ""
    return [
        f"Some could: {of_people(alone, 'records')} look like no other, by what others may know of a person.",
        f"Whoever knows {known} of such a person has the record{doubt}: anybody can count it in the file.",
    ]


def _comparable(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    known = [row for row in rows if row.values is not None and row.range is not None and row.better == "lower"]
    return [row for row in known if not row.doubtful] or known


def _attacks(rows: tuple[ScoreRow, ...]) -> list[str]:
    """Say what the strongest attack that looks for people reaches, and the strongest one that looks for values."""
    known = _comparable(rows)
    people = _people_rows(rows)
    values = [row for row in known if row not in people]
    said = []
    if people:
        row = max(people, key=_gain)
        before = row.values[0] if row.values else None
        earlier = "" if before is None else f" With the unprotected data it would be {of_people(before)}."
        of = f" (it compared {listed(row.columns)})" if row.columns else ""
        by = f", by somebody who knows {who}{of}," if (who := _knows(row)) else ""
        said.append(
            f"No attack that looked for people found more than guessing does ({_guess(row)}).{earlier}"
            if _gain(row) <= 0
            else f"The strongest attack that was tried{by} finds {_right_for(row)}{_surely(row)} "
            f"(guessing: {_guess(row)}).{earlier}"
        )
    if values:
        row = max(values, key=_gain)
        unprotected = "" if row.values is None or row.values[0] is None else f"; unprotected data: {row.before}"
        said.append(
            f"Learning a value instead of finding a person: the {_words(row)} is {row.after} (guessing: {row.chance}"
            f"{unprotected})."
        )
    return said


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
    return _about(_after(row), row.rounded)


def _about(share: float, rounded: bool) -> str:
    return ("" if not rounded or share <= 0 else "nearly " if share >= 1 else "about ") + of_people(share)


def _surely(row: ScoreRow) -> str:
    return f", {_about(row.certain, row.rounded)} for certain" if row.certain else ""


def _guess(row: ScoreRow) -> str:
    return "not known" if row.guessing is None else of_people(row.guessing)


def _gain(row: ScoreRow) -> float:
    """Give the part of the way from guessing to certainty that an attack comes."""
    chance = row.guessing
    return _after(row) if chance is None or chance >= 1 else (_after(row) - chance) / (1 - chance)


def _words(row: ScoreRow) -> str:
    words = row.what.partition(". ")[0].rstrip(".")
    return words[:1].lower() + words[1:]


# --- what was lost ---------------------------------------------------------------------------------------------------


def _lost(release: Release, rows: tuple[ScoreRow, ...]) -> Answer:
    told = [row for row in rows if not row.withheld and row.meaning]
    detail_first = sorted(told, key=lambda row: row.kind != "precision")
    said = [words for row in detail_first if (words := _plainly(release, row))] or [
        f"{row.what.rstrip('.')}: {row.after}." for row in told[:_SENTENCES]
    ]
    said += _suppressed(release)
    return Answer(
        "What was lost?",
        said[0] if said else "This was not measured." if not rows else "The figures are withheld.",
        (*said[1:], *(["All figures stand under Utility."] if len(told) > len(said) else [])),
    )


def _suppressed(release: Release) -> list[str]:
    cells = sum(release.data.suppressed_cells.values())
    every = len(release.data) * len(release.data.columns)
    lost = []
    if release.data.lost_records:
        lost.append(counted(release.data.lost_records, "record"))
    if cells:
        lost.append(f"{counted(cells, 'single value')} ({percent(one_digit(cells / max(every, 1)))} of all)")
    verb = "was" if release.data.lost_records + cells == 1 else "were"
    return [f"{' and '.join(lost)} {verb} taken out."] if lost else []


def _plainly(release: Release, row: ScoreRow) -> str:
    """Say what a figure means to somebody who knows no statistics; empty where there are no such words."""
    names = listed(row.columns)
    if row.kind == "precision":
        return f"Of the detail of {names}, {row.after} is left."
    if row.kind == "il1s" and row.values is not None:
        # from public figures only: the figure as it is shown, and the values that are published
        published = [name for name in row.columns if name in release.data.columns]
        values = sum(len(release.data) - release.data.count_missing(name) for name in published)
        moved = one_digit(math.sqrt(2) * row.values[1] / max(values, 1))
        return f"On average a value of {names} moved by about {percent(moved)} of the usual spread of its column."
    if row.kind == "mae" and any(one.name == "on" and one.value == "correlation" for one in row.settings):
        return f"How strongly {names} go together (their correlations, from −1 to 1) changed by {row.after} on average."
    return ""
