"""How many cells a method touched, and how far (U12)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.learning.values import Floats, Numbers
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns
from discretion.utility.comparable import Pair, choose_columns, read_pair, shares_of


class _CellByCell(Measure):
    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""

    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)


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
