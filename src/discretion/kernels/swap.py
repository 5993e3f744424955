"""Swapping: ranks within a window or block (P13, P14), and units between areas, never twice (P19, P20)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Codes, Floats, Ints, Ints32, as_integers, as_vector
from discretion.kernels.classes import class_ids
from discretion.kernels.jit import helper, kernel, lean_helper, lean_kernel

_LEAST = float(np.log(1e-12))
_SAMPLES = 8  # ranks of equal values that stand for all of them


class Laws(NamedTuple):
    """The laws of the swapped columns, one after another."""

    first: Floats
    """logarithm of what the lower rank of a pair adds"""
    second: Floats
    """logarithm of what the upper rank of a pair adds; never falls"""
    most: Floats
    """the largest of `first` from a rank to where it is least: the largest over a run is that of its two ends"""
    ranks: Ints
    """for each distinct value its first and its last rank"""
    places: Ints
    """for each column: where its law and its ranks begin, the reach (or minus the size of the blocks that were
    shuffled), the first rank that may move, one past the last"""


def no_laws() -> Laws:
    """Give the laws where no column was swapped."""
    none = np.empty(0)
    return Laws(none, none, none, np.empty((0, 2), np.int64), np.zeros((0, 5), np.int64))


def swap_law(n: int, window: int) -> tuple[Floats, Floats, Floats]:
    """Give `first`, `second` and `most` of n ranks: log P(a and b exchange) = first[a] + second[b] for a < b.

    Close to the truth: the numbers of unswapped ranks are replaced by their expectations. Time and memory O(n).
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    hazard, total = np.zeros(n), np.zeros(n + 1)
    _hazards(min(window, max(n - 1, 1)), hazard, total)
    first = np.log(np.maximum(hazard, 1e-12)) - total[:n]
    second = total[np.maximum(np.arange(n) - window, 0)]
    split = int(np.argmin(first)) if n else 0
    falling = np.maximum.accumulate(first[: split + 1][::-1])[::-1]
    rising = np.maximum.accumulate(first[split:])
    return first, second, np.concatenate([falling, rising[1:]])


@lean_kernel
def _hazards(window: int, hazard: Floats, total: Floats) -> None:
    """Give h(t), and the sum of −log(1 − h) before each t."""
    n = hazard.size
    ahead = float(min(window, n - 1))
    for t in range(n):
        unswapped = np.exp(total[max(t - window, 0)] - total[t])
        if t:
            ahead = max(ahead * (1.0 - hazard[t - 1]) - unswapped + (1.0 if t + window < n else 0.0), 0.0)
        hazard[t] = min(unswapped / max(ahead, unswapped), 1.0 - 1e-9) if ahead > 1e-9 else 0.0
        total[t + 1] = total[t] - np.log1p(-hazard[t])


def swap_costs(j: int, queries: Floats, points: Floats, laws: Laws) -> Floats:
    """Give the cost of each move in column j, NaN where a value is missing."""
    cost = np.full(len(queries), np.nan)
    rows = np.flatnonzero(~np.isnan(queries) & ~np.isnan(points))
    there = np.empty(len(rows))
    _swap_costs(j, queries[rows], points[rows], laws, there)
    cost[rows] = there
    return cost


@lean_kernel
def _swap_costs(j: int, queries: Floats, points: Floats, laws: Laws, cost: Floats) -> None:
    for i in range(queries.size):
        cost[i] = swap_cost(j, queries[i], points[i], laws)


