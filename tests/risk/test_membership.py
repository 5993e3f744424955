"""Who is in the data? Planted memorizers against models and releases that generalize."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc

FULL_TREE = "sklearn.tree:DecisionTreeClassifier"


def people(n: int, seed: int, classes: int = 2, rule: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    y = (x + rng.logistic(size=n) > 0).astype(int) if rule else rng.integers(0, classes, n)
    return pl.DataFrame({"x": x, "z": z, "y": y.astype(str)})


def against(model: object, **more: object) -> dc.MembershipInference:
    return dc.MembershipInference(target="y", features=["x", "z"], model=model, shadows=4, **more)


@pytest.mark.parametrize("model", [FULL_TREE, {"sklearn.neighbors:KNeighborsClassifier": {"n_neighbors": 1}}])
@pytest.mark.parametrize("outside", [False, True], ids=["halves", "holdout"])
def test_a_model_that_memorizes_gives_its_members_away(model: object, outside: bool) -> None:
    """Ten classes of noise: a member is always right, another person in one of ten cases, so the area is about 0.95."""
    data = people(500, 0, classes=10)
    more = {"holdout": people(400, 1, classes=10)} if outside else {}
    score = against(model, **more)(data, data)
    assert score.value == pytest.approx(0.95, abs=0.03)
    assert score.detail["advantage"] == pytest.approx(0.9, abs=0.05)
    assert score.per_record is not None and score.per_record.shape == (500,) and (score.per_record > 0.5).all()


@pytest.mark.parametrize("outside", [False, True], ids=["halves", "holdout"])
def test_a_model_that_generalizes_gives_nobody_away(outside: bool) -> None:
    data = people(4000, 2, rule=True)
    more = {"holdout": people(4000, 3, rule=True)} if outside else {}
    score = against("logit", **more)(data, data)
    low, high = score.detail["auc_interval"]
    assert low < 0.51 and score.value < 0.53 and high - low < 0.08
    assert score.detail["advantage"] < 0.06
    assert score.detail["true_positive_share"] < 0.03


def test_a_regression_is_attacked_by_its_errors() -> None:
    rng = np.random.default_rng(4)
    data = pl.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400), "y": rng.normal(size=400)})
    assert against("sklearn.tree:DecisionTreeRegressor")(data, data).value > 0.9
    assert against("linear")(data, data).value < 0.6


def test_protection_before_training_helps() -> None:
    data = people(500, 5, classes=10)
    noisy = dc.AdditiveNoise(columns=["x", "z"], sd_share=1)(data, seed=1)
    assert against(FULL_TREE)(data, noisy).value < 0.65 < against(FULL_TREE)(data, data).value


def test_a_release_of_the_members_is_recognized_and_one_of_others_is_not() -> None:
    members, outside, stranger = people(500, 6), people(400, 7), people(500, 8)
    measure = dc.MembershipInference(features=["x", "z", "y"], holdout=outside)
    score = measure(members, members)
    assert score.value == 1.0 and score.detail["exact_copies"] == {"members": 1.0, "non_members": 0.0}
    assert score.detail["true_positive_share"] == 1.0 and score.detail["advantage"] > 0.75
    score = measure(members, stranger)
    low, high = score.detail["auc_interval"]
    assert low < 0.5 < high


def test_a_release_with_half_of_the_members_copied() -> None:
    members, outside = people(600, 9), people(600, 10)
    mixed = pl.concat([members[:300], people(500, 11)])  # another number of rows: a synthetic file
    score = dc.MembershipInference(features=["x", "z"], holdout=outside)(members, mixed)
    assert score.value == pytest.approx(0.75, abs=0.04)
    assert score.detail["true_positive_share"] == pytest.approx(0.5, abs=0.02)
    assert score.per_record is not None
    assert score.per_record[:300].min() == 1.0 and score.per_record[300:].mean() == pytest.approx(0.5, abs=0.06)


def test_distances_by_hand() -> None:
    """Numbers by the original's standard deviation, a differing category counts one, missing is a category."""
    original = pl.DataFrame({"v": [0.0, 2.0, 4.0], "c": ["a", "b", None]})
    released = pl.DataFrame({"v": [0.0, 2.0], "c": ["a", "a"]})
    outside = pl.DataFrame({"v": [1.0, 4.0], "c": ["a", "b"]})
    detail = dc.MembershipInference(features=["v", "c"], holdout=outside)(original, released).detail
    # members: 0, 1, √(1 + 1) with σ = 2; the others: 1/2, √(1 + 1)
    assert detail["median_distance"] == {
        "members": pytest.approx(1.0),
        "non_members": pytest.approx((0.5 + np.sqrt(2)) / 2),
    }


