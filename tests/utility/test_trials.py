"""The same model trained on the original and on the release, tested on held-out original rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

ONE_NEIGHBOR = {"sklearn.neighbors:KNeighborsClassifier": {"n_neighbors": 1}}
MAJORITY = {"sklearn.dummy:DummyClassifier": {"strategy": "most_frequent"}}


def flowers() -> pl.DataFrame:
    from sklearn.datasets import load_iris

    iris = load_iris()
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    return pl.DataFrame(iris.data, schema=names).with_columns(pl.Series("species", iris.target_names[iris.target]))


def ruled(n: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    return pl.DataFrame({"x": x, "z": z, "c": np.where(x > z, "a", "b"), "v": 2 * x - z + rng.normal(0, 0.5, n)})


def test_iris_with_noise_of_a_thousandth_and_a_hundredth_of_the_variance() -> None:
    iris = flowers()
    measure = dc.ClassificationUtility(target="species", features=["petal_width", "sepal_width"], folds=3)
    found = {}
    for share in (0.001, 0.01, 1.0):
        noise = dc.AdditiveNoise(columns=["petal_width", "sepal_width"], variance_share=share)
        scores = [measure(iris, noise(iris, seed=seed)) for seed in range(6)]
        found[share] = np.mean([score.detail["agreement"] for score in scores])
        if share < 1:
            assert all(score.value > 0.88 and score.detail["original"] > 0.9 for score in scores)
            assert all(score.detail["structure"]["original"]["split_columns"][0] == "petal_width" for score in scores)
    assert found[0.001] >= found[0.01] > 0.93 > found[1.0]


def test_the_release_itself_loses_nothing_and_a_destroyed_one_everything() -> None:
    data = ruled()
    for measure in (
        dc.ClassificationUtility(target="c", features=["x", "z"]),
        dc.RegressionUtility(target="v", features=["x", "z"]),
    ):
        same = measure(data, data)
        assert same.value == same.detail["original"] > 0.85 and same.detail["difference"] == 0
        other = data.with_columns(data["c"].shuffle(1), data["v"].shuffle(1))
        broken = measure(data, other)
        assert broken.detail["original"] == same.value and broken.value < 0.6
        mild, strong = (
            [
                measure(data, dc.AdditiveNoise(columns=["x", "z"], sd_share=sd)(data, seed=seed)).value
                for seed in range(4)
            ]
            for sd in (0.6, 2.0)
        )
        assert same.value > max(mild) > min(mild) > max(strong)


def test_nobody_is_tested_by_a_model_that_saw_their_record() -> None:
    rng = np.random.default_rng(1)
    data = pl.DataFrame({"x": rng.permutation(600), "c": rng.choice(["a", "b"], 600)})
    score = dc.ClassificationUtility(target="c", features=["x"], model=ONE_NEIGHBOR)(data, data)
    assert score.value == pytest.approx(0.5, abs=0.08)


def test_accuracy_precision_and_recall_by_hand() -> None:
    """A rule that always says the most frequent class, with weights that make the rarer one more frequent."""
    data = dc.Dataset(
        pl.DataFrame({"x": range(10), "c": list("aaaaaabbbb"), "w": [1.0] * 6 + [3.0] * 4}), roles={"w": "weight"}
    )
    score = dc.ClassificationUtility(target="c", features=["x"], model=MAJORITY, folds=2)(data, data)
    assert score.value == score.detail["majority"] == pytest.approx(12 / 18)
    assert score.detail["per_class"]["released"] == {
        "a": {"precision": None, "recall": 0.0},
        "b": {"precision": pytest.approx(12 / 18), "recall": 1.0},
    }
    bare = dc.ClassificationUtility(target="c", features=["x"], model=MAJORITY, folds=2)(data.frame, data.frame)
    assert bare.value == 0.6 and bare.detail["per_class"]["released"]["a"] == {"precision": 0.6, "recall": 1.0}


def test_weights_count_in_fitting() -> None:
    """Half of the people follow another rule; with weight zero they do not bend the line."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    odd = np.arange(400) % 2 == 1
    frame = pl.DataFrame({"x": x, "v": np.where(odd, -x, x), "w": np.where(odd, 0.0, 1.0)})
    weighted = dc.Dataset(frame, roles={"w": "weight"})
    measure = dc.RegressionUtility(target="v", features=["x"])
    assert measure(weighted, weighted).value == pytest.approx(1.0)
    assert measure(frame, frame).value < 0.1
    unable = dc.RegressionUtility(target="v", features=["x"], model="nearest")(weighted, weighted)
    assert unable.detail["weights"] == "in the test only"


