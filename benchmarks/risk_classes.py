"""Uniqueness risks against counting the classes with polars."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

N = 100_000
KEYS = (2, 5, 3, 8, 3, 9, 2)
"""Numbers of categories of the seven key columns, as in the survey that sdcMicro's second was measured on."""


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    survey = _survey()
    keys = [f"k{j}" for j in range(len(KEYS))]
    fields = {"columns": keys, "weight": "w"}
    jobs: tuple[tuple[dc.Measure, float], ...] = (
        (dc.HouseholdRisk(**fields, household="home"), 4.0),
        (dc.IndividualRisk(**fields), 3.5),
        (dc.SampleUniqueness(columns=keys), 1.5),
        (dc.AttackerRisk(columns=keys), 2.0),
        (dc.LogLinearRisk(columns=keys, share=0.01), 4.0),
    )
    for measure, limit in jobs:
        yield compare(
            f"{type(measure).__name__}, {N:,} × {len(keys)}", lambda measure=measure: measure(survey),
            "polars group_by().len()", lambda: survey.group_by(keys).len(), limit,
        )  # fmt: skip


def _survey() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    columns = {f"k{j}": rng.zipf(1.7, N) % size for j, size in enumerate(KEYS)}
    weights = 50 + rng.integers(0, 101, N).astype(float)
    return pl.DataFrame({**columns, "w": weights, "home": np.sort(rng.integers(0, N // 4, N))})
