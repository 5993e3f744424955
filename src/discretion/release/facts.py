"""The public facts of a release: what was done in words, risk and utility, verdicts; nothing confidential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discretion import __version__
from discretion.data.dataset import Dataset
from discretion.release.plan import Step

if TYPE_CHECKING:
    from discretion.release.release import Measured, Release
    from discretion.release.study import Done


def public_facts(release: Release) -> dict[str, Any]:
    """Collect what may be told to everybody."""
    return {
        "format": "discretion-report",
        "version": 1,
        "software": f"discretion {__version__}",
        "title": release.plan.title,
        "records": len(release.data),
        "records_suppressed": release.data.lost_records,
        "cells_suppressed": dict(release.data.suppressed_cells),
        "columns": columns(release),
        "steps": [step_facts(item.step) for item in release.study.done],
        "risk": [score_facts(item) for item in release.measured if item.measure.family == "risk"],
        "utility": [score_facts(item) for item in release.measured if item.measure.family == "utility"],
        "requirements": [
            {"kind": finding.kind, "holds": finding.holds, "text": finding.explain_publicly()}
            for finding in release.findings
        ],
    }


def step_facts(step: Step) -> dict[str, Any]:
    """Describe a step: what it does, what it guarantees, its public settings and the names of those withheld."""
    method = step.method
    return {
        "kind": method.kind,
        "what": method.summary(),
        "guarantee": method.guarantee,
        "settings": method.settings(public=not step.publish),
        "withheld": []
        if step.publish
        else [name for name in method.confidential_fields() if name in method.settings()],
    }


def score_facts(measured: Measured) -> dict[str, Any]:
    """Give a measure's figures before and after; a figure that would give a confidential parameter away is withheld."""
    after = measured.after
    facts: dict[str, Any] = {
        "kind": measured.measure.kind,
        "what": measured.measure.summary(),
        "better": after.better,
        "range": list(measured.measure.limits),
        "settings": measured.measure.settings(public=not measured.publish),
    }
    if measured.is_public:
        facts |= {
            "before": measured.before.value if measured.before else None,
            "after": after.value,
            "chance": after.detail.get("chance"),
            "meaning": after.meaning,
        }
    else:
        facts |= {"withheld": True}
    return facts


def columns(release: Release) -> list[dict[str, Any]]:
    """Describe every column of the original: role, type, and what each step did to it."""
    original, done = release.study.original, release.study.done
    changed = [(item, changed_columns(before, item.data)) for before, item in _with_before(original, done)]
    described = []
    for name in original.columns:
        steps = [item.step.method.kind for item, names in changed if name in names]
        described.append(
            {
                "name": name,
                "label": original.schema[name].label,
                "roles": list(original.schema[name].roles),
                "type": original.type_of(name),
                "published": name in release.data.columns,
                "steps": steps,
            }
        )
    return described


def _with_before(original: Dataset, done: tuple[Done, ...]) -> list[tuple[Dataset, Done]]:
    before = [original, *(item.data for item in done[:-1])]
    return list(zip(before, done, strict=False))


def changed_columns(before: Dataset, after: Dataset) -> set[str]:
    """Name the columns that differ between two states of the data, dropped ones included."""
    gone = set(before.columns) - set(after.columns)
    if len(before) != len(after):
        return set(before.columns)
    kept = [name for name in after.columns if name in before.columns]
    return gone | {name for name in kept if not _same(before, after, name)}


def _same(before: Dataset, after: Dataset, name: str) -> bool:
    one, other = before.frame[name], after.frame[name]
    return one.dtype == other.dtype and one.equals(other, null_equal=True)
