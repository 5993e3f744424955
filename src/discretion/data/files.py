"""Parquet, Arrow, Excel and JSON, in and out."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.text import Format, check_unique, choose_columns, parse_dates
from discretion.errors import DataError, PlanError, need, unknown

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.schema import Schema

Values = Mapping[str | float, str]
Ranges = tuple[tuple[str | float, str | float], ...]

_READERS: Mapping[str, str] = {
    "stata": "read_dta",
    "spss": "read_sav",
    "sas": "read_sas7bdat",
    "xpt": "read_xport",
}
_TITLES: Mapping[str, str] = {"stata": "Stata", "spss": "SPSS", "sas": "SAS", "xpt": "SAS transport"}
_NAME_LENGTH: Mapping[str, int] = {"stata": 32, "spss": 64, "xpt": 32}
_RESERVED: Mapping[str, frozenset[str]] = {
    "stata": frozenset(["byte", "double", "float", "if", "in", "int", "long", "using", "with", "strl"]),
    "spss": frozenset(["all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to", "with"]),
}
_WHOLE_FORMAT = re.compile(r"%-?0?\d+\.0f|F\d+(\.0)?", re.IGNORECASE)
_INT32 = 2**31 - 28  # the largest values of this width stand for missing in Stata
_LABELED_EXACT = 2**53
_SAS_TIME = b"01JAN00:00:00:00"


@dataclass(frozen=True)
class VariableLabels:
    """What variables and values are called, and which values an SPSS file defines to be missing."""

    variables: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Values] = field(default_factory=dict)
    missing: Mapping[str, Ranges] = field(default_factory=dict)
    codes: Mapping[str, tuple[str | float, ...]] = field(default_factory=dict)
    """the values in these ranges that occur"""

    def put_into(self, schema: Schema) -> Schema:
        """Give the schema with these labels."""
        for name in dict.fromkeys([*self.variables, *self.values]):
            found = self.values.get(name, {})
            schema = schema.with_column(name, label=self.variables.get(name, ""), value_labels=found)
        for name, ranges in self.missing.items():
            codes = tuple(dict.fromkeys([*schema[name].missing_codes, *self.codes.get(name, ())]))
            schema = schema.with_column(name, missing_ranges=ranges, missing_codes=codes)
        return schema

    @classmethod
    def of(cls, schema: Schema, frame: pl.DataFrame, changed: Collection[str] = ()) -> VariableLabels:
        """Take the labels of a schema, but not value labels of a column of another type by now.

        Which values are missing is not said of changed columns: a new value may be one of them by chance.
        """
        variables = {n: c.label for n, c in schema.columns.items() if c.label and n in frame.columns}
        values = {}
        for name, column in schema.columns.items():
            if name in frame.columns and column.value_labels and _fit(column.value_labels, frame.schema[name]):
                values[name] = column.value_labels
        kept = [n for n, c in schema.columns.items() if c.missing_ranges and n in frame.columns and n not in changed]
        return cls(variables, values, {name: schema[name].missing_ranges for name in kept})


def _fit(labels: Values, kind: pl.DataType) -> bool:
    texts = [isinstance(value, str) for value in labels]
    return not any(texts) if kind.is_numeric() else all(texts)


def read_labelled(
    path: Path,
    format: Format,  # noqa: A002 - the public name of the option
    columns: Sequence[str] | None,
    encoding: str | None,
) -> tuple[pl.DataFrame, VariableLabels]:
    """Read a file of a statistics package: values stay codes, labels stand beside them."""
    import polars as pl

    pyreadstat = need("pyreadstat", f"reading {_TITLES[format]} files", "io")
    reader = getattr(pyreadstat, _READERS[format])
    options: dict[str, Any] = {"output_format": "polars"}
    if format == "spss":
        options["user_missing"] = True
    if encoding is not None:
        options["encoding"] = encoding
    try:
        frame, found = reader(str(path), **options)
    except UnicodeDecodeError:
        raise DataError(f"{str(path)!r}: text in another encoding than the file says; give encoding=") from None
    except Exception:
        raise DataError(f"{str(path)!r} is not a whole {_TITLES[format]} file that can be read") from None
    frame = frame.select(choose_columns(repr(str(path)), frame.columns, columns))
    formats = found.original_variable_types
    tidy: list[pl.Expr] = []
    for name, kind in frame.schema.items():
        if kind == pl.String:
            tidy.append(pl.when(pl.col(name) != "").then(pl.col(name)).alias(name))
        elif kind.is_float():
            tidy.append(_whole(frame[name], formats.get(name) or ""))
        elif kind == pl.Null:
            tidy.append(pl.col(name).cast(pl.String))
    frame = frame.with_columns(tidy)
    variables = {n: label for n, label in found.column_names_to_labels.items() if label and n in frame.columns}
    values = {n: _of_type(v, frame.schema[n]) for n, v in found.variable_value_labels.items() if n in frame.columns}
    defined = found.missing_ranges if format == "spss" else {}
    missing = {n: tuple((one["lo"], one["hi"]) for one in v) for n, v in defined.items() if n in frame.columns}
    codes = {name: _within(frame[name], ranges) for name, ranges in missing.items()}
    return frame, VariableLabels(variables, {n: v for n, v in values.items() if v}, missing, codes)


def _within(column: pl.Series, ranges: Ranges) -> tuple[str | float, ...]:
    """Give the values of a column that are defined to be missing."""
    values = column.drop_nulls().unique().sort().to_list()
    return tuple(value for value in values if any(low <= value <= high for low, high in ranges))


def _of_type(labels: Values, kind: pl.DataType) -> Values:
    """Keep the labels of values that the column can hold, not those of kinds of missing (`.a`)."""
    return {value: label for value, label in labels.items() if isinstance(value, str) != kind.is_numeric()}


def _whole(column: pl.Series, shown_as: str) -> pl.Expr:
    """Take numbers that have no decimals and are shown without as whole numbers; NaN is missing."""
    import polars as pl

    cell = pl.col(column.name).fill_nan(None)
    clean = column.fill_nan(None).drop_nulls()
    if _WHOLE_FORMAT.fullmatch(shown_as) and bool(((clean == clean.round()) & (clean.abs() <= _LABELED_EXACT)).all()):
        return cell.cast(pl.Int64)
    return cell


def write_labelled(frame: pl.DataFrame, format: Format, target: Path, labels: VariableLabels) -> None:  # noqa: A002
    """Write a file of a statistics package; the time of writing in its header is replaced by a fixed one."""
    import polars as pl

    pyreadstat = need("pyreadstat", f"writing {_TITLES[format]} files", "io")
    _check_names(frame.columns, format)
    frame = frame.with_columns(pl.col(pl.Boolean).cast(pl.Int32))
    whole = [name for name, kind in frame.schema.items() if kind.is_integer()]
    frame = frame.with_columns(_small_integers(frame[name]) for name in whole)
    options: dict[str, Any] = {
        "column_labels": dict(labels.variables),
        "variable_format": _shown(frame, whole, format),
    }
    if format != "xpt":
        options["variable_value_labels"] = _value_labels(frame, labels, format)
    if format == "spss" and labels.missing:
        options["missing_ranges"] = {
            name: [{"lo": low, "hi": high} for low, high in ranges] for name, ranges in labels.missing.items()
        }
    writer = {"stata": "write_dta", "spss": "write_sav", "xpt": "write_xport"}[format]
    if format == "stata":
        options["version"] = 14
    if format == "spss" and target.suffix == ".zsav":
        options["compress"] = True
    try:
        getattr(pyreadstat, writer)(frame, str(target), **options)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise DataError(
            f"the data cannot be written as a {_TITLES[format]} file ({kind}); write CSV or Parquet"
        ) from None
    _fix_time(target, format)


def _check_names(names: Sequence[str], format: Format) -> None:  # noqa: A002
    pattern = r"[^\W\d][\w.@#$]*" if format == "spss" else r"[^\W\d]\w*"
    longest = _NAME_LENGTH[format]
    reserved = _RESERVED.get(format, frozenset())
    bad = [
        name
        for name in names
        if not re.fullmatch(pattern, name) or len(name.encode()) > longest or name.lower() in reserved
    ]
    if bad:
        listed = ", ".join(repr(name) for name in bad)
        raise DataError(
            f"{_TITLES[format]} does not allow the column names {listed}; rename them: "
            f"letters, digits and _, a letter first, at most {longest} long, no reserved word"
        )


def _small_integers(column: pl.Series) -> pl.Series:
    """Make whole numbers 32 bits wide, or floats where they need more and floats are exact."""
    import polars as pl

    wide = column.cast(pl.Int128).abs()
    largest: Any = wide.max() or 0
    if largest > _LABELED_EXACT:
        raise DataError(f"column {column.name!r} has whole numbers of more than 15 digits; write it as text")
    return column.cast(pl.Int32 if largest < _INT32 else pl.Float64)


def _shown(frame: pl.DataFrame, whole: Sequence[str], format: Format) -> dict[str, str]:  # noqa: A002
    """Show whole numbers without decimals, by which they are known again."""
    shown = {"stata": "%20.0f", "spss": "F20.0", "xpt": "F20.0"}[format]
    wide = [name for name in whole if format == "xpt" or frame.schema[name].is_float()]
    return dict.fromkeys(wide, shown)


def _value_labels(frame: pl.DataFrame, labels: VariableLabels, format: Format) -> dict[str, dict[Any, str]]:  # noqa: A002
    found: dict[str, dict[Any, str]] = {}
    for name, values in labels.values.items():
        kind = frame.schema[name]
        if kind.is_integer():
            if all(float(value).is_integer() for value in values):
                found[name] = {int(value): label for value, label in values.items()}
        elif kind.is_float():
            if format != "stata":
                found[name] = {float(value): label for value, label in values.items()}
            elif all(float(value).is_integer() for value in values):
                found[name] = {int(value): label for value, label in values.items()}
        elif format == "spss":
            found[name] = dict(values)
    return found


def _fix_time(target: Path, format: Format) -> None:  # noqa: A002
    """Overwrite the time of writing, so that the same data gives the same bytes."""
    with target.open("r+b") as handle:
        start = handle.read(1024)
        if format == "stata":
            fixed = re.sub(rb"(<timestamp>\x11).{17}", rb"\g<1>01 Jan 2000 00:00", start, count=1, flags=re.DOTALL)
        elif format == "spss":
            fixed = start[:92] + b"01 Jan 0000:00:00" + start[109:]
        else:
            fixed = start[:144] + _SAS_TIME * 2 + start[176:464] + _SAS_TIME * 2 + start[496:]
        handle.seek(0)
        handle.write(fixed)


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
