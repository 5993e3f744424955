"""Local suppression when a missing value matches anything: few cells, so that every record matches at least k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from discretion.kernels.arrays import Codes, Floats, Ints
from discretion.kernels.classes import class_ids
from discretion.kernels.suppress_family import column_sets, stages
from discretion.kernels.suppress_greedy import Choice, suppress_stage
from discretion.kernels.suppress_restore import Records, restore
from discretion.kernels.suppress_table import Units, make_units
from discretion.kernels.wildcard import wildcard_counts

Tick = Callable[[int, int], None]


def suppress_wildcard(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, costs: Floats, tick: Tick
) -> Ints:
    """Give for each row the cells to suppress (bits), so that each row matches at least k rows, itself included.

    Column j holds codes 0 … cardinalities[j]−1; the last code stands for missing. A column of infinite cost is never
    suppressed; the caller has made sure that there is a solution. Rows that match k already are never touched. Time
    near O(n·columns·sets of columns tried), memory linear in the failing rows.
    """
    n = len(columns[0])
    found = _matched(columns, cardinalities)
    result = np.zeros(n, np.int64)
    rows = np.flatnonzero(found < k)
    if not len(rows):
        return result
    units = _units(columns, cardinalities, rows, found, k)
    before = units.missing[: len(rows)].copy()
    allowed = np.flatnonzero(np.isfinite(costs))
    spread = np.array([len(np.unique(column[rows])) for column in columns])
    sets, set_costs = column_sets(costs, allowed, spread)
    matched = found[rows].astype(np.int64)
    turn = np.zeros(len(rows), np.int64)
    place = np.arange(len(rows))
    for first, end in pairwise([0, *stages(set_costs)]):
        place = place[matched[place] < k]
        if not len(place):
            break
        _run_stage(units, place, matched, turn, Choice(sets[:end], set_costs[:end], first, k), spread, tick)
    cells = result.copy()
    cells[rows] = units.missing[: len(rows)] & ~before
    now = _matched(hidden(columns, cardinalities, cells), cardinalities)[rows].astype(np.int64)
    restore(units, Records(now, before, np.argsort(-costs, kind="stable"), k), turn, tick)
    result[rows] = units.missing[: len(rows)] & ~before
    return result


def missing_bits(columns: Sequence[Codes], cardinalities: Sequence[int], rows: Ints) -> Ints:
    """Give the set of missing columns of some rows."""
    bits = np.zeros(len(rows), np.int64)
    for j, (column, size) in enumerate(zip(columns, cardinalities, strict=True)):
        bits |= (column[rows] == size - 1).astype(np.int64) << j
    return bits


def hidden(columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints) -> list[Codes]:
    """Give the columns with the chosen cells missing."""
    return [
        np.where(cells >> j & 1 == 1, size - 1, column).astype(np.int64, copy=False)
        for j, (column, size) in enumerate(zip(columns, cardinalities, strict=True))
    ]


def _matched(columns: Sequence[Codes], cardinalities: Sequence[int]) -> Floats:
    return wildcard_counts(columns, [size - 1 for size in cardinalities], cardinalities)[0]


def _units(columns: Sequence[Codes], cardinalities: Sequence[int], rows: Ints, found: Floats, k: int) -> Units:
    """Make each failing row a unit, and each class of other rows."""
    classes = class_ids(columns, cardinalities)
    kept = np.flatnonzero(found[classes.first_row] >= k)
    everyone = np.concatenate([rows, classes.first_row[kept]])
    weights = np.concatenate([np.ones(len(rows), np.int64), classes.counts[kept]])
    codes = np.stack([column[everyone].astype(np.int64) for column in columns], axis=1)
    return make_units(codes, missing_bits(columns, cardinalities, everyone), weights)


def _run_stage(units: Units, place: Ints, matched: Ints, turn: Ints, choice: Choice, spread: Ints, tick: Tick) -> None:
    """Run a stage with the units that still fail in front."""
    others = np.ones(len(units.missing), np.bool_)
    others[place] = False
    order = np.concatenate([place, np.flatnonzero(others)])
    view = Units(*(array[order] for array in units))
    found, turns = matched[place], turn[place]
    turns[:] = turn.max(initial=0)
    suppress_stage(view, len(place), found, turns, choice, spread, tick)
    matched[place] = found
    turn[place] = turns
    units.missing[place] = view.missing[: len(place)]
