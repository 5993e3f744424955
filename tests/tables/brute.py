"""Attackers by definition: dense linear programs over all inner cells, one for each bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import linprog

import discretion as dc
from tests.tables.naive import REGION


def table(rng: np.random.Generator, kind: str) -> dc.Cells:
    """Give a small random table: flat, with a hierarchy, in three variables, or linked tables."""
    n = int(rng.integers(15, 60))
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abcde"), n),
            "sector": rng.choice(list("xyz"), n, p=[0.6, 0.25, 0.15]),
            "size": rng.choice(["1", "2"], n),
            "money": np.ceil(rng.lognormal(2, 1, n)),
            "firm": rng.integers(0, n, n),
        }
    )
    by: Any = {
        "flat": ["sector", "size"],
        "tree": ["region", "sector"],
        "three": ["region", "sector", "size"],
        "linked": [["region", "sector"], ["sector", "size"]],
    }[kind]
    tree = {"region": REGION} if kind != "flat" else {}
    return dc.tabulate(frame, by, "money", hierarchies=tree, contributor="firm").apply_rules([dc.PPercent(percent=15)])


def random_gaps(rng: np.random.Generator, cells: dc.Cells, share: float = 0.3) -> dc.Cells:
    """Suppress cells at random besides the sensitive ones."""
    return cells.with_status(secondary=(rng.random(len(cells)) < share) & ~cells.primary)


def interval(
    cells: dc.Cells, weights: Any, low: Any = 0.0, high: Any = np.inf, fixed: Any = None, least: Any = None
) -> tuple[float, float]:
    """Give the bounds of a sum of cells (weights over cells), from all published cells and bounds of inner cells.

    `least`: (cells,) what each cell has at least.
    """
    x = cells.x.dense().astype(float)
    shown = ~cells.suppressed
    equations, right = x[:, shown].T, cells.value[shown]
    bounds = np.column_stack(np.broadcast_arrays(low, high, cells.inner_value))[:, :2].astype(float)
    if fixed is not None:
        bounds[fixed] = cells.inner_value[fixed, None]
    objective = x @ np.asarray(weights, float)
    found = []
    for sign in (1.0, -1.0):
        floor = {} if least is None else {"A_ub": -x.T, "b_ub": -np.broadcast_to(least, len(cells))}
        result = linprog(sign * objective, A_eq=equations, b_eq=right, bounds=bounds, **floor)
        found.append(sign * np.inf * -1 if result.status == 3 else sign * result.fun)
        assert result.status in (0, 3), result.message
    return found[0], found[1]


def one(cells: dc.Cells, cell: int, **options: Any) -> tuple[float, float]:
    """Give the bounds of one cell."""
    return interval(cells, np.arange(len(cells)) == cell, **options)
