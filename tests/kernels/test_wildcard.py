from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels.classes import wildcard_counts
from tests.kernels.golden import columns
from tests.kernels.reference import examples


def naive(rows: np.ndarray, missing: int, weights: np.ndarray, alpha: float) -> tuple[list, list]:
    counts, sums = [], []
    for row in rows:
        agree = np.all((rows == row) | (rows == missing) | (row == missing), axis=1)
        full = (rows != missing).all(axis=1) | (rows == row).all(axis=1)
        share = np.where(full, 1.0, alpha) * agree
        counts.append(share.sum())
        sums.append((share * weights).sum())
    return counts, sums


@examples
@given(st.integers(0, 30), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1), st.integers(0, 2**32))
def test_like_comparing_all_pairs(n: int, m: int, alpha: float, gaps: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((n, m)) < gaps, 0, rng.integers(1, 4, (n, m)))
    weights = rng.integers(1, 10, n).astype(float)
    frequency, sums = wildcard_counts([rows[:, j].astype(np.uint8) for j in range(m)], [0] * m, [4] * m, weights, alpha)
    expected = naive(rows, 0, weights, alpha)
    np.testing.assert_allclose(frequency, expected[0])
    np.testing.assert_allclose(sums, expected[1])


def test_columns_without_missing_values() -> None:
    a = np.array([0, 1, 1, 2], dtype=np.uint8)  # 2 marks a missing value
    b = np.array([0, 0, 0, 0], dtype=np.uint8)
    frequency, sums = wildcard_counts([a, b], [2, None], [3, 1])
    assert frequency.tolist() == [2, 3, 3, 4]
    assert sums is None


def test_no_columns() -> None:
    assert wildcard_counts([], [], [], n=3)[0].tolist() == [3, 3, 3]


@pytest.mark.peers
@pytest.mark.parametrize(
    ("source", "result", "keys"),
    [
        ("in_francdat_NA.csv", "01_freqCalc_francdat_NA_alpha1.csv", ["Key1", "Key2", "Key3", "Key4"]),
        (
            "in_testdata_w_NA.csv",
            "01_freqCalc_testdata_w_NA_alpha1.csv",
            ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"],
        ),
    ],
)
def test_like_sdcmicro(source: str, result: str, keys: list[str]) -> None:
    data = columns(source, [*keys, "w"])
    expected = columns(result, ["fk", "Fk"])
    codes = [np.where(np.isnan(data[key]), 0, data[key] + 1).astype(np.int64) for key in keys]
    cardinalities = [int(column.max()) + 1 for column in codes]
    frequency, sums = wildcard_counts(codes, [0] * len(keys), cardinalities, data["w"])
    np.testing.assert_allclose(frequency, expected["fk"])
    np.testing.assert_allclose(sums, expected["Fk"])
