"""Model-based attribute disclosure: what a model learned from the release tells about people (R5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Numbers, outside_view
from discretion.learning.fitting import (
    Case,
    Model,
    ModelField,
    agreement,
    build_case,
    chance_agreement,
    choose_features,
    choose_target,
    fit,
    folds,
    seeds,
    target_array,
)
from discretion.measure import RiskShare, Score, as_percent
from discretion.part import Columns, Scale
from discretion.risk.synthetic.records import wilson

# Data-driven model-based attribute disclosure: do models of the original and of the release agree? (R6)


class ModelAgreement(RiskShare, kind="model-agreement"):
    """Share of people about whom a model of the release says the same as a model of the original.

    DDMBAR: the same algorithm builds V from the original X and V' from the release X'; the value is the share of
    records x with V(x) = V'(x'), x' the published version of x. It stands for attributes that are not in the data but
    follow from it: what the original's model would say of a person is what an intruder with the release finds out.
    Numbers count as the same when they differ by at most percent · σ / 100, σ the standard deviation of the
    original's target.

    Beside it: `chance`, the agreement of two models with these frequencies that have nothing to do with each other
    (for numbers: of predictions paired at random), `kappa`, the agreement above chance, and `agree_and_right`, the
    share on which both also give the true value. Both models are asked about the records they were trained on, as the
    definition has it: a model that learns by heart (a full tree, one neighbor) turns the figure into the share of
    unchanged values; the default tree stops at five records a leaf. Time: two fits.

    References
    ----------
    Torra (2022), A guide to data privacy, algorithm for absent attributes; catalogue R6.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> measure = dc.ModelAgreement(target="education", features=["age", "income", "hours"])
    >>> noisy = dc.AdditiveNoise(columns=["age", "income", "hours"], sd_share=1)(people, seed=7)
    >>> measure(people, people).value, measure(people, noisy).value < 0.7
    (1.0, True)
    """

    target: str = ""
    """column whose model is built; without it, the only sensitive column"""
    features: Columns = ()
    """columns the models predict from; without it, the quasi-identifiers"""
    model: ModelField = Model("tree")
    """tree, forest, boosting, nearest, logit, linear, or a scikit-learn class such as sklearn.svm:SVC"""
    percent: float = Field(10.0, gt=0)
    """for a numeric target: how close the two predictions must be, in percent of the standard deviation"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit both models and compare what they say."""
        target = choose_target(original, self.target, self.kind)
        features = choose_features(original, released, self.features, target, who=self.kind, quasi=True)
        case = build_case(original, released, features, target, who=self.kind)
        rng = ctx.rng
        seed = next(seeds(rng))
        rows = np.arange(len(case.known))
        ctx.progress(0, 2, f"{self.kind}: original")
        ours = fit(self.model, case.task, case.original, case.truth, rows, seed).predict(case.original)
        ctx.progress(1, 2, f"{self.kind}: release")
        theirs = fit(self.model, case.task, case.published, case.published_target, rows, seed).predict(case.published)
        ctx.progress(2, 2, self.kind)
        truth = target_array(case.truth)
        if case.task == "classification":
            same, chance = ours == theirs, chance_agreement(ours, theirs)
            right = same & (ours == truth)
            value = agreement(ours, theirs)
        else:
            near = self.percent / 100 * _sd(truth[case.tested])
            same, chance = np.abs(ours - theirs) <= near, _chance_near(ours, theirs, near)
            right = same & (np.abs(ours - truth) <= near) & (np.abs(theirs - truth) <= near)
            value = float(same.mean())
        return self.score(
            value,
            f"A model of {target!r} built on the release says the same as one built on the original for "
            f"{as_percent(value)} of people ({as_percent(chance)} by chance).",
            per_record=case.back(same.astype(np.float64)),
            chance=chance,
            kappa=(value - chance) / (1 - chance) if chance < 1 else None,
            agree_and_right=float(right[case.tested].mean()),
            target=target,
            features=list(features),
            model=self.model.title,
        )


def _sd(x: Floats) -> float:
    return float(x.std(ddof=1)) if len(x) > 1 else 0.0


def _chance_near(ours: Floats, theirs: Floats, near: float) -> float:
    """Give the share of all pairs of predictions that are this close, in O(n log n)."""
    ranked = np.sort(theirs)
    low = np.searchsorted(ranked, ours - near, side="left")
    high = np.searchsorted(ranked, ours + near, side="right")
    return float((high - low).sum() / (len(ours) * len(theirs)))


