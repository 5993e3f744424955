"""Records that are texts, compared by the edit distance of Levenshtein."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.groups_mdav import Medoid, spread_out
from discretion.kernels.jit import helper, kernel


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
