"""Tables: controlled rounding, its audit, adjustment and perturbation, as ratios to a stable argsort of a million."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare
from benchmarks.tables import businesses
from discretion.tables.audit import audit_rounded


def square(side: int = 50, seed: int = 0) -> dc.Cells:
    """Give a square table of small frequencies in which about one cell in six is sensitive."""
    rng = np.random.default_rng(seed)
    counts = np.maximum(rng.negative_binomial(2, 0.25, (side, side)), 0)
    rows = [(f"r{i:02}", f"c{j:02}", int(counts[i, j])) for i in range(side) for j in range(side)]
    frame = pl.DataFrame(rows, ["row", "col", "n"], orient="row")
    return dc.tables.from_cells(frame, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    cells = square()
    rounded = cells.round_controlled(5)
    keyed = dc.tables.with_record_keys(businesses(), seed=1)
    table = dc.tabulate(keyed, ["nace", "region", "size"], record_key="record_key")
    numbers = np.random.default_rng(0).random(1_000_000)
    for job, work, limit in (
        ("controlled rounding, 50 × 50", lambda: cells.round_controlled(5), 2.3),
        ("audit of that rounded table", lambda: audit_rounded(rounded), 4.6),
        ("adjustment, 50 × 50, to within 5 %", lambda: cells.adjust(seed=1), 23),
        ("cell keys: perturb that many cells", lambda: table.perturb(variance=2, maximum=5), 1),
    ):
        yield compare(job, work, "np.argsort, stable, 10⁶", lambda: np.argsort(numbers, kind="stable"), limit)
