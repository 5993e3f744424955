"""A-priori files of τ-ARGUS (.hst): what is known about single cells before protection."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.atomic import write_text
from discretion.errors import DataError, DiscretionError
from discretion.tables.formats.rda import check_writable, filled_lines
from discretion.tables.marking import mark
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

_SIGNS = {
    "u": 0, "s": 0, "p": 0, "z": 0, "m": 0, "ml": 0, "c": 1, "w": 1, "pl": 2,
}  # fmt: skip
"""What may stand behind the codes, and how many numbers follow it; z is sdcTable's word for p, w for c."""


def write_history(cells: Cells, path: str | Path, *, separator: str = ",", overwrite: bool = False) -> None:
    """Write what is decided about cells: codes, then u (sensitive), m (suppressed for others), s (safe), p (must be
    published), `c,cost` or `pl,lower,upper` (required levels of a sensitive cell). One line for each; internal."""
    for dim in cells.dims:
        check_writable(dim)
    status = cells.status
    lines: list[list[Any]] = []
    marks = {"u": status.primary, "m": status.secondary & ~status.primary, "s": status.safe, "p": status.must_publish}
    told = np.logical_or.reduce(list(marks.values()))
    for cell in np.flatnonzero(told | (status.cost is not None)).tolist():
        codes = list(cells.label(cell).values())
        lines += [[*codes, sign] for sign, holds in marks.items() if holds[cell]]
        levels = numbers(np.array([status.lower_required[cell], status.upper_required[cell]]))
        if status.primary[cell] and any(levels):
            lines.append([*codes, "pl", *levels])
        if status.cost is not None:
            lines.append([*codes, "c", *numbers(status.cost[[cell]])])
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(lines)
    write_text(Path(path), buffer.getvalue(), overwrite=overwrite, private=True)


def read_history(cells: Cells, path: str | Path, *, separator: str | None = None) -> Cells:
    """Give the table with the decisions of an a-priori file; cells it does not name stay as they are.

    The separator is found from the first line: a comma, a semicolon or a tab.
    """
    path = Path(path)
    lines, texts = filled_lines(path)
    sign = separator or _separator(texts[0] if texts else "", len(cells.dims))
    cost = np.ones(len(cells)) if cells.status.cost is None else cells.status.cost.copy()
    lower, upper = cells.lower_required.copy(), cells.upper_required.copy()
    marked: dict[str, list[int]] = {"s": [], "u": [], "p": [], "m": []}
    costs = False
    for line, text in zip(lines, texts, strict=True):
        cell, word, amounts = _read_line(cells, text, sign, f"{path.name}, line {line}")
        if word in marked:
            marked[word].append(cell)
        elif word == "c":
            cost[cell], costs = amounts[0], True
        else:
            lower[cell], upper[cell] = amounts
    for word, decision in (("s", "safe"), ("u", "unsafe"), ("p", "must-publish")):
        if marked[word]:
            cells = mark(cells, marked[word], decision)  # type: ignore[arg-type]
    changes: dict[str, Any] = {"cost": cost} if costs else {}
    if marked["m"]:
        others = np.zeros(len(cells), np.bool_)
        others[marked["m"]] = True
        changes["secondary"] = cells.secondary | (others & ~cells.primary)
    sensitive = cells.primary
    return cells.with_status(
        lower_required=np.where(sensitive, lower, 0.0), upper_required=np.where(sensitive, upper, 0.0), **changes
    )


def _separator(first: str, d: int) -> str:
    for sign in (",", ";", "\t"):
        words = next(csv.reader([first], delimiter=sign), [])
        if len(words) > d and words[d].strip().lower() in _SIGNS:
            return sign
    return ";" if ";" in first else ","


def _read_line(cells: Cells, text: str, separator: str, where: str) -> tuple[int, str, list[float]]:
    """Give the cell a line is about, the decision, and its numbers."""
    d = len(cells.dims)
    words = [word.strip() for word in next(csv.reader([text], delimiter=separator))]
    sign = words[d].lower() if len(words) > d else ""
    if sign not in _SIGNS or len(words) != d + 1 + _SIGNS[sign]:
        raise DataError(f"{where}: expected {d} codes and one of {', '.join(_SIGNS)} with its numbers")
    try:
        cell = cells.index(dict(zip((dim.name for dim in cells.dims), words[:d], strict=True)))
    except DiscretionError as error:
        raise DataError(f"{where}: {error}") from None
    try:
        amounts = [float(word if separator == "," else word.replace(",", ".")) for word in words[d + 1 :]]
    except ValueError:
        amounts = [float("nan")]
    if not all(np.isfinite(amount) and amount >= 0 for amount in amounts):
        raise DataError(f"{where}: expected numbers of at least 0 after {sign!r}")
    return cell, {"z": "p", "ml": "m", "w": "c"}.get(sign, sign), amounts
