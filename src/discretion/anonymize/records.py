"""Records compressed to their distinct combinations, and the classes of any node rolled up from them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from discretion.data.codes import add_counts
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.errors import PlanError
from discretion.kernels.arrays import Ints, Keys
from discretion.kernels.classes import class_ids
from discretion.kernels.rollup import Room, add_rows, merge
from discretion.privacy.class_table import SensitiveDomain, sensitive_domain

Bounds = tuple[int | None, int | None]
"""The lowest and the highest level of a column; None where there is no bound."""


@dataclass(frozen=True)
class Axis:
    """One column of the lattice: what its values become, step by step."""

    column: str
    low: int
    """the level of step 0"""
    height: int
    """the highest level of the hierarchy"""
    domain: int
    """the number of leaves of the hierarchy; without one, the number of values"""
    groups: tuple[Ints, ...]
    """at each step, the group of each value of step 0"""
    leaves: tuple[Ints, ...]
    """at each step, the leaves below each group; 1 for a missing value, which stays what it is"""
    bits: float = 0.0
    """what the records lose from the data as it came to step 0: −Σ_v n_v·log2(n_v / n_group(v)) over its values v"""

    @property
    def steps(self) -> int:
        """The number of levels allowed."""
        return len(self.groups)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of groups at each step."""
        return tuple(len(leaves) for leaves in self.leaves)

    @cached_property
    def up(self) -> tuple[Ints, ...]:
        """From each step to the next: the group that each group becomes part of."""
        result = []
        for below, above, size in zip(self.groups, self.groups[1:], self.sizes, strict=False):
            parent = np.zeros(size, np.int64)
            parent[below] = above
            result.append(parent)
        return tuple(result)


@dataclass(frozen=True)
class Coded:
    """An axis with the group (at step 0) of each record of the data and of each population."""

    axis: Axis
    codes: tuple[NDArray[np.int32], ...]


def code_column(data: Dataset, name: str, bounds: Bounds, populations: Sequence[Dataset] = ()) -> Coded:
    """Work out the axis of a column and code the records of the data and of the populations by it."""
    current = data.levels.get(name, 0)
    if not isinstance(current, int):
        raise PlanError(f"column {name!r} was generalized record by record; a search needs one level for the column")
    tables = (data, *populations)
    texts = [_texts(table, name) for table in tables]
    known = list(dict.fromkeys(text for table in texts for text in table if text is not None))
    labels, hierarchy = _labels(data, name, known, current, rebind=bool(populations))
    low, high = _allowed(name, bounds, current, len(labels) - 1, has_hierarchy=hierarchy is not None)
    missing = any(None in table for table in texts)
    axis = _axis(name, labels[low - current : high - current + 1], low, hierarchy, missing)
    place = dict(zip(known, axis.groups[0].tolist(), strict=False))  # a missing value has the last code
    codes = []
    for table, own in zip(tables, texts, strict=True):
        lookup = np.array([axis.sizes[0] - 1 if text is None else place[text] for text in own], np.int32)
        codes.append(lookup[table.codes(name).codes] if len(table) else np.empty(0, np.int32))
    return Coded(replace(_by_group(axis), bits=_bits(data, name, texts[0], known, axis.groups[0])), tuple(codes))


def _bits(data: Dataset, name: str, texts: Sequence[str | None], known: Sequence[str], groups: Ints) -> float:
    """Give the bits that the records lose when their values become the groups of step 0; missing ones lose none."""
    place = dict(zip(known, range(len(known)), strict=True))
    places = np.array([len(known) if text is None else place[text] for text in texts], np.int64)
    values = np.bincount(places[data.codes(name).codes], minlength=len(known))[: len(known)]
    occurring, groups = values[values > 0], groups[: len(known)][values > 0]
    return -float((occurring * np.log2(occurring / np.bincount(groups, occurring)[groups])).sum())


