"""Files of τ-ARGUS: microdata (.asc) and tables (.tab) with their .rda and .hrc files, in and out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.write import write_text
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.tables.cells import mark_cells
from discretion.tables.dimensions import TOTAL, Dimension, from_lines, text_lines, to_lines
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.cells import Cells

KINDS = (
    "RECODEABLE", "NUMERIC", "WEIGHT", "HOLDING", "REQUEST", "FREQUENCY", "MAXSCORE", "LOWERPL", "UPPERPL", "STATUS",
    "SHADOW", "COST", "RECORDKEY",
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


# A-priori files of τ-ARGUS (.hst): what is known about single cells before protection.


_SIGNS = {
    "u": 0, "s": 0, "p": 0, "z": 0, "m": 0, "ml": 0, "c": 1, "w": 1, "pl": 2,
}  # fmt: skip
"""What may stand behind the codes, and how many numbers follow it; z is sdcTable's word for p, w for c."""


def write_history(cells: Cells, path: str | Path, *, separator: str = ",", overwrite: bool = False) -> None:
    """Write what is decided about cells: codes, then u (sensitive), m (suppressed for others), s (safe), p (must be
    published), `c,cost` or `pl,lower,upper` (required levels of a sensitive cell). One line for each; internal."""
    for dim in cells.dims:
        check_writable(dim)
    status = cells.status
    lines: list[list[Any]] = []
    marks = {"u": status.primary, "m": status.secondary & ~status.primary, "s": status.safe, "p": status.must_publish}
    told = np.logical_or.reduce(list(marks.values()))
    for cell in np.flatnonzero(told | (status.cost is not None)).tolist():
        codes = list(cells.label(cell).values())
        lines += [[*codes, sign] for sign, holds in marks.items() if holds[cell]]
        levels = numbers(np.array([status.lower_required[cell], status.upper_required[cell]]))
        if status.primary[cell] and any(levels):
            lines.append([*codes, "pl", *levels])
        if status.cost is not None:
            lines.append([*codes, "c", *numbers(status.cost[[cell]])])
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(lines)
    write_text(Path(path), buffer.getvalue(), overwrite=overwrite, private=True)


def read_history(cells: Cells, path: str | Path, *, separator: str | None = None) -> Cells:
    """Give the table with the decisions of an a-priori file; cells it does not name stay as they are.

    The separator is found from the first line: a comma, a semicolon or a tab.
    """
    path = Path(path)
    lines, texts = filled_lines(path)
    sign = separator or _separator(texts[0] if texts else "", len(cells.dims))
    cost = np.ones(len(cells)) if cells.status.cost is None else cells.status.cost.copy()
    lower, upper = cells.lower_required.copy(), cells.upper_required.copy()
    marked: dict[str, list[int]] = {"s": [], "u": [], "p": [], "m": []}
    costs = False
    for line, text in zip(lines, texts, strict=True):
        cell, word, amounts = _read_line(cells, text, sign, f"{path.name}, line {line}")
        if word in marked:
            marked[word].append(cell)
        elif word == "c":
            cost[cell], costs = amounts[0], True
        else:
            lower[cell], upper[cell] = amounts
    for word, decision in (("s", "safe"), ("u", "unsafe"), ("p", "must-publish")):
        if marked[word]:
            cells = mark_cells(cells, marked[word], decision)  # type: ignore[arg-type]
    changes: dict[str, Any] = {"cost": cost} if costs else {}
    if marked["m"]:
        others = np.zeros(len(cells), np.bool_)
        others[marked["m"]] = True
        changes["secondary"] = cells.secondary | (others & ~cells.primary)
    sensitive = cells.primary
    return cells.with_status(
        lower_required=np.where(sensitive, lower, 0.0), upper_required=np.where(sensitive, upper, 0.0), **changes
    )


def _separator(first: str, d: int) -> str:
    for sign in (",", ";", "\t"):
        words = next(csv.reader([first], delimiter=sign), [])
        if len(words) > d and words[d].strip().lower() in _SIGNS:
            return sign
    return ";" if ";" in first else ","


