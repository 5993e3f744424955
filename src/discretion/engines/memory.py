"""The engine for data in memory: polars frames and numpy arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
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


def _variance(x: Floats, mean: float) -> float:
    """Give the variance (1/N) in blocks that stay in the processor's cache."""
    total = 0.0
    for start in range(0, len(x), 65_536):
        centered = x[start : start + 65_536] - mean
        centered *= centered
        total += float(centered.sum())
    return total / len(x)


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
        x = data.numbers(columns)
        if any(data.count_missing(name) for name in columns):
            x = x[~np.isnan(x).any(axis=1)]
        if len(x) < 2:
            raise DataError(f"columns {', '.join(columns)}: fewer than two complete records")
        mean = x.mean(axis=0)
        if x.shape[1] == 1:
            return Moments(len(x), mean, np.array([[_variance(x[:, 0], mean[0])]]))
        return Moments(len(x), mean, np.cov(x, rowvar=False, bias=True))

    def quantiles(self, data: Dataset, column: str, shares: Sequence[float]) -> Floats:
        """Give quantiles of the values present (linear interpolation)."""
        x = data.number(column)
        x = x[~np.isnan(x)]
        if not len(x):
            raise DataError(f"column {column!r} has no values")
        return np.asarray(np.quantile(x, np.asarray(shares)))

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
