"""Probabilistic record linkage: how much agreement on each column says that two records are the same person (R13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.pattern_counts import Rules, Side, best_patterns, count_patterns, pair_patterns
from discretion.learning.columns import ComparedColumn, compare_column, sd_of
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, unused, view

# The model of Fellegi and Sunter: what each level of agreement says about two records being the same person (R13).
#
# π (the share of pairs that are the same person) and u (the levels among pairs of different people) are known: u is
# counted over all pairs, of which nearly all are of different people. Only m (the levels among pairs of the same
# person) is found by EM. Left free, π and u let EM run to a group of pairs that merely resemble each other, from about
# 10,000 records on.

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


MOST_SIMILARITIES = 100_000_000
"""Pairs of distinct values whose similarity is computed (one byte each)."""


@dataclass(frozen=True)
class CategoryPair:
    """A column of categories on both sides, as codes that mean the same on both; −1 is missing."""

    name: str
    known: Ints32 = field(repr=False)
    published: Ints32 = field(repr=False)
    values: tuple[str, ...] = field(repr=False)
    agreement: NDArray[np.uint8] | None = field(default=None, repr=False)
    """`agreement[known code, published code]`, 0 for values that differ; None: equal codes agree"""


Pair = ComparedColumn | CategoryPair
"""Numbers in standard deviations of the intruder's values, or categories."""


def compare_columns(
    known: Dataset, released: Dataset, columns: Sequence[str], named: bool, who: str, similarity: Sequence[float] = ()
) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
    """Make columns comparable; name those that tell nothing because no value can agree, unless they were `named`."""
    pairs: list[Pair] = []
    incomparable = []
    for name in columns:
        pair = _compare(known, released, name, who, similarity)
        if pair is None:
            incomparable.append(name)
        else:
            pairs.append(pair)
    if incomparable and (named or not pairs):
        raise DataError(
            f"{who}: no value of {', '.join(map(repr, incomparable))} in the original occurs in the release, so that "
            "nothing can be compared; leave the column out, or give its hierarchy if it was generalized"
        )
    return tuple(pairs), tuple(incomparable)


def _compare(known: Dataset, released: Dataset, name: str, who: str, similarity: Sequence[float]) -> Pair | None:
    for data in (known, released):
        data.require([name])
        if data.count_missing(name) == len(data):
            raise DataError(f"{who}: column {name!r} has no values")
    if len({data.frame.schema[name].is_nested() for data in (known, released)}) > 1:
        raise DataError(f"{who}: column {name!r} holds sets on one side and single values on the other")
    column = compare_column(known, released, name)
    if column.alike is None:
        sd = sd_of(column.known)
        return replace(column, known=column.known / sd, published=column.published / sd)
    mine, theirs = (np.where(np.isnan(x), -1, x).astype(np.int32) for x in (column.known, column.published))
    used = [np.unique(codes[codes >= 0]) for codes in (mine, theirs)]
    agreement = None
    if column.ranged or ((column.alike[used[0]] >= 0).sum(axis=1) > 1).any():
        agreement = np.zeros((used[0].size, used[1].size), np.uint8)
        rows, places = np.nonzero(column.alike[used[0]] >= 0)
        agreement[rows, np.searchsorted(used[1], column.alike[used[0]][rows, places])] = 1
    else:  # a value agrees with one label at most: it is known by that
        label = column.alike.max(axis=1)
        mine = np.where(mine < 0, -1, np.where(label < 0, np.arange(len(label)), label)[mine]).astype(np.int32)
        if similarity:
            used[0] = np.unique(mine[mine >= 0])
            agreement = _resemblance(column, used, similarity, who)
        elif column.is_incomparable:
            return None
    if agreement is None:
        return CategoryPair(name, mine, theirs, column.values)
    if not agreement.any():
        return None
    one, other = (
        np.where(codes < 0, -1, np.searchsorted(of, codes)).astype(np.int32)
        for codes, of in zip((mine, theirs), used, strict=True)
    )
    return CategoryPair(name, one, other, column.values, agreement)


def _resemblance(
    column: ComparedColumn, used: Sequence[Ints32], thresholds: Sequence[float], who: str
) -> NDArray[np.uint8]:
    """Let categories that resemble each other agree in part: a level for each similarity reached, one for equality."""
    from discretion.kernels.pattern_counts import similarity_levels

    known, published = used
    if known.size * published.size > MOST_SIMILARITIES:
        raise DataError(
            f"{who}: column {column.name!r} has {known.size} values in the original and {published.size} in the "
            f"release; similarity is computed for up to {MOST_SIMILARITIES:,} pairs of values; leave "
            "`text_similarity` out"
        )
    one, other = ([column.values[code] for code in codes] for codes in used)
    return similarity_levels(one, other, thresholds)


