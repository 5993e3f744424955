"""Matching everybody at once: against all the matchings there are, and what beliefs must add up to."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from discretion.kernels.beliefs import find_reverse, mark_moves, match_all
from discretion.kernels.swap import swap_partners


def silent(done: int, total: int, label: str) -> None: ...


def ones(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.ones(n), np.ones(n)


def test_equal_people_and_equal_records_count_as_often_as_there_are() -> None:
    """Two kinds of people and of records, five of each in all: as many pairs as one by one."""
    weights = np.log(np.array([[1.0, 2.0], [3.0, 1.0]]))
    kinds, places = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    single = weights[kinds][:, places].ravel()
    records = np.tile(np.arange(5, dtype=np.int32), 5)
    (one_by_one,) = match_all(np.arange(0, 26, 5), records, single, ones(5), [], 1e-4, silent)
    sizes = np.array([2.0, 3.0]), np.array([2.0, 3.0])
    few = np.tile(np.arange(2, dtype=np.int32), 2)
    (found,) = match_all(np.array([0, 2, 4]), few, weights.ravel(), sizes, [], 1e-4, silent)
    added = np.zeros((2, 2))
    np.add.at(added, (kinds[:, None], places[None]), one_by_one.reshape(5, 5))
    assert found.reshape(2, 2) == pytest.approx(added, rel=1e-6)


def test_without_exchanges_beliefs_are_the_weights_scaled_to_one_record_each() -> None:
    rng = np.random.default_rng(1)
    n = 7
    weights = rng.normal(size=(n, n))
    records = np.tile(np.arange(n, dtype=np.int32), n)
    (found,) = match_all(np.arange(0, n * n + 1, n), records, weights.ravel(), ones(n), [], 1e-4, silent)
    found = found.reshape(n, n)
    assert found.sum(axis=0) == pytest.approx(np.ones(n), abs=1e-3)
    assert found.sum(axis=1) == pytest.approx(np.ones(n))
    scales = np.log(found) - weights  # one factor for each person, one for each record
    assert scales - scales[:1] - scales[:, :1] + scales[0, 0] == pytest.approx(np.zeros((n, n)), abs=1e-9)


def small(seed: int, n: int = 7, columns: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Give true and published values, row i published for person i, and which records a person's class allows."""
    rng = np.random.default_rng(seed)
    true = np.column_stack([rng.permutation(n) for _ in range(columns)]).astype(np.int64)
    shown = true.copy()
    for j in range(columns):
        order = np.argsort(true[:, j])
        shown[order, j] = true[order, j][swap_partners(n, 3, rng.random(n))]
    group = rng.integers(0, 2, n)
    near = (np.abs(true[:, None] - shown[None]) <= 3).all(axis=2)
    return true, shown, near & (group[:, None] == group[None])


def by_enumeration(
    true: NDArray[np.int64], shown: NDArray[np.int64], allowed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Count in how many matchings each person has each record, of those in which all values were exchanged in pairs."""
    n = len(true)
    counts = np.zeros((n, n))
    for order in permutations(range(n)):
        record = np.array(order)
        if not allowed[np.arange(n), record].all():
            continue
        moved = [set(zip(true[:, j].tolist(), shown[record, j].tolist(), strict=True)) for j in range(true.shape[1])]
        if all((v, u) in moves for moves in moved for u, v in moves):
            counts[np.arange(n), record] += 1
    return counts / counts.sum(axis=1, keepdims=True)


def matched(true: NDArray[np.int64], shown: NDArray[np.int64], allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    who, record = np.nonzero(allowed)
    n = len(true)
    exchanges = []
    for x, y in zip(true.T, shown.T, strict=True):
        u, v = x[who], y[record]
        both = np.unique(np.minimum(u, v) * n + np.maximum(u, v), return_inverse=True)[1]
        exchanges.append(np.where(u == v, -1, 2 * both + (u > v)).astype(np.int64))
    ends = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=n))])
    beliefs = np.zeros((n, n))
    none = np.zeros(len(who))
    beliefs[who, record] = next(match_all(ends, record.astype(np.int32), none, ones(n), exchanges, 1e-4, silent))
    return beliefs


@pytest.mark.parametrize("columns", [1, 2])
def test_beliefs_find_nearly_as_many_as_all_matchings_do(columns: int) -> None:
    """In files of seven partners of partners are met again at once, which is the hardest for messages."""
    best = found = far = 0.0
    files = 60
    for seed in range(files):
        true, shown, allowed = small(seed, columns=columns)
        exact, beliefs = by_enumeration(true, shown, allowed), matched(true, shown, allowed)
        right = np.arange(len(true))
        for table in (exact, beliefs):
            top = table >= table.max(axis=1, keepdims=True) * (1 - 1e-6)
            hits = (top[right, right] / top.sum(axis=1)).mean() / files
            best, found = (best + hits, found) if table is exact else (best, found + hits)
        far += np.abs(beliefs - exact).max(axis=1).mean() / files
        assert beliefs[~allowed].max(initial=0.0) == 0 and beliefs.sum(axis=1) == pytest.approx(np.ones(len(true)))
    assert found >= 0.85 * best and far < 0.15


def test_moves_whose_reverse_was_seen() -> None:
    rng = np.random.default_rng(2)
    for values in (5, 40, 3_000):
        true, shown = rng.integers(-1, values, 200), rng.integers(-1, values, 200)
        who, record = (rng.integers(0, 200, 500).astype(np.int32) for _ in range(2))
        bits = np.zeros(values**2 // 64 + 1, np.uint64)
        mark_moves(true, shown, values, who, record, bits)
        found = np.empty(500, np.bool_)
        find_reverse(true, shown, values, who, record, bits, found)
        moves = {(true[i], shown[r]) for i, r in zip(who, record, strict=True)}
        naive = [u < 0 or v < 0 or u == v or (v, u) in moves for u, v in zip(true[who], shown[record], strict=True)]
        assert found.tolist() == naive
        few = np.zeros(2, np.uint64)  # several moves in one place: more is kept, nothing lost
        mark_moves(true, shown, values, who, record, few)
        find_reverse(true, shown, values, who, record, few, found)
        assert (found | ~np.array(naive)).all()
