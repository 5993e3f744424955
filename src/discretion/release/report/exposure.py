"""Details for the internal version: score details as tables, and the most exposed rows by number, never by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.release.report.wording import count, number, title_of

if TYPE_CHECKING:
    from discretion.release.release import Measured, Release

MOST_ROWS = 20
_MOST_ENTRIES = 60


@dataclass(frozen=True)
class Detail:
    """The details of one score as name and value."""

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Exposed:
    """The rows with the largest risk by one measure."""

    title: str
    rows: tuple[tuple[str, str, str], ...]
    """row in the original, row in the release, figure"""
    ties: str
    """how many records share the largest figure"""


def details_of(release: Release) -> tuple[Detail, ...]:
    """Flatten the details of every score."""
    found = []
    for item in release.measured:
        entries = [entry for key, value in item.after.detail.items() for entry in _flat(str(key), value)]
        if entries:
            found.append(Detail(title_of(item.measure.kind), tuple(entries[:_MOST_ENTRIES])))
    return tuple(found)


def _flat(key: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [entry for inner, item in value.items() for entry in _flat(f"{key} · {inner}", item)]
    return [(key, _text(value))]


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(_text(item) for item in value[:MOST_ROWS])
        return shown + (f", … ({count(len(value))} in all)" if len(value) > MOST_ROWS else "")
    return str(value)


def exposed_of(release: Release) -> tuple[Exposed, ...]:
    """List the rows with the largest figure of each risk measure that has one per record."""
    found = (_exposed(item, release) for item in release.measured if item.measure.family == "risk")
    return tuple(item for item in found if item is not None)


def _exposed(item: Measured, release: Release) -> Exposed | None:
    per_record = item.after.per_record
    if per_record is None or len(per_record) != len(release.data) or not len(per_record) or release.data.has_new_rows:
        return None
    risk = np.nan_to_num(np.asarray(per_record, dtype=float))
    worst = np.argsort(-risk, kind="stable")[:MOST_ROWS]
    worst = worst[risk[worst] > 0]
    if not len(worst):
        return None
    origin = release.data.row_ids
    rows = tuple((count(int(origin[row]) + 1), count(int(row) + 1), number(float(risk[row]))) for row in worst)
    return Exposed(title_of(item.measure.kind), rows, count(int((risk == risk.max()).sum())))
