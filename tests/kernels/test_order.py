from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels.order import rows_by_label, sorted_with_order, stable_order
from tests.kernels.reference import examples

SIZES = (0, 1, 2, 100, 2999, 3000, 20_000)


def check(x: np.ndarray) -> None:
    expected = np.argsort(x, kind="stable")
    values, order = sorted_with_order(x)
    np.testing.assert_array_equal(stable_order(x), expected)
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(values, x[expected])
    assert order.dtype == np.int32


@pytest.mark.parametrize("n", SIZES)
def test_like_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    check(rng.normal(size=n))
    check(rng.lognormal(10, 20, size=n))
    check(rng.integers(-3, 4, size=n).astype(float))
    check(np.zeros(n))


@pytest.mark.parametrize("n", SIZES)
def test_signed_zeros_are_equal(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.choice([-1.0, -0.0, 0.0, 1.0, -np.inf, np.inf, 5e-324, -5e-324], size=n)
    check(x)
    assert not np.signbit(sorted_with_order(np.array([-0.0] * n))[0]).any()


@examples
@given(st.lists(st.floats(allow_nan=False), max_size=50))
def test_any_floats(values: list[float]) -> None:
    x = np.array(values, dtype=float)
    check(x)
    if values:
        check(np.resize(x, 3001))


def test_input_is_untouched_and_may_be_read_only_or_strided() -> None:
    x = np.random.default_rng(1).normal(size=8000)
    before = x.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(stable_order(x), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(stable_order(x[::-2]), np.argsort(x[::-2], kind="stable"))
    np.testing.assert_array_equal(x, before)


def test_a_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        stable_order(np.zeros((2, 2)))


@given(st.lists(st.integers(0, 5), max_size=60), st.lists(st.integers(-1, 3), min_size=6, max_size=6))
def test_rows_of_each_label(codes: list[int], label_of: list[int]) -> None:
    labels = np.array([label_of[code] for code in codes], np.int64)
    counts = np.array([np.sum(labels == label) for label in range(4)])
    found = rows_by_label(np.array(label_of), np.array(codes, np.int64), counts)
    assert [rows.tolist() for rows in found] == [np.flatnonzero(labels == label).tolist() for label in range(4)]
