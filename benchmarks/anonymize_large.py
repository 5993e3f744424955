"""The search in a lattice of 13 million nodes within a minute: what it finds and proves, beside simple searches.

30,000 invented people with 15 quasi-identifiers, k = 5, at most 5 % suppressed, `loss`. A greedy walk and a genetic
search with the same evaluations stand beside it. Run by itself: python -m benchmarks.anonymize_large
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

import discretion as dc
from discretion.anonymize import explorer as explorer_module
from discretion.anonymize.explorer import Explorer, Node
from discretion.anonymize.problem import SearchProblem, Settings
from discretion.anonymize.records import Steps
from discretion.anonymize.solutions import solve

SECONDS = 60.0
GAP = 0.10


def _bands(name: str, highest: int, widths: tuple[int, ...]) -> list[list[str]]:
    """Give the hierarchy of a whole number from 0 up: bands of growing widths, then everything."""
    return [[str(v), *(f"{name} {v // width * width}+" for width in widths), "*"] for v in range(highest + 1)]


def large_case(rows: int = 30_000) -> dc.Dataset:
    """Make the data: columns of the invented census, and columns derived from it."""
    census = dc.datasets.census(rows, seed=1)
    named = ["region", "municipality", "age", "sex", "marital_status", "education", "occupation"]
    rank = {name: (pl.col(name).rank("ordinal") * 12 // (rows + 1)).cast(pl.Int64) for name in ("income", "savings")}
    frame = census.frame.select(
        *named,
        hours=(pl.col("hours").fill_null(0).cast(pl.Int64)).clip(0, 99),
        income=rank["income"].fill_null(0),
        savings=rank["savings"].fill_null(0),
        size=pl.len().over("household").clip(1, 8).cast(pl.Int64),
        ills=pl.col("diagnoses").list.len().fill_null(0).clip(0, 5).cast(pl.Int64),
        month=pl.col("birth_date").dt.month().fill_null(1).cast(pl.Int64),
        children=(pl.col("age") < 18).sum().over("household").clip(0, 1).cast(pl.Int64),
        working=(pl.col("hours").fill_null(0) > 0).cast(pl.Int64),
    )
    levels: dict[str, object] = {name: census.schema[name].hierarchy for name in named}
    levels |= {
        "hours": _bands("hours", 99, (10,)),
        "income": _bands("band", 12, (2, 4)),
        "savings": _bands("band", 12, (2, 4)),
        "size": _bands("size", 8, (3,)),
        "ills": _bands("ills", 5, ()),
        "month": _bands("month", 12, (3,)),
        "children": _bands("children", 1, ()),
        "working": _bands("working", 1, ()),
    }
    return dc.Dataset(frame, roles=dict.fromkeys(frame.columns, "quasi"), hierarchies=levels)


def make_problem(rows: int = 30_000) -> SearchProblem:
    """Make the problem anew, so that nothing is left of an earlier search."""
    return SearchProblem(large_case(rows), Settings((dc.KAnonymity(k=5),), suppression_limit=0.05))


def greedy(explorer: Explorer, until: float) -> Node | None:
    """Walk down from the top, each time to the direct successor that loses least and holds."""
    node: Node | None = explorer.evaluate(explorer.top)
    while node is not None and node.holds and time.process_time() < until:
        lower = [
            (*node.steps[:place], step - 1, *node.steps[place + 1 :]) for place, step in enumerate(node.steps) if step
        ]
        tried = [explorer.evaluate(steps) for steps in lower]
        better = min((one for one in tried if one.holds), key=lambda one: one.score, default=None)
        if better is None or better.score >= node.score:
            return node
        node = better
    return node


def genetic(explorer: Explorer, until: float, population: int = 60) -> Node | None:
    """Cross and change the best of a population of nodes; those that do not hold count as losing everything."""
    rng = np.random.default_rng(0)
    top = np.array(explorer.top)
    people: list[Steps] = [tuple(rng.integers(0, top + 1).tolist()) for _ in range(population - 1)] + [explorer.top]

    def fitness(steps: Steps) -> float:
        node = explorer.evaluate(steps)
        return node.score if node.holds else 1.0 + node.suppressed / explorer.records.n

    while time.process_time() < until:
        people = sorted(set(people), key=fitness)[: population // 3]
        while len(people) < population:
            one, other = (np.array(people[int(i)]) for i in rng.integers(0, max(len(people) // 2, 1), 2))
            child = np.where(rng.random(len(top)) < 0.5, one, other)
            change = rng.random(len(top)) < 1.5 / len(top)
            child = np.clip(child + change * rng.choice([-1, 1], len(top)), 0, top)
            people.append(tuple(child.tolist()))
    return explorer.best


def main() -> None:
    """Print the incumbent, the bound and the gap, and what the simple searches find in the same time."""
    clock: Any = SimpleNamespace(monotonic=time.process_time)  # a busy machine gives less time, not a worse answer
    vars(explorer_module)["time"] = clock
    problem = make_problem()
    print(f"{len(problem.data):,} × {len(problem.columns)}, {problem.records.nodes:,} nodes", flush=True)
    start = time.process_time()
    found = solve(problem, SECONDS)
    spent = time.process_time() - start
    gap = (found.score - found.bound) / found.score
    verdict = "ok" if gap <= GAP else "MISSED"
    figures = f"{found.score:.6f}, bound {found.bound:.6f}, gap {gap:.1%} (at most {GAP:.0%}: {verdict})"
    print(f"search: {figures}, {len(found.space)} nodes, {spent:.1f} s CPU", flush=True)
    searches: dict[str, Callable[[Explorer, float], Node | None]] = {"greedy": greedy, "genetic": genetic}
    for name, work in searches.items():
        explorer = make_problem().explore()
        start = time.process_time()
        best = work(explorer, start + SECONDS)
        score = math.nan if best is None else best.score
        print(
            f"{name}: {score:.6f}, {len(explorer.evaluated)} nodes, {time.process_time() - start:.1f} s CPU", flush=True
        )


if __name__ == "__main__":
    main()
