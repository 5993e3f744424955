"""The engine for data in memory: polars frames and numpy arrays."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.codes import Classes
from discretion.data.dataset import Dataset, Piece
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    from discretion.context import Context

Rows = Ints
RowKernel = Callable[[Floats, np.random.Generator], Floats]
"""From a block of rows × columns to the block that replaces it; missing values are NaN."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and covariance (1/N) of some columns over their complete records."""

    count: int
    mean: Floats
    covariance: Floats

    @property
    def sd(self) -> Floats:
        """Standard deviations with N−1."""
        return np.sqrt(np.diag(self.covariance) * self.count / (self.count - 1))


@dataclass(frozen=True)
class _Sums:
    """Adds up the complete records of a batch: their number and values, or their products about means."""

    columns: tuple[str, ...]
    about: tuple[float, ...] | None = None

    def __call__(self, piece: Piece) -> tuple[int, list[float]]:
        arrays = [piece.number(name) for name in self.columns]
        missing = np.any([np.isnan(x) for x in arrays], axis=0)
        if missing.any():
            arrays = [x[~missing] for x in arrays]
        if self.about is None:
            return len(arrays[0]), [float(x.sum()) for x in arrays]
        centered = [x - mean for x, mean in zip(arrays, self.about, strict=True)]
        places = range(len(centered))
        return len(arrays[0]), [float((centered[i] * centered[j]).sum()) for i in places for j in places[i:]]


def _added(data: Dataset, columns: Sequence[str], look: _Sums) -> tuple[int, list[float]]:
    """Add the sums of all batches exactly, then round: the same wherever, and in whatever order, they were made."""
    found = data.each_batch(columns, look)
    each = zip(*(sums for _, sums in found), strict=True)
    return sum(count for count, _ in found), [math.fsum(sums) for sums in each]


def _group_name(key: Mapping[str, str | None]) -> str:
    """Name a group so that no other has the name: values that could be misread are quoted, a missing one is not."""
    return ", ".join(f"{name}={'(missing)' if value is None else _quoted(value)}" for name, value in key.items())


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w .+-]+", value) else json.dumps(value, ensure_ascii=False)


class MemoryEngine:
    """The verbs of an engine on data in memory. Methods use these and need no change for another engine."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def counts(self, data: Dataset, columns: Sequence[str]) -> Classes:
        """Count the records of each combination of values."""
        return data.classes(columns)

    def moments(self, data: Dataset, columns: Sequence[str]) -> Moments:
        """Summarize numeric columns: over the values present for one column, over complete records for several."""
        columns = tuple(columns)
        count, sums = _added(data, columns, _Sums(columns))
        if count < 2:
            raise DataError(f"columns {', '.join(columns)}: fewer than two complete records")
        mean = np.array(sums) / count
        _, products = _added(data, columns, _Sums(columns, tuple(mean.tolist())))
        covariance = np.empty((len(columns), len(columns)))
        upper = np.triu_indices(len(columns))
        covariance[upper] = np.array(products) / count
        covariance.T[upper] = covariance[upper]
        return Moments(count, mean, covariance)

    def mean(self, data: Dataset, column: str) -> float:
        """Give the mean of the values present."""
        count, (total,) = _added(data, [column], _Sums((column,)))
        return total / count

    def quantiles(self, data: Dataset, column: str, shares: Sequence[float]) -> Floats:
        """Give quantiles of the values present (linear interpolation)."""
        return data.quantiles(column, shares)

    def map_rows(self, data: Dataset, columns: Sequence[str], kernel: RowKernel, *, integers: bool = False) -> Dataset:
        """Rewrite numeric columns block by block, each block with its own generator."""
        arrays = [data.number(name) for name in columns]
        out = [np.empty(len(data)) for _ in columns]
        for batch in self._ctx.batches(len(data)):
            rows = slice(batch.start, batch.stop)
            block = arrays[0][rows, None] if len(arrays) == 1 else np.column_stack([a[rows] for a in arrays])
            for place, values in zip(out, kernel(block, batch.rng).T, strict=True):
                place[rows] = values
        return data.with_columns(dict(zip(columns, out, strict=True)), integers=integers)

    def groups(self, data: Dataset, by: Sequence[str]) -> Iterator[tuple[str, Rows]]:
        """Yield the name and the rows of each group, in order of name (row order never matters)."""
        classes = data.classes(by)
        order = np.argsort(classes.ids, kind="stable")
        parts = np.split(order, np.cumsum(classes.counts)[:-1])
        named = [(_group_name(data.class_key(by, rows[0])), rows) for rows in parts if len(rows)]
        yield from sorted(named, key=lambda item: item[0])

    def map_groups(
        self, data: Dataset, by: Sequence[str], rewrite: Callable[[str, Dataset, Context], Dataset]
    ) -> Dataset:
        """Rewrite each group of rows on its own and put the rows back in their order."""
        groups = list(self.groups(data, by))
        results = []
        for number, (key, rows) in enumerate(groups):
            self._ctx.progress(number, len(groups), self._ctx.step)
            results.append(rewrite(key, data.take(rows), self._ctx.within(key)))
        self._ctx.progress(len(groups), len(groups), self._ctx.step)
        return Dataset.stack(results, like=data)

    def collect(self, data: Dataset) -> Any:
        """Give the finished data in the frame library it came in."""
        return data.to_native()
