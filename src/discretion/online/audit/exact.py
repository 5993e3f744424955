"""True answers: by base groups or the linear audit, or refused when with all earlier ones they would tell a value."""

from __future__ import annotations

import heapq
import json
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from discretion.data.sql_filter import And, Condition, Filter, Not, Or
from discretion.errors import QueryRefused
from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.order import rows_by_label
from discretion.online.audit.history import AnswerHistory, Moments, moments_of, size_problem, told_moments
from discretion.online.audit.linear import SQUARES, SUM, AnsweredSum, ascending
from discretion.online.backends import GroupKey, Limits, group_key
from discretion.online.declare import ColumnSpec, ExactPolicy
from discretion.online.ledger import Charge, unpack_sets
from discretion.online.question.answer import AnswerFigures, Desk, Estimate, FreeMode, Reply, RequestedAccuracy, Value
from discretion.online.question.query import Aggregate, Query

if TYPE_CHECKING:
    import polars as pl

OTHERS = 9
"""with how many others everybody shares a group, at least"""
NOWHERE = -1
"""in place of a group: in none, never in a sum that is told"""
MOST_COLUMNS = 5
"""most columns that groups are made from: every subset of them is looked at"""


def base_groups(codes: Ints, people: Callable[[Ints], Ints], others: int = OTHERS) -> Ints:
    """Put profiles together into groups of more than `others` people: alike in all columns, then in one fewer, and on.

    Of the sets of equally many columns the one that places most people comes first. Reads public columns only.

    Parameters
    ----------
    codes : one line per profile (people whom the columns do not tell apart), one code per column.
    people : gives for a number per profile (-1: left out) how many people have each number.

    Returns the group of each profile, or NOWHERE. Time O(2^columns · profiles · log).

    Examples
    --------
    >>> size = np.array([12, 4, 7, 3])
    >>> def people(number):
    ...     return np.bincount(number[number >= 0], size[number >= 0]).astype(int)
    >>> base_groups(np.array([[0, 0], [0, 1], [1, 1], [1, 2]]), people).tolist()
    [0, 1, 1, -1]
    """
    count, width = codes.shape
    group, made = np.full(count, NOWHERE, np.int64), 0

    def placed(columns: tuple[int, ...]) -> tuple[int, Ints]:
        """Number the profiles left by these columns; give how many people large enough groups hold, and the groups."""
        left = np.flatnonzero(group == NOWHERE)
        number = np.full(count, NOWHERE, np.int64)
        if len(left) == 0:
            return 0, number
        number[left] = number_lines(codes[left][:, list(columns)])[0]
        size = people(number)
        good = size > others
        new = np.where(good, np.cumsum(good) - 1, NOWHERE)
        number[left] = new[number[left]]
        return int(size[good].sum()), number

    for fewer in range(width + 1):
        # who is left only ever becomes fewer, so an earlier figure is a bound: the best set is found without all others
        waiting = [(-(2**62), columns) for columns in combinations(range(width), width - fewer)]
        while waiting:
            _, columns = heapq.heappop(waiting)
            gain, number = placed(columns)
            if gain and waiting and (-gain, columns) > waiting[0]:
                heapq.heappush(waiting, (-gain, columns))
            elif gain:
                inside = number >= 0
                group[inside] = made + number[inside]
                made = int(group.max()) + 1
    return group


def number_lines(codes: Ints) -> tuple[Ints, Ints]:
    """Number the different lines from 0; give the number of each line, and the first line of each number."""
    number, first = np.zeros(len(codes), np.int64), np.zeros(1, np.int64)
    for column in codes.T:
        key = number * (int(column.max(initial=0)) + 1) + column
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return number.astype(np.int64), first


@dataclass(frozen=True)
class Reach:
    """What can be told of one question: of each cell the groups that lie in it."""

    asked: Ints
    """records with a value in each cell"""
    covered: Ints
    """records of the groups that lie in each cell"""
    whole: Ints
    """these groups, cell by cell"""
    ends: Ints
    """where the groups of each cell end"""

    @property
    def groups(self) -> tuple[Ints, ...]:
        """The groups of each cell."""
        return tuple(np.split(self.whole, self.ends[:-1]))


