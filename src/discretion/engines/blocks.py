"""Blocks of similar records: what is too long or too large for all records together is done in each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.kernels.arrays import Floats, Ints

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
