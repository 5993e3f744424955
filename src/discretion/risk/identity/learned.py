"""Worst-case linkage: the intruder has learned the distance that finds most people (R15)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels import learned_distances as kernel
from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.learned_distances import (
    WEIGHTED,
    NearestRecords,
    Records,
    differences,
    features,
    nearest,
    onto_monotone,
    onto_simplex,
    onto_trace_one,
    soft_count,
)
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, unused, view
from discretion.risk.identity.probabilistic import CategoryPair, Pair, compare_columns
from discretion.solve import GrowingProgram

# The forms a learned distance can have: their parameters, where learning starts, which parameters are allowed.


DistanceName = Literal["weighted", "owa", "bilinear", "choquet"]

FULL_MEASURE_COLUMNS = 6
"""Columns up to which a Choquet integral has a parameter for every set of columns; above, for pairs."""


class Form(ABC):
    """A distance Σ p_k·φ_k(differences) with a convex set of allowed parameters."""

    code: ClassVar[int]

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return kernel.feature_count(self.code, len(self.columns))

    contains_weighted: ClassVar[bool] = True
    """every weighted mean is a distance of this form, so that learning can start from the best of them"""

    def uniform(self) -> Floats:
        """Give the parameters of the mean of the squared differences: the baseline, and where learning starts."""
        return self.additive(np.full(len(self.columns), 1.0 / len(self.columns)))

    @abstractmethod
    def additive(self, weights: Floats) -> Floats:
        """Give the parameters that make this distance the weighted mean with these weights."""

    @abstractmethod
    def project(self, p: Floats) -> Floats:
        """Give the nearest allowed parameters."""

    @abstractmethod
    def describe(self, p: Floats) -> dict[str, Any]:
        """Name the parameters."""

    def bounds(self) -> tuple[Floats, Floats]:
        """Give the least and the largest value of each parameter."""
        return np.zeros(self.size), np.ones(self.size)

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Give linear conditions low ≤ a·p ≤ high that allowed parameters satisfy."""
        return [(np.ones(self.size), 1.0, 1.0)]

    def cuts(self, p: Floats) -> list[Floats]:  # noqa: ARG002 - only a form with conditions that are not linear looks
        """Give rows a with a·q ≥ 0 for all allowed q, and a·p < 0: what the linear conditions have not said yet."""
        return []

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound how much farther the own record can be than another: max over p of p·(φ(own) − φ(other)), or 0."""
        both = kernel.features(self.code, np.vstack([own, other]))
        return max(0.0, float((both[0] - both[1]).max()))


class Weighted(Form):
    """Weighted mean of the squared differences."""

    code = kernel.WEIGHTED

    def additive(self, weights: Floats) -> Floats:
        """Give the weights themselves."""
        return weights

    def project(self, p: Floats) -> Floats:
        """Project onto the simplex."""
        return onto_simplex(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weight of each column."""
        return {"weights": dict(zip(self.columns, p.tolist(), strict=True))}


class Owa(Weighted):
    """Ordered weighted average: weights for the largest, the second largest … difference, whatever its column."""

    code = kernel.OWA
    contains_weighted = False

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weights from the largest difference to the smallest."""
        return {"weights_from_largest": p.tolist()}


class Bilinear(Form):
    """vᵀQv with a positive semidefinite matrix Q: Mahalanobis distance generalized."""

    code = kernel.BILINEAR

    def additive(self, weights: Floats) -> Floats:
        """Give the diagonal matrix."""
        return np.diag(weights).ravel()

    def project(self, p: Floats) -> Floats:
        """Project onto positive semidefinite matrices of trace 1."""
        return onto_trace_one(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the matrix."""
        return {"matrix": p.reshape(len(self.columns), -1).tolist()}

    def bounds(self) -> tuple[Floats, Floats]:
        """Bound the matrix: a positive one of trace 1 has nothing above ½ beside its diagonal."""
        d = len(self.columns)
        low = np.where(np.eye(d, dtype=bool), 0.0, -0.5).ravel()
        return low, np.where(np.eye(d, dtype=bool), 1.0, 0.5).ravel()

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Trace 1, symmetric."""
        d = len(self.columns)
        rows = [(np.eye(d).ravel(), 1.0, 1.0)]
        for a, b in combinations(range(d), 2):
            equal = np.zeros((d, d))
            equal[a, b], equal[b, a] = 1.0, -1.0
            rows.append((equal.ravel(), 0.0, 0.0))
        return rows

    def cuts(self, p: Floats) -> list[Floats]:
        """Cut off negative eigenvalues: wᵀQw ≥ 0 for their eigenvectors w."""
        d = len(self.columns)
        values, vectors = np.linalg.eigh(p.reshape(d, d))
        return [np.outer(vectors[:, k], vectors[:, k]).ravel() for k in np.flatnonzero(values < -1e-6)]

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound by the largest eigenvalue of v_own·v_ownᵀ − v_other·v_otherᵀ."""
        return max(0.0, float(np.linalg.eigvalsh(np.outer(own, own) - np.outer(other, other))[-1]))


