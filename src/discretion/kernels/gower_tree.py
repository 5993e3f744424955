"""Nearest records by a distance of Gower's type, searched in a tree of boxes.

Bounds and distances add the same terms in the same order, so that rounding never makes a bound wrong and ties are found
exactly; ties go to the lowest row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Ints, as_matrix
from discretion.kernels.jit import helper, kernel

Progress = Callable[[int, int, str], object]

_LEAF = 16  # records; equal records share a leaf however many they are
_QUERIES = 4096  # searched between two reports of progress


class Boxes(NamedTuple):
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


def _build(x: Floats, nominal: Bools, weights: Floats) -> tuple[Boxes, int]:
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
        middle = start + _cut(x, rows, int(spread.argmax()))
        waiting += [(middle, stop, node, 1, level + 1), (start, middle, node, 0, level + 1)]
    low, high, holes, equal, lowest = (np.array(part) for part in zip(*sides, strict=True))
    shape = (len(spans), d)
    return Boxes(
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


def _cut(x: Floats, rows: Ints, column: int) -> int:
    """Sort the rows by a column, in place, and find the place nearest to the middle where its value changes."""
    rows[:] = rows[np.argsort(x[rows, column], kind="stable")]
    values = x[rows, column]
    changes = np.flatnonzero((values[1:] != values[:-1]) & ~(np.isnan(values[1:]) & np.isnan(values[:-1]))) + 1
    return int(changes[np.abs(changes - len(rows) // 2).argmin()])


@helper
def _bound(boxes: Boxes, v: int, q: Floats) -> float:
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
def _distance(boxes: Boxes, place: int, q: Floats, worst: float) -> float:
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
def _search(boxes: Boxes, queries: Floats, best: Floats, found: Ints, room: int) -> None:
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
