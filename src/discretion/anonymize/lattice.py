"""The lattice of generalizations: the levels each column may take, and the records compressed for it.

A node of the lattice names a level for every column. Inside the search a level counts from the lowest one allowed
(a *step*), so that step 0 of every column is the data as it goes into the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.errors import PlanError
from discretion.kernels.arrays import Ints

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