class Choquet(Form):
    """Choquet integral with a measure μ(S) for every set S of columns: weights for columns that fail together."""

    code = kernel.CHOQUET

    def additive(self, weights: Floats) -> Floats:
        """Give the additive measure: a set has the weights of its columns together."""
        return np.array([sum(w for j, w in enumerate(weights) if s >> j & 1) for s in range(self.size)])

    def project(self, p: Floats) -> Floats:
        """Project onto monotone measures."""
        return onto_monotone(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the measure of every set."""
        return {"measure": {self._set(s): float(p[s]) for s in range(1, self.size)}}

    def _set(self, bits: int) -> str:
        return " + ".join(name for j, name in enumerate(self.columns) if bits >> j & 1)

    def bounds(self) -> tuple[Floats, Floats]:
        """Nothing for the empty set, 1 for all columns."""
        low, high = np.zeros(self.size), np.ones(self.size)
        high[0], low[-1] = 0.0, 1.0
        return low, high

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Larger sets have larger measures."""
        rows = []
        for s in range(self.size):
            for j in range(len(self.columns)):
                if not s >> j & 1:
                    row = np.zeros(self.size)
                    row[s], row[s | 1 << j] = -1.0, 1.0
                    rows.append((row, 0.0, np.inf))
        return rows

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound by the largest difference of the own record and the smallest of the other."""
        return max(0.0, float((own**2).max() - (other**2).min()))


class ChoquetPairs(Weighted):
    """Choquet integral of a 2-additive measure: a mixture of single columns and of min and max of pairs of columns.

    These are the extreme points of the 2-additive monotone measures, so that every such measure is a mixture of them.
    """

    code = kernel.CHOQUET_PAIRS

    def additive(self, weights: Floats) -> Floats:
        """Give weight to the single columns only."""
        return np.concatenate([weights, np.zeros(self.size - weights.size)])

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weight of each column and of the smaller and the larger of each pair."""
        names = list(self.columns)
        for a, b in combinations(self.columns, 2):
            names += [f"min({a}, {b})", f"max({a}, {b})"]
        return {"weights": {name: float(w) for name, w in zip(names, p, strict=True) if w > 0}}


def form_of(distance: DistanceName, columns: Sequence[str]) -> Form:
    """Give the form of a distance for some columns."""
    if distance == "choquet":
        return Choquet(columns) if len(columns) <= FULL_MEASURE_COLUMNS else ChoquetPairs(columns)
    simple: dict[str, type[Form]] = {"weighted": Weighted, "owa": Owa, "bilinear": Bilinear}
    return simple[distance](columns)


# The search for the distance that links best: projected gradient on a soft count of right links (R15).
#
# The number of right links jumps when parameters move, so that it has no gradient. A soft count replaces "the own
# record is the nearest" by a probability that gets sharper from one temperature to the next. Only the nearest records
# of each query take part; they are searched again every few steps, and the hard count over all records decides what is
# kept.

TEMPERATURES = (1.0, 0.3, 0.1, 0.03)
CANDIDATES = 30
_STEPS = 60  # at each temperature
_REFRESH = 10  # steps between two searches for candidates
_LENGTH = 0.05  # of the first step
_MOMENTUM = 0.7


@dataclass(frozen=True)
class Queries:
    """The records whose links are counted: rows of the intruder's data, and the right row of the release for each."""

    records: Records = field(repr=False)
    rows: Ints = field(repr=False)
    own: Ints = field(repr=False)

    def take(self, chosen: Ints) -> Queries:
        """Give some of the queries."""
        return Queries(self.records, self.rows[chosen], self.own[chosen])


@dataclass(frozen=True)
class Learned:
    """Parameters, and the number of right links they give on the queries they were learned on (ties shared)."""

    p: Floats
    right: float


def count_right(found: NearestRecords) -> float:
    """Count right links, a set of ties as its share."""
    return float(np.where(found.right, 1.0 / found.size, 0.0).sum())


def search(form: Form, queries: Queries, ctx: Context, label: str) -> Learned:
    """Learn the parameters that find most of the queries; never worse on them than the uniform distance.

    A form that contains the weighted means starts from the best weighted mean, and is never worse than it.
    """
    if form.code == WEIGHTED or not form.contains_weighted:
        return _climb(form, queries, form.uniform(), ctx, label)
    weights = _climb(Weighted(form.columns), queries, Weighted(form.columns).uniform(), ctx, f"{label}, weights")
    return _climb(form, queries, form.additive(weights.p), ctx, label)


def _climb(form: Form, queries: Queries, start: Floats, ctx: Context, label: str) -> Learned:
    """Follow the gradient of the soft count from one start, from the highest temperature to the lowest."""
    look = _Look(form, queries, ctx, label)
    p = start
    found = look(p)
    best = Learned(p, count_right(found))
    for temperature in TEMPERATURES:
        if p is not best.p:
            p = best.p
            found = look(p)
        momentum = np.zeros(form.size)
        for round_ in range(_STEPS // _REFRESH):
            scale = temperature * max(float(np.median(found.distance)), 1e-9)
            promising = Learned(p, -1.0)
            for step in range(round_ * _REFRESH, (round_ + 1) * _REFRESH):
                hard, gradient = soft_count(
                    form.code, queries.records, p, queries.rows, queries.own, found.near, scale
                )[1:]
                if hard > promising.right:
                    promising = Learned(p, hard)
                length = float(np.linalg.norm(gradient))
                momentum = _MOMENTUM * momentum + (1 - _MOMENTUM) * gradient / max(length, 1e-300)
                p = form.project(p + _LENGTH / (1 + step / 20) * momentum)
            found = look(p)
            best = _better(best, Learned(p, count_right(found)))
            if promising.right > best.right:
                best = _better(best, Learned(promising.p, count_right(look(promising.p))))
    return best


def _better(best: Learned, other: Learned) -> Learned:
    return other if other.right > best.right else best


class _Look:
    """Searches for the nearest records, and reports progress of the climb as a whole."""

    def __init__(self, form: Form, queries: Queries, ctx: Context, label: str) -> None:
        self._form, self._queries, self._ctx, self._label = form, queries, ctx, label
        self._done, self._most = 0, 1 + len(TEMPERATURES) * (1 + 2 * _STEPS // _REFRESH)

    def __call__(self, p: Floats) -> NearestRecords:
        def progress(_done: int, _total: int, _label: str) -> None:
            self._ctx.progress(self._done, self._most, self._label)

        q = self._queries
        found = nearest(self._form.code, q.records, p, q.rows, q.own, CANDIDATES, progress)
        self._done += 1
        return found


# An upper bound on what any distance of a form can find, by integer programming, for small data (R15).
#
# K_i = 1 where record i is given up; for every other record j of the release p·(φ_ij − φ_ii) + C_ij·K_i ≥ 0 says that
# j is not nearer than the own one. The least Σ K_i bounds the links of every allowed p from above (ties count as
# found, so that the bound may lie above what any p reaches). Rows are added when a solution violates them.

MOST_RECORDS = 500
"""Records up to which a bound is computed: there are n² conditions, and the branching grows with n."""
_ROWS_AT_ONCE = 3  # violated conditions added for each record
_VIOLATED = 1e-7


@dataclass(frozen=True)
class Bound:
    """At most this share of the records can be found by a distance of the form."""

    share: float
    proven: bool
    """the least upper bound of this kind was found; False: time ran out, the bound still holds"""
    rounds: int
    rows: int


def require_small(queries: Queries) -> None:
    """Raise where there are too many records for the integer program."""
    size = max(queries.rows.size, queries.records.published.shape[0])
    if size > MOST_RECORDS:
        raise DataError(
            f"learned-linkage: `milp_bound` works for at most {MOST_RECORDS} records, these are {size}; "
            "take a sample, or leave the bound out"
        )


def upper_bound(form: Form, queries: Queries, start: Floats, seconds: float, ctx: Context) -> Bound:
    """Bound the links of every distance of the form; `require_small` first."""
    n = queries.rows.size
    program = _Program(form, queries)
    program.tighten(start, np.zeros(n, bool))
    end = time.monotonic() + seconds
    lost, rounds, proven = 0.0, 0, False
    while (left := end - time.monotonic()) > 0:
        ctx.progress(min(rounds, 99), 100, "integer program")
        rounds += 1
        solution = program.solve(left)
        lost = max(lost, solution.bound)
        if solution.p is None:
            break
        if not program.tighten(solution.p, solution.given_up):
            proven = solution.optimal
            break
    found = n - int(np.ceil(lost - 1e-6))
    possible = int((queries.own >= 0).sum())
    return Bound(min(found, possible) / n, proven, rounds, program.rows)


@dataclass(frozen=True)
class _Solution:
    p: Floats | None
    given_up: NDArray[np.bool_]
    bound: float
    optimal: bool


class _Program:
    """The integer program with the conditions that were needed so far."""

    def __init__(self, form: Form, queries: Queries) -> None:
        self._form, self._queries = form, queries
        self._n, self._m = queries.rows.size, queries.records.published.shape[0]
        self._stated = np.zeros((self._n, self._m), bool)
        there = np.flatnonzero(queries.own >= 0)
        self._stated[there, queries.own[there]] = True
        low, high = form.bounds()
        given_up = np.where(queries.own >= 0, 0.0, 1.0)
        cost = np.append(np.zeros(form.size), np.ones(self._n))
        self._program = GrowingProgram(np.append(low, given_up), np.append(high, np.ones(self._n)), cost)
        self._program.make_whole(form.size + np.arange(self._n))
        for row, least, most in form.conditions():
            self._add(row, least, most)

    @property
    def rows(self) -> int:
        """The number of conditions stated."""
        return self._program.rows

    def _add(self, row: Floats, least: float, most: float, extra: tuple[int, float] | None = None) -> None:
        used = np.flatnonzero(row)
        values = row[used]
        if extra is not None:
            used, values = np.append(used, self._form.size + extra[0]), np.append(values, extra[1])
        self._program.add(used, values, least, most)

    def solve(self, seconds: float) -> _Solution:
        """Solve the program with the conditions stated so far."""
        found, size = self._program.solve(max(0.1, seconds)), self._form.size
        bound = found.bound if np.isfinite(found.bound) else 0.0
        if not found.found:
            return _Solution(None, np.zeros(self._n, bool), bound, False)
        return _Solution(found.x[:size], found.x[size:] > 0.5, bound, True)

    def tighten(self, p: Floats, given_up: NDArray[np.bool_]) -> bool:
        """State conditions that p violates; False when it violates none."""
        cuts = self._form.cuts(p)
        for row in cuts:
            self._add(row, 0.0, np.inf)
        added = len(cuts)
        everybody = np.arange(self._m)
        for i in np.flatnonzero(~given_up & (self._queries.own >= 0)):
            query = np.full(self._m, self._queries.rows[i])
            v = differences(self._queries.records, query, everybody)
            distance = features(self._form.code, v) @ p
            own = self._queries.own[i]
            nearer = np.flatnonzero((distance < distance[own] - _VIOLATED) & ~self._stated[i])
            for j in nearer[np.argsort(distance[nearer])[:_ROWS_AT_ONCE]]:
                self._state(int(i), int(j), v[own], v[j])
                added += 1
        return added > 0

    def _state(self, i: int, j: int, own: Floats, other: Floats) -> None:
        both = features(self._form.code, np.vstack([own, other]))
        self._add(both[1] - both[0], 0.0, np.inf, (i, self._form.shortfall(own, other)))
        self._stated[i, j] = True


class LearnedLinkage(Measure, kind="learned-linkage"):
    """Share of people an intruder finds with the distance that, of all distances of a form, finds most of them.

    The distance is learned on true links, and the value is what it finds among people it was not learned on: what an
    intruder can count on who knows the truth for some. `weighted`: a weight for each column; `owa`: weights for
    the largest, second largest … difference; `bilinear`: a full positive matrix (Mahalanobis generalized); `choquet`: a
    measure on sets of columns (on pairs above six columns). Numbers and ordered values differ by their distance in
    standard deviations, categories by 0 or 1; a difference with a missing value is the mean difference of the column.
    Records at the same least distance form an anonymity set and count 1/|A|. Those it is learned on are cross-validated
    by `folds`, the others are linked by the distance learned on all of these. The value is never below that of the
    uniform weights, which need no learning and stand in `uniform`.

    `in_sample` is what the distance finds when it is learned on all the true links: a bound (up to the search) on what
    any intruder reaches who weighs the columns in whatever way. A large gap between the two is overfitting, not risk;
    without folds only this bound is known, and it is the value. The search is a heuristic: another
    start may find a little more; with `milp_bound` an upper bound is computed for small data. It does not see distances
    outside the form. Time O(learn_records·n·columns) a round, about 30 rounds, once more for each fold; then one
    comparison of all pairs; memory linear.

    References
    ----------
    Abril, Navarro-Arribas & Torra (2012), Information Fusion 13(4); Torra (2022), A guide to data privacy; catalogue
    R15.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = np.random.default_rng(1).normal(size=(200, 3))
    >>> y = x + np.random.default_rng(2).normal(size=x.shape) * [0.1, 0.1, 3.0]
    >>> frames = [pl.DataFrame(data, schema=["a", "b", "c"]) for data in (x, y)]
    >>> score = dc.LearnedLinkage(columns=["a", "b", "c"])(*frames)
    >>> score.value > 2 * score.detail["uniform"]
    True
    >>> score.detail["parameters"]["weights"]["c"] < 0.05
    True
    """

    columns: Columns = ()
    """columns the intruder knows; without it, the quasi-identifiers that can be compared"""
    distance: DistanceName = "weighted"
    """form of the distance: a weighted mean, an ordered weighted average, a bilinear form, or a Choquet integral"""
    folds: int = Field(5, ge=0)
    """parts of the records for the cross-validated figure; 0 or 1 leaves it out (the value is then in sample)"""
    learn_records: int = Field(1000, ge=2)
    """records the distance is learned on; where there are more, a random sample of them"""
    milp_bound: bool = False
    """also compute, for up to 500 records, an upper bound on what any distance of this form can find"""
    milp_seconds: float = Field(60.0, gt=0)
    """time for the upper bound; when it runs out, the bound reached so far is given"""
    intruder: Intruder = Field(default_factory=Intruder)
    """who attacks: whose records, which columns, with what error; default: the worst case, all original values"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _check_intruder(self) -> Self:
        if self.intruder.knows_method:
            raise ValueError("learned-linkage makes no use of the method; `knows_method` is for distance-linkage")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Learn the distance, then link every record of the intruder with it."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen = view(self.intruder, original, released, columns, ctx)
        pairs, left_out = compare_columns(seen.known, seen.released, seen.columns, bool(self.columns), self.kind)
        names = [pair.name for pair in pairs]
        form = form_of(self.distance, names)
        queries = Queries(_records(pairs), np.arange(len(seen.rows)), seen.rows)
        if self.milp_bound:
            require_small(queries)
        sample = self._sample(queries, ctx)
        learned = search(form, sample, ctx, "learning")
        p, links, base = _link(form, queries, learned, ctx)
        per_record, uniform = _shares(links), float(_shares(base).mean())
        in_sample = float(per_record.mean())
        held_out = self._cross_validate(form, sample, ctx)
        if held_out is not None:
            per_record[sample.rows] = held_out
            if per_record.mean() < uniform:
                per_record = _shares(base)
        value = float(per_record.mean())
        detail = self._describe(form, p, links, seen, ctx, sample)
        detail |= {"cross_validated": None if held_out is None else value, "in_sample": in_sample}
        unseen = "" if held_out is None else f" (learned on others; {as_percent(in_sample)} if learned on them)"
        return self.score(
            value,
            f"An intruder who {self.intruder.describe(names)} and uses the distance ({self.distance}) that links best "
            f"finds {as_percent(value)} of these people{unseen}; equal weights find {as_percent(uniform)}, guessing "
            f"{as_percent(1 / len(released))}.{unused(left_out)}",
            per_record=seen.spread(per_record),
            reid_k=value,
            uniform=uniform,
            chance=1.0 / len(released),
            columns=names,
            not_compared=list(left_out),
            **detail,
        )

    def _describe(
        self, form: Form, p: Floats, links: NearestRecords, seen: View, ctx: Context, sample: Queries
    ) -> dict[str, Any]:
        detail: dict[str, Any] = {
            "reid_d": float((links.first == seen.rows).mean()),
            "known_reid": float((links.right & (links.size == 1) & (links.distance == 0)).mean()),
            "distance": self.distance,
            "parameters": form.describe(p),
            "learned_on": int(sample.rows.size),
            "records": len(seen.rows),
            "intruder": self.intruder.describe(form.columns),
        }
        if self.milp_bound:
            bound = upper_bound(form, sample, p, self.milp_seconds, ctx)
            detail["bound"] = {"share": bound.share, "proven": bound.proven, "rounds": bound.rounds, "rows": bound.rows}
        return detail

    def _sample(self, queries: Queries, ctx: Context) -> Queries:
        """Draw the records to learn on; all where they are few enough (or where the bound needs them all)."""
        n = queries.rows.size
        if n <= self.learn_records or self.milp_bound:
            return queries
        return queries.take(np.sort(ctx.within("learn").rng.choice(n, self.learn_records, replace=False)))

    def _cross_validate(self, form: Form, queries: Queries, ctx: Context) -> Floats | None:
        """Learn on all folds but one, link the records of that one, for each; None where there are too few records."""
        n = queries.rows.size
        folds = min(self.folds, n)
        if folds < 2:
            return None
        fold = ctx.within("folds").rng.permutation(n) % folds
        shares = np.zeros(n)
        for number in range(folds):
            label = f"fold {number + 1} of {folds}"
            learned = search(form, queries.take(np.flatnonzero(fold != number)), ctx, label)
            places = np.flatnonzero(fold == number)
            held_out = queries.take(places)
            found = nearest(
                form.code, held_out.records, learned.p, held_out.rows, held_out.own, 1, ctx.progress
            )  # fmt: skip
            shares[places] = _shares(found)
        return shares


def _shares(links: NearestRecords) -> Floats:
    """Give each record's probability that the intruder, who picks one of the nearest, picks the right one."""
    return np.where(links.right, 1.0 / np.maximum(links.size, 1), 0.0)


def _link(
    form: Form, queries: Queries, learned: Learned, ctx: Context
) -> tuple[Floats, NearestRecords, NearestRecords]:
    """Link everybody with the learned and with the uniform distance: the better one's links, and the uniform ones."""

    def links(p: Floats) -> NearestRecords:
        return nearest(form.code, queries.records, p, queries.rows, queries.own, 1, ctx.progress)

    base = links(form.uniform())
    if np.array_equal(learned.p, form.uniform()):
        return learned.p, base, base
    best = links(learned.p)
    return (form.uniform(), base, base) if count_right(best) < count_right(base) else (learned.p, best, base)


def _records(pairs: Sequence[Pair]) -> Records:
    """Put the columns of both sides into matrices, with the mean squared difference of each for missing values."""
    known, published, missing = [], [], []
    for pair in pairs:
        if isinstance(pair, CategoryPair):
            one, other = _as_floats(pair, pair.known), _as_floats(pair, pair.published)
            missing.append(_disagreement(pair))
        else:
            one, other = pair.known, pair.published
            missing.append(_mean_square(one[~np.isnan(one)], other[~np.isnan(other)]))
        known.append(one)
        published.append(other)
    nominal = np.array([isinstance(pair, CategoryPair) for pair in pairs])
    return Records(np.column_stack(known), np.column_stack(published), nominal, np.array(missing))


def _as_floats(pair: CategoryPair, codes: NDArray[np.int32]) -> Floats:
    if pair.agreement is not None:
        raise DataError(
            f"learned-linkage: column {pair.name!r} was generalized to different levels for different records, where "
            "values do not simply agree or differ; leave it out, or use probabilistic-linkage"
        )
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _mean_square(one: Floats, other: Floats) -> float:
    """Give the mean of (x − y)² over all pairs."""
    return float(one.var() + other.var() + (one.mean() - other.mean()) ** 2)


def _disagreement(pair: CategoryPair) -> float:
    """Give the share of all pairs that differ."""
    size = len(pair.values)
    one = np.bincount(pair.known[pair.known >= 0], minlength=size)
    other = np.bincount(pair.published[pair.published >= 0], minlength=size)
    return float(1.0 - (one / one.sum()) @ (other / other.sum()))
