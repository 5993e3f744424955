"""A k-d tree that shrinks: it is built once, and points are removed from it.

The tree is perfect: node v has the children 2v+1 and 2v+2, and the leaves are the last level. Each node knows
the box around its points and their lowest row; both are kept tight while points are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Floats, Index, Ints32
from discretion.kernels.jit import helper, kernel

LEAF = 24  # points; a leaf is compared column by column, several points in one instruction
LOW, HIGH = 0, 1  # sides of a box


class Tree(NamedTuple):
    """Points in the order of the leaves, and the boxes around them."""

    points: Floats  # leaf by leaf, and inside a leaf column by column: a leaf is read in one go
    rows: Ints32  # the row at each place
    place: Ints32  # the place of each row
    start: Ints32  # the first place of each node
    stop: Ints32  # the place after its last one
    end: Ints32  # the place after the last point that is left, for leaves
    boxes: Floats  # (nodes, 2, d): low and high
    lowest_row: Ints32  # among the points left below each node; n when there are none


def build(x: Floats, report: Callable[[], object] | None = None) -> Tree:
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
    tree = Tree(np.empty(n * d), rows, np.empty_like(rows), start, stop, stop.copy(), boxes, lowest_row)
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
def remove(tree: Tree, row: int, point: Floats) -> None:
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
def _touches(tree: Tree, v: int, row: int, point: Floats) -> bool:
    """Does the removed point lie on the box of the node, or is it its lowest row?"""
    if tree.lowest_row[v] == row:
        return True
    for j in range(point.size):  # noqa: SIM110  (no generators in kernels)
        if point[j] <= tree.boxes[v, LOW, j] or point[j] >= tree.boxes[v, HIGH, j]:
            return True
    return False


@helper
def _tighten_leaf(tree: Tree, v: int) -> bool:
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
def _tighten(tree: Tree, v: int) -> bool:
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
