"""Numbers too large for their squares are refused as infinity is, before any part computes nonsense from them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.native import LARGEST
from discretion.errors import DataError
from discretion.method import Method

METHODS = [
    dc.AdditiveNoise(columns=["a"], sd_share=0.1),
    dc.CorrelatedNoise(columns=["a", "b"], variance_share=0.1),
    dc.MultiplicativeNoise(columns=["a"], sd=0.1),
    dc.OptimalMicroaggregation(columns=["a"], k=3),
    dc.Mdav(columns=["a", "b"], k=3),
    dc.RankSwap(columns=["a"], percent=10),
    dc.Round(columns=["a"], base=10),
    dc.Shuffle(columns=["a"], predictors=["b"]),
    dc.Mondrian(columns=["a", "b"], k=3),
]


def spoiled(*values: float, rows: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    a = rng.normal(100, 10, rows)
    a[: len(values)] = values
    return pl.DataFrame({"a": a, "b": rng.normal(50, 5, rows)})


@pytest.mark.parametrize("value", [1e155, -1e155, 8.98846567431158e307, 2 * LARGEST])
def test_a_number_beyond_the_limit_is_refused_with_column_count_and_hint(value: float) -> None:
    with pytest.raises(DataError, match=r"beyond ±1e\+150 in 'a' \(2\).*missing code") as caught:
        dc.Dataset(spoiled(value, 7.0, value))
    assert "e+155" not in str(caught.value) and "8.98" not in str(caught.value)


def test_infinity_and_huge_numbers_are_told_apart() -> None:
    frame = pl.DataFrame({"a": [1.0, math.inf, 1e200], "b": [math.nan, None, -1e151], "c": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match=r"infinite values in 'a' \(1\)") as caught:
        dc.Dataset(frame)
    assert "beyond ±1e+150 in 'a' (1), 'b' (1)" in str(caught.value) and "'c'" not in str(caught.value)


def test_a_declared_missing_code_is_no_number() -> None:
    data = dc.Dataset(spoiled(1e300), missing_codes={"a": [1e300]})
    assert data.count_missing("a") == 1


def test_no_values_and_whole_numbers_pass() -> None:
    assert len(dc.Dataset(pl.DataFrame({"a": pl.Series([], dtype=pl.Float64)}))) == 0
    assert len(dc.Dataset(pl.DataFrame({"a": [None, math.nan], "b": [2**63 - 1, -(2**63)]}))) == 2


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_methods_refuse_huge_numbers(method: Method) -> None:
    with pytest.raises(DataError, match=r"'a' \(1\)"):
        method(spoiled(1e160), seed=1)


def test_measures_refuse_huge_numbers() -> None:
    frame = spoiled(1e155)
    for measure in (dc.DistanceLinkage(columns=["a"]), dc.Il1s(columns=["a"]), dc.Mse(columns=["a"])):
        with pytest.raises(DataError, match=r"'a' \(1\)"):
            measure(frame, frame)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_methods_give_finite_numbers_up_to_the_limit(method: Method) -> None:
    released = method(spoiled(LARGEST, -LARGEST), seed=1)
    for column in released:
        assert column.null_count() == 0
        if column.dtype.is_float():
            assert column.is_finite().all()


def test_linkage_finds_every_record_among_numbers_at_the_limit() -> None:
    frame = pl.DataFrame({"a": np.linspace(-LARGEST, LARGEST, 50)})
    assert dc.DistanceLinkage(columns=["a"])(frame, frame).value == 1.0
