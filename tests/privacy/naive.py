"""The models by their definitions, in plain Python: slow, and easy to compare with the literature."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
from hypothesis import strategies as st
from scipy.optimize import linprog

Rows = list[tuple[int, int | None]]

TABLES = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=25
)  # (quasi-identifier, sensitive value) of each record


def frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"q": pl.Int64, "s": pl.Int64}, orient="row")


def by_class(rows: Rows) -> dict[int, list[int | None]]:
    found: dict[int, list[int | None]] = {}
    for q, s in rows:
        found.setdefault(q, []).append(s)
    return found


def worst(rows: Rows, of_class: Callable[[list[int | None], list[int | None]], float], pick: Callable) -> float:
    everybody = [s for _, s in rows]
    return pick(of_class(members, everybody) for members in by_class(rows).values())


def in_order(values: Sequence[int | None]) -> list[int | None]:
    return sorted(set(values), key=lambda value: (value is None, value or 0))


def share(values: Sequence[int | None], value: int | None) -> Fraction:
    return Fraction(list(values).count(value), len(values))


def distinct(members: list[int | None], _: list[int | None]) -> float:
    return len(set(members))


def entropy(members: list[int | None], _: list[int | None]) -> float:
    shares = [float(share(members, value)) for value in set(members)]
    return -sum(q * math.log(q) for q in shares)


def recursive(l: int) -> Callable[[list[int | None], list[int | None]], float]:  # noqa: E741
    def ratio(members: list[int | None], _: list[int | None]) -> float:
        r = sorted(Counter(members).values(), reverse=True)
        return r[0] / sum(r[l - 1 :]) if len(r) >= l else math.inf

    return ratio


def ordered(members: list[int | None], everybody: list[int | None]) -> float:
    values = in_order(everybody)
    total = running = Fraction(0)
    for value in values:
        running += share(members, value) - share(everybody, value)
        total += abs(running)
    return float(total / (len(values) - 1)) if len(values) > 1 else 0.0


def equal(members: list[int | None], everybody: list[int | None]) -> float:
    return float(sum(abs(share(members, v) - share(everybody, v)) for v in set(everybody)) / 2)


def beta(members: list[int | None], everybody: list[int | None]) -> float:
    return max(float(share(members, v) / share(everybody, v)) - 1 for v in set(everybody))


def delta(members: list[int | None], everybody: list[int | None]) -> float:
    ratios = [share(members, v) / share(everybody, v) for v in set(everybody)]
    return max(abs(math.log2(ratio)) if ratio else math.inf for ratio in ratios)


def largest_share(members: list[int | None], _: list[int | None]) -> float:
    return max(Counter(members).values()) / len(members)


def transport(q: Sequence[float], p: Sequence[float], cost: np.ndarray) -> float:
    """Give the least cost of moving the masses q to p, as a linear program."""
    m = len(q)
    leave = np.kron(np.eye(m), np.ones(m))
    arrive = np.kron(np.ones(m), np.eye(m))
    solved = linprog(cost.ravel(), A_eq=np.vstack([leave, arrive]), b_eq=[*q, *p], method="highs")
    return float(solved.fun)


def tree_cost(levels: Sequence[Sequence[str]]) -> np.ndarray:
    """Give the distance of two leaves: the level of their lowest common label, over the height."""
    m, height = len(levels[0]), len(levels) - 1
    cost = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            cost[i, j] = next(level for level, labels in enumerate(levels) if labels[i] == labels[j]) / height
    return cost


def tree_distance(
    members: Mapping[str, int], everybody: Mapping[str, int], levels: Sequence[Sequence[str]]
) -> Fraction:
    """Give the hierarchical distance in exact arithmetic, by its published formula."""
    n, total, height = sum(members.values()), sum(everybody.values()), len(levels) - 1
    moved = Fraction(0)
    excess = {leaf: Fraction(members.get(leaf, 0), n) - Fraction(everybody.get(leaf, 0), total) for leaf in levels[0]}
    for level in range(1, height + 1):
        parent = dict(zip(levels[level - 1], levels[level], strict=True))
        for label in set(levels[level]):
            children = [excess[child] for child in parent if parent[child] == label]
            up = sum((e for e in children if e > 0), Fraction(0))
            down = sum((-e for e in children if e < 0), Fraction(0))
            moved += Fraction(level, height) * min(up, down)
        excess = {
            label: sum((excess[child] for child in parent if parent[child] == label), Fraction(0))
            for label in set(levels[level])
        }
    return moved


def supports(sets: Sequence[set[str]], m: int) -> dict[tuple[str, ...], int]:
    found: Counter[tuple[str, ...]] = Counter()
    for items in sets:
        for size in range(1, m + 1):
            found.update(combinations(sorted(items), size))
    return dict(found)
