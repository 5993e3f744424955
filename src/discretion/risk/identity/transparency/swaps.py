"""Columns that were swapped by rank: the likelihood of each move, and the partners that an exchange implies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.kernels.arrays import Floats
from discretion.risk.identity.distances import Space

if TYPE_CHECKING:
    from discretion.kernels.linkage import Nearest
    from discretion.kernels.swap_law import Laws

# Windows: the published values that a known value can have become by swapping or by grouping one column.

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


@dataclass(frozen=True)
class _Law:
    """The law of one column, by the numbers of its distinct values."""

    parts: tuple[Floats, Floats, Floats]
    ranks: NDArray[np.int64]
    reach: int
    low: int
    stop: int


def with_swaps(space: Space, steps: dict[int, Any], windows: dict[int, Window], whole: bool) -> Space:
    """Rank the candidates inside the windows of swapped columns by the likelihood of the move instead of the distance.

    A value swapped by rank is hardly ever near its own: see `kernels.swap_law`. Inside a block all ranks are equally
    likely. Where groups were swapped apart all the candidates count alike. `whole`: the intruder has all the values, so
    that their ranks are those of the original; otherwise they are those of the release. A suppressed cell counts as
    a value that tells nothing.
    """
    from discretion.kernels.linkage_mixed import SQUARED, SWAPPED

    terms = space.terms._replace(
        **{name: getattr(space.terms, name).copy() for name in ("kinds", "scale", "gap", "low", "high")}
    )
    space = replace(space, known=space.known.copy(), published=space.published.copy(), terms=terms)
    laws: dict[int, _Law] = {}
    for j, step in steps.items():
        terms.kinds[j], terms.scale[:, j], terms.gap[j] = SQUARED, 0.0, 0.0
        x, y = space.known[:, j], space.published[:, j]
        ranked = np.sort(x[~np.isnan(x)] if whole else y[~np.isnan(y)])
        if step.by or not len(ranked):
            continue
        values = np.unique(ranked)
        terms.low[:, j], terms.high[:, j] = _numbers(windows[j][0], values), _numbers(windows[j][1], values, "right")
        terms.kinds[j], terms.scale[:, j] = SWAPPED, 1.0 / len(values)
        terms.gap[j] = 2.0 * np.log(len(ranked)) if count_lost(x, y) else np.inf
        space.known[:, j], space.published[:, j] = _numbers(x, values), _numbers(y, values)
        laws[j] = _law_of(ranked, step)
    return space.changed(laws=_together(laws, len(space.columns)))


def _together(laws: dict[int, _Law], columns: int) -> Laws:
    """Put the laws of the columns one after another."""
    from discretion.kernels.swap_law import Laws

    places = np.zeros((columns, 5), dtype=np.int64)
    steps, values = 0, 0
    for j, law in laws.items():
        places[j] = steps, values, law.reach, law.low, law.stop
        steps, values = steps + len(law.parts[0]), values + len(law.ranks)
    none = np.empty(0)
    first, second, most = (np.concatenate([none, *(law.parts[part] for law in laws.values())]) for part in range(3))
    ranks = np.concatenate([np.empty((0, 2), np.int64), *(law.ranks for law in laws.values())])
    return Laws(first, second, most, ranks, places)


def _law_of(ranked: Floats, step: Any) -> _Law:
    from discretion.kernels.swap_law import swap_law

    n = len(ranked)
    _, counts = np.unique(ranked, return_counts=True)
    last = np.cumsum(counts) - 1
    low, high = (int(np.floor(share * n + 1e-9)) for share in (step.bottom_share, step.top_share))
    reach = max(1, int(np.floor(step.percent * n / 100 + 1e-9)))
    ranks = np.column_stack([last - counts + 1, last])
    if step.kind == "block-rank-swap":
        none = np.empty(0)
        return _Law((none, none, none), ranks, -reach, low, n - high)
    return _Law(swap_law(n - low - high, reach), ranks, reach, low, n - high)


def _numbers(x: Floats, values: Floats, side: Literal["left", "right"] = "left") -> Floats:
    """Give the numbers of values in their order, of bounds that of the next value inside; missing stays missing."""
    found = np.searchsorted(values, x, side) - (side == "right")
    return np.where(np.isnan(x), np.nan, np.clip(found, 0, len(values) - 1))


def exchange_of(space: Space, whole: bool) -> tuple[NDArray[np.int64], int, float] | None:
    """Give the columns to follow, the one to walk through and the mean number of records in its window; or None.

    It takes all the original records and two columns or more.
    """
    from discretion.kernels.exchange import count_pairs
    from discretion.kernels.linkage_mixed import SWAPPED

    columns = np.flatnonzero(space.terms.kinds == SWAPPED)
    columns = columns[space.terms.laws.places[columns, 2] > 0]  # blocks are shuffled, not exchanged
    if not whole or len(space.columns) < 2 or not len(columns):
        return None
    work = [float(count_pairs(space.published, space.terms, int(j)).mean()) for j in columns]
    walk = int(np.argmin(work))
    return columns, int(columns[walk]), work[walk]


def search_exchanged(
    space: Space, columns: NDArray[np.int64], walk: int, targets: NDArray[np.int64], ctx: Context
) -> Nearest:
    """Find the likeliest candidates of the targets, together with the partners they imply.

    The targets are moved to the beginning of both sides: the others are needed as partners.
    """
    from discretion.kernels.exchange import nearest_exchanged, who_has_what

    rest = np.ones(len(space.known), np.bool_)
    rest[targets] = False
    order = np.concatenate([targets, np.flatnonzero(rest)])
    known, published = space.known[order], space.published[order]
    own = {name: getattr(space.terms, name)[order] for name in ("low", "high")}
    scale = space.terms.scale if len(space.terms.scale) == 1 else space.terms.scale[order]
    terms = space.terms._replace(**own, scale=scale)
    found = nearest_exchanged(
        known, published, terms, who_has_what(known, published, columns), walk, ctx.progress, most=len(targets)
    )
    return found._replace(lowest=np.where(found.lowest < 0, -1, order[found.lowest]))
