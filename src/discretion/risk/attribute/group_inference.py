"""What somebody learns about a member of a group from what is published about the group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-9
"""What counts as equal, as a part of the sum of a group."""


class Near(NamedTuple):
    """The published values of a record's group that lie near its true value."""

    members: Ints
    own: Bools
    """the record's own published value is among them"""


def near_categories(groups: Ints, true: Ints, published: Ints) -> Near:
    """Count the members whose published category is a record's true one; −1 is missing and near nothing."""
    return Near(_count_between(groups, published, true, true + 1), (true == published) & (true >= 0))


def near_numbers(groups: Ints, true: Floats, published: Floats, percent: float) -> Near:
    """Count the members whose published number lies within `percent` of a record's true one. Time O(n log n)."""
    half = percent / 100 * np.abs(true)
    low, high = true - half, true + half
    values = np.unique(published[~np.isnan(published)])
    ranks = np.where(np.isnan(published), -1, np.searchsorted(values, published))
    first, last = np.searchsorted(values, low, side="left"), np.searchsorted(values, high, side="right")
    known = ~np.isnan(true)
    count = _count_between(groups, ranks, np.where(known, first, 0), np.where(known, last, 0))
    return Near(count, (published >= low) & (published <= high))


def _count_between(groups: Ints, ranks: Ints, low: Ints, high: Ints) -> Ints:
    """Count for each record the members of its group with low ≤ rank < high; ranks below 0 do not count."""
    shown = ranks >= 0
    width = int(max(ranks.max(initial=0), high.max(initial=0))) + 1
    keys = np.sort(groups[shown] * width + ranks[shown])
    start, end = groups * width + np.maximum(low, 0), groups * width + np.maximum(high, 0)
    return np.asarray(np.searchsorted(keys, end) - np.searchsorted(keys, start))


def certainty(near: Near, sizes: Ints, coalition: int) -> Floats:
    """Give the share of values near the true one, after a coalition has taken its own values out of the group.

    The coalition is the worst one: members, other than the victim, whose values are not near.
    """
    removable = sizes - near.members - ~near.own
    return np.asarray(near.members / (sizes - np.minimum(coalition, removable)))


class GroupBounds(NamedTuple):
    """What follows from the total of a group for each member's contribution, when the worst coalition helps."""

    rest: Ints
    """members that are neither the victim nor in the coalition"""
    below: Floats
    """lowest possible contribution minus the true one; −inf where nothing bounds it"""
    above: Floats
    """highest possible contribution minus the true one; inf where nothing bounds it"""


def bounds_from_total(
    groups: Ints,
    values: Floats,
    totals: Floats,
    weights: Floats,
    coalition: int,
    limits: tuple[float | None, float | None],
) -> GroupBounds:
    """Bound each member's contribution (weight times value) from above and below.

    `totals` is the published total of each group. The victim's contribution is the total less what the coalition
    knows to be its own less what the others have; each of these has at least limits[0] and at most limits[1] times
    its weight. The worst coalition for the upper bound are those with the most above the lower limit, for the lower
    bound those with the most below the upper limit. Time O(n log n + groups · coalition).
    """
    sizes = np.bincount(groups, minlength=totals.size)
    error = (totals - np.bincount(groups, weights * values, totals.size))[groups]
    rest = np.maximum(sizes[groups] - 1 - coalition, 0)
    low, high = limits
    above = np.full(values.size, np.inf) if low is None else _left_over(groups, weights * (values - low), coalition)
    below = np.full(values.size, np.inf) if high is None else _left_over(groups, weights * (high - values), coalition)
    none = rest == 0
    return GroupBounds(rest, error - np.where(none, 0.0, below), error + np.where(none, 0.0, above))


def _left_over(groups: Ints, amounts: Floats, coalition: int) -> Floats:
    """Sum the amounts of the other members of a record's group, without the `coalition` largest of them."""
    order = np.lexsort((-amounts, groups))
    ranked = amounts[order]
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(groups.size, np.int64)
    place[order] = np.arange(groups.size) - starts[groups[order]]
    largest = np.zeros(sizes.size)
    taken = min(coalition, int(sizes.max(initial=0)))
    for number in range(taken):
        has = sizes > number
        largest[has] += ranked[starts[has] + number]
    following = np.zeros(sizes.size)
    has = sizes > taken
    following[has] = ranked[starts[has] + taken]
    inside = place < taken
    known = np.where(inside, (largest + following)[groups] - amounts, largest[groups])
    return np.asarray(np.maximum(np.bincount(groups, amounts, sizes.size)[groups] - amounts - known, 0.0))
