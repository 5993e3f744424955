"""A model is named in a plan without giving the plan the power to run code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

import discretion as dc
from discretion.learning.fitting import IN_MEMORY, Model, accept_model, names_for
from discretion.part import parse

TREE = "sklearn.tree:DecisionTreeClassifier"


def through_yaml(model: object) -> dc.Measure:
    made = dc.ClassificationUtility(target="y", model=model)
    again = parse(yaml.safe_load(yaml.safe_dump(made.to_plan())))
    assert again == made
    assert isinstance(again, dc.Measure)
    return again


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_named_models_fit_their_task(task: Any) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = (x[:, 0] > 0).astype(int)
    for name in names_for(task):
        made = Model(name).build(task, 3).fit(x, y)
        assert made.predict(x).shape == (60,)


@pytest.mark.parametrize(
    "model",
    ["forest", TREE, {TREE: {"max_depth": 3, "criterion": "entropy"}}, {"sklearn.svm:SVC": {"C": 10, "kernel": "rbf"}}],
)
def test_survives_yaml(model: object) -> None:
    assert through_yaml(model).model.build("classification") is not None  # type: ignore[attr-defined]


def test_an_estimator_object_is_written_as_path_and_parameters() -> None:
    from sklearn.tree import DecisionTreeClassifier

    again = through_yaml(DecisionTreeClassifier(max_depth=2, random_state=5))
    assert again.to_plan() == {"classification-utility": {"target": "y", "model": {TREE: {"max_depth": 2}}}}
    assert through_yaml(DecisionTreeClassifier()).to_plan()["classification-utility"]["model"] == TREE


def test_a_pipeline_with_nested_models_survives_yaml() -> None:
    from sklearn.ensemble import BaggingClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    pipeline = Pipeline(
        [("scale", StandardScaler()), ("bag", BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3))]
    )
    built = through_yaml(pipeline).model.build("classification", 7)  # type: ignore[attr-defined]
    assert built.get_params()["bag__estimator__max_depth"] == 2
    assert built.get_params()["bag__random_state"] == built.get_params()["bag__estimator__random_state"] == 7
    x = np.random.default_rng(0).normal(size=(30, 2))
    built.fit(x, x[:, 0] > 0)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("os:system", "unknown model"),
        ("subprocess:Popen", "unknown model"),
        ("trre", "did you mean 'tree'"),
        ("sklearn.datasets:load_iris", "not an estimator"),
        ("sklearn.tree:Nothing", "no class"),
        ("sklearn.nothing:Nothing", "no class"),
        ({TREE: {"max_dept": 3}}, "did you mean 'max_depth'"),
        ({"sklearn.pipeline:Pipeline": {"steps": [], "memory": "/tmp/x"}}, "reads or writes files"),
        ({"tree": {"max_depth": 3}}, "takes no parameters"),
        ({TREE: 3}, "mapping of parameters"),
        ({"a": {}, "b": {}}, "one model"),
        (7, "expected one of"),
        (IN_MEMORY, "in memory"),
    ],
)
def test_refusals(model: object, words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.ClassificationUtility(target="y", model=model)


def test_the_task_must_fit() -> None:
    frame = {"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "y": [1.0, 2.0, 4.0, 3.0, 5.0, 7.0], "c": list("ababab")}
    import polars as pl

    data = pl.DataFrame(frame)
    with pytest.raises(dc.PlanError, match=r"'logit' is not a model for regression; named ones: .*linear"):
        dc.RegressionUtility(target="y", features=["x"], model="logit", folds=2)(data, data)
    with pytest.raises(dc.PlanError, match="LinearRegression is not a model for classification"):
        dc.ClassificationUtility(target="c", features=["x"], model="sklearn.linear_model:LinearRegression")(data, data)
    with pytest.raises(dc.PlanError, match="for classification"):
        dc.ModelDisclosure(target="c", features=["x"], model="linear", folds=2)(data, data)
    with pytest.raises(dc.PlanError, match="cannot be fitted"):
        wrong = {TREE: {"max_depth": -4}}
        dc.ClassificationUtility(target="c", features=["x"], model=wrong, folds=2)(data, data)


def test_an_estimator_from_elsewhere_works_but_cannot_stand_in_a_plan() -> None:
    from sklearn.base import BaseEstimator, ClassifierMixin

    class First(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, x: np.ndarray, y: np.ndarray) -> First:
            self.classes_ = np.unique(y)
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.full(len(x), self.classes_[0])

    import polars as pl

    data = pl.DataFrame({"x": range(10), "y": list("aaaaaabbbb")})
    measure = dc.ClassificationUtility(target="y", features=["x"], model=First(), folds=2)
    assert measure(data, data).value == 0.6
    assert measure.to_plan()["classification-utility"]["model"] == IN_MEMORY


def test_later_changes_of_the_object_do_not_reach_the_measure() -> None:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=2)
    model = accept_model(tree)
    tree.set_params(max_depth=9)
    assert model.build("classification").max_depth == 2


def test_installed_packages_can_offer_models(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    point = metadata.EntryPoint("house-tree", "sklearn.tree:DecisionTreeClassifier", "discretion.estimators")
    known = metadata.entry_points
    monkeypatch.setattr(
        metadata, "entry_points", lambda **select: [point] if select == {"group": point.group} else known(**select)
    )
    assert through_yaml("house-tree").model.title == "house-tree"  # type: ignore[attr-defined]
    built = through_yaml({"house-tree": {"max_depth": 2}}).model.build("classification")  # type: ignore[attr-defined]
    assert built.max_depth == 2
