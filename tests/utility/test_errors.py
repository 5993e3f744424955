from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc

X = pl.DataFrame({"a": [1.0, 2.0, 4.0, 0.0], "b": [3.0, 1.0, None, 5.0]})
Y = pl.DataFrame({"a": [1.0, 3.0, 2.0, 1.0], "b": [3.0, None, 7.0, 4.0]})


def test_missing_values_are_left_out_and_counted() -> None:
    score = dc.Mae(columns=["a", "b"])(X, Y)
    assert score.value == pytest.approx((0 + 1 + 2 + 1 + 0 + 1) / 6)
    assert score.detail["values_missing"] == 2


def test_relative_error_leaves_out_zeros_and_says_how_many() -> None:
    score = dc.Mre(columns=["a"])(X, Y)
    assert score.value == pytest.approx((0 + 1 / 2 + 2 / 4) / 3)
    assert score.detail["zeros_left_out"] == 1
    with pytest.raises(dc.DataError, match="every original value is zero"):
        dc.Mre(columns=["a"])(pl.DataFrame({"a": [0.0, 0.0]}), pl.DataFrame({"a": [0.0, 1.0]}))


def test_il1s_is_a_sum_over_records_and_columns() -> None:
    x = np.random.default_rng(1).normal(size=(50, 2))
    y = x + 0.3
    want = sum((np.abs(x[:, j] - y[:, j]) / (math.sqrt(2) * x[:, j].std(ddof=1))).sum() for j in (0, 1))
    frames = [pl.DataFrame(z, schema=["a", "b"]) for z in (x, y)]
    score = dc.Il1s(columns=["a", "b"])(*frames)
    assert score.value == pytest.approx(want)
    assert score.detail["mean"] == pytest.approx(want / 100)


def test_constant_columns_are_named() -> None:
    flat = pl.DataFrame({"a": [1.0, 1.0], "b": [1.0, 2.0]})
    with pytest.raises(dc.DataError, match="column 'a' is constant"):
        dc.Il1s(columns=["a", "b"])(flat, flat)
    with pytest.raises(dc.DataError, match="column 'a' is constant; it has no correlation"):
        dc.Mse(columns=["a", "b"], on="correlation")(flat, flat)


def test_default_columns_are_numbers_in_both() -> None:
    roles = {"id": "identifier", "w": "weight", "a": "sensitive", "t": "quasi"}
    data = dc.Dataset(pl.DataFrame({"id": [1, 2], "w": [1.0, 9.0], "a": [1.0, 2.0], "t": [1, 2]}), roles=roles)
    recoded = dc.Recode(column="t", width=5)(data).with_columns({"w": [5.0, 5.0], "a": [2.0, 3.0]})
    assert dc.Mae()(data, recoded).value == 1.0


def test_sse_share_of_total() -> None:
    x = pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    mean = pl.DataFrame({"a": [2.5] * 4})
    score = dc.Sse(columns=["a"])(x, mean)
    assert score.value == pytest.approx(5.0)
    assert score.detail["share_of_total"] == pytest.approx(1.0)
