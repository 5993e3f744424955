"""Errors between original and released numbers (U1–U4), and how many cells changed (U12)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values, labels_of, merge, numbers_of_both
from discretion.learning.fitting import weights_of
from discretion.measure import Measure, Score, as_percent
from discretion.part import Columns, Scale


@dataclass(frozen=True)
class Pair:
    """One column in both data sets; categories are numbered alike."""

    name: str
    original: Values
    released: Values


def choose_columns(original: Dataset, released: Dataset, named: Sequence[str], who: str) -> tuple[str, ...]:
    """Give the named columns, or all but identifiers and weights that both data sets have (no sets)."""
    chosen = original.choose(named, "compare")
    if named:
        released.require(chosen)
        return chosen
    both = tuple(n for n in chosen if n in released.columns and not original.frame.schema[n].is_nested())
    if not both:
        raise DataError(f"{who}: the release has none of the columns of the original; give `columns`")
    return both


def numeric_columns(original: Dataset, released: Dataset, named: Sequence[str], who: str) -> tuple[str, ...]:
    """Give the named columns, or all numbers of the original that the release has; each must still be a number.

    A generalized column is an error also when nobody named it: left out silently, it would count as unchanged.
    """
    chosen = original.choose(named, "compare-numbers")
    if named:
        released.require(chosen)
    both = tuple(name for name in chosen if name in released.columns)
    if not both:
        raise DataError(f"{who}: the release has none of the numeric columns of the original; give `columns`")
    if other := [repr(name) for name in both if original.is_numeric(name) and not released.is_numeric(name)]:
        raise DataError(
            f"{who}: numeric in the original and not in the release (generalized or recoded): {', '.join(other)}; no "
            "difference can be computed. Name the `columns` to measure without it, and measure what was generalized by "
            "`precision`, `iloss` or `marginals`"
        )
    return both


def unseen(original: Dataset, released: Dataset, named: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Say what a comparison of numbers does not see: suppressed records, and numeric columns not released."""
    detail: dict[str, Any] = {}
    parts = []
    if lost := released.lost_records:
        detail["lost_records"] = lost
        parts.append(f"{lost} suppressed records" if lost > 1 else "1 suppressed record")
    if gone := [name for name in original.choose(named, "compare-numbers") if name not in released.columns]:
        detail["columns_not_released"] = gone
        parts.append(f"columns not released ({', '.join(gone)})")
    return (f" Not in this figure: {'; '.join(parts)}." if parts else ""), detail


def read_pair(original: Dataset, released: Dataset, name: str) -> Pair:
    """Read a column as numbers where both have numbers (or dates), as categories otherwise."""
    numbers = numbers_of_both(original, released, name, "utility")
    if numbers is not None:
        return Pair(name, *numbers)
    return Pair(name, *merge([labels_of(original, name), labels_of(released, name)]))


def shares_of(data: Dataset, who: str) -> Floats:
    """Give each record's share of the total: by its weight where a column has that role, equal otherwise."""
    weights = weights_of(data, who)
    return np.full(len(data), 1 / len(data)) if weights is None else weights / weights.sum()


def bin_edges(values: Floats, shares: Floats, bins: int) -> Floats:
    """Cut numbers at their quantiles: at most so many bins, values up to and with each edge, none empty."""
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    ladder, heights = values[present][order], np.cumsum(shares[present][order])
    if not len(ladder) or heights[-1] <= 0:
        return np.empty(0)
    levels = np.arange(1, bins) / bins * heights[-1] * (1 - 1e-12)
    edges = np.unique(ladder[np.minimum(np.searchsorted(heights, levels), len(ladder) - 1)])
    return np.asarray(edges[edges < ladder[-1]])


def as_codes(pair: Pair, shares: Floats, bins: int) -> tuple[Ints, Ints, int]:
    """Give both sides of a column as codes and their number: categories, or bins of the original; missing last."""
    if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
        edges = bin_edges(pair.original.values, shares, bins)
        size = len(edges) + 2
        sides = [
            np.where(np.isnan(x), size - 1, np.searchsorted(edges, x, "left")).astype(np.int64)
            for x in (pair.original.values, pair.released.values)
        ]
        return sides[0], sides[1], size
    labels = [side for side in (pair.original, pair.released) if isinstance(side, Labels)]
    size = len(labels[0].names) + 1
    first, second = (np.where(side.codes < 0, size - 1, side.codes) for side in labels)
    return first, second, size


# How many cells a method touched, and how far (U12).


class _CellByCell(Measure):
    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""

    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    scale: ClassVar[Scale] = "columns"
    screens_with: ClassVar[int | None] = 0


