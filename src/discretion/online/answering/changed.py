"""Answers changed a little by cell keys, rounding and size control."""

from __future__ import annotations

from discretion.errors import QueryRefused
from discretion.online.answering.mode import Desk, Told, Wish, whole
from discretion.online.answers import Figures
from discretion.online.estimate import Estimate, TableBudget
from discretion.online.perturbed import CellKeys, Perturbation, perturb
from discretion.online.policy import PerturbedPolicy
from discretion.online.query import Query

_NOTE = "figures are changed a little; groups need not add up to their total"


class PerturbedMode:
    """Perturbed answers about one table."""

    name = "perturbed"

    def __init__(self, desk: Desk, policy: PerturbedPolicy, keys: CellKeys) -> None:
        self._desk, self._policy, self._keys = desk, policy, keys
        Perturbation(policy, keys)

    def ask(self, query: Query, user: str, wish: Wish) -> Told:  # noqa: ARG002 - nothing is spent
        """Note the question, compute, record, answer."""
        question = query.canonical()
        found = self._desk.stored(question, user, "perturbed")
        if found is not None and found.answer is not None:
            return Told(Figures.from_text(found.answer), cached=True)
        entry = self._desk.charge(question, user, "perturbed")
        try:
            frame = perturb(question, self._desk.backend, self._policy, self._keys)
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        plain = Figures.of_frame(frame, len(question.group_by))
        values = tuple(
            tuple(whole(a, value) for a, value in zip(question.aggregates, row, strict=True)) for row in plain.values
        )
        figures = Figures(plain.keys, values, notes=(_NOTE,))
        self._desk.ledger.record_answer(entry.id, figures.to_text())
        return Told(figures)

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
