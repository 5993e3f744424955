"""Would the release lead to the same conclusions? Overlap of confidence intervals (U12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.kernels.normal import normal_quantile
from discretion.learning.columns import Numbers
from discretion.learning.values import encode, filled, medians_of
from discretion.measure import Better, Measure, Score
from discretion.part import Columns
from discretion.utility.comparable import Pair, choose_columns, read_pair, shares_of

_SHOWN = 60


@dataclass(frozen=True)
class _Estimates:
    """Figures with their standard errors."""

    names: tuple[str, ...]
    values: Floats
    errors: Floats


class IntervalOverlap(Measure, kind="interval-overlap"):
    """Mean overlap of the confidence intervals that the original and the release give, between 0 and 1.

    Without `target`: the weighted means of numbers and the shares of categories. With `target` (a number): the
    coefficients of its weighted least-squares regression on `columns`. Intervals are normal, with standard errors
    by linearization (for regression: the sandwich estimator), which respects weights and unequal variances. The
    overlap of two intervals is the mean of the shares of each that lies in the other; intervals that do not meet count
    0. 1: the same intervals. A release of n records from the same population overlaps by about 0.7 on average (at
    0.95). Values missing are left out (for regression: filled by the median and marked). Intervals shrink with the size
    of the file, so that the same shift costs more in a large one, as it does in the conclusions; the detail has the
    differences in standard errors. Figures other than these means or coefficients are not seen. Time O(n·m²).

    References
    ----------
    Karr, Kohnen, Oganian, Reiter & Sanil (2006), The American Statistician 60(3); catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4]})
    >>> measure = dc.IntervalOverlap(columns=["a"])
    >>> measure(x, x).value, measure(x, x.select(pl.col("a") + 9)).value
    (1.0, 0.0)
    """

    columns: Columns = ()
    """columns to estimate, or the explaining ones; without it, all but identifiers and weights"""
    target: str = ""
    """the explained column of a regression; without it, means and shares are compared"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """coverage of the intervals"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare interval by interval."""
        if self.target in self.columns:
            raise PlanError(f"{self.kind}: {self.target!r} is the target and cannot explain itself")
        columns = choose_columns(original, released, self.columns, self.kind)
        pairs = [read_pair(original, released, name) for name in columns if name != self.target]
        shares = shares_of(original, self.kind), shares_of(released, self.kind)
        if self.target:
            original.require([self.target])
            released.require([self.target])
            first, second = _regressions(pairs, read_pair(original, released, self.target), *shares, self.kind)
        else:
            first, second = _means(pairs, *shares, self.kind)
        overlap, low_high = _overlaps(first, second, self.confidence)
        value = float(overlap.mean())
        what = f"coefficients of {self.target}" if self.target else "means and shares"
        scale = np.where(first.errors > 0, first.errors, np.nan)
        shift = np.abs(first.values - second.values) / scale
        entries = {
            name: {
                "original": low_high[0][i],
                "released": low_high[1][i],
                "overlap": float(overlap[i]),
                "shift_in_standard_errors": None if np.isnan(shift[i]) else float(shift[i]),
            }
            for i, name in enumerate(first.names)
        }
        worst = sorted(entries, key=lambda name: (entries[name]["overlap"], name))[:_SHOWN]
        return self.score(
            value,
            f"Confidence intervals of {len(overlap)} {what} overlap by {value:.1%} on average; "
            f"{int((overlap == 0).sum())} do not meet.",
            intervals=len(overlap),
            disjoint=int((overlap == 0).sum()),
            estimates={name: entries[name] for name in worst},
        )


def _overlaps(first: _Estimates, second: _Estimates, confidence: float) -> tuple[Floats, list[list[list[float]]]]:
    z = float(normal_quantile((1 + confidence) / 2))
    sides = [(e.values - z * e.errors, e.values + z * e.errors) for e in (first, second)]
    common_low = np.maximum(sides[0][0], sides[1][0])
    common_high = np.minimum(sides[0][1], sides[1][1])
    common = np.maximum(common_high - common_low, 0.0)
    shares = []
    for low, high in sides:
        width = high - low
        shares.append(np.where(width > 0, common / np.where(width > 0, width, 1.0), common_high >= common_low))
    overlap = np.clip((shares[0] + shares[1]) / 2, 0.0, 1.0)
    shown = [[[float(a), float(b)] for a, b in zip(low, high, strict=True)] for low, high in sides]
    return np.asarray(overlap), shown