class ChangedShare(_CellByCell, kind="changed-share"):
    """Share of the cells whose value is not the original one, suppressed cells among them.

    A cell that is missing in the release and not in the original is suppressed; one with another value is changed (in
    generalized columns every cell that shows another label). The detail has both shares, each column, the share of
    records with any change, and how many records and columns the release lacks. It says how much was touched, not how
    far: a value moved by a cent counts as much as one lost. Weights count records by their weight. Time linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"a": [1, 2, 3, 4]}), pl.DataFrame({"a": [1, 2, None, 5]})
    >>> dc.ChangedShare(columns=["a"])(x, y).value
    0.5
    """

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare cell by cell."""
        columns = choose_columns(original, released, self.columns, self.kind)
        shares = shares_of(original, self.kind)
        any_change = np.zeros(len(original), np.bool_)
        per_record = np.zeros(len(original))
        per_column: dict[str, dict[str, float]] = {}
        for name in columns:
            pair = read_pair(original, released, name)
            absent, gone = pair.original.missing, pair.released.missing
            suppressed = gone & ~absent
            changed = _differs(pair, original, released) & ~gone
            per_column[name] = {"suppressed": float(shares @ suppressed), "changed": float(shares @ changed)}
            any_change |= suppressed | changed
            per_record += (suppressed | changed) / len(columns)
        suppressed_share = float(np.mean([figures["suppressed"] for figures in per_column.values()]))
        changed_share = float(np.mean([figures["changed"] for figures in per_column.values()]))
        value = min(suppressed_share + changed_share, 1.0)
        lacking = [n for n in original.choose(self.columns, "compare") if n not in released.columns]
        return self.score(
            value,
            f"{as_percent(value)} of the cells are not as they were: {as_percent(suppressed_share)} suppressed, "
            f"{as_percent(changed_share)} changed.",
            per_record,
            suppressed=suppressed_share,
            changed=changed_share,
            records_touched=float(shares @ any_change),
            per_column=per_column,
            lost_records=released.lost_records,
            columns_not_released=lacking,
        )


def _differs(pair: Pair, original: Dataset, released: Dataset) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell where the values differ; missing differs from any value and equals missing. Whole numbers to the last."""
    series = original.frame[pair.name], released.frame[pair.name]
    if series[0].dtype == series[1].dtype and (series[0].dtype.is_integer() or series[0].dtype.is_temporal()):
        return series[0].ne_missing(series[1]).to_numpy()
    if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
        x, y = pair.original.values, pair.released.values
        return np.asarray((x != y) & ~(np.isnan(x) & np.isnan(y)))
    first, second = pair.original, pair.released
    codes = [side.codes for side in (first, second) if not isinstance(side, Numbers)]
    return np.asarray(codes[0] != codes[1])


class VariableChange(_CellByCell, kind="variable-change"):
    """Mean distance between original and released values, each between 0 and 1.

    A number moved by d counts (2/π)·arctan(d), d in standard deviations of the original (`standardize: false`: in the
    column's own units, as in sdcMicro's IL_variables, where columns of large numbers are at 1 whatever happens); an
    ordinal value counts its ranks of distance over the largest possible one; a category 0 or 1; a value lost or gained
    1. The value is the mean over columns of the means over records; weights count. It compares values, not what can be
    computed from them. Time linear.

    References
    ----------
    Młodak (2020), Information loss resulting from statistical disclosure control; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"a": [1, 2, 3, 4]}), pl.DataFrame({"a": [1, 2, None, 5]})
    >>> dc.VariableChange(columns=["a"], standardize=False)(x, y).value
    0.375
    """

    standardize: bool = True
    """measure numbers in standard deviations of the original, so that units do not matter"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Average the distances."""
        columns = choose_columns(original, released, self.columns, self.kind)
        shares = shares_of(original, self.kind)
        per_record = np.zeros(len(original))
        per_column = {}
        for name in columns:
            distance = self._distance(read_pair(original, released, name), original, released)
            per_column[name] = float(shares @ distance)
            per_record += distance / len(columns)
        value = min(float(np.mean(list(per_column.values()))), 1.0)
        worst = max(per_column, key=lambda name: per_column[name])
        meaning = f"Values moved by {value:.3g} on average (0: not at all, 1: lost), most in {worst}."
        return self.score(value, meaning, per_record, per_column=per_column)

    def _distance(self, pair: Pair, original: Dataset, released: Dataset) -> Floats:
        one_missing = pair.original.missing != pair.released.missing
        if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
            x, y = pair.original.values, pair.released.values
            present = x[~np.isnan(x)]
            sd = float(present.std(ddof=1)) if self.standardize and len(present) > 1 else 1.0
            gap = np.nan_to_num(np.abs(x - y)) / (sd if sd > 0 else 1.0)
            return np.where(one_missing, 1.0, 2 / np.pi * np.arctan(gap))
        first, second = (side for side in (pair.original, pair.released) if not isinstance(side, Numbers))
        if first.ordered and len(first.names) > 1:
            ranks = np.abs(first.codes - second.codes) / (len(first.names) - 1)
            return np.where(one_missing, 1.0, ranks)
        return _differs(pair, original, released).astype(np.float64)


