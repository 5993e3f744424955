"""The worked tables of numbers and losses give the figures the catalogue states."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from discretion import datasets
from discretion.data.dataset import Dataset


def matrices(tables: tuple[Dataset, ...]) -> list[np.ndarray]:
    return [data.numbers(data.columns) for data in tables]


def test_linkage_example() -> None:
    x, mild, strong = matrices(datasets.linkage_example())
    nearest = [np.linalg.norm(x[:, None] - other[None], axis=2).argmin(axis=1) + 1 for other in (mild, strong)]
    assert [found.tolist() for found in nearest] == [[2, 1, 3, 4, 5], [1, 1, 1, 4, 4]]


def test_divergence_example() -> None:
    x, mild, strong = matrices(datasets.divergence_example())
    assert [((x + other) / 2).mean() for other in (mild, strong)] == pytest.approx([2563.01, 2722.62], abs=5e-3)
    assert [np.abs(x - other).mean() for other in (mild, strong)] == pytest.approx([41.6733, 337.28], abs=5e-5)


def test_error_example() -> None:
    x, *releases = matrices(datasets.error_example())
    expected = [
        [10.375, 2.344, 0.2013, 36.602, 5.0877, 0.080997, 6.233e-4, 0.017654, 0.017716],
        [1202.93, 27.043, 1.7503, 5650.34, 45.8747, 0.212277, 1.814e-6, 9.523e-4, 9.557e-4],
    ]
    for other, figures in zip(releases, expected, strict=True):
        pairs = [
            (x, other),
            (np.cov(x.T, ddof=0), np.cov(other.T, ddof=0)),
            (np.corrcoef(x.T), np.corrcoef(other.T)),
        ]
        found = []
        for a, b in pairs:
            found += [((a - b) ** 2).mean(), np.abs(a - b).mean(), (np.abs(a - b) / np.abs(a)).mean()]
        assert found == pytest.approx(figures, rel=5e-4)


def test_noise_example() -> None:
    original, plain, correlated = matrices(datasets.noise_example())
    assert original[:, 0].mean() == pytest.approx(41.7)
    assert original[:, 0].var() == pytest.approx(294.21)
    assert original[:, 1].mean() == pytest.approx(28100, abs=1)
    found = [np.corrcoef(x.T)[0, 1] for x in (original, plain, correlated)]
    assert found == pytest.approx([0.149701, 0.3623301, 0.1483453], abs=1e-6)


def test_rank_swap_example() -> None:
    original, released = (data.frame["age"] for data in datasets.rank_swap_example())
    assert sorted(original) == sorted(released)
    moved = (original.rank() - released.rank()).abs()
    assert moved.min() > 0
    assert moved.max() <= 3
    assert 61 in original


def test_microaggregation_example() -> None:
    original, released = (data.frame["age"] for data in datasets.microaggregation_example())
    assert original.to_list() == [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]
    groups = pl.DataFrame({"age": original, "group": released}).group_by("group").agg("age", mean=pl.col("age").mean())
    found = {mean: sorted(ages) for _, ages, mean in groups.sort("mean").rows()}
    assert list(found) == pytest.approx([21, 42, 61.33], abs=5e-3)
    assert list(found.values()) == [[12, 23, 28], [30, 42, 46, 50], [55, 61, 68]]
    sse = sum((age - mean) ** 2 for mean, ages in found.items() for age in ages)
    assert sse == pytest.approx(442.667, abs=5e-4)


def test_precision_example() -> None:
    original, *releases = datasets.precision_example()
    age, zips = original.hierarchy("age"), original.hierarchy("zip")
    assert (age.height, zips.height) == (2, 2)
    assert age.size == 7
    assert age.leaves_under(1) == {"[20, 24]": 2, "[25, 29]": 5}
    assert age.leaves_under(2) == {"[20, 29]": 7}
    for data, precision in zip(releases, [0.9375, 0.75, 0.25, 0.0], strict=True):
        levels = {name: np.broadcast_to(level, 4) for name, level in data.levels.items()}
        for name, level in levels.items():
            bound = original.hierarchy(name)
            leaves = original.frame[name].cast(pl.String).to_list()
            wanted = [bound.labels([leaf], int(step))[0] for leaf, step in zip(leaves, level, strict=True)]
            assert data.frame[name].cast(pl.String).to_list() == wanted
        assert 1 - sum(level.sum() / 2 for level in levels.values()) / 8 == precision
    weighted = 2 * (age.leaves_under(1)["[20, 24]"] - 1) / age.size
    assert weighted == pytest.approx(2 / 7)
    assert weighted / 4 == pytest.approx(0.0714, abs=5e-5)


def test_class_sizes() -> None:
    found = [sorted(data.frame.group_by(data.columns).len()["len"]) for data in datasets.class_sizes()]
    assert found == [[2, 4], [2, 2, 2], [7]]
    assert [sum(sizes) / len(sizes) / 2 for sizes in found] == [1.5, 1.0, 3.5]
    assert [sum(size**2 for size in sizes) for sizes in found] == [20, 12, 49]


def test_entropy_example() -> None:
    original, *releases = datasets.entropy_example()
    leaves = original.frame["age"].cast(pl.String).to_list()
    for level, (data, entropy) in enumerate(zip(releases, [13.51, 23.22], strict=True), 1):
        labels = data.frame["age"]
        assert original.hierarchy("age").labels(leaves, level) == labels.to_list()
        assert data.levels["age"] == level
        counts = dict(labels.value_counts().rows())
        assert sum(math.log2(counts[label]) for label in labels) == pytest.approx(entropy, abs=5e-3)


def test_tree_predictions() -> None:
    frame = datasets.tree_predictions().frame
    assert [(frame["model"] == frame[other]).sum() for other in ("mild_noise", "strong_noise")] == [7, 5]
