"""Local suppression when a missing value matches anything: few cells, so that every record matches at least k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Codes, Floats, Ints, Ints32, Tick
from discretion.kernels.classes import class_ids
from discretion.kernels.jit import helper, kernel
from discretion.kernels.suppress_table import (
    Table,
    Units,
    column_sets,
    find,
    find_or_add,
    key_of,
    make_table,
    make_units,
    promising,
    stages,
)
from discretion.kernels.wildcard import wildcard_counts

# The tables of one search: which columns are missing together, and which projections each such pattern needs.


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


# Clean-up of local suppression when a missing value matches anything: put back cells that nobody needs any more.

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


# The greedy search of local suppression when a missing value matches anything.
#
# Failing units are single records that match fewer than k. Suppressing cells in one makes it match more records, and
# makes more records match it. The search always takes the record and the sufficient set of cells that help most: what
# the record lacks and the number of other failing records that gain a match, per cost. Only sets of which no part
# would suffice are used: no record loses more than it needs itself. (Without this rule k−1 blank records would
# "protect" a whole file.)

_BUCKETS = 1 << 12
_SCALE = 8.0
_CHUNK = 2_000
_MOST_LOOKUPS = 3e7
_PASSES = 3


class Work(NamedTuple):
    """What is known of the failing units: matches, cells suppressed, order of suppression, place in the queue."""

    found: Ints
    chosen: Ints
    turn: Ints
    next: Ints32
    heads: Ints32
    state: Ints
    """top bucket, units suppressed so far"""


class Choice(NamedTuple):
    """The sets of columns up to a stage and their costs; those from `fresh` on are new in the stage."""

    sets: Ints
    costs: Floats
    fresh: int
    k: int


def suppress_stage(
    units: Units, failing: int, found: Ints, turn: Ints, choice: Choice, spread: Ints, tick: Callable[[int, int], None]
) -> Ints:
    """Suppress cells in failing units by sets of the stage where one suffices; give the cells chosen (0: none).

    The first `failing` units fail with `found` matches; both and the units' missing columns are brought up to date.
    Where many units fail, only the more promising sets are tried (`spread`: the number of values of each column).
    """
    few = promising(choice.sets, choice.costs, spread, choice.fresh, max(16, int((_MOST_LOOKUPS / failing) ** 0.5)))
    choice = Choice(choice.sets[few], choice.costs[few], choice.fresh, choice.k)
    own = np.unique(units.missing[:failing])
    queries = np.unique(np.concatenate([own[:, None] | choice.sets[None, :], own[:, None]], axis=1))
    patterns = make_patterns(units.missing, units.missing[:failing], queries, queries)
    table, nodes = make_tables(units, failing, patterns, queries)
    work = Work(
        found,
        np.zeros(failing, np.int64),
        turn,
        np.full(failing, -1, np.int32),
        np.full(_BUCKETS, -1, np.int32),
        np.array([0, int(turn.max(initial=0))], np.int64),
    )
    for _ in range(_PASSES):  # what one record loses may make a smaller set sufficient for another
        done = 0
        while done < failing:  # unit by unit: who has a sufficient set?
            _enqueue(units, done, min(done + _CHUNK, failing), patterns, table, choice, work)
            done = min(done + _CHUNK, failing)
            tick(done, 2 * failing)
        before = int(work.state[1])
        while _advance(units, patterns, table, nodes, choice, work, _CHUNK):
            tick(failing + int((work.found >= choice.k).sum()), 2 * failing)
        if before == work.state[1]:
            break
    return work.chosen


@kernel
def _enqueue(units: Units, first: int, end: int, patterns: Patterns, table: Table, choice: Choice, work: Work) -> None:
    for unit in range(first, end):
        if work.found[unit] < choice.k and work.next[unit] == -1:
            score, _ = _best(units, unit, patterns, table, choice, work)
            if score > 0:
                _push(unit, score, work)


@helper
def _push(unit: int, score: float, work: Work) -> None:
    bucket = min(int(score * _SCALE) + 1, _BUCKETS - 1)
    work.next[unit] = work.heads[bucket] if work.heads[bucket] >= 0 else -2  # −2 ends a list, −1 is in none
    work.heads[bucket] = unit
    work.state[0] = max(work.state[0], bucket)


@helper
def _best(units: Units, unit: int, patterns: Patterns, table: Table, choice: Choice, work: Work) -> tuple[float, int]:
    """Give the best score of a sufficient set of which no part suffices, and the set; 0 where there is none."""
    missing = units.missing[unit]
    known = _failing_matches(units, unit, missing, patterns, table)
    score, best = 0.0, 0
    sufficient = np.empty(choice.sets.size, np.int64)
    n = 0
    for s in range(choice.sets.size):
        columns = choice.sets[s]
        if columns & missing and s < choice.sets.size - 1:  # the last set is there for everybody
            continue
        columns &= ~missing
        minimal = True
        for i in range(n):
            if sufficient[i] & columns == sufficient[i]:
                minimal = False
                break
        if minimal and matches(units, unit, missing | columns, patterns, table, choice.k) >= choice.k:
            sufficient[n] = columns
            n += 1
            gain = choice.k - work.found[unit]
            gain += _failing_matches(units, unit, missing | columns, patterns, table) - known
            if gain / choice.costs[s] > score:
                score, best = gain / choice.costs[s], columns
    return score, best


@helper
def _failing_matches(units: Units, unit: int, removed: int, patterns: Patterns, table: Table) -> int:
    total = 0
    for p in range(patterns.masks.size):
        if patterns.watched[p] > 0:
            mask = patterns.masks[p]
            slot = find(table.keys, key_of(units, unit, removed | mask, mask))
            if slot >= 0:
                total += table.failing[slot]
    return total


@kernel
def _advance(
    units: Units, patterns: Patterns, table: Table, nodes: Nodes, choice: Choice, work: Work, steps: int
) -> bool:
    """Take some units from the queue, best first; say whether any are left."""
    for _ in range(steps):
        while work.state[0] > 0 and work.heads[work.state[0]] < 0:
            work.state[0] -= 1
        if work.state[0] == 0:
            return False
        top = work.state[0]
        unit = work.heads[top]
        work.heads[top] = work.next[unit]
        work.next[unit] = -1
        if work.found[unit] >= choice.k:
            continue
        score, columns = _best(units, unit, patterns, table, choice, work)
        if score <= 0:
            continue
        if int(score * _SCALE) + 1 < top:
            _push(unit, score, work)
        else:
            _suppress(units, unit, columns, patterns, table, nodes, choice.k, work)
    return True


@helper
def _suppress(
    units: Units, unit: int, columns: int, patterns: Patterns, table: Table, nodes: Nodes, k: int, work: Work
) -> None:
    """Make cells of a unit missing, move it between the tables, and tell the failing units that now match it."""
    before = units.missing[unit]
    after = before | columns
    for node in range(nodes.starts[unit], nodes.starts[unit + 1]):
        table.counts[nodes.slots[node]] -= 1
    _leave(unit, patterns, table, nodes, before)
    units.missing[unit] = after
    p = place_of(patterns.masks, after)
    patterns.present[place_of(patterns.masks, before)] -= 1
    patterns.present[p] += 1
    for x in range(patterns.starts[p], patterns.starts[p + 1]):
        table.counts[find_or_add(table.keys, key_of(units, unit, patterns.removed[x], after))] += 1
    work.found[unit] = k
    work.chosen[unit] |= columns
    work.state[1] += 1
    work.turn[unit] = work.state[1]
    for p in range(patterns.masks.size):
        if patterns.watched[p] > 0:
            _tell(units, unit, columns, p, patterns, table, nodes, k, work)


@helper
def _tell(
    units: Units, unit: int, columns: int, p: int, patterns: Patterns, table: Table, nodes: Nodes, k: int, work: Work
) -> None:
    """Count the new match for the failing units of one pattern; those that have enough leave the lists."""
    mask = patterns.masks[p]
    slot = find(table.keys, key_of(units, unit, units.missing[unit] | mask, mask))
    if slot < 0:
        return
    node, last = table.heads[slot], -1
    while node >= 0:
        other = nodes.owners[node]
        if work.found[other] < k and differ(units, unit, other, columns & ~mask):
            work.found[other] += 1
            if work.found[other] >= k:
                _leave(other, patterns, table, nodes, mask)
        if work.found[other] >= k:
            if last < 0:
                table.heads[slot] = nodes.next[node]
            else:
                nodes.next[last] = nodes.next[node]
        else:
            last = node
        node = nodes.next[node]


@helper
def _leave(unit: int, patterns: Patterns, table: Table, nodes: Nodes, missing: int) -> None:
    for node in range(nodes.starts[unit], nodes.starts[unit + 1]):
        table.failing[nodes.slots[node]] -= 1
    patterns.watched[place_of(patterns.masks, missing)] -= 1


def suppress_wildcard(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, costs: Floats, tick: Tick
) -> Ints:
    """Give for each row the cells to suppress (bits), so that each row matches at least k rows, itself included.

    Column j holds codes 0 … cardinalities[j]−1; the last code stands for missing. A column of infinite cost is never
    suppressed; the caller has made sure that there is a solution. Rows that match k already are never touched. Time
    near O(n·columns·sets of columns tried), memory linear in the failing rows.
    """
    n = len(columns[0])
    found = _matched(columns, cardinalities)
    result = np.zeros(n, np.int64)
    rows = np.flatnonzero(found < k)
    if not len(rows):
        return result
    units = _units(columns, cardinalities, rows, found, k)
    before = units.missing[: len(rows)].copy()
    allowed = np.flatnonzero(np.isfinite(costs))
    spread = np.array([len(np.unique(column[rows])) for column in columns])
    sets, set_costs = column_sets(costs, allowed, spread)
    matched = found[rows].astype(np.int64)
    turn = np.zeros(len(rows), np.int64)
    place = np.arange(len(rows))
    for first, end in pairwise([0, *stages(set_costs)]):
        place = place[matched[place] < k]
        if not len(place):
            break
        _run_stage(units, place, matched, turn, Choice(sets[:end], set_costs[:end], first, k), spread, tick)
    cells = result.copy()
    cells[rows] = units.missing[: len(rows)] & ~before
    now = _matched(hidden(columns, cardinalities, cells), cardinalities)[rows].astype(np.int64)
    restore(units, Records(now, before, np.argsort(-costs, kind="stable"), k), turn, tick)
    result[rows] = units.missing[: len(rows)] & ~before
    return result


def missing_bits(columns: Sequence[Codes], cardinalities: Sequence[int], rows: Ints) -> Ints:
    """Give the set of missing columns of some rows."""
    bits = np.zeros(len(rows), np.int64)
    for j, (column, size) in enumerate(zip(columns, cardinalities, strict=True)):
        bits |= (column[rows] == size - 1).astype(np.int64) << j
    return bits


def hidden(columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints) -> list[Codes]:
    """Give the columns with the chosen cells missing."""
    return [
        np.where(cells >> j & 1 == 1, size - 1, column).astype(np.int64, copy=False)
        for j, (column, size) in enumerate(zip(columns, cardinalities, strict=True))
    ]


def _matched(columns: Sequence[Codes], cardinalities: Sequence[int]) -> Floats:
    return wildcard_counts(columns, [size - 1 for size in cardinalities], cardinalities)[0]


def _units(columns: Sequence[Codes], cardinalities: Sequence[int], rows: Ints, found: Floats, k: int) -> Units:
    """Make each failing row a unit, and each class of other rows."""
    classes = class_ids(columns, cardinalities)
    kept = np.flatnonzero(found[classes.first_row] >= k)
    everyone = np.concatenate([rows, classes.first_row[kept]])
    weights = np.concatenate([np.ones(len(rows), np.int64), classes.counts[kept]])
    codes = np.stack([column[everyone].astype(np.int64) for column in columns], axis=1)
    return make_units(codes, missing_bits(columns, cardinalities, everyone), weights)


def _run_stage(units: Units, place: Ints, matched: Ints, turn: Ints, choice: Choice, spread: Ints, tick: Tick) -> None:
    """Run a stage with the units that still fail in front."""
    others = np.ones(len(units.missing), np.bool_)
    others[place] = False
    order = np.concatenate([place, np.flatnonzero(others)])
    view = Units(*(array[order] for array in units))
    found, turns = matched[place], turn[place]
    turns[:] = turn.max(initial=0)
    suppress_stage(view, len(place), found, turns, choice, spread, tick)
    matched[place] = found
    turn[place] = turns
    units.missing[place] = view.missing[: len(place)]
