"""The first paragraph: what is published, whether the requirements hold, what is left of the risk, what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def summary_of(release: Release, risk: tuple[ScoreRow, ...], utility: tuple[ScoreRow, ...]) -> Summary:
    """Word the summary from figures that may be shown."""
    data, steps = release.data, len(release.study.done)
    met = sum(finding.holds for finding in release.findings)
    sentences = [
        f"This release publishes {counted(len(data), 'record')} with {counted(len(data.columns), 'column')}.",
        f"{counted(steps, 'protection step was', 'protection steps were')} applied to the original data."
        if steps
        else "No protection step was applied to the original data.",
        _requirements(met, len(release.findings)),
        *_risk(risk),
        *_loss(release, utility),
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
        may_publish=release.may_publish,
        verdict=_verdict(release),
    )


def _verdict(release: Release) -> str:
    if not release.findings:
        return "No requirements were set"
    return "All requirements hold" if release.may_publish else "Requirements are not met"


def _requirements(met: int, total: int) -> str:
    if not total:
        return "No requirements were set, so nothing was checked before publication."
    if met == total:
        return "The one requirement holds." if total == 1 else f"All {total} requirements hold."
    return f"{total - met} of {counted(total, 'requirement')} {'does' if total - met == 1 else 'do'} not hold."


def _risk(rows: tuple[ScoreRow, ...]) -> list[str]:
    """Name the measure that leaves the largest risk, before and after."""
    if not rows:
        return ["No risk was measured."]
    known = [row for row in rows if row.values is not None and row.range is not None and row.better == "lower"]
    if not known:
        return ["The risk figures are withheld."] if all(row.withheld for row in rows) else []
    worst = max(known, key=lambda row: row.values[1] if row.values else 0.0)
    words = worst.what.rstrip(".")
    words = words[:1].lower() + words[1:]
    if worst.values is None or worst.values[0] is None:
        return [f"The largest remaining risk figure is the {words}: {worst.after}."]
    if worst.before == worst.after:
        return [f"The largest remaining risk figure is the {words}: {worst.after}, as before."]
    return [f"The largest remaining risk figure is the {words}: {worst.before} before, {worst.after} after."]


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
