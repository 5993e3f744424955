"""Linkage of people with several records: all the records of a person against all those that a number joins (R11)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import distinct_rows
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage import TIE, Progress
from discretion.kernels.linkage_mixed import (
    ABSOLUTE,
    NOMINAL,
    ROUNDED,
    SQUARED,
    Terms,
    Tree,
    fill,
    pair_cost,
    pair_costs,
)
from discretion.kernels.linkage_windows import count_allowed, list_allowed
from discretion.kernels.swap_law import Laws

_UNITS = 64  # searched between two reports of progress
_FEW = 0.25  # share of the records up to which those near are listed


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
    own: Ints | None = None, tree: Tree | None = None,
) -> NearestUnits:  # fmt: skip
    """Find the published units nearest to each of the known ones named in `targets`.

    `of_known` and `of_published` number the unit of each record; unit u of one side is unit u of the other. The
    distance of two units is the sum, over the known records of one, of the distance to the nearest record of the other;
    with `both` also over the published records, to the nearest known one. With `equal` only units with as many records
    are possible, otherwise (unless `both`) those with at least as many. Time: targets × records; memory linear.

    Less time where the `own` published record of each known one (in the same unit) and the `tree` of the published
    records are given: the own unit is no farther than the sum over them, and a unit with no record that near to one of
    the target's need not be looked at.
    """
    count = int(max(of_known.max(initial=-1), of_published.max(initial=-1))) + 1
    (mine, my_starts), (theirs, their_starts) = _together(of_known, count), _together(of_published, count)
    starts, near = np.zeros(len(targets) + 1, np.int64), np.empty(0, np.int64)
    if own is not None and tree is not None:
        limits = _limits(known, of_known, published, of_published, terms, own, count, both, equal)[targets]
        starts, near = _near_units(known, mine, my_starts, published, of_published, terms, targets, limits, tree)
    kinds, scale, gap, alike, offsets, low, high, laws = terms.arrays()
    scale, low, high = (x if len(x) == 1 else x[mine] for x in (scale, low, high))
    sides = np.ascontiguousarray(known[mine]), my_starts, np.ascontiguousarray(published[theirs]), their_starts
    distance, size = np.empty(len(targets)), np.empty(len(targets), np.int64)
    has_own = np.empty(len(targets), np.bool_)
    for first in range(0, len(targets), _UNITS):
        last = min(first + _UNITS, len(targets))
        _search_units(first, last, targets, starts, near, *sides, kinds, scale, gap, alike, offsets, low, high, laws,
                      both, equal, distance, size, has_own)  # fmt: skip
        if progress is not None:
            progress(last, len(targets), "linkage by person")
    return NearestUnits(distance, size, has_own)


def _limits(
    known: Floats, of_known: Ints, published: Floats, of_published: Ints, terms: Terms, own: Ints, count: int,
    both: bool, equal: bool,
) -> Floats:  # fmt: skip
    """Give for each unit a distance that its own is not beyond; infinity where the own one need not be possible."""
    sums = np.bincount(of_known, pair_costs(known, published[own], terms), minlength=count) * (1 + both)
    people, records = (np.bincount(units, minlength=count) for units in (of_known, of_published))
    matched = np.zeros(len(published), np.bool_)
    matched[own] = True
    whole = np.bincount(of_published[matched], minlength=count) == records  # each record is some known one's
    possible = whole & (people == records) if both or equal else people <= records
    return np.where(possible, sums * ROUNDED[0] + ROUNDED[1] * (sums > 0), np.inf)


def _near_units(
    known: Floats, mine: Ints, my_starts: Ints, published: Floats, of_published: Ints, terms: Terms, targets: Ints,
    limits: Floats, tree: Tree,
) -> tuple[Ints, Ints]:  # fmt: skip
    """List for each target the units that have a record near to one of its own; none where these would be many."""
    rows = np.repeat(np.arange(len(targets)), my_starts[targets + 1] - my_starts[targets])
    records = mine[np.concatenate([np.arange(my_starts[t], my_starts[t + 1]) for t in targets])]
    full = np.lexsort((np.isnan(known[records]).sum(axis=1), rows))  # the record with most values tells most
    probes = records[full[np.searchsorted(rows, np.arange(len(targets)))]]
    classes = distinct_rows(fill(published))
    place = np.empty(len(classes.counts), np.int64)
    place[classes.ids[tree.rows]] = np.arange(len(tree.rows))
    order, begins = _together(place[classes.ids], len(tree.rows))
    pairs = []
    for some in (np.flatnonzero(limits == 0), np.flatnonzero((limits > 0) & np.isfinite(limits))):
        asked = some[:0]
        if len(some):
            within = _within(known[probes[some]], terms, probes[some], limits[some])
            few = count_allowed(known[probes[some]], tree, within) <= len(published) * _FEW
            asked, within = some[few], within._replace(low=within.low[few], high=within.high[few])
        if len(asked):
            starts, found = list_allowed(known[probes[asked]], tree, within, len(asked))
            who, spans = np.repeat(asked, np.diff(starts)), begins[found + 1] - begins[found]
            at = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
            units = of_published[order[np.repeat(begins[found], spans) + at]]
            pairs.append(np.repeat(who, spans) * len(my_starts) + units)
    every = np.sort(np.concatenate([np.empty(0, np.int64), *pairs]))
    who, units = np.divmod(every[np.append(True, every[1:] != every[:-1])[: len(every)]], len(my_starts))
    return np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(targets)))]).astype(np.int64), units


def _within(queries: Floats, terms: Terms, rows: Ints, limits: Floats) -> Terms:
    """Give windows that no point within a distance lies outside of, whatever its other columns."""
    scale = terms.scale if len(terms.scale) == 1 else terms.scale[rows]
    most, ordered = limits.max(), (terms.kinds == ABSOLUTE) | (terms.kinds == SQUARED)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(terms.kinds == SQUARED, np.sqrt(limits)[:, None], limits[:, None]) / scale
    reach = np.where(ordered & (scale > 0), reach * ROUNDED[0] + 1e-12 * np.abs(queries), np.inf)
    low, high = queries - reach, queries + reach
    if len(terms.low):
        low, high = np.fmax(low, terms.low[rows]), np.fmin(high, terms.high[rows])
    excludes = (terms.kinds == NOMINAL) & (scale > most).all(axis=0)
    return terms._replace(
        scale=np.where(excludes, np.inf, 0.0)[None], gap=np.where(terms.gap > most, np.inf, 0.0), low=low, high=high
    )


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
    total, many = 0.0, end - begin
    for one in range(start, stop):
        least, tried = np.inf, 0
        while tried < many and least > 0.0:  # of the own unit the record at the same place is the nearest
            other = begin + (one - start + tried) % many
            tried += 1
            i, r = (one, other) if by_known else (other, one)
            cost = pair_cost(known[i], published[r], kinds, scale[i % len(scale)], gap, alike, offsets,
                             low[i % len(low)], high[i % len(high)], laws, min(least, limit))  # fmt: skip
            least = min(least, cost)
        total += least
        if total > limit:
            break
    return total


@lean_kernel
def _search_units(
    first: int, last: int, targets: Ints, starts: Ints, near: Ints,
    known: Floats, mine: Ints, published: Floats, theirs: Ints,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats, laws: Laws | None,
    both: bool, equal: bool, distance: Floats, size: Ints, has_own: Bools,
) -> None:  # fmt: skip
    """Compare each target with its own unit first, then with those near or all; what exceeds the least is given up."""
    for number in range(first, last):
        target = targets[number]
        start, stop = mine[target], mine[target + 1]
        best, own_cost = np.inf, np.inf
        size[number] = 0
        listed = starts[number + 1] - starts[number]
        for place in range(-1, listed if listed else theirs.size - 1):
            unit = target if place < 0 else near[starts[number] + place] if listed else place
            if place >= 0 and unit == target:
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
