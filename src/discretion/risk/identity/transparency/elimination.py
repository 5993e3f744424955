"""Elimination in a register: who has everybody's values crosses out the records that must be somebody else's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.kernels.arrays import Floats, Ints
from discretion.risk.identity.distances import Space

if TYPE_CHECKING:
    from discretion.kernels.linkage import Terms


_PAIRS = 10_000_000
"""Pairs of a person and a possible record up to which a register is worked through."""
_LOOKED_AT = 1_000
"""Records on which their number is estimated."""
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


class Register:
    """The records that each person of a register may be, by the windows and the truthful columns of a space."""

    def __init__(self, space: Space, ctx: Context) -> None:
        from discretion.kernels.classes import distinct_rows
        from discretion.kernels.linkage import build_tree, count_allowed, fill

        self._space, self._telling = space, _telling(space)
        terms = self._telling.terms
        self._people = distinct_rows(np.hstack([fill(x) for x in (self._telling.known, terms.low, terms.high)]))
        self._tree = build_tree(self._telling.published, terms.kinds, self._telling.split_by(_spread(terms)))
        n = len(space.known)
        seen = np.sort(ctx.within("candidates").rng.choice(n, min(n, _LOOKED_AT), replace=False))
        counted = count_allowed(self._telling.known[seen], self._tree, _of(self._telling, seen))
        self.candidates = float(counted.mean())
        """mean number of records that a person may be: of up to a thousand, drawn at random"""

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


def _spread(terms: Terms) -> Floats:
    """Give scales by which a tree is split where it helps most: columns of windows by the width of these."""
    width = terms.high - terms.low
    known = np.isfinite(width)
    mean = np.where(known, width, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(1.0 / np.where(mean > 0, mean, 1.0))


def _telling(space: Space) -> Space:
    """Leave out the columns that exclude nobody: numbers without windows, unless a missing one does."""
    from discretion.kernels.linkage import NOMINAL

    terms = space.terms
    windows = (np.isfinite(terms.low) | np.isfinite(terms.high)).any(axis=0)
    closed = np.isinf(terms.gap) & np.isnan(space.published).any(axis=0)
    kept = windows | closed | (terms.kinds == NOMINAL)
    if kept.all() or not kept.any():
        return space
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
    from discretion.kernels.matching import strong_components

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
        shares[people] = _linked(_costs(space, rows, people), space.published[rows[people]])
    known = ~np.isnan(shares)
    return shares if shares[known].sum() > alike[known].sum() else alike


def _costs(space: Space, rows: Ints, people: Ints) -> Floats:
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
    from discretion.kernels.matching import assign

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
