"""Records of numbers, ranks and categories, compared by a distance of Gower's type."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Ints, as_matrix
from discretion.kernels.jit import helper, kernel
from discretion.kernels.sums import add_exactly

NUMBER, RANK, CATEGORY = 0, 1, 2
_BLOCK = 2048  # records whose distances stay in the first-level cache while the columns are added up


class MixedSpace:
    """A `Space` of records with numbers, ranks and categories.

    The distance is the sum over the columns of |x − y| / range (numbers), |rank − rank| / (m − 1) (ordinal, m ranks)
    and 0 or 1 (nominal). Against a missing value (NaN) every value has the distance 1, two missing values 0. The center
    of the records left has the mean of numbers, the lower median of ranks, the most frequent category (the first of
    equally frequent ones), and nothing where more records miss the value than have it (for categories: where missing is
    the most frequent). One pass over n records takes O(n·d), several records in one instruction.

    `columns` is (d, n); ranks and categories are the numbers 0 … sizes[j]−1. Memory three times the input.
    """

    def __init__(self, columns: ArrayLike, kinds: ArrayLike, sizes: ArrayLike) -> None:
        given = as_matrix(columns)
        self._kinds, self._sizes = np.asarray(kinds, np.int64), np.asarray(sizes, np.int64)
        self._whole = given.copy()
        self._weights = np.ones(len(given))
        for j, (kind, m) in enumerate(zip(self._kinds, self._sizes, strict=True)):
            if kind == CATEGORY:
                self._whole[j, np.isnan(given[j])] = m  # a code of its own
            else:
                self._weights[j] = 1 / max(m - 1, 1) if kind == RANK else _inverse_range(given[j])
        self._left = self._whole.copy()
        slots = np.where(self._kinds == NUMBER, 0, self._sizes + 1)
        self._offsets = np.concatenate([[0], np.cumsum(slots)])
        self._counts = np.zeros(self._offsets[-1], np.int64)
        self._present = np.zeros(len(given), np.int64)
        self._sums = np.zeros((len(given), 2))
        rows = np.arange(given.shape[1])
        _count(self._whole, rows, self._kinds, self._offsets, self._counts, self._present, self._sums, 1)
        self._nominal = self._kinds == CATEGORY
        self._buffer = np.empty(given.shape[1])

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        center = _center(self._kinds, self._offsets, self._counts, self._present, self._sums, rows.size)
        return self._distances(center, rows.size)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        return self._distances(self._whole[:, row].copy(), rows.size)

    def _distances(self, q: Floats, left: int) -> Floats:
        _distances(self._left, left, self._nominal, self._weights, q, self._buffer)
        return self._buffer[:left]

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        gone = rows[places]
        _count(self._whole, gone, self._kinds, self._offsets, self._counts, self._present, self._sums, -1)
        _remove_columns(self._left, rows.size, places)


def _inverse_range(x: Floats) -> float:
    low, high = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
    return float(1 / (high - low)) if high > low else 0.0


@kernel
def _count(
    x: Floats, rows: Ints, kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, sign: int
) -> None:
    """Add records to the figures from which the center is made, or take them away."""
    for j in range(x.shape[0]):
        for row in rows:
            value = x[j, row]
            if np.isnan(value):
                continue
            present[j] += sign
            if kinds[j] == NUMBER:
                add_exactly(sums[j], sign * value)
            else:
                counts[offsets[j] + int(value)] += sign


@kernel
def _center(kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, left: int) -> Floats:
    center = np.full(kinds.size, np.nan)
    for j in range(kinds.size):
        if kinds[j] == CATEGORY:
            center[j] = np.argmax(counts[offsets[j] : offsets[j + 1]])
        elif 2 * present[j] < left or present[j] == 0:
            continue
        elif kinds[j] == NUMBER:
            center[j] = (sums[j, 0] + sums[j, 1]) / present[j]
        else:
            center[j] = _low_median(counts, offsets[j], present[j])
    return center


@helper
def _low_median(counts: Ints, start: int, total: int) -> int:
    rank, below = 0, counts[start]
    while 2 * below < total:
        rank += 1
        below += counts[start + rank]
    return rank


@kernel
def _distances(x: Floats, left: int, nominal: Bools, weights: Floats, q: Floats, out: Floats) -> None:
    for first in range(0, left, _BLOCK):
        total = out[first : min(first + _BLOCK, left)]
        total[:] = 0.0
        for j in range(q.size):
            column, at, weight = x[j, first : first + total.size], q[j], weights[j]
            if nominal[j]:
                for i in range(total.size):
                    total[i] += 1.0 if column[i] != at else 0.0
            elif np.isnan(at):
                for i in range(total.size):
                    total[i] += 0.0 if np.isnan(column[i]) else 1.0
            else:
                for i in range(total.size):
                    gap = abs(column[i] - at) * weight  # equal differences of whole numbers give equal distances
                    total[i] += 1.0 if np.isnan(gap) else gap


@kernel
def _remove_columns(x: Floats, left: int, places: Ints) -> None:
    for place in places:
        left -= 1
        for j in range(x.shape[0]):
            x[j, place] = x[j, left]
