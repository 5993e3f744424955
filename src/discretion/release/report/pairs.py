"""Original and released values side by side, for the plots.

Only values that stand in both data sets are compared: a picture of values that were suppressed in the release, set
beside the release itself, would show where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import align

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release


@dataclass(frozen=True)
class Sides:
    """Original and release; `aligned` tells whether row i of both is the same record."""

    original: Dataset
    released: Dataset
    aligned: bool

    def numbers(self, column: str) -> tuple[Floats, Floats]:
        """Give the values of a numeric column that are present (in both, where the rows are aligned)."""
        x, y = self.original.number(column), self.released.number(column)
        if not self.aligned:
            return x[~np.isnan(x)], y[~np.isnan(y)]
        present = ~(np.isnan(x) | np.isnan(y))
        return x[present], y[present]

    def changed(self, column: str) -> bool:
        """Tell whether the release shows other values than the original."""
        if not self.aligned:
            return True
        one, other = self.original.frame[column], self.released.frame[column]
        return one.dtype != other.dtype or not one.equals(other, null_equal=True)

    def is_numeric(self, column: str) -> bool:
        """Tell whether a column is a number in both data sets."""
        return self.original.is_numeric(column) and self.released.is_numeric(column)


def sides_of(release: Release) -> Sides:
    """Match the rows of original and release where that is possible.

    Plots look at no order: the release as it stood before its rows were put in another one needs no second original.
    """
    original, made, data = release.study.original, release.study.current, release.data
    as_made = len(made) == len(data) and not data.has_new_rows and {*data.columns} <= {*made.columns}
    gone = [name for name in made.columns if name not in data.columns]
    return sides_between(original, (made.drop(gone) if gone else made) if as_made else data)


def sides_between(before: Dataset, after: Dataset) -> Sides:
    """Match the rows of two data sets where that is possible."""
    try:
        original, released = align(before, after)
    except DataError:
        return Sides(before, after, aligned=False)
    return Sides(original, released, aligned=True)


def plain_columns(sides: Sides) -> list[str]:
    """Name the columns of both data sets that describe persons: no identifiers, weights or household numbers."""
    excluded = sides.original.having("identifier", "weight", "household", "unit")
    return [name for name in sides.released.columns if name in sides.original.columns and name not in excluded]
