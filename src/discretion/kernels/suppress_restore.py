"""Clean-up of local suppression when a missing value matches anything: put back cells that nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Ints
from discretion.kernels.jit import helper, kernel
from discretion.kernels.suppress_patterns import (
    Nodes,
    Patterns,
    add_node,
    differ,
    make_patterns,
    make_tables,
    matches,
    place_of,
)
from discretion.kernels.suppress_table import Table, Units, find, key_of

_ENOUGH = 1 << 60
_MOST_KEYS = 2e8
_MOST_PATTERNS = 300


class Records(NamedTuple):
    """The records that failed at first: how many each matches now, and what was missing in it before the search."""

    found: Ints
    before: Ints
    columns: Ints
    """the columns in the order in which cells are put back"""
    k: int


def restore(units: Units, records: Records, turn: Ints, tick: Callable[[int, int], None]) -> None:
    """Put back suppressed cells of the first units while all of these still match k records; changes `units.missing`.

    Records with many suppressed cells come first, then those that were suppressed early. Afterwards no single
    suppressed cell can be put back, unless there are so many different patterns that the search stops before its end.
    """
    n = len(records.found)
    effort = 0
    for size in range(62, 0, -1):
        cells = np.bitwise_count((units.missing[:n] & ~records.before).astype(np.uint64))
        groups = np.unique(units.missing[:n][cells == size])
        for number, missing in enumerate(groups):
            effort += (size + 2) * len(units.missing)
            if effort > _MOST_KEYS:
                return
            chosen = np.flatnonzero((units.missing[:n] == missing) & (cells == size))
            chosen = chosen[np.argsort(turn[chosen], kind="stable")]
            _restore_group(units, records, int(missing), chosen)
            tick(number, len(groups))


def _restore_group(units: Units, records: Records, missing: int, chosen: Ints) -> None:
    n = len(records.found)
    before = np.unique(records.before[chosen])
    bits = 1 << np.arange(62, dtype=np.int64)
    single = np.array([missing & ~bit for bit in bits if missing & bit], np.int64)
    known = np.unique(units.missing)
    if len(known) > _MOST_PATTERNS:  # no new ones: counting matches takes time with their square
        single = single[np.isin(single, known)]
    queries = np.unique(np.concatenate([[missing], before, single]).astype(np.int64))
    patterns = make_patterns(units.missing, units.missing[:n], queries, queries)
    table, nodes = make_tables(units, n, patterns, queries)
    _restore_units(units, records, chosen, queries, patterns, table, nodes)


@kernel
def _restore_units(
    units: Units, records: Records, chosen: Ints, queries: Ints, patterns: Patterns, table: Table, nodes: Nodes
) -> None:
    free = nodes.starts[nodes.starts.size - 1]
    for i in range(chosen.size):
        unit = chosen[i]
        missing, before = units.missing[unit], records.before[unit]
        target = -1
        if _can_restore(units, records, unit, before, patterns, table, nodes):
            target = before
        elif (missing & ~before) & ((missing & ~before) - 1):  # several cells: one of them
            for j in records.columns:
                bit = np.int64(1) << j
                asked = missing & ~before & bit and np.any(queries == missing & ~bit)
                if asked and _can_restore(units, records, unit, missing & ~bit, patterns, table, nodes):
                    target = missing & ~bit
                    break
        if target >= 0:
            free = _move(units, records, unit, target, patterns, table, nodes, free)


@helper
def _can_restore(
    units: Units, records: Records, unit: int, target: int, patterns: Patterns, table: Table, nodes: Nodes
) -> bool:
    """Tell whether a unit, and all that would lose it as a match, still match k records."""
    if matches(units, unit, target, patterns, table, records.k) < records.k:
        return False
    for p in range(patterns.masks.size):
        mask = patterns.masks[p]
        if patterns.watched[p] == 0:
            continue
        slot = find(table.keys, key_of(units, unit, units.missing[unit] | mask, mask))
        node = table.heads[slot] if slot >= 0 else -1
        restored = units.missing[unit] & ~target & ~mask
        while node >= 0:
            other = nodes.owners[node]
            if (
                records.found[other] <= records.k
                and other != unit
                and units.missing[other] == mask
                and differ(units, unit, other, restored)
            ):
                return False
            node = nodes.next[node]
    return True


@helper
def _move(
    units: Units, records: Records, unit: int, target: int, patterns: Patterns, table: Table, nodes: Nodes, free: int
) -> int:
    """Put cells of a unit back; gives the next free node."""
    missing = units.missing[unit]
    for p in range(patterns.masks.size):
        mask = patterns.masks[p]
        slot = find(table.keys, key_of(units, unit, missing | mask, mask)) if patterns.watched[p] > 0 else -1
        node = table.heads[slot] if slot >= 0 else -1
        while node >= 0:
            other = nodes.owners[node]
            if other != unit and units.missing[other] == mask and differ(units, unit, other, missing & ~target & ~mask):
                records.found[other] -= 1
            node = nodes.next[node]
    for node in range(nodes.starts[unit], nodes.starts[unit + 1]):
        table.counts[nodes.slots[node]] -= 1
    old, new = place_of(patterns.masks, missing), place_of(patterns.masks, target)
    patterns.present[old] -= 1
    patterns.watched[old] -= 1
    patterns.present[new] += 1
    patterns.watched[new] += 1
    units.missing[unit] = target
    for x in range(patterns.starts[new], patterns.starts[new + 1]):
        add_node(units, unit, patterns.removed[x], table, nodes, free)
        free += 1
    records.found[unit] = matches(units, unit, target, patterns, table, _ENOUGH)
    return free
