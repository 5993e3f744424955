"""The .rda files of τ-ARGUS: which columns a data or table file has, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from discretion.errors import DataError, PlanError
from discretion.tables.dimensions import TOTAL, Dimension
from discretion.tables.hierarchy_files import from_lines, text_lines, to_lines

KINDS = (
    "RECODEABLE", "NUMERIC", "WEIGHT", "HOLDING", "REQUEST", "FREQUENCY", "MAXSCORE", "LOWERPL", "UPPERPL", "STATUS",
    "SHADOW", "COST",
)  # fmt: skip
"""What a column can be; RECODABLE is another spelling of the first."""

_NUMERIC = ("SHADOW", "COST", "LOWERPL", "UPPERPL")
"""Kinds that stand behind <NUMERIC> on its line; COSTVAR is another spelling of the second."""


@dataclass(frozen=True)
class RdaColumn:
    """One column: its kind, where it stands in fixed-width files, and further settings."""

    name: str
    kind: str
    start: int | None = None
    """first character, counted from 1; None in files with separators"""
    width: int | None = None
    missing: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def total(self) -> str:
        """The code of the total of a classifying column."""
        found = self.settings.get("TOTCODE", ())
        return found[0] if found else TOTAL


@dataclass(frozen=True)
class Metadata:
    """The columns of a file in order, and settings of the file as a whole (separator, words for statuses)."""

    columns: tuple[RdaColumn, ...]
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def separator(self) -> str | None:
        """What stands between columns; None in fixed-width files."""
        found = self.settings.get("SEPARATOR", ())
        return found[0] if found else None

    def of_kind(self, *kinds: str) -> list[RdaColumn]:
        """Give the columns of some kinds in order."""
        return [column for column in self.columns if column.kind in kinds]


def read_rda(path: str | Path) -> Metadata:
    """Read an .rda file; settings after a column belong to it, those before the first to the file."""
    path = Path(path)
    columns: list[RdaColumn] = []
    general: dict[str, tuple[str, ...]] = {}
    pending: list[Any] = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        words = [plain or quoted for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]
        if not line.strip().startswith("<"):
            columns += _finished(pending, path, "SEPARATOR" in general)
            pending = [words, {}, None]
            continue
        name = words[0].strip("<>").upper().replace("RECODABLE", "RECODEABLE")
        which = words[1].strip("<>").upper().replace("COSTVAR", "COST") if len(words) > 1 else ""
        if name == "NUMERIC" and which in _NUMERIC:
            name, words = which, words[:1]
        if not pending:
            general[name] = tuple(words[1:])
        elif name in KINDS:
            pending[2] = name
            pending[1] |= {name: tuple(words[1:])} if words[1:] else {}
        elif name in ("SAFE", "UNSAFE", "PROTECT"):
            general[name] = tuple(words[1:])
        else:
            pending[1][name] = tuple(words[1:])
        if not re.fullmatch(r"<\w+>", words[0]):
            raise DataError(f"{path.name}, line {number}: expected a word in angle brackets")
    columns += _finished(pending, path, "SEPARATOR" in general)
    if not columns:
        raise DataError(f"{path.name}: the file names no columns")
    return Metadata(tuple(columns), general)


def _finished(pending: list[Any], path: Path, separated: bool) -> list[RdaColumn]:
    if not pending:
        return []
    words, settings, kind = pending
    if kind is None:
        raise DataError(f"{path.name}: column {words[0]!r} has no kind ({', '.join(KINDS[:5])} …)")
    places = [int(word) for word in words[1:3]] if all(word.isdigit() for word in words[1:3]) else []
    fixed = len(places) == 2 and not separated
    return [
        RdaColumn(
            words[0],
            kind,
            places[0] if fixed else None,
            places[1] if fixed else None,
            tuple(words[3:] if fixed else words[2:]),
            settings,
        )
    ]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file in UTF-8, or in the Western code page that Windows programs write."""
    if not path.is_file():
        raise PlanError(f"no file {str(path)!r}")
    return text_lines(path)


