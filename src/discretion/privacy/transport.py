"""Earth mover's distance between the sensitive values of each class and those of everybody, without a dense matrix.

All three distances look only at the values that occur in a class. Counts are compared as whole numbers,
f·N against F·n (f of the n records of a class, F of all N), in 64 bits; beyond 2³¹ records in floating point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from discretion.privacy.class_table import Floats, Ints, SensitiveCounts, SensitiveDomain

_T = TypeVar("_T")

_EXACT = 2**62
"""Products up to this are whole numbers in 64 bits."""
_ADDRESSES = 1 << 22
"""Records up to which the places of all cumulative totals are kept in a table."""


def equal_distance(counts: SensitiveCounts, sizes: Ints) -> Floats:
    """Every value is as far from every other: half the sum of the absolute differences of the shares."""
    domain = counts.domain
    n = domain.records
    number = np.int64 if n * n < _EXACT else np.float64
    excess = counts.counts.astype(number) * n - domain.totals[counts.values] * counts.per_triple(sizes).astype(number)
    above = counts.per_class(np.add, np.maximum(excess, 0))
    return np.asarray(above / (np.maximum(sizes, 1) * float(n)))


def ordered_distance(counts: SensitiveCounts, sizes: Ints) -> Floats:
    """Values stand in a row at equal distances: the sum of the absolute cumulative differences, over m − 1.

    Between two values that occur in a class its cumulative share stands still while that of everybody rises, so that
    the sum over the gap follows from prefix sums and from the place where the two cross.
    """
    domain = counts.domain
    n, m = domain.records, domain.size
    if m < 2:
        return np.zeros(len(sizes))
    exact = n * n * m < _EXACT
    number = np.int64 if exact else np.float64
    cumulative = np.cumsum(domain.totals)
    area = np.concatenate([[0], np.cumsum(cumulative)]).astype(number)
    size = counts.per_triple(sizes)
    running = np.cumsum(counts.counts)
    before = (running - counts.counts)[counts.starts[:-1] % max(len(running), 1)]
    held = running - counts.per_triple(before)
    low = counts.values
    high = np.append(low[1:], m)
    high[counts.starts[1:][counts.distinct > 0] - 1] = m
    wanted = held.astype(number) * n
    crossing = -(-wanted // size) if exact else wanted / size
    cross = np.clip(_first_reaching(domain, cumulative, crossing), low, high)
    gap = wanted * (2 * cross - low - high) + size.astype(number) * (area[low] + area[high] - 2 * area[cross])
    total = counts.per_class(np.add, gap)
    filled = counts.distinct > 0
    total[filled] += sizes[filled].astype(number) * area[low[counts.starts[:-1][filled]]]
    return np.asarray(total / (np.maximum(sizes, 1) * float(n) * (m - 1)))


def _first_reaching(domain: SensitiveDomain, cumulative: Ints, wanted: Ints | Floats) -> Ints:
    """Find the first value whose cumulative total is at least the wanted one."""
    if domain.records > _ADDRESSES or wanted.dtype != np.int64:
        return np.searchsorted(cumulative, wanted)
    places = _kept(domain, "first reaching", lambda: np.searchsorted(cumulative, np.arange(domain.records + 1)))
    return np.asarray(places[wanted])


def _kept(domain: SensitiveDomain, key: str, make: Callable[[], _T]) -> _T:
    """Keep with a domain what a search needs for thousands of tables."""
    store = domain.__dict__
    if key not in store:
        store[key] = make()
    return store[key]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Tree:
    """The hierarchy of a domain: values in an order in which every label's values stand together."""

    place: Ints
    """the place of each value"""
    above: tuple[Ints, ...]
    """for each level from 0, the node one level up of each node (level 0: of each place)"""
    totals: tuple[Ints, ...]
    """for each level from 0, the records of everybody under each node"""


def _build_tree(domain: SensitiveDomain) -> _Tree:
    order = np.lexsort((np.arange(domain.size), *domain.parents))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    below = np.arange(domain.size)  # the node of each place, one level down
    above, totals = [], [domain.totals[order]]
    for labels in domain.parents:
        sorted_labels = labels[order]
        node = np.concatenate([[0], np.cumsum(sorted_labels[1:] != sorted_labels[:-1])])
        up = np.zeros(below[-1] + 1, dtype=np.int64)
        up[below] = node
        above.append(up)
        totals.append(np.bincount(node, domain.totals[order]).astype(np.int64))
        below = node
    return _Tree(place, tuple(above), tuple(totals))


def hierarchical_distance(counts: SensitiveCounts, sizes: Ints) -> Floats:
    """Two values are as far as their lowest common label is high: the sum over labels of what must pass them.

    At a label of level i in a hierarchy of height h, the excess of some children is moved to others that lack it:
    i/h times the smaller of the two sums. Children that do not occur in a class lack all of their share.
    """
    domain = counts.domain
    tree = _kept(domain, "tree", lambda: _build_tree(domain))
    n, height = domain.records, len(domain.parents)
    number = np.int64 if n * n * height < _EXACT else np.float64
    owner, node, held = _in_tree_order(counts, tree.place)
    records = sizes.astype(number)
    moved = np.zeros(len(sizes), dtype=number)
    for level in range(1, height + 1):
        share = tree.totals[level - 1][node]
        excess = held.astype(number) * n - share * records[owner]
        parent = tree.above[level - 1][node]
        begins = _changes(owner, parent)
        above = np.add.reduceat(np.maximum(excess, 0), begins)
        below = np.add.reduceat(np.maximum(-excess, 0), begins)
        present = np.add.reduceat(share, begins)
        held = np.add.reduceat(held, begins)
        owner, node = owner[begins], parent[begins]
        below += (tree.totals[level][node] - present) * records[owner]
        firsts = _changes(owner)
        moved[owner[firsts]] += level * np.add.reduceat(np.minimum(above, below), firsts)
    return np.asarray(moved / (np.maximum(sizes, 1) * float(n) * height))


def _changes(*columns: Ints) -> Ints:
    """Find where a run of equal rows begins."""
    differs = np.zeros(len(columns[0]), dtype=np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


def _in_tree_order(counts: SensitiveCounts, place: Ints) -> tuple[Ints, Ints, Ints]:
    """Sort the triples by class and place: packed into one number each where 63 bits suffice."""
    owner, node, held = counts.class_of, place[counts.values], counts.counts
    if np.array_equal(place, np.arange(len(place))):
        return owner, node, held
    held_bits, node_bits = int(held.max(initial=1)).bit_length(), len(place).bit_length()
    if len(counts.starts).bit_length() + node_bits + held_bits > 62:
        order = np.lexsort((node, owner))
        return owner, node[order], held[order]
    keys = np.sort((((owner << node_bits) | node) << held_bits) | held)
    return owner, (keys >> held_bits) & ((1 << node_bits) - 1), keys & ((1 << held_bits) - 1)
