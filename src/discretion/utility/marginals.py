"""How far each column's distribution moved (U12)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.learning.values import Floats, Numbers
from discretion.measure import Better, Measure, Score
from discretion.part import Columns
from discretion.utility.comparable import Pair, as_codes, choose_columns, read_pair, shares_of


class Marginals(Measure, kind="marginals"):
    """Mean distance between the original's and the release's distribution of each column, between 0 and 1.

    Distances: `hellinger` √(1 − Σ√(p·q)), `total-variation` ½Σ|p − q|, `kolmogorov` max|F − G|, `wasserstein`
    ∫|F − G| divided by the range. The first two cut numbers into bins at the original's quantiles; the last two need
    an order, and for categories are the total variation. Missing counts as a category, for `kolmogorov` as a
    value above all others. `wasserstein` is (1 − m)·W + |a − b|, where a and b are the shares of missing values, m the
    larger of them, and W the distance of the distributions of the values that are there, divided by the range of both
    files together: a value that went missing counts as moved by that whole range. All four stand in the detail for
    each column. Weights of each file count. A generalized column has other labels and is at distance 1: compare with
    the original generalized alike to see what else changed. Dependence between columns is not seen (`Contingency`,
    `Propensity`). A file of n records differs from its own population by about 1/√n. Time O(n·log n) per column.

    References
    ----------
    Domingo-Ferrer & Torra (2001); Hellinger (1909); catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"a": ["u", "u", "v", "v"]}), pl.DataFrame({"a": ["u", "v", "v", "v"]})
    >>> dc.Marginals(columns=["a"], distance="total-variation")(x, y).value
    0.25
    """

    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""
    distance: Literal["hellinger", "total-variation", "kolmogorov", "wasserstein"] = "hellinger"
    """the distance that is averaged"""
    bins: int = Field(20, ge=2)
    """bins for numbers, at the original's quantiles"""

    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare each column on its own."""
        columns = choose_columns(original, released, self.columns, self.kind)
        shares = shares_of(original, self.kind), shares_of(released, self.kind)
        per_column = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), ctx.step)
            per_column[name] = _distances(read_pair(original, released, name), *shares, self.bins)
        value = float(np.mean([figures[self.distance] for figures in per_column.values()]))
        worst = max(per_column, key=lambda name: per_column[name][self.distance])
        return self.score(
            value,
            f"The distributions of the columns moved by {value:.3g} on average ({self.distance}; 0: the same, 1: "
            f"nothing in common), most for {worst} ({per_column[worst][self.distance]:.3g}).",
            distance=self.distance,
            per_column=per_column,
        )


def _distances(pair: Pair, before: Floats, after: Floats, bins: int) -> dict[str, float]:
    first, second, size = as_codes(pair, before, bins)
    p, q = np.bincount(first, before, size), np.bincount(second, after, size)
    variation = min(float(np.abs(p - q).sum() / 2), 1.0)
    figures = {
        "hellinger": float(np.sqrt(np.clip(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2, 0, 1))),
        "total-variation": variation,
        "kolmogorov": variation,
        "wasserstein": variation,
    }
    if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
        figures |= _ordered(pair.original.values, pair.released.values, before, after)
    return figures


def _ordered(x: Floats, y: Floats, before: Floats, after: Floats) -> dict[str, float]:
    """Compare two distributions of numbers by their distribution functions."""
    values = np.concatenate([x, y])
    mass = np.concatenate([before, -after])
    present = ~np.isnan(values)
    lost = float(before[np.isnan(x)].sum()), float(after[np.isnan(y)].sum())
    if not present.any():
        return {"kolmogorov": 0.0, "wasserstein": 0.0}
    ladder, place = np.unique(values[present], return_inverse=True)
    gap = np.cumsum(np.bincount(place, mass[present]))
    kolmogorov = min(float(np.abs(gap).max()), 1.0)
    if min(1 - lost[0], 1 - lost[1]) <= 1e-12 or len(ladder) == 1:
        return {"kolmogorov": kolmogorov, "wasserstein": abs(lost[0] - lost[1])}
    sides = np.concatenate([before / (1 - lost[0]), -after / (1 - lost[1])])[present]
    area = float((np.abs(np.cumsum(np.bincount(place, sides)))[:-1] * np.diff(ladder)).sum() / (ladder[-1] - ladder[0]))
    wasserstein = (1 - max(lost)) * area + abs(lost[0] - lost[1])
    return {"kolmogorov": kolmogorov, "wasserstein": min(max(wasserstein, 0.0), 1.0)}
