"""Fingerprints of columns: the same wherever the data comes from, different for different data, secret."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.method import fingerprint

KEY = b"a secret"


def table(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    gaps = rng.random(rows) < 0.1
    return pl.DataFrame(
        {
            "whole": rng.integers(-5, 99, rows),
            "float": np.where(gaps, np.nan, rng.normal(size=rows)),
            "text": [None if gap else f"ä{number % 7}" for number, gap in enumerate(gaps)],
            "names": [f"person {number}" for number in rng.permutation(rows)],
            "truth": rng.random(rows) < 0.5,
            "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 900, rows)],
        }
    ).with_columns(pl.col("float").fill_nan(None), pl.col("text").cast(pl.Categorical).alias("category"))


def prints(data: dc.Dataset, key: bytes = KEY) -> dict[str, bytes]:
    return {name: fingerprint(data, name, key) for name in data.columns}


def test_every_library_and_format_gives_the_same(tmp_path: Path) -> None:
    frame = table()
    want = prints(dc.Dataset(frame))
    assert len(set(want.values())) == len(want)
    assert prints(dc.Dataset(frame.to_pandas())) == want
    assert prints(dc.Dataset(frame.to_arrow())) == want
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    assert prints(dc.read(tmp_path / "a.parquet")) == want
    assert prints(dc.read(tmp_path / "a.csv")) == want


def test_the_width_of_numbers_and_categories_that_nobody_has_do_not_matter() -> None:
    frame = table()
    other = frame.with_columns(
        pl.col("whole").cast(pl.Int16), pl.col("text").cast(pl.Enum(["ä9", *(f"ä{i}" for i in (6, 5, 4, 3, 2, 1, 0))]))
    )
    assert prints(dc.Dataset(other)) == prints(dc.Dataset(frame))


@pytest.mark.parametrize("name", table().columns)
def test_any_change_shows_in_its_column_only(name: str) -> None:
    frame = table()
    order = np.arange(len(frame))
    first = frame[name].to_list()
    second = next(row for row, value in enumerate(first) if value is not None and value != first[0])
    order[[0, second]] = order[[second, 0]]
    swapped = dc.Dataset(frame.with_columns(frame[name][order]))
    want, got = prints(dc.Dataset(frame)), prints(swapped)
    assert {column for column in want if got[column] != want[column]} == {name}
    shorter = prints(dc.Dataset(frame.head(399)))
    assert shorter[name] != want[name]


def test_without_the_key_nothing_can_be_compared() -> None:
    data = dc.Dataset(table())
    assert not set(prints(data).values()) & set(prints(data, b"another").values())


def test_many_texts_and_several_batches() -> None:
    frame = pl.DataFrame({"id": [f"n{number}" for number in range(70_000)], "x": np.arange(70_000)})
    want = prints(dc.Dataset(frame))
    assert prints(dc.Dataset(frame.with_columns(pl.col("id").cast(pl.Categorical)))) == want
    last = frame.with_columns(pl.when(pl.col("x") == 69_999).then(0).otherwise(pl.col("x")).alias("x"))
    assert prints(dc.Dataset(last))["x"] != want["x"]
    renamed = frame.with_columns(
        pl.when(pl.col("x") == 69_999).then(pl.lit("n70000")).otherwise(pl.col("id")).alias("id")
    )
    assert prints(dc.Dataset(renamed))["id"] != want["id"]


def test_it_is_kept_with_the_column_and_forgotten_when_that_changes() -> None:
    data = dc.Dataset(table())
    want = prints(data)
    derived = data.with_columns({"whole": np.arange(len(data))})
    assert ("fingerprint", "whole") not in derived._cache and ("fingerprint", "text") in derived._cache
    assert prints(derived)["whole"] != want["whole"] and prints(derived)["text"] == want["text"]
