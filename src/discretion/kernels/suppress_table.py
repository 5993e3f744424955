"""Counting records by parts of their key: one hash table for every choice of columns that are left out.

A unit is a record, or a class of equal records. Its key has one hash per column; leaving columns out subtracts their
hashes, so that the counts for many choices of columns need no projection. Sets of columns are bits of an integer.
Keys are 64-bit hashes: results are checked exactly by the caller.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32, Keys
from discretion.kernels.jit import lean_helper, lean_kernel

# Which sets of columns a search tries to suppress in a record, from the cheapest to all of them.

_MOST_SETS = 256


def column_sets(costs: Floats, allowed: Ints, spread: Ints) -> tuple[Ints, Floats]:
    """Give sets of the allowed columns (bits) and what each costs, cheapest first; the last is all of them.

    All sets where these are few. Otherwise all small ones, and a chain that adds one column after the other (those
    that cost little and have many values, `spread`, first), as far as they are not too many with one further column.
    """
    columns = [int(j) for j in allowed]
    found: set[frozenset[int]] = set()
    size = 0
    for size in range(1, len(columns) + 1):
        more = [frozenset(chosen) for chosen in combinations(columns, size)]
        if size > 1 and len(found) + len(more) > _MOST_SETS:
            break
        found.update(more)
    chain = sorted(columns, key=lambda j: (costs[j], -spread[j], j))
    prefixes = [frozenset(chain[:end]) for end in range(size, len(columns) + 1)]
    found.update(prefixes)
    for prefix in prefixes:
        if len(found) + len(columns) <= _MOST_SETS:
            found.update(prefix | {j} for j in columns)
    ordered = sorted(found, key=lambda chosen: (sum(costs[j] for j in chosen), len(chosen), sorted(chosen)))
    masks = np.array([sum(1 << j for j in chosen) for chosen in ordered], np.int64)
    return masks, np.array([sum(costs[j] for j in chosen) for chosen in ordered], np.float64)


def promising(sets: Ints, costs: Floats, spread: Ints, fresh: int, most: int) -> Ints:
    """Choose some of the sets, in their order: those from `fresh` on before the others.

    Of these, sets that contain one another come first (a record finds the smallest of them that suffices), then those
    whose columns have many values for their cost.
    """
    if len(sets) <= most:
        return np.arange(len(sets))
    bits = sets[:, None] >> np.arange(len(spread)) & 1
    promise = (bits * np.log(np.maximum(spread, 1))).sum(axis=1) / costs
    nested = np.zeros(len(sets), np.bool_)
    inner = sets[-1]
    for place in range(len(sets) - 1, -1, -1):  # from the largest set down
        if sets[place] & ~inner == 0:
            nested[place] = True
            inner = sets[place]
    order = np.lexsort((-promise, ~nested, np.arange(len(sets)) < fresh))
    return np.sort(order[:most])


def stages(set_costs: Floats) -> list[int]:
    """Cut the sets into stages of similar cost; give the end of each stage."""
    ends: list[int] = []
    first = set_costs[0] if len(set_costs) else 0.0
    for place, cost in enumerate(set_costs):
        if cost > 1.5 * first:
            ends.append(place)
            first = cost
    return [*ends, len(set_costs)]


class Units(NamedTuple):
    """Records or classes: a hash for each column, their sum, the set of missing columns, the number of records."""

    hashes: NDArray[np.uint64]
    totals: Keys
    missing: Ints
    weights: Ints


class Table(NamedTuple):
    """An open hash table: key (0 is free), records, failing records, first node of the list of failing records."""

    keys: Keys
    counts: Ints
    failing: Ints32
    heads: Ints32


def make_units(codes: NDArray[np.int64], missing: Ints, weights: Ints) -> Units:
    """Hash the columns of units; `codes` has a row for each unit."""
    hashes = np.empty(codes.shape, np.uint64)
    totals = np.zeros(codes.shape[0], np.uint64)
    _hash_columns(np.ascontiguousarray(codes), hashes, totals)
    return Units(hashes, totals, missing.copy(), weights)


def make_table(entries: int) -> Table:
    """Make an empty table with room for some entries."""
    size = 1 << max(6, int(entries * 3 // 2).bit_length())
    return Table(
        np.zeros(size, np.uint64), np.zeros(size, np.int64), np.zeros(size, np.int32), np.full(size, -1, np.int32)
    )


@lean_helper
def mixed(x: np.uint64) -> np.uint64:
    """Spread the bits of a number over all 64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lean_kernel
def _hash_columns(codes: NDArray[np.int64], hashes: NDArray[np.uint64], totals: Keys) -> None:
    for unit in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            hashes[unit, j] = mixed((np.uint64(j + 1) << np.uint64(48)) + np.uint64(codes[unit, j] + 1))
            totals[unit] += hashes[unit, j]


@lean_helper
def key_of(units: Units, unit: int, removed: int, pattern: int) -> np.uint64:
    """Give the key of a unit without the removed columns, for the table of units that miss `pattern`."""
    total = units.totals[unit]
    left = removed
    j = 0
    while left:
        if left & 1:
            total -= units.hashes[unit, j]
        left >>= 1
        j += 1
    tag = mixed(np.uint64(removed) * np.uint64(0x9E3779B97F4A7C15) + mixed(np.uint64(pattern) + np.uint64(1)))
    key = mixed(total ^ tag)
    return key if key != np.uint64(0) else np.uint64(1)


@lean_helper
def find(keys: Keys, key: np.uint64) -> int:
    """Give the place of a key, or −1."""
    last = keys.size - 1
    place = np.int64(key & np.uint64(last))
    while keys[place] != np.uint64(0):
        if keys[place] == key:
            return int(place)
        place = (place + 1) & last
    return -1


@lean_helper
def find_or_add(keys: Keys, key: np.uint64) -> int:
    """Give the place of a key, which is added if it is new."""
    last = keys.size - 1
    place = np.int64(key & np.uint64(last))
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + 1) & last
    keys[place] = key
    return int(place)
