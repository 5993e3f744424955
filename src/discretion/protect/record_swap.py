"""Targeted record swapping: households at risk exchange places, the others now and then (P20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import PlanError
from discretion.method import Decision, Method
from discretion.part import Columns, confidential
from discretion.protect.household import as_pairs, geography_of

Ints = NDArray[np.int64]


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
            must = self._risky(data, homes, [*risk, *geography[: level + 1]])
            risky[name] = int(must.sum())
            search.serve(np.flatnonzero(must), level)
            unmatched[name] = int((must & (search.partner < 0)).sum())
        wanted = math.ceil(self.share * len(homes) - 1e-9)
        counts: dict[str, Any] = {"risky": risky, "unmatched": unmatched, "at_random": search.fill_up(wanted)}
        counts |= {"swapped": search.moved, "short_of_share": max(0, wanted - search.moved)}
        moving = [*geography, *self.carry_along]
        return Decision(MappingProxyType({"columns": moving, **counts, "pairs": as_pairs(search.partner)}))

    def _risky(self, data: Dataset, homes: Households, columns: Sequence[str]) -> NDArray[np.bool_]:
        """Tell which households have a member whose class is smaller than k."""
        small = data.classes(columns).sizes < self.k
        risky = np.zeros(len(homes), dtype=np.bool_)
        risky[homes.of[small]] = True
        return risky

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
    free: NDArray[np.bool_] = field(init=False)
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
        from discretion.kernels.record_swap import swap_places

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
