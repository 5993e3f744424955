"""Data in: files of every format, databases and standard input, with roles, types and hierarchies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discretion.data.database import Address, parse_url, read_database
from discretion.data.dataset import Dataset
from discretion.data.files import VariableLabels, read_arrow, read_excel, read_json, read_labelled, read_parquet
from discretion.data.schema import Schema
from discretion.data.text import (
    Dialect,
    Format,
    Given,
    TextSource,
    check_unique,
    choose_columns,
    existing_file,
    format_of,
    is_url,
    not_numbers,
    read_text,
)
from discretion.errors import DataError, PlanError, unknown

if TYPE_CHECKING:
    import polars as pl

Report = Callable[[str], object]


def read(
    source: str | Path,
    *,
    roles: Mapping[str, object] | None = None,
    types: Mapping[str, object] | None = None,
    hierarchies: Mapping[str, object] | None = None,
    missing_codes: Mapping[str, object] | None = None,
    orders: Mapping[str, Sequence[object]] | None = None,
    format: str | None = None,  # noqa: A002 - the public name of the option
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    quote: str | None = None,
    sheet: str | int | None = None,
    table: str | None = None,
    query: str | None = None,
    columns: Sequence[str] | None = None,
    report: Report | None = None,
) -> Dataset:
    """Read a file, a database table or query, or (as CSV) standard input with `-`.

    Formats: CSV, TSV and other delimited text (also gzipped), Parquet, Arrow and Feather, Excel, JSON lines
    and JSON, Stata, SPSS, SAS (with labels); `duckdb:///file?table=t`, `sqlite:///file`,
    `postgresql://user@host/base` with `table` or `query` (a single SELECT).
    The delimiter, decimal sign, encoding, header and quotes of text are found out unless they are given;
    `report` is called with one sentence that says what was found. Types are found out over the whole file:
    numbers, `true` and `false`, ISO dates; anything else is text, also digits with a leading zero. An empty
    cell is missing; no other text is, unless `missing_codes` lists it. Cells of columns of type `set` are
    split at `|`.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.read("census.csv", roles={"age": "quasi", "income": "sensitive"})  # doctest: +SKIP
    """
    schema = Schema.build(roles, types, hierarchies, missing_codes, orders)
    given = Given(delimiter, decimal, encoding, header, quote)
    given.check()
    if columns is not None and isinstance(columns, str):
        columns = [columns]
    if columns is not None:
        check_unique("columns=", list(columns))
    return _read(_Options(source, format, given, sheet, table, query, columns, report), schema)


def read_as(
    source: str | Path, schema: Schema, *, partial: bool = False, report: Report | None = None, **options: Any
) -> Dataset:
    """Read with a schema that is ready; `partial` leaves out its columns that the file does not have."""
    dialect = {field.name: options.pop(field.name, None) for field in fields(Given)}
    given = Given(**dialect)
    given.check()
    rest = {name: options.pop(name, None) for name in ("format", "sheet", "table", "query", "columns")}
    if options:
        raise PlanError([f"data: {unknown('option', name, [*dialect, *rest])}" for name in options])
    return _read(_Options(source, given=given, report=report, **rest), schema, partial=partial)


def _read(options: _Options, schema: Schema, *, partial: bool = False) -> Dataset:
    frame, labels, dialect = options.load(schema)
    if not frame.height:
        raise DataError(f"{options.name} has a header but no rows")
    if partial:
        schema = schema.only(frame.columns)
    if not partial:
        check_numbers(frame, schema)
    data = Dataset(_split_sets(frame, schema), schema=schema if labels is None else labels.put_into(schema))
    data.came_from, data.dialect = options.for_plan(), dialect
    return data


@dataclass(frozen=True)
class _Options:
    """What to read, and how."""

    source: str | Path
    format: str | None
    given: Given
    sheet: str | int | None
    table: str | None
    query: str | None
    columns: Sequence[str] | None
    report: Report | None

    @property
    def text(self) -> str:
        return str(self.source)

    @property
    def path(self) -> Path:
        return Path(self.source)

    def for_plan(self) -> Mapping[str, Any]:
        """Give the `data` entry of a plan that reads the same; nothing for standard input and URLs (passwords)."""
        if self.text == "-" or is_url(self.text):
            return MappingProxyType({})
        given = {field.name: getattr(self.given, field.name) for field in fields(self.given)}
        options = {"path": str(self.path.resolve()), "format": self.format, "sheet": self.sheet, **given}
        options["columns"] = None if self.columns is None else list(self.columns)
        return MappingProxyType({name: value for name, value in options.items() if value is not None})

    @property
    def name(self) -> str:
        """What messages call the source."""
        if is_url(self.text):
            return parse_url(self.text, None, None).name
        return "standard input" if self.text == "-" else repr(self.text)

    def load(self, schema: Schema) -> tuple[pl.DataFrame, VariableLabels | None, Dialect | None]:
        """Read the frame, its labels, and how its text was written."""
        if self.text == "-":
            if self.format is not None and format_of(self.path, self.format) != "csv":
                raise PlanError("only CSV can be read from standard input")
            self._check("csv")
            frame, dialect = self._delimited(TextSource("standard input", content=sys.stdin.buffer.read()), schema)
            return frame, None, dialect
        if is_url(self.text):
            self._check("postgresql")
            return self._chosen(read_database(parse_url(self.text, self.table, self.query))), None, None
        if not self.path.exists() or self.path.is_dir():
            existing_file(self.path)
        kind = self._kind()
        self._check(kind)
        existing_file(self.path)
        return self._file(kind, schema)

    def _kind(self) -> Format:
        """Give the format; a `.db` file says it in its first bytes."""
        if self.format is None and self.path.suffix.lower() == ".db":
            with self.path.open("rb") as handle:
                return "sqlite" if handle.read(15) == b"SQLite format 3" else "duckdb"
        return format_of(self.path, self.format)

    def _check(self, kind: Format) -> None:
        """Refuse options that the format does not have."""
        given = self.given
        problems = []
        if kind != "csv":
            problems += [
                f"{option}: only delimited text has one; {self.name} is read as {kind}"
                for option in ("delimiter", "decimal", "quote")
                if getattr(given, option) is not None
            ]
        if self.sheet is not None and kind != "excel":
            problems.append(f"sheet: only Excel files have sheets; {self.name} is read as {kind}")
        if (self.table or self.query) and kind not in ("duckdb", "sqlite", "postgresql"):
            problems.append(f"table, query: only databases have them; {self.name} is read as {kind}")
        if self.table and self.query:
            problems.append("give either table= or query=, not both")
        if problems:
            raise PlanError(problems)

    def _file(self, kind: Format, schema: Schema) -> tuple[pl.DataFrame, VariableLabels | None, Dialect | None]:
        path, dialect = self.path, None
        if kind in ("stata", "spss", "sas", "xpt"):
            return *read_labelled(path, kind, self.columns, self.given.encoding), None
        if kind == "csv":
            piped = not path.is_file()
            source = TextSource(self.name, content=path.read_bytes()) if piped else TextSource(self.name, path)
            frame, dialect = self._delimited(source, schema)
        elif kind == "parquet":
            frame = read_parquet(path, self.columns)
        elif kind == "arrow":
            frame = read_arrow(path, self.columns)
        elif kind == "excel":
            frame = self._chosen(read_excel(path, self.sheet, self.given.header))
        elif kind in ("json", "jsonl"):
            frame = self._chosen(read_json(path, lines=kind == "jsonl"))
        elif kind in ("duckdb", "sqlite"):
            address = Address(kind, path=path, table=self.table, query=self.query)
            frame = self._chosen(read_database(address))
        else:
            raise PlanError("give the address of the PostgreSQL database: postgresql://user@host/base?table=name")
        return frame, None, dialect

    def _delimited(self, source: TextSource, schema: Schema) -> tuple[pl.DataFrame, Dialect]:
        frame, dialect = read_text(source, self.given, schema, self.columns)
        if self.report is not None:
            self.report(dialect.sentence())
        return frame, dialect

    def _chosen(self, frame: pl.DataFrame) -> Any:
        return frame.select(choose_columns(self.name, frame.columns, self.columns))


def text_to_parquet(
    path: Path, target: Path, schema: Schema, given: Given | None = None, columns: Sequence[str] | None = None
) -> None:
    """Write a text file as Parquet with the values that `read` finds in it, a few rows at a time."""
    import polars as pl

    source = TextSource(repr(str(path)), path)
    known = Given() if given is None else given
    known.check()
    kinds = read_text(source, known, schema.only(columns) if columns else schema, columns, target)[0].schema
    declared = [name for name, kind in kinds.items() if kind == pl.String and schema[name].type == "continuous"]
    if sets := [name for name, kind in kinds.items() if kind == pl.String and schema[name].type == "set"]:
        raise PlanError(f"column {sets[0]!r} holds sets: text of sets is read in memory; write it as lists in Parquet")
    for name in declared:
        check_numbers(pl.read_parquet(target, columns=[name], glob=False), schema)


def check_numbers(frame: pl.DataFrame, schema: Schema) -> None:
    """Refuse text that is declared to be numbers, and is none."""
    import polars as pl

    declared = [
        name for name, column in schema.columns.items() if column.type == "continuous" and name in frame.columns
    ]
    texts = [name for name in declared if frame.schema[name] == pl.String and frame[name].null_count() < frame.height]
    if texts:
        raise DataError(
            "\n".join(f"column {name!r} has the type `continuous`, but {not_numbers(frame[name])}" for name in texts)
        )


def _split_sets(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Split the cells of text columns that are declared set-valued at `|`."""
    import polars as pl

    sets = [name for name, kind in frame.schema.items() if schema[name].type == "set" and kind == pl.String]
    return frame.with_columns(pl.col(name).str.split("|") for name in sets) if sets else frame
