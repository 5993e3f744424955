"""The columns: role, type, whether published, what was done to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.errors import DataError
from discretion.release.report.wording import count, title_of

if TYPE_CHECKING:
    from discretion.release.release import Release

_ROLES = {
    "identifier": "identifier",
    "quasi": "quasi-identifier",
    "sensitive": "sensitive",
    "weight": "weight",
    "household": "household",
    "unit": "unit (person or business with several records)",
    "stratum": "stratum",
    "geography": "geography",
    "other": "other",
}

_TYPES = {"continuous": "number", "ordinal": "ordered category", "nominal": "category", "set": "set", "date": "date"}


@dataclass(frozen=True)
class ColumnRow:
    """One column of the original."""

    name: str
    label: str
    roles: str
    type: str
    published: bool
    steps: tuple[tuple[int, str], ...]
    """number and title of the steps that changed it"""
    level: str
    suppressed: str


def columns_of(release: Release) -> tuple[ColumnRow, ...]:
    """Describe every column of the original."""
    original, data = release.study.original, release.data
    suppressed = data.suppressed_cells
    rows = []
    for name in original.columns:
        column = original.schema[name]
        touched = [
            (number, title_of(done.step.method.kind))
            for number, (done, names) in enumerate(zip(release.study.done, release.changes, strict=True), start=1)
            if name in names
        ]
        rows.append(
            ColumnRow(
                name=name,
                label=column.label,
                roles=", ".join(_ROLES.get(role, role) for role in column.roles)
                + (" (confirmed)" if name in release.plan.confirmed_other else ""),
                type=_TYPES.get(original.type_of(name), ""),
                published=name in data.columns,
                steps=tuple(touched),
                level=_level(release, name),
                suppressed=count(suppressed.get(name, 0)),
            )
        )
    return tuple(rows)


def _level(release: Release, name: str) -> str:
    level = release.data.levels.get(name) if name in release.data.columns else None
    if level is None:
        return ""
    if not isinstance(level, int):
        return "level differs by record"
    try:
        return f"level {level} of {release.data.hierarchy(name).height}"
    except DataError:
        return f"level {level}"
