"""A-priori files of τ-ARGUS (.hst): what is known about single cells before protection."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.atomic import write_text
from discretion.errors import DataError
from discretion.tables.formats.rda import read_lines
from discretion.tables.marking import mark
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

_SIGNS = ("u", "s", "z", "c", "pl")


def write_history(cells: Cells, path: str | Path, *, separator: str = ",", overwrite: bool = False) -> None:
    """Write what is decided about cells: codes, then u (sensitive), s (safe), z (must be published), `c,cost` or
    `pl,lower,upper` (required levels of a sensitive cell). One line for each decision; internal."""
    status = cells.status
    lines: list[list[Any]] = []
    hidden = status.primary | status.secondary
    for cell in np.flatnonzero(hidden | status.safe | status.must_publish | (status.cost is not None)).tolist():
        codes = list(cells.label(cell).values())
        for sign, holds in (("u", hidden[cell]), ("s", status.safe[cell]), ("z", status.must_publish[cell])):
            if holds:
                lines.append([*codes, sign])
        levels = numbers(np.array([status.lower_required[cell], status.upper_required[cell]]))
        if hidden[cell] and any(levels):
            lines.append([*codes, "pl", *levels])
        if status.cost is not None:
            lines.append([*codes, "c", *numbers(status.cost[[cell]])])
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(lines)
    write_text(Path(path), buffer.getvalue(), overwrite=overwrite, private=True)


def read_history(cells: Cells, path: str | Path, *, separator: str | None = None) -> Cells:
    """Give the table with the decisions of an a-priori file; cells it does not name stay as they are."""
    lines = [line for line in read_lines(Path(path)) if line.strip()]
    mark_sign = separator or (";" if lines and ";" in lines[0] else ",")
    d = len(cells.dims)
    cost = np.ones(len(cells)) if cells.status.cost is None else cells.status.cost.copy()
    lower, upper = cells.lower_required.copy(), cells.upper_required.copy()
    marked: dict[str, list[int]] = {"u": [], "s": [], "z": []}
    costs = False
    for number, row in enumerate(csv.reader(lines, delimiter=mark_sign), 1):
        words = [word.strip() for word in row]
        sign = words[d].lower() if len(words) > d else ""
        if sign not in _SIGNS or len(words) != d + {"c": 2, "pl": 3}.get(sign, 1):
            raise DataError(f"{Path(path).name}, line {number}: expected {d} codes and one of {', '.join(_SIGNS)}")
        cell = cells.index(dict(zip((dim.name for dim in cells.dims), words[:d], strict=True)))
        if sign in marked:
            marked[sign].append(cell)
            continue
        try:
            amounts = [float(word) for word in words[d + 1 :]]
        except ValueError:
            raise DataError(f"{Path(path).name}, line {number}: expected numbers after {sign!r}") from None
        if sign == "c":
            cost[cell], costs = amounts[0], True
        else:
            lower[cell], upper[cell] = amounts
    for sign, word in (("s", "safe"), ("u", "unsafe"), ("z", "must-publish")):
        if marked[sign]:
            cells = mark(cells, marked[sign], word)  # type: ignore[arg-type]
    changes = {"cost": cost} if costs else {}
    sensitive = cells.primary
    return cells.with_status(
        lower_required=np.where(sensitive, lower, 0.0), upper_required=np.where(sensitive, upper, 0.0), **changes
    )
