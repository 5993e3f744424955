"""Everything that one table of a service needs: its history, who is answered in which way, and its growth."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

from discretion.errors import DataError, PlanError
from discretion.online.audit.exact import ExactMode
from discretion.online.audit.history import AnswerHistory
from discretion.online.audit.protection import SumProtection
from discretion.online.backends import Backend
from discretion.online.declare.catalog import DpPolicy, ExactPolicy, Policy, ServiceSpec
from discretion.online.dp.answer import PrivateMode
from discretion.online.ledger import Ledger, Limit
from discretion.online.mode import AnswerMode, Desk
from discretion.online.perturbed import CellKeys, PerturbedMode
from discretion.online.values import PEOPLE, Values, alike, signs, tables_about, told_about
from discretion.privacy.accounting import PrivacyFilter


class Turns:
    """One at a time for each name: of two equal questions asked at once, the second finds the first one's answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextmanager
    def take(self, name: Hashable) -> Iterator[None]:
        """Wait until nobody else has this name."""
        with self._guard:
            lock, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._held[name]
                if waiting == 1:
                    del self._held[name]
                else:
                    self._held[name] = (lock, waiting - 1)


class GrowthLock:
    """Many read a table, or one lets it grow: an answer and its audit speak about the same rows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._growing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the table as it is."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Wait for the readers and keep new ones out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._growing = True
            self._changed.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            with self._changed:
                self._growing = False
                self._changed.notify_all()


_SERVICE = "service"
_RULES = {"none": "dp only", "groups": "base groups", "audit": "linear audit"}


class TableService:
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
        self.table, self.growth = spec.tables[name], GrowthLock()
        self._spec, self._desk = spec, Desk(self.table, backend, ledger, spec.server.max_groups, self._confirm)
        self._looking = threading.Lock()
        self._keys = CellKeys(secret, name)
        policies = {user: spec.policy_for(user, name) for user in spec.users if name in spec.tables_for(user)}
        earlier = tables_about(ledger, self.table.people) if self.table.people else ()
        self._people = tuple(dict.fromkeys((*spec.same_people(name), *earlier)))
        self._shared = shared_limits(spec, name, self._people)
        for limit in self._shared:  # add up now what everybody spent, not while the first user waits
            ledger.remaining(limit, _SERVICE)
        self.history: AnswerHistory | None = None
        self._protection: SumProtection | None = None
        if any(isinstance(policy, ExactPolicy) for policy in policies.values()):
            self.history = AnswerHistory(ledger, self.table, backend.person_of_rows(name))
            self._teach(self.history)
            self._protection = SumProtection(self._desk, self.history.insiders)
        self._modes = {user: self._made(policy) for user, policy in policies.items()}
        self._values = Values(self._desk, secret if lasting else None)
        self._values.require_new()
        self._values.note()
        self._key = secrets.token_bytes(32)
        self._version = ""
        self._digests: dict[str, str] = {}
        self._look()

    def mode(self, user: str) -> AnswerMode:
        """Return the way in which a user is answered."""
        self._spec.table_for(user, self.table.name)
        return self._modes[user]

    def rules(self) -> dict[str, tuple[str, str]]:
        """Say for each sensitive column by which rule it is answered, and why."""
        if self._protection is None:
            named = [name for name in self.table.visible if self.table.columns[name].role == "sensitive"]
            return dict.fromkeys(named, (_RULES["none"], "nobody has true answers about this table"))
        return {name: (_RULES[found.rule], found.why) for name, found in self._protection.rulings().items()}

    def watch(self, mode: AnswerMode) -> None:
        """Raise DataError when known rows were written to so that values changed of which figures were told.

        Asked before a true or a perturbed answer is computed; private answers do not rely on earlier ones.
        """
        if mode.name != "dp":
            self._changed()

    def _confirm(self) -> None:
        """Raise DataError when known rows were written to while a question was answered.

        The history says who is in the answer, and the answer may be about others by now, or about other values. So it
        is not recorded and nobody hears it, now or later; its charge stays and counts as answered, which forbids more
        than it must and never less.
        """
        if self._changed():
            raise DataError(
                f"table {self.table.name!r} was written to while the question was answered; nothing was told, ask again"
            )

    def _changed(self) -> set[str]:
        """Name the columns whose known values were written to since the last look; raise when one of them was told."""
        with self._looking:
            if self._desk.backend.version(self.table.name) == self._version:
                return set()
            before = self._digests
            self._look()
            changed = {column for column, digest in self._digests.items() if digest != before[column]}
            try:
                self._values.require_untold(changed)
            except DataError:
                self._digests = before
                self._version = "?"  # looked at again by the next question
                raise
            return changed

    def _look(self) -> None:
        """Remember what stands in the table, where others can write to it."""
        backend, name = self._desk.backend, self.table.name
        self._version, self._digests = backend.version(name), {}
        if self._version:
            self._digests = backend.digests(name, (PEOPLE, *self.table.visible), backend.rows(name), self._key)

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
            self._look()
        return people

    def _made(self, policy: Policy) -> AnswerMode:
        if isinstance(policy, DpPolicy):
            return PrivateMode(self._desk, policy, self._people, self._shared)
        if isinstance(policy, ExactPolicy):
            if self.history is None or self._protection is None:
                raise PlanError("true answers need a history")
            return ExactMode(self._desk, policy, self.history, self._protection)
        return PerturbedMode(self._desk, policy, self._keys)

    def _teach(self, history: AnswerHistory) -> None:
        """Tell the audits what users know anyway."""
        for user, spec in self._spec.users.items():
            if keys := spec.knows.get(self.table.name):
                history.learn(user, (int(n) for n in self._desk.backend.find_people(self.table.name, keys)))


def shared_limits(spec: ServiceSpec, name: str, people: tuple[str, ...]) -> tuple[Limit, ...]:
    """Give the budgets of all users together for the people of a table: its own, and those of tables about the same."""
    tables = [spec.tables[one] for one in spec.same_people(name)]
    budgets = {(table.epsilon, table.delta) for table in tables if table.epsilon is not None}
    return tuple(Limit(PrivacyFilter(epsilon, delta), people) for epsilon, delta in sorted(budgets))


def check_people(spec: ServiceSpec, backend: Backend, ledger: Ledger) -> None:
    """Raise when two tables seem to be about the same people and nobody said whether they are, or tell both truly.

    True and perturbed figures are judged beside what was told of the same table. So of the tables about some people,
    those that the ledger knows among them, only one has such answers, for ever.
    """
    names = list(spec.tables)
    key, several = secrets.token_bytes(32), names if len(names) > 1 else []
    equal_signs = {name: backend.signatures(name) for name in several}
    known = {name: signs(backend, name, key) for name in several}
    problems = [
        f"table {name!r} is a join: only policies of mode dp can answer about it"
        for name, table in spec.tables.items()
        if table.join is not None
        for user in spec.users
        if name in spec.tables_for(user) and not isinstance(spec.policy_for(user, name), DpPolicy)
    ][:1]
    for one, other in combinations(names, 2):
        first, second = spec.tables[one], spec.tables[other]
        if other in spec.same_people(one):
            if all(_tells(spec, name) for name in (one, other)):
                problems.append(
                    f"tables {one!r} and {other!r} are about the same people: only one of them can be answered "
                    "exactly or perturbed, since each knows its own history only; give the other a policy of mode dp"
                )
        elif first.people is None or second.people is None:
            first_signs, second_signs = equal_signs[one], equal_signs[other]
            equal = [(a, b) for a, sign in first_signs.items() for b in second_signs if sign == second_signs[b] != ""]
            if found := equal[0] if equal else alike(known[one], known[other]):
                a, b = (name or "the people" for name in found)
                problems.append(
                    f"tables {one!r} and {other!r} hold the same values ({a}, {b}): if they are about the same people, "
                    "give both the same `people: NAME`, so that they share one budget; if not, give each its own"
                )
    for name, table in spec.tables.items():
        earlier = tables_about(ledger, table.people) if table.people and _tells(spec, name) else ()
        problems += [
            f"true or perturbed figures about the people of {name!r} were told from the table {other!r}: give {name!r} "
            "a policy of mode dp"
            for other in earlier
            if other != name and told_about(ledger, other)
        ]
    if problems:
        raise PlanError(problems)


def _tells(spec: ServiceSpec, name: str) -> bool:
    """Say whether somebody has true or perturbed answers about a table."""
    users = [user for user in spec.users if name in spec.tables_for(user) and spec.user(user).role != "auditor"]
    return any(not isinstance(spec.policy_for(user, name), DpPolicy) for user in users)


def check_budgets(spec: ServiceSpec) -> None:
    """Raise when the budget of a table has no δ and its users need one."""
    problems = [
        f"table {name!r} has a budget without `delta`, and its users count {' and '.join(found)}: give it a δ"
        for name, table in spec.tables.items()
        if table.epsilon is not None and not table.delta and (found := _accountants(spec, name) - {"pure"})
    ]
    if problems:
        raise PlanError(problems)


def _accountants(spec: ServiceSpec, name: str) -> set[str]:
    tables = spec.same_people(name)
    policies = [spec.policy_for(user, one) for user in spec.users for one in spec.tables_for(user) if one in tables]
    return {policy.accountant for policy in policies if isinstance(policy, DpPolicy)}
