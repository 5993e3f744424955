"""Privacy models as tests of single classes, each with what every less general release could keep of a class at most.

A class of n records, f_i of them in item i (a value, or a label of some level of a hierarchy), stands by a *convex*
model when Σ_i min(f_i, c_i·n) ≥ s·n. Unions of sets that satisfy this satisfy it: the left side is concave. What a less
general release keeps inside a class is a union of classes that stand, and so a subset of the class that satisfies the
inequality. The largest K with Σ_i min(f_i, c_i·K) ≥ s·K bounds its records, whatever happens below.

The decisions are those of `values_for` of the models, in the same whole numbers; `most` is rounded up where it must be.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32
from discretion.kernels.jit import helper, kernel

TRANSPORT, ORDERED, SHARES, ENTROPY, RECURSIVE, DISTINCT = range(6)
_STANDS = -1
_SLACK = 1e-6
_NEAR = 1e-9
_WORTH = 0.02
"""A step of Newton that lowers the bound by less than this share is the last."""
_HALVINGS = 10


class ClassTest(NamedTuple):
    """A model for one sensitive column; which of the figures it needs depends on its kind."""

    kind: int
    groups: Ints
    """a row per level: the item of each value; for ordered values, the sums of `totals` up to each"""
    totals: Ints
    """records of everybody in each item; for ordered values, up to and including each value"""
    shares: Floats
    """the share of each item (of each value, where items are values) in the table"""
    high: Floats
    """the largest allowed multiple of a value's share"""
    low: Floats
    """the smallest allowed multiple of a value's share"""
    records: int
    """records of everybody"""
    bound: float
    """what the figure of a class must keep to"""
    part: float
    """the right side s of the inequality"""
    need: int
    """different values that a class must have"""


class ClassValues(NamedTuple):
    """The values of each class: a dense table from its column `first` on, or triples (the table is empty then)."""

    table: Ints32
    first: int
    starts: Ints
    values: Ints
    counts: Ints


class ClassWork(NamedTuple):
    """Room for one class."""

    values: Ints
    counts: Ints
    held: Ints
    items: Ints
    amounts: Floats
    caps: Floats


def make_work(test: ClassTest) -> ClassWork:
    """Give room for the values and items of a test."""
    values, items = test.groups.shape[1], test.groups.shape[1] + len(test.totals)
    return ClassWork(
        np.zeros(values, np.int64),
        np.zeros(values, np.int64),
        np.zeros(items, np.int64),
        np.zeros(test.groups.size + 1, np.int64),
        np.zeros(test.groups.size + test.need + 1),
        np.zeros(test.groups.size + 1),
    )


@kernel
def keep_large(sizes: Ints, k: int, gone: Bools, keep: Ints) -> int:
    """Mark the classes of fewer than k records, and give their records; of the others everything can be kept."""
    lost = 0
    for row in range(sizes.size):
        small = sizes[row] < k
        gone[row] = small and sizes[row] > 0
        keep[row] = 0 if small else sizes[row]
        lost += sizes[row] if small else 0
    return lost


def judge_classes(
    test: ClassTest,
    found: ClassValues,
    work: ClassWork,
    sizes: Ints,
    k: int,
    enough: int,
    lost: int,
    gone: Bools,
    keep: Ints,
) -> tuple[int, int]:
    """Mark the classes that fail, and lower what can be kept of them below; of what remains, k records or none.

    Gives the records that are lost below, with those that were lost before, and the number of classes that fail. Stops
    when more than enough are lost.
    """
    everything: tuple[Any, ...] = (*test, *found, *work, sizes, k, enough, lost, gone, keep)
    return _judge(*everything)


@kernel
def _judge(
    kind: int,
    groups: Ints,
    totals: Ints,
    shares: Floats,
    high: Floats,
    low: Floats,
    records: int,
    bound: float,
    part: float,
    need: int,
    table: Ints32,
    first: int,
    starts: Ints,
    values: Ints,
    counts: Ints,
    own_values: Ints,
    own_counts: Ints,
    held: Ints,
    items: Ints,
    amounts: Floats,
    caps: Floats,
    sizes: Ints,
    k: int,
    enough: int,
    lost: int,
    gone: Bools,
    keep: Ints,
) -> tuple[int, int]:
    """Judge: tuples are taken apart, because numba looks at arrays much faster."""
    test = ClassTest(kind, groups, totals, shares, high, low, records, bound, part, need)
    found = ClassValues(table, first, starts, values, counts)
    work = ClassWork(own_values, own_counts, held, items, amounts, caps)
    failed = 0
    for row in range(sizes.size):
        if keep[row] == 0:
            continue
        different = _read(found, row, work)
        most = _most(test, work, different, sizes[row], k)
        if most == _STANDS:
            continue
        failed += 1
        gone[row] = True
        can = most if most >= k else 0
        if can < keep[row]:
            lost += keep[row] - can
            keep[row] = can
            if lost > enough:
                break
    return lost, failed


