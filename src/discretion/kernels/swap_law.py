"""The law of rank swapping: how likely a rank is to have exchanged its value with another (P13, R14).

Ranks are visited upward, and an unswapped rank takes a partner at random among the unswapped ranks of its window. Let
u(t, y) be the probability that rank y is unswapped when rank t is visited, 1 when y comes into reach, and h(t) the
probability that rank t picks a given unswapped rank: u(t, t) divided by the expected number of unswapped ranks ahead.
Then u(t + 1, y) = u(t, y)·(1 − h(t)), and a < b exchange with probability h(a)·u(a, b): the logarithm is a sum of one
function of a and one of b. Away from the ends it grows with the distance, and a partner at the end of the window is
twice as likely as a neighbor: the neighbors were in reach of more visits and are more often taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.jit import lean_helper, lean_kernel

_LEAST = float(np.log(1e-12))
_SAMPLES = 8  # ranks of equal values that stand for all of them


class Laws(NamedTuple):
    """The laws of the swapped columns, one after another."""

    first: Floats
    """logarithm of what the lower rank of a pair adds"""
    second: Floats
    """logarithm of what the upper rank of a pair adds; never falls"""
    most: Floats
    """the largest of `first` from a rank to where it is least: the largest over a run is that of its two ends"""
    ranks: Ints
    """for each distinct value its first and its last rank"""
    places: Ints
    """for each column: where its law and its ranks begin, the reach (or minus the size of the blocks that were
    shuffled), the first rank that may move, one past the last"""


def no_laws() -> Laws:
    """Give the laws where no column was swapped."""
    none = np.empty(0)
    return Laws(none, none, none, np.empty((0, 2), np.int64), np.zeros((0, 5), np.int64))


def swap_law(n: int, window: int) -> tuple[Floats, Floats, Floats]:
    """Give `first`, `second` and `most` of n ranks: log P(a and b exchange) = first[a] + second[b] for a < b.

    Close to the truth: the numbers of unswapped ranks are replaced by their expectations. Time and memory O(n).
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    hazard, total = np.zeros(n), np.zeros(n + 1)
    _hazards(min(window, max(n - 1, 1)), hazard, total)
    first = np.log(np.maximum(hazard, 1e-12)) - total[:n]
    second = total[np.maximum(np.arange(n) - window, 0)]
    split = int(np.argmin(first)) if n else 0
    falling = np.maximum.accumulate(first[: split + 1][::-1])[::-1]
    rising = np.maximum.accumulate(first[split:])
    return first, second, np.concatenate([falling, rising[1:]])


@lean_kernel
def _hazards(window: int, hazard: Floats, total: Floats) -> None:
    """Give h(t), and the sum of −log(1 − h) before each t."""
    n = hazard.size
    ahead = float(min(window, n - 1))
    for t in range(n):
        unswapped = np.exp(total[max(t - window, 0)] - total[t])
        if t:
            ahead = max(ahead * (1.0 - hazard[t - 1]) - unswapped + (1.0 if t + window < n else 0.0), 0.0)
        hazard[t] = min(unswapped / max(ahead, unswapped), 1.0 - 1e-9) if ahead > 1e-9 else 0.0
        total[t + 1] = total[t] - np.log1p(-hazard[t])


def swap_costs(j: int, queries: Floats, points: Floats, laws: Laws) -> Floats:
    """Give the cost of each move in column j, NaN where a value is missing."""
    cost = np.full(len(queries), np.nan)
    rows = np.flatnonzero(~np.isnan(queries) & ~np.isnan(points))
    there = np.empty(len(rows))
    _swap_costs(j, queries[rows], points[rows], laws, there)
    cost[rows] = there
    return cost


@lean_kernel
def _swap_costs(j: int, queries: Floats, points: Floats, laws: Laws, cost: Floats) -> None:
    for i in range(queries.size):
        cost[i] = swap_cost(j, queries[i], points[i], laws)


@lean_helper
def swap_cost(j: int, q: float, p: float, laws: Laws) -> float:
    """Give −2·log of the probability that value number q became value number p in column j.

    Equal values may have had any of their ranks: the probabilities of up to eight of each are averaged.
    """
    places, ranks = laws.places, laws.ranks
    start, at, reach, low, stop = places[j, 0], places[j, 1], places[j, 2], places[j, 3], places[j, 4]
    x0, x1, y0, y1 = ranks[at + int(q), 0], ranks[at + int(q), 1], ranks[at + int(p), 0], ranks[at + int(p), 1]
    few, some = min(x1 - x0 + 1, _SAMPLES), min(y1 - y0 + 1, _SAMPLES)
    total = 0.0
    for s in range(few):
        x = x0 if few == 1 else x0 + (2 * s + 1) * (x1 - x0 + 1) // (2 * few)
        for t in range(some):
            y = y0 if some == 1 else y0 + (2 * t + 1) * (y1 - y0 + 1) // (2 * some)
            a, b, move = min(x, y), max(x, y), -np.inf
            if a < low or b >= stop:
                move = 0.0 if a == b else -np.inf
            elif reach < 0:  # shuffled in blocks
                move = -np.log(-reach) if (a - low) // -reach == (b - low) // -reach else -np.inf
            elif a < b and b - a <= reach:
                move = laws.first[start - low + a] + laws.second[start - low + b]
            if few == 1 and some == 1:
                return -2.0 * max(move, _LEAST)
            total += np.exp(move)
    return float(-2.0 * max(np.log(max(total, 1e-300) / (few * some)), _LEAST))


@lean_helper
def swap_bound(j: int, q: float, least: float, largest: float, laws: Laws) -> float:
    """Give a cost that no value from number `least` to number `largest` comes under."""
    places, ranks = laws.places, laws.ranks
    at, reach, low, stop = places[j, 1], places[j, 2], places[j, 3], places[j, 4]
    x0, x1, y0, y1 = (
        ranks[at + int(q), 0],
        ranks[at + int(q), 1],
        ranks[at + int(least), 0],
        ranks[at + int(largest), 1],
    )
    if min(x0, y0) < low or max(x1, y1) >= stop:
        if max(x0, y0) <= min(x1, y1):
            return 0.0
        x0, x1, y0, y1 = max(x0, low), min(x1, stop - 1), max(y0, low), min(y1, stop - 1)
        if x0 > x1 or y0 > y1:
            return -2.0 * _LEAST
    if reach < 0:
        return float(2.0 * np.log(-reach))
    start, best = places[j, 0] - low, _LEAST
    if y1 > x0:  # the value moved up
        best = max(
            best, _largest(laws.most, start + x0, start + min(x1, y1)) + laws.second[start + min(y1, x1 + reach)]
        )
    if y0 < x1:
        best = max(
            best, _largest(laws.most, start + max(y0, x0 - reach), start + min(x1, y1)) + laws.second[start + x1]
        )
    return -2.0 * min(best, 0.0)


@lean_helper
def _largest(most: Floats, least: int, largest: int) -> float:
    return max(most[least], most[largest]) if least <= largest else _LEAST