class _Comparison(Measure):
    """What measures that compare numbers value by value share."""

    columns: Columns = ()
    """numeric columns to compare; without it, all but identifiers and weights (one generalized is an error)"""

    scale: ClassVar[Scale] = "columns"
    screens_with: ClassVar[int | None] = 0

    def _pairs(self, original: Dataset, released: Dataset) -> tuple[Floats, Floats, tuple[str, ...]]:
        columns = numeric_columns(original, released, self.columns, self.kind)
        return original.numbers(columns), released.numbers(columns), columns


def _left_out(present: Bools) -> dict[str, Any]:
    return {"values_compared": int(present.sum()), "values_missing": int((~present).sum())}


class _MeanError(_Comparison):
    on: Literal["values", "covariance", "correlation"] = "values"
    """what is compared: the values, the covariance matrices (1/N), or the correlation matrices"""

    @abstractmethod
    def _error(self, original: Floats, released: Floats) -> Floats:
        """Give the error of each entry."""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Average the errors."""
        x, y, columns = self._pairs(original, released)
        present = ~(np.isnan(x) | np.isnan(y))
        detail: dict[str, Any] = _left_out(present)
        if self.on == "values":
            if not present.any():
                raise DataError(f"{self.kind}: no value is present in both data sets")
            errors = self._error(x[present], y[present])
        else:
            complete = present.all(axis=1)
            a, b = (_matrix(data[complete], self.on, columns) for data in (x, y))
            errors = self._error(a.ravel(), b.ravel())
        detail["entries"] = int(np.count_nonzero(~np.isnan(errors)))
        detail["zeros_left_out"] = int(np.count_nonzero(np.isnan(errors)))
        if not detail["entries"]:
            raise DataError(f"{self.kind}: every original value is zero; a relative error does not exist")
        value = float(np.nanmean(errors))
        note, absent = unseen(original, released, self.columns)
        meaning = f"{self.summary().rstrip('.')}: {value:.6g} (on {self.on}).{note}"
        return self.score(value, meaning, **detail, **absent)


def _matrix(x: Floats, on: str, columns: tuple[str, ...]) -> Floats:
    if len(x) < 2:
        raise DataError(f"fewer than two complete records for a {on} matrix")
    covariance = np.atleast_2d(np.cov(x, rowvar=False, bias=True))
    if on == "covariance":
        return covariance
    sd = np.sqrt(np.diag(covariance))
    if flat := [name for name, s in zip(columns, sd, strict=True) if s == 0]:
        raise DataError(f"column {flat[0]!r} is constant; it has no correlation")
    return np.asarray(covariance / np.outer(sd, sd))


class Mse(_MeanError, kind="mse"):
    """Mean squared error between original and released figures.

    Weighs large errors most. Depends on the units: columns of large numbers dominate. Values missing in either data
    set are left out and counted in the detail; records and columns that the release lacks do not count, and the
    sentence says so. Sampling weights are ignored, as the catalogue defines it. A column that was generalized is no
    number any more and is an error: see `Precision`, `ILoss`, `Marginals`. Time linear.

    References
    ----------
    Catalogue U1.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Mse(columns=["x"])(pl.DataFrame({"x": [1.0, 2.0]}), pl.DataFrame({"x": [1.0, 4.0]})).value
    2.0
    """

    def _error(self, original: Floats, released: Floats) -> Floats:
        return np.asarray((original - released) ** 2)


class Mae(_MeanError, kind="mae"):
    """Mean absolute error between original and released figures.

    Depends on the units. Values missing in either data set are left out and counted in the detail. Sampling weights
    are ignored, as the catalogue defines it. Generalized columns and lost records as in `Mse`. Time linear.

    References
    ----------
    Catalogue U1.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Mae(columns=["x"])(pl.DataFrame({"x": [1.0, 2.0]}), pl.DataFrame({"x": [1.0, 4.0]})).value
    1.0
    """

    def _error(self, original: Floats, released: Floats) -> Floats:
        return np.abs(original - released)


class Mre(_MeanError, kind="mre"):
    """Mean relative error between original and released figures.

    Each error is divided by the original figure; original zeros are left out and counted in the detail, as are
    values missing in either data set. Sampling weights are ignored, as the catalogue defines it. Generalized columns
    and lost records as in `Mse`. Time linear.

    References
    ----------
    Catalogue U1.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Mre(columns=["x"])(pl.DataFrame({"x": [1.0, 2.0]}), pl.DataFrame({"x": [1.0, 4.0]})).value
    0.5
    """

    def _error(self, original: Floats, released: Floats) -> Floats:
        size = np.where(original == 0, np.nan, np.abs(original))
        return np.asarray(np.abs(original - released) / size)


class Il1s(_Comparison, kind="il1s"):
    """How far values moved in all: the sum of absolute changes, each as a part of its column's usual spread.

    Σ |x − x'| / (√2·σ) over all records and columns, σ the original's standard deviation. The detail has the mean over
    the values, which can be compared between data of different size. Values missing in either data set are left out
    and counted in the detail. A constant column has no σ and is an error. Sampling weights are ignored, as the
    catalogue defines it. A column that was generalized is no number any more and is an error (see `Precision`, `ILoss`,
    `Marginals`); records and columns that the release lacks do not count, and the sentence says so. Time linear.

    References
    ----------
    Yancey, Winkler & Creecy (2002); Mateo-Sanz, Sebé & Domingo-Ferrer (2004); catalogue U2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> round(dc.Il1s(columns=["x"])(pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [1.0, 2, 4]})).value, 4)
    0.7071
    """

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Sum the scaled changes."""
        x, y, columns = self._pairs(original, released)
        original.require_spread(columns)
        present = ~(np.isnan(x) | np.isnan(y))
        if not present.any():
            raise DataError("il1s: no value is present in both data sets")
        scale = math.sqrt(2) * np.nanstd(x, axis=0, ddof=1)
        change = np.where(present, np.abs(x - y), 0.0) / scale
        value, mean = float(change.sum()), float(change.sum() / present.sum())
        per_column = {name: float(total) for name, total in zip(columns, change.sum(axis=0), strict=True)}
        note, absent = unseen(original, released, self.columns)
        return self.score(
            value,
            f"On average values moved by {as_percent(math.sqrt(2) * mean)} of the usual spread (standard deviation) of "
            f"their column.{note}",
            per_record=change.sum(axis=1),
            mean=mean,
            per_column=per_column,
            **_left_out(present),
            **absent,
        )


