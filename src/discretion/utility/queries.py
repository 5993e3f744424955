"""How wrong are counts that a user asks for? (U12)"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools
from discretion.learning.values import Floats, Labels, Numbers, Values
from discretion.measure import Better, Measure, Score
from discretion.part import Columns
from discretion.utility.comparable import Pair, choose_columns, read_pair, shares_of


class RangeQueries(Measure, kind="range-queries"):
    """Mean relative error of random range counts.

    Each query takes `size` columns and counts the records whose numbers lie between two values of the original and
    whose categories belong to a random set; the ranges are drawn such that a query expects the share `selectivity` of
    the records if the columns were independent. The error |p − q|/max(p, floor) compares the shares of both files;
    the floor (`floor_share`) keeps queries that hardly anybody answers from deciding the figure. Weights of each file
    count, missing answers no query. The detail has the median and the 95th percentile of the errors. The value
    is random; the same seed asks the same queries. It sees counts only. A generalized column answers no query about
    its old values: compare with the original generalized alike. Time O(queries·n).

    References
    ----------
    LeFevre, DeWitt & Ramakrishnan (2006), ICDE; Xiao & Tao (2006), VLDB; catalogue U12.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": np.arange(100.0)})
    >>> dc.RangeQueries(columns=["a"])(x, x).value
    0.0
    """

    columns: Columns = ()
    """columns the queries may use; without it, all but identifiers and weights"""
    queries: int = Field(500, ge=1)
    """number of queries"""
    size: int = Field(2, ge=1)
    """columns in a query (all columns, if there are fewer)"""
    selectivity: float = Field(0.1, gt=0, lt=1)
    """share of the records that a query selects if its columns were independent"""
    floor_share: float = Field(0.001, gt=0, lt=1)
    """errors of smaller counts are divided by this share of the records"""

    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Ask the same questions of both."""
        columns = choose_columns(original, released, self.columns, self.kind)
        pairs = [read_pair(original, released, name) for name in columns]
        before, after = shares_of(original, self.kind), shares_of(released, self.kind)
        ladders = [_ladder(pair) for pair in pairs]
        usable = [j for j, ladder in enumerate(ladders) if len(ladder)]
        if not usable:
            raise DataError(f"{self.kind}: no column of the original has a value")
        rng = ctx.rng
        count = min(self.size, len(usable))
        width = self.selectivity ** (1 / count)
        truth, answer = np.empty(self.queries), np.empty(self.queries)
        for number in range(self.queries):
            if number % 16 == 0:
                ctx.progress(number, self.queries, ctx.step)
            chosen = np.sort(rng.choice(usable, count, replace=False))
            first, second = np.ones(len(original), np.bool_), np.ones(len(released), np.bool_)
            for j in chosen:
                in_first, in_second = _ask(pairs[j], ladders[j], width, rng)
                first &= in_first
                second &= in_second
            truth[number], answer[number] = before[first].sum(), after[second].sum()
        errors = np.abs(truth - answer) / np.maximum(truth, self.floor_share)
        errors[np.abs(truth - answer) < 1e-12] = 0.0
        value = float(errors.mean())
        return self.score(
            value,
            f"{self.queries} random counts over {count} columns are off by {value:.1%} of their size on average "
            f"(half of them by at most {np.median(errors):.1%}).",
            median=float(np.median(errors)),
            percentile_95=float(np.quantile(errors, 0.95)),
            mean_share=float(truth.mean()),
            queries=self.queries,
            below_floor=int((truth < self.floor_share).sum()),
        )


def _ladder(pair: Pair) -> Floats:
    """Give the original's values in ascending order: numbers, or the categories that occur."""
    if isinstance(pair.original, Numbers):
        return np.sort(pair.original.values[~pair.original.missing])
    return np.unique(pair.original.codes[~pair.original.missing]).astype(np.float64)


def _ask(pair: Pair, ladder: Floats, width: float, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Draw a condition on a column and tell who meets it."""
    if isinstance(pair.original, Numbers):
        start = rng.uniform(0, 1 - width)
        last = len(ladder) - 1
        low, high = ladder[round(start * last)], ladder[round((start + width) * last)]
        first, second = (_between(side, float(low), float(high)) for side in (pair.original, pair.released))
        return first, second
    size = max(1, round(width * len(ladder)))
    wanted = rng.choice(ladder, size, replace=False)
    first, second = (_among(side, wanted) for side in (pair.original, pair.released))
    return first, second


def _between(side: Values, low: float, high: float) -> Bools:
    values = side.values if isinstance(side, Numbers) else np.full(len(side.codes), np.nan)
    return np.asarray((values >= low) & (values <= high))


def _among(side: Values, wanted: Floats) -> Bools:
    codes = side.codes if isinstance(side, Labels) else np.full(len(side.values), -1)
    return np.isin(codes, wanted.astype(np.int64))
