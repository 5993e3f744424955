"""What an answer would cost and how exact it would be, and what a user has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from discretion.online.answers import cost_json, cost_of
from discretion.privacy.accounting import FREE, Cost

_UNITS = (("ε", 10**6), ("ρ", 10**9))


@dataclass(frozen=True)
class Estimate:
    """Cost and expected error of an answer, before anything is spent; it depends on the declarations only."""

    mode: str
    """exact+audit, dp or perturbed"""
    cost: Cost = FREE
    """what the answer would spend"""
    remaining: Cost | None = None
    """what the user may spend now; none: there is no budget"""
    affordable: bool = True
    """whether the budget covers it"""
    cached: bool = False
    """whether it was asked before and costs nothing"""
    confidence: float | None = None
    """level of `errors`"""
    errors: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    """figure → half the width of its expected interval; none where it cannot be known beforehand"""
    notes: tuple[str, ...] = ()
    """what to know before asking"""

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "mode": self.mode,
            "cost": cost_json(self.cost),
            "remaining": None if self.remaining is None else cost_json(self.remaining),
            "affordable": self.affordable,
            "cached": self.cached,
            "confidence": self.confidence,
            "errors": dict(self.errors),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Estimate:
        """Read what `to_json` wrote."""
        left = content["remaining"]
        return cls(
            content["mode"], cost_of(content["cost"]), None if left is None else cost_of(left), content["affordable"],
            content["cached"], content["confidence"], MappingProxyType(dict(content["errors"])),
            tuple(content["notes"]),
        )  # fmt: skip


@dataclass(frozen=True)
class TableBudget:
    """What a user may spend on a table, and has spent."""

    table: str
    mode: str
    """how this user is answered"""
    period: str | None = None
    """after which the budget is full again; none: there is no budget"""
    limit: Cost | None = None
    """the budget of a period; none where answers cost nothing"""
    spent: Cost = FREE
    """spent in the running period"""
    remaining: Cost | None = None
    """what is left for this user, also of what all users together may spend"""
    spending: tuple[tuple[datetime, Cost], ...] = ()
    """the charges of the running period, in their order"""

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data, in the unit of the accountant: ε, or ρ of zero-concentrated privacy."""
        if self.limit is None or self.remaining is None:
            empty = dict.fromkeys(("unit", "period", "limit", "spent", "remaining", "delta_remaining"))
            return {"table": self.table, "mode": self.mode, **empty, "spending": []}
        place = 1 if self.limit.nano_rho else 0
        sign, unit = _UNITS[place]
        return {
            "table": self.table,
            "mode": self.mode,
            "unit": sign,
            "period": self.period,
            "limit": self.limit.amounts[place] / unit,
            "spent": self.spent.amounts[place] / unit,
            "remaining": self.remaining.amounts[place] / unit,
            "delta_remaining": self.remaining.nano_delta / 10**9,
            "spending": [
                {"time": moment.isoformat(), "amount": cost.amounts[place] / unit} for moment, cost in self.spending
            ],
        }
