"""A table as a file for its readers: CSV long or pivoted, Excel, JSON, with a status for every cell."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discretion.data.text import Dialect
from discretion.data.write import replacing, write_text
from discretion.errors import PlanError, RequirementNotMet, need, unknown
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    from discretion.kernels.arrays import Ints
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


# A table as an Excel workbook.


_NEVER = dt.datetime(2000, 1, 1)
_ROWS, _COLUMNS = 1_048_576, 16_384


def write_excel(cells: Cells, picked: Ints, pivot: Pivot | None, path: Path, internal: bool) -> None:
    """Write one sheet with the table and one that explains its signs; the internal version colors cells by decision."""
    xlsxwriter: Any = need("xlsxwriter", "writing Excel", "io")
    book = xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"created": _NEVER, "title": f"Table of {cells.response.name}"})
    styles = {
        "head": book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"}),
        "number": book.add_format({"num_format": "#,##0.##########"}),
        "whole": book.add_format({"num_format": "#,##0"}),
        "hidden": book.add_format({"align": "right", "font_color": "#52606d"}),
        "primary": book.add_format({"align": "right", "bg_color": "#fcebea"}),
        "secondary": book.add_format({"align": "right", "bg_color": "#fdf3e3"}),
    }
    sheet = book.add_worksheet("table")
    if pivot is None:
        _long(sheet, cells, picked, styles, internal)
    else:
        _pivot(sheet, pivot, styles, internal)
    _notes(book.add_worksheet("notes"), internal)
    book.close()


def _long(sheet: Any, cells: Cells, picked: Ints, styles: dict[str, Any], internal: bool) -> None:

    header, lines = long_rows(cells, picked, internal)
    _check_size(len(lines) + 1, len(header))
    sheet.write_row(0, 0, header, styles["head"])
    for number, line in enumerate(lines, 1):
        for column, item in enumerate(line):
            _write(sheet, number, column, item, styles)
    sheet.freeze_panes(1, len(cells.dims))
    sheet.autofilter(0, 0, len(lines), len(header) - 1)
    sheet.set_column(0, len(header) - 1, 14)


def _pivot(sheet: Any, pivot: Pivot, styles: dict[str, Any], internal: bool) -> None:
    status = pivot.cells.status
    _check_size(len(pivot.labels) + 1, len(pivot.header))
    sheet.write_row(0, 0, pivot.header, styles["head"])
    for row, labels in enumerate(pivot.labels):
        for column, label in enumerate(labels):
            sheet.write_string(row + 1, column, label)
        for column, item in enumerate(pivot.texts(row)):
            number = int(pivot.place[row, column])
            style = "hidden"
            if internal and number >= 0:
                style = "primary" if status.primary[number] else "secondary" if status.secondary[number] else "hidden"
            _write(sheet, row + 1, len(labels) + column, item, styles, style)
    sheet.freeze_panes(1, len(pivot.row_names))
    sheet.set_column(0, len(pivot.header) - 1, 14)


def _write(sheet: Any, row: int, column: int, item: Any, styles: dict[str, Any], style: str = "hidden") -> None:
    if item is None:
        return
    if isinstance(item, str):
        sheet.write_string(row, column, item, styles[style] if item == "c" else None)
    elif isinstance(item, bool):
        sheet.write_boolean(row, column, item)
    else:
        sheet.write_number(row, column, item, styles["whole" if isinstance(item, int) else "number"])


def _check_size(rows: int, columns: int) -> None:
    if rows > _ROWS or columns > _COLUMNS:
        raise PlanError(f"Excel holds {_ROWS:,} rows and {_COLUMNS:,} columns; write the table as CSV")


def _notes(sheet: Any, internal: bool) -> None:
    lines = ["c: the value is confidential and not shown", "empty: there is no such cell"]
    if internal:
        lines = ["INTERNAL – NOT FOR PUBLICATION", *lines, "red: sensitive; yellow: suppressed to protect others"]
    for row, line in enumerate(lines):
        sheet.write_string(row, 0, line)
    sheet.set_column(0, 0, 60)


SUPPRESSED = "c"
"""What stands in place of a suppressed value (confidential), and in the status column beside it."""

Layout = Literal["long", "pivot", "sdmx"]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_FORMATS = {".csv": "csv", ".xlsx": "excel", ".json": "json"}


def publish(
    cells: Cells,
    path: str | Path,
    *,
    audit: Any = None,
    override: str | None = None,
    layout: Layout = "long",
    rows: str | list[str] | None = None,
    table: int | None = None,
    internal: bool = False,
    overwrite: bool = False,
) -> None:
    """Write a table to a file whose name says the format: .csv, .xlsx or .json; only if its audit holds.

    `long` has one line per cell: codes, value, status (empty, or `c` where the value is suppressed). `pivot` has one
    line per combination of the variables `rows` (default: all but the last) and one column per code of the last;
    suppressed cells show `c`, cells that do not exist are empty. `sdmx` has one observation per line as SDMX-CSV 2.0
    does, with OBS_STATUS (A: a value; Q: suppressed) and CONF_STATUS (F: free; C: confidential) of the SDMX code lists;
    totals have the code `_T`. Where values were rounded, adjusted or perturbed,
    cells of 0 are treated like those that do not exist (left out, or 0 when pivoted), so that nobody can tell them
    apart. Of linked tables `table` chooses one by its number; a long file without it holds all their cells. The file
    appears whole or not at all. In CSV files codes that a spreadsheet would take for formulas (`=…`, `+…`, `-…`, `@…`)
    get an apostrophe in front.

    What is written is what may be known: no reasons, no required levels, no parameters, primary and secondary cells
    alike. `internal` adds true values, respondents, reasons and levels, for the office.

    A table with sensitive cells goes out only if an audit holds: the one given, or one against outsiders and, where
    they are known, respondents, which is then run. Rounded, adjusted and perturbed tables have audits of their own
    (`audit_rounded`, `audit_adjusted`, `audit_perturbed` of `discretion.tables.audit`), to be given. Otherwise
    `override` says why it is published all the same; the reason and what the audit found are kept in a private file
    beside it (`NAME.override.json`).

    Examples
    --------
    >>> import polars as pl, discretion as dc, tempfile, pathlib
    >>> given = pl.DataFrame({"town": ["A", "A", "B"], "ill": ["y", "n", "n"], "people": [2, 7, 9]})
    >>> cells = dc.tables.from_cells(given, ["town", "ill"], count="people").mark({"town": "A", "ill": "y"}, "unsafe")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> cells.publish(file, layout="pivot")
    Traceback (most recent call last):
    discretion.errors.RequirementNotMet: nothing was published. Against an outsider: 1 sensitive cell: 1 disclosed...
    >>> cells.suppress().cells.publish(file, layout="pivot")
    >>> print(file.read_text().strip())
    town,Total,n,y
    Total,18,c,c
    A,9,c,c
    B,9,9,
    """
    path = Path(path)
    _format_of(path, layout, internal)
    finding = "" if internal else _unprotected(cells, audit)
    if finding and not (override or "").strip():
        raise RequirementNotMet(
            f"nothing was published. {finding}; `override` takes the reason to publish all the same"
        )
    write_table(cells, path, layout=layout, rows=rows, table=table, internal=internal, overwrite=overwrite)
    if finding:
        kept = {"reason": (override or "").strip(), "audit": finding, "time": datetime.now(UTC).isoformat()}
        text = json.dumps(kept, indent=2, ensure_ascii=False) + "\n"
        write_text(path.with_name(path.name + ".override.json"), text, overwrite=True, private=True)


def _unprotected(cells: Cells, audit: Any) -> str:
    """Say why a table is not known to be protected; empty where it is, or has no sensitive cell."""
    from discretion.tables.audit import Audit, ReleasedAudit
    from discretion.tables.previous import at_stake

    if not at_stake(cells):
        return ""
    if audit is None and cells.status.released is not None:
        return "Its values were changed and no audit was given (`audit=`)"
    if audit is not None and not isinstance(audit, Audit | ReleasedAudit):
        raise PlanError(
            f"audit: expected what an audit gives (`cells.audit()`, `audit_rounded(…)` …), got {type(audit).__name__}"
        )
    found = cells.audit() if audit is None else audit
    if not _same(found.cells, cells):
        return "The audit given is of another table"
    return "" if found.holds else found.summary.removesuffix(" The table must not go out like this.").rstrip(".")


def _same(one: Cells, other: Cells) -> bool:
    """Tell whether two tables are one: figures, what goes out of them, and what must be protected."""

    def told(cells: Cells) -> tuple[NDArray[Any] | None, ...]:
        levels = cells.lower_required, cells.upper_required
        return cells.codes, cells.value, cells.status.released, cells.suppressed, cells.primary, *levels

    alike = all(
        a is b if a is None or b is None else np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(told(one), told(other), strict=True)
    )
    return alike and one.differences is other.differences and one.beside is other.beside


def write_table(
    cells: Cells,
    path: Path,
    *,
    layout: Layout = "long",
    rows: str | list[str] | None = None,
    table: int | None = None,
    internal: bool = False,
    overwrite: bool = False,
    dialect: Dialect | None = None,
) -> None:
    """Write a table as `publish` does, for callers who have judged it.

    `dialect`: the delimiter and the decimal sign of text files (SDMX has its own), instead of comma and point.
    """
    dialect = dialect or Dialect()
    kind = _format_of(path, layout, internal)

    picked = np.arange(len(cells)) if internal else chosen_cells(cells, table or 0 if layout == "pivot" else table)
    if layout == "pivot" and len(cells.tables) > 1 and table is None:
        raise PlanError(f"table: the cells belong to {len(cells.tables)} linked tables; choose one to pivot")
    if kind == "json":
        write_text(path, to_json(cells, picked, internal=internal), overwrite=overwrite, private=internal)
    elif kind == "csv":
        if layout == "pivot":
            text = _csv_pivot(pivoted(cells, rows, table or 0), dialect)
        elif layout == "long":
            text = _csv_long(cells, picked, internal, dialect)
        else:
            text = _csv_sdmx(cells, picked, internal)
        write_text(path, text, overwrite=overwrite, private=internal)
    else:
        with replacing(path, overwrite=overwrite, private=internal) as temporary:
            write_excel(
                cells, picked, pivoted(cells, rows, table or 0) if layout == "pivot" else None, temporary, internal
            )


def _format_of(path: Path, layout: str, internal: bool) -> str:
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise PlanError(f"{path.name!r}: {unknown('table format', path.suffix, _FORMATS)}")
    if layout not in get_args(Layout):
        raise PlanError("layout: expected 'long', 'pivot' or 'sdmx'")
    if layout == "sdmx" and kind != "csv":
        raise PlanError("layout: SDMX-CSV is written to .csv files only")
    if internal and layout == "pivot" and kind != "excel":
        raise PlanError("internal: a pivoted table has no room for reasons; use layout='long', or Excel")
    return kind


def long_rows(cells: Cells, picked: Any, internal: bool) -> tuple[list[str], list[list[Any]]]:
    """Give header and lines of the long layout."""
    frame = cells.frame(internal=internal)[picked.tolist()]
    names = [dim.name for dim in cells.dims]
    name = cells.response.name
    header = [*names, name, "status", *[c for c in frame.columns if c not in (*names, name, "suppressed", "status")]]
    flags = [SUPPRESSED if hidden else "" for hidden in frame["suppressed"].to_list()]
    columns = [frame[c].to_list() for c in names]
    columns += [(numbers if internal else shown_numbers)(frame[name].to_numpy()), flags]
    columns += [frame[c].to_list() for c in header[len(names) + 2 :]]
    if internal:
        header.append("decision")
        columns.append(frame["status"].to_list())
    return header, [list(row) for row in zip(*columns, strict=True)]


def numbers(values: Floats) -> list[int | float | None]:
    """Write whole numbers without a decimal point, and missing ones as nothing."""
    found = np.asarray(values, np.float64)
    return [None if np.isnan(v) else int(v) if v == np.round(v) and abs(v) < 2**53 else float(v) for v in found]


def shown_numbers(values: Floats) -> list[int | float | None]:
    """Write numbers for readers: with 15 digits, because further ones are rounding errors of sums."""
    return numbers(np.array([float(f"{value:.15g}") for value in np.asarray(values, np.float64)]))


def _csv_long(cells: Cells, picked: Any, internal: bool, dialect: Dialect) -> str:
    header, lines = long_rows(cells, picked, internal)
    return _csv([header, *lines], dialect)


def _csv_sdmx(cells: Cells, picked: Any, internal: bool) -> str:
    """Give observations as SDMX-CSV 2.0; internally with true values, and how a cell came to be confidential."""

    def named(text: str) -> str:
        return re.sub(r"[^A-Za-z0-9_@$-]", "_", text)

    for dim in cells.dims:
        if "_T" in dim.codes[1:]:
            raise PlanError(f"layout: {dim.name!r} has a code '_T', which is that of totals in SDMX; recode it")
    shown = cells.value if internal or cells.status.released is None else cells.status.released
    hidden, primary = cells.suppressed[picked], cells.primary[picked]
    values = numbers(shown[picked]) if internal else shown_numbers(np.where(hidden, np.nan, shown[picked]))
    secret = np.select([hidden & ~primary, hidden], ["D", "C"] if internal else ["C", "C"], "F").tolist()
    columns = [
        ["_T" if code == 0 else dim.codes[code] for code in cells.codes[picked, j].tolist()]
        for j, dim in enumerate(cells.dims)
    ]
    flow = f"LOCAL:{named(cells.response.name).upper()}(1.0)"
    status = np.where(hidden & (not internal), "Q", "A").tolist()
    lines = zip(*columns, values, status, secret, strict=True)
    dims = [named(dim.name).upper() for dim in cells.dims]
    header = ["STRUCTURE", "STRUCTURE_ID", "ACTION", *dims, "OBS_VALUE", "OBS_STATUS", "CONF_STATUS"]
    return _csv([header, *(["dataflow", flow, "I", *line] for line in lines)], Dialect())


def _csv_pivot(found: Pivot, dialect: Dialect) -> str:
    return _csv([found.header, *([*labels, *found.texts(line)] for line, labels in enumerate(found.labels))], dialect)


def _csv(lines: list[list[Any]], dialect: Dialect) -> str:
    comma = dialect.decimal == "," and dialect.delimiter != ","
    buffer = io.StringIO()
    written = [[_number(_no_formula(item)) if comma else _no_formula(item) for item in line] for line in lines]
    csv.writer(buffer, delimiter=dialect.delimiter, lineterminator="\n").writerows(written)
    return buffer.getvalue()


def _number(item: Any) -> Any:
    """Write a number with a decimal comma."""
    return str(item).replace(".", ",") if isinstance(item, float) else item


def _no_formula(item: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would take for a formula; numbers stay."""
    if not isinstance(item, str) or not item.startswith(_FORMULA) or _NUMBER.fullmatch(item):
        return item
    return f"'{item}"


def to_json(cells: Cells, picked: Any, *, internal: bool = False) -> str:
    """Give a table as versioned JSON: variables with their trees, and one entry per cell."""
    header, lines = long_rows(cells, picked, internal)
    d = len(cells.dims)
    content = {
        "format": "discretion-table",
        "version": 1,
        **({"internal": True} if internal else {}),
        "response": cells.response.name,
        "variables": [
            {
                "name": dim.name,
                "codes": [dim.codes[c] for c in used],
                "parents": [[dim.codes[tree[c]] if tree[c] >= 0 else None for c in used] for tree in dim.parents],
            }
            for dim, used in zip(cells.dims, map(np.unique, cells.codes[picked].T), strict=True)
        ],
        "tables": [list(table) for table in cells.tables],
        "cells": [
            {
                "codes": line[:d],
                "value": line[d],
                "status": line[d + 1] or None,
                **dict(zip(header[d + 2 :], line[d + 2 :], strict=True)),
            }
            for line in lines
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
