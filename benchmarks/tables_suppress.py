"""Complementary suppression, as ratios to a stable argsort of a million numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare, cpu
from benchmarks.tables import HIERARCHIES, LEVELS, businesses
from discretion.tables.elimination import eliminate
from discretion.tables.optimal import optimal


def square(size: int = 50, seed: int = 0) -> dc.Cells:
    """Give a square of small frequencies."""
    rng = np.random.default_rng(seed)
    rows, cols = np.indices((size, size)).reshape(2, -1)
    frame = pl.DataFrame({"row": rows, "col": cols, "n": rng.poisson(rng.gamma(1.5, 8, size * size))})
    return dc.tables.from_cells(frame, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])


def firms(n: int) -> dc.Cells:
    """Give a table of turnover in three hierarchical variables."""
    cells = dc.tabulate(businesses(n), list(LEVELS), "turnover", hierarchies=HIERARCHIES)
    return cells.apply_rules([dc.PPercent(percent=10)])


def grown(times: int = 1, seed: int = 0) -> dc.Cells:
    """Give turnover in three hierarchical variables, like 100,000 firms; sizes `times` as large, records its cube."""
    rng = np.random.default_rng(seed)
    trees: dict[str, Any] = {
        "nace": {
            f"N{i:02}": {f"N{i:02}{j}": [f"N{i:02}{j}{k}" for k in range(3)] for j in range(4)}
            for i in range(10 * times)
        },
        "region": {f"R{i:02}": [f"R{i:02}{j}" for j in range(4)] for i in range(5 * times)},
        "size": [f"S{i:02}" for i in range(5 * times)],
    }
    n = 100_000 * times**3
    columns, dims = {}, {}
    for name, tree in trees.items():
        dims[name] = dc.Dimension.tree(name, tree)
        leaves = np.array(dims[name].codes)[dims[name].leaves]
        share = np.exp(rng.normal(0, 1.1, len(leaves)))
        if name == "size":
            share = 0.46 ** (np.arange(len(leaves)) / times)
        columns[name] = rng.choice(leaves, n, p=share / share.sum())
    frame = pl.DataFrame({**columns, "value": np.ceil(rng.lognormal(3.8, 1.7, n))})
    return dc.tabulate(frame, list(trees), "value", hierarchies=dims).apply_rules([dc.PPercent(percent=10)])


def growth() -> tuple[float, float]:
    """Give the CPU seconds of elimination on 23,000 cells and on 153,000 made alike."""
    seconds = []
    for times in (1, 2):
        cells = grown(times)
        cells.x.transposed  # noqa: B018 - made once, before the clock starts
        seconds.append(cpu(lambda cells=cells: eliminate(cells, singletons=False), runs=3))  # type: ignore[misc]
    return seconds[0], seconds[1]


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    small, large = growth()
    yield Line("elimination, 153,000 cells", "23,000 cells made alike", large, small, 10.0)
    numbers = np.random.default_rng(0).random(1_000_000)
    for job, cells, *limits in (
        ("elimination, 50 × 50 frequencies", square(), 0.77, 0.77),
        ("elimination, 2,000 firms", firms(2_000), 0.77, 7.0),
        ("elimination, 100,000 firms", firms(100_000), 8.0, 12.0),
    ):
        cells.x.transposed  # noqa: B018 - made once, before the clock starts
        for (name, singletons), limit in zip(((job, False), (f"{job}, singletons", True)), limits, strict=True):
            yield compare(
                name,
                lambda cells=cells, singletons=singletons: eliminate(cells, singletons=singletons),  # type: ignore[misc]
                "np.argsort, stable, 10⁶",
                lambda: np.argsort(numbers, kind="stable"),
                limit,
            )
    cells = square()
    yield compare(
        "optimal, 50 × 50 frequencies",
        lambda: optimal(cells, largest=3_000),
        "np.argsort, stable, 10⁶",
        lambda: np.argsort(numbers, kind="stable"),
        2.0,
    )
    gaps = cells.with_status(secondary=eliminate(cells))
    yield compare(
        "audit against every respondent, 50 × 50 frequencies",
        lambda: gaps.audit(attacker="contributors"),
        "np.argsort, stable, 10⁶",
        lambda: np.argsort(numbers, kind="stable"),
        12.0,
    )
