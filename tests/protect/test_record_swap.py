from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.kernels.swap import multiset_ids, swap_places

PLACES = ["region", "municipality"]


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.datasets.census(6000, seed=1)


@settings(max_examples=150, deadline=None)
@given(
    units=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
    seed=st.integers(0, 999),
)
def test_kernel_finds_allowed_partners_and_nobody_is_left_who_could_have_one(
    units: list[tuple[int, int, bool]], seed: int
) -> None:
    kinds, areas, free = (np.array(part) for part in zip(*units, strict=True))
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(units))[: rng.integers(0, len(units) + 1)]
    partner = swap_places(kinds, areas, chosen, rng.random(len(chosen)), free)
    pairs = np.flatnonzero(partner >= 0)
    assert (partner[partner[pairs]] == pairs).all()
    assert free[pairs].all()
    assert (kinds[pairs] == kinds[partner[pairs]]).all() and (areas[pairs] != areas[partner[pairs]]).all()
    left = free & (partner < 0)
    for unit in chosen[left[chosen]]:
        assert not (left & (kinds == kinds[unit]) & (areas != areas[unit])).any()
    asked = np.zeros(len(units), dtype=bool)
    asked[chosen] = True
    assert (asked[pairs] | asked[partner[pairs]]).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=40))
def test_multiset_ids_against_sorted_tuples(members: list[tuple[int, int]]) -> None:
    raw = np.array([unit for unit, _ in members])
    units = np.unique(raw, return_inverse=True)[1]
    codes = np.array([code for _, code in members])
    ids = multiset_ids(units, codes)
    keys = [tuple(sorted(codes[units == unit])) for unit in range(len(ids))]
    for a in range(len(ids)):
        for b in range(len(ids)):
            assert (ids[a] == ids[b]) == (keys[a] == keys[b])


def test_kernel_with_nothing_to_do() -> None:
    nothing = np.empty(0, np.int64)
    assert len(swap_places(nothing, nothing, nothing, [], nothing.astype(bool))) == 0
    assert len(multiset_ids(nothing, nothing)) == 0
    with pytest.raises(ValueError, match="uniform numbers"):
        swap_places(np.zeros(2, np.int64), np.arange(2), [0], [], np.ones(2, bool))


def risky(data: dc.Dataset, columns: list[str], k: int) -> np.ndarray:  # type: ignore[type-arg]
    """Tell which households have a record in a class of fewer than k, by a group-by."""
    sizes = data.frame.select("household", pl.len().over(columns).alias("size"))
    return sizes.group_by("household", maintain_order=True).min()["size"].to_numpy() < k


def test_every_household_at_risk_moves_across_its_level(people: dc.Dataset) -> None:
    method = dc.TargetedRecordSwap(risk_columns=["education", "marital_status"], k=4, similar=["sex"])
    ctx = dc.Context(3, "1")
    decision = method.decide(people, ctx)
    swapped = method.perform(people, decision, ctx).frame.unique("household", maintain_order=True)
    before = people.frame.unique("household", maintain_order=True)
    moved = {place: (swapped[place] != before[place]).to_numpy() for place in PLACES}
    at_region = risky(people, ["region", "education", "marital_status"], 4)
    at_town = risky(people, ["region", "municipality", "education", "marital_status"], 4)
    assert decision["risky"] == {"region": at_region.sum(), "municipality": at_town.sum()}
    assert (at_region & ~moved["region"]).sum() == decision["unmatched"]["region"]
    assert (at_town & ~moved["municipality"]).sum() == decision["unmatched"]["municipality"]
    assert decision["unmatched"]["region"] < 0.02 * at_region.sum()
    assert decision["at_random"] == 0


def test_partners_of_the_fine_level_stay_in_the_coarse_area_if_they_can(people: dc.Dataset) -> None:
    method = dc.TargetedRecordSwap(risk_columns=["sex"], k=2, share=0.3)
    swapped = method(people, seed=3).frame
    changed = swapped.filter(swapped["municipality"] != people.frame["municipality"])
    stay = changed["region"] == people.frame.filter(swapped["municipality"] != people.frame["municipality"])["region"]
    assert stay.mean() > 0.9  # type: ignore[operator]


