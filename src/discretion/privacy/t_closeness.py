"""t-closeness: the secrets of a class are distributed as those of everybody (M3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.classes import ORDERED, TRANSPORT, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import TOLERANCE, SensitiveCounts, SensitiveDomain, SensitiveModel, make_test

# Earth mover's distance between the sensitive values of each class and those of everybody, without a dense matrix.
#
# All three distances look only at the values that occur in a class. Counts are compared as whole numbers, f·N against
# F·n (f of the n records of a class, F of all N), in 64 bits; beyond 2³¹ records in floating point.

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


Distance = Literal["ordered", "equal", "hierarchical"]


class TCloseness(SensitiveModel, kind="t-closeness"):
    """The sensitive values of every class are distributed almost as in the whole table.

    The earth mover's distance between the distribution of a class and that of everybody must be at most t. `ordered`:
    the values of the whole table stand in their order at equal distances (numbers, dates, a declared order); `equal`:
    any two values differ as much; `hierarchical`: two values differ by the level of their lowest common label in the
    column's hierarchy, over its height. All distances lie between 0 and 1.

    Guarantees that finding somebody's class tells little more about the secret than the table as a whole does. Does
    not protect against what the whole table tells, nor against identification: the class may be a single record when
    t is large (ask for k-anonymity too). A class can be close and still let a rare value be ruled out.

    A missing sensitive value counts as a value of its own, after all others and, in a hierarchy, right below the top.
    Exact in 64-bit whole numbers. Time O(n) or O(n log n), memory linear.

    References
    ----------
    Li, Li & Venkatasubramanian (2007), ICDE; catalogue M3.

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.diverse_classes()
    >>> round(dc.TCloseness(t=0.2, distance="ordered")(table).value, 4)
    0.3333
    >>> dc.TCloseness(t=0.5, distance="equal")(table).holds
    True
    """

    t: float = confidential(ge=0, le=1)
    """largest allowed distance between a class and the whole table"""
    distance: Distance = "ordered"
    """how far values are from each other: by their order, all the same, or by the column's hierarchy"""

    bound: ClassVar[str] = "t"
    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a distant class can carry a close one beyond t
    monotone_without_suppression: ClassVar[bool] = True  # the distance is convex: a mixture is at most as far as both

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the distance of each class."""
        if self.distance == "ordered":
            return ordered_distance(counts, sizes)
        if self.distance == "equal":
            return equal_distance(counts, sizes)
        self._require_tree(counts.domain)
        return hierarchical_distance(counts, sizes)

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """All labels below the top (the distance is what is above its share, over the levels), or all cuts."""
        bound = self.t + TOLERANCE
        if self.distance == "ordered":
            return make_test(ORDERED, domain, bound=bound, part=(domain.size - 1) * (1 - bound))
        levels: list[Ints] = []
        if self.distance == "hierarchical":
            self._require_tree(domain)
            levels = [np.unique(labels, return_inverse=True)[1] for labels in domain.parents[:-1]]
        totals = [np.bincount(level, domain.totals).astype(np.int64) for level in levels]
        part = (1 + len(levels)) * (1 - bound)
        return make_test(TRANSPORT, domain, levels=levels, totals=totals, bound=bound, part=part)

    def sensitive_columns(self, data: Dataset) -> tuple[str, ...]:
        """Give the sensitive columns, and refuse those that have no such distance."""
        columns = super().sensitive_columns(data)
        for name in columns:
            if self.distance == "ordered" and not _has_order(data, name):
                raise PlanError(
                    f"{self.kind}: the values of column {name!r} have no order; declare their `order`, "
                    "or use the distance `equal` or `hierarchical`"
                )
            if self.distance == "hierarchical":
                values = [canonical(value) for value in data.codes(name).values if value is not None]
                data.hierarchy(name).rows(values)  # names the values that the hierarchy lacks
        return columns

    def _require_tree(self, domain: SensitiveDomain) -> None:
        if not domain.parents:
            raise PlanError(f"{self.kind}: column {domain.column!r} has no hierarchy for all of its values")
        tops = len(np.unique(domain.parents[-1]))
        if tops > 1:
            raise PlanError(
                f"{self.kind}: the hierarchy of column {domain.column!r} ends in {tops} labels; "
                "the hierarchical distance needs a top level with one label for all values"
            )


def _has_order(data: Dataset, column: str) -> bool:
    return bool(data.schema[column].order) or data.type_of(column) in ("continuous", "ordinal", "date")
