"""Classes of records at the nodes of a lattice of levels, for local recoding."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel


@kernel
def ripe_classes(
    leaves: Ints32, counts: Ints, tables: Keys, places: Ints, nodes: Ints32, k: int, left: Ints32, owner: Ints32,
    clusters: int,
) -> tuple[int, int]:  # fmt: skip
    """Generalize the pieces that are left to one node of the lattice after another; classes of k records are clusters.

    `tables[places[j, step] + leaf]` is a random number for the label of a leaf at a step; their sum tells classes
    apart. (Should two classes ever have the same sum, they become one cluster, which is still a right one.) `left`
    lists the pieces and is shortened; returns how many are left, and the number of clusters.
    """
    remaining = left.size
    most = 16
    while most < 2 * remaining:
        most *= 2
    slots = np.empty(most, np.int32)
    keys = np.empty(remaining, np.uint64)
    sizes = np.empty(remaining, np.int64)
    number = np.empty(remaining, np.int32)
    for node in range(nodes.shape[0]):
        if remaining == 0:
            break
        found = _classes_of_node(
            leaves, counts, tables, places, nodes[node], left, remaining, slots, keys, sizes, number
        )
        for c in range(found):
            if sizes[c] >= k:
                sizes[c] = -1 - clusters
                clusters += 1
        kept = 0
        for i in range(remaining):
            c = number[i]
            if sizes[c] < 0:
                owner[left[i]] = -1 - sizes[c]
            else:
                left[kept] = left[i]
                kept += 1
        remaining = kept
    return remaining, clusters


@kernel
def classes_of_node(
    leaves: Ints32, counts: Ints, tables: Keys, places: Ints, node: Ints32, left: Ints32
) -> tuple[Ints32, Ints]:
    """Return the class of each piece that is left at one node of the lattice, and the records of each class."""
    most = 16
    while most < 2 * left.size:
        most *= 2
    keys = np.empty(left.size, np.uint64)
    sizes = np.empty(left.size, np.int64)
    number = np.empty(left.size, np.int32)
    slots = np.empty(most, np.int32)
    found = _classes_of_node(leaves, counts, tables, places, node, left, left.size, slots, keys, sizes, number)
    return number, sizes[:found]


@helper
def _classes_of_node(
    leaves: Ints32, counts: Ints, tables: Keys, places: Ints, node: Ints32, left: Ints32, remaining: int,
    slots: Ints32, keys: Keys, sizes: Ints, number: Ints32,
) -> int:  # fmt: skip
    size = 16
    while size < 2 * remaining:
        size *= 2
    mask = np.uint64(size - 1)
    slots[:size] = -1
    found = 0
    for i in range(remaining):
        piece = left[i]
        key = np.uint64(0)
        for j in range(leaves.shape[1]):
            key += tables[places[j, node[j]] + leaves[piece, j]]
        slot = (key >> np.uint64(32)) & mask
        while slots[slot] >= 0 and keys[slots[slot]] != key:
            slot = (slot + np.uint64(1)) & mask
        c = slots[slot]
        if c < 0:
            c = found
            slots[slot] = c
            keys[c] = key
            sizes[c] = 0
            found += 1
        sizes[c] += counts[piece]
        number[i] = c
    return found
