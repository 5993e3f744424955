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
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage import TIE, Nearest, Progress
from discretion.kernels.swap_law import Laws, no_laws, swap_bound, swap_cost, swap_costs

ABSOLUTE, SQUARED, NOMINAL, SWAPPED = 0, 1, 2, 3
_LEAF = 12  # points that are compared one by one
_MOST_IN_LEAF = 1000  # where there are few queries
_QUERIES = 8192  # searched between two reports of progress
_DEPTH = 128  # nodes that can wait at a time
ROUNDED = 1 + 1e-6, 1e-9  # factor and summand far above the errors of a distance that is added up in another order


Arrays = tuple[Ints, Floats, Floats, Ints, Ints, Floats, Floats, Laws | None]


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
        """Give the arrays as kernels take them: bounds always, laws only where there are some."""
        free = np.full((1, len(self.kinds)), np.inf)
        low, high = (self.low, self.high) if len(self.low) else (-free, free)
        laws = self.laws if len(self.laws.ranks) else None
        return self.kinds, self.scale, self.gap, self.alike, self.offsets, low, high, laws


class Boxes(NamedTuple):
    """What is known of each node: node v has the children 2v+1 and 2v+2."""

    start: Ints
    stop: Ints
    low: Floats
    high: Floats
    masks: Keys
    gaps: Bools


class Tree(NamedTuple):
    """The distinct points in the order of a balanced tree, how often each occurs, its first row, and the nodes."""

    points: Floats
    counts: Ints
    rows: Ints
    boxes: Boxes


