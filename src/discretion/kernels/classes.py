"""Equivalence classes: which rows agree on all of a set of integer-coded columns, and how many they are.

Codes are packed into one 64-bit key per row (mixed radix). When the next column would overflow 64 bits, the
keys so far are replaced by dense class numbers. Few possible keys are counted by address, many by hashing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Codes, Floats, Index, Ints, Ints32, Keys, as_vector
from discretion.kernels.hashing import count_by_hash, dense_ids_by_address, dense_ids_by_hash
from discretion.kernels.jit import inline_helper, kernel, lean_kernel, uncounted_kernel

# Class sizes when a missing value may be anything.
#
# Rows are first reduced to distinct combinations of codes, and these are sorted by their pattern: which
# columns are missing. Two patterns have the same columns in common for all their rows; on these, to match is
# to be equal.


Pattern = tuple[bool, ...]  # for each column: is it observed?


def wildcard_counts(
    columns: Sequence[Codes],
    missing_codes: Sequence[int | None],
    cardinalities: Sequence[int],
    weights: ArrayLike | None = None,
    alpha: float = 1.0,
    n: int | None = None,
) -> tuple[Floats, Floats | None]:
    """Return for each row how many rows it may equal when a missing value may be anything, and their weight.

    Two rows match when they agree wherever both have a value. A matching row counts 1 if it has no missing values or
    is the same in all columns, missing ones included (as the row itself is); any other counts `alpha`.
    `missing_codes[j]` is the code that marks a missing value in column j, or None; `n` is needed when there are no
    columns. The second result is None without weights.

    Time O(n·columns) to find the distinct rows; then, for each two patterns of missingness, the number of
    distinct rows that have them. Never row by row.
    """
    classes = class_ids(columns, cardinalities, n)
    distinct = [np.asarray(column)[classes.first_row] for column in columns]
    observed = np.ones((classes.counts.size, len(columns)), np.bool_)
    for j, missing in enumerate(missing_codes):
        if missing is not None:
            observed[:, j] = distinct[j] != missing
    values: list[Floats] = [classes.counts.astype(np.float64)]
    if weights is not None:
        values.append(class_sums(classes.ids, classes.counts.size, weights))
    matches = _discounted(distinct, cardinalities, observed, np.stack(values), alpha)
    return matches[0, classes.ids], (matches[1, classes.ids] if weights is not None else None)


def _discounted(
    distinct: list[Codes], cardinalities: Sequence[int], observed: Bools, values: Floats, alpha: float
) -> Floats:
    """Sum each kind of value over the matching rows; whole numbers stay exact where nothing is discounted."""
    if alpha == 1:
        return _matches(distinct, cardinalities, observed, values)
    complete = observed.all(axis=1)
    found = _matches(distinct, cardinalities, observed, np.where(complete, values, 0.0))
    own = np.where(complete, 0.0, values)
    if alpha > 0:
        return found + own + alpha * (_matches(distinct, cardinalities, observed, own) - own)
    return found + own


def wildcard_units(
    columns: Sequence[Codes], missing_codes: Sequence[int | None], cardinalities: Sequence[int], units: Ints
) -> Floats:
    """Return for each row the different units among the rows it may equal when a missing value may be anything.

    `units` numbers the unit of each row from 0. Time: distinct rows with missing values times all distinct rows, and
    the rows that match each.
    """
    classes = class_ids(columns, cardinalities)
    distinct = np.column_stack([np.asarray(column)[classes.first_row].astype(np.int64) for column in columns])
    for j, missing in enumerate(missing_codes):
        if missing is not None:
            distinct[distinct[:, j] == missing, j] = -1
    order = np.argsort(classes.ids, kind="stable")
    starts = np.concatenate([[0], np.cumsum(classes.counts)]).astype(np.int64)
    incomplete = np.flatnonzero((distinct < 0).any(axis=1)).astype(np.int64)
    seen = np.full(int(units.max(initial=-1)) + 1, -1, np.int64)
    counts = np.zeros(len(classes.counts), np.int64)
    _count_units(np.ascontiguousarray(distinct), incomplete, units[order], starts, seen, counts)
    return counts[classes.ids].astype(np.float64)


@lean_kernel
def _count_units(distinct: Ints, incomplete: Ints, units: Ints, starts: Ints, seen: Ints, counts: Ints) -> None:
    """Count the units of the rows that match each distinct row; a complete row can match only incomplete others."""
    for row in range(distinct.shape[0]):
        has_gap = False
        for j in range(distinct.shape[1]):
            has_gap = has_gap or distinct[row, j] < 0
        for place in range(-1, distinct.shape[0] if has_gap else incomplete.size):
            other = row
            if place >= 0:
                other = place if has_gap else incomplete[place]
            match = True
            for j in range(distinct.shape[1]):
                if distinct[row, j] >= 0 and distinct[other, j] >= 0 and distinct[row, j] != distinct[other, j]:
                    match = False
                    break
            if match:
                for member in range(starts[other], starts[other + 1]):
                    if seen[units[member]] != row:
                        seen[units[member]] = row
                        counts[row] += 1


def _matches(distinct: list[Codes], cardinalities: Sequence[int], observed: Bools, values: Floats) -> Floats:
    """For each distinct row, sum each kind of value over the distinct rows that match it."""
    order, patterns, parts = _by_pattern(observed)
    values = np.ascontiguousarray(values[:, order])
    found = np.zeros_like(values)
    for common, pairs in _pairs_by_common_columns(patterns):
        members = sorted({p for pair in pairs for p in pair})
        chosen = [j for j, is_common in enumerate(common) if is_common]
        rows = np.concatenate([order[parts[p]] for p in members])
        keys = class_ids([distinct[j][rows] for j in chosen], [cardinalities[j] for j in chosen], rows.size)
        ends = np.cumsum([parts[p].stop - parts[p].start for p in members])[:-1]
        ids = dict(zip(members, np.split(keys.ids, ends), strict=True))
        scratch = np.zeros(keys.counts.size)
        for a, b in pairs:
            for value, total in zip(values, found, strict=True):
                _add_matches(scratch, ids[a], value[parts[a]], ids[b], total[parts[b]])
                if a != b:
                    _add_matches(scratch, ids[b], value[parts[b]], ids[a], total[parts[a]])
    result = np.empty_like(found)
    result[:, order] = found
    return result


def _by_pattern(observed: Bools) -> tuple[Ints, list[Pattern], list[slice]]:
    """Sort distinct rows by pattern; return the order, the patterns, and where each lies in the order."""
    bits = [observed[:, j].view(np.uint8) for j in range(observed.shape[1])]
    kinds = class_ids(bits, [2] * len(bits), observed.shape[0])
    order = np.argsort(kinds.ids, kind="stable").astype(np.int64)
    patterns = [tuple(bool(seen) for seen in observed[row]) for row in kinds.first_row]
    ends = np.cumsum(kinds.counts)
    parts = [slice(int(end - count), int(end)) for end, count in zip(ends, kinds.counts, strict=True)]
    return order, patterns, parts


def _pairs_by_common_columns(patterns: list[Pattern]) -> Iterator[tuple[Pattern, list[tuple[int, int]]]]:
    """Gather the pairs of patterns that have the same columns in common, to number their classes together."""
    pairs = defaultdict(list)
    for a, b in combinations_with_replacement(range(len(patterns)), 2):
        common = tuple(x and y for x, y in zip(patterns[a], patterns[b], strict=True))
        pairs[common].append((a, b))
    yield from pairs.items()


@lean_kernel
def _add_matches(scratch: Floats, from_ids: Ints32, from_values: Floats, to_ids: Ints32, to_totals: Floats) -> None:
    """Add to each total the sum of the values with the same id; `scratch` is all zero before and after."""
    for i in range(from_ids.size):
        scratch[from_ids[i]] += from_values[i]
    for i in range(to_ids.size):
        to_totals[i] += scratch[to_ids[i]]
    for i in range(from_ids.size):
        scratch[from_ids[i]] = 0.0


# Privacy models as tests of single classes, each with what every less general release could keep of a class at most.
#
# A class of n records, f_i of them in item i (a value, or a label of some level of a hierarchy), stands by a *convex*
# model when Σ_i min(f_i, c_i·n) ≥ s·n. Unions of sets that satisfy this satisfy it: the left side is concave. What a
# less general release keeps inside a class is a union of classes that stand, and so a subset of the class that
# satisfies the inequality. The largest K with Σ_i min(f_i, c_i·K) ≥ s·K bounds its records, whatever happens below.
#
# The decisions are those of `values_for` of the models, in the same whole numbers; `most` is rounded up where it must
# be.


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


@uncounted_kernel
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


@inline_helper
def _read(found: ClassValues, row: Index, work: ClassWork) -> int:
    """Copy the values that occur in a class, in their order."""
    different = 0
    if found.starts.size == 0:
        for value in range(work.values.size):
            count = found.table[row, found.first + value]
            work.values[different] = value
            work.counts[different] = count
            different += 1 if count > 0 else 0
    else:
        for place in range(found.starts[row], found.starts[row + 1]):
            work.values[different] = found.values[place]
            work.counts[different] = found.counts[place]
            different += 1
    return different


@inline_helper
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


@inline_helper
def _by_transport(test: ClassTest, work: ClassWork, different: int, size: int, k: int) -> int:
    """All labels of the levels below the top: what is above its share must be moved."""
    levels = test.groups.shape[0]
    moved, fixed, slope, below = 0, 0.0, 0.0, 0
    for level in range(levels):
        labels = different
        if level > 0:
            labels = 0
            for j in range(different):
                item = test.groups[level, work.values[j]]
                work.items[labels] = item
                labels += 1 if work.held[item] == 0 else 0
                work.held[item] += work.counts[j]
        for i in range(labels):
            item, amount = work.values[i], work.counts[i]
            if level > 0:
                item = work.items[i]
                amount = work.held[item]
                work.held[item] = 0
            over = amount * test.records - test.totals[item] * size
            moved += max(over, 0)
            work.amounts[below] = amount
            work.caps[below] = test.shares[item]
            below += 1 if over < 0 else 0
            fixed += amount if over < 0 else 0
            slope += 0.0 if over < 0 else test.shares[item]
    if moved / (size * float(test.records) * levels) <= test.bound:
        return _STANDS
    return _largest(work, below, fixed, slope, test.part, float(size), k)


@inline_helper
def _by_shares(test: ClassTest, work: ClassWork, different: int, size: int, k: int) -> int:
    """No value above or below a multiple of its share; `need` values must occur."""
    stands = different >= test.need
    start = float(size) if stands else 0.0
    fixed, slope, below = 0.0, 0.0, 0
    for j in range(different):
        value = work.values[j]
        cap = test.high[value] * test.shares[value]
        full = work.counts[j] < cap * size
        work.amounts[below] = work.counts[j]
        work.caps[below] = cap
        below += 1 if full else 0
        fixed += work.counts[j] if full else 0
        slope += 0.0 if full else cap
        if abs(work.counts[j] - cap * size) <= work.counts[j] * _NEAR or test.low[value] > 0.0:
            ratio = work.counts[j] / size / test.shares[value]
            stands = stands and ratio <= test.high[value] and ratio >= test.low[value]
        else:
            stands = stands and full
        if test.need > 0:
            start = min(start, work.counts[j] / (test.low[value] * test.shares[value]) * (1 + 1e-9))
    return _STANDS if stands else _largest(work, below, fixed, slope, test.part, start, k)


@inline_helper
def _largest(work: ClassWork, items: int, fixed: float, slope: float, part: float, most: float, k: int) -> int:
    """Give the largest K up to a start with Σ min(amount, cap·K) ≥ part·K, by Newton from the right.

    Every step is an upper bound: where one is below k, nothing can be kept, and where one changes little, it does.
    `fixed` and `slope` add up the amounts below their caps and the other caps. What reaches its cap does so for every
    smaller K, so that only the `items` that did not are looked at again.
    """
    for _ in range(64):
        if most + _SLACK < k:
            return 0
        below = 0
        for i in range(items):
            amount, cap = work.amounts[i], work.caps[i]
            work.amounts[below] = amount
            work.caps[below] = cap
            full = amount < cap * most
            below += 1 if full else 0
            fixed -= 0.0 if full else amount
            slope += 0.0 if full else cap
        items = below
        if fixed + slope * most >= part * most * (1 - 1e-12):
            break
        if fixed <= 0.0 or slope >= part:
            most = 0.0
            break
        before, most = most, fixed / (part - slope)
        if before - most < _WORTH * most:
            break
    return int(most + _SLACK)


@inline_helper
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


@inline_helper
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


@inline_helper
def _area(test: ClassTest, begin: int, end: int) -> int:
    """Add up the cumulated totals of the cuts from begin to before end."""
    total = 0
    if end > 0:
        total += test.groups[0, end - 1]
    if begin > 0:
        total -= test.groups[0, begin - 1]
    return total


@inline_helper
def _gap(work: ClassWork, different: int, cuts: int, j: int) -> tuple[int, int]:
    """Give the cuts from a value that occurs (−1: from the first of all) up to before the next that occurs."""
    low, high = 0, cuts
    if j >= 0:
        low = min(work.values[j], cuts)
    if j + 1 < different:
        high = min(work.values[j + 1], cuts)
    return low, high


@inline_helper
def _first_above(totals: Ints, wanted: float, factor: float, low: int, high: int) -> int:
    """Find the first cut from low to high whose cumulated total times a factor is above what is wanted."""
    while low < high:
        middle = (low + high) // 2
        if totals[middle] * factor > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@inline_helper
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


@inline_helper
def _entropy_below(work: ClassWork, different: int, height: float) -> tuple[float, float]:
    """Give the entropy of amounts that are cut off at a height, and their sum."""
    total, weighed = 0.0, 0.0
    for j in range(different):
        amount = min(work.amounts[j], height)
        total += amount
        weighed += amount * math.log(amount)
    return math.log(total) - weighed / total, total


@inline_helper
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


_BLOCK = 1 << 15  # rows packed together: their keys stay in the second-level cache
_ADDRESSES = 1 << 22  # possible keys up to which a table with a place for each is the fastest
_INT32_ROWS = 2**31 - 1


class RowClasses(NamedTuple):
    """The classes of rows that agree on all columns, numbered in order of first appearance."""

    ids: Ints32
    """class of each row"""
    counts: Ints
    """rows in each class"""
    first_row: Ints
    """the first row of each class"""


def class_ids(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None = None) -> RowClasses:
    """Number the distinct combinations of codes in order of first appearance, and count their rows.

    Column j holds codes 0 … cardinalities[j]−1 in any integer type. Without columns all rows are one class;
    their number `n` must then be given. Time O(n·columns), memory up to 50 bytes a row.
    """
    keys, radix = _packed_keys(columns, cardinalities, n)
    return _dense(keys, radix)


def class_counts(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None = None) -> Ints:
    """Return the sizes of the classes, in no particular order; with many classes faster than `class_ids`."""
    keys, radix = _packed_keys(columns, cardinalities, n)
    if _has_addresses(keys, radix):
        return dense_ids_by_address(keys, radix)[1]
    return count_by_hash(keys)


def class_sums(ids: ArrayLike, n_classes: int, weights: ArrayLike) -> Floats:
    """Return the sum of the weights in each class. Time O(n)."""
    members = np.asarray(ids)
    values = as_vector(weights)
    if members.shape != values.shape:
        raise ValueError(f"{members.size} rows but {values.size} weights")
    sums: Floats = np.bincount(members, values, n_classes).astype(np.float64, copy=False)  # empty input: integers
    return sums


def distinct_rows(x: Floats) -> RowClasses:
    """Find equal rows of a matrix of numbers (exactly equal; −0.0 equals 0.0; no NaN). Time O(n·columns)."""
    columns, cardinalities = [], []
    for j in range(x.shape[1]):
        bits = (x[:, j] + 0.0).view(np.uint64)  # adding 0.0 copies the column and turns −0.0 into 0.0
        codes = _dense(bits, 0)
        columns.append(codes.ids)
        cardinalities.append(codes.counts.size)
    return class_ids(columns, cardinalities, x.shape[0])


def patterns(marks: Bools) -> tuple[Bools, Ints]:
    """Find the distinct rows of a matrix of marks, in ascending order, and which each row is. Time O(n·columns)."""
    columns = [np.ascontiguousarray(marks[:, j]).view(np.uint8) for j in range(marks.shape[1])]
    classes = class_ids(columns, [2] * len(columns), marks.shape[0])
    distinct, place = np.unique(marks[classes.first_row], axis=0, return_inverse=True)
    return distinct, np.asarray(place.ravel()[classes.ids], np.int64)


def _packed_keys(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None) -> tuple[Keys, int]:
    """Return one key per row, equal exactly where all columns are equal, and a bound above all keys."""
    n = _checked_length(columns, cardinalities, n)
    keys = np.zeros(n, np.uint64)
    radix = 1
    waiting: list[tuple[Codes, int]] = []
    for column, cardinality in zip(columns, cardinalities, strict=True):
        codes, possible = column, cardinality
        if radix * possible >= 2**64:
            _pack(keys, waiting, radix)
            keys, radix = _rerank(keys, radix)
            waiting = []
        if radix * possible >= 2**64:  # so many codes are possible that few can occur: at most n do
            codes, possible = _rerank(codes.astype(np.uint64), possible)
        waiting.append((codes, possible))
        radix *= possible
    _pack(keys, waiting, radix)
    return keys, radix


def _rerank(keys: Keys, radix: int) -> tuple[Keys, int]:
    """Replace keys by dense numbers; both are below 2³¹, so that two of them fit into 64 bits."""
    dense = _dense(keys, radix)
    return dense.ids.astype(np.uint64), dense.counts.size


def _pack(keys: Keys, columns: list[tuple[Codes, int]], radix: int) -> None:
    """Append columns to the keys, a block of rows at a time, in 32 bits as long as they suffice."""
    narrow: type[np.uint32 | np.uint64] = np.uint32 if radix < 2**32 else np.uint64
    for start in range(0, keys.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = keys[rows].astype(narrow)
        for column, cardinality in columns:
            np.multiply(block, narrow(cardinality), out=block)
            np.add(block, column[rows].astype(narrow), out=block)
        keys[rows] = block


def _checked_length(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None) -> int:
    if n is None:
        if not columns:
            raise ValueError("without columns the number of rows must be given")
        n = columns[0].size
    if n > _INT32_ROWS:
        raise ValueError(f"at most 2**31 - 1 rows, got {n}")
    for j, (column, cardinality) in enumerate(zip(columns, cardinalities, strict=True)):
        if column.shape != (n,):
            raise ValueError(f"column {j} has shape {column.shape}, expected ({n},)")
        if n and (column.max() >= cardinality or column.min() < 0):
            raise ValueError(f"column {j} has codes outside 0 … {cardinality - 1}")
    return n


def _dense(keys: Keys, radix: int) -> RowClasses:
    """Replace keys by class numbers; all keys are below `radix` (0 when nothing is known of them)."""
    numbering = dense_ids_by_address(keys, radix) if _has_addresses(keys, radix) else dense_ids_by_hash(keys)
    return RowClasses(*numbering)


def _has_addresses(keys: Keys, radix: int) -> bool:
    """Are possible keys few enough for a table with a place for each, which must be cleared first?"""
    return 0 < radix <= min(_ADDRESSES, 64 + 16 * keys.size)
