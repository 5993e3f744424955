"""Tables for and from τ-ARGUS: a .tab file of cells with its .rda and .hrc files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discretion.data.atomic import write_text
from discretion.errors import DataError, PlanError
from discretion.tables.formats.rda import (
    Metadata,
    RdaColumn,
    dimension_of,
    filled_lines,
    hierarchy_settings,
    parsed_numbers,
    read_rda,
    to_text,
)
from discretion.tables.publish import numbers

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.cells import Cells

_WORDS = {"SAFE": "S", "UNSAFE": "U", "PROTECT": "P"}


def write_argus_table(cells: Cells, path: str | Path, *, separator: str = ";", overwrite: bool = False) -> list[Path]:
    """Write a table for τ-ARGUS: `path` (.tab) with the cells, .rda with their meaning, .hrc for each hierarchy.

    Columns are the codes, the value, the respondents, the largest contributions, required levels and the status: S
    (safe), U (sensitive; cells suppressed for others are U as well), P (must be published). One table; of several
    hierarchies over one variable none can be written. Gives the files written. They are internal.
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
    words = np.select([cells.primary | cells.secondary, status.must_publish], ["U", "P"], "S").tolist()
    columns = [*labels, numbers(cells.value)]
    columns += [cells.count.tolist()] if cells.response.counted else []
    columns += [numbers(cells.top[:, k]) for k in range(cells.top.shape[1])]
    columns += [numbers(status.lower_required), numbers(status.upper_required), words]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(zip(*columns, strict=True))
    return buffer.getvalue()


def read_argus_table(path: str | Path) -> Cells:
    """Read a table written for τ-ARGUS: the .rda file, with the .tab file of the same name (or the other way round)."""
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


def _states(metadata: Metadata, values: dict[str, list[str]], lines: list[int], file: str) -> pl.Series:
    import polars as pl

    status = metadata.of_kind("STATUS")
    height = len(next(iter(values.values())))
    if not status:
        return pl.Series("_state", [""] * height)
    meaning = {(metadata.settings.get(word) or (sign,))[0].lower(): word for word, sign in _WORDS.items()}
    known = {"SAFE": "s", "UNSAFE": "u", "PROTECT": "z"}
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
