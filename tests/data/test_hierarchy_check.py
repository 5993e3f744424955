"""Every fault of a hierarchy file at once: against a naive reference."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.data.hierarchy import TableHierarchy, check_hierarchy
from discretion.errors import PlanError

_ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.sampled_from("abcx*"), min_size=width, max_size=width), min_size=1, max_size=5)
)


def naive(rows: list[list[str]]) -> dict[str, set[str]]:
    """Find the labels at fault, pair of rows by pair of rows."""
    width, found = len(rows[0]), {"twice": set[str](), "not-nested": set[str](), "two-levels": set[str]()}
    pairs = [(one, other) for i, one in enumerate(rows) for other in rows[i + 1 :]]
    for one, other in pairs:
        if one[0] == other[0]:
            found["twice"].add(one[0])
        for level in range(1, width - 1):
            if one[level] == other[level] and one[level + 1] != other[level + 1]:
                found["not-nested"].add(one[level])
    for low, high in product(range(width), repeat=2):
        for label in {row[low] for row in rows} & {row[high] for row in rows}:
            if any((row[low] == label) != (row[high] == label) for row in rows):
                found["two-levels"].add(label)
    return {kind: labels for kind, labels in found.items() if labels}


@given(_ROWS)
@settings(deadline=None)
def test_the_labels_at_fault_are_those_of_the_definition(rows: list[list[str]]) -> None:
    found: dict[str, set[str]] = {}
    for finding in check_hierarchy(rows).faults:
        assert finding.count == len(finding.examples)
        found.setdefault(finding.kind, set()).update(finding.examples)
    assert found == naive(rows)
    try:
        TableHierarchy.from_rows(rows)
        taken = True
    except PlanError:
        taken = False
    assert taken == (not set(found) & {"twice", "not-nested"})


def test_values_without_a_row_and_rows_without_values() -> None:
    checked = check_hierarchy([["1", "low"], ["2", "low"], ["7", "high"]], [1.0, 2, 2, 3, 9])
    assert {f.kind: f.count for f in checked.findings} == {"many-tops": 2, "no-row": 2, "unused": 1}
    assert [f.kind for f in checked.faults] == ["no-row"] and "'3', '9'" in checked.faults[0].text


def test_rows_of_different_length_and_labels_that_are_repeated() -> None:
    ragged = check_hierarchy([["a", "x", "*"], ["b"], ["c", "x"]], ["a"])
    assert [(f.kind, f.examples) for f in ragged.findings] == [("ragged", ("2", "3"))] and not ragged.table
    repeated = check_hierarchy([["a", "x", "*"], ["b", "b", "*"], ["c", "x", "*"]])
    assert [(f.kind, f.examples) for f in repeated.findings] == [("repeated", ("b",))] and not repeated.faults


def test_many_are_counted_and_ten_are_named() -> None:
    checked = check_hierarchy([["a", "*"]], [f"v{i:02}" for i in range(30)])
    (finding,) = checked.faults
    assert finding.count == 30 and len(finding.examples) == 10 and finding.text.endswith("'v09' …")
