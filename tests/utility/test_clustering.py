"""Groups found in the release against groups found in the original."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.utility.classification import (
    adjusted_rand_index,
    jaccard_index,
    largest_variation,
    pair_counts,
    rand_index,
    variation_of_information,
)


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


groups = st.lists(st.integers(0, 4), min_size=1, max_size=18)


@settings(max_examples=60, deadline=None)
@given(first=groups, data=st.data())
def test_against_naive_counting_and_scikit_learn(first: list[int], data: st.DataObject) -> None:
    from sklearn.metrics import adjusted_rand_score, rand_score
    from sklearn.metrics.cluster import mutual_info_score

    second = data.draw(st.lists(st.integers(0, 4), min_size=len(first), max_size=len(first)))
    a, b = np.array(first), np.array(second)
    naive = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for i, j in combinations(range(len(a)), 2):
        naive[a[i] == a[j], b[i] == b[j]] += 1
    counts = pair_counts(a, b)
    assert (counts.both, counts.first, counts.second, counts.neither) == tuple(naive.values())
    assert rand_index(a, b) == pytest.approx(rand_score(a, b))
    assert adjusted_rand_index(a, b) == pytest.approx(adjusted_rand_score(a, b))
    either = naive[True, True] + naive[True, False] + naive[False, True]
    assert jaccard_index(a, b) == pytest.approx(naive[True, True] / either if either else 1.0)
    entropies = [-sum(s * log(s) for s in np.unique(x, return_counts=True)[1] / len(x)) for x in (a, b)]
    assert variation_of_information(a, b) == pytest.approx(sum(entropies) - 2 * mutual_info_score(a, b), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(first=groups, data=st.data())
def test_names_of_groups_and_order_of_records_do_not_matter(first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, 4), min_size=len(first), max_size=len(first)))
    order = data.draw(st.permutations(range(len(first))))
    a, b = np.array(first), np.array(second)
    for index in (rand_index, jaccard_index, adjusted_rand_index, variation_of_information):
        assert index(a, b) == pytest.approx(index(b, a)) == pytest.approx(index((7 - a)[order], b[order]))
    assert rand_index(a, a) == jaccard_index(a, a) == adjusted_rand_index(a, a) == 1.0
    assert variation_of_information(a, a) == pytest.approx(0, abs=1e-12)


def test_unrelated_partitions_have_an_adjusted_index_of_about_zero() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 5, 5000), rng.integers(0, 3, 5000)
    assert adjusted_rand_index(one, two) == pytest.approx(0, abs=0.005)
    assert rand_index(one, two) > 0.55


def test_different_lengths_are_an_error() -> None:
    with pytest.raises(dc.DataError, match="not of 2 and 3"):
        rand_index(np.array([0, 1]), np.array([0, 1, 2]))


@settings(max_examples=60, deadline=None)
@given(first=groups, data=st.data())
def test_weights_count_the_products_of_pairs(first: list[int], data: st.DataObject) -> None:
    same = {"min_size": len(first), "max_size": len(first)}
    second = data.draw(st.lists(st.integers(0, 4), **same))
    weights = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), **same).filter(any))
    a, b, w = np.array(first), np.array(second), np.array(weights)
    naive = dict.fromkeys([(True, True), (True, False), (False, True), (False, False)], 0.0)
    for i, j in combinations(range(len(a)), 2):
        naive[a[i] == a[j], b[i] == b[j]] += w[i] * w[j]
    found = pair_counts(a, b, w)
    assert (found.both, found.first, found.second, found.neither) == pytest.approx(tuple(naive.values()))
    assert rand_index(a, b, 7 * w) == pytest.approx(rand_index(a, b, w))
    assert 0 <= variation_of_information(a, b, w) <= largest_variation(len(w), w) + 1e-9
    assert adjusted_rand_index(a, a, w) == 1 and variation_of_information(a, a, w) == pytest.approx(0, abs=1e-12)


def test_whole_weights_are_copies_for_the_information() -> None:
    a, b, w = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([3.0, 1.0, 2.0, 0.0])
    copies = np.repeat(np.arange(4), w.astype(int))
    assert variation_of_information(a, b, w) == pytest.approx(variation_of_information(a[copies], b[copies]))
