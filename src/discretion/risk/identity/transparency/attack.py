"""The informed attack: the distance that fits the method, and only the candidates that the method allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.learning.columns import compare_column, sd_of
from discretion.part import Part, find
from discretion.risk.identity.distances import Space, average_term, make_space, whitening, with_gaps
from discretion.risk.identity.intruder import Intruder, Mistakes, View
from discretion.risk.identity.transparency.steps import (
    CODING_ITEMS,
    GROUPING,
    MIXING,
    MOVING,
    NOISE,
    ONE_COLUMN,
    SHUFFLE,
    SWAPPING,
    History,
    Window,
    center_window,
    count_lost,
    exchange_of,
    swap_window,
    with_shuffles,
    with_swaps,
)

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.classes import RowClasses
    from discretion.kernels.linkage import Terms, Tree

_PAIRS = 10_000_000
"""Pairs of a person and a possible record up to which a register is worked through."""
_WALKED, _MATCHED, _AT_ONCE = 250_000_000, 4_000_000, 4_000_000
"""Pairs that are looked at, of which so many may remain to put beliefs about everybody together; and at a time."""
_SEEN_MOVES = 0.02
"""Share of the partners that may be missing where a move that nobody made the other way round counts as none."""
_MOST_BITS = 2**30
"""Places for the moves of a column, so that its table takes at most 128 MB."""
_IMPOSSIBLE = -700.0
"""The least log likelihood of a pair that is looked at."""
_ALIKE = 1e-6
"""Beliefs that differ by a smaller part are the same."""
_SURE = 0.95
"""Belief from which an intruder names somebody."""
_LOOKED_AT, _COUNTED = 1_000, 1_000_000
"""People on whom the number of possible records is estimated; and so many records at a time."""
_BLOCK = 150
"""People who exclude each other, up to whom they are assigned to records together."""
_ASSIGNED = 150_000
"""Pairs that are compared to assign people; groups are drawn at random until they are so many."""


@dataclass(frozen=True)
class Eliminated:
    """What is left for each person after elimination."""

    size: Ints
    """records that the person can still be"""
    shares: Floats
    """how likely the intruder is right about each person; NaN for people who were not drawn"""


@dataclass(frozen=True)
class MatchedPeople:
    """What somebody finds who puts all that is known of everybody together."""

    shares: Floats
    """how likely the intruder is right about each person"""
    sure: NDArray[np.bool_]
    """people whom the intruder names with a belief above 95 %"""


class Register:
    """The records that each person of a register may be, by the windows and the truthful columns of a space."""

    def __init__(self, space: Space, ctx: Context) -> None:
        self._space = space
        n = len(space.known)
        seen = np.sort(ctx.within("candidates").rng.choice(n, min(n, _LOOKED_AT), replace=False))
        self.candidates = float(self._count(seen).mean())
        """mean number of records that a person may be: of up to a thousand, drawn at random"""

    @cached_property
    def _telling(self) -> Space:
        return _only(self._space, _telling(self._space))

    @cached_property
    def _people(self) -> RowClasses:
        from discretion.kernels.classes import distinct_rows
        from discretion.kernels.linkage import fill

        terms = self._telling.terms
        return distinct_rows(np.hstack([fill(x) for x in (self._telling.known, terms.low, terms.high)]))

    @cached_property
    def _tree(self) -> Tree:
        from discretion.kernels.linkage import build_tree

        terms = self._telling.terms
        return build_tree(self._telling.published, terms.kinds, self._telling.split_by(_spread(terms)))

    def _count(self, people: Ints) -> Ints:
        """Count the records that each of some people may be; of many records a part at a time, to save memory."""
        from discretion.kernels.linkage import build_tree, count_allowed

        if len(self._space.published) <= _COUNTED:
            return count_allowed(self._telling.known[people], self._tree, _of(self._telling, people))
        few = replace(self._space, known=self._space.known[people], terms=_of(self._space, people))
        few = _only(few, _telling(self._space))
        by, total = few.split_by(_spread(few.terms)), np.zeros(len(people), np.int64)
        for start in range(0, len(few.published), _COUNTED):
            tree = build_tree(few.published[start : start + _COUNTED], few.terms.kinds, by)
            total += count_allowed(few.known, tree, few.terms)
        return total

    def eliminate(self, rows: Ints, ctx: Context, *, assign: bool = True) -> Eliminated | None:
        """Find the records that each person can be, given that everybody else needs one too.

        As all the people of the register are published, each in a record of its own, a pair of person and record
        remains only if everybody else can still be placed: if some assignment of all the people to all the records
        contains it. Given one assignment (the true one; which does not matter) these are the pairs inside a strongly
        connected component of the graph person → possible record → person who has it. Equal people and equal records
        are one node each. With `assign` what remains is also assigned one to one. None where the pairs are too many, or
        where a record is not possible for its own person, so that the knowledge is not exact. Time linear in the pairs.
        """
        from discretion.kernels.classes import distinct_rows
        from discretion.kernels.linkage import fill, list_allowed, pair_costs

        space, telling, tree, asked = self._space, self._telling, self._tree, self._people.first_row
        expected = self.candidates * len(asked)
        if expected > _PAIRS or not np.isfinite(pair_costs(space.known, space.published[rows], space.terms)).all():
            return None
        starts, found = list_allowed(telling.known[asked], tree, _of(telling, asked), int(expected))
        records = distinct_rows(fill(telling.published))
        place = np.empty(len(records.counts), np.int64)
        place[records.ids[tree.rows]] = np.arange(len(tree.rows))
        who, record = self._people.ids.astype(np.int64), place[records.ids[rows]]
        block = _components(starts, found, who, record, len(tree.rows))
        asking = np.repeat(np.arange(len(asked)), np.diff(starts))
        kept = block[asking] == block[len(asked) + found]
        left = np.bincount(asking, np.where(kept, tree.counts[found], 0), minlength=len(asked)).astype(np.int64)
        size = left[who]
        alike = 1.0 / size
        return Eliminated(size, _assigned(space, rows, block[who], alike, ctx) if assign else alike)

    def match(
        self, rows: Ints, columns: Sequence[int], doubt: float, ctx: Context, *, most: int | None = None
    ) -> MatchedPeople | None:
        """Match all the people at once: one record each, and in `columns` values were exchanged in pairs.

        Who shows my value must have given me theirs: what is believed of the one tells the other, and so on through the
        whole file (`kernels.beliefs`). `doubt`: how likely the record of a partner is not seen; where nearly all are, a
        move that nobody can have made the other way round is none. `rows` says which record is right. None where the
        pairs are too many. Time linear in the pairs.
        """
        from discretion.kernels.beliefs import match_all
        from discretion.kernels.classes import distinct_rows
        from discretion.kernels.linkage import fill, pair_costs

        space, terms = self._space, self._space.terms
        if self.candidates * len(space.known) > (most or _WALKED):
            return None
        scales = terms.scale if len(terms.scale) > 1 else np.empty((len(space.known), 0))
        people = distinct_rows(np.hstack([*map(fill, (space.known, terms.low, terms.high)), scales]))
        records = distinct_rows(fill(space.published))
        person, row = people.first_row, records.first_row
        moves = [_Moves(space.known[person, j], space.published[row, j]) for j in columns]
        if doubt <= _SEEN_MOVES:
            for who, record in self._pairs(person, row, ctx, "moves of everybody"):
                for of_column in moves:
                    of_column.mark(who, record)
        found = [np.empty((2, 0), np.int32)]
        for who, record in self._pairs(person, row, ctx, "who can be whom"):
            kept = np.ones(len(who), np.bool_)
            for of_column in moves if doubt <= _SEEN_MOVES else ():
                kept &= of_column.answered(who, record)
            found.append(np.stack([who[kept], record[kept]]))
            if sum(part.shape[1] for part in found) > _MATCHED:
                return None
        who, record = np.hstack(found)
        while True:
            exchanges = [of_column.numbers(who, record) for of_column in moves]
            answered = np.logical_and.reduce([_is_answered(numbers) for numbers in exchanges])
            if doubt > _SEEN_MOVES or answered.all():
                break
            who, record = who[answered], record[answered]
        terms = _of(space, person[who])
        terms = terms if len(terms.scale) == 1 else terms._replace(scale=terms.scale[person[who]])
        weights = np.maximum(
            -0.5 * pair_costs(space.known[person[who]], space.published[row[record]], terms), _IMPOSSIBLE
        )
        ends = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(person)))])
        sizes = people.counts.astype(np.float64), records.counts.astype(np.float64)
        own, best = records.ids[rows], MatchedPeople(np.zeros(len(rows)), np.zeros(len(rows), np.bool_))
        for beliefs in match_all(ends, record, weights, sizes, exchanges, doubt, ctx.progress):
            each = beliefs / sizes[0][who] / sizes[1][record]  # of one of equal people, in one of equal records
            top = np.zeros(len(person))
            np.maximum.at(top, who, each)
            chosen = np.flatnonzero(each >= top[who] * (1 - _ALIKE))
            one_of = np.bincount(who[chosen], sizes[1][record[chosen]], len(person))
            named = np.sort(who[chosen].astype(np.int64) * len(row) + record[chosen])
            asked = people.ids.astype(np.int64) * len(row) + own
            at = np.minimum(np.searchsorted(named, asked), max(len(named) - 1, 0))
            right = (named[at] == asked) / np.maximum(one_of[people.ids], 1) if len(named) else best.shares
            if right.sum() > best.shares.sum():
                best = MatchedPeople(np.asarray(right, np.float64), np.asarray(top[people.ids] > _SURE))
        return best

    def _pairs(self, person: Ints, row: Ints, ctx: Context, label: str) -> Iterator[tuple[Ints32, Ints32]]:
        """Yield the possible pairs of a person and a record, by their numbers, those of some people at a time."""
        from discretion.kernels.classes import distinct_rows
        from discretion.kernels.linkage import fill, list_allowed

        telling, tree = self._telling, self._tree
        alike = distinct_rows(fill(telling.published))
        point = alike.ids[row]
        members, counts = np.argsort(point, kind="stable"), np.bincount(point, minlength=len(alike.counts))
        before, size = np.cumsum(counts) - counts, max(1, int(_AT_ONCE / max(self.candidates, 1.0)))
        kind = members[before[alike.ids[tree.rows]]].astype(np.int32)
        for start in range(0, len(person), size):
            ctx.progress(start, len(person), label)
            some = person[start : start + size]
            starts, found = list_allowed(telling.known[some], tree, _of(telling, some), _AT_ONCE)
            who = np.repeat(np.arange(start, start + len(some), dtype=np.int32), np.diff(starts))
            if len(members) == len(counts):  # each point is one kind of record
                yield who, kind[found]
                continue
            places = alike.ids[tree.rows[found]]
            sizes = counts[places]
            inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            record = members[np.repeat(before[places], sizes) + inside]
            yield np.repeat(who, sizes), record.astype(np.int32)


class _Moves:
    """The moves of a column from true values to published ones, some of which somebody may have made in reverse."""

    def __init__(self, known: Floats, published: Floats) -> None:
        values = np.unique(np.concatenate([known[~np.isnan(known)], published[~np.isnan(published)]]))
        self._true, self._shown = (
            np.where(np.isnan(x), -1, np.searchsorted(values, x)).astype(np.int64) for x in (known, published)
        )
        self._values = len(values)
        self._bits = np.zeros(min(self._values**2, _MOST_BITS) // 64 + 1, np.uint64)

    def mark(self, who: Ints32, record: Ints32) -> None:
        """Note the moves of pairs."""
        from discretion.kernels.beliefs import mark_moves

        mark_moves(self._true, self._shown, self._values, who, record, self._bits)

    def answered(self, who: Ints32, record: Ints32) -> NDArray[np.bool_]:
        """Tell which pairs move nothing, or make a move of which the reverse was noted (or another of its place)."""
        from discretion.kernels.beliefs import find_reverse

        found = np.empty(len(who), np.bool_)
        find_reverse(self._true, self._shown, self._values, who, record, self._bits, found)
        return found

    def numbers(self, who: Ints32, record: Ints32) -> Ints:
        """Number the moves of pairs: 2g and 2g + 1 are each other's reverse, −1 is none."""
        from discretion.kernels.classes import class_ids

        u, v = self._true[who], self._shown[record]
        numbers = np.full(len(u), -1, np.int64)
        moved = (u >= 0) & (v >= 0) & (u != v)
        u, v = u[moved], v[moved]
        both = class_ids([np.minimum(u, v), np.maximum(u, v)], [self._values, self._values])
        numbers[moved] = 2 * both.ids.astype(np.int64) + (u > v)
        return numbers