def _texts(data: Dataset, name: str) -> list[str | None]:
    """Give the text of each code that occurs; codes that do not occur stand for the first that does."""
    data.require([name])
    codes = data.codes(name)
    filler = "" if not len(data) else None
    texts: list[str | None] = []
    for code, (value, row) in enumerate(zip(codes.values, codes.first_rows.tolist(), strict=True)):
        texts.append(None if value is None else canonical(value))
        if row >= 0 and code != codes.missing and filler is None:
            filler = texts[-1]
    unused = [code for code, row in enumerate(codes.first_rows.tolist()) if row < 0]
    for code in unused:
        texts[code] = filler
    return texts


def _labels(
    data: Dataset, name: str, known: Sequence[str], current: int, *, rebind: bool
) -> tuple[list[list[str]], HierarchyLevels | None]:
    """Give the label of each value at every level from the current one up, and the hierarchy."""
    recipe = data.origin.schema[name].hierarchy
    if recipe is None:
        return [list(known)], None
    hierarchy = data.hierarchy(name)
    if current:
        upper = [dict(zip(hierarchy.table[current], column, strict=True)) for column in hierarchy.table[current:]]
        return [[column[text] for text in known] for column in upper], hierarchy
    bound = hierarchy
    if rebind and any(text not in hierarchy.leaf_index for text in known):
        bound = recipe.bind([*hierarchy.table[0], *known], name)
    rows = bound.rows(known).tolist()
    return [[column[row] for row in rows] for column in bound.table], hierarchy


def _allowed(name: str, bounds: Bounds, current: int, steps: int, *, has_hierarchy: bool) -> tuple[int, int]:
    """Check the bounds of a column and give its lowest and highest level."""
    top = current + steps
    low = current if bounds[0] is None else bounds[0]
    high = top if bounds[1] is None else bounds[1]
    if not has_hierarchy and (low, high) != (0, 0) and bounds != (None, None):
        raise PlanError(f"levels: column {name!r} has no hierarchy, so that it has level 0 only")
    if not current <= low <= high <= top:
        raise PlanError(
            f"levels: the bounds {low} to {high} of column {name!r} do not fit; it has the levels {current} to {top}"
        )
    return low, high


def _axis(name: str, labels: list[list[str]], low: int, hierarchy: HierarchyLevels | None, missing: bool) -> Axis:
    """Number the labels of each level in order of first appearance; a missing value comes last."""
    groups, leaves = [], []
    for step, column in enumerate(labels):
        number: dict[str, int] = {}
        for label in column:
            number.setdefault(label, len(number))
        below = hierarchy.leaves_under(low + step) if hierarchy else {}
        counts = [below.get(label, 1) for label in number]
        own = [number[label] for label in column]
        if missing:
            own.append(len(counts))
            counts.append(1)
        groups.append(np.array(own, np.int64))
        leaves.append(np.array(counts, np.int64))
    height = hierarchy.height if hierarchy else 0
    domain = hierarchy.size if hierarchy else max(len(labels[0]), 1)
    return Axis(name, low, height, domain, tuple(groups), tuple(leaves))


def _by_group(axis: Axis) -> Axis:
    """Let the groups of every step be those of the groups of step 0, instead of those of single values."""
    first = np.zeros(axis.sizes[0], np.int64)
    first[axis.groups[0][::-1]] = np.arange(len(axis.groups[0]) - 1, -1, -1)
    groups = tuple(group[first] for group in axis.groups)
    return replace(axis, groups=groups)


def check_bounds(levels: Mapping[str, Bounds], columns: Sequence[str]) -> None:
    """Refuse bounds for columns that are not part of the search."""
    for name in levels:
        if name not in columns:
            raise PlanError(f"levels: {name!r} is not among the columns of the search ({', '.join(columns)})")


Steps = tuple[int, ...]

_KEPT = 24_000_000
"""Words of hubs that are kept for re-use: six for a class, one for each sensitive value."""
_VALUES = 256
_CELLS = 1 << 24
"""Sensitive values, and values × combinations, up to which their counts are a dense table."""


@dataclass(frozen=True)
class SensitiveEntries:
    """The values of a sensitive column: how often each occurs with each combination."""

    domain: SensitiveDomain
    combination: Ints
    values: Ints
    counts: Ints


