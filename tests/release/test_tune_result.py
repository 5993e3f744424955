"""The Pareto front equals what its definition says, computed the slow way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.release.tune_result import pareto_front, possible_front

few = st.integers(0, 4).map(float)
points = st.lists(st.tuples(few, few), max_size=30)
noisy = st.lists(st.tuples(few, few, st.integers(0, 2).map(float), st.integers(0, 2).map(float)), max_size=25)


def dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1] and a != b


@given(points)
@settings(deadline=None)
def test_the_front_is_what_nothing_dominates(found: list[tuple[float, float]]) -> None:
    naive = {i for i, p in enumerate(found) if not any(dominates(q, p) for q in found)}
    front = pareto_front([p[0] for p in found], [p[1] for p in found])
    assert set(front) == naive and len(front) == len(naive)
    walked = [found[i] for i in front]
    assert walked == sorted(walked)
    assert all(a[1] >= b[1] for a, b in pairwise(walked))


@given(noisy)
@settings(deadline=None)
def test_points_within_their_errors_stay(found: list[tuple[float, float, float, float]]) -> None:
    naive = {
        i
        for i, (x, y, dx, dy) in enumerate(found)
        if not any(dominates((p + dp, q + dq), (x - dx, y - dy)) for j, (p, q, dp, dq) in enumerate(found) if j != i)
    }
    columns = [[p[k] for p in found] for k in range(4)]
    assert set(possible_front(*columns)) == naive
    assert set(pareto_front(columns[0], columns[1])) <= naive


def test_equal_points_all_stay_and_an_empty_set_has_no_front() -> None:
    assert pareto_front([1.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == [0, 1]
    assert pareto_front([], []) == []
    assert pareto_front(np.array([0.5]), np.array([0.5])) == [0]
