"""The values of a column as a tree: what two values have in common, and how much detail a common label loses.

Leaves are numbered from left to right, then the labels of level 1, and so on, so that a parent always has a higher
number than its children. Two more nodes come last: missing values, and the root of everything, a hidden cell, which is
what values have in common that share no label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints

CellLoss = Literal["loss", "height", "precision-loss", "entropy"]
"""Losses of the search that add up over the cells; the others look at whole classes."""


@dataclass(frozen=True)
class ValueTree:
    """A column's hierarchy as a tree of numbered nodes."""

    column: str
    parents: Ints
    levels: Ints
    """the level of each node in the hierarchy"""
    losses: Floats
    """what is lost when a value is replaced by each node, the most for a hidden cell"""
    labels: tuple[str | None, ...]
    """what each node is published as; None for missing and hidden"""
    leaves: int
    has_missing: bool
    records: NDArray[np.int32]
    """the leaf (or the missing node) of each record"""

    @property
    def missing(self) -> int:
        """The node of missing values."""
        return len(self.parents) - 2

    @property
    def hidden(self) -> int:
        """The node of hidden cells, above everything."""
        return len(self.parents) - 1

    @property
    def boundary(self) -> NDArray[np.uint8]:
        """For neighboring leaves, how many levels one must climb to find a common label."""
        steps = np.zeros(self.leaves, np.uint8)
        left, right = np.arange(self.leaves - 1), np.arange(1, self.leaves)
        while (apart := left != right).any():
            steps[:-1][apart] += 1
            left, right = self.parents[left], self.parents[right]
        return steps

    @property
    def first_loss(self) -> float:
        """The mean loss when every value is replaced by its lowest label."""
        used, counts = np.unique(self.records, return_counts=True)
        return float(np.average(self.losses[self.parents[used]], weights=counts)) if len(used) else 0.0

    def ancestors(self) -> NDArray[np.int32]:
        """Give each leaf (and the missing node, last) at every level up to what all have in common.

        A row for each level at which values that occur are merged.
        """
        steps = [np.append(np.arange(self.leaves), self.missing)]
        used = np.unique(self.records)
        used = np.where(used == self.missing, self.leaves, used)
        now, groups = steps[-1], len(used)
        while groups > 1:
            above = self.parents[now]
            top = above[:-1].max() == self.hidden
            now = np.where(now == self.missing, self.hidden if top else self.missing, above)
            if (fewer := len(np.unique(now[used]))) < groups:  # a level that merges nothing only loses
                groups = fewer
                steps.append(now)
        return np.array(steps, np.int32)


def value_tree(data: Dataset, column: str, loss: CellLoss = "loss") -> ValueTree:
    """Build the tree of a column; without a hierarchy, its values have nothing in common but a hidden cell."""
    current = data.levels.get(column, 0)
    if not isinstance(current, int):
        raise PlanError(f"column {column!r} was generalized record by record; it cannot be generalized again")
    if data.type_of(column) == "set":
        raise DataError(f"column {column!r} holds sets; generalize their items by km-generalization")
    codes = data.codes(column)
    texts = [None if value is None else canonical(value) for value in codes.values]
    table = _table(data, column, texts, current)
    order = _from_left_to_right(table)
    table = [[row[i] for i in order] for row in table]
    found = number_labels(table, current)
    place = {text: number for number, text in enumerate(found.labels[: found.counts[0]])}
    missing, hidden = len(found.labels), len(found.labels) + 1
    leaf = np.array([missing if text is None else place[text] for text in texts] or [missing], np.int32)
    records = leaf[codes.codes] if len(data) else np.empty(0, np.int32)
    parents = np.array([*(above if above >= 0 else hidden for above in found.parents), hidden, hidden], np.int64)
    return ValueTree(
        column,
        parents,
        np.array([*found.levels, 0, max(found.levels, default=0)], np.int64),
        _bits(parents, records) if loss == "entropy" else _label_losses(data, column, found, loss),
        (*found.labels, None, None),
        found.counts[0],
        codes.missing >= 0,
        records,
    )


