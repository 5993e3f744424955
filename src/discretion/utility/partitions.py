"""How alike are two partitions of the same records? Pair counting and information, in O(n log n) (U11).

Pairs of records are together in both partitions (a), in one only (b, c) or in neither (d):
Rand = (a + d) / all, Jaccard = a / (a + b + c), adjusted Rand = (a − E) / (M − E), where E is the expected a of random
partitions with these sizes and M the mean of the two partitions' pairs. Variation of information = H(P|Q) + H(Q|P).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairCounts:
    """Pairs of records: together in both partitions, in the first only, in the second only, in neither."""

    both: float
    first: float
    second: float
    neither: float

    @property
    def total(self) -> float:
        """All pairs."""
        return self.both + self.first + self.second + self.neither


def _sizes(first: NDArray[Any], second: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    if len(first) != len(second) or not len(first):
        raise DataError(f"two partitions of the same records are compared, not of {len(first)} and {len(second)}")
    _, one = np.unique(first, return_inverse=True)
    _, two = np.unique(second, return_inverse=True)
    _, cells = np.unique(one.astype(np.int64) * (int(two.max()) + 1) + two, return_counts=True)
    return cells.astype(np.int64), np.bincount(one), np.bincount(two)


def _pairs(sizes: Ints) -> float:
    return float((sizes.astype(np.float64) * (sizes - 1)).sum() / 2)


def pair_counts(first: NDArray[Any], second: NDArray[Any]) -> PairCounts:
    """Count pairs of records by whether the partitions put them together."""
    cells, one, two = _sizes(first, second)
    both, in_one, in_two, n = _pairs(cells), _pairs(one), _pairs(two), len(first)
    return PairCounts(both, in_one - both, in_two - both, n * (n - 1) / 2 - in_one - in_two + both)


def rand_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Give the share of pairs that both partitions treat alike; 1 for a single record."""
    pairs = pair_counts(first, second)
    return (pairs.both + pairs.neither) / pairs.total if pairs.total else 1.0


def jaccard_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Give the pairs together in both among those together in either; 1 where no pair is."""
    pairs = pair_counts(first, second)
    either = pairs.both + pairs.first + pairs.second
    return pairs.both / either if either else 1.0


def adjusted_rand_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Give Hubert and Arabie's index: 0 expected for unrelated partitions, 1 for equal ones."""
    pairs = pair_counts(first, second)
    in_one, in_two = pairs.both + pairs.first, pairs.both + pairs.second
    if not pairs.total:
        return 1.0
    expected, largest = in_one * in_two / pairs.total, (in_one + in_two) / 2
    return (pairs.both - expected) / (largest - expected) if largest > expected else 1.0


def variation_of_information(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Give H(P|Q) + H(Q|P) in nats: 0 for equal partitions, at most log n."""
    cells, one, two = _sizes(first, second)
    return max(0.0, 2 * _entropy(cells) - _entropy(one) - _entropy(two))


def _entropy(sizes: Ints) -> float:
    shares: Floats = sizes / sizes.sum()
    return float(-(shares * np.log(shares)).sum())
