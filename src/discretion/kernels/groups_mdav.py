"""MDAV for any distance: the plain algorithm, which looks at every record left for every group.

What records are and how far they are from each other is the business of a `Space`; this file only finds the farthest
and the nearest, forms the groups, and forgets the records that have one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import numpy as np

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.jit import kernel

_REPORT_SECONDS = 0.2
_CANDIDATES = 64

Progress = Callable[[int, int, str], object]


class Space(Protocol):
    """Records and their distances. The records left stand in places 0 … left−1, which change as records leave."""

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left (`rows`, by place) to their center."""

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left (`rows`, by place) to a record, which may have left."""

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget the records at some places (descending): the last record left moves to each place in turn."""


def groups_in(space: Space, n: int, k: int, progress: Progress | None = None) -> Ints32:
    """Group n records by MDAV so that every group has k to 2k−1; return the group of each row.

    While 3k or more records are left: the record farthest from their center and the k−1 nearest to it are a group; of
    the others, the one farthest from that record and the k−1 nearest to it are the next. Of 2k … 3k−1 records left,
    one more group around the farthest from the center is taken; the rest is the last group. Ties go to the lowest
    row; groups are numbered as they are formed. `progress(done, total, "microaggregation")` is called several times a
    second and may raise to cancel. Distances must be finite.

    Each pair of groups takes three passes over the records left: time O(n²/k) distances, memory linear in n.
    """
    if k < 1 or n < k:
        raise ValueError(f"a group needs k ≥ 1 records and there must be as many: k = {k}, n = {n}")
    work = _Work(space, n, k)
    reported = perf_counter()
    while work.left >= 2 * k:
        is_pair = work.left >= 3 * k
        outer = _farthest(space.to_center(work.rows), work.rows)
        distances = space.to_record(int(work.rows[outer]), work.rows)
        chosen = _nearest(distances, work.rows, k)
        distances[chosen] = -1.0
        opposite = int(work.rows[_farthest(distances, work.rows)])
        work.take(chosen)
        if not is_pair:
            break
        work.take(_nearest(space.to_record(opposite, work.rows), work.rows, k))
        if progress is not None and perf_counter() - reported > _REPORT_SECONDS:
            progress(n - work.left, n, "microaggregation")
            reported = perf_counter()
    work.take(np.arange(work.left))
    if progress is not None:
        progress(n, n, "microaggregation")
    return work.labels


class _Work:
    """The records left and the groups formed."""

    def __init__(self, space: Space, n: int, k: int) -> None:
        self.space, self.k, self.left, self.group = space, k, n, 0
        self.labels = np.full(n, -1, np.int32)
        self._rows = np.arange(n)

    @property
    def rows(self) -> Ints:
        return self._rows[: self.left]

    def take(self, places: Ints) -> None:
        """Make the records at some places the next group."""
        places = np.sort(places)[::-1].copy()
        self.labels[self.rows[places]] = self.group
        self.space.remove(self.rows, places)
        _remove_places(self._rows, self.left, places)
        self.left -= places.size
        self.group += 1


@kernel
def _remove_places(values: Ints, left: int, places: Ints) -> None:
    """Fill each place (descending) with the last value left."""
    for place in places:
        left -= 1
        values[place] = values[left]


@kernel
def _farthest(distances: Floats, rows: Ints) -> int:
    best = 0
    for i in range(1, distances.size):
        if distances[i] > distances[best] or (distances[i] == distances[best] and rows[i] < rows[best]):
            best = i
    return best


@kernel
def _nearest(distances: Floats, rows: Ints, k: int) -> Ints:
    """Return the places of the k nearest; of equal distances the lowest rows."""
    best, best_rows, places = np.full(k, np.inf), np.full(k, np.int64(2**62)), np.empty(k, np.int64)
    for i in range(distances.size):
        distance, row = distances[i], rows[i]
        if distance > best[k - 1] or (distance == best[k - 1] and row > best_rows[k - 1]):
            continue
        j = k - 1
        while j > 0 and (best[j - 1] > distance or (best[j - 1] == distance and best_rows[j - 1] > row)):
            best[j], best_rows[j], places[j] = best[j - 1], best_rows[j - 1], places[j - 1]
            j -= 1
        best[j], best_rows[j], places[j] = distance, row, i
    return places


def spread_out(n: int) -> Ints:
    """Choose at most 64 of n sorted things, evenly: the candidates for a center of things that cannot be averaged."""
    return np.unique(np.linspace(0, n - 1, min(n, _CANDIDATES)).round().astype(np.int64))


class Medoid:
    """The center of things that cannot be averaged: of some candidates the one nearest to all records left.

    `distances[c, t]` is the distance of candidate c to thing t, `thing` the thing of each row. Memory is that of at
    most 64 distances a thing.
    """

    def __init__(self, distances: Floats, thing: Ints) -> None:
        self._distances, self._thing = distances, thing
        self._totals = distances @ np.bincount(thing, minlength=distances.shape[1]).astype(np.float64)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record to the center."""
        nearest = self._distances[int(self._totals.argmin())]
        return np.asarray(nearest[self._thing[rows]])

    def remove(self, rows: Ints) -> None:
        """Forget some records."""
        self._totals -= self._distances[:, self._thing[rows]].sum(axis=1)
