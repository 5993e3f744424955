"""Values that are summarized inside the classes of a search: mean, geometric mean, median, interval or set."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.privacy.class_table import sensitive_domain

SummaryName = Literal["mean", "geometric-mean", "median", "interval", "set"]
_NUMERIC: tuple[SummaryName, ...] = ("mean", "geometric-mean", "median")


def check_summary(data: Dataset, column: str, kind: SummaryName) -> None:
    """Refuse a summary that the values of a column do not have."""
    if kind not in get_args(SummaryName):
        raise PlanError(f"summarize: {kind!r} is no summary; there are {', '.join(get_args(SummaryName))}")
    if kind in _NUMERIC:
        numbers = data.number(column)
        if kind == "geometric-mean" and (numbers <= 0).any():
            few = int((numbers <= 0).sum())
            raise DataError(f"summarize: column {column!r} has {few} values that are not above 0; no geometric mean")
    elif kind == "interval" and not (
        data.schema[column].order or data.type_of(column) in ("continuous", "ordinal", "date")
    ):
        raise PlanError(
            f"summarize: the values of column {column!r} have no order; declare their `order`, or use `set`"
        )


def summarize(data: Dataset, column: str, classes: NDArray[np.integer[Any]], kind: SummaryName) -> Any:
    """Give each record the summary of its class; missing values do not count, and are what a class without others has.

    Records of a class all get the same, also those whose value is missing, so that the class stays one.
    """
    import polars as pl

    if kind in _NUMERIC:
        frame = pl.DataFrame({"class": classes, "value": data.number(column)}).with_columns(
            pl.col("value").fill_nan(None)
        )
        value = pl.col("value")
        figures = {"mean": value.mean(), "median": value.median(), "geometric-mean": value.log().mean().exp()}
        return frame.select(figures[kind].over("class")).to_series().to_numpy()
    domain, ranks = sensitive_domain(data, column)
    codes = data.codes(column)
    first = np.zeros(domain.size, np.int64)
    first[ranks[::-1]] = np.arange(len(ranks) - 1, -1, -1)
    texts = [
        None if (value := codes.values[code]) is None else canonical(value) for code in codes.codes[first].tolist()
    ]
    frame = pl.DataFrame({"class": classes, "rank": ranks}).filter(pl.col("rank") < _missing_from(texts))
    found: list[str | None] = [None] * (int(classes.max(initial=-1)) + 1)
    for number, members in frame.group_by("class").agg(pl.col("rank").unique().sort()).iter_rows():
        names = [str(texts[rank]) for rank in members]
        if kind == "set":
            found[number] = "{" + ", ".join(names) + "}"
        else:
            found[number] = names[0] if len(names) == 1 else f"[{names[0]}, {names[-1]}]"
    return pl.Series([found[number] for number in classes.tolist()], dtype=pl.String)


def too_few(data: Dataset, column: str, classes: NDArray[np.integer[Any]], k: int) -> NDArray[np.bool_]:
    """Tell which records are in a class where some, but fewer than k, have a value: a summary would be about them."""
    codes = data.codes(column)
    present = np.bincount(classes, codes.codes != codes.missing)[classes]
    return np.asarray((present > 0) & (present < k))


def _missing_from(texts: list[str | None]) -> int:
    """Give the rank of the missing value, which is the last; the number of ranks where none is missing."""
    return len(texts) - (len(texts) > 0 and texts[-1] is None)
