from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm, rankdata

import discretion as dc
from discretion.protect.shuffle import normal_scores


def test_normal_scores_of_ranks_with_ties_and_gaps() -> None:
    x = np.array([3.0, 1.0, np.nan, 3.0, 7.0])
    present = ~np.isnan(x)
    want = norm.ppf((rankdata(x[present]) - 0.5) / 4)
    got = normal_scores(x)
    assert np.isnan(got[2]) and got[present] == pytest.approx(want)
    assert np.isnan(normal_scores(np.array([np.nan]))).all()


def test_every_column_keeps_its_values_and_gaps() -> None:
    people = dc.datasets.census(3000, seed=1)
    columns = ["age", "income", "savings", "hours"]
    shuffled = dc.Shuffle(columns=columns, predictors=["education", "occupation", "birth_date"])(people, seed=3)
    for name in columns:
        before, after = people.frame[name], shuffled.frame[name]
        assert after.dtype == before.dtype
        assert after.is_null().equals(before.is_null())
        assert after.sort().equals(before.sort())
        assert (after == before).mean() < 0.5  # type: ignore[operator]
    assert shuffled.frame.drop(columns).equals(people.frame.drop(columns))


def test_ordinal_columns_and_dates_can_be_shuffled() -> None:
    people = dc.datasets.census(2000, seed=1)
    shuffled = dc.Shuffle(columns=["education", "birth_date"], predictors=["income", "sex"])(people, seed=3)
    for name in ("education", "birth_date"):
        assert shuffled.frame[name].sort().equals(people.frame[name].sort())
        assert shuffled.frame[name].dtype == people.frame[name].dtype
    grades = pl.Enum(["low", "mid", "high"])
    frame = pl.DataFrame({"g": pl.Series(["low", "mid", "high"] * 40, dtype=grades), "x": range(120)})
    assert dc.Shuffle(columns=["g"], predictors=["x"])(frame, seed=1)["g"].sort().equals(frame["g"].sort())


def test_a_perfect_predictor_gives_the_ranks_away() -> None:
    x = np.random.default_rng(1).permutation(500).astype(float)
    frame = pl.DataFrame({"x": x, "y": np.exp(x / 50)})
    shuffled = dc.Shuffle(columns=["y"], predictors=["x"])(frame, seed=1)
    assert np.corrcoef(rankdata(shuffled["y"]), rankdata(x))[0, 1] > 0.9999


def test_default_predictors_are_the_other_quasi_identifiers() -> None:
    people = dc.datasets.census(1000, seed=1)
    named = dc.Shuffle(
        columns=["income"],
        predictors=[
            "region", "municipality", "age", "sex", "marital_status", "education", "occupation", "birth_date",
        ],
    )  # fmt: skip
    same = dc.Context(1, "1")
    assert dc.Shuffle(columns=["income"]).apply(people, same).frame.equals(named.apply(people, same).frame)


def test_bad_input_is_refused_in_words() -> None:
    people = dc.datasets.census(300, seed=1)
    with pytest.raises(dc.PlanError, match="'age' stands both"):
        dc.Shuffle(columns=["age"], predictors=["age"])(people)
    with pytest.raises(dc.PlanError, match="give `predictors`"):
        dc.Shuffle(columns=["age"])(people.frame)
    with pytest.raises(dc.DataError, match="column 'sex' is nominal"):
        dc.Shuffle(columns=["sex"], predictors=["age"])(people)
    with pytest.raises(dc.DataError, match="'diagnoses' holds sets"):
        dc.Shuffle(columns=["income"], predictors=["diagnoses"])(people)
    with pytest.raises(dc.DataError, match="'name' holds sets or more than 200 categories"):
        dc.Shuffle(columns=["income"], predictors=["name"])(people)
    with pytest.raises(dc.DataError, match="3 complete records are too few"):
        dc.Shuffle(columns=["x"], predictors=["y"])(pl.DataFrame({"x": [1, 2, 3], "y": [2, 1, 3]}))
    dates = pl.DataFrame({"d": [dt.date(2020, 1, 1)] * 9, "y": range(9)})
    with pytest.raises(dc.DataError, match="'d' is constant"):
        dc.Shuffle(columns=["d"], predictors=["y"])(dates)
