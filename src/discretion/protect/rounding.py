"""Rounding to a base (P22)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Method
from discretion.part import Columns

if TYPE_CHECKING:
    import polars as pl


_ROUNDING = 1e-9
"""Share of the base by which division may miss a multiple: 0.3 / 0.1 is a little less than 3."""
_LAST_DIGITS = 4
"""Of large counts, as many units of the last binary place: there the numbers themselves are no more exact."""


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

    @property
    def draws(self) -> bool:
        """Only random rounding draws."""
        return self.how == "random"

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to round."""
        return data.choose(self.columns, "perturb")

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Round, batch by batch."""
        columns = data.choose(self.columns, "perturb")
        for name in columns:
            data.number(name)
            if len(data) and data.count_missing(name) == len(data):
                raise DataError(f"column {name!r} has no values")
        kinds = data.frame.schema
        whole = [name for name in columns if float(self.base).is_integer() and kinds[name].is_integer()]
        if rest := [name for name in columns if name not in whole]:
            data = ctx.engine.map_rows(data, rest, self._multiples)
        return self._round_whole(data, whole, ctx.within("whole")) if whole else data

    def _round_whole(self, data: Dataset, columns: Sequence[str], ctx: Context) -> Dataset:
        """Round columns of whole numbers to a whole base without fractions: every digit counts, however large."""
        base = int(self.base)
        old = [_as_integers(data.frame[name], base) for name in columns]
        new = [np.empty_like(x) for x in old]
        for batch in ctx.batches(len(data)):
            rows = slice(batch.start, batch.stop)
            for x, out in zip(old, new, strict=True):
                count, beyond = np.divmod(x[rows], base)
                out[rows] = (count + self._goes_up(count, beyond, base, batch.rng)) * base
        return data.with_columns(
            {name: _in_type(x, data.frame[name]) for name, x in zip(columns, new, strict=True)}, integers=True
        )

    def _goes_up(self, count: Ints, beyond: Ints, base: int, rng: np.random.Generator) -> Bools:
        if self.how == "down":
            return np.zeros(len(count), np.bool_)
        if self.how == "up":
            return np.asarray(beyond > 0)
        if self.how == "random":
            return np.asarray(rng.random(len(count)) < beyond / base)
        return np.asarray((beyond > base - beyond) | ((beyond == base - beyond) & (count % 2 != 0)))

    def _multiples(self, block: Floats, rng: np.random.Generator) -> Floats:
        count = block / self.base
        near = np.round(count)
        exact = np.abs(count - near) <= np.maximum(_ROUNDING, _LAST_DIGITS * np.spacing(np.abs(count)))
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


def _as_integers(series: pl.Series, base: int) -> Ints:
    """Give whole numbers in 64 bits, missing ones as 0; refuse those whose multiple might not fit."""
    import polars as pl

    most = max((abs(end) for end in (series.min(), series.max()) if isinstance(end, int)), default=0)
    if most + base >= 2**63:
        raise DataError(f"column {series.name!r}: its numbers are too large to be rounded to multiples of {base}")
    return series.fill_null(0).cast(pl.Int64).to_numpy()


def _in_type(values: Ints, before: pl.Series) -> pl.Series:
    """Give whole numbers in their old type, or in a wider one where the multiples do not fit; missing ones as null."""
    import polars as pl

    whole = pl.Series(before.name, values)
    if before.null_count():
        whole = pl.select(pl.when(before.is_not_null()).then(whole)).to_series().alias(before.name)
    try:
        return whole.cast(before.dtype)
    except pl.exceptions.InvalidOperationError:
        return whole
