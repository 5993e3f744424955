"""The model of Fellegi and Sunter: what each level of agreement says about two records being the same person (R13).

π (the share of pairs that are the same person) and u (the levels among pairs of different people) are known: u is
counted over all pairs, of which nearly all are of different people. Only m (the levels among pairs of the same person)
is found by EM. Left free, π and u let EM run to a group of pairs that merely resemble each other, from about 10,000
records on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOOR = 1e-9
"""Least probability of a level: a level that never occurred among matches must not make one impossible."""
START = 0.9
"""Where EM begins: matches agree on the highest level of a column with this probability."""
_CONVERGED = 1e-7
_ITERATIONS = 1000
_SAME_WEIGHT = 1e-9  # weights that differ by less are equal: only rounding separates them
_DISTINCT_WEIGHTS = 1 << 17  # sums of weights kept apart; above, they are merged on a fine grid
_GRID = 2.0**-12


@dataclass(frozen=True)
class Radix:
    """How levels make up a pattern: `base[j]` levels of column j, `place[j]` what one of them adds."""

    base: tuple[int, ...]
    place: tuple[int, ...]

    @classmethod
    def of(cls, base: Sequence[int]) -> Radix:
        """Build from the number of levels of each column."""
        place = [1]
        for levels in base:
            place.append(place[-1] * levels)
        return cls(tuple(base), tuple(place[:-1]))

    @property
    def patterns(self) -> int:
        """The number of possible patterns."""
        return self.base[-1] * self.place[-1] if self.base else 1

    def levels(self, patterns: Ints) -> list[Ints]:
        """Give the level of each column of some patterns."""
        return [patterns // place % base for base, place in zip(self.base, self.place, strict=True)]


@dataclass(frozen=True)
class ColumnModel:
    """What a column says: probabilities of its levels (without "missing") and the weight of each level.

    With `has_missing` level 0 of the patterns is "missing": no evidence, its weight is 0.
    """

    m: Floats
    u: Floats
    has_missing: bool
    missing_share: float
    """share of all pairs in which the column cannot be compared"""

    @property
    def weight(self) -> Floats:
        """log2(m/u) of each level of the patterns; 0 for missing and for levels that never occurred."""
        ratio = np.where(self.u > 0, np.maximum(self.m, FLOOR) / np.where(self.u > 0, self.u, 1.0), 1.0)
        return np.concatenate([np.zeros(int(self.has_missing)), np.log2(ratio)])

    def mass(self, among_matches: bool) -> Floats:
        """Give the probability of each level of the patterns, missing included."""
        share = (self.m if among_matches else self.u) * (1.0 - self.missing_share)
        return np.concatenate([np.full(int(self.has_missing), self.missing_share), share])


@dataclass(frozen=True)
class FellegiSunter:
    """The fitted model."""

    radix: Radix
    columns: tuple[ColumnModel, ...] = field(repr=False)
    match_share: float
    iterations: int
    converged: bool

    def weights(self, patterns: Ints) -> Floats:
        """Give the weight of some patterns: the sum over columns of log2(m/u)."""
        total = np.zeros(patterns.shape)
        for level, column in zip(self.radix.levels(patterns), self.columns, strict=True):
            total += column.weight[level]
        return total


def level_shares(counts: Sequence[Floats], has_missing: Sequence[bool]) -> list[ColumnModel]:
    """Turn counts of levels over all pairs into u and the share of missing comparisons; m starts at .9."""
    models = []
    for count, missing in zip(counts, has_missing, strict=True):
        present = count[int(missing) :]
        known = present.sum()
        u = present / known if known else np.zeros(present.size)
        models.append(ColumnModel(_start(u), u, missing, float(1.0 - known / count.sum())))
    return models


def _start(u: Floats) -> Floats:
    """Put .9 on the highest level that occurs, the rest evenly on the others that do."""
    m = np.zeros(u.size)
    occurring = np.flatnonzero(u > 0)
    if occurring.size == 1:
        m[occurring] = 1.0
    elif occurring.size:
        m[occurring] = (1.0 - START) / (occurring.size - 1)
        m[occurring[-1]] = START
    return m


def fit(radix: Radix, patterns: Ints, counts: Ints, start: Sequence[ColumnModel], match_share: float) -> FellegiSunter:
    """Find m by EM on the patterns that occur, u and the share of matches fixed. Time O(patterns·columns) a round."""
    levels = radix.levels(patterns)
    columns = list(start)
    weight = counts.astype(np.float64)
    odds = match_share / (1.0 - match_share) if match_share < 1 else np.inf
    iteration, change = 0, np.inf
    while change >= _CONVERGED and iteration < _ITERATIONS:
        iteration += 1
        ratio = np.ones(patterns.size)
        for level, column in zip(levels, columns, strict=True):
            ratio *= np.exp2(column.weight)[level]
        matches = weight * (1.0 if np.isinf(odds) else odds * ratio / (1.0 + odds * ratio))
        updated = [_not_against(_maximize(level, matches, c)) for level, c in zip(levels, columns, strict=True)]
        change = max(float(np.abs(new.m - old.m).max()) for new, old in zip(updated, columns, strict=True))
        columns = updated
    return FellegiSunter(radix, tuple(columns), match_share, iteration, change < _CONVERGED)


def from_true_pairs(radix: Radix, own: Ints, start: Sequence[ColumnModel], match_share: float) -> FellegiSunter:
    """Take m from the patterns of the true pairs: what an intruder uses who was told how true pairs agree."""
    once = np.ones(own.size)
    columns = [_maximize(level, once, column) for level, column in zip(radix.levels(own), start, strict=True)]
    return FellegiSunter(radix, tuple(columns), match_share, 0, True)


def _maximize(level: Ints, matches: Floats, column: ColumnModel) -> ColumnModel:
    found = np.bincount(level, matches, column.u.size + column.has_missing)[int(column.has_missing) :]
    total = found.sum()
    if total <= 0:
        return column
    m = np.where(column.u > 0, np.maximum(found / total, FLOOR), 0.0)
    return ColumnModel(m / m.sum(), column.u, column.has_missing, column.missing_share)


def _not_against(column: ColumnModel) -> ColumnModel:
    """Keep disagreement from speaking for a match: it is at most as frequent among matches as among other pairs.

    Without this condition EM may take another kind of pairs for the matches, where coarse columns agree by chance more
    often than not: no link would be right, and the release would look safe. The likelihood is the highest possible
    under the condition, so that it still rises from round to round.
    """
    m, u = column.m, column.u
    if m.size < 2 or m[0] <= u[0] or u[0] >= 1:
        return column
    rest = m[1:].sum()
    shares = m[1:] / rest if rest > 0 else u[1:] / u[1:].sum()
    return replace(column, m=np.concatenate([u[:1], shares * (1.0 - u[0])]))


@dataclass(frozen=True)
class Thresholds:
    """Pairs from `upper` on are linked, from `lower` on go to clerical review; None: no weight is high enough."""

    upper: float | None
    lower: float | None
    false_link_rate: float
    """share of the pairs of different people with a weight of at least `upper`, as the model says"""
    false_nonlink_rate: float
    """share of the pairs of the same person with a weight below `lower`, as the model says"""


def thresholds(model: FellegiSunter, false_link_rate: float, false_nonlink_rate: float) -> Thresholds:
    """Find the smallest weight T with P(W ≥ T | different) ≤ μ and the largest with P(W < T | same) ≤ λ.

    Where the second lies above the first, both wishes can be met without a clerical class: it is lowered to the first.
    """
    weight, m, u = weight_distribution(model.columns)
    above = np.cumsum(u[::-1])[::-1]
    allowed = np.flatnonzero(above <= false_link_rate * (1 + _SAME_WEIGHT))
    upper = float(weight[allowed[0]]) if allowed.size else None
    below = np.concatenate([[0.0], np.cumsum(m)[:-1]])
    low = int(np.flatnonzero(below <= false_nonlink_rate * (1 + _SAME_WEIGHT))[-1])
    if allowed.size:
        low = min(low, int(allowed[0]))
    return Thresholds(upper, float(weight[low]), float(above[allowed[0]]) if allowed.size else 0.0, float(below[low]))


def weight_distribution(columns: Sequence[ColumnModel]) -> tuple[Floats, Floats, Floats]:
    """Give the possible weights in ascending order, with their probabilities among matches and among other pairs.

    Columns are independent given the kind of pair, so that weights are added column by column. More than a hundred
    thousand different sums are merged on a grid of 2⁻¹² bits.
    """
    weight, m, u = np.zeros(1), np.ones(1), np.ones(1)
    for column in columns:
        masses = column.mass(True), column.mass(False)
        occurs = (masses[0] > 0) | (masses[1] > 0)
        weight = np.add.outer(weight, column.weight[occurs]).ravel()
        m = np.multiply.outer(m, masses[0][occurs]).ravel()
        u = np.multiply.outer(u, masses[1][occurs]).ravel()
        weight, m, u = _merged(weight, m, u)
    return weight, m, u


def _merged(weight: Floats, m: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
    order = np.argsort(weight, kind="stable")
    group = weight_groups(weight[order])
    if group[-1] >= _DISTINCT_WEIGHTS:
        _, group = np.unique(np.floor(weight[order] / _GRID), return_inverse=True)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    sums = [np.bincount(group, mass[order]).astype(np.float64, copy=False) for mass in (m, u)]
    return weight[order][first], sums[0], sums[1]


def weight_groups(ascending: Floats) -> Ints:
    """Number equal weights; those that only rounding separates are equal."""
    return np.cumsum(np.diff(ascending, prepend=ascending[:1]) > _SAME_WEIGHT)
