"""Models about sensitive values as tests of single classes, for searches that judge thousands of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.classes import ORDERED, SHARES, TRANSPORT, ClassTest
from discretion.privacy.class_table import SensitiveDomain

_EXACT = 2**62
_WORK = 1_000_000
"""Values × sizes that are tried to find the smallest class that can stand."""


def make_test(
    kind: int,
    domain: SensitiveDomain,
    *,
    levels: Sequence[Ints] = (),
    totals: Sequence[Ints] = (),
    shares: Floats | None = None,
    high: ArrayLike = np.inf,
    low: ArrayLike = 0.0,
    bound: float = 0.0,
    part: float = 1.0,
    need: int = 0,
) -> ClassTest | None:
    """Put a test together: items are the values, and the labels of further levels with their totals.

    None where the counts are too large for whole numbers in 64 bits.
    """
    n, m = domain.records, domain.size
    groups, records = [np.arange(m)], [domain.totals]
    for level, own in zip(levels, totals, strict=True):
        groups.append(level + sum(map(len, records)))
        records.append(own)
    if kind == ORDERED:
        records = [np.cumsum(domain.totals)]
        groups = [np.cumsum(records[0])]
    if n * n * max(len(groups), m if kind == ORDERED else 1) >= _EXACT:
        return None
    everybody = np.concatenate(records)
    of_items = everybody / n if shares is None else shares
    above, below = (np.ascontiguousarray(np.broadcast_to(np.asarray(x, float), m)) for x in (high, low))
    return ClassTest(kind, np.array(groups, np.int64), everybody, of_items, above, below, n, bound, part, need)


def smallest_standing(test: ClassTest) -> int:
    """Give a size below which no class can stand: the shares asked for cannot be met by so few whole records."""
    size, m = max(test.need, 1), test.groups.shape[1]
    if test.kind not in (TRANSPORT, ORDERED, SHARES):
        return size
    while size * m <= _WORK and size < test.records and not _possible(test, size):
        size += 1
    return size


def _possible(test: ClassTest, size: int) -> bool:
    if test.kind == SHARES:
        caps = test.high * test.shares * size
        return bool(np.floor(np.minimum(caps, size) + 1e-9).sum() >= size)
    if test.kind == ORDERED:
        caps = test.totals[:-1] / test.records * size
        away = np.abs(caps - np.round(caps)).sum()
        return bool(len(caps) * size - away >= test.part * size - 1e-9)
    met = 0.0
    for level in test.groups:
        caps = test.totals[np.unique(level)] / test.records * size
        whole = np.floor(caps + 1e-9)
        rest = size - int(whole.sum())
        met += whole.sum() + np.maximum(np.sort(caps - whole)[::-1][:rest], 0.0).sum()
    return bool(met >= test.part * size - 1e-9)
