"""Distance-based record linkage (R11, R12): the nearest points of each query, with ties as anonymity sets.

Equal points are merged first and count as often as they occur: without this a microaggregated file, where k
records are equal, would link at random. Up to ten dimensions a k-d tree is searched; above, all are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Keys, as_finite_matrix, as_integers
from discretion.kernels.classes import RowClasses, distinct_rows
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.swap import Laws, no_laws, swap_bound, swap_cost, swap_costs


def strong_components(starts: Ints, targets: Ints32) -> Ints:
    """Number the strongly connected components of a directed graph, in time linear in its nodes and arrows.

    The arrows of node v go to `targets[starts[v] : starts[v + 1]]`.
    """
    n = len(starts) - 1
    number, work = np.full(n, -1), np.zeros((5, n), np.int64)
    _components(np.asarray(starts, np.int64), targets, number, work[0], work[1], work[2], work[3], work[4])
    return number


@lean_kernel
def _components(
    starts: Ints, targets: Ints32, number: Ints, visit: Ints, low: Ints, arrow: Ints, path: Ints, waiting: Ints
) -> None:
    """Follow the arrows depth first, without recursion (Tarjan's algorithm).

    `visit`: when a node was reached, 0 for not yet; `low`: the earliest node that still waits and can be reached.
    """
    visited, found, waits = 0, 0, 0
    for root in range(number.size):
        if visit[root]:
            continue
        path[0], depth = root, 0
        while depth >= 0:
            v = path[depth]
            if visit[v] == 0:
                visited += 1
                visit[v], low[v], arrow[v] = visited, visited, starts[v]
                waiting[waits] = v
                waits += 1
            if arrow[v] < starts[v + 1]:
                w = targets[arrow[v]]
                arrow[v] += 1
                if visit[w] == 0:
                    depth += 1
                    path[depth] = w
                elif number[w] < 0 and visit[w] < low[v]:
                    low[v] = visit[w]
                continue
            while low[v] == visit[v] and number[v] < 0:
                waits -= 1
                number[waiting[waits]] = found
            found += low[v] == visit[v]
            depth -= 1
            if depth >= 0 and low[v] < low[path[depth]]:
                low[path[depth]] = low[v]


def assign(costs: Floats) -> Ints:
    """Give for each square table of finite costs the column that each row gets, so that the sum is the least."""
    blocks, n, _ = costs.shape
    linked = np.empty((blocks, n), np.int64)
    row_of, path, left = np.empty((3, n), np.int64)
    of_row, of_column, shortest = np.empty((3, n))
    reached = np.empty((2, n), np.bool_)
    _assign(np.ascontiguousarray(costs), linked, row_of, path, left, of_row, of_column, shortest, reached)
    return linked


@lean_kernel
def _assign(  # noqa: PLR0912
    costs: Floats, linked: Ints, row_of: Ints, path: Ints, left: Ints, of_row: Floats, of_column: Floats,
    shortest: Floats, reached: Bools,
) -> None:  # fmt: skip
    """Add row after row by a shortest path to a column that is free (Jonker & Volgenant 1987, Crouse 2016)."""
    n = costs.shape[1]
    for b in range(costs.shape[0]):
        for i in range(n):
            linked[b, i], row_of[i] = -1, -1
            of_row[i], of_column[i] = 0.0, 0.0
        for row in range(n):
            for j in range(n):
                left[j], shortest[j] = n - 1 - j, np.inf
                reached[0, j], reached[1, j] = False, False
            length, i, free, waiting = 0.0, row, -1, n
            while free < 0:
                reached[0, i] = True
                least, place = np.inf, -1
                for at in range(waiting):
                    j = left[at]
                    through = length + costs[b, i, j] - of_row[i] - of_column[j]
                    if through < shortest[j]:
                        path[j], shortest[j] = i, through
                    if shortest[j] < least or (shortest[j] == least and row_of[j] < 0):
                        least, place = shortest[j], at
                length, j = least, left[place]
                reached[1, j] = True
                waiting -= 1
                left[place] = left[waiting]
                i = row_of[j]
                if i < 0:
                    free = j
            of_row[row] += length
            for i in range(n):
                if reached[0, i] and i != row:
                    of_row[i] += length - shortest[linked[b, i]]
                if reached[1, i]:
                    of_column[i] -= length - shortest[i]
            while free >= 0:
                i = path[free]
                row_of[free] = i
                following = linked[b, i]
                linked[b, i] = free
                free = following if i != row else -1


TIE = 1e-9  # relative difference up to which two distances are equal: only rounding separates them
_TREE_DIMENSIONS = 10
_POINT_QUERIES = 8192  # searched between two reports of progress
_ENTRIES = 1 << 22  # distances held in memory at a time (32 MB)

Progress = Callable[[int, int, str], object]


class Nearest(NamedTuple):
    """For each query, the set of the points that are nearest to it."""

    distance: Floats
    """Euclidean distance to them"""
    size: Ints
    """how many they are, equal points included: the size of the anonymity set"""
    has_own: Bools
    """is the query's own point one of them?"""
    lowest: Ints
    """the lowest of their row numbers"""


def nearest_ties(
    queries: ArrayLike, points: ArrayLike, own: ArrayLike | None = None, progress: Progress | None = None
) -> Nearest:
    """Find the points at the least Euclidean distance from each query, all of them when there are ties.

    `own[b]` is the row of the point that belongs to query b, −1 (or `own=None`) when there is none. Points
    whose distance exceeds the least by a factor of up to 1 + 1e-9 are tied with it (only rounding
    separates them); equal points always are. `progress(done, total, "linkage")` is called every few
    thousand queries and may raise to cancel. No NaN.

    Time about O((n + m)·log n) in few dimensions, O(n·m) above ten or when very many distinct points are
    tied; memory O(n + m).
    """
    q, p = as_finite_matrix(queries), as_finite_matrix(points)
    if q.shape[1] != p.shape[1]:
        raise ValueError(f"queries have {q.shape[1]} columns, points have {p.shape[1]}")
    if p.shape[0] == 0:
        raise ValueError("there are no points to link to")
    mine = np.full(q.shape[0], -1, np.int64) if own is None else as_integers(own)
    if mine.shape != (q.shape[0],):
        raise ValueError(f"{q.shape[0]} queries but {mine.size} own points")
    if mine.size and mine.max() >= p.shape[0]:
        raise ValueError(f"own points must be rows below {p.shape[0]}, got {mine.max()}")
    merged, equal = _merge(p, q)
    own_class = np.where(mine >= 0, merged.ids[mine], -1).astype(np.int64)  # −1 is the class of no point
    nearest = _empty(q.shape[0])
    is_equal = equal >= 0
    _store(nearest, np.flatnonzero(is_equal), _at_distance_zero(equal[is_equal], merged, own_class[is_equal]))
    done = int(np.count_nonzero(is_equal))
    others = np.flatnonzero(~is_equal)
    finder = _tree_finder if p.shape[1] <= _TREE_DIMENSIONS else _scan_finder
    for block, candidates in finder(q[others], p[merged.first_row]):
        rows = others[block]
        _store(nearest, rows, _tied(candidates, merged, own_class[rows]))
        done += rows.size
        if progress is not None:
            progress(done, q.shape[0], "linkage")
    return nearest


def _merge(points: Floats, queries: Floats) -> tuple[RowClasses, Ints]:
    """Merge equal points; return them, and for each query the class of the points it equals (−1 if none).

    Points come first, so their classes have the lowest numbers.
    """
    n = points.shape[0]
    both = distinct_rows(np.concatenate([points, queries]))
    n_classes = int(both.ids[:n].max()) + 1
    counts = np.bincount(both.ids[:n], minlength=n_classes)
    merged = RowClasses(both.ids[:n], counts, both.first_row[:n_classes])
    equal = both.ids[n:].astype(np.int64)
    equal[equal >= n_classes] = -1
    return merged, equal


def _at_distance_zero(equal: Ints, merged: RowClasses, own_class: Ints) -> Nearest:
    return Nearest(np.zeros(equal.size), merged.counts[equal], equal == own_class, merged.first_row[equal])


class Candidates(NamedTuple):
    """Some points for each query of a block, the nearest and all its ties among them, query by query."""

    start: Ints
    """where the points of each query begin"""
    point: Ints
    """numbers of distinct points"""
    distance: Floats


Finder = Iterator[tuple[Ints, Candidates]]


def _empty(m: int) -> Nearest:
    return Nearest(np.empty(m), np.empty(m, np.int64), np.empty(m, np.bool_), np.empty(m, np.int64))


def _store(nearest: Nearest, rows: Ints, part: Nearest) -> None:
    for whole, piece in zip(nearest, part, strict=True):
        whole[rows] = piece


def _tied(found: Candidates, merged: RowClasses, own_class: Ints) -> Nearest:
    """Keep the candidates at the least distance, and sum up what is known of them."""
    least = np.minimum.reduceat(found.distance, found.start)
    repeats = np.diff(found.start, append=found.point.size)
    is_tied = found.distance <= np.repeat(least * (1 + TIE), repeats)
    is_own = is_tied & (found.point == np.repeat(own_class, repeats))
    rows = np.where(is_tied, merged.first_row[found.point], np.iinfo(np.int64).max)
    return Nearest(
        distance=least,
        size=np.add.reduceat(merged.counts[found.point] * is_tied, found.start),
        has_own=np.logical_or.reduceat(is_own, found.start),
        lowest=np.minimum.reduceat(rows, found.start),
    )


def _tree_finder(queries: Floats, points: Floats) -> Finder:
    """Search by a k-d tree: the two nearest first; more only for queries whose last one is still tied."""
    from scipy.spatial import cKDTree

    if queries.shape[0] == 0:
        return
    tree = cKDTree(points)
    # Queries that are close together are asked one after the other, while their part of the tree is in the cache.
    visits = cKDTree(queries, leafsize=64, compact_nodes=False).indices
    for first in range(0, queries.shape[0], _POINT_QUERIES):
        rows = visits[first : first + _POINT_QUERIES]
        wanted = 2
        while rows.size:
            wanted = min(wanted, points.shape[0])
            tied = []
            for block in _pieces(rows, wanted):
                distance, point = _query(tree, queries[block], wanted)
                is_open = (distance[:, -1] <= distance[:, 0] * (1 + TIE)) & (wanted < points.shape[0])
                tied.append(block[is_open])
                done = block[~is_open]
                if done.size:
                    start = np.arange(0, done.size * wanted, wanted)
                    yield done, Candidates(start, point[~is_open].ravel(), distance[~is_open].ravel())
            rows = np.concatenate(tied)
            wanted *= 8


def _pieces(rows: Ints, wanted: int) -> Iterator[Ints]:
    """Cut rows so that so many distances for each fit in memory."""
    step = max(1, _ENTRIES // wanted)
    for at in range(0, rows.size, step):
        yield rows[at : at + step]


def _query(tree: Any, queries: Floats, k: int) -> tuple[Floats, Ints]:
    distance, point = tree.query(queries, k=np.arange(1, k + 1))  # a list of k keeps one column when k is 1
    return distance, point


def _scan_finder(queries: Floats, points: Floats) -> Finder:
    """Compare each query with all the points.

    A matrix product gives all distances quickly but with rounding errors; the few points that may be nearest
    in spite of these are then compared exactly.
    """
    center = points.mean(axis=0)  # small numbers lose fewer digits
    shifted = points - center
    squares = np.einsum("ij,ij->i", shifted, shifted)
    step = max(1, min(_POINT_QUERIES, _ENTRIES // points.shape[0]))
    for first in range(0, queries.shape[0], step):
        rows = np.arange(first, min(first + step, queries.shape[0]))
        block = queries[rows] - center
        own_squares = np.einsum("ij,ij->i", block, block)
        rough = squares - 2.0 * (block @ shifted.T)  # without the query's own square, which changes no order
        error = 8 * (points.shape[1] + 4) * np.finfo(np.float64).eps * (own_squares + squares.max())
        least = rough.min(axis=1) + own_squares
        bound = (least + error) * (1 + 4 * TIE) + error - own_squares
        query, point = np.nonzero(rough <= bound[:, None])
        start = np.searchsorted(query, np.arange(rows.size))
        yield rows, Candidates(start, point, _distances(queries, rows[query], points, point))


def _distances(queries: Floats, query: Ints, points: Floats, point: Ints) -> Floats:
    """Return the distance of each pair, a bounded number of pairs at a time."""
    out = np.empty(query.size)
    step = max(1, _ENTRIES // max(1, points.shape[1]))
    for first in range(0, query.size, step):
        pairs = slice(first, first + step)
        gaps = queries[query[pairs]] - points[point[pairs]]
        out[pairs] = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return out


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
    for column in distinct.T:  # a copy already, and not all of it a second time
        column[:] = column[order]
    _mark(distinct, kinds, boxes, depth)
    return Tree(distinct, merged.counts[order].astype(np.int64), merged.first_row[order], boxes)


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


_WINDOW_DEPTH = 128  # nodes that can wait at a time


def count_allowed(queries: Floats, tree: Tree, terms: Terms, enough: int = 2**62) -> Ints:
    """Count the points that each query allows (missing values of a point are allowed where they do not cost all).

    The count of a query may stop at any number from `enough` on.
    """
    return _walk(queries, tree, terms, np.empty(0, np.int32), enough)


def list_allowed(queries: Floats, tree: Tree, terms: Terms, expected: int) -> tuple[Ints, Ints32]:
    """List the distinct points that each query allows, by their places in the tree, and where each list begins."""
    single = tree._replace(counts=np.ones_like(tree.counts))
    found = np.empty(max(expected, 1), np.int32)
    starts = np.concatenate([[0], np.cumsum(_walk(queries, single, terms, found))])
    if starts[-1] > len(found):
        found = np.empty(int(starts[-1]), np.int32)
        _walk(queries, single, terms, found)
    return starts, found[: starts[-1]]


def _walk(queries: Floats, tree: Tree, terms: Terms, found: Ints32, enough: int = 2**62) -> Ints:
    must = np.isinf(terms.scale).all(axis=0) & (terms.kinds == NOMINAL)
    boxes, before = tree.boxes, np.concatenate([[0], np.cumsum(tree.counts)])
    low, high = (
        np.where(np.isnan(bound) | (terms.kinds == NOMINAL), end, bound)
        for bound, end in ((terms.low, -np.inf), (terms.high, np.inf))
    )
    counts = np.zeros(len(queries), np.int64)
    _allowed(
        np.ascontiguousarray(queries), tree.points, tree.counts, boxes.start, boxes.stop, boxes.low, boxes.high,
        boxes.masks, boxes.gaps, before, low, high, must, np.isinf(terms.gap), terms.alike, terms.offsets,
        bits_of(terms.alike), np.empty(_WINDOW_DEPTH, np.int64), enough, counts, found,
    )  # fmt: skip
    return counts


@lean_helper
def _reach(
    v: Index, q: Floats, node_low: Floats, node_high: Floats, masks: Keys, gaps: Bools, low: Floats, high: Floats,
    must: Bools, closed: Bools, offsets: Ints, bits: Keys,
) -> int:  # fmt: skip
    """Tell whether a query allows none (0), some (1) or all (2) of the points of a node, as far as its box tells."""
    every = 2
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        if must[j]:
            away, inside = not (masks[v, j] & bits[offsets[j] + np.int64(q[j])]), False
        else:
            away = node_low[v, j] > high[j] or node_high[v, j] < low[j]
            inside = node_low[v, j] >= low[j] and node_high[v, j] <= high[j]
        if away and (closed[j] or not gaps[v, j]):
            return 0
        if not inside or (closed[j] and gaps[v, j]):
            every = 1
    return every


@lean_helper
def _fits(
    q: Floats, p: Floats, low: Floats, high: Floats, must: Bools, closed: Bools, alike: Ints, offsets: Ints
) -> bool:
    for j in range(q.size):
        if np.isnan(q[j]):
            continue
        if np.isnan(p[j]):
            if closed[j]:
                return False
        elif must[j]:
            row, level = offsets[j] + np.int64(q[j]), 0
            while level < alike.shape[1] and alike[row, level] != np.int64(p[j]):
                level += 1
            if level == alike.shape[1]:
                return False
        elif p[j] < low[j] or p[j] > high[j]:
            return False
    return True


@lean_kernel
def _allowed(
    queries: Floats, points: Floats, counts: Ints, start: Ints, stop: Ints, node_low: Floats, node_high: Floats,
    masks: Keys, gaps: Bools, before: Ints, low: Floats, high: Floats, must: Bools, closed: Bools, alike: Ints,
    offsets: Ints, bits: Keys, stack: Ints, enough: int, totals: Ints, found: Ints32,
) -> None:  # fmt: skip
    """Add up how often the allowed points of each query occur; list them one after another while there is room."""
    inner, listed = (start.size - 1) // 2, 0
    for i in range(queries.shape[0]):
        q = queries[i]
        total, waiting = 0, 1
        stack[0] = 0
        while waiting and total < enough:
            waiting -= 1
            v = stack[waiting]
            reach = _reach(v, q, node_low, node_high, masks, gaps, low[i], high[i], must, closed, offsets, bits)
            if reach == 2 and found.size == 0:
                total += before[stop[v]] - before[start[v]]
            elif reach and v < inner:
                stack[waiting], stack[waiting + 1] = 2 * v + 1, 2 * v + 2
                waiting += 2
            elif reach:
                for at in range(start[v], stop[v]):
                    if _fits(q, points[at], low[i], high[i], must, closed, alike, offsets):
                        total += counts[at]
                        if listed < found.size:
                            found[listed] = at
                            listed += 1
        totals[i] = total


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
        _search_exchange(at, stop, *given, *terms.arrays(), *exchange, partner, distance, size, has_own, lowest)
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
def _search_exchange(  # noqa: PLR0912
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
                if s >= 0 and p[walk] != known[q, walk] and not _fits_exchange(published[s], window, walk):
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
        if r >= 0 and s >= 0 and r != q and not _fits_exchange(published[s], bounds[r], columns[e]):
            return False
    return True


@lean_helper
def _fits_exchange(p: Floats, window: Floats, but: Index) -> bool:
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
