"""Linkage of people with several records: all the records of a person against all those that a number joins (R11)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage import TIE, Progress
from discretion.kernels.linkage_mixed import Terms, pair_cost
from discretion.kernels.swap_law import Laws

_UNITS = 64  # searched between two reports of progress


class NearestUnits(NamedTuple):
    """For each unit that was looked for, the published units at the least distance."""

    distance: Floats
    """the least sum, infinity where no unit is possible"""
    size: Ints
    """how many units have it"""
    has_own: Bools
    """whether the right one is among them"""


def nearest_units(
    known: Floats, of_known: Ints, published: Floats, of_published: Ints, terms: Terms, targets: Ints,
    progress: Progress | None = None, *, both: bool = True, equal: bool = True,
) -> NearestUnits:  # fmt: skip
    """Find the published units nearest to each of the known ones named in `targets`.

    `of_known` and `of_published` number the unit of each record; unit u of one side is unit u of the other. The
    distance of two units is the sum, over the known records of one, of the distance to the nearest record of the other;
    with `both` also over the published records, to the nearest known one. With `equal` only units with as many records
    are possible, otherwise (unless `both`) those with at least as many. Time: targets × records; memory linear.
    """
    count = int(max(of_known.max(initial=-1), of_published.max(initial=-1))) + 1
    (mine, my_starts), (theirs, their_starts) = _together(of_known, count), _together(of_published, count)
    kinds, scale, gap, alike, offsets, low, high, laws = terms.arrays()
    scale, low, high = (x if len(x) == 1 else x[mine] for x in (scale, low, high))
    sides = np.ascontiguousarray(known[mine]), my_starts, np.ascontiguousarray(published[theirs]), their_starts
    distance, size = np.empty(len(targets)), np.empty(len(targets), np.int64)
    has_own = np.empty(len(targets), np.bool_)
    for first in range(0, len(targets), _UNITS):
        last = min(first + _UNITS, len(targets))
        _search_units(first, last, targets, *sides, kinds, scale, gap, alike, offsets, low, high, laws,
                      both, equal, distance, size, has_own)  # fmt: skip
        if progress is not None:
            progress(last, len(targets), "linkage by person")
    return NearestUnits(distance, size, has_own)


def _together(units: Ints, count: int) -> tuple[Ints, Ints]:
    """Give the records in the order of their units, and where each unit begins."""
    order = np.argsort(units, kind="stable").astype(np.int64)
    return order, np.concatenate([[0], np.cumsum(np.bincount(units, minlength=count))]).astype(np.int64)


@lean_helper
def _sum_of_nearest(
    by_known: bool, start: int, stop: int, begin: int, end: int, known: Floats, published: Floats,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats, laws: Laws | None,
    limit: float,
) -> float:  # fmt: skip
    """Add up, over the records of one unit, the distance to the nearest of the other; stop when it is over the limit.

    `by_known`: records from `start` on are known ones and those from `begin` on published, otherwise the reverse.
    """
    total = 0.0
    for one in range(start, stop):
        least = np.inf
        for other in range(begin, end):
            i, r = (one, other) if by_known else (other, one)
            cost = pair_cost(known[i], published[r], kinds, scale[i % len(scale)], gap, alike, offsets,
                             low[i % len(low)], high[i % len(high)], laws, limit)  # fmt: skip
            least = min(least, cost)
        total += least
        if total > limit:
            break
    return total


@lean_kernel
def _search_units(
    first: int, last: int, targets: Ints, known: Floats, mine: Ints, published: Floats, theirs: Ints,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats, laws: Laws | None,
    both: bool, equal: bool, distance: Floats, size: Ints, has_own: Bools,
) -> None:  # fmt: skip
    """Compare each target with its own unit first, then with all; what exceeds the least sum is given up early."""
    for number in range(first, last):
        target = targets[number]
        start, stop = mine[target], mine[target + 1]
        best, own_cost = np.inf, np.inf
        size[number] = 0
        for place in range(-1, theirs.size - 1):
            unit = target if place < 0 else place
            if place == target:
                continue
            begin, end = theirs[unit], theirs[unit + 1]
            if begin == end or (equal and end - begin != stop - start):
                continue
            if not equal and not both and end - begin < stop - start:
                continue
            limit = best * (1 + TIE)
            total = _sum_of_nearest(True, start, stop, begin, end, known, published, kinds, scale, gap, alike, offsets,
                                    low, high, laws, limit)  # fmt: skip
            if both and total <= limit:
                total += _sum_of_nearest(False, begin, end, start, stop, known, published, kinds, scale, gap, alike,
                                         offsets, low, high, laws, limit - total)  # fmt: skip
            if place < 0:
                own_cost = total
            if total > limit or total == np.inf:
                continue
            if total * (1 + TIE) < best:
                size[number] = 0
            best = min(best, total)
            size[number] += 1
        distance[number] = best
        has_own[number] = own_cost < np.inf and own_cost <= best * (1 + TIE)