def test_counts_by_place_and_matched_columns_are_exact(people: dc.Dataset) -> None:
    method = dc.TargetedRecordSwap(risk_columns=["education"], k=3, match_on=["sex"], similar=["age"], share=0.2)
    swapped = method(people, seed=3)
    for place in PLACES:
        by = [place, "sex"]
        assert swapped.frame.group_by(by).len().sort(by).equals(people.frame.group_by(by).len().sort(by))
    assert swapped.frame.drop(PLACES).equals(people.frame.drop(PLACES))
    assert swapped.frame.group_by("household").n_unique()["municipality"].max() == 1


def test_share_is_reached_or_the_shortage_reported(people: dc.Dataset) -> None:
    homes = people.frame["household"].n_unique()
    decision = dc.TargetedRecordSwap(risk_columns=["sex"], k=2, share=0.25).decide(people, dc.Context(3, "1"))
    assert decision["short_of_share"] == 0
    assert 0.25 * homes <= decision["swapped"] <= 0.25 * homes + 2
    one, other = decision["pairs"]
    assert len({*one, *other}) == decision["swapped"]
    rare = dc.TargetedRecordSwap(risk_columns=["sex"], k=2, match_on=["age"], share=1).decide(
        people, dc.Context(3, "1")
    )
    assert rare["short_of_share"] == homes - rare["swapped"] > 0


def test_similar_columns_are_given_up_from_the_last(people: dc.Dataset) -> None:
    def agreeing(similar: list[str]) -> float:
        method = dc.TargetedRecordSwap(risk_columns=["education"], k=3, similar=similar)
        decision = method.decide(people, dc.Context(3, "1"))
        assert decision["unmatched"]["region"] == 0
        ages = people.frame.group_by("household", maintain_order=True).agg(pl.col("sex").sort())["sex"]
        one, other = decision["pairs"]
        same = [ages[a].equals(ages[b]) for a, b in zip(one, other, strict=True)]
        return float(np.mean(same))

    assert agreeing([]) < agreeing(["sex", "birth_date"]) > 0.9


def test_carried_columns_move_with_the_place(people: dc.Dataset) -> None:
    method = dc.TargetedRecordSwap(risk_columns=["education"], k=3, carry_along=["weight"])
    swapped = method(people, seed=3).frame
    key = [*PLACES, "weight"]
    homes = [data.unique("household").select(key).sort(key) for data in (swapped, people.frame)]
    assert homes[0].equals(homes[1])
    assert not swapped["weight"].equals(people.frame["weight"])
    with pytest.raises(dc.DataError, match=r"'age' is not constant within \d+ households"):
        dc.TargetedRecordSwap(risk_columns=["education"], k=3, carry_along=["age"])(people)


def test_missing_places_stay(people: dc.Dataset) -> None:
    lost = people.frame.with_columns(
        pl.when(pl.col("household") % 5 > 0).then(pl.col("municipality")).alias("municipality")
    )
    data = dc.Dataset(lost, schema=people.schema)
    swapped = dc.TargetedRecordSwap(risk_columns=["sex"], k=3, share=0.9)(data, seed=1)
    assert swapped.frame["municipality"].is_null().equals(lost["municipality"].is_null())


def test_bad_input_is_refused_in_words(people: dc.Dataset) -> None:
    with pytest.raises(dc.PlanError, match="k: "):
        dc.TargetedRecordSwap(k=1)
    with pytest.raises(dc.PlanError, match="'region' is exchanged and cannot be matched on"):
        dc.TargetedRecordSwap(k=3, geography=["region"], similar=["region"])
    with pytest.raises(dc.PlanError, match="stands twice"):
        dc.TargetedRecordSwap(k=3, geography=["region"], carry_along=["region"])
    with pytest.raises(dc.PlanError, match="'region' is geography"):
        dc.TargetedRecordSwap(k=3, risk_columns=["region"])(people)
    with pytest.raises(dc.PlanError, match="give `geography`"):
        dc.TargetedRecordSwap(k=3)(people.frame)
    with pytest.raises(dc.PlanError, match="give `risk_columns`"):
        dc.TargetedRecordSwap(k=3, geography=["region"])(people.frame)
    with pytest.raises(dc.DataError, match="unknown column 'sexx'"):
        dc.TargetedRecordSwap(k=3, match_on=["sexx"])(people)


def test_strengths_are_confidential() -> None:
    method = dc.TargetedRecordSwap(k=731, share=0.0731, similar=["sex"])
    assert method.settings(public=True) == {"similar": ["sex"]}
