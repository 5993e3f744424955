"""The JJ format: a protection problem as cells with bounds and levels, and the sums they keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.data.atomic import write_text
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.tables.formats.rda import read_lines
from discretion.tables.publish import numbers
from discretion.tables.sparse import Sparse

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

_SIGNS = ("s", "u", "x", "z", "m")


@dataclass(frozen=True, eq=False, repr=False)
class JJ:
    """A problem without labels: m cells in order, and r sums. Written by sdcTable and τ-ARGUS, among others."""

    value: Floats
    cost: Floats
    status: NDArray[np.str_]
    """s (may be suppressed), u or m (sensitive), x (suppressed for others), z (must be published)"""
    low: Floats
    """what an attacker knows each cell not to be below"""
    high: Floats
    """what an attacker knows each cell not to exceed"""
    lower_required: Floats
    upper_required: Floats
    sliding_required: Floats
    """width the interval of a sensitive cell must have"""
    relations: Sparse
    """(r × m) times `value` gives 0: +1 for a total, −1 for its parts"""

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"JJ({len(self)} cells, {self.relations.shape[0]} sums)"

    @classmethod
    def of(cls, cells: Cells) -> JJ:
        """Give a table as such a problem; an attacker knows that nothing exceeds the grand total, nor is negative."""
        if np.isnan(cells.value).any():
            raise DataError("some cells have no value; the format needs that of every cell")
        status = np.select([cells.primary, cells.secondary, cells.status.must_publish], ["u", "x", "z"], "s")
        size = np.abs(cells.value)
        most = float(size.max(initial=0.0))
        low = np.where(cells.value < 0, -most, 0.0) if (cells.value < 0).any() else np.zeros(len(cells))
        cost = cells.status.cost if cells.status.cost is not None else size
        none = np.zeros(len(cells))
        levels = cells.lower_required, cells.upper_required
        return cls(cells.value, cost, status, low, np.full(len(cells), most), *levels, none, cells.relations())

    def onto(self, cells: Cells) -> Cells:
        """Give the table this problem came from with the decisions of this one (for patterns found elsewhere)."""
        if len(self) != len(cells) or not np.allclose(self.value, cells.value, rtol=1e-6, atol=1e-6):
            raise PlanError("the problem does not belong to this table: its cells have other values")
        sensitive = np.isin(self.status, ("u", "m"))
        by_hand = cells.mark(sensitive & ~cells.primary, "unsafe") if (sensitive & ~cells.primary).any() else cells
        return by_hand.with_status(
            secondary=(self.status == "x") & ~sensitive,
            must_publish=self.status == "z",
            lower_required=np.where(sensitive, self.lower_required, 0.0),
            upper_required=np.where(sensitive, self.upper_required, 0.0),
        )


def write_jj(problem: JJ | Cells, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a problem: 0, the number of cells, a line for each (number, value, cost, status, bounds, three levels), the
    number of sums, a line for each (`0 parts : cell (coefficient) …`). Internal: it holds the true values."""
    found = problem if isinstance(problem, JJ) else JJ.of(problem)
    figures = [found.low, found.high, found.lower_required, found.upper_required, found.sliding_required]
    columns = [numbers(found.value), numbers(found.cost), found.status.tolist(), *map(numbers, figures)]
    lines = ["0", str(len(found))]
    lines += [f"{number} {' '.join(map(str, row))}" for number, row in enumerate(zip(*columns, strict=True))]
    sums = found.relations
    lines.append(str(sums.shape[0]))
    for row in range(sums.shape[0]):
        signs = sums.data[sums.indptr[row] : sums.indptr[row + 1]]
        terms = " ".join(f"{cell} ({sign})" for cell, sign in zip(sums.row(row).tolist(), signs.tolist(), strict=True))
        lines.append(f"0 {len(signs)} : {terms}")
    write_text(Path(path), "\n".join(lines) + "\n", overwrite=overwrite, private=True)


def read_jj(path: str | Path) -> JJ:
    """Read a problem; numbers of cells may start at 0 or 1 and stand in any order."""
    path = Path(path)
    lines = [line.strip() for line in read_lines(path) if line.strip()]
    try:
        m = int(lines[1])
        cells = [line.split() for line in lines[2 : 2 + m]]
        number = {int(words[0]): place for place, words in enumerate(cells)}
        figures = np.array([[float(words[k]) for k in (1, 2, 4, 5, 6, 7, 8)] for words in cells]).reshape(m, 7).T
        status = np.array([words[3].lower() for words in cells])
        r = int(lines[2 + m])
        sums = lines[3 + m : 3 + m + r]
        if len(number) != m or len(sums) != r or not set(status.tolist()) <= set(_SIGNS):
            raise ValueError
        relations = _relations(sums, number, m)
    except (ValueError, IndexError, KeyError):
        raise DataError(f"{path.name}: not a whole problem in JJ format") from None
    value, cost, low, high, lower, upper, sliding = figures
    return JJ(value, cost, status, low, high, lower, upper, sliding, relations)


def _relations(lines: list[str], number: dict[int, int], m: int) -> Sparse:
    rows, columns, signs = [], [], []
    for row, line in enumerate(lines):
        head, _, terms = line.partition(":")
        constant, count = head.split()
        pairs = re.findall(r"(-?\d+)\s*\(\s*([-+]?\d+)\s*\)", terms)
        if float(constant) != 0 or len(pairs) != int(count):
            raise ValueError
        for cell, sign in pairs:
            rows.append(row)
            columns.append(number[int(cell)])
            signs.append(int(sign))
    return Sparse.from_pairs(np.array(rows, np.int64), np.array(columns, np.int64), (len(lines), m), signs)
