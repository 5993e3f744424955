"""A prediction from a release (features and target as published, as known outside, as they are), and its trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Purpose, Values, merge, outside_view, read_column
from discretion.learning.estimators import Model, Task
from discretion.learning.fitting import Fitted, compare_structure, describe, fit, folds, seeds
from discretion.learning.values import Design, choose_features, choose_target, content_order, encode, weights_of
from discretion.measure import align

# The same model trained on the original and on the release, both tested on the same held-out original rows.


@dataclass(frozen=True)
class Trial:
    """What both models say about the tested people; `weights` are theirs."""

    case: Case
    model: Model
    tested: Ints
    ours: NDArray[Any]
    """predictions of the model trained on the original"""
    theirs: NDArray[Any]
    """predictions of the model trained on the release"""
    weights: Floats | None
    structure: dict[str, Any]
    weighted: bool
    not_converged: int

    def facts(self) -> dict[str, Any]:
        """Give what every report of a trial says."""
        return {
            "target": self.case.target,
            "features": list(self.case.features),
            "model": self.model.title,
            "people_tested": len(self.tested),
            "held_out_by_person": self.case.aligned,
            "weights": "none"
            if self.weights is None
            else "in training and test"
            if self.weighted
            else "in the test only",
            "fits_not_converged": self.not_converged,
        }


def run_trial(
    original: Dataset,
    released: Dataset,
    target: str,
    features: Sequence[str],
    model: Model,
    parts: int,
    task: Task,
    who: str,
    ctx: Context,
) -> Trial:
    """Train and test fold by fold, then compare the models trained on everybody."""
    model.build(task)
    target = choose_target(original, target, who)
    chosen = choose_features(original, released, features, target, who=who, quasi=False)
    original, released, aligned = match_rows(original, released, who)
    case = build_case(original, released, chosen, target, who=who, task=task, aligned=aligned, weighted=True)
    rng = ctx.rng
    fold, seed = folds(case.truth, parts, rng), next(seeds(rng))
    ours, theirs = np.zeros(len(case.known)), np.zeros(len(case.known))
    fits: list[Fitted] = []
    for part in range(parts):
        ctx.progress(part, parts + 1, who)
        people = np.flatnonzero((fold == part) & case.tested)
        one, other = _fit_both(case, model, np.flatnonzero(fold != part), case.training_rows(fold, part), seed)
        ours[people] = one.predict(case.original.take(people))
        theirs[people] = other.predict(case.known.take(people))
        fits += [one, other]
    ctx.progress(parts, parts + 1, who)
    whole = _fit_both(case, model, np.arange(len(case.known)), np.arange(len(case.published)), seed)
    ctx.progress(parts + 1, parts + 1, who)
    tested = np.flatnonzero(case.tested)
    return Trial(
        case,
        model,
        tested,
        ours[tested],
        theirs[tested],
        None if case.weights is None else case.weights[tested],
        compare_structure(describe(whole[0], case.original), describe(whole[1], case.published)),
        all(fitted.weighted for fitted in fits),
        sum(not fitted.converged for fitted in fits),
    )


def _fit_both(case: Case, model: Model, ours: Ints, theirs: Ints, seed: int) -> tuple[Fitted, Fitted]:
    return (
        fit(model, case.task, case.original, case.truth, ours, seed, case.weights),
        fit(model, case.task, case.published, case.published_target, theirs, seed, case.published_weights),
    )


@dataclass(frozen=True)
class Case:
    """Rows are ordered by what they hold, so that the order of the file does not matter; `order` leads back to it."""

    task: Task
    features: tuple[str, ...]
    target: str
    original: Design
    """the original's features in their own detail"""
    known: Design
    """the original's features in the detail of the release"""
    published: Design
    truth: Values
    """the original's target, in the detail of the release"""
    published_target: Values
    weights: Floats | None
    published_weights: Floats | None
    order: Ints
    """the row of the original at each place"""
    aligned: bool
    """place i of the original and of the release is the same person"""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the target."""
        return self.truth.names if isinstance(self.truth, Labels) else ()

    @property
    def tested(self) -> Bools:
        """Tell who can be tested: people whose true value is known."""
        return ~self.truth.missing

    def training_rows(self, fold: Ints, left_out: int) -> Ints:
        """Give the published rows that do not belong to the people of a fold; all, where rows are not matched."""
        if not self.aligned:
            return np.arange(len(self.published))
        return np.flatnonzero(fold != left_out)

    def back(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put values in the order of the original's rows."""
        out = np.empty(len(values))
        out[self.order] = values
        return out


