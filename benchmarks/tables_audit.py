"""Tables: the audit and suppression by levels, as ratios to a stable argsort of a million numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare, cpu
from benchmarks.tables import HIERARCHIES, LEVELS, businesses
from discretion.kernels.arrays import Ints
from discretion.tables.differences import bonds
from discretion.tables.elimination import eliminate
from discretion.tables.levels import levels

SMALL = 6000
"""Records of the small table of businesses."""
FEWER = 2000
"""Records of a table that is protected against its respondents too."""
SPARSE = 900
"""Records of a table in which nearly all cells are sensitive."""


def square(side: int = 50, seed: int = 0) -> dc.Cells:
    """Give a square of small frequencies, cells of 1 and 2 sensitive."""
    rng = np.random.default_rng(seed)
    names = [f"{i:02}" for i in range(side)]
    frame = pl.DataFrame(
        {"row": np.repeat(names, side), "col": np.tile(names, side), "n": rng.negative_binomial(1.6, 0.12, side * side)}
    )
    return dc.tables.from_cells(frame, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])


def money(records: int) -> dc.Cells:
    """Give turnover in three hierarchical variables, sensitive by the p-percent rule."""
    frame = businesses(records)
    table = dc.tabulate(dc.Dataset(frame), list(LEVELS), "turnover", hierarchies=HIERARCHIES)
    return table.apply_rules([dc.PPercent(percent=10)])


def little_money(records: int = SMALL) -> dc.Cells:
    """Give a table of about 1,500 cells, a third of them sensitive: the same by sections only."""
    frame = businesses(records).with_columns(pl.col("nace").str.head(3))
    trees = {**HIERARCHIES, "nace": dc.Dimension.tree("nace", frame["nace"].unique().sort().to_list())}
    table = dc.tabulate(dc.Dataset(frame), list(LEVELS), "turnover", hierarchies=trees)
    return table.apply_rules([dc.PPercent(percent=10)])


def redrawn(codes: int = 1000, people: int = 150_000, seed: int = 2) -> tuple[int, Ints, Ints, Ints]:
    """Give a division and one that differs from it for some of the people, as a graph: about 1,500 pieces."""
    rng = np.random.default_rng(seed)
    old = rng.integers(0, codes, people)
    new = np.where(rng.random(people) < 0.004, (old + rng.integers(1, 4, people)) % codes, old)
    pairs, weight = np.unique(np.column_stack((old, codes + new)), axis=0, return_counts=True)
    return 2 * codes, pairs[:, 0].copy(), pairs[:, 1].copy(), weight.astype(np.int64)


def protected(cells: dc.Cells) -> dc.Cells:
    """Protect by elimination only: the audit then has failures to find."""
    return cells.with_status(secondary=eliminate(cells))


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    numbers = np.random.default_rng(0).random(1_000_000)
    base = "np.argsort, stable, 10⁶"
    graph = redrawn()
    small, sparse, counts = little_money(), money(SPARSE), square()
    jobs: tuple[tuple[str, Callable[[], object], float], ...] = (
        (f"slivers of two divisions, {len(graph[3])} pieces", lambda: bonds(*graph, 5), 4),
        ("audit with all bounds, 50 × 50 frequencies", lambda: protected(counts).audit(exact=True), 2.3),
        (f"audit, {SMALL} businesses", lambda: protected(small).audit(exact=False), 4),
        (f"audit with all bounds, {SMALL} businesses", lambda: protected(small).audit(exact=True), 11),
        (f"elimination + levels, {SMALL} businesses", lambda: levels(small, start=eliminate(small)), 15),
        (f"audit, {SPARSE} businesses, most cells sensitive", lambda: protected(sparse).audit(exact=False), 35),
        (f"levels, {SPARSE} businesses, most cells sensitive", lambda: levels(sparse, start=eliminate(sparse)), 250),
    )
    some = little_money(FEWER)
    sums, bare = (cpu(lambda o=o: some.suppress("levels", audit=o), runs=1) for o in ({}, {"rules": ()}))  # type: ignore[misc]
    yield Line(f"levels against respondents, {FEWER} businesses, sums judged", "no sums judged", sums, bare, 1.5)
    for job, work, limit in jobs:
        yield compare(job, work, base, lambda: np.argsort(numbers, kind="stable"), limit)


def main() -> None:
    """Print CPU seconds of the large table (minutes)."""
    large = money(100_000)
    start = eliminate(large)
    eliminated = large.with_status(secondary=start)
    print(f"audit after elimination: {cpu(lambda: eliminated.audit(exact=False), runs=1):.1f} s")
    found: list[dc.Cells] = []
    print(f"levels: {cpu(lambda: found.append(large.with_status(secondary=levels(large, start=start))), runs=1):.1f} s")
    print(
        f"audit after levels: {cpu(lambda: found[-1].audit(exact=False), runs=1):.1f} s", found[-1].audit(exact=False)
    )


if __name__ == "__main__":
    main()
