"""Rows of a text file of another length than its header, and bytes that do not fit its encoding."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from discretion.data.dialect import SAMPLE_BYTES, Dialect, first_bytes, is_gzip
from discretion.errors import DataError

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