@lean_helper
def swap_cost(j: int, q: float, p: float, laws: Laws) -> float:
    """Give −2·log of the probability that value number q became value number p in column j.

    Equal values may have had any of their ranks: the probabilities of up to eight of each are averaged.
    """
    places, ranks = laws.places, laws.ranks
    start, at, reach, low, stop = places[j, 0], places[j, 1], places[j, 2], places[j, 3], places[j, 4]
    x0, x1, y0, y1 = ranks[at + int(q), 0], ranks[at + int(q), 1], ranks[at + int(p), 0], ranks[at + int(p), 1]
    few, some = min(x1 - x0 + 1, _SAMPLES), min(y1 - y0 + 1, _SAMPLES)
    total = 0.0
    for s in range(few):
        x = x0 if few == 1 else x0 + (2 * s + 1) * (x1 - x0 + 1) // (2 * few)
        for t in range(some):
            y = y0 if some == 1 else y0 + (2 * t + 1) * (y1 - y0 + 1) // (2 * some)
            a, b, move = min(x, y), max(x, y), -np.inf
            if a < low or b >= stop:
                move = 0.0 if a == b else -np.inf
            elif reach < 0:  # shuffled in blocks
                move = -np.log(-reach) if (a - low) // -reach == (b - low) // -reach else -np.inf
            elif a < b and b - a <= reach:
                move = laws.first[start - low + a] + laws.second[start - low + b]
            if few == 1 and some == 1:
                return -2.0 * max(move, _LEAST)
            total += np.exp(move)
    return float(-2.0 * max(np.log(max(total, 1e-300) / (few * some)), _LEAST))


@lean_helper
def swap_bound(j: int, q: float, least: float, largest: float, laws: Laws) -> float:
    """Give a cost that no value from number `least` to number `largest` comes under."""
    places, ranks = laws.places, laws.ranks
    at, reach, low, stop = places[j, 1], places[j, 2], places[j, 3], places[j, 4]
    x0, x1, y0, y1 = (
        ranks[at + int(q), 0],
        ranks[at + int(q), 1],
        ranks[at + int(least), 0],
        ranks[at + int(largest), 1],
    )
    if min(x0, y0) < low or max(x1, y1) >= stop:
        if max(x0, y0) <= min(x1, y1):
            return 0.0
        x0, x1, y0, y1 = max(x0, low), min(x1, stop - 1), max(y0, low), min(y1, stop - 1)
        if x0 > x1 or y0 > y1:
            return -2.0 * _LEAST
    if reach < 0:
        return float(2.0 * np.log(-reach))
    start, best = places[j, 0] - low, _LEAST
    if y1 > x0:  # the value moved up
        best = max(
            best, _largest(laws.most, start + x0, start + min(x1, y1)) + laws.second[start + min(y1, x1 + reach)]
        )
    if y0 < x1:
        best = max(
            best, _largest(laws.most, start + max(y0, x0 - reach), start + min(x1, y1)) + laws.second[start + x1]
        )
    return -2.0 * min(best, 0.0)


@lean_helper
def _largest(most: Floats, least: int, largest: int) -> float:
    return max(most[least], most[largest]) if least <= largest else _LEAST


# Rank swapping: which rank gives its value to which, with a window (P13) or inside blocks (P14).
#
# Both return ranks only; the caller sorts once and moves values: `released[order] = values[partner]`.


def swap_partners(n: int, window: int, uniforms: ArrayLike) -> Ints32:
    """Return for each rank the rank it exchanges values with (itself when it has no partner left).

    Ranks are visited from the lowest. A rank i that has not been swapped yet takes a uniformly random partner
    among the ranks i+1 … i+window that have not been swapped either. `uniforms` are n independent numbers in
    [0, 1), one for each rank. The result is an involution: `partner[partner] == arange(n)`.
    Time O(n), memory O(n).
    """
    _check_count(n, uniforms)
    if window < 0:
        raise ValueError(f"window must be at least 0, got {window}")
    partner, place = np.arange(n, dtype=np.int32), np.empty(n, np.int32)
    _swap_partners(min(window, n), as_vector(uniforms), np.empty(min(window, n) + 1, np.int32), place, partner)
    return partner


def block_shuffle(n: int, block: int, uniforms: ArrayLike) -> Ints32:
    """Return a permutation of the ranks that shuffles them inside consecutive blocks of `block` ranks.

    The last block may be smaller. Every order inside a block is equally likely. `uniforms` are n independent
    numbers in [0, 1). Time O(n).
    """
    _check_count(n, uniforms)
    if block < 1:
        raise ValueError(f"block must be at least 1, got {block}")
    ranks = np.arange(n, dtype=np.int32)
    _block_shuffle(min(block, max(n, 1)), as_vector(uniforms), ranks)
    return ranks


