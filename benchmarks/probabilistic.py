"""Probabilistic and learned linkage, through the public classes, against numpy and scipy on the same pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

PEOPLE = 4000
LEARNED = 500
LEVELS = (2, 5, 10)


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    yield from _probabilistic()
    yield from _learned()


def _probabilistic() -> Iterator[Line]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(PEOPLE, 3))
    y = x + 0.1 * rng.normal(size=x.shape)
    c = np.column_stack([rng.integers(0, k, PEOPLE) for k in LEVELS])
    d = np.where(rng.random(c.shape) < 0.1, rng.integers(0, 2, c.shape), c)
    known, published = _frame(x, c), _frame(y, d)
    measure = dc.ProbabilisticLinkage(columns=known.columns)
    tolerances = measure.tolerance_sd

    def numpy_patterns() -> object:
        """Compare the same pairs by broadcasting, a block of rows at a time, and count the patterns once."""
        counts = np.zeros(5**3 * 2**3, np.int64)
        for start in range(0, PEOPLE, 250):
            code = np.zeros((250, PEOPLE), np.int32)
            for j in range(3):
                gap = np.abs(x[start : start + 250, j, None] - y[None, :, j])
                level = np.zeros(gap.shape, np.int32)
                for tolerance in tolerances:
                    level += gap <= tolerance
                code = code * 5 + level
            for j in range(3):
                code = code * 2 + (c[start : start + 250, j, None] == d[None, :, j])
            counts += np.bincount(code.ravel(), minlength=counts.size)
        return counts

    codes = rng.integers(0, 1000, PEOPLE * PEOPLE, dtype=np.int32)
    job = f"ProbabilisticLinkage, {PEOPLE:,}² × 6"
    yield compare(job, lambda: measure(known, published), "numpy broadcasting, patterns", numpy_patterns, 1.0)
    yield compare(job, lambda: measure(known, published), "np.bincount of n² codes", lambda: np.bincount(codes), 12.0)


def _learned() -> Iterator[Line]:
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(2)
    x = rng.normal(size=(LEARNED, 4))
    y = x + rng.normal(size=x.shape) * [0.15, 0.3, 0.6, 1.0]
    names = list("abcd")
    known, published = pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names)

    def base() -> object:
        return np.argpartition(cdist(x, y, "sqeuclidean"), 30, axis=1)

    for distance, limit in (("weighted", 220.0), ("choquet", 600.0)):
        measure = dc.LearnedLinkage(columns=names, distance=distance, folds=0)  # type: ignore[arg-type]
        yield compare(
            f"LearnedLinkage, {distance}, {LEARNED} × 4", lambda m=measure: m(known, published),
            "cdist + argpartition, once", base, limit,
        )  # fmt: skip


def _frame(numbers: np.ndarray, codes: np.ndarray) -> pl.DataFrame:
    columns = {f"x{j}": numbers[:, j] for j in range(3)}
    return pl.DataFrame({**columns, **{f"c{j}": [f"k{v}" for v in codes[:, j]] for j in range(3)}})