# The pairs of records a probabilistic linkage compares: all of them, or for large data the nearest candidates.
#
# Equal records are merged first and count as often as they occur.

DENSE_PATTERNS = 1 << 22
"""Possible patterns up to which a table has a place for each (32 MB)."""
_ROUNDING = 1 + 1e-9  # a difference of exactly the tolerance agrees, whatever rounding did to it
_SAMPLE = 2_000_000  # pairs drawn for u where not all pairs are compared
_BLOCK = 1 << 16  # records whose candidates are searched between two reports of progress
_DIMENSIONS = 12  # of the tree that finds candidates


@dataclass(frozen=True)
class RecordComparison:
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


def prepare(pairs: Sequence[Pair], tolerance_sd: Sequence[float]) -> RecordComparison:
    """Merge equal records and lay out the patterns."""
    numbers = [pair for pair in pairs if isinstance(pair, ComparedColumn)]
    categories = [pair for pair in pairs if isinstance(pair, CategoryPair)]
    has_missing = [pair.has_gaps for pair in numbers]
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
    return RecordComparison(one, other, member_one, member_other, rules, radix, ordered, tuple(has_missing))


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


def link_all(comparison: RecordComparison, own: Ints, knows_m: bool, ctx: Context) -> Linked:
    """Compare every record with every record: twice, once to count the patterns and once to find the best pairs."""
    c = comparison
    table = count_patterns(c.one, c.other, c.rules, c.radix.patterns, ctx.progress)
    patterns = np.flatnonzero(table)
    counts = table[patterns]
    shares = [
        np.bincount(level, counts, base).astype(np.float64)
        for level, base in zip(c.radix.levels(patterns), c.radix.base, strict=True)
    ]
    model = _pattern_model(c, patterns, counts, shares, own, knows_m)
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


def link_candidates(comparison: RecordComparison, own: Ints, knows_m: bool, k: int, ctx: Context) -> Linked:
    """Compare every record with its k nearest of the release; u comes from a random sample of pairs."""
    c = comparison
    near = _candidates(c, k, ctx)
    first = np.repeat(np.arange(near.shape[0]), near.shape[1])
    codes = pair_patterns(c.one, c.other, c.rules, first, near.ravel())
    times = c.one.weight[first] * c.other.weight[near.ravel()]
    patterns, place = np.unique(codes, return_inverse=True)
    counts = np.bincount(place, times).astype(np.int64)
    shares = _sampled_levels(c, patterns, ctx)
    model = _pattern_model(c, patterns, counts, shares, own, knows_m)
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


def _pattern_model(
    c: RecordComparison, patterns: Ints, counts: Ints, shares: Sequence[Floats], own: Ints, knows_m: bool
) -> FellegiSunter:
    start = level_shares(shares, c.has_missing)
    if knows_m:
        return from_true_pairs(c.radix, _own_patterns(c, own)[own >= 0], start, _match_share(c, own))
    return fit(c.radix, patterns, counts, start, _match_share(c, own))


def true_levels(comparison: RecordComparison, own: Ints) -> list[Floats]:
    """Give the share of each level (without missing) among the true pairs, to judge the estimated m by."""
    c = comparison
    levels = c.radix.levels(_own_patterns(c, own)[own >= 0])
    counts = [
        np.bincount(level, minlength=base)[int(missing) :].astype(np.float64)
        for level, base, missing in zip(levels, c.radix.base, c.has_missing, strict=True)
    ]
    return [count / max(count.sum(), 1.0) for count in counts]


def _match_share(c: RecordComparison, own: Ints) -> float:
    return int((own >= 0).sum()) / c.all_pairs


def _own_patterns(c: RecordComparison, own: Ints) -> Ints:
    return pair_patterns(c.one, c.other, c.rules, c.member_one, c.member_other[np.maximum(own, 0)])


def _own_weights(model: FellegiSunter, patterns: Ints, own: Ints) -> Floats:
    return np.where(own >= 0, model.weights(patterns), np.nan)


def _sampled_levels(c: RecordComparison, patterns: Ints, ctx: Context) -> list[Floats]:
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


