"""Losses that look at whole classes: average class size, discernibility, ambiguity. Conventions: see `losses`."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from discretion.anonymize.losses import (
    AggregateName,
    EntropyLoss,
    Floats,
    HeightLoss,
    Ints,
    LeafLoss,
    Loss,
    LossName,
    Outcome,
    PrecisionLoss,
)
from discretion.anonymize.records import Classes, Records, RollUp, Steps
from discretion.kernels.rollup import sum_of_products


class _ClassLoss(Loss):
    """A loss that looks at the classes as a whole."""

    def floor_everywhere(self) -> Floats:
        """Bound by the number of groups of each column alone."""
        axes = len(self.records.axes)
        total: Floats = np.zeros([1] * axes)
        for place, axis in enumerate(self.records.axes):
            sizes = self._terms(place, axis.steps)
            total = total + sizes.reshape([-1 if place == other else 1 for other in range(axes)])
        return np.asarray(self._from_terms(total))

    def _terms(self, place: int, steps: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.log(np.array(self.records.axes[place].sizes, float)))

    @abstractmethod
    def _from_terms(self, total: Floats) -> Floats:
        """Give the bound from the sum of the columns' terms."""


class _AverageClassLoss(_ClassLoss):
    """`aecs`: records per class."""

    counts_classes = True

    def _value(self, classes: Floats, extra: Floats | float) -> Floats:
        with np.errstate(divide="ignore"):  # nothing kept and nothing that counts instead: infinitely bad
            return np.asarray(self.n / (self.suppression * classes + self.generalization * extra))

    def _from_terms(self, total: Floats) -> Floats:
        return self._value(np.exp(np.minimum(total, np.log(self.n))), 1.0)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        return self._value(np.full(len(least), float(self.n)) if most is None else most, 1.0)

    def score(self, outcome: Outcome) -> float:
        return float(self._value(np.array(float(outcome.kept)), float(outcome.suppressed > 0)))


class _DiscernibilityLoss(_ClassLoss):
    """`discernibility`: the records each record cannot be told from."""

    counts_classes = True

    def _value(self, classes: Floats, least: Ints | float) -> Floats:
        spread = (self.n - least) ** 2 / np.maximum(classes, 1.0) + self.n * np.asarray(least, float)
        return np.asarray(np.where(classes < 2, np.minimum(spread, 0.75 * self.n**2), spread))

    def _from_terms(self, total: Floats) -> Floats:
        return self._value(np.exp(np.minimum(total, np.log(self.n))), 0.0)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        return self._value(np.full(len(least), float(self.n)) if most is None else most, least.astype(float))

    def score(self, outcome: Outcome) -> float:
        return outcome.squares + float(self.n) * outcome.suppressed


class _AmbiguityLoss(_ClassLoss):
    """`ambiguity`: the combinations of leaves that a class covers."""

    @cached_property
    def _whole(self) -> float:
        return float(np.prod([axis.domain for axis in self.records.axes], dtype=float))

    def _terms(self, place: int, steps: int) -> Floats:  # noqa: ARG002
        """The mean logarithm of the leaves: by convexity a mean of products is at least the product of these."""
        pairs = zip(self.records.marginals[place], self.records.axes[place].leaves, strict=True)
        return np.array([float(counts @ np.log(leaves)) / self.n for counts, leaves in pairs])

    def _from_terms(self, total: Floats) -> Floats:
        return self.n * np.exp(total) * (1 - 1e-12)

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        total, widest = np.zeros(len(steps)), np.ones(len(steps))
        for place, axis in enumerate(self.records.axes):
            total += self._terms(place, axis.steps)[steps[:, place]]
            widest *= np.array([leaves.max() for leaves in axis.leaves], float)[steps[:, place]]
        return self._from_terms(total) + least * (self._whole - widest)

    def class_costs(self, steps: Steps, classes: Classes, roll: RollUp) -> Floats:
        """Multiply records and leaves."""
        cost = classes.counts.astype(float)
        for axis, step, values in zip(self.records.axes, steps, roll.values(classes), strict=True):
            cost *= axis.leaves[step][values]
        return cost

    def score(self, outcome: Outcome) -> float:
        fields, _ = outcome.roll.fields(outcome.steps)
        pairs = zip(self.records.axes, outcome.steps, strict=True)
        factors = np.concatenate([axis.leaves[step] for axis, step in pairs]).astype(float)
        kept = sum_of_products(outcome.classes.keys, outcome.classes.counts, outcome.gone, fields, factors)
        return kept + outcome.suppressed * self._whole


_LOSSES: dict[LossName, tuple[type[Loss], AggregateName]] = {
    "loss": (LeafLoss, "geometric-mean"),
    "height": (HeightLoss, "sum"),
    "precision-loss": (PrecisionLoss, "mean"),
    "aecs": (_AverageClassLoss, "sum"),
    "discernibility": (_DiscernibilityLoss, "sum"),
    "entropy": (EntropyLoss, "sum"),
    "ambiguity": (_AmbiguityLoss, "sum"),
}


def make_loss(
    name: LossName,
    records: Records,
    weights: Floats | None = None,
    factor: float = 0.5,
    aggregate: AggregateName | None = None,
) -> Loss:
    """Give a loss by its name, with its usual aggregate unless another is asked for."""
    kind, usual = _LOSSES[name]
    given = np.ones(len(records.axes)) if weights is None else weights / weights.max()
    return kind(records, given, factor, aggregate or usual)
