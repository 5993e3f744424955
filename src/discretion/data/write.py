"""Data out, in every format it can come in."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from discretion.data.database import Address, parse_url
from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.data.text import Dialect, Format, Given, format_of, is_url
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    import polars as pl


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Give a temporary file beside `path`, which takes its place if all goes well.

    The file is flushed to the disk before it takes the name. On any failure, also an interrupt from the
    keyboard, the temporary file is removed and a file that was there before stays as it was. A new file takes over who
    may read the old one; `private`: only the owner may, from the first byte on.
    """
    target = check_target(path, overwrite)
    temporary = target.with_name(f".{secrets.token_hex(6)}.{target.name}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666)
        os.close(descriptor)
        yield temporary
        if overwrite and target.exists() and not private:
            temporary.chmod(target.stat().st_mode & 0o7777)
        _flush(temporary)
        check_target(path, overwrite)
        os.replace(temporary, target)  # noqa: PTH105 - named so that tests can make it fail
        _flush_folder(target.parent)
    except OSError as error:
        raise _explain(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, overwrite: bool = False, private: bool = False) -> None:
    """Write a text file in UTF-8, whole or not at all; `private`: only the owner may read it."""
    with replacing(path, overwrite=overwrite, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def alone_beside(path: Path) -> Iterator[None]:
    """Keep other processes that ask for the same from changing files of the folder between reading and writing them."""
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or not path.parent.is_dir():
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def private_folder(parent: Path, prefix: str) -> Path:
    """Make a folder that only its owner can read; those of processes that were killed are removed first."""
    ours = re.compile(re.escape(prefix) + r"(\d+)-[^-]+")
    for left in list(parent.iterdir()):
        found = ours.fullmatch(left.name)
        if found and not _runs(int(found[1])) and left.is_dir() and left.stat().st_uid == os.getuid():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def check_target(path: Path, overwrite: bool) -> Path:
    """Raise unless a file can be put there: a folder, no folder above, or a file that may not be overwritten."""
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; name a file")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r}; make it first")
    if path.exists() and not overwrite:
        raise DataError(f"{str(path)!r} exists; overwrite=True replaces it")
    return path.resolve()


def _flush(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the new name last; some file systems cannot, and the file is in place in any case."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(path: Path, error: OSError) -> DataError:
    if error.errno == errno.ENOSPC:
        return DataError(f"{str(path)!r} was not written: the disk is full; nothing was changed")
    reason = error.strerror or type(error).__name__
    return DataError(f"{str(path)!r} was not written: {reason}; nothing was changed")


_BATCH = 100_000


def write(
    data: Any,
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the public name of the option
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    overwrite: bool = False,
    sheet: str | None = None,
    table: str | None = None,
) -> None:
    """Write a Dataset or a frame to a file, a database table, or (as CSV) to standard output with `-`.

    The file appears whole or not at all. An existing one is kept unless `overwrite`. Missing values are empty
    cells (and an empty text is read back as missing); set-valued columns are joined with `|` where the format
    has no lists. The delimiter, the decimal sign and the writing of true and false are those of the text file that the
    data was read from; for data from elsewhere a comma, a point and small letters (a tab in `.tsv` files). Labels of
    variables and values stay in Stata and SPSS files (in SAS transport files those of variables), and in SPSS files
    which values stand for missing ones in a column that no step changed; value labels of a column whose values are of
    another type by now are left out. The same data gives the same bytes in every file format: times of writing in
    headers are replaced by a fixed one. Database files are not stable in this sense.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.write(pl.DataFrame({"age": [30, 41]}), "-")
    age
    30
    41
    """
    Given(delimiter, decimal, encoding).check()
    frame, schema, changed = _take(data)
    text = str(path)
    read_as = (data.dialect if isinstance(data, Dataset) else None) or Dialect()
    if delimiter is None:
        delimiter = "\t" if text.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else read_as.delimiter
        decimal = decimal or (read_as.decimal if delimiter != "," else ".")
    style = Dialect(delimiter, decimal or ".", encoding, truth=read_as.truth)  # type: ignore[arg-type]
    place = _place(path, format, sheet, table)
    if text == "-":
        _to_stdout(frame, style)
    elif isinstance(place, Address):
        from discretion.data.database import write_database

        plain = frame if place.engine == "duckdb" else _plain(frame, lists=False)
        write_database(plain, place, overwrite=overwrite)
    else:
        with replacing(Path(path), overwrite=overwrite) as temporary:
            _to_file(frame, place, temporary, schema, changed, style, sheet)


def check_output(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise what `write` would raise about the place and the format, before the work that makes the data."""
    place = _place(path, None, None, None)
    if isinstance(place, Address):
        from discretion.data.database import check_address

        check_address(place)
    elif str(path) != "-":
        check_target(Path(path), overwrite)


def _place(path: str | Path, format: str | None, sheet: str | None, table: str | None) -> Format | Address:  # noqa: A002
    """Give the format of a file (of standard output: CSV), or the address of a database; refuse what does not fit."""
    text, target = str(path), Path(path)
    if text == "-":
        if format is not None and format_of(target, format) != "csv":
            raise PlanError("only CSV can be written to standard output")
        return "csv"
    if is_url(text):
        return parse_url(text, table, None)
    kind = format_of(target, format)
    if kind in ("duckdb", "sqlite"):
        return Address(kind, path=target, table=table)
    _check_options(kind, target, sheet, table)
    return kind


def _take(data: Any) -> tuple[pl.DataFrame, Schema, frozenset[str]]:
    """Give the frame to write (untouched columns as they came in, if they came in as polars) and what was changed."""
    import polars as pl

    changed: frozenset[str] = frozenset()
    if isinstance(data, Dataset):
        native, changed = data.to_native(), data.changed
        frame, schema = (native if isinstance(native, pl.DataFrame) else data.frame), data.schema
    else:
        from discretion.data.native import take_in

        frame, schema = take_in(data)[0], Schema()
    if not frame.width:
        raise DataError("the data has no columns; there is nothing to write")
    return frame, schema, changed


def _check_options(kind: Format, target: Path, sheet: str | None, table: str | None) -> None:
    problems = []
    if kind == "sas":
        problems.append("SAS data is written as a transport file; name it .xpt")
    if kind == "excel" and target.suffix.lower() in (".xls", ".ods"):
        problems.append("Excel is written as .xlsx")
    if kind == "postgresql":
        problems.append("give the address of the PostgreSQL database: postgresql://user@host/base?table=name")
    if sheet is not None and kind != "excel":
        problems.append(f"sheet: only Excel files have sheets; {target.name!r} has none")
    if table is not None:
        problems.append(f"table: only databases have tables; {target.name!r} has none")
    if problems:
        raise PlanError(problems)


def _to_file(
    frame: pl.DataFrame,
    kind: Format,
    temporary: Path,
    schema: Schema,
    changed: frozenset[str],
    style: Dialect,
    sheet: str | None,
) -> None:
    import polars as pl

    try:
        if kind == "csv":
            with temporary.open("wb") as handle:
                if temporary.suffix == ".gz":
                    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=handle, mtime=0) as packed:
                        _to_text(_plain(frame, lists=False), packed, style)  # type: ignore[arg-type]
                else:
                    _to_text(_plain(frame, lists=False), handle, style)
        elif kind in ("stata", "spss", "xpt"):
            from discretion.data.files import VariableLabels, write_labelled

            write_labelled(
                _simple(_plain(frame, lists=False)), kind, temporary, VariableLabels.of(schema, frame, changed)
            )
        else:
            from discretion.data.files import write_binary

            if kind == "excel":
                frame = _simple(_plain(frame, lists=False))
            elif kind in ("json", "jsonl"):
                frame = _plain(frame, lists=True)
            write_binary(frame, kind, temporary, sheet)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"the data cannot be written as {kind} ({type(error).__name__}); try Parquet") from None


def _to_stdout(frame: pl.DataFrame, style: Dialect) -> None:
    plain = _plain(frame, lists=False)
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        sys.stdout.write(plain.write_csv(separator=style.delimiter, decimal_comma=style.decimal == ","))
        return
    _to_text(plain, raw, style)
    raw.flush()


def _to_text(frame: pl.DataFrame, handle: IO[bytes], style: Dialect) -> None:
    """Write delimited text, some rows at a time."""
    from codecs import lookup

    import polars as pl

    if style.truth != "true":
        word = pl.col(pl.Boolean).cast(pl.String)
        frame = frame.with_columns(word.str.to_uppercase() if style.truth == "TRUE" else word.str.to_titlecase())

    is_utf8 = lookup(style.encoding).name == "utf-8"
    if style.encoding == "utf-8-sig":
        handle.write(b"\xef\xbb\xbf")
        is_utf8 = True
    for start in range(0, max(frame.height, 1), _BATCH):
        part = frame.slice(start, _BATCH)
        text = part.write_csv(separator=style.delimiter, decimal_comma=style.decimal == ",", include_header=start == 0)
        try:
            handle.write(text.encode("utf-8" if is_utf8 else style.encoding))
        except UnicodeEncodeError:
            raise DataError(_unfit(frame, style.encoding)) from None


def _unfit(frame: pl.DataFrame, encoding: str) -> str:
    """Name the columns with characters that an encoding lacks."""
    import polars as pl

    def lacks(text: str) -> bool:
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return True
        return False

    names = [name for name in frame.columns if lacks(name)]
    for name, kind in frame.schema.items():
        if kind in (pl.String, pl.Categorical, pl.Enum) and any(
            lacks(value) for value in frame[name].drop_nulls().unique().cast(pl.String)
        ):
            names.append(name)
    listed = ", ".join(repr(name) for name in dict.fromkeys(names))
    return f"the encoding {encoding} lacks characters of {listed}; write utf-8"


def _plain(frame: pl.DataFrame, *, lists: bool) -> pl.DataFrame:
    """Make NaN missing, and join lists with `|` unless the format has lists."""
    import polars as pl
    import polars.selectors as cs

    odd = [name for name, kind in frame.schema.items() if kind in (pl.Object, pl.Struct, pl.Binary)]
    if odd:
        listed = ", ".join(repr(name) for name in odd)
        raise DataError(f"the columns {listed} hold objects or bytes; only Parquet and Arrow can hold them")
    frame = frame.with_columns(cs.float().fill_nan(None), cs.by_dtype(pl.Null).cast(pl.String))
    joined = [name for name, kind in frame.schema.items() if kind in (pl.List, pl.Array)]
    if lists or not joined:
        return frame
    for name in joined:
        items = frame[name].cast(pl.List(pl.String))
        if items.explode().str.contains("|", literal=True).any():
            raise DataError(f"column {name!r}: items that contain '|' cannot be joined with it; write Parquet or JSON")
        frame = frame.with_columns(items.list.join("|").alias(name))
    return frame


def _simple(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn types that workbooks and statistics packages lack into those they have."""
    import polars as pl
    import polars.selectors as cs

    zoned = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    return frame.with_columns(
        (cs.categorical() | cs.enum() | cs.time()).cast(pl.String),
        cs.duration().dt.to_string("iso"),
        cs.decimal().cast(pl.Float64),
        *[pl.col(name).dt.to_string("iso:strict") for name in zoned],
    )
