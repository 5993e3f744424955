"""The linear audit after 1,000 independent questions about 100,000 people, against a plain aggregate of duckdb."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import duckdb
import numpy as np
import polars as pl

from benchmarks.ratio import Line
from discretion.online.audit import LinearAudit

PEOPLE, QUESTIONS, MEASURED = 100_000, 1000, 21
LIMIT = 7.0
"""Median against the median of the plain query; the figure of milliseconds is printed as well (at most 10)."""


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"chosen": rng.random(PEOPLE) < 0.5, "income": rng.lognormal(10, 1, PEOPLE)})  # noqa: F841
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    plain = "SELECT count(*), sum(income) FROM people WHERE chosen"
    audit = LinearAudit(PEOPLE)
    for mask in (rng.random(PEOPLE) < 0.5 for _ in range(QUESTIONS)):
        audit.commit([mask])

    def new() -> None:
        audit.commit([rng.random(PEOPLE) < 0.5])

    repeated = rng.random(PEOPLE) < 0.5
    audit.commit([repeated])

    def query() -> None:
        connection.execute(plain).fetchall()

    draw = _median(lambda: rng.random(PEOPLE) < 0.5)
    base = _median(query)
    for job, work, less in (("new question", new, draw), ("repeated question", lambda: audit.commit([repeated]), 0.0)):
        seconds = _median(work) - less
        name = f"audit, {PEOPLE:,} people, {job} ({1000 * seconds:.1f} ms)"
        yield Line(name, "duckdb sum", seconds, base, LIMIT)


def _median(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(MEASURED):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


if __name__ == "__main__":
    for line in lines():
        print(f"{line.job:60} ratio {line.ratio:6.2f}  limit {line.limit}")
