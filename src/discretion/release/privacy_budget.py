"""Private steps paid from a ledger: the one that an on-line service writes, or one of its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError
from discretion.privacy.accounting import PrivacyFilter

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.method import Method


@dataclass(frozen=True)
class PrivacyBudget:
    """What all private releases and answers about some people may spend together, and the ledger that counts it.

    Guarantees that a private step runs only if everything that the ledger holds about its people, this step included,
    stays within (ε, δ), whoever spent it: the filter is that of on-line answers (`PrivacyFilter`), which reads ρ at
    half of δ. The charge is on disk before the step reads the data, and stays spent if the step fails.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.PrivacyBudget("ledger.db", table="census", epsilon=2, delta=1e-6).user
    'owner'
    """

    ledger: str | Path
    """path of the ledger, sqlite:///path or postgresql://user@host/base; made when absent"""
    table: str
    """the people: the name under which a service answers about them"""
    epsilon: float
    """ε of all releases and answers together"""
    delta: float
    """δ of all releases and answers together"""
    user: str = "owner"
    """who spends, for the ledger"""

    def __post_init__(self) -> None:
        faults = [f"`{name}` is a text" for name in ("table", "user") if not _is_text(getattr(self, name))]
        if not isinstance(self.ledger, str | Path) or not str(self.ledger):
            faults.append("`path` names the ledger")
        if any(isinstance(x, bool) or not isinstance(x, int | float) for x in (self.epsilon, self.delta)):
            faults.append("`epsilon` and `delta` are numbers")
        if faults:
            raise PlanError(faults)
        PrivacyFilter(self.epsilon, self.delta)
        if not self.delta:
            raise PlanError("a private file needs a δ above 0")

    def charge(self, method: Method, data: Dataset) -> None:
        """Write the cost of a private method into the ledger, or raise BudgetExhausted and write nothing.

        What is wrong with the method for this data is raised first.
        """
        method.ready(data)
        from discretion.online.ledger import Limit, open_ledger

        text = json.dumps({"step": method.to_plan()}, sort_keys=True, ensure_ascii=False, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        limit = Limit(PrivacyFilter(self.epsilon, self.delta), self.table)
        with open_ledger(self.ledger) as ledger:
            ledger.charge(self.user, self.table, digest, method.cost, "dp", query=text, limits=(limit,))

    def to_plan(self) -> dict[str, Any]:
        """Give the budget as a plan writes it."""
        told = {"path": str(self.ledger), "table": self.table, "epsilon": self.epsilon, "delta": self.delta}
        return told if self.user == "owner" else {**told, "user": self.user}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
