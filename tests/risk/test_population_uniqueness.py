from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.risk.identity.uniqueness import ESTIMATORS


def people(seed: int = 1) -> np.ndarray:
    """Give the class of each person: many small classes, few large ones."""
    rng = np.random.default_rng(seed)
    sizes = rng.negative_binomial(0.4, 0.03, 8_000) + 1
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("estimator", list(ESTIMATORS))
def test_every_estimator_gets_the_class_sizes_of_the_sample(estimator: str) -> None:
    keys = people()
    sample = np.random.default_rng(2).choice(keys, len(keys) // 4, replace=False)
    counts = np.bincount(sample)
    frequencies = np.bincount(counts[counts > 0])
    size = round(len(sample) / 0.25)
    want = ESTIMATORS[estimator](frequencies, size)
    score = dc.PopulationUniqueness(columns=["a"], share=0.25, estimator=estimator)(pl.DataFrame({"a": sample}))
    assert score.value == pytest.approx(want / size)
    assert score.detail["people"] == pytest.approx(want)
    assert score.detail["estimates"][estimator] == pytest.approx(want / size)
    assert set(score.detail["estimates"]) == set(ESTIMATORS)
    by_size = dc.PopulationUniqueness(columns=["a"], population_size=size, estimator=estimator)
    assert by_size(pl.DataFrame({"a": sample})).value == score.value


def test_the_population_tells_the_truth(tmp_path: Path) -> None:
    keys = people()
    sizes = np.bincount(keys)
    sample = np.random.default_rng(2).choice(keys, len(keys) // 4, replace=False)
    drawn = np.bincount(sample, minlength=len(sizes))
    score = dc.PopulationUniqueness(columns=["a"], population=pl.DataFrame({"a": keys}))(pl.DataFrame({"a": sample}))
    assert score.value == (sizes == 1).sum() / len(keys)
    assert score.detail["records_unique_in_population"] == ((sizes == 1) & (drawn == 1)).sum()
    assert score.detail["population_size"] == len(keys)
    assert score.detail["estimates"]["snb"] == pytest.approx(score.value, rel=0.3)
    path = tmp_path / "counts.csv"
    pl.DataFrame({"a": np.arange(len(sizes)), "people": sizes}).write_csv(path)
    counted = dc.PopulationUniqueness(columns=["a"], population=str(path), frequency="people")
    assert counted(pl.DataFrame({"a": sample})).value == score.value


def test_the_population_is_generalized_like_the_release() -> None:
    areas = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"area": ["a", "c"]}), roles={"area": "quasi"}, hierarchies={"area": areas})
    everybody = pl.DataFrame({"area": ["a", "b", "c"]})
    measure = dc.PopulationUniqueness(population=everybody)
    assert measure(data).value == 1
    coarser = measure(dc.Generalize(levels={"area": 1})(data))
    assert coarser.value == pytest.approx(1 / 3)
    assert coarser.detail["records_unique_in_population"] == 1


def test_missing_values() -> None:
    frame = pl.DataFrame({"a": ["x", "x", "y", None]})
    whole = dc.PopulationUniqueness(columns=["a"], share=1)
    assert whole(frame).value == 0.5
    assert dc.PopulationUniqueness(columns=["a"], share=1, missing="ignore")(frame).value == pytest.approx(1 / 3)


def test_an_estimator_that_does_not_fit_is_none_beside_and_an_error_when_chosen() -> None:
    frame = pl.DataFrame({"a": [*range(40), *[99] * 60]})  # uniques, no pairs
    score = dc.PopulationUniqueness(columns=["a"], share=0.3, estimator="zayatz")(frame)
    failing = [name for name, share in score.detail["estimates"].items() if share is None]
    for name in failing:
        with pytest.raises(dc.DataError, match="does not fit"):
            dc.PopulationUniqueness(columns=["a"], share=0.3, estimator=name)(frame)
    assert score.detail["estimates"]["zayatz"] == score.value


def test_what_is_refused() -> None:
    frame = pl.DataFrame({"a": [1, 2, 3]})
    for fields in ({}, {"share": 0.5, "population_size": 9}, {"share": 0.5, "population": frame}):
        with pytest.raises(dc.PlanError, match="give one of"):
            dc.PopulationUniqueness(columns=["a"], **fields)
    with pytest.raises(dc.PlanError, match="give `population`"):
        dc.PopulationUniqueness(columns=["a"], share=0.5, frequency="n")
    with pytest.raises(dc.DataError, match="smaller than the 3 records"):
        dc.PopulationUniqueness(columns=["a"], population_size=2)(frame)
    with pytest.raises(dc.DataError, match="nothing is counted"):
        dc.PopulationUniqueness(columns=["a"], share=0.5, missing="ignore")(pl.DataFrame({"a": [None, None]}))
