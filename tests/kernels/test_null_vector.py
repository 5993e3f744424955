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
    assert int(null_vector.ratio(a[0], b[2] | np.uint64(1), p)) * int(b[2] | np.uint64(1)) % prime == int(a[0])
    shifted = null_vector.shifted(a, b, a[2], p)
    assert [int(v) for v in shifted] == [(int(x) - int(a[2]) * int(y)) % prime for x, y in zip(a, b, strict=True)]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(PRIMES), st.integers(0, 2**32), st.booleans())
def test_what_kept_rows_make_in_columns(prime: int, seed: int, alone: bool) -> None:
    """Sums of values and of squares over sets of records, each so many times, person by person."""
    p, rng = np.uint64(prime), np.random.default_rng(seed)
    people, records, rows = 7, 7 if alone else 20, 6
    owner = np.arange(people) if alone else np.sort(rng.integers(0, people, records))
    inside, powers = rng.random((rows, records)) < 0.5, rng.integers(0, 2, rows)
    weights = rng.integers(0, prime, (2, records), dtype=np.uint64)
    weights[0, rng.random(records) < 0.5] = 1
    made_of = rng.integers(0, prime, rows - 1, dtype=np.uint64)
    made_of[rng.random(rows - 1) < 0.3] = 0
    stored, columns = rng.permutation(rows)[:-1], rng.permutation(people)[:5]
    first = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=people))])
    bits = np.packbits(inside, axis=1)
    found = null_vector.made_at_columns(bits, stored, powers, weights, first, np.arange(records), columns, made_of, p)
    wanted = [
        sum(
            int(factor) * int(weights[powers[row], e])
            for factor, row in zip(made_of, stored, strict=True)
            for e in np.flatnonzero(inside[row] & (owner == column))
        )
        % prime
        for column in columns
    ]
    assert [int(value) for value in found] == wanted


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
        made = sum(int(factor) * int(entry) for factor, entry in zip(made_of, matrix[:k, k], strict=True))
        rest = (int(matrix[k, k]) - made) % prime
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
