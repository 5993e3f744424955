"""Nearest and farthest points in a k-d tree from which points have been removed; ties go to the lowest row.

Bounds and distances add the same squares in the same order, so rounding never makes a bound wrong, and ties are
found exactly. The lowest row of a subtree prunes those that could only tie, which keeps data full of duplicates
fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Floats, Index, Ints32
from discretion.kernels.jit import helper
from discretion.kernels.kdtree import HIGH, LEAF, LOW, Tree

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
    tree: Tree, search: Search, q: Floats, center: Floats, reach: float, best: float, best_row: Index
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
def nearest(tree: Tree, search: Search, q: Floats) -> None:
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