def filled_lines(path: Path) -> tuple[list[int], list[str]]:
    """Read the lines that are not blank, with their numbers in the file."""
    numbered = [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    return [number for number, _ in numbered], [line for _, line in numbered]


def parsed_numbers(
    texts: Sequence[str], lines: Sequence[int], column: RdaColumn, file: str, gaps: Collection[str] = ("",)
) -> list[float | None]:
    """Read a column of numbers, with decimal points or commas; `gaps` and the column's missing codes are missing."""
    gone = {*gaps, *column.missing}
    found: list[float | None] = []
    for text, line in zip(texts, lines, strict=True):
        try:
            number = None if text in gone else float(text.replace(",", "."))
        except ValueError:
            number = float("nan")
        if number is not None and not isfinite(number):
            raise DataError(f"{file}, line {line}: column {column.name!r} holds something that is not a number")
        found.append(number)
    return found


def check_writable(dim: Dimension) -> None:
    """Refuse codes that would come back as others from a file whose columns are trimmed."""
    for code in dim.codes:
        if code != code.strip() or not code or re.search(r"[\r\n]", code):
            raise PlanError(
                f"variable {dim.name!r}: the code {code!r} cannot be written; codes must not be empty, have blanks at "
                "their ends or line breaks"
            )


def to_text(metadata: Metadata) -> str:
    """Write metadata as the content of an .rda file."""
    lines = [f"<{name}> {_words(values)}" for name, values in metadata.settings.items()]
    for column in metadata.columns:
        if re.search(r'[\s"<>]', column.name):
            raise PlanError(f"column {column.name!r}: names in .rda files have no blanks, quotes or angle brackets")
        place = f" {column.start} {column.width}" if column.start is not None else ""
        lines.append(f"{column.name}{place}{''.join(f' {code}' for code in column.missing)}")
        lead = "<NUMERIC> " if column.kind in _NUMERIC else ""
        lines.append(f"  {lead}<{column.kind}>{_words(column.settings.get(column.kind, ()), ' ')}")
        lines += [f"  <{name}> {_words(v)}".rstrip() for name, v in column.settings.items() if name != column.kind]
    return "\n".join(lines) + "\n"


def _words(values: Sequence[str], lead: str = "") -> str:
    written = " ".join(value if re.fullmatch(r"[\d.]+", value) else f'"{value}"' for value in values)
    return lead + written if written else ""


def hierarchy_settings(dim: Dimension, stem: Path) -> tuple[dict[str, tuple[str, ...]], dict[Path, str]]:
    """Give the settings of a classifying column, and the .hrc file beside it where its tree has several levels."""
    if len(dim.parents) > 1:
        raise PlanError(f"variable {dim.name!r} has {len(dim.parents)} hierarchies; τ-ARGUS knows one for each")
    check_writable(dim)
    if '"' in dim.total:
        raise PlanError(f"variable {dim.name!r}: the code of the total cannot have quotes in an .rda file")
    settings: dict[str, tuple[str, ...]] = {"TOTCODE": (dim.total,)}
    if dim.height < 2:
        return settings, {}
    file = stem.with_name(f"{stem.name}_{dim.name}.hrc")
    settings |= {"HIERARCHICAL": (), "HIERCODELIST": (file.name,), "HIERLEADSTRING": ("@",)}
    return settings, {file: "\n".join(to_lines(dim, total=False)) + "\n"}


def dimension_of(column: RdaColumn, codes: Sequence[str], folder: Path) -> Dimension:
    """Build a classifying variable: from its .hrc file, from levels in its digits, or flat."""
    settings, total = column.settings, column.total
    leaves = [code for code in dict.fromkeys(codes) if code != total]
    if "HIERCODELIST" in settings:
        name = settings["HIERCODELIST"][0].replace("\\", "/")
        lead = (settings.get("HIERLEADSTRING") or ("@",))[0]
        file = Path(name) if Path(name).is_file() else folder / Path(name).name
        return from_lines(column.name, read_lines(file), total, lead, file.name)
    if "HIERLEVELS" in settings:
        return _by_digits(column, leaves, total)
    return Dimension.flat(column.name, leaves, total)


def _by_digits(column: RdaColumn, leaves: Sequence[str], total: str) -> Dimension:
    words = column.settings["HIERLEVELS"]
    if not words or not all(word.isdigit() for word in words):
        raise DataError(f"column {column.name!r}: <HIERLEVELS> takes the numbers of characters of each level")
    widths = [int(word) for word in words if int(word) > 0]
    edges: dict[tuple[str, str], None] = {}
    for code in sorted(code for code in leaves if len(code) == sum(widths)):
        above, end = total, 0
        for width in widths:
            end += width
            edges[(above, code[:end])] = None
            above = code[:end]
    if not edges:
        raise DataError(f"column {column.name!r}: no code has the {sum(widths)} characters that <HIERLEVELS> says")
    return Dimension.from_edges(column.name, list(edges), total)
