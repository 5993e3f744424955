"""The keyed hash of many numbers against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from discretion.kernels.hashing import MORE_KEYS, hash_floats


def naive(values: np.ndarray, keys: np.ndarray) -> list[int]:
    """Sum products of 32-bit halves, modulo 2⁶⁴, in Python's whole numbers."""
    words = [int(word) for word in (values + 0.0).view(np.uint64)]
    sums = []
    for shift in range(3):
        total = 0
        for word, key in zip(words, (int(key) for key in keys[shift:]), strict=False):
            low, high = (word + key) % 2**32, ((word >> 32) + (key >> 32)) % 2**32
            total += low * high
        sums.append(total % 2**64)
    return sums


def keys_for(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 2**64, count + MORE_KEYS, dtype=np.uint64)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_against_the_definition(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    assert hash_floats(values, keys_for(count)).tolist() == naive(values, keys_for(count))


def test_minus_zero_and_every_nan_count_as_one() -> None:
    keys = keys_for(2)
    strange = np.array([0xFFF8000000000123, 0x8000000000000000], np.uint64).view(np.float64)
    assert hash_floats(strange, keys).tolist() == hash_floats(np.array([np.nan, 0.0]), keys).tolist()


def test_a_small_change_changes_every_sum_and_read_only_numbers_are_taken() -> None:
    values = np.random.default_rng(1).normal(size=50)
    other = values.copy()
    other[17] = np.nextafter(other[17], 9)
    values.flags.writeable = False
    one, two = hash_floats(values, keys_for(50)), hash_floats(other, keys_for(50))
    assert not (one == two).any()
    with pytest.raises(ValueError, match="need 52 keys, got 51"):
        hash_floats(values, keys_for(49))
