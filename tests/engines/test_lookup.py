"""What becomes of classes, looked up for rows: against a dictionary."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from discretion.data.dataset import Dataset
from discretion.engines.lookup import ClassLookup
from discretion.errors import DataError


def classes(columns: int, values: int, rows: int) -> Dataset:
    rng = np.random.default_rng(columns)
    frame = pl.DataFrame({f"x{j}": rng.integers(0, values, rows) for j in range(columns)})
    gaps = pl.when(pl.Series(rng.random(rows) < 0.2)).then(None).otherwise(pl.col("x0")).alias("x0")
    floats = (pl.col("x1") / 4).alias("x1")
    return Dataset(frame.with_columns(gaps, floats, pl.col("x2").cast(pl.String)).unique(maintain_order=True))


@pytest.mark.parametrize(("columns", "values", "rows"), [(3, 4, 60), (8, 2000, 300)])  # 2000⁸ is above 2⁶⁴
def test_rows_get_what_became_of_their_class(columns: int, values: int, rows: int) -> None:
    before = classes(columns, values, rows)
    names = before.columns
    new = pl.Series("x2", [f"new {row}" for row in range(len(before))])
    hidden = np.arange(len(before)) % 5 == 0
    levels = np.arange(len(before))
    after = before.with_columns({"x2": new}, suppressed={"x0": hidden}, levels={"x2": levels})
    after = after.take(np.flatnonzero(np.arange(len(before)) % 7 != 3)[::-1])
    lookup = ClassLookup.of(before, after, names)
    drawn = np.random.default_rng(0).integers(0, len(before), 500)
    found = lookup.rewrite(Dataset(before.frame[drawn]))
    known = dict(zip(after.row_ids.tolist(), after.frame.rows(), strict=True))
    assert found.frame.rows() == [known[row] for row in drawn.tolist() if row in known]
    left = np.array([row for row in drawn.tolist() if row in known])
    assert np.array_equal(found.levels["x2"], levels[left])
    assert np.array_equal(found.suppressed("x0"), hidden[left])
    assert found.lost_records == 500 - len(left)


def test_other_data_is_refused() -> None:
    before = Dataset(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]}))
    lookup = ClassLookup.of(before, before, before.columns)
    for row in ({"a": [4], "b": ["x"]}, {"a": [1], "b": ["y"]}):
        with pytest.raises(DataError, match="counted in other data"):
            lookup.rewrite(Dataset(pl.DataFrame(row)))


def test_nothing_may_be_left() -> None:
    before = Dataset(pl.DataFrame({"a": [1, 2, 3]}))
    lookup = ClassLookup.of(before, before.take(np.zeros(3, np.bool_)), ["a"])
    assert len(lookup.rewrite(before)) == 0
