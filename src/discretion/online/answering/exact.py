"""True answers, refused when with all earlier ones they would determine somebody's value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import QueryRefused
from discretion.online.answering.mode import Desk, Told, Wish
from discretion.online.answers import Figures, Value
from discretion.online.audit.interval import Response
from discretion.online.audit.moments import moments_of
from discretion.online.backend import GroupKey
from discretion.online.estimate import Estimate, TableBudget
from discretion.online.history import History
from discretion.online.policy import ExactPolicy
from discretion.online.query import Aggregate, Query

Ints = NDArray[np.int64]
_EXTRA = "discretion: sum "
_NOTE = "true figures; a question that with earlier ones would determine somebody's value is refused"
_BOUNDED = "some figures are told as a bound or not at all, because they would narrow somebody's value too much"


class ExactMode:
    """Answers under the audit of a table's history.

    Whose value is missing counts as public: rows without a value are in no query set.
    """

    name = "exact+audit"

    def __init__(self, desk: Desk, policy: ExactPolicy, history: History) -> None:
        self._desk, self._policy, self._history = desk, policy, history

    def ask(self, query: Query, user: str, wish: Wish) -> Told:  # noqa: ARG002 - nothing is spent
        """Audit, charge, compute, record, answer."""
        question = query.canonical()
        stored = self._history.find_answer(question, user=user)
        if isinstance(stored, dict):
            return Told(Figures.from_text(json.dumps(stored)), cached=True)
        try:
            sets, everybody = self._sets(question)
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        admission = self._history.admit(user, question, sets, self._policy, everybody=everybody)
        found, sums = self._compute(question, admission.columns)
        totals = {c: [sums.get(key, {}).get(c, 0.0) for key in admission.keys] for c in admission.columns}
        sizes = {key: len(members) for key, members in zip(admission.keys, admission.sets, strict=True)}
        made: list[Figures] = []

        def render(responses: Mapping[str, list[Response]]) -> object:
            told = {c: dict(zip(admission.keys, listed, strict=True)) for c, listed in responses.items()}
            made.append(_figures(question, found, told, sizes))
            return json.loads(made[-1].to_text())

        self._history.settle(admission, totals, render)
        return Told(made[-1])

    def dry_run(self, query: Query, user: str, wish: Wish) -> Estimate:  # noqa: ARG002
        """True answers cost nothing and have no error."""
        cached = self._history.find_answer(query, user=user) is not None
        return Estimate(
            self.name, cached=cached, errors=dict.fromkeys((a.label for a in query.aggregates), 0.0), notes=(_NOTE,)
        )

    def budget(self, user: str) -> TableBudget:  # noqa: ARG002
        """There is none."""
        return TableBudget(self._desk.table.name, self.name)

    def remaining(self, user: str) -> None:
        """There is no budget."""

    def _sets(self, query: Query) -> tuple[dict[GroupKey, Ints], int | None]:
        """Give the rows with a value in each group, and how many people have one.

        Several sensitive columns must be missing in the same rows of each group.
        """
        columns = tuple(moments_of(query, self._desk.table))
        backend = self._desk.backend
        groups = backend.members(query.table, query.where, query.group_by, unit="row")
        if not columns:
            return groups, None
        gaps = [backend.missing(query.table, column) for column in columns]
        found = {}
        for key, members in groups.items():
            present = [np.setdiff1d(members, gap, assume_unique=True) if len(gap) else members for gap in gaps]
            if any(not np.array_equal(present[0], other) for other in present[1:]):
                raise QueryRefused("these columns have values for different people; ask for one of them at a time")
            found[key] = present[0]
        return found, self._people_with_a_value(gaps[0])

    def _people_with_a_value(self, gap: Ints) -> int:
        backend, name = self._desk.backend, self._desk.table.name
        if not len(gap):
            return backend.people(name)
        return len(np.unique(np.delete(backend.person_of_rows(name), gap)))

    def _compute(
        self, query: Query, columns: Iterable[str]
    ) -> tuple[dict[GroupKey, tuple[Value, ...]], dict[GroupKey, dict[str, float]]]:
        """Give the true figures and the sums of the sensitive columns, per group."""
        extra = {column: Aggregate("sum", column, name=f"{_EXTRA}{i}") for i, column in enumerate(columns)}
        asked = Query(query.table, (*query.aggregates, *extra.values()), query.where, query.group_by)
        width, count = len(query.group_by), len(query.aggregates)
        figures, sums = {}, {}
        for row in self._desk.backend.exact(asked).rows():
            key = row[:width]
            figures[key] = row[width : width + count]
            totals = zip(extra, row[width + count :], strict=True)
            sums[key] = {column: 0.0 if total is None else float(total) for column, total in totals}
        return figures, sums


def _figures(
    query: Query,
    found: Mapping[GroupKey, tuple[Value, ...]],
    told: Mapping[str, Mapping[GroupKey, Response]],
    sizes: Mapping[GroupKey, int],
) -> Figures:
    """Put the answer together from what the audit lets out."""
    keys, rows = tuple(found), []
    for key in keys:
        row = []
        for aggregate, value in zip(query.aggregates, found[key], strict=True):
            response = told.get(aggregate.column or "", {}).get(key)
            row.append((value, value, value) if response is None else _told(aggregate, value, response, sizes[key]))
        rows.append(row)
    values = tuple(tuple(cell[0] for cell in row) for row in rows)
    if all(response.kind == "exact" for listed in told.values() for response in listed.values()):
        return Figures(keys, values)
    low, high = (tuple(tuple(cell[side] for cell in row) for row in rows) for side in (1, 2))
    return Figures(keys, values, low, high, 1.0, (_BOUNDED,))


def _told(aggregate: Aggregate, value: Any, response: Response, size: int) -> tuple[Value, Value, Value]:
    if response.kind == "exact":
        return value, value, value
    bound = response.value
    if bound is not None and aggregate.function == "mean":
        bound = bound / size if size else None
    return None, bound if response.kind == "at least" else None, bound if response.kind == "at most" else None
