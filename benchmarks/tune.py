"""Tuning: sixty settings on the census of 30,000, against one tree of scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import discretion as dc
from benchmarks.ratio import Line

ROWS = 30_000
NUMBERS = ("age", "income", "savings")
LIMIT = 60.0
"""CPU seconds that sixty settings may take, on the machine of the figures in the documentation."""


def methods() -> list[Any]:
    """Give sixty settings: swapping, three kinds of noise, microaggregation, and pipelines of two steps."""
    columns = list(NUMBERS)
    return [
        dc.Vary(dc.RankSwap, columns=columns, percent=dc.Range(1.0, 50.0, 15, log=True)),
        dc.Vary(dc.AdditiveNoise, columns=columns, sd_share=dc.Range(0.02, 1.0, 15, log=True)),
        dc.Vary(dc.MultiplicativeNoise, columns=columns, sd=dc.Range(0.02, 0.9, 10, log=True)),
        dc.Vary(dc.IndividualRanking, columns=columns, k=dc.Range(3, 40, 8)),
        [
            dc.Vary(dc.RankSwap, columns=["age"], percent=dc.Grid([5, 20, 40])),
            dc.Vary(dc.AdditiveNoise, columns=["income", "savings"], sd_share=dc.Grid([0.05, 0.1, 0.2, 0.4])),
        ],
    ]


def lines() -> Iterator[Line]:
    """Yield the CPU time of whole searches in units of one tree on as many rows (a single run each)."""
    from sklearn.tree import DecisionTreeClassifier

    people = dc.datasets.census(ROWS, seed=1)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2 * ROWS, 8)), np.repeat([0, 1], ROWS)
    start = time.process_time()
    DecisionTreeClassifier(min_samples_leaf=60, random_state=0).fit(x, y)
    base = time.process_time() - start
    columns = list(NUMBERS)
    risk = [dc.DistanceLinkage(columns=columns), dc.IntervalRisk(columns=columns), dc.RankInterval(columns=columns)]
    cases: dict[str, dict[str, Any]] = {
        "default measures": {},
        "a wide front": {"risk": risk, "utility": dc.VariableChange(columns=columns)},
    }
    for name, figures in cases.items():
        start = time.process_time()
        found = dc.tune(people, methods(), seed=1, **figures)
        spent = time.process_time() - start
        tried = f"tune, {len(found.points) + len(found.failed)} settings, census {ROWS:,}, {name}"
        yield Line(tried, "sklearn tree, 60,000×8", spent, base, LIMIT / base)
