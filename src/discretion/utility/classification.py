"""Does a model fitted to the release classify or predict like one fitted to the original? (U11)"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.learning.cases import run_trial
from discretion.learning.estimators import Model, ModelField
from discretion.learning.fitting import agreement, precision_recall, target_array
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns

# Does a regression fitted to the release predict like one fitted to the original? (U11)


class RegressionUtility(Measure, kind="regression-utility"):
    """Share of the variance that a regression fitted to the release explains in people it has not seen.

    The same model is fitted to the original and to the release, and both are tested on the same held-out original
    rows: people are divided into folds, and neither model sees the records of the fold it is tested on. The value is
    R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)² of the model fitted to the release: 1 is perfect, 0 no better than the mean,
    negative worse than it. The detail has that of the original's model (`original`), the `difference`, the root mean
    square errors, how the two predictions agree (`correlation`, and `gap`: root mean square difference in standard
    deviations of the target), and the two models compared (coefficients, trees, importances) where their kind allows.

    Weights (role `weight`) count in fitting and testing. Features that were generalized are generalized for the
    tested rows too. Rows without a target are left out. Where rows cannot be matched (synthetic data) the model is
    fitted to the whole release. Time: 2 · `folds` + 2 fits.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue U11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["age", "hours"], sd_share=1)(people, seed=7)
    >>> measure = dc.RegressionUtility(target="income", features=["age", "hours", "education"])
    >>> score = measure(people, noisy)
    >>> 0 < score.value < score.detail["original"]
    True
    """

    target: str = ""
    """numeric column to explain; without it, the only sensitive column"""
    features: Columns = ()
    """columns to predict from; without it, all but identifiers, weights and households"""
    model: ModelField = Model("linear")
    """linear, tree, forest, boosting, nearest, or a scikit-learn class such as sklearn.svm:SVR"""
    folds: int = Field(5, ge=2)
    """parts into which people are divided; each is predicted by models fitted to the others"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (None, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit to both, test on the original."""
        trial = run_trial(
            original, released, self.target, self.features, self.model, self.folds, "regression", self.kind, ctx
        )
        truth = target_array(trial.case.truth)[trial.tested]
        w = np.ones(len(truth)) if trial.weights is None else trial.weights
        variance = float(np.average((truth - np.average(truth, weights=w)) ** 2, weights=w))
        if variance == 0:
            raise DataError(f"{self.kind}: the target {trial.case.target!r} is constant; there is nothing to explain")
        ours, theirs = _mse(truth, trial.ours, w), _mse(truth, trial.theirs, w)
        value = 1 - theirs / variance
        return self.score(
            value,
            f"A regression fitted to the release explains {value:.1%} of the variance in people it has not seen, one "
            f"fitted to the original {1 - ours / variance:.1%}.",
            original=1 - ours / variance,
            difference=(theirs - ours) / variance,
            rmse={"original": float(np.sqrt(ours)), "released": float(np.sqrt(theirs))},
            correlation=_correlation(trial.ours, trial.theirs, w),
            gap=float(np.sqrt(_mse(trial.ours, trial.theirs, w) / variance)),
            structure=trial.structure,
            **trial.facts(),
        )


def _mse(one: Floats, other: Floats, weights: Floats) -> float:
    return float(np.average((one - other) ** 2, weights=weights))


def _correlation(one: Floats, other: Floats, weights: Floats) -> float | None:
    """Give the weighted correlation of two predictions; None where one of them is constant."""
    a, b = one - np.average(one, weights=weights), other - np.average(other, weights=weights)
    size = float(np.sqrt(np.average(a * a, weights=weights) * np.average(b * b, weights=weights)))
    return float(np.average(a * b, weights=weights)) / size if size > 0 else None


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
        counts, names = np.bincount(truth, weights=w), trial.case.names
        return self.score(
            value,
            f"A classifier trained on the release is right for {as_percent(value)} of people it has not seen, one "
            f"trained on the original for {as_percent(ours)}; they agree on "
            f"{as_percent(agreement(trial.ours, trial.theirs, w))}.",
            original=ours,
            difference=ours - value,
            agreement=agreement(trial.ours, trial.theirs, w),
            majority=float(counts.max() / counts.sum()),
            per_class={
                "original": precision_recall(truth, trial.ours, names, w),
                "released": precision_recall(truth, trial.theirs, names, w),
            },
            structure=trial.structure,
            **trial.facts(),
        )
