"""Hierarchies as files: one row per value, the value first, then its label at each level (the layout of ARX)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from discretion.errors import PlanError

Rows = list[list[str]]


def decode_hierarchy(content: bytes) -> str:
    """Give the text of a hierarchy file: UTF-8 with or without a mark, or the old encoding of Western Europe."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def hierarchy_rows(path: str | Path, delimiter: str | None = None) -> Rows:
    """Read the rows of a hierarchy file, blank lines left out; nothing else is checked."""
    path = Path(path)
    if not path.is_file():
        raise PlanError(f"no hierarchy file {str(path)!r}")
    return split_rows(decode_hierarchy(path.read_bytes()), repr(str(path)), delimiter)


def split_rows(text: str, name: str, delimiter: str | None = None) -> Rows:
    """Split the text of a hierarchy file at the delimiter given, or at the one that fits: `;`, then a comma."""
    if delimiter is not None and len(delimiter) != 1:
        raise PlanError("delimiter: one character is needed, such as ';'")
    try:
        rows = _split(text, delimiter or _delimiter(text))
    except csv.Error:
        raise PlanError(f"the hierarchy file {name} is not delimited text") from None
    if not rows:
        raise PlanError(f"the hierarchy file {name} is empty")
    return rows


def _delimiter(text: str) -> str:
    """Choose `;` where it gives every row the same number of levels; otherwise the more frequent in the first line."""
    for one in (";", ","):
        widths = {len(row) for row in _split(text, one)}
        if len(widths) == 1 and widths != {1}:
            return one
    first = text.partition("\n")[0]
    return ";" if first.count(";") >= first.count(",") else ","


def _split(text: str, delimiter: str) -> Rows:
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]


def hierarchy_text(table: Sequence[Sequence[str]]) -> str:
    """Write `table[level][value]` as a hierarchy file that is read back the same."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    writer.writerows(zip(*table, strict=True))
    return out.getvalue()
