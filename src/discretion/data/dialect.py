"""How a text file is written: delimiter, decimal sign, encoding, header, quotes."""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from discretion.data.formats import existing_file
from discretion.errors import DataError, PlanError

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