def _check_count(n: int, uniforms: ArrayLike) -> None:
    if np.shape(uniforms) != (n,):
        raise ValueError(f"expected {n} uniform numbers, got shape {np.shape(uniforms)}")
    if n >= 2**31:
        raise ValueError(f"at most 2**31 - 1 ranks, got {n}")


@lean_kernel
def _swap_partners(window: int, uniforms: Floats, bag: Ints32, place: Ints32, partner: Ints32) -> None:
    """Keep the unswapped ranks of the window in a bag: adding, taking out and picking by number are O(1).

    `place` says where a rank lies in the bag, −1 once it has been swapped or visited.
    """
    n, size = partner.size, 0
    for rank in range(min(window, n)):
        bag[rank] = rank
        place[rank] = rank
        size += 1
    for rank in range(n):
        entering = rank + window
        if entering < n and window > 0:
            bag[size] = entering
            place[entering] = size
            size += 1
        if window == 0 or place[rank] < 0:
            continue
        size = _take_out(bag, place, size, rank)
        if size == 0:
            continue
        chosen = bag[_below(uniforms[rank], size)]
        size = _take_out(bag, place, size, chosen)
        partner[rank] = chosen
        partner[chosen] = rank


@lean_helper
def _below(uniform: float, size: int) -> int:
    """Turn a uniform number into an integer 0 … size−1; the product may round up to `size`."""
    return min(int(uniform * size), size - 1)


@lean_helper
def _take_out(bag: Ints32, place: Ints32, size: int, rank: int) -> int:
    """Fill the gap that `rank` leaves with the last of the bag; return the new size."""
    last = bag[size - 1]
    gap = place[rank]
    bag[gap] = last
    place[last] = gap
    place[rank] = -1
    return size - 1


@lean_kernel
def _block_shuffle(block: int, uniforms: Floats, ranks: Ints32) -> None:
    n = ranks.size
    for start in range(0, n, block):
        for left in range(min(block, n - start), 1, -1):  # Fisher–Yates, from the end of the block
            i = start + left - 1
            j = start + _below(uniforms[i], left)
            ranks[i], ranks[j] = ranks[j], ranks[i]


def swap_places(kinds: Codes, areas: Codes, chosen: ArrayLike, uniforms: ArrayLike, free: ArrayLike) -> Ints:
    """Return for each unit the unit it exchanges places with, or −1.

    Chosen units are served in the order given. Each takes a uniformly random partner among the `free` units of its own
    kind in other areas (chosen or not); both are then no longer free. `uniforms` are independent numbers in [0, 1), one
    for each chosen unit. Time O(n + chosen · log groups), memory O(n); a group is a kind in an area.
    """
    wanted, numbers = as_integers(chosen), as_vector(uniforms)
    available = np.flatnonzero(np.asarray(free, dtype=np.bool_))
    partner = np.full(kinds.size, -1, np.int64)
    if wanted.shape != numbers.shape:
        raise ValueError(f"{wanted.size} units were chosen, but there are {numbers.size} uniform numbers")
    if not available.size or not wanted.size:
        return partner
    kind, area = _dense(kinds), _dense(areas)
    order = available[np.lexsort((area[available], kind[available]))]
    new_kind = np.diff(kind[order], prepend=-1) != 0
    new_group = new_kind | (np.diff(area[order], prepend=-1) != 0)
    starts = np.append(np.flatnonzero(new_group), order.size)
    group = np.full(kinds.size, -1, np.int64)
    group[order] = np.cumsum(new_group) - 1
    first_of_kind = np.append(np.flatnonzero(new_kind[starts[:-1]]), starts.size - 1)
    kind_of_group = np.cumsum(new_kind[starts[:-1]]) - 1
    place = np.full(kinds.size, -1, np.int64)
    place[order] = np.arange(order.size)
    _swap_places(wanted, numbers, group, kind_of_group, first_of_kind, starts, order, place, partner)
    return partner


