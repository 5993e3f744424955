"""Hierarchies of table variables as files: levels or pairs in CSV, sdcTable's "@" lines, τ-ARGUS .hrc."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from discretion.data.atomic import write_text
from discretion.data.hierarchy import Hierarchy
from discretion.errors import DataError, PlanError
from discretion.tables.dimensions import Dimension

LEAD = "@"
"""What stands before a code once per level, in "@" lines and by default in .hrc files."""


def read_dimension(name: str, path: Path, total: str) -> Dimension:
    """Read a hierarchy; the layout is found from the file: "@" lines, .hrc, pairs (header parent,child), levels."""
    if not path.is_file():
        raise PlanError(f"variable {name!r}: no hierarchy file {str(path)!r}")
    lines = text_lines(path)
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise PlanError(f"variable {name!r}: the hierarchy file {str(path)!r} is empty")
    marked = [line.startswith(LEAD) for line in filled]
    if path.suffix.lower() == ".hrc" or all(marked) or (any(marked) and path.suffix.lower() != ".csv"):
        return from_lines(name, lines, total, file=path.name)
    first = re.split(r"[;,\t]", filled[0])
    if [word.strip().strip('"').lower() for word in first[:2]] == ["parent", "child"]:
        return Dimension.from_edges(name, _pairs(lines, path.name), total)
    return Dimension.from_levels(name, Hierarchy.read(path).bind((), name), total=total)


def text_lines(path: Path) -> list[str]:
    """Read the lines of a text file in UTF-8, or in the Western code page that Windows programs write.

    Lines end where every program ends them; other signs that Unicode calls line breaks may stand in codes.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        text = path.read_bytes().decode("cp1252", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _pairs(lines: Sequence[str], file: str) -> list[tuple[str, str]]:
    """Read the lines below the header parent,child."""
    head = next(number for number, line in enumerate(lines) if line.strip())
    delimiter = lines[head].strip().strip('"')[len("parent") :].lstrip('" ')[0]
    pairs = []
    for number, line in enumerate(lines[head + 1 :], head + 2):
        row = [word.strip() for word in next(csv.reader([line], delimiter=delimiter), [])]
        if line.strip() and (len(row) < 2 or not row[0] or not row[1]):
            raise DataError(f"{file}, line {number}: expected a parent and a child")
        pairs += [(row[0], row[1])] if line.strip() else []
    if not pairs:
        raise DataError(f"{file}: there are no pairs below the header")
    return pairs


def from_lines(name: str, lines: Sequence[str], total: str, lead: str = LEAD, file: str = "") -> Dimension:
    """Read one code per line, set in by `lead` once per level, children below their parent.

    When the first line is set in ("@Total", also "@;Total"), it is the total, as sdcTable writes it; otherwise the
    total is above all codes and not written, as in τ-ARGUS.
    """
    where = file or f"variable {name!r}"
    if not lead:
        raise DataError(f"{where}: what stands before a code once per level must not be empty")
    rows = [(number, *_depth_and_code(line, lead)) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise DataError(f"{where}: the hierarchy has no lines")
    base = rows[0][1]
    path = [] if base else [total]
    edges: list[tuple[str, str]] = []
    for number, depth, code in rows:
        if not code:
            raise DataError(f"{where}, line {number}: the line has no code")
        level = depth - base + (0 if base else 1)
        if not (0 if number == rows[0][0] and base else 1) <= level <= len(path):
            raise DataError(f"{where}, line {number}: the code is set in too far or too little")
        del path[level:]
        edges += [(path[-1], code)] if path else []
        path.append(code)
    return Dimension.from_edges(name, edges, rows[0][2] if base else total)


def _depth_and_code(line: str, lead: str) -> tuple[int, str]:
    depth = 0
    while line.startswith(lead):
        depth += 1
        line = line.removeprefix(lead)
    return depth, line.strip().lstrip(";,").strip().strip('"')


def to_lines(dimension: Dimension, tree: int = 0, *, total: bool, lead: str = LEAD) -> list[str]:
    """Write a tree one code per line; with `total` as sdcTable reads it, without as τ-ARGUS does.

    Codes that would be read as something else (blanks at their ends, a leading "@") are refused.
    """
    lines = []
    for depth, code in _in_order(dimension, tree):
        label = dimension.codes[code]
        if re.search(r"[\r\n]", label) or _depth_and_code(label, lead) != (0, label):
            raise PlanError(f"variable {dimension.name!r}: the code {label!r} cannot be written in a hierarchy file")
        if total or depth:
            lines.append(lead * (depth + 1 if total else depth - 1) + label)
    return lines


def _in_order(dimension: Dimension, tree: int) -> Iterator[tuple[int, int]]:
    stack = [(0, 0)]
    while stack:
        depth, code = stack.pop()
        yield depth, code
        stack.extend((depth + 1, int(child)) for child in dimension.children(code, tree)[::-1])


def write_dimension(dimension: Dimension, path: str | Path, tree: int = 0, *, overwrite: bool = False) -> None:
    """Write a hierarchy: τ-ARGUS layout when the name ends in .hrc, levels when in .csv, otherwise "@" lines."""
    path = Path(path)
    if path.suffix.lower() == ".csv":
        for code in dimension.codes:
            if code != code.strip() or code.startswith(LEAD) or re.search(r"[\r\n]", code):
                raise PlanError(f"variable {dimension.name!r}: the code {code!r} cannot be written in a hierarchy file")
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=";", lineterminator="\n").writerows(level_rows(dimension, tree))
        text = buffer.getvalue()
    else:
        text = "\n".join(to_lines(dimension, tree, total=path.suffix.lower() != ".hrc")) + "\n"
    write_text(path, text, overwrite=overwrite)


def level_rows(dimension: Dimension, tree: int = 0) -> list[list[str]]:
    """Give one row per leaf: the leaf, its group at each level, the total; short branches repeat their leaf."""
    rows = []
    height = int(dimension.depths[tree].max())
    for depth, code in _in_order(dimension, tree):
        if dimension.leaves[code]:
            path, above = [], code
            while above >= 0:
                path.append(dimension.codes[above])
                above = int(dimension.parents[tree][above])
            rows.append([path[0]] * (height - depth) + path)
    return rows
