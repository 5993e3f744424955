"""Local suppression: few cells, so that every record shares its class with k; missing as a category or as anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32, Keys, Tick
from discretion.kernels.classes import RowClasses, class_ids, wildcard_counts
from discretion.kernels.jit import helper, kernel, lean_helper, lean_kernel

# Local suppression when a missing value matches anything: few cells, so that every record matches at least k.

# Counting records by parts of their key: one hash table for every choice of columns that are left out.
#
# A unit is a record, or a class of equal records. Its key has one hash per column; leaving columns out subtracts their
# hashes, so that the counts for many choices of columns need no projection. Sets of columns are bits of an integer.
# Keys are 64-bit hashes: results are checked exactly by the caller.

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


class Tally(NamedTuple):
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


def make_table(entries: int) -> Tally:
    """Make an empty table with room for some entries."""
    size = 1 << max(6, int(entries * 3 // 2).bit_length())
    return Tally(
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


def make_tables(units: Units, watched: int, patterns: Patterns, queries: Ints) -> tuple[Tally, Nodes]:
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
def _fill(units: Units, watched: int, patterns: Patterns, queries: Ints, table: Tally, nodes: Nodes) -> None:
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
def add_node(units: Units, unit: int, removed: int, table: Tally, nodes: Nodes, node: int) -> None:
    """Count a unit in one table and put it into the list there."""
    slot = find_or_add(table.keys, key_of(units, unit, removed, units.missing[unit]))
    table.counts[slot] += units.weights[unit]
    table.failing[slot] += 1
    nodes.slots[node] = slot
    nodes.owners[node] = unit
    nodes.next[node] = table.heads[slot]
    table.heads[slot] = node


@helper
def matches(units: Units, unit: int, removed: int, patterns: Patterns, table: Tally, enough: int) -> int:
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


class Failing(NamedTuple):
    """The records that failed at first: how many each matches now, and what was missing in it before the search."""

    found: Ints
    before: Ints
    columns: Ints
    """the columns in the order in which cells are put back"""
    k: int


def restore(units: Units, records: Failing, turn: Ints, tick: Callable[[int, int], None]) -> None:
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


def _restore_group(units: Units, records: Failing, missing: int, chosen: Ints) -> None:
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
    units: Units, records: Failing, chosen: Ints, queries: Ints, patterns: Patterns, table: Tally, nodes: Nodes
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
    units: Units, records: Failing, unit: int, target: int, patterns: Patterns, table: Tally, nodes: Nodes
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
    units: Units, records: Failing, unit: int, target: int, patterns: Patterns, table: Tally, nodes: Nodes, free: int
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


class Queue(NamedTuple):
    """What is known of the failing units: matches, cells suppressed, order of suppression, place in the queue."""

    found: Ints
    chosen: Ints
    turn: Ints
    next: Ints32
    heads: Ints32
    state: Ints
    """top bucket, units suppressed so far"""


class Columns(NamedTuple):
    """The sets of columns up to a stage and their costs; those from `fresh` on are new in the stage."""

    sets: Ints
    costs: Floats
    fresh: int
    k: int


def suppress_stage(
    units: Units, failing: int, found: Ints, turn: Ints, choice: Columns, spread: Ints, tick: Callable[[int, int], None]
) -> Ints:
    """Suppress cells in failing units by sets of the stage where one suffices; give the cells chosen (0: none).

    The first `failing` units fail with `found` matches; both and the units' missing columns are brought up to date.
    Where many units fail, only the more promising sets are tried (`spread`: the number of values of each column).
    """
    few = promising(choice.sets, choice.costs, spread, choice.fresh, max(16, int((_MOST_LOOKUPS / failing) ** 0.5)))
    choice = Columns(choice.sets[few], choice.costs[few], choice.fresh, choice.k)
    own = np.unique(units.missing[:failing])
    queries = np.unique(np.concatenate([own[:, None] | choice.sets[None, :], own[:, None]], axis=1))
    patterns = make_patterns(units.missing, units.missing[:failing], queries, queries)
    table, nodes = make_tables(units, failing, patterns, queries)
    work = Queue(
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
def _enqueue(
    units: Units, first: int, end: int, patterns: Patterns, table: Tally, choice: Columns, work: Queue
) -> None:
    for unit in range(first, end):
        if work.found[unit] < choice.k and work.next[unit] == -1:
            score, _ = _best(units, unit, patterns, table, choice, work)
            if score > 0:
                _push(unit, score, work)


@helper
def _push(unit: int, score: float, work: Queue) -> None:
    bucket = min(int(score * _SCALE) + 1, _BUCKETS - 1)
    work.next[unit] = work.heads[bucket] if work.heads[bucket] >= 0 else -2  # −2 ends a list, −1 is in none
    work.heads[bucket] = unit
    work.state[0] = max(work.state[0], bucket)


@helper
def _best(units: Units, unit: int, patterns: Patterns, table: Tally, choice: Columns, work: Queue) -> tuple[float, int]:
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
def _failing_matches(units: Units, unit: int, removed: int, patterns: Patterns, table: Tally) -> int:
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
    units: Units, patterns: Patterns, table: Tally, nodes: Nodes, choice: Columns, work: Queue, steps: int
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
    units: Units, unit: int, columns: int, patterns: Patterns, table: Tally, nodes: Nodes, k: int, work: Queue
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
    units: Units, unit: int, columns: int, p: int, patterns: Patterns, table: Tally, nodes: Nodes, k: int, work: Queue
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
def _leave(unit: int, patterns: Patterns, table: Tally, nodes: Nodes, missing: int) -> None:
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
        _run_stage(units, place, matched, turn, Columns(sets[:end], set_costs[:end], first, k), spread, tick)
    cells = result.copy()
    cells[rows] = units.missing[: len(rows)] & ~before
    now = _matched(hidden(columns, cardinalities, cells), cardinalities)[rows].astype(np.int64)
    restore(units, Failing(now, before, np.argsort(-costs, kind="stable"), k), turn, tick)
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
    some = int(np.bitwise_or.reduce(cells, initial=0))
    return [
        (np.where(cells >> j & 1 == 1, size - 1, column) if some >> j & 1 else column).astype(np.int64, copy=False)
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


def _run_stage(units: Units, place: Ints, matched: Ints, turn: Ints, choice: Columns, spread: Ints, tick: Tick) -> None:
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


class Merged(NamedTuple):
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


class Destinations(NamedTuple):
    """The candidate groups of one set of columns, and that of each waiting class (−1 for none)."""

    keys: Keys
    records: Ints
    costs: Floats
    available: Ints
    heads: Ints32
    givers: Ints32
    next: Ints32
    slots: Ints


class SuppressionRound(NamedTuple):
    """One set of columns in one round: at most this cost per helped record, groups of at most this many records."""

    target: int
    at_most: float
    most_records: int
    k: int


@lean_kernel
def settle(units: Units, small: int, groups: Merged, homes: Ints) -> None:
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
    units: Units, waiting: Ints, sets: Ints, at_most: float, most_records: int, k: int, costs: Floats, groups: Merged,
    to: Assignment, gifts: Gifts, work: Destinations,
) -> int:  # fmt: skip
    """Form groups with one set of columns missing after the other; bring the classes that still wait to the front.

    Gives their number.
    """
    left = waiting.size
    for s in range(sets.size):
        one = SuppressionRound(sets[s], at_most, most_records, k)
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
    units: Units,
    waiting: Ints,
    one: SuppressionRound,
    costs: Floats,
    groups: Merged,
    to: Assignment,
    gifts: Gifts,
    work: Destinations,
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
def _gather(units: Units, waiting: Ints, target: int, costs: Floats, to: Assignment, work: Destinations) -> None:
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
def _offer(units: Units, target: int, to: Assignment, work: Destinations) -> None:
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
def _commit(
    slot: int, one: SuppressionRound, weights: Ints, groups: Merged, to: Assignment, gifts: Gifts, work: Destinations
) -> int:
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
def improve(units: Units, sets: Ints, costs: Floats, k: int, groups: Merged, to: Assignment, gifts: Gifts) -> None:
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
    found = _decide(columns, cardinalities, classes, k, costs, tick)
    cells |= found.cells[classes.ids]
    _write_gifts(cells, classes, found.gifts)
    return _blank_rest(columns, cardinalities, cells, None, k, costs)


class DividedRows(NamedTuple):
    """Rows that stand for several records each, some of them divided."""

    origin: Ints
    """for each of these rows, the row that it is a part of: its parts stand together, in the order of their records"""
    counts: Ints
    cells: Ints


def suppress_counted(
    columns: Sequence[Codes], cardinalities: Sequence[int], counts: Ints, k: int, costs: Floats, tick: Tick
) -> DividedRows:
    """Do the same for rows that stand for `counts` records each; of the rows of a giving class the last records go."""
    found = class_ids(columns, cardinalities)
    classes = found._replace(counts=np.bincount(found.ids, counts, len(found.counts)).astype(np.int64))
    none = np.zeros(len(counts), np.int64)
    if classes.counts.min(initial=k) >= k:
        return DividedRows(np.arange(len(counts)), counts, none)
    decided = _decide(columns, cardinalities, classes, k, costs, tick)
    rows = _divide(classes, counts, decided)
    columns = [column[rows.origin] for column in columns]
    return rows._replace(cells=_blank_rest(columns, cardinalities, rows.cells, rows.counts, k, costs))


class _Decided(NamedTuple):
    """The cells that each class loses, and what records of large classes lose: (class, records, cells)."""

    cells: Ints
    gifts: list[tuple[int, int, int]]


def _decide(
    columns: Sequence[Codes], cardinalities: Sequence[int], classes: RowClasses, k: int, costs: Floats, tick: Tick
) -> _Decided:
    allowed = np.flatnonzero(np.isfinite(costs))
    order = np.argsort(classes.counts >= k, kind="stable")
    small = int((classes.counts < k).sum())
    first = classes.first_row[order]
    missing = missing_bits(columns, cardinalities, first) & _allowed_bits(costs)
    codes = np.stack([column[first].astype(np.int64) for column in columns], axis=1)
    units = make_units(codes, missing, classes.counts[order])
    spread = np.array([len(np.unique(column[first[:small]])) for column in columns])
    sets, set_costs = column_sets(costs, allowed, spread)
    priced = np.where(np.isfinite(costs), costs, 0.0)
    to, gifts = _search(units, small, sets, set_costs, priced, k, tick)
    cells = np.zeros(len(order), np.int64)
    chosen = to.targets >= 0
    cells[order[:small][chosen]] = (to.targets & ~units.missing[:small])[chosen]
    given = np.flatnonzero(gifts.amounts[: gifts.total[0]])
    lost = gifts.targets[given] & ~units.missing[gifts.givers[given]]
    each = zip(order[gifts.givers[given]].tolist(), gifts.amounts[given].tolist(), lost.tolist(), strict=True)
    return _Decided(cells, list(each))


def _allowed_bits(costs: Floats) -> np.int64:
    return np.int64(sum(1 << int(j) for j in np.flatnonzero(np.isfinite(costs))))


def _search(
    units: Units, small: int, sets: Ints, set_costs: Floats, costs: Floats, k: int, tick: Tick
) -> tuple[Assignment, Gifts]:
    count = len(units.missing)
    size = 1 << int(3 * count // 2 + 64).bit_length()
    groups = Merged(np.zeros(size, np.uint64), np.zeros(size, np.int64))
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


def _scratch(small: int, count: int) -> Destinations:
    size = 1 << int(2 * small + 64).bit_length()
    return Destinations(
        np.zeros(size, np.uint64),
        np.zeros(size, np.int64),
        np.zeros(size, np.float64),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int32),
        np.full(size, -1, np.int32),
        np.empty(count, np.int32),
        np.empty(small, np.int64),
    )


def _rows_of(classes: RowClasses, givers: Sequence[int]) -> tuple[Ints, dict[int, int]]:
    """Give the rows of some classes, those of a class together and in their order, and where those of each end."""
    rows = np.flatnonzero(np.isin(classes.ids, givers))
    rows = rows[np.argsort(classes.ids[rows], kind="stable")]
    found, sizes = np.unique(classes.ids[rows], return_counts=True)
    return rows, dict(zip(found.tolist(), np.cumsum(sizes).tolist(), strict=True))


def _write_gifts(cells: Ints, classes: RowClasses, gifts: Sequence[tuple[int, int, int]]) -> None:
    """Bring what was decided for records of large classes to rows: the last ones of each."""
    rows, ends = _rows_of(classes, [giver for giver, _, _ in gifts])
    for giver, amount, lost in gifts:
        ends[giver] -= amount
        cells[rows[ends[giver] : ends[giver] + amount]] |= lost


def _divide(classes: RowClasses, counts: Ints, decided: _Decided) -> DividedRows:
    """Bring what was decided to rows of several records: those of which some go are divided."""
    cells = decided.cells[classes.ids]
    rows, ends = _rows_of(classes, [giver for giver, _, _ in decided.gifts])
    left = counts.copy()
    more: list[tuple[int, int, int]] = []
    for giver, wanted, lost in decided.gifts:
        needed = wanted
        while needed:
            row = int(rows[ends[giver] - 1])
            amount = min(needed, int(left[row]))
            left[row] -= amount
            needed -= amount
            more.append((row, amount, lost))
            ends[giver] -= int(left[row] == 0)
    given = np.array(more[::-1], np.int64).reshape(-1, 3)  # what was taken first stood last
    kept = np.flatnonzero(left)
    origin = np.concatenate([kept, given[:, 0]])
    order = np.argsort(origin, kind="stable")
    return DividedRows(
        origin[order],
        np.concatenate([left[kept], given[:, 1]])[order],
        np.concatenate([cells[kept], cells[given[:, 0]] | given[:, 2]])[order],
    )


def _blank_rest(
    columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints, counts: Ints | None, k: int, costs: Floats
) -> Ints:
    """Where classes are still too small, suppress all that is allowed in them, and in as many others as it takes."""
    bits = _allowed_bits(costs)
    while True:
        now = hidden(columns, cardinalities, cells)
        classes = class_ids(now, cardinalities)
        if counts is not None:
            classes = classes._replace(counts=np.bincount(classes.ids, counts, len(classes.counts)).astype(np.int64))
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