def _read_line(cells: Cells, text: str, separator: str, where: str) -> tuple[int, str, list[float]]:
    """Give the cell a line is about, the decision, and its numbers."""
    d = len(cells.dims)
    words = [word.strip() for word in next(csv.reader([text], delimiter=separator))]
    sign = words[d].lower() if len(words) > d else ""
    if sign not in _SIGNS or len(words) != d + 1 + _SIGNS[sign]:
        raise DataError(f"{where}: expected {d} codes and one of {', '.join(_SIGNS)} with its numbers")
    try:
        cell = cells.index(dict(zip((dim.name for dim in cells.dims), words[:d], strict=True)))
    except DiscretionError as error:
        raise DataError(f"{where}: {error}") from None
    try:
        amounts = [float(word if separator == "," else word.replace(",", ".")) for word in words[d + 1 :]]
    except ValueError:
        amounts = [float("nan")]
    if not all(np.isfinite(amount) and amount >= 0 for amount in amounts):
        raise DataError(f"{where}: expected numbers of at least 0 after {sign!r}")
    return cell, {"z": "p", "ml": "m", "w": "c"}.get(sign, sign), amounts


@dataclass(frozen=True, eq=False)
class ArgusMicrodata:
    """Records read from τ-ARGUS files, and what their columns are."""

    data: Dataset
    by: tuple[str, ...]
    """classifying columns"""
    values: tuple[str, ...]
    """numeric columns"""
    hierarchies: Mapping[str, Dimension]
    weight: str | None = None
    contributor: str | None = None
    """the holding indicator: which records belong to one respondent"""
    requests: str | None = None
    """the request indicator, as true and false: whose respondents asked for protection"""
    record_key: str | None = None
    """the keys of records, for perturbation by cell keys"""

    def tabulate(self, by: Sequence[str], value: str | None = None, **options: Any) -> Cells:
        """Make a table with the hierarchies, weights and holdings of the files; see `dc.tabulate`."""
        from discretion.tables.tabulate import tabulate

        trees = {name: tree for name, tree in self.hierarchies.items() if name in by}
        known = {
            "hierarchies": trees,
            "weight": self.weight or False,
            "contributor": self.contributor,
            "requests": self.requests,
            "record_key": self.record_key,
        }
        return tabulate(self.data, by, value, **{**known, **options})


