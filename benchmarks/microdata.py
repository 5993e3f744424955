"""Methods, models and measures through the public classes, with polars frames."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.spatial import cKDTree

import discretion as dc
from benchmarks.ratio import Line, compare

N = 1_000_000
KEYS = (2, 5, 16, 9, 100, 50, 7)
"""Numbers of categories of the seven key columns."""


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    yield from _one_column()
    yield from _five_columns()
    yield from _classes()


def _one_column() -> Iterator[Line]:
    x = np.random.default_rng(1).lognormal(10, 1, N)
    frame = pl.DataFrame({"x": x})
    sort = "np.argsort stable"

    def base() -> object:
        return np.argsort(x, kind="stable")

    jobs = (
        ("Mdav(k=5), 1 column", dc.Mdav(columns=["x"], k=5), 1.6),
        ("OptimalMicroaggregation(k=5)", dc.OptimalMicroaggregation(columns=["x"], k=5), 2.0),
        ("RankSwap(percent=15)", dc.RankSwap(columns=["x"], percent=15), 2.2),
    )
    for name, method, limit in jobs:
        yield compare(f"{name}, {N:,}", lambda method=method: method(frame, seed=1), sort, base, limit)
    noise = dc.AdditiveNoise(columns=["x"], sd_share=0.1)
    normals = np.random.default_rng(2)
    yield compare(
        f"AdditiveNoise, {N:,}", lambda: noise(frame, seed=1), "generating the normals",
        lambda: normals.standard_normal(N), 2.5,
    )  # fmt: skip


def _five_columns() -> Iterator[Line]:
    x = np.random.default_rng(3).normal(size=(100_000, 5))
    names = [f"v{j}" for j in range(5)]
    frame = pl.DataFrame(x, schema=names)
    noisy = dc.AdditiveNoise(columns=names, sd_share=0.1)(frame, seed=1)
    y = noisy.to_numpy()
    mdav = dc.Mdav(columns=names, k=5)
    yield compare(
        "Mdav(k=5), 100,000 × 5", lambda: mdav(frame, seed=1), "cKDTree build + query(k=2)",
        lambda: cKDTree(x).query(x, k=2), 2.5,
    )  # fmt: skip
    linkage = dc.DistanceLinkage(columns=names)
    yield compare(
        "DistanceLinkage, 100,000 × 5", lambda: linkage(frame, noisy), "cKDTree build + query(k=1)",
        lambda: cKDTree(y).query(x, k=1), 2.0,
    )  # fmt: skip


def _classes() -> Iterator[Line]:
    rng = np.random.default_rng(4)
    words = {f"k{j}": np.array([f"value{j}-{i}" for i in range(c)])[rng.integers(0, c, N)] for j, c in enumerate(KEYS)}
    strings = pl.DataFrame(words)
    categories = strings.with_columns(pl.all().cast(pl.Categorical))
    model = dc.KAnonymity(k=5, columns=strings.columns)
    for name, frame, limit in (("Categorical", categories, 0.5), ("strings", strings, 1.2)):
        yield compare(
            f"KAnonymity, {N:,} × 7 {name}", lambda frame=frame: model(frame), "polars group_by().len()",
            lambda frame=frame: frame.group_by(frame.columns).len(), limit,
        )  # fmt: skip
