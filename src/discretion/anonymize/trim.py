"""Dropping the records that widen their group more than they are worth, within a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.group_judge import GroupJudge
from discretion.anonymize.split_columns import Groups
from discretion.context import Progress

if TYPE_CHECKING:
    from discretion.kernels.mondrian import SplitColumn

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def rows_to_keep(
    columns: Sequence[SplitColumn], groups: Groups, judge: GroupJudge, allowed: int, by_bits: bool, progress: Progress
) -> Ints:
    """Find the records to keep: in rounds, each group proposes the records at one end of one column.

    Those that gain most for each record are dropped first, as long as the limit and the models allow; a group whose
    proposal the models refuse proposes nothing more. What is dropped depends on the values only.
    """
    from discretion.kernels.mondrian_trims import best_trims, cost_tables

    codes = np.column_stack([column.codes for column in columns]).astype(np.int32)
    widths = cost_tables(columns, by_bits)
    kept = np.ones(len(codes), np.bool_)
    still_open = np.ones(groups.count, np.bool_)
    left = allowed
    while left > 0:
        progress(allowed - left, allowed, "suppression")
        rows = np.flatnonzero(kept & still_open[groups.of])
        rows = rows[np.argsort(groups.of[rows], kind="stable")]
        numbers, sizes = np.unique(groups.of[rows], return_counts=True)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        found = best_trims(codes[rows], starts, widths, judge.k, left)
        chosen = _within(found.gains, found.counts, left)
        if not chosen.any():
            break
        out = _proposed(codes[rows], np.repeat(np.arange(len(numbers)), sizes), found.columns, found.at_top, chosen)
        refused = _refused(np.repeat(np.arange(len(numbers)), sizes), out, rows, chosen, judge)
        out &= ~np.repeat(refused, sizes)
        kept[rows[out]] = False
        left -= int(out.sum())
        still_open[numbers[(found.gains <= 0) | refused]] = False
    return np.flatnonzero(kept)


def _within(gains: NDArray[np.float64], counts: Ints, left: int) -> Bools:
    """Choose proposals, the largest gains first, as long as their records fit."""
    chosen = np.zeros(len(gains), np.bool_)
    for place in np.argsort(-gains, kind="stable").tolist():
        if gains[place] <= 0 or left == 0:
            break
        if counts[place] <= left:
            chosen[place] = True
            left -= int(counts[place])
    return chosen


def _proposed(codes: NDArray[np.int32], of: Ints, columns: Ints, at_top: Bools, chosen: Bools) -> Bools:
    """Mark the records that the chosen groups propose to drop."""
    own = codes[np.arange(len(of)), columns[of]]
    low = np.full(len(columns), np.iinfo(np.int32).max, np.int32)
    high = np.full(len(columns), -1, np.int32)
    np.minimum.at(low, of, own)
    np.maximum.at(high, of, own)
    return np.asarray(chosen[of] & (own == np.where(at_top, high, low)[of]))


def _refused(of: Ints, out: Bools, rows: Ints, chosen: Bools, judge: GroupJudge) -> Bools:
    """Tell which of the chosen groups would break a model without the records they propose to drop."""
    refused = np.zeros(len(chosen), np.bool_)
    if judge.by_size:
        return refused
    remain = chosen[of] & ~out
    number = np.cumsum(chosen) - 1
    table = judge.table(number[of[remain]], int(chosen.sum()), rows[remain])
    refused[chosen] = judge.failing(table)
    return refused
