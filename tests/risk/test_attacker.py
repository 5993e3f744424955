from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc


@pytest.mark.parametrize("attacker", ["prosecutor", "journalist", "marketer"])
def test_the_file_alone(attacker: str) -> None:
    data = pl.DataFrame({"a": [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4]})
    score = dc.AttackerRisk(columns=["a"], attacker=attacker, threshold=0.25)(data)
    risk = [1] + [1 / 2] * 2 + [1 / 4] * 4 + [1 / 5] * 5
    assert score.per_record is not None and score.per_record.tolist() == risk
    assert score.value == pytest.approx(4 / 12 if attacker == "marketer" else 1)
    assert score.detail["success_rate"] == pytest.approx(4 / 12)
    assert score.detail["records_at_risk"] == pytest.approx(3 / 12)  # a quarter is not above a quarter
    assert (score.detail["highest"], score.detail["lowest"]) == (1, 1 / 5)
    assert score.detail["share_at_highest"] == pytest.approx(1 / 12)
    assert score.detail["share_at_lowest"] == pytest.approx(5 / 12)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_population(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = pl.DataFrame(
        {"a": rng.choice(["x", "y", "z", None], 300, p=[0.5, 0.3, 0.1, 0.1]).tolist(), "b": rng.zipf(2, 300) % 9}
    )
    sample = people[np.flatnonzero(rng.random(300) < 0.3)]
    every = people.rows()
    want = [1 / every.count(row) for row in sample.rows()]
    journalist = dc.AttackerRisk(columns=["a", "b"], attacker="journalist", population=people)(sample)
    marketer = dc.AttackerRisk(columns=["a", "b"], attacker="marketer", population=people)(sample)
    assert journalist.per_record == pytest.approx(want)
    assert journalist.value == pytest.approx(max(want)) and marketer.value == pytest.approx(sum(want) / len(want))
    assert journalist.detail["chance"] == 1 / 300
    left = dc.AttackerRisk(columns=["a", "b"], attacker="marketer", population=people, missing="ignore")(sample)
    kept = [math.nan if row[0] is None else risk for row, risk in zip(sample.rows(), want, strict=True)]
    assert left.per_record == pytest.approx(kept, nan_ok=True)
    assert marketer.value <= dc.AttackerRisk(columns=["a", "b"], attacker="marketer")(sample).value


def test_the_population_is_generalized_like_the_release() -> None:
    areas = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"area": ["a", "c"]}), roles={"area": "quasi"}, hierarchies={"area": areas})
    everybody = pl.DataFrame({"area": ["a", "b", "b", "b", "c", "d"]})
    measure = dc.AttackerRisk(attacker="marketer", population=everybody)
    assert measure(data).value == 1
    assert measure(dc.Generalize(levels={"area": 1})(data)).value == pytest.approx((1 / 4 + 1 / 2) / 2)


def test_wildcards_may_be_anybody() -> None:
    data = pl.DataFrame({"a": ["x", "x", None]})
    assert dc.AttackerRisk(columns=["a"], missing="wildcard")(data).value == pytest.approx(1 / 3)
    assert dc.AttackerRisk(columns=["a"])(data).value == 1


def test_distribution_adds_up() -> None:
    rng = np.random.default_rng(1)
    score = dc.AttackerRisk(columns=["a"])(pl.DataFrame({"a": rng.zipf(1.5, 2_000) % 500}))
    spread = score.detail["distribution"]
    risk = score.per_record
    assert risk is not None
    assert sum(spread["share"]) == pytest.approx(1) and spread["cumulative"][-1] == 1
    below = 0.0
    for level, share in zip(spread["up_to"], spread["share"], strict=True):
        assert share == pytest.approx(((risk > below) & (risk <= level)).mean(), abs=1e-12)
        below = level


def test_what_is_refused() -> None:
    data = pl.DataFrame({"a": [1, 1, 2]})
    town = pl.DataFrame({"a": [1, 2, 2], "n": [1, 5, 5]})
    with pytest.raises(dc.DataError, match="2 records are in classes with more records than people"):
        dc.AttackerRisk(columns=["a"], attacker="journalist", population=town)(data)
    with pytest.raises(dc.PlanError, match="prosecutor looks at the file alone"):
        dc.AttackerRisk(columns=["a"], population=town)
    with pytest.raises(dc.PlanError, match="category or its record is left out"):
        dc.AttackerRisk(columns=["a"], attacker="journalist", population=town, missing="wildcard")
    with pytest.raises(dc.PlanError, match="give `population`"):
        dc.AttackerRisk(columns=["a"], attacker="journalist", frequency="n")
    with pytest.raises(dc.PlanError, match="attacker"):
        dc.AttackerRisk(columns=["a"], attacker="spy")
    with pytest.raises(dc.DataError, match="nothing is counted"):
        dc.AttackerRisk(columns=["a"], missing="ignore")(pl.DataFrame({"a": [None, None]}))
    counted = dc.AttackerRisk(columns=["a"], attacker="journalist", population=town, frequency="n")
    assert counted(pl.DataFrame({"a": [2]})).value == pytest.approx(0.1)
