"""Swapping and shuffling: how many move, who the partners are, and what happens to correlations."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

import discretion as dc
from discretion.kernels.swap import swap_places

N = 50_000


def spearman(*columns: object) -> np.ndarray:  # type: ignore[type-arg]
    return np.corrcoef([rankdata(column) for column in columns])


def test_partners_are_drawn_evenly() -> None:
    areas = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    runs = 20_000
    kinds = np.repeat(np.arange(runs), 9)
    chosen = np.arange(runs) * 9
    uniforms = np.random.default_rng(1).random(runs)
    partner = swap_places(kinds, np.tile(areas, runs), chosen, uniforms, np.ones(9 * runs, bool))
    hits = np.bincount(partner[chosen] - chosen, minlength=9)
    assert hits.sum() == hits[3:].sum() == runs
    assert np.all(np.abs(hits[3:] / runs - 1 / 6) <= 4.5 * np.sqrt(5 / 36 / runs))


def test_the_share_drawn_is_higher_in_small_blocks() -> None:
    people = dc.datasets.census(30_000, seed=2)
    homes = people.frame.unique("household", maintain_order=True)
    size = homes.select(pl.len().over("region", "municipality")).to_series().to_numpy()
    method = dc.ConfidentialityEdit(share=0.05, small_block=60, small_block_share=0.5)
    edited = method(people, seed=1).frame.unique("household", maintain_order=True)
    moved = (edited["region"] != homes["region"]).to_numpy()
    small = size < 60
    assert moved[small].mean() > 0.5 > 0.25 > moved[~small].mean() > 0.05
    drawn = method.decide(people, dc.Context(1, "confidentiality-edit"))["drawn"]
    expected, variance = 0.5 * small.sum() + 0.05 * (~small).sum(), 0.25 * small.sum() + 0.0475 * (~small).sum()
    assert abs(drawn - expected) <= 4.5 * np.sqrt(variance)


@pytest.fixture(scope="module")
def monotone() -> pl.DataFrame:
    """Give columns with normal scores of known correlations and other marginals."""
    rng = np.random.default_rng(5)
    s = rng.normal(size=(N, 2))
    a = 0.7 * s[:, 0] - 0.3 * s[:, 1] + rng.normal(0, 0.6, N)
    b = 0.5 * s[:, 1] + 0.4 * a + rng.normal(0, 0.7, N)
    return pl.DataFrame({"s": np.exp(s[:, 0]), "t": s[:, 1] ** 3, "a": np.exp(a), "b": np.round(b, 1)})


def test_shuffling_keeps_marginals_exactly_and_rank_correlations_closely(monotone: pl.DataFrame) -> None:
    shuffled = dc.Shuffle(columns=["a", "b"], predictors=["s", "t"])(monotone, seed=3)
    for name in ("a", "b"):
        assert shuffled[name].sort().equals(monotone[name].sort())
    before, after = (spearman(*(data[name] for name in "stab")) for data in (monotone, shuffled))
    assert after == pytest.approx(before, abs=4 / np.sqrt(N))


def test_given_the_predictors_a_shuffled_value_says_nothing_about_the_true_one(monotone: pl.DataFrame) -> None:
    shuffled = dc.Shuffle(columns=["a"], predictors=["s", "t"])(monotone, seed=3)
    design = np.column_stack([np.ones(N), np.log(monotone["s"]), np.cbrt(monotone["t"])])
    logs = np.log(np.column_stack([monotone["a"], shuffled["a"]]))
    residuals = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    assert abs(np.corrcoef(residuals.T)[0, 1]) <= 4.5 / np.sqrt(N)


def test_differences_between_categories_survive_shuffling() -> None:
    people = dc.datasets.census(20_000, seed=3)
    shuffled = dc.Shuffle(columns=["income"], predictors=["age", "sex", "occupation"])(people, seed=3)
    ranks = [
        data.frame.with_columns(pl.col("income").rank().alias("r")).drop_nulls(["occupation", "r"])
        .group_by("occupation").agg(pl.col("r").mean(), pl.len()).filter(pl.col("len") > 200).sort("occupation")["r"]
        for data in (people, shuffled)
    ]  # fmt: skip
    assert len(ranks[0]) == len(ranks[1]) > 20
    assert np.corrcoef(ranks[0], ranks[1])[0, 1] > 0.95
