"""The first paragraph: what is published, whether the requirements hold, what is left of the risk, what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.release.facts import order_words
from discretion.release.report.scores import ScoreRow
from discretion.release.report.wording import count, counted

if TYPE_CHECKING:
    from discretion.release.release import Release

_SENTENCES = 2


@dataclass(frozen=True)
class Summary:
    """The summary as sentences and as a few large figures."""

    title: str
    sentences: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    may_publish: bool
    verdict: str


def summary_of(
    release: Release, risk: tuple[ScoreRow, ...], utility: tuple[ScoreRow, ...], *, internal: bool = False
) -> Summary:
    """Word the summary from figures that may be shown."""
    data, steps = release.data, len(release.study.done)
    met = sum(finding.holds for finding in release.findings)
    sentences = [
        *release.notes,
        f"This release publishes {counted(len(data), 'record')} with {counted(len(data.columns), 'column')}.",
        f"{counted(steps, 'protection step was', 'protection steps were')} applied to the original data."
        if steps
        else "No protection step was applied to the original data.",
        order_words(release),
        *_requirements(met, len(release.findings)),
        *_risk(risk),
        *_loss(release, utility),
        *(f"{found.explain(len(release.plan.previous))}." for found in release.averaging if internal),
    ]
    tiles = [
        ("records published", count(len(data))),
        ("columns published", f"{count(len(data.columns))} of {count(len(release.study.original.columns))}"),
        ("protection steps", count(steps)),
        ("requirements met", f"{met} of {len(release.findings)}" if release.findings else "none set"),
    ]
    return Summary(
        title=release.plan.title.strip() or "Release report",
        sentences=tuple(sentences),
        tiles=tuple(tiles),
        may_publish=met == len(release.findings),
        verdict=_verdict(release),
    )


def _verdict(release: Release) -> str:
    if not release.findings:
        return "Published without requirements"
    return "All requirements hold" if all(one.holds for one in release.findings) else "Requirements are not met"


def _requirements(met: int, total: int) -> list[str]:
    if not total:
        return []  # the notes say it
    if met == total:
        return ["The one requirement holds." if total == 1 else f"All {total} requirements hold."]
    return [f"{total - met} of {counted(total, 'requirement')} {'does' if total - met == 1 else 'do'} not hold."]


def _risk(rows: tuple[ScoreRow, ...]) -> list[str]:
    """Say what an attacker could do best with the original, and what with the release."""
    if not rows:
        return ["No risk was measured."]
    known = [row for row in rows if row.values is not None and row.range is not None and row.better == "lower"]
    if not known:
        return ["The risk figures are withheld."] if all(row.withheld for row in rows) else []
    known = [row for row in known if not row.doubtful] or known
    now = max(known, key=lambda row: _gain(row, 1))
    sentence = f"The largest remaining risk is the {_words(now)}: {now.after}{_guessing(now)}."
    unprotected = [row for row in known if row.values and row.values[0] is not None]
    if not unprotected:
        return [sentence]
    before = max(unprotected, key=lambda row: _gain(row, 0))
    if before is now:
        same = "as before" if now.before == now.after else f"{now.before} before protection"
        return [sentence[:-1] + f", {same}."]
    return [f"Before protection the largest risk was the {_words(before)}: {before.before}.", sentence]


def _gain(row: ScoreRow, when: int) -> float:
    """Give the part of the way from guessing to certainty that an attack comes, before (0) or after (1)."""
    value = row.values[when] if row.values else None
    chance = row.range.chance if row.range else None
    if value is None:
        return 0.0
    return value if chance is None or chance >= 1 else (value - chance) / (1 - chance)


def _words(row: ScoreRow) -> str:
    words = row.what.rstrip(".")
    return words[:1].lower() + words[1:]


def _guessing(row: ScoreRow) -> str:
    return "" if row.range is None or row.range.chance is None else f" (guessing: {row.chance})"


def _loss(release: Release, rows: tuple[ScoreRow, ...]) -> list[str]:
    told = [row for row in rows if not row.withheld and row.meaning]
    said = [_sentence(row) for row in sorted(told, key=lambda row: row.rounded)[:_SENTENCES]]
    cells = sum(release.data.suppressed_cells.values())
    lost = []
    if release.data.lost_records:
        lost.append(counted(release.data.lost_records, "record"))
    if cells:
        lost.append(counted(cells, "single value"))
    gone = [f"{' and '.join(lost)} {'was' if lost == ['1 record'] else 'were'} suppressed."] if lost else []
    words = "; ".join(said)
    return [*gone, f"The price in detail and accuracy: {words}."] if said else gone


def _sentence(row: ScoreRow) -> str:
    """Say what was lost as a part of a sentence; a rounded figure has no sentence of its own."""
    words = f"{row.what.rstrip('.')}: {row.after}" if row.rounded else row.meaning.rstrip(".")
    return words[:1].lower() + words[1:]
