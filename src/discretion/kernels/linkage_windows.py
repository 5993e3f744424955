"""Which published records each of the intruder's records may be: inside its windows, in the categories that agree."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Keys
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.linkage_mixed import NOMINAL, Terms, Tree, bits_of

_DEPTH = 128  # nodes that can wait at a time


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
        bits_of(terms.alike), np.empty(_DEPTH, np.int64), enough, counts, found,
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
