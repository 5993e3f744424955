from __future__ import annotations

import polars as pl
import pytest

import discretion as dc

PLACES = ["region", "municipality"]


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.datasets.census(6000, seed=1)


def counts(data: dc.Dataset, *columns: str) -> pl.DataFrame:
    return data.frame.group_by(columns).len().sort(columns)


def test_counts_by_place_and_matched_columns_are_exact(people: dc.Dataset) -> None:
    edited = dc.ConfidentialityEdit(match_on=["sex", "marital_status"], share=0.2)(people, seed=3)
    for place in PLACES:
        assert counts(edited, place, "sex", "marital_status").equals(counts(people, place, "sex", "marital_status"))
    assert not counts(edited, "region", "education").equals(counts(people, "region", "education"))


def test_everything_but_the_place_is_intact(people: dc.Dataset) -> None:
    edited = dc.ConfidentialityEdit(match_on=["sex"], share=0.2)(people, seed=3)
    assert edited.frame.drop(PLACES).equals(people.frame.drop(PLACES))
    assert counts(edited, *PLACES).equals(counts(people, *PLACES))
    homes = edited.frame.group_by("household").n_unique()
    assert homes["region"].max() == homes["municipality"].max() == 1


def test_pairs_exchange_places_and_lie_in_different_regions(people: dc.Dataset) -> None:
    method = dc.ConfidentialityEdit(match_on=["sex"], share=0.2)
    ctx = dc.Context(3, "1")
    decision = method.decide(people, ctx)
    edited = method.perform(people, decision, ctx).frame.unique("household", maintain_order=True)
    before = people.frame.unique("household", maintain_order=True)
    one, other = decision["pairs"]
    assert len({*one, *other}) == 2 * len(one) == decision["swapped"]
    for place in PLACES:
        assert edited[place][one].equals(before[place][other]) and edited[place][other].equals(before[place][one])
    assert (before["region"][one] != before["region"][other]).all()
    moved = (edited["region"] != before["region"]).sum()
    assert moved == decision["swapped"]


def test_partners_are_alike(people: dc.Dataset) -> None:
    decision = dc.ConfidentialityEdit(match_on=["sex", "age"], share=0.5).decide(people, dc.Context(3, "1"))
    members = people.frame.sort("sex", "age").group_by("household", maintain_order=True).agg("sex", "age")
    profile = dict(zip(members["household"], zip(members["sex"], members["age"], strict=True), strict=True))
    numbers = people.frame["household"].unique(maintain_order=True)
    one, other = decision["pairs"]
    assert len(one) > 50 and decision["unmatched"] > 0
    assert decision["drawn"] <= decision["swapped"] + decision["unmatched"]
    for a, b in zip(numbers[one], numbers[other], strict=True):
        assert [list(part) for part in profile[a]] == [list(part) for part in profile[b]]


def test_places_inside_a_region_when_it_is_matched(people: dc.Dataset) -> None:
    edited = dc.ConfidentialityEdit(geography=["municipality"], match_on=["region"], share=0.3)(people, seed=3)
    assert edited.frame["region"].equals(people.frame["region"])
    assert counts(edited, *PLACES).equals(counts(people, *PLACES))
    assert (edited.frame["municipality"] != people.frame["municipality"]).sum() > 1000  # type: ignore[operator]


def test_without_households_every_record_stands_for_itself(people: dc.Dataset) -> None:
    bare = people.frame.drop("household")
    edited = dc.ConfidentialityEdit(geography=["region"], match_on=["sex"], share=0.1)(bare, seed=1)
    moved = (edited["region"] != bare["region"]).mean()
    assert 0.1 < moved < 0.2  # type: ignore[operator]
    by = ["region", "sex"]
    assert edited.group_by(by).len().sort(by).equals(bare.group_by(by).len().sort(by))


def test_a_missing_place_stays_missing() -> None:
    frame = pl.DataFrame({"place": ["a", "b", None, "c"] * 50, "x": range(200)})
    edited = dc.ConfidentialityEdit(geography=["place"], share=1)(frame, seed=1)
    assert edited["place"].is_null().equals(frame["place"].is_null())
    assert edited["place"].sort().equals(frame["place"].sort())


def test_bad_fields_are_refused() -> None:
    for share in (0, 1.5):
        with pytest.raises(dc.PlanError, match="share"):
            dc.ConfidentialityEdit(share=share)
    with pytest.raises(dc.PlanError, match="go together"):
        dc.ConfidentialityEdit(share=0.1, small_block=5)
    with pytest.raises(dc.PlanError, match="at least `share`"):
        dc.ConfidentialityEdit(share=0.1, small_block=5, small_block_share=0.05)
    with pytest.raises(dc.PlanError, match="'region' stands both"):
        dc.ConfidentialityEdit(share=0.1, geography=["region"], match_on=["region"])


def test_bad_data_is_refused_in_words(people: dc.Dataset) -> None:
    one = dc.Dataset(people.frame.filter(pl.col("region") == "Arvenia"), schema=people.schema)
    with pytest.raises(dc.DataError, match="all records lie in one area"):
        dc.ConfidentialityEdit(geography=["region"], share=0.1)(one)
    with pytest.raises(dc.DataError, match=r"none of the \d+ households drawn has a partner elsewhere in 'region'"):
        dc.ConfidentialityEdit(geography=["region"], match_on=["name"], share=0.1)(people)
    with pytest.raises(dc.DataError, match=r"column 'sex' is not constant within \d+ households"):
        dc.ConfidentialityEdit(geography=["sex"], share=0.1)(people)
    with pytest.raises(dc.PlanError, match="give `geography`"):
        dc.ConfidentialityEdit(share=0.1)(people.frame)
    with pytest.raises(dc.PlanError, match="'region' is exchanged and cannot be matched on"):
        dc.ConfidentialityEdit(share=0.1, match_on=["region"])(people)


def test_strengths_are_confidential() -> None:
    method = dc.ConfidentialityEdit(share=0.0731, small_block=731, small_block_share=0.731, match_on=["sex"])
    assert method.settings(public=True) == {"match_on": ["sex"]}
