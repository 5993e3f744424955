"""Hiding rules: the fewest changes by enumeration, the guarantee, replaced values, what is not touched."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import Context
from discretion.errors import DataError, Infeasible, PlanError
from discretion.part import find
from discretion.protect import hide_rules

SETS = st.lists(st.sets(st.sampled_from("abcd"), max_size=4), min_size=3, max_size=6)


RULE = {"rules": ["region=north -> ill=flu"], "min_support": 0.1, "min_confidence": 0.5, "columns": ["region", "ill"]}


def found(sets: list[set[str]], rule: str, support: float, confidence: float) -> bool:
    """Tell by the definition whether a miner finds a rule."""
    left, arrow, right = rule.partition("->")
    given_items = {item.strip() for item in left.split("|")} if arrow else set()
    items = given_items | {item.strip() for item in (right if arrow else left).split("|")}
    both = sum(items <= one for one in sets)
    having = sum(given_items <= one for one in sets)
    frequent = both > 0 and both >= support * len(sets) - 1e-9
    return frequent and (not arrow or both >= confidence * having - 1e-9)


def fewest(sets: list[set[str]], rules: list[str], support: float, confidence: float) -> int:
    """Try every way to take items out, fewest first."""
    cells = [(row, item) for row, one in enumerate(sets) for item in sorted(one)]
    for size in range(len(cells) + 1):
        for gone in combinations(cells, size):
            left = [one - {item for where, item in gone if where == row} for row, one in enumerate(sets)]
            if not any(found(left, rule, support, confidence) for rule in rules):
                return size
    raise AssertionError("taking out everything hides every rule")


def columns(sets: list[set[str]]) -> pl.DataFrame:
    return pl.DataFrame({"items": [sorted(one) for one in sets]}, schema={"items": pl.List(pl.String)})


@given(SETS, st.sampled_from([["a -> b"], ["a|b -> c", "b -> a"], ["a|b"], ["a -> b", "a -> c", "d"]]))
@settings(max_examples=40)
def test_the_fewest_items_are_taken_out(sets: list[set[str]], rules: list[str]) -> None:
    occurring = set().union(*sets)
    if not all(set(rule.replace("->", "|").replace(" ", "").split("|")) <= occurring for rule in rules):
        return
    for support, confidence in ((0.3, 0.5), (0.0, 0.7), (0.5, 0.0)):
        method = dc.HideRules(rules=rules, min_support=support, min_confidence=confidence, columns=["items"], margin=0)
        released = [set(one) for one in method(columns(sets), seed=1)["items"].to_list()]
        assert not any(found(released, rule, support, confidence) for rule in rules)
        assert all(after <= before for after, before in zip(released, sets, strict=True))
        taken = sum(len(before - after) for after, before in zip(released, sets, strict=True))
        assert taken == fewest(sets, rules, support, confidence)


def census(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    region = rng.choice(["north", "south", "east"], rows)
    ill = np.where((region == "north") & (rng.random(rows) < 0.7), "flu", rng.choice(["none", "cold", "flu"], rows))
    return pl.DataFrame({"region": region, "ill": ill, "income": rng.normal(size=rows)})


def test_values_of_categories_are_replaced_by_values_no_rule_names() -> None:
    frame = census()
    assert not dc.ResultPrivacy(**RULE)(frame).holds
    released = dc.HideRules(**RULE, margin=0)(frame, seed=3)
    assert dc.ResultPrivacy(**RULE)(released, original=frame).holds
    changed = (released["ill"] != frame["ill"]) | (released["region"] != frame["region"])
    north = frame.filter(pl.col("region") == "north")
    both, given_count = north.filter(pl.col("ill") == "flu").height, north.height
    assert changed.sum() == both - (int(np.ceil(0.5 * given_count)) - 1)  # the consequent goes, what is given stays
    assert released["ill"].null_count() == 0  # an empty cell would show where a rule was hidden
    assert set(released.filter(changed)["ill"]) <= {"none", "cold"}
    assert released["income"].equals(frame["income"])


def test_missing_cells_count_as_what_keeps_a_rule_strong() -> None:
    frame = pl.DataFrame({"region": ["n"] * 6 + ["s"] * 4, "ill": ["flu", "flu", None, None, "no", "no", *["no"] * 4]})
    strict = {"rules": ["region=n -> ill=flu"], "min_support": 0.1, "min_confidence": 0.6}
    assert not dc.ResultPrivacy(**strict)(frame).holds  # 4 of 6, if the two missing cells held flu
    assert dc.ResultPrivacy(**strict, missing="category")(frame).holds  # 2 of 6
    released = dc.HideRules(**strict)(frame, seed=1)
    assert dc.ResultPrivacy(**strict)(released, original=frame).holds
    assert released["ill"].null_count() == 2
    alone = pl.DataFrame({"region": ["n", "n", None, None], "ill": ["flu", "no", None, None]})
    with pytest.raises(Infeasible, match="missing cells alone"):
        dc.HideRules(**{**strict, "min_support": 0.5, "min_confidence": 0.1})(alone, seed=1)


def test_greedy_hides_too_and_needs_no_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = census()
    rules = ["region=north -> ill=flu", "region=south -> ill=cold", "ill=flu -> region=north"]
    fields = {"rules": rules, "min_support": 0.05, "min_confidence": 0.3, "columns": ["region", "ill"]}

    def decision() -> dict[str, object]:
        return dc.HideRules(**fields, margin=0).run(dc.Dataset(frame), Context(2, "hide")).decision.to_plan()

    best = decision()
    monkeypatch.setattr(hide_rules, "MOST_OPTIONS", 0)
    quick = decision()
    assert best["proven"] and not quick["proven"]
    assert best["changed_items"] <= quick["changed_items"]
    for one in (best, quick):
        for after in one["hidden"].values():  # type: ignore[attr-defined]
            assert after["support"][1] < 0.05 or after["confidence"][1] < 0.3


def test_side_effects_are_counted_as_the_definition_says() -> None:
    sets = [{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b"}, {"c"}, {"b", "c"}]
    method = dc.HideRules(rules=["a -> b"], min_support=0.4, min_confidence=0.8, columns=["items"], max_items=3)
    ran = method.run(dc.Dataset(columns(sets)), Context(4, "hide"))
    released = [set(one) for one in ran.data.frame["items"].to_list()]

    def rules_of(baskets: list[set[str]]) -> set[str]:
        texts = set()
        for size in (2, 3):
            for members in combinations("abc", size):
                for sides in product((0, 1), repeat=size):
                    left = [item for item, side in zip(members, sides, strict=True) if side == 0]
                    right = [item for item, side in zip(members, sides, strict=True) if side == 1]
                    if left and right and found(baskets, f"{'|'.join(left)} -> {'|'.join(right)}", 0.4, 0.8):
                        texts.add(f"{'|'.join(left)} -> {'|'.join(right)}")
        return texts

    before, after = rules_of(sets), rules_of(released)
    told = ran.decision.to_plan()
    assert told["lost_rules"] == len(before - after - {"a -> b"})
    assert told["ghost_rules"] == len(after - before)


def test_what_cannot_be_hidden_is_said() -> None:
    frame = pl.DataFrame({"sex": ["m", "f"] * 5, "ill": ["yes", "no"] * 5})
    with pytest.raises(DataError, match="no record has the item 'sex=n'"):
        dc.HideRules(rules=["sex=n -> ill=yes"], min_support=0.1)(frame, seed=1)
    with pytest.raises(PlanError, match="both sides"):
        dc.HideRules(rules=["a -> a"], min_support=0.1)
    with pytest.raises(Infeasible, match="every value of"):
        dc.HideRules(rules=["sex=m -> ill=yes", "sex=f -> ill=no"], min_support=0.1, min_confidence=0.5)(frame, seed=1)


def test_untouched_sets_keep_their_letters() -> None:
    frame = pl.DataFrame({"ills": ["flu | cough", "flu|cough", "cough |flu", "flu", " asthma"]})
    method = dc.HideRules(rules=["flu -> cough"], min_support=0.2, min_confidence=0.7, margin=0)
    released = method(frame, seed=1)["ills"].to_list()
    assert sum(one != other for one, other in zip(released, frame["ills"].to_list(), strict=True)) == 1
    assert find("hide-rules").by_group


def test_the_threshold_cannot_be_read_off_the_file() -> None:
    """With the fewest changes the rule ends one record below the threshold; the margin spreads where it ends."""
    frame = census()

    def short_by_one(margin: float) -> int:
        count = 0
        for seed in range(12):
            released = dc.HideRules(**RULE, margin=margin)(frame, seed=seed)
            north = released.filter(pl.col("region") == "north")
            flu = north.filter(pl.col("ill") == "flu").height
            assert flu < 0.5 * north.height
            count += flu + 1 >= 0.5 * north.height
        return count

    assert short_by_one(0.0) == 12
    assert short_by_one(0.3) <= 2


def test_a_replaced_value_fits_its_record() -> None:
    rng = np.random.default_rng(1)
    sex = rng.choice(["m", "f"], 600)
    ill = np.where(sex == "m", rng.choice(["prostate", "gout", "flu"], 600), rng.choice(["birth", "gout", "flu"], 600))
    frame = pl.DataFrame({"sex": sex, "ill": ill})
    hide = dc.HideRules(rules=["sex=m -> ill=prostate"], min_support=0.01, min_confidence=0.1)
    released = hide(frame, seed=1)
    assert (released["ill"] != frame["ill"]).sum() > 20
    assert released.filter((pl.col("sex") == "m") & (pl.col("ill") == "birth")).height == 0
