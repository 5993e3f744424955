"""The values a column may have, as the owner declares them: nothing is looked up in the data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    StrictInt,
    model_validator,
)

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.kernels.arrays import Ints

if TYPE_CHECKING:
    import polars as pl

Value = bool | int | float | str
_MOST = 10_000
_FIRST_DAY = dt.date(1970, 1, 1)


class ColumnDomain(BaseModel):
    """Categories, or cut points of a number or date, with what becomes of values that are not among them.

    Examples
    --------
    >>> age = ColumnDomain(cuts=(0, 18, 65, 100))
    >>> age.size, age.whole
    (3, True)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    categories: tuple[Value, ...] = ()
    """the values of a category"""
    cuts: tuple[StrictInt, ...] | tuple[float, ...] | tuple[dt.date, ...] = ()
    """borders of classes of a number or a date, ascending; values beyond the first and the last count in these"""
    other: Value | None = None
    """one more category, for all values that are not declared; without it a row with such a value is left out"""
    missing: bool = False
    """whether missing is one more value; without it a row with a missing value is left out (or counted in `other`)"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.categories) == bool(self.cuts):
            raise ValueError("declare `categories`, or `cuts` of a number or date: one of the two")
        texts = [canonical(value) for value in (*self.categories, *(() if self.other is None else (self.other,)))]
        if len(set(texts)) < len(texts):
            raise ValueError("a category is named twice")
        if self.cuts and self.other is not None:
            raise ValueError("`other` belongs to categories; numbers beyond the cuts count in the first or last class")
        if self.cuts and (len(self.cuts) < 2 or any(a >= b for a, b in zip(self.cuts, self.cuts[1:], strict=False))):  # type: ignore[operator]
            raise ValueError("cut points are at least two and ascending")
        if self.size > _MOST:
            raise ValueError(f"a column may have at most {_MOST:,} values; take coarser classes")
        return self

    @property
    def size(self) -> int:
        """The number of values it may have."""
        known = len(self.cuts) - 1 if self.cuts else len(self.categories) + (self.other is not None)
        return known + self.missing

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole ones: all cut points are."""
        return bool(self.cuts) and all(isinstance(cut, int) for cut in self.cuts)

    @property
    def _dates(self) -> bool:
        return bool(self.cuts) and isinstance(self.cuts[0], dt.date)

    @property
    def _borders(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        days = [(cut - _FIRST_DAY).days if isinstance(cut, dt.date) else cut for cut in self.cuts]
        return np.array(days, np.float64)

    def encode(self, data: Dataset, column: str) -> Ints:
        """Give the place of each row's value among those declared, −1 where it has none; raises for no value."""
        absent = self.size - 1 if self.missing else -1
        if not self.cuts:
            other = -1 if self.other is None else len(self.categories)
            places = {canonical(value): place for place, value in enumerate(self.categories)}
            coded = data.codes(column)
            lost = absent if self.missing else other
            found = [lost if v is None else places.get(canonical(v), other) for v in coded.values]
            return np.asarray(np.array([*found, lost], np.int64)[coded.codes])
        numbers = self._numbers(data.frame[column])
        place = np.clip(np.searchsorted(self._borders, numbers, side="right") - 1, 0, len(self.cuts) - 2)
        return np.where(np.isnan(numbers), absent, place).astype(np.int64)

    def _numbers(self, series: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Read a column as numbers (of dates the day); what is none is missing, so that no value raises an error."""
        import polars as pl

        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if self._dates and series.dtype == pl.String:
            series = series.str.to_date(strict=False)
        if series.dtype.is_nested() or series.dtype.is_temporal() != self._dates:
            return np.full(len(series), np.nan)
        plain = series.cast(pl.Date, strict=False).to_physical() if self._dates else series
        return plain.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()

    def decode(self, name: str, codes: Ints, rng: np.random.Generator) -> pl.Series:
        """Give values for places: the category; of a class of numbers or dates an even draw between its borders."""
        import polars as pl

        if not self.cuts:
            values = [*self.categories, *(() if self.other is None else (self.other,)), None]
            mixed = len(kinds := {type(value) for value in values[:-1]}) > 1 and kinds != {int, float}
            listed = pl.Series(name, [canonical(v) if mixed and v is not None else v for v in values], strict=False)
            return listed.gather(codes)
        absent = codes >= len(self.cuts) - 1
        low, high = (self._borders[np.where(absent, 0, codes) + side] for side in (0, 1))
        if self.whole or self._dates:
            top = high - (codes < len(self.cuts) - 2)  # the last class holds its upper border, the others do not
            drawn = low + np.floor(rng.random(len(codes)) * (top - low + 1))
            made = pl.Series(name, np.minimum(drawn, top).astype(np.int64))
            made = made.cast(pl.Int32).cast(pl.Date) if self._dates else made
        else:
            made = pl.Series(name, low + rng.random(len(codes)) * (high - low))
        return pl.select(pl.when(pl.Series(absent)).then(None).otherwise(made).alias(name)).to_series()

    def short(self) -> Any:
        """Write the domain as a plan does: a plain list of categories where nothing else is declared."""
        told = self.model_dump(mode="json", exclude_defaults=True)
        return told["categories"] if list(told) == ["categories"] else told


def _column(given: Any) -> Any:
    return {"categories": given} if isinstance(given, list | tuple) else given


def _readable(given: Any) -> Any:
    return {str(name): _column(one) for name, one in given.items()} if isinstance(given, Mapping) else given


def _frozen(given: Mapping[str, ColumnDomain]) -> Mapping[str, ColumnDomain]:
    from types import MappingProxyType

    if not given:
        raise ValueError("declare the values of at least one column")
    return MappingProxyType(dict(given))


Domain = Annotated[
    Mapping[str, ColumnDomain],
    BeforeValidator(_readable),
    AfterValidator(_frozen),
    PlainSerializer(lambda given: {name: one.short() for name, one in given.items()}),
]
"""Column → its declared values; a list is short for its categories."""
