"""The pairs of records a probabilistic linkage compares: all of them, or for large data the nearest candidates.

Equal records are merged first and count as often as they occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.errors import DataError
from discretion.kernels.pattern_counts import Rules, Side, best_patterns, count_patterns, pair_patterns
from discretion.risk.identity.probabilistic_columns import CategoryPair, NumberPair, Pair
from discretion.risk.identity.probabilistic_model import (
    FellegiSunter,
    Radix,
    fit,
    from_true_pairs,
    level_shares,
    weight_groups,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DENSE_PATTERNS = 1 << 22
"""Possible patterns up to which a table has a place for each (32 MB)."""
_ROUNDING = 1 + 1e-9  # a difference of exactly the tolerance agrees, whatever rounding did to it
_SAMPLE = 2_000_000  # pairs drawn for u where not all pairs are compared
_BLOCK = 1 << 16  # records whose candidates are searched between two reports of progress
_DIMENSIONS = 12  # of the tree that finds candidates


@dataclass(frozen=True)
class Comparison:
    """Two sides, ready to be compared."""

    one: Side = field(repr=False)
    other: Side = field(repr=False)
    member_one: Ints = field(repr=False)
    """for each of the intruder's records its distinct record"""
    member_other: Ints = field(repr=False)
    rules: Rules = field(repr=False)
    radix: Radix
    pairs: tuple[Pair, ...]
    """in the order of the pattern: numbers first"""
    has_missing: tuple[bool, ...]

    @property
    def distinct_pairs(self) -> int:
        """Pairs of distinct records that a full comparison looks at."""
        return self.one.weight.size * self.other.weight.size

    @property
    def all_pairs(self) -> int:
        """Pairs of records."""
        return len(self.member_one) * len(self.member_other)


@dataclass(frozen=True)
class Linked:
    """What the comparison found: the model, the pairs by pattern, the best of each of the intruder's records."""

    model: FellegiSunter
    patterns: Ints = field(repr=False)
    counts: Ints = field(repr=False)
    """pairs compared with each of `patterns`"""
    best_weight: Floats = field(repr=False)
    size: Ints = field(repr=False)
    """records of the release that share the best weight"""
    first: Ints = field(repr=False)
    """the lowest row of these"""
    own_weight: Floats = field(repr=False)
    """weight of the right pair; NaN where the release has no such record"""
    right: Bools = field(repr=False)
    """the right record has the best weight"""
    candidates: int | None
    """how many records of the release each was compared with; None: with all"""


def prepare(pairs: Sequence[Pair], tolerance_sd: Sequence[float]) -> Comparison:
    """Merge equal records and lay out the patterns."""
    numbers = [pair for pair in pairs if isinstance(pair, NumberPair)]
    categories = [pair for pair in pairs if isinstance(pair, CategoryPair)]
    has_missing = [bool(np.isnan(pair.known).any() or np.isnan(pair.published).any()) for pair in numbers]
    has_missing += [bool((pair.known < 0).any() or (pair.published < 0).any()) for pair in categories]
    levels = [1 + len(tolerance_sd)] * len(numbers)
    levels += [2 if pair.agreement is None else int(pair.agreement.max()) + 1 for pair in categories]
    radix = Radix.of([count + missing for count, missing in zip(levels, has_missing, strict=True)])
    if radix.patterns >= 2**62:
        raise DataError(f"probabilistic-linkage: {len(pairs)} columns make too many patterns; name fewer columns")
    tolerances = np.tile(np.sort(np.asarray(tolerance_sd, np.float64)) * _ROUNDING, (len(numbers), 1))
    none = np.empty((0, 0), np.uint8)
    tables = tuple(none if pair.agreement is None else pair.agreement for pair in categories)
    rules = Rules(tolerances, tables, np.array(has_missing, np.int64), np.array(radix.place, np.int64))
    one, member_one = _side([pair.known for pair in numbers], [pair.known for pair in categories])
    other, member_other = _side([pair.published for pair in numbers], [pair.published for pair in categories])
    ordered: tuple[Pair, ...] = (*numbers, *categories)
    return Comparison(one, other, member_one, member_other, rules, radix, ordered, tuple(has_missing))


