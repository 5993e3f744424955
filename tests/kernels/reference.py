"""Plain, slow versions of the kernels, written from their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import settings

# The first example may compile a kernel, and every run must draw the same examples.
examples = settings(deadline=None, derandomize=True, max_examples=150)


def mdav(x: np.ndarray, k: int) -> np.ndarray:
    """MDAV by looking at every record; ties go to the lowest row; exact sums."""
    labels = np.full(x.shape[0], -1)
    left = np.arange(x.shape[0])  # ascending, so that the first of equals is the lowest row
    group = 0

    def center() -> np.ndarray:
        return np.array([math.fsum(column) / left.size for column in x[left].T])

    def squared(q: np.ndarray) -> np.ndarray:
        total = np.zeros(left.size)
        for j in range(q.size):
            total += (x[left, j] - q[j]) ** 2
        return total

    def take(q: np.ndarray) -> None:
        nonlocal group, left
        chosen = np.argsort(squared(q), kind="stable")[:k]
        labels[left[chosen]] = group
        left = np.delete(left, chosen)
        group += 1

    while left.size >= 3 * k:
        outer = x[left[np.argmax(squared(center()))]]
        take(outer)
        take(x[left[np.argmax(squared(outer))]])
    if left.size >= 2 * k:
        take(x[left[np.argmax(squared(center()))]])
    labels[left] = group
    return labels


def least_error(values: np.ndarray, k: int) -> float:
    """Return the least sum of squared errors of cuts into groups of at least k, trying all cuts."""
    n = len(values)
    cost = {0: 0.0}
    for end in range(k, n + 1):
        options = [
            cost[start] + float(np.sum((values[start:end] - values[start:end].mean()) ** 2))
            for start in range(end - k + 1)
            if start in cost
        ]
        if options:
            cost[end] = min(options)
    return cost[n]


def error(values: np.ndarray, bounds: np.ndarray) -> float:
    """Return the sum of squared errors of a cut."""
    pieces = [values[a:b] for a, b in itertools.pairwise(bounds)]
    return float(sum(np.sum((piece - piece.mean()) ** 2) for piece in pieces))


def means_by_label(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    out = np.empty_like(x, dtype=float)
    for g in np.unique(labels):
        out[labels == g] = x[labels == g].mean(axis=0)
    return out