def build_tree(points: Floats, kinds: Ints, scale: Floats, queries: int | None = None) -> Tree:
    """Merge equal points and order them; the tree can be searched with any scale, bounds and missing costs.

    For few `queries` it is less deep: to order the points further takes longer than to compare more of them.
    """
    merged = distinct_rows(fill(points))
    distinct = points[merged.first_row]
    leaf = _LEAF if queries is None else max(_LEAF, min(len(distinct) // max(queries, 1), _MOST_IN_LEAF))
    depth = max(0, int(np.ceil(np.log2(max(len(distinct), 1) / leaf))))
    order, boxes = _build(distinct, kinds, scale, depth)
    return Tree(distinct[order], merged.counts[order].astype(np.int64), merged.first_row[order], boxes)


def nearest_mixed(
    queries: Floats, tree: Tree, terms: Terms, own: Floats | None = None, progress: Progress | None = None
) -> Nearest:
    """Find the points at the least distance from each query, all of them when there are ties.

    `own[b]` is the point of the tree that belongs to query b (any point where there is none). Points whose distance
    exceeds the least by a factor of up to 1 + 1e-9 are tied. A query for which no point is allowed has
    distance infinity, size 0 and `lowest` −1. The distance is the sum of the columns' terms.
    """
    if np.isneginf(terms.low).all() and np.isposinf(terms.high).all():
        terms = terms._replace(low=terms.low[:0], high=terms.high[:0])
    once = terms.scale.shape[0] == 1 and terms.low.shape[0] == 0
    classes = distinct_rows(fill(queries)) if once else None
    asked = np.ascontiguousarray(queries if classes is None else queries[classes.first_row])
    bits = bits_of(terms.alike)
    distance, size = np.empty(len(asked)), np.empty(len(asked), np.int64)
    lowest = np.empty(len(asked), np.int64)
    # a query's own point is a candidate: nothing farther away than it has to be looked at
    cost = np.full(len(queries), np.inf) if own is None else pair_costs(queries, own, terms)
    limits = np.full(len(asked), np.finfo(np.float64).max)
    np.minimum.at(limits, np.arange(len(asked)) if classes is None else classes.ids, cost * ROUNDED[0] + ROUNDED[1])
    known = (_visits(asked, tree), asked, tree.points, tree.counts, tree.rows, *tree.boxes, *terms.arrays(), bits)
    waiting = np.empty(_DEPTH, np.int64), np.empty(_DEPTH)
    for first in range(0, len(asked), _QUERIES):
        last = min(first + _QUERIES, len(asked))
        _search(first, last, *known, *waiting, limits, distance, size, lowest)
        if progress is not None:
            progress(last, len(asked), "linkage")
    if classes is not None:
        distance, size, lowest = distance[classes.ids], size[classes.ids], lowest[classes.ids]
    return Nearest(distance, size, (cost < np.inf) & (cost <= distance * (1 + TIE)), lowest)


def fill(x: Floats) -> Floats:
    """Give missing values a number that no value has, so that equal rows are found."""
    empty = np.isnan(x)
    return np.where(empty, -np.finfo(np.float64).max, x) if empty.any() else x


def _visits(queries: Floats, tree: Tree) -> Ints:
    """Order queries so that those close together come one after the other, while their part of the tree is cached."""
    low, high = tree.boxes.low[0], tree.boxes.high[0]
    cells = np.zeros(len(queries), np.uint16)
    for j in np.flatnonzero(high > low)[:3]:
        share = np.nan_to_num((queries[:, j] - low[j]) / (high[j] - low[j]))
        cells = cells * np.uint16(16) + np.clip(share * 16, 0, 15).astype(np.uint16)
    return np.argsort(cells, kind="stable")


def bits_of(alike: Ints) -> Keys:
    """Give for each category of a query the set of those that agree, as bits of their numbers modulo 64."""
    found = np.zeros(alike.shape[0], np.uint64)
    for level in range(alike.shape[1]):
        bit = np.left_shift(np.uint64(1), (alike[:, level] & 63).astype(np.uint64))
        found |= np.where(alike[:, level] >= 0, bit, np.uint64(0))
    return found


def _build(points: Floats, kinds: Ints, scale: Floats, depth: int) -> tuple[Ints, Boxes]:
    """Cut the points level by level, each node near the middle of the column in which it is widest."""
    n, d = points.shape
    nodes = 2 ** (depth + 1) - 1
    boxes = Boxes(
        np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.full((nodes, d), np.inf),
        np.full((nodes, d), -np.inf), np.zeros((nodes, d), np.uint64), np.zeros((nodes, d), np.bool_),
    )  # fmt: skip
    boxes.stop[0] = n
    points = np.ascontiguousarray(points)
    ranks = np.array([np.unique(fill(x), return_inverse=True)[1].ravel().astype(np.uint32) for x in points.T])
    order = np.arange(n)
    for level in range(depth + 1):
        here = np.arange(2**level - 1, 2 ** (level + 1) - 1)
        _measure(int(here[0]), int(here[-1]), order, points, boxes.start, boxes.stop, boxes.low, boxes.high, boxes.gaps)
        if level == depth:
            break
        node = np.repeat(np.arange(len(here)), boxes.stop[here] - boxes.start[here])
        keys, sequence = _sorted(node * n + ranks[_widest(boxes, here, kinds, scale)[node], order])
        order = order[sequence]
        middle = _cuts(keys, node, boxes.start[here], boxes.stop[here])
        left = 2 * here + 1
        boxes.start[left], boxes.stop[left] = boxes.start[here], middle
        boxes.start[left + 1], boxes.stop[left + 1] = middle, boxes.stop[here]
    _mark(points[order], kinds, boxes, depth)
    return order, boxes


def _sorted(keys: Ints) -> tuple[Ints, Ints]:
    """Sort keys, equal ones in the order they have; give also the places they had. Numbers sort faster than places."""
    n = len(keys)
    if n == 0 or int(keys.max()) >= (2**63 - 1) // n:
        sequence = np.argsort(keys, kind="stable")
        return keys[sequence], sequence
    return np.divmod(np.sort(keys * n + np.arange(n)), n)


@lean_kernel
def _measure(
    first: int, last: int, order: Ints, points: Floats, start: Ints, stop: Ints, low: Floats, high: Floats, gaps: Bools
) -> None:
    """Find the box around the points of each of some nodes, and where values are missing."""
    for v in range(first, last + 1):
        for at in range(start[v], stop[v]):
            row = order[at]
            for j in range(points.shape[1]):
                x = points[row, j]
                if np.isnan(x):
                    gaps[v, j] = True
                else:
                    low[v, j], high[v, j] = min(low[v, j], x), max(high[v, j], x)


def _mark(points: Floats, kinds: Ints, boxes: Boxes, depth: int) -> None:
    """Find the categories of each node: those of the leaves from their points, of the others from their children."""
    leaves = np.arange(2**depth - 1, 2 ** (depth + 1) - 1)
    leaves = leaves[boxes.stop[leaves] > boxes.start[leaves]]
    if not len(leaves):
        return
    for j in np.flatnonzero(kinds == NOMINAL):
        empty = np.isnan(points[:, j])
        codes = (np.where(empty, 0.0, points[:, j]).astype(np.int64) & 63).astype(np.uint64)
        bits = np.where(empty, np.uint64(0), np.left_shift(np.uint64(1), codes))
        boxes.masks[leaves, j] = np.bitwise_or.reduceat(bits, boxes.start[leaves])
    for level in range(depth - 1, -1, -1):
        here = np.arange(2**level - 1, 2 ** (level + 1) - 1)
        boxes.masks[here] = boxes.masks[2 * here + 1] | boxes.masks[2 * here + 2]


def _widest(boxes: Boxes, nodes: Ints, kinds: Ints, scale: Floats) -> Ints:
    """Choose for each node the column in which its points differ most."""
    width = np.maximum(boxes.high[nodes] - boxes.low[nodes], 0.0)
    some = boxes.high[nodes] >= boxes.low[nodes]  # where all values are missing, a cut would tell nothing apart
    differs = (width > 0) | (boxes.gaps[nodes] & some)
    spread = np.where(kinds == NOMINAL, np.where(differs, scale, 0.0), width * scale)
    return np.asarray(np.where(kinds == SQUARED, spread * spread, spread).argmax(axis=1))


def _cuts(keys: Ints, node: Ints, start: Ints, stop: Ints) -> Ints:
    """Give for each node the place nearest to its middle where the sorted keys change: equal ones stay together.

    Where that would leave less than an eighth on one side, the middle itself.
    """
    n = len(keys)
    middle, room = (start + stop) // 2, (stop - start) // 2 - (stop - start) // 8
    changes = np.flatnonzero((keys[1:] != keys[:-1]) & (node[1:] == node[:-1])) + 1
    padded = np.concatenate([[-n], changes, [2 * n]])
    after = np.searchsorted(padded, middle)
    above = padded[after]
    below = np.where(above == middle, middle, padded[after - 1])
    best = np.where(middle - below <= above - middle, below, above)
    return np.where((np.abs(best - middle) < room) & (best > start) & (best < stop), best, middle)


def pair_costs(queries: Floats, points: Floats, terms: Terms) -> Floats:
    """Give the distance of each query to the point of the same row, as `pair_cost` adds it up."""
    total = np.zeros(len(queries))
    starts = np.append(np.sort(terms.offsets[terms.kinds == NOMINAL]), len(terms.alike))  # others have no table
    for j, kind in enumerate(terms.kinds):
        q, p, scale = queries[:, j], points[:, j], terms.scale[:, j]
        if kind == NOMINAL:
            table = terms.alike[terms.offsets[j] : starts[np.searchsorted(starts, terms.offsets[j], "right")]]
            rows = np.where(np.isnan(q), 0.0, q).astype(np.int64)
            agrees = np.zeros(len(q), np.bool_)
            for level in np.flatnonzero((table >= 0).any(axis=0)):
                agrees |= table[rows, level] == p
            term = np.where(agrees, 0.0, scale)
        else:
            term = swap_costs(j, q, p, terms.laws) if kind == SWAPPED else np.abs(q - p) * scale
            term = term * term if kind == SQUARED else term
            if len(terms.low):
                term = np.where((p < terms.low[:, j]) | (p > terms.high[:, j]), np.inf, term)
        total += np.where(np.isnan(q), 0.0, np.where(np.isnan(p), terms.gap[j], term))
    return total


@lean_helper
def pair_cost(
    q: Floats, p: Floats, kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints,
    low: Floats, high: Floats, laws: Laws | None, limit: float,
) -> float:  # fmt: skip
    """Add the terms up; stop when the sum is over the limit. Without swapped columns `laws` is None."""
    total = 0.0
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        if np.isnan(p[j]):
            total += gap[j]
        elif kinds[j] == NOMINAL:
            row, level = offsets[j] + np.int64(q[j]), 0
            while level < alike.shape[1] and alike[row, level] != np.int64(p[j]):
                level += 1
            total += 0.0 if level < alike.shape[1] else scale[j]
        else:
            term = abs(q[j] - p[j]) * scale[j]
            if kinds[j] == SQUARED:
                term *= term
            if p[j] < low[j] or p[j] > high[j]:
                return np.inf
            if laws is not None and kinds[j] == SWAPPED:
                term = swap_cost(j, q[j], p[j], laws)
            total += term
        if total > limit:
            return total
    return total


@lean_helper
def _bound(
    v: Index, q: Floats, node_low: Floats, node_high: Floats, masks: Keys, gaps: Bools, kinds: Ints, scale: Floats,
    gap: Floats, offsets: Ints, low: Floats, high: Floats, laws: Laws | None, bits: Keys, limit: float,
) -> float:  # fmt: skip
    """Give a distance that no point of a node comes under; stop when it is over the limit."""
    total = 0.0
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        least, largest = max(node_low[v, j], low[j]), min(node_high[v, j], high[j])
        if kinds[j] == NOMINAL:
            term = 0.0 if masks[v, j] & bits[offsets[j] + np.int64(q[j])] else scale[j]
        elif least > largest:
            term = np.inf
        else:
            term = max(least - q[j], q[j] - largest, 0.0) * scale[j]
            if kinds[j] == SQUARED:
                term *= term
            if laws is not None and kinds[j] == SWAPPED:
                term = swap_bound(j, q[j], least, largest, laws)
        if gaps[v, j]:
            term = min(term, gap[j])
        total += term
        if total > limit:
            break
    return total


@lean_kernel
def _search(
    first: int, last: int, visits: Ints, queries: Floats,
    points: Floats, counts: Ints, rows: Ints, start: Ints, stop: Ints, node_low: Floats, node_high: Floats,
    masks: Keys, gaps: Bools,
    kinds: Ints, scale: Floats, gap: Floats, alike: Ints, offsets: Ints, low: Floats, high: Floats,
    laws: Laws | None, bits: Keys, stack: Ints, bounds: Floats, limits: Floats,
    distance: Floats, size: Ints, lowest: Ints,
) -> None:  # fmt: skip
    """Find the least distance and the points at it; where distances are almost tied, search again from the least.

    `limits`: a finite number for each query that the least distance does not exceed, unless it is infinite.
    """
    inner = (start.size - 1) // 2
    for visit in range(first, last):
        i = visits[visit]
        q = queries[i]
        own_scale, own_low, own_high = scale[i % len(scale)], low[i % len(low)], high[i % len(high)]
        best, limit, again = np.inf, limits[i], True
        while again:
            again = False
            size[i], lowest[i] = 0, -1
            stack[0], bounds[0] = 0, 0.0
            waiting = 1
            while waiting:
                waiting -= 1
                v = stack[waiting]
                if bounds[waiting] > limit:
                    continue
                if v < inner:
                    near = 2 * v + 1
                    left = _bound(near, q, node_low, node_high, masks, gaps, kinds, own_scale, gap, offsets,
                                  own_low, own_high, laws, bits, limit)  # fmt: skip
                    right = _bound(near + 1, q, node_low, node_high, masks, gaps, kinds, own_scale, gap, offsets,
                                   own_low, own_high, laws, bits, limit)  # fmt: skip
                    if right < left:
                        near, left, right = near + 1, right, left
                    stack[waiting], bounds[waiting] = 4 * v + 3 - near, right
                    waiting += right <= limit
                    stack[waiting], bounds[waiting] = near, left
                    waiting += left <= limit
                    continue
                for at in range(start[v], stop[v]):
                    cost = pair_cost(q, points[at], kinds, own_scale, gap, alike, offsets, own_low, own_high, laws,
                                     limit)  # fmt: skip
                    if cost > limit:
                        continue
                    if cost < best:
                        again = best <= cost * (1 + TIE)
                        best, limit = cost, cost * (1 + TIE)
                        size[i] = 0
                    lowest[i] = min(lowest[i], rows[at]) if size[i] else rows[at]
                    size[i] += counts[at]
        distance[i] = best
