"""Top and bottom coding: extreme values are not told apart (P4)."""

from __future__ import annotations

import datetime as dt
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.method import Decision, StratifiedMethod
from discretion.part import confidential
from discretion.protect.noise_keep import decimals_of
from discretion.protect.ordered import Ordered, ordered

Bound = Annotated[float | str, BeforeValidator(lambda at: at.isoformat() if isinstance(at, dt.date) else at)]
"""A number, a date (as ISO text) or a category."""


class _TailCode(StratifiedMethod):
    """What top and bottom coding share."""

    column: str
    """column to code: numbers, dates, or categories with an order"""
    at: Bound | None = None
    """the bound: values beyond it are replaced; a number, a date (YYYY-MM-DD) or a category"""
    quantile: float | None = confidential(None, gt=0, lt=1)
    """the bound as a quantile of the data, for example 0.99; of dates and categories the one that reaches the share"""
    replace: Literal["cut", "flag", "mean"] = "cut"
    """what stands for a value beyond the bound: the bound, a label, or the mean of all values beyond it"""
    label: str | None = None
    """the label for `replace: flag`; without it, for example "> 100000"; the column becomes text"""

    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = "Extreme values were replaced by one value, so that they cannot be told apart."
    _sign: ClassVar[str] = ">"

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at is None) == (self.quantile is None):
            raise ValueError("give exactly one of `at` and `quantile`")
        if self.label is not None and self.replace != "flag":
            raise ValueError("`label` goes with `replace: flag`")
        return self

    def _beyond(self, x: NDArray[np.float64], bound: float) -> NDArray[np.bool_]:
        return x > bound if self._sign == ">" else x < bound

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the bound and what replaces the values beyond it."""
        found = ordered(data, self.column)
        if np.isnan(found.places).all():
            raise DataError(f"column {self.column!r} has no values")
        if found.scale == "order" and self.replace == "mean":
            raise DataError(f"column {self.column!r} has categories, and categories have no mean; use cut or flag")
        bound = self._bound(found, data, ctx)
        place = found.place(bound)
        beyond = found.places[self._beyond(found.places, place)]
        value: float | str = bound
        if self.replace == "mean" and len(beyond):
            value = self._mean(found, data, float(beyond.mean()))
        elif self.replace == "flag":
            shown = _shown(bound) if isinstance(bound, float) else bound
            value = self.label if self.label is not None else f"{self._sign} {shown}"
        return Decision(MappingProxyType({"bound": bound, "value": value}))

    def _mean(self, found: Ordered, data: Dataset, mean: float) -> float | str:
        """Write the mean with the decimals of the column: with more of them it would show which values were coded."""
        if found.scale != "number":
            return found.name(mean)
        decimals = decimals_of(data, [self.column]).get(self.column)
        return round(mean, decimals) if decimals else mean

    def _bound(self, found: Ordered, data: Dataset, ctx: Context) -> float | str:
        if self.at is not None:
            return found.name(found.place(self.at))
        if found.scale == "number":
            return float(ctx.engine.quantiles(data, self.column, [self.quantile or 0.0])[0])
        present = found.places[~np.isnan(found.places)]
        return found.name(float(np.quantile(present, self.quantile or 0.0, method="inverted_cdf")))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Replace the values beyond the bound."""
        import polars as pl

        found = ordered(data, self.column)
        beyond = pl.Series(self._beyond(found.places, found.place(decision["bound"])))
        series, value = found.series, decision["value"]
        if not beyond.any() and self.replace != "flag":
            return data.with_columns({self.column: series})
        if self.replace == "flag":
            series, other = series.cast(pl.String), pl.lit(value, dtype=pl.String)
        elif found.scale == "number":
            series, other = _room_for(series, float(value), self.replace == "mean")
        else:
            other = pl.lit(found.literal(value))
        new = pl.select(pl.when(beyond).then(other).otherwise(series)).to_series()
        result = data.with_columns({self.column: new.alias(self.column)})
        if self.replace == "flag" and found.scale == "order":
            return result.with_schema(
                result.schema.with_column(self.column, order=self._new_order(found, decision), type="ordinal")
            )
        return result

    def _new_order(self, found: Ordered, decision: Decision) -> tuple[str, ...]:
        """Put the label where the replaced categories were."""
        place = int(found.place(decision["bound"]))
        if self._sign == ">":
            return (*found.levels[: place + 1], decision["value"])
        return (decision["value"], *found.levels[place:])


def _shown(bound: float) -> str:
    """Write a bound in a label: whole numbers in full, others with twelve digits."""
    return canonical(bound) if bound.is_integer() else f"{bound:.12g}"


def _room_for(series: Any, value: float, rounded: bool) -> tuple[Any, Any]:
    """Give a numeric column in a type that can hold the value, and the value in that type."""
    import polars as pl

    if series.dtype.is_integer():
        number = round(value) if rounded else value
        if not float(number).is_integer():
            series = series.cast(pl.Float64)
        elif not _fits(number, series.dtype):
            series = series.cast(pl.Int64 if _fits(number, pl.Int64) else pl.Float64)
        value = number
    return series, pl.lit(value, dtype=series.dtype)


def _fits(number: float, kind: Any) -> bool:
    import polars as pl

    least, most = pl.select(kind.min().alias("least"), kind.max().alias("most")).row(0)
    return bool(least <= number <= most)


class TopCode(_TailCode, kind="top-code"):
    """Replace all values above a bound by one value.

    The largest incomes or ages are what people recognize first; after top coding they cannot be told apart. For
    numbers, dates, and categories whose order is known (from the schema or an Enum). The bound may be given or be a
    quantile; above it stands the bound, a label, or the mean of the tail (which keeps the column's mean, up to rounding
    in columns of whole numbers; not for categories). Whole numbers stay whole if the bound is whole. Does not protect
    values below the bound. Missing values stay missing. The bound that was found can be re-used on the next delivery.
    Time linear (a quantile: O(n log n) at most).

    References
    ----------
    Catalogue P4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.TopCode(column="age", at=60)(pl.DataFrame({"age": [12, 61, 68]}))["age"].to_list()
    [12, 60, 60]
    >>> people = dc.Dataset(pl.DataFrame({"school": ["none", "primary", "PhD"]}),
    ...                     orders={"school": ["none", "primary", "secondary", "PhD"]})
    >>> dc.TopCode(column="school", at="secondary")(people).frame["school"].to_list()
    ['none', 'primary', 'secondary']
    """

    _sign: ClassVar[str] = ">"


class BottomCode(_TailCode, kind="bottom-code"):
    """Replace all values below a bound by one value.

    The counterpart of top coding for small values: numbers, dates (everybody born before 1930), and categories whose
    order is known. Whole numbers stay whole. Does not protect values above the bound. Missing values stay missing.
    The bound that was found can be re-used on the next delivery. Time linear.

    References
    ----------
    Catalogue P4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [12, 61]})
    >>> dc.BottomCode(column="age", at=18, replace="flag", label="minor")(ages)["age"].to_list()
    ['minor', '61']
    """

    _sign: ClassVar[str] = "<"
