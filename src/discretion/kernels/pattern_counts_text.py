"""Similarity of short texts after Jaro and Winkler, for names and addresses that were typed differently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.jit import helper, kernel

_PREFIX = 4  # letters at the beginning that count more
_PREFIX_WEIGHT = 0.1


def similarity_levels(one: Sequence[str], other: Sequence[str], thresholds: Sequence[float]) -> NDArray[np.uint8]:
    """Give for each pair of texts how many thresholds their similarity reaches, one level more where they are equal.

    Time O(len(one)·len(other)·length²), memory one byte a pair.
    """
    letters_a, start_a = _letters(one)
    letters_b, start_b = _letters(other)
    levels = np.zeros((len(one), len(other)), np.uint8)
    longest = int(max(np.diff(start_a).max(initial=0), np.diff(start_b).max(initial=0)))
    _levels(letters_a, start_a, letters_b, start_b, np.sort(np.asarray(thresholds, np.float64)), longest, levels)
    return levels


def _letters(texts: Sequence[str]) -> tuple[Ints32, Ints]:
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return np.array([ord(letter) for text in texts for letter in text], np.int32), start


@helper
def jaro_winkler(a: Ints32, b: Ints32, used_a: NDArray[np.bool_], used_b: NDArray[np.bool_]) -> float:
    """Give the similarity of two texts, from 0 (no letter in common) to 1 (equal)."""
    n, m = a.size, b.size
    if n == 0 or m == 0:
        return 1.0 if n == m else 0.0
    reach = max(max(n, m) // 2 - 1, 0)
    used_a[:n] = False
    used_b[:m] = False
    common = 0
    for i in range(n):
        for j in range(max(0, i - reach), min(m, i + reach + 1)):
            if not used_b[j] and a[i] == b[j]:
                used_a[i] = True
                used_b[j] = True
                common += 1
                break
    if common == 0:
        return 0.0
    turned, j = 0, 0
    for i in range(n):
        if used_a[i]:
            while not used_b[j]:
                j += 1
            turned += a[i] != b[j]
            j += 1
    jaro = (common / n + common / m + (common - turned // 2) / common) / 3.0
    same = 0
    while same < min(_PREFIX, n, m) and a[same] == b[same]:
        same += 1
    return jaro + same * _PREFIX_WEIGHT * (1.0 - jaro)


@kernel
def _levels(
    letters_a: Ints32, start_a: Ints, letters_b: Ints32, start_b: Ints, thresholds: Floats, longest: int,
    levels: NDArray[np.uint8],
) -> None:  # fmt: skip
    used_a, used_b = np.empty(longest, np.bool_), np.empty(longest, np.bool_)
    for i in range(levels.shape[0]):
        a = letters_a[start_a[i] : start_a[i + 1]]
        for k in range(levels.shape[1]):
            b = letters_b[start_b[k] : start_b[k + 1]]
            similarity = jaro_winkler(a, b, used_a, used_b)
            level = 0
            for t in range(thresholds.size):
                level += similarity >= thresholds[t]
            levels[i, k] = level + (similarity >= 1.0)
