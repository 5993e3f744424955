"""What kind of values a text column holds, over all of its rows.

A first sample proposes a kind for each column; the whole file is then parsed with it, and a cell that does
not fit sends the column through another pass with a wider kind. Digits with a leading zero or plus sign, and
whole numbers too long to be exact, are text: they name things and must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from discretion.context import BATCH_ROWS

if TYPE_CHECKING:
    import polars as pl

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
