"""An order of rows that only the holder of a key can tell: the positions, enciphered and sorted.

The cipher is Speck64/128 (ISO/IEC 29167-22): additions, rotations and exclusive-ors of 32-bit words, so that SQL, numpy
and Spark compute the same numbers, and a permutation of the 64-bit numbers, so that no two rows tie.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Ints

KEY_BYTES = 16
_ROUNDS = 27
_BLOCK = 16_384  # words of a block stay in the processor's cache


def keyed_mix(positions: NDArray[np.integer], key: bytes) -> NDArray[np.uint64]:
    """Encipher each position under a key of 16 bytes: without the key the results look like random 64-bit numbers.

    Different positions give different results. Time O(n), about 30 ns each.
    """
    rounds = round_keys(key)
    given = np.ascontiguousarray(positions, dtype=np.uint64)
    mixed = np.empty(len(given), np.uint64)
    for start in range(0, len(given), _BLOCK):
        block = given[start : start + _BLOCK]
        x, y = (block >> np.uint64(32)).astype(np.uint32), block.astype(np.uint32)
        for word in rounds:
            x = (((x >> 8) | (x << 24)) + y) ^ word
            y = ((y << 3) | (y >> 29)) ^ x
        mixed[start : start + _BLOCK] = (x.astype(np.uint64) << np.uint64(32)) | y
    return mixed


def keyed_order(n: int, key: bytes) -> Ints:
    """Return a permutation of 0 … n−1: the positions in the order of their enciphered numbers.

    Sorting bucket by bucket of the leading bits gives the same order. Time O(n).
    """
    from discretion.kernels.order import key_order

    return key_order(keyed_mix(np.arange(n), key)).astype(np.int64, copy=False)


def round_keys(key: bytes) -> NDArray[np.uint32]:
    """Derive the 27 words of the rounds from a key of 16 bytes."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
    first, *rest = (int(word) for word in np.frombuffer(key, "<u4"))
    words = [first]
    for number in range(_ROUNDS - 1):
        left = rest[number]
        left = ((((left >> 8) | (left << 24)) + words[-1]) & 0xFFFFFFFF) ^ number
        left &= 0xFFFFFFFF
        rest.append(left)
        words.append((((words[-1] << 3) | (words[-1] >> 29)) & 0xFFFFFFFF) ^ left)
    return np.array(words, np.uint32)