@dataclass(frozen=True)
class NodeClasses:
    """The classes of a node: packed values and records of each."""

    keys: Keys
    counts: Ints
    table: NDArray[np.int32] | None = None
    """the records of each class with each sensitive value, where hubs have them"""

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class SearchRecords:
    """The distinct combinations of values over the columns of a lattice, with the records of each.

    Combinations that only a population has are there too, with 0 records.
    """

    axes: tuple[Axis, ...]
    codes: NDArray[np.int32]
    """the code of each combination, a row per axis"""
    counts: Ints
    rows: NDArray[np.int32]
    """the combination of each record (of each row, where rows stand for several)"""
    sensitive: Mapping[str, SensitiveEntries] = field(default_factory=lambda: MappingProxyType({}))
    population: Mapping[str, Ints] = field(default_factory=lambda: MappingProxyType({}))
    units: tuple[tuple[Ints, Ints], ...] = ()
    """for each kind of unit that counts, the combinations and units that occur together, each pair once"""
    summarized: Mapping[str, SensitiveEntries] = field(default_factory=lambda: MappingProxyType({}))
    """columns outside the lattice whose values are summarized inside the classes"""
    row_counts: Ints | None = None
    """how many records each row stands for; None where each is one"""

    @cached_property
    def n(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @cached_property
    def shape(self) -> Steps:
        """The number of steps of each axis."""
        return tuple(axis.steps for axis in self.axes)

    @cached_property
    def nodes(self) -> int:
        """The number of nodes of the lattice."""
        product = 1
        for steps in self.shape:
            product *= steps
        return product

    def levels(self, steps: Sequence[int]) -> dict[str, int]:
        """Give the level of each column at a node."""
        return {axis.column: axis.low + int(step) for axis, step in zip(self.axes, steps, strict=True)}

    @cached_property
    def marginals(self) -> tuple[tuple[Ints, ...], ...]:
        """For each axis and step, the records of each group."""
        result = []
        for axis, codes in zip(self.axes, self.codes, strict=True):
            own = np.bincount(codes, weights=self.counts, minlength=axis.sizes[0]).astype(np.int64)
            result.append(
                tuple(
                    np.bincount(group, weights=own, minlength=size).astype(np.int64)
                    for group, size in zip(axis.groups, axis.sizes, strict=True)
                )
            )
        return tuple(result)


def compress(
    data: Dataset,
    columns: Sequence[str],
    bounds: Mapping[str, Bounds],
    sensitive: Sequence[str] = (),
    populations: Mapping[str, tuple[Dataset, str]] | None = None,
    units: Sequence[Ints] = (),
    summarized: Sequence[str] = (),
) -> SearchRecords:
    """Code the columns, and count the records of each combination. Time O(n·columns).

    A population may have a column that tells how many people each of its rows stands for; `units` numbers the
    household (or another unit) of each record.
    """
    if units or summarized:
        data.require_rows("households, units and summaries inside classes")
    others = populations or {}
    tables = [table for table, _ in others.values()]
    coded = [code_column(data, name, bounds.get(name, (None, None)), tables) for name in columns]
    axes = tuple(one.axis for one in coded)
    parts = [len(data), *(len(table) for table in tables)]
    stacked = [one.codes[0] if not others else np.concatenate(one.codes) for one in coded]
    found = class_ids(stacked, [axis.sizes[0] for axis in axes], sum(parts))
    size = len(found.counts)
    rows = found.ids[: len(data)]
    counts = found.counts if not others and data.counts is None else add_counts(rows, data.counts, size)
    ends = np.cumsum(parts)
    within = {
        name: np.bincount(found.ids[start:stop], _people(table, frequency), minlength=size).astype(np.int64)
        for (name, (table, frequency)), start, stop in zip(others.items(), ends[:-1], ends[1:], strict=True)
    }
    codes = np.empty((len(axes), size), np.int32)
    for place, column in enumerate(stacked):
        codes[place] = column[found.first_row]
    entries, inside = (
        MappingProxyType({name: _entries(data, name, rows, size) for name in names})
        for names in (sensitive, summarized)
    )
    together = tuple(_pairs(rows, of, size) for of in units)
    return SearchRecords(axes, codes, counts, rows, entries, MappingProxyType(within), together, inside, data.counts)


def _pairs(rows: NDArray[np.int32], units: Ints, size: int) -> tuple[Ints, Ints]:
    first = class_ids([rows, units], [size, int(units.max(initial=0)) + 1], len(rows)).first_row
    return rows[first].astype(np.int64), units[first]


def _people(population: Dataset, frequency: str) -> NDArray[np.float64] | None:
    return population.number(frequency) if frequency else None


def _entries(data: Dataset, name: str, rows: NDArray[np.int32], size: int) -> SensitiveEntries:
    domain, values = sensitive_domain(data, name)
    pairs = class_ids([rows, values], [size, domain.size], len(data))
    first = pairs.first_row
    counts = pairs.counts if data.counts is None else add_counts(pairs.ids, data.counts, len(first))
    return SensitiveEntries(domain, rows[first].astype(np.int64), values[first].astype(np.int64), counts)


class RollUp:
    """Gives the classes of any node, from the records or from a less general node that is already there.

    Nodes that differ only in their last columns share a *hub*, which has the levels of the first columns (those with
    most values) and the rest as in the data. Hubs are kept as long as memory allows.
    """

    def __init__(self, records: SearchRecords) -> None:
        self.records = records
        self._fields, words = _fields(records.axes)
        self._taken = [(word, mask << shift) for word, shift, mask, _ in self._fields.tolist()]
        """the word of each column's field, and the bits it takes there"""
        self._keys = _packed(records.codes, self._fields, words)
        self._offsets, self._tables = _tables(records.axes, self._fields)
        order = np.argsort([-axis.sizes[0] for axis in records.axes], kind="stable")
        third = -(-len(order) // 3)
        self._tiers = [frozenset(order[:third].tolist()), frozenset(order[: 2 * third].tolist())]
        self._hubs: OrderedDict[Steps, NodeClasses] = OrderedDict()
        self._kept = 0
        self.base = NodeClasses(self._keys, records.counts, _value_table(records))
        """the distinct combinations of the records themselves"""
        self._room = Room(len(self._keys), words, 0 if self.base.table is None else self.base.table.shape[1])

    def classes(self, steps: Steps) -> NodeClasses:
        """Give the classes of a node."""
        source, origin = self._source(steps)
        return self._merged(source, origin, steps)[0]

    def from_hub(self, steps: Steps) -> tuple[NodeClasses, NodeClasses, NDArray[np.int32]]:
        """Give the classes of a node, those of the hub they were made from, and the class of each of these.

        What is given stands where that of the next call will stand.
        """
        source, origin = self._source(steps)
        made, numbers = self._merged(source, origin, steps, self._room)
        return made, source, numbers

    def count_values(self, hub: NodeClasses, numbers: NDArray[np.int32], wanted: Ints) -> NDArray[np.int32] | None:
        """Count the sensitive values of the wanted classes that `from_hub` gave last; None: hubs have no counts."""
        if hub.table is None:
            return None
        result = self._room.table[: len(wanted)]
        add_rows(hub.table, numbers, wanted, result)
        return result

    def _source(self, steps: Steps) -> tuple[NodeClasses, Steps]:
        origin: Steps = (0,) * len(steps)
        source = self.base
        for tier in self._tiers:
            hub = tuple(step if place in tier else 0 for place, step in enumerate(steps))
            if hub == steps:
                break
            if hub != origin:
                source, origin = self._hub(hub, source, origin), hub
        return source, origin

    def numbered(self, steps: Steps) -> tuple[NodeClasses, NDArray[np.int32]]:
        """Give the classes of a node, and the class of each combination."""
        return self._merged(self.base, (0,) * len(steps), steps)

    def fields(self, steps: Steps) -> tuple[Ints, int]:
        """Say where the value of each column stands in a key, each with a place of its own in a table of all values."""
        sizes = [axis.sizes[step] for axis, step in zip(self.records.axes, steps, strict=True)]
        return self.fields_at([sum(sizes[:place]) for place in range(len(sizes))]), sum(sizes)

    def fields_at(self, starts: Sequence[int]) -> Ints:
        """Say where the value of each column stands in a key, and where those of a column begin in a table."""
        fields = self._fields.copy()
        fields[:, 3] = starts
        return fields

    def values(self, classes: NodeClasses) -> list[Ints]:
        """Give the group of each class, column by column."""
        return [
            ((classes.keys[:, word] >> np.uint64(shift)) & np.uint64(mask)).astype(np.int64)
            for word, shift, mask, _ in self._fields.tolist()
        ]

    def _hub(self, hub: Steps, source: NodeClasses, origin: Steps) -> NodeClasses:
        if hub in self._hubs:
            self._hubs.move_to_end(hub)
            return self._hubs[hub]
        made, numbers = self._merged(source, origin, hub, self._room)
        table: NDArray[np.int32] | None = None
        if source.table is not None:
            table = np.empty((len(made), source.table.shape[1]), np.int32)
            add_rows(source.table, numbers, np.ones_like(made.counts), table)
        made = self._hubs[hub] = NodeClasses(made.keys.copy(), made.counts.copy(), table)
        self._kept += self._words(made)
        while self._kept > _KEPT and len(self._hubs) > 1:
            self._kept -= self._words(self._hubs.popitem(last=False)[1])
        return made

    @staticmethod
    def _words(hub: NodeClasses) -> int:
        return 6 * len(hub) + (0 if hub.table is None else hub.table.size)

    def _merged(
        self, source: NodeClasses, origin: Steps, steps: Steps, room: Room | None = None
    ) -> tuple[NodeClasses, NDArray[np.int32]]:
        changed = [place for place, (old, new) in enumerate(zip(origin, steps, strict=True)) if old != new]
        keep = [(1 << 64) - 1] * self._keys.shape[1]
        moves = self._fields[changed]
        offsets = []
        for place in changed:
            offsets.append(self._offsets[place, origin[place], steps[place]])
            word, taken = self._taken[place]
            keep[word] &= ~taken
        moves[:, 3] = offsets
        masks = np.array(keep, np.uint64)
        keys, counts, numbers = merge(source.keys, source.counts, masks, moves, self._tables, room)
        return NodeClasses(keys, counts), numbers


def _value_table(records: SearchRecords) -> NDArray[np.int32] | None:
    """Count the sensitive values of each combination, column by column, where there are not too many."""
    columns = list(records.sensitive.values())
    width = sum(entries.domain.size for entries in columns)
    if not 0 < width <= _VALUES or width * len(records.counts) > _CELLS:
        return None
    table = np.zeros((len(records.counts), width), np.int32)
    first = 0
    for entries in columns:
        table[entries.combination, first + entries.values] = entries.counts
        first += entries.domain.size
    return table


def _fields(axes: Sequence[Axis]) -> tuple[Ints, int]:
    """Give each column a field of bits: (word, shift, mask, 0); a field does not straddle words."""
    fields = np.zeros((len(axes), 4), np.int64)
    word, used = 0, 0
    for place, axis in enumerate(axes):
        bits = max(1, (axis.sizes[0] - 1).bit_length())
        if used + bits > 64:
            word, used = word + 1, 0
        fields[place, :3] = word, used, (1 << bits) - 1
        used += bits
    return fields, word + 1


def _packed(codes: NDArray[np.int32], fields: Ints, words: int) -> Keys:
    keys = np.zeros((codes.shape[1], words), np.uint64)
    for column, (word, shift, _, _) in zip(codes, fields.tolist(), strict=True):
        keys[:, word] |= column.astype(np.uint64) << np.uint64(shift)
    return keys


def _tables(axes: Sequence[Axis], fields: Ints) -> tuple[Mapping[tuple[int, int, int], int], Keys]:
    """For each column and pair of steps, the groups of the lower step as those of the higher one, in their place."""
    offsets: dict[tuple[int, int, int], int] = {}
    tables: list[Keys] = []
    used = 0
    for place, axis in enumerate(axes):
        shift = np.uint64(fields[place, 1])
        for low in range(axis.steps):
            parent = np.arange(axis.sizes[low])
            for high in range(low + 1, axis.steps):
                parent = axis.up[high - 1][parent]
                offsets[place, low, high] = used
                tables.append(parent.astype(np.uint64) << shift)
                used += len(parent)
    return offsets, np.concatenate(tables) if tables else np.zeros(1, np.uint64)
