from __future__ import annotations

import datetime as dt
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.kernels.pram import alias_tables, move
from discretion.method import Decision
from discretion.protect.pram import (
    estimate_errors,
    estimate_frequencies,
    estimate_shares,
    invariant_matrix,
    keeping_matrix,
)

counts_of = st.lists(st.integers(1, 10_000), min_size=2, max_size=12)
shares = st.floats(0, 0.99)


@settings(max_examples=100, deadline=None)
@given(counts=counts_of, keep=shares, proportional=st.booleans())
def test_built_matrices_have_rows_that_sum_to_one(counts: list[int], keep: float, proportional: bool) -> None:
    matrix = keeping_matrix(len(counts), keep, counts if proportional else None)
    assert matrix.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert np.diag(matrix) == pytest.approx(keep)
    assert matrix.min() >= 0
    off = matrix[0, 1:] / matrix[0, 1:].sum()
    weights = np.array(counts[1:]) if proportional else np.ones(len(counts) - 1)
    assert off == pytest.approx(weights / weights.sum())


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(0, 10_000), min_size=2, max_size=12), keep=shares, seed=st.integers(0, 99))
def test_invariant_matrices_keep_the_frequencies_exactly(counts: list[int], keep: float, seed: int) -> None:
    size = len(counts)
    t = np.array(counts, dtype=float)
    for matrix in (keeping_matrix(size, keep), np.random.default_rng(seed).dirichlet(np.full(size, 0.3), size)):
        changed = invariant_matrix(matrix, t)
        assert changed.sum(axis=1) == pytest.approx(1, abs=1e-12)
        assert t @ changed == pytest.approx(t, rel=1e-12, abs=1e-9)
        assert changed.min() >= 0


