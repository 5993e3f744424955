"""Parquet, Arrow, Excel and JSON, in and out."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.infer import parse_dates
from discretion.data.text import check_unique, choose_columns
from discretion.errors import DataError, PlanError, need, unknown

if TYPE_CHECKING:
    import polars as pl

_EXCEL_ROWS = 1_048_575
_EXCEL_TEXT = 32_767
_EXACT = 2**53
_NEVER = dt.datetime(2000, 1, 1)
"""A fixed date, so that the same data gives the same bytes."""


def read_parquet(path: Path, columns: Sequence[str] | None) -> pl.DataFrame:
    """Read a Parquet file."""
    import polars as pl

    try:
        scan = pl.scan_parquet(path, glob=False)
        return scan.select(_chosen(path, scan, columns)).collect()
    except (pl.exceptions.PolarsError, OSError):
        raise DataError(f"{str(path)!r} is not a whole Parquet file; copy or download it again") from None


def read_arrow(path: Path, columns: Sequence[str] | None) -> pl.DataFrame:
    """Read an Arrow (Feather, IPC) file, or a stream saved in a file."""
    import polars as pl

    with path.open("rb") as handle:
        is_file = handle.read(6) == b"ARROW1"
    try:
        if not is_file:
            frame = pl.read_ipc_stream(path)
            return frame.select(choose_columns(repr(str(path)), frame.columns, columns))
        scan = pl.scan_ipc(path, glob=False)
        return scan.select(_chosen(path, scan, columns)).collect()
    except (pl.exceptions.PolarsError, OSError):
        raise DataError(f"{str(path)!r} is not a whole Arrow file; copy or download it again") from None


def _chosen(path: Path, scan: pl.LazyFrame, columns: Sequence[str] | None) -> list[str]:
    return choose_columns(repr(str(path)), scan.collect_schema().names(), columns)


def read_excel(path: Path, sheet: str | int | None, header: bool | None) -> pl.DataFrame:
    """Read a sheet of a workbook: by name, by number (from 1), or the first."""
    import polars as pl

    fastexcel = need("fastexcel", "reading Excel", "io")
    try:
        book = fastexcel.read_excel(path)
        names = book.sheet_names
    except Exception:
        raise DataError(f"{str(path)!r} is not a workbook that can be read; is it encrypted or broken?") from None
    wanted = _sheet(path, names, sheet)
    has_header = header is not False
    try:
        if has_header:
            first = book.load_sheet(wanted, header_row=None, n_rows=1, dtypes="string").to_polars()
            check_unique(f"{str(path)!r}, sheet {wanted!r},", [cell for cell in first.row(0) if cell is not None])
        return pl.read_excel(path, sheet_name=wanted, has_header=has_header, infer_schema_length=None)
    except DataError:
        raise
    except (pl.exceptions.NoDataError, pl.exceptions.OutOfBoundsError):
        raise DataError(f"{str(path)!r}: the sheet {wanted!r} is empty") from None
    except Exception:
        raise DataError(f"{str(path)!r}: the sheet {wanted!r} cannot be read as a table") from None


def _sheet(path: Path, names: Sequence[str], sheet: str | int | None) -> str:
    if isinstance(sheet, int):
        if not 1 <= sheet <= len(names):
            raise PlanError(f"sheet {sheet} does not exist in {str(path)!r}, which has {len(names)} sheets")
        return names[sheet - 1]
    if sheet is not None and sheet not in names:
        raise PlanError(f"{str(path)!r}: {unknown('sheet', sheet, names)}")
    return names[0] if sheet is None else sheet


def read_json(path: Path, *, lines: bool) -> pl.DataFrame:
    """Read JSON lines, or an array of objects; text that is ISO dates throughout becomes dates."""
    import polars as pl

    try:
        frame = (pl.read_ndjson if lines else pl.read_json)(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError):
        what = "one JSON object in each line" if lines else "a JSON array of objects"
        raise DataError(f"{str(path)!r} cannot be read: {what} is expected") from None
    nested = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]
    if nested:
        listed = ", ".join(repr(name) for name in nested)
        raise DataError(f"{str(path)!r}: objects inside the columns {listed}; flatten them into columns")
    return parse_dates(frame)


def write_binary(frame: pl.DataFrame, format: str, target: Path, sheet: str | None) -> None:  # noqa: A002
    """Write Parquet, Arrow, Excel or JSON."""
    if format == "parquet":
        frame.write_parquet(target)
    elif format == "arrow":
        frame.write_ipc(target, compression="zstd")
    elif format == "jsonl":
        frame.write_ndjson(target)
    elif format == "json":
        frame.write_json(target)
    else:
        _write_excel(frame, target, sheet or "data")


def _write_excel(frame: pl.DataFrame, target: Path, sheet: str) -> None:
    xlsxwriter: Any = need("xlsxwriter", "writing Excel", "io")
    _check_excel(frame)
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    content = io.BytesIO()
    book = xlsxwriter.Workbook(content, {**options, "in_memory": True})
    book.set_properties({"created": _NEVER})
    try:
        page = book.add_worksheet(sheet, worksheet_class=_exact_worksheet())
    except xlsxwriter.exceptions.XlsxWriterException:
        raise PlanError(f"sheet: Excel does not allow the name {sheet!r}") from None
    frame.write_excel(book, page, autofilter=False)
    book.close()
    target.write_bytes(content.getvalue())


def _exact_worksheet() -> Any:
    """Give a kind of sheet that writes floats with all their digits, not sixteen."""
    base: Any = need("xlsxwriter.worksheet", "writing Excel", "io").Worksheet

    class ExactWorksheet(base):  # type: ignore[misc]
        def _xml_number_element(self, number: Any, attributes: Any = ()) -> None:
            listed = "".join(f' {key}="{self._escape_attributes(value)}"' for key, value in attributes or ())
            exact = repr(float(number)) if isinstance(number, float) else str(number)
            self.fh.write(f"<c{listed}><v>{exact}</v></c>")

    return ExactWorksheet


def _check_excel(frame: pl.DataFrame) -> None:
    """Refuse what a sheet cannot hold unharmed."""
    import polars as pl

    problems = []
    if frame.height > _EXCEL_ROWS:
        problems.append(f"{frame.height:,} rows do not fit into a sheet, which holds {_EXCEL_ROWS:,}")
    for name, kind in frame.schema.items():
        column = frame[name]
        if kind.is_integer():
            if int((column.cast(pl.Int128).abs() > _EXACT).sum() or 0):
                problems.append(f"column {name!r} has whole numbers of more than 15 digits, which Excel rounds")
        elif kind.is_float():
            if bool(column.is_infinite().any()):
                problems.append(f"column {name!r} has infinite values, which Excel lacks")
        elif kind == pl.String and int((column.str.len_chars() > _EXCEL_TEXT).sum() or 0):
            problems.append(f"column {name!r} has texts of more than {_EXCEL_TEXT:,} characters")
    if problems:
        raise DataError("\n".join([*problems, "write CSV or Parquet instead"]))
