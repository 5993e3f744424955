"""Sort numbers: the stable ascending order, and the sorted values with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32, Keys, as_vector
from discretion.kernels.jit import helper, kernel

_SMALL = 3000  # below this many values numpy's merge sort is the faster one
_DIGIT_BITS = 11  # six digits cover 64 bits, and 2,048 counters stay in the first-level cache
_DIGITS = 6
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


def break_ties(values: Floats, order: Order, key: bytes) -> Order:
    """Return an order in which rows of equal values stand by the keyed mix of their row number, not by the number.

    `values` are sorted, `order` has the row of each. Time O(n).
    """
    from discretion.kernels.keyed_order import keyed_mix

    same = values[1:] == values[:-1]
    inside = np.zeros(len(values), np.bool_)
    inside[1:] |= same
    inside[:-1] |= same
    tied = np.flatnonzero(inside)
    rows = order[tied]
    mixed = _radix_keys(keyed_mix(rows, key))[1] if _fits_radix(len(rows)) else np.argsort(keyed_mix(rows, key))
    broken = order.copy()
    broken[tied] = rows[mixed[stable_order(values[tied][mixed])]]
    return broken


def _fits_radix(n: int) -> bool:
    return _SMALL <= n <= _INT32_ROWS


def _merge_order(values: Floats) -> Order:
    order = np.argsort(values, kind="stable")
    return order.astype(np.int32) if values.size <= _INT32_ROWS else order


def _radix_order(values: Floats) -> tuple[Floats, Order]:
    # Adding 0.0 turns −0.0 into 0.0 and copies, so that the keys may be overwritten.
    return _radix_sort((values + 0.0).view(np.uint64))


@kernel
def _radix_sort(keys: Keys) -> tuple[Floats, Ints32]:
    """Sort the bits of floats; `keys` is used up as working memory."""
    _to_ordered_keys(keys)
    ranked, order = _radix_passes(keys)
    _from_ordered_keys(ranked)
    return ranked.view(np.float64), order


@kernel
def _radix_keys(keys: Keys) -> tuple[Keys, Ints32]:
    """Sort whole numbers of 64 bits; `keys` is used up as working memory."""
    return _radix_passes(keys)


@helper
def _radix_passes(keys: Keys) -> tuple[Keys, Ints32]:
    n = keys.size
    starts = _digit_counts(keys)
    order = np.arange(n).astype(np.int32)
    next_keys = np.empty_like(keys)
    next_order = np.empty_like(order)
    for digit in range(_DIGITS):
        if _counts_to_starts(starts[digit], n):
            continue  # all values share this digit
        _scatter(keys, order, next_keys, next_order, starts[digit], np.uint64(_DIGIT_BITS * digit))
        keys, next_keys = next_keys, keys
        order, next_order = next_order, order
    return keys, order


@helper
def _to_ordered_keys(bits: Keys) -> None:
    """Make the bits of floats sort as integers: flip those of negative numbers, lift the rest above them."""
    sign = np.uint64(1) << np.uint64(63)
    for i in range(bits.size):
        b = bits[i]
        bits[i] = ~b if b & sign else b | sign


@helper
def _from_ordered_keys(keys: Keys) -> None:
    sign = np.uint64(1) << np.uint64(63)
    for i in range(keys.size):
        k = keys[i]
        keys[i] = k ^ sign if k & sign else ~k


@helper
def _digit_counts(keys: Keys) -> Ints:
    counts = np.zeros((_DIGITS, 1 << _DIGIT_BITS), np.int64)
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    for i in range(keys.size):
        key = keys[i]
        for digit in range(_DIGITS):
            counts[digit, (key >> np.uint64(_DIGIT_BITS * digit)) & mask] += 1
    return counts


@helper
def _counts_to_starts(counts: Ints, n: int) -> bool:
    """Replace counts by where each digit starts; True when one digit has all the values."""
    start = 0
    for digit in range(counts.size):
        count = counts[digit]
        if count == n:
            return True
        counts[digit] = start
        start += count
    return False


@helper
def _scatter(keys: Keys, order: Ints32, next_keys: Keys, next_order: Ints32, starts: Ints, shift: np.uint64) -> None:
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    for i in range(keys.size):
        key = keys[i]
        digit = (key >> shift) & mask
        place = starts[digit]
        starts[digit] = place + 1
        next_keys[place] = key
        next_order[place] = order[i]
