"""Distinction and separation against their definitions, and against ARX."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import PlanError
from discretion.risk.identity.suda import minimal_keys
from tests.shared import reference


def naive(table: pl.DataFrame, columns: tuple[str, ...]) -> tuple[float, float]:
    rows = table.select(columns).rows()
    pairs = list(combinations(rows, 2))
    return len(set(rows)) / len(rows), sum(a != b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("max_size", [None, 1, 2])
def test_against_the_definition(max_size: int | None) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        columns = int(rng.integers(2, 6))
        table = pl.DataFrame({f"c{j}": rng.integers(0, rng.integers(2, 9), 30) for j in range(columns)})
        table = pl.concat([table, table[:5], table[:2]])
        found = dc.QuasiIdentifiers(columns=table.columns, max_size=max_size).subsets(dc.Dataset(table))
        sizes = range(1, min(max_size or columns, columns) + 1)
        assert [s.columns for s in found] == [c for size in sizes for c in combinations(table.columns, size)]
        for subset in found:
            assert (subset.distinction, subset.separation) == pytest.approx(naive(table, subset.columns), abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=2, max_size=12))
def test_minimal_keys(rows: list[tuple[int, ...]]) -> None:
    table = pl.DataFrame(rows, schema=list("abcd"), orient="row")
    keys = {c for size in range(1, 5) for c in combinations("abcd", size) if naive(table, c)[0] == 1}
    want = {key for key in keys if not any(set(other) < set(key) for other in keys)}
    found = dc.QuasiIdentifiers(columns=list("abcd")).subsets(dc.Dataset(table))
    assert {key.columns for key in minimal_keys(found)} == want


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=20))
def test_more_columns_never_tell_less_apart(rows: list[tuple[int, ...]]) -> None:
    table = pl.DataFrame(rows, schema=list("abc"), orient="row")
    found = {s.columns: s for s in dc.QuasiIdentifiers(columns=list("abc")).subsets(dc.Dataset(table))}
    for small, large in combinations(found, 2):
        if set(small) <= set(large):
            assert found[small].distinction <= found[large].distinction
            assert found[small].separation <= found[large].separation


def test_value_is_the_best_of_what_is_known() -> None:
    rng = np.random.default_rng(2)
    table = pl.DataFrame({"a": rng.integers(0, 3, 200), "b": rng.integers(0, 40, 200), "c": rng.integers(0, 5, 200)})
    for known in (1, 2, 3):
        score = dc.QuasiIdentifiers(columns=list("abc"), known=known)(table)
        best = max(naive(table, c)[0] for size in range(1, known + 1) for c in combinations("abc", size))
        assert score.value == pytest.approx(best)
        chosen = score.detail["best"]["columns"]
        assert np.allclose(score.per_record, 1 / dc.Dataset(table).class_sizes(chosen))
    lost = score.detail["lost_without"]
    assert lost["a"] == pytest.approx(naive(table, ("a", "b", "c"))[0] - naive(table, ("b", "c"))[0])
    assert max(lost, key=lambda name: lost[name]) == "b"


def test_an_identifier_is_found() -> None:
    table = pl.DataFrame({"id": range(50), "sex": ["f", "m"] * 25, "copy": range(50)})
    score = dc.QuasiIdentifiers(columns=["sex", "id", "copy"], known=1)(table)
    assert score.value == 1
    assert score.detail["minimal_keys"] == [["id"], ["copy"]]
    assert score.detail["single"]["sex"]["distinction"] == pytest.approx(2 / 50)


def test_missing_values() -> None:
    table = pl.DataFrame({"a": [1, 1, None, None, 2], "b": [1, 1, 1, 1, 1]})
    assert dc.QuasiIdentifiers(columns=["a", "b"])(table).value == pytest.approx(3 / 5)
    ignored = dc.QuasiIdentifiers(columns=["a", "b"], missing="ignore")(table)
    assert ignored.value == pytest.approx(2 / 3)
    with pytest.raises(dc.DataError, match="every record has a missing value"):
        dc.QuasiIdentifiers(columns=["a", "b"], missing="ignore")(table[2:4])


def test_table_lists_every_subset() -> None:
    table = dc.datasets.people_without_names()
    found = dc.QuasiIdentifiers(columns=["zip", "age", "sex"]).table(table)
    assert found.columns == ["columns", "size", "distinction", "separation"]
    assert found.height == 7 and found["size"].to_list() == [1, 1, 1, 2, 2, 2, 3]


def test_bad_parameters() -> None:
    table = pl.DataFrame({f"c{j}": [0, 1] for j in range(20)})
    with pytest.raises(dc.PlanError, match="1,048,575 subsets"):
        dc.QuasiIdentifiers(columns=table.columns)(table)
    with pytest.raises(dc.PlanError, match="less than the 4 columns `known`"):
        dc.QuasiIdentifiers(columns=table.columns, max_size=2, known=4)(table)
    assert dc.QuasiIdentifiers(columns=table.columns, max_size=2)(table).value == 1


def test_one_record_is_its_own_key() -> None:
    score = dc.QuasiIdentifiers(columns=["a"])(pl.DataFrame({"a": [1]}))
    assert score.value == 1 and score.detail["best"]["separation"] == 1


@pytest.mark.peers
def test_arx_on_adult() -> None:
    golden = json.loads(reference("golden", "arx", "risk_adult_raw_5qi.json").read_text())
    adult = pl.read_csv(reference("data", "adult", "adult.csv"), separator=";")
    found = {frozenset(s.columns): s for s in dc.QuasiIdentifiers(columns=golden["qis"]).subsets(dc.Dataset(adult))}
    assert len(found) == len(golden["attribute_risks"]) == 31
    for item in golden["attribute_risks"]:
        mine = found[frozenset(item["qis"])]
        assert mine.distinction == pytest.approx(item["distinction"], rel=1e-9)
        assert mine.separation == pytest.approx(item["separation"], rel=1e-9)


def test_per_record_looks_at_the_same_records_as_the_value() -> None:
    table = pl.DataFrame({"a": [1, 1, 1, 2], "b": [1, None, 2, 3]})
    score = dc.QuasiIdentifiers(columns=["a", "b"], known=1, missing="ignore")(table)
    assert score.detail["best"]["columns"] == ["b"]
    np.testing.assert_array_equal(score.per_record, [1.0, np.nan, 1.0, 1.0])
    both = dc.QuasiIdentifiers(columns=["a", "b"], known=1, missing="ignore")
    only_a = both(table.with_columns(pl.Series("b", [7, None, 7, 7])))
    np.testing.assert_array_equal(only_a.per_record, [0.5, np.nan, 0.5, 1.0])


@pytest.mark.parametrize("missing", ["category", "ignore"])
def test_small_cells_of_every_subset(missing: Literal["category", "ignore"]) -> None:
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.integers(0, size, 200) for name, size in (("a", 3), ("b", 9), ("c", 30))})
    frame = frame.with_columns(c=pl.when(pl.col("c") > 2).then("c"))
    counted = frame if missing == "category" else frame.drop_nulls()
    table = dc.QuasiIdentifiers(columns=["a", "b", "c"], missing=missing).table(frame, smaller_than=4)
    assert table.height == 7
    for columns, cells, records in table.select("columns", "small_cells", "small_records").rows():
        sizes = counted.group_by(columns).len().filter(pl.col("len") < 4)["len"]
        assert (cells, records) == (len(sizes), sizes.sum())
    with pytest.raises(PlanError, match="smaller_than"):
        dc.QuasiIdentifiers(columns=["a"]).table(frame, smaller_than=1)


def test_small_cells_are_counted_for_every_subset() -> None:
    rng = np.random.default_rng(5)
    table = pl.DataFrame({name: rng.integers(0, 4, 60) for name in "abc"})
    measure = dc.QuasiIdentifiers(columns=list("abc"), max_size=2, known=2, smaller_than=5)
    score = measure(table)
    for row in score.detail["small_cells"]:
        sizes = table.group_by(row["columns"]).len().filter(pl.col("len") < 5)["len"]
        assert (row["small_cells"], row["small_records"]) == (len(sizes), sizes.sum())
    assert score.detail["small_cells_in_all"] == measure.table(table)["small_cells"].sum() > 0
    assert "fewer than 5 records" in score.meaning
    with pytest.raises(dc.PlanError):
        dc.QuasiIdentifiers(smaller_than=1)
