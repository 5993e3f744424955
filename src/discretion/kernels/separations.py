"""How well the subsets of some columns tell records apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Index, Ints, Ints32, Progress
from discretion.kernels.jit import kernel
from discretion.kernels.subsets import Column, Walk

MOST_BYTES = 1 << 28
"""Memory for the sets of rows that are alone; without it fewer rows can be passed over."""


class Separation(NamedTuple):
    """How well a subset of columns tells records apart."""

    distinct: int
    """different combinations of values"""
    together: int
    """pairs of records that agree on all columns of the subset"""


def separations(
    columns: Sequence[Column], weights: Ints, max_size: int, progress: Progress, label: str
) -> dict[int, Separation]:
    """Count, for every subset of at most `max_size` columns, the distinct combinations and the pairs that agree.

    `columns` are the codes of the distinct rows and `weights` how many records each of them stands for. Keys of the
    result are bit masks. Time at most O(rows) a subset.
    """
    n = weights.size
    if not n:
        progress(1, 1, label)
        return {}
    several = weights > 1
    order = np.concatenate((np.flatnonzero(~several), np.flatnonzero(several)))
    weights, n_single = weights[order], n - int(several.sum())
    columns = [Column(codes[order], size) for codes, size in columns]
    walk = Walk(columns, n, n, max_size, progress, label, minimal=False, most_bytes=MOST_BYTES)
    all_pairs = int((weights * (weights - 1) // 2).sum())
    most = max(column.size for column in columns)
    sums, seen = np.zeros(most, np.int64), np.empty(most + 1, np.int32)
    found: dict[int, Separation] = {}
    for node in walk.nodes():
        if node.column is None:
            distinct, together = _groups(node.rows, node.starts, weights, n_single)
        else:
            codes = columns[node.column].codes
            distinct, together = _groups_by(node.rows, node.starts, codes, weights, n_single, sums, seen)
        found[node.mask] = Separation(n + int(distinct), all_pairs + int(together))
    for mask in _masks(len(columns), max_size):
        found.setdefault(mask, Separation(n, all_pairs))
    return found


def _masks(columns: int, max_size: int) -> list[int]:
    """List the subsets of at most `max_size` columns."""
    return [
        sum(1 << column for column in chosen)
        for size in range(1, max_size + 1)
        for chosen in combinations(range(columns), size)
    ]


@kernel
def _groups(rows: Ints32, starts: Ints32, weights: Ints, n_single: int) -> tuple[Index, Index]:
    """Give what some groups change: combinations (fewer than rows) and pairs of records that agree (more).

    Rows below n_single stand for one record, and come first in their group.
    """
    together: Index = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        weight = np.int64(end - start)
        while end > start and rows[end - 1] >= n_single:
            end -= 1
            more = weights[rows[end]]
            weight += more - 1
            together -= more * (more - 1) // 2
        together += weight * (weight - 1) // 2
    return starts.size - 1 - rows.size, together


@kernel
def _groups_by(
    rows: Ints32, starts: Ints32, codes: Codes, weights: Ints, n_single: int, sums: Ints, seen: Ints32
) -> tuple[Index, Index]:
    """The same for the groups that come of splitting them by a column; `sums` are zero before and after."""
    distinct: Index = 0
    together: Index = 0
    for group in range(starts.size - 1):
        start, end = starts[group], starts[group + 1]
        if end - start == 2 and rows[start + 1] < n_single:
            alike = np.int64(codes[rows[start]] == codes[rows[start + 1]])
            together += alike
            distinct += 2 - alike
            continue
        n_seen = 0
        for place in range(start, end):
            row = rows[place]
            code = codes[row]
            seen[n_seen] = code
            n_seen += sums[code] == 0
            weight = np.int64(1)
            if row >= n_single:
                weight = weights[row]
                together -= weight * (weight - 1) // 2
            sums[code] += weight
        for number in range(n_seen):
            weight = sums[seen[number]]
            sums[seen[number]] = 0
            together += weight * (weight - 1) // 2
        distinct += n_seen
    return distinct - rows.size, together
