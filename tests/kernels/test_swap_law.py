"""The law of rank swapping against swapping itself, and searches that use it against all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.kernels.linkage import (
    SQUARED,
    SWAPPED,
    Terms,
    build_tree,
    nearest_exchanged,
    nearest_mixed,
    who_has_what,
)
from discretion.kernels.swap import Laws, swap_law, swap_partners

LEAST = -2 * np.log(1e-12)


def probabilities(n: int, window: int) -> np.ndarray:
    first, second, _ = swap_law(n, window)
    i = np.arange(n)
    low, high = np.minimum.outer(i, i), np.maximum.outer(i, i)
    return np.where((high > low) & (high - low <= window), np.exp(first[low] + second[high]), 0.0)


@pytest.mark.parametrize(("n", "window", "near"), [(50, 1, 1e-6), (60, 6, 0.05), (100, 40, 0.05), (80, 80, 0.05)])
def test_law_against_swapping(n: int, window: int, near: float) -> None:
    rng = np.random.default_rng(n)
    seen = np.zeros((n, n))
    draws = 8000
    for _ in range(draws):
        seen[np.arange(n), swap_partners(n, window, rng.random(n))] += 1 / draws
    law = probabilities(n, window)
    assert (np.abs(law - seen).sum(axis=1) / 2).mean() < near
    uniform = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= window
    if window < 20:
        wrong = np.abs(uniform / uniform.sum(axis=1, keepdims=True) - seen).sum(axis=1) / 2
        assert wrong.mean() > 3 * (np.abs(law - seen).sum(axis=1) / 2).mean()


def test_far_partners_are_twice_as_likely_inside_and_less_likely_at_the_upper_end() -> None:
    law = probabilities(2000, 200)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-3)
    assert law[1000, 1200] / law[1000, 1001] == pytest.approx(2.0, rel=0.02)
    assert law[1999, 1998] / law[1999, 1799] == pytest.approx(2.0, rel=0.05)


def swapped_columns(rng: np.random.Generator, n: int, d: int, values: int) -> tuple[np.ndarray, np.ndarray, Terms]:
    """Swap columns by rank, as numbers of distinct values, with windows and laws."""
    known, published = np.empty((n, d)), np.empty((n, d))
    parts: list[list[np.ndarray]] = [[], [], []]
    ranks, places, low, high = [], [], np.empty((n, d)), np.empty((n, d))
    window = int(rng.integers(1, n))
    for j in range(d):
        raw = rng.integers(0, values, n)
        order = np.argsort(raw + rng.random(n) / 2)
        distinct, known_codes = np.unique(raw, return_inverse=True)
        published_codes = np.empty(n, np.int64)
        published_codes[order] = known_codes[order[swap_partners(n, window, rng.random(n))]]
        known[:, j], published[:, j] = known_codes, published_codes
        counts = np.bincount(known_codes)
        last = np.cumsum(counts) - 1
        first = last - counts + 1
        sorted_codes = np.sort(known_codes)
        low[:, j] = sorted_codes[np.maximum(first[known_codes] - window, 0)]
        high[:, j] = sorted_codes[np.minimum(last[known_codes] + window, n - 1)]
        places.append([sum(map(len, parts[0])), sum(map(len, ranks)), window, 0, n])
        for store, part in zip(parts, swap_law(n, window), strict=True):
            store.append(part)
        ranks.append(np.column_stack([first, last]))
        assert len(distinct) == len(counts)
    laws = Laws(*(np.concatenate(part) for part in parts), np.concatenate(ranks), np.array(places))
    kinds = np.full(d, SWAPPED)
    empty = np.empty((0, 1), np.int64)
    terms = Terms(kinds, np.full((1, d), 1.0), np.full(d, np.inf), empty, np.zeros(d, np.int64), low, high, laws)
    return known, published, terms


def costs(known: np.ndarray, published: np.ndarray, terms: Terms, j: int) -> np.ndarray:
    """−2·log of the mean probability over up to eight ranks of each of the two values, for all pairs."""
    start, at, reach, _, n = terms.laws.places[j]
    table = np.zeros((n, n))
    for a in range(n):
        for b in range(a + 1, min(n, a + reach + 1)):
            table[a, b] = table[b, a] = np.exp(terms.laws.first[start + a] + terms.laws.second[start + b])

    def ranks(code: float) -> list[int]:
        first, last = terms.laws.ranks[at + int(code)]
        size = last - first + 1
        few = min(size, 8)
        return [int(first + (2 * s + 1) * size // (2 * few)) for s in range(few)]

    found = np.array([[table[np.ix_(ranks(x), ranks(y))].mean() for y in published[:, j]] for x in known[:, j]])
    outside = (published[None, :, j] < terms.low[:, None, j]) | (published[None, :, j] > terms.high[:, None, j])
    with np.errstate(divide="ignore"):
        return np.where(outside, np.inf, np.minimum(-2 * np.log(found), LEAST))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32), n=st.integers(3, 60), d=st.integers(1, 3), values=st.sampled_from([2, 12, 40, 10**6])
)
def test_the_tree_finds_the_likeliest_of_all_pairs(seed: int, n: int, d: int, values: int) -> None:
    known, published, terms = swapped_columns(np.random.default_rng(seed), n, d, values)
    got = nearest_mixed(known, build_tree(published, terms.kinds, terms.scale[0]), terms, published)
    total = sum(costs(known, published, terms, j) for j in range(d))
    least = total.min(axis=1)
    tied = total <= (least * (1 + 1e-9))[:, None] + 1e-300
    assert np.isfinite(np.diag(total)).all()  # the right one is always a candidate
    np.testing.assert_allclose(got.distance, least, rtol=1e-9)
    np.testing.assert_array_equal(got.size, tied.sum(axis=1))
    np.testing.assert_array_equal(got.has_own, np.diag(tied))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32), n=st.integers(3, 40), d=st.integers(1, 3), values=st.sampled_from([12, 40, 10**6]),
    gaps=st.booleans(),
)  # fmt: skip
def test_the_exchange_against_all_pairs(seed: int, n: int, d: int, values: int, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    known, published, terms = swapped_columns(rng, n, d, values)
    other = rng.normal(size=(n, 2))
    known, published = (np.column_stack([side, other[:, i]]) for i, side in enumerate((known, published)))
    bounds = np.full((n, 1), np.inf)
    terms = terms._replace(
        kinds=np.append(terms.kinds, SQUARED), scale=np.ones((1, d + 1)), gap=np.zeros(d + 1),
        offsets=np.zeros(d + 1, np.int64), low=np.column_stack([terms.low, -bounds]),
        high=np.column_stack([terms.high, bounds]),
    )  # fmt: skip
    empty = np.zeros((n, d + 1), np.bool_)
    empty[:, :d] = gaps & (rng.random((n, d)) < 0.2)
    complete, published = published, np.where(empty, np.nan, published)
    exchange = who_has_what(known, published, np.arange(d))
    got = nearest_exchanged(known, published, terms, exchange, int(rng.integers(d)))
    each = np.array(
        [*(costs(known, complete, terms, j) for j in range(d)), (known[:, None, d] - published[None, :, d]) ** 2]
    )
    each = np.where(empty.T[:, None, :], 0.0, each)  # a missing value costs nothing here
    total = each.sum(axis=0)

    def counts(value: float, j: int) -> int:
        """How many have or show a value, where more do; a missing value is nobody's."""
        return n + 1 if np.isnan(value) else max((known[:, j] == value).sum(), (published[:, j] == value).sum())

    for q in range(n):
        for c in range(n):
            for j in range(d):
                had, shown = np.flatnonzero(known[:, j] == published[c, j]), np.flatnonzero(
                    published[:, j] == known[q, j]
                )  # fmt: skip
                if max(counts(published[c, j], j), counts(known[q, j], j)) == 1 and had[0] != q and len(shown):
                    total[q, c] += np.delete(each[:, had[0], shown[0]], j).sum()
    least = total.min(axis=1)
    tied = total <= (least * (1 + 1e-9))[:, None] + 1e-300
    assert np.isfinite(np.diag(total)).all()
    np.testing.assert_allclose(got.distance, least, rtol=1e-9)
    np.testing.assert_array_equal(got.size, tied.sum(axis=1))
    np.testing.assert_array_equal(got.has_own, np.diag(tied))
