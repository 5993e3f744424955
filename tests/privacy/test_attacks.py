"""Interval protection and the bound on re-identification."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc


@pytest.fixture(scope="module")
def pair() -> tuple[dc.Dataset, dc.Dataset]:
    people = dc.datasets.census(800, seed=1)
    return people, dc.AdditiveNoise(columns=["age", "income"], sd_share=0.4)(people, seed=2)


@pytest.mark.parametrize(("interval", "measure"), [("sd", "SdInterval"), ("rank", "RankInterval")])
def test_interval_protection_is_the_measure_with_a_bound(
    pair: tuple[dc.Dataset, dc.Dataset], interval: str, measure: str
) -> None:
    original, released = pair
    columns = ["age", "income"]
    shares = {name: getattr(dc, measure)(columns=[name], percent=20)(original, released).value for name in columns}
    model = dc.IntervalProtection(percent=20, share=0.0, columns=columns, interval=interval)
    verdict = model(released, original=original)
    assert verdict.detail["per_column"] == pytest.approx(shares)
    assert verdict.value == pytest.approx(max(shares.values()))
    assert verdict.failing_count == 2 and not verdict.holds
    assert {item.key["column"] for item in verdict.failing} == set(columns)
    between = sum(shares.values()) / 2
    verdict = dc.IntervalProtection(percent=20, share=between, columns=columns, interval=interval)(
        released, original=original
    )
    assert verdict.failing_count == 1
    assert verdict.failing[0].key["column"] == max(shares, key=lambda name: shares[name])
    json.dumps(verdict.to_dict())


def test_publishing_the_original_fails(pair: tuple[dc.Dataset, dc.Dataset]) -> None:
    original, _ = pair
    verdict = dc.IntervalProtection(percent=1, share=0.9, columns=["income"])(original, original=original)
    assert verdict.value == 1 and verdict.failing_records == len(original)


def test_interval_protection_by_hand_and_without_regard_to_the_index() -> None:
    x, y = pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [1.0, 2, 9]})
    model = dc.IntervalProtection(percent=10, share=0.7, columns=["x"])
    odd = y.to_pandas()
    odd.index = odd.index * 7
    assert model(y, original=x).value == model(odd, original=x.to_pandas()).value == pytest.approx(2 / 3)
    order = np.array([2, 0, 1])
    assert model(y[order], original=x[order]).value == pytest.approx(2 / 3)


def test_reidentification_bound_is_the_measure_with_a_bound(pair: tuple[dc.Dataset, dc.Dataset]) -> None:
    original, released = pair
    attack = dc.DistanceLinkage(columns=["age", "income"])
    share = attack(original, released).value
    assert dc.ReidentificationBound(at_most=share, measure=attack)(released, original=original).holds
    verdict = dc.ReidentificationBound(at_most=share / 2, measure=attack)(released, original=original)
    assert not verdict.holds and verdict.value == share
    assert verdict.failing[0].key == {"measure": "distance-linkage"}
    assert verdict.failing[0].size == pytest.approx(share * len(original))
    found = attack(original, released).per_record
    assert found is not None and verdict.failing_records == np.count_nonzero(np.nan_to_num(found))
    json.dumps(verdict.to_dict())


def test_measure_by_kind_or_with_fields() -> None:
    default = dc.ReidentificationBound(at_most=0.1)
    assert default.measure == dc.DistanceLinkage()
    assert dc.ReidentificationBound(at_most=0.1, measure="distance-linkage") == default
    with_fields = dc.ReidentificationBound(at_most=0.1, measure={"sd-interval": {"percent": 5}})
    assert with_fields.measure == dc.SdInterval(percent=5)
    assert with_fields.to_plan()["reidentification-bound"]["measure"] == {"sd-interval": {"percent": 5}}


@pytest.mark.parametrize("wrong", ["mse", "rank-swap", "nonsense", {"distance-linkage": {"colums": ["x"]}}, 3])
def test_wrong_measures_are_refused(wrong: object) -> None:
    with pytest.raises(dc.PlanError, match="measure"):
        dc.ReidentificationBound(at_most=0.1, measure=wrong)


def test_a_measure_of_the_release_alone_needs_no_original() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2]})
    model = dc.ReidentificationBound(at_most=0.1, measure={"sample-uniqueness": {"columns": ["q"]}})
    assert model(frame).value == pytest.approx(1 / 3)


def test_without_the_original_it_is_an_error() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0]})
    for model in (
        dc.IntervalProtection(percent=10, share=0.5, columns=["x"]),
        dc.ReidentificationBound(at_most=0.5, measure={"distance-linkage": {"columns": ["x"]}}),
    ):
        with pytest.raises(dc.PlanError, match="original="):
            model(frame)
