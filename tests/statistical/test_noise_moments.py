"""The moments that each noise method promises, over many draws, with bounds of four standard errors."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.method import Method

NAMES = ["a", "b", "c"]
RUNS = 200


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(7)
    a = rng.lognormal(0, 0.6, 400)
    return pl.DataFrame({"a": a, "b": 3 * a + rng.normal(size=400), "c": -a + rng.normal(size=400)})


def draws(method: Method, data: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give means, covariances and correlations of many releases."""
    means, covs, cors = [], [], []
    for seed in range(RUNS):
        x = method(data, seed=seed).select(NAMES).to_numpy()
        means.append(x.mean(axis=0))
        covs.append(np.cov(x, rowvar=False))
        cors.append(np.corrcoef(x, rowvar=False))
    return np.array(means), np.array(covs), np.array(cors)


def agrees(found: np.ndarray, want: np.ndarray) -> bool:
    """Tell whether the mean over the draws is within four standard errors."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return bool((np.abs(found.mean(axis=0) - want) <= 4 * error + 1e-12).all())


def of(data: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = data.to_numpy()
    return x.mean(axis=0), np.cov(x, rowvar=False), np.corrcoef(x, rowvar=False)


def test_variance_preserving_noise(data: pl.DataFrame) -> None:
    mean, cov, cor = of(data)
    means, covs, cors = draws(dc.VariancePreservingNoise(columns=NAMES, variance_share=0.4), data)
    assert agrees(means, mean) and agrees(covs, cov)
    assert cors.mean(axis=0) == pytest.approx(cor, abs=0.01)


def test_variance_preserving_noise_changes_as_much_as_it_says(data: pl.DataFrame) -> None:
    """E(x′−x)² = ((1 − √(1−p))² + p)·Var."""
    p = 0.4
    noisy = [dc.VariancePreservingNoise(columns=NAMES, variance_share=p)(data, seed=s) for s in range(RUNS)]
    change = np.array([((x - data).to_numpy() ** 2).mean(axis=0) for x in noisy])
    want = ((1 - np.sqrt(1 - p)) ** 2 + p) * data.to_numpy().var(axis=0)
    assert change.mean(axis=0) == pytest.approx(want, rel=0.02)


@pytest.mark.parametrize("rounds", [1, 3, 10])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_orthogonal_noise_changes_as_much_as_it_says(data: pl.DataFrame, share: float, rounds: int) -> None:
    method = dc.OrthogonalNoise(columns=NAMES, variance_share=share, rounds=rounds)
    change = []
    for seed in range(RUNS):
        noisy = method(data, seed=seed)
        assert np.cov(noisy.to_numpy(), rowvar=False) == pytest.approx(of(data)[1], rel=1e-11)
        change.append(((noisy - data).to_numpy() ** 2).mean(axis=0))
    assert np.mean(change, axis=0) == pytest.approx(share * data.to_numpy().var(axis=0), rel=0.08)


def test_orthogonal_noise_of_incomplete_records(data: pl.DataFrame) -> None:
    holes = data.with_columns(pl.when(pl.int_range(pl.len()) < 200).then(None).otherwise(pl.col("c")).alias("c"))
    method = dc.OrthogonalNoise(columns=NAMES, variance_share=0.5)
    half = [method(holes, seed=s).head(200).select("a", "b").to_numpy() for s in range(RUNS)]
    x, sd = holes.select("a", "b").to_numpy(), holes.select("a", "b").to_numpy().std(axis=0, ddof=1)
    assert np.mean([((y - x[:200]) ** 2).mean(axis=0) for y in half], axis=0) == pytest.approx(0.5 * sd**2, rel=0.15)


def test_laplace_and_lognormal_have_the_promised_shape() -> None:
    rng = np.random.default_rng(1)
    data = pl.DataFrame({"x": rng.normal(10, 2, 200_000)})
    added = (dc.AdditiveNoise(columns=["x"], variance_share=0.5, distribution="laplace")(data, seed=2) - data)["x"]
    assert added.kurtosis() == pytest.approx(3, abs=0.3)
    assert added.var() == pytest.approx(2, rel=0.02)  # type: ignore[arg-type]
    factor = dc.MultiplicativeNoise(columns=["x"], sd=0.4, distribution="lognormal")(data, seed=2)["x"] / data["x"]
    assert factor.mean() == pytest.approx(1, abs=4 * 0.4 / np.sqrt(200_000))
    assert factor.std() == pytest.approx(0.4, rel=0.02)
    assert np.log(factor.to_numpy()).std() == pytest.approx(np.sqrt(np.log1p(0.16)), rel=0.01)


@pytest.mark.parametrize("joint", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_outlier_noise_keeps_means_and_bounds_variances(data: pl.DataFrame, joint: bool) -> None:
    mean, cov, _ = of(data)
    p = 0.5
    means, covs, _ = draws(dc.OutlierNoise(columns=NAMES, variance_share=p, joint=joint), data)
    assert agrees(means, mean)
    grown = np.diagonal(covs.mean(axis=0)) / np.diag(cov)
    assert (grown > 1).all() and (grown < 1 + p).all()


def test_reflection_keeps_the_shape_away_from_the_bound() -> None:
    """Uniform values with reflected noise stay uniform: reflection loses no probability at the bounds."""
    x = np.random.default_rng(3).random(200_000)
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=1, lower=0, upper=1)(pl.DataFrame({"x": x}), seed=1)["x"]
    counts = np.histogram(noisy.to_numpy(), 20, (0, 1))[0]
    assert (np.abs(counts - 10_000) <= 4 * np.sqrt(10_000)).all()


def test_rank_swapping_an_ordinal_column_moves_every_record_alike() -> None:
    """Equal values are ranked at random, so a record's chance to change does not depend on its place in the file."""
    levels = ["low", "middle", "high"]
    frame = pl.DataFrame({"g": np.repeat(levels, 300)}).with_columns(pl.col("g").cast(pl.Enum(levels)))
    changed = np.zeros(900)
    for seed in range(RUNS):
        changed += (dc.RankSwap(columns=["g"], percent=10)(frame, seed=seed)["g"] != frame["g"]).to_numpy()
    middle = changed[300:600] / RUNS
    assert middle.min() > 0
    assert middle.std() <= 1.3 * np.sqrt(middle.mean() * (1 - middle.mean()) / RUNS)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("rounds", [1, 2])
def test_orthogonal_noise_of_few_records_changes_as_much_as_it_says(n: int, rounds: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 1))
    data, method = pl.DataFrame(x, schema=["x"]), dc.OrthogonalNoise(columns=["x"], variance_share=0.6, rounds=rounds)
    change = np.array([((method(data, seed=s).to_numpy() - x) ** 2).mean() for s in range(600)]) / x.var()
    assert abs(change.mean() - 0.6) < 4 * change.std() / np.sqrt(len(change))
