"""Worst-case linkage: the intruder has learned the distance that finds most people (R15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.learned_distances import Nearest, Records, nearest
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.distance_columns import unused
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, view
from discretion.risk.identity.learned_bound import require_small, upper_bound
from discretion.risk.identity.learned_forms import DistanceName, Form, form_of
from discretion.risk.identity.learned_search import Learned, Queries, count_right, search
from discretion.risk.identity.probabilistic_columns import CategoryPair, NumberPair, Pair, compare_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        compared = compare_columns(seen.known, seen.released, seen.columns, bool(self.columns), self.kind)
        names = [pair.name for pair in compared.pairs]
        form = form_of(self.distance, names)
        queries = Queries(_records(compared.pairs), np.arange(len(seen.rows)), seen.rows)
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
            f"{as_percent(1 / len(released))}.{unused(compared.left_out)}",
            per_record=seen.spread(per_record),
            reid_k=value,
            uniform=uniform,
            chance=1.0 / len(released),
            columns=names,
            not_compared=list(compared.left_out),
            **detail,
        )

    def _describe(
        self, form: Form, p: Floats, links: Nearest, seen: View, ctx: Context, sample: Queries
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


def _shares(links: Nearest) -> Floats:
    """Give each record's probability that the intruder, who picks one of the nearest, picks the right one."""
    return np.where(links.right, 1.0 / np.maximum(links.size, 1), 0.0)


def _link(form: Form, queries: Queries, learned: Learned, ctx: Context) -> tuple[Floats, Nearest, Nearest]:
    """Link everybody with the learned and with the uniform distance: the better one's links, and the uniform ones."""

    def links(p: Floats) -> Nearest:
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
        if isinstance(pair, NumberPair):
            one, other = pair.known, pair.published
            missing.append(_mean_square(one[~np.isnan(one)], other[~np.isnan(other)]))
        else:
            one, other = _as_floats(pair, pair.known), _as_floats(pair, pair.published)
            missing.append(_disagreement(pair))
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
    size = len(pair.known_values)
    one = np.bincount(pair.known[pair.known >= 0], minlength=size)
    other = np.bincount(pair.published[pair.published >= 0], minlength=size)
    return float(1.0 - (one / one.sum()) @ (other / other.sum()))
