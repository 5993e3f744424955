from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.part import parse


def test_formula_with_a_sampling_fraction() -> None:
    data = pl.DataFrame({"a": [1, 2, 3, 4, 4, 5, 5, 6, 6, 6]})
    score = dc.SampleUniqueness(columns=["a"], share=0.2)(data)
    assert score.value == pytest.approx(0.2 * 3 / (0.2 * 3 + 2 * 0.8 * 2))
    assert score.detail["share_unique"] == 0.3


def test_population_file(tmp_path: Path) -> None:
    sample = pl.DataFrame({"a": ["p", "q", "r", "r"], "b": [1, 1, 1, 1]})
    population = pl.concat([sample, pl.DataFrame({"a": ["q", "s"], "b": [1, 1]})])
    file = tmp_path / "population.csv"
    population.write_csv(file)
    by_file = dc.SampleUniqueness(columns=["a", "b"], population=str(file))(sample)
    in_memory = dc.SampleUniqueness(columns=["a", "b"], population=population)(sample)
    assert by_file.value == in_memory.value == 0.5
    written = dc.SampleUniqueness(columns=["a"], population=population).to_plan()
    with pytest.raises(dc.PlanError, match="save that data and give the path"):
        parse(written)


def test_estimate_against_a_simulated_population() -> None:
    rng = np.random.default_rng(7)
    keys = rng.zipf(1.6, 40_000) % 20_000
    sample = rng.random(40_000) < 0.3
    truth = dc.SampleUniqueness(columns=["a"], population=pl.DataFrame({"a": keys}))(pl.DataFrame({"a": keys[sample]}))
    estimate = dc.SampleUniqueness(columns=["a"], share=0.3)(pl.DataFrame({"a": keys[sample]}))
    counts = np.bincount(keys, minlength=20_000)
    drawn = np.bincount(keys[sample], minlength=20_000)
    correct = (drawn == 1).sum() / counts[drawn == 1].sum()
    assert estimate.value == pytest.approx(correct, abs=0.03)
    assert truth.value == pytest.approx(((counts == 1) & (drawn == 1)).sum() / (drawn == 1).sum())


def test_nobody_is_unique() -> None:
    data = pl.DataFrame({"a": [1, 1]})
    assert dc.SampleUniqueness(columns=["a"])(data).value == 0
    assert dc.SampleUniqueness(columns=["a"], population=data)(data).value == 0
    assert dc.SampleUniqueness(columns=["a"], share=0.5)(data).value == 0
