"""Risk figures of ARX on adult, unprotected, with five quasi-identifiers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads(reference("golden", "arx", "risk_adult_raw_5qi.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def adult(golden: dict[str, Any]) -> dc.Dataset:
    frame = pl.read_csv(reference("data", "adult", "adult.csv"), separator=";")
    return dc.Dataset(frame, roles=dict.fromkeys(golden["qis"], "quasi"))


def test_classes(adult: dc.Dataset, golden: dict[str, Any]) -> None:
    counts = adult.class_counts(golden["qis"])
    assert (len(counts), counts.sum()) == (golden["num_classes"], golden["records"])
    assert counts.mean() == pytest.approx(golden["avg_class_size"], rel=1e-12)
    pairs = golden["histogram_size_count_pairs"]
    sizes, numbers = np.unique(counts, return_counts=True)
    assert (sizes.tolist(), numbers.tolist()) == (pairs[::2], pairs[1::2])


def test_sample_uniqueness(adult: dc.Dataset, golden: dict[str, Any]) -> None:
    score = dc.SampleUniqueness()(adult)
    assert score.value == pytest.approx(golden["sample_uniqueness"]["fraction"], rel=1e-12)
    assert score.detail["unique_records"] == golden["sample_uniqueness"]["n"]


@pytest.mark.parametrize("attacker", ["prosecutor", "journalist", "marketer"])
@pytest.mark.parametrize("threshold", [0.05, 0.1, 0.2, 0.5])
def test_attackers(adult: dc.Dataset, golden: dict[str, Any], attacker: str, threshold: float) -> None:
    score = dc.AttackerRisk(attacker=attacker, threshold=threshold)(adult)
    for name, figure in golden[f"summary_threshold_{threshold}"][attacker].items():
        assert score.detail[name] == pytest.approx(figure, rel=1e-12), name
    sample = golden["sample_risks"]
    assert score.value == pytest.approx(sample[f"est_{attacker}"], rel=1e-12)
    assert score.detail["success_rate"] == pytest.approx(sample["average"], rel=1e-12)
    assert (score.detail["highest"], score.detail["lowest"]) == (sample["highest"], sample["lowest"])
    assert score.detail["share_at_highest"] == pytest.approx(sample["fraction_affected_highest"], rel=1e-12)
    assert score.detail["share_at_highest"] * len(adult) == pytest.approx(sample["records_affected_highest"])
    assert score.detail["share_at_lowest"] == pytest.approx(sample["fraction_affected_lowest"], rel=1e-12)


def test_distribution_of_risks(adult: dc.Dataset, golden: dict[str, Any]) -> None:
    found, want = dc.AttackerRisk()(adult).detail["distribution"], golden["risk_distribution"]
    assert found["up_to"] == want["upper_thresholds"]
    assert found["share"] == pytest.approx(want["fraction"], abs=1e-12)
    assert found["cumulative"] == pytest.approx(want["cumulative"], abs=1e-12)


@pytest.mark.parametrize("population", ["USA", "n_301620_fraction_0.1", "n_3016200_fraction_0.01"])
def test_population_uniqueness(adult: dc.Dataset, golden: dict[str, Any], population: str) -> None:
    """Zayatz to rounding; Pitman as far as ARX's iteration goes (ours is at the maximum of the likelihood)."""
    want = golden["population_uniqueness"][population]
    score = dc.PopulationUniqueness(population_size=want["population_size"])(adult)
    assert score.detail["estimates"]["zayatz"] == pytest.approx(want["zayatz"]["fraction"], rel=1e-9)
    assert score.detail["estimates"]["pitman"] == pytest.approx(want["pitman"]["fraction"], rel=1e-9)
    assert score.value == pytest.approx(want["dankar"]["fraction"], rel=1e-9)
    assert score.detail["people"] == pytest.approx(want["dankar"]["n"], rel=1e-9)
