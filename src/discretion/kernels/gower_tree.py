"""Nearest records by a distance of Gower's type, searched in a tree of boxes.

Bounds and distances add the same terms in the same order, so that rounding never makes a bound wrong and ties are found
exactly; ties go to the lowest row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Ints, Progress, as_matrix
from discretion.kernels.jit import helper, kernel
from discretion.kernels.sums import add_exactly

# Records of numbers, ranks and categories, compared by a distance of Gower's type.

NUMBER, RANK, CATEGORY = 0, 1, 2
_BLOCK = 2048  # records whose distances stay in the first-level cache while the columns are added up


class MixedSpace:
    """A `Space` of records with numbers, ranks and categories.

    The distance is the sum over the columns of |x − y| / range (numbers), |rank − rank| / (m − 1) (ordinal, m ranks)
    and 0 or 1 (nominal). Against a missing value (NaN) every value has the distance 1, two missing values 0. The center
    of the records left has the mean of numbers, the lower median of ranks, the most frequent category (the first of
    equally frequent ones), and nothing where more records miss the value than have it (for categories: where missing is
    the most frequent). One pass over n records takes O(n·d), several records in one instruction.

    `columns` is (d, n); ranks and categories are the numbers 0 … sizes[j]−1. Memory three times the input.
    """

    def __init__(self, columns: ArrayLike, kinds: ArrayLike, sizes: ArrayLike) -> None:
        given = as_matrix(columns)
        self._kinds, self._sizes = np.asarray(kinds, np.int64), np.asarray(sizes, np.int64)
        self._whole = given.copy()
        self._weights = np.ones(len(given))
        for j, (kind, m) in enumerate(zip(self._kinds, self._sizes, strict=True)):
            if kind == CATEGORY:
                self._whole[j, np.isnan(given[j])] = m  # a code of its own
            else:
                self._weights[j] = 1 / max(m - 1, 1) if kind == RANK else _inverse_range(given[j])
        self._left = self._whole.copy()
        slots = np.where(self._kinds == NUMBER, 0, self._sizes + 1)
        self._offsets = np.concatenate([[0], np.cumsum(slots)])
        self._counts = np.zeros(self._offsets[-1], np.int64)
        self._present = np.zeros(len(given), np.int64)
        self._sums = np.zeros((len(given), 2))
        rows = np.arange(given.shape[1])
        _count(self._whole, rows, self._kinds, self._offsets, self._counts, self._present, self._sums, 1)
        self._nominal = self._kinds == CATEGORY
        self._buffer = np.empty(given.shape[1])

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        center = _center(self._kinds, self._offsets, self._counts, self._present, self._sums, rows.size)
        return self._distances(center, rows.size)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        return self._distances(self._whole[:, row].copy(), rows.size)

    def _distances(self, q: Floats, left: int) -> Floats:
        _distances(self._left, left, self._nominal, self._weights, q, self._buffer)
        return self._buffer[:left]

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        gone = rows[places]
        _count(self._whole, gone, self._kinds, self._offsets, self._counts, self._present, self._sums, -1)
        _remove_columns(self._left, rows.size, places)


def _inverse_range(x: Floats) -> float:
    low, high = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
    return float(1 / (high - low)) if high > low else 0.0


@kernel
def _count(
    x: Floats, rows: Ints, kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, sign: int
) -> None:
    """Add records to the figures from which the center is made, or take them away."""
    for j in range(x.shape[0]):
        for row in rows:
            value = x[j, row]
            if np.isnan(value):
                continue
            present[j] += sign
            if kinds[j] == NUMBER:
                add_exactly(sums[j], sign * value)
            else:
                counts[offsets[j] + int(value)] += sign


@kernel
def _center(kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, left: int) -> Floats:
    center = np.full(kinds.size, np.nan)
    for j in range(kinds.size):
        if kinds[j] == CATEGORY:
            center[j] = np.argmax(counts[offsets[j] : offsets[j + 1]])
        elif 2 * present[j] < left or present[j] == 0:
            continue
        elif kinds[j] == NUMBER:
            center[j] = (sums[j, 0] + sums[j, 1]) / present[j]
        else:
            center[j] = _low_median(counts, offsets[j], present[j])
    return center


@helper
def _low_median(counts: Ints, start: int, total: int) -> int:
    rank, below = 0, counts[start]
    while 2 * below < total:
        rank += 1
        below += counts[start + rank]
    return rank


@kernel
def _distances(x: Floats, left: int, nominal: Bools, weights: Floats, q: Floats, out: Floats) -> None:
    for first in range(0, left, _BLOCK):
        total = out[first : min(first + _BLOCK, left)]
        total[:] = 0.0
        for j in range(q.size):
            column, at, weight = x[j, first : first + total.size], q[j], weights[j]
            if nominal[j]:
                for i in range(total.size):
                    total[i] += 1.0 if column[i] != at else 0.0
            elif np.isnan(at):
                for i in range(total.size):
                    total[i] += 0.0 if np.isnan(column[i]) else 1.0
            else:
                for i in range(total.size):
                    gap = abs(column[i] - at) * weight  # equal differences of whole numbers give equal distances
                    total[i] += 1.0 if np.isnan(gap) else gap


@kernel
def _remove_columns(x: Floats, left: int, places: Ints) -> None:
    for place in places:
        left -= 1
        for j in range(x.shape[0]):
            x[j, place] = x[j, left]


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
