"""People and records as the two sides of a graph: its strongly connected components, assignments at the least cost."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.jit import lean_kernel


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