def _is_answered(moves: Ints) -> NDArray[np.bool_]:
    """Tell which moves somebody else may have made the other way round."""
    there = np.zeros((int(moves.max(initial=-1)) | 1) + 1, np.bool_)
    there[moves[moves >= 0]] = True
    return np.asarray((moves < 0) | there[moves ^ 1])


def _spread(terms: Terms) -> Floats:
    """Give scales by which a tree is split where it helps most: columns of windows by the width of these."""
    width = terms.high - terms.low
    known = np.isfinite(width)
    mean = np.where(known, width, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(1.0 / np.where(mean > 0, mean, 1.0))


def _telling(space: Space) -> Bools:
    """Tell which columns exclude anybody: not numbers without windows, unless a missing one does; all where none do."""
    from discretion.kernels.linkage import NOMINAL

    terms = space.terms
    windows = (np.isfinite(terms.low) | np.isfinite(terms.high)).any(axis=0)
    closed = np.isinf(terms.gap) & np.isnan(space.published).any(axis=0)
    kept: Bools = windows | closed | (terms.kinds == NOMINAL)
    return kept if kept.any() else np.ones_like(kept)


def _only(space: Space, kept: Bools) -> Space:
    """Leave the other columns out."""
    if kept.all():
        return space
    terms = space.terms
    fewer = terms._replace(
        kinds=terms.kinds[kept],
        scale=terms.scale[:, kept],
        gap=terms.gap[kept],
        offsets=terms.offsets[kept],
        low=terms.low[:, kept],
        high=terms.high[:, kept],
    )
    return replace(space, known=space.known[:, kept], published=space.published[:, kept], terms=fewer)


def _of(space: Space, rows: Ints) -> Terms:
    return space.terms._replace(low=space.terms.low[rows], high=space.terms.high[rows])


def _components(starts: Ints, found: NDArray[np.int32], who: Ints, record: Ints, records: int) -> Ints:
    """Number the components of the graph: people first, then records."""
    from discretion.kernels.linkage import strong_components

    people = len(starts) - 1
    pairs = np.unique(record * people + who)
    back, holder = np.divmod(pairs, people)
    ends = np.concatenate([starts, starts[-1] + np.cumsum(np.bincount(back, minlength=records))])
    return strong_components(ends, np.concatenate([found + np.int32(people), holder.astype(np.int32)]))


def _assigned(space: Space, rows: Ints, block: Ints, alike: Floats, ctx: Context) -> Floats:
    """Assign the people of each small block to its records at the least total cost, where that is right more often.

    `alike`: how likely the intruder is right who takes any of the records left.
    """
    order = np.argsort(block, kind="stable")
    sizes = np.bincount(block)
    starts = np.cumsum(sizes) - sizes
    several = np.flatnonzero((sizes > 1) & (sizes <= _BLOCK))
    if not len(several):
        return alike
    drawn = several[ctx.within("blocks").rng.permutation(len(several))]
    tried = drawn[: int(np.searchsorted(np.cumsum(sizes[drawn] ** 2), _ASSIGNED)) + 1]
    is_open = np.zeros(len(sizes), np.bool_)
    is_open[drawn[len(tried) :]] = True
    shares = np.where(is_open[block], np.nan, alike)
    for size in np.unique(sizes[tried]):
        ctx.progress(int(size), _BLOCK, "elimination: assignment")
        people = order[starts[tried[sizes[tried] == size], None] + np.arange(size)]
        shares[people] = _linked(_pair_costs(space, rows, people), space.published[rows[people]])
    known = ~np.isnan(shares)
    return shares if shares[known].sum() > alike[known].sum() else alike


def _pair_costs(space: Space, rows: Ints, people: Ints) -> Floats:
    """Give for each block what it costs to link each of its people to each of its records, in their order."""
    from discretion.kernels.linkage import pair_costs

    blocks, size = people.shape
    first = np.repeat(people.ravel(), size)
    second = np.repeat(rows[people], size, axis=0).ravel()
    terms = _of(space, first)
    terms = terms if len(terms.scale) == 1 else terms._replace(scale=terms.scale[first])
    return pair_costs(space.known[first], space.published[second], terms).reshape(blocks, size, size)


def _linked(costs: Floats, published: Floats) -> Floats:
    """Link the people of each block at the least total cost, whatever the order of the file.

    Gives how likely each person's link is right: people for whom all the records cost the same may be exchanged, and
    so may equal records.
    """
    from discretion.kernels.linkage import assign

    blocks, size, _ = costs.shape
    possible = np.isfinite(costs)
    impossible = 1.0 + size * np.where(possible, costs, 1.0).max(axis=(1, 2), initial=1.0)
    record, columns = _numbered(np.where(np.isnan(published), np.inf, published))
    costs = np.take_along_axis(np.where(possible, costs, impossible[:, None, None]), columns[:, None], 2)
    person, order = _numbered(costs)  # assignments of the same sum are not to follow the file
    linked = np.take_along_axis(columns, assign(np.take_along_axis(costs, order[:, :, None], 1)), 1)
    block = np.arange(blocks)[:, None]
    given = np.zeros(costs.shape)
    np.add.at(given, (block, person[block, order], record[block, linked]), 1.0)
    alike = [np.bincount((block * size + x).ravel())[block * size + x] for x in (person, record)]
    return np.asarray(given[block, person, record] / alike[0] / alike[1])


def _numbered(tables: Floats) -> tuple[Ints, Ints]:
    """Number the different rows of each table in some order that their values decide; give also that order."""
    rows = np.ascontiguousarray(tables + 0.0)  # −0.0 is 0.0, byte for byte
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[2])))[:, :, 0]
    ranks = np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
    order = np.argsort(ranks, axis=1, kind="stable")
    ranks = np.take_along_axis(ranks, order, 1)
    numbers = np.zeros_like(order)
    changes = np.cumsum(ranks[:, 1:] != ranks[:, :-1], axis=1)
    np.put_along_axis(numbers, order[:, 1:], changes, 1)
    return numbers, order