@helper
def _read(found: ClassValues, row: Index, work: ClassWork) -> int:
    """Copy the values that occur in a class, in their order."""
    different = 0
    if found.starts.size == 0:
        for value in range(work.values.size):
            if found.table[row, found.first + value] > 0:
                work.values[different] = value
                work.counts[different] = found.table[row, found.first + value]
                different += 1
    else:
        for place in range(found.starts[row], found.starts[row + 1]):
            work.values[different] = found.values[place]
            work.counts[different] = found.counts[place]
            different += 1
    return different


@helper
def _most(test: ClassTest, work: ClassWork, different: int, size: int, k: int) -> int:
    """Give −1 where a class stands, else the most records that can be kept of it, or anything below k."""
    if test.kind == TRANSPORT:
        return _by_transport(test, work, different, size, k)
    if test.kind == ORDERED:
        return _by_order(test, work, different, size)
    if test.kind == SHARES:
        return _by_shares(test, work, different, size, k)
    if test.kind == ENTROPY:
        return _by_entropy(test, work, different)
    if test.kind == RECURSIVE:
        return _by_tail(test, work, different, size)
    return _STANDS if different >= test.need else 0


@helper
def _by_transport(test: ClassTest, work: ClassWork, different: int, size: int, k: int) -> int:
    """All labels of the levels below the top: what is above its share must be moved."""
    levels = test.groups.shape[0]
    moved = 0
    for j in range(different):
        value = work.values[j]
        moved += max(work.counts[j] * test.records - test.totals[value] * size, 0)
        work.amounts[j] = work.counts[j]
        work.caps[j] = test.shares[value]
    items = different
    for level in range(1, levels):
        first = items
        for j in range(different):
            item = test.groups[level, work.values[j]]
            if work.held[item] == 0:
                work.items[items] = item
                items += 1
            work.held[item] += work.counts[j]
        for i in range(first, items):
            item = work.items[i]
            moved += max(work.held[item] * test.records - test.totals[item] * size, 0)
            work.amounts[i] = work.held[item]
            work.caps[i] = test.shares[item]
            work.held[item] = 0
    if moved / (size * float(test.records) * levels) <= test.bound:
        return _STANDS
    return _largest(work, items, test.part, float(size), k)


@helper
def _by_shares(test: ClassTest, work: ClassWork, different: int, size: int, k: int) -> int:
    """No value above or below a multiple of its share; `need` values must occur."""
    stands = different >= test.need
    start = float(size) if stands else 0.0
    for j in range(different):
        value = work.values[j]
        cap = test.high[value] * test.shares[value]
        work.amounts[j] = work.counts[j]
        work.caps[j] = cap
        if abs(work.counts[j] - cap * size) <= work.counts[j] * _NEAR or test.low[value] > 0.0:
            ratio = work.counts[j] / size / test.shares[value]
            stands = stands and ratio <= test.high[value] and ratio >= test.low[value]
        else:
            stands = stands and work.counts[j] < cap * size
        if test.need > 0:
            start = min(start, work.counts[j] / (test.low[value] * test.shares[value]) * (1 + 1e-9))
    return _STANDS if stands else _largest(work, different, test.part, start, k)


@helper
def _largest(work: ClassWork, items: int, part: float, start: float, k: int) -> int:
    """Give the largest K up to a start with Σ min(amount, cap·K) ≥ part·K, by Newton from the right.

    Every step is an upper bound: where one is below k, nothing can be kept, and where one changes little, it does.
    """
    most = start
    for _ in range(64):
        if most + _SLACK < k:
            return 0
        fixed, slope = 0.0, 0.0
        for i in range(items):
            full = work.amounts[i] < work.caps[i] * most
            fixed += work.amounts[i] if full else 0.0
            slope += 0.0 if full else work.caps[i]
        if fixed + slope * most >= part * most * (1 - 1e-12):
            break
        if fixed <= 0.0 or slope >= part:
            most = 0.0
            break
        before, most = most, fixed / (part - slope)
        if before - most < _WORTH * most:
            break
    return int(most + _SLACK)


