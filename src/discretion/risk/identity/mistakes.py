"""Mistakes in what an intruder knows: noise in numbers and dates, wrong categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.part import Part

if TYPE_CHECKING:
    import polars as pl


class Mistakes(Part):
    """How wrong the intruder's values are."""

    sd_share: float = Field(0.0, ge=0)
    """normal error in numbers and dates: its standard deviation as a share of the column's"""
    share: float = Field(0.0, ge=0, le=1)
    """share of the categories that are wrong; a wrong one is any other category of the column"""


def with_errors(data: Dataset, error: Mistakes, ctx: Context) -> pl.DataFrame:
    """Give the data with errors drawn in all its columns."""
    new = []
    for name in data.columns:
        kind = data.frame.schema[name]
        inner = ctx.within(name)
        if (kind.is_numeric() or kind.is_temporal()) and error.sd_share:
            new.append(_with_noise(data.frame[name], error.sd_share, inner))
        elif not (kind.is_numeric() or kind.is_temporal()) and error.share:
            new.append(_with_wrong_categories(data, name, error.share, inner))
    return data.frame.with_columns(new)


def _with_noise(series: pl.Series, sd_share: float, ctx: Context) -> pl.Series:
    import polars as pl

    places = series.to_physical().cast(pl.Float64)
    sd = places.drop_nans().std()
    noise = ctx.rng.normal(0.0, sd_share * (sd if isinstance(sd, float) else 0.0), len(series))
    moved = places + pl.Series(noise)
    return moved.round().cast(pl.Int64).cast(series.dtype) if series.dtype.is_temporal() else moved.alias(series.name)


def _with_wrong_categories(data: Dataset, column: str, share: float, ctx: Context) -> pl.Series:
    codes = data.codes(column)
    present = np.unique(codes.codes[codes.codes != codes.missing])
    if len(present) < 2:
        return data.frame[column]
    rng = ctx.rng
    wrong = (rng.random(len(data)) < share) & (codes.codes != codes.missing)
    shift = rng.integers(1, len(present), len(data))
    place = (np.searchsorted(present, codes.codes) + shift) % len(present)
    donor = np.where(wrong, codes.first_rows[present[place]], np.arange(len(data)))
    return data.frame[column].gather(donor.astype(np.uint32))
