"""Releases to report on, built in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.release.plan import Requirement, Step
from discretion.release.release import Release
from discretion.release.run import conclude

TOWNS = ("Ödenburg", "Dunmere", "Port Ash")


def people(n: int = 600, seed: int = 5) -> Dataset:
    """Give persons with names, quasi-identifiers, hierarchies, missing and skewed numbers."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    income = np.round(rng.lognormal(10, 0.6, n), 2)
    income[rng.random(n) < 0.03] = np.nan
    frame = pl.DataFrame(
        {
            "name": [f"Person{i:05d}x" for i in range(n)],
            "age": age,
            "town": rng.choice(TOWNS, n),
            "income": income,
            "savings": np.round(income * 0.3 + rng.normal(0, 4000, n), 2),
            "hours": rng.integers(0, 60, n),
        },
        nan_to_null=True,
    )
    return Dataset(
        frame,
        roles={"name": "identifier", "age": "quasi", "town": "quasi", "income": "sensitive", "savings": "sensitive"},
        hierarchies={"age": dc.Hierarchy.intervals(width=10, levels=3), "town": [(town, "*") for town in TOWNS]},
    )


def release(
    steps: Sequence[Any] | None = None,
    data: Dataset | None = None,
    requirements: Sequence[Requirement] = (),
    measures: Sequence[Any] = (),
    title: str = "",
) -> Release:
    """Apply steps to data and conclude, whether or not the requirements hold."""
    if steps is None:
        steps = [dc.DropIdentifiers(), dc.Generalize(levels={"age": 2}), dc.RankSwap(columns=["income"], percent=10)]
    study = dc.Study(people() if data is None else data, seed=7)
    for step in steps:
        study = study.apply(step)
    plan = study.plan(measures=list(measures), title=title)
    return conclude(replace(plan, requirements=tuple(requirements)), study)


def published(method: Any) -> Step:
    """Wrap a method in a step that publishes its settings."""
    return Step(method, f"published-{method.kind}", publish=True)