PERCENT_FACTORS = (1.0, 1.1, 1.25)
"""Windows of rank swapping that are tried: the least that holds every move seen, and wider ones."""
_MOST_PERCENT = 80.0
"""Values that moved farther were not swapped by rank: any place is possible."""
_BASES = (5.0, 2.5, 2.0, 1.0)
_MOSTLY, _NEAR = 0.9, 1e-6
"""Share of the values that coded extremes leave alone, and how near a mean must be."""
_MOST_REGROUPED = 20_000
"""Above so many records groups of several columns are not formed again to see whether a guess is right."""


@dataclass(frozen=True)
class Guess:
    """Methods that fit a release, in words, and the columns for which none does."""

    label: str
    steps: tuple[Part, ...] = field(repr=False)
    unknown: frozenset[str]


@dataclass
class _Found:
    """What the columns look like: those not named were not changed."""

    swapped: dict[str, float] = field(default_factory=dict)
    """the least percentage of ranks that holds every move"""
    coded: list[Part] = field(default_factory=list)
    """top and bottom coding of columns that were swapped afterwards"""
    rounded: dict[str, tuple[float, str]] = field(default_factory=dict)
    sorted_groups: dict[str, int] = field(default_factory=dict)
    grouped: list[str] = field(default_factory=list)
    noisy: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    coarser: set[str] = field(default_factory=set)
    """labels that always hold the true value"""
    unknown: set[str] = field(default_factory=set)


