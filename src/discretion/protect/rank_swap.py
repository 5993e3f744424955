"""Rank swapping: values change places with values of nearby rank (P13, P14)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.text import not_numbers
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, Scale, confidential

if TYPE_CHECKING:
    import polars as pl

OrderedKind = Literal["number", "date", "order"]


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
    scale: OrderedKind
    places: Floats = field(repr=False)
    """the place of each record's value; NaN where it is missing"""
    series: pl.Series = field(repr=False)
    levels: tuple[str, ...] = ()
    """the categories from low to high, for the scale `order`"""

    def require_spread(self) -> None:
        """Raise if the column has no values or only one."""
        present = self.places[~np.isnan(self.places)]
        if not len(present):
            raise DataError(f"column {self.column!r} has no values")
        if present.min() == present.max():
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


Permute = Callable[[int, int, Floats], NDArray[Any]]
"""From (number of ranks, ranks in reach, uniforms) to the rank whose value each rank takes."""


class _Swap(StratifiedMethod):
    """What rank swapping and its variant in blocks share."""

    columns: Columns = ()
    """numbers, dates or ordered categories to swap; without it, numeric quasi-identifiers and sensitive columns"""
    percent: float = confidential(gt=0, le=100)
    """how far a value may move, in percent of the records that have one"""
    bottom_share: float = confidential(0.0, ge=0, lt=1)
    """share of the lowest values that are left out and stay where they are"""
    top_share: float = confidential(0.0, ge=0, lt=1)
    """share of the highest values that are left out and stay where they are"""

    scale: ClassVar[Scale] = "columns"
    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    _fewest: ClassVar[int] = 1
    """Ranks that must be in reach, or else nothing could move."""

    @model_validator(mode="after")
    def _something_left(self) -> Self:
        if self.bottom_share + self.top_share >= 1:
            raise ValueError("`bottom_share` and `top_share` together must be less than 1")
        return self

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to swap and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def _swap(self, data: Dataset, permute: Permute, ctx: Context) -> Dataset:
        chosen = data.choose(self.columns, "perturb")
        lines = [ordered(data, name) for name in chosen]
        for line in lines:
            line.require_spread()
        new: dict[str, Any] = {}
        for number, line in enumerate(lines):
            ctx.progress(number, len(lines), f"{ctx.step}: {line.column}")
            inner = ctx.within(line.column)
            missing = data.count_missing(line.column)
            present = np.flatnonzero(~np.isnan(line.places)) if missing else None
            order = mixed_order(line.places, present, inner)[1]
            reach = int(np.floor(self.percent * len(order) / 100 + 1e-9))
            if reach < self._fewest:
                raise DataError(
                    f"column {line.column!r}: {self.percent:g} percent of {len(order)} values reaches no other rank; "
                    f"at least {100 * self._fewest / len(order):.3g} percent is needed"
                )
            low, high = (math.floor(share * len(order) + 1e-9) for share in (self.bottom_share, self.top_share))
            order = order[low : len(order) - high]
            donor = permute(len(order), reach, inner.rng.random(len(order)))
            new[line.column] = _moved(line.series, order, order[donor])
        ctx.progress(len(lines), len(lines), ctx.step)
        return data.with_columns(new)


def _moved(series: pl.Series, to: NDArray[Any], origin: NDArray[Any]) -> pl.Series:
    """Give the column with the values of rows `origin` at rows `to`, in exactly its own type."""
    import polars as pl

    if series.dtype == pl.Float64 and not series.null_count():
        values = series.to_numpy()
        moved = np.empty_like(values) if len(to) == len(values) else values.copy()
        moved[to] = values[origin]
        return pl.Series(series.name, moved)
    rows = np.arange(len(series), dtype=np.uint32)
    rows[to] = origin
    return series.gather(rows)


class RankSwap(_Swap, kind="rank-swap"):
    """Exchange each value with a value whose rank lies at most a given percentage of the records away.

    Ranks are visited in ascending order; each rank that was not swapped yet exchanges its value with a random unswapped
    rank in its window; a rank whose window holds none stays where it is. Every column is swapped on its own; equal
    values are ranked by a keyed mix of their place in the file, so that the place does not tell who moves far. For
    numbers, dates, and categories whose order is known (from the schema or an Enum). The marginal distribution (every
    mean, quantile and frequency of one column) stays exactly the same, also its type: whole numbers stay whole.
    Relations between columns are weakened. Does not give k-anonymity; whoever knows the percentage can narrow a value
    to its window (the percentage is therefore confidential). Values left out by `bottom_share` and `top_share` stay
    where they are and are *not* protected: top-code them as well. Missing values stay where they are. Time O(n log n),
    memory linear.

    References
    ----------
    Moore (1996), Controlled data-swapping techniques; catalogue P13 (Algorithm 1 of the source).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> swapped = dc.RankSwap(columns=["income"], percent=10)(people, seed=7)
    >>> bool((swapped.frame["income"].sort() == people.frame["income"].sort()).all())
    True
    """

    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "The distribution of each column is exact; correlations with other columns, and regressions on them, are "
        "pulled toward zero."
    )
    guarantee: ClassVar[str] = (
        "Values were exchanged between records of similar rank: each column's distribution is exact, but a value "
        "need not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, find partners, exchange."""
        from discretion.kernels.swap import swap_partners

        return self._swap(data, swap_partners, ctx)


class BlockRankSwap(_Swap, kind="block-rank-swap"):
    """Shuffle the values inside consecutive blocks of ranks.

    The sorted values are cut into blocks of a given percentage of the records and shuffled inside each block. The
    marginal distribution stays exactly the same. For numbers, dates, and categories whose order is known; equal values
    are ranked by a keyed mix of their place in the file. Weaker than rank swapping with a window of the same size: a
    value never leaves its block, and whoever knows the block bounds knows the value's range. Values left out by
    `bottom_share` and `top_share` stay where they are and are *not* protected. Missing values stay where they are. Time
    O(n log n), memory linear.

    References
    ----------
    Catalogue P14 (the "Mk2" variant of the source).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> swapped = dc.BlockRankSwap(columns=["income"], percent=10)(people, seed=7)
    >>> bool((swapped.frame["income"].sort() == people.frame["income"].sort()).all())
    True
    """

    percent: float = confidential(gt=0, le=100)
    """size of the blocks, in percent of the records that have a value; a block has at least two"""

    _fewest: ClassVar[int] = 2

    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "The distribution of each column is exact; correlations with other columns, and regressions on them, are "
        "pulled toward zero."
    )
    guarantee: ClassVar[str] = (
        "Values were shuffled inside blocks of similar rank: each column's distribution is exact, but a value need "
        "not belong to its record."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Sort, shuffle inside blocks, put back."""
        from discretion.kernels.swap import block_shuffle

        return self._swap(data, block_shuffle, ctx)
