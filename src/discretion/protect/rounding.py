"""Rounding to a base (P22)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.method import Decision, Method
from discretion.part import Columns

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
"""Share of the base by which division may miss a multiple: 0.3 / 0.1 is a little less than 3."""


class Round(Method, kind="round"):
    """Round each value to a multiple of a base.

    `nearest` takes the nearer multiple (halves go to the even one, so that sums are not pushed up), `up` and `down`
    the next one in that direction; `random` goes up with a probability equal to the share of the base that the value
    has gone beyond the lower multiple, so that every value, and every sum, is right in expectation. Guarantees that
    values between the same two multiples cannot be told apart (nearest, up, down), or only by chance (random). Does
    not give k-anonymity, and each column is rounded on its own, so that published totals need not add up. Multiples
    stay as they are; missing values stay missing. Columns of whole numbers stay whole when the base is whole. Time
    and memory linear.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control, 3.6; catalogue P22.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Round(columns=["x"], base=5)(pl.DataFrame({"x": [1, 13, 15]}))["x"].to_list()
    [0, 15, 15]
    """

    columns: Columns = ()
    """numeric columns to round; without it, the numeric quasi-identifiers and sensitive columns"""
    base: float = Field(gt=0)
    """what values become multiples of"""
    how: Literal["nearest", "random", "up", "down"] = "nearest"
    """to which of the two multiples around a value"""

    guarantee: ClassVar[str] = (
        "Values were rounded, so that close values cannot be told apart; sums of rounded values need not add up."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Round, batch by batch."""
        columns = data.choose(self.columns, "perturb")
        for name in columns:
            data.number(name)
            if len(data) and data.count_missing(name) == len(data):
                raise DataError(f"column {name!r} has no values")
        rounded = ctx.engine.map_rows(data, columns, self._multiples)
        if not float(self.base).is_integer():
            return rounded
        kinds = data.frame.schema
        back = {name: _whole(rounded.frame[name], kinds[name]) for name in columns if kinds[name].is_integer()}
        return rounded.with_columns(back) if back else rounded

    def _multiples(self, block: Floats, rng: np.random.Generator) -> Floats:
        count = block / self.base
        near = np.round(count)
        exact = np.abs(count - near) <= _ROUNDING * np.maximum(1.0, np.abs(count))
        if self.how == "down":
            chosen = np.floor(count)
        elif self.how == "up":
            chosen = np.ceil(count)
        elif self.how == "random":
            chosen = np.floor(count + rng.random(block.shape))
        else:
            chosen = near
        multiples = np.where(exact, near, chosen) * self.base
        return np.asarray(np.round(multiples, _decimals(self.base))) + 0.0  # no −0.0


def _decimals(base: float) -> int:
    """Count the decimals of the base: its multiples have no more."""
    exponent = Decimal(str(base)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _whole(values: pl.Series, kind: pl.DataType) -> pl.Series:
    """Give whole numbers in their old type, or in a wider one where the multiples do not fit."""
    import polars as pl

    whole = values.cast(pl.Int64)
    try:
        return whole.cast(kind)
    except pl.exceptions.InvalidOperationError:
        return whole
