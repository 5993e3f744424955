"""Microaggregation of one column (P15): where to cut the sorted values, and the mean of each piece.

Both ways of cutting take values in ascending order and return the bounds of the groups: the first position of
each group in ascending order, and n at the end. Group g is `values[bounds[g]:bounds[g + 1]]`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Index, Ints, as_integers, as_vector
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.sums import add_exactly


def mdav_bounds(values: ArrayLike, k: int, order: ArrayLike | None = None) -> Ints:
    """Cut sorted values by MDAV: k at the end farthest from the mean of the rest, then k at the other end.

    This goes on while 3k or more are left; of 2k … 3k−1 one more group of k is taken at the farthest end; the
    rest is the last group. Fewer than 2k values are one group.

    `order` gives the row of each sorted value (equal values by ascending row; positions count as rows
    without it). It decides when both ends are equally far: the end with the lowest row goes first, where
    of equal values cut in two by a border the lowest rows have left first. The groups are therefore those
    of the plain multivariate algorithm on one column, up to an exchange of records with equal values,
    which no released value can show. Time and memory O(n); no NaN.
    """
    x = _checked(values, k)
    rows = np.arange(x.size) if order is None else as_integers(order)
    is_bound = np.zeros(x.size + 1, np.bool_)
    runs = np.array([0, 0, x.size, x.size])  # see _low_end_first
    _mdav_bounds(x, k, rows, is_bound, np.zeros(2), runs)
    return np.flatnonzero(is_bound)


def optimal_bounds(values: ArrayLike, k: int) -> Ints:
    """Cut sorted values into groups of at least k with the least sum of squared errors (Hansen & Mukherjee).

    Of equally good cuts the one with the shortest last group is taken, then with the shortest before it,
    and so on. Time O(k·n), memory O(n); no NaN.
    """
    x = _checked(values, k)
    cost = np.full(x.size + 1, np.inf)  # of the best cut of the first i values
    start = np.zeros(x.size + 1, np.int64)  # of the last group in that cut
    inverse = 1.0 / np.arange(1, 2 * k)  # of group sizes, because a division takes longer than all the rest
    is_bound = np.zeros(x.size + 1, np.bool_)
    _optimal_bounds(x, k, cost, start, inverse, is_bound)
    return np.flatnonzero(is_bound)


def replace_by_mean(values: ArrayLike, bounds: ArrayLike, order: ArrayLike) -> Floats:
    """Return for each row (by its original number) the mean of its group.

    `order` gives the row of each sorted value. A group of equal values keeps exactly that value. Time O(n).
    """
    x = as_vector(values)
    out = np.empty(x.size)
    _replace_by_mean(x, as_integers(bounds), as_integers(order), out)
    return out


def _checked(values: ArrayLike, k: int) -> Floats:
    x = as_vector(values)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if x.size < k:
        raise ValueError(f"a group needs k = {k} values, got {x.size}")
    return x


@lean_kernel
def _mdav_bounds(x: Floats, k: int, rows: Ints, is_bound: Bools, total: Floats, runs: Ints) -> None:
    """Mark the bounds; `total` is the sum of what is left and its rounding error."""
    low, high = 0, x.size  # what is left is x[low:high]
    is_bound[low] = is_bound[high] = True
    for i in range(x.size):
        add_exactly(total, x[i])
    while high - low >= 2 * k:
        center = (total[0] + total[1]) / (high - low)
        from_low = _low_end_first(x, rows, low, high, center, runs)
        pair = high - low >= 3 * k
        if from_low or pair:
            for i in range(low, low + k):
                add_exactly(total, -x[i])
            low += k
            is_bound[low] = True
        if pair or not from_low:
            for i in range(high - k, high):
                add_exactly(total, -x[i])
            high -= k
            is_bound[high] = True
        if not pair:
            break


@lean_helper
def _low_end_first(x: Floats, rows: Ints, low: Index, high: Index, center: float, runs: Ints) -> bool:
    """Is the low end farther from the center than the high end (or as far, with a lower row)?

    `runs` keeps the bounds of the equal values at the low end (0, 1) and at the high end (2, 3) from call to
    call, so that finding them takes O(n) over all calls.
    """
    below = (x[low] - center) * (x[low] - center)
    above = (x[high - 1] - center) * (x[high - 1] - center)
    if below != above:
        return bool(below > above)
    if runs[1] <= low:
        runs[0] = runs[1] = low
        while runs[0] > 0 and x[runs[0] - 1] == x[low]:
            runs[0] -= 1
    while runs[1] < x.size and x[runs[1]] == x[low]:
        runs[1] += 1
    if runs[2] >= high:
        runs[2] = runs[3] = high
        while runs[3] < x.size and x[runs[3]] == x[high - 1]:
            runs[3] += 1
    while runs[2] > 0 and x[runs[2] - 1] == x[high - 1]:
        runs[2] -= 1
    low_row = _lowest_row(rows, runs[0], runs[1], low, high)
    return low_row <= _lowest_row(rows, runs[2], runs[3], low, high)


@lean_helper
def _lowest_row(rows: Ints, start: Index, end: Index, low: Index, high: Index) -> int:
    """Return the lowest row left of a run of equal values, from which the lowest rows left first."""
    left = min(end, high) - max(start, low)
    return int(rows[end - left])


@lean_kernel
def _optimal_bounds(x: Floats, k: int, cost: Floats, start: Ints, inverse: Floats, is_bound: Bools) -> None:
    cost[0] = 0.0
    for end in range(k, x.size + 1):
        # Sums are taken around the group's largest value. A group of range R has an error of at least
        # R²/2, and the sums stay below size·R², so that the subtraction below loses no more than a few
        # digits.
        largest = x[end - 1]
        total, squares, best = 0.0, 0.0, np.inf
        for size in range(1, min(2 * k - 1, end) + 1):
            gap = largest - x[end - size]
            total += gap
            squares += gap * gap
            if size >= k:
                candidate = cost[end - size] + (squares - total * total * inverse[size - 1])
                if candidate < best:
                    best = candidate
                    start[end] = end - size
        cost[end] = best
    end = x.size
    while end > 0:
        is_bound[end] = True
        end = start[end]
    is_bound[0] = True


@lean_kernel
def _replace_by_mean(x: Floats, bounds: Ints, order: Ints, out: Floats) -> None:
    for g in range(bounds.size - 1):
        start, end = bounds[g], bounds[g + 1]
        # Averaging what exceeds the first value leaves a group of equal values exactly as it is.
        excess = 0.0
        for i in range(start, end):
            excess += x[i] - x[start]
        mean = x[start] + excess / (end - start)
        for i in range(start, end):
            out[order[i]] = mean
