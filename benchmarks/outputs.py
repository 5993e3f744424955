"""Output checking: what differencing over a project's results costs, as a ratio to a stable argsort of a million."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.ratio import Line, compare
from discretion.outputs import OutputLimits
from discretion.outputs.judge import OutputGroups, differences
from discretion.policy.policy import Policy


def told(people: int, results: int, seed: int = 0) -> list[OutputGroups]:
    """Give tables by one to three variables of invented people, as a project hands them in one after the other."""
    rng = np.random.default_rng(seed)
    variables = [rng.integers(0, size, people) for size in (2, 4, 5, 6, 8, 10)]
    found = []
    for number in range(results):
        chosen = rng.choice(len(variables), rng.integers(1, 3), replace=False)
        group = np.unique(np.column_stack([variables[one] for one in chosen]), axis=0, return_inverse=True)[1].ravel()
        found.append(OutputGroups(f"table {number}", group.astype(np.int64), (), {}))
    return found


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    limits = OutputLimits.of(Policy.load("research-output"))
    numbers = np.random.default_rng(0).random(1_000_000)
    for people, results, limit in ((20_000, 5, 2), (20_000, 20, 50)):
        groups = told(people, results)
        yield compare(
            f"one more result after {results}, {people:,} people",
            lambda groups=groups: differences(groups[-1:], groups[:-1], np.arange(people), limits),  # noqa: B023
            "np.argsort, stable, 10⁶",
            lambda: np.argsort(numbers, kind="stable"),
            limit,
            runs=2,
        )
