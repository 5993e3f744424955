"""Everything that one table of a service needs: its history, who is answered in which way, and its growth."""

from __future__ import annotations

from typing import Any

from discretion.errors import PlanError
from discretion.online.answering.changed import PerturbedMode
from discretion.online.answering.exact import ExactMode
from discretion.online.answering.locks import Growth
from discretion.online.answering.mode import Desk, Mode
from discretion.online.answering.private import PrivateMode
from discretion.online.answering.protection import Protection
from discretion.online.answering.values import Values
from discretion.online.backend import Backend
from discretion.online.catalog import ServiceSpec
from discretion.online.dp.accounting import budget
from discretion.online.history import History
from discretion.online.ledger import Ledger, Limit
from discretion.online.perturbed import CellKeys
from discretion.online.policy import DpPolicy, ExactPolicy, Policy

_SERVICE = "service"


class TableDesk:
    """One table: all its users share its history, its budget and its cell keys."""

    def __init__(
        self,
        spec: ServiceSpec,
        name: str,
        backend: Backend,
        ledger: Ledger,
        secret: bytes,
        *,
        lasting: bool = False,
    ) -> None:
        self.table, self.growth = spec.tables[name], Growth()
        self._spec, self._desk = spec, Desk(self.table, backend, ledger, spec.server.max_groups)
        self._keys = CellKeys(secret, name)
        policies = {user: spec.policy_for(user, name) for user in spec.users if name in spec.tables_for(user)}
        self._shared = shared_limits(spec, name)
        for limit in self._shared:  # add up now what everybody spent, not while the first user waits
            ledger.remaining(limit, _SERVICE)
        self.history: History | None = None
        self._protection: Protection | None = None
        if any(isinstance(policy, ExactPolicy) for policy in policies.values()):
            self.history = History(ledger, self.table, backend.person_of_rows(name))
            self._teach(self.history)
            self._protection = Protection(self._desk, self.history.insiders)
        self._modes = {user: self._made(policy) for user, policy in policies.items()}
        self._values = Values(self._desk, secret if lasting else None)
        self._values.note()

    def mode(self, user: str) -> Mode:
        """Give the way in which a user is answered."""
        self._spec.table_for(user, self.table.name)
        return self._modes[user]

    def refresh(self, data: Any = None) -> int:
        """Let appended rows in while nobody is being answered."""
        name, backend = self.table.name, self._desk.backend
        with self.growth.growing():
            self._values.check()
            before = backend.rows(name)
            people = backend.refresh(name, data)
            added = backend.person_of_rows(name)[before:]
            if len(added) and self.history is not None:
                self.history.extend(added, user=_SERVICE)
            if len(added) and self._protection is not None:
                self._protection.refresh()
            self._values.note()
        return people

    def close(self) -> None:
        """Let go of what was computed from the table."""
        if self._protection is not None:
            self._protection.close()

    def _made(self, policy: Policy) -> Mode:
        if isinstance(policy, DpPolicy):
            return PrivateMode(self._desk, policy, self._shared)
        if isinstance(policy, ExactPolicy):
            if self.history is None or self._protection is None:
                raise PlanError("true answers need a history")
            return ExactMode(self._desk, policy, self.history, self._protection)
        return PerturbedMode(self._desk, policy, self._keys)

    def _teach(self, history: History) -> None:
        """Tell the audits what users know anyway."""
        for user, spec in self._spec.users.items():
            if keys := spec.knows.get(self.table.name):
                history.learn(user, (int(n) for n in self._desk.backend.find_people(self.table.name, keys)))


def shared_limits(spec: ServiceSpec, name: str) -> tuple[Limit, ...]:
    """Give the budget of all users together for a table, if it has one."""
    table = spec.tables[name]
    found = _accountants(spec, name)
    if table.epsilon is None or not found:
        return ()
    return (Limit(budget(table.epsilon, table.delta, found[0]), name),)


def check_accountants(spec: ServiceSpec) -> None:
    """Raise when users of one budget count in different ways: ε and ρ cannot be added."""
    problems = [
        f"table {name!r} has a budget of its own, and its users count {' and '.join(found)}: choose one accountant"
        for name, table in spec.tables.items()
        if table.epsilon is not None and len(found := _accountants(spec, name)) > 1
    ]
    if problems:
        raise PlanError(problems)


def _accountants(spec: ServiceSpec, name: str) -> list[Any]:
    policies = [spec.policy_for(user, name) for user in spec.users if name in spec.tables_for(user)]
    return sorted({policy.accountant for policy in policies if isinstance(policy, DpPolicy)})
