"""Targets that are multiples of each other, found by the ratio of their products with two random vectors.

Somebody who knows one of two such cells can compute the other, and learns something unless the one is part of the other
and what they differ by is published anyway (`kin`). A table of ratios counts for each how many targets that have it are
single (known to somebody), how many primary (to be protected), and the kin of those.
"""

from __future__ import annotations

from discretion.kernels.jit import helper
from discretion.kernels.table_elimination_field import PRIME, inverse, invert_all, plus, times
from discretion.kernels.table_elimination_work import SLOTS, Work

EMPTY = -1
_MIX = 0x9E3779B97F4A7C1
_ENDLESS = PRIME
"""The ratio of a target whose second product is 0 and first is not."""


@helper
def _slot(w: Work, key: int) -> int:
    mask = len(w.slot_key) - 1
    place = ((key * _MIX) >> 20) & mask
    while w.slot_key[place] != key and w.slot_key[place] != EMPTY:
        place = (place + 1) & mask
    return place


@helper
def _count(w: Work, key: int, target: int, kin: int, step: int) -> bool:
    """Add a target to a ratio (step 1) or take it away (−1); tell whether somebody then knows another's cell."""
    place = _slot(w, key)
    if w.slot_key[place] == EMPTY:
        w.slot_key[place] = key
        w.slot_counts[place] = 0
        w.counts[SLOTS] += 1
    counts = w.slot_counts[place]
    counts[0] += step * w.single[target]
    counts[1] += step * w.primary[target]
    counts[2] += step * kin
    clash: bool = counts[0] * counts[1] > counts[2]
    return clash


@helper
def shares_ratio(w: Work, first: int, second: int) -> bool:
    """Tell whether a primary target has the ratio of two products: what has them, once published, gives it away."""
    key = times(first, inverse(second)) if second != 0 else _ENDLESS
    place = _slot(w, key)
    found: bool = w.slot_key[place] == key and w.slot_counts[place, 1] > 0
    return found


@helper
def new_ratios(w: Work, hit: int) -> None:
    """Compute the ratios that the targets in `hit` are about to have."""
    n = 0
    for i in range(hit):
        target = w.hit[i]
        second = plus(w.sums[target, 1], w.ds[target, 1])
        if second != 0:
            w.scratch[n] = second
            n += 1
    invert_all(w.scratch, n, w.new_keys)
    n = 0
    for i in range(hit):
        target = w.hit[i]
        first, second = plus(w.sums[target, 0], w.ds[target, 0]), plus(w.sums[target, 1], w.ds[target, 1])
        if second != 0:
            w.new_keys[i] = times(first, w.scratch[n])
            n += 1
        else:
            w.new_keys[i] = EMPTY if first == 0 else _ENDLESS
        w.new_kin[i] = w.own_kin[target]
        for j in range(w.inside_start[target], w.inside_start[target + 1]):
            row = w.inside[j]
            w.new_kin[i] += plus(w.u[row, 0], w.du[row, 0]) == first


@helper
def exchange(w: Work, hit: int) -> bool:
    """Put the new ratios in the place of the old ones; tell whether somebody would know another's cell.

    Then the old ones are back.
    """
    if 2 * w.counts[SLOTS] > len(w.slot_key):
        rebuild(w)
    for i in range(hit):
        if w.keys[w.hit[i]] != EMPTY:
            _count(w, w.keys[w.hit[i]], w.hit[i], w.kin[w.hit[i]], -1)
    for i in range(hit):
        if w.new_keys[i] != EMPTY:
            _count(w, w.new_keys[i], w.hit[i], w.new_kin[i], 1)
    clash = False
    for i in range(hit):
        clash = clash or (w.new_keys[i] != EMPTY and _count(w, w.new_keys[i], w.hit[i], 0, 0))
    if not clash:
        for i in range(hit):
            w.keys[w.hit[i]] = w.new_keys[i]
            w.kin[w.hit[i]] = w.new_kin[i]
        return False
    for i in range(hit):
        if w.new_keys[i] != EMPTY:
            _count(w, w.new_keys[i], w.hit[i], w.new_kin[i], -1)
    for i in range(hit):
        if w.keys[w.hit[i]] != EMPTY:
            _count(w, w.keys[w.hit[i]], w.hit[i], w.kin[w.hit[i]], 1)
    return True


@helper
def rebuild(w: Work) -> None:
    """Fill the table of ratios anew, without the ratios nobody has any more."""
    w.slot_key[:] = EMPTY
    w.counts[SLOTS] = 0
    for target in range(len(w.keys)):
        if w.keys[target] != EMPTY:
            _count(w, w.keys[target], target, w.kin[target], 1)
