"""Data-driven model-based attribute disclosure: do models of the original and of the release agree? (R6)"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats
from discretion.learning.cases import build_case
from discretion.learning.estimators import Model, ModelField
from discretion.learning.fitting import agreement, chance_agreement, fit, seeds, target_array
from discretion.learning.values import choose_features, choose_target
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family


class ModelAgreement(Measure, kind="model-agreement"):
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

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

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
