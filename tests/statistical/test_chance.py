"""The chance level a risk measure states is what it finds where the release has nothing to do with the people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import discretion as dc

N = 120
ROLES = {"a": "quasi", "b": "quasi", "g": "quasi", "s": "sensitive"}
Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]


def people(rng: np.random.Generator, n: int = N) -> pl.DataFrame:
    """Draw records with ties, dependence, unequal categories and a secret that the numbers tell about."""
    a = rng.normal(size=n).round(1)
    told = np.where(rng.random(n) < 0.7, a > 0.3, rng.random(n) < 0.3)
    return pl.DataFrame(
        {
            "a": a,
            "b": (0.8 * a + 0.6 * rng.normal(size=n)).round(1),
            "g": rng.choice(list("pqrs"), n, p=[0.5, 0.25, 0.15, 0.1]),
            "s": np.where(told, "yes", "no"),
        }
    )


def columns_permuted(data: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return data.select(pl.Series(name, data[name].to_numpy()[rng.permutation(len(data))]) for name in data.columns)


def rows_permuted(data: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return data[rng.permutation(len(data))]


def excesses(measure: dc.Measure, change: Change, runs: int) -> np.ndarray:
    """Give value less stated chance level, over runs with new people."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(runs):
        data = people(rng)
        original = dc.Dataset(data, roles=ROLES)
        score = measure(original, original.with_columns(change(data, rng).to_dict()))  # rows know each other
        found.append(score.value - score.detail["chance"])
    return np.array(found)


def require_mean_zero(excess: np.ndarray) -> None:
    assert excess.std() > 0
    assert abs(excess.mean()) < 4 * excess.std(ddof=1) / np.sqrt(len(excess))


LINKED = {"columns": ["a", "b", "g"]}
ALIGNED: dict[str, dc.Measure] = {
    "distance": dc.DistanceLinkage(**LINKED),
    "assignment": dc.AssignmentLinkage(**LINKED),
    "probabilistic": dc.ProbabilisticLinkage(**LINKED),
    "interval": dc.IntervalRisk(columns=["a", "b"], sd_share=0.3),
    "sd-interval": dc.SdInterval(columns=["a", "b"]),
    "rank-interval": dc.RankInterval(columns=["a", "b"]),
    "agreement": dc.ValueAgreement(**LINKED),
}


@pytest.mark.parametrize("change", [columns_permuted, rows_permuted])
@pytest.mark.parametrize("name", list(ALIGNED))
def test_permuted_records_are_found_as_often_as_stated(name: str, change: Change) -> None:
    require_mean_zero(excesses(ALIGNED[name], change, 25))


@pytest.mark.slow
@pytest.mark.parametrize("change", [columns_permuted, rows_permuted])
@pytest.mark.parametrize("name", list(ALIGNED))
def test_permuted_records_are_found_as_often_as_stated_in_many_runs(name: str, change: Change) -> None:
    require_mean_zero(excesses(ALIGNED[name], change, 200))


@pytest.mark.slow
def test_models_of_a_permuted_release_agree_by_chance() -> None:
    require_mean_zero(excesses(dc.ModelAgreement(target="s", features=["a", "b", "g"]), columns_permuted, 100))


@pytest.mark.slow
def test_a_model_learns_less_from_a_permuted_release_than_guessing_gives() -> None:
    """`ModelDisclosure` states what the most frequent value gives, the best guess of who has no release."""
    excess = excesses(dc.ModelDisclosure(target="s", features=["a", "b", "g"]), columns_permuted, 40)
    assert excess.mean() < 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["closest-record", "membership-inference"])
def test_people_are_as_near_as_a_holdout_to_a_third_sample(kind: str) -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(60):
        original, other, released = (people(rng).drop("s") for _ in range(3))
        names = tuple(original.columns)
        near = dc.ClosestRecord(columns=names, holdout=other)
        measure = near if kind == "closest-record" else dc.MembershipInference(features=names, holdout=other)
        score = measure(original, released)
        found.append(score.value - score.detail["chance"])
    require_mean_zero(np.array(found))
