"""Households exchange places: the confidentiality edit (P19) and targeted record swapping (P20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, at_household_level, find_households, one_per_household
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import AnyMethod, Decision, Method, Purpose
from discretion.part import Columns, confidential
from discretion.protect.sample import Sample


def geography_of(data: Dataset, named: Sequence[str], kind: str) -> tuple[str, ...]:
    """Give the geography columns named, or those with that role, and check that there is more than one area."""
    if not named and not data.having("geography"):
        raise PlanError(f"{kind}: no column has the role geography; give `geography`")
    chosen = data.choose(named or data.having("geography"), "classes")
    if len(data) and len(data.classes(chosen)) < 2:
        raise DataError(f"{kind}: all records lie in one area ({', '.join(chosen)}); there is nowhere to swap to")
    return chosen


def as_pairs(partner: Ints) -> list[list[int]]:
    """Write who exchanges with whom as two lists, each pair once."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    return [first.tolist(), partner[first].tolist()]


class AtHouseholdLevel(Method, kind="at-household-level"):
    """Apply a method to households as wholes, so that all members get the same change.

    The data is reduced to one record per household with the columns that are constant in every household (region,
    weight, …); the method is applied to these; then every member gets the values of its household. If the method drops
    households (sampling, suppression of records), all their members go. A column that varies inside households cannot
    be named: the error says which, and in how many households. Guarantees what the method guarantees, for households:
    k-anonymity at this level means k households. Does not protect what distinguishes the members. Missing values as in
    the method. Time linear, besides the method's.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, Wiley (data with a hierarchy of units); catalogue P1–P22.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> inner = dc.Pram(columns=["region"], keep_share=0.7)
    >>> moved = dc.AtHouseholdLevel(method=inner)(people, seed=7)
    >>> moved.frame.group_by("household").n_unique()["region"].max()
    1
    """

    method: AnyMethod = confidential()
    """the method to apply: its kind with its fields, for example {pram: {columns: [region], keep_share: 0.7}}"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household"""

    purpose: ClassVar[Purpose] = "blur groups"

    @model_validator(mode="after")
    def _writes_no_new_rows(self) -> Self:
        if self.method.private:
            raise ValueError(
                f"{self.method.kind} protects households by itself, where a column has the role household; its rows "
                "belong to nobody"
            )
        return self

    @property
    def by_group(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.by_group)

    @property
    def random(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.random)

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.seeded)

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.perturbs)

    @property
    def effect(self) -> str:  # type: ignore[override]
        """What the inner step does to estimates, for households."""
        return f"{self.method.effect} Members of a household changed together and are not independent."

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """As the method inside, for households."""
        return f"All members of a household got the same change: {self.method.guarantee}"

    def settings(self, *, public: bool = False) -> dict[str, Any]:
        """Give the fields; of the method inside, `public` leaves out its own confidential ones."""
        fields = super().settings(public=public)
        return {"method": {self.method.kind: self.method.settings(public=True)}, **fields} if public else fields

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Let the method decide on the households."""
        reduced = one_per_household(data, self._homes(data), self._named(data))
        return Decision(MappingProxyType({"households": dict(self.method.decide(reduced, ctx).values)}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Let the method rewrite the households, and give the members what it gave to them."""
        known = Decision(MappingProxyType(decision["households"]))
        return at_household_level(
            data, self._homes(data), self._named(data), lambda homes: self.method.perform(homes, known, ctx)
        )

    def _named(self, data: Dataset) -> dict[str, Any]:
        """Give the settings of the method inside, with the weights that it adjusts without their being named."""
        settings: dict[str, Any] = self.method.settings()
        if isinstance(self.method, Sample) and self.method.weight is None:
            settings["weight"] = list(data.having("weight"))
        return settings

    def _homes(self, data: Dataset) -> Households:
        homes = find_households(data, self.household)
        if not homes.column:
            raise PlanError(f"{self.kind}: no column has the role household; name one as `household`")
        return homes