def match_rows(original: Dataset, released: Dataset, who: str) -> tuple[Dataset, Dataset, bool]:
    """Match rows where they can be matched; otherwise say that they are not."""
    try:
        return (*align(original, released, who), True)
    except DataError:
        if released.origin is original.origin and not released.has_new_rows:
            raise
        return original, released, False


def build_case(
    original: Dataset,
    released: Dataset,
    features: Sequence[str],
    target: str,
    *,
    who: str,
    task: Task | None = None,
    aligned: bool = True,
    weighted: bool = False,
) -> Case:
    """Read features and target from both data sets; without a task, the type of the target decides."""
    released.require([target])
    purpose: Purpose = "utility" if task == "regression" else "model"
    truth, published_target = outside_view(
        original, released, target, aligned=aligned, categories=task == "classification", purpose=purpose
    )
    task, truth, published_target = _settle(task, truth, published_target, target, who)
    views = {name: outside_view(original, released, name, aligned=aligned) for name in features}
    weights = weights_of(original, who) if weighted else None
    published_weights = weights_of(released, who) if weighted else None
    ours = [view[0] for view in views.values()] + [truth] + _numbers(weights)
    theirs = [view[1] for view in views.values()] + [published_target] + _numbers(published_weights)
    own = {name: read_column(original, name) for name in features}
    ours += list(own.values())
    order = content_order([*ours, *theirs] if aligned else ours)
    published_order = order if aligned else content_order(theirs)
    known, published = encode(
        [
            {name: view[0].take(order) for name, view in views.items()},
            {name: view[1].take(published_order) for name, view in views.items()},
        ]
    )
    coarse = any(_differ(own[name], views[name][0]) for name in features)
    return Case(
        task,
        tuple(features),
        target,
        encode([{name: values.take(order) for name, values in own.items()}])[0] if coarse else known,
        known,
        published,
        truth.take(order),
        published_target.take(published_order),
        None if weights is None else weights[order],
        None if published_weights is None else published_weights[published_order],
        order,
        aligned,
    )


def _differ(own: Values, known: Values) -> bool:
    """Tell whether a column is known in less detail than it has."""
    if isinstance(own, Labels) and isinstance(known, Labels):
        return own.names != known.names
    return type(own) is not type(known)


def _numbers(weights: Floats | None) -> list[Values]:
    return [] if weights is None else [Numbers(weights)]


def _settle(task: Task | None, truth: Values, published: Values, target: str, who: str) -> tuple[Task, Values, Values]:
    """Check that the target suits the task and give both readings the same names."""
    if truth.missing.all() or published.missing.all():
        where = "original" if truth.missing.all() else "release"
        raise DataError(f"{who}: the target {target!r} has no values in the {where}")
    if isinstance(truth, Numbers) and isinstance(published, Numbers):
        return "regression", truth, published
    if not (isinstance(truth, Labels) and isinstance(published, Labels)):
        raise DataError(f"{who}: the target {target!r} is a number in one data set and a category in the other")
    if task == "regression":
        raise DataError(f"{who}: the target {target!r} is not a number in both data sets")
    truth, published = merge([truth, published])
    tested = int((~truth.missing).sum())
    if len(np.unique(truth.codes[truth.codes >= 0])) > max(2, tested / 2):
        raise DataError(
            f"{who}: the target {target!r} has a value of its own in most of {tested} rows; a class needs several rows"
        )
    return "classification", truth, published
