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
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = path.read_text(encoding="cp1252")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise PlanError(f"variable {name!r}: the hierarchy file {str(path)!r} is empty")
    if path.suffix.lower() == ".hrc" or any(line.startswith(LEAD) for line in lines):
        return from_lines(name, lines, total)
    first = re.split(r"[;,\t]", lines[0])
    if [word.strip().strip('"').lower() for word in first[:2]] == ["parent", "child"]:
        delimiter = lines[0].strip('"')[len("parent") :].lstrip('"')[0]
        rows = list(csv.reader(io.StringIO("\n".join(lines[1:])), delimiter=delimiter))
        return from_pairs(name, [(row[0].strip(), row[1].strip()) for row in rows], total)
    return Dimension.from_levels(name, Hierarchy.read(path).bind((), name), total=total)


def from_pairs(name: str, pairs: Sequence[tuple[str, str]], total: str) -> Dimension:
    """Take (parent, child) pairs; the one code that is nobody's child is the total, several get one above them."""
    children = {child for _, child in pairs}
    roots = list(dict.fromkeys(parent for parent, _ in pairs if parent not in children))
    if not roots:
        raise DataError(f"variable {name!r}: the hierarchy has a circle: every code has a parent")
    if len(roots) == 1:
        return Dimension.from_edges(name, pairs, roots[0])
    return Dimension.from_edges(name, [*((total, root) for root in roots), *pairs], total)


def from_lines(name: str, lines: Sequence[str], total: str, lead: str = LEAD) -> Dimension:
    """Read one code per line, set in by `lead` once per level, children below their parent.

    When the first line is set in ("@Total", also "@;Total"), it is the total, as sdcTable writes it; otherwise the
    total is above all codes and not written, as in τ-ARGUS.
    """
    rows = [_depth_and_code(line, lead) for line in lines]
    if not lead or not all(code for _, code in rows):
        raise DataError(f"variable {name!r}: a line of the hierarchy has no code")
    base = rows[0][0]
    path = [] if base else [total]
    edges: list[tuple[str, str]] = []
    for number, (depth, code) in enumerate(rows, 1):
        level = depth - base + (0 if base else 1)
        if not (0 if number == 1 and base else 1) <= level <= len(path):
            raise DataError(f"variable {name!r}: line {number} of the hierarchy is set in too far or too little")
        del path[level:]
        edges += [(path[-1], code)] if path else []
        path.append(code)
    return Dimension.from_edges(name, edges, rows[0][1] if base else total)


def _depth_and_code(line: str, lead: str) -> tuple[int, str]:
    depth = 0
    while line.startswith(lead):
        depth += 1
        line = line.removeprefix(lead)
    return depth, line.strip().lstrip(";,").strip().strip('"')


def to_lines(dimension: Dimension, tree: int = 0, *, total: bool, lead: str = LEAD) -> list[str]:
    """Write a tree one code per line; with `total` as sdcTable reads it, without as τ-ARGUS does."""
    return [
        lead * (depth + 1 if total else depth - 1) + dimension.codes[code]
        for depth, code in _in_order(dimension, tree)
        if total or depth
    ]


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
