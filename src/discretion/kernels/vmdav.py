"""Multivariate microaggregation with variable group sizes (V-MDAV): a group takes in records that lie close to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Floats, Index, Ints, Ints32, as_finite_matrix
from discretion.kernels.jit import helper, kernel
from discretion.kernels.kdsearch import Search, nearest, new_search
from discretion.kernels.kdtree import Tree, build, remove
from discretion.kernels.order import sorted_with_order

_REPORT_SECONDS = 0.2

Progress = Callable[[int, int, str], object]


class _Searches(NamedTuple):
    """Working memory for the k nearest, the nearest, and the two nearest."""

    group: Search
    one: Search
    two: Search


class _State(NamedTuple):
    """What one slice of the work leaves to the next."""

    labels: Ints32  # group of each row, −1 while it has none
    left: Ints  # [0] records left, [1] groups formed, [2] records passed in the ranking, [3] room in the groups
    members: Ints  # of the group that is being formed
    near: Ints  # for each member the nearest record left
    near_distances: Floats


def vmdav_groups(x: ArrayLike, k: int, gamma: float, progress: Progress | None = None) -> Ints32:
    """Group records so that every group has k to 2k−1 similar ones; return the group of each row.

    While k or more records are left: the one farthest from the mean of *all* records and the k−1 nearest to it are a
    group. Then the record left that is nearest to any member joins, as long as its distance to that member is less
    than `gamma` times its distance to the nearest other record left, and the group has fewer than 2k−1. The last
    records, fewer than k, join the group with the nearest mean that has fewer than 2k−1. So that there is always such
    a group, the last k records form one of their own where the groups have no room for k−1. Distances are Euclidean
    (standardize the columns first), ties go to the lowest row.

    Needs n ≥ k ≥ 1, no NaN. `progress(done, total, "microaggregation")` is called several times a second and may raise
    to cancel. Time about O(n·log n) in few dimensions; memory about twice the input and 60 bytes a row.
    """
    points = as_finite_matrix(x)
    n, d = points.shape
    if d == 0:
        raise ValueError("there are no columns to compare records by")
    if k < 1 or n < k:
        raise ValueError(f"a group needs k ≥ 1 records and there must be as many: k = {k}, n = {n}")
    if n >= 2**31:
        raise ValueError(f"at most 2**31 - 1 records, got {n}")
    tree = build(points, None if progress is None else lambda: progress(0, n, "microaggregation"))
    searches = _Searches(new_search(k), new_search(1), new_search(2))
    size = 2 * k - 1
    state = _State(
        np.full(n, -1, np.int32),
        np.array([n, 0, 0, 0]),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size),
    )
    center = np.array([math.fsum(column) / n for column in points.T])
    ranking = sorted_with_order(_nearness(points, center))[1].astype(np.int32, copy=False)
    groups = 64
    while state.left[0] >= k:
        began = perf_counter()
        _form_groups(points, k, gamma * gamma, tree, searches, ranking, state, groups)
        if perf_counter() - began < _REPORT_SECONDS / 2:
            groups *= 2
        elif perf_counter() - began > _REPORT_SECONDS:
            groups = max(1, groups // 2)
        if progress is not None:
            progress(n - int(state.left[0]), n, "microaggregation")
    _place_the_rest(points, k, state)
    return state.labels


@kernel
def _nearness(x: Floats, center: Floats) -> Floats:
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            gap = x[i, j] - center[j]
            out[i] -= gap * gap
    return out


@kernel
def _form_groups(
    x: Floats, k: int, gamma2: float, tree: Tree, searches: _Searches, ranking: Ints32, state: _State, groups: int
) -> None:
    """Form groups until fewer than k records are left, or `groups` are formed."""
    left = state.left
    while left[0] >= k and groups > 0:
        groups -= 1
        while state.labels[ranking[left[2]]] >= 0:
            left[2] += 1
        nearest(tree, searches.group, x[ranking[left[2]]])
        left[3] += 2 * k - 1
        for i in range(k):
            _join(x, searches.group.rows[i], i, tree, state)
        _extend(x, k, gamma2, tree, searches, state)
        left[1] += 1


@helper
def _join(x: Floats, row: int, place: Index, tree: Tree, state: _State) -> None:
    """Make a record a member of the group that is being formed."""
    state.members[place] = row
    state.labels[row] = state.left[1]
    remove(tree, row, x[row])
    state.left[0] -= 1
    state.left[3] -= 1


@helper
def _look(x: Floats, place: Index, tree: Tree, searches: _Searches, state: _State) -> None:
    """Find the record left that is nearest to a member."""
    nearest(tree, searches.one, x[state.members[place]])
    state.near[place] = searches.one.rows[0]
    state.near_distances[place] = searches.one.best[0]


@helper
def _extend(x: Floats, k: int, gamma2: float, tree: Tree, searches: _Searches, state: _State) -> None:
    """Let records join the group while they are closer to it than (1/gamma times) to any other record left."""
    left, near, distances = state.left, state.near, state.near_distances
    size = k
    for i in range(k):
        _look(x, i, tree, searches, state)
    while size < 2 * k - 1 and left[0] > 0:
        if left[0] == k and left[3] < k:
            return  # taking one would leave k−1 records and room for fewer
        best = 0
        for i in range(1, size):
            if distances[i] < distances[best] or (distances[i] == distances[best] and near[i] < near[best]):
                best = i
        row = near[best]
        nearest(tree, searches.two, x[row])  # itself, and the nearest other one, which is on top
        if not distances[best] < gamma2 * searches.two.best[0]:
            return
        _join(x, row, size, tree, state)
        size += 1
        for i in range(size):
            if i == size - 1 or near[i] == row:
                _look(x, i, tree, searches, state)


@kernel
def _place_the_rest(x: Floats, k: int, state: _State) -> None:
    """Let each record left join the group with the nearest mean that has room."""
    n, d = x.shape
    n_groups = state.left[1]
    means, sizes = np.zeros((n_groups, d)), np.zeros(n_groups, np.int64)
    for i in range(n):
        if state.labels[i] >= 0:
            sizes[state.labels[i]] += 1
            for j in range(d):
                means[state.labels[i], j] += x[i, j]
    for g in range(n_groups):
        for j in range(d):
            means[g, j] /= sizes[g]
    for i in range(n):
        if state.labels[i] >= 0:
            continue
        best, least = -1, np.inf
        for g in range(n_groups):
            distance = 0.0
            for j in range(d):
                distance += (x[i, j] - means[g, j]) ** 2
            if sizes[g] < 2 * k - 1 and distance < least:
                best, least = g, distance
        state.labels[i] = best
        sizes[best] += 1
