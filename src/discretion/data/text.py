"""Delimited text in: CSV, TSV and the like, of any size."""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, get_args

from discretion.context import BATCH_ROWS
from discretion.errors import DataError, PlanError, unknown

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.schema import Schema

Format = Literal[
    "csv",
    "parquet",
    "arrow",
    "excel",
    "jsonl",
    "json",
    "stata",
    "spss",
    "sas",
    "xpt",
    "duckdb",
    "sqlite",
    "postgresql",
]
FORMATS: tuple[Format, ...] = get_args(Format)

EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "excel",
    ".xls": "excel",
    ".ods": "excel",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".sas7bdat": "sas",
    ".xpt": "xpt",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
"""File name extension → format; `.csv`, `.tsv` and `.txt` may be followed by `.gz`."""

_ALIASES: dict[str, Format] = {
    "tsv": "csv",
    "txt": "csv",
    "feather": "arrow",
    "ipc": "arrow",
    "xlsx": "excel",
}
_ALIASES |= {"ndjson": "jsonl", "dta": "stata", "sav": "spss", "sas7bdat": "sas", "postgres": "postgresql"}


def format_of(path: Path, format: str | None) -> Format:  # noqa: A002 - the public name of the option
    """Give the format the caller named, or the one the file name says."""
    if format is not None:
        named = format.lower().removeprefix(".")
        if named in FORMATS:
            return named
        if named in _ALIASES:
            return _ALIASES[named]
        raise PlanError(unknown("format", format, FORMATS))
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    found = EXTENSIONS.get(suffix)
    if found is None or (name.endswith(".gz") and found != "csv"):
        known = ", ".join([*EXTENSIONS, ".csv.gz"])
        raise PlanError(
            f"{str(path)!r}: the extension {''.join(path.suffixes[-2:]) or '(none)'} is not known; "
            f"known: {known}; or say which it is with format="
        )
    return found


