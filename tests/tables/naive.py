"""The definitions of tables, written with dictionaries."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import polars as pl

import discretion as dc

REGION = {"Total": {"N": {"n1": ["a", "b"], "n2": ["c"]}, "S": ["d", "e"]}}
REGION_ABOVE = {
    "a": ["a", "n1", "N", "Total"],
    "b": ["b", "n1", "N", "Total"],
    "c": ["c", "n2", "N", "Total"],
    "d": ["d", "S", "Total"],
    "e": ["e", "S", "Total"],
}
SECTOR_ABOVE = {s: [s, "Total"] for s in "xyz"}
SIZE_ABOVE = {s: [s, "Total"] for s in ("1", "2")}
ABOVE = {"region": REGION_ABOVE, "sector": SECTOR_ABOVE, "size": SIZE_ABOVE}


def records(
    rng: np.random.Generator, n: int, *, firms: int = 0, gaps: bool = False, negative: bool = False
) -> pl.DataFrame:
    """Give random records with ties, duplicates and, if asked, missing values and firms with several records."""
    money = rng.integers(-5 if negative else 0, 30, n).astype(float)
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abcde"), n),
            "sector": rng.choice(list("xyz"), n, p=[0.7, 0.2, 0.1]),
            "size": rng.choice([1, 2], n),
            "w": rng.integers(1, 4, n).astype(float),
            "money": money,
            "staff": rng.integers(0, 9, n).astype(float),
            "firm": rng.integers(0, firms or 10 * n, n),
        }
    )
    if gaps:
        empty = pl.Series(rng.random(n) < 0.15)
        frame = frame.with_columns(
            pl.when(empty).then(None).otherwise(pl.col("money")).alias("money"),
            pl.when(pl.Series(rng.random(n) < 0.15)).then(None).otherwise(pl.col("sector")).alias("sector"),
        )
    return frame


def table(
    frame: pl.DataFrame, tables: list[list[str]], value: str | None, **options: Any
) -> dict[tuple[str, ...], Any]:
    """Give for each cell (codes of all variables) its value, respondents and contributions by respondent."""
    names = list(dict.fromkeys(name for one in tables for name in one))
    weight, contributor, missing = options.get("weight"), options.get("contributor"), options.get("missing", "category")
    cells: dict[tuple[str, ...], Any] = defaultdict(lambda: {"value": 0.0, "weight": 0.0, "by": defaultdict(float)})
    for number, row in enumerate(frame.iter_rows(named=True)):
        if missing == "ignore" and any(row[name] is None for name in names):
            continue
        w = row[weight] if weight else 1.0
        who = row[contributor] if contributor else number
        keys = set()
        for one in tables:
            above = [
                (["(missing)", "Total"] if row[name] is None else ABOVE[name][str(row[name])])
                if name in one
                else ["Total"]
                for name in names
            ]
            keys |= set(product(*above))
        for key in keys:
            cell = cells[key]
            cell["weight"] += w
            amount = 1.0 if value is None else row[value]
            if amount is not None:
                cell["value"] += w * amount
                cell["by"][who] += w * amount
    return dict(cells)


def labels(cells: dc.Cells) -> list[tuple[str, ...]]:
    """Give the labels of each cell."""
    return [tuple(cells.label(i).values()) for i in range(len(cells))]