class BlankAndImpute(Method, kind="blank-and-impute"):
    """Replace values of some households in small blocks by those of similar households elsewhere.

    The variant of the confidentiality edit for samples (the "long form" of a census), where sampling itself protects
    all but small areas. In each block (area of all geography columns together) with fewer households than
    `small_block`, `per_block` households are drawn. Of each, `column_share` of the columns, chosen at random, is
    blanked and filled with the values of one random donor: a household of another block that has as many members with
    the same values of `match_on` (for each member, order aside), was not drawn itself, and has no missing values in the
    columns. A donor may serve several households. Without households every record stands for itself.

    Guarantees that in a small block nobody can be sure that a published value is true; places, matched columns and
    larger blocks are intact. Does not protect larger blocks beyond the sampling, nor households without a donor: their
    number is `unmatched` in the decision. A donor's value may be the true one by chance. Missing values stay missing,
    households with a missing place as they are. Time O(n log n).

    References
    ----------
    Federal Committee on Statistical Methodology (1994), Statistical Policy Working Paper 22 (the census of 1990);
    catalogue P19.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.Sample(share=0.2, household=True)(dc.datasets.census(2000, seed=1), seed=3)
    >>> edit = dc.BlankAndImpute(columns=["income", "occupation"], match_on=["sex"], small_block=15)
    >>> changed = (edit(people, seed=7).frame["income"] != people.frame["income"]).sum()
    >>> 0 < changed < len(people) / 2
    True
    """

    columns: Columns = Field(min_length=1)
    """columns whose values are blanked and imputed"""
    small_block: int = confidential(ge=2)
    """blocks with fewer households than this are small"""
    geography: Columns = ()
    """columns that together make a block; without it, the columns with the role geography"""
    match_on: Columns = ()
    """columns in which household and donor agree, besides their number of members"""
    per_block: int = confidential(1, ge=1)
    """households that are drawn in each small block (all, if it has no more)"""
    column_share: float = confidential(1.0, gt=0, le=1)
    """share of the columns that is blanked in each household drawn, at least one column"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household, or single records"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Estimates for small areas rest partly on households from elsewhere and are pulled toward those of similar "
        "areas; large areas are hardly touched."
    )
    guarantee: ClassVar[str] = (
        "In small areas, values of some households were replaced by those of similar households elsewhere, so a value "
        "published for a small area need not be true; larger areas rely on the sampling alone."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if both := set(self.columns) & {*self.geography, *self.match_on}:
            raise ValueError(f"{min(both)!r} is imputed and cannot be geography or matched on")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Draw households and donors; the decision counts small blocks, households drawn and those not matched."""
        data.require([*self.columns, *self.match_on])
        geography = geography_of(data, self.geography, self.kind)
        if both := set(geography) & set(self.columns):
            raise PlanError(f"{self.kind}: {min(both)!r} is geography and cannot be imputed; give `geography`")
        homes = find_households(data, self.household)
        homes.require_constant(data, geography)
        rng = ctx.rng
        ctx.progress(0, 2, f"{ctx.step}: drawing")
        placed = homes.present(data, geography)
        blocks = homes.codes(data, geography)
        sizes = np.bincount(blocks[placed], minlength=int(blocks.max(initial=-1)) + 1)
        small = placed & (sizes[blocks] < self.small_block)
        drawn = _first_of_each(blocks, np.flatnonzero(small)[rng.permutation(int(small.sum()))], self.per_block)
        giving = placed & _complete(data, homes, self.columns)
        giving[drawn] = False
        ctx.progress(1, 2, f"{ctx.step}: matching")
        donors = _draw_donors(homes.kinds(data, self.match_on), blocks, drawn, np.flatnonzero(giving), rng)
        matched = donors >= 0
        if len(drawn) and not matched.any():
            raise DataError(
                f"{self.kind}: none of the {len(drawn)} households drawn has a donor in another block that agrees in "
                f"its size{''.join(f', {name!r}' for name in self.match_on)}; match on less"
            )
        rows = self._rows(data, homes, drawn[matched], donors[matched], rng)
        ctx.progress(2, 2, ctx.step)
        counts = {
            "small_blocks": len(np.unique(blocks[small])),
            "drawn": len(drawn),
            "unmatched": int((~matched).sum()),
        }
        return Decision(MappingProxyType({**counts, "rows": rows}))

    def _rows(
        self, data: Dataset, homes: Households, drawn: Ints, donors: Ints, rng: np.random.Generator
    ) -> dict[str, list[list[int]]]:
        """List for each column the rows to fill and the rows to fill them from; members alike in `match_on` meet."""
        alike = data.classes(self.match_on).ids if self.match_on else np.zeros(len(data), np.int64)
        concerned = np.zeros(len(homes), np.bool_)
        concerned[drawn] = concerned[donors] = True
        order = np.flatnonzero(concerned[homes.of])
        order = order[np.lexsort((rng.random(len(order)), alike[order], homes.of[order]))]
        starts = np.concatenate([[0], np.cumsum(np.where(concerned, homes.sizes, 0))])
        places = rng.random((len(drawn), len(self.columns))).argsort(axis=1)
        chosen = places < max(1, round(self.column_share * len(self.columns)))
        found = {}
        for j, name in enumerate(self.columns):
            here = chosen[:, j]
            to = order[_members(starts, drawn[here])]
            source = order[_members(starts, donors[here])]
            coded = data.codes(name)
            present = coded.codes[to] != coded.missing
            found[name] = [to[present].tolist(), source[present].tolist()]
        return found

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Fill in the values."""
        values: dict[str, Any] = {}
        levels: dict[str, Any] = {}
        for name, (to, source) in decision["rows"].items():
            rows = np.arange(len(data))
            rows[to] = source
            values[name] = data.frame[name].gather(rows.astype(np.uint32))
            if name in data.levels:
                level = data.levels[name]
                levels[name] = level if isinstance(level, int) else level[rows]
        return data.with_columns(values, levels=levels)


def _first_of_each(blocks: Ints, units: Ints, most: int) -> Ints:
    """Keep of each block the first few units, in the order given."""
    by_block = np.argsort(blocks[units], kind="stable")
    owners = blocks[units[by_block]]
    place = np.arange(len(units)) - np.searchsorted(owners, owners)
    return np.asarray(units[np.sort(by_block[place < most])])


def _complete(data: Dataset, homes: Households, columns: Columns) -> Bools:
    """Tell which households have no missing value in some columns."""
    full = np.ones(len(homes), np.bool_)
    for name in columns:
        coded = data.codes(name)
        full[homes.of[coded.codes == coded.missing]] = False
    return full


def _draw_donors(kinds: Ints, blocks: Ints, drawn: Ints, pool: Ints, rng: np.random.Generator) -> Ints:
    """Draw for each unit one of the pool of its kind and another block, each with the same chance; −1: there is none.

    The pool is sorted by kind and block: the units of a kind are one stretch of it, and those of the own block, which
    are left out, one stretch inside that.
    """
    width = int(blocks.max(initial=-1)) + 1
    keys = kinds[pool] * width + blocks[pool]
    order = np.argsort(keys, kind="stable")
    pool, keys = pool[order], keys[order]
    first = np.searchsorted(keys, kinds[drawn] * width)
    last = np.searchsorted(keys, (kinds[drawn] + 1) * width)
    own = kinds[drawn] * width + blocks[drawn]
    own_first, own_last = np.searchsorted(keys, own), np.searchsorted(keys, own, side="right")
    choices = (last - first) - (own_last - own_first)
    place = first + (rng.random(len(drawn)) * choices).astype(np.int64)
    place += np.where(place >= own_first, own_last - own_first, 0)
    donors = np.full(len(drawn), -1, np.int64)
    donors[choices > 0] = pool[place[choices > 0]]
    return donors


def _members(starts: Ints, homes: Ints) -> Ints:
    """List the places of the members of some households, one after the other."""
    sizes = starts[homes + 1] - starts[homes]
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts[homes], sizes) + offsets, dtype=np.int64)


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
