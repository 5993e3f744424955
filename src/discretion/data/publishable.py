"""What is done to data wherever it is published: new numbers for households and people, one kind of missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.native import take_in

if TYPE_CHECKING:
    import polars as pl


def publishable(data: Dataset) -> Dataset:
    """Give the data as it may be written.

    Households and people (roles `household` and `unit`) are numbered anew, 1, 2, … in the order in which they appear:
    the old numbers stand in other files, and could tell the old order; which records belong together stays. A
    quasi-identifier with several kinds of missing values (codes for refused and for not asked, or a code and empty
    cells) has one from now on: classes were counted that way, and a rare code would tell their members apart.
    """
    new = {name: _renumbered(data, name) for name in data.having("household", "unit")}
    new |= {name: data.frame[name] for name in _kinds_of_missing(data)}
    return data.with_columns(new) if new else data


def codes_lost(data: Dataset) -> tuple[str, ...]:
    """Name the columns of which values that are missing had codes in the original and have none any more."""
    origin, numbered = data.origin, data.having("household", "unit")
    declared = [name for name in data.columns if data.schema[name].missing_codes and name in data.changed]
    named = [name for name in declared if name in origin.columns and name not in numbered]
    if not named or data.has_new_rows:
        return ()
    before = take_in(origin.to_native())[0]
    return tuple(name for name in named if before[name].null_count() < origin.count_missing(name))


def codes_without_definition(data: Dataset, spss: bool) -> tuple[str, ...]:
    """Name the columns that go out with codes which the original file defined and the new one cannot define."""
    defined = [name for name in data.columns if data.schema[name].missing_ranges and name not in data.changed]
    return () if spss else tuple(defined)


def _kinds_of_missing(data: Dataset) -> list[str]:
    """Name the quasi-identifiers that would go out with several kinds of missing values."""
    named = [
        name
        for name in data.having("quasi", "geography", "stratum")
        if data.schema[name].missing_codes and name not in data.changed
    ]
    if not named or data.has_new_rows:
        return []
    written = take_in(data.to_native())[0]
    missing = {name: data.frame[name].is_null() for name in named}
    return [name for name in named if written[name].filter(missing[name]).n_unique() > 1]


def _renumbered(data: Dataset, column: str) -> pl.Series:
    """Number households or people 1, 2, … as they appear, in the type of the old ids where it can hold them."""
    import polars as pl

    coded, before = data.codes(column), data.frame.schema[column]
    codes, first = np.unique(coded.codes, return_index=True)
    present = codes != coded.missing
    codes, first = codes[present], first[present]
    taken = {canonical(code) for code in data.schema[column].missing_codes}
    free = [number for number in range(1, len(codes) + len(taken) + 1) if str(number) not in taken]
    numbers = np.zeros(coded.size, dtype=np.int64)
    numbers[codes[np.argsort(first)]] = free[: len(codes)]
    new = pl.Series(column, numbers[coded.codes])
    new = new.set(pl.Series(coded.codes == coded.missing), None)
    if before.is_numeric():
        fits = new.cast(before, strict=False)
        return fits if fits.null_count() == new.null_count() else new
    return new.cast(pl.String)
