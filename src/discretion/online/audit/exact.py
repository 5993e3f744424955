"""True answers: by the sums of base groups, or refused when with all earlier ones they would determine a value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from discretion.data.conditions import And, Condition
from discretion.errors import QueryRefused
from discretion.kernels.arrays import Ints
from discretion.online.audit.history import AnswerHistory, moments_of, size_problem
from discretion.online.audit.interval import AnsweredSum
from discretion.online.audit.protection import CONFIRMED, OTHERS, QuestionCells, Reach, SumProtection
from discretion.online.backends import GroupKey
from discretion.online.declare.catalog import ExactPolicy
from discretion.online.mode import Desk, FreeMode, Reply, RequestedAccuracy
from discretion.online.question.answer import AnswerFigures, Estimate, Value
from discretion.online.question.query import Aggregate, Query

_EXTRA = "discretion: sum "
_NOTE = "true figures; a question that with earlier ones would determine somebody's value is refused"
_GROUPED = "sums are over whole base groups of at least ten people; the answer says how many"
_AUDITED = f"sums under the linear audit, by the owner's confirmation `whole: false`: {CONFIRMED}"
_LARGEST = 2**63
_NOTHING = (
    "no base group lies in the question as a whole; ask about more people, or by the columns that made the groups. "
    "Sums of other sets are told only of numbers of which the owner confirms with `whole: false` that nobody knows a "
    "unit in which they are whole, or two people with the same value"
)
_FEW = "counts of too few people, inside or outside, are not told"
_BOUNDED = "some figures are told as a bound or not at all, because they would narrow somebody's value too much"


class ExactMode(FreeMode):
    """Answers by base groups, or under the audit of a table's history; `protection` says which column has which rule.

    Whose value is missing counts as public: rows without a value are in no query set and in no base group.
    """

    name = "exact+audit"

    def __init__(self, desk: Desk, policy: ExactPolicy, history: AnswerHistory, protection: SumProtection) -> None:
        self._desk, self._policy, self._history, self._protection = desk, policy, history, protection

    def ask(self, query: Query, user: str, wish: RequestedAccuracy) -> Reply:  # noqa: ARG002 - nothing is spent
        """Decide, charge, compute, record, answer."""
        question = query.canonical()
        stored = self._history.find_answer(question, user=user)
        if isinstance(stored, dict):
            return Reply(AnswerFigures.from_json(stored), cached=True)
        try:
            by_groups = self._protection.rule(moments_of(question, self._desk.table)) == "groups"
            if by_groups:
                cells, told = self._whole_groups(question)
            else:
                sets, everybody = self._sets(question)
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        if by_groups:
            return self._by_groups(question, user, cells, told)
        admission = self._history.admit(user, question, sets, self._policy, everybody=everybody)
        found, sums = self._compute(question, admission.columns)
        notes = (*((_AUDITED,) if admission.columns else ()), *((_FEW,) if len(found) > len(sets) else ()))
        found = {key: found[key] for key in found if key in sets}
        totals = {c: [sums.get(key, {}).get(c, 0.0) for key in admission.keys] for c in admission.columns}
        figures = AnswerFigures(tuple(found), tuple(found.values()), notes=notes)
        self._desk.confirm()
        self._history.settle(admission, totals, lambda _: figures.to_json())
        return Reply(figures)

    def dry_run(self, query: Query, user: str, wish: RequestedAccuracy) -> Estimate:  # noqa: ARG002
        """True answers cost nothing and have no error; whom base groups leave out is not known beforehand."""
        cached = self._history.find_answer(query, user=user) is not None
        grouped = {a.label: a.column is not None and self._protection.is_grouped(a.column) for a in query.aggregates}
        rulings, measured = self._protection.rulings(), {a.column for a in query.aggregates}
        audited = any(column in measured and found.rule == "audit" for column, found in rulings.items())
        notes = (_NOTE, *((_GROUPED,) if any(grouped.values()) else ()), *((_AUDITED,) if audited else ()))
        errors = {label: None if partial else 0.0 for label, partial in grouped.items()}
        return Estimate(mode=self.name, cached=cached, errors=errors, notes=notes)

    def _whole_groups(self, query: Query) -> tuple[QuestionCells, dict[str, Reach]]:
        """Say which base groups each cell can be told for; by public columns only, whatever the values are."""
        cells = self._protection.cells(query)
        if query.group_by:  # groups of too few people are left out, as they are of counts
            cells = cells.only(self._protection.people_of(cells) >= self._policy.min_query_size)
        found = {c: self._large_enough(c, self._protection.told(c, cells)) for c in moments_of(query, self._desk.table)}
        if not any(told.covered.any() for told in found.values()):
            raise QueryRefused(_NOTHING)
        first, *others = found.values()
        if self._policy.interval_audit and any(not np.array_equal(first.whole, told.whole) for told in others):
            raise QueryRefused("these columns have different base groups; ask for one of them at a time")
        return cells, found

    def _large_enough(self, column: str, told: Reach) -> Reach:
        """Leave out cells of fewer people than the policy wants, inside or outside."""
        least = self._policy.min_query_size
        if least <= OTHERS + 1:  # one group is enough
            return told
        everybody = self._protection.people(column)
        sizes = [self._protection.people_in(column, groups) for groups in told.groups]
        good = np.array([size_problem(size, everybody, least) is None for size in sizes], np.bool_)
        counts = np.diff(told.ends, prepend=0)
        return Reach(
            told.asked,
            np.where(good, told.covered, 0),
            told.whole[np.repeat(good, counts)],
            np.cumsum(np.where(good, counts, 0)),
        )

    def _by_groups(self, query: Query, user: str, cells: QuestionCells, told: Mapping[str, Reach]) -> Reply:
        """Charge, then add up the sums of base groups; with the interval audit they may be told as bounds."""
        if not self._policy.interval_audit:
            entry = self._desk.charge(query, user, "exact")
            totals = {column: self._protection.totals(column, found) for column, found in told.items()}
            figures = self._grouped_figures(query, cells, told, totals, {})
            content = {"responses": {}, "answer": figures.to_json()}
            self._desk.confirm()
            self._desk.ledger.record_answer(entry.id, json.dumps(content, ensure_ascii=False, allow_nan=False))
            return Reply(figures)
        column, reach = next(iter(told.items()))
        listed = zip(cells.keys, reach.groups, strict=True)
        sets = {key: self._protection.records(column, groups) for key, groups in listed}
        everybody = self._protection.people(column)
        admission = self._history.admit(user, query, sets, self._policy, everybody=everybody)
        totals = {column: self._protection.totals(column, found) for column, found in told.items()}
        made: list[AnswerFigures] = []

        def render(responses: Mapping[str, list[AnsweredSum]]) -> object:
            made.append(self._grouped_figures(query, cells, told, totals, responses))
            return made[-1].to_json()

        self._desk.confirm()
        self._history.settle(admission, totals, render)
        return Reply(made[-1])

    def _grouped_figures(
        self,
        query: Query,
        cells: QuestionCells,
        told: Mapping[str, Reach],
        totals: Mapping[str, Sequence[float]],
        responses: Mapping[str, Sequence[AnsweredSum]],
    ) -> AnswerFigures:
        """Put the answer together from sums of base groups, what the audit lets out of them, and public figures."""
        known = tuple(a for a in query.aggregates if a.column is not None and a.column not in told)
        public, width = {}, len(query.group_by)
        if known:
            asked = Query(query.table, known, query.where, query.group_by)
            lines = {row[:width]: row[width:] for row in self._desk.backend.exact(asked).rows()}
            public = self._large_bins(asked, lines)
        large = [problem is None for problem in self._problems(self._protection.people_of(cells))]
        few = (_FEW,) if cells.left_out or not all(large) else ()
        parts: tuple[list[tuple[Value, ...]], ...] = ([], [], [], [], [])
        for i, key in enumerate(cells.keys):
            line: list[tuple[Value, ...]] = []
            for aggregate in query.aggregates:
                column = aggregate.column or ""
                if column in told:
                    size = int(told[column].covered[i])
                    asked_about = int(told[column].asked[i]) if large[i] else None  # else their share would be a count
                    total = totals[column][i] if abs(totals[column][i]) < _LARGEST else float(totals[column][i])
                    value: Value = None if size == 0 else total / size if aggregate.function == "mean" else total
                    response = responses[column][i] if column in responses and size else AnsweredSum("exact", 0.0)
                    line.append((*_told(aggregate, value, response, size), size, asked_about))
                else:
                    value = None  # of few people nothing is told, also of public columns
                    if large[i]:
                        value = public[key][known.index(aggregate)] if column else int(cells.rows[i])
                    line.append((value, value, value, None, None))
            for part, rows in enumerate(parts):
                rows.append(tuple(cell[part] for cell in line))
        values, low, high, covered, asked_records = map(tuple, parts)
        bounded = any(response.kind != "exact" for listed in responses.values() for response in listed)
        return AnswerFigures(
            cells.keys,
            values,
            low if bounded else None,
            high if bounded else None,
            1.0 if bounded else None,
            (
                *(_extent(column, found, large) for column, found in told.items()),
                *((_BOUNDED,) if bounded else ()),
                *few,
            ),
            covered=covered,
            asked=asked_records,
        )

    def _sets(self, query: Query) -> tuple[dict[GroupKey, Ints], int | None]:
        """Return the rows with a value in each group, and how many people have one.

        Several sensitive columns must be missing in the same rows of each group.
        """
        columns = tuple(moments_of(query, self._desk.table))
        backend = self._desk.backend
        if not columns:
            return self._counted(query), None
        groups = self._protection.row_sets(query)
        gaps = [backend.missing(query.table, column) for column in columns]
        found = {}
        for key, members in groups.items():
            present = [np.setdiff1d(members, gap, assume_unique=True) if len(gap) else members for gap in gaps]
            if any(not np.array_equal(present[0], other) for other in present[1:]):
                raise QueryRefused("these columns have values for different people; ask for one of them at a time")
            found[key] = present[0]
        if not len(gaps[0]):
            return found, backend.people(query.table)
        return found, len(np.unique(np.delete(backend.person_of_rows(query.table), gaps[0])))

    def _counted(self, query: Query) -> dict[GroupKey, Ints]:
        """Return the cells of a question that adds up nothing, without listing who is in them.

        Cells of too few people are left out; none left is a refusal.
        """
        people = self._protection.people_by_cell(query)
        problems = dict(zip(people, self._problems(people.values()), strict=True))
        kept = {key: np.zeros(0, np.int64) for key, wrong in problems.items() if wrong is None}
        if problems and not kept:
            raise QueryRefused(next(reason for reason in problems.values() if reason))
        return kept

    def _problems(self, people: Iterable[int]) -> list[str | None]:
        """Say of numbers of people what is wrong with them: too few inside, or too few outside."""
        everybody, least = self._desk.backend.people(self._desk.table.name), self._policy.min_query_size
        return [size_problem(int(size), everybody, least) for size in people]

    def _compute(
        self, query: Query, columns: Iterable[str]
    ) -> tuple[dict[GroupKey, tuple[Value, ...]], dict[GroupKey, dict[str, float]]]:
        """Return the true figures and the sums of the sensitive columns, per group."""
        extra = {column: Aggregate("sum", column, name=f"{_EXTRA}{i}") for i, column in enumerate(columns)}
        asked = Query(query.table, (*query.aggregates, *extra.values()), query.where, query.group_by)
        width, count = len(query.group_by), len(query.aggregates)
        figures, sums = {}, {}
        for row in self._desk.backend.exact(asked).rows():
            key = row[:width]
            figures[key] = row[width : width + count]
            totals = zip(extra, row[width + count :], strict=True)
            sums[key] = {column: 0.0 if total is None else float(total) for column, total in totals}
        return self._large_bins(query, figures), sums

    def _large_bins(self, query: Query, figures: dict[GroupKey, tuple[Any, ...]]) -> dict[GroupKey, tuple[Any, ...]]:
        """Leave out bins of histograms with too few people: each is a count."""
        for place, aggregate in enumerate(query.aggregates):
            if aggregate.function != "histogram":
                continue
            people = self._people_in_bins(query, aggregate, {key: line[place] for key, line in figures.items()})
            for key, line in figures.items():
                wrong = self._problems(people[key])
                kept = [None if bad else count for count, bad in zip(line[place], wrong, strict=True)]
                figures[key] = (*line[:place], kept, *line[place + 1 :])
        return figures

    def _people_in_bins(
        self, query: Query, histogram: Aggregate, counts: dict[GroupKey, list[int]]
    ) -> dict[GroupKey, list[int]]:
        """Count the people of every bin; they are as many as its records where everybody has one."""
        name, column, cuts = self._desk.table.name, histogram.column or "", histogram.cuts
        if self._desk.backend.rows(name) == self._desk.backend.people(name):
            return counts
        found: dict[GroupKey, list[int]] = {key: [] for key in counts}
        for number, (low, high) in enumerate(pairwise(cuts)):
            end = Condition(column, "<=" if number == len(cuts) - 2 else "<", (high,))
            inside = And((query.where, Condition(column, ">=", (low,)), end))
            people = self._protection.people_by_cell(Query(query.table, (Aggregate("count"),), inside, query.group_by))
            for key, listed in found.items():
                listed.append(people.get(key, 0))
        return found


def _extent(column: str, told: Reach, large: Sequence[bool]) -> str:
    """Say how much of what was asked about the figures of a column are over, where the count may be told."""
    shown = np.array(large, np.bool_) & (told.asked > 0)
    about = ""
    if shown.any():
        shares = 100 * told.covered[shown] / told.asked[shown]
        ends = [f"{math.floor(10 * share) / 10:g}" for share in (shares.min(), shares.max())]  # 99.96 % is not all
        about = f": {' to '.join(dict.fromkeys(ends))} % of the records asked about"
    return f"figures of {column!r} are over whole base groups only{about}; cells need not add up across tables"


def _told(aggregate: Aggregate, value: Any, response: AnsweredSum, size: int) -> tuple[Value, Value, Value]:
    if response.kind == "exact":
        return value, value, value
    bound = response.value
    if bound is not None and aggregate.function == "mean":
        bound = bound / size if size else None
    return None, bound if response.kind == "at least" else None, bound if response.kind == "at most" else None
