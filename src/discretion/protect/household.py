"""Methods applied to whole households, and what methods that move households share."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, at_household_level, find_households, one_per_household
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints
from discretion.method import AnyMethod, Decision, Method, Purpose
from discretion.part import confidential
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
