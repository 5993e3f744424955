"""Households exchange places: the confidentiality edit (P19) and targeted record swapping (P20)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, confidential
from discretion.protect.household import as_pairs, geography_of

# The confidentiality edit of censuses: similar households exchange places (P19).


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
    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "Counts by area and by the matched columns are exact; relations of an area with other columns are pulled "
        "toward the average of the areas."
    )
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
        from discretion.kernels.swap import swap_places

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

    def _shares(self, data: Dataset, homes: Households, geography: tuple[str, ...]) -> Floats:
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


class TargetedRecordSwap(Method, kind="targeted-record-swap"):
    """Let households at risk exchange places with similar households in another area, and others at random.

    A record is at risk at a level of the geography if fewer than `k` records of its area agree with it in
    `risk_columns` (its risk is one divided by their number); a household, if one of its members is. Levels are gone
    through from coarse to fine: each household at risk takes a random partner in another area *of that level*, in the
    same area of the level above if it can. Partners have as many members and agree in `match_on`; also in `similar`, as
    far as possible, the last of these columns being given up first. Then further households are drawn until `share` of
    all have moved. Nobody moves twice. Geography and `carry_along` columns are exchanged, all else stays.

    Guarantees that every household at risk has moved, except those counted as `unmatched` in the decision, and that
    counts by place and `match_on` are exactly those of the data. If too few have partners to reach `share`, the
    decision says by how many households (`short_of_share`). Does not make records less unique: it makes their place
    untrue. Households with a missing place stay. Time O(n log n) for each level and number of similar columns.

    References
    ----------
    Shlomo, Tudor & Groom (2010), Data swapping for protecting census tables, Privacy in Statistical Databases;
    Antal, Enderle & Giessing (2017), Harmonised protection of census data in the ESS; catalogue P20.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(2000, seed=1)
    >>> swap = dc.TargetedRecordSwap(risk_columns=["sex", "marital_status"], k=3, match_on=["sex"], share=0.1)
    >>> swapped = swap(people, seed=7)
    >>> (swapped.frame["municipality"] != people.frame["municipality"]).mean() >= 0.1
    True
    """

    geography: Columns = ()
    """levels of the geography from coarse to fine; without it, the columns with the role geography"""
    risk_columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers that are not geography"""
    k: int = confidential(ge=2)
    """records with fewer equal records in their area than this, themselves included, must move"""
    share: float = confidential(0.0, ge=0, le=1)
    """least share of households that move, those at risk and all partners included"""
    match_on: Columns = ()
    """columns in which partners must agree, besides their number of members"""
    similar: Columns = ()
    """columns in which partners agree if possible, the most important first"""
    carry_along: Columns = ()
    """further columns that are exchanged with the geography (constant within households)"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household, or single records"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "Counts by area and by the matched columns are exact; relations of an area with other columns are pulled "
        "toward the average of the areas, most in small ones."
    )
    guarantee: ClassVar[str] = (
        "Households that stood out in their area exchanged places with similar households of another area, as did "
        "others at random, so a published place need not be true."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        moving = [*self.geography, *self.carry_along]
        if both := set(moving) & {*self.match_on, *self.similar}:
            raise ValueError(f"{min(both)!r} is exchanged and cannot be matched on")
        if len(set(moving)) < len(moving):
            raise ValueError("a column stands twice in `geography` and `carry_along`")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find who must move, and partners; the decision counts risky and unmatched households at each level."""
        geography = geography_of(data, self.geography, self.kind)
        matched = {*self.match_on, *self.similar}
        risk = self.risk_columns or tuple(name for name in data.having("quasi") if name not in geography)
        if both := set(geography) & (matched | set(risk) | set(self.carry_along)):
            raise PlanError(f"{self.kind}: {min(both)!r} is geography and cannot be used otherwise; give `geography`")
        if not risk:
            raise PlanError(f"{self.kind}: there are no quasi-identifiers besides the geography; give `risk_columns`")
        data.require([*risk, *matched, *self.carry_along])
        homes = find_households(data, self.household)
        homes.require_constant(data, [*geography, *self.carry_along])
        search = _Search(data, homes, geography, self.match_on, self.similar, ctx)
        search.free &= homes.present(data, [*geography, *self.carry_along])
        risky: dict[str, int] = {}
        unmatched: dict[str, int] = {}
        for level, name in enumerate(geography):
            small = data.classes([*risk, *geography[: level + 1]]).sizes < self.k
            must = np.zeros(len(homes), dtype=np.bool_)  # a household moves if one member's class is smaller than k
            must[homes.of[small]] = True
            risky[name] = int(must.sum())
            search.serve(np.flatnonzero(must), level)
            unmatched[name] = int((must & (search.partner < 0)).sum())
        wanted = math.ceil(self.share * len(homes) - 1e-9)
        counts: dict[str, Any] = {"risky": risky, "unmatched": unmatched, "at_random": search.fill_up(wanted)}
        counts |= {"swapped": search.moved, "short_of_share": max(0, wanted - search.moved)}
        moving = [*geography, *self.carry_along]
        return Decision(MappingProxyType({"columns": moving, **counts, "pairs": as_pairs(search.partner)}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Exchange the places."""
        homes = find_households(data, self.household)
        return homes.exchange(data, decision["pairs"], decision["columns"])


@dataclass
class _Search:
    """The state of a search for partners: who is free, and who exchanges with whom."""

    data: Dataset
    homes: Households
    geography: tuple[str, ...]
    match_on: Columns
    similar: Columns
    ctx: Context
    partner: Ints = field(init=False)
    free: Bools = field(init=False)
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.partner = np.full(len(self.homes), -1, dtype=np.int64)
        self.free = np.ones(len(self.homes), dtype=np.bool_)
        self.rng = self.ctx.rng

    @property
    def moved(self) -> int:
        return int((self.partner >= 0).sum())

    @cached_property
    def profiles(self) -> list[Ints]:
        """Kinds of households, from most to least alike."""
        wanted = [(*self.match_on, *self.similar[:kept]) for kept in range(len(self.similar), -1, -1)]
        found = []
        for number, columns in enumerate(wanted):
            self.ctx.progress(number, len(wanted), f"{self.ctx.step}: comparing households")
            found.append(self.homes.kinds(self.data, columns))
        return found

    def serve(self, units: Ints, level: int) -> None:
        """Find partners in another area of a level: the most alike first, in the same area of the level above."""
        from discretion.kernels.classes import class_ids
        from discretion.kernels.swap import swap_places

        areas = self.homes.codes(self.data, self.geography[: level + 1])
        above = self.homes.codes(self.data, self.geography[:level]) if level else None
        units = units[self.rng.permutation(len(units))]
        for number, profile in enumerate(self.profiles):
            self.ctx.progress(number, len(self.profiles), f"{self.ctx.step}: {self.geography[level]}")
            for kinds in ([] if above is None else [_joint(class_ids, profile, above)]) + [profile]:
                units = units[self.free[units]]
                if not len(units):
                    return
                found = swap_places(kinds, areas, units, self.rng.random(len(units)), self.free)
                hit = found >= 0
                self.partner[hit] = found[hit]
                self.free[hit] = False
        self.ctx.progress(len(self.profiles), len(self.profiles), f"{self.ctx.step}: {self.geography[level]}")

    def fill_up(self, wanted: int) -> int:
        """Draw further households at random until so many have moved, or nobody is left to ask; give their number."""
        before = self.moved
        asked = np.flatnonzero(self.free)
        asked = asked[self.rng.permutation(len(asked))]
        while len(asked) and self.moved < wanted:
            pairs = (wanted - self.moved + 1) // 2
            self.serve(asked[:pairs], len(self.geography) - 1)
            asked = asked[pairs:]
            asked = asked[self.free[asked]]
        return self.moved - before


def _joint(class_ids: Any, one: Ints, other: Ints) -> Ints:
    """Number the combinations of two numberings."""
    sizes = [int(ids.max()) + 1 if len(ids) else 1 for ids in (one, other)]
    return np.asarray(class_ids([one, other], sizes).ids, dtype=np.int64)
