"""Weights that tell no more than the published columns (D3)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.method import Decision, Method
from discretion.part import Columns


class ReissueWeights(Method, kind="reissue-weights"):
    """Replace each sampling weight by the mean weight of the records that look alike in published columns.

    A design weight tells the stratum it was made for: whoever sees the weight sees the region, also where the region
    was generalized. Afterwards the weight is a function of the columns in `by` as they stand at this step, and tells
    nothing that they do not tell; without `by` everybody has the same weight. Weighted counts by `by`, and the total,
    stay what they were but for the rounding to `digits`; other weighted figures change by what the weights told beyond
    `by`. Put the step after the last one that changes the columns of `by`. Does not protect where a group of `by` has
    few records: their mean weight is then nearly their own; `smallest` refuses such groups. Missing values of `by` are
    a group of their own; a missing weight stays missing. Time and memory linear.

    References
    ----------
    De Waal & Willenborg (1997), Statistical disclosure control and sampling weights, J. Official Statistics 13(4);
    catalogue D3.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> coarse = dc.Generalize(levels={"region": 1})(people)
    >>> issued = dc.ReissueWeights(by=["region"])(coarse)
    >>> issued.frame.select("region", "weight").n_unique() == issued.frame["region"].n_unique()
    True
    """

    by: Columns = ()
    """published columns that the new weight may depend on; without it, everybody has the same weight"""
    weight: str | None = None
    """weight column; without it, the column whose role is `weight`"""
    smallest: int = Field(10, ge=1)
    """records that a group of `by` must have at least"""
    digits: int = Field(6, ge=3, le=17)
    """significant digits of the new weights"""

    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Weights were averaged over records that are alike in published columns: a weight tells nothing that those do "
        "not tell, and weighted counts by them are kept."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Average the weights in each group."""
        name = self._column(data)
        weights = data.number(name)
        data.require(self.by)
        groups = data.classes(self.by).ids if self.by else np.zeros(len(data), dtype=np.int64)
        known = ~np.isnan(weights)
        counts = np.bincount(groups[known], minlength=int(groups.max(initial=-1)) + 1)
        if (few := int(((counts > 0) & (counts < self.smallest)).sum())) and self.by:
            raise DataError(
                f"reissue-weights: {few} groups of {', '.join(self.by)} have fewer than {self.smallest} weights; name "
                "fewer or coarser columns in `by`"
            )
        sums = np.bincount(groups[known], weights[known], minlength=len(counts))
        means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        short = np.array([float(f"{mean:.{self.digits}g}") for mean in means])
        return data.with_columns({name: np.where(known, short[groups], np.nan)})

    def _column(self, data: Dataset) -> str:
        found = (self.weight,) if self.weight else data.having("weight")
        if len(found) != 1:
            raise PlanError(
                f"reissue-weights: {len(found) or 'no'} columns have the role weight; give `weight`, one column"
            )
        data.require(found)
        if self.weight in self.by:
            raise PlanError(f"reissue-weights: {self.weight!r} stands both in `weight` and in `by`")
        return found[0]
