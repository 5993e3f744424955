"""k^m-anonymity of set-valued columns by generalization of items, checked by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

TREE = {
    "*": {"infection": ["flu", "cold", "cough"], "injury": ["burn", "cut"], "heart": ["attack", "failure", "murmur"]}
}
PARENT = {item: label for label, items in TREE["*"].items() for item in items}
ITEMS = sorted(PARENT)
FOREST = {"groups": {"levels": [TREE["*"]], "top": False}}


def sets(seed: int, rows: int, most: int = 4, missing: bool = False) -> list[list[str] | None]:
    rng = np.random.default_rng(seed)
    weights = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])
    made: list[list[str] | None] = [
        rng.choice(ITEMS, rng.integers(0, most + 1), replace=False, p=weights).tolist() for _ in range(rows)
    ]
    return [None if missing and i % 9 == 4 else items for i, items in enumerate(made)]


def rarest(column: list[list[str] | None], m: int) -> int:
    """Count every combination of at most m items; give the least support."""
    support: Counter[tuple[str, ...]] = Counter()
    for items in column:
        for size in range(1, m + 1):
            support.update(combinations(sorted(set(items or ())), size))
    return min(support.values(), default=10**9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 5000),
    rows=st.integers(20, 150),
    k=st.integers(1, 6),
    m=st.integers(1, 3),
    limit=st.sampled_from([0.0, 0.2]),
    missing=st.booleans(),
)
def test_every_combination_is_frequent_and_every_label_is_true(
    seed: int, rows: int, k: int, m: int, limit: float, missing: bool
) -> None:
    before = sets(seed, rows, missing=missing)
    data = dc.Dataset(pl.DataFrame({"ills": before}, schema={"ills": pl.List(pl.String)}))
    method = dc.KmGeneralization(columns=["ills"], k=k, m=m, item_hierarchy={"tree": TREE}, suppression_limit=limit)
    found = method.solve(data)
    released = method(data)
    after = released.frame["ills"].to_list()
    assert rarest(after, m) >= k
    assert dc.KmAnonymity(k=k, m=m, columns=["ills"])(released).holds
    for old, new, hidden in zip(before, after, released.suppressed("ills"), strict=True):
        wanted = {found.labels[item] for item in old or ()} - {None}
        assert hidden == (bool(old) and not wanted)
        assert (new is None) == (old is None or hidden)
        assert sorted(new or []) == sorted(wanted)
    for item, label in found.labels.items():
        assert label in (None, item, PARENT[item], "*")
    total = sum(len(items or ()) for items in before)
    assert found.suppressed <= limit * total


def test_nothing_is_changed_where_all_is_well_and_the_loss_is_told() -> None:
    data = dc.Dataset(pl.DataFrame({"ills": [["flu", "cut"], ["cut", "flu"], ["flu"], []]}))
    method = dc.KmGeneralization(columns=["ills"], k=2, item_hierarchy={"tree": TREE})
    assert method.solve(data).loss == 0
    assert method(data).frame["ills"].to_list() == [["cut", "flu"], ["cut", "flu"], ["flu"], []]


def test_worked_example_by_hand() -> None:
    """{burn} and {cut} stand in one record each: injury costs 2 × 1/7, and then everything stands in two."""
    data = dc.Dataset(pl.DataFrame({"ills": ["flu|burn", "flu|cut", "flu", None, ""]}))
    method = dc.KmGeneralization(columns=["ills"], k=2, m=2, item_hierarchy={"tree": TREE})
    found = method.solve(data)
    assert method(data).frame["ills"].to_list() == ["flu|injury", "flu|injury", "flu", None, ""]
    assert found.levels == {"burn": 1, "cut": 1, "flu": 0}
    assert found.loss == pytest.approx(2 * (1 / 7) / 5)


def test_items_that_have_no_label_in_common_are_suppressed_or_it_is_infeasible() -> None:
    column = [["flu"], ["flu"], ["flu"], ["cold", "flu"], ["cut"]]
    data = dc.Dataset(pl.DataFrame({"ills": column}))
    with pytest.raises(dc.Infeasible, match="suppression limit"):
        dc.KmGeneralization(columns=["ills"], k=2, item_hierarchy=FOREST)(data)
    released = dc.KmGeneralization(columns=["ills"], k=2, item_hierarchy=FOREST, suppression_limit=0.4)(data)
    assert rarest(released.frame["ills"].to_list(), 2) >= 2
    assert released.frame["ills"][4] is None and released.suppressed_cells == {"ills": 1}


def test_rare_items_are_dropped_where_that_loses_less() -> None:
    column = [["flu"]] * 50 + [["cold"]] * 50 + [["cough"]]
    data = dc.Dataset(pl.DataFrame({"ills": column}))
    assert dc.KmGeneralization(columns=["ills"], k=5, item_hierarchy={"tree": TREE})(data).frame["ills"][
        0
    ].to_list() == ["infection"]
    dropped = dc.KmGeneralization(columns=["ills"], k=5, item_hierarchy={"tree": TREE}, suppression_limit=0.01)
    assert dropped(data).frame["ills"].to_list() == [*column[:-1], None]
    assert dropped.solve(data).suppressed == 1


def test_diagnoses_of_the_census() -> None:
    people = dc.datasets.census(3000, seed=1)
    items = sorted({item for items in people.frame["diagnoses"].to_list() for item in items})
    rows = [[item, item[0], "A to F" if item < "G" else "G to Z", "*"] for item in items]
    method = dc.KmGeneralization(k=5, m=2, item_hierarchy=rows)
    released = method(people)
    assert rarest(released.frame["diagnoses"].to_list(), 2) >= 5
    assert 0 < method.solve(people).loss < 1
    order = np.random.default_rng(1).permutation(3000)
    shuffled = dc.Dataset(people.frame[order], schema=people.schema)
    assert method(shuffled).frame["diagnoses"].to_list() == released.frame["diagnoses"][order].to_list()


def test_the_hierarchy_may_stand_in_the_schema_and_the_decision_serves_new_data() -> None:
    def data(column: list[list[str]]) -> dc.Dataset:
        return dc.Dataset(
            pl.DataFrame({"ills": column}), roles={"ills": "sensitive"}, hierarchies={"ills": {"tree": TREE}}
        )

    method = dc.KmGeneralization(k=2, m=1)
    ctx = dc.Context(0, "step")
    decision = method.fit(data([["burn"], ["cut"]]), ctx)
    assert method.rewrite(data([["cut"], ["cut", "burn"]]), decision, ctx).frame["ills"].to_list() == [["injury"]] * 2
    with pytest.raises(dc.DataError, match="no label for 1 items"):
        method.rewrite(data([["flu"]]), decision, ctx)


def test_what_cannot_be() -> None:
    data = dc.Dataset(pl.DataFrame({"ills": [["flu"], ["gout"]], "x": [1, 2]}))
    with pytest.raises(dc.DataError, match="'gout'"):
        dc.KmGeneralization(columns=["ills"], k=1, item_hierarchy={"tree": TREE})(data)
    with pytest.raises(dc.PlanError, match="need a hierarchy"):
        dc.KmGeneralization(columns=["ills"], k=1)(data)
    with pytest.raises(dc.PlanError, match="one set-valued column"):
        dc.KmGeneralization(columns=["ills", "x"], k=1, item_hierarchy={"tree": TREE})(data)
    with pytest.raises(dc.DataError, match="larger than the 2 records"):
        dc.KmGeneralization(columns=["ills"], k=3, item_hierarchy={"tree": TREE})(data)
    with pytest.raises(dc.PlanError, match="hierarchy"):
        dc.KmGeneralization(columns=["ills"], k=3, item_hierarchy={"nonsense": 1})