def _means(pairs: list[Pair], before: Floats, after: Floats, who: str) -> tuple[_Estimates, _Estimates]:
    """Estimate means of numbers and shares of categories (missing is a category)."""
    names: list[str] = []
    found: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for pair in pairs:
        sides: list[list[Floats]]
        if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
            names.append(pair.name)
            sides = [[pair.original.values], [pair.released.values]]
        else:
            designs = encode([{pair.name: pair.original}, {pair.name: pair.released}])
            names += designs[0].names
            sides = [list(design.x.T) for design in designs]
        for place, (columns, shares) in enumerate(zip(sides, (before, after), strict=True)):
            found[place].extend(_mean(x, shares, pair.name, who) for x in columns)
    first, second = (_Estimates(tuple(names), *np.array(side).T) for side in found)
    return first, second


def _mean(x: Floats, shares: Floats, name: str, who: str) -> tuple[float, float]:
    present = ~np.isnan(x)
    x, w = x[present], shares[present]
    if len(x) < 2 or not w.sum() > 0:
        raise DataError(f"{who}: column {name!r} has fewer than two values in a data set")
    w = w / w.sum()
    mean = float(w @ x)
    return mean, float(np.sqrt(len(x) / (len(x) - 1) * ((w * (x - mean)) ** 2).sum()))


def _regressions(
    pairs: list[Pair], target: Pair, before: Floats, after: Floats, who: str
) -> tuple[_Estimates, _Estimates]:
    """Fit the same regression to both; columns that the original's others determine are left out."""
    if not isinstance(target.original, Numbers) or not isinstance(target.released, Numbers):
        raise DataError(f"{who}: the target {target.name!r} is not a number in both data sets")
    if not pairs:
        raise PlanError(f"{who}: no column is left to explain {target.name!r}; give `columns`")
    designs = encode([{p.name: p.original for p in pairs}, {p.name: p.released for p in pairs}])
    medians = medians_of(designs[0].x)
    names = ("(constant)", *designs[0].names)
    sides: list[tuple[Floats, Floats, Floats]] = []
    for design, values, shares in zip(
        designs, (target.original.values, target.released.values), (before, after), strict=True
    ):
        known = ~np.isnan(values)
        x = np.column_stack([np.ones(int(known.sum())), filled(design.x[known], medians)])
        sides.append((x, values[known], shares[known]))
    kept = _independent(sides[0][0], sides[0][2])
    fits = []
    for (x, y, shares), name in zip(sides, ("original", "release"), strict=True):
        if len(y) <= len(kept):
            raise DataError(f"{who}: the {name} has {len(y)} records for {len(kept)} coefficients")
        fits.append(_Estimates(tuple(names[j] for j in kept), *_least_squares(x[:, kept], y, shares)))
    return fits[0], fits[1]


def _independent(x: Floats, shares: Floats) -> list[int]:
    """Give columns of which none is determined by those before it."""
    root = np.sqrt(shares)[:, None]
    scale = np.sqrt(((x * root) ** 2).sum(axis=0))
    scaled = x * root / np.where(scale > 0, scale, 1.0)
    kept: list[int] = []
    basis: list[Any] = []
    for j in range(x.shape[1]):
        rest = scaled[:, j].copy()
        for _ in range(2):
            for direction in basis:
                rest -= (direction @ rest) * direction
        length = float(np.sqrt(rest @ rest))
        if length > 1e-7:
            basis.append(rest / length)
            kept.append(j)
    return kept


def _least_squares(x: Floats, y: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Give weighted least-squares coefficients and their sandwich standard errors."""
    scale = np.sqrt(shares @ x**2)
    scale = np.where(scale > 0, scale, 1.0)
    z = x / scale
    bread = np.linalg.pinv((z * shares[:, None]).T @ z, rcond=1e-12, hermitian=True)
    beta = bread @ (z.T @ (shares * y))
    scores = z * (shares * (y - z @ beta))[:, None]
    n, k = x.shape
    variance = bread @ (scores.T @ scores) @ bread * (n / (n - k))
    return beta / scale, np.sqrt(np.maximum(np.diag(variance), 0.0)) / scale