@helper
def _by_order(test: ClassTest, work: ClassWork, different: int, size: int) -> int:
    """Both sides of every cut between neighboring values, from one value that occurs to the next at once."""
    cuts = test.totals.size - 1
    moved = 0
    held = 0
    for j in range(-1, different):
        low, high = _gap(work, different, cuts, j)
        held += work.counts[j] if j >= 0 else 0
        cross = _first_above(test.totals, held * test.records, size, low, high)
        for begin, end, sign in ((low, cross, 1), (cross, high, -1)):
            moved += sign * (held * test.records * (end - begin) - size * _area(test, begin, end))
    if cuts == 0 or moved / (size * float(test.records) * cuts) <= test.bound:
        return _STANDS
    most = float(size)
    for _ in range(64):
        fixed, slope = _cut_sums(test, work, different, size, most)
        if fixed + slope * most >= test.part * most * (1 - 1e-12):
            break
        if fixed <= 0.0 or slope >= test.part:
            most = 0.0
            break
        most = fixed / (test.part - slope)
    return int(most + _SLACK)


@helper
def _cut_sums(test: ClassTest, work: ClassWork, different: int, size: int, most: float) -> tuple[float, float]:
    """Give the fixed part and the slope of Σ min(records below, c·K) + min(records above, (1 − c)·K) over the cuts."""
    cuts = test.totals.size - 1
    fixed, slope = 0.0, 0.0
    held = 0
    for j in range(-1, different):
        low, high = _gap(work, different, cuts, j)
        held += work.counts[j] if j >= 0 else 0
        above = size - held
        full = _first_above(test.totals, held * test.records, most, low, high)  # from here on c·K > records below
        short = _first_above(test.totals, (most - above) * test.records, most, low, high)  # before, (1 − c)·K suffices
        fixed += held * (high - full) + above * (short - low)
        slope += _area(test, low, full) / test.records + (high - short) - _area(test, short, high) / test.records
    return fixed, slope


@helper
def _area(test: ClassTest, begin: int, end: int) -> int:
    """Add up the cumulated totals of the cuts from begin to before end."""
    total = 0
    if end > 0:
        total += test.groups[0, end - 1]
    if begin > 0:
        total -= test.groups[0, begin - 1]
    return total


@helper
def _gap(work: ClassWork, different: int, cuts: int, j: int) -> tuple[int, int]:
    """Give the cuts from a value that occurs (−1: from the first of all) up to before the next that occurs."""
    low, high = 0, cuts
    if j >= 0:
        low = min(work.values[j], cuts)
    if j + 1 < different:
        high = min(work.values[j + 1], cuts)
    return low, high


@helper
def _first_above(totals: Ints, wanted: float, factor: float, low: int, high: int) -> int:
    """Find the first cut from low to high whose cumulated total times a factor is above what is wanted."""
    while low < high:
        middle = (low + high) // 2
        if totals[middle] * factor > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def _by_entropy(test: ClassTest, work: ClassWork, different: int) -> int:
    """The most mixed subset of a given size has every value cut off at one height."""
    top = 0.0
    for j in range(different):
        work.amounts[j] = work.counts[j]
        top = max(top, work.amounts[j])
    if _entropy_below(work, different, top)[0] >= test.bound:
        return _STANDS
    if math.log(different) < test.bound:
        return 0
    low, high = 0.0, top
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _entropy_below(work, different, middle)[0] >= test.bound:
            low = middle
        else:
            high = middle
    return int(_entropy_below(work, different, high)[1] + _SLACK)


@helper
def _entropy_below(work: ClassWork, different: int, height: float) -> tuple[float, float]:
    """Give the entropy of amounts that are cut off at a height, and their sum."""
    total, weighed = 0.0, 0.0
    for j in range(different):
        amount = min(work.amounts[j], height)
        total += amount
        weighed += amount * math.log(amount)
    return math.log(total) - weighed / total, total


@helper
def _by_tail(test: ClassTest, work: ClassWork, different: int, size: int) -> int:
    """The most frequent value stays below `bound` times what is left without the need − 1 most frequent ones."""
    ranks = min(max(test.need - 1, 1), different)
    for r in range(ranks):
        work.amounts[r] = 0.0
    for j in range(different):
        count = float(work.counts[j])
        for r in range(ranks):
            if count > work.amounts[r]:
                count, work.amounts[r] = work.amounts[r], count
    tail = float(size)
    for r in range(ranks if test.need > 1 else 0):
        tail -= work.amounts[r]
    if work.amounts[0] < test.bound * tail * test.part:
        return _STANDS
    height, most = test.bound * tail, 0.0
    for j in range(different):
        most += min(float(work.counts[j]), height)
    return int(most + _SLACK)
