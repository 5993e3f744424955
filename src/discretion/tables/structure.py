"""Who adds up to whom: inner cells to published cells, parts to totals."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Ints
from discretion.tables.sparse import Sparse

if TYPE_CHECKING:
    from discretion.tables.cells import Cells
    from discretion.tables.dimensions import Dimension


def incidence(cells: Cells) -> Sparse:
    """Give the matrix of inner cells × published cells. Time and memory O(inner cells × cells above each)."""
    n = len(cells.inner_codes)
    first_table = cells.in_table.argmax(axis=1)
    rows, columns = [], []
    for number, table in enumerate(cells.tables):
        places = [cells.dim(name) for name in table]
        above = [cells.dims[j].ancestors[cells.inner_codes[:, j]] for j in places]
        for slots in product(*(range(table_above.shape[1]) for table_above in above)):
            codes = np.zeros((n, len(cells.dims)), np.int32)
            for j, table_above, slot in zip(places, above, slots, strict=True):
                codes[:, j] = table_above[:, slot]
            inner = np.flatnonzero((codes >= 0).all(axis=1))
            found = cells.find(codes[inner])
            kept = (found >= 0) & (first_table[found] == number)
            rows.append(inner[kept])
            columns.append(found[kept])
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (n, len(cells)))


def parent(cells: Cells, j: int, tree: int = 0) -> Ints:
    """Give for each cell the one a step up along a variable, −1 at its total or outside the tree."""
    above = cells.dims[j].parents[tree][cells.codes[:, j]]
    lifted = np.flatnonzero(above >= 0)
    codes = cells.codes[lifted].copy()
    codes[:, j] = above[lifted]
    found = np.full(len(cells), -1, np.int64)
    found[lifted] = cells.find(codes)
    return found


def relations(cells: Cells) -> Sparse:
    """Give a row for every total: +1 for it, −1 for its parts along one tree of one variable."""
    rows, columns, signs, count = [], [], [], 0
    for j, dim in enumerate(cells.dims):
        for tree in range(len(dim.parents)):
            above = parent(cells, j, tree)
            parts = np.flatnonzero((above >= 0) & ~_told_before(dim, tree)[dim.parents[tree][cells.codes[:, j]]])
            totals, row = np.unique(above[parts], return_inverse=True)
            rows += [count + np.arange(len(totals)), count + row]
            columns += [totals, parts]
            signs += [np.ones(len(totals), np.int8), np.full(len(parts), -1, np.int8)]
            count += len(totals)
    for one, other in _equal_cells(cells) if len(cells.tables) > 1 else ():
        rows.append(np.array([count, count]))
        columns.append(np.array([one, other]))
        signs.append(np.array([1, -1], np.int8))
        count += 1
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (count, len(cells)), np.concatenate(signs))


def _told_before(dim: Dimension, tree: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which codes have the same children in an earlier tree, so that the relation is already there."""
    told = np.zeros(len(dim), np.bool_)
    for code in np.flatnonzero(~dim.leaves).tolist() if tree else ():
        mine = dim.children(code, tree).tolist()
        told[code] = any(dim.children(code, earlier).tolist() == mine for earlier in range(tree))
    return told


def _equal_cells(cells: Cells) -> list[tuple[int, int]]:
    """Find cells of linked tables that consist of the same inner cells although their codes differ."""
    members = cells.x.transposed
    mixed = np.arange(1, len(cells.inner_codes) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    filled = np.flatnonzero(np.diff(members.indptr) > 0)
    if not len(filled):
        return []
    signature = np.add.reduceat(mixed[members.indices], members.indptr[filled])
    order = np.argsort(signature, kind="stable")
    pairs = []
    for before, after in pairwise(order.tolist()):
        one, other = int(filled[before]), int(filled[after])
        if signature[before] == signature[after] and np.array_equal(members.row(one), members.row(other)):
            pairs.append((one, other))
    return pairs
