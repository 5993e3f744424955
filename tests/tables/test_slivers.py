"""Slivers are the small cuts of the graph of two divisions: compared with all sets of nodes of small maps."""

from __future__ import annotations

import numpy as np

from discretion.tables.differences import bonds


def enumerated(n: int, one: np.ndarray, other: np.ndarray, weight: np.ndarray, k: int) -> set[frozenset[int]]:
    """Give the cuts below k that contain no other one, from all sets of nodes."""
    cuts = set()
    for bits in range(1, 1 << n):
        inside = np.array([bits >> i & 1 for i in range(n)], bool)
        cut = frozenset(np.flatnonzero(inside[one] != inside[other]).tolist())
        if cut and weight[list(cut)].sum() < k:
            cuts.add(cut)
    return {cut for cut in cuts if not any(less < cut for less in cuts)}


def test_bonds_are_those_of_enumeration_on_random_small_maps() -> None:
    listed = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        left, right = rng.integers(2, 6, 2)
        edges = int(rng.integers(left + right - 1, left * right + 1))
        pick = rng.choice(left * right, edges, replace=False)
        one, other = pick // right, left + pick % right
        if seed % 3 == 0:  # several pieces between the same two codes
            one, other = np.r_[one, one[:2]], np.r_[other, other[:2]]
        weight = rng.choice([1, 1, 2, 3, 9, 30], len(one))
        k = int(rng.integers(2, 7))
        found = bonds(int(left + right), one, other, weight, k)
        expected = enumerated(int(left + right), one, other, weight, k)
        assert found.complete
        assert len(found.edges) == len(expected)
        assert {frozenset(cut.tolist()) for cut in found.edges} == expected
        for cut, side in zip(found.edges, found.sides, strict=True):
            coefficients = combination(int(left + right), one, other, cut, side)
            assert coefficients is not None
        listed += len(expected)
    assert listed > 150


def combination(n: int, one: np.ndarray, other: np.ndarray, cut: np.ndarray, side: np.ndarray) -> np.ndarray | None:
    """Give the codes to add (first division) and subtract (second) that leave the cut with its signs; None if none."""
    wanted = np.zeros(len(one))
    wanted[cut] = np.where(side, 1.0, -1.0)
    incidence = np.zeros((len(one), n))
    incidence[np.arange(len(one)), one] = 1
    incidence[np.arange(len(one)), other] = 1
    found = np.linalg.lstsq(incidence, wanted, rcond=None)[0]
    return found if np.abs(incidence @ found - wanted).max() < 1e-8 else None


def test_a_municipality_less_a_square_of_the_grid_is_one_person() -> None:
    people = np.array([20, 20, 20, 1, 20, 20, 20, 20])
    municipality, grid = np.arange(8) // 4, np.where(np.arange(8) < 3, 2, 3)
    found = bonds(4, municipality, grid, people, 3)
    assert [cut.tolist() for cut in found.edges] == [[3]]
    assert not bonds(4, municipality, grid, np.full(8, 20), 3).edges


def test_a_list_that_is_cut_short_says_so() -> None:
    one, other = np.arange(40), np.r_[40:79, 78]
    found = bonds(79, one, other, np.ones(40, np.int64), 2, most=10)
    assert len(found.edges) == 10
    assert not found.complete
