"""Microdata for and from τ-ARGUS: fixed-width .asc files with their .rda and .hrc files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.atomic import write_text
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.tables.dimensions import Dimension
from discretion.tables.formats.rda import (
    Metadata,
    RdaColumn,
    check_writable,
    dimension_of,
    filled_lines,
    hierarchy_settings,
    parsed_numbers,
    read_rda,
    to_text,
)
from discretion.tables.marking import mark
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


# A-priori files of τ-ARGUS (.hst): what is known about single cells before protection.


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


@dataclass(frozen=True, eq=False)
class ArgusMicrodata:
    """Records read from τ-ARGUS files, and what their columns are."""

    data: Dataset
    by: tuple[str, ...]
    """classifying columns"""
    values: tuple[str, ...]
    """numeric columns"""
    hierarchies: Mapping[str, Dimension]
    weight: str | None = None
    contributor: str | None = None
    """the holding indicator: which records belong to one respondent"""
    requests: str | None = None
    """the request indicator, as true and false: whose respondents asked for protection"""

    def tabulate(self, by: Sequence[str], value: str | None = None, **options: Any) -> Cells:
        """Make a table with the hierarchies, weights and holdings of the files; see `dc.tabulate`."""
        from discretion.tables.tabulate import tabulate

        trees = {name: tree for name, tree in self.hierarchies.items() if name in by}
        known = {
            "hierarchies": trees,
            "weight": self.weight or False,
            "contributor": self.contributor,
            "requests": self.requests,
        }
        return tabulate(self.data, by, value, **{**known, **options})


def write_argus_microdata(
    data: Any,
    path: str | Path,
    by: Sequence[str],
    values: Sequence[str] = (),
    *,
    hierarchies: Mapping[str, Any] | None = None,
    weight: str | None = None,
    contributor: str | None = None,
    missing: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Write records for τ-ARGUS: `path` (.asc) in columns of fixed width, .rda with their meaning, .hrc hierarchies.

    Missing codes are written as `missing` (default: as many blanks as the column is wide). Gives the files written.
    They are internal: they hold the records.
    """
    data = Dataset.of(data, "microdata for τ-ARGUS")
    stem = Path(path).with_suffix("")
    names = [*by, *values, *([weight] if weight else []), *([contributor] if contributor else [])]
    data.require(names)
    columns, texts, start = [], [], 1
    files: dict[Path, str] = {}
    for name in names:
        number = name in values or name == weight
        written = _numbers(data, name) if number else _codes(data, name, missing)
        width = max(map(len, written), default=1) or 1
        kind = (
            "WEIGHT" if name == weight else "HOLDING" if name == contributor else "NUMERIC" if number else "RECODEABLE"
        )
        settings: dict[str, tuple[str, ...]] = {}
        if kind == "RECODEABLE":
            spec = (hierarchies or {}).get(name)
            dim = Dimension.of(name, spec) if spec is not None else Dimension.flat(name, ["-"])
            settings, extra = hierarchy_settings(dim, stem)
            files |= extra
        elif number:
            settings = {"DECIMALS": (str(max((len(t.partition(".")[2]) for t in written), default=0)),)}
        columns.append(
            RdaColumn(name, kind, start, width, (missing,) if missing and kind == "RECODEABLE" else (), settings)
        )
        texts.append([text.rjust(width) if number else text.ljust(width) for text in written])
        start += width
    files[stem.with_suffix(".rda")] = to_text(Metadata(tuple(columns)))
    files[stem.with_suffix(".asc")] = "".join("".join(row) + "\n" for row in zip(*texts, strict=True))
    for file, text in files.items():
        write_text(file, text, overwrite=overwrite, private=True)
    return list(files)


def _codes(data: Dataset, name: str, missing: str) -> list[str]:
    values = [None if value is None else canonical(value) for value in data.frame[name].to_list()]
    for text in {value for value in values if value is not None}:
        if re.search(r"[\r\n]", text) or text != text.strip() or text in ("", missing):
            raise DataError(
                f"column {name!r}: codes that are empty or the missing code, or have line breaks or blanks at their "
                "ends, cannot be written in fixed width"
            )
    return [missing if value is None else value for value in values]


def _numbers(data: Dataset, name: str) -> list[str]:
    found = data.numbers([name])[:, 0]
    return [
        "" if np.isnan(v) else str(int(v)) if v == np.round(v) and abs(v) < 2**53 else repr(float(v)) for v in found
    ]


def read_argus_microdata(path: str | Path) -> ArgusMicrodata:
    """Read records written for τ-ARGUS: the .rda file with the .asc file of the same name (or the other way round)."""
    import polars as pl

    rda = Path(path).with_suffix(".rda")
    metadata = read_rda(rda)
    file = Path(path) if Path(path).suffix.lower() not in ("", ".rda") else rda.with_suffix(".asc")
    lines, filled = filled_lines(file)
    texts = _split(metadata, lines, filled, file.name)
    columns: dict[str, Any] = {}
    for column in metadata.columns:
        if column.kind in ("NUMERIC", "WEIGHT", "SHADOW", "COST"):
            columns[column.name] = parsed_numbers(texts[column.name], lines, column, file.name)
        elif column.kind == "REQUEST":
            asked = set(column.settings.get("REQUEST", ()))
            columns[column.name] = [text in asked for text in texts[column.name]]
        else:
            gone = {"", *column.missing}
            columns[column.name] = [None if text in gone else text for text in texts[column.name]]
    by = metadata.of_kind("RECODEABLE")
    hierarchies = {
        column.name: dimension_of(column, [t for t in columns[column.name] if t is not None], rda.parent)
        for column in by
        if "HIERCODELIST" in column.settings or "HIERLEVELS" in column.settings
    }
    weights, holdings, requests = (metadata.of_kind(kind) for kind in ("WEIGHT", "HOLDING", "REQUEST"))
    return ArgusMicrodata(
        Dataset(pl.DataFrame(columns, strict=False)),
        tuple(column.name for column in by),
        tuple(column.name for column in metadata.of_kind("NUMERIC")),
        hierarchies,
        weights[0].name if weights else None,
        holdings[0].name if holdings else None,
        requests[0].name if requests else None,
    )


def _split(metadata: Metadata, lines: list[int], texts: list[str], name: str) -> dict[str, list[str]]:
    if metadata.separator is not None:
        rows = [text.split(metadata.separator) for text in texts]
        for line, row in zip(lines, rows, strict=True):
            if len(row) != len(metadata.columns):
                raise DataError(f"{name}, line {line}: {len(row)} columns, not {len(metadata.columns)}")
        return {c.name: [row[k].strip() for row in rows] for k, c in enumerate(metadata.columns)}
    found = {}
    for column in metadata.columns:
        if column.start is None or column.width is None:
            raise PlanError(f"column {column.name!r}: the .rda file says neither its place nor a separator")
        start = column.start - 1
        found[column.name] = [text[start : start + column.width].strip() for text in texts]
    return found
