"""The confidentiality edit of censuses: similar households exchange places (P19)."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import DataError, PlanError
from discretion.method import Decision, Method
from discretion.part import Columns, confidential
from discretion.protect.household import as_pairs, geography_of


class ConfidentialityEdit(Method, kind="confidentiality-edit"):
    """Let a sample of households exchange places with similar households elsewhere.

    Each household is drawn with probability `share`, in small blocks (areas of all geography columns together, with
    few households) with `small_block_share`. It exchanges all geography columns with a random household of as many
    members and the same values of `match_on` (as a combination for each member, order aside) that lies elsewhere in
    the *first* geography column; no household moves twice. To stay inside an area, match on it and leave it out of
    `geography`. Without households every record stands for itself.

    Guarantees that a published place need not be true, that all other data of every record is intact, and that every
    count by place and matched columns is exactly that of the data. Does not protect people who are unique in the whole
    country, nor households without a partner: their number is `unmatched` in the decision. Households with a missing
    place stay. For samples there is `blank-and-impute`. Time O(n log n).

    References
    ----------
    Navarro, Flores-Baez & Thompson (1988), Results of data switching simulation, U.S. Bureau of the Census; Fienberg &
    McIntyre (2005), Data swapping, Journal of Official Statistics 21(2); catalogue P19.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(2000, seed=1)
    >>> edited = dc.ConfidentialityEdit(match_on=["sex"], share=0.1)(people, seed=7)
    >>> count = lambda data: data.frame.group_by("municipality", "sex").len().sort("municipality", "sex")
    >>> count(edited).equals(count(people))
    True
    >>> (edited.frame["region"] != people.frame["region"]).mean() > 0.1
    True
    """

    geography: Columns = ()
    """columns that are exchanged, the coarsest first; without it, the columns with the role geography"""
    match_on: Columns = ()
    """columns in which the partners agree, besides their number of members"""
    share: float = confidential(gt=0, le=1)
    """share of households that are drawn; each brings a partner, so that up to twice as many move"""
    small_block_share: float | None = confidential(None, gt=0, le=1)
    """share of households that are drawn in small blocks"""
    small_block: int | None = confidential(None, ge=2)
    """blocks with fewer households than this are small"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household, or single records"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Some households exchanged places with similar households elsewhere: counts by place and matched columns are "
        "exact, but a published place need not be true."
    )

    @model_validator(mode="after")
    def _small_blocks(self) -> Self:
        if (self.small_block is None) != (self.small_block_share is None):
            raise ValueError("`small_block` and `small_block_share` go together")
        if self.small_block_share is not None and self.small_block_share < self.share:
            raise ValueError("`small_block_share` must be at least `share`")
        if both := set(self.geography) & set(self.match_on):
            raise ValueError(f"{min(both)!r} stands both in `geography` and in `match_on`")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Draw households and find their partners; the decision says how many were drawn, moved and not matched."""
        from discretion.kernels.record_swap import swap_places

        geography = geography_of(data, self.geography, self.kind)
        data.require(self.match_on)
        if both := set(geography) & set(self.match_on):
            raise PlanError(f"{self.kind}: {min(both)!r} is exchanged and cannot be matched on; give `geography`")
        homes = find_households(data, self.household)
        homes.require_constant(data, geography)
        ctx.progress(0, 2, f"{ctx.step}: matching")
        free = homes.present(data, geography)
        rng = ctx.rng
        drawn = np.flatnonzero(free & (rng.random(len(homes)) < self._shares(data, homes, geography)))
        drawn = drawn[rng.permutation(len(drawn))]
        areas = homes.codes(data, geography[:1])
        ctx.progress(1, 2, f"{ctx.step}: swapping")
        partner = swap_places(homes.kinds(data, self.match_on), areas, drawn, rng.random(len(drawn)), free)
        unmatched = int((partner[drawn] < 0).sum())
        if len(drawn) and unmatched == len(drawn):
            raise DataError(
                f"{self.kind}: none of the {len(drawn)} households drawn has a partner elsewhere in {geography[0]!r} "
                f"that agrees in its size{''.join(f', {name!r}' for name in self.match_on)}; match on less"
            )
        ctx.progress(2, 2, ctx.step)
        counts = {"drawn": len(drawn), "swapped": int((partner >= 0).sum()), "unmatched": unmatched}
        return Decision(MappingProxyType({"geography": list(geography), **counts, "pairs": as_pairs(partner)}))

    def _shares(self, data: Dataset, homes: Households, geography: tuple[str, ...]) -> NDArray[np.float64]:
        """Give each household the probability of being drawn."""
        shares = np.full(len(homes), self.share)
        if self.small_block is not None and self.small_block_share is not None and len(homes):
            blocks = homes.codes(data, geography)
            shares[np.bincount(blocks)[blocks] < self.small_block] = self.small_block_share
        return shares

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Exchange the places."""
        homes = find_households(data, self.household)
        return homes.exchange(data, decision["pairs"], decision["geography"])
