"""The greedy search of local suppression when a missing value matches anything.

Failing units are single records that match fewer than k. Suppressing cells in one makes it match more records, and
makes more records match it. The search always takes the record and the sufficient set of cells that help most: what the
record lacks and the number of other failing records that gain a match, per cost. Only sets of which no part would
suffice are used: no record loses more than it needs itself. (Without this rule k−1 blank records would "protect" a
whole file.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.jit import helper, kernel
from discretion.kernels.suppress_family import promising
from discretion.kernels.suppress_patterns import (
    Nodes,
    Patterns,
    differ,
    make_patterns,
    make_tables,
    matches,
    place_of,
)
from discretion.kernels.suppress_table import Table, Units, find, find_or_add, key_of

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
