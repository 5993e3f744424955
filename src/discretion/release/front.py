"""The Pareto front: what cannot be bettered in one figure without losing in the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pareto_front(risk: Sequence[float] | Floats, loss: Sequence[float] | Floats) -> list[int]:
    """Give the points that no other point dominates, from the least risk to the least loss.

    A point dominates another if it is at least as good in both figures (lower is better) and better in one. Equal
    points do not dominate each other. Sorting and one sweep: O(n·log n).
    """
    return possible_front(risk, loss, np.zeros(len(risk)), np.zeros(len(loss)))


def possible_front(
    risk: Sequence[float] | Floats,
    loss: Sequence[float] | Floats,
    risk_error: Sequence[float] | Floats,
    loss_error: Sequence[float] | Floats,
) -> list[int]:
    """Give the points that may lie on the front, given the error of each figure.

    A point is left out if another one dominates it even when both figures of the other are too low by their errors
    and its own are too high by theirs. Without errors this is the front. O(n·log n).
    """
    x, y, dx, dy = (np.asarray(values, dtype=np.float64) for values in (risk, loss, risk_error, loss_error))
    worst_x, worst_y, best_x, best_y = x + dx, y + dy, x - dx, y - dy
    order = np.lexsort((worst_y, worst_x))
    ladder = worst_x[order]
    least = np.minimum.accumulate(worst_y[order]) if len(order) else worst_y
    kept = [
        point for point in range(len(x)) if not _dominated(ladder, least, float(best_x[point]), float(best_y[point]))
    ]
    return sorted(kept, key=lambda point: (x[point], y[point], point))


def _dominated(ladder: Floats, least: Floats, x: float, y: float) -> bool:
    """Tell whether a point of the ladder (least loss up to each risk) is as good in both figures and better in one."""
    below = int(np.searchsorted(ladder, x, "left"))
    if below and least[below - 1] <= y:
        return True
    up_to = int(np.searchsorted(ladder, x, "right"))
    return bool(up_to and least[up_to - 1] < y)
