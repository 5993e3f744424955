from __future__ import annotations

from typing import Literal

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels.order import (
    count_between,
    keyed_mix,
    keyed_order,
    places,
    round_keys,
    rows_by_label,
    sorted_with_order,
    stable_order,
)
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


KEY = bytes(range(16))


def naive(position: int, key: bytes) -> int:
    """Speck64/128 as its authors write it, on Python's integers."""
    mask = 2**32 - 1

    def ror(word: int, by: int) -> int:
        return (word >> by | word << (32 - by)) & mask

    def turn(x: int, y: int, word: int) -> tuple[int, int]:
        x = (ror(x, 8) + y & mask) ^ word
        return x, ror(y, 29) ^ x

    words = [int.from_bytes(key[i : i + 4], "little") for i in (0, 4, 8, 12)]
    k, schedule = words[0], words[1:]
    x, y = position >> 32, position & mask
    for number in range(27):
        x, y = turn(x, y, k)
        left, k = turn(schedule[number % 3], k, number)
        schedule[number % 3] = left
    return x << 32 | y


def test_published_example() -> None:
    key = bytes.fromhex("000102030809 0a0b1011121318191a1b".replace(" ", ""))
    mixed = keyed_mix(np.array([0x3B7265747475432D], np.uint64), key)
    assert int(mixed[0]) == 0x8C6FA548454E028B


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20), st.binary(min_size=16, max_size=16))
def test_equals_the_cipher_written_naively(positions: list[int], key: bytes) -> None:
    mixed = keyed_mix(np.array(positions, np.int64), key)
    assert [int(value) for value in mixed] == [naive(position, key) for position in positions]


def test_sql_computes_the_same() -> None:
    query = "select range as p, range >> 32 as x, range & 4294967295 as y from range(1000)"
    for word in round_keys(KEY):
        x = f"xor(((x >> 8) | ((x << 24) & 4294967295)) + y & 4294967295, {word})"
        inner = f"select p, {x} as x, y from ({query})"
        query = f"select p, x, xor(((y << 3) & 4294967295) | (y >> 29), x) as y from ({inner})"
    rows = duckdb.sql(f"select (x::hugeint << 32) + y from ({query}) order by p").fetchall()
    assert [int(row[0]) for row in rows] == [int(value) for value in keyed_mix(np.arange(1000), KEY)]


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 40_000])
def test_order_is_a_permutation_that_depends_on_the_key(n: int) -> None:
    order = keyed_order(n, KEY)
    assert np.array_equal(np.sort(order), np.arange(n))
    if n >= 1000:
        other = keyed_order(n, bytes(16))
        assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(order, other)[0, 1]) < 5 / np.sqrt(n)


def test_order_bucket_by_bucket_is_the_same() -> None:
    mixed = keyed_mix(np.arange(5000), KEY)
    buckets = mixed >> np.uint64(61)
    parts = [np.flatnonzero(buckets == b) for b in range(8)]
    assert np.array_equal(np.concatenate([p[np.argsort(mixed[p])] for p in parts]), keyed_order(5000, KEY))


def test_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        keyed_mix(np.arange(3), b"short")


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_are_those_of_a_search_without_sorting(side: Literal["left", "right"]) -> None:
    rng = np.random.default_rng(5)
    ranked = np.sort(rng.integers(0, 20, 50).astype(float))
    values = np.append(rng.integers(-3, 24, 39).astype(float), np.nan).reshape(4, 10)
    assert (places(ranked, values, side) == np.searchsorted(ranked, values, side)).all()
    assert places(ranked, values[:0], side).shape == (0, 10)


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.booleans())
def test_values_of_the_group_between_bounds(seed: int, rows: int, counted: bool) -> None:
    rng = np.random.default_rng(seed)
    groups, values = rng.integers(0, 3, rows), rng.integers(-2, 3, rows).astype(float)
    low, high = np.sort(rng.integers(-3, 4, (2, rows)) / 2, axis=0)
    for x in (values, low, high):
        x[rng.random(rows) < 0.2] = np.nan
    records = rng.integers(1, 4, rows) if counted else None
    each = np.ones(rows, np.int64) if records is None else records
    want = [
        each[(groups == g) & (values >= least) & (values <= most)].sum()
        for g, least, most in zip(groups, low, high, strict=True)
    ]
    assert count_between(groups, values, low, high, records).tolist() == want
