"""Do a model of the original and a model of the release say the same? (DDMBAR)"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.learning.fitting import agreement, chance_agreement


def test_table_13() -> None:
    table = dc.datasets.tree_predictions().frame
    model = table["model"].to_numpy()
    assert agreement(model, table["mild_noise"].to_numpy()) == 7 / 8
    assert agreement(model, table["strong_noise"].to_numpy()) == 5 / 8


def test_chance_is_the_agreement_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.choice(["a", "b", "c"], 30, p=[0.6, 0.3, 0.1]), rng.choice(["a", "b"], 30)
    assert chance_agreement(one, two) == pytest.approx(np.mean(one[:, None] == two[None, :]))


def test_against_two_models_fitted_by_hand() -> None:
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(1)
    x = np.sort(rng.normal(size=200))
    y = x + rng.normal(size=200)
    x2, y2 = x + rng.normal(0, 0.7, 200), y + rng.normal(0, 0.7, 200)
    score = dc.ModelAgreement(target="y", features=["x"], model="linear", percent=20)(
        pl.DataFrame({"x": x, "y": y}), pl.DataFrame({"x": x2, "y": y2})
    )
    ours = LinearRegression().fit(x[:, None], y).predict(x[:, None])
    theirs = LinearRegression().fit(x2[:, None], y2).predict(x2[:, None])
    near = 0.2 * y.std(ddof=1)
    same = np.abs(ours - theirs) <= near
    assert score.value == same.mean()
    assert score.per_record is not None and score.per_record.tolist() == same.tolist()
    assert score.detail["chance"] == pytest.approx(np.mean(np.abs(ours[:, None] - theirs[None, :]) <= near))
    assert score.detail["agree_and_right"] == np.mean(same & (np.abs(ours - y) <= near) & (np.abs(theirs - y) <= near))


def test_a_model_that_learns_by_heart_gives_the_share_of_unchanged_values() -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"x": rng.normal(size=300), "y": rng.choice(["a", "b"], 300)})
    changed = frame.with_columns(pl.Series("y", np.where(rng.random(300) < 0.3, "c", frame["y"].to_numpy())))
    measure = dc.ModelAgreement(target="y", features=["x"], model="sklearn.tree:DecisionTreeClassifier")
    assert measure(frame, changed).value == (frame["y"] == changed["y"]).mean()


def test_models_of_the_original_itself_agree_always_and_of_destroyed_data_at_chance() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    frame = pl.DataFrame({"x": x, "y": np.where(x > 0, "a", "b")})
    measure = dc.ModelAgreement(target="y", features=["x"])
    assert measure(frame, frame).value == 1.0
    other = pl.DataFrame({"x": rng.normal(size=2000), "y": rng.permutation(frame["y"].to_list())})
    score = measure(frame, other, align="position")
    assert score.value == pytest.approx(score.detail["chance"], abs=0.04)
    assert score.detail["kappa"] == pytest.approx(0, abs=0.08)
