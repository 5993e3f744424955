"""Tables that prove a cell's room with few deviations: such a proof holds for everybody who knows none of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.tables.attacker_system import Matrix, System
from discretion.tables.linear_program import LinearProgram

SIZES = (200, 1000, 5000)
"""Unknowns that a program has at least, in turn, before it has all that are tied to the sum."""
SHARED = 2
"""How many of these sizes are tried for several attackers together, before each is asked for alone."""
TINY = 1e-9
"""Deviations below this share of the amount asked for are rounding of the solver."""


@dataclass(frozen=True, eq=False)
class Witness:
    """A table that agrees with everything published: the unknowns that deviate, by how much, and what it misses."""

    unknowns: Ints
    z: Floats
    missed: float

    @cached_property
    def by_unknown(self) -> dict[int, float]:
        """How far each unknown deviates."""
        return dict(zip(self.unknowns.tolist(), self.z.tolist(), strict=True))

    def times(self, share: float) -> Witness:
        """Give a share of all deviations, which is possible too."""
        return Witness(self.unknowns, share * self.z, share * self.missed)


class Witnesses:
    """Finds tables in which a sum of unknowns deviates by an amount, and few unknowns do."""

    def __init__(self, whole: System, weight: Floats) -> None:
        self.whole = whole
        self.weight = weight
        """(unknowns,) what a deviation of each costs"""
        self.solved = 0
        """linear programs solved so far"""
        self._columns = whole.A.T.tocsr()
        self._ties = abs(whole.A)
        self._last: tuple[bytes, dict[int, Nearby]] = b"", {}
        self._first = 0
        """which of the sizes was large enough for the last sum"""

    def find(
        self, target: Matrix, amount: float, known: Ints, partly: Ints, low: Floats, *, grow: bool = True
    ) -> Witness | None:
        """Give a table where a sum (one row) deviates by at least an amount (below 0: downwards).

        Nothing in `known` deviates, and the unknowns in `partly` not below `low`. None when there is no such table;
        without `grow`, when there is none around the sum.
        """
        self._turn(target)
        sizes = (*(size for size in SIZES if 2 * size < self.whole.size), self.whole.size)
        for number in range(self._first, len(sizes) if grow else min(max(SHARED, self._first + 1), len(sizes))):
            near = self._near(target, max(sizes[number], len(target.indices)))
            self.solved += 1
            found = near.find(amount, known, partly, low)
            if found is not None:
                self._first = number
            if found is not None or near.complete:
                return found
        return None

    def _turn(self, target: Matrix) -> None:
        """Forget the programs of another sum."""
        key = target.indices.tobytes()
        if self._last[0] != key:
            self._last, self._first = (key, {}), 0

    def _near(self, target: Matrix, least: int) -> Nearby:
        kept = self._last[1]
        if least not in kept:
            region, complete = self._region(target, least)
            kept[least] = Nearby(self.whole, self._columns[region], target, region, self.weight[region], complete)
        return kept[least]

    def _region(self, target: Matrix, least: int) -> tuple[Ints, bool]:
        """Give so many unknowns around a sum, twice as many at most, and whether these are all that are tied to it."""
        inside = np.zeros(self.whole.size, np.bool_)
        inside[target.indices] = True
        new = target.indices.astype(np.int64)
        while inside.sum() < least:
            rows = np.unique(_entries(self._columns, new))
            reached, ties = np.unique(_entries(self._ties, rows), return_counts=True)
            new, ties = reached[~inside[reached]], ties[~inside[reached]]
            if not len(new):
                return np.flatnonzero(inside), True
            if len(new) > (most := 2 * least - int(inside.sum())):
                new = new[np.argsort(-ties, kind="stable")[:most]]
            inside[new] = True
        return np.flatnonzero(inside), bool(inside.all())


class Nearby:
    """One program: the unknowns around a sum; all others stay as they are, so that what is found holds for the whole.

    What an attacker knows is a change of bounds, and the solver goes on from its last solution.
    """

    def __init__(
        self, whole: System, columns: Matrix, target: Matrix, region: Ints, weight: Floats, complete: bool
    ) -> None:
        """Take the columns (one row each) of the unknowns in a region, which are in ascending order."""
        from scipy.sparse import csr_array, hstack

        self.complete = complete
        """whether these are all unknowns that are tied to the sum"""
        self._region, self._n = region, len(region)
        rows, row = np.unique(columns.indices, return_inverse=True)
        column = np.repeat(np.arange(self._n), np.diff(columns.indptr))
        self._sums: Matrix = csr_array((columns.data, (row, column)), shape=(len(rows), self._n))
        self._row_low, self._row_high = whole.row_low[rows], whole.row_high[rows]
        self._low, self._high = whole.low[region], whole.high[region]
        self._program = LinearProgram(
            hstack([self._sums, -self._sums]),
            (np.zeros(2 * self._n), np.r_[self._high, -self._low]),
            (self._row_low, self._row_high),
            np.tile(weight, 2),
            tight=True,
        )
        at = np.searchsorted(region, target.indices)
        self._target = self._program.add_row(np.r_[at, at + self._n], np.r_[target.data, -target.data])
        self._touched = np.zeros(0, np.int64)

    def find(self, amount: float, known: Ints, partly: Ints, low: Floats) -> Witness | None:
        """Give a table where the sum deviates by an amount, for somebody who knows some unknowns, some in part."""
        self._bound(self._touched, self._low[self._touched], self._high[self._touched])
        still, some = self._inside(known), self._inside(partly)
        at, here = some[some >= 0], low[some >= 0]
        self._bound(at, np.maximum(here, self._low[at]), self._high[at])
        still = still[still >= 0]
        self._bound(still, np.zeros(len(still)), np.zeros(len(still)))
        self._touched = np.r_[at, still]
        self._program.bound_row(self._target, *((amount, np.inf) if amount > 0 else (-np.inf, amount)))
        return self._witness(amount) if self._program.settle() else None

    def _inside(self, unknowns: Ints) -> Ints:
        """Give the places of unknowns in the region, −1 for those outside."""
        place = np.minimum(np.searchsorted(self._region, unknowns), self._n - 1)
        return np.where(self._region[place] == unknowns, place, -1)

    def _bound(self, place: Ints, low: Floats, high: Floats) -> None:
        if len(place):
            both = np.r_[place, place + self._n]
            self._program.bound(both, np.zeros(len(both)), np.r_[high, -low])

    def _witness(self, amount: float) -> Witness:
        values = np.clip(self._program.values, self._program.low, self._program.high)
        z = values[: self._n] - values[self._n :]
        z[np.abs(z) <= TINY * abs(amount)] = 0.0
        sums = self._sums @ z
        missed = float(np.maximum(sums - self._row_high, self._row_low - sums).max(initial=0.0))
        some = np.flatnonzero(z)
        return Witness(self._region[some], z[some], missed)


def _entries(matrix: Matrix, rows: Ints) -> Ints:
    """Give the columns of some rows of a sparse matrix, one after the other."""
    start, count = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    found: Ints = matrix.indices[np.repeat(start, count) + inside].astype(np.int64)
    return found
