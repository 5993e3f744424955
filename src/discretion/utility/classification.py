"""Does a classifier trained on the release classify like one trained on the original? (U11)"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.learning.compare import agreement, precision_recall
from discretion.learning.estimators import Model, ModelField
from discretion.learning.fitting import target_array
from discretion.learning.trials import Trial, run_trial
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns


class ClassificationUtility(Measure, kind="classification-utility"):
    """Share of people that a classifier trained on the release classifies right.

    The same model is trained on the original and on the release, and both are tested on the same held-out original
    rows: people are divided into folds, and neither model sees the records of the fold it is tested on. The value is
    the accuracy of the model trained on the release; the detail has that of the original's (`original`), the
    `difference`, the `agreement` of the two predictions (the loss in the sense of the source: not how good the model
    is, but how much it matters which data it was trained on), the `majority` baseline, precision and recall of each
    class, and the two models compared (leaves and depth, columns they split on, importances, coefficients) where
    their kind allows.

    Weights (role `weight`) count in training and testing. Features that were generalized are generalized for the
    tested rows too. Rows without a target are left out. Where rows cannot be matched (synthetic data) the model is
    trained on the whole release. Time: 2 · `folds` + 2 fits.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue U11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["age", "income"], sd_share=0.5)(people, seed=7)
    >>> score = dc.ClassificationUtility(target="marital_status", features=["age", "income", "sex"])(people, noisy)
    >>> score.detail["majority"] < score.value < score.detail["original"]
    True
    """

    target: str = ""
    """column with the classes; without it, the only sensitive column"""
    features: Columns = ()
    """columns to predict from; without it, all but identifiers, weights and households"""
    model: ModelField = Model("tree")
    """tree, forest, boosting, nearest, logit, or a scikit-learn class such as sklearn.svm:SVC"""
    folds: int = Field(5, ge=2)
    """parts into which people are divided; each is classified by models trained on the others"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Train on both, test on the original."""
        trial = run_trial(
            original, released, self.target, self.features, self.model, self.folds, "classification", self.kind, ctx
        )
        truth, w = target_array(trial.case.truth)[trial.tested], trial.weights
        value, ours = agreement(trial.theirs, truth, w), agreement(trial.ours, truth, w)
        names = trial.case.names
        return self.score(
            value,
            f"A classifier trained on the release is right for {as_percent(value)} of people it has not seen, one "
            f"trained on the original for {as_percent(ours)}; they agree on "
            f"{as_percent(agreement(trial.ours, trial.theirs, w))}.",
            original=ours,
            difference=ours - value,
            agreement=agreement(trial.ours, trial.theirs, w),
            majority=_majority(trial),
            per_class={
                "original": precision_recall(truth, trial.ours, names, w),
                "released": precision_recall(truth, trial.theirs, names, w),
            },
            structure=trial.structure,
            **trial.facts(),
        )


def _majority(trial: Trial) -> float:
    """Give the accuracy of always saying the most frequent class of the tested people."""
    truth = target_array(trial.case.truth)[trial.tested]
    counts = np.bincount(truth, weights=trial.weights)
    return float(counts.max() / counts.sum())
