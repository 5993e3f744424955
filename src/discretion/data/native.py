"""The border to frame libraries: pandas, polars and pyarrow come in, the same kind goes out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from discretion.errors import DataError

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
        return frame, Source("polars", frame)
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except (TypeError, ValueError) as error:
        if "uplicate" in str(error):
            raise DataError("the data has two columns of the same name") from None
        raise DataError(
            f"expected a pandas, polars or pyarrow frame or a Dataset, got {type(frame).__name__}"
        ) from None
    if wrapped.implementation.is_pandas():
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


def give_back(source: Source, frame: pl.DataFrame, rows: NDArray[np.int64] | None, changed: frozenset[str]) -> Any:
    """Convert back to the library of the source: index, column order and untouched columns kept."""
    if source.library == "pandas":
        return _to_pandas(source.frame, frame, rows, changed)
    if source.library == "pyarrow":
        return _to_pyarrow(source.frame, frame, rows, changed)
    kept = source.frame if rows is None else source.frame[rows]
    return frame.with_columns(kept[name] for name in frame.columns if name not in changed)


def _to_pandas(source: Any, frame: pl.DataFrame, rows: NDArray[np.int64] | None, changed: frozenset[str]) -> Any:
    kept = source if rows is None else source.iloc[rows]
    result = kept.rename(columns=str)[[name for name in frame.columns if name in map(str, source.columns)]].copy()
    for name in frame.columns:
        if name in changed:
            before = result[name].dtype if name in result else None
            result[name] = _pandas_column(frame[name], before, result.index)
    return result[frame.columns]


def _pandas_column(series: pl.Series, before: Any, index: Any) -> Any:
    column = series.to_pandas()
    column.index = index
    if before is not None and column.dtype != before:
        same_kind = before.kind == column.dtype.kind and before.kind in "iuf"
        if same_kind or str(before) in ("category", "string", "object", "Int64", "Float64"):
            try:
                return column.astype(before)
            except (TypeError, ValueError):
                return column
    return column


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
            if not (pa.types.is_integer(before) and pa.types.is_floating(column.type)):
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    column = column.cast(before)
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=frame.columns)
