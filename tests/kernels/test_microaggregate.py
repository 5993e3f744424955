from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels.microaggregate import mdav_bounds, optimal_bounds, replace_by_mean
from discretion.kernels.order import sorted_with_order
from tests.kernels import reference
from tests.kernels.reference import examples

AGES = np.array([42, 28, 50, 23, 12, 68, 30, 46, 55, 61], dtype=float)
WHOLE = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(lambda v: np.array(v, dtype=float))


def groups(bounds: np.ndarray, values: np.ndarray) -> list[list[float]]:
    return [values[a:b].tolist() for a, b in itertools.pairwise(bounds)]


def test_table_22_mdav() -> None:
    values, order = sorted_with_order(AGES)
    bounds = mdav_bounds(values, 3, order)
    assert groups(bounds, values) == [[12, 23, 28], [30, 42, 46, 50], [55, 61, 68]]
    released = replace_by_mean(values, bounds, order)
    np.testing.assert_allclose(released[[4, 0, 5]], [21, 42, 61 + 1 / 3])
    assert np.sum((released - AGES) ** 2) == pytest.approx(442.667, abs=5e-4)


def test_table_22_optimum() -> None:
    values, order = sorted_with_order(AGES)
    bounds = optimal_bounds(values, 3)
    assert groups(bounds, values) == [[12, 23, 28, 30], [42, 46, 50], [55, 61, 68]]
    assert np.sum((replace_by_mean(values, bounds, order) - AGES) ** 2) == pytest.approx(311.417, abs=5e-4)


@examples
@given(WHOLE, st.integers(1, 6))
def test_mdav_equals_the_multivariate_algorithm_on_one_column(x: np.ndarray, k: int) -> None:
    k = min(k, x.size)
    values, order = sorted_with_order(x)
    released = replace_by_mean(values, mdav_bounds(values, k, order), order)
    expected = reference.means_by_label(x[:, None], reference.mdav(x[:, None], k))[:, 0]
    # Records with equal values may be exchanged, so compare what is released for each value.
    pairs = sorted(zip(x.tolist(), np.round(released, 9).tolist(), strict=True))
    assert pairs == sorted(zip(x.tolist(), np.round(expected, 9).tolist(), strict=True))


@examples
@given(WHOLE, st.integers(1, 6))
def test_optimum_is_the_least_error(x: np.ndarray, k: int) -> None:
    k = min(k, x.size)
    values = np.sort(x)
    bounds = optimal_bounds(values, k)
    assert reference.error(values, bounds) == pytest.approx(reference.least_error(values, k), abs=1e-9)
    sizes = np.diff(bounds)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k


@pytest.mark.parametrize("shift", [0.0, 1e9, -1e12])
def test_optimum_does_not_lose_digits_far_from_zero(shift: float) -> None:
    values = np.sort(np.random.default_rng(3).integers(0, 1000, 300)).astype(float)
    expected = reference.least_error(values, 4)
    assert reference.error(values, optimal_bounds(values + shift, 4)) == pytest.approx(expected, rel=1e-12)


@examples
@given(WHOLE, st.integers(1, 6))
def test_bounds_are_complete_and_groups_have_k_to_2k_minus_1(x: np.ndarray, k: int) -> None:
    k = min(k, x.size)
    for cut in (mdav_bounds, optimal_bounds):
        bounds = cut(np.sort(x), k)
        assert (bounds[0], bounds[-1]) == (0, x.size)
        assert np.diff(bounds).min() >= k
        assert np.diff(bounds).max() < 2 * k
        assert bounds.dtype == np.int64


def test_mdav_of_long_runs_is_not_quadratic() -> None:
    values = np.repeat([0.0, 1.0], 100_000)
    assert np.diff(mdav_bounds(values, 2)).tolist() == [2] * 100_000


def test_mdav_sums_do_not_drift() -> None:
    rng = np.random.default_rng(5)
    values = np.sort(np.concatenate([rng.normal(0, 1e-3, 300), [1e16, 2e16, 3e16, -4e16, -1e15, 5.0]]))
    labels = reference.mdav(values[:, None], 3)
    expected = np.flatnonzero(np.diff(labels)) + 1
    np.testing.assert_array_equal(mdav_bounds(values, 3)[1:-1], expected)


def test_fewer_than_2k_are_one_group() -> None:
    for cut in (mdav_bounds, optimal_bounds):
        assert cut(np.arange(5.0), 3).tolist() == [0, 5]
        assert cut(np.arange(3.0), 3).tolist() == [0, 3]


@pytest.mark.parametrize("cut", [mdav_bounds, optimal_bounds])
def test_too_few_values_or_no_k(cut) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cut(np.arange(5.0), 0)
    with pytest.raises(ValueError, match="needs k = 6"):
        cut(np.arange(5.0), 6)


def test_equal_values_stay_exactly_as_they_are() -> None:
    values, order = np.full(9, 0.1), np.arange(9)
    assert (replace_by_mean(values, np.array([0, 3, 9]), order) == 0.1).all()
