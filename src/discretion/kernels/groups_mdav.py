"""MDAV for any distance: the plain algorithm, which looks at every record left for every group.

What records are and how far they are from each other is the business of a `Space`; this file only finds the farthest
and the nearest, forms the groups, and forgets the records that have one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import numpy as np

from discretion.kernels.arrays import Floats, Ints, Ints32, Progress
from discretion.kernels.jit import helper, kernel

# Records that are sets of items, compared by Jaccard's distance.


class SetSpace:
    """A `Space` of sets: record i has `items[starts[i]:starts[i + 1]]`, numbers from 0 to n_items − 1, each once.

    The distance is 1 − |A ∩ B| / |A ∪ B|, and 0 between two empty sets. The center of the records left is the share of
    them that has each item; the distance to it is 1 − Σ min / Σ max, which is the same for shares of 0 and 1. One pass
    over the records takes time linear in their items.
    """

    def __init__(self, starts: Ints, items: Ints, n_items: int) -> None:
        self._starts, self._items = starts, items
        self._counts = np.bincount(items, minlength=n_items)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        return _to_shares(self._starts, self._items, rows, self._counts / max(rows.size, 1))

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        marked = np.zeros(self._counts.size)
        marked[self._items[self._starts[row] : self._starts[row + 1]]] = 1.0
        return _to_shares(self._starts, self._items, rows, marked)

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        _uncount(self._starts, self._items, rows[places], self._counts)


def most_have(starts: Ints, items: Ints, n_items: int, order: Ints, bounds: Ints) -> tuple[Ints, Ints]:
    """Return for each group (rows `order[bounds[g]:bounds[g + 1]]`) the items that more than half of it have.

    The result is like the input: bounds of the groups' items, and the items in ascending order.
    """
    kept = _most_have(starts, items, n_items, order, bounds, np.zeros(0, np.int64))
    found = np.empty(kept[-1], np.int64)
    _most_have(starts, items, n_items, order, bounds, found)
    return kept, found


@kernel
def _to_shares(starts: Ints, items: Ints, rows: Ints, shares: Floats) -> Floats:
    total = shares.sum()
    out = np.zeros(rows.size)
    for i in range(rows.size):
        both, size = 0.0, 0
        for at in range(starts[rows[i]], starts[rows[i] + 1]):
            both += shares[items[at]]
            size += 1
        union = size + total - both
        out[i] = max(1.0 - both / union, 0.0) if union > 0 else 0.0
    return out


@kernel
def _uncount(starts: Ints, items: Ints, rows: Ints, counts: Ints) -> None:
    for row in rows:
        for at in range(starts[row], starts[row + 1]):
            counts[items[at]] -= 1


@kernel
def _most_have(starts: Ints, items: Ints, n_items: int, order: Ints, bounds: Ints, found: Ints) -> Ints:
    counts = np.zeros(n_items, np.int64)
    kept = np.zeros(bounds.size, np.int64)
    for g in range(bounds.size - 1):
        size = bounds[g + 1] - bounds[g]
        kept[g + 1] = kept[g]
        for row in order[bounds[g] : bounds[g + 1]]:
            for item in items[starts[row] : starts[row + 1]]:
                counts[item] += 1
                if 2 * counts[item] > size and 2 * (counts[item] - 1) <= size:
                    if found.size:
                        found[kept[g + 1]] = item
                    kept[g + 1] += 1
        for row in order[bounds[g] : bounds[g + 1]]:
            for item in items[starts[row] : starts[row + 1]]:
                counts[item] = 0
        if found.size:
            found[kept[g] : kept[g + 1]].sort()
    return kept


# Records that are texts, compared by the edit distance of Levenshtein.


class TextSpace:
    """A `Space` of texts: row i has the distinct text `thing[i]`, text t the `letters[starts[t]:starts[t + 1]]`.

    The distance is the least number of characters to insert, delete or replace. The center is the one of at most 64
    texts, taken evenly from the distinct texts in their order, that is nearest to the records left. One pass takes as
    many distances as there are distinct texts left, each in time |a|·|b|; memory 64 numbers a distinct text.
    """

    def __init__(self, thing: Ints, starts: Ints, letters: Ints32, report: Callable[[], object] | None = None) -> None:
        self._thing, self._starts, self._letters = thing, starts, letters
        self._counts = np.bincount(thing, minlength=starts.size - 1)
        candidates = spread_out(starts.size - 1)
        distances = np.empty((candidates.size, starts.size - 1))
        for place, text in enumerate(candidates):
            distances[place] = _edits(starts, letters, int(text), self._counts)
            if report is not None:
                report()
        self._center = Medoid(distances, thing)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        return self._center.to_center(rows)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        return np.asarray(_edits(self._starts, self._letters, int(self._thing[row]), self._counts)[self._thing[rows]])

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        gone = rows[places]
        np.subtract.at(self._counts, self._thing[gone], 1)
        self._center.remove(gone)


def medoids(thing: Ints, starts: Ints, letters: Ints32, order: Ints, bounds: Ints) -> Ints:
    """Return for each group (rows `order[bounds[g]:bounds[g + 1]]`) the text with the least sum of distances to it.

    Of equally good texts the lowest number is taken. Time O(n·k) distances.
    """
    return _medoids(thing, starts, letters, order, bounds)


@kernel
def _edits(starts: Ints, letters: Ints32, text: int, counts: Ints) -> Floats:
    """Compute the distance of a text to all texts that some record left has."""
    longest = 0
    for t in range(counts.size):
        longest = max(longest, starts[t + 1] - starts[t])
    row = np.empty(longest + 1, np.int64)
    out = np.zeros(counts.size)
    for t in range(counts.size):
        if counts[t] > 0:
            out[t] = _edit(letters, starts[text], starts[text + 1], starts[t], starts[t + 1], row)
    return out


@helper
def _edit(letters: Ints32, a: int, a_end: int, b: int, b_end: int, row: Ints) -> int:
    while a < a_end and b < b_end and letters[a] == letters[b]:
        a += 1
        b += 1
    while a < a_end and b < b_end and letters[a_end - 1] == letters[b_end - 1]:
        a_end -= 1
        b_end -= 1
    size = b_end - b
    for j in range(size + 1):
        row[j] = j
    for i in range(a, a_end):
        corner, row[0] = row[0], i - a + 1
        for j in range(size):
            replaced = corner + (letters[i] != letters[b + j])
            corner = row[j + 1]
            row[j + 1] = min(replaced, corner + 1, row[j] + 1)
    return int(row[size])


@kernel
def _medoids(thing: Ints, starts: Ints, letters: Ints32, order: Ints, bounds: Ints) -> Ints:
    longest = 0
    for t in range(starts.size - 1):
        longest = max(longest, starts[t + 1] - starts[t])
    row = np.empty(longest + 1, np.int64)
    out = np.zeros(bounds.size - 1, np.int64)
    for g in range(out.size):
        least = np.int64(2**62)
        for at in order[bounds[g] : bounds[g + 1]]:
            text, total = thing[at], np.int64(0)
            for other in order[bounds[g] : bounds[g + 1]]:
                t = thing[other]
                total += _edit(letters, starts[text], starts[text + 1], starts[t], starts[t + 1], row)
            if total < least or (total == least and text < out[g]):
                least, out[g] = total, text
    return out


_REPORT_SECONDS = 0.2
_CANDIDATES = 64


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
