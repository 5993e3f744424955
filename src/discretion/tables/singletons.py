"""What respondents know of a table before it appears: the inner cells that are all their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints, Ints32

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


def known_rows(cells: Cells, coalition: int = 1) -> Bools:
    """Tell which inner cells are known to somebody: those of one respondent, or of a coalition of up to c.

    Raises when the numbers of respondents are not known: an attack that cannot be looked at is not excluded. Inner
    cells that linked tables do not publish are counted from the contributions; where those are not there (ready-made
    linked tables) nobody is known to be alone in one, but in published cells: see `known_combinations`.
    """
    if coalition < 1:
        raise PlanError("coalition: at least 1 respondent")
    if not cells.response.counted:
        raise DataError(
            "the cells came without their numbers of respondents, so that nobody can tell who is alone in a cell; "
            "give the column `count`, or say singletons=False"
        )
    count = _inner_counts(cells)
    return (count > 0) & (count <= coalition)


def known_combinations(cells: Cells, coalition: int = 1) -> list[Ints32]:
    """List what somebody knows, as sets of inner cells: each known inner cell, and sums of several of one respondent.

    A respondent that is alone in several inner cells (a holding) also knows their sum within each published cell. In
    ready-made linked tables, who is alone in a published cell knows it, whatever inner cells it consists of.
    """
    rows = np.flatnonzero(known_rows(cells, coalition))
    found: set[tuple[int, ...]] = {(int(row),) for row in rows}
    owners = _owners(cells, rows)
    several = rows[(owners >= 0) & (np.bincount(owners + 1)[owners + 1] > 1)] if len(rows) else rows
    who = dict(zip(rows.tolist(), owners.tolist(), strict=True))
    sums: dict[tuple[int, int], list[int]] = {}
    for row in several.tolist():
        for cell in cells.x.row(row).tolist():
            sums.setdefault((cell, who[row]), []).append(row)
    found |= {tuple(members) for members in sums.values() if len(members) > 1}
    if cells.source is None and (cells.inner_cell < 0).any():
        few = np.flatnonzero((cells.count > 0) & (cells.count <= coalition))
        found |= {tuple(cells.x.transposed.row(cell).tolist()) for cell in few.tolist()}
    return [np.array(members, np.int32) for members in sorted(found)]


def _inner_counts(cells: Cells) -> Ints:
    """Count the respondents of every inner cell."""
    source = cells.source
    if source is None or (cells.inner_cell >= 0).all():
        return np.where(cells.inner_cell >= 0, cells.count[cells.inner_cell], 0)
    pairs = np.unique(np.column_stack((source.inner, source.contributor)), axis=0)
    return np.bincount(pairs[:, 0], minlength=len(cells.inner_codes)).astype(np.int64)


def _owners(cells: Cells, rows: Ints) -> Ints:
    """Give the respondent that is alone in each of these inner cells, −1 where it is not known who."""
    if not cells.top_ids.shape[1]:
        return np.full(len(rows), -1, np.int64)
    cell = cells.inner_cell[rows]
    alone = (cell >= 0) & (cells.count[cell] == 1)
    return np.where(alone, cells.top_ids[cell, 0], -1).astype(np.int64)
