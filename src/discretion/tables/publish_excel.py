"""A table as an Excel workbook."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError, need

if TYPE_CHECKING:
    from discretion.kernels.arrays import Ints
    from discretion.tables.cells import Cells
    from discretion.tables.pivot import Pivot

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
    from discretion.tables.publish import long_rows

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
