"""Publish a sample (P1), and weights that tell no more than the published columns (D3)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints
from discretion.method import Decision, Method, Purpose, StratifiedMethod
from discretion.part import Columns

# Weights that tell no more than the published columns (D3).


class ReissueWeights(Method, kind="reissue-weights"):
    """Replace each sampling weight by the mean weight of the records that look alike in published columns.

    A design weight tells the stratum it was made for: whoever sees the weight sees the region, also where the region
    was generalized. Afterwards the weight is a function of the columns in `by` as they stand at this step, and tells
    nothing that they do not tell; without `by` everybody has the same weight. Weighted counts by `by`, and the total,
    stay what they were at this step but for the rounding to `digits`; other weighted figures change by what the weights
    told beyond `by`. The weight of records that steps take out, before or after, is lost and not made up for: scale the
    weights to known totals where totals are estimated. Put the step after the last one that changes the columns of
    `by`. Does not protect where a group of `by` has few records: their mean weight is then nearly their own; `smallest`
    refuses such groups. Missing values of `by` are a group of their own; a missing weight stays missing. Time and
    memory linear.

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
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Weighted counts by the columns that were kept together are unchanged; weighted estimates by other columns "
        "are smoothed toward the mean of their group."
    )
    guarantee: ClassVar[str] = (
        "Weights were averaged over records that are alike in published columns: a weight tells nothing that those do "
        "not tell, and weighted counts by them, of the records that are left at this step, are kept; the weight of "
        "records taken out is not made up for."
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


_WORDS = {"true": True, "false": False}

Household = Annotated[
    bool | str, BeforeValidator(lambda given: _WORDS.get(given, given) if isinstance(given, str) else given)
]
"""Whether to keep households together, or the column that says which records form one."""


class Sample(StratifiedMethod, kind="sample"):
    """Publish a random sample of the records and adjust their weights.

    Every record (or, with `household`, every household with all its members) is drawn with the same probability,
    without replacement; with `by`, within each stratum. The weight column, if there is one, is multiplied by N/n of
    the stratum, N and n being the records, or households, there are and those drawn: weighted totals stay right in
    expectation. Guarantees that an intruder cannot be sure that a person is in the data. Does not protect a person
    who is known to be in it, nor somebody unique in the population. The other columns, and missing values, stay as
    they are; records keep their ids and do not count as suppressed. Time linear.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control; Horvitz & Thompson (1952); catalogue P1.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> len(dc.Sample(share=0.1)(people, seed=7))
    100
    >>> tenth = dc.Sample(share=0.1, household=True, by=["region"])(people, seed=7)
    >>> members = people.frame["household"].is_in(tenth.frame["household"].to_list())
    >>> len(tenth) == members.sum()  # whoever lives with somebody in the sample is in it
    True
    """

    share: float | None = Field(None, gt=0, le=1)
    """share of the records (or households) to publish; rounded to a whole number, at least one of each stratum"""
    size: int | None = Field(None, ge=1)
    """number of records (or households) to publish; with `by`, of each stratum"""
    household: Household = False
    """draw whole households: true for the column of that role, or the name of a column; who has none is alone"""
    weight: str | None = None
    """weight column to adjust; without it, the column whose role is `weight`, if there is one"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Estimates need the weights (or the share that was drawn) and have the sampling error of a smaller sample."
    )
    guarantee: ClassVar[str] = (
        "Only a random sample of the records is published, so nobody can be sure that a person is among them; who is "
        "known to be is not protected."
    )

    @model_validator(mode="after")
    def _one_amount(self) -> Self:
        if (self.share is None) == (self.size is None):
            raise ValueError("give exactly one of `share` and `size`")
        return self

    @property
    def draws(self) -> bool:
        """Tell whether anybody may be left out."""
        return self.share != 1

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns that say how many are drawn; what else stands in a record does not matter to the draw."""
        named = (self._weight(data), self._home(data))
        return self._reads_also(data, tuple(name for name in named if name is not None))

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw in each stratum; a household must lie in one stratum. `by: household` draws households."""
        if (homes := self._households(data)) is not None:  # the weights of members may differ, and all are adjusted
            return self.model_copy(update={"by": (), "household": homes.column}).perform(data, decision, ctx)
        home = self._home(data)
        if self.by and home is not None:
            _require_nested(data, home, self._strata(data))
        return super().perform(data, decision, ctx)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Draw the units, take their records, adjust the weights."""
        unit, total = _units(data, self._home(data))
        weight = self._weight(data)
        drawn = self._amount(total, "records" if unit is None else "households")
        chosen = np.zeros(total, dtype=np.bool_)
        chosen[ctx.rng.choice(total, drawn, replace=False, shuffle=False)] = True
        kept = data.take(chosen if unit is None else chosen[unit])
        if weight is None or drawn == total:
            return kept
        return kept.with_columns({weight: kept.number(weight) * (total / drawn)})

    def _amount(self, total: int, what: str) -> int:
        if total == 0:
            raise DataError(f"sample: there are no {what} to draw from")
        if self.size is not None and self.size > total:
            raise DataError(f"sample: {self.size} of {total} {what} cannot be drawn")
        return self.size if self.size is not None else max(1, math.floor((self.share or 0.0) * total + 0.5))

    def _home(self, data: Dataset) -> str | None:
        if self.household is False:
            return None
        if isinstance(self.household, str):
            data.require([self.household])
            return self.household
        return _only(data, "household")

    def _weight(self, data: Dataset) -> str | None:
        name = self.weight
        if name is None:
            name = _only(data, "weight") if data.having("weight") else None
        if name is not None:
            data.number(name)
        return name


def _only(data: Dataset, role: str) -> str:
    found = data.having(role)  # type: ignore[arg-type]
    if len(found) != 1:
        listed = f" ({', '.join(found)})" if found else ""
        raise PlanError(f"sample: {len(found)} columns have the role `{role}`{listed}; name the column in `{role}`")
    return found[0]


def _units(data: Dataset, home: str | None) -> tuple[Ints | None, int]:
    """Number the units to draw: records, or households (a record without a household is one of its own)."""
    if home is None:
        return None, len(data)
    codes = data.codes(home)
    ids = data.classes([home]).ids
    if codes.missing < 0:
        return ids, len(data.classes([home]))
    alone = codes.codes == codes.missing
    ids = np.where(alone, ids.max(initial=0) + 1 + np.cumsum(alone), ids)
    found, numbers = np.unique(ids, return_inverse=True)
    return numbers.ravel(), len(found)


def _require_nested(data: Dataset, home: str, by: tuple[str, ...]) -> None:
    """Refuse households that have members in several strata: they could not be kept together."""
    import polars as pl

    if home in by:
        raise PlanError(f"sample: {home!r} stands both in `household` and in `by`")
    strata = pl.DataFrame({"home": data.frame[home], "stratum": data.classes(by).ids}).drop_nulls("home")
    spread = int((strata.group_by("home").agg(pl.col("stratum").n_unique())["stratum"] > 1).sum())
    if spread:
        raise DataError(f"sample: {spread} households have members in several strata of {', '.join(by)}")
