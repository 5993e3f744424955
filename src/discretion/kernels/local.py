"""Local recoding: clusters of records, each published as the lowest labels that its members have in common.

What is clustered are the distinct combinations of values (*pieces*), each with the number of its records. A column's
values are the leaves of a tree, numbered from left to right, so that every node covers a range of leaves. A cluster has
a *box*: for each column the lowest node that covers all its members. The cost of a cluster is the loss of its box, the
sum of the losses of its nodes, times its records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel

# Classes of records at the nodes of a lattice of levels, for local recoding.


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


_TINY = 1e-9  # gains below are rounding
_MANY = 64  # pieces of a cluster above which its box is not worked out anew when one leaves


class Trees(NamedTuple):
    """The trees of all columns, one after another: node v of column j stands at starts[j] + v."""

    starts: Ints
    parents: Ints32  # within the column
    first: Ints32  # the first leaf below each node
    last: Ints32
    losses: Floats


class Clusters(NamedTuple):
    """Clusters of pieces; members are chained in both directions. A cluster without records is empty."""

    leaves: Ints32  # (pieces, columns)
    counts: Ints  # records of each piece
    owner: Ints32  # cluster of each piece, −1 for none
    boxes: Ints32  # (clusters, columns)
    costs: Floats  # loss of each box
    sizes: Ints  # records of each cluster
    pieces: Ints32  # pieces of each cluster
    heads: Ints32
    following: Ints32
    previous: Ints32


def make_clusters(trees: Trees, leaves: Ints32, counts: Ints, owner: Ints32, n_clusters: int) -> Clusters:
    """Build the clusters that `owner` names; pieces without a cluster (−1) are left out. Time O(pieces·columns)."""
    n, d = leaves.shape
    state = Clusters(
        leaves,
        counts,
        owner.copy(),
        np.zeros((n_clusters, d), np.int32),
        np.zeros(n_clusters),
        np.zeros(n_clusters, np.int64),
        np.zeros(n_clusters, np.int32),
        np.full(n_clusters, -1, np.int32),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int32),
    )
    _fill(trees, state, owner)
    return state


@kernel
def _fill(trees: Trees, state: Clusters, owner: Ints32) -> None:
    for piece in range(owner.size):
        if owner[piece] >= 0:
            _add(trees, state, piece, owner[piece])


@helper
def _covering(trees: Trees, start: int, node: int, first: int, last: int) -> int:
    """Climb from a node to the lowest one that also covers a range of leaves."""
    while trees.first[start + node] > first or trees.last[start + node] < last:
        node = trees.parents[start + node]
    return node


@helper
def _add(trees: Trees, state: Clusters, piece: int, cluster: int) -> None:
    """Put a piece into a cluster and widen its box."""
    cost = 0.0
    for j in range(state.leaves.shape[1]):
        start, leaf = trees.starts[j], state.leaves[piece, j]
        node = leaf if state.pieces[cluster] == 0 else _covering(trees, start, state.boxes[cluster, j], leaf, leaf)
        state.boxes[cluster, j] = node
        cost += trees.losses[start + node]
    state.costs[cluster] = cost
    head = state.heads[cluster]
    state.following[piece], state.previous[piece] = head, -1
    if head >= 0:
        state.previous[head] = piece
    state.heads[cluster] = piece
    state.owner[piece] = cluster
    state.sizes[cluster] += state.counts[piece]
    state.pieces[cluster] += 1


@helper
def _take_out(state: Clusters, piece: int) -> None:
    """Take a piece out of its cluster; the box stays as it is."""
    cluster = state.owner[piece]
    before, after = state.previous[piece], state.following[piece]
    if before >= 0:
        state.following[before] = after
    else:
        state.heads[cluster] = after
    if after >= 0:
        state.previous[after] = before
    state.sizes[cluster] -= state.counts[piece]
    state.pieces[cluster] -= 1
    state.owner[piece] = -1


@helper
def _box_without(trees: Trees, state: Clusters, piece: int, box: Ints32) -> float:
    """Work out the box that a piece's cluster has without it, and return its loss."""
    cluster = state.owner[piece]
    if state.pieces[cluster] > _MANY:
        box[:] = state.boxes[cluster]
        return float(state.costs[cluster])
    empty = True
    member = state.heads[cluster]
    while member >= 0:
        if member != piece:
            for j in range(box.size):
                leaf = state.leaves[member, j]
                box[j] = leaf if empty else _covering(trees, trees.starts[j], box[j], leaf, leaf)
            empty = False
        member = state.following[member]
    cost = 0.0
    for j in range(box.size):
        cost += trees.losses[trees.starts[j] + box[j]]
    return cost


