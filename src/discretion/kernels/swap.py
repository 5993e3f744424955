"""Swapping: ranks within a window or block (P13, P14), and units between areas, never twice (P19, P20)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Codes, Floats, Ints, Ints32, as_integers, as_vector
from discretion.kernels.classes import class_ids
from discretion.kernels.jit import helper, kernel, lean_helper, lean_kernel

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
