"""Delimited text in: CSV, TSV and the like, of any size."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from discretion.data.dialect import (
    DAMAGED,
    SAMPLE_BYTES,
    Dialect,
    Given,
    damaged,
    decode,
    doubtful_marks,
    find_dialect,
    first_bytes,
    first_row,
    is_gzip,
)
from discretion.data.infer import Reading, parse_columns, sink_columns
from discretion.errors import DataError, unknown

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.schema import Schema

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
