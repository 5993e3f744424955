"""The moments each method promises, with fixed seeds and bounds of four standard errors."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.method import Method

N = 200_000
NAMES = ["a", "b"]


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    a = rng.lognormal(0, 0.5, N)
    return pl.DataFrame({"a": a, "b": 2 * a + rng.normal(size=N)})


def moments(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    x = frame.select(NAMES).to_numpy()
    return x.mean(axis=0), np.cov(x, rowvar=False)


def run(method: Method, data: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return (*moments(data), *moments(method(data, seed=5)))


@pytest.mark.parametrize("distribution", ["normal", "laplace"])
def test_additive_noise(data: pl.DataFrame, distribution: str) -> None:
    p = 0.3
    mean, cov, new_mean, new_cov = run(
        dc.AdditiveNoise(columns=NAMES, variance_share=p, distribution=distribution), data
    )
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(new_mean - mean) <= 4 * np.sqrt(p) * sd / np.sqrt(N))
    assert np.diag(new_cov) == pytest.approx((1 + p) * np.diag(cov), rel=0.02)
    assert new_cov[0, 1] == pytest.approx(cov[0, 1], rel=0.02)
    shrunk = new_cov[0, 1] / np.sqrt(np.prod(np.diag(new_cov)))
    assert shrunk == pytest.approx(cov[0, 1] / np.prod(sd) / (1 + p), rel=0.01)


def test_correlated_noise(data: pl.DataFrame) -> None:
    p = 0.3
    mean, cov, new_mean, new_cov = run(dc.CorrelatedNoise(columns=NAMES, variance_share=p), data)
    assert np.all(np.abs(new_mean - mean) <= 4 * np.sqrt(p * np.diag(cov) / N))
    assert new_cov == pytest.approx((1 + p) * cov, rel=0.02)
    before, after = (c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in (cov, new_cov))
    assert after == pytest.approx(before, abs=0.005)


@pytest.mark.parametrize(("distribution", "sd"), [("normal", 0.3), ("lognormal", 0.3), ("normal", 0.9)])
def test_multiplicative_noise_has_mean_one(data: pl.DataFrame, distribution: str, sd: float) -> None:
    released = dc.MultiplicativeNoise(columns=["a"], sd=sd, distribution=distribution)(data, seed=5)
    factor = (released["a"] / data["a"]).to_numpy()
    assert factor.min() >= 0
    assert abs(factor.mean() - 1) <= 4 * factor.std() / np.sqrt(N)
    if (distribution, sd) != ("normal", 0.9):
        assert factor.std() == pytest.approx(sd, rel=0.01)


def test_rank_swap_keeps_most_of_the_correlation(data: pl.DataFrame) -> None:
    before = data.select(pl.corr("a", "b")).item()
    small, large = (
        dc.RankSwap(columns=NAMES, percent=p)(data, seed=5).select(pl.corr("a", "b")).item() for p in (1, 30)
    )
    assert large < small < before
    assert small == pytest.approx(before, abs=0.02)


def test_draws_of_different_columns_and_steps_are_independent(data: pl.DataFrame) -> None:
    study = dc.Study(dc.Dataset(data), seed=1)
    method = dc.AdditiveNoise(columns=NAMES, sd_share=0.5)
    once = study.apply(method).current.frame
    twice = study.apply(method).apply(method).current.frame
    first, second = (once["a"] - data["a"]).to_numpy(), (twice["a"] - once["a"]).to_numpy()
    other = (once["b"] - data["b"]).to_numpy()
    for pair in ((first, second), (first, other), (first[:-65_536], first[65_536:])):
        assert abs(np.corrcoef(*pair)[0, 1]) <= 4 / np.sqrt(N - 65_536)