def test_invariant_matrix_by_hand() -> None:
    # P keeps ¾; t = (3, 1): arriving 2.5 and 1.5; Q = [[.9, .1], [.5, .5]]; R = PQ
    changed = invariant_matrix([[0.75, 0.25], [0.25, 0.75]], [3, 1])
    assert changed == pytest.approx(np.array([[0.8, 0.2], [0.6, 0.4]]))


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 9), seed=st.integers(0, 999), zeros=st.floats(0, 0.8))
def test_alias_tables_hold_the_probabilities(size: int, seed: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.random((size, size)) * (rng.random((size, size)) >= zeros) + np.eye(size) * 0.01
    matrix /= matrix.sum(axis=1, keepdims=True)
    tables = alias_tables(matrix)
    got = np.zeros((size + 1, size + 1))
    for row, (bounds, options) in enumerate(
        zip(tables.bounds.reshape(-1, size), tables.options.reshape(-1, size, 2), strict=True)
    ):
        np.add.at(got[row], options[:, 0], bounds / size)
        np.add.at(got[row], options[:, 1], (1 - bounds) / size)
    assert got[:size, :size] == pytest.approx(matrix, abs=1e-12)
    codes = rng.integers(0, size + 1, 200)
    out = np.empty(200, np.uint32)
    move(codes, rng.random(200), tables, out)
    assert (out[codes == size] == size).all()
    known = codes < size
    assert (matrix[codes[known], out[known]] > 0).all()


def test_kernel_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="square"):
        alias_tables(np.ones((2, 3)) / 3)
    with pytest.raises(ValueError, match="sum to one"):
        alias_tables([[0.5, 0.4], [0.5, 0.5]])
    tables = alias_tables(np.eye(2))
    with pytest.raises(ValueError, match="do not fit"):
        move(np.zeros(3, np.int32), np.zeros(2), tables, np.zeros(3, np.uint32))
    with pytest.raises(ValueError, match="outside 0 … 2"):
        move(np.array([3]), np.zeros(1), tables, np.zeros(1, np.uint32))


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("x", ["a", "b", None, "c"], dtype=pl.String),
        pl.Series("x", ["a", "b", None, "c"], dtype=pl.Categorical),
        pl.Series("x", ["a", "b", None, "c"], dtype=pl.Enum(["c", "b", "a", "z"])),
        pl.Series("x", [True, False, None, True]),
        pl.Series("x", [10, 20, None, 30], dtype=pl.Int16),
        pl.Series("x", [1.5, 2.0, None, 3.0]),
        pl.Series("x", [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None, dt.date(2022, 1, 1)]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_types_are_kept_and_missing_stays_missing(values: pl.Series) -> None:
    frame = pl.concat([values] * 50).to_frame()
    moved = dc.Pram(columns=["x"], keep_share=0.3)(frame, seed=1)["x"]
    assert moved.dtype == values.dtype
    assert moved.is_null().equals(frame["x"].is_null())
    assert set(moved.to_list()) == set(frame["x"].to_list())
    assert not moved.equals(frame["x"])


def test_a_given_matrix_is_followed() -> None:
    frame = pl.DataFrame({"x": ["a", "b", "c"] * 100})
    cycle = {"x": {"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}}}
    assert dc.Pram(matrix=cycle)(frame, seed=1)["x"].to_list() == ["b", "c", "a"] * 100


def test_a_matrix_may_lead_to_categories_that_do_not_occur() -> None:
    rows = {1: {2: 0.5, 3: 0.5}, 2: {2: 1}, 3: {3: 1}}
    moved = dc.Pram(matrix={"x": rows})(pl.DataFrame({"x": pl.Series([1] * 50, dtype=pl.Int8)}), seed=1)["x"]
    assert set(moved) == {2, 3} and moved.dtype == pl.Int8
    flags = dc.Pram(matrix={"x": {True: {False: 1}, False: {True: 1}}})(pl.DataFrame({"x": [True, True]}))
    assert flags["x"].to_list() == [False, False]
    with pytest.raises(dc.DataError, match="cannot hold every category"):
        dc.Pram(matrix={"x": {1: {"many": 1}, "many": {"many": 1}}})(pl.DataFrame({"x": [1, 1]}))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ({"x": {"a": {"a": 0.5}}}, "the row of 'a' sums to 0.5"),
        ({"x": {"a": {"a": 1.5, "b": -0.5}, "b": {"b": 1}}}, "outside 0 to 1"),
        ({"x": {"a": {"b": 1}}}, "'b' can be moved to, but has no row"),
        ({"x": {}}, "a row for each category"),
        ({}, "at least one column"),
        ({"x": {"a": {"a": "much"}}}, "matrix.x.a.a"),
    ],
)
def test_bad_matrices_are_refused(matrix: object, message: str) -> None:
    with pytest.raises(dc.PlanError, match=message):
        dc.Pram(matrix=matrix)


def test_bad_fields_are_refused() -> None:
    for fields in ({}, {"keep_share": 0.5, "matrix": {"x": {"a": {"a": 1}}}}):
        with pytest.raises(dc.PlanError, match="exactly one of `keep_share` and `matrix`"):
            dc.Pram(**fields)
    for keep in (-0.1, 1, 1.5):
        with pytest.raises(dc.PlanError, match="keep_share"):
            dc.Pram(keep_share=keep)
    with pytest.raises(dc.PlanError, match="no entry for column 'y'"):
        dc.Pram(columns=["x", "y"], matrix={"x": {"a": {"a": 1}}})


def test_bad_data_is_refused_in_words() -> None:
    people = dc.datasets.census(1500, seed=1)
    with pytest.raises(dc.DataError, match="'diagnoses' holds sets"):
        dc.Pram(columns=["diagnoses"], keep_share=0.5)(people)
    with pytest.raises(dc.DataError, match=r"'name' has 1\d\d\d different values"):
        dc.Pram(columns=["name"], keep_share=0.5)(people)
    with pytest.raises(dc.PlanError, match="give `columns`"):
        dc.Pram(keep_share=0.5)(pl.DataFrame({"x": ["a"]}))
    with pytest.raises(dc.DataError, match="'x': 2 values are of categories that `matrix` has no row for"):
        dc.Pram(matrix={"x": {"a": {"a": 1}}})(pl.DataFrame({"x": ["a", "b", "b"]}))


def test_default_columns_are_the_categorical_quasi_and_sensitive_ones() -> None:
    people = dc.datasets.census(500, seed=1)
    decision = dc.Pram(keep_share=0.5).decide(people, dc.Context(1, "1"))
    assert set(decision["columns"]) == {
        "region", "municipality", "sex", "marital_status", "education", "occupation",
    }  # fmt: skip


def test_decision_is_reused_on_the_next_delivery() -> None:
    first = pl.DataFrame({"x": ["a", "b", "c"] * 50})
    method, ctx = dc.Pram(columns=["x"], keep_share=0.5, invariant=True), dc.Context(1, "1")
    decision = Decision.from_json(method.decide(dc.Dataset(first), ctx).to_json())
    known = decision["columns"]["x"]
    assert known["categories"] == ["a", "b", "c"]
    assert np.array([50.0, 50, 50]) @ np.array(known["matrix"]) == pytest.approx([50, 50, 50])
    again = method.perform(dc.Dataset(pl.DataFrame({"x": ["b"] * 100})), decision, ctx)
    assert set(again.frame["x"]) == {"a", "b", "c"}
    with pytest.raises(dc.DataError, match="'x': 1 values are of categories without probabilities"):
        method.perform(dc.Dataset(pl.DataFrame({"x": ["a", "d"]})), decision, ctx)


def test_each_stratum_has_its_own_matrix() -> None:
    frame = pl.DataFrame({"g": ["u", "v"] * 100, "x": ["a", "c", "b", "d"] * 50})
    moved = dc.Pram(columns=["x"], keep_share=0.2, by=["g"])(frame, seed=1)
    assert set(moved.filter(pl.col("g") == "u")["x"]) == {"a", "b"}
    assert set(moved.filter(pl.col("g") == "v")["x"]) == {"c", "d"}


def test_one_category_cannot_move() -> None:
    frame = pl.DataFrame({"x": ["a", None, "a"]})
    assert dc.Pram(columns=["x"], keep_share=0)(frame, seed=1).equals(frame)


def test_order_of_codes_does_not_matter() -> None:
    texts = ["b", "a", "c"] * 40
    wanted = dc.Pram(columns=["x"], keep_share=0.4)(pl.DataFrame({"x": texts}), seed=3)["x"].to_list()
    odd = pl.DataFrame({"x": pl.Series(texts, dtype=pl.Enum(["c", "unused", "a", "b"]))})
    assert dc.Pram(columns=["x"], keep_share=0.4)(odd, seed=3)["x"].to_list() == wanted


def test_estimates_undo_the_expected_moves() -> None:
    matrix = keeping_matrix(4, 0.6, [5, 3, 1, 1])
    true = np.array([500.0, 300, 150, 50])
    assert estimate_frequencies(true @ matrix, matrix) == pytest.approx(true)
    assert estimate_errors(true @ matrix, np.eye(4)) == pytest.approx(0, abs=1e-9)
    with pytest.raises(dc.DataError, match="cannot be inverted"):
        estimate_frequencies(true, np.full((4, 4), 0.25))
    with pytest.raises(dc.PlanError, match="as many rows as columns"):
        estimate_frequencies(true, np.ones((4, 3)))


def test_strengths_are_confidential() -> None:
    method = dc.Pram(columns=["x"], matrix={"x": {"a": {"a": 0.0731, "b": 0.9269}, "b": {"b": 1}}}, invariant=True)
    assert method.settings(public=True) == {"columns": ["x"], "invariant": True}
    assert "0.0731" not in str(dc.Pram(keep_share=0.0731).settings(public=True))


def test_it_can_be_cancelled() -> None:
    def impatient(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("enough")

    with pytest.raises(dc.Cancelled):
        dc.Pram(columns=["x"], keep_share=0.5)(pl.DataFrame({"x": ["a", "b"]}), progress=impatient)


def test_categories_that_do_not_occur_take_the_type_of_the_column() -> None:
    moves = {"x": {"2000-01-01": {"2001-01-01": 1}, "2001-01-01": {"2000-01-01": 1}}}
    days = pl.DataFrame({"x": pl.Series(["2000-01-01", None]).str.to_date()})
    moved = dc.Pram(matrix=moves)(days, seed=1)["x"]
    assert moved.dtype == pl.Date and moved.cast(pl.String).to_list() == ["2001-01-01", None]


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
