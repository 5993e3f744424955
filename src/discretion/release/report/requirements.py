"""The requirements and whether they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.model import FailingClass, Verdict
from discretion.release.facts import smallest_class
from discretion.release.report.settings import ShownSetting, settings_of
from discretion.release.report.wording import NOTHING, caveats, count, counted, number, title_of

if TYPE_CHECKING:
    from discretion.release.gate import Finding
    from discretion.release.release import Release

_CLASSES_SHOWN = 20


@dataclass(frozen=True)
class ClassRow:
    """A failing class: the values it is known by, and its size. For the internal version only."""

    key: str
    size: str


@dataclass(frozen=True)
class RequirementRow:
    """One requirement, its verdict and the words for it."""

    title: str
    kind: str
    holds: bool
    what: str
    text: str
    withheld: bool
    meaning: str
    settings: tuple[ShownSetting, ...]
    caveats: tuple[str, ...]
    attacker: str = ""
    """who is assumed to attack, where the requirement is a privacy model"""
    classes: tuple[ClassRow, ...] = ()
    classes_left_out: str = ""


def requirements_of(release: Release, *, internal: bool) -> tuple[RequirementRow, ...]:
    """Describe the requirements in the order of the plan."""
    return tuple(_row(release, finding, internal) for finding in release.findings)


def _row(release: Release, finding: Finding, internal: bool) -> RequirementRow:
    part, publish = finding.requirement.part, finding.requirement.publish
    text = finding.explain() if internal else finding.explain_publicly()
    classes, left_out = _failing(finding) if internal else ((), "")
    return RequirementRow(
        title=title_of(part.kind),
        kind=part.kind,
        holds=finding.holds,
        what=part.summary(),
        text=_sentence(text, finding.kind),
        withheld=not (internal or publish),
        meaning=finding.result.meaning if internal else _counted(release, finding),
        settings=settings_of(part, internal=internal, publish=publish),
        caveats=caveats(type(part)),
        attacker=finding.result.attacker if isinstance(finding.result, Verdict) else "",
        classes=classes,
        classes_left_out=left_out,
    )


def _counted(release: Release, finding: Finding) -> str:
    """Say how small the smallest class is: k itself is no secret where anybody can count it in the published file."""
    found = (
        smallest_class(release, getattr(finding.requirement.part, "columns", ()))
        if finding.kind == "k-anonymity"
        else None
    )
    if found is None:
        return ""
    return (
        f"In the file every combination of values occurs at least {counted(found.size, 'time')}: anybody can count it."
    )


def _sentence(text: str, kind: str) -> str:
    text = text.removeprefix(f"{kind}: ")
    return text[:1].upper() + text[1:] + "."


def _failing(finding: Finding) -> tuple[tuple[ClassRow, ...], str]:
    if not isinstance(finding.result, Verdict) or finding.holds:
        return (), ""
    failing = finding.result.failing[:_CLASSES_SHOWN]
    more = finding.result.failing_count - len(failing)
    return tuple(_class_row(item) for item in failing), count(more) if more > 0 and failing else ""


def _class_row(item: FailingClass) -> ClassRow:
    key = ", ".join(f"{name} = {NOTHING if value is None else value}" for name, value in item.key.items())
    return ClassRow(key, number(item.size))
