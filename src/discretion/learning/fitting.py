"""Fit models and ask them about other rows; folds, comparison of two models, shadow models."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values
from discretion.learning.estimators import Model, Task
from discretion.learning.values import Design, filled, medians_of

# Compare two models: by what they predict, and by how they are built.


def agreement(one: NDArray[Any], other: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the share of rows on which two predictions are the same."""
    return float(np.average(one == other, weights=weights))


def chance_agreement(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Give the share on which unrelated predictions with these frequencies would agree."""
    first, second = Counter(one.tolist()), Counter(other.tolist())
    return sum(count * second[value] for value, count in first.items()) / (len(one) * len(other))


def precision_recall(
    truth: Ints, predicted: NDArray[Any], names: tuple[str, ...], weights: Floats | None = None
) -> dict[str, dict[str, float | None]]:
    """Give precision and recall of each class, None where nothing was predicted or nothing is there."""
    w = np.ones(len(truth)) if weights is None else weights
    found: dict[str, dict[str, float | None]] = {}
    for code, name in enumerate(names):
        right = float(w[(truth == code) & (predicted == code)].sum())
        said, there = float(w[predicted == code].sum()), float(w[truth == code].sum())
        found[name] = {
            "precision": right / said if said > 0 else None,
            "recall": right / there if there > 0 else None,
        }
    return found


def describe(fitted: Fitted, design: Design) -> dict[str, Any]:
    """Say how a model is built, as far as its kind allows: tree, importance of the columns, coefficients."""
    core = fitted.estimator
    if core is not None and getattr(core, "steps", None):
        core = core.steps[-1][1]
    found: dict[str, Any] = {}
    if (tree := getattr(core, "tree_", None)) is not None:
        splits = [design.sources[int(place)] for place in tree.feature if place >= 0]
        found |= {"leaves": int(tree.n_leaves), "depth": int(tree.max_depth), "split_columns": splits}
    if (weights := getattr(core, "feature_importances_", None)) is not None and len(weights) == len(design.names):
        found["importance"] = _per_source(np.asarray(weights), design)
    coefficients = getattr(core, "coef_", None)
    if coefficients is not None and np.shape(coefficients)[-1] == len(design.names):
        rows = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        found["coefficients"] = {name: [float(v) for v in rows[:, j]] for j, name in enumerate(design.names)}
    return found


def _per_source(weights: Floats, design: Design) -> dict[str, float]:
    found = dict.fromkeys(dict.fromkeys(design.sources), 0.0)
    for source, weight in zip(design.sources, weights, strict=True):
        found[source] += float(weight)
    return found


def compare_structure(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Compare two descriptions: shared splits, distance of importances (0 to 1), distance of coefficients."""
    found: dict[str, Any] = {"original": one, "released": other}
    if "split_columns" in one and "split_columns" in other:
        first, second = Counter(one["split_columns"]), Counter(other["split_columns"])
        union = sum((first | second).values())
        found["same_first_split"] = one["split_columns"][:1] == other["split_columns"][:1]
        found["shared_splits"] = sum((first & second).values()) / union if union else 1.0
    if "importance" in one and "importance" in other:
        gaps = [abs(weight - other["importance"].get(name, 0.0)) for name, weight in one["importance"].items()]
        found["importance_distance"] = float(sum(gaps) / 2)
    if "coefficients" in one and "coefficients" in other:
        found["coefficient_distance"] = _coefficient_distance(one["coefficients"], other["coefficients"])
    return found


def _coefficient_distance(one: dict[str, list[float]], other: dict[str, list[float]]) -> float | None:
    """Give ‖difference‖ / ‖original's‖ over the coefficients that both have; None where they cannot be compared."""
    shared = [name for name in one if name in other and len(one[name]) == len(other[name])]
    first, second = (np.array([v for name in shared for v in side[name]]) for side in (one, other))
    size = float(np.linalg.norm(first))
    return float(np.linalg.norm(first - second)) / size if size > 0 else None


# Shadow models: learn from models of one's own how a model treats the records it was trained on (R7).
#
# The intruder has records like those of the training data and knows the algorithm. They train shadow models on random
# halves, note how each shadow treats records it has and has not seen, learn from that a classifier "seen or not", and
# apply it to the model under attack. The signals are the confidence in the true value (as a logit; for numbers minus
# the absolute error in standard deviations), the same compared with what shadows say that have not seen the record,
# and whether the prediction is right.

SURE = 1e-6
"""Probabilities are kept this far from 0 and 1, so that their logits are finite."""


@dataclass(frozen=True)
class Pool:
    """Records that an intruder asks models about, and the same records as they would be trained on."""

    task: Task
    asked: Design
    truth: Values
    trained: Design
    trained_truth: Values

    def __len__(self) -> int:
        return len(self.asked)


def confidence(fitted: Fitted, pool: Pool) -> Floats:
    """Give how sure a model is of the true value of each record."""
    if isinstance(pool.truth, Numbers):
        truth = pool.truth.values
        return -np.abs(np.asarray(fitted.predict(pool.asked)) - truth) / max(float(truth.std()), 1e-300)
    shares = fitted.probabilities(pool.asked, len(pool.truth.names))
    true_share = np.clip(shares[np.arange(len(pool)), pool.truth.codes], SURE, 1 - SURE)
    return np.asarray(np.log(true_share / (1 - true_share)), dtype=np.float64)


def _right(fitted: Fitted, pool: Pool) -> Floats:
    if not isinstance(pool.truth, Labels):
        return np.zeros(len(pool))
    return np.asarray(fitted.predict(pool.asked) == target_array(pool.truth), dtype=np.float64)


@dataclass(frozen=True)
class Shadows:
    """What the shadow models say of every record, and which had seen it."""

    seen: Bools
    confidence: Floats
    right: Floats
    weights: Floats
    """of the attack's classifier: for each standardized signal, and the constant"""
    center: Floats
    scale: Floats

    def score(self, confidence: Floats, right: Floats) -> Floats:
        """Give the log-odds that a model with these signals has seen each record."""
        signals = _signals(confidence, right, _unseen_mean(self.seen, self.confidence))
        return np.asarray((signals - self.center) / self.scale @ self.weights[:-1] + self.weights[-1])


def _unseen_mean(seen: Bools, confidence: Floats, leave_out: int = -1) -> Floats:
    """Give the mean confidence in each record of the shadows that have not seen it (of all, where each has)."""
    use = ~seen
    if leave_out >= 0:
        use = use.copy()
        use[leave_out] = False
    count = use.sum(axis=0)
    mean = (confidence * use).sum(axis=0) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, confidence.mean(axis=0)))


