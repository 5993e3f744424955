"""Linkage after an exchange of values: who has whose value, must have given away the own one (R14).

Rank swapping exchanges: if record q became the published record c, and c shows in a column a value that only record r
had, then r became the published record that shows the value of q there. So a wrong candidate must pass twice: for
itself, and for the partner it implies in every swapped column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage import TIE, Nearest, Progress
from discretion.kernels.linkage_mixed import Terms, pair_cost
from discretion.kernels.swap_law import Laws

_PAIRS = 20_000_000  # looked at between two reports of progress


class Exchange(NamedTuple):
    """Who has and who shows each value of the swapped columns, where only one does (−1 otherwise)."""

    columns: Ints
    holder: Ints
    """a row for each swapped column: the known record that has value number v"""
    shown: Ints
    """the published record that shows value number v"""


def who_has_what(known: Floats, published: Floats, columns: Ints) -> Exchange:
    """Find for each number in the swapped columns the one record that has it, on both sides."""
    size = int(max(np.nanmax(side[:, columns], initial=-1.0) for side in (known, published))) + 1
    both = [np.full((len(columns), size), -1, np.int64) for _ in range(2)]
    for found, side in zip(both, (known, published), strict=True):
        for e, j in enumerate(columns):
            rows = np.flatnonzero(~np.isnan(side[:, j]))
            codes = side[rows, j].astype(np.int64)
            found[e, codes] = rows
            found[e, np.bincount(codes, minlength=size) > 1] = -1
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

    `walk` is the column whose window is walked through, `most` limits the search to the first so many records. Time:
    the records in all the windows; memory linear.
    """
    n = len(known) if most is None else min(most, len(known))
    first, last, order = _runs(published, terms, walk)
    missing = np.flatnonzero(np.isnan(published[:, walk]))
    distance, lowest = np.empty(n), np.empty(n, np.int64)
    size, has_own = np.empty(n, np.int64), np.empty(n, np.bool_)
    partner = np.empty(known.shape[1])
    ends = np.cumsum(np.maximum(last - first, 1))
    at = 0
    while at < n:
        stop = max(at + 1, int(np.searchsorted(ends, (ends[at - 1] if at else 0) + _PAIRS)))
        _search(at, min(stop, n), known, published, np.concatenate([order, missing]), len(missing), first, last,
                *terms.arrays(), *exchange, partner, distance, size, has_own, lowest)  # fmt: skip
        at = min(stop, n)
        if progress is not None:
            progress(at, n, "linkage by exchange")
    return Nearest(distance, size, has_own, lowest)


def _runs(published: Floats, terms: Terms, column: int) -> tuple[Ints, Ints, Ints]:
    """Give for each record where its window begins and ends in the order of a column, and that order."""
    order = np.argsort(published[:, column], kind="stable")
    order = order[: len(order) - int(np.isnan(published[:, column]).sum())]
    values = published[order, column]
    first = np.searchsorted(values, terms.low[:, column], "left")
    return first, np.searchsorted(values, terms.high[:, column], "right"), order


@lean_kernel
def _search(
    start: int, stop: int, known: Floats, published: Floats, order: Ints, missing: int, first: Ints, last: Ints,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats,
    laws: Laws | None,
    columns: Ints, holder: Ints, shown: Ints, partner: Floats,
    distance: Floats, size: Ints, has_own: Bools, lowest: Ints,
) -> None:  # fmt: skip
    there = order.size - missing
    for q in range(start, stop):
        best, limit = np.inf, np.inf
        size[q], has_own[q], lowest[q] = 0, False, -1
        inside = max(last[q] - first[q], 0)
        for k in range(inside + missing):
            c = order[first[q] + k] if k < inside else order[there + k - inside]
            if not _inside(published[c], low[q], high[q]):
                continue
            total = pair_cost(known[q], published[c], kinds, scale[min(q, scale.shape[0] - 1)], gap, alike, offsets,
                              low[q], high[q], laws, limit)  # fmt: skip
            for e in range(columns.size):
                r, s = _implied(known[q, columns[e]], published[c, columns[e]], holder[e], shown[e])
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
