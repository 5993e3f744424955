"""Measuring: CPU time, minimum of several runs, as a ratio to a base measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

RUNS = 5


def cpu(work: Callable[[], object], runs: int = RUNS) -> float:
    """Give the least CPU time of several runs, in seconds; the first, warming run does not count."""
    work()
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@dataclass(frozen=True)
class Line:
    """One line of the table: a job, its base, the ratio, and the largest ratio we accept."""

    job: str
    base: str
    seconds: float
    base_seconds: float
    limit: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.base_seconds

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


def compare(
    job: str, work: Callable[[], object], base: str, base_work: Callable[[], object], limit: float, *, runs: int = RUNS
) -> Line:
    """Measure a job and its base by turns, so that a busy machine slows both."""
    work(), base_work()
    best = [float("inf"), float("inf")]
    for _ in range(runs):
        for place, run in enumerate((work, base_work)):
            start = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - start)
    return Line(job, base, best[0], best[1], limit)
