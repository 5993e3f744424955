"""How many published records lie inside the windows of each of the intruder's records."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.jit import lean_kernel
from discretion.kernels.linkage_mixed import Terms, Tree

_DEPTH = 128  # nodes that can wait at a time


def count_allowed(tree: Tree, terms: Terms) -> Ints:
    """Count the points inside each query's bounds (missing values of a point are inside)."""
    counts = np.empty(len(terms.low), np.int64)
    before = np.concatenate([[0], np.cumsum(tree.counts)])
    boxes = tree.boxes
    _count(tree.points, tree.counts, boxes.start, boxes.stop, boxes.low, boxes.high, boxes.gaps, before, terms.low,
           terms.high, np.empty(_DEPTH, np.int64), counts)  # fmt: skip
    return counts


@lean_kernel
def _count(
    points: Floats, counts: Ints, start: Ints, stop: Ints, node_low: Floats, node_high: Floats, gaps: Bools,
    before: Ints, low: Floats, high: Floats, stack: Ints, found: Ints,
) -> None:  # fmt: skip
    inner = (start.size - 1) // 2
    for i in range(low.shape[0]):
        total, waiting = 0, 1
        stack[0] = 0
        while waiting:
            waiting -= 1
            v = stack[waiting]
            outside, inside = False, True
            for j in range(low.shape[1]):
                away = node_low[v, j] > high[i, j] or node_high[v, j] < low[i, j]
                outside |= away and not gaps[v, j]
                inside &= node_low[v, j] >= low[i, j] and node_high[v, j] <= high[i, j]
            if outside:
                continue
            if inside:
                total += before[stop[v]] - before[start[v]]
            elif v < inner:
                stack[waiting], stack[waiting + 1] = 2 * v + 1, 2 * v + 2
                waiting += 2
            else:
                for at in range(start[v], stop[v]):
                    fits = True
                    for j in range(low.shape[1]):
                        fits &= not (points[at, j] < low[i, j] or points[at, j] > high[i, j])
                    total += counts[at] if fits else 0
        found[i] = total
