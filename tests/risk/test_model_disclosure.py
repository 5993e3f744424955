"""What a model learned from the release tells about people who are not in its training data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

ONE_NEIGHBOR = {"sklearn.neighbors:KNeighborsClassifier": {"n_neighbors": 1}}
FULL_TREE = "sklearn.tree:DecisionTreeClassifier"


def noise_labels(n: int = 600, classes: int = 2, seed: int = 0) -> pl.DataFrame:
    """Give people whose secret has nothing to do with what is known of them."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"x": rng.normal(size=n), "y": rng.integers(0, classes, n).astype(str)})


@pytest.mark.parametrize("model", [ONE_NEIGHBOR, FULL_TREE], ids=["one neighbor", "full tree"])
def test_a_persons_own_record_is_not_in_the_training_data(model: object) -> None:
    """With it, everybody's noise is known by heart; without it, there is nothing to learn."""
    data = noise_labels()
    score = dc.ModelDisclosure(target="y", features=["x"], model=model)(data, data)
    low, high = score.detail["interval"]
    assert score.detail["with_record"] == 1.0
    assert low < 0.5 < high
    assert score.detail["due_to_record"] == 1.0 - score.value
    assert score.value == score.detail["control"]


def test_a_rule_of_the_population_is_found_without_the_record() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 800)
    data = pl.DataFrame({"x": x, "y": np.where(x > 0, "rich", "poor")})
    score = dc.ModelDisclosure(target="y", features=["x"])(data, data)
    assert score.value > 0.98 and abs(score.detail["due_to_record"]) < 0.02
    assert score.detail["majority"] == pytest.approx(max((x > 0).mean(), (x <= 0).mean()))
    destroyed = data.with_columns(pl.Series("y", rng.permutation(data["y"].to_list())))
    assert dc.ModelDisclosure(target="y", features=["x"])(data, destroyed).value == pytest.approx(0.5, abs=0.08)


def test_the_truth_is_the_original_value() -> None:
    """A release in which the secret is turned round is learned well and predicts everybody wrong."""
    x = np.linspace(-1, 1, 200)
    data = pl.DataFrame({"x": x, "y": np.where(x > 0, "a", "b")})
    turned = data.with_columns(pl.when(pl.col("y") == "a").then(pl.lit("b")).otherwise(pl.lit("a")).alias("y"))
    assert dc.ModelDisclosure(target="y", features=["x"])(data, turned).value < 0.05


def test_numbers_count_within_a_percentage_of_the_standard_deviation() -> None:
    """For y = x + e the linear model is off by e: the share is P(|e| ≤ percent·σ/100)."""
    from scipy.stats import norm

    rng = np.random.default_rng(2)
    x = rng.normal(0, 3, 4000)
    y = x + rng.normal(0, 1, 4000)
    data = pl.DataFrame({"x": x, "y": y})
    for percent in (10.0, 30.0):
        score = dc.ModelDisclosure(target="y", features=["x"], model="linear", percent=percent)(data, data)
        half = percent / 100 * y.std(ddof=1)
        want = 2 * norm.cdf(half) - 1
        assert score.value == pytest.approx(want, abs=4 * np.sqrt(want * (1 - want) / 4000))
        assert score.detail["half_width"] == pytest.approx(half)
        assert score.detail["majority"] == (np.abs(y - y.mean()) <= half).mean()


def test_cross_validation_by_hand() -> None:
    """The figure equals that of a straightforward loop with the same folds."""
    from sklearn.linear_model import LinearRegression

    from discretion.context import Context
    from discretion.learning.columns import Numbers
    from discretion.learning.fitting import folds

    rng = np.random.default_rng(3)
    x = np.sort(rng.normal(size=90))
    y = x**2 + rng.normal(size=90)
    z = y + rng.normal(size=90)
    data, released = pl.DataFrame({"x": x, "y": y}), pl.DataFrame({"x": x, "y": z})
    score = dc.ModelDisclosure(target="y", features=["x"], model="linear", percent=50, folds=3)(data, released)
    fold = folds(Numbers(y), 3, Context(0, "model-disclosure").rng)  # the rows already stand in order of x
    right = np.zeros(90, bool)
    for part in range(3):
        model = LinearRegression().fit(x[fold != part, None], z[fold != part])
        right[fold == part] = np.abs(model.predict(x[fold == part, None]) - y[fold == part]) <= 0.5 * y.std(ddof=1)
    assert score.per_record is not None
    assert score.per_record.tolist() == right.tolist()
    assert score.value == right.mean()


def test_the_scan_finds_the_few_attributes_that_give_the_secret_away() -> None:
    rng = np.random.default_rng(4)
    a, b, c = (rng.choice(["0", "1"], 500) for _ in range(3))
    data = pl.DataFrame({"a": a, "b": b, "c": c, "y": np.where(a == b, "yes", "no")})
    seen: list[tuple[int, int]] = []
    measure = dc.ModelDisclosure(target="y", features=["a", "b", "c"], scan=2)
    scan = measure(data, data, progress=lambda done, total, _: seen.append((done, total))).detail["scan"]
    assert scan[0]["features"] == ["a", "b"] and scan[0]["share"] == 1.0
    assert len(scan) == 6 and all(row["share"] < 0.65 for row in scan[1:])
    assert seen[-1] == (30, 30)
    assert [row["share"] for row in scan] == sorted((row["share"] for row in scan), reverse=True)


