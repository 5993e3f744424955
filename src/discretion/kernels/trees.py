"""Trees of boxes: one that shrinks as points are removed (MDAV), one for mixed records with missing values (Gower).

The two stay apart: the first is perfect and keeps its boxes tight under removals, the second cuts where values change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Progress, as_matrix
from discretion.kernels.jit import helper, kernel, lean_kernel

# Nearest records by a distance of Gower's type, searched in a tree of boxes.
#
# Bounds and distances add the same terms in the same order, so that rounding never makes a bound wrong and ties are
# found exactly; ties go to the lowest row.

_LEAF = 16  # records; equal records share a leaf however many they are
_QUERIES = 4096  # searched between two reports of progress


class GowerBoxes(NamedTuple):
    """Records in the order of the leaves, and the boxes around them."""

    points: Floats  # (n, d)
    rows: Ints  # the row of each record
    nominal: Bools
    weights: Floats
    children: Ints  # (nodes, 2); −1 for leaves
    spans: Ints  # (nodes, 2): first place, place after the last one
    low: Floats  # (nodes, d) without the missing values
    high: Floats
    holes: Bools  # has the node a missing value in this column?
    equal: Bools  # are all records of the node equal?
    lowest: Ints  # lowest row below the node


class GowerTree:
    """Records of numbers and categories, searched for the nearest ones.

    The distance is the sum over the columns of weight·|x − y| (numbers) and 0 or 1 (nominal). Against a missing number
    (NaN) every number has the distance 1, two missing ones 0; so weight·|x − y| must not exceed 1 for any two values
    that are compared. Time O(n·log² n) to build; a search visits few leaves when few columns matter and all of them in
    the worst case. Memory O(n·d).
    """

    def __init__(self, points: ArrayLike, nominal: ArrayLike, weights: ArrayLike) -> None:
        x = as_matrix(points)
        if not len(x):
            raise ValueError("there are no records to search")
        self._boxes, self._depth = _build(x, np.asarray(nominal, np.bool_), np.asarray(weights, np.float64))

    def nearest(self, queries: ArrayLike, k: int = 1, progress: Progress | None = None) -> tuple[Floats, Ints]:
        """Give for each query the k least distances in ascending order and the rows that have them."""
        q = as_matrix(queries)
        if not 1 <= k <= len(self._boxes.rows):
            raise ValueError(f"k must lie between 1 and {len(self._boxes.rows)}, got {k}")
        best, rows = np.full((len(q), k), np.inf), np.full((len(q), k), len(self._boxes.rows))
        for first in range(0, len(q), _QUERIES):
            part = slice(first, first + _QUERIES)
            _search(self._boxes, q[part], best[part], rows[part], self._depth + 2)
            if progress is not None:
                progress(min(first + _QUERIES, len(q)), len(q), "nearest records")
        return best, rows


def _build(x: Floats, nominal: Bools, weights: Floats) -> tuple[GowerBoxes, int]:
    n, d = x.shape
    order = np.arange(n)
    children: list[list[int]] = []
    spans: list[tuple[int, int]] = []
    sides: list[tuple[Floats, Floats, Bools, bool, int]] = []
    waiting = [(0, n, -1, 0, 0)]
    depth = 0
    while waiting:
        start, stop, parent, side, level = waiting.pop()
        node = len(spans)
        if parent >= 0:
            children[parent][side] = node
        depth = max(depth, level)
        rows = order[start:stop]
        low, high, holes, spread = _measure(x[rows], nominal, weights)
        children.append([-1, -1])
        spans.append((start, stop))
        sides.append((low, high, holes, not spread.any(), int(rows.min())))
        if stop - start <= _LEAF or not spread.any():
            rows.sort()
            continue
        middle = start + _cut_at_change(x, rows, int(spread.argmax()))
        waiting += [(middle, stop, node, 1, level + 1), (start, middle, node, 0, level + 1)]
    low, high, holes, equal, lowest = (np.array(part) for part in zip(*sides, strict=True))
    shape = (len(spans), d)
    return GowerBoxes(
        x[order], order, nominal, weights, np.array(children, np.int64), np.array(spans, np.int64),
        low.reshape(shape), high.reshape(shape), holes.reshape(shape), equal, lowest,
    ), depth  # fmt: skip


def _measure(x: Floats, nominal: Bools, weights: Floats) -> tuple[Floats, Floats, Bools, Floats]:
    """Give the box around records, where it has holes, and how far the records differ in each column."""
    low, high = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    absent = np.isnan(x)
    holes = np.asarray(absent.any(axis=0))
    width = (high - low) * weights
    differs = high > low
    spread = np.where(nominal, differs.astype(np.float64), np.where(differs, np.maximum(width, 1e-300), 0.0))
    spread[holes & ~absent.all(axis=0)] = 1.0
    return low, high, holes, spread


def _cut_at_change(x: Floats, rows: Ints, column: int) -> int:
    """Sort the rows by a column, in place, and find the place nearest to the middle where its value changes."""
    rows[:] = rows[np.argsort(x[rows, column], kind="stable")]
    values = x[rows, column]
    changes = np.flatnonzero((values[1:] != values[:-1]) & ~(np.isnan(values[1:]) & np.isnan(values[:-1]))) + 1
    return int(changes[np.abs(changes - len(rows) // 2).argmin()])


@helper
def _bound(boxes: GowerBoxes, v: int, q: Floats) -> float:
    """Bound from below the distance of a query to the records of a node."""
    total = 0.0
    for j in range(q.size):
        if np.isnan(q[j]):
            total += 0.0 if boxes.holes[v, j] else 1.0
        elif boxes.low[v, j] <= q[j] <= boxes.high[v, j]:
            continue
        elif boxes.nominal[j] or np.isnan(boxes.low[v, j]):
            total += 1.0
        else:
            gap = max(boxes.low[v, j] - q[j], q[j] - boxes.high[v, j]) * boxes.weights[j]
            total += min(gap, 1.0)
    return total


@helper
def _distance(boxes: GowerBoxes, place: int, q: Floats, worst: float) -> float:
    """Give the distance of a query to a record, or more than `worst` as soon as it exceeds that."""
    total = 0.0
    for j in range(q.size):
        value = boxes.points[place, j]
        if boxes.nominal[j]:
            total += 0.0 if value == q[j] else 1.0
        elif np.isnan(value) or np.isnan(q[j]):
            total += 0.0 if np.isnan(value) and np.isnan(q[j]) else 1.0
        else:
            total += abs(value - q[j]) * boxes.weights[j]
        if total > worst:
            break
    return total


@helper
def _insert(best: Floats, rows: Ints, distance: float, row: int) -> None:
    at = best.size - 1
    while at > 0 and (best[at - 1] > distance or (best[at - 1] == distance and rows[at - 1] > row)):
        best[at], rows[at] = best[at - 1], rows[at - 1]
        at -= 1
    best[at], rows[at] = distance, row


@kernel
def _search(boxes: GowerBoxes, queries: Floats, best: Floats, found: Ints, room: int) -> None:
    k = best.shape[1]
    nodes, bounds = np.empty(room, np.int64), np.empty(room)
    for i in range(queries.shape[0]):
        q, nearest, rows = queries[i], best[i], found[i]
        waiting = 1
        nodes[0], bounds[0] = 0, 0.0
        while waiting > 0:
            waiting -= 1
            v, bound = nodes[waiting], bounds[waiting]
            if bound > nearest[k - 1] or (bound == nearest[k - 1] and boxes.lowest[v] > rows[k - 1]):
                continue
            a, b = boxes.children[v, 0], boxes.children[v, 1]
            if a >= 0:
                from_a, from_b = _bound(boxes, a, q), _bound(boxes, b, q)
                if from_b < from_a or (from_b == from_a and boxes.lowest[b] < boxes.lowest[a]):
                    a, b, from_a, from_b = b, a, from_b, from_a
                nodes[waiting], bounds[waiting] = b, from_b
                nodes[waiting + 1], bounds[waiting + 1] = a, from_a
                waiting += 2
                continue
            stop = boxes.spans[v, 1]
            if boxes.equal[v]:
                stop = min(stop, boxes.spans[v, 0] + k)  # rows ascend inside a leaf: the first k are enough
            for place in range(boxes.spans[v, 0], stop):
                distance = _distance(boxes, place, q, nearest[k - 1])
                row = boxes.rows[place]
                if distance < nearest[k - 1] or (distance == nearest[k - 1] and row < rows[k - 1]):
                    _insert(nearest, rows, distance, row)


# Which leaf of a binary tree each row reaches.


def descend(x: NDArray[np.float32], feature: Ints, threshold: Floats, left: Ints, right: Ints) -> Ints:
    """Return for each row of `x` the node without children it comes to: left where its value is at most the threshold.

    `left` is −1 for a leaf. Rows are 32-bit floats, as the trees were fitted. Time O(rows · depth).
    """
    leaves = np.zeros(len(x), np.int64)
    if len(left) > 1:
        _descend(np.ascontiguousarray(x, np.float32), feature, threshold, left, right, leaves)
    return leaves


@lean_kernel
def _descend(x: NDArray[np.float32], feature: Ints, threshold: Floats, left: Ints, right: Ints, leaves: Ints) -> None:
    for row in range(leaves.size):
        node = 0
        while left[node] >= 0:
            node = left[node] if x[row, feature[node]] <= threshold[node] else right[node]
        leaves[row] = node


# Nearest and farthest points in a k-d tree from which points have been removed; ties go to the lowest row.
#
# Bounds and distances add the same squares in the same order, so rounding never makes a bound wrong, and ties are
# found exactly. The lowest row of a subtree prunes those that could only tie, which keeps data full of duplicates
# fast.

_SLACK = 1e-11  # of the squared radius of a ball: covers rounding
_STACK = 80  # nodes that wait in a depth-first search: at most one more than the depth


class Search(NamedTuple):
    """Working memory of a search, and its result: the best points found so far."""

    nodes: Ints32  # waiting to be looked at
    bounds: Floats  # of their distances
    distances: Floats  # of one leaf
    best: Floats  # squared distances, as a heap with the worst on top
    rows: Ints32  # the rows that have them


def new_search(k: int) -> Search:
    """Return working memory for searches of k nearest points."""
    return Search(
        np.empty(_STACK, np.int32),
        np.empty(_STACK),
        np.empty(2 * LEAF),
        np.empty(k),
        np.empty(k, np.int32),
    )


@helper
def _least(boxes: Floats, v: int, q: Floats) -> float:
    """Bound from below the squared distance of a point to the points in a box."""
    total = 0.0
    for j in range(q.size):
        gap = max(boxes[v, LOW, j] - q[j], q[j] - boxes[v, HIGH, j], 0.0)
        total += gap * gap
    return total


@helper
def _most(boxes: Floats, v: int, q: Floats, direction: Floats, rim: float) -> float:
    """Bound from above the squared distance of a point q to the points in a box, which also lie in a ball.

    The corners of the box are one bound. The other: with c the center of the ball and w = q − c (`direction`),
    |p − q|² = (|p − c|² − |w|²) + 2(q − p)·w, where the first term is at most `rim` and the second is bounded by
    the box. In several dimensions the corners of boxes at the rim of the ball lie far outside it, and this bound
    is much the better one.
    """
    corner, inside = 0.0, rim
    for j in range(q.size):
        below, above = q[j] - boxes[v, LOW, j], boxes[v, HIGH, j] - q[j]
        gap = max(below, above)
        corner += gap * gap
        inside += 2.0 * max(below * direction[j], -above * direction[j])
    return min(corner, inside)


@helper
def _leaf_distances(points: Floats, first: int, size: int, left: int, q: Floats, out: Floats) -> None:
    """Compute the squared distances of the points left in a leaf, whose numbers begin at `first`."""
    for i in range(left):
        out[i] = 0.0
    for j in range(q.size):
        at = q[j]
        column = points[first + j * size : first + j * size + left]  # a slice needs no check for i < 0
        for i in range(column.size):
            gap = column[i] - at
            out[i] += gap * gap


@helper
def farthest(
    tree: KdTree, search: Search, q: Floats, center: Floats, reach: float, best: float, best_row: Index
) -> tuple[float, Index, int]:
    """Find the point farthest from q, or keep the one given if none is farther (or as far with a lower row).

    All points must lie in the ball around `center` with the squared radius `reach` (infinite if unknown).
    Return the squared distance, the row, and the number of leaves looked at.
    """
    start, lowest_row, nodes, bounds = tree.start, tree.lowest_row, search.nodes, search.bounds
    n, first_leaf = tree.rows.size, start.size // 2
    direction = q - center
    rim = reach * (1 + _SLACK)
    for j in range(q.size):
        rim -= direction[j] * direction[j]
    waiting, leaves = 1, 0
    nodes[0], bounds[0] = 0, np.inf
    while waiting > 0:
        waiting -= 1
        v, bound = nodes[waiting], bounds[waiting]
        if bound < best or (bound == best and lowest_row[v] > best_row):
            continue
        if v < first_leaf:
            a, b = 2 * v + 1, 2 * v + 2
            from_a = _most(tree.boxes, a, q, direction, rim)
            from_b = _most(tree.boxes, b, q, direction, rim)
            if from_b > from_a or (from_b == from_a and lowest_row[b] < lowest_row[a]):
                a, b, from_a, from_b = b, a, from_b, from_a
            waiting = _push(nodes, bounds, waiting, b, from_b, lowest_row[b] < n)
            waiting = _push(nodes, bounds, waiting, a, from_a, lowest_row[a] < n)  # looked at first
            continue
        leaves += 1
        left = tree.end[v] - start[v]
        _leaf_distances(tree.points, start[v] * q.size, tree.stop[v] - start[v], left, q, search.distances)
        for i in range(left):
            distance = search.distances[i]
            if distance >= best:
                row = tree.rows[start[v] + i]
                if distance > best or row < best_row:
                    best, best_row = distance, row
    return best, best_row, leaves


@helper
def _push(nodes: Ints32, bounds: Floats, waiting: int, v: int, bound: float, has_points: bool) -> int:
    """Put a node on the stack unless it is empty; return the new height."""
    if not has_points:
        return waiting
    nodes[waiting], bounds[waiting] = v, bound
    return waiting + 1


@helper
def nearest(tree: KdTree, search: Search, q: Floats) -> None:
    """Find the k points nearest to q and leave their rows in `search.rows`; k or more must be left."""
    start, lowest_row, nodes, bounds = tree.start, tree.lowest_row, search.nodes, search.bounds
    best, rows = search.best, search.rows
    n, first_leaf = tree.rows.size, start.size // 2
    for i in range(best.size):
        best[i], rows[i] = np.inf, n
    waiting = 1
    nodes[0], bounds[0] = 0, 0.0
    while waiting > 0:
        waiting -= 1
        v, bound = nodes[waiting], bounds[waiting]
        if bound > best[0] or (bound == best[0] and lowest_row[v] > rows[0]):
            continue
        if v < first_leaf:
            a, b = 2 * v + 1, 2 * v + 2
            from_a, from_b = _least(tree.boxes, a, q), _least(tree.boxes, b, q)
            if from_b < from_a or (from_b == from_a and lowest_row[b] < lowest_row[a]):
                a, b, from_a, from_b = b, a, from_b, from_a
            waiting = _push(nodes, bounds, waiting, b, from_b, lowest_row[b] < n)
            waiting = _push(nodes, bounds, waiting, a, from_a, lowest_row[a] < n)
            continue
        left = tree.end[v] - start[v]
        _leaf_distances(tree.points, start[v] * q.size, tree.stop[v] - start[v], left, q, search.distances)
        for i in range(left):
            distance = search.distances[i]
            if distance <= best[0]:
                row = tree.rows[start[v] + i]
                if distance < best[0] or row < rows[0]:
                    _replace_worst(best, rows, distance, row)


@helper
def _replace_worst(best: Floats, rows: Ints32, distance: float, row: int) -> None:
    """Replace the top of the heap (largest distance, then highest row) and restore the heap."""
    at, child = 0, 1
    while child < best.size:
        other = child + 1
        if other < best.size and (
            best[other] > best[child] or (best[other] == best[child] and rows[other] > rows[child])
        ):
            child = other
        if best[child] < distance or (best[child] == distance and rows[child] < row):
            break
        best[at], rows[at] = best[child], rows[child]
        at, child = child, 2 * child + 1
    best[at], rows[at] = distance, row


# A k-d tree that shrinks: it is built once, and points are removed from it.
#
# The tree is perfect: node v has the children 2v+1 and 2v+2, and the leaves are the last level. Each node knows the box
# around its points and their lowest row; both are kept tight while points are removed.

LEAF = 24  # points; a leaf is compared column by column, several points in one instruction
LOW, HIGH = 0, 1  # sides of a box


class KdTree(NamedTuple):
    """Points in the order of the leaves, and the boxes around them."""

    points: Floats  # leaf by leaf, and inside a leaf column by column: a leaf is read in one go
    rows: Ints32  # the row at each place
    place: Ints32  # the place of each row
    start: Ints32  # the first place of each node
    stop: Ints32  # the place after its last one
    end: Ints32  # the place after the last point that is left, for leaves
    boxes: Floats  # (nodes, 2, d): low and high
    lowest_row: Ints32  # among the points left below each node; n when there are none


def build(x: Floats, report: Callable[[], object] | None = None) -> KdTree:
    """Build a tree on the rows of a matrix by median cuts of the widest side. Time O(n·log n).

    `report` is called after every level.
    """
    n, d = x.shape
    depth = 0
    while (n >> depth) > LEAF:
        depth += 1
    n_nodes = (1 << (depth + 1)) - 1
    rows = np.arange(n, dtype=np.int32)
    start, stop, lowest_row = (np.zeros(n_nodes, np.int32) for _ in range(3))
    boxes = np.empty((n_nodes, 2, d))
    stop[0] = n
    for level in range(depth + 1):
        _cut(x, rows, start, stop, boxes, lowest_row, (1 << level) - 1)
        if report is not None:
            report()
    tree = KdTree(np.empty(n * d), rows, np.empty_like(rows), start, stop, stop.copy(), boxes, lowest_row)
    _fill_leaves(x, tree.points, rows, tree.place, start, stop)
    return tree


@kernel
def _cut(x: Floats, rows: Ints32, start: Ints32, stop: Ints32, boxes: Floats, lowest_row: Ints32, first: int) -> None:
    """Find the boxes of one level, the nodes from `first` on, and cut them in two, down to the leaves."""
    for v in range(first, 2 * first + 1):
        lowest_row[v] = _box(x, rows, start[v], stop[v], boxes, v)
        a, b = 2 * v + 1, 2 * v + 2
        if b < start.size:
            widest: Index = np.int64(0)
            for j in range(1, x.shape[1]):
                if boxes[v, HIGH, j] - boxes[v, LOW, j] > boxes[v, HIGH, widest] - boxes[v, LOW, widest]:
                    widest = j
            middle = (start[v] + stop[v]) // 2
            _split(x, rows, start[v], stop[v], middle, widest)
            start[a], stop[a] = start[v], middle
            start[b], stop[b] = middle, stop[v]


@helper
def _box(x: Floats, rows: Ints32, start: int, stop: int, boxes: Floats, v: int) -> int:
    """Find the box around some rows; return the lowest of them."""
    for j in range(x.shape[1]):
        boxes[v, LOW, j], boxes[v, HIGH, j] = np.inf, -np.inf
    lowest = rows.size
    for i in range(start, stop):
        lowest = min(lowest, rows[i])
        for j in range(x.shape[1]):
            value = x[rows[i], j]
            boxes[v, LOW, j] = min(boxes[v, LOW, j], value)
            boxes[v, HIGH, j] = max(boxes[v, HIGH, j], value)
    return lowest


@helper
def _is_before(x: Floats, j: Index, a: int, b: int) -> bool:
    return x[a, j] < x[b, j] or (x[a, j] == x[b, j] and a < b)


@helper
def _split(x: Floats, rows: Ints32, low: int, high: int, middle: int, j: Index) -> None:
    """Bring the row that belongs at `middle` there, smaller ones before it (quickselect by value, then row).

    Sorting equal values by row gathers the lowest rows of duplicates in the same leaf.
    """
    while high - low > 1:
        a, b, c = rows[low], rows[(low + high) // 2], rows[high - 1]
        if _is_before(x, j, b, a):
            a, b = b, a
        if _is_before(x, j, c, b):
            b = a if _is_before(x, j, c, a) else c
        left, right = low, high - 1
        while left <= right:
            while _is_before(x, j, rows[left], b):
                left += 1
            while _is_before(x, j, b, rows[right]):
                right -= 1
            if left <= right:
                rows[left], rows[right] = rows[right], rows[left]
                left += 1
                right -= 1
        if middle <= right:
            high = right + 1
        elif middle >= left:
            low = left
        else:
            return


@kernel
def _fill_leaves(x: Floats, points: Floats, rows: Ints32, place: Ints32, start: Ints32, stop: Ints32) -> None:
    d = x.shape[1]
    for leaf in range(start.size // 2, start.size):
        size = stop[leaf] - start[leaf]
        for i in range(size):
            row = rows[start[leaf] + i]
            place[row] = start[leaf] + i
            for j in range(d):
                points[start[leaf] * d + j * size + i] = x[row, j]


@helper
def remove(tree: KdTree, row: int, point: Floats) -> None:
    """Take a row out of the tree; `point` is what it holds. Time O(depth·d + leaf)."""
    start, place = tree.start, tree.place[row]
    v = 0
    while 2 * v + 2 < start.size:
        v = 2 * v + 2 if place >= start[2 * v + 2] else 2 * v + 1
    last = tree.end[v] - 1
    tree.end[v] = last
    moved = tree.rows[last]
    tree.rows[place], tree.place[moved] = moved, place
    size = tree.stop[v] - start[v]
    for j in range(point.size):
        column = start[v] * point.size + j * size - start[v]
        tree.points[column + place] = tree.points[column + last]
    changed = _touches(tree, v, row, point) and _tighten_leaf(tree, v)
    while changed and v > 0:
        v = (v - 1) // 2
        changed = _touches(tree, v, row, point) and _tighten(tree, v)


@helper
def _touches(tree: KdTree, v: int, row: int, point: Floats) -> bool:
    """Does the removed point lie on the box of the node, or is it its lowest row?"""
    if tree.lowest_row[v] == row:
        return True
    for j in range(point.size):  # noqa: SIM110  (no generators in kernels)
        if point[j] <= tree.boxes[v, LOW, j] or point[j] >= tree.boxes[v, HIGH, j]:
            return True
    return False


@helper
def _tighten_leaf(tree: KdTree, v: int) -> bool:
    """Recompute what a leaf knows of its points; True when it changed."""
    d = tree.boxes.shape[2]
    start, left = tree.start[v], tree.end[v] - tree.start[v]
    size = tree.stop[v] - start
    lowest = tree.rows.size
    for i in range(left):
        lowest = min(lowest, tree.rows[start + i])
    changed = lowest != tree.lowest_row[v]
    tree.lowest_row[v] = lowest
    for j in range(d):
        low, high = np.inf, -np.inf
        first = start * d + j * size
        for value in tree.points[first : first + left]:
            low, high = min(low, value), max(high, value)
        changed |= low != tree.boxes[v, LOW, j] or high != tree.boxes[v, HIGH, j]
        tree.boxes[v, LOW, j], tree.boxes[v, HIGH, j] = low, high
    return bool(changed)


@helper
def _tighten(tree: KdTree, v: int) -> bool:
    """Recompute what a node knows from its children; True when it changed."""
    a, b, boxes = 2 * v + 1, 2 * v + 2, tree.boxes
    lowest = min(tree.lowest_row[a], tree.lowest_row[b])
    changed = lowest != tree.lowest_row[v]
    tree.lowest_row[v] = lowest
    for j in range(boxes.shape[2]):
        low = min(boxes[a, LOW, j], boxes[b, LOW, j])
        high = max(boxes[a, HIGH, j], boxes[b, HIGH, j])
        changed |= low != boxes[v, LOW, j] or high != boxes[v, HIGH, j]
        boxes[v, LOW, j], boxes[v, HIGH, j] = low, high
    return bool(changed)
