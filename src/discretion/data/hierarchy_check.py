"""What is wrong with a hierarchy file, all at once: with the file itself, and with it for the values of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError

Kind = Literal["ragged", "twice", "not-nested", "two-levels", "no-row", "repeated", "many-tops", "unused"]
FAULTS: Mapping[Kind, type[DataError | PlanError]] = {
    "ragged": PlanError,
    "twice": PlanError,
    "not-nested": PlanError,
    "two-levels": PlanError,
    "no-row": DataError,
}
"""Findings that are faults, and the error each stands for; the others are worth knowing."""

_SHOWN = 10


@dataclass(frozen=True)
class HierarchyFinding:
    """One kind of finding: how often, a sentence, and the first values or labels of the domain that show it."""

    kind: Kind
    count: int
    text: str
    examples: tuple[str, ...] = ()

    @property
    def error(self) -> type[DataError | PlanError] | None:
        """The error that this is, or none."""
        return FAULTS.get(self.kind)


@dataclass(frozen=True)
class CheckedHierarchy:
    """The rows of a hierarchy file and what was found; without `table` the rows have no common length."""

    findings: tuple[HierarchyFinding, ...]
    table: tuple[tuple[str, ...], ...] = ()

    @property
    def faults(self) -> tuple[HierarchyFinding, ...]:
        """The findings because of which the hierarchy cannot be used."""
        return tuple(finding for finding in self.findings if finding.error is not None)


def check_hierarchy(rows: Sequence[Sequence[object]], values: Sequence[object] | None = None) -> CheckedHierarchy:
    """Look for every fault of the rows of a hierarchy file, and of the file for the values of a column.

    Time and memory linear in the cells of the file and in the values.
    """
    width = len(rows[0])
    ragged = [str(number) for number, row in enumerate(rows, 1) if len(row) != width]
    if ragged:
        text = f"rows without {width} levels, as the first row has them ({len(ragged):,}), by number: {_some(ragged)}"
        return CheckedHierarchy((HierarchyFinding("ragged", len(ragged), text, tuple(ragged[:_SHOWN])),))
    table = tuple(tuple(canonical(row[level]).strip() for row in rows) for level in range(width))
    found = [_twice(table), *_not_nested(table), *_ambiguous(table), _tops(table)]
    if values is not None:
        found += _against(table, values)
    return CheckedHierarchy(tuple(finding for finding in found if finding is not None), table)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _finding(kind: Kind, names: Sequence[str], text: str) -> HierarchyFinding | None:
    if not names:
        return None
    listed = _some([repr(name) for name in names])
    return HierarchyFinding(kind, len(names), f"{text} ({len(names):,}): {listed}", tuple(names[:_SHOWN]))


def _twice(table: Sequence[Sequence[str]]) -> HierarchyFinding | None:
    counts: dict[str, int] = {}
    for leaf in table[0]:
        counts[leaf] = counts.get(leaf, 0) + 1
    twice = [leaf for leaf, count in counts.items() if count > 1]
    return _finding("twice", twice, "values with more than one row")


def _not_nested(table: Sequence[Sequence[str]]) -> list[HierarchyFinding | None]:
    found = []
    for level, (lower, upper) in enumerate(pairwise(table)):
        if level == 0:
            continue  # a value with two parents has two rows
        parents: dict[str, set[str]] = {}
        for child, parent in zip(lower, upper, strict=True):
            parents.setdefault(child, set()).add(parent)
        torn = [child for child, above in parents.items() if len(above) > 1]
        text = f"levels that do not nest: labels of level {level} with several parents at level {level + 1}"
        found.append(_finding("not-nested", torn, text))
    return found


def _ambiguous(table: Sequence[Sequence[str]]) -> list[HierarchyFinding | None]:
    """Find labels at two levels: with different values below they say two things, with the same they are repeated."""
    meanings: dict[str, dict[frozenset[int], int]] = {}
    for column in table:
        below: dict[str, list[int]] = {}
        for row, label in enumerate(column):
            below.setdefault(label, []).append(row)
        for label, members in below.items():
            held = meanings.setdefault(label, {})
            key = frozenset(members)
            held[key] = held.get(key, 0) + 1
    unclear = [label for label, held in meanings.items() if len(held) > 1]
    repeated = [label for label, held in meanings.items() if len(held) == 1 and sum(held.values()) > 1]
    return [
        _finding("two-levels", unclear, "labels that stand at two levels for different sets of values"),
        _finding(
            "repeated", repeated,
            "labels that stay the same over several levels: their level in a file from elsewhere cannot be told",
        ),
    ]  # fmt: skip


def _tops(table: Sequence[Sequence[str]]) -> HierarchyFinding | None:
    labels = list(dict.fromkeys(table[-1]))
    if len(labels) == 1:
        return None
    return _finding("many-tops", labels, "labels of the highest level, which has not one for all values")


def _against(table: Sequence[Sequence[str]], values: Sequence[object]) -> list[HierarchyFinding | None]:
    known = set(table[0])
    used = list(dict.fromkeys(canonical(value) for value in values))
    lacking = [value for value in used if value not in known]
    unused = known - set(used)
    return [
        _finding("no-row", lacking, f"values of the column without a row, of {len(used):,}"),
        None
        if not unused
        else HierarchyFinding("unused", len(unused), f"rows of values that do not occur ({len(unused):,})"),
    ]
