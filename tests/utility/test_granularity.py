"""Granularity: by its definition, cell by cell."""

from __future__ import annotations

import polars as pl
import pytest

import discretion as dc

TOWNS = [["A", "north", "*"], ["B", "north", "*"], ["C", "south", "*"], ["D", "south", "*"]]
SEXES = [["f", "*"], ["m", "*"]]


def data(towns: list[str | None], sexes: list[str]) -> dc.Dataset:
    return dc.Dataset(pl.DataFrame({"town": towns, "sex": sexes}), hierarchies={"town": TOWNS, "sex": SEXES})


def test_levels_that_differ_between_records() -> None:
    score = dc.Granularity()(data(["A", "north", "*", None], ["f", "m", "m", "f"]))
    lost = (0 + 1 + 3 + 0) / 4 / 4  # leaves below the label − 1, over four leaves, over four records
    assert score.detail["per_column"] == pytest.approx({"town": 1 - lost * 4 / 3, "sex": 1.0})
    assert score.value == pytest.approx(1 - lost / (3 / 4 + 1 / 2))


def test_dropped_records_count_as_the_top() -> None:
    people = data(["A", "A", "B", "C"], ["f", "m", "m", "f"])
    kept = dc.SuppressRecords(k=2, columns=["town"], limit=0.5)(people)
    assert kept.lost_records == 2
    assert dc.Granularity()(kept).value == pytest.approx(0.5)


def test_everything_at_the_top_and_nothing_to_lose() -> None:
    assert dc.Granularity()(data(["*", "*"], ["*", "*"])).value == pytest.approx(0.0)
    one = dc.Dataset(pl.DataFrame({"x": ["a", "a"]}), hierarchies={"x": [["a", "*"]]})
    assert dc.Granularity()(one).value == 1.0
