"""Groups of records: who is in each, what stands for it (mean, median, most frequent value), one member by chance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Ints, as_integers, as_vector
from discretion.kernels.jit import kernel

How = Literal["mean", "median", "low-median", "mode"]

_MEAN, _MEDIAN, _LOW_MEDIAN, _MODE = 0, 1, 2, 3
_CODES: dict[How, int] = {"mean": _MEAN, "median": _MEDIAN, "low-median": _LOW_MEDIAN, "mode": _MODE}


class Members(NamedTuple):
    """The rows of each group: group g has `order[starts[g]:starts[g + 1]]`, in ascending order."""

    labels: Ints  # group of each row, −1 for a row that is in none
    order: Ints
    starts: Ints

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return self.starts.size - 1


def group_members(labels: ArrayLike) -> Members:
    """List the rows of each group from the group of each row; −1 stands for none. Time and memory O(n)."""
    groups = as_integers(labels)
    n_groups = int(groups.max(initial=-1)) + 1
    if groups.size and groups.min() < -1:
        raise ValueError("groups are numbered from 0; −1 stands for none")
    return Members(groups, *_members(groups, n_groups))


def group_values(x: ArrayLike, members: Members, how: How, *, skip_missing: bool = False) -> Floats:
    """Return one value for each group.

    `mean`: a group of equal values keeps exactly that value. `median`: of an even number of values the mean of the
    two in the middle. `low-median`: the lower of these two, which is always a value of the group. `mode`: the most
    frequent value, the smallest of equally frequent ones. NaN is missing: a group with a missing value has NaN, or
    the value of the others if `skip_missing`. Time O(n·log k).
    """
    values = as_vector(x)
    if values.size != members.labels.size:
        raise ValueError(f"{members.labels.size} rows but {values.size} values")
    return _group_values(values, members.order, members.starts, _CODES[how], skip_missing)


def choose_one(members: Members, present: Bools, rng: np.random.Generator) -> Ints:
    """Draw for each group one of its rows that are `present`; −1 where there is none."""
    return _choose_one(members.order, members.starts, present, rng.random(members.n_groups))


def cut_labels(bounds: ArrayLike, order: ArrayLike) -> Ints:
    """Return the group of each row from the bounds of groups in sorted values and the row of each sorted value."""
    edges = as_integers(bounds)
    labels = np.empty(edges[-1], np.int64)
    labels[as_integers(order)] = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    return labels


def fixed_bounds(n: int, k: int) -> Ints:
    """Cut n sorted values into groups of k; the last has the rest too: k to 2k−1."""
    if n < k:
        raise ValueError(f"a group needs k = {k} values, got {n}")
    return np.append(np.arange(n // k) * k, n)


@kernel
def _members(groups: Ints, n_groups: int) -> tuple[Ints, Ints]:
    starts = np.zeros(n_groups + 1, np.int64)
    for g in groups:
        if g >= 0:
            starts[g + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(starts[n_groups], np.int64)
    place = starts[:-1].copy()
    for row in range(groups.size):
        g = groups[row]
        if g >= 0:
            order[place[g]] = row
            place[g] += 1
    return order, starts


@kernel
def _group_values(x: Floats, order: Ints, starts: Ints, how: int, skip_missing: bool) -> Floats:
    n_groups = starts.size - 1
    out = np.full(n_groups, np.nan)
    largest = 0
    for g in range(n_groups):
        largest = max(largest, starts[g + 1] - starts[g])
    buffer = np.empty(largest)
    for g in range(n_groups):
        size = 0
        for i in range(starts[g], starts[g + 1]):
            value = x[order[i]]
            if not np.isnan(value):
                buffer[size] = value
                size += 1
        if size == 0 or (size < starts[g + 1] - starts[g] and not skip_missing):
            continue
        if how == _MEAN:
            excess = 0.0  # above the first value: 0 for equal values, so no rounding there
            for i in range(size):
                excess += buffer[i] - buffer[0]
            out[g] = buffer[0] + excess / size
            continue
        values = buffer[:size]
        values.sort()
        if how == _MODE:
            best, run = 0, 0
            for i in range(size):
                run = run + 1 if i > 0 and values[i] == values[i - 1] else 1
                if run > best:
                    best, out[g] = run, values[i]
        else:
            low, high = values[(size - 1) // 2], values[size // 2]
            out[g] = low if how == _LOW_MEDIAN else low + (high - low) / 2
    return out


@kernel
def _choose_one(order: Ints, starts: Ints, present: Bools, shares: Floats) -> Ints:
    chosen = np.full(starts.size - 1, -1, np.int64)
    for g in range(chosen.size):
        count = 0
        for i in range(starts[g], starts[g + 1]):
            count += present[order[i]]
        wanted = int(shares[g] * count)
        for i in range(starts[g], starts[g + 1]):
            if present[order[i]]:
                if wanted == 0:
                    chosen[g] = order[i]
                    break
                wanted -= 1
    return chosen
