"""Which format a file has: by its name, by its first bytes, or as the caller says."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Literal, get_args

from discretion.errors import DataError, PlanError, unknown

Format = Literal[
    "csv",
    "parquet",
    "arrow",
    "excel",
    "jsonl",
    "json",
    "stata",
    "spss",
    "sas",
    "xpt",
    "duckdb",
    "sqlite",
    "postgresql",
]
FORMATS: tuple[Format, ...] = get_args(Format)

EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "excel",
    ".xls": "excel",
    ".ods": "excel",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".sas7bdat": "sas",
    ".xpt": "xpt",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
"""File name extension → format; `.csv`, `.tsv` and `.txt` may be followed by `.gz`."""

_ALIASES: dict[str, Format] = {
    "tsv": "csv",
    "txt": "csv",
    "feather": "arrow",
    "ipc": "arrow",
    "xlsx": "excel",
}
_ALIASES |= {"ndjson": "jsonl", "dta": "stata", "sav": "spss", "sas7bdat": "sas", "postgres": "postgresql"}


def format_of(path: Path, format: str | None) -> Format:  # noqa: A002 - the public name of the option
    """Give the format the caller named, or the one the file name says."""
    if format is not None:
        named = format.lower().removeprefix(".")
        if named in FORMATS:
            return named
        if named in _ALIASES:
            return _ALIASES[named]
        raise PlanError(unknown("format", format, FORMATS))
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    found = EXTENSIONS.get(suffix)
    if found is None or (name.endswith(".gz") and found != "csv"):
        known = ", ".join([*EXTENSIONS, ".csv.gz"])
        raise PlanError(
            f"{str(path)!r}: the extension {''.join(path.suffixes[-2:]) or '(none)'} is not known; "
            f"known: {known}; or say which it is with format="
        )
    return found


def existing_file(path: Path) -> Path:
    """Raise unless the path is a file with something in it; a file of a similar name is suggested."""
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; name a file in it")
    if not path.exists():
        folder = path.parent
        if not folder.is_dir():
            raise DataError(f"no file {str(path)!r}: there is no folder {str(folder)!r}")
        names = [item.name for item in folder.iterdir() if item.is_file()]
        close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
        raise DataError(f"no file {str(path)!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    if not os.access(path, os.R_OK):
        raise DataError(f"{str(path)!r} may not be read; ask for permission to read it")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{str(path)!r} is empty")
    return path