@kernel
def _nearest(
    starts: Ints, parents: Ints32, first: Ints32, last: Ints32, losses: Floats,
    boxes: Ints32, costs: Floats, sizes: Ints,
    low: Ints32, high: Ints32, records: int, but: int, begin: int, end: int, limit: float,
) -> tuple[float, int]:  # fmt: skip
    """Find the cluster whose cost grows least when records with these leaves (low … high per column) join it.

    Among clusters begin … end−1 other than `but`; returns the growth and the cluster, or (limit, −1) if none grows by
    less than `limit`.
    """
    best, chosen = limit, -1
    for c in range(begin, end):
        size = sizes[c]
        if size == 0 or c == but or costs[c] * records >= best:
            continue
        most = (best + costs[c] * size) / (size + records)  # the loss at which it is no better
        loss = 0.0
        for j in range(low.size):
            at = starts[j] + boxes[c, j]
            while first[at] > low[j] or last[at] < high[j]:
                at = starts[j] + parents[at]
            loss += losses[at]
            if loss >= most:
                break
        if loss < most:
            best, chosen = loss * (size + records) - costs[c] * size, c
    return best, chosen


def dissolve_clusters(trees: Trees, state: Clusters, begin: int, end: int) -> float:
    """Dissolve each cluster whose members cost less in the other clusters; return what was gained.

    The costliest clusters come first. Only clusters begin … end−1 are looked at.
    """
    order = np.argsort(-state.costs[begin:end] * state.sizes[begin:end], kind="stable") + begin
    return _dissolve(trees, state, order, begin, end)


@kernel
def _dissolve(trees: Trees, state: Clusters, order: Ints, begin: int, end: int) -> float:
    starts, parents, first, last, losses = trees
    members = np.empty(_MANY, np.int32)
    old_boxes = np.empty((_MANY, starts.size), np.int32)
    old_costs = np.empty(_MANY)
    gained = 0.0
    for c in order:
        if state.sizes[c] == 0 or state.costs[c] <= _TINY or state.pieces[c] > _MANY:
            continue
        budget = state.costs[c] * state.sizes[c] - _TINY
        count = 0
        member = state.heads[c]
        while member >= 0:
            members[count] = member
            count += 1
            member = state.following[member]
        moved = 0
        for i in range(count):
            leaf = state.leaves[members[i]]
            growth, target = _nearest(
                starts, parents, first, last, losses, state.boxes, state.costs, state.sizes,
                leaf, leaf, state.counts[members[i]], c, begin, end, budget,
            )  # fmt: skip
            if target < 0:
                break
            old_boxes[i] = state.boxes[target]
            old_costs[i] = state.costs[target]
            budget -= growth
            _take_out(state, members[i])
            _add(trees, state, members[i], target)
            moved += 1
        if moved == count:
            gained += budget + _TINY
            continue
        for back in range(moved - 1, -1, -1):
            target = state.owner[members[back]]
            _take_out(state, members[back])
            state.boxes[target] = old_boxes[back]
            state.costs[target] = old_costs[back]
            _put_back(state, members[back], c)
    return gained


@helper
def _put_back(state: Clusters, piece: int, cluster: int) -> None:
    """Chain a piece into a cluster whose box still covers it."""
    head = state.heads[cluster]
    state.following[piece], state.previous[piece] = head, -1
    if head >= 0:
        state.previous[head] = piece
    state.heads[cluster] = piece
    state.owner[piece] = cluster
    state.sizes[cluster] += state.counts[piece]
    state.pieces[cluster] += 1


