from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.privacy.class_table import ClassTable

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def people(sizes: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"q": np.repeat(np.arange(len(sizes)), sizes)})


@given(sizes=SIZES, risk=st.floats(0.05, 1))
@settings(max_examples=80, deadline=None)
def test_fewest_of_the_smallest_classes(sizes: list[int], risk: float) -> None:
    verdict = dc.AverageRisk(risk=risk, columns=["q"])(people(sizes))
    mean = sum(s * 1 / s for s in sizes) / sum(sizes)
    assert verdict.value == pytest.approx(mean)
    assert verdict.holds == (mean <= risk + 1e-12)
    rest = sorted(sizes)
    while rest and len(rest) / sum(rest) > risk + 1e-12:
        rest.pop(0)
    assert verdict.failing_count == len(sizes) - len(rest)
    assert verdict.failing_records == sum(sizes) - sum(rest)


def test_classes_that_are_out_already_do_not_count() -> None:
    table = ClassTable(np.array([1, 1, 2, 10, 10]))
    gone = np.array([True, True, False, False, False])
    model = dc.AverageRisk(risk=0.15)
    assert model.suppress(table, gone).tolist() == [True, True, False, False, False]
    assert model.failing(table).tolist() == [True, True, False, False, False]
    assert dc.AverageRisk(risk=0.1).suppress(table, gone).tolist() == [True, True, True, False, False]


def test_population_uniqueness_by_hand() -> None:
    data = people([1, 1, 1, 2, 3])
    full = dc.PopulationUniquenessBound(share=0.5, sampling_fraction=1, columns=["q"])(data)
    assert full.value == 3 / 8 and full.holds  # everybody is in the sample: nothing to estimate
    assert full.detail["sample_uniques"] == 3 and full.detail["population_size"] == 8
    none = dc.PopulationUniquenessBound(share=0, population_size=1000, columns=["q"])(people([2, 3]))
    assert none.value == 0 and none.holds


@pytest.mark.parametrize("estimator", ["dankar", "pitman", "zayatz", "snb"])
def test_suppressing_the_failing_classes_makes_it_hold(estimator: str) -> None:
    rng = np.random.default_rng(1)
    data = pl.DataFrame({"q": (rng.pareto(0.8, 3000) * 20).astype(int)})
    model = dc.PopulationUniquenessBound(share=0.01, population_size=9000, estimator=estimator, columns=["q"])
    verdict = model(data)
    assert not verdict.holds and verdict.value > 0.01
    classes = dc.Dataset(data).classes(["q"])
    table = ClassTable(classes.counts)
    rest = ClassTable(classes.counts[~model.failing(table)])
    assert model.reached(rest) <= 0.01 + 1e-12
    assert verdict.failing_records == table.sizes.sum() - rest.sizes.sum()


def test_sizes_that_contradict_each_other() -> None:
    for fields in ({}, {"population_size": 10, "sampling_fraction": 0.1}):
        with pytest.raises(dc.PlanError, match="either `population_size` or `sampling_fraction`"):
            dc.PopulationUniquenessBound(share=0.1, **fields)
    with pytest.raises(dc.DataError, match="population of 3 is smaller than the data of 8"):
        dc.PopulationUniquenessBound(share=0.1, population_size=3, columns=["q"])(people([1, 1, 1, 2, 3]))
