from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.protect.noise import _truncated_mean

FRAME = pl.DataFrame({"x": np.linspace(0, 10, 101), "n": np.arange(101), "c": ["a"] * 101})


@pytest.mark.parametrize("fields", [{}, {"variance_share": 0.1, "sd_share": 0.1}])
def test_exactly_one_strength(fields: dict[str, float]) -> None:
    with pytest.raises(dc.PlanError, match="exactly one of `variance_share` and `sd_share`"):
        dc.AdditiveNoise(columns=["x"], **fields)


@pytest.mark.parametrize("strength", [0, -0.1, float("inf"), float("nan")])
def test_strength_must_be_positive_and_finite(strength: float) -> None:
    with pytest.raises(dc.PlanError, match="sd_share"):
        dc.AdditiveNoise(columns=["x"], sd_share=strength)


def test_sd_is_taken_with_n_minus_1_and_variance_with_n() -> None:
    x = FRAME["x"].to_numpy()
    by_sd = dc.AdditiveNoise(columns=["x"], sd_share=0.5).decide(dc.Dataset(FRAME), dc.Context(0, "1"))
    by_variance = dc.AdditiveNoise(columns=["x"], variance_share=0.25).decide(dc.Dataset(FRAME), dc.Context(0, "1"))
    assert by_sd["sd"] == pytest.approx([0.5 * x.std(ddof=1)])
    assert by_variance["sd"] == pytest.approx([0.5 * x.std()])


def test_whole_numbers_stay_whole_unless_all_digits_are_asked_for() -> None:
    rounded, exact = (dc.AdditiveNoise(columns=["n"], sd_share=0.2, precision=p) for p in ("original", "full"))
    noisy, full = (method.apply(dc.Dataset(FRAME), Context(1, "same")).frame for method in (rounded, exact))
    assert noisy.schema["n"] == pl.Int64 == dc.AdditiveNoise(columns=["n"], sd_share=0.2)(FRAME, seed=1).schema["n"]
    assert full.schema["n"] == pl.Float64 and (full["n"].round().cast(pl.Int64) == noisy["n"]).all()


def test_float32_stays_float32() -> None:
    data = FRAME.with_columns(pl.col("x").cast(pl.Float32))
    assert dc.AdditiveNoise(columns=["x"], sd_share=0.2)(data, seed=1).schema["x"] == pl.Float32


def test_column_by_column_missing_values_do_not_spread() -> None:
    holes = FRAME.with_columns(pl.when(pl.col("n") < 50).then(None).otherwise(pl.col("x")).alias("x"))
    noisy = dc.CorrelatedNoise(columns=["x", "n"], variance_share=0.1)(holes, seed=1)
    assert noisy["x"].null_count() == 50
    assert noisy["n"].null_count() == 0


def test_batches_do_not_depend_on_the_number_of_rows() -> None:
    """A prefix of whole batches gets the same noise: engines may cut the data at batch bounds."""
    from discretion.context import BATCH_ROWS

    rng = np.random.default_rng(0)
    long = rng.normal(size=2 * BATCH_ROWS + 10)
    draws = [b.rng.standard_normal(3) for b in dc.Context(1, "s").batches(len(long))]
    again = [b.rng.standard_normal(3) for b in dc.Context(1, "s").batches(BATCH_ROWS)]
    assert np.array_equal(draws[0], again[0])
    assert len(draws) == 3 and not np.array_equal(draws[0], draws[1])


def test_text_column_is_named() -> None:
    with pytest.raises(dc.DataError, match="column 'c' is text; a numeric column is needed"):
        dc.AdditiveNoise(columns=["c"], sd_share=0.1)(FRAME)


def test_constant_column_is_named() -> None:
    with pytest.raises(dc.DataError, match="column 'x' is constant"):
        dc.MultiplicativeNoise(columns=["x"], sd=0.1)(FRAME.with_columns(pl.lit(3.0).alias("x")))


def test_multiplicative_noise_keeps_signs_and_zeros() -> None:
    data = pl.DataFrame({"x": np.r_[np.zeros(50), -np.arange(1.0, 51), np.arange(1.0, 51)]})
    for distribution in ("normal", "lognormal"):
        fields = {"columns": ["x"], "sd": 0.9, "distribution": distribution}
        before = np.sign(data["x"].to_numpy())
        for exact in ({"precision": "full"}, {"keep_sign": True}):
            assert (np.sign(dc.MultiplicativeNoise(**fields, **exact)(data, seed=2)["x"].to_numpy()) == before).all()
        rounded = np.sign(dc.MultiplicativeNoise(**fields)(data, seed=2)["x"].to_numpy())
        assert ((rounded == before) | (rounded == 0)).all(), "a small value may be rounded to zero, none turns"


def test_truncated_mean_against_numbers() -> None:
    z = np.random.default_rng(1).normal(1, 0.8, 2_000_000)
    assert _truncated_mean(0.8) == pytest.approx(z[z >= 0].mean(), abs=2e-3)
    assert _truncated_mean(0.1) == pytest.approx(1.0)
    assert math.isfinite(_truncated_mean(1.0))
