"""Shadow models: learn from models of one's own how a model treats the records it was trained on (R7).

The intruder has records like those of the training data and knows the algorithm. They train shadow models on random
halves, note how each shadow treats records it has and has not seen, learn from that a classifier "seen or not", and
apply it to the model under attack. The signals are the confidence in the true value (as a logit; for numbers minus
the absolute error in standard deviations), the same compared with what shadows say that have not seen the record, and
whether the prediction is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools
from discretion.learning.designs import Design
from discretion.learning.estimators import Model, Task
from discretion.learning.fitting import Fitted, fit, seeds, target_array
from discretion.learning.values import Floats, Ints, Labels, Numbers, Values

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
