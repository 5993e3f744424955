"""Local suppression when a missing value matches anything, but a record with missing values counts less than one.

A record counts 1 for those that match it, and `alpha` once a cell of it is missing, except for records that are the
same as it, missing cells included: suppression takes matches away from others. Three ways lead out, and the cheapest is
taken: to give every failing record k matches among complete records that are never touched, to give it so many matches
of any kind that they suffice even if all are incomplete, or to make it the same as k records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from discretion.kernels.arrays import Bools, Codes, Floats, Ints
from discretion.kernels.classes import class_ids
from discretion.kernels.suppress_category import suppress_category
from discretion.kernels.suppress_family import column_sets
from discretion.kernels.suppress_wildcard import hidden, missing_bits, suppress_wildcard
from discretion.kernels.wildcard import wildcard_counts

Tick = Callable[[int, int], None]


def suppress_discounted(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, alpha: float, costs: Floats, tick: Tick
) -> tuple[Ints, int]:
    """Give for each row the cells to suppress (bits) so that it matches k rows, and how many rows could not be helped.

    A row counts itself and every row that agrees with it wherever both have a value: as 1 if that row is complete or
    the same as it, else as `alpha` (below 1). Column j holds codes 0 … cardinalities[j]−1; the last code stands for
    missing; a column of infinite cost is never suppressed. Time O(n·columns) for each set of columns, each pattern of
    missing values and each round (few), and the time of `suppress_category` and `suppress_wildcard`.
    """
    cells, lost = _among_complete(columns, cardinalities, k, alpha, costs, tick)
    if not (lost or cells.any()):
        return cells, lost
    fixed = np.flatnonzero(np.isinf(costs)).tolist()
    same = class_ids([columns[j] for j in fixed], [cardinalities[j] for j in fixed], len(cells)).counts
    others = [suppress_category(columns, cardinalities, k, costs, tick)] if same.min() >= k else []
    enough = math.ceil(k / alpha - 1e-9) if alpha > 0 else len(cells) + 1
    if enough <= len(cells):
        others.append(suppress_wildcard(columns, cardinalities, enough, costs, tick))
    for other in others:
        better = lost or _price(other, costs) < _price(cells, costs)
        if better and not _fail(columns, cardinalities, other, k, alpha).any():
            cells, lost = other, 0
    return cells, lost


def _fail(columns: Sequence[Codes], cardinalities: Sequence[int], cells: Ints, k: int, alpha: float) -> Bools:
    """Tell which rows match too little with some cells suppressed."""
    now = hidden(columns, cardinalities, cells)
    counts = wildcard_counts(now, [size - 1 for size in cardinalities], cardinalities, alpha=alpha)[0]
    return np.asarray(counts < k - 1e-9)


def _price(cells: Ints, costs: Floats) -> float:
    return float(sum(costs[j] * n for j in range(len(costs)) if (n := np.count_nonzero(cells >> j & 1))))


def _among_complete(
    columns: Sequence[Codes], cardinalities: Sequence[int], k: int, alpha: float, costs: Floats, tick: Tick
) -> tuple[Ints, int]:
    """Give each failing row the cheapest set of columns with which k complete rows that do not fail match it.

    Rows that fail only because others lost cells join them, until none is left.
    """
    missing = missing_bits(columns, cardinalities, np.arange(len(columns[0])))
    cells = np.zeros(len(missing), np.int64)
    failing = np.zeros(len(missing), np.bool_)
    while (new := _fail(columns, cardinalities, cells, k, alpha) & ~failing).any():
        failing |= new
        cells, lost = _cheapest(columns, cardinalities, failing, missing, k, costs, tick)
        if lost:
            return cells, lost
    return cells, 0


def _cheapest(
    columns: Sequence[Codes],
    cardinalities: Sequence[int],
    failing: Bools,
    missing: Ints,
    k: int,
    costs: Floats,
    tick: Tick,
) -> tuple[Ints, int]:
    """Give the cells of each failing row, and the number of rows for which no set suffices."""
    whole = np.flatnonzero(~failing & (missing == 0))
    classes = class_ids([column[whole] for column in columns], cardinalities, len(whole))
    stable, weights = whole[classes.first_row], classes.counts
    rows = np.flatnonzero(failing)
    allowed = np.flatnonzero(np.isfinite(costs))
    spread = np.array([len(np.unique(column[rows])) for column in columns])
    sets = column_sets(costs, allowed, spread)[0] if len(allowed) else np.zeros(0, np.int64)
    cells = np.zeros(len(missing), np.int64)
    lost = 0
    patterns = np.unique(missing[rows])
    for number, pattern in enumerate(patterns.tolist()):
        tick(number, len(patterns))
        waiting = rows[missing[rows] == pattern]
        for chosen in _by_cost(sets & ~pattern, costs):
            kept = [j for j in range(len(columns)) if not (pattern | chosen) >> j & 1]
            enough = _matches(columns, cardinalities, kept, stable, weights, waiting) >= k
            cells[waiting[enough]] = chosen
            waiting = waiting[~enough]
            tick(number, len(patterns))
            if not len(waiting):
                break
        lost += len(waiting)
    return cells, lost


def _by_cost(sets: Ints, costs: Floats) -> list[int]:
    """Sort sets of columns by what they cost, the empty one first."""
    found = {0, *sets.tolist()}
    return sorted(found, key=lambda bits: (sum(costs[j] for j in range(len(costs)) if bits >> j & 1), bits))


def _matches(
    columns: Sequence[Codes], cardinalities: Sequence[int], kept: Sequence[int], stable: Ints, weights: Ints, rows: Ints
) -> Floats:
    """Count for some rows the stable rows that agree with them on the columns kept."""
    everyone = np.concatenate([stable, rows])
    ids = class_ids([columns[j][everyone] for j in kept], [cardinalities[j] for j in kept], len(everyone))
    totals = np.bincount(ids.ids[: len(stable)], weights, len(ids.counts))
    return np.asarray(totals[ids.ids[len(stable) :]], np.float64)