def guesses(view: View) -> tuple[Guess, ...]:
    """Give the methods that fit what is seen, with the parameters that the aligned rows tell.

    A column with the same values in other places: rank swapping, with the least window that holds every move and wider
    ones. Multiples of a base near the values: rounding. Few values, each several times: microaggregation with the least
    size as k. Other numbers: additive (normal, Laplace), multiplicative (normal, log-normal) and correlated noise with
    the spread of the differences. The same categories in other places: PRAM with the share that stayed. Labels that
    always hold the true value: less detail. The intruder
    who scans such a grid does not know these parameters; the assessor takes the best case for the intruder.
    """
    found = _Found()
    for name in view.columns:
        _look_at(view, name, found)
    fixed = _fixed(view, found)
    swaps = [
        (f"percent × {factor:g}", tuple(_swap(name, p * factor) for name, p in found.swapped.items()))
        for factor in (PERCENT_FACTORS if found.swapped else ())
    ] or [("", ())]
    noises = _noises(found.noisy) or [("", ())]
    changed = bool(fixed) or swaps[0][1] or noises[0][1] or found.coarser
    if not changed:
        return ()
    made = []
    for (wide, swap), (shape, noise) in product(swaps, noises):
        steps = (*found.coded, *fixed, *swap, *noise)
        kinds = ", ".join(dict.fromkeys(step.kind for step in steps)) or "less detail"
        beside = ", ".join(text for text in (wide, shape) if text)
        made.append(Guess(f"{kinds} ({beside})" if beside else kinds, steps, frozenset(found.unknown)))
    return tuple(made)


def _look_at(view: View, name: str, found: _Found) -> None:
    if name not in view.original.columns or name not in view.released.columns:
        found.unknown.add(name)
    elif view.original.is_numeric(name) and view.released.is_numeric(name):
        _look_at_numbers(name, view.original.number(name), view.released.number(name), found)
    else:
        _look_at_categories(view, name, found)


def _look_at_numbers(name: str, x: Floats, y: Floats, found: _Found) -> None:
    both = ~np.isnan(x) & ~np.isnan(y)
    a, b = x[both], y[both]
    if not len(a) or np.array_equal(a, b):
        if not len(a):
            found.unknown.add(name)
        return
    values, counts = np.unique(b, return_counts=True)
    x, a = _with_coded_ends(name, x, y, a, found)
    if _is_part_of(b, x[~np.isnan(x)]):
        percent = _least_percent(x[~np.isnan(x)], a, b)
        if 0 < percent <= _MOST_PERCENT:
            found.swapped[name] = percent
        else:
            found.unknown.add(name)
    elif (rounding := _rounding(a, b, values)) is not None:
        found.rounded[name] = rounding
    elif counts.min() > 1 and 2 * len(values) <= len(np.unique(a)):
        order = np.argsort(a, kind="stable")
        if (np.diff(b[order]) >= 0).all():
            found.sorted_groups[name] = int(counts.min())
        else:
            found.grouped.append(name)
    elif np.std(b - a) > 0 and np.std(a) > 0:
        found.noisy[name] = (a, b)
    else:
        found.unknown.add(name)


def _look_at_categories(view: View, name: str, found: _Found) -> None:
    old, new = view.original.codes(name), view.released.codes(name)
    before = np.array([str(value) for value in old.values])[old.codes]
    after = np.array([str(value) for value in new.values])[new.codes]
    there = (old.codes != old.missing) & (new.codes != new.missing)
    if not there.any() or not set(after[there]) <= set(before[there]):
        (found.coarser if _holds_the_truth(view, name) else found.unknown).add(name)
        return
    stayed = float((before[there] == after[there]).mean())
    if stayed < 1:
        found.moved[name] = stayed


def _holds_the_truth(view: View, name: str) -> bool:
    """Tell whether every published label holds the true value: an interval, a class of a hierarchy, a code."""
    try:
        column = compare_column(view.original, view.released, name, view.original)
    except DataError:
        return False
    there = ~np.isnan(column.known) & ~np.isnan(column.published)
    if column.alike is None or not there.any():
        return False
    agreeing = column.alike[column.known[there].astype(np.int64)]
    return bool((agreeing == column.published[there].astype(np.int64)[:, None]).any(axis=1).all())


def _with_coded_ends(name: str, x: Floats, y: Floats, a: Floats, found: _Found) -> tuple[Floats, Floats]:
    """Code the extremes of all the values, and of some of them, as the release seems to have done."""
    for step, value in _coded_ends(name, np.sort(x[~np.isnan(x)]), np.sort(y[~np.isnan(y)])):
        found.coded.append(step)
        beyond = np.greater if step.kind == "top-code" else np.less
        x, a = (np.where(beyond(v, step.at), value, v) for v in (x, a))
    return x, a


def _coded_ends(name: str, x: Floats, y: Floats) -> list[tuple[Any, float]]:
    """Give the coding of the extremes that makes the sorted values of both sides equal, with the values it gives.

    Nothing where the values are equal anyway, differ elsewhere than at the ends, or an end is not one value.
    """
    if len(x) != len(y) or np.array_equal(x, y):
        return []
    same = np.flatnonzero(x == y)
    if len(same) < _MOSTLY * len(x) or len(same) <= same[-1] - same[0]:
        return []
    made = []
    for kind, part, at in (
        ("bottom-code", slice(0, same[0]), x[same[0]]),
        ("top-code", slice(same[-1] + 1, None), x[same[-1]]),
    ):
        shown = np.unique(y[part])
        if len(shown) > 1:
            return []
        if len(shown):
            value, ends = float(shown[0]), x[part]
            cut = ends.max() < value <= at if kind == "bottom-code" else at <= value < ends.min()
            if not cut and not np.isclose(ends.mean(), value, rtol=_NEAR, atol=0.5):
                return []
            made.append(
                (find(kind)(column=name, at=value if cut else float(at), replace="cut" if cut else "mean"), value)
            )
    return made


def _is_part_of(some: Floats, all_of: Floats) -> bool:
    """Tell whether the values of one column all occur in the other, as often."""
    values, counts = np.unique(all_of, return_counts=True)
    own, number = np.unique(some, return_counts=True)
    at = np.minimum(np.searchsorted(values, own), len(values) - 1)
    return bool((values[at] == own).all() and (number <= counts[at]).all())


def _least_percent(ranked: Floats, x: Floats, y: Floats) -> float:
    """Give the least percentage of the ranks that holds every move; equal values may have had any of their ranks."""
    order = np.sort(ranked)
    before, after = ((np.searchsorted(order, v, "left"), np.searchsorted(order, v, "right") - 1) for v in (x, y))
    moved = np.maximum(after[0] - before[1], before[0] - after[1])
    return 100.0 * max(float(moved.max()), 0.0) / len(order)


def _rounding(x: Floats, y: Floats, values: Floats) -> tuple[float, str] | None:
    """Give the largest base of which all the published values are multiples next to the original ones."""
    gap = float(np.abs(y - x).max())
    top = int(np.ceil(np.log10(max(2 * gap, 1e-300)))) + 1
    for base in (digit * 10.0**power for power in range(top, top - 4, -1) for digit in _BASES):
        whole = np.abs(values / base - np.round(values / base)).max() < 1e-6
        if whole and gap <= base * (1 + 1e-9):
            ways = {"nearest": gap <= base / 2 * (1 + 1e-9), "up": (y >= x).all(), "down": (y <= x).all()}
            return base, next((how for how, fits in ways.items() if fits), "random")
    return None


