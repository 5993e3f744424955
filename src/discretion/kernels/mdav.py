"""Multivariate microaggregation by MDAV (P16): groups of k similar records, found from the outside inwards.

The plain algorithm looks at every record left for every group. Here the record farthest from the center
comes from a list sorted by the distance to an earlier center, which stays valid up to the distance the
center has moved since; the farthest record from a record, and the k nearest, come from a k-d tree that
grouped records leave.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Floats, Index, Ints, Ints32, Progress, as_finite_matrix, as_integers, as_matrix
from discretion.kernels.jit import helper, kernel
from discretion.kernels.microaggregate import add_exactly
from discretion.kernels.order import sorted_with_order
from discretion.kernels.trees import LEAF, KdTree, Search, build, farthest, nearest, new_search, remove

# Multivariate microaggregation with variable group sizes (V-MDAV): a group takes in records that lie close to it.


class _Searches(NamedTuple):
    """Working memory for the k nearest, the nearest, and the two nearest."""

    group: Search
    one: Search
    two: Search


class _GrowState(NamedTuple):
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
    state = _GrowState(
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
        _form_variable_groups(points, k, gamma * gamma, tree, searches, ranking, state, groups)
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
def _form_variable_groups(
    x: Floats,
    k: int,
    gamma2: float,
    tree: KdTree,
    searches: _Searches,
    ranking: Ints32,
    state: _GrowState,
    groups: int,
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
def _join(x: Floats, row: int, place: Index, tree: KdTree, state: _GrowState) -> None:
    """Make a record a member of the group that is being formed."""
    state.members[place] = row
    state.labels[row] = state.left[1]
    remove(tree, row, x[row])
    state.left[0] -= 1
    state.left[3] -= 1


@helper
def _look(x: Floats, place: Index, tree: KdTree, searches: _Searches, state: _GrowState) -> None:
    """Find the record left that is nearest to a member."""
    nearest(tree, searches.one, x[state.members[place]])
    state.near[place] = searches.one.rows[0]
    state.near_distances[place] = searches.one.best[0]


@helper
def _extend(x: Floats, k: int, gamma2: float, tree: KdTree, searches: _Searches, state: _GrowState) -> None:
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
def _place_the_rest(x: Floats, k: int, state: _GrowState) -> None:
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


_LONGEST_SCAN = 512  # records of the list looked at before the tree takes over
_SLACK = 1 + 1e-12  # covers the rounding of distances that are compared through the triangle inequality
_REPORT_SECONDS = 0.2
_DONE, _NEEDS_RANKING, _PAUSED = 0, 1, 2


class _Ranking(NamedTuple):
    """The records left at some moment, from the farthest to the nearest to the center of that moment."""

    rows: Ints32
    distances: Floats
    center: Floats


class _State(NamedTuple):
    """What one slice of the work leaves to the next."""

    labels: Ints32  # group of each row, −1 while it has none
    sums: Floats  # (d, 2): the sum of each column over the records left, and its rounding error
    left: Ints  # [0] records left, [1] groups formed, [2] records passed in the ranking, [3] records looked at


def mdav_groups(x: ArrayLike, k: int, progress: Progress | None = None) -> Ints32:
    """Group records so that every group has k to 2k−1 similar ones; return the group of each row.

    While 3k or more records are left: the record farthest from their mean and the k−1 nearest to it are a
    group; of the others, the one farthest from that record and the k−1 nearest to it are the next. Of 2k …
    3k−1 records left, one more group around the farthest from the mean is taken; the rest is the last
    group. Distances are Euclidean (standardize the columns first), ties go to the lowest row, groups are
    numbered as they are formed. The groups are those of the plain algorithm, which takes time O(n²/k);
    compensated sums keep the running mean free of drift.

    Needs n ≥ k ≥ 1, no NaN. `progress(done, total, "microaggregation")` is called several times a second
    and may raise to cancel. Time about O(n·log n) in few dimensions; memory about twice the input and 50
    bytes a row.
    """
    points = as_finite_matrix(x)
    n = points.shape[0]
    if points.shape[1] == 0:
        raise ValueError("there are no columns to compare records by")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if n < k:
        raise ValueError(f"a group needs k = {k} records, got {n}")
    if n >= 2**31:
        raise ValueError(f"at most 2**31 - 1 records, got {n}")
    tree = build(points, None if progress is None else lambda: progress(0, n, "microaggregation"))
    state = _State(np.full(n, -1, np.int32), _column_sums(points), np.array([n, 0, 0, 0]))
    search = new_search(k)
    ranking = _rank(points, state)
    pairs = 64
    status = _PAUSED
    while status != _DONE:
        began = perf_counter()
        status = _form_groups(points, k, tree, search, ranking, state, pairs)
        if status == _NEEDS_RANKING:
            ranking = _rank(points, state)
        elif perf_counter() - began < _REPORT_SECONDS / 2:
            pairs *= 2
        elif perf_counter() - began > _REPORT_SECONDS:
            pairs = max(1, pairs // 2)
        if progress is not None:
            progress(n - int(state.left[0]), n, "microaggregation")
    return state.labels


def group_means(x: ArrayLike, labels: ArrayLike, n_groups: int, counts: Ints | None = None) -> Floats:
    """Return for each row the mean of its group, in every column. Time O(n·d).

    A group whose values are equal keeps exactly that value. Groups are numbered 0 … n_groups−1. `counts`: how many
    records each row stands for.
    """
    points, groups = as_matrix(x), as_integers(labels)
    if groups.shape != points.shape[:1]:
        raise ValueError(f"{points.shape[0]} rows but {groups.size} labels")
    if groups.size and (groups.min() < 0 or groups.max() >= n_groups):
        raise ValueError(f"labels must lie in 0 … {n_groups - 1}")
    return _group_means(points, groups, n_groups, np.empty(0, np.int64) if counts is None else counts)


@kernel
def _group_means(x: Floats, labels: Ints, n_groups: int, counts: Ints) -> Floats:
    n, d = x.shape
    first = np.full(n_groups, -1, np.int64)
    sizes = np.zeros(n_groups, np.int64)
    means = np.zeros((n_groups, d))
    for i in range(n):
        g = labels[i]
        if first[g] < 0:
            first[g] = i
        records = 1 if counts.size == 0 else counts[i]
        sizes[g] += records
        for j in range(d):  # what exceeds the group's first row: 0 for equal values, so no rounding there
            means[g, j] += (x[i, j] - x[first[g], j]) * records
    for g in range(n_groups):
        for j in range(d):
            if sizes[g] > 0:
                means[g, j] = x[first[g], j] + means[g, j] / sizes[g]
    out = np.empty((n, d))
    for i in range(n):
        for j in range(d):
            out[i, j] = means[labels[i], j]
    return out


@kernel
def _column_sums(x: Floats) -> Floats:
    sums = np.zeros((x.shape[1], 2))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            add_exactly(sums[j], x[i, j])
    return sums


@helper
def _center(state: _State) -> Floats:
    center: Floats = (state.sums[:, 0] + state.sums[:, 1]) / state.left[0]
    return center


@helper
def _squared_distance(x: Floats, row: int, q: Floats) -> float:
    total = 0.0
    for j in range(q.size):
        gap = x[row, j] - q[j]
        total += gap * gap
    return total


def _rank(x: Floats, state: _State) -> _Ranking:
    """Sort the records left by their distance to the center, the farthest first."""
    rows, negative, center = _distances_left(x, state)
    negative, order = sorted_with_order(negative)
    state.left[2:] = 0
    return _Ranking(rows[order], -negative, center)


@kernel
def _distances_left(x: Floats, state: _State) -> tuple[Ints32, Floats, Floats]:
    center = _center(state)
    rows = np.empty(state.left[0], np.int32)
    negative = np.empty(state.left[0])
    i = 0
    for row in range(x.shape[0]):
        if state.labels[row] < 0:
            rows[i] = row
            negative[i] = -np.sqrt(_squared_distance(x, row, center))
            i += 1
    return rows, negative, center


@kernel
def _form_groups(x: Floats, k: int, tree: KdTree, search: Search, ranking: _Ranking, state: _State, pairs: int) -> int:
    """Form groups until all is done, the ranking is too old, or `pairs` pairs of groups are formed."""
    left = state.left
    while left[0] >= 2 * k:
        if left[3] > 4 * left[0] + 1000:
            return _NEEDS_RANKING
        if pairs == 0:
            return _PAUSED
        pairs -= 1
        is_pair = left[0] >= 3 * k
        center = _center(state)
        outer, reach = _farthest_from_center(x, center, tree, search, ranking, state)
        _take_group(x, x[outer], tree, search, state)
        if not is_pair:
            break
        opposite = farthest(tree, search, x[outer], center, reach, -1.0, np.int64(-1))[1]
        _take_group(x, x[opposite], tree, search, state)
    for row in range(x.shape[0]):
        if state.labels[row] < 0:
            state.labels[row] = left[1]
    left[0] = 0
    return _DONE


@helper
def _farthest_from_center(
    x: Floats, center: Floats, tree: KdTree, search: Search, ranking: _Ranking, state: _State
) -> tuple[Index, float]:
    """Return the row that is farthest from the center of the records left, and its squared distance."""
    moved = 0.0
    for j in range(center.size):
        moved += (center[j] - ranking.center[j]) ** 2
    moved = np.sqrt(moved)
    left = state.left
    while state.labels[ranking.rows[left[2]]] >= 0:
        left[2] += 1
    best, reach = -1.0, -1.0
    best_row: Index = np.int64(-1)
    for i in range(left[2], ranking.rows.size):
        if (ranking.distances[i] + moved) * _SLACK < reach:
            break
        left[3] += 1
        if i - left[2] == _LONGEST_SCAN:
            best, best_row, leaves = farthest(tree, search, center, center, np.inf, best, best_row)
            left[3] += leaves * LEAF
            break
        row = ranking.rows[i]
        if state.labels[row] < 0:
            distance = _squared_distance(x, row, center)
            if distance > best or (distance == best and row < best_row):
                best, best_row, reach = distance, row, np.sqrt(distance)
    return best_row, best


@helper
def _take_group(x: Floats, q: Floats, tree: KdTree, search: Search, state: _State) -> None:
    """Make the k records nearest to q the next group."""
    nearest(tree, search, q)
    for row in search.rows:
        state.labels[row] = state.left[1]
        for j in range(x.shape[1]):
            add_exactly(state.sums[j], -x[row, j])
        remove(tree, row, x[row])
    state.left[0] -= search.rows.size
    state.left[1] += 1