class AverageDivergence(_Comparison, kind="average-divergence"):
    """Mean of (x + x')/2 over all values, as defined in the source text.

    It is not a divergence (it is not zero for identical data) and says nothing about loss: kept for reproduction and
    teaching, and never used for tuning. The detail has the mean absolute difference. Sampling weights are ignored, as
    the catalogue defines it. Generalized columns and lost records as in `Mse`. Time linear.

    References
    ----------
    Catalogue U3.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.AverageDivergence(columns=["x"])(pl.DataFrame({"x": [1.0, 3.0]}), pl.DataFrame({"x": [1.0, 5.0]})).value
    2.5
    """

    limits: ClassVar[tuple[float | None, float | None]] = (None, None)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Average the midpoints."""
        x, y, _ = self._pairs(original, released)
        present = ~(np.isnan(x) | np.isnan(y))
        if not present.any():
            raise DataError("average-divergence: no value is present in both data sets")
        value = float((x[present] + y[present]).mean() / 2)
        difference = float(np.abs(x[present] - y[present]).mean())
        note, absent = unseen(original, released, self.columns)
        meaning = f"Mean of the midpoints {value:.6g}; the mean absolute difference is {difference:.6g}.{note}"
        return self.score(value, meaning, None, mean_absolute_difference=difference, **_left_out(present), **absent)


class Sse(_Comparison, kind="sse"):
    """Sum of squared errors between original and released values.

    For microaggregation: the sum of squared distances of the records to their group's mean. The detail has the share of
    the total sum of squares, on columns divided by their standard deviation, so that units do not matter. Values
    missing in either data set are left out and counted in the detail. Sampling weights are ignored, as the catalogue
    defines it. Generalized columns and lost records as in `Mse`. Time linear.

    References
    ----------
    Catalogue U4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Sse(columns=["x"])(pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [2.0, 2, 2]})).value
    2.0
    """

    adds_up: ClassVar[bool] = True

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Sum the squared errors."""
        x, y, columns = self._pairs(original, released)
        present = ~(np.isnan(x) | np.isnan(y))
        if not present.any():
            raise DataError("sse: no value is present in both data sets")
        squares = np.where(present, (x - y) ** 2, 0.0)
        centered = np.where(present, x - np.nanmean(np.where(present, x, np.nan), axis=0), 0.0)
        total = (centered**2).sum(axis=0)
        shares = {name: float(s / t) for name, s, t in zip(columns, squares.sum(axis=0), total, strict=True) if t > 0}
        share = float(np.mean(list(shares.values()))) if shares else 0.0
        note, absent = unseen(original, released, self.columns)
        return self.score(
            float(squares.sum()),
            f"The squared error is {share:.3%} of the total sum of squares.{note}",
            per_record=squares.sum(axis=1),
            share_of_total=share,
            per_column=shares,
            **_left_out(present),
            **absent,
        )
