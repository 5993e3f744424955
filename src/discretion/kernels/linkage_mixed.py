"""Record linkage on numbers and categories together: the nearest points of each query, with ties as anonymity sets.

Equal points are merged and count as often as they occur. The distinct points stand in a tree whose nodes know the
box around their numbers and (in 64 bits) the categories that occur, so that whole nodes are passed over; the result is
that of comparing everything with everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Keys
from discretion.kernels.classes import distinct_rows
from discretion.kernels.jit import helper, kernel
from discretion.kernels.linkage import TIE, Nearest, Progress
from discretion.kernels.swap_law import Laws, no_laws, swap_bound, swap_cost

ABSOLUTE, SQUARED, NOMINAL, SWAPPED = 0, 1, 2, 3
_LEAF = 12  # points that are compared one by one
_QUERIES = 8192  # searched between two reports of progress
_DEPTH = 128  # nodes that can wait at a time


Arrays = tuple[Ints, Floats, Floats, Ints, Ints, Floats, Floats, Floats, Floats, Ints, Ints]


class Terms(NamedTuple):
    """How each column adds to the distance between a query and a point."""

    kinds: Ints
    """|q − p|·scale (ABSOLUTE), its square (SQUARED), scale where the categories differ (NOMINAL), or by `laws`
    (SWAPPED: numbers of distinct values)"""
    scale: Floats
    """one row for all the queries, or one for each"""
    gap: Floats
    """what a missing value of a point costs, infinity to pass the point over; one of a query costs nothing"""
    alike: Ints
    """nominal columns: row `offset + category of the query` lists the categories of points that agree with it"""
    offsets: Ints
    """where the rows of each column begin in `alike`"""
    low: Floats
    """smallest and largest number that a point may have for each query; no rows where there are no bounds"""
    high: Floats
    laws: Laws = no_laws()
    """how the columns that were swapped moved"""

    def arrays(self) -> Arrays:
        """Give the arrays as kernels take them."""
        laws = self.laws
        return (self.kinds, self.scale, self.gap, self.alike, self.offsets, self.low, self.high, laws.first,
                laws.second, laws.ranks, laws.places)  # fmt: skip


class Tree(NamedTuple):
    """The distinct points in the order of a balanced tree: node v has the children 2v+1 and 2v+2."""

    points: Floats
    counts: Ints
    rows: Ints
    start: Ints
    stop: Ints
    low: Floats
    high: Floats
    masks: Keys
    gaps: Bools


def build_tree(points: Floats, kinds: Ints, scale: Floats) -> Tree:
    """Merge equal points and order them; the tree can be searched with any scale, bounds and missing costs."""
    merged = distinct_rows(_fill(points))
    distinct = points[merged.first_row]
    depth = max(0, int(np.ceil(np.log2(max(len(distinct), 1) / _LEAF))))
    order, start, stop, low, high, masks, gaps = _build(distinct, kinds, scale, depth)
    counts = merged.counts[order].astype(np.int64)
    return Tree(distinct[order], counts, merged.first_row[order], start, stop, low, high, masks, gaps)


def nearest_mixed(
    queries: Floats, tree: Tree, terms: Terms, own: Floats | None = None, progress: Progress | None = None
) -> Nearest:
    """Find the points at the least distance from each query, all of them when there are ties.

    `own[b]` is the point that belongs to query b (a row of NaN where there is none). Points whose distance
    exceeds the least by a factor of up to 1 + 1e-9 are tied. A query for which no point is allowed has
    distance infinity, size 0 and `lowest` −1. The distance is the sum of the columns' terms.
    """
    once = terms.scale.shape[0] == 1 and terms.low.shape[0] == 0
    classes = distinct_rows(_fill(queries)) if once else None
    asked = np.ascontiguousarray(queries if classes is None else queries[classes.first_row])
    bits = _bits(terms.alike)
    distance, size = np.empty(len(asked)), np.empty(len(asked), np.int64)
    lowest = np.empty(len(asked), np.int64)
    known = (*tree, *terms.arrays())
    for first in range(0, len(asked), _QUERIES):
        last = min(first + _QUERIES, len(asked))
        _search(first, last, asked, *known, terms.laws.most, bits, distance, size, lowest)
        if progress is not None:
            progress(last, len(asked), "linkage")
    if classes is not None:
        distance, size, lowest = distance[classes.ids], size[classes.ids], lowest[classes.ids]
    has_own = np.zeros(len(queries), np.bool_)
    if own is not None:
        _compare_own(queries, own, *terms.arrays(), distance, has_own)
    return Nearest(distance, size, has_own, lowest)


def _fill(x: Floats) -> Floats:
    """Give missing values a number that no value has, so that equal rows are found."""
    empty = np.isnan(x)
    return np.where(empty, -np.finfo(np.float64).max, x) if empty.any() else x


def _bits(alike: Ints) -> Keys:
    """Give for each category of a query the set of those that agree, as bits of their numbers modulo 64."""
    found = np.zeros(alike.shape[0], np.uint64)
    for level in range(alike.shape[1]):
        bit = np.left_shift(np.uint64(1), (alike[:, level] & 63).astype(np.uint64))
        found |= np.where(alike[:, level] >= 0, bit, np.uint64(0))
    return found


@kernel
def _build(
    points: Floats, kinds: Ints, scale: Floats, depth: int
) -> tuple[Ints, Ints, Ints, Floats, Floats, Keys, Bools]:
    n, d = points.shape
    nodes = 2 ** (depth + 1) - 1
    order = np.arange(n)
    start, stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    low, high = np.full((nodes, d), np.inf), np.full((nodes, d), -np.inf)
    masks, gaps = np.zeros((nodes, d), np.uint64), np.zeros((nodes, d), np.bool_)
    stop[0] = n
    for v in range(nodes):
        for i in range(start[v], stop[v]):
            for j in range(d):
                value = points[order[i], j]
                if np.isnan(value):
                    gaps[v, j] = True
                    continue
                low[v, j], high[v, j] = min(low[v, j], value), max(high[v, j], value)
                if kinds[j] == NOMINAL:
                    masks[v, j] |= np.uint64(1) << np.uint64(np.int64(value) & 63)
        if 2 * v + 2 < nodes:
            _split(v, order, start, stop, points, _widest(low[v], high[v], gaps[v], kinds, scale))
    return order, start, stop, low, high, masks, gaps


@helper
def _widest(low: Floats, high: Floats, gaps: Bools, kinds: Ints, scale: Floats) -> int:
    """Choose the column in which the points of a node differ most."""
    best, widest = 0, -1.0
    for j in range(low.size):
        spread = (high[j] - low[j]) * scale[j]
        if kinds[j] == NOMINAL:
            spread = scale[j] if high[j] > low[j] or gaps[j] else 0.0
        elif kinds[j] == SQUARED:
            spread *= spread
        if spread > widest:
            best, widest = j, spread
    return best


@helper
def _split(v: int, order: Ints, start: Ints, stop: Ints, points: Floats, column: int) -> None:
    rows = order[start[v] : stop[v]].copy()
    keys = np.empty(rows.size)
    for i in range(rows.size):
        value = points[rows[i], column]
        keys[i] = -np.inf if np.isnan(value) else value
    sequence = np.argsort(keys)
    for i in range(rows.size):
        order[start[v] + i] = rows[sequence[i]]
    middle = start[v] + _between(keys[sequence])
    start[2 * v + 1], stop[2 * v + 1] = start[v], middle
    start[2 * v + 2], stop[2 * v + 2] = middle, stop[v]


@helper
def _between(keys: Floats) -> int:
    """Give the place nearest to the middle where the sorted keys change, so that equal ones stay together.

    Where that would leave less than an eighth on one side, the middle itself.
    """
    middle = keys.size // 2
    for step in range(middle - keys.size // 8):
        for at in (middle - step, middle + step):
            if 0 < at < keys.size and keys[at - 1] < keys[at]:
                return at
    return middle


@helper
def pair_cost(
    q: Floats, p: Floats, kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints,
    low: Floats, high: Floats, law_a: Floats, law_b: Floats, ranks: Ints, places: Ints, limit: float,
) -> float:  # fmt: skip
    """Add the terms up; stop when the sum is over the limit."""
    total = 0.0
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        if np.isnan(p[j]):
            total += gap[j]
        elif kinds[j] == NOMINAL:
            row = offsets[j] + np.int64(q[j])
            agrees = False
            for level in range(alike.shape[1]):
                agrees |= alike[row, level] == np.int64(p[j])
            total += 0.0 if agrees else scale[j]
        else:
            if low.size and (p[j] < low[j] or p[j] > high[j]):
                return np.inf
            if kinds[j] == SWAPPED:
                total += swap_cost(j, q[j], p[j], law_a, law_b, ranks, places)
            else:
                term = abs(q[j] - p[j]) * scale[j]
                total += term * term if kinds[j] == SQUARED else term
        if total > limit:
            return total
    return total


@helper
def _bound(
    v: Index, q: Floats, node_low: Floats, node_high: Floats, masks: Keys, gaps: Bools, kinds: Ints, scale: Floats,
    gap: Floats, offsets: Ints, low: Floats, high: Floats, law_b: Floats, most: Floats, ranks: Ints, places: Ints,
    bits: Keys,
) -> float:  # fmt: skip
    """Give a distance that no point of a node comes under."""
    total = 0.0
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        if kinds[j] == NOMINAL:
            term = 0.0 if masks[v, j] & bits[offsets[j] + np.int64(q[j])] else scale[j]
        elif node_low[v, j] > node_high[v, j] or (low.size and (node_high[v, j] < low[j] or node_low[v, j] > high[j])):
            term = np.inf
        elif kinds[j] == SWAPPED:
            least = max(node_low[v, j], low[j]) if low.size else node_low[v, j]
            largest = min(node_high[v, j], high[j]) if low.size else node_high[v, j]
            term = swap_bound(j, q[j], least, largest, law_b, most, ranks, places)
        else:
            term = max(node_low[v, j] - q[j], q[j] - node_high[v, j], 0.0) * scale[j]
            term = term * term if kinds[j] == SQUARED else term
        if gaps[v, j]:
            term = min(term, gap[j])
        total += term
    return total


@kernel
def _search(
    first: int, last: int, queries: Floats,
    points: Floats, counts: Ints, rows: Ints, start: Ints, stop: Ints, node_low: Floats, node_high: Floats,
    masks: Keys, gaps: Bools,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats,
    law_a: Floats, law_b: Floats, ranks: Ints, places: Ints, most: Floats, bits: Keys,
    distance: Floats, size: Ints, lowest: Ints,
) -> None:  # fmt: skip
    """Search each query twice: for the least distance, then for all the points at it."""
    inner = (start.size - 1) // 2
    stack, bounds = np.empty(_DEPTH, np.int64), np.empty(_DEPTH)
    free = np.empty(0)
    for i in range(first, last):
        q = queries[i]
        own_scale = scale[i] if scale.shape[0] > 1 else scale[0]
        own_low, own_high = (low[i], high[i]) if low.shape[0] else (free, free)
        best, limit = np.inf, np.inf
        size[i], lowest[i] = 0, -1
        for second in range(2):
            if second:
                if best == np.inf:
                    break
                limit = best * (1 + TIE)
            stack[0], bounds[0] = 0, 0.0
            waiting = 1
            while waiting:
                waiting -= 1
                v = stack[waiting]
                if bounds[waiting] > limit:
                    continue
                if v < inner:
                    left = _bound(2 * v + 1, q, node_low, node_high, masks, gaps, kinds, own_scale, gap, offsets,
                                  own_low, own_high, law_b, most, ranks, places, bits)  # fmt: skip
                    right = _bound(2 * v + 2, q, node_low, node_high, masks, gaps, kinds, own_scale, gap, offsets,
                                   own_low, own_high, law_b, most, ranks, places, bits)  # fmt: skip
                    near = 2 * v + 1 if left <= right else 2 * v + 2
                    stack[waiting], bounds[waiting] = 4 * v + 3 - near, max(left, right)
                    stack[waiting + 1], bounds[waiting + 1] = near, min(left, right)
                    waiting += 2
                    continue
                for at in range(start[v], stop[v]):
                    cost = pair_cost(q, points[at], kinds, own_scale, gap, alike, offsets, own_low, own_high, law_a,
                                     law_b, ranks, places, limit)  # fmt: skip
                    if not second:
                        if cost < best:
                            best, limit = cost, cost
                    elif cost <= limit:
                        size[i] += counts[at]
                        lowest[i] = rows[at] if lowest[i] < 0 else min(lowest[i], rows[at])
        distance[i] = best


@kernel
def _compare_own(
    queries: Floats, own: Floats, kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats,
    high: Floats, law_a: Floats, law_b: Floats, ranks: Ints, places: Ints, distance: Floats, has_own: Bools,
) -> None:  # fmt: skip
    free = np.empty(0)
    for i in range(queries.shape[0]):
        own_scale = scale[i] if scale.shape[0] > 1 else scale[0]
        own_low, own_high = (low[i], high[i]) if low.shape[0] else (free, free)
        limit = distance[i] * (1 + TIE)
        cost = pair_cost(queries[i], own[i], kinds, own_scale, gap, alike, offsets, own_low, own_high, law_a, law_b,
                         ranks, places, np.inf)  # fmt: skip
        has_own[i] = cost < np.inf and cost <= limit
