"""Fit a model to some rows of a design and ask it about others; divide people into folds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError, PlanError
from discretion.learning.designs import Design, filled, medians_of
from discretion.learning.estimators import Model, Task
from discretion.learning.values import Floats, Ints, Labels, Numbers, Values

LARGEST_SEED = 2**32
"""scikit-learn takes seeds below this."""


@dataclass(frozen=True)
class Fitted:
    """A fitted model; classes are codes of the target's names."""

    estimator: Any
    """None where the training rows had one class only: it is always predicted"""
    medians: Floats
    classes: Ints
    weighted: bool
    converged: bool

    def predict(self, design: Design) -> NDArray[Any]:
        """Predict the target of each row: a code or a number."""
        if not len(design):
            return np.zeros(0)
        if self.estimator is None:
            return np.full(len(design), self.classes[0])
        return np.asarray(self.estimator.predict(filled(design.x, self.medians)))

    def probabilities(self, design: Design, classes: int) -> Floats:
        """Give the probability of each class; a model without probabilities is sure of what it predicts."""
        shares = np.zeros((len(design), classes))
        if self.estimator is None or not hasattr(self.estimator, "predict_proba"):
            shares[np.arange(len(design)), self.predict(design).astype(np.int64)] = 1.0
        else:
            shares[:, self.classes] = self.estimator.predict_proba(filled(design.x, self.medians))
        return shares


def target_array(values: Values) -> NDArray[Any]:
    """Give a target as models take it: codes or numbers."""
    return values.values if isinstance(values, Numbers) else values.codes


def fit(
    model: Model, task: Task, design: Design, target: Values, rows: Ints, seed: int, weights: Floats | None = None
) -> Fitted:
    """Fit a model to the given rows that have a target."""
    rows = rows[~target.missing[rows]]
    if not len(rows):
        raise DataError("no row to train the model on has a value of the target")
    x, y = design.x[rows], target_array(target)[rows]
    medians = medians_of(x)
    classes = np.unique(y).astype(np.int64) if task == "classification" else np.zeros(0, dtype=np.int64)
    if len(classes) == 1:
        return Fitted(None, medians, classes, True, True)
    estimator = model.build(task, seed)
    keyword = None if weights is None else weight_keyword(estimator)
    given = {} if keyword is None or weights is None else {keyword: weights[rows]}
    converged = run_quietly(model, lambda: estimator.fit(filled(x, medians), y, **given))
    return Fitted(estimator, medians, classes, weights is None or keyword is not None, converged)


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_quietly(model: Model, work: Any) -> bool:
    """Fit in one thread, turning refusals into a PlanError; tell whether the model converged.

    Sums over several threads are rounded differently from run to run; the same seed must give the same figure. An
    estimator with `n_jobs` of its own may still work in parallel.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught, _threads().limit(limits=1):
        warnings.simplefilter("always")
        try:
            work()
        except (ValueError, TypeError) as error:
            raise PlanError(f"model: {model.title} cannot be fitted to this data: {error}") from None
    return not any(issubclass(item.category, ConvergenceWarning) for item in caught)


def weight_keyword(estimator: Any) -> str | None:
    """Give the keyword by which an estimator (or the last step of a pipeline) takes weights, if it does."""
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    if steps:
        name, last = steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def seeds(rng: np.random.Generator) -> Iterator[int]:
    """Draw seeds for estimators."""
    while True:
        yield int(rng.integers(LARGEST_SEED))


def folds(target: Values, number: int, rng: np.random.Generator) -> Ints:
    """Divide people into folds at random, each class evenly; gives the fold of each."""
    n = len(target.missing)
    if n < number:
        raise DataError(f"{n} rows cannot be divided into {number} folds; give fewer `folds` or more rows")
    shuffled = rng.permutation(n)
    if isinstance(target, Labels):
        shuffled = shuffled[np.argsort(target.codes[shuffled], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[shuffled] = np.arange(n) % number
    return fold
