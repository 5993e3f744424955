"""The greedy search of local suppression when missing is a value like any other: small classes are merged.

Records of small classes are brought to a common form: the same columns missing, equal values in the others. A group
that is still too small is filled up with records of classes that have more than they need. Groups are taken in order
of their cost per record that is helped, in rounds of rising cost; a group that exists takes in later records.
"""

from __future__ import annotations

from typing import NamedTuple

from discretion.kernels.arrays import Floats, Ints, Ints32, Keys
from discretion.kernels.jit import lean_helper, lean_kernel
from discretion.kernels.suppress_table import Units, find, find_or_add, key_of

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
