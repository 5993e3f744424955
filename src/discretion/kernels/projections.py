"""Cells of a few columns at every combination of their levels: how many records stand in small ones.

The records in cells of fewer than k records are a lower bound on the records that a release with these levels must
suppress, whatever the other columns do. A table over three columns is counted once, at the lowest levels; every other
combination of levels is a roll-up of a table that is already there.
"""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Ints, Ints32
from discretion.kernels.jit import helper, kernel


@kernel
def small_cells(codes: Ints32, counts: Ints, parents: Ints32, sizes: Ints, k: int) -> tuple[Ints, Ints]:
    """Count, at each combination of levels of three columns, the records in cells below k and the cells of k or more.

    `codes` has a row per column; `parents[j, level]` maps the codes of column j from a level to the next;
    `sizes[j, level]` is the number of codes at a level, 0 above the top. Time O(records + cells at all levels).
    """
    levels = np.zeros(3, np.int64)
    for j in range(3):
        for level in range(sizes.shape[1]):
            levels[j] += sizes[j, level] > 0
    small = np.zeros((levels[0], levels[1], levels[2]), np.int64)
    big = np.zeros((levels[0], levels[1], levels[2]), np.int64)
    b, c = sizes[1, 0], sizes[2, 0]
    first = np.zeros(sizes[0, 0] * b * c, np.int32)  # at most 2³¹ − 1 records
    for row in range(counts.size):
        first[(codes[0, row] * b + codes[1, row]) * c + codes[2, row]] += np.int32(counts[row])
    for x in range(levels[0]):
        if x > 0:
            first = _roll(first, parents[0, x - 1], 1, sizes[0, x - 1], sizes[0, x], b * c)
        second = first
        for y in range(levels[1]):
            if y > 0:
                second = _roll(second, parents[1, y - 1], sizes[0, x], sizes[1, y - 1], sizes[1, y], c)
            third = second
            for z in range(levels[2]):
                if z > 0:
                    rows = sizes[0, x] * sizes[1, y]
                    third = _roll(third, parents[2, z - 1], rows, sizes[2, z - 1], sizes[2, z], 1)
                records, cells = 0, 0
                for cell in range(third.size):
                    size = third[cell]
                    cells += size >= k
                    records += size if size < k else 0
                small[x, y, z], big[x, y, z] = records, cells
    return small, big


@helper
def _roll(table: Ints32, parent: Ints32, outer: int, before: int, after: int, inner: int) -> Ints32:
    """Add up the cells of one axis by their parents."""
    result = np.zeros(outer * after * inner, np.int32)
    for o in range(outer):
        for old in range(before):
            source = (o * before + old) * inner
            target = (o * after + parent[old]) * inner
            for i in range(inner):
                result[target + i] += table[source + i]
    return result
