"""Which measures a report shows when nobody chose: a sensible set from roles and types."""

from __future__ import annotations

from discretion.data.dataset import Dataset
from discretion.learning.columns import comparable
from discretion.measure import Measure
from discretion.part import find


def default_measures(original: Dataset, released: Dataset) -> list[Measure]:
    """Choose measures that the data allows, and nothing that would fail."""
    chosen: list[tuple[str, dict[str, object]]] = []
    if released.has_new_rows:
        return _for_synthetic(original, released)
    quasi = [name for name in original.having("quasi") if name in released.columns]
    if quasi:
        chosen.append(("sample-uniqueness", {"columns": quasi}))
    numeric = _numeric_in_both(original, released)
    if linked := comparable(original, released, quasi):
        chosen.append(("distance-linkage", {"columns": linked}))
    attacked = [name for name in numeric if name in original.having("quasi", "sensitive")]
    if attacked:
        chosen += [("interval-risk", {"columns": attacked}), ("rank-interval", {"columns": attacked})]
    generalized = [name for name, column in original.schema.columns.items() if column.hierarchy]
    generalized = [name for name in generalized if name in released.columns and released.stands_in_hierarchy(name)]
    if generalized:
        chosen.append(("precision", {"columns": generalized}))
    if numeric:
        chosen += [("il1s", {"columns": numeric}), ("mre", {"columns": numeric})]
    if len(numeric) > 1:
        chosen.append(("mae", {"columns": numeric, "on": "correlation"}))
    built = [find(kind)(**fields) for kind, fields in chosen]
    return [measure for measure in built if isinstance(measure, Measure)]


_MOST_TREES = 100_000


def _for_synthetic(original: Dataset, released: Dataset) -> list[Measure]:
    """Choose measures for rows that belong to nobody: distributions, tables of two and three columns, models."""
    both = [name for name in original.choose((), "compare") if name in released.columns]
    both = [name for name in both if original.type_of(name) != "set" and _varies(original, name)]
    chosen: list[tuple[str, dict[str, object]]] = [("marginals", {"columns": both})] if both else []
    chosen += [("contingency", {"columns": both, "ways": ways}) for ways in (2, 3) if len(both) >= ways]
    if both and len(original) <= _MOST_TREES:
        chosen.append(("propensity", {"columns": both}))
    numeric = [name for name in _numeric_in_both(original, released) if name in both]
    if numeric:
        chosen.append(("interval-overlap", {"columns": numeric}))
    targets = [name for name in original.having("sensitive") if name in both and not original.is_quantity(name)]
    features = [name for name in both if name not in targets[:1]]
    if targets and features and len(original) <= _MOST_TREES:
        chosen.append(("classification-utility", {"target": targets[0], "features": features}))
    built = [find(kind)(**fields) for kind, fields in chosen]
    return [measure for measure in built if isinstance(measure, Measure)]


def _varies(data: Dataset, name: str) -> bool:
    return data.codes(name).size > 1 + (data.codes(name).missing >= 0)


def _numeric_in_both(original: Dataset, released: Dataset) -> list[str]:
    """Name the numeric columns that vary and can be compared, without identifiers, weights and household ids."""
    excluded = original.having("identifier", "weight", "household", "unit")
    return [
        name
        for name in original.columns
        if name not in excluded
        and name in released.columns
        and original.is_quantity(name)
        and not original.is_category(name)
        and released.is_numeric(name)
        and original.codes(name).size > 1 + (original.codes(name).missing >= 0)
    ]
