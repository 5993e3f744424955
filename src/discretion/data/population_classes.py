"""How many people of a population belong to each class of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Ints

# A population as a field of a part: the path of a file, or a Dataset in memory.

IN_MEMORY = "(data in memory)"
"""What a report or journal writes in place of a Dataset; a plan with it cannot be run."""


def _accept(value: Any) -> Any:
    value = str(value) if isinstance(value, PurePath) else value
    if isinstance(value, str) and value == IN_MEMORY:
        raise ValueError("this plan was made with data in memory; save that data and give the path")
    if isinstance(value, str | Dataset):
        return value
    if hasattr(value, "columns"):
        return Dataset(value)
    raise ValueError("expected the path of a file, a frame or a Dataset")


def _write(value: Any) -> str:
    return value if isinstance(value, str) else IN_MEMORY


Population = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(_write),
    WithJsonSchema({"type": "string", "description": "path of a file"}),
]
"""A path or a Dataset; only a path can be read back from a plan."""


def load_population(value: Any) -> Dataset:
    """Give the population as a Dataset, reading the file where a path was given."""
    if isinstance(value, Dataset):
        return value
    from discretion.data.read import read

    return read(value)


@dataclass(frozen=True)
class PopulationCounts:
    """People of the population in each class of the data, and the classes that the data does not have."""

    counts: Ints
    others: Ints
    """people in each class of the population that has no record in the data"""
    other_keys: tuple[tuple[str | None, ...], ...]
    """values of the first of those classes (at most 100)"""


def count_population(
    data: Dataset, columns: Sequence[str], classes: Classes, population: Dataset, frequency: str = ""
) -> PopulationCounts:
    """Count the population in each class; its values are generalized to the levels of the data.

    `frequency` names a column of the population that tells how many people each row stands for.
    """
    from discretion.kernels.classes import class_ids

    population.require([*columns, *([frequency] if frequency else [])])
    coded, texts = [], []
    for name in columns:
        ours, theirs, labels = _same_codes(data, population, name)
        coded.append(np.concatenate([ours[classes.first_rows], theirs]))
        texts.append(labels)
    found = class_ids(coded, [len(labels) for labels in texts], len(classes) + len(population))
    of_people = found.ids[len(classes) :]
    people = np.bincount(of_people, _people(population, frequency), len(found.counts)).astype(np.int64)
    others = people[len(classes) :]
    rows = found.first_row[len(classes) :][others > 0][:100]
    keys = tuple(tuple(labels[codes[row]] for codes, labels in zip(coded, texts, strict=True)) for row in rows)
    return PopulationCounts(people[: len(classes)], others[others > 0], keys)


def _people(population: Dataset, frequency: str) -> NDArray[np.float64] | None:
    if not frequency:
        return None
    numbers = population.number(frequency)
    if np.isnan(numbers).any() or (numbers < 0).any() or (numbers % 1 != 0).any():
        raise DataError(f"the frequencies in column {frequency!r} of the population must be whole numbers from 0")
    return numbers


def _same_codes(data: Dataset, population: Dataset, column: str) -> tuple[Ints, Ints, list[str | None]]:
    """Give a column of both as codes of the same labels; missing has a code of its own."""
    ours = [None if value is None else canonical(value) for value in data.codes(column).values]
    theirs = [None if value is None else canonical(value) for value in population.codes(column).values]
    level = _level(data, column)
    if level:
        theirs = _generalize(data, column, level, theirs)
    labels: dict[str | None, int] = {None: 0}
    for text in (*ours, *theirs):
        labels.setdefault(text, len(labels))
    number_ours = np.array([labels[text] for text in ours], dtype=np.int64)
    number_theirs = np.array([labels[text] for text in theirs], dtype=np.int64)
    return number_ours[data.codes(column).codes], number_theirs[population.codes(column).codes], list(labels)


def _level(data: Dataset, column: str) -> int:
    """Give the level of a column's values; values that stand at no level are compared as they are."""
    if data.schema[column].hierarchy is None and column not in data.levels:
        return 0
    try:
        levels = data.cell_levels(column)
    except DataError:
        return 0
    if isinstance(levels, int):
        return levels
    codes = data.codes(column)
    found = np.unique(levels[codes.codes != codes.missing])
    if len(found) > 1:
        raise DataError(
            f"column {column!r} is generalized to {len(found)} levels in different records; a population can be "
            "matched only with one level for the whole column"
        )
    return int(found[0]) if len(found) else 0


def _generalize(data: Dataset, column: str, level: int, texts: list[str | None]) -> list[str | None]:
    """Give the population's values at a level; values that are labels of that level already stay."""
    known = [text for text in texts if text is not None]
    levels = data.hierarchy(column)
    if not all(text in levels.leaf_index for text in known):
        if set(known) <= set(levels.table[level]):
            return texts
        levels = _wider(data, column, level, levels, known)
    label = dict(zip(known, levels.labels(known, level), strict=True))
    return [None if text is None else label[text] for text in texts]


def _wider(data: Dataset, column: str, level: int, levels: HierarchyLevels, known: list[str]) -> HierarchyLevels:
    """Build the hierarchy for the values of both (intervals, masking); the labels of the data must stay the same."""
    recipe = data.origin.schema[column].hierarchy
    if recipe is None:
        return levels
    leaves = list(levels.table[0])
    try:
        wide = recipe.bind([*leaves, *known], column)
    except DataError:
        return levels
    if any(leaf not in wide.leaf_index for leaf in leaves):
        return levels
    if wide.height < level or wide.labels(leaves, level) != list(levels.table[level]):
        raise DataError(
            f"column {column!r}: with the values of the population the hierarchy has other labels at level {level}; "
            "give a hierarchy that lists all values"
        )
    return wide
