"""What a file for the public needs beside protection: weights, order, households, rare values, matched rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare
from discretion.measure import match_rows
from discretion.release.order import permuted

N = 300_000
KEYS = ["region", "age", "job"]


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    frame = _people()
    roles = dict.fromkeys(KEYS, "quasi") | {"home": "household", "w": "weight", "income": "sensitive"}

    def people() -> dc.Dataset:
        return dc.Dataset(frame, roles=roles)

    count = "polars group_by().len()"

    def counted() -> object:
        return frame.group_by(KEYS).len()

    yield compare(f"HouseholdKAnonymity, {N:,} × 3", lambda: dc.HouseholdKAnonymity(k=3)(people()), count, counted, 8.0)
    yield compare(f"RareValues, {N:,}", lambda: dc.RareValues()(people()), count, counted, 25.0)
    weights = dc.ReissueWeights(by=["region"])
    yield compare(
        f"ReissueWeights, {N:,}", lambda: weights(people(), seed=1), "polars group_by().sum()",
        lambda: frame.group_by("region").agg(pl.col("w").sum()), 10.0,
    )  # fmt: skip
    given = people()
    issued = weights(given, seed=1)
    sort = "np.argsort stable of floats"
    income = frame["income"].to_numpy()

    def ordered() -> object:
        return np.argsort(income, kind="stable")

    jobs: tuple[tuple[dc.Measure, float], ...] = (
        (dc.WeightDisclosure(columns=["region"]), 4.0),
        (dc.RowOrder(columns=["region"]), 8.0),
    )
    for measure, limit in jobs:
        yield compare(
            f"{type(measure).__name__}, {N:,}", partial(measure, given, issued), sort, ordered, limit
        )  # fmt: skip
    plain = dc.Dataset(frame.drop("home"))
    yield compare(f"rows permuted, {N:,} × 5", lambda: permuted(plain, 1), sort, ordered, 4.0)
    yield _model()
    noisy = frame.with_columns(pl.col("income") * 1.01)
    yield compare(
        f"match_rows, {N:,} × 6", lambda: match_rows(dc.Dataset(frame), dc.Dataset(noisy)), sort, ordered, 4.0
    )


def _model() -> Line:
    """Attack a census by a model, as an assessment of large data does, against one tree on as many rows."""
    from sklearn.tree import DecisionTreeRegressor

    people = dc.datasets.census(100_000, seed=1)
    released = dc.RankSwap(columns=["income"], percent=5)(people, seed=1)
    attack = dc.ModelDisclosure(target="income", features=list(people.having("quasi")), sample=20_000)
    x = np.random.default_rng(1).normal(size=(20_000, 8))
    y = x.sum(axis=1)
    return compare(
        "ModelDisclosure(sample=20_000), census 100,000", lambda: attack(people, released), "sklearn tree, 20,000×8",
        lambda: DecisionTreeRegressor(min_samples_leaf=5, random_state=0).fit(x, y), 5.0,
    )  # fmt: skip


def _people() -> pl.DataFrame:
    rng = np.random.default_rng(6)
    region = rng.integers(0, 20, N)
    return pl.DataFrame(
        {
            "region": region,
            "age": rng.integers(0, 90, N),
            "job": rng.zipf(1.7, N) % 30,
            "home": np.sort(rng.integers(0, N // 3, N)),
            "w": 50.0 + region + rng.integers(0, 4, N),
            "income": rng.lognormal(10, 1, N),
        }
    )
