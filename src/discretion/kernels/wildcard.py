"""Class sizes when a missing value may be anything.

Rows are first reduced to distinct combinations of codes, and these are sorted by their pattern: which
columns are missing. Two patterns have the same columns in common for all their rows; on these, to match is
to be equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32
from discretion.kernels.classes import class_ids, class_sums
from discretion.kernels.jit import lean_kernel

Pattern = tuple[bool, ...]  # for each column: is it observed?


def wildcard_counts(
    columns: Sequence[Codes],
    missing_codes: Sequence[int | None],
    cardinalities: Sequence[int],
    weights: ArrayLike | None = None,
    alpha: float = 1.0,
    n: int | None = None,
) -> tuple[Floats, Floats | None]:
    """Return for each row how many rows it may equal when a missing value may be anything, and their weight.

    Two rows match when they agree wherever both have a value. A matching row counts 1 if it has no missing values or
    is the same in all columns, missing ones included (as the row itself is); any other counts `alpha`.
    `missing_codes[j]` is the code that marks a missing value in column j, or None; `n` is needed when there are no
    columns. The second result is None without weights.

    Time O(n·columns) to find the distinct rows; then, for each two patterns of missingness, the number of
    distinct rows that have them. Never row by row.
    """
    classes = class_ids(columns, cardinalities, n)
    distinct = [np.asarray(column)[classes.first_row] for column in columns]
    observed = np.ones((classes.counts.size, len(columns)), np.bool_)
    for j, missing in enumerate(missing_codes):
        if missing is not None:
            observed[:, j] = distinct[j] != missing
    values: list[Floats] = [classes.counts.astype(np.float64)]
    if weights is not None:
        values.append(class_sums(classes.ids, classes.counts.size, weights))
    matches = _discounted(distinct, cardinalities, observed, np.stack(values), alpha)
    return matches[0, classes.ids], (matches[1, classes.ids] if weights is not None else None)


def _discounted(
    distinct: list[Codes], cardinalities: Sequence[int], observed: Bools, values: Floats, alpha: float
) -> Floats:
    """Sum each kind of value over the matching rows; whole numbers stay exact where nothing is discounted."""
    if alpha == 1:
        return _matches(distinct, cardinalities, observed, values)
    complete = observed.all(axis=1)
    found = _matches(distinct, cardinalities, observed, np.where(complete, values, 0.0))
    own = np.where(complete, 0.0, values)
    if alpha > 0:
        return found + own + alpha * (_matches(distinct, cardinalities, observed, own) - own)
    return found + own


def wildcard_units(
    columns: Sequence[Codes], missing_codes: Sequence[int | None], cardinalities: Sequence[int], units: Ints
) -> Floats:
    """Return for each row the different units among the rows it may equal when a missing value may be anything.

    `units` numbers the unit of each row from 0. Time: distinct rows with missing values times all distinct rows, and
    the rows that match each.
    """
    classes = class_ids(columns, cardinalities)
    distinct = np.column_stack([np.asarray(column)[classes.first_row].astype(np.int64) for column in columns])
    for j, missing in enumerate(missing_codes):
        if missing is not None:
            distinct[distinct[:, j] == missing, j] = -1
    order = np.argsort(classes.ids, kind="stable")
    starts = np.concatenate([[0], np.cumsum(classes.counts)]).astype(np.int64)
    incomplete = np.flatnonzero((distinct < 0).any(axis=1)).astype(np.int64)
    seen = np.full(int(units.max(initial=-1)) + 1, -1, np.int64)
    counts = np.zeros(len(classes.counts), np.int64)
    _count_units(np.ascontiguousarray(distinct), incomplete, units[order], starts, seen, counts)
    return counts[classes.ids].astype(np.float64)


@lean_kernel
def _count_units(distinct: Ints, incomplete: Ints, units: Ints, starts: Ints, seen: Ints, counts: Ints) -> None:
    """Count the units of the rows that match each distinct row; a complete row can match only incomplete others."""
    for row in range(distinct.shape[0]):
        has_gap = False
        for j in range(distinct.shape[1]):
            has_gap = has_gap or distinct[row, j] < 0
        for place in range(-1, distinct.shape[0] if has_gap else incomplete.size):
            other = row
            if place >= 0:
                other = place if has_gap else incomplete[place]
            match = True
            for j in range(distinct.shape[1]):
                if distinct[row, j] >= 0 and distinct[other, j] >= 0 and distinct[row, j] != distinct[other, j]:
                    match = False
                    break
            if match:
                for member in range(starts[other], starts[other + 1]):
                    if seen[units[member]] != row:
                        seen[units[member]] = row
                        counts[row] += 1


def _matches(distinct: list[Codes], cardinalities: Sequence[int], observed: Bools, values: Floats) -> Floats:
    """For each distinct row, sum each kind of value over the distinct rows that match it."""
    order, patterns, parts = _by_pattern(observed)
    values = np.ascontiguousarray(values[:, order])
    found = np.zeros_like(values)
    for common, pairs in _pairs_by_common_columns(patterns):
        members = sorted({p for pair in pairs for p in pair})
        chosen = [j for j, is_common in enumerate(common) if is_common]
        rows = np.concatenate([order[parts[p]] for p in members])
        keys = class_ids([distinct[j][rows] for j in chosen], [cardinalities[j] for j in chosen], rows.size)
        ends = np.cumsum([parts[p].stop - parts[p].start for p in members])[:-1]
        ids = dict(zip(members, np.split(keys.ids, ends), strict=True))
        scratch = np.zeros(keys.counts.size)
        for a, b in pairs:
            for value, total in zip(values, found, strict=True):
                _add_matches(scratch, ids[a], value[parts[a]], ids[b], total[parts[b]])
                if a != b:
                    _add_matches(scratch, ids[b], value[parts[b]], ids[a], total[parts[a]])
    result = np.empty_like(found)
    result[:, order] = found
    return result


def _by_pattern(observed: Bools) -> tuple[Ints, list[Pattern], list[slice]]:
    """Sort distinct rows by pattern; return the order, the patterns, and where each lies in the order."""
    bits = [observed[:, j].view(np.uint8) for j in range(observed.shape[1])]
    kinds = class_ids(bits, [2] * len(bits), observed.shape[0])
    order = np.argsort(kinds.ids, kind="stable").astype(np.int64)
    patterns = [tuple(bool(seen) for seen in observed[row]) for row in kinds.first_row]
    ends = np.cumsum(kinds.counts)
    parts = [slice(int(end - count), int(end)) for end, count in zip(ends, kinds.counts, strict=True)]
    return order, patterns, parts


def _pairs_by_common_columns(patterns: list[Pattern]) -> Iterator[tuple[Pattern, list[tuple[int, int]]]]:
    """Gather the pairs of patterns that have the same columns in common, to number their classes together."""
    pairs = defaultdict(list)
    for a, b in combinations_with_replacement(range(len(patterns)), 2):
        common = tuple(x and y for x, y in zip(patterns[a], patterns[b], strict=True))
        pairs[common].append((a, b))
    yield from pairs.items()


@lean_kernel
def _add_matches(scratch: Floats, from_ids: Ints32, from_values: Floats, to_ids: Ints32, to_totals: Floats) -> None:
    """Add to each total the sum of the values with the same id; `scratch` is all zero before and after."""
    for i in range(from_ids.size):
        scratch[from_ids[i]] += from_values[i]
    for i in range(to_ids.size):
        to_totals[i] += scratch[to_ids[i]]
    for i in range(from_ids.size):
        scratch[from_ids[i]] = 0.0