class ModelDisclosure(RiskShare, kind="model-disclosure"):
    """Share of people whose secret a model learned from the release predicts right.

    An intruder fits `model` to the published records and predicts `target` from what they know of a person, the
    original values of `features` (at the detail of the release). The value is cross-validated over people: nobody's
    own record is in the data that the model was trained on when that person is predicted. A category is disclosed
    when the prediction is right, a number when |true − predicted| ≤ percent · σ / 100, σ the standard deviation of
    the original column.

    Beside it stand the baselines: `majority` (always the published data's most frequent category, or its mean), and
    `with_record` against `control`: the share for people whose record is in the training data, and for the same
    people without it. What `control` reaches above `majority` is knowledge about the population, which nobody can
    withhold from useful data; `due_to_record`, their difference, is what publishing the person's own record adds.
    With `scan`, all sets of up to that many features are tried: a good prediction from few attributes is the one to
    worry about.

    With `truth: released` the published records themselves are predicted, each by a model that has not seen it: the
    release alone is enough.

    With `sample`, a random part of large data is attacked: one of the `folds` is predicted, by a model trained on the
    others. More records would teach an intruder more: a model trained on half as many (`with_half`) shows how fast that
    goes, and `interval` reaches from the sampling error below to what is found if every further doubling, up to the
    whole release, adds as much as the last one, with the sampling error above.

    People without a true value are left out, published records without the target do not train. Does not see attributes
    that are not in the data (see `ModelAgreement`). Time: `folds` + 1 fits, times the number of sets in a scan; three
    fits with `sample`.

    References
    ----------
    Torra (2022), A guide to data privacy, section on attribute disclosure; catalogue R5.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(2000, seed=1)
    >>> attack = dc.ModelDisclosure(target="income", features=["age", "education", "hours"], percent=20)
    >>> score = attack(people, people)
    >>> score.detail["with_record"] > score.detail["control"] > score.detail["majority"]
    True
    """

    target: str = ""
    """column to predict; without it, the only sensitive column"""
    features: Columns = ()
    """columns the intruder knows; without it, the quasi-identifiers"""
    model: ModelField = Model("tree")
    """tree, forest, boosting, nearest, logit, linear, or a scikit-learn class such as sklearn.svm:SVC"""
    percent: float = Field(10.0, gt=0)
    """for a numeric target: how close a prediction must come, in percent of the standard deviation"""
    folds: int = Field(5, ge=2)
    """parts into which people are divided; each is predicted by a model trained on the others"""
    scan: int = Field(0, ge=0)
    """also try all sets of up to this many features (0: do not)"""

    sample: int = Field(0, ge=0)
    """records drawn at random to train and test with, where there are more; 0: everybody, who is then predicted"""

    truth: Literal["original", "released"] = "original"
    """whose values are predicted: those of the original's people (rows must match), or of the published records"""

    scale: ClassVar[Scale] = "sampled"
    screens_with: ClassVar[int | None] = 5_000

    def run(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Attack the release; with `truth: released` it needs nothing else."""
        return super().run(released if self.truth == "released" else original, released, ctx)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Train on the release, predict the original."""
        target = choose_target(original, self.target, self.kind)
        features = choose_features(original, released, self.features, target, who=self.kind, quasi=True)
        everybody = len(released)
        spread = _spread(original, released, target)
        if self.sample and everybody >= self.sample:
            drawn = np.sort(ctx.within("sample").rng.choice(everybody, self.sample, replace=False))
            original, released = original.take(drawn), released.take(drawn)
        case = build_case(original, released, features, target, who=self.kind)
        attack = _Attack(
            case, self.model, self.percent / 100 * spread, self.folds, ctx, one_part=everybody >= self.sample > 0
        )
        tested = attack.tested
        hit = attack.cross_validated(features)
        value, with_record = float(hit[tested].mean()), float(attack.with_record()[tested].mean())
        majority = float(attack.majority()[tested].mean())
        low, high = wilson(int(hit[tested].sum()), int(tested.sum()))
        detail: dict[str, Any] = {
            "target": target,
            "features": list(features),
            "model": self.model.title,
            "control": value,
            "with_record": with_record,
            "due_to_record": with_record - value,
            "majority": majority,
            "chance": majority,
            "interval": [low, high],
            "people_tested": int(tested.sum()),
        }
        told = ""
        if attack.one_part:
            half = float(attack.cross_validated(features, share=0.5)[tested].mean())
            trained = len(attack.training(0))
            more = max(value - half, 0.0) * np.log2(everybody / trained)
            detail |= {"trained_on": trained, "with_half": half, "interval": [low, float(min(high + more, 1.0))]}
            told = (
                f" Measured on {int(tested.sum()):,} people with a model of {trained:,} of the {everybody:,} records; "
                f"over everybody it may be between {as_percent(low)} and {as_percent(detail['interval'][1])}."
            )
        if case.task == "regression":
            detail["half_width"] = attack.half_width
        if self.scan:
            detail["scan"] = attack.scan(self.scan, majority)
        how = "" if case.task == "classification" else f" (to {self.percent:g}% of a standard deviation)"
        return self.score(
            value,
            f"A model trained on the release predicts {target!r}{how} right for {as_percent(value)} of people whose "
            f"own record it has not seen, {as_percent(with_record)} with it; guessing gives {as_percent(majority)}."
            f"{told}",
            per_record=None if attack.one_part else case.back(hit.astype(np.float64)),
            **detail,
        )


@dataclass
class _Attack:
    """The predictions of one attack; folds and seeds are the same for every set of features."""

    case: Case
    model: Model
    half_width: float
    """how close a predicted number must come"""
    parts: int
    ctx: Context
    one_part: bool = False
    """predict the people of one part only"""
    done: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        rng = self.ctx.rng
        if not self.model.supports(self.case.task):
            raise PlanError(f"model: {self.model.title} is not a model for {self.case.task} (the target's type)")
        self.fold: Ints = folds(self.case.truth, self.parts, rng)
        self.seeds: Iterator[int] = seeds(rng)
        self.seed = next(self.seeds)
        self.total = self.total or (3 if self.one_part else self.parts + 1)

    @property
    def tested(self) -> Bools:
        """Tell who is predicted."""
        return self.case.tested & (self.fold == 0) if self.one_part else self.case.tested

    def training(self, part: int) -> Ints:
        """Give the published rows from which the people of a part are predicted."""
        return self.case.training_rows(self.fold, part)

    def _hits(self, predicted: NDArray[Any], rows: Ints) -> Bools:
        truth = target_array(self.case.truth)[rows]
        if self.case.task == "classification":
            return np.asarray(predicted == truth)
        return np.asarray(np.abs(predicted - truth) <= self.half_width)

    def _step(self, label: str) -> None:
        self.ctx.progress(self.done, self.total, label)
        self.done += 1

    def cross_validated(self, columns: tuple[str, ...], label: str = "model-disclosure", share: float = 1.0) -> Bools:
        """Tell for each person whether a model without their record is right; `share` of the others train it."""
        published, known = self.case.published.only(columns), self.case.known.only(columns)
        hit = np.zeros(len(known), dtype=np.bool_)
        for part in range(1 if self.one_part else self.parts):
            self._step(label)
            rows = self.training(part)
            if share < 1:
                rows = np.sort(self.ctx.within("share").rng.choice(rows, int(share * len(rows)), replace=False))
            fitted = fit(self.model, self.case.task, published, self.case.published_target, rows, self.seed)
            people = np.flatnonzero((self.fold == part) & self.case.tested)
            hit[people] = self._hits(fitted.predict(known.take(people)), people)
        return hit

    def with_record(self) -> Bools:
        """Tell for each person whether a model trained on everybody's record is right."""
        self._step("model-disclosure: with record")
        everybody = np.arange(len(self.case.published))
        case = self.case
        fitted = fit(self.model, case.task, case.published, case.published_target, everybody, self.seed)
        return self._hits(fitted.predict(case.known), np.arange(len(case.known))) & self.tested

    def majority(self) -> Bools:
        """Tell for each person whether the most frequent published category, or the published mean, is right."""
        published = self.case.published_target
        values = target_array(published)[~published.missing]
        guess = values.mean() if isinstance(published, Numbers) else np.bincount(values).argmax()
        n = len(self.case.known)
        return self._hits(np.full(n, guess), np.arange(n)) & self.tested

    def scan(self, most: int, majority: float) -> list[dict[str, Any]]:
        """Try every small set of features; the best first, smaller sets before larger ones of the same share."""
        features = self.case.features
        sizes = range(1, min(most, len(features)) + 1)
        parts = 1 if self.one_part else self.parts
        self.done, self.total = 0, sum(comb(len(features), size) for size in sizes) * parts
        found = []
        for size in sizes:
            for columns in combinations(features, size):
                hit = self.cross_validated(columns, "model-disclosure: scan")
                share = float(hit[self.tested].mean())
                found.append({"features": list(columns), "share": share, "above_majority": share - majority})
        self.ctx.progress(self.total, self.total, "model-disclosure: scan")
        return sorted(found, key=lambda row: (-row["share"], len(row["features"]), row["features"]))


def _spread(original: Dataset, released: Dataset, target: str) -> float:
    """Give the standard deviation of the original column, if it is one of numbers in the detail of the release."""
    truth = outside_view(original, released, target, aligned=True)[0]
    there = target_array(truth)[~truth.missing]
    return float(there.std(ddof=1)) if isinstance(truth, Numbers) and len(there) > 1 else 0.0
