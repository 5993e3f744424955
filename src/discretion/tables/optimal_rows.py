"""Conditions on a pattern that follow from one sum of the table at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.optimal_attack import VIOLATED, Attack, Cut

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


def first_cuts(cells: Cells, attack: Attack, usable: Bools) -> Iterator[Cut]:
    """Give what each sum asks for a sensitive cell in it: the other cells of the sum must be able to make room.

    A cell deviates upwards by no more than its total does and its siblings do downwards; where nothing else is
    suppressed in a sum the cell can be computed.
    """
    sums = cells.relations()
    nobody = np.zeros(len(cells))
    by_cell = sums.transposed
    for goal in attack.goals:
        for row in by_cell.row(goal.cell).tolist():
            inside = slice(sums.indptr[row], sums.indptr[row + 1])
            member, sign = sums.indices[inside], sums.data[inside]
            others = (member != goal.cell) & (usable[member] | cells.primary[member])
            along = sign * sign[member == goal.cell][0] < 0
            weights = np.zeros(len(cells))
            for side in goal.sides:
                up = along if side > 0 else ~along
                weights[member] += np.where(up, attack.high[member], attack.low[member]) * others
            cut = attack.strengthened(goal.least, weights, nobody)
            if cut is not None:
                yield cut


def bridges(cells: Cells, chosen: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Give Σ weights · chosen ≥ 0 where a cell is suppressed to a larger extent than all others of a sum together.

    A complementary cell that is alone in a sum can be computed and protects nothing: the cheapest pattern has none.
    """
    sums = cells.relations()
    extent = chosen[sums.indices]
    whole = np.bincount(sums.rows, extent, sums.shape[0])
    alone = (2 * extent > whole[sums.rows] + VIOLATED) & ~cells.primary[sums.indices]
    for entry in np.flatnonzero(alone).tolist():
        row = int(sums.rows[entry])
        member = sums.row(row).astype(np.int64)
        yield member, np.where(member == sums.indices[entry], -1.0, 1.0)
