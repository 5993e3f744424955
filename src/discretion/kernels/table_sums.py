"""Figures of cells added to those of the cells above them, and of respondents that are in many cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.jit import helper, kernel


@kernel
def add_along(column: NDArray[Any], child: Ints32, parent: Ints32) -> None:
    """Add each child's figure to its parent's, in order."""
    for k in range(child.size):
        column[parent[k]] += column[child[k]]


@kernel
def larger_along(column: Floats, child: Ints32, parent: Ints32) -> None:
    """Give each parent the largest figure of its children."""
    for k in range(child.size):
        column[parent[k]] = max(column[parent[k]], column[child[k]])


@kernel
def top_along(values: Floats, ids: Ints32, child: Ints32, top: Floats, who: Ints32, parent: Ints32) -> None:
    """Merge the largest contributions of each child into those of its parent.

    Places hold values in descending order, −1 in `ids` where there is none; of equal values the lower id comes first.
    No respondent may be in two children of one parent. Time O(children·places).
    """
    for k in range(child.size):
        for s in range(values.shape[1]):
            if ids[child[k], s] >= 0:
                _insert(top, who, parent[k], values[child[k], s], ids[child[k], s])


@helper
def _insert(top: Floats, who: Ints32, cell: int, value: float, name: int) -> None:
    """Put one contribution among the largest of a cell."""
    t = top.shape[1]
    k = t
    while k > 0 and (
        who[cell, k - 1] < 0 or value > top[cell, k - 1] or (value == top[cell, k - 1] and name < who[cell, k - 1])
    ):
        k -= 1
    if k == t:
        return
    for move in range(t - 1, k, -1):
        top[cell, move] = top[cell, move - 1]
        who[cell, move] = who[cell, move - 1]
    top[cell, k] = value
    who[cell, k] = name


@kernel
def cells_of_respondent(
    place: Ints32, above: Ints32, variable: Ints, cells: Ints32, entries: Ints32
) -> tuple[Ints32, Ints32, int]:
    """List every cell above the inner cells of one respondent, with the entry that leads there.

    `place` has the inner cell of each entry, `above` the cell above each along each tree (−1: none), trees in order of
    their `variable`. Gives the lists, which may have grown, and how many places are in use; a cell stands there once
    for each entry below it. Time O(cells listed · trees).
    """
    used = 0
    trees = variable.size
    for e in range(place.size):
        start = used
        cells, entries, used = _append(cells, entries, used, place[e], e)
        tree = 0
        while tree < trees:
            end = tree
            while end < trees and variable[end] == variable[tree]:
                end += 1
            at = start
            while at < used:
                for k in range(tree, end):
                    up = above[k, cells[at]]
                    if up >= 0:
                        cells, entries, used = _append(cells, entries, used, up, e)
                at += 1
            tree = end
    return cells, entries, used


@helper
def _append(cells: Ints32, entries: Ints32, used: int, cell: int, entry: int) -> tuple[Ints32, Ints32, int]:
    if used == cells.size:
        more_cells, more_entries = np.empty(2 * used, np.int32), np.empty(2 * used, np.int32)
        more_cells[:used] = cells
        more_entries[:used] = entries
        cells, entries = more_cells, more_entries
    cells[used] = cell
    entries[used] = entry
    return cells, entries, used + 1


@kernel
def add_respondents(
    bounds: Ints,
    place: Ints32,
    above: Ints32,
    variable: Ints,
    who: Ints32,
    x: Floats,
    waived: Bools,
    requested: Bools,
    figures: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints32],
) -> None:
    """Count respondents in every cell they are in, with all they contribute to it added up first.

    Respondent g has the entries `bounds[g]:bounds[g+1]`; `x` is one response, NaN where there is none. `figures` are
    gross, count, negative, open count, open top, requested, top and ids of all cells; those of length 0 are not wanted.
    A respondent waived protection in a cell when all its entries there did, and asked for it when one of them did.
    Time O(entries · cells above each · log), memory that of one respondent's cells.
    """
    gross, count, negative, open_count, open_top, wanted, top, ids = figures
    cells, entries = np.empty(1024, np.int32), np.empty(1024, np.int32)
    for g in range(bounds.size - 1):
        low = bounds[g]
        cells, entries, used = cells_of_respondent(place[low : bounds[g + 1]], above, variable, cells, entries)
        order = np.argsort(cells[:used], kind="mergesort")
        at = 0
        while at < used:
            cell = cells[order[at]]
            total, present, all_waived, any_requested = 0.0, False, True, False
            while at < used and cells[order[at]] == cell:
                e = low + entries[order[at]]
                at += 1
                all_waived = all_waived and waived[e]
                any_requested = any_requested or requested[e]
                if not np.isnan(x[e]):
                    present = True
                    total += x[e]
            if not present:
                continue
            size = abs(total)
            count[cell] += 1
            if gross.size:
                gross[cell] += size
                negative[cell] += total < 0
            if open_count.size and not all_waived:
                open_count[cell] += 1
                open_top[cell] = max(open_top[cell], size)
            if wanted.size and any_requested:
                wanted[cell] = max(wanted[cell], size)
            _insert(top, ids, cell, size, who[low])
