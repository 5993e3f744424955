"""A table with rows and columns: which cell stands where, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.errors import PlanError
from discretion.kernels.arrays import Ints

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

MOST = 5_000_000
"""Places a pivoted table may have."""


@dataclass(frozen=True, eq=False)
class Pivot:
    """Rows of labels, columns of codes, and the number of the cell at each place (−1: there is none)."""

    cells: Cells
    row_names: list[str]
    column_name: str
    columns: list[str]
    labels: list[list[str]]
    """the codes of each row"""
    depths: list[list[int]]
    """how deep each code of a row stands in its hierarchy"""
    place: Ints
    """(rows, columns) the cell there"""

    @property
    def header(self) -> list[str]:
        """The names of the row variables and the codes of the columns."""
        return [*self.row_names, *self.columns]

    def texts(self, row: int) -> list[str | int | float | None]:
        """Give what one row shows: values, `c` where suppressed, and where no cell is nothing (0 in changed tables)."""
        from discretion.tables.publish import SUPPRESSED, shown_numbers

        cells = self.cells
        shown = cells.value if cells.status.released is None else cells.status.released
        nothing = None if cells.status.released is None else 0
        values = shown_numbers(np.where(cells.suppressed, np.nan, shown)[self.place[row]])
        return [
            nothing if number < 0 else SUPPRESSED if cells.suppressed[number] else value
            for number, value in zip(self.place[row].tolist(), values, strict=True)
        ]


def chosen_cells(cells: Cells, table: int | None) -> Ints:
    """Give the numbers of the cells of one linked table, or of all.

    Where values were changed, cells that go out as 0 are left out like those that are empty: otherwise one could tell
    small values from none.
    """
    shown = np.ones(len(cells), np.bool_) if cells.status.released is None else cells.status.released != 0
    if table is None:
        return np.flatnonzero(shown)
    if not 0 <= table < len(cells.tables):
        raise PlanError(f"table: expected 0 to {len(cells.tables) - 1}, got {table!r}")
    return np.flatnonzero(shown & cells.in_table[:, table])


def pivoted(cells: Cells, rows: str | list[str] | None, table: int) -> Pivot:
    """Arrange one table: the variables `rows` down (default: all but the last), the other one across."""
    names = list(cells.tables[table])
    down = names[:-1] if rows is None else [rows] if isinstance(rows, str) else list(rows)
    across = [name for name in names if name not in down]
    if len(names) == 1 and rows is None:
        down, across = names, []
    if set(down) - set(names) or len(set(down)) < len(down) or len(across) != (len(names) > 1):
        raise PlanError(f"rows: name all variables of the table but one (they are {', '.join(names)})")
    picked = chosen_cells(cells, table)
    downs, j = [cells.dim(name) for name in down], cells.dim(across[0]) if across else None
    keys, row = np.unique(cells.codes[picked][:, downs], axis=0, return_inverse=True)
    codes = np.unique(cells.codes[picked, j]) if j is not None else np.zeros(1, np.int64)
    if len(keys) * len(codes) > MOST:
        raise PlanError(f"the pivoted table would have {len(keys) * len(codes):,} places; use the long layout")
    place = np.full((len(keys), len(codes)), -1, np.int64)
    place[row.ravel(), np.searchsorted(codes, cells.codes[picked, j]) if j is not None else 0] = picked
    dims = [cells.dims[k] for k in downs]
    return Pivot(
        cells=cells,
        row_names=down,
        column_name=across[0] if across else "",
        columns=[cells.dims[j].codes[c] for c in codes] if j is not None else [cells.response.name],
        labels=_labels(keys, dims),
        depths=[[int(dim.depths[0][code]) for dim, code in zip(dims, key, strict=True)] for key in keys],
        place=place,
    )


def _labels(keys: NDArray[np.int32], dims: list) -> list[list[str]]:  # type: ignore[type-arg]
    return [[dim.codes[code] for dim, code in zip(dims, key, strict=True)] for key in keys]
