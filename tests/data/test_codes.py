"""Codes agree with equality, and class sizes with counting by hand, under each reading of missing values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.data.codes import Missing, encode
from discretion.data.dataset import Dataset


def is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def same(one: Any, other: Any) -> bool:
    """Equality as the codes promise it: all missing values are equal, lists are sets."""
    if is_missing(one) or is_missing(other):
        return is_missing(one) and is_missing(other)
    if isinstance(one, list):
        return set(one) == set(other)
    return bool(one == other)


FEW_WORDS = st.text("ab:1|", max_size=3)
COLUMNS = {
    "floats": (pl.Float64, st.sampled_from([0.0, -0.0, math.nan, 1.5, 1e300, -1e-300, 5e-324])),
    "narrow floats": (pl.Float32, st.sampled_from([0.0, -0.0, math.nan, 0.5, 2.0**100])),
    "texts": (pl.String, FEW_WORDS),
    "categories": (pl.Categorical, st.sampled_from(["", "x", "y"])),
    "ranks": (pl.Enum(["low", "mid", "high"]), st.sampled_from(["low", "high"])),
    "flags": (pl.Boolean, st.booleans()),
    "days": (pl.Date, st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)) | st.just(dt.date(1970, 1, 1))),
    "moments": (pl.Datetime("us"), st.sampled_from([dt.datetime(1800, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1)])),
    "hours": (pl.Time, st.sampled_from([dt.time(0), dt.time(23, 59, 59, 999_999)])),
    "small": (pl.Int8, st.integers(-128, 127)),
    "wide": (pl.Int64, st.sampled_from([-(2**63), 2**63 - 1, 0, 1, 2**53, 2**53 + 1])),
    "unsigned": (pl.UInt64, st.sampled_from([2**64 - 1, 2**64 - 2])),
    "unsigned wide": (pl.UInt64, st.sampled_from([0, 2**63, 2**64 - 1])),
    "huge": (pl.Int128, st.sampled_from([0, 2**64, 2**100, 2**100 + 2**64, -(2**64)])),
    "bytes": (pl.Binary, st.sampled_from([b"", b"\xff", b"a"])),
    "sets": (pl.List(pl.String), st.lists(FEW_WORDS, max_size=3)),
    "number sets": (pl.List(pl.Int64), st.lists(st.integers(0, 12), max_size=3)),
}


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_codes_are_equal_exactly_where_values_are(name: str, data: st.DataObject) -> None:
    kind, values = COLUMNS[name]
    column = data.draw(st.lists(st.none() | values, max_size=12))
    series = pl.Series(column, dtype=kind, strict=False)
    found = encode(series)
    codes = found.codes.tolist()
    cells = series.to_list()
    for i, one in enumerate(cells):
        assert 0 <= codes[i] < found.size
        assert (codes[i] == found.missing) == is_missing(one)
        for j, other in enumerate(cells):
            assert (codes[i] == codes[j]) == same(one, other), (one, other)
    for value, code in zip(cells, codes, strict=True):
        known = found.values[code]
        assert is_missing(value) if known is None else same(known, value)


def test_a_hundred_thousand_distinct_texts_and_numbers() -> None:
    numbers = np.random.default_rng(3).permutation(100_000)
    for series in (pl.Series(numbers).cast(pl.String), pl.Series(numbers * 10**12), pl.Series(numbers / 7)):
        assert len(np.unique(encode(series).codes)) == 100_000


# --- class sizes -------------------------------------------------------------------------------------------------


def sizes_by_hand(rows: Sequence[Sequence[Any]], reading: Missing) -> list[float]:
    """Count, for each row, the rows it may be confused with: O(n²), straight from the definition."""

    def match(one: Sequence[Any], other: Sequence[Any]) -> bool:
        if reading == "wildcard":
            return all(is_missing(a) or is_missing(b) or a == b for a, b in zip(one, other, strict=True))
        return all(same(a, b) for a, b in zip(one, other, strict=True))

    return [
        math.nan
        if reading == "ignore" and any(map(is_missing, row))
        else float(sum(match(row, other) for other in rows))
        for row in rows
    ]


CELLS = st.tuples(
    st.sampled_from(["p", "q", None]), st.sampled_from([1, 2, None]), st.sampled_from([0.0, -0.0, math.nan, None, 2.5])
)


@pytest.mark.parametrize("reading", ["category", "wildcard", "ignore"])
@settings(max_examples=80, deadline=None, derandomize=True)
@given(rows=st.lists(CELLS, min_size=1, max_size=25))
def test_class_sizes_under_each_reading(reading: Missing, rows: list[tuple[Any, ...]]) -> None:
    frame = pl.DataFrame(
        {
            "a": pl.Series([row[0] for row in rows], dtype=pl.String),
            "b": pl.Series([row[1] for row in rows], dtype=pl.Int64),
            "c": pl.Series([row[2] for row in rows], dtype=pl.Float64, strict=False),
        }
    )
    found = Dataset(frame).class_sizes(["a", "b", "c"], reading)
    np.testing.assert_array_equal(found, sizes_by_hand(rows, reading))


def test_class_counts_agree_whether_or_not_the_rows_were_numbered_before() -> None:
    frame = pl.DataFrame({"a": [1, 1, 2, None], "b": ["x", "x", "x", None]})
    fresh, numbered = Dataset(frame), Dataset(frame)
    numbered.classes(["a", "b"])
    assert sorted(fresh.class_counts(["a", "b"])) == sorted(numbered.class_counts(["a", "b"])) == [1, 1, 2]


def test_many_columns_overflow_64_bits_without_merging_classes() -> None:
    rng = np.random.default_rng(5)
    base = rng.integers(0, 1000, (400, 12))
    rows = np.vstack([base, base[:100]])
    data = Dataset(pl.DataFrame({f"c{j}": rows[:, j] for j in range(12)}))
    expected = [2.0] * 100 + [1.0] * 300 + [2.0] * 100
    assert data.class_sizes(data.columns).tolist() == expected
