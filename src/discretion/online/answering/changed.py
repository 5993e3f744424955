"""Answers changed a little by cell keys, rounding and size control."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

from discretion.errors import QueryRefused
from discretion.online.answering.mode import Desk, Told, Wish, canonical_text, whole
from discretion.online.answers import Figures
from discretion.online.estimate import Estimate, TableBudget
from discretion.online.ledger import Charge
from discretion.online.perturbed import CellKeys, Measured, Perturbation, large_cells, perturb
from discretion.online.policy import PerturbedPolicy
from discretion.online.query import Query

_NOTE = "figures are changed a little, without any guarantee; groups need not add up to their total"

MOST_ANSWERS = 24
"""figures of a column, however many people there are: with all of them on one person the error is 2·√(3/24) = .7"""


class PerturbedMode:
    """Perturbed answers about one table."""

    name = "perturbed"

    def __init__(self, desk: Desk, policy: PerturbedPolicy, keys: CellKeys) -> None:
        self._desk, self._policy, self._keys = desk, policy, keys
        self._measured = Measured(desk.backend, desk.table)
        for name in desk.table.visible:  # read now what decides about refusals, not when somebody asks
            if desk.table.columns[name].role == "sensitive":
                with suppress(QueryRefused):
                    self._measured.of(name)
        self._told: dict[str, int] = {}
        self._asked: set[str] = set()
        self._seen = 0
        self._lock = threading.Lock()
        Perturbation(policy, keys)

    def ask(self, query: Query, user: str, wish: Wish) -> Told:  # noqa: ARG002 - nothing is spent
        """Note the question, compute, record, answer."""
        question = query.canonical()
        found = self._desk.stored(question, user, "perturbed")
        if found is not None and found.answer is not None:
            return Told(Figures.from_text(found.answer), cached=True)
        try:
            cells = large_cells(question, self._desk.backend, self._policy, self._measured)
            number = self._charge(question, user, len(cells.keys))
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        frame = perturb(question, self._desk.backend, self._policy, self._keys, self._measured)
        plain = Figures.of_frame(frame, len(question.group_by))
        values = tuple(
            tuple(whole(a, value) for a, value in zip(question.aggregates, row, strict=True)) for row in plain.values
        )
        figures = Figures(plain.keys, values, notes=(_NOTE,))
        self._desk.confirm()
        self._desk.ledger.record_answer(number, figures.to_text())
        return Told(figures)

    def _charge(self, question: Query, user: str, cells: int) -> int:
        """Write a question into the ledger, unless all users together would be told too much about a column."""
        table, people = self._desk.table, self._desk.backend.people(self._desk.table.name)
        most = min(MOST_ANSWERS, max(1, people // 2)) if self._policy.max_answers is None else self._policy.max_answers
        asked, name = self._sensitive(question), question.digest()
        with self._lock, self._desk.ledger.page() as page:
            for entry in page.entries_after(self._seen, table.name):
                self._seen = entry.id
                if entry.kind == "perturbed" and entry.digest not in self._asked:
                    self._asked.add(entry.digest)
                    for column in self._sensitive(Query.from_json(json.loads(entry.query))):
                        self._told[column] = self._told.get(column, 0) + int(entry.sets or b"1")
            over = [c for c in asked if self._told.get(c, 0) + asked.count(c) * cells > most]
            if over and name not in self._asked:
                raise QueryRefused(f"more than {most:,} figures of the column {over[0]!r} are not told")
            charge = Charge(user, table.name, "perturbed", name, canonical_text(question), sets=str(cells).encode())
            return page.charge(charge).id

    def _sensitive(self, question: Query) -> list[str]:
        """Name the sensitive columns that a question measures, once for each figure."""
        public = self._desk.table.public
        return [a.column for a in question.aggregates if a.column is not None and a.column not in public]

    def dry_run(self, query: Query, user: str, wish: Wish) -> Estimate:  # noqa: ARG002
        """Perturbed answers cost nothing."""
        cached = self._desk.stored(query.canonical(), user, "perturbed") is not None
        most = self._policy.deviation + (self._policy.rounding_base or 0) / 2
        off = {a.label: most if a.function == "count" else None for a in query.aggregates}
        return Estimate(self.name, cached=cached, errors=off, confidence=1.0, notes=(_NOTE,))

    def budget(self, user: str) -> TableBudget:  # noqa: ARG002
        """There is none."""
        return TableBudget(self._desk.table.name, self.name)

    def remaining(self, user: str) -> None:
        """There is no budget."""
