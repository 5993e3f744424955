"""A keyed hash of many numbers that is as fast as reading them (NH: sums of products of 32-bit halves).

For two different lists of one length, and random keys, each of the three sums is the same with probability at most
2⁻³², and all three with at most 2⁻⁹⁶ (Black, Halevi, Krawczyk, Krovetz & Rogaway, CRYPTO 1999; the keys of each sum are
those of the one before, shifted by one pair). This holds while keys and sums stay secret.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Keys
from discretion.kernels.jit import lean_kernel

MORE_KEYS = 2
"""How many keys are needed beyond one for each number."""

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MINUS_ZERO = np.uint64(0x8000000000000000)
_INFINITE = np.uint64(0x7FF0000000000000)
_NAN = np.uint64(0x7FF8000000000000)


def hash_floats(values: NDArray[np.float64], keys: Keys) -> Keys:
    """Return three sums for a list of numbers; −0.0 counts as 0.0, and every NaN as the same. Time O(n)."""
    if len(keys) < len(values) + MORE_KEYS:
        raise ValueError(f"{len(values)} numbers need {len(values) + MORE_KEYS} keys, got {len(keys)}")
    given = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    given.flags.writeable = False
    sums = np.zeros(3, np.uint64)
    _sums(given, keys, sums)
    return sums


@lean_kernel
def _sums(words: Keys, keys: Keys, sums: Keys) -> None:
    one, two, three = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(words.size):
        word = words[i]
        word = np.uint64(0) if word == _MINUS_ZERO else word
        word = _NAN if word & ~_MINUS_ZERO > _INFINITE else word
        high = word >> _HALF
        one += ((word + keys[i]) & _LOW) * ((high + (keys[i] >> _HALF)) & _LOW)
        two += ((word + keys[i + 1]) & _LOW) * ((high + (keys[i + 1] >> _HALF)) & _LOW)
        three += ((word + keys[i + 2]) & _LOW) * ((high + (keys[i + 2] >> _HALF)) & _LOW)
    sums[0], sums[1], sums[2] = one, two, three