def _label_losses(data: Dataset, column: str, found: NumberedLabels, loss: CellLoss) -> Floats:
    """Give what labels lose: the share of the other leaves that they cover, their level, or level over height."""
    if data.origin.schema[column].hierarchy is None:
        size, height = found.counts[0], 1
    else:
        size, height = data.hierarchy(column).size, data.hierarchy(column).height
    if loss == "loss":
        return np.concatenate([(_leaves_below(data, column, found) - 1) / max(size - 1, 1), [0.0, 1.0]])
    unit = 1 if loss == "height" else max(height, 1)
    return np.array([*found.levels, 0, max(height, 1)]) / unit


def _bits(parents: Ints, records: NDArray[np.int32]) -> Floats:
    """Give log2 of the records below each node, as a share of log2 of all.

    The bits that a value v loses below the node are log2(records below) − log2(records with v); the second part is the
    same whatever the release, so that the first alone is to be made small.
    """
    below = np.bincount(records, minlength=len(parents)).astype(np.float64)
    for node in range(len(parents) - 1):  # children have lower numbers than their parents
        below[parents[node]] += below[node]
    found = np.log2(np.maximum(below, 1.0)) / np.log2(max(len(records), 2))
    found[-1] = 1.0
    return np.asarray(found)


def _table(data: Dataset, column: str, texts: Sequence[str | None], current: int) -> list[list[str]]:
    """Give the label of every leaf at every level from the current one up."""
    if data.origin.schema[column].hierarchy is None:
        return [_in_order(data, column)]
    hierarchy = data.hierarchy(column)
    rows = [list(level) for level in hierarchy.table[current:]]
    if current:
        first = list({label: row for row, label in reversed(list(enumerate(rows[0])))}.values())[::-1]
        rows = [[level[row] for row in first] for level in rows]
    else:
        hierarchy.rows([text for text in texts if text is not None])  # names the values that it lacks
    return rows


def _in_order(data: Dataset, column: str) -> list[str]:
    values: list[Any] = [value for value in data.codes(column).values if value is not None]
    declared = {text: place for place, text in enumerate(data.schema[column].order)}
    if not declared and (data.is_numeric(column) or data.type_of(column) == "date"):
        return [canonical(value) for value in sorted(values)]
    texts = [canonical(value) for value in values]
    return sorted(texts, key=lambda text: (declared.get(text, len(declared)), text))


def _from_left_to_right(table: Sequence[Sequence[str]]) -> list[int]:
    """Sort leaves so that those under a label stand together, labels in order of their first row."""
    first = [{label: row for row, label in reversed(list(enumerate(level)))} for level in table]
    keys = [[first[step][level[row]] for step, level in enumerate(table)][::-1] for row in range(len(table[0]))]
    return sorted(range(len(keys)), key=keys.__getitem__)


@dataclass(frozen=True)
class NumberedLabels:
    """The labels of a hierarchy, numbered level by level: parents (−1 at the top), levels, labels on each level."""

    parents: list[int]
    levels: list[int]
    counts: list[int]
    labels: list[str]


def number_labels(table: Sequence[Sequence[str]], lowest: int) -> NumberedLabels:
    """Number the labels of every level in order of first appearance; the first level of the table is `lowest`."""
    found = NumberedLabels([], [], [], [])
    below: list[dict[str, int]] = []
    for step, level in enumerate(table):
        number = {label: len(found.labels) + place for place, label in enumerate(dict.fromkeys(level))}
        below.append(number)
        found.labels.extend(number)
        found.levels.extend([lowest + step] * len(number))
        found.counts.append(len(number))
        found.parents.extend([-1] * len(number))
    for step, (lower, upper) in enumerate(pairwise(table)):
        for child, above in zip(lower, upper, strict=True):
            found.parents[below[step][child]] = below[step + 1][above]
    return found


def _leaves_below(data: Dataset, column: str, found: NumberedLabels) -> Floats:
    if data.origin.schema[column].hierarchy is None:
        return np.ones(found.counts[0])
    hierarchy = data.hierarchy(column)
    under = [hierarchy.leaves_under(level) for level in range(hierarchy.height + 1)]
    return np.array([under[level][label] for label, level in zip(found.labels, found.levels, strict=True)], np.float64)
