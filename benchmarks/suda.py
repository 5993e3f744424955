"""Special uniques and subsets of columns, through the public classes, with polars frames."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

N = 100_000
KEYS = (2, 5, 16, 9, 100, 50, 7, 4)
"""Numbers of categories of the key columns; drawn evenly, nearly every record is unique."""
ALIKE = 20
"""Categories of each column where all have as many: millions of minimal sample uniques."""


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    rng = np.random.default_rng(1)
    even = pl.DataFrame({f"k{j}": rng.integers(0, c, N) for j, c in enumerate(KEYS)})
    skewed = pl.DataFrame({f"k{j}": np.minimum(rng.geometric(2 / (c + 1), N), c) for j, c in enumerate(KEYS)})
    alike = pl.DataFrame({f"k{j}": rng.integers(0, ALIKE, N) for j in range(len(KEYS))})
    base = "polars group_by().len()"
    for name, frame, limit in (("even", even, 25.0), ("skewed", skewed, 25.0), ("alike", alike, 25.0)):
        jobs = (
            (f"Suda, {N:,} × 8 {name}, all sizes", dc.Suda(columns=frame.columns)),
            (f"Suda, {N:,} × 8 {name}, sizes ≤ 3", dc.Suda(columns=frame.columns, max_size=3)),
            (f"QuasiIdentifiers, {N:,} × 8 {name}", dc.QuasiIdentifiers(columns=frame.columns)),
        )
        for job, measure in jobs:
            yield compare(
                job, lambda measure=measure, frame=frame: measure(frame), base,
                lambda frame=frame: frame.group_by(frame.columns).len(), limit,
            )  # fmt: skip
