"""What can lie behind linked tables that came ready-made: the combinations of their leaves, and values for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from discretion.errors import DataError
from discretion.kernels.arrays import Ints, Ints32
from discretion.tables.integer_program import Program, solve

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

MOST = 5_000_000
"""Combinations of leaves that linked tables may leave possible."""

_SECONDS = 600.0


def joined_cells(
    codes: Ints32, leaves: Sequence[Ints], places: Sequence[Sequence[int]], names: Sequence[str]
) -> Ints32:
    """Give every combination of leaves that all tables have cells for: the records can be nowhere else.

    `codes` are those of all rows, `leaves` the rows that are inner cells of each table, `places` its variables. Tables
    are joined one after the other on the variables they share. Time and memory O(combinations·variables).
    """
    joined = codes[leaves[0]].copy()
    known = set(places[0])
    for rows, columns in zip(leaves[1:], places[1:], strict=True):
        shared = [j for j in columns if j in known]
        new = [j for j in columns if j not in known]
        both = np.concatenate((joined[:, shared], codes[rows][:, shared]))
        _, group = np.unique(both, axis=0, return_inverse=True) if shared else (None, np.zeros(len(both), np.int64))
        mine, theirs = group.ravel()[: len(joined)], group.ravel()[len(joined) :]
        order = np.argsort(theirs, kind="stable")
        low, high = (np.searchsorted(theirs[order], mine, side) for side in ("left", "right"))
        count = high - low
        total = int(count.sum())
        if total > MOST:
            raise DataError(
                f"linked tables over {', '.join(names)} leave {total:,} combinations of codes possible, more than "
                f"{MOST:,}; give tables that share more variables, or the records"
            )
        left = np.repeat(np.arange(len(joined)), count)
        right = rows[order[np.arange(total) - np.repeat(np.cumsum(count) - count - low, count)]]
        joined = joined[left]
        joined[:, new] = codes[right][:, new]
        known |= set(columns)
    return joined[np.lexsort(joined.T[::-1])]


def check_covered(cells: Cells) -> None:
    """Refuse cells of one table that have no counterpart in another one with the same variables."""
    covered = np.bincount(cells.x.indices, minlength=len(cells)) > 0
    bare = np.flatnonzero(~covered & (np.nan_to_num(cells.value, nan=1.0) != 0))
    if len(bare):
        where = ", ".join(f"{name}={code}" for name, code in cells.label(int(bare[0])).items())
        raise DataError(
            f"{len(bare)} cells of one table have nothing below them in another one that shares their variables, "
            f"first {where}; give all tables for the same codes"
        )


def with_possible_values(cells: Cells, tolerance: float) -> Cells:
    """Give the table with values of the combinations that add up to all its cells (any such values will do).

    Without the value of some cell none are needed. Raises when there are none: the tables contradict each other.
    """
    n = len(cells.inner_codes)
    if np.isnan(cells.value).any():
        return _with_inner(cells, np.full(n, np.nan))
    members = cells.x.transposed.to_scipy()
    slack = tolerance + 1e-9 * np.abs(cells.value)
    floor = -np.inf if (cells.value < 0).any() else 0.0
    program = Program(
        members, np.full(n, floor), np.full(n, np.inf), np.zeros(n), cells.value - slack, cells.value + slack
    )
    found = solve(program, seconds=_SECONDS)
    if not found.found:
        raise DataError("the linked tables contradict each other: no records can lie behind all of them")
    return _with_inner(cells, found.x)


def _with_inner(cells: Cells, value: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Cells:
    return replace(cells, responses=(replace(cells.response, inner_value=value),))
