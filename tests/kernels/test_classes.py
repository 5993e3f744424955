from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels.classes import class_counts, class_ids, class_sums, distinct_rows
from tests.kernels.reference import examples

TYPES = (np.uint8, np.uint16, np.uint32, np.int64, np.int8)


def check(columns: list[np.ndarray], cardinalities: list[int], n: int) -> None:
    rows = list(zip(*columns, strict=True)) if columns else [()] * n
    numbers: dict[tuple, int] = {}
    ids = [numbers.setdefault(tuple(int(code) for code in row), len(numbers)) for row in rows]
    found = class_ids(columns, cardinalities, n)
    assert found.ids.tolist() == ids
    assert found.counts.tolist() == [ids.count(c) for c in range(len(numbers))]
    assert found.first_row.tolist() == [ids.index(c) for c in range(len(numbers))]
    assert (found.ids.dtype, found.counts.dtype, found.first_row.dtype) == (np.int32, np.int64, np.int64)
    assert Counter(class_counts(columns, cardinalities, n).tolist()) == Counter(found.counts.tolist())


@examples
@given(st.integers(0, 50), st.lists(st.integers(1, 5), max_size=6), st.integers(0, 2**32))
def test_small_codes(n: int, cardinalities: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = rng.choice(len(TYPES), len(cardinalities))
    columns = [rng.integers(0, c, n).astype(TYPES[t]) for c, t in zip(cardinalities, types, strict=True)]
    check(columns, cardinalities, n)


@examples
@given(st.integers(0, 50), st.integers(1, 8), st.integers(0, 2**32))
def test_cardinalities_beyond_64_bits(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**62, (m, 3))
    columns = [rng.choice(values[j], n) for j in range(m)]
    check(columns, [2**62] * m, n)


@pytest.mark.parametrize("radix", [2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1, 2**64])
def test_borders_of_32_and_64_bits(radix: int) -> None:
    column = np.array([0, radix - 1, 1, radix - 1, 0], dtype=np.uint64)
    check([column], [radix], 5)
    check([column, np.array([1, 1, 0, 1, 1], dtype=np.uint8)], [radix, 2], 5)


def test_many_rows_and_classes_let_the_table_grow() -> None:
    rng = np.random.default_rng(8)
    columns = [rng.integers(0, c, 150_000) for c in (1000, 1000, 50)]
    keys = (columns[0] * 1000 + columns[1]) * 50 + columns[2]
    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(first))
    found = class_ids(columns, [1000, 1000, 50])
    np.testing.assert_array_equal(found.ids, rank[inverse])
    np.testing.assert_array_equal(found.first_row, np.sort(first))
    np.testing.assert_array_equal(found.counts, counts[np.argsort(first)])
    np.testing.assert_array_equal(np.sort(class_counts(columns, [1000, 1000, 50])), np.sort(counts))


def test_one_frequent_class_among_many() -> None:
    rng = np.random.default_rng(9)
    column = np.where(rng.random(100_000) < 0.9, 7, rng.integers(0, 2**40, 100_000))
    _, counts = np.unique(column, return_counts=True)
    np.testing.assert_array_equal(np.sort(class_counts([column], [2**40])), np.sort(counts))


def test_no_columns_and_no_rows() -> None:
    assert class_ids([], [], 4).counts.tolist() == [4]
    assert class_ids([], [], 0).counts.tolist() == []
    assert class_counts([np.empty(0, np.uint8)], [3]).tolist() == []
    with pytest.raises(ValueError, match="number of rows"):
        class_ids([], [])


def test_wrong_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="column 0 has codes outside 0 … 2"):
        class_ids([np.array([0, 3])], [3])
    with pytest.raises(ValueError, match="outside"):
        class_ids([np.array([0, -1])], [3])
    with pytest.raises(ValueError, match="shape"):
        class_ids([np.array([0, 1]), np.array([0])], [2, 2])


def test_columns_may_be_strided_and_read_only() -> None:
    matrix = np.random.default_rng(1).integers(0, 3, (500, 4)).astype(np.uint8)
    matrix.flags.writeable = False
    check([matrix[:, j] for j in range(4)], [3] * 4, 500)


def test_sums() -> None:
    np.testing.assert_allclose(class_sums(np.array([0, 1, 0]), 3, [1.5, 2.0, 3.0]), [4.5, 2.0, 0.0])
    assert class_sums(np.empty(0, np.int32), 2, np.empty(0)).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="weights"):
        class_sums(np.array([0, 1]), 2, [1.0])


def test_distinct_rows_of_numbers() -> None:
    x = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [2.0, 1.5]])
    found = distinct_rows(x)
    assert found.ids.tolist() == [0, 0, 1, 0, 2]
    assert found.counts.tolist() == [3, 1, 1]
    assert found.first_row.tolist() == [0, 2, 4]


def test_distinct_whole_numbers_do_not_collide() -> None:
    x = np.arange(200_000, dtype=float)[:, None]  # differ only in the highest bits; slow when those are ignored
    assert distinct_rows(x).counts.size == 200_000
