"""Arithmetic modulo large primes against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.kernels import null_vector

PRIMES = (2**61 - 1, 1152921504606847009, 2**63 - 25)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(PRIMES), st.integers(0, 2**32))
def test_products_and_ratios(prime: int, seed: int) -> None:
    p, rng = np.uint64(prime), np.random.default_rng(seed)
    a, b = (rng.integers(0, prime, 6, dtype=np.uint64) for _ in range(2))
    a[0], b[0], a[1], b[1] = prime - 1, prime - 1, 0, 1
    assert int(null_vector.inner(a, b, p)) == sum(int(x) * int(y) for x, y in zip(a, b, strict=True)) % prime
    assert int(null_vector.ratio(a[0], b[2] | np.uint64(1), p)) * int(b[2] | np.uint64(1)) % prime == int(a[0])
    shifted = null_vector.shifted(a, b, a[2], p)
    assert [int(v) for v in shifted] == [(int(x) - int(a[2]) * int(y)) % prime for x, y in zip(a, b, strict=True)]


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(PRIMES), st.integers(0, 2**32), st.integers(1, 7))
def test_growing_and_shrinking_an_inverse(prime: int, seed: int, size: int) -> None:
    """Row by row, T stays the inverse of the matrix; taken back, it is what it was."""
    p, rng = np.uint64(prime), np.random.default_rng(seed)
    matrix = rng.integers(0, prime, (size, size), dtype=np.uint64)
    matrix[rng.random((size, size)) < 0.4] = 1
    inverse, before = np.zeros((size, size), np.uint64), []
    for k in range(size):
        made_of = null_vector.combine_rows(inverse, k, matrix[k, :k], p)
        moves = null_vector.combine_columns(inverse, k, np.ascontiguousarray(matrix[:k, k]), p)
        rest = (int(matrix[k, k]) - int(null_vector.inner(made_of, np.ascontiguousarray(matrix[:k, k]), p))) % prime
        if rest == 0:
            return
        before.append(inverse[:k, :k].copy())
        null_vector.grow(inverse, k, made_of, moves, np.uint64(rest), p)
    product = [
        [sum(int(matrix[i, l]) * int(inverse[l, j]) for l in range(size)) % prime for j in range(size)]  # noqa: E741
        for i in range(size)
    ]
    assert product == np.eye(size, dtype=int).tolist()
    for k in range(size, 0, -1):
        null_vector.shrink(inverse, k, p)
        assert np.array_equal(inverse[: k - 1, : k - 1], before[k - 1])