def _candidates(c: RecordComparison, k: int, ctx: Context) -> Ints:
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


def _coordinates(c: RecordComparison) -> tuple[Floats, Floats]:
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


class ProbabilisticLinkage(Measure, kind="probabilistic-linkage"):
    """Share of people an intruder finds by weighing, column by column, agreement against coincidence.

    Fellegi and Sunter's linkage. Each pair of an intruder's record and a published record has an agreement level in
    every column: equal, within a tolerance, different. m is the probability of a level when both are the same person, u
    when they are not; the weight of a pair is Σ log2(m/u), so that agreeing on what seldom agrees counts most. u is
    counted over all pairs, the share of true pairs is known, m is found by EM. For each of the intruder's records the
    published records with the highest weight form an anonymity set A; the record counts 1/|A| when the right one is
    among them. The value is the mean (Reid_k); `reid_d` takes the first of the set, `known_reid` counts the right links
    without a tie above the upper threshold. Two thresholds sort all pairs into linked, clerical and not linked.

    Numbers, dates and ordered categories agree within tolerances, other categories when they are equal; generalized
    values are compared on the level published. A comparison with a missing value is no evidence: its weight is 0.

    It does not see dependence between columns (their weights are added), values that are rarer than others of the same
    column, or one-to-one assignment. Where true pairs hardly stand out, EM settles on chance resemblance and the value
    is too low: compare `m` with `true_m` in the detail, or take the worst case with `knows_m`. Time O(pairs·columns)
    with equal records merged, memory linear; above `max_pairs`, or with very many patterns, only the `candidates`
    nearest are compared: a lower bound.

    References
    ----------
    Fellegi & Sunter (1969), JASA 64; Torra & Domingo-Ferrer (2003); Herzog, Scheuren & Winkler (2007); catalogue R13.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> released = dc.AdditiveNoise(columns=["age", "income"], sd_share=0.1)(people, seed=7)
    >>> score = dc.ProbabilisticLinkage(columns=["age", "income", "sex", "region"])(people, released)
    >>> 0.3 < score.value < 0.9
    True
    >>> score.detail["per_column"]["sex"]["levels"]
    ['differs', 'agrees']
    """

    columns: Columns = ()
    """columns the intruder knows; without it, the quasi-identifiers that can be compared"""
    tolerance_sd: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4)
    """differences, in standard deviations, up to which numbers agree: one level for each; 0 is exact equality"""
    text_similarity: tuple[float, ...] = ()
    """similarities (Jaro–Winkler, 0 to 1) from which unequal texts agree in part: one level for each; none: not used"""
    false_link_share: float = Field(0.1, gt=0, le=1)
    """wrong links the intruder accepts for each of its records; sets the upper threshold"""
    false_nonlink_share: float = Field(0.05, gt=0, le=1)
    """share of the true pairs the intruder accepts to miss; sets the lower threshold"""
    knows_m: bool = False
    """the intruder was told how often true pairs agree (worst case); otherwise it is estimated from the pairs by EM"""
    max_pairs: int = Field(1_000_000_000, ge=1)
    """pairs of distinct records up to which all are compared; above, only candidates are"""
    candidates: int = Field(50, ge=1)
    """nearest published records each record is compared with when there are too many pairs"""
    intruder: Intruder = Field(default_factory=Intruder)
    """who attacks: whose records, which columns, with what error; default: the worst case, all original values"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @field_validator("tolerance_sd")
    @classmethod
    def _check_tolerances(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not given or len(given) > 8 or min(given) < 0 or len(set(given)) < len(given):
            raise ValueError("expected one to eight different tolerances of at least 0")
        return tuple(sorted(given))

    @model_validator(mode="after")
    def _check_intruder(self) -> Self:
        if self.intruder.knows_method:
            raise ValueError("probabilistic-linkage makes no use of the method; `knows_method` is for distance-linkage")
        return self

    @field_validator("text_similarity")
    @classmethod
    def _check_similarities(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if len(given) > 8 or any(not 0 < value < 1 for value in given) or len(set(given)) < len(given):
            raise ValueError("expected up to eight different similarities between 0 and 1")
        return tuple(sorted(given))

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare the intruder's records with the release and link each to the best."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen = view(self.intruder, original, released, columns, ctx)
        pairs, left_out = compare_columns(
            seen.known, seen.released, seen.columns, bool(self.columns), self.kind, self.text_similarity
        )
        comparison = prepare(pairs, self.tolerance_sd)
        linked = self._link(comparison, seen, ctx)
        per_record = np.where(linked.right, 1.0 / linked.size, 0.0)
        value = float(per_record.mean())
        names = [pair.name for pair in pairs]
        limits = thresholds(linked.model, self.false_link_share / len(released), self.false_nonlink_share)
        upper = np.inf if limits.upper is None else limits.upper
        known = linked.right & (linked.size == 1) & (linked.best_weight >= upper - 1e-9)
        return self.score(
            value,
            f"An intruder who {self.intruder.describe(names)} and weighs agreement against coincidence finds "
            f"{as_percent(value)} of these people (guessing finds {as_percent(1 / len(released))})." + unused(left_out),
            per_record=seen.spread(per_record),
            reid_k=value,
            reid_d=float((linked.first == seen.rows).mean()),
            known_reid=float(known.mean()),
            chance=1.0 / len(released),
            columns=names,
            not_compared=list(left_out),
            records=len(seen.rows),
            intruder=self.intruder.describe(names),
            per_column=self._per_column(comparison, linked, true_levels(comparison, seen.rows)),
            thresholds=_thresholds(limits),
            classes=_classes(comparison, linked, limits),
            model=_model(comparison, linked),
        )

    def _link(self, comparison: RecordComparison, seen: View, ctx: Context) -> Linked:
        few = comparison.distinct_pairs <= self.max_pairs and comparison.radix.patterns <= DENSE_PATTERNS
        if few:
            return link_all(comparison, seen.rows, self.knows_m, ctx)
        return link_candidates(comparison, seen.rows, self.knows_m, self.candidates, ctx)

    def _per_column(
        self, comparison: RecordComparison, linked: Linked, true_m: list[Floats]
    ) -> dict[str, dict[str, Any]]:
        described = {}
        for pair, column, truth in zip(comparison.pairs, linked.model.columns, true_m, strict=True):
            described[pair.name] = {
                "levels": self._levels(pair, column.u.size),
                "m": column.m.tolist(),
                "true_m": truth.tolist(),
                "u": column.u.tolist(),
                "weight": column.weight[int(column.has_missing) :].tolist(),
                "missing_share": column.missing_share,
            }
        return described

    def _levels(self, pair: Pair, levels: int) -> list[str]:
        """Name the levels of a column, from disagreement to the closest agreement."""
        if isinstance(pair, ComparedColumn):
            return ["differs", *(f"within {t:g} sd" if t else "equal" for t in reversed(self.tolerance_sd))]
        if levels == 2 or not self.text_similarity:
            return ["differs", "agrees"][:levels]
        return ["differs", *(f"similar by {t:g}" for t in self.text_similarity), "agrees"][:levels]


def _thresholds(limits: Thresholds) -> dict[str, float | None]:
    return {
        "upper": limits.upper,
        "lower": limits.lower,
        "false_link_rate": limits.false_link_rate,
        "false_nonlink_rate": limits.false_nonlink_rate,
    }


def _classes(comparison: RecordComparison, linked: Linked, limits: Thresholds) -> dict[str, dict[str, int]]:
    """Count pairs, and the right ones among them, in each of the three classes."""
    upper = np.inf if limits.upper is None else limits.upper
    lower = upper if limits.lower is None else limits.lower

    def sort(weights: Floats, times: NDArray[np.int64]) -> list[int]:
        high, middle = weights >= upper - 1e-9, weights >= lower - 1e-9
        return [int(times[high].sum()), int(times[middle & ~high].sum())]

    pairs = sort(linked.model.weights(linked.patterns), linked.counts)
    own = linked.own_weight[~np.isnan(linked.own_weight)]
    right = sort(own, np.ones(own.size, np.int64))
    pairs.append(comparison.all_pairs - sum(pairs))
    right.append(own.size - sum(right))
    names = ("linked", "clerical", "not_linked")
    return {name: {"pairs": a, "right": b} for name, a, b in zip(names, pairs, right, strict=True)}


def _model(comparison: RecordComparison, linked: Linked) -> dict[str, Any]:
    return {
        "match_share": linked.model.match_share,
        "iterations": linked.model.iterations,
        "converged": linked.model.converged,
        "pairs": comparison.all_pairs,
        "compared": "all pairs" if linked.candidates is None else f"{linked.candidates} candidates for each record",
    }
