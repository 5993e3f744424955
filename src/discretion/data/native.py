"""The border to frame libraries: pandas, polars and pyarrow come in, the same kind goes out; numbers are finite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from discretion.errors import DataError, need

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

Library = Literal["polars", "pandas", "pyarrow"]


@dataclass(frozen=True)
class Source:
    """The frame the data came in, kept so that untouched columns go out exactly as they were."""

    library: Library
    frame: Any


def take_in(frame: Any) -> tuple[pl.DataFrame, Source]:
    """Convert any known frame to polars, without copying where the library allows it."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        frame = frame.clone()
        return frame, Source("polars", frame)
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise DataError("the data has two columns of the same name") from None
    except TypeError:
        raise DataError(
            f"expected a pandas, polars or pyarrow frame or a Dataset, got {type(frame).__name__}"
        ) from None
    if wrapped.implementation.is_pandas():
        frame = frame.copy(deep=False)
        return _from_pandas(frame), Source("pandas", frame)
    if wrapped.implementation.is_pyarrow():
        if len(set(frame.column_names)) < len(frame.column_names):
            raise DataError("the data has two columns of the same name")
        return pl.DataFrame(frame), Source("pyarrow", frame)
    other = wrapped.to_polars()
    return other, Source("polars", other)


def _from_pandas(frame: Any) -> pl.DataFrame:
    import polars as pl

    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise DataError("the data has two columns of the same name")
    columns = []
    for name, (_, series) in zip(names, frame.items(), strict=True):
        try:
            columns.append(pl.from_pandas(series, nan_to_null=True).alias(name))
        except Exception:
            raise DataError(f"column {name!r} mixes kinds of values; make it all numbers or all text") from None
    return pl.DataFrame(columns)


def give_back(
    source: Source, frame: pl.DataFrame, rows: NDArray[np.int64] | None, changed: frozenset[str], read: pl.DataFrame
) -> Any:
    """Convert back to the library of the source: index, column order and untouched columns kept; new rows have none.

    `read`: the source as it was read. What was read as it is need not be taken from the source again.
    """
    if rows is not None and len(rows) and rows.min() < 0:
        return _new_rows(source, frame)
    if source.library == "pandas":
        return _to_pandas(source.frame, frame, rows, changed)
    if source.library == "pyarrow":
        return _to_pyarrow(source.frame, frame, rows, changed)
    untouched = [name for name in frame.columns if name not in changed]
    if rows is None:
        return frame.with_columns(source.frame.select(untouched).get_columns())
    other = [name for name in untouched if not _is_as_read(source.frame, read, frame, name)]
    return frame.with_columns(source.frame.select(other)[rows].get_columns()) if other else frame


def _is_as_read(source: pl.DataFrame, read: pl.DataFrame, frame: pl.DataFrame, name: str) -> bool:
    """Tell whether a column was read without a change, so that what was made of it has the values of the source."""
    if not source.schema[name] == read.schema.get(name) == frame.schema[name]:
        return False
    return source[name].equals(read[name], null_equal=True)


def _to_pandas(source: Any, frame: pl.DataFrame, rows: NDArray[np.int64] | None, changed: frozenset[str]) -> Any:
    kept = source if rows is None else source.iloc[rows]
    result = kept.rename(columns=str)[[name for name in frame.columns if name in map(str, source.columns)]].copy()
    for name in frame.columns:
        if name in changed:
            before = result[name].dtype if name in result else None
            result[name] = _pandas_column(frame[name], before, result.index)
    result = result[frame.columns]
    places = {str(label): place for place, label in enumerate(source.columns)}
    if all(name in places for name in frame.columns):
        result.columns = source.columns[[places[name] for name in frame.columns]]
    return result


def _new_rows(source: Source, frame: pl.DataFrame) -> Any:
    """Convert rows that the source does not have: its types, and a new index."""
    if source.library == "polars":
        return frame
    if source.library == "pyarrow":
        return _to_pyarrow(source.frame, frame, None, frozenset(frame.columns))
    pd = need("pandas", "a pandas frame", "io")
    places = {str(label): place for place, label in enumerate(source.frame.columns)}
    index = pd.RangeIndex(frame.height)
    columns = {}
    for name in frame.columns:
        before = source.frame.dtypes.iloc[places[name]] if name in places else None
        label = source.frame.columns[places[name]] if name in places else name
        columns[label] = _pandas_column(frame[name], before, index)
    return pd.DataFrame(columns, index=index)


