"""What the place of a row tells: all in a sorted file, nothing in a permuted one."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release.order import permuted
from discretion.risk.attribute.column_dependence import _most_frequent

N = 4000


def people() -> dc.Dataset:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abcdefgh"), N),
            "age": rng.integers(0, 95, N),
            "sex": rng.integers(0, 2, N),
            "income": rng.lognormal(8, 1, N),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 20_000, N)],
        }
    )
    return dc.Dataset(frame.sort("region", "age"))


def generalized(data: dc.Dataset) -> dc.Dataset:
    """Hide region and age completely; only the order is left of them."""
    return data.with_columns({"region": ["*"] * len(data), "age": [0] * len(data)})


def test_a_sorted_file_gives_region_and_age_back() -> None:
    data = people()
    score = dc.RowOrder()(data, generalized(data))
    found = score.detail["per_column"]
    assert score.value > 0.98 and score.detail["column"] == "region" and score.detail["chance"] < 0.2
    assert found["age"]["success"] > 0.85 and found["age"]["chance"] < 0.1
    for name in ("sex", "income", "born"):
        assert abs(found[name]["gain"]) < 0.06
    assert score.per_record is not None and np.nanmean(score.per_record) == pytest.approx(score.value)
    assert np.isnan(score.per_record).sum() == score.detail["known"] == N // 20


def test_dates_and_numbers_of_a_sorted_file_are_interpolated() -> None:
    data = people()
    for name in ("born", "income"):
        ordered = dc.Dataset(data.frame.sort(name))
        assert dc.RowOrder(columns=[name])(ordered, ordered).value > 0.9
        assert dc.RowOrder(columns=[name])(data, data).detail["chance"] < 0.25


@pytest.mark.parametrize("seed", [2**127, 2**127 + 1, 2**127 + 2])
def test_a_permuted_file_tells_no_more_than_chance(seed: int) -> None:
    data = people()
    score = dc.RowOrder()(data, permuted(generalized(data), seed))
    for one in score.detail["per_column"].values():
        error = np.sqrt(one["chance"] * (1 - one["chance"]) / N)
        assert one["success"] <= one["chance"] + 3 * error
    kept = dc.RowOrder(columns=["region"])(data, generalized(data)).value
    assert dc.RowOrder(columns=["region"])(data, permuted(generalized(data), seed)).value < kept / 4


@pytest.mark.parametrize("text", [False, True])
def test_a_published_column_that_counts_the_rows_undoes_the_permutation(text: bool) -> None:
    numbers = pl.Series("number", np.arange(N) * 3 + 1000)
    data = dc.Dataset(people().frame.with_columns(numbers.cast(pl.String) if text else numbers))
    score = dc.RowOrder(columns=["region", "number"])(data, permuted(generalized(data), 2**127))
    assert score.detail["counts_rows"] == {"number": pytest.approx(1.0)}
    assert score.value > 0.95 and score.detail["per_column"]["region"]["from"] == "number"
    assert "'number'" in score.meaning
    hidden = permuted(generalized(data).drop(["number"]), 2**127)
    assert dc.RowOrder(columns=["region"])(data, hidden).value < 0.2


def test_a_sorted_release_of_matched_rows_is_judged_in_its_own_order() -> None:
    """Sorting a permuted release by a published column tells what that column tells, not the old order."""
    data = people()
    hidden = generalized(data)
    by_income = hidden.take(np.argsort(hidden.number("income")))
    found = dc.RowOrder(columns=["region", "income"])(data, by_income).detail["per_column"]
    assert found["region"]["success"] < 0.2 and found["income"]["success"] > 0.9


@pytest.mark.parametrize("different", [1, 4, 30, 300])
@pytest.mark.parametrize("wide", [1, 5, 6, 25])
def test_the_most_frequent_value_as_a_count_gives_it(different: int, wide: int) -> None:
    rng = np.random.default_rng(different + wide)
    values = rng.integers(0, different, 400).astype(float)
    told = _most_frequent(values, wide)
    assert len(told) == 400 - wide + 1
    for first, one in enumerate(told):
        window = values[first : first + wide]
        found, counts = np.unique(window, return_counts=True)
        middle = window[wide // 2]
        assert one == (middle if counts[found == middle] == counts.max() else found[counts.argmax()])


def test_what_cannot_be_guessed_is_an_error() -> None:
    names = pl.DataFrame({"name": [f"n{i}" for i in range(40)], "one": [1] * 40})
    with pytest.raises(dc.DataError, match="no column has values that can be guessed"):
        dc.RowOrder()(names, names)
    with pytest.raises(dc.DataError, match="7 rows"):
        dc.RowOrder()(names.head(7), names.head(7))
