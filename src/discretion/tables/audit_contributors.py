"""Respondents as attackers: they know what they contributed themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior
from discretion.tables.audit import outsider
from discretion.tables.audit_certify import Clock
from discretion.tables.audit_report import Audit

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

Group = frozenset[int]
"""Numbers of respondents who put together what they know."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Who contributes how much to each inner cell."""

    inner: Ints
    """(p,) inner cell of each entry, ascending"""
    who: Ints
    """(p,) respondent"""
    x: Floats
    """(p,) contribution"""
    n_inner: int
    labels: Sequence[Any]

    @classmethod
    def of(cls, cells: Cells) -> Knowledge:
        """Take contributions from the records, or from inner cells with few respondents where there are none."""
        if cells.source is not None:
            x = cells.source.x[:, cells.active]
            there = ~np.isnan(x)
            return cls(
                cells.source.inner[there],
                cells.source.contributor[there].astype(np.int64),
                x[there],
                len(cells.inner_codes),
                cells.contributors,
            )
        if not cells.response.counted:
            raise PlanError("attacker: it is not known which cells have one respondent; give the column `count`")
        own = cells.inner_cell
        single = np.flatnonzero((own >= 0) & (cells.count[own] == 1))
        return cls(single, single, cells.inner_value[single], len(own), [f"the one in cell {i}" for i in own.tolist()])

    def label(self, who: int) -> Any:
        """Give the name of a respondent."""
        return self.labels[who] if len(self.labels) else who

    def of_group(self, group: Group) -> tuple[Bools, Floats]:
        """Give the inner cells that are all theirs, and what they contributed to each."""
        theirs = np.isin(self.who, np.fromiter(group, np.int64, len(group)))
        part = np.bincount(self.inner, theirs, self.n_inner)
        floor: Floats = np.bincount(self.inner, np.where(theirs, self.x, 0.0), self.n_inner).astype(np.float64)
        every = np.bincount(self.inner, minlength=self.n_inner)
        return (part > 0) & (part == every), floor

    def entries(self, group: Group) -> tuple[Ints, Floats, Bools]:
        """Give the inner cells they contribute to, how much, and whether each is all theirs."""
        at = np.concatenate([self._by_who[self._starts[who] : self._starts[who + 1]] for who in sorted(group)])
        inner, place = np.unique(self.inner[at], return_inverse=True)
        amount: Floats = np.bincount(place, self.x[at], len(inner)).astype(np.float64)
        return inner, amount, np.bincount(place, minlength=len(inner)) == self._every[inner]

    @cached_property
    def _by_who(self) -> Ints:
        return np.argsort(self.who, kind="stable")

    @cached_property
    def _starts(self) -> Ints:
        return np.searchsorted(self.who[self._by_who], np.arange(int(self.who.max(initial=-1)) + 2))

    @cached_property
    def _every(self) -> Ints:
        return np.bincount(self.inner, minlength=self.n_inner)

    def groups(self, hidden: Bools, coalition: int, together: Iterator[Ints]) -> Iterator[Group]:
        """Give who to try: the respondents of hidden inner cells with few, and several alone in cells of one sum."""
        starts = np.searchsorted(self.inner, np.arange(self.n_inner + 1))
        size = np.diff(starts)
        seen: set[Group] = set()
        for cell in np.flatnonzero(hidden & (size > 0) & (size <= coalition)).tolist():
            group = frozenset(self.who[starts[cell] : starts[cell + 1]].tolist())
            if group not in seen:
                seen.add(group)
                yield group
        for row in together if coalition > 1 else ():
            lone = sorted({int(self.who[starts[cell]]) for cell in row.tolist() if size[cell] == 1})
            for chosen in combinations(lone, coalition):
                group = frozenset(chosen)
                if group not in seen:
                    seen.add(group)
                    yield group


def one_coalition(
    cells: Cells,
    labels: Sequence[Any],
    wanted: Bools,
    prior: Prior,
    rules: Sequence[Any],
    exact: bool | None,
    clock: Clock,
) -> Audit:
    """Audit against respondents that are named."""
    if cells.source is None:
        raise PlanError("attacker: respondents are known only in tables made from records")
    knowledge = Knowledge.of(cells)
    names = [knowledge.label(i) for i in range(int(knowledge.who.max(initial=-1)) + 1)]
    numbers = {name: i for i, name in enumerate(names)}
    for label in labels:
        if label not in numbers:
            raise PlanError(unknown("respondent", str(label), map(str, names[:0])))
    group = frozenset(numbers[label] for label in labels)
    known, floor = knowledge.of_group(group)
    attacker = Attacker(cells, prior=prior, known=known, floor=floor)
    judged = wanted & _others(cells, known)
    capped = _own_part_apart(cells, floor)
    return outsider(capped, attacker, judged, prior, rules, exact, clock, f"{len(group)} respondents together")


def _others(cells: Cells, known: Bools) -> Bools:
    """Tell in which cells somebody else has a part."""
    others: Bools = cells.x.transposed.dot(~known) > 0
    return others


def _own_part_apart(cells: Cells, floor: Floats) -> Cells:
    """Nobody can be led to believe in less than the own contribution: cut what is required below the rest."""
    rest = np.maximum(np.nan_to_num(cells.value) - cells.x.transposed.dot(floor), 0.0)
    return cells.with_status(lower_required=np.minimum(cells.lower_required, rest))