def test_generalized_features_are_known_at_the_level_of_the_release() -> None:
    rng = np.random.default_rng(5)
    region = rng.choice(list("abcd"), 400)
    secret = np.where(np.isin(region, ["a", "b"]), "x", "y")
    tree = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"r": region, "s": secret}), hierarchies={"r": tree})
    released = dc.Generalize(levels={"r": 1})(data)
    assert dc.ModelDisclosure(target="s", features=["r"])(data, released).value == 1.0
    gone = dc.Generalize(levels={"r": 2})(data)
    assert dc.ModelDisclosure(target="s", features=["r"])(data, gone).value < 0.6


def test_missing_values_of_the_target_and_the_features() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=300)
    y = np.where(x > 0, "a", "b").astype(object)
    frame = pl.DataFrame({"x": x, "y": y.tolist()})
    holes = frame.with_columns(
        pl.when(pl.Series(rng.random(300) < 0.2)).then(None).otherwise(pl.col(name)).alias(name)
        for name in frame.columns
    )
    score = dc.ModelDisclosure(target="y", features=["x"])(holes, holes)
    assert score.detail["people_tested"] == 300 - holes["y"].null_count()
    assert 0.8 < score.value < 1.0
    assert score.per_record is not None and not score.per_record[holes["y"].is_null().to_numpy()].any()


def test_same_seed_same_value() -> None:
    data = noise_labels(200)
    forest = {"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 5}}
    measure = dc.ModelDisclosure(target="y", features=["x"], model=forest)
    assert measure(data, data, seed=4).value == measure(data, data, seed=4).value != measure(data, data, seed=5).value


def test_a_sample_states_an_interval_that_holds_what_the_whole_gives() -> None:
    people = dc.datasets.census(6000, seed=2)
    known = ["age", "education", "region", "sex"]
    for target in ("income", "marital_status"):
        features = [name for name in known if name != target]
        whole = dc.ModelDisclosure(target=target, features=features)(people, people)
        part = dc.ModelDisclosure(target=target, features=features, sample=2000)(people, people, seed=3)
        low, high = part.detail["interval"]
        assert low <= whole.value <= high and low <= part.value <= high
        assert (part.detail["people_tested"], part.detail["trained_on"]) == pytest.approx((400, 1600), abs=25)
        assert part.per_record is None and "6,000 records" in part.meaning
        assert part.detail.get("half_width") == whole.detail.get("half_width")  # of all the people, not of the sample


def test_what_further_records_add_widens_the_interval_upwards() -> None:
    """A secret of a thousand groups: half of the records tell half of it, all of them more than any sample."""
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(1000.0), 20)
    frame = pl.DataFrame({"g": group, "s": np.array(["a", "b", "c"])[rng.integers(0, 3, 1000)[group.astype(int)]]})
    whole = dc.ModelDisclosure(target="s", features=["g"])(frame, frame)
    part = dc.ModelDisclosure(target="s", features=["g"], sample=2500)(frame, frame)
    assert part.detail["with_half"] < part.value < whole.value <= part.detail["interval"][1]


def test_bad_input() -> None:
    data = noise_labels(20)
    with pytest.raises(dc.PlanError, match="is the target and cannot be a feature"):
        dc.ModelDisclosure(target="y", features=["y"])(data, data)
    with pytest.raises(dc.PlanError, match="give `target`"):
        dc.ModelDisclosure(features=["x"])(data, data)
    with pytest.raises(dc.PlanError, match="has no roles"):
        dc.ModelDisclosure(target="y")(data, data)
    with pytest.raises(dc.DataError, match="'z'"):
        dc.ModelDisclosure(target="y", features=["z"])(data, data)
    with pytest.raises(dc.DataError, match="no values in the release"):
        dc.ModelDisclosure(target="y", features=["x"])(data, data.with_columns(pl.lit(None, pl.String).alias("y")))
    names = data.with_columns(pl.Series("y", [f"p{i}" for i in range(20)]))
    with pytest.raises(dc.DataError, match="a value of its own in most of 20 rows"):
        dc.ModelDisclosure(target="y", features=["x"])(names, names)
    with pytest.raises(dc.PlanError, match="folds"):
        dc.ModelDisclosure(target="y", folds=1)


def test_one_published_class_is_always_predicted() -> None:
    data = noise_labels(40)
    one = data.with_columns(pl.lit("1").alias("y"))
    score = dc.ModelDisclosure(target="y", features=["x"], model="logit")(data, one)
    assert score.value == score.detail["majority"] == (data["y"] == "1").mean()
