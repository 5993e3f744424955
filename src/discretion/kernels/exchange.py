"""Linkage after an exchange of values: who has whose value, must have given away the own one (R14).

Rank swapping exchanges: if record q became the published record c, and c shows in a column a value that only record r
had, then r became the published record that shows the value of q there. So a wrong candidate must pass twice: for
itself, and for the partner it implies in every swapped column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Index, Ints
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage import TIE, Nearest, Progress
from discretion.kernels.linkage_mixed import NOMINAL, Terms, pair_cost
from discretion.kernels.swap_law import Laws

_RECORDS = 1024  # searched between two reports of progress

Bounds = NDArray[np.float64]
"""for each record its windows: a row of least and a row of largest values"""


class Exchange(NamedTuple):
    """Who has and who shows each value of the swapped columns, where only one does (−1 otherwise)."""

    columns: Ints
    holder: Ints
    """a row for each swapped column: the known record that has value number v"""
    shown: Ints
    """the published record that shows value number v"""


def who_has_what(known: Floats, published: Floats, columns: Ints) -> Exchange:
    """Find for each number in the swapped columns the one record that has it, on both sides.

    A number that several records have on one side is nobody's on the other either: where cells were suppressed, the
    one that still shows it need not be the one looked for.
    """
    size = int(max(np.nanmax(side[:, columns], initial=-1.0) for side in (known, published))) + 1
    both = [np.full((len(columns), size), -1, np.int64) for _ in range(2)]
    for e, j in enumerate(columns):
        several = np.zeros(size, np.bool_)
        for found, side in zip(both, (known, published), strict=True):
            rows = np.flatnonzero(~np.isnan(side[:, j]))
            codes = side[rows, j].astype(np.int64)
            found[e, codes] = rows
            several |= np.bincount(codes, minlength=size) > 1
        for found in both:
            found[e, several] = -1
    return Exchange(columns, both[0], both[1])


def count_pairs(published: Floats, terms: Terms, column: int) -> Ints:
    """Count the published records inside each record's window in one column."""
    first, last, order = _runs(published, terms, column)
    return np.where(last > first, last - first, 0) + (len(published) - len(order))


