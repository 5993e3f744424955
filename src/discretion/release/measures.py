"""Which measures a report shows when nobody chose: a sensible set from roles and types."""

from __future__ import annotations

from discretion.data.dataset import Dataset
from discretion.measure import Measure
from discretion.part import find
from discretion.risk.identity.distance_columns import comparable


def default_measures(original: Dataset, released: Dataset) -> list[Measure]:
    """Choose measures that the data allows, and nothing that would fail."""
    chosen: list[tuple[str, dict[str, object]]] = []
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
