"""Local suppression when missing is a value like any other: few cells, so that every class has at least k records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32, Keys, Tick
from discretion.kernels.classes import Classes, class_ids
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.suppress_table import Units, column_sets, find, find_or_add, key_of, make_units
from discretion.kernels.suppress_wildcard import hidden, missing_bits, suppress_wildcard
from discretion.kernels.wildcard import wildcard_counts

# Local suppression when a missing value matches anything, but a record with missing values counts less than one.
#
# A record counts 1 for those that match it, and `alpha` once a cell of it is missing, except for records that are the
# same as it, missing cells included: suppression takes matches away from others. Three ways lead out, and the cheapest
# is taken: to give every failing record k matches among complete records that are never touched, to give it so many
# matches of any kind that they suffice even if all are incomplete, or to make it the same as k records.


def suppress_discounted(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, alpha: float, costs: Floats, tick: Tick
) -> tuple[Ints, int]:
    """Give for each row the cells to suppress (bits) so that it matches k rows, and how many rows could not be helped.

    A row counts itself and every row that agrees with it wherever both have a value: as 1 if that row is complete or
    the same as it, else as `alpha` (below 1). Column j holds codes 0 … cardinalities[j]−1; the last code stands for
    missing; a column of infinite cost is never suppressed. Time O(n·columns) for each set of columns, each pattern of
    missing values and each round (few), and the time of `suppress_category` and `suppress_wildcard`.
    """
    cells, lost = _among_complete(columns, cardinalities, k, alpha, costs, tick)
    if not (lost or cells.any()):
        return cells, lost
    fixed = np.flatnonzero(np.isinf(costs)).tolist()
    same = class_ids([columns[j] for j in fixed], [cardinalities[j] for j in fixed], len(cells)).counts
    others = [suppress_category(columns, cardinalities, k, costs, tick)] if same.min() >= k else []
    enough = math.ceil(k / alpha - 1e-9) if alpha > 0 else len(cells) + 1
    if enough <= len(cells):
        others.append(suppress_wildcard(columns, cardinalities, enough, costs, tick))
    for other in others:
        better = lost or _price(other, costs) < _price(cells, costs)
        if better and not _fail(columns, cardinalities, other, k, alpha).any():
            cells, lost = other, 0
    return cells, lost


def _fail(columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints, k: int, alpha: float) -> Bools:
    """Tell which rows match too little with some cells suppressed."""
    now = hidden(columns, cardinalities, cells)
    counts = wildcard_counts(now, [size - 1 for size in cardinalities], cardinalities, alpha=alpha)[0]
    return np.asarray(counts < k - 1e-9)


def _price(cells: Ints, costs: Floats) -> float:
    return float(sum(costs[j] * n for j in range(len(costs)) if (n := np.count_nonzero(cells >> j & 1))))


def _among_complete(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, alpha: float, costs: Floats, tick: Tick
) -> tuple[Ints, int]:
    """Give each failing row the cheapest set of columns with which k complete rows that do not fail match it.

    Rows that fail only because others lost cells join them, until none is left.
    """
    missing = missing_bits(columns, cardinalities, np.arange(len(columns[0])))
    cells = np.zeros(len(missing), np.int64)
    failing = np.zeros(len(missing), np.bool_)
    while (new := _fail(columns, cardinalities, cells, k, alpha) & ~failing).any():
        failing |= new
        cells, lost = _cheapest(columns, cardinalities, failing, missing, k, costs, tick)
        if lost:
            return cells, lost
    return cells, 0


def _cheapest(
    columns: Sequence[Codes],
    cardinalities: Sequence[int],
    failing: Bools,
    missing: Ints,
    k: int,
    costs: Floats,
    tick: Tick,
) -> tuple[Ints, int]:
    """Give the cells of each failing row, and the number of rows for which no set suffices."""
    whole = np.flatnonzero(~failing & (missing == 0))
    classes = class_ids([column[whole] for column in columns], cardinalities, len(whole))
    stable, weights = whole[classes.first_row], classes.counts
    rows = np.flatnonzero(failing)
    allowed = np.flatnonzero(np.isfinite(costs))
    spread = np.array([len(np.unique(column[rows])) for column in columns])
    sets = column_sets(costs, allowed, spread)[0] if len(allowed) else np.zeros(0, np.int64)
    cells = np.zeros(len(missing), np.int64)
    lost = 0
    patterns = np.unique(missing[rows])
    for number, pattern in enumerate(patterns.tolist()):
        tick(number, len(patterns))
        waiting = rows[missing[rows] == pattern]
        for chosen in _by_cost(sets & ~pattern, costs):
            kept = [j for j in range(len(columns)) if not (pattern | chosen) >> j & 1]
            enough = _matches(columns, cardinalities, kept, stable, weights, waiting) >= k
            cells[waiting[enough]] = chosen
            waiting = waiting[~enough]
            tick(number, len(patterns))
            if not len(waiting):
                break
        lost += len(waiting)
    return cells, lost


def _by_cost(sets: Ints, costs: Floats) -> list[int]:
    """Sort sets of columns by what they cost, the empty one first."""
    found = {0, *sets.tolist()}
    return sorted(found, key=lambda bits: (sum(costs[j] for j in range(len(costs)) if bits >> j & 1), bits))


def _matches(
    columns: Sequence[Codes], cardinalities: Sequence[int], kept: Sequence[int], stable: Ints, weights: Ints, rows: Ints
) -> Floats:
    """Count for some rows the stable rows that agree with them on the columns kept."""
    everyone = np.concatenate([stable, rows])
    ids = class_ids([columns[j][everyone] for j in kept], [cardinalities[j] for j in kept], len(everyone))
    totals = np.bincount(ids.ids[: len(stable)], weights, len(ids.counts))
    return np.asarray(totals[ids.ids[len(stable) :]], np.float64)


# The greedy search of local suppression when missing is a value like any other: small classes are merged.
#
# Records of small classes are brought to a common form: the same columns missing, equal values in the others. A group
# that is still too small is filled up with records of classes that have more than they need. Groups are taken in order
# of their cost per record that is helped, in rounds of rising cost; a group that exists takes in later records.

GROUPED = -1  # key of the tables here: no pattern, the set of removed columns says all


class Groups(NamedTuple):
    """Classes after the search, by their final form: an open hash table of keys and numbers of records."""

    keys: Keys
    sizes: Ints


class Assignment(NamedTuple):
    """Where each small class goes (a set of missing columns, −1 for not yet), and what large ones can give."""

    targets: Ints
    places: Ints
    surplus: Ints
    homes: Ints
    """the groups that the large classes are"""


class Gifts(NamedTuple):
    """Records given by large classes: class, missing columns, number of records, place of the group; `total` gifts."""

    givers: Ints
    targets: Ints
    amounts: Ints
    places: Ints
    total: Ints


class Scratch(NamedTuple):
    """The candidate groups of one set of columns, and that of each waiting class (−1 for none)."""

    keys: Keys
    records: Ints
    costs: Floats
    available: Ints
    heads: Ints32
    givers: Ints32
    next: Ints32
    slots: Ints


class Round(NamedTuple):
    """One set of columns in one round: at most this cost per helped record, groups of at most this many records."""

    target: int
    at_most: float
    most_records: int
    k: int


@lean_kernel
def settle(units: Units, small: int, groups: Groups, homes: Ints) -> None:
    """Count the large classes as groups that exist, and note where."""
    for unit in range(small, units.missing.size):
        slot = find_or_add(groups.keys, key_of(units, unit, units.missing[unit], GROUPED))
        groups.sizes[slot] += units.weights[unit]
        homes[unit - small] = slot


@lean_helper
def cost_of(columns: int, costs: Floats) -> float:
    """Add up what the columns of a set cost."""
    total = 0.0
    for j in range(costs.size):
        if columns >> j & 1:
            total += costs[j]
    return total


@lean_kernel
def merge(
    units: Units, waiting: Ints, sets: Ints, at_most: float, most_records: int, k: int, costs: Floats, groups: Groups,
    to: Assignment, gifts: Gifts, work: Scratch,
) -> int:  # fmt: skip
    """Form groups with one set of columns missing after the other; bring the classes that still wait to the front.

    Gives their number.
    """
    left = waiting.size
    for s in range(sets.size):
        one = Round(sets[s], at_most, most_records, k)
        if not _merge_one(units, waiting[:left], one, costs, groups, to, gifts, work):
            continue
        kept = 0
        for i in range(left):
            if to.targets[waiting[i]] < 0:
                waiting[kept] = waiting[i]
                kept += 1
        left = kept
    return left


@lean_helper
def _merge_one(
    units: Units, waiting: Ints, one: Round, costs: Floats, groups: Groups, to: Assignment, gifts: Gifts, work: Scratch
) -> int:
    """Form groups with one set of columns missing; give the number of small classes that found a place."""
    _gather(units, waiting, one.target, costs, to, work)
    wanting = 0
    placed = 0
    for i in range(waiting.size):
        slot = work.slots[i]
        if slot < 0 or to.targets[waiting[i]] >= 0 or work.records[slot] <= 0:
            continue
        there = find(groups.keys, work.keys[slot])
        have = groups.sizes[there] if there >= 0 else 0
        need = one.k - have - work.records[slot]
        price = work.costs[slot] + max(need, 0) * cost_of(one.target, costs)
        too_large = need <= 0 and have == 0 and work.records[slot] > one.most_records
        if too_large or price > one.at_most * work.records[slot]:
            work.records[slot] = -work.records[slot]  # not in this round
        elif need <= 0:
            placed += _commit(slot, one, units.weights, groups, to, gifts, work)
        else:
            work.available[slot] = -need
            wanting += 1
    if wanting:
        _offer(units, one.target, to, work)
        for i in range(waiting.size):
            slot = work.slots[i]
            if slot < 0 or to.targets[waiting[i]] >= 0 or work.records[slot] <= 0:
                continue
            if work.givers[slot] >= 0 and work.available[slot] >= 0:
                placed += _commit(slot, one, units.weights, groups, to, gifts, work)
    for i in range(waiting.size):
        slot = work.slots[i]
        if slot >= 0:
            work.keys[slot] = 0
            work.records[slot], work.costs[slot], work.available[slot] = 0, 0.0, 0
            work.heads[slot], work.givers[slot] = -1, -1
    return placed


@lean_helper
def _gather(units: Units, waiting: Ints, target: int, costs: Floats, to: Assignment, work: Scratch) -> None:
    """Form the candidate groups."""
    for i in range(waiting.size):
        unit = waiting[i]
        work.slots[i] = -1
        if to.targets[unit] >= 0 or units.missing[unit] & ~target:
            continue
        slot = find_or_add(work.keys, key_of(units, unit, target, GROUPED))
        work.slots[i] = slot
        work.records[slot] += units.weights[unit]
        work.costs[slot] += units.weights[unit] * cost_of(target & ~units.missing[unit], costs)
        work.next[unit] = work.heads[slot]
        work.heads[slot] = unit


@lean_helper
def _offer(units: Units, target: int, to: Assignment, work: Scratch) -> None:
    """Let the large classes offer what they can spare to the groups that lack records."""
    small = to.targets.size
    for i in range(to.surplus.size):
        if to.surplus[i] <= 0 or units.missing[small + i] & ~target or units.missing[small + i] == target:
            continue
        slot = find(work.keys, key_of(units, small + i, target, GROUPED))
        if slot >= 0 and work.records[slot] > 0 and work.available[slot] < 0:
            work.available[slot] += to.surplus[i]
            work.next[small + i] = work.givers[slot]
            work.givers[slot] = small + i


@lean_helper
def _commit(slot: int, one: Round, weights: Ints, groups: Groups, to: Assignment, gifts: Gifts, work: Scratch) -> int:
    """Make a candidate group one that exists, filled up to k with records of large classes where they are offered."""
    small = to.targets.size
    there = find_or_add(groups.keys, work.keys[slot])
    need = one.k - groups.sizes[there] - work.records[slot]
    giver = work.givers[slot]
    while giver >= 0 and need > 0:
        amount = min(need, to.surplus[giver - small])
        to.surplus[giver - small] -= amount
        groups.sizes[to.homes[giver - small]] -= amount
        groups.sizes[there] += amount
        need -= amount
        place = gifts.total[0]
        gifts.givers[place], gifts.targets[place] = giver, one.target
        gifts.amounts[place], gifts.places[place] = amount, there
        gifts.total[0] += 1
        giver = work.next[giver]
    member = work.heads[slot]
    placed = 0
    while member >= 0:
        to.targets[member] = one.target
        to.places[member] = there
        groups.sizes[there] += weights[member]
        member = work.next[member]
        placed += 1
    work.records[slot] = 0
    return placed


@lean_kernel
def improve(units: Units, sets: Ints, costs: Floats, k: int, groups: Groups, to: Assignment, gifts: Gifts) -> None:
    """Move small classes to cheaper groups that exist, and send back given records that are not needed any more."""
    for unit in range(to.targets.size):
        target, weight = to.targets[unit], units.weights[unit]
        if target < 0 or groups.sizes[to.places[unit]] - weight < k:
            continue
        price = cost_of(target & ~units.missing[unit], costs)
        for s in range(sets.size):
            new = sets[s]
            if units.missing[unit] & ~new or cost_of(new & ~units.missing[unit], costs) >= price:
                continue
            there = find(groups.keys, key_of(units, unit, new, GROUPED))
            if there >= 0 and groups.sizes[there] >= k:
                groups.sizes[to.places[unit]] -= weight
                groups.sizes[there] += weight
                to.targets[unit], to.places[unit] = new, there
                break
    for i in range(gifts.total[0]):
        back = min(gifts.amounts[i], groups.sizes[gifts.places[i]] - k)
        if back > 0:
            gifts.amounts[i] -= back
            groups.sizes[gifts.places[i]] -= back


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
