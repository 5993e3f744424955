"""Rare categories and extreme numbers: who stands out by one published column alone? (R10)"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, confidential
from discretion.risk.identity.truthful import said, warning

_FENCES = 3.0
"""Interquartile ranges beyond the quartiles at which a number is far from the rest (Tukey's outer fence)."""


class RareValues(Measure, kind="rare-values"):
    """Share of records that stand out by a single published value: a rare category, or an extreme number.

    A category is rare when fewer than `k` records have it. A number is extreme when fewer than `k` records are at it or
    beyond, and it lies more than three interquartile ranges outside the quartiles (where half the values are equal, of
    those that differ from the median): the one large income, the one man of 104. A set counts as a whole: who knows all
    the diagnoses of somebody finds the record that has just these. Columns count whatever their role, because everybody
    may read every published column; identifiers, weights, households and units are left out. Few-valued whole numbers
    are categories. `per_record` is 1/(records that share the rarest such value), 0 for the others; the detail has the
    counts of each column, without the values (of sets also `alone`: records whose set nobody else has).

    Does not see combinations of columns (`SampleUniqueness`, `Suda`). Missing values do not count as rare. Assumes
    unperturbed values, and warns where they were perturbed. Time O(n log n) for each column, memory linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.2; Tukey (1977), Exploratory data analysis (fences);
    catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse"] * 20 + ["mayor"]})
    >>> round(dc.RareValues(k=3, columns=["job"])(jobs).value, 4)
    0.0476
    """

    columns: Columns = ()
    """columns to look at; without it, all but identifiers, weights, households and units"""
    k: int = confidential(3, ge=2)
    """a value is rare when fewer records have it"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count the records of each rare value."""
        columns = self.columns or released.choose((), "compare")
        released.require(columns)
        risk = np.zeros(len(released))
        per_column: dict[str, dict[str, Any]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            is_number = released.is_quantity(name) and not released.is_category(name)
            sharing = _extremes(released.number(name), self.k) if is_number else _rare(released, name, self.k)
            found = sharing > 0
            np.maximum(risk, np.where(found, 1.0 / np.maximum(sharing, 1), 0.0), out=risk)
            if found.any():
                is_set = released.type_of(name) == "set"
                what = "extremes" if is_number else "rare_sets" if is_set else "rare_categories"
                per_column[name] = {what: int(found.sum()), "fewest": int(sharing[found].min())}
                if is_set:
                    per_column[name]["alone"] = int((sharing == 1).sum())
        value = float((risk > 0).mean())
        warned = warning(original, released, tuple(per_column))
        worst = sorted(per_column, key=lambda name: per_column[name]["fewest"])[:3]
        where = f", by {', '.join(worst)}" if worst else ""
        return self.score(
            value,
            said(f"{as_percent(value)} of the records have a rare or extreme value in a single column{where}.", warned),
            per_record=risk,
            columns=list(columns),
            chance=1.0 / len(released),
            records=len(released),
            mean_risk=float(risk.mean()),
            per_column=per_column,
            **warned,
        )


def _rare(data: Dataset, name: str, k: int) -> NDArray[np.int64]:
    """Give the records that share each record's category where they are fewer than k; 0 for the others."""
    coded = data.codes(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    if coded.missing >= 0:
        counts[coded.missing] = 0
    return np.asarray(np.where(counts < k, counts, 0)[coded.codes])


def _extremes(x: Floats, k: int) -> NDArray[np.int64]:
    """Give for each number far from the rest how many records are at it or beyond, where fewer than k; 0 otherwise."""
    result = np.zeros(len(x), np.int64)
    present = np.flatnonzero(~np.isnan(x))
    if len(present) < 4 * k:
        return result
    values = x[present]
    spread = values
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high == low:
        spread = values[values != middle]
        if len(spread) < 4 * k:
            return result
        low, high = np.quantile(spread, [0.25, 0.75])
    reach = _FENCES * (high - low)
    ranked = np.sort(values)
    above = len(values) - np.searchsorted(ranked, values, "left")
    below = np.searchsorted(ranked, values, "right")
    far = np.where((values > high + reach) & (above < k), above, 0)
    near_bottom = (values < low - reach) & (below < k)
    result[present] = np.where(near_bottom, below, far)
    return result
