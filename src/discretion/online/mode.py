"""What the three ways to answer share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from discretion.errors import QueryRefused
from discretion.online.backends import Backend
from discretion.online.declare.catalog import TableSpec
from discretion.online.ledger import FREE, Cost, Entry, Kind, Ledger
from discretion.online.question.answer import AnswerFigures, Estimate, TableBudget, Value
from discretion.online.question.query import Aggregate, Query

_COUNTS = ("count", "count-distinct", "histogram")


@dataclass(frozen=True)
class RequestedAccuracy:
    """What a user wants to spend, or how exact the answer should be; of neither, what the owner set."""

    epsilon: float | None = None
    error: float | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        if any(isinstance(wish, bool) for wish in (self.epsilon, self.error, self.records)):
            raise QueryRefused("`epsilon`, `error` and `records` are numbers, not true or false")


@dataclass(frozen=True)
class Reply:
    """Figures and how they came."""

    figures: AnswerFigures
    cost: Cost = FREE
    cached: bool = False


@dataclass(frozen=True)
class Desk:
    """Where the questions about one table are answered: its declaration, its rows and the ledger."""

    table: TableSpec
    backend: Backend
    ledger: Ledger
    max_groups: int | None = None
    """most groups of one answer"""
    confirm: Callable[[], None] = lambda: None
    """raises DataError when rows were written to since the question came; asked before a true answer is recorded"""

    def stored(self, query: Query, user: str, kind: Kind) -> Entry | None:
        """Find the answer that this user got to the same question since the table last grew."""
        return self.ledger.find_answer(self.table.name, query.digest(), user=user, kind=kind)

    def charge(self, query: Query, user: str, kind: Kind, cost: Cost = FREE, limits: Sequence[Any] = ()) -> Entry:
        """Write a question and its cost into the ledger, before there is an answer."""
        return self.ledger.charge(
            user, self.table.name, query.digest(), cost, kind, query=canonical_text(query), limits=limits
        )

    def note_refusal(self, query: Query, user: str, reason: QueryRefused) -> None:
        """Remember a question that was not answered, and why."""
        content = {"query": query.canonical().to_json(), "reason": str(reason)}
        text = json.dumps(content, ensure_ascii=False)
        self.ledger.charge(user, self.table.name, query.digest(), FREE, "refused", query=text)


class AnswerMode(Protocol):
    """One way to answer."""

    name: str

    def ask(self, query: Query, user: str, wish: RequestedAccuracy) -> Reply:
        """Answer a question, or refuse; what an answer costs is charged before it exists."""
        ...

    def dry_run(self, query: Query, user: str, wish: RequestedAccuracy) -> Estimate:
        """Say what an answer would cost and how exact it would be."""
        ...

    def budget(self, user: str) -> TableBudget:
        """Say what a user has spent, and when, and has left."""
        ...

    def remaining(self, user: str) -> Cost | None:
        """Say what a user has left; none where answers cost nothing."""
        ...


class FreeMode:
    """A way to answer that spends nothing."""

    name: str
    _desk: Desk

    def budget(self, user: str) -> TableBudget:  # noqa: ARG002
        """Return that there is no budget."""
        return TableBudget(self._desk.table.name, self.name)

    def remaining(self, user: str) -> None:
        """Return nothing: there is no budget."""


def canonical_text(query: Query) -> str:
    """Write the canonical question for the ledger."""
    return json.dumps(query.canonical().to_json(), sort_keys=True, ensure_ascii=False)


def whole(aggregate: Aggregate, value: Value) -> Value:
    """Return counts as integers, and nothing but finite numbers."""
    if isinstance(value, list | tuple):
        return [_one(aggregate, item) for item in value]
    return value if isinstance(value, str) else _one(aggregate, value)


def _one(aggregate: Aggregate, value: int | float | None) -> int | float | None:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if aggregate.function in _COUNTS and value.is_integer() else value
