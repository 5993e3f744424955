"""Groups found in the release against groups found in the original."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def blobs(n: int = 300, spread: float = 0.3, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray]:
    """Give three groups that are far apart, and which record belongs to which."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    centers = np.array([[0, 0], [10, 0], [0, 500]])
    x = centers[group] + rng.normal(0, spread, (n, 2)) * [1, 50]
    return pl.DataFrame(x, schema=["a", "b"]), group


def test_planted_groups_are_found_in_the_original_and_survive_mild_noise() -> None:
    data, _ = blobs()
    measure = dc.ClusteringUtility(features=["a", "b"])
    same = measure(data, data)
    assert same.value == 1.0 == same.detail["rand"] == same.detail["jaccard"] == same.detail["stability"]
    assert same.detail["variation_of_information"] == 0.0
    assert measure(data, dc.AdditiveNoise(columns=["a", "b"], sd_share=0.1)(data, seed=1)).value > 0.95


def test_a_release_that_moves_a_share_of_the_records_to_other_groups() -> None:
    """Planted truth: the partitions are the groups and the groups after the move."""
    from sklearn.metrics import adjusted_rand_score

    data, group = blobs()
    moved = np.arange(300) < 60
    rng = np.random.default_rng(1)
    donors = np.array([rng.choice(np.flatnonzero(group == (g + 1) % 3)) for g in group])
    rows = np.where(moved, donors, np.arange(300))
    score = dc.ClusteringUtility(features=["a", "b"])(data, data[rows])
    assert score.value == pytest.approx(adjusted_rand_score(group, group[rows]))
    assert score.detail["sizes"]["original"] == sorted(np.bincount(group).tolist(), reverse=True)


def test_shuffled_columns_have_no_groups_in_common() -> None:
    data, _ = blobs(3000)
    order = np.random.default_rng(2).permutation(3000)
    assert dc.ClusteringUtility(features=["a", "b"])(data, data[order], align="position").value == pytest.approx(
        0, abs=0.02
    )


def test_units_do_not_matter() -> None:
    data, _ = blobs()
    noisy = dc.AdditiveNoise(columns=["a", "b"], sd_share=0.5)(data, seed=1)
    scaled = [frame.with_columns(pl.col("a") * 1024) for frame in (data, noisy)]
    measure = dc.ClusteringUtility(features=["a", "b"])
    assert measure(data, noisy).value == measure(*scaled).value


def test_categories_missing_values_and_generalized_columns() -> None:
    data = dc.datasets.census(300, seed=1)
    released = dc.Generalize(levels={"region": 1, "age": 1})(data)
    score = dc.ClusteringUtility(features=["region", "age", "income", "sex"])(data, released)
    assert -0.5 <= score.value < 1


def test_another_clustering_algorithm() -> None:
    data, _ = blobs(80)
    measure = dc.ClusteringUtility(features=["a", "b"], model="sklearn.cluster:AgglomerativeClustering")
    assert measure(data, data).value == 1.0 and len(measure(data, data).detail["sizes"]["original"]) == 3


def test_bad_input() -> None:
    data, _ = blobs(4)
    with pytest.raises(dc.DataError, match="4 rows cannot form 5 clusters"):
        dc.ClusteringUtility(features=["a", "b"], clusters=5)(data, data)
    with pytest.raises(dc.PlanError, match="not a model for clustering; named ones: kmeans"):
        dc.ClusteringUtility(features=["a"], model="tree")(data, data)