def _side(numbers: Sequence[Floats], codes: Sequence[NDArray[np.int32]]) -> tuple[Side, Ints]:
    from discretion.kernels.classes import distinct_rows

    clean = [np.where(np.isnan(x), np.nan, x) for x in numbers]  # one bit pattern for NaN
    found = distinct_rows(np.column_stack([*clean, *codes]).astype(np.float64))
    rows = found.first_row
    side = Side(
        np.array([x[rows] for x in clean]).reshape(len(clean), rows.size),
        np.array([c[rows] for c in codes], np.int32).reshape(len(codes), rows.size),
        found.counts.astype(np.int64),
        rows.astype(np.int64),
    )
    return side, found.ids.astype(np.int64)


def link_all(comparison: Comparison, own: Ints, knows_m: bool, ctx: Context) -> Linked:
    """Compare every record with every record: twice, once to count the patterns and once to find the best pairs."""
    c = comparison
    table = count_patterns(c.one, c.other, c.rules, c.radix.patterns, ctx.progress)
    patterns = np.flatnonzero(table)
    counts = table[patterns]
    shares = [
        np.bincount(level, counts, base).astype(np.float64)
        for level, base in zip(c.radix.levels(patterns), c.radix.base, strict=True)
    ]
    model = _model(c, patterns, counts, shares, own, knows_m)
    weights = model.weights(patterns)
    order = np.argsort(weights, kind="stable")
    rank = np.zeros(c.radix.patterns, np.int32)
    rank[patterns[order]] = weight_groups(weights[order])
    best = best_patterns(c.one, c.other, c.rules, rank, ctx.progress)
    weight_of = np.zeros(int(rank.max()) + 1)
    weight_of[rank[patterns]] = weights
    own_pattern = _own_patterns(c, own)
    right = (own >= 0) & (rank[own_pattern] == best.rank[c.member_one])
    return Linked(
        model, patterns, counts, weight_of[best.rank][c.member_one], best.size[c.member_one],
        best.row[c.member_one], _own_weights(model, own_pattern, own), right, None,
    )  # fmt: skip


def link_candidates(comparison: Comparison, own: Ints, knows_m: bool, k: int, ctx: Context) -> Linked:
    """Compare every record with its k nearest of the release; u comes from a random sample of pairs."""
    c = comparison
    near = _candidates(c, k, ctx)
    first = np.repeat(np.arange(near.shape[0]), near.shape[1])
    codes = pair_patterns(c.one, c.other, c.rules, first, near.ravel())
    times = c.one.weight[first] * c.other.weight[near.ravel()]
    patterns, place = np.unique(codes, return_inverse=True)
    counts = np.bincount(place, times).astype(np.int64)
    shares = _sampled_levels(c, patterns, ctx)
    model = _model(c, patterns, counts, shares, own, knows_m)
    weights = model.weights(codes).reshape(near.shape)
    best = weights.max(axis=1)
    tied = weights >= best[:, None] - 1e-9
    size = (tied * c.other.weight[near]).sum(axis=1)
    row = np.where(tied, c.other.row[near], np.iinfo(np.int64).max).min(axis=1)
    is_own = near[c.member_one] == np.where(own >= 0, c.member_other[own], -1)[:, None]
    right = (is_own & tied[c.member_one]).any(axis=1)
    own_weight = _own_weights(model, _own_patterns(c, own), own)
    return Linked(
        model, patterns, counts, best[c.member_one], size[c.member_one], row[c.member_one], own_weight, right,
        near.shape[1],
    )  # fmt: skip


