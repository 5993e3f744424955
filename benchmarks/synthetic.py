"""Synthesis through the public classes: learn and draw as many rows, against one tree of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.anonymize import load
from benchmarks.ratio import Line, compare, cpu

N = 1_000_000
_SECONDS = 30.0


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    from sklearn.tree import DecisionTreeClassifier

    people = load()[0]
    people = people.with_columns(pl.col(name).cast(pl.Int64) for name in people.columns if name == "age")
    coded = [people[name].cast(pl.String).cast(pl.Categorical).to_physical() for name in people.columns]
    codes = np.column_stack(coded).astype(np.float32)
    base = "tree of depth 10, all columns"

    def one_tree() -> None:
        DecisionTreeClassifier(max_depth=10, random_state=0).fit(codes[:, :-1], codes[:, -1])

    size = f"{people.height:,} × {people.width}"
    yield compare(f"SequentialTrees, {size}", lambda: dc.SequentialTrees()(people, seed=1), base, one_tree, 12.0)
    yield compare(f"IndependentMargins, {size}", lambda: dc.IndependentMargins()(people, seed=1), base, one_tree, 6.0)
    large = numbers_and_categories(N)
    seconds = cpu(lambda: dc.SequentialTrees()(large, seed=1), runs=1)
    yield Line(f"SequentialTrees, {N:,} × 10", "one second", seconds, 1.0, _SECONDS)


def numbers_and_categories(n: int) -> pl.DataFrame:
    """Give ten columns that depend on each other: five of numbers, five of categories."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5))
    columns = {f"x{j}": z[:, j] for j in range(5)}
    for j, levels in enumerate((2, 4, 8, 16, 32)):
        cuts = np.quantile(z[:, j], np.arange(1, levels) / levels)
        moved = np.searchsorted(cuts, z[:, j] + rng.normal(size=n))
        columns[f"c{j}"] = np.array([f"v{code}" for code in range(levels)])[moved]
    return pl.DataFrame(columns)
