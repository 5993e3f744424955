"""Rank swapping: which rank gives its value to which, with a window (P13) or inside blocks (P14).

Both return ranks only; the caller sorts once and moves values: `released[order] = values[partner]`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Floats, Ints32, as_vector
from discretion.kernels.jit import lean_helper, lean_kernel


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
