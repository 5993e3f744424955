"""Methods that change values, as ratios to the numpy primitive that each cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

N = 1_000_000
LEVELS = [f"level {i}" for i in range(8)]


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    yield from _noise()
    yield from _ranks()
    yield from _outliers()
    yield from _detail()
    yield from _results()


def _noise() -> Iterator[Line]:
    rng = np.random.default_rng(1)
    x = rng.lognormal(10, 1, (N, 3))
    names = ["a", "b", "c"]
    frame = pl.DataFrame(x, schema=names)
    jobs = (
        ("VariancePreservingNoise", dc.VariancePreservingNoise(columns=names, variance_share=0.1), 4.0),
        ("OutlierNoise", dc.OutlierNoise(columns=names, variance_share=0.1), 4.0),
        ("AdditiveNoise, signs kept", dc.AdditiveNoise(columns=names, sd_share=0.1, keep_sign=True, upper=1e9), 4.0),
    )
    for name, method, limit in jobs:
        yield compare(
            f"{name}, {N:,} × 3", lambda method=method: method(frame, seed=1), "normals + np.cov",
            lambda: (rng.standard_normal((N, 3)), np.cov(x, rowvar=False)), limit,
        )  # fmt: skip
    rotation = dc.OrthogonalNoise(columns=names, variance_share=0.1, rounds=3)
    yield compare(
        f"OrthogonalNoise, 3 rounds, {N:,} × 3", lambda: rotation(frame, seed=1), "3 × x[rng.permutation(n)]",
        lambda: [x[rng.permutation(N)] for _ in range(3)], 4.0,
    )  # fmt: skip


def _ranks() -> Iterator[Line]:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, len(LEVELS), N)
    frame = pl.DataFrame({"g": np.array(LEVELS)[codes]}).with_columns(pl.col("g").cast(pl.Enum(LEVELS)))
    swap = dc.RankSwap(columns=["g"], percent=15)
    yield compare(
        f"RankSwap, ordinal, {N:,}", lambda: swap(frame, seed=1), "permutation + argsort stable",
        lambda: np.argsort(codes[rng.permutation(N)].astype(float), kind="stable"), 2.5,
    )  # fmt: skip
    places = np.arange(float(len(LEVELS)))
    coded = dc.TopCode(column="g", quantile=0.9)
    yield compare(
        f"TopCode, ordinal, {N:,}", lambda: coded(frame, seed=1), "places[codes] + np.quantile",
        lambda: np.quantile(places[codes], 0.9, method="inverted_cdf"), 3.0,
    )  # fmt: skip


def _outliers() -> Iterator[Line]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100_000, 5))
    x[:5000] += 9
    names = [f"v{j}" for j in range(5)]
    frame = pl.DataFrame(x, schema=names)
    method = dc.WinsorizeOutliers(columns=names)
    yield compare(
        "WinsorizeOutliers, 100,000 × 5", lambda: method(frame, seed=1), "100 × np.cov",
        lambda: [np.cov(x, rowvar=False) for _ in range(100)], 2.0,
    )  # fmt: skip


def _detail() -> Iterator[Line]:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 500, N)
    frame = pl.DataFrame({"job": np.array([f"job {i}" for i in range(500)])[codes], "x": rng.lognormal(8, 1, N)})
    frame = frame.with_columns(w=pl.lit(10.0))
    x = frame["x"].to_numpy()
    rounding = dc.Round(columns=["x"], base=5, how="random")
    yield compare(
        f"Round, random, {N:,}", lambda: rounding(frame, seed=1), "floor(x / 5 + uniforms) × 5",
        lambda: np.floor(x / 5 + rng.random(N)) * 5, 6.0,
    )  # fmt: skip
    sample = dc.Sample(share=0.1, weight="w")
    yield compare(
        f"Sample(0.1), {N:,}", lambda: sample(frame, seed=1), "frame[rng.choice(n)]",
        lambda: frame[np.sort(rng.choice(N, N // 10, replace=False))], 4.0,
    )  # fmt: skip
    strings = frame.select("job")
    count = "polars value_counts"
    jobs = (
        ("GroupCategories", dc.GroupCategories(column="job", smaller_than=2000), 4.0),
        ("DetailLimits", dc.DetailLimits(min_category_size=100, columns=["job"]), 3.0),
    )
    for name, part, limit in jobs:
        yield compare(f"{name}, {N:,}", lambda part=part: part(strings), count, strings["job"].value_counts, limit)


def _results() -> Iterator[Line]:
    """Measure how hard it is to hide a rule beside finding it, and to sample means beside drawing the samples."""
    rng = np.random.default_rng(5)
    rows, samples = 20_000, 400
    frame = pl.DataFrame({name: rng.choice(["yes", "no"], rows, p=[0.4, 0.6]) for name in "abcdef"})
    rule = {"rules": ["a=yes -> b=yes"], "min_support": 0.1, "min_confidence": 0.3, "columns": list("abcdef")}
    yield compare(
        f"HideRules, {rows:,} × 6", lambda: dc.HideRules(**rule)(frame, seed=1), "ResultPrivacy",
        lambda: dc.ResultPrivacy(**rule)(frame), 30,
    )  # fmt: skip
    x = rng.lognormal(10, 1, rows)
    mean = dc.IntegralPrivacy(result="mean", columns=["x"], grid={"x": 500}, samples=samples)
    yield compare(
        f"IntegralPrivacy, mean, {rows:,} × {samples} samples", lambda: mean.check(pl.DataFrame({"x": x})),
        "means of permutations", lambda: [x[rng.permutation(rows)[: rows // 2]].mean() for _ in range(samples)], 6,
    )  # fmt: skip
