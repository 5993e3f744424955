"""The same model trained on the original and on the release, both tested on the same held-out original rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.learning.cases import Case, build_case, match_rows
from discretion.learning.compare import compare_structure, describe
from discretion.learning.designs import choose_features, choose_target
from discretion.learning.estimators import Model, Task
from discretion.learning.fitting import Fitted, fit, folds, seeds
from discretion.learning.values import Floats, Ints


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
