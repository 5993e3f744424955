"""Charges of the ledger against bare appends with fsync on the same disk; times of the clock, not of the CPU."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.ratio import Line
from discretion.online.ledger import EACH, Cost, Limit, PrivacyFilter, open_ledger

ROUNDS, EACH_ROUND, LIMIT = 101, 10, 2.0
SECONDS = 0.0003
"""what a charge may take beside twice the append, where a sync takes no time: SQLite's own insert of a row takes 1.8 to
2 times an append of .2 to .3 ms there (locks, two pages of its log); the rest is computing: .07 ms on a warm processor
(16 µs statements, 14 µs budgets, 7 µs hash), three times that after a sync has put the process to sleep. From 1 ms an
append on, the charge is below 1.5 times, from 3 ms on equal."""
_QUERY = '{"aggregates": [{"column": "income", "function": "sum"}], "group_by": [], "table": "people", "where": null}'


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("DISCRETION_BENCHMARK_DISK", ".")) as folder:
        file = os.open(Path(folder) / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        limits = [
            Limit(PrivacyFilter(10**12), table="people"),
            Limit(PrivacyFilter(10**12), user=EACH, period="day"),
        ]
        with open_ledger(Path(folder) / "ledger.db", limits=limits) as ledger:

            def append() -> None:
                os.write(file, b"x" * 600)
                os.fsync(file)

            def charge() -> None:
                ledger.charge("ann", "people", "a" * 64, Cost(micro_epsilon=1), query=_QUERY)

            bare, charged = _by_turns(append, charge)
        os.close(file)
    name = f"ledger charge (SQLite, two budgets; {1000 * charged:.2f} ms)"
    yield Line(name, "append + fsync", charged, bare, LIMIT + SECONDS / bare)


def _by_turns(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Give the median time of the first, and that times the median ratio over many short rounds.

    A disk shared with others is ten times slower in some moments; two neighbors in a round mostly see the same one.
    """
    spent: tuple[list[float], list[float]] = ([], [])
    first(), second()
    for _ in range(ROUNDS):
        for work, times in zip((first, second), spent, strict=True):
            start = time.perf_counter()
            for _ in range(EACH_ROUND):
                work()
            times.append((time.perf_counter() - start) / EACH_ROUND)
    bare = statistics.median(spent[0])
    return bare, bare * statistics.median(one / other for other, one in zip(*spent, strict=True))


if __name__ == "__main__":
    for line in lines():
        times = f"{1000 * line.seconds:.2f} ms, bare {1000 * line.base_seconds:.2f} ms"
        print(f"{line.job:54} {times}, ratio {line.ratio:.2f} of {line.limit:.2f}")
