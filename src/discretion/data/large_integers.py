"""Whole numbers too large for floats, compared without losing their last digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

_EXACT = 2**53
"""Floats hold every whole number up to this."""


def as_differences(columns: Sequence[pl.Series]) -> list[NDArray[np.float64]] | None:
    """Give whole numbers beyond 2^53 as differences from the smallest of them all; None where floats hold them anyway.

    Differences between numbers stay the same, and two numbers that differ stay different as long as they lie less than
    2^53 apart. Missing values are NaN.
    """
    import polars as pl

    if not columns or not all(column.dtype.is_integer() for column in columns):
        return None
    ends: list[Any] = [end for column in columns for end in (column.min(), column.max()) if end is not None]
    if not ends or max(abs(int(end)) for end in ends) <= _EXACT:
        return None
    low = min(int(cast(int, end)) for end in ends)
    shifted = [column.cast(pl.Int128) - pl.lit(low, dtype=pl.Int128) for column in columns]
    return [pl.select(column).to_series().cast(pl.Float64).to_numpy() for column in shifted]
