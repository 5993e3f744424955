"""Columns whose values have an order: numbers, dates, and categories with a declared order."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.text import not_numbers
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

Scale = Literal["number", "date", "order"]


def mixed_order(x: Floats, present: Ints | None, ctx: Context) -> tuple[Floats, NDArray[Any]]:
    """Sort the values present; give them and the row of each, rows of equal values by a keyed mix of their position."""
    from discretion.kernels.order import sorted_with_order

    values, order = sorted_with_order(x if present is None else x[present])
    return values, mix_ties(values, order if present is None else present[order], ctx)


def mix_ties(values: Floats, rows: NDArray[Any], ctx: Context) -> NDArray[Any]:
    """Put the rows of equal values into the order of a keyed mix of their position; `values` are sorted.

    By the position itself, the place in the file would say which of equal values moves far, or to which group it goes.
    """
    from discretion.kernels.order import break_ties

    return break_ties(values, rows, ctx.key("ties")) if (values[1:] == values[:-1]).any() else rows


@dataclass(frozen=True)
class Ordered:
    """A column as places on a line: the numbers themselves, days or microseconds, or positions in the order."""

    column: str
    scale: Scale
    places: Floats = field(repr=False)
    """the place of each record's value; NaN where it is missing"""
    series: pl.Series = field(repr=False)
    levels: tuple[str, ...] = ()
    """the categories from low to high, for the scale `order`"""

    def require_spread(self) -> None:
        """Raise if the column has no values or only one."""
        low, high = (float(end.reduce(self.places, initial=np.nan)) for end in (np.fmin, np.fmax))
        if np.isnan(low):
            raise DataError(f"column {self.column!r} has no values")
        if low == high:
            raise DataError(f"column {self.column!r} is constant: all {len(self.places)} values are equal or missing")

    def place(self, value: float | str) -> float:
        """Find the place of a value that a plan or a decision names."""
        if self.scale == "number":
            return self._number(value)
        if self.scale == "date":
            return float(_date_places(self._date(value), self.column)[0])
        return float(self.levels.index(self._level(value)))

    def name(self, place: float) -> float | str:
        """Write a place as a plan and a decision name it: a number, an ISO date, a category."""
        if self.scale == "number":
            return place
        return _date_text(self.series, place) if self.scale == "date" else self.levels[int(place)]

    def literal(self, value: float | str) -> pl.Series:
        """Give a date or a category as a series of one value, in the type of the column."""
        import polars as pl

        if self.scale == "date":
            return self._date(value)
        return pl.Series(self.column, [self._level(value)], dtype=pl.String).cast(self.series.dtype)

    def _number(self, value: float | str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number):
            raise PlanError(f"column {self.column!r} is numeric; the bound must be a number")
        return number

    def _level(self, value: float | str) -> str:
        for text in (canonical(value), str(value)):
            if text in self.levels:
                return text
        raise PlanError(f"column {self.column!r}: {unknown('category', canonical(value), self.levels)}")

    def _date(self, value: float | str) -> pl.Series:
        import polars as pl

        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            raise PlanError(f"column {self.column!r} holds dates; the bound must be one (YYYY-MM-DD)") from None
        kind = self.series.dtype
        if kind == pl.String:
            return pl.Series(self.column, [moment.date().isoformat()])
        if kind == pl.Date:
            return pl.Series(self.column, [moment.date()])
        zone = getattr(kind, "time_zone", None)
        found = pl.Series(self.column, [moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment])
        if zone is not None:
            inside = found.dt.replace_time_zone("UTC" if moment.tzinfo else zone)
            found = inside.dt.convert_time_zone(zone)
        return found.cast(kind)


def ordered(data: Dataset, column: str) -> Ordered:
    """Give a column as places on a line; a column without an order is refused."""
    import polars as pl

    data.require([column])
    series = data.series(column)
    levels = category_order(data, column)
    if levels:
        places = data.cached(("order", column, levels), lambda: _order_places(data, column, levels))
        return Ordered(column, "order", places, series, levels)
    if series.dtype.is_numeric():
        return Ordered(column, "number", data.number(column), series)
    dated = series.dtype in (pl.Date, pl.Datetime) or (series.dtype == pl.String and data.type_of(column) == "date")
    if dated:
        return Ordered(column, "date", data.cached(("dates", column), lambda: _date_places(series, column)), series)
    kind = "text" if series.dtype in (pl.String, pl.Categorical) else str(series.dtype).lower()
    if kind == "text" and (found := not_numbers(series)).startswith("is text:"):
        raise DataError(f"column {column!r} {found}; a numeric column, dates, or an order of its categories is needed")
    raise DataError(
        f"column {column!r} is {kind} without an order; a numeric column, dates, or an order of its categories is "
        f"needed (orders: {column}: [lowest, …, highest])"
    )


def category_order(data: Dataset, column: str) -> tuple[str, ...]:
    """Give the categories of an ordinal column from low to high; nothing where no order is known."""
    import polars as pl

    declared = data.schema[column].order
    if declared:
        return declared
    kind = data.kinds[column]
    return tuple(kind.categories) if isinstance(kind, pl.Enum) else ()


def _order_places(data: Dataset, column: str, levels: tuple[str, ...]) -> Floats:
    codes = data.codes(column)
    index = {level: float(place) for place, level in enumerate(levels)}
    found = np.full(codes.size, np.nan)
    lacking = []
    for code, value in enumerate(codes.values):
        if value is None:
            continue
        text = canonical(value)
        place = index.get(text, index.get(str(value)))
        if place is None:
            lacking.append(text)
        else:
            found[code] = place
    if lacking:
        listed = ", ".join(repr(text) for text in sorted(lacking)[:5]) + (" …" if len(lacking) > 5 else "")
        raise DataError(f"column {column!r}: {len(lacking)} categories are not in its order: {listed}")
    return found[codes.codes] if codes.size else np.empty(0)


def _date_places(series: pl.Series, column: str) -> Floats:
    """Count days, or microseconds where the column has times."""
    import polars as pl

    if series.dtype == pl.String:
        parsed = series.str.to_date("%Y-%m-%d", strict=False)
        lost = parsed.null_count() - series.null_count()
        if lost:
            raise DataError(f"column {column!r}: {lost} values are not dates (YYYY-MM-DD)")
        series = parsed
    if isinstance(series.dtype, pl.Datetime):
        series = series.cast(pl.Datetime("us", series.dtype.time_zone))
    return series.to_physical().cast(pl.Float64).to_numpy()


def _date_text(series: pl.Series, place: float) -> str:
    import polars as pl

    if not isinstance(series.dtype, pl.Datetime):
        return (dt.date(1970, 1, 1) + dt.timedelta(days=round(place))).isoformat()
    zone: Any = dt.UTC if series.dtype.time_zone else None
    return (dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=round(place))).isoformat()
