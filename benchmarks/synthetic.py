"""Synthesis through the public classes: learn and draw as many rows, against one tree of scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.anonymize import load
from benchmarks.ratio import Line, compare

N = 1_000_000
_MILLION = """
import resource, time
import discretion as dc
from benchmarks.synthetic import N, numbers_and_categories
dc.SequentialTrees()(numbers_and_categories(1000), seed=1)
data = numbers_and_categories(N)
start = time.process_time()
dc.SequentialTrees()(data, seed=1)
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    from sklearn.tree import DecisionTreeClassifier

    people = load()[0]
    people = people.with_columns(pl.col(name).cast(pl.Int64) for name in people.columns if name == "age")
    texts = people.select(pl.all().cast(pl.String).fill_null("missing").cast(pl.Categorical).to_physical())
    codes = texts.to_numpy().astype(np.float32)
    base = "tree of depth 10, all columns"

    def one_tree() -> None:
        DecisionTreeClassifier(max_depth=10, random_state=0).fit(codes[:, :-1], codes[:, -1])

    size = f"{people.height:,} × {people.width}"
    yield compare(f"SequentialTrees, {size}", lambda: dc.SequentialTrees()(people, seed=1), base, one_tree, 12.0)
    yield compare(f"IndependentMargins, {size}", lambda: dc.IndependentMargins()(people, seed=1), base, one_tree, 6.0)
    done = subprocess.run([sys.executable, "-c", _MILLION], check=True, capture_output=True, text=True)
    seconds, memory = map(float, done.stdout.split())
    yield Line(f"SequentialTrees, {N:,} × 10", "one second", seconds, 1.0, 30.0)
    yield Line("  peak memory in GB (whole process)", "1 GB", memory, 1.0, 1.0)


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
