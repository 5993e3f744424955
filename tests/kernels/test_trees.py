from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discretion.kernels.trees import GowerTree


def naive(
    points: NDArray[np.float64], query: NDArray[np.float64], nominal: list[bool], weights: list[float]
) -> list[float]:
    found = []
    for point in points:
        total = 0.0
        for j, (a, b) in enumerate(zip(point, query, strict=True)):
            if nominal[j]:
                total += float(a != b)
            elif np.isnan(a) or np.isnan(b):
                total += 0.0 if np.isnan(a) and np.isnan(b) else 1.0
            else:
                total += abs(a - b) * weights[j]
        found.append(total)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 5), st.integers(1, 4))
def test_nearest_records_and_ties_as_a_full_comparison_finds_them(seed: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    nominal = (rng.random(d) < 0.5).tolist()
    levels = int(rng.integers(2, 12))
    points = rng.integers(0, levels, (n, d)).astype(float)
    queries = rng.integers(0, levels, (20, d)).astype(float)
    for table in (points, queries):
        for j in np.flatnonzero(~np.array(nominal)):
            table[rng.random(len(table)) < 0.2, j] = np.nan
    weights = [0.0 if is_name else 1 / (levels - 1) for is_name in nominal]
    k = min(k, n)
    distance, rows = GowerTree(points, nominal, weights).nearest(queries, k)
    for q, query in enumerate(queries):
        all_of_them = naive(points, query, nominal, weights)
        order = sorted(range(n), key=lambda i: (all_of_them[i], i))[:k]
        assert rows[q].tolist() == order
        assert distance[q].tolist() == [all_of_them[i] for i in order]


def test_many_equal_records_share_a_leaf() -> None:
    points = np.zeros((5000, 2))
    points[4999] = 1.0
    distance, rows = GowerTree(points, [False, True], [1.0, 0.0]).nearest([[0.0, 0.0], [1.0, 1.0]], 3)
    assert rows.tolist() == [[0, 1, 2], [4999, 0, 1]]
    assert distance.tolist() == [[0, 0, 0], [0, 2, 2]]


def test_progress_and_bad_input() -> None:
    calls: list[tuple[int, int, str]] = []
    tree = GowerTree(np.arange(10.0)[:, None], [False], [0.1])
    tree.nearest(np.zeros((5000, 1)), 1, lambda *a: calls.append(a))
    assert calls[-1][:2] == (5000, 5000)
    with pytest.raises(ValueError, match="between 1 and 10"):
        tree.nearest([[0.0]], 11)
    with pytest.raises(ValueError, match="no records"):
        GowerTree(np.empty((0, 1)), [False], [1.0])
