"""People with several records: figures of people count people, not records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.risk.identity import linkage


def _stays() -> dc.Dataset:
    """Eight stays of one class, four of them of one patient; two stays that only one patient has."""
    frame = pl.DataFrame(
        {
            "patient": ["a", "a", "a", "a", "b", "c", "d", "e", "f", "f"],
            "town": ["x"] * 8 + ["y"] * 2,
            "sex": ["m"] * 10,
        }
    )
    return dc.Dataset(frame, roles={"patient": "unit", "town": "quasi", "sex": "quasi"})


def test_a_person_is_found_if_any_record_is() -> None:
    data = _stays()
    score = dc.DistanceLinkage(columns=["town", "sex"])(data, data.drop(["patient"]))
    by_person = [1 - (7 / 8) ** 4, *[1 / 8] * 4, 1 - (1 / 2) ** 2]
    assert score.value == pytest.approx(np.mean(by_person))
    assert score.detail["by_record"] == pytest.approx((8 * 1 / 8 + 2 * 1 / 2) / 10)
    assert score.detail["people"] == 6
    assert score.detail["chance"] == pytest.approx(np.mean([1 - 0.9**m for m in (4, 1, 1, 1, 1, 2)]))
    assert "a person is found if any record is linked right" in score.meaning


def test_without_a_unit_records_are_people() -> None:
    data = dc.Dataset(_stays().frame, roles={"town": "quasi", "sex": "quasi"})
    score = dc.DistanceLinkage(columns=["town", "sex"])(data, data)
    assert score.value == pytest.approx((8 * 1 / 8 + 2 * 1 / 2) / 10)
    assert "people" not in score.detail


def test_any_record_of_a_person_in_a_class_is_the_right_one() -> None:
    data = _stays().drop(["patient"])  # the column is not published; what it says stays true
    score = dc.AttackerRisk()(_stays(), data)
    assert score.value == 1.0  # both records of town y are of one person
    assert score.per_record is not None
    assert list(score.per_record) == pytest.approx([4 / 8] * 4 + [1 / 8] * 4 + [1.0] * 2)


def test_one_to_one_links_count_people_too() -> None:
    rng = np.random.default_rng(3)
    patient = rng.integers(0, 30, 60)
    frame = pl.DataFrame({"patient": patient, "v": rng.normal(size=60)})
    data = dc.Dataset(frame, roles={"patient": "unit", "v": "quasi"}, types={"patient": "nominal"})
    noisy = data.with_columns({"v": pl.Series(frame["v"].to_numpy() + rng.normal(0, 0.05, 60))})
    score = dc.AssignmentLinkage(columns=["v"])(data, noisy)
    assert score.per_record is not None
    found = {who for who, share in zip(patient.tolist(), score.per_record, strict=True) if share == 1}
    assert score.value == pytest.approx(len(found) / len(set(patient.tolist())))


def _joined_by_hand(data: dc.Dataset, released: dc.Dataset, columns: list[str]) -> float:
    """Compare the multiset of records of each patient with that of each published number."""
    before, after = (x.frame.select(pl.concat_str(columns, separator="|")).to_series() for x in (data, released))
    numbers = released.frame["patient"].to_list()
    mine: dict[object, list[str]] = {}
    theirs: dict[object, list[str]] = {}
    for number, a, b in zip(numbers, before.to_list(), after.to_list(), strict=True):
        mine.setdefault(number, []).append(a)
        theirs.setdefault(number, []).append(b)
    bags = [tuple(sorted(one)) for one in theirs.values()]
    found = [1 / bags.count(tuple(sorted(one))) for one in mine.values()]
    return float(np.mean(found))


def test_records_that_a_published_number_joins_are_attacked_together() -> None:
    rng = np.random.default_rng(7)
    patient = np.repeat(np.arange(150), 1 + rng.poisson(1.0, 150))
    n = len(patient)
    frame = pl.DataFrame({"patient": patient, "ward": rng.choice(list("abc"), n), "year": rng.integers(0, 3, n)})
    data = dc.Dataset(frame, roles={"patient": "unit", "ward": "quasi", "year": "quasi"}, types={"patient": "nominal"})
    known = ["ward", "year"]
    renumbered = data.with_columns({"patient": pl.Series(rng.permutation(1000)[patient])})
    score, apart = (dc.DistanceLinkage(columns=known)(data, one) for one in (renumbered, data.drop(["patient"])))
    # equal sets of records, or the same records in other numbers (a, a, b and a, b, b): as many, each beside its like
    assert score.value == pytest.approx(_joined_by_hand(data, renumbered, known), abs=0.02)
    assert score.value > 2 * apart.value
    assert "joined" not in apart.detail
    assert "puts the records together that patient joins" in score.meaning
    assert score.detail["people"] == 150
    assert score.value == max(score.detail["joined"]["patient"], score.detail["plain"])


def test_noise_on_joined_records_is_added_up() -> None:
    rng = np.random.default_rng(8)
    patient = np.repeat(np.arange(120), 3)
    frame = pl.DataFrame({"patient": patient, "v": rng.normal(size=360), "w": rng.normal(size=360)})
    data = dc.Dataset(frame, roles={"patient": "unit", "v": "quasi", "w": "quasi"}, types={"patient": "nominal"})
    released = dc.AdditiveNoise(columns=["v", "w"], sd_share=0.5)(data, seed=1)
    score = dc.DistanceLinkage(columns=["v", "w"])(data, released)
    x, y = (one.frame.select("v", "w").to_numpy().reshape(120, 3, 2) for one in (data, released))
    gaps = ((x[:, None, :, None] - y[None, :, None, :]) ** 2).sum(axis=4)  # person, unit, record, record
    by_hand = (gaps.min(axis=3).sum(axis=2) + gaps.min(axis=2).sum(axis=2)).argmin(axis=1) == np.arange(120)
    assert score.detail["joined"]["patient"] >= by_hand.mean() - 0.05
    assert score.value >= score.detail["joined"]["patient"] > score.detail["by_record"] / 2


def test_members_of_a_published_household_are_found_in_it() -> None:
    frame = pl.DataFrame(
        {"home": [1, 1, 2, 2, 3, 3, 4], "age": [40, 40, 40, 41, 40, 41, 40], "x": ["a", "b", "a", "b", "a", "b", "a"]}
    )
    data = dc.Dataset(frame, roles={"home": "household", "age": "quasi", "x": "quasi"}, types={"home": "nominal"})
    score = dc.DistanceLinkage(columns=["age"])(data, data)
    # home 1: alone with two of 40, its members alike; 2 and 3 alike, their members told apart; 4: alone with one
    assert score.detail["joined"]["home"] == pytest.approx((2 * 1 / 2 + 4 * 1 / 2 + 1) / 7)


def test_a_sample_of_people_whose_records_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are drawn at random too (here 200 of 400): their figure is near that of all, which the interval holds."""
    monkeypatch.setattr(linkage, "_PAIRS_OF_UNITS", 1_500_000)
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"home": np.repeat(np.arange(400), 2), **{name: rng.normal(size=800) for name in "ab"}})
    data = dc.Dataset(frame, roles={"home": "household", "a": "quasi", "b": "quasi"})
    released = dc.AdditiveNoise(columns=["a", "b"], sd_share=0.2)(data, seed=3)
    whole = dc.DistanceLinkage(columns=["a", "b"])(data, released)
    drawn = dc.DistanceLinkage(columns=["a", "b"], sample=150)(data, released)
    low, high = drawn.detail["interval"]
    assert low < whole.detail["joined"]["home"] < high
    assert 0 < abs(drawn.detail["joined"]["home"] - whole.detail["joined"]["home"]) < 0.06
    assert drawn.value == drawn.detail["joined"]["home"] > drawn.detail["plain"]
    assert drawn.value <= high and "joins" in drawn.detail["intruder"]