def multiset_ids(units: Codes, codes: Codes) -> Ints:
    """Number units so that two have the same number exactly when their members have the same codes, order aside.

    `units` numbers the unit of each member 0 … U−1 (each occurs), `codes` are numbers of at least 0. Members are added
    one rank at a time, so that the time is O(n log n) also when one unit is large.
    """
    n_units = int(units.max()) + 1 if units.size else 0
    ids = np.zeros(n_units, np.int64)
    order = np.lexsort((codes, units))
    starts = np.searchsorted(units[order], np.arange(n_units))
    sizes = np.diff(np.append(starts, units.size))
    dense = _dense(codes)
    most = int(dense.max()) + 1 if dense.size else 1
    next_id = 1
    for rank in range(int(sizes.max()) if n_units else 0):
        active = np.flatnonzero(sizes > rank)
        found = class_ids([ids[active], dense[order[starts[active] + rank]]], [next_id, most])
        ids[active] = next_id + found.ids.astype(np.int64)  # numbers not used before: a longer unit differs
        next_id += found.counts.size
    return ids


def _dense(codes: Codes) -> Ints:
    if not codes.size:
        return codes.astype(np.int64)
    return class_ids([codes], [int(codes.max()) + 1]).ids.astype(np.int64)


@kernel
def _swap_places(
    chosen: Ints,
    uniforms: Floats,
    group: Ints,
    kind_of_group: Ints,
    first_of_kind: Ints,
    starts: Ints,
    order: Ints,
    place: Ints,
    partner: Ints,
) -> None:
    """Units lie sorted by kind and area; the free ones of a group come first; a Fenwick tree counts them."""
    groups = starts.size - 1
    left = np.empty(groups, np.int64)
    tree = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        left[g] = starts[g + 1] - starts[g]
        _add(tree, g, left[g])
    for number in range(chosen.size):
        unit = chosen[number]
        if place[unit] < 0:
            continue  # not free, or taken as a partner
        own = group[unit]
        kind = kind_of_group[own]
        before = _sum_below(tree, first_of_kind[kind])
        inside = _sum_below(tree, first_of_kind[kind + 1]) - before
        others = inside - left[own]
        if others == 0:
            continue
        hit = before + min(int(uniforms[number] * others), others - 1)
        own_start = _sum_below(tree, own)
        if hit >= own_start:
            hit += left[own]  # step over the own area
        there, skipped = _find(tree, hit)
        other = order[starts[there] + hit - skipped]
        _remove(unit, own, left, tree, starts, order, place)
        _remove(other, there, left, tree, starts, order, place)
        partner[unit] = other
        partner[other] = unit


@helper
def _remove(unit: int, group: int, left: Ints, tree: Ints, starts: Ints, order: Ints, place: Ints) -> None:
    last = starts[group] + left[group] - 1
    gap = place[unit]
    order[gap] = order[last]
    place[order[last]] = gap
    order[last] = unit
    place[unit] = -1
    left[group] -= 1
    _add(tree, group, -1)


@helper
def _add(tree: Ints, group: int, count: int) -> None:
    i = group + 1
    while i < tree.size:
        tree[i] += count
        i += i & -i


@helper
def _sum_below(tree: Ints, group: int) -> int:
    """Return how many free units lie in the groups before this one."""
    total = 0
    i = group
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@helper
def _find(tree: Ints, hit: int) -> tuple[int, int]:
    """Return the group that holds the free unit number `hit`, and how many lie before the group."""
    step = 1
    while step * 2 < tree.size:
        step *= 2
    place, skipped = 0, 0
    while step > 0:
        if place + step < tree.size and skipped + tree[place + step] <= hit:
            place += step
            skipped += tree[place]
        step //= 2
    return place, skipped
