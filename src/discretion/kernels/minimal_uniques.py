"""Minimal sample uniques: the smallest sets of columns on which a row is alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Floats, Ints, Ints32
from discretion.kernels.jit import kernel
from discretion.kernels.subsets import Column, Progress, walk

MOST_FINDS = 1 << 26
"""Pairs of a row and a set of columns on which it is alone that are kept at a time: 800 megabytes."""


class TooManyError(ValueError):
    """There are more finds than memory should hold."""


class MinimalUniques(NamedTuple):
    """The minimal sample uniques of each row, as bit masks over the columns: bit j stands for column j."""

    starts: Ints
    """those of row i stand at starts[i] … starts[i + 1] − 1"""
    masks: Ints


class Scored(NamedTuple):
    """Scores of the rows."""

    scores: Floats
    """sum of the weights of a row's minimal sample uniques"""
    contributions: Floats
    """rows × columns: sum of the weights of the minimal sample uniques the column is in"""
    by_size: Ints
    """number of minimal sample uniques of each size; place 0 is empty"""


def minimal_uniques(columns: Sequence[Codes], n_unique: int, max_size: int, progress: Progress) -> MinimalUniques:
    """Find every set of at most `max_size` columns on which a row is alone and on no smaller one of them.

    `columns` hold the codes of the distinct combinations; the first `n_unique` stand for one record each, the
    others for several, which are never alone. Exact. Time at most O(combinations) a subset; far less where rows
    become alone early, for which columns with many values are taken first. Memory O(combinations · columns +
    what is found).
    """
    coded = [Column.of(codes) for codes in columns]
    order = sorted(range(len(columns)), key=lambda j: coded[j].size)
    walked = walk([coded[j] for j in order], n_unique, max_size, progress, "minimal sample uniques", keep_leaves=False)
    return only_minimal(((_renamed(node.mask, order), node.alone) for node in walked), n_unique)


def only_minimal(nodes: Iterable[tuple[int, Ints32]], n_unique: int) -> MinimalUniques:
    """Sort sets of columns by the rows that are alone on them and drop those that contain another of the same row.

    Sets come as bit masks, each after all of its subsets, with the rows that are alone; a row may be left out where
    it was alone on a subset. Rows from `n_unique` on are passed over.
    """
    masks, rows, total = [], [], 0
    for mask, alone in nodes:
        masks.append(mask)
        rows.append(alone[alone < n_unique])
        total += rows[-1].size
        if total > MOST_FINDS:
            raise TooManyError(f"more than {MOST_FINDS} sets of columns on which a row is alone")
    sizes = np.array([alone.size for alone in rows], np.int64)
    events = np.concatenate(rows) if rows else np.empty(0, np.int32)
    starts = np.zeros(n_unique + 1, np.int64)
    found = np.empty(events.size, np.int64)
    used = _keep_minimal(events, sizes, np.array(masks, np.int64), starts, found)
    return MinimalUniques(starts, found[:used].copy())


def score_uniques(found: MinimalUniques, weights: Floats) -> Scored:
    """Add up weights[s] over the minimal sample uniques of size s of each row; columns are weights.size − 1."""
    rows, columns = found.starts.size - 1, weights.size - 1
    scores = np.zeros(rows)
    contributions = np.zeros((rows, columns))
    by_size = np.zeros(columns + 1, np.int64)
    _add_up(*found, weights, scores, contributions, by_size)
    return Scored(scores, contributions, by_size)


def _renamed(mask: int, order: Sequence[int]) -> int:
    """Write a mask over the walk's columns as a mask over the caller's."""
    return sum(1 << column for place, column in enumerate(order) if mask >> place & 1)


@kernel
def _keep_minimal(events: Ints32, sizes: Ints, masks: Ints, starts: Ints, found: Ints) -> int:
    """Sort the finds by row and drop those that contain another; return how many are left.

    The first sizes[0] of `events` are rows that are alone on masks[0], and so on, subsets before supersets.
    """
    rows = starts.size - 1
    for event in range(events.size):
        starts[events[event] + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    event = 0
    for node in range(sizes.size):
        for _ in range(sizes[node]):
            row = events[event]
            found[starts[row]] = masks[node]
            starts[row] += 1
            event += 1
    used, begin = 0, 0
    for row in range(rows):  # starts[row] is now where the finds of the row end
        first, end = used, starts[row]
        starts[row] = first
        for place in range(begin, end):
            mask = found[place]
            other = first
            while other < used and found[other] & mask != found[other]:
                other += 1
            if other == used:
                found[used] = mask
                used += 1
        begin = end
    starts[rows] = used
    return used


@kernel
def _add_up(starts: Ints, masks: Ints, weights: Floats, scores: Floats, contributions: Floats, by_size: Ints) -> None:
    for row in range(scores.size):
        for place in range(starts[row], starts[row + 1]):
            mask = masks[place]
            size = 0
            for column in range(contributions.shape[1]):
                size += (mask >> column) & 1
            by_size[size] += 1
            scores[row] += weights[size]
            for column in range(contributions.shape[1]):
                contributions[row, column] += weights[size] * ((mask >> column) & 1)