def _signals(confidence: Floats, right: Floats, unseen: Floats) -> Floats:
    return np.column_stack([confidence, confidence - unseen, right])


def train_shadows(pool: Pool, model: Model, number: int, size: int, rng: np.random.Generator, ctx: Context) -> Shadows:
    """Train shadow models on random sets of records and learn what gives away a record that was seen."""
    draws = seeds(rng)
    seen = np.zeros((number, len(pool)), dtype=np.bool_)
    sure, right = np.zeros((number, len(pool))), np.zeros((number, len(pool)))
    for shadow in range(number):
        ctx.progress(shadow, number, "membership-inference: shadows")
        rows = np.sort(rng.permutation(len(pool))[:size])
        seen[shadow, rows] = True
        fitted = train(pool, model, rows, next(draws))
        sure[shadow], right[shadow] = confidence(fitted, pool), _right(fitted, pool)
    ctx.progress(number, number, "membership-inference: shadows")
    signals = np.vstack([_signals(sure[i], right[i], _unseen_mean(seen, sure, i)) for i in range(number)])
    center, scale = signals.mean(axis=0), signals.std(axis=0)
    scale[scale == 0] = 1.0
    return Shadows(seen, sure, right, _learn((signals - center) / scale, seen.ravel()), center, scale)


def train(pool: Pool, model: Model, rows: Ints, seed: int) -> Fitted:
    """Train a model on some records of a pool."""
    return fit(model, pool.task, pool.trained, pool.trained_truth, rows, seed)


def attack(shadows: Shadows, pool: Pool, fitted: Fitted) -> Floats:
    """Give each record the log-odds that this model was trained on it."""
    return shadows.score(confidence(fitted, pool), _right(fitted, pool))


def _learn(signals: Floats, seen: Bools) -> Floats:
    """Fit the attack's classifier: a logistic regression of "seen" on the signals."""
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=1000).fit(signals, seen)
    return np.append(classifier.coef_[0], classifier.intercept_[0])


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
