"""Budgets: how much may be spent on a table, by a user, in a period; and quick running totals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from discretion.errors import BudgetExhausted, PlanError
from discretion.online.ledger.entries import Charge, Entry, microseconds
from discretion.privacy.accounting import FREE, Accountant, Cost, PrivacyFilter

Calendar = Literal["day", "week", "month", "quarter", "year", "ever"]
Period = Calendar | timedelta
"""A calendar period (UTC), for ever, or a rolling window of some length."""
EACH = "*"
"""In place of a user: every user has this budget."""


def start_of(period: Calendar, moment: datetime) -> int:
    """Give the start of the calendar period around a moment, in microseconds since 1970.

    Examples
    --------
    >>> from datetime import UTC
    >>> from discretion.online.ledger.entries import moment_of
    >>> moment_of(start_of("quarter", datetime(2024, 8, 9, tzinfo=UTC))).date().isoformat()
    '2024-07-01'
    """
    if period == "ever":
        return 0
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return microseconds(day)
    if period == "week":
        return microseconds(day - timedelta(days=day.weekday()))
    if period == "month":
        return microseconds(day.replace(day=1))
    if period == "quarter":
        return microseconds(day.replace(day=1, month=day.month - (day.month - 1) % 3))
    if period == "year":
        return microseconds(day.replace(day=1, month=1))
    raise PlanError(f"unknown period {period!r}; known are day, week, month, quarter, year, ever")


@dataclass(frozen=True)
class Limit:
    """A budget: what is spent in any measure counts against it, see `PrivacyFilter`."""

    most: PrivacyFilter
    table: str | tuple[str, ...] | None = None
    """the table it is for, or several tables about the same people; none: all tables together"""
    user: str | None = None
    """the user it is for; none: all users together; `EACH`: every user by itself"""
    period: Period = "ever"

    def __post_init__(self) -> None:
        if isinstance(self.period, timedelta) and self.period <= timedelta(0):
            raise PlanError("a rolling period is longer than nothing")

    def scope(self, user: str) -> Scope:
        """Give what is added up for a user."""
        return Scope(user if self.user == EACH else self.user, self.table, self.period)


@dataclass(frozen=True)
class Scope:
    """Whose spending, on which table (or tables together), in which period."""

    user: str | None = None
    table: str | tuple[str, ...] | None = None
    period: Period = "ever"

    def since(self, moment: datetime) -> int:
        """Give where the period starts that holds (or ends at) a moment."""
        if isinstance(self.period, timedelta):
            return microseconds(moment - self.period) + 1
        return start_of(self.period, moment)

    def holds(self, entry: Entry | Charge) -> bool:
        """Say whether an entry's user and table are meant."""
        tables = (self.table,) if isinstance(self.table, str) else self.table
        return self.user in (None, entry.user) and (tables is None or entry.table in tables)


class _Window:
    """The running total of one scope. Calendar windows need their sum only, rolling ones what they will let go."""

    def __init__(self, since: int, spent: Cost | Iterable[tuple[int, Cost]]) -> None:
        self.since = since
        self.total = spent if isinstance(spent, Cost) else FREE
        self._queue: deque[tuple[int, Cost]] | None = None
        if not isinstance(spent, Cost):
            self._queue = deque()
            for time, cost in spent:
                self.add(time, cost)

    def add(self, time: int, cost: Cost) -> None:
        if cost == FREE or time < self.since:
            return
        self.total += cost
        if self._queue is not None:
            self._queue.append((time, cost))

    def move(self, since: int) -> bool:
        """Let the window start later; False when it must be read again."""
        if since == self.since:
            return True
        if self._queue is None or since < self.since:
            return False
        self.since = since
        while self._queue and self._queue[0][0] < since:
            self.total = self.total.less(self._queue.popleft()[1])
        return True


Reader = Callable[[Scope, int], Iterable[tuple[int, Cost]]]
"""Reads times and costs of a scope since a time."""
Adder = Callable[[Scope, int], Cost]
"""Adds up the costs of a scope since a time."""


class Totals:
    """Running totals of all scopes that were ever asked for, kept up with the ledger entry by entry."""

    def __init__(self, reader: Reader, adder: Adder) -> None:
        self._read, self._add_up = reader, adder
        self._windows: dict[Scope, _Window] = {}

    @property
    def any_kept(self) -> bool:
        """Whether there is a total to keep up."""
        return bool(self._windows)

    def see(self, entry: Entry) -> None:
        """Count an entry that is now in the ledger."""
        for scope, window in self._windows.items():
            if scope.holds(entry):
                window.add(entry.time, entry.cost)

    def spent(self, scope: Scope, moment: datetime) -> Cost:
        """Give what a scope has spent in its period at a moment."""
        since = scope.since(moment)
        window = self._windows.get(scope)
        if window is None or not window.move(since):
            read = self._read if isinstance(scope.period, timedelta) else self._add_up
            window = self._windows[scope] = _Window(since, read(scope, since))
        return window.total

    def check(self, charge: Charge, limits: Iterable[Limit], moment: datetime, pending: Sequence[Entry]) -> None:
        """Refuse a charge that would exceed a budget, pending charges of the same transaction included."""
        if charge.cost == FREE:
            return
        for limit in limits:
            scope = limit.scope(charge.user)
            if limit.user not in (None, EACH, charge.user) or not scope.holds(charge):
                continue
            spent = self.spent(scope, moment)
            for entry in pending:
                if scope.holds(entry):
                    spent += entry.cost
            if not limit.most.admits(spent + charge.cost):
                counts: Accountant = "zcdp" if charge.cost.nano_rho else "approximate"
                raise BudgetExhausted(_words(limit, charge, limit.most.left(spent, counts)))


def _words(limit: Limit, charge: Charge, left: Cost) -> str:
    whose = "of all users" if limit.user is None else f"of {charge.user!r}"
    about = "" if limit.table in (None, charge.table) else " and other tables about the same people"
    where = "" if limit.table is None else f" for {charge.table!r}{about}"
    when = "" if limit.period == "ever" else f" in this {limit.period if isinstance(limit.period, str) else 'period'}"
    return f"the privacy budget {whose}{where}{when} does not cover the question: it costs {charge.cost}, left: {left}"
