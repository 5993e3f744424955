"""Top and bottom coding: extreme values are not told apart (P4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.method import Decision, StratifiedMethod
from discretion.part import confidential


class _TailCode(StratifiedMethod):
    """What top and bottom coding share."""

    column: str
    """numeric column to code"""
    at: float | None = None
    """the bound: values beyond it are replaced"""
    quantile: float | None = confidential(None, gt=0, lt=1)
    """the bound as a quantile of the data, for example 0.99"""
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
        data.require([self.column])
        x = data.number(self.column)
        if np.isnan(x).all():
            raise DataError(f"column {self.column!r} has no values")
        bound = (
            self.at if self.at is not None else float(ctx.engine.quantiles(data, self.column, [self.quantile or 0])[0])
        )
        beyond = x[self._beyond(x, bound)]
        value: float | str = bound
        if self.replace == "mean" and len(beyond):
            value = float(beyond.mean())
        elif self.replace == "flag":
            value = self.label if self.label is not None else f"{self._sign} {bound:g}"
        return Decision(MappingProxyType({"bound": bound, "value": value}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Replace the values beyond the bound."""
        import polars as pl

        data.require([self.column])
        beyond = pl.Series(self._beyond(data.number(self.column), decision["bound"]))
        series = data.frame[self.column]
        if self.replace == "flag":
            series = series.cast(pl.String)
        value: Any = decision["value"]
        if series.dtype.is_integer() and isinstance(value, float):
            value = round(value) if self.replace == "mean" else value
            if not float(value).is_integer():
                series = series.cast(pl.Float64)
        new = pl.select(pl.when(beyond).then(pl.lit(value, dtype=series.dtype)).otherwise(series)).to_series()
        return data.with_columns({self.column: new.alias(self.column)})


class TopCode(_TailCode, kind="top-code"):
    """Replace all values above a bound by one value.

    The largest incomes or ages are what people recognize first; after top coding they cannot be told apart. The
    bound may be given or be a quantile; above it stands the bound, a label, or the mean of the tail (which keeps the
    column's mean). Whole numbers stay whole. Does not protect values below the bound. Missing values stay missing.
    Time linear.

    References
    ----------
    Catalogue P4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.TopCode(column="age", at=60)(pl.DataFrame({"age": [12, 61, 68]}))["age"].to_list()
    [12, 60, 60]
    """

    _sign: ClassVar[str] = ">"


class BottomCode(_TailCode, kind="bottom-code"):
    """Replace all values below a bound by one value.

    The counterpart of top coding for small values. Whole numbers stay whole. Does not protect values above the
    bound. Missing values stay missing. Time linear.

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
