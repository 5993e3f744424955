"""Windows: the published values that a known value can have become by swapping or by grouping one column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Window = tuple[Floats, Floats]
"""The smallest and the largest published value for each known value; without bound where it is missing."""


def swap_window(known: Floats, published: Floats, step: Any) -> Window:
    """Give the window of (block) rank swapping; the true published value always lies in it.

    The published column has the same values as the original, in other places, so that ranks can be counted in it. Equal
    values may have had any of their ranks; suppressed cells (more missing than were known) may have shifted each rank.
    """
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    present = ~np.isnan(known)
    ranked = np.sort(published[~np.isnan(published)])
    if not len(ranked):
        return low, high
    lost = count_lost(known, published)
    n = len(ranked) + lost
    x = known[present]
    first, last = np.searchsorted(ranked, x, "left"), np.searchsorted(ranked, x, "right") - 1
    first, last = np.minimum(first, np.maximum(last, 0)), np.maximum(first, last) + lost
    below, above = (int(np.floor(share * n + 1e-9)) for share in (step.bottom_share, step.top_share))
    if step.kind == "rank-swap":
        reach = int(np.floor(step.percent * n / 100 + 1e-9)) + lost
        low_rank, high_rank = first - reach, last + reach
    else:
        low_rank, high_rank = _block_ranks(first, last, below, n - above, step.percent, n)
        low_rank, high_rank = low_rank - lost, high_rank + lost
    stays = (last < below) | (first >= n - above)
    low[present] = np.where(stays, x, ranked[np.clip(low_rank, 0, len(ranked) - 1)])
    high[present] = np.where(stays, x, ranked[np.clip(high_rank, 0, len(ranked) - 1)])
    return low, high


def count_lost(known: Floats, published: Floats) -> int:
    """Count the cells that are missing in the release beyond those that were known to be missing."""
    return max(0, int(np.isnan(published).sum()) - int(np.isnan(known).sum()))


def _block_ranks(
    first: NDArray[np.int64], last: NDArray[np.int64], start: int, stop: int, percent: float, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the first rank of the block of `first` and the last rank of that of `last`; blocks begin at `start`."""
    size = max(1, int(np.floor(percent * n / 100 + 1e-9)))
    low = start + np.maximum(first - start, 0) // size * size
    high = start + (np.maximum(last - start, 0) // size + 1) * size - 1
    inside_low, inside_high = first >= start, last < stop
    return np.where(inside_low, low, first), np.where(inside_high, np.minimum(high, stop - 1), last)


def center_window(known: Floats, published: Floats) -> Window:
    """Give the window of grouping one sorted column: the centers next to the value on both sides.

    Groups of consecutive values do not overlap, so a record's own center is the nearest one below its value, equal to
    it, or the nearest one above.
    """
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    centers = np.unique(published[~np.isnan(published)])
    present = ~np.isnan(known)
    if not len(centers):
        return low, high
    x = known[present]
    below, above = np.searchsorted(centers, x, "left") - 1, np.searchsorted(centers, x, "right")
    low[present] = np.where(below >= 0, centers[np.maximum(below, 0)], -np.inf)
    high[present] = np.where(above < len(centers), centers[np.minimum(above, len(centers) - 1)], np.inf)
    return low, high
