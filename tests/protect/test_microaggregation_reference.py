"""Plain, slow versions of the algorithms, written from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from hypothesis import settings

examples = settings(deadline=None, derandomize=True, max_examples=80)

Rows = list[int]


def mdav(n: int, k: int, to_center: Callable[[Rows, int], float], distance: Callable[[int, int], float]) -> np.ndarray:
    """MDAV with any distance; `to_center(left, row)` is the distance of a row to the center of the rows left."""
    labels = np.full(n, -1)
    left: Rows = list(range(n))
    group = 0

    def take(row: int) -> None:
        nonlocal left, group
        chosen = sorted(left, key=lambda other: (distance(row, other), other))[:k]
        labels[chosen] = group
        left = [other for other in left if other not in chosen]
        group += 1

    def farthest(far: Callable[[int], float]) -> int:
        return min(left, key=lambda row: (-far(row), row))

    while len(left) >= 3 * k:
        outer = farthest(lambda row: to_center(left, row))
        take(outer)
        take(farthest(partial(distance, outer)))
    if len(left) >= 2 * k:
        take(farthest(lambda row: to_center(left, row)))
    labels[left] = group
    return labels


def gower(columns: np.ndarray, kinds: list[str], sizes: list[int]) -> tuple[Callable, Callable]:
    """Give the distance to the center and between records of numbers, ranks and categories."""
    weights = []
    for x, kind, size in zip(columns, kinds, sizes, strict=True):
        seen = x[~np.isnan(x)]
        spread = np.ptp(seen) if seen.size else 0.0
        weights.append({"number": 1 / spread if spread else 0.0, "ordinal": 1 / max(size - 1, 1), "nominal": 1.0}[kind])

    def apart(j: int, a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return float(math.isnan(a) != math.isnan(b))
        return float(a != b) if kinds[j] == "nominal" else abs(a - b) * weights[j]

    def between(a: np.ndarray, b: np.ndarray) -> float:
        return sum(apart(j, a[j], b[j]) for j in range(len(kinds)))

    def center(left: Rows) -> np.ndarray:
        found = []
        for x, kind in zip(columns[:, left], kinds, strict=True):
            seen = sorted(value for value in x if not math.isnan(value))
            if kind == "nominal":
                counted = [(-seen.count(value), value) for value in seen]
                missing = len(x) - len(seen)
                best = min(counted) if counted else (0, math.nan)
                found.append(math.nan if missing > -best[0] else best[1])
            elif not seen or 2 * len(seen) < len(x):
                found.append(math.nan)
            else:
                found.append(math.fsum(seen) / len(seen) if kind == "number" else seen[(len(seen) - 1) // 2])
        return np.array(found)

    return (
        lambda left, row: between(columns[:, row], center(left)),
        lambda one, other: between(columns[:, one], columns[:, other]),
    )


def edit(a: str, b: str) -> int:
    """Levenshtein's distance by its recursion."""
    table = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if 0 in (i, j)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return table[len(a), len(b)]


def vmdav(x: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """V-MDAV by looking at every pair of records."""
    n = len(x)
    center = np.array([math.fsum(column) / n for column in x.T])
    labels = np.full(n, -1)
    left: Rows = list(range(n))
    sizes: list[int] = []

    def squared(a: np.ndarray, b: np.ndarray) -> float:
        total = 0.0
        for one, other in zip(a, b, strict=True):
            total += float((one - other) ** 2)
        return total

    def join(row: int) -> None:
        labels[row] = len(sizes) - 1
        sizes[-1] += 1
        left.remove(row)

    while len(left) >= k:
        outer = min(left, key=lambda row: (-squared(x[row], center), row))
        sizes.append(0)
        for row in sorted(left, key=lambda other: (squared(x[outer], x[other]), other))[:k]:
            join(row)
        while sizes[-1] < 2 * k - 1 and left:
            if len(left) == k and sum(2 * k - 1 - size for size in sizes) < k:
                break
            members = np.flatnonzero(labels == len(sizes) - 1)
            inside, row = min((squared(x[m], x[row]), row) for row in left for m in members)
            outside = min((squared(x[row], x[other]) for other in left if other != row), default=math.inf)
            if not inside < gamma * gamma * outside:
                break
            join(row)
    means = [x[labels == g].sum(axis=0) / sizes[g] for g in range(len(sizes))]
    for row in list(left):
        room = [g for g in range(len(sizes)) if sizes[g] < 2 * k - 1]
        best = min(room, key=lambda g: (squared(x[row], means[g]), g))
        labels[row] = best
        sizes[best] += 1
    return labels


def stands_for(values: list[float], how: str) -> float:
    """What stands for a group of numbers."""
    ranked = sorted(values)
    return {
        "mean": lambda: math.fsum(ranked) / len(ranked),
        "median": lambda: median(ranked),
        "low-median": lambda: ranked[(len(ranked) - 1) // 2],
        "mode": lambda: min(ranked, key=lambda value: (-ranked.count(value), value)),
    }[how]()


def test_the_plain_versions_give_known_results() -> None:
    assert edit("kitten", "sitting") == 3
    ages = np.array([42, 28, 50, 23, 12, 68, 30, 46, 55, 61], dtype=float)
    labels = mdav(10, 3, lambda left, row: abs(ages[row] - ages[left].mean()), lambda a, b: abs(ages[a] - ages[b]))
    assert {frozenset(ages[labels == g]) for g in range(3)} == {
        frozenset({12, 23, 28}), frozenset({30, 42, 46, 50}), frozenset({55, 61, 68}),
    }  # fmt: skip
    assert vmdav(np.array([[0.0], [1], [2], [3], [50], [51], [52]]), 3, 1.1).tolist() == [1, 1, 1, 1, 0, 0, 0]
