"""How far tables of counts moved (U12)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.learning.values import Floats, Ints
from discretion.measure import Better, Measure, Score
from discretion.part import Columns
from discretion.utility.comparable import as_codes, choose_columns, read_pair, shares_of

_SHOWN = 20


class Contingency(Measure, kind="contingency"):
    """Mean difference between the tables of counts of the original and of the release.

    All tables of `ways` columns are compared. With p and q the shares of a cell: `absolute` is ½Σ|p − q| (the share
    of records in other cells), `root` is √(½Σ(√p − √q)²) (Hellinger's distance: small cells weigh more), both between 0
    and 1; `relative` is the mean of |p − q|/p over the cells the original has. The value is the mean over the
    tables. The detail has the worst tables, and for each the means over its cells on the scale of counts (|o − s|,
    |o − s|/o, |√o − √s|), cells that lost all records (`false_zero`) and cells that the original does not have
    (`false_nonzero`). Numbers are cut into `bins` at the original's quantiles. Weights of each file count;
    missing is a category. With many cells and few records most of the difference is chance: two samples from one
    population differ by about √((cells − 1)/(π·n)) in `absolute`. A generalized column has other labels: compare with
    the original generalized alike. Time O(n) per table.

    References
    ----------
    Raab, Nowok & Dibben (2021), Assessing, visualizing and improving the utility of synthetic data; infoLoss of
    sdcMicro; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": ["u", "u", "v", "v"], "b": ["k", "l", "k", "l"]})
    >>> y = pl.DataFrame({"a": ["u", "u", "v", "v"], "b": ["k", "k", "l", "l"]})
    >>> dc.Contingency(columns=["a", "b"], ways=1)(x, y).value, dc.Contingency(columns=["a", "b"])(x, y).value
    (0.0, 0.5)
    """

    columns: Columns = ()
    """columns of the tables; without it, all but identifiers and weights"""
    ways: int = Field(2, ge=1, le=3)
    """columns in a table"""
    difference: Literal["absolute", "relative", "root"] = "absolute"
    """the difference that is averaged"""
    bins: int = Field(5, ge=2)
    """bins for numbers, at the original's quantiles"""

    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count and compare every table."""
        columns = choose_columns(original, released, self.columns, self.kind)
        if len(columns) < self.ways:
            raise DataError(f"{self.kind}: {len(columns)} columns are too few for tables of {self.ways}")
        before, after = shares_of(original, self.kind), shares_of(released, self.kind)
        coded = {n: as_codes(read_pair(original, released, n), before, self.bins) for n in columns}
        tables = list(combinations(columns, self.ways))
        found: list[tuple[str, dict[str, Any]]] = []
        for number, names in enumerate(tables):
            ctx.progress(number, len(tables), ctx.step)
            p, q = _cells([coded[name] for name in names], before, after)
            found.append((" × ".join(names), compare_cells(p, q, len(original))))
        value = float(np.mean([figures[self.difference] for _, figures in found]))
        found.sort(key=lambda item: (-item[1][self.difference], item[0]))
        worst, figures = found[0]
        return self.score(
            value,
            f"Tables of {self.ways} columns differ by {value:.3g} on average ({self.difference}; 0: the same), most "
            f"{worst} ({figures[self.difference]:.3g}).",
            difference=self.difference,
            tables=len(found),
            worst_tables=dict(found[:_SHOWN]),
        )


def pair_differences(original: Dataset, released: Dataset, columns: Sequence[str], bins: int = 5) -> list[list[float]]:
    """Give ½Σ|p − q| of the table of every pair of columns: row i has those with columns 0 … i−1."""
    before, after = (np.full(len(data), 1 / len(data)) for data in (original, released))
    coded = [as_codes(read_pair(original, released, name), before, bins) for name in columns]
    return [
        [float(np.abs(np.subtract(*_cells([coded[i], coded[j]], before, after))).sum() / 2) for j in range(i)]
        for i in range(len(columns))
    ]


def _cells(coded: list[tuple[Ints, Ints, int]], before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Give the shares of all cells that occur in either data set."""
    from discretion.kernels.classes import class_ids

    stacked = [np.concatenate([first, second]) for first, second, _ in coded]
    found = class_ids(stacked, [size for _, _, size in coded])
    cells = len(found.counts)
    ids = found.ids
    first, second = ids[: len(before)], ids[len(before) :]
    return np.asarray(np.bincount(first, before, cells), float), np.asarray(np.bincount(second, after, cells), float)


def compare_cells(p: Floats, q: Floats, records: int) -> dict[str, Any]:
    """Give the differences of a table; `records` turns shares into counts on the scale of the original."""
    has = p > 0
    gap = np.abs(p - q)
    roots = np.abs(np.sqrt(p) - np.sqrt(q))
    return {
        "absolute": float(gap.sum() / 2),
        "relative": float((gap[has] / p[has]).mean()),
        "root": float(np.sqrt((roots**2).sum() / 2)),
        "cells": len(p),
        "mean_absolute_count": float(gap.mean() * records),
        "mean_root_count": float(roots.mean() * np.sqrt(records)),
        "false_zero": int((has & (q == 0)).sum()),
        "false_nonzero": int((~has & (q > 0)).sum()),
    }
