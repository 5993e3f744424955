"""Everything one attacker has heard: a user by itself, or all users together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Ints
from discretion.online.audit.interval import IntervalAudit
from discretion.online.audit.limits import AnsweredSets, overlap_within
from discretion.online.audit.linear import LinearAudit
from discretion.online.audit.moments import Moments


@dataclass(frozen=True)
class Knowledge:
    """People whose values somebody knows anyway, in some columns (none: all)."""

    people: tuple[int, ...]
    columns: tuple[str, ...] | None = None

    def about(self, column: str) -> bool:
        """Say whether a column is known."""
        return self.columns is None or column in self.columns


Replay = Callable[[str], Iterable[tuple[tuple[int, ...], Sequence[Ints]]]]
"""Gives for a column the answered questions so far: which powers were added up, over which sets."""


class Scope:
    """The audits of one attacker, a system of unknowns per sensitive column; made from the ledger when first needed."""

    def __init__(self, owner: Ints, knowledge: Iterable[Knowledge], primes: int, replay: Replay) -> None:
        self._owner, self._primes, self._replay = owner, primes, replay
        self.knowledge = list(knowledge)
        self.linear: dict[str, LinearAudit] = {}
        self.intervals: dict[str, IntervalAudit] = {}
        self._answered: dict[str, AnsweredSets] = {}

    def audit(self, column: str) -> LinearAudit:
        """Give the linear audit of a column."""
        if column not in self.linear:
            people = int(self._owner.max(initial=-1)) + 1
            made = LinearAudit(people, owner=self._owner, primes=self._primes)
            for known in self.knowledge:
                if known.about(column):
                    made.know(known.people)
            for powers, sets in self._replay(column):
                made.remember(*_rows(powers, sets))
            self.linear[column] = made
        return self.linear[column]

    def is_exposed(self, columns: Iterable[str]) -> bool:
        """Say whether this attacker knows anybody's value in one of the columns."""
        return any(bool(self.audit(column).determined.any()) for column in columns)

    def judge(self, moments: Moments, sets: Sequence[Ints], max_overlap: int | None) -> str | None:
        """Say why a question must be refused, or None; then its rows are pending."""
        for column, powers in moments.items():
            audit = self.audit(column)
            if max_overlap is not None and self._overlap(column, sets) > max_overlap:
                return "a query set shares too many people with an earlier one"
            verdict = audit.judge(*_rows(powers, sets))
            if not verdict.safe:
                return verdict.reason
        return None

    def _overlap(self, column: str, sets: Sequence[Ints]) -> int:
        records = len(self._owner)
        if column not in self._answered:
            self._answered[column] = AnsweredSets()
            for _, told in self._replay(column):
                self._note(column, told)
        earlier = max((self._answered[column].largest_overlap(members, records) for members in sets), default=0)
        return max(earlier, overlap_within(list(sets), records))

    def commit(self, moments: Moments, sets: Sequence[Ints]) -> None:
        """Keep what is pending."""
        for column in moments:
            self.linear[column].commit()
            self._note(column, sets)

    def discard(self) -> None:
        """Forget what is pending."""
        for audit in self.linear.values():
            audit.discard()

    def remember(self, moments: Moments, sets: Sequence[Ints], *, now: bool = True) -> None:
        """Take in an answered question; unless `now`, audits that do not exist yet will read it in the ledger."""
        for column, powers in moments.items():
            if now or column in self.linear:
                self.audit(column).remember(*_rows(powers, sets))
            self._note(column, sets)

    def _note(self, column: str, sets: Sequence[Ints]) -> None:
        """Remember answered sets for the limit of overlaps, where somebody has one."""
        if column in self._answered:
            for members in sets:
                self._answered[column].add(members, len(self._owner))

    def learn(self, known: Knowledge) -> int:
        """Take in what this attacker knows anyway; give how many other people that exposes."""
        self.knowledge.append(known)
        exposed = [audit.know(known.people) for column, audit in self.linear.items() if known.about(column)]
        for column, audit in self.intervals.items():
            if known.about(column):
                audit.know(known.people)
        return sum(exposed)

    def extend(self, owner: Ints) -> None:
        """Take in appended records."""
        self._owner = np.append(self._owner, owner)
        for audit in self.linear.values():
            audit.extend(owner=owner)
        for interval in self.intervals.values():
            interval.extend(len(owner))


def _rows(powers: Sequence[int], sets: Sequence[Ints]) -> tuple[list[Ints], list[int]]:
    """List every set with every power."""
    return [members for members in sets for _ in powers], [power for _ in sets for power in powers]
