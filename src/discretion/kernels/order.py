"""Sort numbers: the stable ascending order, and the sorted values with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32, Keys, as_vector
from discretion.kernels.jit import lean_kernel

_SMALL = 3000  # below this many values numpy's merge sort is the faster one
_DIGIT_BITS = 11  # six digits cover 64 bits, and 2,048 counters stay in the first-level cache
_DIGITS = 6
_SIGN = np.uint64(1 << 63)
_INT32_ROWS = 2**31 - 1

Order = NDArray[np.signedinteger[Any]]


def stable_order(x: ArrayLike) -> Order:
    """Return the row numbers of the values from smallest to largest (int32, int64 from 2³¹ rows on).

    Equal values keep their order (lowest row first); −0.0 and 0.0 are equal. The values must not contain NaN.
    Time O(n): radix sort on order-preserving keys, merge sort below 3,000 rows; memory 24 bytes a row.
    """
    values = as_vector(x)
    return _radix_order(values)[1] if _fits_radix(values.size) else _merge_order(values)


def sorted_with_order(x: ArrayLike) -> tuple[Floats, Order]:
    """Return the values in ascending order (−0.0 as 0.0), and the row each came from (see `stable_order`)."""
    values = as_vector(x)
    if _fits_radix(values.size):
        return _radix_order(values)
    order = _merge_order(values)
    return values[order] + 0.0, order


def _fits_radix(n: int) -> bool:
    return _SMALL <= n <= _INT32_ROWS


def _merge_order(values: Floats) -> Order:
    order = np.argsort(values, kind="stable")
    return order.astype(np.int32) if values.size <= _INT32_ROWS else order


def _radix_order(values: Floats) -> tuple[Floats, Order]:
    """Sort the bits of floats: those of negative numbers flipped, the rest lifted above them, they sort as integers."""
    bits = (values + 0.0).view(np.uint64)  # adding 0.0 turns −0.0 into 0.0 and copies
    bits ^= (bits.view(np.int64) >> 63).view(np.uint64) | _SIGN
    order = np.arange(values.size, dtype=np.int32)
    other_bits, other_order = np.empty_like(bits), np.empty_like(order)
    counts = np.zeros((_DIGITS, 1 << _DIGIT_BITS), np.int64)
    _count_digits(bits, counts)
    starts = np.cumsum(counts, axis=1) - counts
    for digit in np.flatnonzero(counts.max(axis=1) < values.size):  # the others are shared by all values
        _scatter(bits, order, other_bits, other_order, starts[digit], np.uint64(_DIGIT_BITS * digit))
        bits, other_bits, order, other_order = other_bits, bits, other_order, order
    bits ^= (~bits.view(np.int64) >> 63).view(np.uint64) | _SIGN
    return bits.view(np.float64), order


@lean_kernel
def _count_digits(keys: Keys, counts: Ints) -> None:
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    for i in range(keys.size):
        key = keys[i]
        for digit in range(_DIGITS):
            counts[digit, (key >> np.uint64(_DIGIT_BITS * digit)) & mask] += 1


@lean_kernel
def _scatter(keys: Keys, order: Ints32, next_keys: Keys, next_order: Ints32, starts: Ints, shift: np.uint64) -> None:
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    for i in range(keys.size):
        key = keys[i]
        digit = (key >> shift) & mask
        place = starts[digit]
        starts[digit] = place + 1
        next_keys[place] = key
        next_order[place] = order[i]
