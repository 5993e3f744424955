"""The tables of one search: which columns are missing together, and which projections each such pattern needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Ints, Ints32
from discretion.kernels.jit import helper, kernel
from discretion.kernels.suppress_table import Table, Units, find, find_or_add, key_of, make_table


class Patterns(NamedTuple):
    """Sets of missing columns (sorted), the sets of columns left out in the tables of each, and units in each."""

    masks: Ints
    starts: Ints
    removed: Ints
    present: Ints
    """units that have the pattern now"""
    watched: Ints
    """units in the lists (failing ones) that have the pattern now"""


class Nodes(NamedTuple):
    """Lists of units with the same projection: a unit has a node in every table of its pattern."""

    starts: Ints
    slots: Ints32
    next: Ints32
    owners: Ints32


def make_patterns(missing: Ints, watched: Ints, queries: Ints, future: Ints) -> Patterns:
    """List the patterns of all units and those to come, with the projections that the queried sets ask of each."""
    masks = np.unique(np.concatenate([missing, future]))
    removed = [np.unique(queries | mask) for mask in masks]
    starts = np.concatenate([[0], np.cumsum([len(sets) for sets in removed])]).astype(np.int64)
    place = np.searchsorted(masks, missing)
    present = np.bincount(place, minlength=len(masks)).astype(np.int64)
    listed = np.bincount(np.searchsorted(masks, watched), minlength=len(masks)).astype(np.int64)
    return Patterns(masks, starts, np.concatenate(removed), present, listed)


def make_tables(units: Units, watched: int, patterns: Patterns, queries: Ints) -> tuple[Table, Nodes]:
    """Count all units; the first `watched` of them are also put into lists. Twice their nodes find room."""
    sizes = np.diff(patterns.starts)
    own = sizes[np.searchsorted(patterns.masks, units.missing[:watched])]
    rest = units.missing[watched:]
    rest = rest[rest != 0]
    others = int(sizes[np.searchsorted(patterns.masks, rest)].sum()) if len(rest) else 0
    widest = int(sizes.max())
    incomplete = int((units.missing[:watched] != 0).sum())
    table = make_table(int(own.sum()) + others + watched * widest + incomplete * len(queries))
    starts = np.concatenate([[0], np.cumsum(own)]).astype(np.int64)
    room = int(own.sum()) + watched * widest
    nodes = Nodes(starts, np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32))
    _fill(units, watched, patterns, queries, table, nodes)
    return table, nodes


@helper
def place_of(masks: Ints, mask: int) -> int:
    """Give the number of a pattern."""
    return int(np.searchsorted(masks, mask))


@kernel
def _fill(units: Units, watched: int, patterns: Patterns, queries: Ints, table: Table, nodes: Nodes) -> None:
    for unit in range(watched):
        missing = units.missing[unit]
        p = place_of(patterns.masks, missing)
        node = nodes.starts[unit]
        for x in range(patterns.starts[p], patterns.starts[p + 1]):
            add_node(units, unit, patterns.removed[x], table, nodes, node)
            node += 1
        if missing != 0:  # complete units are counted only where somebody asks
            for q in range(queries.size):
                if queries[q] & missing == missing:
                    find_or_add(table.keys, key_of(units, unit, queries[q], 0))
    for unit in range(watched, units.missing.size):
        missing = units.missing[unit]
        p = place_of(patterns.masks, missing)
        for x in range(patterns.starts[p], patterns.starts[p + 1]):
            key = key_of(units, unit, patterns.removed[x], missing)
            slot = find(table.keys, key) if missing == 0 else find_or_add(table.keys, key)
            if slot >= 0:
                table.counts[slot] += units.weights[unit]


@helper
def add_node(units: Units, unit: int, removed: int, table: Table, nodes: Nodes, node: int) -> None:
    """Count a unit in one table and put it into the list there."""
    slot = find_or_add(table.keys, key_of(units, unit, removed, units.missing[unit]))
    table.counts[slot] += units.weights[unit]
    table.failing[slot] += 1
    nodes.slots[node] = slot
    nodes.owners[node] = unit
    nodes.next[node] = table.heads[slot]
    table.heads[slot] = node


@helper
def matches(units: Units, unit: int, removed: int, patterns: Patterns, table: Table, enough: int) -> int:
    """Count the records that a unit matches when the removed columns are missing in it; stop at `enough`."""
    total = 0
    for p in range(patterns.masks.size):
        if patterns.present[p] > 0:
            mask = patterns.masks[p]
            slot = find(table.keys, key_of(units, unit, removed | mask, mask))
            if slot >= 0:
                total += table.counts[slot]
                if total >= enough:
                    break
    return total


@helper
def differ(units: Units, one: int, other: int, columns: int) -> bool:
    """Tell whether two units differ in any of some columns."""
    left = columns
    j = 0
    while left:
        if left & 1 and units.hashes[one, j] != units.hashes[other, j]:
            return True
        left >>= 1
        j += 1
    return False
