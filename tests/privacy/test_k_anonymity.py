from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def test_missing_under_three_readings() -> None:
    data = pl.DataFrame({"a": ["x", "x", "x", None], "b": ["1", "1", "1", "1"]})
    strict = dc.KAnonymity(k=2, columns=["a", "b"])(data)
    assert (strict.value, strict.holds, strict.failing_records) == (1, False, 1)
    assert strict.detail["k_wildcard"] == 4 and strict.detail["k_ignore"] == 3
    assert dc.KAnonymity(k=2, columns=["a", "b"], missing="wildcard")(data).holds
    assert dc.KAnonymity(k=2, columns=["a", "b"], missing="ignore")(data).value == 3


def test_nan_is_missing() -> None:
    data = pl.DataFrame({"a": [1.0, float("nan"), None, 1.0]})
    assert dc.KAnonymity(k=2, columns=["a"])(data).value == 2


def test_all_records_incomplete() -> None:
    with pytest.raises(dc.DataError, match="nothing is left to count"):
        dc.KAnonymity(k=2, columns=["a"], missing="ignore")(pl.DataFrame({"a": [None, None]}, schema={"a": pl.String}))


def test_failing_classes_are_listed_smallest_first() -> None:
    data = pl.DataFrame({"a": ["p"] * 3 + ["q"] * 2 + ["r"]})
    verdict = dc.KAnonymity(k=3, columns=["a"])(data)
    assert [(c.key["a"], c.size) for c in verdict.failing] == [("r", 1), ("q", 2)]
    assert (verdict.failing_count, verdict.failing_records) == (2, 3)


def test_quasi_identifiers_are_the_default_and_needed() -> None:
    frame = pl.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]})
    assert dc.KAnonymity(k=1)(dc.Dataset(frame, roles={"a": "quasi"})).value == 1
    with pytest.raises(dc.PlanError, match="give `columns`"):
        dc.KAnonymity(k=2)(frame)


def test_against_polars_at_a_million_rows() -> None:
    rng = np.random.default_rng(1)
    data = pl.DataFrame({f"c{j}": rng.integers(0, 3 + j, 1_000_000) for j in range(5)})
    want = data.group_by(data.columns).len()["len"]
    verdict = dc.KAnonymity(k=400, columns=data.columns)(data)
    assert verdict.value == want.min()
    assert verdict.failing_count == (want < 400).sum()
    assert verdict.failing_records == want.filter(want < 400).sum()


@pytest.mark.parametrize("missing", ["category", "wildcard", "ignore"])
def test_sizes_are_whole_numbers_with_and_without_missing_values(missing: str) -> None:
    for values in (["x", "x", "y"], ["x", "x", "y", None]):
        verdict = dc.KAnonymity(k=3, columns=["a"], missing=missing)(pl.DataFrame({"a": values}))
        assert type(verdict.value) is int
        assert verdict.failing and all(type(item.size) is int for item in verdict.failing)
        found = [figure for name, figure in verdict.detail.items() if name.startswith("k_")]
        assert all(type(figure) is int for figure in found)


def test_sizes_that_are_not_whole_stay_fractions() -> None:
    table = pl.DataFrame({"a": ["x", "x", "y", None]})
    verdict = dc.KAnonymity(k=3, columns=["a"], missing="wildcard", alpha=0.3)(table)
    assert verdict.value == pytest.approx(1.3) and {type(item.size) for item in verdict.failing} == {float}
