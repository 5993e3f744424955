"""What becomes of classes, looked up for rows: against a dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
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


def test_zeros_and_missing_numbers_are_looked_up_however_they_are_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    cells = rng.choice([-0.0, 0.0, 0.5, 1.5, np.nan], 400)
    rows = pl.DataFrame({"zone": pl.Series(cells), "age": rng.integers(0, 9, 400)})
    rows = rows.with_columns(pl.when(pl.Series(rng.random(400) < 0.1)).then(None).otherwise("zone").alias("zone"))
    rows[:150].write_parquet(tmp_path / "a.parquet")
    rows[150:].write_parquet(tmp_path / "b.parquet")
    roles = {"zone": "quasi", "age": "quasi"}
    for method in (dc.Mondrian(models=[dc.KAnonymity(k=4)]), dc.LocalSuppression(k=4)):
        one = dc.Study(dc.Dataset(rows, roles=roles), seed=1).apply(method).current.frame
        other = dc.Study(dc.scan(tmp_path, roles=roles), seed=1).apply(method).current.collect().frame
        assert other.equals(one)
        assert method.kind != "mondrian" or not one["zone"].str.contains("-0").any()