def _fixed(view: View, found: _Found) -> tuple[Part, ...]:
    """Give the steps whose parameters the release itself shows; what cannot be built stays unknown."""
    wanted: list[tuple[str, dict[str, Any], list[str]]] = []
    for name, (base, how) in found.rounded.items():
        wanted.append(("round", {"base": base, "how": how}, [name]))
    for name, k in found.sorted_groups.items():
        wanted.append(("individual-ranking", {"k": k}, [name]))
    for name, stayed in found.moved.items():
        wanted.append(("pram", {"keep_share": stayed}, [name]))
    if found.grouped:
        sizes = view.released.class_sizes(found.grouped)
        k = int(np.nanmin(sizes))
        if k > 1 and len(view.released) <= _MOST_REGROUPED:
            wanted.append(("mdav", {"k": k}, found.grouped))
        else:
            found.unknown.update(found.grouped)
    return tuple(part for kind, fields, names in wanted if (part := _built(kind, fields, names, found)) is not None)


def _built(kind: str, fields: Mapping[str, Any], columns: list[str], found: _Found) -> Part | None:
    try:
        return find(kind)(columns=columns, **fields)
    except (PlanError, DataError):
        found.unknown.update(columns)
        return None


def _swap(name: str, percent: float) -> Part:
    return find("rank-swap")(columns=[name], percent=min(percent, 100.0))


def _noises(noisy: Mapping[str, tuple[Floats, Floats]]) -> list[tuple[str, tuple[Part, ...]]]:
    """Give the shapes of noise with the spreads that the differences show."""
    if not noisy:
        return []
    spreads = {name: float(np.std(y - x) / np.std(x)) for name, (x, y) in noisy.items()}
    add = find("additive-noise")
    made: list[tuple[str, tuple[Part, ...]]] = [
        (shape, tuple(add(columns=[name], sd_share=sd, distribution=shape) for name, sd in spreads.items()))
        for shape in ("normal", "laplace")
    ]
    if len(noisy) > 1 and len({len(x) for x, _ in noisy.values()}) == 1:
        share = float(np.mean([sd**2 for sd in spreads.values()]))
        made.append(("correlated", (find("correlated-noise")(columns=list(noisy), variance_share=share),)))
    if all((np.sign(x) == np.sign(y)).all() for x, y in noisy.values()):
        sds = {name: min(_factor_sd(x, y), 1.0) for name, (x, y) in noisy.items()}
        multiply = find("multiplicative-noise")
        for shape in ("normal", "lognormal"):
            steps = tuple(multiply(columns=[name], sd=sd, distribution=shape) for name, sd in sds.items())
            made.append((f"{shape} factors", steps))
    return made


def _factor_sd(x: Floats, y: Floats) -> float:
    there = x != 0
    return float(max(np.std(y[there] / x[there]), 1e-12)) if there.any() else 1.0


# Categories that were moved at random by known probabilities: how much an agreement tells (PRAM).


def with_moved_categories(view: View, space: Space, history: History, used: dict[str, str], ctx: Context) -> Space:
    """Weigh each column of moved categories by the likelihood of an agreement, for every known record.

    With p the probability that the record's category stays and t its share in the release, an agreement is p/t times
    as likely for the record's own row as for another, and a disagreement (1−p)/(1−t) times. Twice the logarithm of
    their ratio is what a disagreement costs: on the scale of squared differences divided by the variance of noise. A
    category that is kept rarely, or that most of the release has, tells little; one that never moves must agree.
    """
    from discretion.kernels.linkage import NOMINAL

    scale, gap = space.terms.scale, space.terms.gap.copy()
    for j, name in enumerate(space.columns):
        step: Any = history.only_step(name)
        if step is None or step.kind not in MOVING or getattr(step, "by", None) or space.terms.kinds[j] != NOMINAL:
            continue
        try:
            moves = step.fit(view.original if view.worst_case else view.released, ctx)["columns"][name]
        except DataError:
            continue
        costs = _costs(view, name, list(moves["categories"]), np.asarray(moves["matrix"], dtype=np.float64))
        scale = np.broadcast_to(scale, space.known.shape).copy()
        scale[:, j] = costs
        if gap[j] > 0:
            gap[j] *= costs[np.isfinite(costs)].mean() if np.isfinite(costs).any() else 1.0
        used[name] = f"{step.kind}: the probabilities of the categories"
    return space.changed(scale=scale, gap=gap)


