from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from discretion.kernels.swap import block_shuffle, swap_partners
from tests.kernels.reference import examples


def reference_states(n: int, window: int) -> dict[tuple[int, ...], float]:
    """Every outcome of Algorithm 1 with its probability."""
    outcomes: dict[tuple[int, ...], float] = {}

    def visit(rank: int, partner: list[int | None], probability: float) -> None:
        if rank == n:
            done = tuple(i if p is None else p for i, p in enumerate(partner))
            outcomes[done] = outcomes.get(done, 0.0) + probability
            return
        free = [j for j in range(rank + 1, min(n - 1, rank + window) + 1) if partner[j] is None]
        if partner[rank] is not None or not free:
            visit(rank + 1, partner, probability)
            return
        for j in free:
            chosen = partner.copy()
            chosen[rank], chosen[j] = j, rank
            visit(rank + 1, chosen, probability / len(free))

    visit(0, [None] * n, 1.0)
    return outcomes


@pytest.mark.parametrize(("n", "window"), [(6, 2), (6, 3), (7, 7), (5, 1)])
def test_outcomes_have_the_probabilities_of_the_algorithm(n: int, window: int) -> None:
    rng = np.random.default_rng(20)
    draws = 20_000
    seen = Counter(tuple(swap_partners(n, window, rng.random(n)).tolist()) for _ in range(draws))
    expected = reference_states(n, window)
    assert set(seen) == set(expected)
    keys = sorted(expected)
    if len(keys) > 1:
        result = chisquare([seen[key] for key in keys], [draws * expected[key] for key in keys])
        assert result.pvalue > 0.001


@examples
@given(st.integers(0, 60), st.integers(0, 70), st.integers(0, 2**32))
def test_partners_are_an_involution_inside_the_window(n: int, window: int, seed: int) -> None:
    partner = swap_partners(n, window, np.random.default_rng(seed).random(n))
    ranks = np.arange(n)
    np.testing.assert_array_equal(partner[partner], ranks)
    assert (np.abs(partner - ranks) <= window).all()
    alone = ranks[partner == ranks]
    for rank in alone:  # a rank stays only when everyone after it in the window is taken by a lower one
        assert (partner[rank + 1 : rank + window + 1] < rank).all()


def test_the_largest_uniform_number_is_still_a_partner() -> None:
    partner = swap_partners(1000, 1000, np.full(1000, np.nextafter(1.0, 0.0)))
    np.testing.assert_array_equal(partner[partner], np.arange(1000))


@examples
@given(st.integers(0, 60), st.integers(1, 70), st.integers(0, 2**32))
def test_blocks_are_permuted_within(n: int, block: int, seed: int) -> None:
    ranks = block_shuffle(n, block, np.random.default_rng(seed).random(n))
    for start in range(0, n, block):
        end = min(n, start + block)
        assert sorted(ranks[start:end]) == list(range(start, end))


def test_every_order_of_a_block_is_equally_likely() -> None:
    rng = np.random.default_rng(21)
    seen = Counter(tuple(block_shuffle(5, 4, rng.random(5)).tolist()) for _ in range(12_000))
    assert len(seen) == 24
    assert chisquare(list(seen.values())).pvalue > 0.001


def test_wrong_parameters() -> None:
    with pytest.raises(ValueError, match="window"):
        swap_partners(3, -1, np.zeros(3))
    with pytest.raises(ValueError, match="block"):
        block_shuffle(3, 0, np.zeros(3))
    with pytest.raises(ValueError, match="3 uniform numbers"):
        swap_partners(3, 1, np.zeros(2))