def renewed(source: Source, frame: pl.DataFrame) -> Source:
    """Give a source of the same library that holds another frame, and nothing of the one before."""
    if source.library == "polars":
        return Source("polars", frame.clone())
    return Source(source.library, frame.to_pandas() if source.library == "pandas" else frame.to_arrow())


def _pandas_column(series: pl.Series, before: Any, index: Any) -> Any:
    column = series.to_pandas()
    if before is not None and column.dtype != before:
        if str(before) == "category":
            fits = bool((column.isin(before.categories) | column.isna()).all())
            column = column.astype(before if fits else "category")
        elif _kind(series.dtype) == _pandas_kind(before):
            exact = series.to_pandas(use_pyarrow_extension_array=True) if before.kind in "iu" else column
            with suppress(TypeError, ValueError):
                column = exact.astype(before)
    column.index = index
    return column


def _kind(dtype: pl.DataType) -> str:
    """Tell whole numbers, fractions, text and everything else apart: only within these a type is put back."""
    import polars as pl

    if dtype.is_integer():
        return "whole"
    if dtype.is_float():
        return "fraction"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else "other"


def _pandas_kind(dtype: Any) -> str:
    if str(dtype).startswith(("str", "object")):
        return "text"
    return "whole" if dtype.kind in "iu" else "fraction" if dtype.kind == "f" else "other"


def _arrow_kind(dtype: Any) -> str:
    import pyarrow as pa

    kind = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind):
        return "fraction"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return "text" if text else "other"


def _to_pyarrow(source: Any, frame: pl.DataFrame, rows: NDArray[np.int64] | None, changed: frozenset[str]) -> Any:
    import pyarrow as pa

    kept = source if rows is None else source.take(pa.array(rows))
    columns = []
    for name in frame.columns:
        if name not in changed:
            columns.append(kept.column(name))
            continue
        column = frame[name].to_arrow()
        if name in source.column_names:
            before = source.schema.field(name).type
            if _kind(frame.schema[name]) == _arrow_kind(before):
                # a column that no longer fits its old type (whole numbers with noise) keeps its new one
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    column = column.cast(before)
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=frame.columns)


# Numbers that can be computed with: infinity and numbers near it are refused, or bounded for private steps.


LARGEST = 1e150
"""The largest size of a number: the squares of larger ones, and their sums, are soon infinite."""


_BOUND = 1e18
"""Where numbers are bounded: its square fits into the shortest floats that models use."""
_bounded: ContextVar[bool] = ContextVar("bounded", default=False)


@contextmanager
def bounding_numbers(wanted: bool) -> Iterator[None]:
    """Read data for a private step: a number that is too large is bounded; an error would tell of a person."""
    token = _bounded.set(wanted or _bounded.get())
    try:
        yield
    finally:
        _bounded.reset(token)


def finite(frame: pl.DataFrame) -> pl.DataFrame:
    """Raise if a column has infinity or numbers beyond `LARGEST`; says which and how many, never the values."""
    import polars as pl
    import polars.selectors as cs

    if _bounded.get():
        return frame.with_columns(cs.float().clip(-_BOUND, _BOUND))
    floats = [one for one in frame if one.dtype.is_float() and one.null_count() < len(one)]
    bad = [one.name for one in floats if max(-cast(float, one.min()), cast(float, one.max())) > LARGEST]
    if not bad:
        return frame
    infinite = frame.select(pl.col(bad).is_infinite().sum())
    beyond = frame.select((pl.col(bad).is_finite() & (pl.col(bad).abs() > LARGEST)).sum())
    declare = "if they stand for missing values, declare them as a missing code"
    found = (
        ("infinite values", infinite, "replace them or declare a missing code"),
        (f"numbers beyond ±{LARGEST:g}", beyond, declare),
    )
    problems = []
    for what, counts, hint in found:
        if listed := [f"{one.name!r} ({one.item()})" for one in counts if one.item()]:
            problems.append(f"{what} in {', '.join(listed)}; {hint}")
    raise DataError("\n".join(problems))
