"""Local suppression when missing is a value like any other: few cells, so that every class has at least k records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from discretion.kernels.arrays import Codes, Floats, Ints
from discretion.kernels.classes import Classes, class_ids
from discretion.kernels.suppress_family import column_sets
from discretion.kernels.suppress_merge import Assignment, Gifts, Groups, Scratch, improve, merge, settle
from discretion.kernels.suppress_table import Units, make_units
from discretion.kernels.suppress_wildcard import hidden, missing_bits

Tick = Callable[[int, int], None]
_STEP, _LARGE_STEP = 1.15, 1.5
_MANY = 4_000_000
_BETWEEN = 2_000_000  # classes looked at between two reports of progress


def suppress_category(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, costs: Floats, tick: Tick
) -> Ints:
    """Give for each row the cells to suppress (bits), so that each row equals at least k rows, itself included.

    Column j holds codes 0 … cardinalities[j]−1; the last code stands for missing, before and after. A column of
    infinite cost is never suppressed; the caller has made sure that there is a solution. Records of large classes are
    used only where small classes alone do not suffice. Time near O(n·columns) + O(classes·sets of columns tried).
    """
    classes = class_ids(columns, cardinalities)
    cells = np.zeros(len(columns[0]), np.int64)
    if classes.counts.min(initial=k) >= k:
        return cells
    allowed = np.flatnonzero(np.isfinite(costs))
    order = np.argsort(classes.counts >= k, kind="stable")
    small = int((classes.counts < k).sum())
    first = classes.first_row[order]
    bits = np.int64(sum(1 << int(j) for j in allowed))
    missing = missing_bits(columns, cardinalities, first) & bits
    codes = np.stack([column[first].astype(np.int64) for column in columns], axis=1)
    units = make_units(codes, missing, classes.counts[order])
    spread = np.array([len(np.unique(column[first[:small]])) for column in columns])
    sets, set_costs = column_sets(costs, allowed, spread)
    priced = np.where(np.isfinite(costs), costs, 0.0)
    to, gifts = _search(units, small, sets, set_costs, priced, k, tick)
    _write(cells, classes, order, units, to, gifts)
    return _blank_rest(columns, cardinalities, cells, k, bits)


def _search(
    units: Units, small: int, sets: Ints, set_costs: Floats, costs: Floats, k: int, tick: Tick
) -> tuple[Assignment, Gifts]:
    count = len(units.missing)
    size = 1 << int(3 * count // 2 + 64).bit_length()
    groups = Groups(np.zeros(size, np.uint64), np.zeros(size, np.int64))
    to = Assignment(
        np.full(small, -1, np.int64), np.full(small, -1, np.int64), units.weights[small:] - k,
        np.empty(count - small, np.int64),
    )  # fmt: skip
    settle(units, small, groups, to.homes)
    givers, targets, amounts, places = (np.zeros(count + 1, np.int64) for _ in range(4))
    gifts = Gifts(givers, targets, amounts, places, np.zeros(1, np.int64))
    work = _scratch(small, count)
    waiting = np.arange(small)
    step = _STEP if small * len(sets) < _MANY else _LARGE_STEP
    together = max(1, _BETWEEN // small)
    at_most, last = float(set_costs.min()), float(set_costs.max()) * k
    while len(waiting):
        for most in (2 * k, len(units.missing) * k):
            tried = sets[set_costs <= at_most]
            for first in range(0, len(tried), together):
                some = tried[first : first + together]
                left = merge(units, waiting, some, at_most, most, k, costs, groups, to, gifts, work)
                waiting = waiting[:left]
                tick(small - left, small)
        if at_most > last:
            break
        at_most *= step
    improve(units, sets, costs, k, groups, to, gifts)
    return to, gifts


def _scratch(small: int, count: int) -> Scratch:
    size = 1 << int(2 * small + 64).bit_length()
    return Scratch(
        np.zeros(size, np.uint64),
        np.zeros(size, np.int64),
        np.zeros(size, np.float64),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int32),
        np.full(size, -1, np.int32),
        np.empty(count, np.int32),
        np.empty(small, np.int64),
    )


def _write(cells: Ints, classes: Classes, order: Ints, units: Units, to: Assignment, gifts: Gifts) -> None:
    """Bring what was decided for classes to their rows; of a giving class the last rows go."""
    per_class = np.zeros(len(order), np.int64)
    small = len(to.targets)
    chosen = to.targets >= 0
    per_class[order[:small][chosen]] = (to.targets & ~units.missing[:small])[chosen]
    cells |= per_class[classes.ids]
    given = np.flatnonzero(gifts.amounts[: gifts.total[0]])
    if not len(given):
        return
    givers = order[gifts.givers[given]]
    rows = np.flatnonzero(np.isin(classes.ids, givers))
    rows = rows[np.argsort(classes.ids[rows], kind="stable")]
    ends = dict(zip(*np.unique(classes.ids[rows], return_counts=True), strict=True))
    ends = dict(zip(ends, np.cumsum(list(ends.values())), strict=True))
    for gift, giver in zip(given, givers, strict=True):
        amount = int(gifts.amounts[gift])
        ends[giver] -= amount
        taken = rows[ends[giver] : ends[giver] + amount]
        cells[taken] |= gifts.targets[gift] & ~units.missing[gifts.givers[gift]]


def _blank_rest(columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints, k: int, bits: np.int64) -> Ints:
    """Where classes are still too small, suppress all that is allowed in them, and in as many others as it takes."""
    while True:
        now = hidden(columns, cardinalities, cells)
        classes = class_ids(now, cardinalities)
        failing = classes.counts < k
        if not failing.any():
            return cells
        missing = missing_bits(now, cardinalities, classes.first_row) & bits
        blank = failing & (missing != bits)
        if not blank.any():  # blank records alone are too few: add the smallest class that agrees where it must
            free = [int(j) for j in range(len(columns)) if bits >> j & 1]
            kept = [now[j] for j in range(len(columns)) if j not in free]
            sizes = [cardinalities[j] for j in range(len(columns)) if j not in free]
            near = class_ids([c[classes.first_row] for c in kept], sizes, len(failing)).ids
            for group in np.unique(near[failing]):
                others = np.flatnonzero((near == group) & ~failing)
                if len(others):
                    blank[others[np.argmin(classes.counts[others])]] = True
        if not blank.any():
            raise ValueError("no solution: too few rows agree on the columns that are kept")
        rows = blank[classes.ids]
        cells[rows] |= bits & ~missing_bits(columns, cardinalities, np.flatnonzero(rows))
