"""Totals of a table: cells are added up along one variable after the other, level by level.

Only non-empty cells occur. Sums, counts and maxima add up along every tree. Largest contributions do so too when no
respondent is in two cells; respondents that are go through the same sums as (cell, respondent) pairs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.table_top import largest
from discretion.tables.contributions import Contributions
from discretion.tables.dimensions import Dimension
from discretion.tables.packing import row_keys


@dataclass(frozen=True, eq=False)
class Figures:
    """Cells with everything that is added up; r responses, t largest contributions."""

    codes: Ints32
    """(n, d)"""
    sums: Floats
    """(n, 2r + 2): values, absolute values, weight, key"""
    counts: Ints
    """(n, 3r): respondents, those without a waiver, those with a negative contribution"""
    maxima: Floats
    """(n, 2r): largest contribution without a waiver, largest with a request"""
    top: Floats
    """(n, r, t)"""
    ids: Ints32
    """(n, r, t)"""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Figures:
        """Give some of the cells."""
        return Figures(*(array[rows] for array in vars(self).values()))

    @staticmethod
    def stack(parts: Sequence[Figures]) -> Figures:
        """Put cells one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Figures(*(np.concatenate(arrays) for arrays in zip(*(vars(p).values() for p in parts), strict=True)))


def table_figures(entries: Contributions, dims: Sequence[Dimension], variables: Sequence[int], t: int) -> Figures:
    """Give all cells of the table over some of the variables; the others are at their total."""
    codes = np.zeros((len(entries), len(dims)), np.int32)
    codes[:, variables] = entries.inner_codes[entries.inner][:, variables]
    spread = entries.spread
    parts = []
    if not spread.all():
        alone = np.flatnonzero(~spread)
        parts.append(rolled(_merged(_figures(entries, alone, codes), dims, t), dims, variables, t))
    if spread.any():
        parts.append(_of_spread(entries, np.flatnonzero(spread), codes, dims, variables, t))
    if not parts:
        return _merged(_figures(entries, np.arange(0), codes), dims, t)
    return parts[0] if len(parts) == 1 else _merged(Figures.stack(parts), dims, t)


def _figures(entries: Contributions, rows: Ints, codes: Ints32) -> Figures:
    key = np.zeros(len(entries)) if entries.key is None else entries.key
    return _contributed(
        codes[rows],
        entries.x[rows],
        entries.contributor[rows],
        np.column_stack((entries.weight[rows], key[rows])),
        entries.waived[rows],
        entries.requested[rows],
    )


def _contributed(
    codes: Ints32, x: Floats, who: Ints32, extra: Floats, waived: NDArray[np.bool_], requested: NDArray[np.bool_]
) -> Figures:
    """Give the figures of single contributions: each is a cell with one respondent."""
    present = ~np.isnan(x)
    value = np.where(present, x, 0.0)
    size = np.abs(value)
    is_open = present & ~waived[:, None]
    return Figures(
        codes,
        np.concatenate((value, size, extra), axis=1),
        np.concatenate((present, is_open, value < 0), axis=1).astype(np.int64),
        np.concatenate((np.where(is_open, size, 0), np.where(requested[:, None], size, 0)), axis=1),
        size[:, :, None],
        np.where(present, who[:, None], -1).astype(np.int32)[:, :, None],
    )


def _merged(cells: Figures, dims: Sequence[Dimension], t: int) -> Figures:
    return merge(cells, row_keys(cells.codes, [len(dim) for dim in dims]), t)


def merge(cells: Figures, keys: Ints, t: int) -> Figures:
    """Add up cells with equal keys; the codes are those of the first of them."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(keys)])
    if not len(starts):
        r = cells.top.shape[1]
        return Figures(*vars(cells).values()).take(starts) if t == cells.top.shape[2] else Figures(
            cells.codes, cells.sums, cells.counts, cells.maxima, np.zeros((0, r, t)), np.zeros((0, r, t), np.int32)
        )  # fmt: skip
    bounds = np.append(starts, len(order))
    top, ids = largest(order, bounds, cells.top, cells.ids, t)
    return Figures(
        cells.codes[order[starts]],
        np.add.reduceat(cells.sums[order], starts, axis=0),
        np.add.reduceat(cells.counts[order], starts, axis=0),
        np.maximum.reduceat(cells.maxima[order], starts, axis=0),
        top,
        ids,
    )


def rolled(
    cells: Figures, dims: Sequence[Dimension], variables: Sequence[int], t: int, more: Sequence[int] = ()
) -> Figures:
    """Add the totals along each of the variables. `more` are the sizes of code columns that are not rolled up."""
    sizes = [*(len(dim) for dim in dims), *more]
    for j in variables:
        parts = [cells]
        done = dims[j].leaves.copy()
        for tree in range(len(dims[j].parents)):
            for totals in _totals(cells, dims[j], j, tree, sizes, t):
                new = ~done[totals.codes[:, j]]
                parts.append(totals if new.all() else totals.take(np.flatnonzero(new)))
            done |= dims[j].depths[tree] >= 0
        cells = Figures.stack(parts)
    return cells


def _totals(cells: Figures, dim: Dimension, j: int, tree: int, sizes: Sequence[int], t: int) -> list[Figures]:
    """Roll cells at the leaves of a variable up one tree, level by level from the bottom."""
    parent, depth = dim.parents[tree], dim.depths[tree]
    at = depth[cells.codes[:, j]]
    found: list[Figures] = []
    for level in range(int(depth.max()), 0, -1):
        below = cells.take(np.flatnonzero(at == level))
        if found and len(found[-1]):
            below = Figures.stack([found[-1], below]) if len(below) else found[-1]
        codes = below.codes.copy()
        codes[:, j] = parent[codes[:, j]]
        lifted = Figures(codes, below.sums, below.counts, below.maxima, below.top, below.ids)
        found.append(merge(lifted, row_keys(codes, sizes), t))
    return found


def _of_spread(
    entries: Contributions, rows: Ints, codes: Ints32, dims: Sequence[Dimension], variables: Sequence[int], t: int
) -> Figures:
    """Give the cells of respondents that are in several inner cells: first what each contributes to every cell."""
    who = entries.contributor[rows]
    x = entries.x[rows]
    present = ~np.isnan(x)
    key = np.zeros(len(rows)) if entries.key is None else entries.key[rows]
    n, r = x.shape
    pairs = Figures(
        np.column_stack((codes[rows], who)),
        np.column_stack((np.where(present, x, 0.0), entries.weight[rows], key)),
        present.astype(np.int64),
        np.column_stack((entries.waived[rows], entries.requested[rows])).astype(np.float64),
        np.zeros((n, r, 0)),
        np.zeros((n, r, 0), np.int32),
    )
    size = int(who.max()) + 1
    sizes = [*(len(dim) for dim in dims), size]
    pairs = rolled(merge(pairs, row_keys(pairs.codes, sizes), 0), dims, variables, 0, (size,))
    single = _contributed(
        np.ascontiguousarray(pairs.codes[:, :-1]),
        np.where(pairs.counts > 0, pairs.sums[:, :r], np.nan),
        pairs.codes[:, -1],
        pairs.sums[:, r:],
        pairs.maxima[:, 0] > 0,
        pairs.maxima[:, 1] > 0,
    )
    return _merged(single, dims, t)
