"""What each respondent contributes to each inner cell: the finest form of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.packing import row_keys

Weights = Literal["contributions", "respondents", "unweighted"]
"""What a weight w means for the rules: the respondent contributes w·x; it stands for w respondents of x each; or it
contributes x to a cell that is weighted."""


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """One entry for each respondent in each inner cell (combination of leaves) it contributes to."""

    names: tuple[str, ...]
    """the response variables"""
    frequency: bool
    """whether records are counted"""
    inner_codes: Ints32
    """(n_inner, d) the leaves of each inner cell"""
    inner: Ints
    """(p,) the inner cell of each entry, ascending"""
    contributor: Ints32
    """(p,) the number of the respondent"""
    x: Floats
    """(p, responses) what it contributes, weighted; NaN where it gives no value"""
    weight: Floats
    """(p,) sum of the weights of its records"""
    waived: Bools
    """(p,) whether the respondent waived protection"""
    requested: Bools
    """(p,) whether it requested protection"""
    key: Floats | None = None
    """(p,) sum of the record keys"""
    knows_requests: bool = False
    """whether it is known who requested protection"""
    weights: Weights = "contributions"
    """what weights mean for the rules"""

    def __len__(self) -> int:
        return len(self.inner)

    def __repr__(self) -> str:
        return f"Contributions({len(self)} entries in {len(self.inner_codes)} inner cells)"

    def regrouped(self, codes: Ints32, sizes: tuple[int, ...]) -> Contributions:
        """Give the contributions after the leaves of the inner cells became other ones (rolled up)."""
        return build(self, codes[self.inner], sizes)

    @property
    def spread(self) -> Bools:
        """(p,) entries of respondents that contribute to several inner cells."""
        several: Bools = np.bincount(self.contributor, minlength=1)[self.contributor] > 1
        return several


def build(entries: Contributions, codes: NDArray[np.int32], sizes: tuple[int, ...]) -> Contributions:
    """Sort entries by inner cell, and add up those of one respondent in one cell.

    `codes` has the leaves of each entry. Entries are put in order of their values inside a cell, so that sums do not
    depend on the order of the records. Time O(p log p).
    """
    keys = row_keys(codes, sizes)
    order = np.lexsort((entries.contributor, *entries.x.T, keys))
    cells, first, inner = np.unique(keys[order], return_index=True, return_inverse=True)
    sorted_entries = replace(
        entries,
        inner_codes=np.ascontiguousarray(codes[order[first]], dtype=np.int32).reshape(len(cells), codes.shape[1]),
        inner=inner.astype(np.int64),
        contributor=entries.contributor[order],
        x=entries.x[order],
        weight=entries.weight[order],
        waived=entries.waived[order],
        requested=entries.requested[order],
        key=None if entries.key is None else entries.key[order],
    )
    return _one_per_respondent(sorted_entries)


def _one_per_respondent(entries: Contributions) -> Contributions:
    """Add up the entries of one respondent in one inner cell; values missing in all of them stay missing."""
    if not len(entries) or np.bincount(entries.contributor).max() <= 1:
        return entries
    order = np.lexsort((entries.contributor, entries.inner))
    inner, who = entries.inner[order], entries.contributor[order]
    starts = np.flatnonzero(np.r_[True, (inner[1:] != inner[:-1]) | (who[1:] != who[:-1])])
    if len(starts) == len(inner):
        return entries
    x = entries.x[order]
    present = np.add.reduceat((~np.isnan(x)).astype(np.int64), starts, axis=0)
    sums = np.add.reduceat(np.nan_to_num(x), starts, axis=0)
    return replace(
        entries,
        inner=inner[starts],
        contributor=who[starts],
        x=np.where(present > 0, sums, np.nan),
        weight=np.add.reduceat(entries.weight[order], starts),
        waived=np.logical_and.reduceat(entries.waived[order], starts),
        requested=np.logical_or.reduceat(entries.requested[order], starts),
        key=None if entries.key is None else np.add.reduceat(entries.key[order], starts),
    )


def as_rules_read(entries: Contributions, top: int) -> tuple[Contributions, Ints]:
    """Give the contributions whose largest the rules look at, and the entry each is made from.

    A weight of 2.4 that stands for respondents is two of x and one of 0.4·x; of more than `top` none is looked at.
    """
    plain = entries.x / np.where(entries.weight > 0, entries.weight, 1.0)[:, None]
    if entries.weights == "unweighted":
        return replace(entries, x=plain), np.arange(len(entries))
    whole = np.minimum(np.floor(entries.weight), top).astype(np.int64)
    part = np.where(whole < top, entries.weight - whole, 0.0)
    copies = np.maximum(whole + (part > 0), 1)
    origin = np.repeat(np.arange(len(entries)), copies)
    share = np.ones(len(origin))
    last = np.cumsum(copies) - 1
    share[last] = np.where(copies > whole, part, 1.0)
    return replace(
        entries,
        inner=entries.inner[origin],
        contributor=np.arange(len(origin), dtype=np.int32),
        x=plain[origin] * share[:, None],
        weight=share,
        waived=entries.waived[origin],
        requested=entries.requested[origin],
        key=None,
    ), origin