def existing_file(path: Path) -> Path:
    """Raise unless the path is a file with something in it; a file of a similar name is suggested."""
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; name a file in it")
    if not path.exists():
        folder = path.parent
        if not folder.is_dir():
            raise DataError(f"no file {str(path)!r}: there is no folder {str(folder)!r}")
        names = [item.name for item in folder.iterdir() if item.is_file()]
        close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
        raise DataError(f"no file {str(path)!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    if not os.access(path, os.R_OK):
        raise DataError(f"{str(path)!r} may not be read; ask for permission to read it")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{str(path)!r} is empty")
    return path


Kind = Literal["boolean", "integer", "float", "grouped integer", "grouped", "date", "datetime T", "datetime", "text"]
_NUMBERS: tuple[Kind, ...] = ("integer", "float", "grouped integer", "grouped")
_TRIED: tuple[Kind, ...] = ("boolean", *_NUMBERS, "date", "datetime T", "datetime")

_SAMPLE = 5000
_NAME_LIKE = r"^[+-]?0[0-9]|^\+"
_TOO_LONG = r"^[+-]?0[0-9]|^\+|^-?[0-9]{16,}$"
_BAD = "\x00bad\x00"
_LAST = "\x00last\x00"


@dataclass(frozen=True)
class Reading:
    """How the cells of one column are read."""

    name: str
    decimal: str = "."
    codes: tuple[str, ...] = ()
    keep_zeros: bool = True

    def text(self) -> pl.Expr:
        """Give the cells, missing codes as null."""
        import polars as pl

        cell = pl.col(self.name)
        if not self.codes:
            return cell
        return pl.when(cell.is_in(list(self.codes))).then(None).otherwise(cell).alias(self.name)

    def parse(self, kind: Kind | None) -> tuple[pl.Expr, pl.Expr]:
        """Give the values, and for each cell whether it does not fit the kind."""
        import polars as pl

        cell = self.text()
        if kind is None or kind == "text":
            value = pl.when(cell != "").then(cell).alias(self.name)
            return value, value.is_not_null() if kind is None else pl.lit(False)
        trimmed = cell.str.strip_chars(" ")
        value, wrong = _PARSERS[kind](trimmed, self)
        return value.alias(self.name), (trimmed != "") & (value.is_null() | wrong)


def _boolean(cell: pl.Expr, _: Reading) -> tuple[pl.Expr, pl.Expr]:
    import polars as pl

    lower = cell.str.to_lowercase()
    value = pl.when(lower == "true").then(True).when(lower == "false").then(False)
    return value.otherwise(None), pl.lit(False)


def _integer(cell: pl.Expr, reading: Reading) -> tuple[pl.Expr, pl.Expr]:
    import polars as pl

    wrong = cell.str.contains(_NAME_LIKE) if reading.keep_zeros else pl.lit(False)
    return cell.cast(pl.Int64, strict=False), wrong


def _float(cell: pl.Expr, reading: Reading) -> tuple[pl.Expr, pl.Expr]:
    import polars as pl

    wrong = cell.str.contains(_TOO_LONG) if reading.keep_zeros else pl.lit(False)
    if reading.decimal == ",":
        wrong = wrong | cell.str.contains(".", literal=True)
        cell = cell.str.replace(",", ".", literal=True)
    return cell.cast(pl.Float64, strict=False), wrong


def _grouped(kind: Literal["integer", "float"]) -> Callable[[pl.Expr, Reading], tuple[pl.Expr, pl.Expr]]:
    """Read numbers whose thousands are parted by the sign that is not the decimal one, among others that are not."""

    def parse(cell: pl.Expr, reading: Reading) -> tuple[pl.Expr, pl.Expr]:
        mark = "." if reading.decimal == "," else ","
        marked = cell.str.contains(mark, literal=True)
        fits = cell.str.contains(rf"^[+-]?[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{3}})+(?:\{reading.decimal}[0-9]+)?$")
        value, wrong = _PARSERS[kind](cell.str.replace_all(mark, "", literal=True), reading)
        return value, wrong | (marked & ~fits)

    return parse


def _date(cell: pl.Expr, _: Reading) -> tuple[pl.Expr, pl.Expr]:
    return cell.str.to_date("%Y-%m-%d", strict=False), cell.str.len_bytes() != 10


def _moment(pattern: str) -> Callable[[pl.Expr, Reading], tuple[pl.Expr, pl.Expr]]:
    def parse(cell: pl.Expr, _: Reading) -> tuple[pl.Expr, pl.Expr]:
        value = cell.str.to_datetime(pattern, strict=False, time_unit="us", ambiguous="null")
        return value, (cell.str.len_bytes() < 19) | (cell.str.len_bytes() > 26)

    return parse


_PARSERS: Mapping[Kind, Callable[[pl.Expr, Reading], tuple[pl.Expr, pl.Expr]]] = {
    "boolean": _boolean,
    "integer": _integer,
    "float": _float,
    "grouped integer": _grouped("integer"),
    "grouped": _grouped("float"),
    "date": _date,
    "datetime T": _moment("%Y-%m-%dT%H:%M:%S%.f"),
    "datetime": _moment("%Y-%m-%d %H:%M:%S%.f"),
}


def kind_of(sample: pl.DataFrame, reading: Reading, tried: Sequence[Kind] = _TRIED) -> Kind | None:
    """Propose the narrowest kind that every cell of a sample fits; None if all cells are missing."""
    if sample.select(reading.parse("text")[0].is_null().all()).item():
        return None
    for kind in tried:
        value, wrong = reading.parse(kind)
        fits = ~wrong.fill_null(False).any() & value.is_not_null().any()
        if kind == "float":
            fits = fits & value.is_finite().any()
        if sample.select(fits).item():
            return kind
    return "text"


def _wider(before: Kind | None, now: Kind | None) -> Kind:
    if before is None and now is not None:
        return now
    if before in _NUMBERS and now in _NUMBERS and before != "grouped":
        fraction = {before, now} & {"float", "grouped"}
        if not any("grouped" in str(kind) for kind in (before, now)):
            return "float" if before != "float" else "text"
        return "grouped" if fraction or before == "grouped integer" else "grouped integer"
    return "text"


def parse_columns(
    scan: pl.LazyFrame, readings: Sequence[Reading], last: str | None = None
) -> tuple[pl.DataFrame, bool]:
    """Read text columns with the kind that fits all rows; also tell whether the column `last` has gaps."""
    import polars as pl

    sample = scan.select(r.name for r in readings).head(_SAMPLE).collect()
    kinds = {r.name: kind_of(sample, r) for r in readings}
    done: dict[str, pl.Series] = {}
    pending = list(readings)
    gaps = False
    while pending:
        wanted: list[pl.Expr] = []
        for reading in pending:
            value, wrong = reading.parse(kinds[reading.name])
            wanted.append(value)
            if kinds[reading.name] != "text":
                wanted.append(wrong.alias(_BAD + reading.name))
        if last is not None and not done:
            wanted.append(pl.col(last).is_null().alias(_LAST))  # a quoted empty cell is there, and no gap
        part = scan.select(wanted).collect(engine="streaming")
        gaps = gaps or (_LAST in part.columns and bool(part[_LAST].any()))
        again = []
        for reading in pending:
            name, flag = reading.name, _BAD + reading.name
            if flag in part.columns and part[flag].any():
                kinds[name] = _wider(kinds[name], _kind_of_rest(scan, reading, kinds[name]))
                again.append(reading)
            else:
                done[name] = part[name]
        pending = again
    return pl.DataFrame([done[reading.name] for reading in readings]), gaps


def sink_columns(
    scan: pl.LazyFrame, readings: Sequence[Reading], target: Path, last: str | None = None
) -> tuple[pl.DataFrame, bool]:
    """Write the columns as `parse_columns` gives them to a Parquet file, never all in memory; the frame has no rows.

    Time: one pass to find the kinds (more where a kind did not fit), one to write.
    """
    import polars as pl

    sample = scan.select(r.name for r in readings).head(_SAMPLE).collect()
    kinds = {r.name: kind_of(sample, r) for r in readings}
    pending, gaps = list(readings), False
    while pending:
        flags = [r.parse(kinds[r.name])[1].any().alias(_BAD + r.name) for r in pending if kinds[r.name] != "text"]
        if last is not None:
            flags.append(pl.col(last).is_null().any().alias(_LAST))
        found = scan.select(flags).collect(engine="streaming") if flags else pl.DataFrame()
        gaps = gaps or (_LAST in found.columns and bool(found[_LAST].item()))
        pending = [r for r in pending if _BAD + r.name in found.columns and found[_BAD + r.name].item()]
        for reading in pending:
            kinds[reading.name] = _wider(kinds[reading.name], _kind_of_rest(scan, reading, kinds[reading.name]))
    values = scan.select(r.parse(kinds[r.name])[0] for r in readings)
    values.sink_parquet(target, maintain_order=True, row_group_size=16 * BATCH_ROWS)
    return pl.DataFrame(schema=pl.read_parquet_schema(target)), gaps


def _kind_of_rest(scan: pl.LazyFrame, reading: Reading, kind: Kind | None) -> Kind | None:
    """Look at some of the cells that did not fit."""
    _, wrong = reading.parse(kind)
    rest = scan.select(reading.name).filter(wrong).head(_SAMPLE).collect(engine="streaming")
    return kind_of(rest, reading)


def parse_dates(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn text columns of nothing but ISO dates or times into dates (for formats that have none)."""
    import polars as pl

    moments: tuple[Kind, ...] = ("date", "datetime T", "datetime")
    for name in [name for name, kind in frame.schema.items() if kind == pl.String]:
        reading = Reading(name)
        if kind_of(frame.head(_SAMPLE), reading, moments) in (None, "text"):
            continue
        kind = kind_of(frame, reading, moments)
        if kind is not None and kind != "text":
            frame = frame.with_columns(reading.parse(kind)[0])
    return frame


def not_numbers(series: pl.Series) -> str:
    """Say why a column is not one of numbers: its type, and for text how many of its values are no numbers."""
    import polars as pl

    if series.dtype != pl.String:
        return f"is {str(series.dtype).lower()}"
    texts = series.drop_nulls().str.strip_chars(" ")
    wrong = int(texts.cast(pl.Float64, strict=False).is_null().sum())
    if not len(texts) or wrong == len(texts):
        return "is text"
    if not wrong:
        return (
            "is text: all its values are digits, but some have leading zeros or too many digits to be exact; if they "
            "are numbers and no codes, give it the type `continuous` when reading"
        )
    verb = "is no number" if wrong == 1 else "are no numbers"
    return (
        f"is text: {wrong:,} of its {len(texts):,} values {verb}; if they stand for missing values, "
        "declare them in `missing_codes`"
    )


SAMPLE_BYTES = 256 * 1024
"""How much of a file is looked at."""

DAMAGED = (OSError, EOFError, zlib.error)
"""What unpacking a damaged gzip file raises."""

DELIMITERS = ("\t", ";", "|", ",")
"""Delimiters that are found out; the first that fits the lines wins."""

_MOST_ROWS = 2000
_NAMES = {"\t": "tab", " ": "space"}
_WHOLE = re.compile(r"[+-]?\d+")
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:\.\d{3})+(,)\d+|(?:,\d{3})+(\.)\d+)")
"""Numbers with a mark between thousands and another one before the decimals, which tell the two apart."""
_MAYBE_GROUPED = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}\{mark}\d{{3}}") for mark in ".,"}
_FEW_CELLS = 10
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Dialect:
    """How a text file is written; `quote` may be empty; `skipped` lines precede the table."""

    delimiter: str = ","
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    header: bool = True
    quote: str = '"'
    skipped: int = 0
    truth: Literal["true", "True", "TRUE"] = "true"
    """how true and false are written"""

    def sentence(self) -> str:
        """Say it in one sentence."""
        return f"read as: {self}"

    def __str__(self) -> str:
        mark = " with a byte order mark" if self.encoding == "utf-8-sig" else ""
        parts = [
            f"delimiter {_NAMES.get(self.delimiter) or repr(self.delimiter)}",
            "decimal comma" if self.decimal == "," else "decimal point",
            f"encoding {self.encoding.removesuffix('-sig')}{mark}",
            "header in the first row" if self.header else "no header",
        ]
        if self.quote != '"':
            parts.append(f"quote {self.quote!r}" if self.quote else "no quotes")
        if self.skipped:
            parts.append(f"{self.skipped} line{'s' * (self.skipped > 1)} before the table skipped")
        return ", ".join(parts)


@dataclass(frozen=True)
class Given:
    """What the caller says about the dialect; None is found out."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None
    quote: str | None = None

    def check(self) -> None:
        """Raise if a setting is impossible; all faults at once."""
        problems = []
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            problems.append("delimiter: one character is needed, such as ';'")
        if self.decimal not in (None, ".", ","):
            problems.append("decimal: '.' or ',' is needed")
        if self.quote is not None and (len(self.quote) > 1 or not self.quote.isascii()):
            problems.append("quote: one character is needed, or '' where nothing is quoted")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                problems.append(f"encoding: {self.encoding!r} is unknown; such as utf-8, cp1252, latin-1")
        if problems:
            raise PlanError(problems)


def sniff(
    path: str | Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    quote: str | None = None,
) -> Dialect:
    """Find out how a text file (also gzipped) is written, from its first 256 kB; what is given is kept.

    An encoding that only shows later in the file is not seen here; `read` notices it and reports it.
    """
    given = Given(delimiter, decimal, encoding, header, quote)
    given.check()
    return find_dialect(first_bytes(existing_file(Path(path))), given)


def first_bytes(path: Path) -> bytes:
    """Give the first part of a file, unpacked if it is gzipped."""
    with path.open("rb") as handle:
        start = handle.read(SAMPLE_BYTES)
    if not is_gzip(start):
        if path.suffix.lower() == ".gz":
            raise DataError(
                f"{str(path)!r} is not a gzip file, although its name says so: it is damaged (copy or download it "
                "again), or was never packed (give it another name)"
            )
        return start
    import gzip

    try:
        with gzip.open(path, "rb") as packed:
            return packed.read(SAMPLE_BYTES)
    except DAMAGED:
        raise damaged(repr(str(path))) from None


def damaged(name: str) -> DataError:
    """Say that a gzip file cannot be unpacked to its end."""
    return DataError(f"{name} is damaged: it is not a whole gzip file; copy or download it again")


def is_gzip(start: bytes) -> bool:
    """Tell whether bytes begin a gzip file."""
    return start[:2] == b"\x1f\x8b"


def find_dialect(sample: bytes, given: Given) -> Dialect:
    """Find out the dialect of the first bytes of a file."""
    encoding = given.encoding or _encoding(sample)
    text = decode(sample, encoding)
    skipped, text, told = _preamble(text)
    quote = _quote(text) if given.quote is None else given.quote
    delimiter = given.delimiter or told or _delimiter(text, quote)
    found = Dialect(delimiter=delimiter, encoding=encoding, quote=quote, skipped=skipped)
    rows = _rows(text, delimiter, quote)
    decimal = given.decimal or _decimal(rows, delimiter)
    header = _header(rows) if given.header is None else given.header
    return replace(found, decimal=decimal, header=header)  # type: ignore[arg-type]


def first_row(sample: bytes, dialect: Dialect) -> list[str]:
    """Give the cells of the first row of the table."""
    text = decode(sample, dialect.encoding)
    _, text, _ = _preamble(text)
    return next(iter(_rows(text, dialect.delimiter, dialect.quote, 1)), [])


def decode(sample: bytes, encoding: str) -> str:
    """Decode the first bytes of a file, without a character that was cut off; faults show on reading."""
    return codecs.getincrementaldecoder(encoding)("replace").decode(sample).removeprefix("\ufeff")


def _encoding(sample: bytes) -> str:
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _preamble(text: str) -> tuple[int, str, str | None]:
    """Skip empty lines and the line `sep=;` that spreadsheets write."""
    skipped, told = 0, None
    while text:
        line, _, rest = text.partition("\n")
        line = line.rstrip("\r")
        match = re.fullmatch(r'"?sep=(.)"?', line, re.IGNORECASE)
        if line and not match:
            break
        if match:
            told = match[1]
        text, skipped = rest, skipped + 1
    return skipped, text, told


def _quote(text: str) -> str:
    if '"' in text:
        return '"' if re.search(r'(?m)(^|[,;\t|])"', text) else ""
    single = len(re.findall(r"(?m)(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n]|$)", text))
    return "'" if single and single * 2 >= text.count("\n") else '"'


def _rows(text: str, delimiter: str, quote: str, most: int = _MOST_ROWS) -> list[list[str]]:
    """Split the sample into cells, without the last line where it may be cut off, and without empty lines."""
    rows: list[list[str]] = []
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > most:
                break
    except csv.Error:
        pass
    cut = len(text) > SAMPLE_BYTES // 5 and len(rows) <= most
    return rows[:-1] if cut and len(rows) > 1 else rows[:most]


def _delimiter(text: str, quote: str) -> str:
    best: list[tuple[float, str]] = []
    for delimiter in DELIMITERS:
        rows = _rows(text, delimiter, quote)
        if not rows:
            continue
        (width, count), *_ = Counter(map(len, rows)).most_common(1)
        if width > 1:
            fits = len(rows[0]) == width
            best.append((count / len(rows) - (0 if fits else 0.5), delimiter))
    top = max((share for share, _ in best), default=0)
    return next((delimiter for share, delimiter in best if share >= top - 0.02), ",")


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Decide by the numbers: a comma before three digits may also part thousands."""
    cells = [cell.strip() for row in rows for cell in row if "," in cell or "." in cell]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    points = sum(1 for cell in cells if _POINT.fullmatch(cell))
    if delimiter != ";":
        commas = [cell for cell in commas if not _THOUSANDS.fullmatch(cell)]
    marked = [found for cell in cells if (found := _GROUPED.fullmatch(cell))]
    sure = sum(1 if found[1] else -1 for found in marked)
    if sure:
        return "," if sure > 0 else "."
    return "," if len(commas) > points else "."


def doubtful_marks(sample: bytes, dialect: Dialect) -> tuple[str, list[str]]:
    """Name the columns whose points (in files with tabs or bars: commas) may part thousands or precede decimals.

    All their cells with the mark have three digits behind it, and some end in 0, which numbers written by a program
    do not; a cell of more than three digits without a mark says that thousands are not parted, and a number elsewhere
    with another number of decimals behind a point says what a point means.
    """
    mark = {";": ".", ",": ""}.get(dialect.delimiter, ",")
    rows = _rows(_preamble(decode(sample, dialect.encoding))[1], dialect.delimiter, dialect.quote)
    maybe = _MAYBE_GROUPED.get(mark)
    points = [cell for row in rows for cell in map(str.strip, row) if _POINT.fullmatch(cell)]
    if maybe is None or dialect.decimal != "." or any(not maybe.fullmatch(cell) for cell in points):
        return mark, []
    names = rows[0] if dialect.header else [f"column_{place}" for place in range(1, len(rows[0]) + 1)]
    found = []
    for place, name in enumerate(names):
        cells = [row[place].strip() for row in rows[dialect.header :] if len(row) > place and row[place].strip()]
        marked = [cell for cell in cells if maybe.fullmatch(cell)]
        rest = [cell for cell in cells if not maybe.fullmatch(cell)]
        parted = len(marked) >= _FEW_CELLS and any(cell.endswith("0") for cell in marked)
        if parted and all(re.fullmatch(r"[+-]?\d{1,3}", cell) for cell in rest):
            found.append(name.strip())
    return mark, found


def _header(rows: Sequence[Sequence[str]]) -> bool:
    """Compare the first row with the rest: names stand above numbers, and do not come again below."""
    if not rows:
        return True
    first, rest = rows[0], rows[1:]
    values_in_first = any(_is_value(cell) for cell in first)
    if not rest:
        return not values_in_first
    again = 0
    for place, cell in enumerate(first):
        below = [row[place] for row in rest if len(row) > place and row[place].strip()]
        if not below:
            continue
        if cell.strip() and not _is_value(cell) and all(map(_is_value, below)):
            return True
        again += cell in below
    return not values_in_first and again * 2 < len(first)


def _is_value(cell: str) -> bool:
    cell = cell.strip()
    return any(kind.fullmatch(cell) for kind in (_WHOLE, _POINT, _COMMA, _DATE))


# Rows of a text file of another length than its header, and bytes that do not fit its encoding.

_CHUNK = 1 << 20


@dataclass(frozen=True)
class TextSource:
    """A text file on disk, or text that came from elsewhere; `name` is what messages call it."""

    name: str
    path: Path | None = None
    content: bytes = b""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes, unpacked."""
        if self.path is None:
            yield (gzip.GzipFile(fileobj=io.BytesIO(self.content)) if self.is_packed else io.BytesIO(self.content))  # type: ignore[misc]
            return
        with gzip.open(self.path, "rb") if self.is_packed else self.path.open("rb") as handle:
            yield handle  # type: ignore[misc]

    def sample(self) -> bytes:
        """Give its first part."""
        if self.path is not None:
            return first_bytes(self.path)
        with self.open() as handle:
            return handle.read(SAMPLE_BYTES)

    @property
    def is_packed(self) -> bool:
        """Tell whether it is a gzip file."""
        if self.path is None:
            return is_gzip(self.content)
        with self.path.open("rb") as handle:
            return is_gzip(handle.read(2))

    def in_utf8(self, encoding: str) -> Path | bytes:
        """Give what polars reads: the file itself, or its text in UTF-8 (in memory, never on disk)."""
        if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii"):
            return self.path if self.path is not None else self.content
        decoder = codecs.getincrementaldecoder(encoding)()
        out = io.BytesIO()
        try:
            with self.open() as handle:
                while chunk := handle.read(_CHUNK):
                    out.write(decoder.decode(chunk).encode("utf-8"))
                out.write(decoder.decode(b"", final=True).encode("utf-8"))
        except UnicodeDecodeError:
            raise wrong_encoding(self, encoding) from None
        return out.getvalue()


def wrong_encoding(source: TextSource, encoding: str) -> DataError:
    """Say where a file stops being in its encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    position, line, where = 0, 1, ""
    with source.open() as handle:
        while True:
            chunk = handle.read(_CHUNK)
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                inside = max(error.start - held, 0)
                line += chunk.count(b"\n", 0, inside)
                where = f" at byte {position - held + error.start:,} (line {line:,})"
                break
            if not chunk:
                break
            position += len(chunk)
            line += chunk.count(b"\n")
    return DataError(
        f"{source.name} is not in the encoding {encoding}: it fails{where}; "
        "give the right one with encoding=, such as cp1252, latin-1 or utf-8"
    )


@dataclass(frozen=True)
class Raggedness:
    """How the rows of a file differ in length from its first row."""

    width: int
    ragged: int = 0
    first_line: int = 0
    first_width: int = 0
    blank: int = 0

    def error(self, name: str) -> DataError:
        """Say where the first ragged row is and how many there are."""
        rows = f"{self.ragged:,} row{'s' if self.ragged > 1 else ''}"
        return DataError(
            f"{name}: {rows} not of the same length as the first row, which has {self.width} cells; "
            f"the first of them is line {self.first_line:,} with {self.first_width} cells; "
            "correct the file, or give the right delimiter= and quote="
        )


def look_for_ragged(source: TextSource, readable: Path | bytes, dialect: Dialect, width: int) -> Raggedness:
    """Count the rows that do not have `width` cells."""
    import polars as pl

    line = pl.col("line")
    bare = line.str.replace_all(r'"[^"]*"', "") if dialect.quote == '"' else line
    cells = bare.str.count_matches(dialect.delimiter, literal=True) + 1
    blank = (line == "") | (line == "\r")
    wrong = (cells != width) & ~blank
    odd = (line.str.count_matches('"', literal=True) % 2 == 1).any() if dialect.quote == '"' else pl.lit(False)
    counted = (
        pl.scan_lines(readable, glob=False)
        .with_row_index("number", offset=1)
        .slice(dialect.skipped)
        .select(
            odd.alias("odd"),
            blank.sum().alias("blank"),
            wrong.sum().alias("ragged"),
            pl.col("number").filter(wrong).first().alias("line"),
            cells.filter(wrong).first().alias("width"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    if counted["odd"] or dialect.quote == "'":
        return _by_reader(source, dialect, width)
    return Raggedness(width, counted["ragged"], counted["line"] or 0, counted["width"] or 0, counted["blank"])


def _by_reader(source: TextSource, dialect: Dialect, width: int) -> Raggedness:
    """Count row by row, for files with line breaks inside cells."""
    ragged = first_line = first_width = blank = 0
    with source.open() as handle, io.TextIOWrapper(handle, encoding=dialect.encoding, newline="") as text:
        for _ in range(dialect.skipped):
            text.readline()
        reader = csv.reader(text, delimiter=dialect.delimiter, quotechar=dialect.quote or None)
        line = dialect.skipped + 1
        for row in reader:
            blank += not row
            if row and len(row) != width:
                if not ragged:
                    first_line, first_width = line, len(row)
                ragged += 1
            line = dialect.skipped + reader.line_num + 1
    return Raggedness(width, ragged, first_line, first_width, blank)


_NUL_HINT = "the file is damaged, or in another encoding (give encoding=, such as utf-16)"


def read_text(
    source: TextSource, given: Given, schema: Schema, columns: Sequence[str] | None, target: Path | None = None
) -> tuple[pl.DataFrame, Dialect]:
    """Read delimited text, its types found out over the whole file; also give the dialect found.

    `target`: the rows go to this Parquet file, a few at a time, and the frame has none of them.
    """
    try:
        return _find_and_read(source, given, schema, columns, target)
    except DAMAGED:
        if source.is_packed:
            raise damaged(source.name) from None
        raise


def _find_and_read(
    source: TextSource, given: Given, schema: Schema, columns: Sequence[str] | None, target: Path | None
) -> tuple[pl.DataFrame, Dialect]:
    sample = source.sample()
    if not sample.strip():
        raise DataError(f"{source.name} is empty")
    dialect = find_dialect(sample, given)
    mark, doubt = doubtful_marks(sample, dialect) if given.decimal is None else ("", [])
    if doubt:
        listed, other = ", ".join(map(repr, doubt)), "," if mark == "." else "."
        raise DataError(
            f"{source.name}: in {listed} every {mark!r} stands before three digits: it may part thousands (give "
            f"decimal={other!r}) or precede decimals (give decimal={mark!r})"
        )
    text, nul, _ = decode(sample, dialect.encoding).partition("\0")
    if nul:
        raise DataError(f"{source.name} has NUL bytes, first in line {text.count(chr(10)) + 1:,}; {_NUL_HINT}")
    try:
        frame = _read(source, dialect, sample, schema, columns, target)
        return frame, _with_truth(dialect, frame, text)
    except _NotUtf8Error:
        if given.encoding is not None or dialect.encoding != "utf-8":
            raise wrong_encoding(source, dialect.encoding) from None
    dialect = replace(dialect, encoding="cp1252")
    frame = _read(source, dialect, sample, schema, columns, target)
    return frame, _with_truth(dialect, frame, text)


def _with_truth(dialect: Dialect, frame: pl.DataFrame, text: str) -> Dialect:
    """Note how true and false are written where there are columns of them."""
    import polars as pl

    found = re.search(r"\b(?:True|TRUE|False|FALSE)\b", text) if pl.Boolean in frame.dtypes else None
    return dialect if found is None else replace(dialect, truth="TRUE" if found[0].isupper() else "True")


class _NotUtf8Error(Exception):
    """The text is not in UTF-8."""


def _read(
    source: TextSource,
    dialect: Dialect,
    sample: bytes,
    schema: Schema,
    columns: Sequence[str] | None,
    target: Path | None,
) -> pl.DataFrame:
    import polars as pl

    names = _names(source.name, first_row(sample, dialect), dialect.header)
    chosen = choose_columns(source.name, names, columns)
    readable = source.in_utf8(dialect.encoding)
    readings = [_reading(name, dialect, schema) for name in chosen]
    scan = _scan(readable, dialect, names, sample)

    def parse(rows: pl.LazyFrame) -> tuple[pl.DataFrame, bool]:
        if target is None:
            return parse_columns(rows, readings, names[-1])
        return sink_columns(rows, readings, target, names[-1])

    try:
        frame, gaps = parse(scan)
    except pl.exceptions.NoDataError:
        raise DataError(f"{source.name} is empty") from None
    except pl.exceptions.PolarsError as error:
        if "utf-8" in str(error).lower() or "utf8" in str(error).lower():
            raise _NotUtf8Error from None
        raise _explain(source, readable, dialect, len(names)) from None
    if gaps and len(names) > 1 and _has_blank_lines(source, readable, dialect, len(names), scan):
        frame = parse(scan.filter(~pl.all_horizontal(pl.all().is_null())))[0]
    written = frame.lazy() if target is None else pl.scan_parquet(target, glob=False)
    if not written.select(pl.len()).collect().item():
        raise DataError(f"{source.name} has a header but no rows")
    _check_nul(source.name, written)
    return frame


def _check_nul(source: str, frame: pl.LazyFrame) -> None:
    """Refuse text with NUL bytes: it is damaged, or in another encoding."""
    import polars.selectors as cs

    counts = frame.select(cs.string().str.contains("\0", literal=True).sum()).collect(engine="streaming")
    found = {name: counts[name].item() for name in counts.columns if counts[name].item()}
    if found:
        listed = ", ".join(f"{name!r} ({count:,})" for name, count in found.items())
        raise DataError(f"{source}: cells with NUL bytes in the columns {listed}; {_NUL_HINT}")


def _scan(readable: Path | bytes, dialect: Dialect, names: Sequence[str], sample: bytes) -> pl.LazyFrame:
    import polars as pl

    only_cr = b"\r" in sample and b"\n" not in sample
    return pl.scan_csv(
        readable,
        has_header=dialect.header,
        separator=dialect.delimiter,
        quote_char=dialect.quote or None,
        skip_lines=dialect.skipped,
        infer_schema=False,
        with_column_names=lambda _: list(names),
        eol_char="\r" if only_cr else "\n",
        glob=False,
    )


def _names(source: str, cells: Sequence[str], header: bool) -> list[str]:
    if not header:
        return [f"column_{place}" for place in range(1, len(cells) + 1)]
    names = [cell.strip() or f"column_{place}" for place, cell in enumerate(cells, 1)]
    check_unique(source, names)
    return names


def check_unique(source: str, names: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        listed = ", ".join(repr(name) for name in twice)
        raise DataError(
            f"{source} has more than one column named {listed}; rename them in the file (or, where the "
            "first row holds no names but values, give header=False)"
        )


def choose_columns(source: str, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Give the wanted columns, or all; one that does not exist is an error."""
    if columns is None:
        return list(names)
    problems = [unknown("column", name, names) for name in columns if name not in names]
    if problems:
        raise DataError("\n".join(f"{source}: {problem}" for problem in problems))
    return list(columns)


def _reading(name: str, dialect: Dialect, schema: Schema) -> Reading:
    column = schema[name]
    codes = tuple(code for code in column.missing_codes if isinstance(code, str))
    return Reading(name, dialect.decimal, codes, keep_zeros=column.type != "continuous")


def _explain(source: TextSource, readable: Path | bytes, dialect: Dialect, width: int) -> DataError:
    """Word the fault that stopped the reading, without the text that the library quotes."""
    try:
        found = look_for_ragged(source, readable, dialect, width)
    except (csv.Error, UnicodeDecodeError):
        found = None
    if found is not None and found.ragged:
        return found.error(source.name)
    return DataError(
        f"{source.name} cannot be read as delimited text ({dialect}): a quote is out of place; "
        "correct the file, or give quote='' if cells are not quoted"
    )


def _has_blank_lines(
    source: TextSource, readable: Path | bytes, dialect: Dialect, width: int, scan: pl.LazyFrame
) -> bool:
    """Refuse rows that are too short; tell whether there are blank lines, which are no rows."""
    import polars as pl

    found = look_for_ragged(source, readable, dialect, width)
    if found.ragged:
        raise found.error(source.name)
    if not found.blank:
        return False
    empty = scan.select(pl.all_horizontal(pl.all().is_null()).sum()).collect(engine="streaming").item()
    if empty != found.blank:
        raise DataError(f"{source.name} has {found.blank:,} blank lines beside rows of empty cells; remove them")
    return True


def is_url(source: str) -> bool:
    """Tell whether a source is the address of a database."""
    return re.match(r"(?i)(duckdb|sqlite|postgres(ql)?)://", source) is not None
