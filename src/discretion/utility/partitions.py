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
from discretion.kernels.arrays import Floats, Ints


@dataclass(frozen=True)
class PairCounts:
    """Pairs of records: together in both partitions, in the first only, in the second only, in neither.

    With weights a pair counts the product of its records' weights.
    """

    both: float
    first: float
    second: float
    neither: float

    @property
    def total(self) -> float:
        """All pairs."""
        return self.both + self.first + self.second + self.neither


def _parts(first: NDArray[Any], second: NDArray[Any], weights: Floats | None) -> tuple[tuple[Ints, Ints, Ints], Floats]:
    """Number the groups of both partitions and of their crossing; records of weight 0 are left out."""
    if len(first) != len(second) or not len(first):
        raise DataError(f"two partitions of the same records are compared, not of {len(first)} and {len(second)}")
    w = np.ones(len(first)) if weights is None else weights
    if len(w) != len(first) or not w.sum() > 0:
        raise DataError("two partitions are compared with one weight per record, not all 0")
    counted = w > 0
    _, one = np.unique(first[counted], return_inverse=True)
    _, two = np.unique(second[counted], return_inverse=True)
    _, cells = np.unique(one.astype(np.int64) * (int(two.max()) + 1) + two, return_inverse=True)
    return (cells, one, two), w[counted]


def _pairs(groups: Ints, weights: Floats) -> float:
    """Sum over the groups the products of the weights of each two of their records."""
    sums, squares = np.bincount(groups, weights), np.bincount(groups, weights**2)
    single = np.bincount(groups) == 1
    return float(np.where(single, 0.0, sums**2 - squares).sum() / 2)


def pair_counts(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> PairCounts:
    """Count pairs of records by whether the partitions put them together."""
    groups, w = _parts(first, second, weights)
    both, in_one, in_two = (_pairs(part, w) for part in groups)
    everything = _pairs(np.zeros(len(w), np.int64), w)
    return PairCounts(both, in_one - both, in_two - both, everything - in_one - in_two + both)


def rand_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the share of pairs that both partitions treat alike; 1 for a single record."""
    pairs = pair_counts(first, second, weights)
    return (pairs.both + pairs.neither) / pairs.total if pairs.total else 1.0


def jaccard_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the pairs together in both among those together in either; 1 where no pair is."""
    pairs = pair_counts(first, second, weights)
    either = pairs.both + pairs.first + pairs.second
    return pairs.both / either if either else 1.0


def adjusted_rand_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give Hubert and Arabie's index: 0 expected for unrelated partitions, 1 for equal ones."""
    pairs = pair_counts(first, second, weights)
    in_one, in_two = pairs.both + pairs.first, pairs.both + pairs.second
    if not pairs.total:
        return 1.0
    expected, largest = in_one * in_two / pairs.total, (in_one + in_two) / 2
    return (pairs.both - expected) / (largest - expected) if largest - expected > 1e-12 * largest else 1.0


def variation_of_information(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give H(P|Q) + H(Q|P) in nats: 0 for equal partitions, at most `largest_variation` (log n without weights)."""
    groups, w = _parts(first, second, weights)
    crossing, one, two = (_entropy(np.asarray(np.bincount(part, w), np.float64)) for part in groups)
    return max(0.0, 2 * crossing - one - two)


def largest_variation(records: int, weights: Floats | None = None) -> float:
    """Give the variation of information between one group and all records alone: the largest there is."""
    return _entropy(np.ones(records) if weights is None else weights[weights > 0])


def _entropy(sizes: Floats) -> float:
    shares: Floats = sizes / sizes.sum()
    return float(-(shares * np.log(shares)).sum())
