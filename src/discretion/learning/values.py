"""Columns as the matrix that a model is fitted to, and which of them are its features, its target and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values, merge, sd_of

# Numbers stay as they are; missing ones are filled by the median of the training rows when a model is fitted and are
# marked in a column of their own. Categories become one 0/1 column each, missing among them; ordered categories, and
# categories of more than `MOST_LEVELS` values, become one column of ranks.

MOST_LEVELS = 64
"""Categories of a column that get a 0/1 column each; with more, the matrix would outgrow the data."""


@dataclass(frozen=True)
class Design:
    """Rows as numbers: `names` of the matrix columns, the data column each comes from, and which are 0/1."""

    x: Floats
    names: tuple[str, ...]
    sources: tuple[str, ...]
    indicators: Bools

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.integer]) -> Design:
        """Give some rows."""
        return Design(self.x[rows], self.names, self.sources, self.indicators)

    def only(self, columns: Sequence[str]) -> Design:
        """Give the design of some of the data columns."""
        kept = np.array([source in columns for source in self.sources], dtype=np.bool_)
        places = np.flatnonzero(kept)
        return Design(
            self.x[:, kept],
            tuple(self.names[place] for place in places),
            tuple(self.sources[place] for place in places),
            self.indicators[kept],
        )

    def scaled(self, like: Design) -> Floats:
        """Give complete rows in which columns count alike: numbers by the spread of `like`, categories as 1."""
        medians = medians_of(like.x)
        sd = np.array([sd_of(column) for column in like.x.T]) if len(like.names) else np.ones(0)
        scale = np.where(self.indicators, np.sqrt(2.0), sd)
        return (filled(self.x, medians) - medians) / scale


def medians_of(x: Floats) -> Floats:
    """Give the median of each column's values, 0 for a column without any."""
    return np.array([float(np.median(c[~np.isnan(c)])) if (~np.isnan(c)).any() else 0.0 for c in x.T])


def filled(x: Floats, medians: Floats) -> Floats:
    """Put medians in place of missing values."""
    absent = np.isnan(x)
    return np.where(absent, medians, x) if absent.any() else x


def encode(readings: Sequence[Mapping[str, Values]]) -> list[Design]:
    """Encode several readings of the same columns alike, so that a model fitted to one can be asked about another."""
    blocks: list[list[Floats]] = [[] for _ in readings]
    names: list[str] = []
    sources: list[str] = []
    indicators: list[bool] = []
    for column in readings[0]:
        parts, titles, flags = _encode_column(column, [reading[column] for reading in readings])
        for place, part in enumerate(parts):
            blocks[place].append(part)
        names += titles
        sources += [column] * len(titles)
        indicators += flags
    flags_array = np.array(indicators, dtype=np.bool_)
    return [Design(np.hstack(block), tuple(names), tuple(sources), flags_array) for block in blocks]


def _encode_column(column: str, parts: Sequence[Values]) -> tuple[list[Floats], list[str], list[bool]]:
    labels = [part for part in parts if isinstance(part, Labels)]
    if labels and len(labels) < len(parts):
        raise DataError(f"column {column!r} is a number in one data set and a category in the other")
    if labels:
        labels = merge(labels)
        if not labels[0].ordered and len(labels[0].names) <= MOST_LEVELS:
            levels = [*range(len(labels[0].names)), *([-1] if any((part.codes < 0).any() for part in labels) else [])]
            titles = [f"{column} = {'(missing)' if level < 0 else labels[0].names[level]}" for level in levels]
            return (
                [np.asarray(part.codes[:, None] == np.array(levels)[None, :], dtype=np.float64) for part in labels],
                titles,
                [True] * len(levels),
            )
        return _ranks(column, [np.where(part.codes < 0, np.nan, part.codes.astype(np.float64)) for part in labels])
    return _ranks(column, [part.values for part in parts if isinstance(part, Numbers)])


def _ranks(column: str, parts: Sequence[Floats]) -> tuple[list[Floats], list[str], list[bool]]:
    if not any(np.isnan(part).any() for part in parts):
        return [part.reshape(-1, 1) for part in parts], [column], [False]
    stacked = [np.column_stack([part, np.isnan(part).astype(np.float64)]) for part in parts]
    return stacked, [column, f"{column} = (missing)"], [False, True]


def choose_target(data: Dataset, named: str, who: str) -> str:
    """Give the column to predict: the named one, or the only sensitive one."""
    if named:
        data.require([named])
        return named
    sensitive = data.having("sensitive")
    if len(sensitive) == 1:
        return sensitive[0]
    listed = f" (sensitive: {', '.join(sensitive)})" if sensitive else ""
    raise PlanError(f"{who}: give `target`, the column to predict{listed}")


def choose_features(
    original: Dataset, released: Dataset, named: Sequence[str], target: str, *, who: str, quasi: bool
) -> tuple[str, ...]:
    """Give the columns to predict from: the named ones, or those of the roles that both data sets have."""
    if target in named:
        raise PlanError(f"{who}: {target!r} is the target and cannot be a feature")
    if named:
        original.require(named)
        released.require(named)
        if len(set(named)) < len(named):
            raise PlanError(f"{who}: a feature is named twice")
        return tuple(named)
    chosen = original.choose((), "classes" if quasi else "compare")
    single = [name for name in chosen if name in released.columns and name != target and not _is_set(original, name)]
    if not single:
        raise PlanError(f"{who}: no column is left to predict from; give `features`")
    return tuple(single)


def _is_set(data: Dataset, column: str) -> bool:
    import polars as pl

    return isinstance(data.frame.schema[column], pl.List | pl.Array)


def weights_of(data: Dataset, who: str) -> Floats | None:
    """Give the weights of the rows, where a column has that role."""
    named = data.having("weight")
    if not named:
        return None
    if len(named) > 1:
        raise DataError(f"{who}: several weight columns ({', '.join(named)})")
    weights = data.number(named[0])
    if np.isnan(weights).any() or (weights < 0).any() or not weights.sum() > 0:
        raise DataError(
            f"{who}: the weights in column {named[0]!r} must be numbers of at least 0, not all 0, none missing"
        )
    return weights


def content_order(columns: Sequence[Values]) -> Ints:
    """Order rows by what they hold: the same records give the same order however the file is sorted."""
    keys = [column.values if isinstance(column, Numbers) else column.codes for column in columns]
    return np.lexsort(keys[::-1]).astype(np.int64)