def test_r2_by_hand() -> None:
    from sklearn.linear_model import LinearRegression

    from discretion.context import Context
    from discretion.learning.columns import Numbers
    from discretion.learning.fitting import folds

    rng = np.random.default_rng(3)
    x = np.sort(rng.normal(size=60))
    y, z = x + rng.normal(size=60), x * 0.5 + rng.normal(size=60)
    one, two = pl.DataFrame({"x": x, "y": y}), pl.DataFrame({"x": x, "y": z})
    score = dc.RegressionUtility(target="y", features=["x"], folds=4)(one, two)
    fold = folds(Numbers(y), 4, Context(0, "regression-utility").rng)  # the rows already stand in order of x
    ours, theirs = np.zeros(60), np.zeros(60)
    for part in range(4):
        test, train = fold == part, fold != part
        ours[test] = LinearRegression().fit(x[train, None], y[train]).predict(x[test, None])
        theirs[test] = LinearRegression().fit(x[train, None], z[train]).predict(x[test, None])
    total = ((y - y.mean()) ** 2).sum()
    assert score.value == pytest.approx(1 - ((y - theirs) ** 2).sum() / total)
    assert score.detail["original"] == pytest.approx(1 - ((y - ours) ** 2).sum() / total)
    assert score.detail["correlation"] == pytest.approx(np.corrcoef(ours, theirs)[0, 1])
    assert score.detail["gap"] == pytest.approx(np.sqrt(((ours - theirs) ** 2).sum() / total))


def test_models_are_compared_where_their_kind_allows() -> None:
    data = ruled()
    half = data.with_columns(pl.col("v") / 2)
    structure = dc.RegressionUtility(target="v", features=["x", "z"])(data, half).detail["structure"]
    assert structure["coefficient_distance"] == pytest.approx(0.5)
    assert structure["original"]["coefficients"]["x"][0] == pytest.approx(2, abs=0.1)
    swapped = data.rename({"x": "z", "z": "x"})
    tree = dc.RegressionUtility(target="v", features=["x", "z"], model="tree")(data, swapped).detail["structure"]
    assert not tree["same_first_split"] and 0.3 < tree["importance_distance"] <= 1
    same = dc.ClassificationUtility(target="c", features=["x", "z"])(data, data).detail["structure"]
    assert same["same_first_split"] and same["shared_splits"] == 1.0 and same["importance_distance"] == 0.0
    assert same["original"]["leaves"] == len(same["original"]["split_columns"]) + 1


def test_a_generalized_release_is_tested_at_its_level() -> None:
    rng = np.random.default_rng(4)
    age = rng.integers(20, 60, 600)
    data = dc.Dataset(
        pl.DataFrame({"age": age, "c": np.where(age < 40, "young", "old")}),
        roles={"age": "quasi"},
        hierarchies={"age": dc.Hierarchy.intervals(width=10, levels=3)},
    )
    measure = dc.ClassificationUtility(target="c", features=["age"])
    assert measure(data, dc.Generalize(levels={"age": 1})(data)).value == 1.0
    assert measure(data, dc.Generalize(levels={"age": 3})(data)).value < 0.6


def test_a_synthetic_release_has_other_rows() -> None:
    data, other = ruled(400, 0), ruled(300, 1)
    score = dc.ClassificationUtility(target="c", features=["x", "z"], model="logit")(data, other)
    assert score.value > 0.95 and score.detail["held_out_by_person"] is False


def test_bad_input() -> None:
    data = ruled(30)
    with pytest.raises(dc.DataError, match="'c' is not a number in both"):
        dc.RegressionUtility(target="c", features=["x"])(data, data)
    with pytest.raises(dc.DataError, match="a value of its own in most of 30 rows"):
        dc.ClassificationUtility(target="v", features=["x"])(data, data)
    with pytest.raises(dc.DataError, match="constant"):
        flat = data.with_columns(pl.lit(1.0).alias("v"))
        dc.RegressionUtility(target="v", features=["x"])(flat, flat)
    with pytest.raises(dc.DataError, match="'v'"):
        dc.RegressionUtility(target="v", features=["x"])(data, data.drop("v"))
    with pytest.raises(dc.PlanError, match="a feature is named twice"):
        dc.RegressionUtility(target="v", features=["x", "x"])(data, data)
