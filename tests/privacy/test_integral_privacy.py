"""Integral privacy: recurrence by definition, a planted record is found, results on their grid."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsClassifier

import discretion as dc
from discretion.errors import DataError, Infeasible, PlanError


def test_the_share_is_that_of_all_samples_by_hand() -> None:
    """Ages 1, 2, 3, 6: of the six pairs the means are 1.5, 2, 3.5, 2.5, 4, 4.5; on whole tens all are 0 (worked)."""
    ages = pl.DataFrame({"age": [1.0, 2.0, 3.0, 6.0]})
    pairs = [float(np.mean(pair)) for pair in combinations([1, 2, 3, 6], 2)]
    assert sorted(pairs) == [1.5, 2.0, 2.5, 3.5, 4.0, 4.5]
    model = dc.IntegralPrivacy(result="mean", columns=["age"], grid={"age": 3}, samples=4000, max_excess=1)
    # all four: 3, on the grid of 3 one step; so are pairs from 1.5 (rounded to even: 0) above to 4.5 (even: 2)
    same = sum(round(pair / 3) == 1 for pair in pairs) / 6
    verdict = model(ages)
    assert verdict.value == pytest.approx(same, abs=0.03)
    assert verdict.detail["result"] == {"age": 3.0}


def test_a_planted_record_is_found() -> None:
    """One rich person decides whether the mean lies in one class or another: the record is in every such sample."""
    rng = np.random.default_rng(1)
    income = np.append(rng.normal(50, 5, 199), 3000.0)
    model = dc.IntegralPrivacy(result="mean", columns=["income"], grid={"income": 50}, samples=400, sample_share=0.5)
    verdict = model(pl.DataFrame({"income": income}))
    # with the person 80 (on the grid 100), without 50; all together 65 (50): only samples without the person give it
    assert not verdict.holds
    assert verdict.detail["record"] == 199
    assert verdict.detail["largest_excess"] == 0.5
    assert verdict.detail["excess_interval"][0] > 0.25
    assert [one["result"]["income"] for one in verdict.detail["most_recurrent"]] in ([50, 100], [100, 50])
    with pytest.raises(Infeasible):
        model.choose(pl.DataFrame({"income": income}))
    without = model(pl.DataFrame({"income": income[:199]}))
    assert without.holds
    assert without.value > 0.99


def test_excess_of_a_result_everybody_gives_is_that_of_chance() -> None:
    frame = pl.DataFrame({"x": np.linspace(0, 1, 100)})
    verdict = dc.IntegralPrivacy(result="median", columns=["x"], grid={"*": 10}, samples=500)(frame)
    low, high = verdict.detail["excess_interval"]
    assert verdict.value == 1
    assert low == 0 < verdict.detail["largest_excess"] < high < 0.15  # 500 draws at one half: sd .022
    assert verdict.holds


def test_correlations_are_those_of_every_pair_on_the_grid() -> None:
    a = np.random.default_rng(1).normal(size=200)
    frame = pl.DataFrame({"a": a, "b": a + np.random.default_rng(2).normal(size=200), "c": -a})
    model = dc.IntegralPrivacy(result="correlation", columns=["a", "b", "c"], grid={"*": 0.5}, samples=200)
    r = round(float(np.corrcoef(frame["a"], frame["b"])[0, 1]) / 0.5) * 0.5
    assert model(frame).detail["result"] == {"a, b": r, "a, c": -1.0, "b, c": -r}


def people(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 80, rows)
    ill = np.where(rng.random(rows) < np.where(age > 50, 0.9, 0.1), "yes", "no")
    return pl.DataFrame(
        {"age": age, "sex": rng.choice(["f", "m"], rows), "ill": ill, "cost": age * 10.0 + rng.normal(0, 5, rows)}
    )


def test_choose_gives_a_tree_on_its_grid() -> None:
    model = dc.IntegralPrivacy(
        result={"sklearn.tree:DecisionTreeClassifier": {"max_depth": 1}},
        columns=["age", "sex"], target="ill", grid={"age": 10}, samples=300,
    )  # fmt: skip
    chosen = model.choose(people(), seed=1)
    assert chosen.result == {"age <= 50": "no", "age > 50": "yes"}
    assert chosen.verdict.holds
    assert chosen.share == chosen.verdict.value > 0.9
    assert chosen.accuracy == pytest.approx(0.9, abs=0.05)
    assert sum(one["share"] for one in chosen.recurrent) <= 1


def test_a_deep_tree_recurs_nowhere() -> None:
    model = dc.IntegralPrivacy(result="tree", columns=["age"], target="cost", grid={"age": 1, "cost": 1}, samples=50)
    verdict = model(people())
    assert not verdict.holds
    assert verdict.detail["different_results"] > 40
    with pytest.raises(Infeasible, match="coarser `grid`"):
        model.choose(people())


def test_linear_coefficients_and_predictions_at_points() -> None:
    frame = people()
    linear = dc.IntegralPrivacy(
        result="linear", columns=["age"], target="cost", grid={"age": 1, "cost": 20}, samples=300
    )
    assert linear.choose(frame).result == [{"(intercept)": 0.0, "age": 10.0}]
    logit = dc.IntegralPrivacy(
        result="logit", columns=["age"], target="ill", grid={"age": 0.2, "ill": 10}, samples=200, max_excess=0.4
    )
    assert logit.choose(frame).result == [{"(intercept)": -10.0, "age": pytest.approx(0.2)}]  # in units of age
    nearest = KNeighborsClassifier(n_neighbors=25)
    with pytest.raises(PlanError, match="points"):
        dc.IntegralPrivacy(result=nearest, columns=["age"], target="ill", samples=20)(frame)
    asked = dc.IntegralPrivacy(result=nearest, columns=["age"], target="ill", points={"age": (25, 75)}, samples=300)
    assert asked.choose(frame).result == ["no", "yes"]


def test_the_most_accurate_of_the_recurrent_results_is_chosen() -> None:
    """Full mean 10.6; steps of 1: 11 and 10 both recur, 11 is nearer."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 6, 200)
    frame = pl.DataFrame({"x": x - x.mean() + 10.6})
    model = dc.IntegralPrivacy(result="mean", columns=["x"], grid={"x": 1}, samples=3000)
    chosen = model.choose(frame)
    assert len(chosen.recurrent) >= 2
    assert chosen.result == {"x": 11.0}
    assert chosen.accuracy == 0


