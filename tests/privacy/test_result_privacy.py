"""Result privacy: rules counted by the definition under three readings of missing cells; mining against enumeration."""

from __future__ import annotations

from itertools import combinations, product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import ignore_progress
from discretion.errors import DataError, PlanError
from discretion.learning.associations import AssociationRule, RuleThresholds, items_of, mine

CELLS = st.lists(
    st.tuples(st.sampled_from(["n", "s", None]), st.sampled_from(["yes", "no", None])), min_size=2, max_size=6
)


@given(CELLS)
@settings(max_examples=60)
def test_wildcards_are_filled_so_that_the_rule_is_strongest(cells: list[tuple[str | None, str | None]]) -> None:
    frame = pl.DataFrame(
        {"region": [a for a, _ in cells], "ill": [b for _, b in cells]}, schema={"region": pl.String, "ill": pl.String}
    )
    items = items_of(dc.Dataset(frame), ["region", "ill"], "test")
    counted = items.strength(AssociationRule.parse("region=n -> ill=yes"), "wildcard")
    best = (0.0, 0)
    for filling in product(*([(a or x, b or y) for x in "ns" for y in ("yes", "no")] for a, b in cells)):
        having = sum(a == "n" for a, _ in filling)
        both = sum(pair == ("n", "yes") for pair in filling)
        best = max(best, (both / having if having else 0.0, both))
    assert counted.confidence == best[0]
    assert counted.both == best[1]


@given(st.lists(st.sets(st.sampled_from("abcde"), max_size=5), min_size=1, max_size=12))
@settings(max_examples=60)
def test_mining_finds_what_enumeration_finds(sets: list[set[str]]) -> None:
    frame = pl.DataFrame({"x": [sorted(one) for one in sets]}, schema={"x": pl.List(pl.String)})
    found = mine(items_of(dc.Dataset(frame), ["x"], "test"), RuleThresholds(0.25, 0.6), 3, ignore_progress)
    expected = set()
    for size in (2, 3):
        for members in combinations("abcde", size):
            both = sum(set(members) <= one for one in sets)
            for number in range(1, size):
                for left in combinations(members, number):
                    having = sum(set(left) <= one for one in sets)
                    if both >= max(1, 0.25 * len(sets) - 1e-9) and both >= 0.6 * having - 1e-9:
                        expected.add(AssociationRule(left, tuple(item for item in members if item not in left)))
    assert set(found) == expected


def test_the_worked_example_can_be_counted_by_hand() -> None:
    """Eight patients; flu and cough 3, flu 5, so the rule flu -> cough has support 3/8 and confidence 3/5."""
    ills = ["flu|cough", "flu|cough", "flu|cough|asthma", "flu", "flu|asthma", "cough", "asthma", ""]
    frame = pl.DataFrame({"ills": ills})

    def judge(support: float, confidence: float) -> bool:
        return dc.ResultPrivacy(rules=["flu -> cough"], min_support=support, min_confidence=confidence)(frame).holds

    told = dc.ResultPrivacy(rules=["flu -> cough"], min_support=0.1)(frame).detail["rules"]["flu -> cough"]["category"]
    assert told == {"support": 3 / 8, "confidence": 3 / 5}
    assert not judge(3 / 8, 3 / 5)  # reaching both thresholds is being found
    assert judge(3 / 8 + 0.01, 3 / 5)
    assert judge(3 / 8, 3 / 5 + 0.01)
    assert not dc.ResultPrivacy(rules=["cough|flu"], min_support=3 / 8)(frame).holds  # a frequent set


def test_a_misspelled_rule_is_not_hidden_by_its_spelling() -> None:
    frame = pl.DataFrame({"ills": ["flu|cough", "flu"]})
    with pytest.raises(DataError, match="no record has the item 'flue'"):
        dc.ResultPrivacy(rules=["flue -> cough"], min_support=0.1)(frame)
    gone = pl.DataFrame({"ills": ["flu", "flu"]})
    assert dc.ResultPrivacy(rules=["flu -> cough"], min_support=0.1, columns=["ills"])(gone, original=frame).holds
    with pytest.raises(PlanError, match="both sides of the arrow"):
        dc.ResultPrivacy(rules=["-> cough"], min_support=0.1)
    with pytest.raises(PlanError, match="write column=value"):
        dc.ResultPrivacy(rules=["north"], min_support=0.1)(pl.DataFrame({"region": ["north"], "sex": ["m"]}))