def test_a_generalized_release_is_attacked_at_its_level(tmp_path: Path) -> None:
    census = dc.datasets.census(1200, seed=1)
    members, outside = dc.Dataset(census.frame[:600], schema=census.schema), census.frame[600:]
    outside.drop("diagnoses").write_csv(tmp_path / "outside.csv")
    released = dc.Generalize(levels={"region": 1, "age": 1})(members)
    features = ["region", "age", "sex", "income"]
    score = dc.MembershipInference(features=features, holdout=str(tmp_path / "outside.csv"))(members, released)
    assert score.value > 0.85 and score.detail["exact_copies"]["members"] == 1.0
    coarse = dc.MembershipInference(features=["region", "sex"], holdout=outside)(members, released)
    low, high = coarse.detail["auc_interval"]
    assert low <= 0.5 <= high
    model = dc.MembershipInference(target="sex", features=["region", "age"], model="tree", holdout=outside, shadows=2)
    assert 0.3 < model(members, released).value < 0.8


def test_same_seed_same_value() -> None:
    data = people(120, 12)
    measure = against({"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 5}})
    assert measure(data, data, seed=3).value == measure(data, data, seed=3).value != measure(data, data, seed=4).value


def test_bad_input() -> None:
    data = people(60, 13)
    with pytest.raises(dc.PlanError, match="give `holdout`"):
        dc.MembershipInference(features=["x"])(data, data)
    noise = {"additive-noise": {"columns": ["x"], "sd_share": 0.1}}
    plan = {"roles": {"x": "sensitive"}, "steps": [noise], "measures": ["membership-inference"]}
    with pytest.raises(dc.PlanError, match=r"measures.*give `holdout`"):
        dc.Plan.from_dict(plan).run(data)
    with pytest.raises(dc.DataError, match="give `holdout`"):
        against("tree")(data, people(50, 1))
    with pytest.raises(dc.DataError, match="'z'"):
        dc.MembershipInference(features=["x", "z"], holdout=data.drop("z"))(data, data)
    with pytest.raises(dc.DataError, match="holdout has no rows"):
        dc.MembershipInference(features=["x"], holdout=data[:0])(data, data)
    with pytest.raises(dc.DataError, match="too few rows"):
        against("tree")(data[:6], data[:6])
    with pytest.raises(dc.PlanError, match="for classification"):
        against("linear")(data, data)
    with pytest.raises(dc.PlanError, match="shadows"):
        dc.MembershipInference(model="tree", shadows=1)


def test_synthetic_rows_made_here_are_attacked_with_people_put_aside() -> None:
    data = dc.Dataset(people(400, 3), roles={"x": "quasi", "z": "quasi"})
    release = dc.SequentialTrees()(data, seed=1)
    for measure in (dc.MembershipInference(), against("tree")):
        (score,) = dc.assess(data, release, measures=[measure]).scores
        assert score.detail["members"] <= 320 and score.detail["non_members"] <= 80 and "put aside" in score.meaning
        assert score.detail["refitted"] == {"people": 320, "put_aside": 80}


def test_the_leak_of_a_model_that_generalizes_shrinks_with_the_data() -> None:
    """A logit of few parameters p is nearer to its n training records by about √(p/n): real, and gone in large data."""
    few, many = (np.mean([against("logit")(d, d).value for d in datasets(n)]) for n in (300, 6000))
    assert 0.5 < many < 0.515 < few < 0.56


def datasets(n: int) -> list[pl.DataFrame]:
    return [people(n, seed, rule=True) for seed in range(4)]


def test_a_model_that_ignores_its_training_data_tells_nothing() -> None:
    data = people(400, 14)
    score = against({"sklearn.dummy:DummyClassifier": {"strategy": "uniform"}})(data, data)
    low, high = score.detail["auc_interval"]
    assert low <= 0.5 <= high


def test_guessing_is_one_half() -> None:
    people = dc.datasets.census(60, seed=1)
    score = dc.MembershipInference(features=["age", "income"], holdout=dc.datasets.census(60, seed=2))(people, people)
    assert score.detail["chance"] == 0.5
