from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels import mdav
from discretion.kernels.mdav import group_means, mdav_groups
from tests.kernels import reference
from tests.kernels.golden import columns
from tests.kernels.reference import examples

AGES = np.array([42, 28, 50, 23, 12, 68, 30, 46, 55, 61], dtype=float)[:, None]


def test_table_22() -> None:
    labels = mdav_groups(AGES, 3)
    members = {frozenset(AGES[labels == g, 0]) for g in range(3)}
    assert members == {frozenset({12, 23, 28}), frozenset({30, 42, 46, 50}), frozenset({55, 61, 68})}
    assert np.sum((group_means(AGES, labels, 3) - AGES) ** 2) == pytest.approx(442.667, abs=5e-4)


@examples
@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 7), st.integers(1, 6), st.integers(0, 2**32))
def test_equals_the_plain_algorithm_on_data_full_of_ties(n: int, d: int, k: int, width: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, width, (n, d)).astype(float)
    k = min(k, n)
    np.testing.assert_array_equal(mdav_groups(x, k), reference.mdav(x, k))


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize(
    "kind", ["normal", "lognormal", "grid", "binary", "constant columns", "circle", "equal", "outliers"]
)
def test_equals_the_plain_algorithm_on_2500_records(kind: str, k: int) -> None:
    """Enough records for many leaves, several rankings, and scans that are given up for the tree."""
    n = 2500
    rng = np.random.default_rng(k)
    x = {
        "normal": lambda: rng.normal(size=(n, 3)),
        "lognormal": lambda: rng.lognormal(0, 2, size=(n, 3)),
        "grid": lambda: rng.integers(0, 9, (n, 3)).astype(float),
        "binary": lambda: rng.integers(0, 2, (n, 4)).astype(float),
        "constant columns": lambda: np.column_stack([np.ones(n), rng.normal(size=n), np.zeros(n)]),
        "circle": lambda: np.round(20 * np.exp(2j * np.pi * rng.random(n))).view(float).reshape(n, 2),
        "equal": lambda: np.full((n, 2), 0.1),
        "outliers": lambda: rng.standard_cauchy((n, 2)),
    }[kind]()
    np.testing.assert_array_equal(mdav_groups(x, k), reference.mdav(x, k))


@examples
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 2**32))
def test_groups_have_k_to_2k_minus_1_and_are_numbered_from_0(n: int, k: int, seed: int) -> None:
    k = min(k, n)
    x = np.random.default_rng(seed).normal(size=(n, 2)).round(1)
    labels = mdav_groups(x, k)
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    assert labels.dtype == np.int32


def test_input_is_untouched_and_may_be_transposed_or_read_only() -> None:
    x = np.random.default_rng(4).normal(size=(3, 500))
    before = x.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(mdav_groups(x.T, 5), mdav_groups(before.T.copy(), 5))
    np.testing.assert_array_equal(x, before)


def test_too_few_records_or_no_k() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        mdav_groups(np.zeros((3, 1)), 0)
    with pytest.raises(ValueError, match="needs k = 4"):
        mdav_groups(np.zeros((3, 1)), 4)
    with pytest.raises(ValueError, match="two dimensions"):
        mdav_groups(np.zeros(3), 1)
    with pytest.raises(ValueError, match="no columns"):
        mdav_groups(np.zeros((3, 0)), 1)
    with pytest.raises(ValueError, match="finite"):
        mdav_groups(np.array([[1.0], [np.nan]]), 1)


def test_progress_counts_up_and_may_cancel(monkeypatch) -> None:
    monkeypatch.setattr(mdav, "_REPORT_SECONDS", 0.0)  # a report after every pair of groups
    x = np.random.default_rng(6).normal(size=(2000, 3))
    calls: list[tuple[int, int, str]] = []
    labels = mdav_groups(x, 5, lambda *call: calls.append(call))
    assert len(calls) > 50
    assert calls == sorted(calls)
    assert calls[-1] == (2000, 2000, "microaggregation")
    monkeypatch.undo()
    np.testing.assert_array_equal(labels, mdav_groups(x, 5))

    def cancel(*call: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mdav_groups(x, 5, cancel)


def test_means() -> None:
    x = np.array([[1.0, 0.1], [3.0, 0.1], [5.0, 0.1], [8.0, 7.0]])
    expected = [[3.0, 0.1], [3.0, 0.1], [3.0, 0.1], [8.0, 7.0]]
    assert group_means(x, [1, 1, 1, 0], 2).tolist() == expected  # equal values stay exactly as they are
    rng = np.random.default_rng(7)
    x, labels = rng.normal(size=(200, 3)), rng.integers(0, 20, 200)
    np.testing.assert_allclose(group_means(x, labels, 20), reference.means_by_label(x, labels))
    with pytest.raises(ValueError, match="labels"):
        group_means(x, labels, 10)
    with pytest.raises(ValueError, match="200 rows"):
        group_means(x, labels[1:], 20)


@pytest.mark.peers
@pytest.mark.parametrize("k", [3, 5, 10])
def test_like_sdcmicro(k: int) -> None:
    names = ["expend", "income", "savings"]
    x = np.column_stack(list(columns("in_testdata.csv", names).values()))
    expected = np.column_stack(list(columns(f"05_mdav_testdata_aggr{k}.csv", names).values()))
    labels = mdav_groups((x - x.mean(axis=0)) / x.std(axis=0), k)
    released = group_means(x, labels, int(labels.max()) + 1)
    np.testing.assert_allclose(released, expected, rtol=1e-9)
