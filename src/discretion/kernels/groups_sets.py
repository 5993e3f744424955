"""Records that are sets of items, compared by Jaccard's distance."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.jit import kernel


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
