"""The largest contributions of each cell of a table, merged from those of its parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.jit import kernel


def largest(order: Ints, bounds: Ints, values: Floats, ids: Ints32, t: int) -> tuple[Floats, Ints32]:
    """Give the t largest values of each group of rows, descending, and whose they are.

    Group g has the rows `order[bounds[g]:bounds[g + 1]]`; row i offers `values[i, response, :]` of the respondents
    `ids[i, response, :]` (−1: nothing). No respondent may occur twice in a group. Of equal values the lower id comes
    first. Empty places get 0 and −1. Time O(rows·t).
    """
    groups, responses = len(bounds) - 1, values.shape[1]
    top = np.zeros((groups, responses, t))
    who = np.full((groups, responses, t), -1, np.int32)
    if groups and t:
        _largest(order, bounds, values, ids, top, who)
    return top, who


@kernel
def _largest(
    order: Ints, bounds: Ints, values: Floats, ids: Ints32, top: NDArray[np.float64], who: NDArray[np.int32]
) -> None:
    t = top.shape[2]
    for g in range(bounds.size - 1):
        for r in range(values.shape[1]):
            for place in range(bounds[g], bounds[g + 1]):
                row = order[place]
                for s in range(values.shape[2]):
                    if ids[row, r, s] < 0:
                        continue
                    value = values[row, r, s]
                    name = ids[row, r, s]
                    k = t
                    while k > 0 and (
                        who[g, r, k - 1] < 0
                        or value > top[g, r, k - 1]
                        or (value == top[g, r, k - 1] and name < who[g, r, k - 1])
                    ):
                        k -= 1
                    if k == t:
                        continue
                    for move in range(t - 1, k, -1):
                        top[g, r, move] = top[g, r, move - 1]
                        who[g, r, move] = who[g, r, move - 1]
                    top[g, r, k] = value
                    who[g, r, k] = name