@kernel
def move_pieces(trees: Trees, state: Clusters, pieces: Ints, k: int, begin: int, end: int) -> float:
    """Move each of these pieces that its cluster can spare to where it costs less; return what was gained.

    All of them belong to clusters begin … end−1, and stay among these.
    """
    starts, parents, first, last, losses = trees
    box = np.empty(starts.size, np.int32)
    gained = 0.0
    for piece in pieces:
        c = state.owner[piece]
        if c < 0 or state.costs[c] <= _TINY or state.sizes[c] - state.counts[piece] < k:
            continue
        cost = _box_without(trees, state, piece, box)
        saved = state.costs[c] * state.sizes[c] - cost * (state.sizes[c] - state.counts[piece])
        leaf = state.leaves[piece]
        growth, target = _nearest(
            starts, parents, first, last, losses, state.boxes, state.costs, state.sizes,
            leaf, leaf, state.counts[piece], c, begin, end, saved - _TINY,
        )  # fmt: skip
        if target >= 0:
            gained += saved - growth
            _take_out(state, piece)
            state.boxes[c] = box
            state.costs[c] = cost
            _add(trees, state, piece, target)
    return gained


def merge_clusters(trees: Trees, state: Clusters, failing: Bools, price: float, allowed: int) -> int:
    """Merge each failing cluster with the one whose cost grows least, or hide its records where that costs less.

    The smallest come first; a cluster that has just grown waits for the next judgement. Hiding costs `price` a record,
    for at most `allowed` records. Returns the number of records hidden.
    """
    order = np.argsort(state.sizes, kind="stable")
    return _merge_failing(trees, state, order[failing[order]], price, allowed)


@kernel
def _merge_failing(trees: Trees, state: Clusters, order: Ints, price: float, allowed: int) -> int:
    starts, parents, first, last, losses = trees
    d = starts.size
    low, high = np.empty(d, np.int32), np.empty(d, np.int32)
    grown = np.zeros(state.sizes.size, np.bool_)
    used = 0
    for c in order:
        size = state.sizes[c]
        if size == 0 or grown[c]:
            continue
        for j in range(d):
            low[j] = first[starts[j] + state.boxes[c, j]]
            high[j] = last[starts[j] + state.boxes[c, j]]
        growth, target = _nearest(
            starts, parents, first, last, losses, state.boxes, state.costs, state.sizes,
            low, high, size, c, 0, grown.size, np.inf,
        )  # fmt: skip
        growth -= state.costs[c] * size
        if used + size <= allowed and (target < 0 or growth > (price - state.costs[c]) * size):
            used += size
            _empty(state, c)
        elif target >= 0:
            grown[target] = True
            _merge(trees, state, c, target)
    return used


@helper
def _empty(state: Clusters, cluster: int) -> None:
    while state.heads[cluster] >= 0:
        _take_out(state, state.heads[cluster])


@helper
def _merge(trees: Trees, state: Clusters, cluster: int, target: int) -> None:
    while state.heads[cluster] >= 0:
        piece = state.heads[cluster]
        _take_out(state, piece)
        _add(trees, state, piece, target)


@kernel
def spare_gains(trees: Trees, state: Clusters, k: int, price: float) -> Floats:
    """Return for each piece what hiding its records would gain (at most 0 where its cluster needs it)."""
    box = np.empty(trees.starts.size, np.int32)
    gains = np.zeros(state.owner.size)
    for piece in range(gains.size):
        c = state.owner[piece]
        if c < 0 or state.pieces[c] > _MANY:
            continue
        left = state.sizes[c] - state.counts[piece]
        if left >= k:
            cost = _box_without(trees, state, piece, box)
            gains[piece] = state.costs[c] * state.sizes[c] - cost * left - price * state.counts[piece]
    return gains


@kernel
def hide_piece(trees: Trees, state: Clusters, piece: int) -> None:
    """Take a piece out for good and narrow the box of its cluster."""
    box = np.empty(trees.starts.size, np.int32)
    cluster = state.owner[piece]
    state.costs[cluster] = _box_without(trees, state, piece, box)
    state.boxes[cluster] = box
    _take_out(state, piece)
