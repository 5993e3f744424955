from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.protect.randomized_response import estimate_shares


def test_two_coins_have_the_epsilon_and_probabilities_of_the_textbook() -> None:
    data = dc.Dataset(pl.DataFrame({"x": ["yes", "no"]}))
    decision = dc.RandomizedResponse(columns=["x"]).decide(data, dc.Context(1, "1"))
    assert decision["epsilon"] == decision["columns"]["x"]["epsilon"] == pytest.approx(math.log(3))
    assert decision["columns"]["x"]["matrix"] == [[0.75, 0.25], [0.25, 0.75]]


@pytest.mark.parametrize("truth", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("answers", [2, 3, 7])
def test_epsilon_is_the_largest_log_ratio_of_probabilities(truth: float, answers: int) -> None:
    method = dc.RandomizedResponse(columns=["x"], truth_share=truth, answers={"x": [f"a{i}" for i in range(answers)]})
    decision = method.decide(dc.Dataset(pl.DataFrame({"x": ["a0", "a1"]})), dc.Context(1, "1"))
    matrix = np.array(decision["columns"]["x"]["matrix"])
    ratios = np.log(matrix[:, None, :] / matrix[None, :, :])
    assert ratios.max() == pytest.approx(decision["epsilon"]) == pytest.approx(method.epsilon(answers))
    assert matrix.sum(axis=1) == pytest.approx(1)


def test_epsilons_of_several_columns_add_up() -> None:
    data = dc.Dataset(pl.DataFrame({"x": ["yes", "no"], "y": [True, False]}))
    decision = dc.RandomizedResponse(columns=["x", "y"]).decide(data, dc.Context(1, "1"))
    assert decision["epsilon"] == pytest.approx(2 * math.log(3))


def test_estimator_and_its_error_as_in_the_catalogue() -> None:
    # p = .3 and n = 1000: Y = .4, 2Y − ½ = .3, sd = 2·√(.24/1000) = .03098
    estimate = estimate_shares({"no": 600, "yes": 400})["yes"]
    assert estimate.share == pytest.approx(0.3)
    assert estimate.standard_error == pytest.approx(0.03098, abs=5e-6)
    assert estimate.answers == 1000


def test_estimates_of_all_answers_sum_to_one() -> None:
    estimates = estimate_shares({"a": 10, "b": 25, "c": 0}, truth_share=0.3)
    assert sum(e.share for e in estimates.values()) == pytest.approx(1)


def test_missing_answers_stay_missing_and_do_not_count() -> None:
    frame = pl.DataFrame({"x": ["yes", "no", None, "yes"] * 25})
    method = dc.RandomizedResponse(columns=["x"])
    released = method(frame, seed=1)
    assert released["x"].is_null().equals(frame["x"].is_null())
    assert method.estimate(released, "x")["yes"].answers == 75


def test_possible_answers_may_be_given() -> None:
    frame = pl.DataFrame({"x": [True] * 200})
    with pytest.raises(dc.DataError, match="fewer than two different answers"):
        dc.RandomizedResponse(columns=["x"])(frame)
    method = dc.RandomizedResponse(columns=["x"], answers={"x": [True, False]})
    released = method(frame, seed=1)
    assert released["x"].dtype == pl.Boolean and set(released["x"]) == {True, False}
    assert set(method.estimate(released, "x")) == {"true", "false"}


def test_bad_input_is_refused_in_words() -> None:
    for truth in (0, 1, -1, 2):
        with pytest.raises(dc.PlanError, match="truth_share"):
            dc.RandomizedResponse(truth_share=truth)
    with pytest.raises(dc.PlanError, match="at least two different answers"):
        dc.RandomizedResponse(answers={"x": ["a", "a"]})
    with pytest.raises(dc.DataError, match="'x': 1 values are not among its possible `answers`"):
        dc.RandomizedResponse(columns=["x"], answers={"x": ["a", "b"]})(pl.DataFrame({"x": ["a", "c"]}))
    with pytest.raises(dc.PlanError, match="truth_share between 0 and 1"):
        estimate_shares({"a": 1, "b": 1}, 0)
    with pytest.raises(dc.DataError, match="no answers"):
        estimate_shares({"a": 0, "b": 0})
    with pytest.raises(dc.DataError, match="unknown column 'y'"):
        dc.RandomizedResponse(columns=["x"]).estimate(pl.DataFrame({"x": ["a", "b"]}), "y")


def test_answers_of_a_column_that_is_not_changed_are_refused() -> None:
    data = pl.DataFrame({"vote": ["yes", "no"]})
    with pytest.raises(dc.PlanError, match="answers: unknown column 'vot'"):
        dc.RandomizedResponse(columns=["vote"], answers={"vot": ["yes", "no", "none"]})(data)
