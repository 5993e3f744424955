"""The engine for data in memory: polars frames and numpy arrays."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.data.codes import Classes
from discretion.data.dataset import Dataset, Piece
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    from discretion.context import Context

BLOCK_ROWS = 1 << 17
"""Records of a block at most."""


@dataclass(frozen=True)
class Blocked:
    """What was made block by block, and what the borders between blocks cost."""

    data: Dataset
    blocks: int
    extra_loss: float | None
    """by how much the squared error of two neighboring blocks is larger than without the border between them; None
    where nothing can be measured"""


def in_blocks(
    data: Dataset, columns: Sequence[str], fewest: int, rewrite: Callable[[Dataset, Context], Dataset], ctx: Context
) -> Blocked:
    """Rewrite blocks of similar records one by one: what holds in each of them for its groups holds for the whole.

    `fewest`: the records that a block needs, for groups of that size. Up to `BLOCK_ROWS` records are one block, which
    is rewritten as they would be in memory.
    """
    most = max(BLOCK_ROWS, 4 * fewest)
    if len(data) <= most:
        return Blocked(rewrite(data, ctx), 1, None)
    values = [_numbers(data, name) for name in columns]
    parts, first, done = [], [], 0
    for number, rows in enumerate(similar(values, most)):
        ctx.progress(done, len(data), f"{ctx.step}: block {number + 1}")
        parts.append(rewrite(data.take(rows), ctx.within(f"block {number + 1}")))
        first += [rows] if number < 2 else []
        done += len(rows)
    numeric = [name for name in columns if data.is_numeric(name)]
    whole = data.take(np.sort(np.concatenate(first)))
    joined = _loss(whole, rewrite(whole, ctx.within("without border")), numeric)
    apart = sum(_loss(data.take(rows), part, numeric) for rows, part in zip(first, parts[:2], strict=True))
    made = Dataset.stack(parts, like=data)
    return Blocked(made, len(parts), apart / joined - 1 if joined > 0 else None)


def similar(columns: Sequence[Floats], most: int) -> Iterator[Ints]:
    """Divide records into blocks of at most `most`: by halves, at the median of the column that varies most there.

    Columns count in units of their standard deviation. Records that miss values stand in blocks with those that miss
    the same; where these are few, in the first block. Equal values are divided by their place.
    """
    spread = [float(np.nanstd(x)) or 1.0 for x in columns]
    pattern = np.zeros(len(columns[0]), np.int64)
    for x in columns:
        pattern = 2 * pattern + np.isnan(x)
        pattern = np.unique(pattern, return_inverse=True)[1]
    sizes = np.bincount(pattern)
    largest = int(sizes.argmax())
    kinds = [largest, *(int(kind) for kind in np.flatnonzero(sizes > most) if kind != largest)]
    few = np.flatnonzero(~np.isin(pattern, kinds))
    for kind in kinds:
        stack = [np.flatnonzero(pattern == kind)]
        while stack:
            rows = stack.pop()
            if len(rows) > most:
                stack += _halves(rows, columns, spread)[::-1]
            else:
                yield np.sort(np.concatenate([rows, few])) if len(few) else rows
                few = few[:0]


def _halves(rows: Ints, columns: Sequence[Floats], spread: Sequence[float]) -> list[Ints]:
    wide = [float(np.std(x[rows])) / sd for x, sd in zip(columns, spread, strict=True)]
    x = columns[int(np.argmax(np.nan_to_num(wide)))][rows]
    half = len(rows) // 2
    median = np.partition(x, half)[half]
    below, equal = x < median, np.flatnonzero(x == median)
    below[equal[: half - int(below.sum())]] = True
    return [rows[below], rows[~below]]


def _numbers(data: Dataset, name: str) -> Floats:
    """Give a column as numbers to cut along: those of categories in the order of their first rows."""
    import polars as pl

    if data.is_numeric(name):
        return data.number(name)
    kind = data.kinds[name]
    if kind.is_nested():
        raise PlanError(f"column {name!r} holds sets, which need all rows in memory")
    if kind.is_temporal():
        return data.series(name).to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy()
    coded = data.codes(name)
    first = np.where(coded.first_rows < 0, len(data), coded.first_rows)
    place = np.empty(len(first))
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    if coded.missing >= 0:
        place[coded.missing] = np.nan
    return np.asarray(place[coded.codes])


def _loss(before: Dataset, after: Dataset, numeric: Sequence[str]) -> float:
    """Sum squared changes, each in units of the variance of its column."""
    total = 0.0
    for name in numeric:
        x, y = before.number(name), after.number(name)
        total += float(np.nansum((x - y) ** 2)) / (float(np.nanvar(x)) or 1.0)
    return total


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
