from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels import linkage
from discretion.kernels.linkage import nearest_ties
from tests.kernels.reference import examples


def check(queries: np.ndarray, points: np.ndarray, own: np.ndarray | None) -> None:
    found = nearest_ties(queries, points, own)
    assert all(array.shape == (len(queries),) for array in found)
    assert (found.size.dtype, found.has_own.dtype, found.lowest.dtype) == (np.int64, np.bool_, np.int64)
    for b, query in enumerate(queries):
        distances = np.sqrt(np.sum((points - query) ** 2, axis=1))
        tied = np.flatnonzero(distances <= distances.min() * (1 + 1e-9))
        assert found.distance[b] == pytest.approx(distances.min(), rel=1e-12)
        assert found.size[b] == tied.size
        assert found.lowest[b] == tied[0]
        assert found.has_own[b] == (own is not None and own[b] in tied)


@examples
@given(st.integers(0, 15), st.integers(1, 40), st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_like_comparing_all_on_grids_full_of_ties(m: int, n: int, d: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, width, (n, d)).astype(float)
    queries = rng.integers(0, 2 * width, (m, d)) / 2
    check(queries, points, rng.integers(-1, n, m))
    check(queries, points, None)


@pytest.mark.parametrize("d", [1, 3, 10, 11, 20])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_like_comparing_all_on_measurements(d: int, shift: float) -> None:
    rng = np.random.default_rng(d)
    points = np.round(rng.normal(size=(300, d)), 1) + shift
    points = np.concatenate([points, points[:50]])
    check(points + rng.normal(size=points.shape) * 0.1, points, np.arange(350))
    check(points, points, np.arange(350))


@pytest.mark.parametrize("d", [2, 12])
def test_more_ties_than_memory_for_one_block(d: int, monkeypatch) -> None:
    monkeypatch.setattr(linkage, "_ENTRIES", 64)
    points = np.concatenate([np.eye(d), -np.eye(d)]) * 3  # all at the same distance from the middle
    check(np.zeros((5, d)), points, np.arange(-1, 4))


def test_a_microaggregated_file_gives_sets_of_k() -> None:
    points = np.repeat(np.arange(4.0), 3)[:, None]
    found = nearest_ties(np.arange(12)[:, None] / 3 - 0.3, points, np.arange(12))
    assert found.size.tolist() == [3] * 12
    assert found.has_own.all()


def test_table_9() -> None:
    """The anonymity set of each of two equal records is both; the single link is the lowest row."""
    found = nearest_ties([[1.0], [2.0], [9.0]], [[1.5], [1.5], [9.0]], [0, 1, 2])
    assert found.size.tolist() == [2, 2, 1]
    assert found.lowest.tolist() == [0, 0, 2]
    assert found.has_own.all()


def test_borders() -> None:
    check(np.array([[3.0, 4.0]]), np.zeros((1, 2)), np.array([0]))
    check(np.zeros((3, 2)), np.zeros((4, 2)), np.array([0, 3, -1]))
    check(np.empty((0, 2)), np.zeros((4, 2)), np.empty(0, np.int64))
    check(np.array([[-0.0]]), np.array([[0.0], [-0.0]]), np.array([1]))
    check(np.empty((2, 0)), np.empty((3, 0)), np.array([0, -1]))
    with pytest.raises(ValueError, match="finite"):
        nearest_ties(np.array([[np.inf]]), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="no points"):
        nearest_ties(np.zeros((1, 2)), np.zeros((0, 2)))
    with pytest.raises(ValueError, match="columns"):
        nearest_ties(np.zeros((1, 2)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="1 queries but 2 own points"):
        nearest_ties(np.zeros((1, 2)), np.zeros((1, 2)), [0, 1])
    with pytest.raises(ValueError, match="rows below 1"):
        nearest_ties(np.zeros((1, 2)), np.zeros((1, 2)), [1])


@pytest.mark.parametrize("d", [2, 12])
def test_progress_counts_up_and_may_cancel(d: int) -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(20_000 if d == 2 else 2000, d))
    calls: list[tuple[int, int, str]] = []
    nearest_ties(points + 0.1, points, progress=lambda *call: calls.append(call))
    assert len(calls) >= 1
    assert calls == sorted(calls)
    assert calls[-1] == (len(points), len(points), "linkage")

    def cancel(*call: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest_ties(points + 0.1, points, progress=cancel)
