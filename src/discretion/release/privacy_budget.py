"""Private steps paid from a ledger: the one that an on-line service writes, or one of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError
from discretion.privacy.accounting import PrivacyFilter, exact

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.method import Method


@dataclass(frozen=True)
class PrivacyBudget:
    """What all private releases and answers about some people may spend together, and the ledger that counts it.

    Guarantees that a private step runs only if everything that the ledger holds about its people, this step included,
    stays within (ε, δ), whoever spent it: the filter is that of on-line answers (`PrivacyFilter`), which reads ρ at
    half of δ. The charge is on disk before the step reads the data, and stays spent if the step fails. The first charge
    writes (ε, δ) into the ledger; a later one that states more is refused unless `raised` says that this is meant,
    which is written too. One that states less is held to that. A service on the same ledger keeps to its own policy.

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
    raised: bool = False
    """raise what the ledger knows as the limit of these people to this ε and δ; the ledger remembers it"""

    def __post_init__(self) -> None:
        faults = [f"`{name}` is a text" for name in ("table", "user") if not _is_text(getattr(self, name))]
        if not isinstance(self.ledger, str | Path) or not str(self.ledger):
            faults.append("`path` names the ledger")
        if not isinstance(self.raised, bool):
            faults.append("`raised` is true or false")
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
        from discretion.online.ledger import Charge, Limit, open_ledger

        text = json.dumps({"step": method.to_plan()}, sort_keys=True, ensure_ascii=False, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        limit = Limit(PrivacyFilter(self.epsilon, self.delta), self.table)
        with open_ledger(self.ledger) as ledger, ledger.page() as page:
            known = page.latest(self.table, "limit")
            if known is None or self._is_above(json.loads(known.query)):
                told = json.dumps({"delta": self.delta, "epsilon": self.epsilon})
                page.charge(Charge(self.user, self.table, "limit", query=told))
            page.charge(Charge(self.user, self.table, "dp", digest, text, method.cost), (limit,))

    def _is_above(self, known: Mapping[str, float]) -> bool:
        """Tell whether this is more than the ledger knows as the limit; an error where nobody says that it is meant."""
        more = [name for name in ("epsilon", "delta") if exact(getattr(self, name)) > exact(known[name])]
        if more and not self.raised:
            raise PlanError(
                f"the ledger knows ε {known['epsilon']:g} , δ {known['delta']:g} as the limit for {self.table!r}, and "
                f"here a larger {' and '.join(more)} is stated; keep to the limit, or say `raised: true`, which the "
                "ledger remembers"
            )
        return bool(more)

    def account(self) -> str:
        """Say what was spent and what is left, of the stated ε and δ."""
        from discretion.online.ledger import open_ledger

        budget = PrivacyFilter(self.epsilon, self.delta)
        with open_ledger(self.ledger) as ledger:
            spent = ledger.spent(table=self.table)
        left = budget.left(spent, "zcdp" if spent.nano_rho else "approximate")
        return f"privacy budget for {self.table!r} (ε {self.epsilon:g}, δ {self.delta:g}): spent {spent}; left {left}"

    def to_plan(self) -> dict[str, Any]:
        """Give the budget as a plan writes it."""
        told = {"path": str(self.ledger), "table": self.table, "epsilon": self.epsilon, "delta": self.delta}
        more = {"user": self.user} if self.user != "owner" else {}
        return {**told, **more, **({"raised": True} if self.raised else {})}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
