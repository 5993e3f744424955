"""Distance-based record linkage (R11, R12): the nearest points of each query, with ties as anonymity sets.

Equal points are merged first and count as often as they occur: without this a microaggregated file, where k
records are equal, would link at random. Up to ten dimensions a k-d tree is searched; above, all are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Ints, as_finite_matrix, as_integers
from discretion.kernels.classes import RowClasses, distinct_rows

TIE = 1e-9  # relative difference up to which two distances are equal: only rounding separates them
_TREE_DIMENSIONS = 10
_QUERIES = 8192  # searched between two reports of progress
_ENTRIES = 1 << 22  # distances held in memory at a time (32 MB)

Progress = Callable[[int, int, str], object]


class Nearest(NamedTuple):
    """For each query, the set of the points that are nearest to it."""

    distance: Floats
    """Euclidean distance to them"""
    size: Ints
    """how many they are, equal points included: the size of the anonymity set"""
    has_own: Bools
    """is the query's own point one of them?"""
    lowest: Ints
    """the lowest of their row numbers"""


def nearest_ties(
    queries: ArrayLike, points: ArrayLike, own: ArrayLike | None = None, progress: Progress | None = None
) -> Nearest:
    """Find the points at the least Euclidean distance from each query, all of them when there are ties.

    `own[b]` is the row of the point that belongs to query b, −1 (or `own=None`) when there is none. Points
    whose distance exceeds the least by a factor of up to 1 + 1e-9 are tied with it (only rounding
    separates them); equal points always are. `progress(done, total, "linkage")` is called every few
    thousand queries and may raise to cancel. No NaN.

    Time about O((n + m)·log n) in few dimensions, O(n·m) above ten or when very many distinct points are
    tied; memory O(n + m).
    """
    q, p = as_finite_matrix(queries), as_finite_matrix(points)
    if q.shape[1] != p.shape[1]:
        raise ValueError(f"queries have {q.shape[1]} columns, points have {p.shape[1]}")
    if p.shape[0] == 0:
        raise ValueError("there are no points to link to")
    mine = np.full(q.shape[0], -1, np.int64) if own is None else as_integers(own)
    if mine.shape != (q.shape[0],):
        raise ValueError(f"{q.shape[0]} queries but {mine.size} own points")
    if mine.size and mine.max() >= p.shape[0]:
        raise ValueError(f"own points must be rows below {p.shape[0]}, got {mine.max()}")
    merged, equal = _merge(p, q)
    own_class = np.where(mine >= 0, merged.ids[mine], -1).astype(np.int64)  # −1 is the class of no point
    nearest = _empty(q.shape[0])
    is_equal = equal >= 0
    _store(nearest, np.flatnonzero(is_equal), _at_distance_zero(equal[is_equal], merged, own_class[is_equal]))
    done = int(np.count_nonzero(is_equal))
    others = np.flatnonzero(~is_equal)
    finder = _tree_finder if p.shape[1] <= _TREE_DIMENSIONS else _scan_finder
    for block, candidates in finder(q[others], p[merged.first_row]):
        rows = others[block]
        _store(nearest, rows, _tied(candidates, merged, own_class[rows]))
        done += rows.size
        if progress is not None:
            progress(done, q.shape[0], "linkage")
    return nearest


def _merge(points: Floats, queries: Floats) -> tuple[RowClasses, Ints]:
    """Merge equal points; return them, and for each query the class of the points it equals (−1 if none).

    Points come first, so their classes have the lowest numbers.
    """
    n = points.shape[0]
    both = distinct_rows(np.concatenate([points, queries]))
    n_classes = int(both.ids[:n].max()) + 1
    counts = np.bincount(both.ids[:n], minlength=n_classes)
    merged = RowClasses(both.ids[:n], counts, both.first_row[:n_classes])
    equal = both.ids[n:].astype(np.int64)
    equal[equal >= n_classes] = -1
    return merged, equal


def _at_distance_zero(equal: Ints, merged: RowClasses, own_class: Ints) -> Nearest:
    return Nearest(np.zeros(equal.size), merged.counts[equal], equal == own_class, merged.first_row[equal])


class Candidates(NamedTuple):
    """Some points for each query of a block, the nearest and all its ties among them, query by query."""

    start: Ints
    """where the points of each query begin"""
    point: Ints
    """numbers of distinct points"""
    distance: Floats


Finder = Iterator[tuple[Ints, Candidates]]


