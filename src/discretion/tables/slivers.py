"""Slivers: small groups of people that are left when the cells of one division are subtracted from those of another.

Codes of two divisions (municipalities, squares of a grid) are nodes of a graph, the people who have both codes an edge
between them. Adding the codes of one division in a set of nodes and subtracting those of the other leaves exactly the
edges with one end in the set: a cut. A combination that contains no smaller one is a bond, a cut that parts a connected
graph in two, and has the coefficients 0 and ±1; all others are sums of bonds, so that the bonds below k people are all
there is to look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.small_cuts import INSIDE, OUTSIDE, cut_below

MOST = 10_000
"""Bonds that are listed at most; more are not worth telling apart: the tables cannot go out together."""
STEPS = 200_000
"""Cuts computed at most while they are listed."""


@dataclass(frozen=True, eq=False)
class Bonds:
    """Small cuts: each is a set of edges, and the side of the graph on which each edge has its first end."""

    edges: list[Ints]
    """for each bond the numbers of its edges"""
    sides: list[Bools]
    """for each edge of each bond, whether its first end is inside; alike for all: a sum, otherwise a difference"""
    complete: bool
    """whether none was left out"""


class _Block:
    """A graph of its own, with what the computation of cuts needs."""

    def __init__(self, n: int, one: Ints, other: Ints, weight: Ints) -> None:
        self.n, self.one, self.other, self.weight = n, one, other, weight
        tail = np.column_stack((one, other)).ravel()
        self.head = np.column_stack((other, one)).ravel()
        self.arcs = np.argsort(tail, kind="stable")
        self.start = np.r_[0, np.cumsum(np.bincount(tail, minlength=n))].astype(np.int64)
        self._room = np.repeat(weight, 2)
        self._via, self._queue = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def cut(self, state: Ints, limit: int) -> int:
        return int(cut_below(self.start, self.arcs, self.head, self._room.copy(), state, limit, self._via, self._queue))

    @property
    def near(self) -> Bools:
        """The side of the inside in the last cut."""
        near: Bools = self._via != -1
        return near

    def neighbors(self, u: int) -> Ints:
        return self.head[self.arcs[self.start[u] : self.start[u + 1]]]


def bonds(n: int, one: Ints, other: Ints, weight: Ints, k: int, most: int = MOST) -> Bonds:
    """List the bonds of a graph whose edges weigh less than k together.

    Edges (numbers of two nodes below n, positive weights; several between two nodes are allowed) of at least k are in
    no such bond, nor do nodes that k people tie together lie on two sides of one: they are drawn together, the latter
    by Gusfield's tree of least cuts. What is left is listed block by block (biconnected parts: a bond lies in one of
    them), deciding node by node on which side it lies; a branch is followed only while a cut below k parts what is
    decided.
    """
    label, single = _contracted(n, one, other, weight, k)
    kept = np.flatnonzero(label[one] != label[other])
    ends = np.sort(np.column_stack((label[one[kept]], label[other[kept]])), axis=1)
    pairs, group = np.unique(ends, axis=0, return_inverse=True) if len(kept) else (ends, np.zeros(0, np.int64))
    group = group.ravel()
    order = np.argsort(group, kind="stable")
    members = np.split(kept[order], np.cumsum(np.bincount(group, minlength=len(pairs)))[:-1])
    found = Bonds([], [], True)
    steps = [STEPS]
    for block in single:
        nodes, at = np.unique(pairs[block], return_inverse=True)
        at = at.reshape(-1, 2)
        total = np.bincount(group, weight[kept], len(pairs)).astype(np.int64)[block]
        part = _Block(len(nodes), at[:, 0], at[:, 1], total)
        for inside in _listed(part, k, steps):
            cut = np.flatnonzero(inside[part.one] != inside[part.other])
            edges = np.sort(np.concatenate([members[pair] for pair in block[cut]]))
            found.edges.append(edges)
            found.sides.append(_whole_side(pairs, block[cut], label, nodes[inside])[one[edges]])
            if len(found.edges) >= most:
                return Bonds(found.edges, found.sides, False)
    return Bonds(found.edges, found.sides, steps[0] > 0)


def _whole_side(pairs: Ints, cut: Ints, label: Ints, inside: Ints) -> Bools:
    """Give the side of every node of the first graph: a bond of one block parts the whole graph."""
    left = np.ones(len(pairs), np.bool_)
    left[cut] = False
    part = _parts(int(label.max()) + 1, pairs[left])
    side: Bools = np.isin(part, part[inside])[label]
    return side


def _parts(n: int, pairs: Ints) -> Ints:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    number: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return number


def _contracted(n: int, one: Ints, other: Ints, weight: Ints, k: int) -> tuple[Ints, list[Ints]]:
    """Draw nodes together that no cut below k parts; give the new number of each, and the blocks of what is left.

    A block is the numbers of its pairs of (new) nodes, in the order of `np.unique`.
    """
    label = np.arange(n)
    while True:
        kept = label[one] != label[other]
        ends = np.sort(np.column_stack((label[one], label[other]))[kept], axis=1)
        if not len(ends):
            return label, []
        pairs, group = np.unique(ends, axis=0, return_inverse=True)
        total = np.bincount(group.ravel(), weight[kept], len(pairs)).astype(np.int64)
        tied = pairs[total >= k]
        single: list[Ints] = []
        if not len(tied):
            single = _biconnected(int(label.max()) + 1, pairs)
            more = [_tied(pairs[block], total[block], k) for block in single if len(block) > 2]
            tied = np.concatenate(more) if more else tied
            if not len(tied):
                return label, single
        label = _parts(int(label.max()) + 1, tied)[label]


def _tied(pairs: Ints, weight: Ints, k: int) -> Ints:
    """Give pairs of nodes of a block that no cut below k parts (Gusfield's tree: n − 1 cuts for all pairs)."""
    nodes, at = np.unique(pairs, return_inverse=True)
    at = at.reshape(-1, 2)
    block = _Block(len(nodes), at[:, 0], at[:, 1], weight)
    parent = np.zeros(len(nodes), np.int64)
    state = np.zeros(len(nodes), np.int64)
    tied = []
    for u in range(1, len(nodes)):
        state[u], state[parent[u]] = INSIDE, OUTSIDE
        if block.cut(state, k) >= k:
            tied.append((nodes[u], nodes[parent[u]]))
        else:
            later = np.flatnonzero(block.near & (parent == parent[u]))
            parent[later[later > u]] = u
        state[u] = state[parent[u]] = 0
    return np.array(tied, np.int64).reshape(-1, 2)


def _biconnected(n: int, pairs: Ints) -> list[Ints]:
    """Give the edges of each part that no single node holds together (Tarjan's search, without recursion)."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for edge, (u, v) in enumerate(pairs.tolist()):
        near[u].append((v, edge))
        near[v].append((u, edge))
    number, low = [0] * n, [0] * n
    found: list[Ints] = []
    waiting: list[int] = []
    clock = 0
    for root in range(n):
        if number[root] or not near[root]:
            continue
        clock += 1
        number[root] = low[root] = clock
        path: list[tuple[int, int, Iterator[tuple[int, int]], int]] = [(root, -1, iter(near[root]), 0)]
        while path:
            u, came, rest, _ = path[-1]
            for v, edge in rest:
                if edge == came:
                    continue
                if not number[v]:
                    clock += 1
                    number[v] = low[v] = clock
                    path.append((v, edge, iter(near[v]), len(waiting)))
                    waiting.append(edge)
                    break
                if number[v] < number[u]:
                    waiting.append(edge)
                    low[u] = min(low[u], number[v])
            else:
                _, _, _, first = path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[u])
                    if low[u] >= number[above]:
                        found.append(np.array(waiting[first:], np.int64))
                        del waiting[first:]
    return found


def _listed(block: _Block, k: int, steps: list[int]) -> Iterator[Bools]:
    """Give the inside of every bond below k; node 0 is always outside, and the least inside node comes first."""
    for first in range(1, block.n):
        state = np.zeros(block.n, np.int64)
        state[:first], state[first] = OUTSIDE, INSIDE
        waiting = [state]
        while waiting:
            state = waiting.pop()
            steps[0] -= 1
            if steps[0] <= 0:
                return
            if block.cut(state, k) >= k or not _together(block, state):
                continue
            beside = (state[block.one] == INSIDE) & (state[block.other] == 0)
            across = (state[block.other] == INSIDE) & (state[block.one] == 0)
            front = np.r_[block.other[beside], block.one[across]]
            if not len(front):
                yield state == INSIDE
                continue
            for choice in (OUTSIDE, INSIDE):
                new = state.copy()
                new[front.min()] = choice
                waiting.append(new)


def _together(block: _Block, state: Ints) -> bool:
    """Tell whether all nodes held outside can be joined without the inside (undecided nodes may help)."""
    seen = {0}
    waiting = [0]
    while waiting:
        for v in block.neighbors(waiting.pop()).tolist():
            if state[v] != INSIDE and v not in seen:
                seen.add(v)
                waiting.append(v)
    return all(u in seen for u in np.flatnonzero(state == OUTSIDE).tolist())
