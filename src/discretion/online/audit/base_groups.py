"""Base groups: fixed, disjoint groups of at least ten people, and the questions that can be told by their sums."""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from discretion.kernels.arrays import Ints
from discretion.online.audit.elements import ascending

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
    """Give what the ledger keeps of the groups: the columns they serve, and the group of each record."""
    return json.dumps({"columns": sorted(columns)}), zlib.compress(group.astype("<i4").tobytes(), 1)


def unpack_groups(about: str, packed: bytes) -> tuple[tuple[str, ...], Ints]:
    """Read what `pack_groups` wrote."""
    return tuple(json.loads(about)["columns"]), np.frombuffer(zlib.decompress(packed), "<i4").astype(np.int64)
