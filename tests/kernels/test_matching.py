"""Components and assignments against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from discretion.kernels.linkage import assign, strong_components


@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    arrows = rng.random((n, n)) < rng.uniform(0, 3) / n
    starts = np.concatenate([[0], np.cumsum(arrows.sum(axis=1))])
    mine = strong_components(starts, np.nonzero(arrows)[1].astype(np.int32))
    theirs = connected_components(csr_matrix(arrows), directed=True, connection="strong")[1]
    assert (mine >= 0).all()
    assert len(set(zip(mine, theirs, strict=True))) == len(set(mine)) == len(set(theirs))


def test_a_long_path_needs_no_recursion() -> None:
    n = 200_000
    ring = strong_components(np.arange(n + 1), np.roll(np.arange(n), -1).astype(np.int32))
    assert (ring == 0).all()
    line = strong_components(np.append(np.arange(n), n - 1), np.arange(1, n).astype(np.int32))
    assert len(np.unique(line)) == n


@pytest.mark.parametrize("seed", range(30))
def test_assignments_cost_the_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks, n = int(rng.integers(1, 5)), int(rng.integers(1, 25))
    costs = rng.integers(0, 4, (blocks, n, n)).astype(float) if seed % 2 else rng.exponential(1, (blocks, n, n))
    for table, linked in zip(costs, assign(costs), strict=True):
        assert sorted(linked) == list(range(n))
        least = table[linear_sum_assignment(table)].sum()
        assert table[np.arange(n), linked].sum() == pytest.approx(least, rel=1e-12, abs=1e-12)