def write_argus_microdata(
    data: Any,
    path: str | Path,
    by: Sequence[str],
    values: Sequence[str] = (),
    *,
    hierarchies: Mapping[str, Any] | None = None,
    weight: str | None = None,
    contributor: str | None = None,
    missing: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Write records for τ-ARGUS: `path` (.asc) in columns of fixed width, .rda with their meaning, .hrc hierarchies.

    Missing codes are written as `missing` (default: as many blanks as the column is wide). Gives the files written.
    They are internal: they hold the records.
    """
    data = Dataset.of(data, "microdata for τ-ARGUS")
    stem = Path(path).with_suffix("")
    names = [*by, *values, *([weight] if weight else []), *([contributor] if contributor else [])]
    data.require(names)
    columns, texts, start = [], [], 1
    files: dict[Path, str] = {}
    for name in names:
        number = name in values or name == weight
        written = _numbers(data, name) if number else _codes(data, name, missing)
        width = max(map(len, written), default=1) or 1
        kind = (
            "WEIGHT" if name == weight else "HOLDING" if name == contributor else "NUMERIC" if number else "RECODEABLE"
        )
        settings: dict[str, tuple[str, ...]] = {}
        if kind == "RECODEABLE":
            spec = (hierarchies or {}).get(name)
            dim = Dimension.of(name, spec) if spec is not None else Dimension.flat(name, ["-"])
            settings, extra = hierarchy_settings(dim, stem)
            files |= extra
        elif number:
            settings = {"DECIMALS": (str(max((len(t.partition(".")[2]) for t in written), default=0)),)}
        columns.append(
            RdaColumn(name, kind, start, width, (missing,) if missing and kind == "RECODEABLE" else (), settings)
        )
        texts.append([text.rjust(width) if number else text.ljust(width) for text in written])
        start += width
    files[stem.with_suffix(".rda")] = to_text(Metadata(tuple(columns)))
    files[stem.with_suffix(".asc")] = "".join("".join(row) + "\n" for row in zip(*texts, strict=True))
    for file, text in files.items():
        write_text(file, text, overwrite=overwrite, private=True)
    return list(files)


def _codes(data: Dataset, name: str, missing: str) -> list[str]:
    values = [None if value is None else canonical(value) for value in data.frame[name].to_list()]
    for text in {value for value in values if value is not None}:
        if re.search(r"[\r\n]", text) or text != text.strip() or text in ("", missing):
            raise DataError(
                f"column {name!r}: codes that are empty or the missing code, or have line breaks or blanks at their "
                "ends, cannot be written in fixed width"
            )
    return [missing if value is None else value for value in values]


def _numbers(data: Dataset, name: str) -> list[str]:
    found = data.numbers([name])[:, 0]
    return [
        "" if np.isnan(v) else str(int(v)) if v == np.round(v) and abs(v) < 2**53 else repr(float(v)) for v in found
    ]


def read_argus_microdata(path: str | Path) -> ArgusMicrodata:
    """Read records written for τ-ARGUS: the .rda file with the .asc file of the same name (or the other way round)."""
    import polars as pl

    rda = Path(path).with_suffix(".rda")
    metadata = read_rda(rda)
    file = Path(path) if Path(path).suffix.lower() not in ("", ".rda") else rda.with_suffix(".asc")
    lines, filled = filled_lines(file)
    texts = _split(metadata, lines, filled, file.name)
    columns: dict[str, Any] = {}
    for column in metadata.columns:
        if column.kind in ("NUMERIC", "WEIGHT", "SHADOW", "COST", "RECORDKEY"):
            columns[column.name] = parsed_numbers(texts[column.name], lines, column, file.name)
        elif column.kind == "REQUEST":
            asked = set(column.settings.get("REQUEST", ()))
            columns[column.name] = [text in asked for text in texts[column.name]]
        else:
            gone = {"", *column.missing}
            columns[column.name] = [None if text in gone else text for text in texts[column.name]]
    by = metadata.of_kind("RECODEABLE")
    hierarchies = {
        column.name: dimension_of(column, [t for t in columns[column.name] if t is not None], rda.parent)
        for column in by
        if "HIERCODELIST" in column.settings or "HIERLEVELS" in column.settings
    }
    single = (metadata.of_kind(kind) for kind in ("WEIGHT", "HOLDING", "REQUEST", "RECORDKEY"))
    return ArgusMicrodata(
        Dataset(pl.DataFrame(columns, strict=False)),
        tuple(column.name for column in by),
        tuple(column.name for column in metadata.of_kind("NUMERIC")),
        hierarchies,
        *(found[0].name if found else None for found in single),
    )


def _split(metadata: Metadata, lines: list[int], texts: list[str], name: str) -> dict[str, list[str]]:
    if metadata.separator is not None:
        rows = [text.split(metadata.separator) for text in texts]
        for line, row in zip(lines, rows, strict=True):
            if len(row) != len(metadata.columns):
                raise DataError(f"{name}, line {line}: {len(row)} columns, not {len(metadata.columns)}")
        return {c.name: [row[k].strip() for row in rows] for k, c in enumerate(metadata.columns)}
    found = {}
    for column in metadata.columns:
        if column.start is None or column.width is None:
            raise PlanError(f"column {column.name!r}: the .rda file says neither its place nor a separator")
        start = column.start - 1
        found[column.name] = [text[start : start + column.width].strip() for text in texts]
    return found


_WORDS = {"SAFE": "S", "UNSAFE": "U", "PROTECT": "P"}


def write_argus_table(cells: Cells, path: str | Path, *, separator: str = ";", overwrite: bool = False) -> list[Path]:
    """Write a table for τ-ARGUS: `path` (.tab) with the cells, .rda with their meaning, .hrc for each hierarchy.

    Columns are the codes, the value, the respondents, the largest contributions, required levels and the status: S
    (safe), U (sensitive), M (suppressed for others), P (must be published). One table; of several hierarchies over one
    variable none can be written. Gives the files written. They are internal.
    """
    if len(cells.tables) > 1:
        raise PlanError("τ-ARGUS takes one table in a file; tabulate linked tables one by one")
    stem = Path(path).with_suffix("")
    files: dict[Path, str] = {}
    columns = []
    for dim in cells.dims:
        settings, extra = hierarchy_settings(dim, stem)
        columns.append(RdaColumn(dim.name, "RECODEABLE", settings=settings))
        files |= extra
    name = cells.response.name if not cells.response.frequency else "value"
    t = cells.top.shape[1]
    columns += [RdaColumn(name, "NUMERIC", settings={"DECIMALS": (str(_decimals(cells)),)})]
    columns += [RdaColumn("respondents", "FREQUENCY")] if cells.response.counted else []
    columns += [RdaColumn(f"top_{k + 1}", "MAXSCORE") for k in range(t)]
    columns += [RdaColumn("lower", "LOWERPL"), RdaColumn("upper", "UPPERPL"), RdaColumn("status", "STATUS")]
    general = {"SEPARATOR": (separator,), **{word: (sign,) for word, sign in _WORDS.items()}}
    files[stem.with_suffix(".rda")] = to_text(Metadata(tuple(columns), general))
    files[stem.with_suffix(".tab")] = _lines(cells, separator)
    for file, text in files.items():
        write_text(file, text, overwrite=overwrite, private=True)
    return list(files)


def _decimals(cells: Cells) -> int:
    value = cells.value[~np.isnan(cells.value)]
    for digits in range(7):
        if np.allclose(np.round(value, digits), value, rtol=0, atol=1e-9):
            return digits
    return 6


def _lines(cells: Cells, separator: str) -> str:
    if np.isnan(cells.value).any():
        raise DataError("some cells have no value; τ-ARGUS needs the true value of every cell")
    status = cells.status
    labels = [np.array(dim.codes, dtype=object)[cells.codes[:, j]].tolist() for j, dim in enumerate(cells.dims)]
    words = np.select([cells.primary, cells.secondary, status.must_publish], ["U", "M", "P"], "S").tolist()
    columns = [*labels, numbers(cells.value)]
    columns += [cells.count.tolist()] if cells.response.counted else []
    columns += [numbers(cells.top[:, k]) for k in range(cells.top.shape[1])]
    columns += [numbers(status.lower_required), numbers(status.upper_required), words]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(zip(*columns, strict=True))
    return buffer.getvalue()


def read_argus_table(path: str | Path) -> Cells:
    """Read a table written for τ-ARGUS: the .rda file, with the .tab file of the same name (or the other way round).

    Lines of empty cells (status E, or none) are left out, as τ-ARGUS does: cells that are not there are empty.
    """
    import polars as pl

    from discretion.tables.ready import from_cells

    rda = Path(path).with_suffix(".rda")
    metadata = read_rda(rda)
    separator = metadata.separator
    if separator is None:
        raise DataError(f"{rda.name}: a table needs <SEPARATOR>")
    file = _data_file(Path(path))
    lines, rows = _rows(file, separator, len(metadata.columns))
    values = {column.name: [row[k] for row in rows] for k, column in enumerate(metadata.columns)}
    by = metadata.of_kind("RECODEABLE")
    numeric_kinds = [column for column in metadata.columns if column.kind not in ("RECODEABLE", "STATUS")]
    figures = {c.name: parsed_numbers(values[c.name], lines, c, file.name, ("", "-")) for c in numeric_kinds}
    values, figures, lines = _filled(metadata, values, figures, lines, file.name)
    types = dict.fromkeys(figures, pl.Float64) | {name: pl.String for name in values if name not in figures}
    frame = pl.DataFrame({name: figures.get(name, texts) for name, texts in values.items()}, schema=types)
    numeric = metadata.of_kind("NUMERIC")
    frequency = metadata.of_kind("FREQUENCY")
    if not by or not (numeric or frequency):
        raise DataError(f"{rda.name}: a table needs classifying columns and a value or frequency")
    same = numeric and frequency and (frame[numeric[0].name] == frame[frequency[0].name]).all()
    cells = from_cells(
        frame.with_columns(_states(metadata, values, lines, file.name)),
        [column.name for column in by],
        None if same or not numeric else numeric[0].name,
        count=frequency[0].name if frequency else None,
        top=[column.name for column in metadata.of_kind("MAXSCORE")],
        status="_state",
        hierarchies={column.name: dimension_of(column, values[column.name], rda.parent) for column in by},
    )
    return _with_levels(cells, metadata, frame)


def _data_file(path: Path) -> Path:
    if path.suffix.lower() not in ("", ".rda"):
        return path
    for suffix in (".tab", ".csv", ".txt"):
        if path.with_suffix(suffix).is_file():
            return path.with_suffix(suffix)
    raise PlanError(f"no file {path.with_suffix('.tab').name!r} beside {path.name!r}")


def _rows(file: Path, separator: str, width: int) -> tuple[list[int], list[list[str]]]:
    """Split the lines of a table at a separator; give their numbers with them."""
    lines, texts = filled_lines(file)
    if len(separator) != 1:
        raise DataError(f"{file.stem}.rda: <SEPARATOR> must be one sign, not {separator!r}")
    rows = [[item.strip() for item in next(csv.reader([text], delimiter=separator))] for text in texts]
    for line, row in zip(lines, rows, strict=True):
        if len(row) != width:
            raise DataError(f"{file.name}, line {line}: {len(row)} columns, not {width}")
    return lines, rows


def _filled(
    metadata: Metadata, texts: dict[str, list[str]], figures: dict[str, list[float | None]], lines: list[int], file: str
) -> tuple[dict[str, list[str]], dict[str, list[float | None]], list[int]]:
    """Leave out the lines of empty cells."""
    status = metadata.of_kind("STATUS")
    keep = [not status or texts[status[0].name][k].upper() not in ("E", "") for k in range(len(lines))]
    for column in metadata.of_kind("NUMERIC", "FREQUENCY"):
        for line, there, figure in zip(lines, keep, figures[column.name], strict=True):
            if not there and figure:
                raise DataError(f"{file}, line {line}: the status says empty, but {column.name!r} is not 0")

    def chosen(column: list[Any]) -> list[Any]:
        return [item for item, there in zip(column, keep, strict=True) if there]

    return {k: chosen(v) for k, v in texts.items()}, {k: chosen(v) for k, v in figures.items()}, chosen(lines)


def _states(metadata: Metadata, values: dict[str, list[str]], lines: list[int], file: str) -> pl.Series:
    import polars as pl

    status = metadata.of_kind("STATUS")
    height = len(next(iter(values.values())))
    if not status:
        return pl.Series("_state", [""] * height)
    meaning = {(metadata.settings.get(word) or (sign,))[0].lower(): word for word, sign in _WORDS.items()}
    meaning.setdefault("m", "SECONDARY")
    known = {"SAFE": "s", "UNSAFE": "u", "PROTECT": "z", "SECONDARY": "x"}
    words = [meaning.get(word.lower()) for word in values[status[0].name]]
    if None in words:
        line = lines[words.index(None)]
        raise DataError(f"{file}, line {line}: the status in {status[0].name!r} is none of {', '.join(meaning)}")
    return pl.Series("_state", [known[word] for word in words if word])


def _with_levels(cells: Cells, metadata: Metadata, table: pl.DataFrame) -> Cells:
    by = [column.name for column in metadata.of_kind("RECODEABLE")]
    codes = np.column_stack([cells.dims[j].find(table[name].to_list()) for j, name in enumerate(by)])
    place = cells.find(codes)
    changes = {}
    for kind, name in (("LOWERPL", "lower_required"), ("UPPERPL", "upper_required")):
        for column in metadata.of_kind(kind):
            level = np.zeros(len(cells))
            level[place] = np.nan_to_num(table[column.name].to_numpy().astype(np.float64))
            changes[name] = np.where(cells.primary, level, 0.0)
    return cells.with_status(**changes) if changes else cells