def _model(
    c: Comparison, patterns: Ints, counts: Ints, shares: Sequence[Floats], own: Ints, knows_m: bool
) -> FellegiSunter:
    start = level_shares(shares, c.has_missing)
    if knows_m:
        return from_true_pairs(c.radix, _own_patterns(c, own)[own >= 0], start, _match_share(c, own))
    return fit(c.radix, patterns, counts, start, _match_share(c, own))


def true_levels(comparison: Comparison, own: Ints) -> list[Floats]:
    """Give the share of each level (without missing) among the true pairs, to judge the estimated m by."""
    c = comparison
    levels = c.radix.levels(_own_patterns(c, own)[own >= 0])
    counts = [
        np.bincount(level, minlength=base)[int(missing) :].astype(np.float64)
        for level, base, missing in zip(levels, c.radix.base, c.has_missing, strict=True)
    ]
    return [count / max(count.sum(), 1.0) for count in counts]


def _match_share(c: Comparison, own: Ints) -> float:
    return int((own >= 0).sum()) / c.all_pairs


def _own_patterns(c: Comparison, own: Ints) -> Ints:
    return pair_patterns(c.one, c.other, c.rules, c.member_one, c.member_other[np.maximum(own, 0)])


def _own_weights(model: FellegiSunter, patterns: Ints, own: Ints) -> Floats:
    return np.where(own >= 0, model.weights(patterns), np.nan)


def _sampled_levels(c: Comparison, patterns: Ints, ctx: Context) -> list[Floats]:
    """Count levels among random pairs; one that occurs only among the candidates counts half a pair."""
    rng = ctx.within("pairs").rng
    size = min(_SAMPLE, c.all_pairs)
    one = c.member_one[rng.integers(0, len(c.member_one), size)]
    other = c.member_other[rng.integers(0, len(c.member_other), size)]
    drawn = c.radix.levels(pair_patterns(c.one, c.other, c.rules, one, other))
    near = c.radix.levels(patterns)
    counts = []
    for levels, seen, base in zip(drawn, near, c.radix.base, strict=True):
        count = np.bincount(levels, minlength=base).astype(np.float64)
        counts.append(np.where((count == 0) & (np.bincount(seen, minlength=base) > 0), 0.5, count))
    return counts


def _candidates(c: Comparison, k: int, ctx: Context) -> Ints:
    """Give each distinct record the k nearest distinct records of the release, categories as binary coordinates."""
    from scipy.spatial import cKDTree

    one, other = _coordinates(c)
    tree = cKDTree(other)
    wanted = min(k, len(other))
    near = np.empty((len(one), wanted), np.int64)
    for start in range(0, len(one), _BLOCK):
        ctx.progress(start, len(one), "candidates")
        near[start : start + _BLOCK] = tree.query(one[start : start + _BLOCK], k=np.arange(1, wanted + 1))[1]
    ctx.progress(len(one), len(one), "candidates")
    return near


def _coordinates(c: Comparison) -> tuple[Floats, Floats]:
    """Numbers as they are (missing in the middle), categories by the binary digits of their codes."""
    ones, others = [], []
    for j in range(c.one.numbers.shape[0]):
        middle = float(np.nanmedian(c.one.numbers[j]))
        ones.append(np.where(np.isnan(c.one.numbers[j]), middle, c.one.numbers[j]))
        others.append(np.where(np.isnan(c.other.numbers[j]), middle, c.other.numbers[j]))
    for j, table in enumerate(c.rules.tables):
        if table.size:
            continue
        top = int(max(c.one.codes[j].max(), c.other.codes[j].max()))
        for digit in range(top.bit_length()):
            ones.append((c.one.codes[j] >> digit & 1).astype(np.float64))
            others.append((c.other.codes[j] >> digit & 1).astype(np.float64))
    if not ones:
        raise DataError(
            "probabilistic-linkage: columns compared by similarity, or generalized to different levels, give no "
            "candidates on their own; raise `max_pairs` or add a column"
        )
    return np.column_stack(ones[:_DIMENSIONS]), np.column_stack(others[:_DIMENSIONS])