class BaseGroups:
    """Fixed, disjoint groups of records from at least ten people, by which sums of one column are told.

    Every answer is a function of the sums over these groups, whatever was asked in whatever order. So beyond the sum
    of their own group nothing about anybody is told: for any two people of a group there is another table with the
    same answers in which one has more and the other has less by the same whole number. Who knows everybody outside a
    group of s people with the sum T, and that values lie in 0 … R, knows of each that the value lies in
    max(0, T − (s−1)·R) … min(R, T); c members who put their values together know the sum of the s − c others.

    Not protected: a group that lies at a bound entirely (T = 0 or s·R) is told, which is why columns with many values
    at a bound have no true answers; what an average tells about everybody in it; members who know most of their group.

    Parameters
    ----------
    group : the group of each record, or NOWHERE (also where the value is missing).
    owner : the person of each record.
    known : people whom somebody else knows: groups with fewer than `others` + 1 people beside them are never told.
    records : how many records there are; the rest of `group` is not here yet, and groups that reach there are not told.

    References
    ----------
    Catalogue O2; Chin & Özsoyoglu (1981), Statistical database design, ACM TODS 6(1) (partitioning).

    Examples
    --------
    >>> groups = BaseGroups(np.repeat([0, 1], 10), np.arange(20))
    >>> told = groups.told(np.where(np.arange(20) < 15, 0, -1), 1)
    >>> told.asked.tolist(), told.covered.tolist(), told.groups
    ([15], [10], (array([0]),))
    """

    def __init__(
        self, group: Ints, owner: Ints, known: Ints | None = None, records: int | None = None, others: int = OTHERS
    ) -> None:
        here = len(group) if records is None else records
        self.group = group
        self.count = int(group.max(initial=NOWHERE)) + 1
        inside = np.flatnonzero(group[:here] >= 0)
        self.records = inside[np.argsort(group[inside], kind="stable")]
        """the records in groups, group by group"""
        self.size = np.bincount(group[self.records], minlength=self.count).astype(np.int64)
        counted = self.records if known is None else self.records[~np.isin(owner[self.records], known)]
        pairs = ascending(group[counted] * (int(owner.max(initial=0)) + 1) + owner[counted])
        people = np.bincount(pairs // (int(owner.max(initial=0)) + 1), minlength=self.count)
        self.usable = people > others
        self.usable[group[here:][group[here:] >= 0]] = False

    def told(self, label: Ints, cells: int, *, of: Ints | None = None, weight: Ints | None = None) -> Reach:
        """Say which groups lie in the cells of a question, given the cell of each record (-1: in none).

        Instead of records these can be atoms, sets of records that no question tells apart: `of` gives the group of
        each, `weight` how many records with a value it has. Time linear in records or atoms.
        """
        group = self.group[: len(label)] if of is None else of
        at = np.flatnonzero(label >= 0)
        asked = np.bincount(label[at], None if weight is None else weight[at], cells).astype(np.int64)
        at = at[group[at] >= 0]
        lead = np.full(self.count, NOWHERE, np.int64)
        lead[group[at]] = label[at]  # of several cells any: a group in two of them lies in neither
        at = at[label[at] == lead[group[at]]]
        held = np.bincount(group[at], None if weight is None else weight[at], self.count).astype(np.int64)
        whole = np.flatnonzero(self.usable & (held == self.size) & (held > 0))
        cell = lead[whole]
        covered = np.bincount(cell, self.size[whole], cells).astype(np.int64)
        order = np.argsort(cell, kind="stable")
        return Reach(asked, covered, whole[order], np.cumsum(np.bincount(cell, minlength=cells)))

    def people_in(self, groups: Ints, owner: Ints) -> int:
        """Count the people of groups."""
        inside = np.zeros(self.count, np.bool_)
        inside[groups] = True
        return len(ascending(owner[self.records[inside[self.group[self.records]]]]))


def pack_groups(columns: tuple[str, ...], group: Ints) -> tuple[str, bytes]:
    """Return what the ledger keeps of the groups: the columns they serve, and the group of each record."""
    return json.dumps({"columns": sorted(columns)}), zlib.compress(group.astype("<i4").tobytes(), 1)


def unpack_groups(about: str, packed: bytes) -> tuple[tuple[str, ...], Ints]:
    """Read what `pack_groups` wrote."""
    return tuple(json.loads(about)["columns"]), np.frombuffer(zlib.decompress(packed), "<i4").astype(np.int64)


Rule = Literal["groups", "audit", "none"]
MOST_ALIKE = 0.3
"""columns of which a larger share of people have one value have no true sums: a group with only it would be told"""
CONFIRMED = (
    "whoever knows a unit in which the values are whole, or that two people have the same value, can compute "
    "everybody's value from sums that the linear audit lets out"
)
"""what the confirmation `whole: false` means"""
_SMALL = 20_000
_COARSE = 8
_SERVICE = "service"
_ROW = "\n"
"""a name that no column has"""


class Ruling(NamedTuple):
    """How true sums of a column are protected, and why so."""

    rule: Rule
    why: str


def rule_of(spec: ColumnSpec, values: pl.Series) -> Ruling:
    """Say how true sums of a column are protected, from its declaration and its values when the service starts.

    none: yes or no, few different values (fewer than 12; in a table of fewer than 24 people fewer than half as many as
    people), or one value (values beyond a declared bound count as the bound) that more than .3 of the people have.
    groups: every other column. audit: numbers without bounds of which the owner confirms `whole: false`. The audit
    leaves one direction free, which any unit in which values are whole, and any two equal values, fix.

    Examples
    --------
    >>> import polars as pl
    >>> thirds = pl.Series(range(40)) / 3
    >>> rule_of(ColumnSpec(role="sensitive", type="number"), thirds).rule
    'groups'
    >>> rule_of(ColumnSpec(role="sensitive", type="number", whole=False), thirds).rule, rule_of(
    ...     ColumnSpec(role="sensitive", type="number"), thirds // 4
    ... ).rule
    ('audit', 'none')
    """
    if spec.is_yes_or_no:
        return Ruling("none", "yes or no")
    if spec.has_few_values(values):
        return Ruling("none", "few different values")
    found = values.drop_nulls()
    clipped = found if spec.bounds is None else found.clip(*spec.bounds)
    alike = 0 if found.is_empty() else int(clipped.unique_counts().to_numpy().max())
    if alike > max(MOST_ALIKE * len(found), 2):
        return Ruling("none", f"more than {MOST_ALIKE:g} of the people have the same value")
    if spec.type == "number" and spec.whole is False:
        if spec.bounds is None:
            return Ruling("audit", f"the owner confirms `whole: false`: {CONFIRMED}")
        return Ruling("groups", "`bounds` are declared, so `whole: false` confirms nothing")
    return Ruling("groups", "the rule for every number without the confirmation `whole: false`")


@dataclass(frozen=True)
class QuestionCells:
    """Who is in the cells of a question, by profiles or by records."""

    keys: tuple[GroupKey, ...]
    label: Ints
    """the cell of each profile, or of each record; -1: in none"""
    rows: Ints
    """records of each cell"""
    by_profile: bool
    left_out: bool = False
    """whether there are more cells, of few people"""

    def only(self, kept: Bools) -> QuestionCells:
        """Leave cells out."""
        number = np.append(np.where(kept, np.cumsum(kept) - 1, NOWHERE), NOWHERE)  # the last is that of no cell, -1
        keys = tuple(key for key, good in zip(self.keys, kept, strict=True) if good)
        return QuestionCells(keys, number[self.label], self.rows[kept], self.by_profile, left_out=not kept.all())


class SumProtection:
    """The rules of one table's sensitive columns, its base groups and their sums.

    Everything is decided when the service starts and when the table grows. What rule a column has depends on its
    values (see `rule_of`); which questions are answered by groups depends on public columns alone. Groups that were
    made once stay: they are in the ledger, and new people come into groups of their own. A column about which true sums
    were told by one rule is never told by the other.
    """

    def __init__(self, desk: Desk, known: Sequence[tuple[tuple[int, ...], tuple[str, ...] | None]] = ()) -> None:
        self._desk = desk
        self._known = tuple(known)
        """people whom somebody knows anyway, and in which columns (none: in all)"""
        self._rules: dict[str, Rule] = {}
        self._why: dict[str, str] = {}
        self._sums: dict[str, _Sums] = {}
        self._groups: dict[str, BaseGroups] = {}
        self._profiles: _Profiles | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the table, now or after it has grown."""
        desk, table = self._desk, self._desk.table
        named = [name for name in table.visible if table.columns[name].role == "sensitive"]
        values = {name: desk.backend.column(table.name, name) for name in named if table.columns[name].is_numeric}
        for name in named:
            ruling = rule_of(table.columns[name], values[name]) if name in values else Ruling("none", "no number")
            self._rules[name], self._why[name] = ruling
        grouped = {name: series for name, series in values.items() if self._rules[name] == "groups"}
        self.owner = desk.backend.person_of_rows(table.name)
        self._is_still = desk.backend.version(table.name) == ""
        self._profiles = None
        if grouped or (self._is_still and "audit" in self._rules.values()):
            self._profiles = _Profiles(desk, self.owner)
            self._group(grouped, self._profiles)
        self._check_what_was_told()

    def _group(self, values: dict[str, pl.Series], profiles: _Profiles) -> None:
        """Take the groups that the ledger holds, make groups of those who are in none, and write them down.

        Somebody else may do so meanwhile: then it is done again.
        """
        if not values:
            return
        ledger, table = self._desk.ledger, self._desk.table.name
        while True:
            held: dict[str, Ints] = {}
            last = 0
            for entry in ledger.history(table, kinds=("groups",)):
                about, found = unpack_groups(entry.query, entry.sets or b"")
                held.update(dict.fromkeys(about, found))
                last = entry.id
            made = {
                name: self._completed(held.get(name), series.is_not_null().to_numpy(), self._known_in(name), profiles)
                for name, series in values.items()
            }
            new: dict[bytes, list[str]] = {}
            for name, group in made.items():
                if name not in held or not np.array_equal(group, held[name]):
                    new.setdefault(group.tobytes(), []).append(name)
            with ledger.page() as page:
                if next(ledger.history(table, after=last, kinds=("groups",)), None) is not None:
                    continue
                for names in new.values():
                    text, packed = pack_groups(tuple(names), made[names[0]])
                    page.charge(Charge(_SERVICE, table, "groups", query=text, sets=packed))
            break
        for name, series in values.items():
            self._groups[name] = BaseGroups(made[name], self.owner, self._known_in(name), len(self.owner))
            self._sums[name] = _Sums(series, self._groups[name])
        self._atoms = {name: profiles.atoms(series, self._groups[name]) for name, series in values.items()}

    def _completed(self, held: Ints | None, present: Bools, known: Ints, profiles: _Profiles) -> Ints:
        """Return everybody who has a value and no group one, where ten can be brought together."""
        here = len(self.owner)
        group = np.full(max(here, 0 if held is None else len(held)), NOWHERE, np.int64)
        if held is not None:
            group[: len(held)] = held
        left = np.flatnonzero(present & (group[:here] == NOWHERE))
        if len(left) > OTHERS:
            made = profiles.groups(left, known)
            group[left] = np.where(made == NOWHERE, NOWHERE, made + int(group.max(initial=NOWHERE)) + 1)
        return group

    def _known_in(self, column: str) -> Ints:
        people = [p for listed, columns in self._known if columns is None or column in columns for p in listed]
        return np.unique(np.array(people, np.int64))

    def _check_what_was_told(self) -> None:
        """Refuse columns about which true sums were told by another rule: the two together would tell more."""
        for entry in self._desk.ledger.history(self._desk.table.name, kinds=("exact",)):
            for name, powers in told_moments(Query.from_json(json.loads(entry.query)), self._desk.table).items():
                rule = self._rules.get(name, "none")
                fits = rule != "audit" or entry.sets is not None
                if rule == "groups" and entry.sets is not None:
                    group = self._groups[name].group
                    fits = powers == (SUM,) and all(_is_union(m, group) for m in unpack_sets(entry.sets)[0])
                if not fits:
                    self._rules[name], self._why[name] = "none", "true sums were told by another rule before"

    def rulings(self) -> dict[str, Ruling]:
        """Return the rule of every sensitive column, and why it has it."""
        return {name: Ruling(rule, self._why[name]) for name, rule in self._rules.items()}

    def rule(self, moments: Moments) -> Rule:
        """Return the rule of the columns that a question adds up, or refuse; without columns it is the audit."""
        rules = {self._rules.get(name, "none") for name in moments}
        for name in moments:
            if self._rules.get(name, "none") == "none":
                raise QueryRefused(f"true sums of the column {name!r} are not told; ask under differential privacy")
        if len(rules) > 1:
            raise QueryRefused("these columns are protected by different rules; ask for one of them at a time")
        rule = rules.pop() if rules else "audit"
        squared = [name for name, powers in moments.items() if SQUARES in powers]
        if rule == "groups" and squared:
            raise QueryRefused(f"variances of the sensitive column {squared[0]!r} are not told")
        return rule

    def is_grouped(self, column: str) -> bool:
        """Say whether true sums of a column are told by base groups."""
        return self._rules.get(column) == "groups"

    def cells(self, query: Query) -> QuestionCells:
        """Find who is in the cells of a question; reads public columns only."""
        profiles = self._profiles
        if profiles is not None and self._fits(query):
            return profiles.cells(query)
        members = self._desk.backend.members(query.table, query.where, query.group_by, unit="row")
        label = np.full(len(self.owner), NOWHERE, np.int64)
        for number, found in enumerate(members.values()):
            label[found] = number
        rows = np.array([len(found) for found in members.values()], np.int64)
        return QuestionCells(tuple(members), label, rows, by_profile=False)

    def row_sets(self, query: Query) -> dict[GroupKey, Ints]:
        """List the records of each cell, ascending; reads public columns only.

        By profiles where nobody writes to the table: a figure computed elsewhere must be over the same records.
        """
        if not (self._is_still and self._fits(query)) or self._profiles is None:
            return self._desk.backend.members(query.table, query.where, query.group_by, unit="row")
        cells = self._profiles.cells(query)
        parts = rows_by_label(cells.label, self._profiles.profile, cells.rows) if cells.keys else []
        return dict(zip(cells.keys, parts, strict=True))

    def _fits(self, query: Query) -> bool:
        """Say whether the columns that choose are those of the profiles."""
        chosen = query.columns_in_where() | set(query.group_by)
        return self._profiles is not None and chosen <= self._profiles.columns

    def people_of(self, cells: QuestionCells) -> Ints:
        """Count the people of each cell."""
        if self.owner.max(initial=-1) + 1 == len(self.owner):
            return cells.rows
        label = cells.label
        if cells.by_profile and self._profiles is not None:
            label = label[self._profiles.profile]
        pairs = np.unique(np.stack([label, self.owner])[:, label >= 0], axis=1)
        return np.bincount(pairs[0], minlength=len(cells.keys)).astype(np.int64)

    def people_by_cell(self, query: Query) -> dict[GroupKey, int]:
        """Count the people of each cell of a question; reads public columns only."""
        if not self._fits(query) and self.owner.max(initial=-1) + 1 == len(self.owner):  # a row is a person
            counted = Query(query.table, (Aggregate("count"),), query.where, query.group_by)
            return {row[:-1]: row[-1] for row in self._desk.backend.exact(counted).rows()}
        cells = self.cells(query)
        return dict(zip(cells.keys, self.people_of(cells).tolist(), strict=True))

    def told(self, column: str, cells: QuestionCells) -> Reach:
        """Say which base groups lie in the cells."""
        groups = self._groups[column]
        if cells.by_profile:
            profile, group, weight = self._atoms[column]
            return groups.told(cells.label[profile], len(cells.keys), of=group, weight=weight)
        label = np.where(self._sums[column].present, cells.label, NOWHERE)
        return groups.told(label, len(cells.keys))

    def people_in(self, column: str, groups: Ints) -> int:
        """Count the people of base groups."""
        return self._groups[column].people_in(groups, self.owner)

    def people(self, column: str) -> int:
        """Count the people in base groups."""
        return self.people_in(column, np.flatnonzero(self._groups[column].usable))

    def records(self, column: str, groups: Ints) -> Ints:
        """List the records of base groups."""
        inside = np.isin(self._groups[column].group[: len(self.owner)], groups)
        return np.flatnonzero(inside).astype(np.int64)

    def totals(self, column: str, reach: Reach) -> list[int] | list[float]:
        """Add up the sums of the base groups in each cell."""
        return self._sums[column].totals(reach)


def _is_union(members: Ints, group: Ints) -> bool:
    """Say whether a set of records consists of whole groups."""
    inside = group[members]
    if len(inside) and inside.min() < 0:
        return False
    held = np.bincount(inside, minlength=1)
    size = np.bincount(group[group >= 0], minlength=len(held))[: len(held)]
    return bool(np.all((held == 0) | (held == size)))


class _Sums:
    """The sum of each base group: exact for integers, correctly rounded for other numbers.

    A rounding error that depends on the order of additions would tell more than the sum.
    """

    def __init__(self, values: pl.Series, groups: BaseGroups) -> None:
        self.present = values.is_not_null().to_numpy()
        listed = values.fill_null(0).to_numpy()[groups.records]  # a group with a value that is gone is never told
        ends = np.cumsum(groups.size)
        self._whole = values.dtype.is_integer()
        if self._whole:  # in two halves, so that nothing overflows
            whole = listed.astype(np.int64)
            added = [np.concatenate([[0], np.cumsum(half)]) for half in (whole >> 32, whole & 0xFFFFFFFF)]
            self._high, self._low = (half[ends] - half[ends - groups.size] for half in added)
        else:
            parts = zip(ends - groups.size, ends, strict=True)
            self._sum = np.array([math.fsum(listed[first:end].tolist()) for first, end in parts])

    def totals(self, reach: Reach) -> list[int] | list[float]:
        """Add up the sums of the groups in each cell."""
        if not self._whole:
            return [math.fsum(self._sum[groups].tolist()) for groups in reach.groups]
        first = np.concatenate([[0], reach.ends[:-1]])
        added = (np.concatenate([[0], np.cumsum(half[reach.whole])]) for half in (self._high, self._low))
        high, low = ((half[reach.ends] - half[first]).tolist() for half in added)
        return [(h << 32) + rest for h, rest in zip(high, low, strict=True)]


class _Profiles:
    """Records that the public columns do not tell apart, counted once: a question about them costs what they are many.

    Columns with nearly as many values as there are people are left out; questions that use them list the records.
    """

    def __init__(self, desk: Desk, owner: Ints) -> None:
        import polars as pl

        table, backend, rows = desk.table, desk.backend, len(owner)
        self._owner = owner
        self._most = Limits().groups if desk.max_groups is None else desk.max_groups
        self._ranks: dict[str, Ints] = {}
        series = {name: backend.column(table.name, name).alias(name) for name in table.public}
        values = {name: column.n_unique() for name, column in series.items()}
        order = sorted(table.public, key=lambda name: values[name])
        coarse = [name for name in order if values[name] <= max(20, rows // 20)]
        base = list(coarse[:MOST_COLUMNS] if table.base_columns is None else table.base_columns)
        chosen, most = base[:], max(_SMALL, rows // _COARSE)  # profiles that columns together may have
        for name in order:
            if name not in chosen and values[name] <= most:
                together = [series[c] for c in (*chosen, name)]
                if rows <= _SMALL or pl.DataFrame(together).n_unique() <= most:
                    chosen.append(name)
        self.columns = frozenset(chosen)
        if not chosen:
            self.profile, self._rows = np.zeros(rows, np.int64), np.array([rows], np.int64)
            self._codes = np.zeros((1, 0), np.int64)
            return
        frame = pl.DataFrame([series[name] for name in chosen]).with_row_index(_ROW)
        grouped = frame.group_by(chosen, maintain_order=True).agg(pl.col(_ROW))
        self._rows = grouped[_ROW].list.len().to_numpy().astype(np.int64)
        self.profile = np.zeros(rows, np.int64)
        self.profile[grouped[_ROW].explode().drop_nulls().to_numpy()] = np.repeat(np.arange(len(grouped)), self._rows)
        ranked = grouped.select(pl.col(chosen).rank("dense").fill_null(0).cast(pl.Int64))
        self._ranks = {name: ranked[name].to_numpy() for name in chosen}
        self._keys = {name: _by_rank(self._ranks[name], grouped[name]) for name in chosen}
        self._codes = np.column_stack([np.zeros((len(grouped), 0), np.int64), *(self._ranks[name] for name in base)])

    def groups(self, left: Ints, known: Ints) -> Ints:
        """Make base groups of some records; people whom somebody knows are not counted."""
        present = np.bincount(self.profile[left], minlength=len(self._rows)) > 0
        profile = (np.cumsum(present) - 1)[self.profile[left]]
        most = int(self._owner.max(initial=0)) + 1
        pairs = ascending(profile * most + self._owner[left])
        pairs = pairs[~np.isin(pairs % most, known)] if len(known) else pairs
        of, person = pairs // most, pairs % most
        alone = len(ascending(person)) == len(person)

        def people(number: Ints) -> Ints:
            inside, count = number[of] >= 0, int(number.max()) + 1
            if alone:
                return np.bincount(number[of][inside], minlength=count).astype(np.int64)
            found = ascending(number[of][inside] * most + person[inside])
            return np.bincount(found // most, minlength=count).astype(np.int64)

        made: Ints = base_groups(self._codes[present], people)[profile]
        return made

    def atoms(self, values: pl.Series, groups: BaseGroups) -> tuple[Ints, Ints, Ints]:
        """Return pairs of profile and group (or none), and how many records with a value each has."""
        at = np.flatnonzero(values.is_not_null().to_numpy())
        key = self.profile[at] * (groups.count + 1) + groups.group[at] + 1
        found, weight = np.unique(key, return_counts=True)
        return found // (groups.count + 1), found % (groups.count + 1) - 1, weight.astype(np.int64)

    def cells(self, query: Query) -> QuestionCells:
        """Find the cells of a question among the profiles."""
        found = np.flatnonzero(self._chosen(query.where))
        codes = [self._ranks[name][found] for name in query.group_by]
        cell, first = number_lines(np.column_stack([np.zeros((len(found), 0), np.int64), *codes]))
        if len(first) > self._most:
            raise QueryRefused(f"the answer would have more than {self._most:,} groups")
        listed = [[self._keys[name][rank] for rank in self._ranks[name][found[first]]] for name in query.group_by]
        keys: list[GroupKey] = list(zip(*listed, strict=True)) if query.group_by else [()]
        label = np.full(len(self._rows), NOWHERE, np.int64)
        label[found] = cell
        rows = np.bincount(cell, self._rows[found], len(keys)).astype(np.int64)
        return QuestionCells(tuple(keys), label, rows, by_profile=True)

    def _chosen(self, where: Filter) -> Bools:
        """Say which profiles fulfil a condition; a missing value (rank 0) fulfils no comparison, as in SQL."""
        if isinstance(where, Not):
            return ~self._chosen(where.part)
        if isinstance(where, And | Or):
            parts = [self._chosen(part) for part in where.parts]
            return np.asarray(np.all(parts, axis=0) if isinstance(where, And) else np.any(parts, axis=0))
        if not isinstance(where, Condition):
            return np.ones(len(self._rows), np.bool_)
        rank, keys = self._ranks[where.column], self._keys[where.column][1:]
        if where.op in ("is-missing", "not-missing"):
            return np.asarray((rank == 0) == (where.op == "is-missing"))
        if where.op in ("=", "!=", "in"):
            named = np.isin(rank, [place for value in where.values for place in _places(keys, value)])
            return np.asarray((rank > 0) & ~named if where.op == "!=" else named)
        ends = [(bisect_left(keys, value), bisect_right(keys, value)) for value in where.values]
        (below, upto), (_, last) = ends[0], ends[-1]
        end = len(keys)
        low, high = {
            "<": (0, below), "<=": (0, upto), ">": (upto, end), ">=": (below, end), "between": (below, last),
        }[where.op]  # fmt: skip
        return np.asarray((rank > low) & (rank <= high))


def _places(keys: Sequence[Any], value: Any) -> range:
    """Return the rank of a value among ascending keys, if it is one of them."""
    at = bisect_left(keys, value)
    return range(at + 1, at + 1 + int(at < len(keys) and keys[at] == value))


def _by_rank(ranks: Ints, values: pl.Series) -> tuple[Any, ...]:
    """Return the value of each rank, ascending; none of rank 0, which is the missing one's."""
    found, first = np.unique(ranks, return_index=True)
    listed: list[Any] = [None] * (int(found.max(initial=0)) + 1)
    for rank, value in zip(found.tolist(), group_key(values.gather(first).to_list()), strict=True):
        listed[rank] = value
    return tuple(listed)


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