def nearest_exchanged(
    known: Floats, published: Floats, terms: Terms, exchange: Exchange, walk: int, progress: Progress | None = None,
    most: int | None = None,
) -> Nearest:  # fmt: skip
    """Find the likeliest candidates of each record and of the partners they imply; record i is row i of both.

    `walk` is the column whose window is walked through, `most` limits the search to the first so many records. The
    published records stand in blocks of neighbors in that column, each sorted by another swapped column, so that of a
    block only the part inside its window is looked at. Time: the records inside two windows; memory linear.
    """
    n = len(known) if most is None else min(most, len(known))
    first, last, order = _runs(published, terms, walk)
    across = _narrowest(published, terms, exchange.columns, walk)
    block = max(1, int(np.sqrt(len(order))))
    whole = ~np.isnan(published[order, across])
    tidy = order[whole]
    tidy = tidy[np.lexsort((published[tidy, across], np.flatnonzero(whole) // block))]
    starts = np.searchsorted(np.flatnonzero(whole), np.arange(0, len(order) + block, block))
    rows = np.concatenate([tidy, order[~whole], np.flatnonzero(np.isnan(published[:, walk]))])
    free = np.isnan(known) | (terms.kinds == NOMINAL)
    bounds = np.stack([np.where(free, -np.inf, terms.low), np.where(free, np.inf, terms.high)], axis=1)
    theirs, opposite = _beside(known, published, exchange, walk, bounds)
    given = (known, published, published[rows], rows, starts, block, len(order), first, last, walk, across, bounds,
             theirs[rows], opposite)  # fmt: skip
    distance, lowest = np.empty(n), np.empty(n, np.int64)
    size, has_own = np.empty(n, np.int64), np.empty(n, np.bool_)
    partner = np.empty(known.shape[1])
    for at in range(0, n, _RECORDS):
        stop = min(at + _RECORDS, n)
        _search(at, stop, *given, *terms.arrays(), *exchange, partner, distance, size, has_own, lowest)
        if progress is not None:
            progress(stop, n, "linkage by exchange")
    return Nearest(distance, size, has_own, lowest)


def _beside(known: Floats, published: Floats, exchange: Exchange, walk: int, bounds: Bounds) -> tuple[Bounds, Ints]:
    """Give for each published record the windows of the one who had its value, and for each known one who shows its."""
    place = int(np.flatnonzero(exchange.columns == walk)[0])
    holder, shown = (
        np.where(np.isnan(side[:, walk]), -1, found[place][np.nan_to_num(side[:, walk]).astype(np.int64)])
        for side, found in ((published, exchange.holder), (known, exchange.shown))
    )
    theirs = bounds[holder]
    theirs[holder < 0] = np.array([-np.inf, np.inf])[:, None]
    return theirs, shown


def _narrowest(published: Floats, terms: Terms, columns: Ints, walk: int) -> int:
    """Choose the swapped column with the narrowest windows beside the one walked through, which is given if alone."""
    others = [int(j) for j in columns if j != walk]
    most = [np.nanmax(published[:, j], initial=1.0) for j in others]
    widths = [np.nanmean(terms.high[:, j] - terms.low[:, j]) / top for j, top in zip(others, most, strict=True)]
    return others[int(np.argmin(widths))] if others else walk


def _runs(published: Floats, terms: Terms, column: int) -> tuple[Ints, Ints, Ints]:
    """Give for each record where its window begins and ends in the order of a column, and that order."""
    order = np.argsort(published[:, column], kind="stable")
    order = order[: len(order) - int(np.isnan(published[:, column]).sum())]
    values = published[order, column]
    first = np.searchsorted(values, terms.low[:, column], "left")
    return first, np.searchsorted(values, terms.high[:, column], "right"), order


@lean_kernel
def _search(  # noqa: PLR0912
    start: int, stop: int, known: Floats, published: Floats, placed: Floats, rows: Ints, starts: Ints, block: int,
    present: int, first: Ints, last: Ints, walk: int, across: int, bounds: Bounds, theirs: Bounds, opposite: Ints,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats,
    laws: Laws | None,
    columns: Ints, holder: Ints, shown: Ints, partner: Floats,
    distance: Floats, size: Ints, has_own: Bools, lowest: Ints,
) -> None:  # fmt: skip
    """Look at the blocks that a window meets, and at the records that lack one of the two values."""
    whole = starts[starts.size - 1]
    for q in range(start, stop):
        best, limit = np.inf, np.inf
        size[q], has_own[q], lowest[q] = 0, False, -1
        is_open = first[q] < last[q]
        begin, final = (first[q] // block, (last[q] - 1) // block + 1) if is_open else (0, 0)
        for number in range(begin, final + 1):
            if number < final:
                at, end, top = starts[number], starts[number + 1], high[q, across]
                at = _first_inside(placed, at, end, across, low[q, across])
            else:
                at, end, top = whole if is_open else present, rows.size, np.inf
            while at < end and not placed[at, across] > top:
                p, c, window = placed[at], rows[at], theirs[at]
                at += 1
                if not _inside(p, low[q], high[q]):
                    continue
                s = opposite[q]
                if s >= 0 and p[walk] != known[q, walk] and not _fits(published[s], window, walk):
                    continue  # the partner in this column does not fit; its windows lie beside the record
                if not _partners_fit(q, p, known, published, bounds, columns, holder, shown):
                    continue
                total = pair_cost(known[q], p, kinds, scale[min(q, scale.shape[0] - 1)], gap, alike, offsets,
                                  low[q], high[q], laws, limit)  # fmt: skip
                for e in range(columns.size):
                    r, s = _implied(known[q, columns[e]], p[columns[e]], holder[e], shown[e])
                    if total > limit or total == np.inf:
                        break
                    if r < 0 or s < 0 or r == q:
                        continue
                    for j in range(partner.size):
                        partner[j] = known[r, j]
                    partner[columns[e]] = np.nan
                    total += pair_cost(partner, published[s], kinds, scale[min(r, scale.shape[0] - 1)], gap, alike,
                                       offsets, low[r], high[r], laws, limit - total)  # fmt: skip
                if total > limit or total == np.inf:
                    continue
                if total * (1 + TIE) < best:
                    size[q], has_own[q], lowest[q] = 0, False, c
                best = min(best, total)
                limit = best * (1 + TIE)
                size[q] += 1
                has_own[q] |= c == q
                lowest[q] = min(lowest[q], c)
        distance[q] = best


@lean_helper
def _first_inside(placed: Floats, start: Index, end: Index, column: int, least: float) -> Index:
    """Give the first place of a sorted block whose value is not below the least."""
    while start < end:
        middle = (start + end) // 2
        if placed[middle, column] < least:
            start = middle + 1
        else:
            end = middle
    return start


@lean_helper
def _partners_fit(
    q: int, p: Floats, known: Floats, published: Floats, bounds: Bounds, columns: Ints, holder: Ints, shown: Ints
) -> bool:
    """Tell whether the partners that a candidate implies lie in their windows; most do not."""
    for e in range(columns.size):
        r, s = _implied(known[q, columns[e]], p[columns[e]], holder[e], shown[e])
        if r >= 0 and s >= 0 and r != q and not _fits(published[s], bounds[r], columns[e]):
            return False
    return True


@lean_helper
def _fits(p: Floats, window: Floats, but: Index) -> bool:
    """Tell whether a record lies in windows, those of one column not counted."""
    fits, j = True, 0
    while fits and j < p.size:
        fits = j == but or not (p[j] < window[0, j] or p[j] > window[1, j])
        j += 1
    return fits


@lean_helper
def _inside(p: Floats, low: Floats, high: Floats) -> bool:
    """Tell whether a record lies in all the windows; most do not, and no likelihood is needed for them."""
    fits, j = True, 0
    while fits and j < p.size:
        fits = not (p[j] < low[j] or p[j] > high[j])
        j += 1
    return fits


@lean_helper
def _implied(q: float, p: float, holder: Ints, shown: Ints) -> tuple[int, int]:
    """Give the record that had the value shown, and the one that shows the value had; −1 where it is not known."""
    if np.isnan(q) or np.isnan(p):
        return -1, -1
    return holder[np.int64(p)], shown[np.int64(q)]
