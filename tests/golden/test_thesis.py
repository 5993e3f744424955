"""The table of the source thesis on the ages of the Titanic's passengers (means of 100 runs)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.method import Method
from tests.shared import reference

pytestmark = pytest.mark.peers

RUNS = 100


@pytest.fixture(scope="module")
def ages() -> pl.DataFrame:
    table = pl.read_csv(reference("data", "titanic.csv"), infer_schema_length=None)
    data = table.select(pl.col("age").cast(pl.Float64)).drop_nulls()
    assert data.height == 714
    assert data["age"].mean() == pytest.approx(29.6991, abs=1e-4)
    assert data["age"].std() == pytest.approx(14.5265, abs=1e-4)
    return data


def runs(method: Method, ages: pl.DataFrame) -> np.ndarray:
    """Give (IL1s, risk, mean, sd) of each run."""
    loss, risk = dc.Il1s(columns=["age"]), dc.IntervalRisk(columns=["age"], sd_share=0.2)
    rows = []
    for seed in range(RUNS):
        released = method(ages, seed=seed)
        x = released["age"]
        rows.append((loss(ages, released).value, risk(ages, released).value, x.mean(), x.std()))
    return np.array(rows)


def assert_mean(values: np.ndarray, want: float, tolerance: float = 0.0) -> None:
    """The mean of the runs lies within three standard errors of `want` (and the rounding of the printed figure)."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - want) <= 3 * np.sqrt(2) * error + tolerance, (values.mean(), want, error)


def test_additive_noise(ages: pl.DataFrame) -> None:
    result = runs(dc.AdditiveNoise(columns=["age"], sd_share=0.2), ages)
    assert_mean(result[:, 0], 80.78)
    assert_mean(result[:, 1], 0.6910)
    assert_mean(result[:, 2], 29.7152)
    assert_mean(result[:, 3], 14.81, 0.005)


def test_multiplicative_noise(ages: pl.DataFrame) -> None:
    result = runs(dc.MultiplicativeNoise(columns=["age"], sd=0.3), ages)
    assert_mean(result[:, 0], 247.76)
    assert_mean(result[:, 1], 0.3765)
    assert_mean(result[:, 2], 29.7151)
    assert_mean(result[:, 3], 17.58, 0.005)


def test_rank_swapping_with_unswapped_partners(ages: pl.DataFrame) -> None:
    result = runs(dc.RankSwap(columns=["age"], percent=20), ages)
    assert_mean(result[:, 0], 219.8, 0.05)
    assert_mean(result[:, 1], 0.231, 0.0005)
    assert np.allclose(result[:, 2], 29.6991, atol=1e-4)
    assert np.allclose(result[:, 3], 14.5265, atol=1e-4)


def test_block_rank_swapping(ages: pl.DataFrame) -> None:
    result = runs(dc.BlockRankSwap(columns=["age"], percent=20), ages)
    assert_mean(result[:, 0], 157.0, 0.05)
    assert_mean(result[:, 1], 0.451, 0.0005)
    assert np.allclose(result[:, 3], 14.5265, atol=1e-4)


def test_mdav(ages: pl.DataFrame) -> None:
    released = dc.Mdav(columns=["age"], k=5)(ages)
    assert dc.Il1s(columns=["age"])(ages, released).value == pytest.approx(5.9121, abs=1e-4)
    assert dc.IntervalRisk(columns=["age"], sd_share=0.2)(ages, released).value == pytest.approx(0.9986, abs=1e-4)
    assert released["age"].mean() == pytest.approx(29.6991, abs=1e-4)
    assert released["age"].std() == pytest.approx(14.5197, abs=1e-4)
