"""The JJ format: a protection problem as cells with bounds and levels, and the sums they keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.data.write import write_text
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.tables.cells import Sparse
from discretion.tables.formats.argus import filled_lines
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

_SIGNS = ("s", "u", "x", "z", "m")

_LARGEST = 2**31 - 1
"""Costs are whole numbers up to here: the programs that read this format read them so."""


@dataclass(frozen=True, eq=False, repr=False)
class JJ:
    """A problem without labels: m cells in order, and r sums. Written by sdcTable and τ-ARGUS, among others."""

    value: Floats
    cost: Floats
    status: NDArray[np.str_]
    """s (may be suppressed), u (sensitive), m or x (suppressed for others: τ-ARGUS, sdcTable), z (must be published)"""
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
        """Give a table as such a problem; an attacker knows that nothing exceeds the grand total, nor is negative.

        Bounds make room for the levels required, as in τ-ARGUS: they would contradict each other otherwise.
        """
        if np.isnan(cells.value).any():
            raise DataError("some cells have no value; the format needs that of every cell")
        status = np.select([cells.primary, cells.secondary, cells.status.must_publish], ["u", "m", "z"], "s")
        size = np.abs(cells.value)
        most = float(size.max(initial=0.0))
        low = np.where(cells.value < 0, -most, 0.0) if (cells.value < 0).any() else np.zeros(len(cells))
        cost = cells.status.cost if cells.status.cost is not None else size
        none = np.zeros(len(cells))
        lower, upper = cells.lower_required, cells.upper_required
        low, high = np.minimum(low, cells.value - lower), np.maximum(most, cells.value + upper)
        return cls(cells.value, cost, status, low, high, lower, upper, none, cells.relations())

    def onto(self, cells: Cells) -> Cells:
        """Give the table this problem came from with the decisions of this one (for patterns found elsewhere)."""
        if len(self) != len(cells) or not np.allclose(self.value, cells.value, rtol=1e-6, atol=1e-6):
            raise PlanError("the problem does not belong to this table: its cells have other values")
        sensitive = self.status == "u"
        by_hand = cells.mark(sensitive & ~cells.primary, "unsafe") if (sensitive & ~cells.primary).any() else cells
        return by_hand.with_status(
            secondary=np.isin(self.status, ("m", "x")),
            must_publish=self.status == "z",
            lower_required=np.where(sensitive, self.lower_required, 0.0),
            upper_required=np.where(sensitive, self.upper_required, 0.0),
        )


def write_jj(problem: JJ | Cells, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a problem: 0, the number of cells, a line for each (number, value, cost, status, bounds, three levels), the
    number of sums, a line for each (`0 parts : cell (coefficient) …`). Internal: it holds the true values.

    Costs become whole numbers of at least 1, as τ-ARGUS writes and its solvers read them; where some are not whole, or
    too large, all are stretched or shrunk alike.
    """
    found = problem if isinstance(problem, JJ) else JJ.of(problem)
    figures = [found.low, found.high, found.lower_required, found.upper_required, found.sliding_required]
    whole = (found.cost == np.round(found.cost)).all() and found.cost.max(initial=0.0) <= _LARGEST
    scale = 1.0 if whole else 10**9 / found.cost.max()
    cost = np.maximum(np.round(found.cost * scale), 1.0)
    columns = [numbers(found.value), numbers(cost), found.status.tolist(), *map(numbers, figures)]
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
    numbered = list(zip(*filled_lines(path), strict=True))
    lines = iter(numbered)
    _counted(lines, path.name, "0")
    m = _counted(lines, path.name, "the number of cells")
    figures, status = np.zeros((m, 7)), np.full(m, "s")
    number: dict[int, int] = {}
    for place in range(m):
        line, words = _next(lines, path.name, "a cell")
        try:
            name, found = int(words[0]), [float(words[k]) for k in (1, 2, 4, 5, 6, 7, 8)]
        except (ValueError, IndexError):
            raise DataError(
                f"{path.name}, line {line}: expected number, value, cost, status and five figures"
            ) from None
        if name in number or words[3].lower() not in _SIGNS or len(words) != 9:
            raise DataError(
                f"{path.name}, line {line}: expected a new number and one of {', '.join(_SIGNS)}, in nine columns"
            )
        number[name] = place
        figures[place], status[place] = found, words[3].lower()
    r = _counted(lines, path.name, "the number of sums")
    relations = _relations(lines, number, (r, m), path.name)
    value, cost, low, high, lower, upper, sliding = figures.T
    return JJ(value, cost, status, low, high, lower, upper, sliding, relations)


def _next(lines: Iterator[tuple[int, str]], file: str, what: str) -> tuple[int, list[str]]:
    line, text = next(lines, (0, ""))
    if not line:
        raise DataError(f"{file}: the file ends where {what} should stand")
    return line, text.split()


def _counted(lines: Iterator[tuple[int, str]], file: str, what: str) -> int:
    line, words = _next(lines, file, what)
    if len(words) != 1 or not words[0].isdigit():
        raise DataError(f"{file}, line {line}: expected {what}")
    return int(words[0])


def _relations(lines: Iterator[tuple[int, str]], number: dict[int, int], shape: tuple[int, int], file: str) -> Sparse:
    rows, columns, signs = [], [], []
    for row in range(shape[0]):
        line, words = _next(lines, file, "a sum")
        head, _, terms = " ".join(words).partition(":")
        pairs = re.findall(r"(-?\d+)\s*\(\s*([-+]?\d+)\s*\)", terms)
        whole = re.fullmatch(r"(?:\s*-?\d+\s*\(\s*[-+]?\d+\s*\))*\s*", terms)
        start = re.fullmatch(r"[-+]?0(?:\.0*)?\s+(\d+)\s*", head)
        if not start or not whole or len(pairs) != int(start[1]):
            raise DataError(f"{file}, line {line}: expected `0 parts : cell (sign) …` with as many cells as parts")
        for cell, sign in pairs:
            if int(cell) not in number:
                raise DataError(f"{file}, line {line}: there is no cell {cell}")
            rows.append(row)
            columns.append(number[int(cell)])
            signs.append(int(sign))
    return Sparse.from_pairs(np.array(rows, np.int64), np.array(columns, np.int64), shape, signs)