@pytest.mark.parametrize(
    ("fields", "phrase"),
    [
        ({"result": "mean"}, "`columns` are needed"),
        ({"result": "tree", "columns": ["a"]}, "needs a `target`"),
        ({"result": "correlation", "columns": ["a"]}, "two columns"),
        ({"result": "mean", "columns": ["a"], "grid": {"a": 0}}, "larger than 0"),
        ({"result": "nearest", "columns": ["a", "b"], "target": "c", "points": {"a": [1]}}, "every one of"),
        ({"result": "modus", "columns": ["a"]}, "unknown model"),
    ],
)
def test_settings_that_make_no_sense(fields: dict[str, object], phrase: str) -> None:
    with pytest.raises(PlanError, match=phrase):
        dc.IntegralPrivacy(**fields)


def test_data_that_cannot_be_judged() -> None:
    with pytest.raises(PlanError, match="give the step"):
        dc.IntegralPrivacy(result="mean", columns=["x"])(pl.DataFrame({"x": [1.0] * 10}))
    with pytest.raises(DataError, match="too few"):
        dc.IntegralPrivacy(result="mean", columns=["x"], grid={"x": 1})(pl.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(DataError, match="no values"):
        dc.IntegralPrivacy(result="mean", columns=["x"], grid={"x": 1})(
            pl.DataFrame({"x": [None] * 9}, schema={"x": pl.Float64})
        )
