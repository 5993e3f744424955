"""Tables: tabulating, totals and sensitive cells, as ratios to a stable argsort of a million numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare, cpu


def _sectors(i: int) -> dict[str, list[str]]:
    return {f"N{i:02}{j:02}": [f"N{i:02}{j:02}{k:02}" for k in range(4)] for j in range(4)}


LEVELS = {
    "nace": {f"N{i:02}": _sectors(i) for i in range(8)},
    "region": {f"R{i:02}": [f"R{i:02}{j:02}" for j in range(5)] for i in range(5)},
    "size": [f"S{i:02}" for i in range(5)],
}
HIERARCHIES = {name: dc.Dimension.tree(name, tree) for name, tree in LEVELS.items()}


def businesses(n: int = 100_000, seed: int = 0) -> pl.DataFrame:
    """Give records of firms in three hierarchical variables, with skewed sizes and places."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, dim in HIERARCHIES.items():
        leaves = np.array(dim.codes)[dim.leaves]
        share = 1 / np.arange(1, len(leaves) + 1)
        columns[name] = rng.choice(rng.permutation(leaves), n, p=share / share.sum())
    return pl.DataFrame({**columns, "turnover": np.ceil(rng.lognormal(3, 1.8, n)), "firm": rng.integers(0, n // 2, n)})


def wide(n: int = 650_000, seed: int = 0) -> pl.DataFrame:
    """Give records in a frame of 3000 × 10 × 2 × 75 × 10 combinations."""
    rng = np.random.default_rng(seed)
    sizes = {"town": 3000, "age": 10, "sex": 2, "job": 75, "origin": 10}
    return pl.DataFrame({name: rng.integers(0, size, n) for name, size in sizes.items()})


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    frame = businesses()
    numbers = np.random.default_rng(0).random(1_000_000)
    base = "np.argsort, stable, 10⁶"
    rules = [dc.PPercent(percent=10), dc.Threshold(minimum=3)]

    def table(**options: str) -> dc.Cells:
        cells = dc.tabulate(dc.Dataset(frame), list(LEVELS), "turnover", hierarchies=HIERARCHIES, **options)  # type: ignore[arg-type]
        return cells.apply_rules(rules)

    for job, work, limit in (
        ("tabulate + rules, 100,000 records", table, 4.6),
        ("the same, firms with several records", lambda: table(contributor="firm"), 20),
        ("additive structure of that table", lambda: (table().x, table().relations()), 4.6),
    ):
        yield compare(job, work, base, lambda: np.argsort(numbers, kind="stable"), limit)


def main() -> None:
    """Print CPU seconds, cells and memory of the wide frame: evenly spread records, so that nearly all cells differ."""
    import resource

    frame = wide()
    by = frame.columns
    cells = dc.tabulate(frame, by)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(cells, f"at most {most:.1f} GB, {cpu(lambda: dc.tabulate(frame, by), runs=1):.1f} s")


if __name__ == "__main__":
    main()