def _empty(m: int) -> Nearest:
    return Nearest(np.empty(m), np.empty(m, np.int64), np.empty(m, np.bool_), np.empty(m, np.int64))


def _store(nearest: Nearest, rows: Ints, part: Nearest) -> None:
    for whole, piece in zip(nearest, part, strict=True):
        whole[rows] = piece


def _tied(found: Candidates, merged: RowClasses, own_class: Ints) -> Nearest:
    """Keep the candidates at the least distance, and sum up what is known of them."""
    least = np.minimum.reduceat(found.distance, found.start)
    repeats = np.diff(found.start, append=found.point.size)
    is_tied = found.distance <= np.repeat(least * (1 + TIE), repeats)
    is_own = is_tied & (found.point == np.repeat(own_class, repeats))
    rows = np.where(is_tied, merged.first_row[found.point], np.iinfo(np.int64).max)
    return Nearest(
        distance=least,
        size=np.add.reduceat(merged.counts[found.point] * is_tied, found.start),
        has_own=np.logical_or.reduceat(is_own, found.start),
        lowest=np.minimum.reduceat(rows, found.start),
    )


def _tree_finder(queries: Floats, points: Floats) -> Finder:
    """Search by a k-d tree: the two nearest first; more only for queries whose last one is still tied."""
    from scipy.spatial import cKDTree

    if queries.shape[0] == 0:
        return
    tree = cKDTree(points)
    # Queries that are close together are asked one after the other, while their part of the tree is in the cache.
    visits = cKDTree(queries, leafsize=64, compact_nodes=False).indices
    for first in range(0, queries.shape[0], _QUERIES):
        rows = visits[first : first + _QUERIES]
        wanted = 2
        while rows.size:
            wanted = min(wanted, points.shape[0])
            tied = []
            for block in _pieces(rows, wanted):
                distance, point = _query(tree, queries[block], wanted)
                is_open = (distance[:, -1] <= distance[:, 0] * (1 + TIE)) & (wanted < points.shape[0])
                tied.append(block[is_open])
                done = block[~is_open]
                if done.size:
                    start = np.arange(0, done.size * wanted, wanted)
                    yield done, Candidates(start, point[~is_open].ravel(), distance[~is_open].ravel())
            rows = np.concatenate(tied)
            wanted *= 8


def _pieces(rows: Ints, wanted: int) -> Iterator[Ints]:
    """Cut rows so that so many distances for each fit in memory."""
    step = max(1, _ENTRIES // wanted)
    for at in range(0, rows.size, step):
        yield rows[at : at + step]


def _query(tree: Any, queries: Floats, k: int) -> tuple[Floats, Ints]:
    distance, point = tree.query(queries, k=np.arange(1, k + 1))  # a list of k keeps one column when k is 1
    return distance, point


def _scan_finder(queries: Floats, points: Floats) -> Finder:
    """Compare each query with all the points.

    A matrix product gives all distances quickly but with rounding errors; the few points that may be nearest
    in spite of these are then compared exactly.
    """
    center = points.mean(axis=0)  # small numbers lose fewer digits
    shifted = points - center
    squares = np.einsum("ij,ij->i", shifted, shifted)
    step = max(1, min(_QUERIES, _ENTRIES // points.shape[0]))
    for first in range(0, queries.shape[0], step):
        rows = np.arange(first, min(first + step, queries.shape[0]))
        block = queries[rows] - center
        own_squares = np.einsum("ij,ij->i", block, block)
        rough = squares - 2.0 * (block @ shifted.T)  # without the query's own square, which changes no order
        error = 8 * (points.shape[1] + 4) * np.finfo(np.float64).eps * (own_squares + squares.max())
        least = rough.min(axis=1) + own_squares
        bound = (least + error) * (1 + 4 * TIE) + error - own_squares
        query, point = np.nonzero(rough <= bound[:, None])
        start = np.searchsorted(query, np.arange(rows.size))
        yield rows, Candidates(start, point, _distances(queries, rows[query], points, point))


def _distances(queries: Floats, query: Ints, points: Floats, point: Ints) -> Floats:
    """Return the distance of each pair, a bounded number of pairs at a time."""
    out = np.empty(query.size)
    step = max(1, _ENTRIES // max(1, points.shape[1]))
    for first in range(0, query.size, step):
        pairs = slice(first, first + step)
        gaps = queries[query[pairs]] - points[point[pairs]]
        out[pairs] = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return out