def _costs(view: View, name: str, categories: Sequence[str], matrix: Floats) -> Floats:
    """Give what a disagreement costs for each known record; one whose category is not in the matrix costs nothing."""
    stays = np.append(np.diag(matrix), np.nan)
    published = np.bincount(_places(view.released, name, categories), minlength=len(categories) + 1).astype(np.float64)
    shares = published / max(published[:-1].sum(), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = 2 * (np.log(stays / (1 - stays)) - np.log(shares / (1 - shares)))
    return np.asarray(
        np.maximum(np.nan_to_num(costs, nan=0.0, posinf=np.inf, neginf=0.0), 0.0)[_places(view.known, name, categories)]
    )


def _places(data: Dataset, name: str, categories: Sequence[str]) -> NDArray[np.int64]:
    """Give the place of each record's category; one past the last where it is missing or not among them."""
    coded = data.codes(name)
    places = {category: place for place, category in enumerate(categories)}
    of_code = np.array(
        [
            len(categories) if code == coded.missing else places.get(canonical(value), len(categories))
            for code, value in enumerate(coded.values)
        ],
        dtype=np.int64,
    )
    return np.asarray(of_code[coded.codes])


# Items of set-valued columns that were replaced by broader ones: the intruder replaces the known items alike.

Sets = tuple[list[frozenset[str] | None], NDArray[Any]]


def with_items_coded(view: View, step: Any, name: str) -> Dataset | None:
    """Give the known records with the items of a set-valued column as the step published them; None without hierarchy.

    Each item has one label for all records: the finest label above it (or itself) that every published set shows whose
    person has the item; an item that no label stands for was suppressed. Whoever has the hierarchy, which is published,
    sees the labels in the release.
    """
    source = step.item_hierarchy or view.original.schema[name].hierarchy
    if source is None or name not in view.original.columns:
        return None
    own = view.original.codes(name), view.known.codes(name)

    def make() -> tuple[Any, pl.Series | None]:
        before, after, mine = (_sets(data, name) for data in (view.original, view.released, view.known))
        items = sorted({item for sets, _ in (before, mine) for found in sets if found for item in found})
        try:
            labels = _labels(source.bind(items, name), items, before, after)
        except DiscretionError:
            return (step, own), None
        import polars as pl

        sets, codes = mine
        made = pl.Series(name, [_coded_items(found, labels) for found in sets], pl.List(pl.String)).gather(codes)
        return (step, own), made.list.join("|") if view.known.frame.schema[name] == pl.String else made

    # kept with the release, so that several linkages share it; what it was made of is kept too: the ids stay its own
    key = f"items coded by {id(step)} of {', '.join(str(id(codes)) for codes in own)}"
    made = view.released.cached((key, name), make)[1]
    return None if made is None else view.known.with_columns({name: made})


def _coded_items(found: frozenset[str] | None, labels: dict[str, str | None]) -> list[str] | None:
    """Give the labels of a set; nothing for one that lost all its items, which is published as missing."""
    if found is None:
        return None
    new = sorted({label for item in found if (label := labels[item]) is not None})
    return new if new or not found else None


def _sets(data: Dataset, name: str) -> Sets:
    """Give the items of each different set, None for a missing one, and which of them each row has."""
    codes = data.codes(name)
    return [_items(value) for value in codes.values], codes.codes


def _items(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    parts = value if isinstance(value, list) else str(value).split("|")
    return frozenset(text for part in parts if part is not None and (text := canonical(part).strip()))


def _labels(levels: HierarchyLevels, items: Sequence[str], before: Sets, after: Sets) -> dict[str, str | None]:
    """Read off the label of each item, from fine to coarse."""
    shown = {label for found in after[0] if found for label in found}
    above = {item: dict.fromkeys(level[levels.leaf_index[item]] for level in levels.table) for item in items}
    possible = {item: [label for label in labels if label in shown] for item, labels in above.items()}
    for one, other in np.unique(np.column_stack([before[1], after[1]]), axis=0):
        mine, theirs = before[0][one], after[0][other]
        if mine and theirs is not None:
            for item in mine:
                possible[item] = [label for label in possible[item] if label in theirs]
    return {item: labels[0] if labels else None for item, labels in possible.items()}


_WINDOWS = "{}: the window, and how likely each move is"
"""What is said of a column of which the window of its swaps is used."""
_DOUBT = 1e-4
"""How likely the record of a partner is not seen where none is missing."""
_LAST_DIGITS = 1e-9
"""Share of a value below which a difference is one of rounding."""


@dataclass
class Informed:
    """A space to link in, and what the intruder used to make it, in words."""

    space: Space = field(repr=False)
    used: dict[str, str]
    """for each column what its method told"""
    exchange: tuple[NDArray[np.int64], int, float] | None = field(default=None, repr=False)
    """columns whose partners can be followed, the one whose windows are walked through, and their mean size"""
    exchanged: tuple[int, ...] = ()
    """columns whose values were exchanged in pairs among the records that the intruder has all of"""
    doubt: float = 0.0
    """how likely the partner of a record is not in the release with its value"""


def inform(
    view: View,
    intruder: Intruder,
    steps: Sequence[Part],
    ctx: Context,
    *,
    named: bool = True,
    unknown: Collection[str] = (),
    made: bool = False,
) -> Informed | None:
    """Use what the steps tell; None where they tell nothing.

    Every window holds the true record when the intruder's values are exact, so that wrong candidates go and the
    right one stays; among those left, the one counts whose move is the likeliest. Of the columns `unknown` it is not
    known how they were changed; `made`: these are the steps that made the release, not guessed ones.
    """
    whole = history = History(view.original, steps, unknown)
    exact = intruder.data is None and intruder.error == Mistakes()
    shuffled = exact and any(step.kind == SHUFFLE for step in steps)
    true = all(history.is_generalized(name) and not view.released.count_missing(name) for name in view.columns)
    if true and not shuffled:
        return None  # true values without gaps: who agrees is found without this knowledge
    seen = view
    view, history, coded = _coded(view, history, ctx)
    used: dict[str, str] = {}
    known = _done_again(view, history, ctx, used, made) if exact else view
    space = make_space(known, None, "average", True, ctx, named=named)
    space = _with_noise(view, space, history, intruder, used)
    space = with_moved_categories(view, space, history, used, ctx)
    if exact:
        space = _with_windows(view, space, history, used, ctx)
    if shuffled:
        space, dealt = with_shuffles(seen, space, whole, ctx)
        if true and not dealt:
            return None
        used |= dealt
    used |= {name: told for name, told in coded.items() if used.get(name, "not changed") == "not changed"}
    space, gaps = with_gaps(seen, intruder, space)
    used |= {name: "gaps stay gaps" for name in gaps if name not in used}
    if not used:
        return None
    swapped = tuple(j for j, name in enumerate(space.columns) if used.get(name) == _WINDOWS.format("rank-swap"))
    if not (swapped and exact and view.worst_case and len(space.columns) > 1):  # one column alone tells no partner
        return Informed(space, used)
    gone = max(_gone(view, history, history.only_step(space.columns[j])) for j in swapped)
    lost = max(count_lost(space.known[:, j], space.published[:, j]) for j in swapped)
    doubt = max(_DOUBT, (gone + lost) / (gone + len(space.known)))
    return Informed(space, used, None if gone else exchange_of(space, True), swapped, doubt)


def _coded(view: View, history: History, ctx: Context) -> tuple[View, History, dict[str, str]]:
    """Code the known records by the rules of the first steps of each column: recoding, top and bottom coding, groups.

    The rules are found again from the original; a codebook tells them anyway. What is left of the history is what came
    after. A bound that was computed again may differ in its last digits: values next to a published one are that one.
    """
    full = view.original if view.original.steps else view.original.origin
    part, known = view.original, view.known
    done: list[Part] = []
    told: dict[str, str] = {}
    failed: set[str] = set()
    for number, step in enumerate(history.codings()):
        coding: Any = step
        if step.kind == CODING_ITEMS:
            for name in (name for name in history.columns_of(step) if name in view.columns):
                if (coded := with_items_coded(replace(view, known=known), coding, name)) is not None:
                    known = coded
                    done.append(step)
                    told[name] = f"{step.kind}: the items coded alike"
            continue
        inner, name = ctx.within(f"coded-{number}"), coding.column
        if name not in view.columns or name in failed:
            continue
        try:
            rule = coding.fit(full if history.keeps_records_before(step) else part, inner)
            different = {id(data): data for data in (full, part, known)}
            made = {key: coding.rewrite(data, rule, inner) for key, data in different.items()}
            full, part, known = made[id(full)], made[id(part)], made[id(known)]
        except DataError:
            failed.add(name)
            continue
        done.append(step)
        told[name] = f"{step.kind}: coded alike"
    numbers = {n: _snapped(known.number(n), view.released.number(n)) for n in told if _both_numeric(known, view, n)}
    known = known.with_columns(numbers) if numbers else known
    return replace(view, original=part, known=known), history.without(done), told


def _both_numeric(known: Dataset, view: View, name: str) -> bool:
    return known.is_numeric(name) and view.released.is_numeric(name)


def _snapped(x: Floats, published: Floats) -> Floats:
    """Give values that differ from a published one by rounding errors alone that value."""
    values = np.unique(published[~np.isnan(published)])
    if not len(values):
        return x
    after = np.clip(np.searchsorted(values, x), 0, len(values) - 1)
    before = np.maximum(after - 1, 0)
    near = np.where(np.abs(values[before] - x) < np.abs(values[after] - x), values[before], values[after])
    return np.where(np.abs(near - x) <= _LAST_DIGITS * np.abs(near), near, x)


def _done_again(view: View, history: History, ctx: Context, used: dict[str, str], made: bool) -> View:
    """Carry out on the known records what draws nothing: they are rounded alike, and grouped alike if all are known.

    Groups formed again on all the records are those of the release: where a step `made` it, they are read off.
    """
    known = view.known
    for number, step in enumerate(history.steps):
        columns = _repeatable(view, history, step)
        if not columns:
            continue
        if made and step.kind in GROUPING and not any(view.released.count_missing(name) for name in columns):
            known = known.with_columns({name: view.released.frame[name] for name in columns})
            used.update(dict.fromkeys(columns, f"{step.kind}: the groups were formed again"))
            continue
        again: Any = step.model_copy(update={"columns": columns}) if step.kind in ONE_COLUMN | {"round"} else step
        try:
            known = again.apply(known, ctx.within(f"again-{number}"))
        except DataError:
            continue
        told = "rounded alike" if step.kind == "round" else "the groups were formed again"
        used.update(dict.fromkeys(columns, f"{step.kind}: {told}"))
    return replace(view, known=known)


def _repeatable(view: View, history: History, step: Any) -> tuple[str, ...]:
    """Name the columns for which the intruder can carry out a step alike; none where records or columns lack."""
    columns = history.columns_of(step)
    if step.kind in ONE_COLUMN | {"round"}:
        columns = tuple(name for name in columns if name in view.columns)
    alone = bool(columns) and all(history.only_step(name) is step for name in columns)
    if not alone or not set(columns) <= set(view.columns):
        return ()
    if step.kind == "round":
        return columns if step.how != "random" else ()
    if step.kind not in GROUPING or getattr(step, "replace", "all") != "all" or not view.worst_case:
        return ()
    if not history.keeps_records_after(step) or set(getattr(step, "by", ())) - set(view.columns):
        return ()
    return columns


def _with_noise(view: View, space: Space, history: History, intruder: Intruder, used: dict[str, str]) -> Space:
    """Measure differences by the known distribution of the noise instead of the spread of the column.

    A candidate y counts by f(y|x)/m(y), how much likelier it is for the record x than for anybody: with normal noise of
    variance s·σ² the distance of x from its best prediction μ + (y − μ)/(1 + s), in units of what stays unknown.
    Laplace noise and factors count by f(y|x) alone, their logarithms where they are log-normal. The records of the
    space are changed where they are.
    """
    from discretion.kernels.linkage import ABSOLUTE, NOMINAL, SQUARED

    space = _with_mixing_noise(view, space, history, used)
    kinds, scale, gap = space.terms.kinds.copy(), space.terms.scale.copy(), space.terms.gap.copy()
    for j, name in enumerate(space.columns):
        step: Any = history.only_step(name)
        if step is None or step.kind not in NOISE or kinds[j] == NOMINAL or name in used:
            continue
        x, y = space.known[:, j], space.published[:, j]
        error = intruder.error.sd_share * sd_of(x if view.worst_case else y)
        kinds[j] = SQUARED
        if step.kind == "multiplicative-noise" and step.distribution == "lognormal" and not error:
            variance = math.log1p(step.sd**2)
            x, y = _on_log_scale(x, y, -variance / 2)
            space.known[:, j], space.published[:, j], scale[:, j] = x, y, 1.0 / math.sqrt(variance)
        elif step.kind == "multiplicative-noise":
            scale = np.broadcast_to(scale, space.known.shape).copy()
            spread = np.hypot(step.sd * np.abs(x), error)
            scale[:, j] = 1.0 / np.where(spread > 0, spread, sd_of(y))
        elif getattr(step, "distribution", "normal") == "laplace" and not error:
            kinds[j], scale[:, j] = ABSOLUTE, 2 * math.sqrt(2) / _noise_sd(step, x, y, view.worst_case)
        elif step.kind == "additive-noise" and not error and not (step.keep_zeros or step.keep_sign):
            share = step.variance_share if step.sd_share is None else step.sd_share**2
            mean = float(np.nanmean(x if view.worst_case else y))
            spread_of_noise = _noise_sd(step, x, y, view.worst_case)
            y = mean + (y - mean) / (1 + share)
            space.published[:, j] = y
            scale[:, j] = math.sqrt(1 + share) / spread_of_noise
        else:
            scale[:, j] = 1.0 / math.hypot(_noise_sd(step, x, y, view.worst_case), error)
        used[name] = f"{step.kind}: the distribution of the noise"
        if np.isnan(y).any():
            gap[j] = average_term(x, y, float(np.nanmedian(scale[:, j])), squared=bool(kinds[j] == SQUARED))
    return space.changed(kinds=kinds, scale=scale, gap=gap)


def _on_log_scale(x: Floats, y: Floats, shift: float) -> tuple[Floats, Floats]:
    """Give both sides as logarithms: signs stay far apart and zero lies between them; `shift` is where x moves to."""
    both = np.abs(np.concatenate([x, y]))
    present = both[both > 0]
    lift = 10.0 + abs(shift) - (np.log(present.min()) if len(present) else 0.0)
    with np.errstate(divide="ignore"):
        first, second = (
            np.where(v == 0, 0.0, np.sign(v) * (np.log(np.abs(v)) + lift + s)) for v, s in ((x, shift), (y, 0.0))
        )
    return first, second


def _noise_sd(step: Any, known: Floats, published: Floats, whole: bool) -> float:
    """Give the standard deviation of additive noise, from all the original values or else from the noisy ones."""
    x = known if whole else published
    present = x[~np.isnan(x)]
    sd_share = getattr(step, "sd_share", None)
    share = sd_share**2 if sd_share is not None else step.variance_share
    ddof = 1 if sd_share is not None else 0
    variance = float(present.var(ddof=ddof)) if len(present) > ddof else 0.0
    return math.sqrt(variance * share / (1.0 if whole else 1.0 + share)) or 1.0


def _with_mixing_noise(view: View, space: Space, history: History, used: dict[str, str]) -> Space:
    """Turn the columns of a step whose noise is correlated so that it has the same spread in all directions.

    A record x is published as y = μ + a·(x − μ) + noise of covariance c·Σ: a = 1 for correlated noise, smaller where
    the variance is kept. A rotation keeps a = 1 − s/2 of a record and mixes in 1 − a² of others, s its
    `variance_share`. The best prediction of x is μ + a·(y − μ)/(a² + c); Σ·c/(a² + c) stays unknown.
    """
    from discretion.kernels.linkage import NOMINAL, SQUARED

    for step in history.steps:
        if step.kind not in MIXING:
            continue
        names = [name for name in space.columns if history.only_step(name) is step]
        at = [space.columns.index(name) for name in names]
        known, published = space.known[:, at], space.published[:, at]
        if not at or (space.terms.kinds[at] == NOMINAL).any() or np.isnan(known).any() or np.isnan(published).any():
            continue
        kept, share = _mixture(step)
        source = known if view.worst_case else published
        base = np.atleast_2d(np.cov(source.T, ddof=0)) / (1.0 if view.worst_case else kept**2 + share)
        turn = whitening(base * share / (kept**2 + share))
        square = np.zeros((len(at), len(at)))
        square[:, : turn.shape[1]] = turn
        kinds, scale = space.terms.kinds.copy(), space.terms.scale.copy()
        kinds[at], scale[:, at] = SQUARED, 1.0
        both = [space.known.copy(), space.published.copy()]
        mean = source.mean(axis=0)
        back = kept / (kept**2 + share)
        both[0][:, at], both[1][:, at] = (known - mean) @ square, back * (published - mean) @ square
        space = replace(space, known=both[0], published=both[1]).changed(kinds=kinds, scale=scale)
        used.update(dict.fromkeys(names, f"{step.kind}: the covariance of the noise"))
    return space


def _mixture(step: Any) -> tuple[float, float]:
    """Give the factor by which a step keeps values, and the covariance of its noise as a share of theirs."""
    share = float(step.variance_share)
    if step.kind == "correlated-noise":
        return 1.0, share
    kept = math.sqrt(1 - share) if step.kind == "variance-preserving-noise" else 1 - share / 2
    return kept, 1 - kept**2


def _with_windows(view: View, space: Space, history: History, used: dict[str, str], ctx: Context) -> Space:
    """Keep the candidates that each column allows; a column that no step changed allows equal values only."""
    from discretion.kernels.linkage import NOMINAL

    low, high = np.full(space.known.shape, -np.inf), np.full(space.known.shape, np.inf)
    scale = space.terms.scale.copy()
    swapped: dict[int, Any] = {}
    windows: dict[int, Window] = {}
    for j, name in enumerate(space.columns):
        if space.terms.kinds[j] == NOMINAL:
            if history.is_generalized(name):
                scale[:, j] = np.inf
                used[name] = "not changed" if history.is_untouched(name) else "generalized: the levels"
        elif (window := _window(view, space, history, name, used, ctx)) is not None:
            low[:, j], high[:, j] = window
            step: Any = history.only_step(name)
            if step is not None and step.kind in SWAPPING:
                swapped[j], windows[j] = step, window
    space = space.changed(low=low, high=high, scale=scale)
    return with_swaps(space, swapped, windows, view.worst_case) if swapped else space


def _window(view: View, space: Space, history: History, name: str, used: dict[str, str], ctx: Context) -> Window | None:
    j = space.columns.index(name)
    x, y = space.known[:, j], space.published[:, j]
    step: Any = history.only_step(name)
    if history.is_untouched(name):
        used[name] = "not changed"
        return x, x
    if history.is_generalized(name):
        found = _label_window(view, x, y, name)
        if found is not None:
            used[name] = "generalized: the levels"
        return found
    if step is None:
        return None
    if step.kind in NOISE:
        return _noise_window(view, x, name, step, ctx)
    if step.kind == "round":
        if name in used:
            return x, x
        used[name] = "round: the two multiples around the value"
        slack = 1e-9 * np.maximum(np.abs(x), step.base)
        return np.floor(x / step.base + 1e-9) * step.base - slack, np.ceil(x / step.base - 1e-9) * step.base + slack
    if name in used:
        return None
    if step.kind in SWAPPING and (view.worst_case or history.keeps_records_after(step)):
        used[name] = _WINDOWS.format(step.kind)
        gone = _gone(view, history, step)
        return _swap_window_by(view, x, y, step, gone) if step.by else swap_window(x, y, step, gone)
    is_sorted = step.kind in ONE_COLUMN or (step.kind in GROUPING and history.columns_of(step) == (name,))
    if is_sorted and not step.by and getattr(step, "replace", "all") == "all":
        used[name] = f"{step.kind}: the centers next to the value"
        return center_window(x, y)
    return None


def _gone(view: View, history: History, step: Any) -> int:
    """Count the records that a step saw and the release does not have; they shift ranks by as many places."""
    return 0 if history.keeps_records_after(step) else max(len(view.original.origin) - len(view.original), 0)


def _label_window(view: View, x: Floats, y: Floats, name: str) -> Window | None:
    """Give what a generalized column that is still ordered must show: its value at level 0, else the label above it.

    Whoever knows the hierarchy and the level knows the label of each value; here it is read off the rows that belong
    together. None where records of one value have several labels.
    """
    there = view.rows >= 0
    mine, shown = x[there], y[view.rows[there]]
    both = ~np.isnan(mine) & ~np.isnan(shown)
    mine, shown = mine[both], shown[both]
    if (mine == shown).all():
        return x, x
    if np.ndim(view.released.levels.get(name, 0)):
        return None
    values, first, place = np.unique(mine, return_index=True, return_inverse=True)
    labels = shown[first]
    if (labels[place] != shown).any():
        return None
    at = np.minimum(np.searchsorted(values, x), len(values) - 1)
    is_told = values[at] == x
    return np.where(is_told, labels[at], -np.inf), np.where(is_told, labels[at], np.inf)


def _noise_window(view: View, x: Floats, name: str, step: Any, ctx: Context) -> Window | None:
    """Give what noise must leave as it is: signs and zeros of factors, or where asked for; all but outliers."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    if step.kind == "multiplicative-noise" or step.keep_sign:
        low, high = np.where(x > 0, 0.0, low), np.where(x < 0, 0.0, high)
    if step.kind == "multiplicative-noise" or step.keep_zeros:
        low, high = np.where(x == 0, 0.0, low), np.where(x == 0, 0.0, high)
    if step.kind == "outlier-noise" and not step.joint and view.worst_case and not step.by:
        from scipy.stats import chi2

        try:
            found = step.fit(view.original, ctx)
        except DataError:
            return None
        at = list(found["columns"]).index(name)
        reach = math.sqrt(float(chi2.ppf(step.quantile, 1))) * found["scale"][at]
        stays = np.abs(x - found["center"][at]) <= reach
        low, high = np.where(stays, x, low), np.where(stays, x, high)
    return (low, high) if np.isfinite(low).any() or np.isfinite(high).any() else None


def _swap_window_by(view: View, x: Floats, y: Floats, step: Any, gone: int) -> Window | None:
    """Count ranks within the groups the step worked in, where the intruder knows them."""
    if not view.worst_case or step.by == ("household",) or set(step.by) - set(view.columns):
        return None
    low, high = np.empty(len(x)), np.empty(len(x))
    groups = view.original.classes(step.by).ids
    for rows in np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1]):
        low[rows], high[rows] = swap_window(x[rows], y[rows], step, gone)
    return low, high
