"""Membership by shadow models: the attack on a model that was trained on the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.learning.cases import Case, build_case
from discretion.learning.columns import Labels, Numbers, Values, merge, outside_view
from discretion.learning.estimators import Model, Task
from discretion.learning.fitting import Pool, attack, seeds, train, train_shadows
from discretion.learning.values import Design, content_order, encode

LEAST_PEOPLE = 8
"""With fewer people there is nothing to learn a difference from."""
WHO = "membership-inference"


@dataclass(frozen=True)
class MembershipScores:
    """Log-odds of membership; `per_record` follows the rows of the original."""

    members: Floats
    others: Floats
    per_record: NDArray[np.float64]


def attack_halves(
    original: Dataset,
    released: Dataset,
    features: Sequence[str],
    target: str,
    model: Model,
    shadows: int,
    ctx: Context,
) -> MembershipScores:
    """Train on a random half of the release, then on the other: each person is a member once and a non-member once."""
    case = build_case(original, released, features, target, who=WHO)
    usable = np.flatnonzero(case.tested & ~case.published_target.missing)
    _check(model, case.task, len(usable))
    pool = Pool(
        case.task,
        case.known.take(usable),
        case.truth.take(usable),
        case.published.take(usable),
        case.published_target.take(usable),
    )
    rng = ctx.rng
    half = rng.permutation(len(pool)) < len(pool) // 2
    learned = train_shadows(pool, model, shadows, len(pool) // 2, rng, ctx)
    draws = seeds(rng)
    first = attack(learned, pool, train(pool, model, np.flatnonzero(half), next(draws)))
    second = attack(learned, pool, train(pool, model, np.flatnonzero(~half), next(draws)))
    members, others = np.where(half, first, second), np.where(half, second, first)
    return MembershipScores(members, others, _per_record(case, usable, members))


def _per_record(case: Case, usable: Ints, members: Floats) -> Floats:
    """Give the probability of membership of each row of the original; 0 for rows that train no model."""
    everybody = np.zeros(len(case.known))
    everybody[usable] = _probability(members)
    return case.back(everybody)


def _probability(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -500, 500))), dtype=np.float64)


def attack_holdout(
    original: Dataset,
    released: Dataset,
    outside: Dataset,
    features: Sequence[str],
    target: str,
    model: Model,
    shadows: int,
    ctx: Context,
) -> MembershipScores:
    """Train on the whole release; the people outside are the non-members. Shadows train on the records as known."""
    columns = [*features, target]
    inside = {name: outside_view(original, released, name, aligned=False) for name in columns}
    beyond = {name: outside_view(outside, released, name, aligned=False)[0] for name in columns}
    known = {name: view[0] for name, view in inside.items()}
    published = {name: view[1] for name, view in inside.items()}
    orders = [content_order(list(reading.values())) for reading in (known, published, beyond)]
    readings = [
        {name: reading[name].take(order) for name in columns}
        for reading, order in zip((known, published, beyond), orders, strict=True)
    ]
    targets = _same_names([reading.pop(target) for reading in readings], target)
    designs = encode(readings)
    task: Task = "classification" if isinstance(targets[0], Labels) else "regression"
    people, rows = _together(designs[0], designs[2], targets[0], targets[2])
    _check(model, task, len(rows))
    pool = Pool(task, people[0].take(rows), people[1].take(rows), people[0].take(rows), people[1].take(rows))
    count = int((rows < len(original)).sum())
    rng = ctx.rng
    learned = train_shadows(pool, model, shadows, min(count, len(pool) // 2), rng, ctx)
    draws = seeds(rng)
    released_pool = Pool(task, pool.asked, pool.truth, designs[1], targets[1])
    scores = attack(learned, pool, train(released_pool, model, np.arange(len(released)), next(draws)))
    everybody = np.zeros(len(original))
    everybody[orders[0][rows[:count]]] = _probability(scores[:count])
    return MembershipScores(scores[:count], scores[count:], everybody)


def _same_names(targets: Sequence[Values], column: str) -> list[Values]:
    labels = [target for target in targets if isinstance(target, Labels)]
    if labels and len(labels) < len(targets):
        raise DataError(f"{WHO}: the target {column!r} is a number in one data set and a category in another")
    return list(merge(labels)) if labels else list(targets)


def _together(one: Design, other: Design, target: Values, other_target: Values) -> tuple[tuple[Design, Values], Ints]:
    """Put people inside and outside together; give the rows that have a value of the target."""
    design = Design(np.vstack([one.x, other.x]), one.names, one.sources, one.indicators)
    values: Values
    if isinstance(target, Labels) and isinstance(other_target, Labels):
        values = Labels(np.concatenate([target.codes, other_target.codes]), target.names, target.ordered)
    elif isinstance(target, Numbers) and isinstance(other_target, Numbers):
        values = Numbers(np.concatenate([target.values, other_target.values]))
    else:
        raise DataError(f"{WHO}: the target is a number in one data set and a category in another")
    rows = np.flatnonzero(~values.missing)
    inside = int((rows < len(one)).sum())
    if inside < 2 or len(rows) - inside < 2:
        raise DataError(f"{WHO}: fewer than two people inside or outside the data have a value of the target")
    return (design, values), rows


def _check(model: Model, task: Task, people: int) -> None:
    if not model.supports(task):
        raise PlanError(f"model: {model.title} is not a model for {task} (the target's type)")
    if people < LEAST_PEOPLE:
        raise DataError(f"{WHO}: {people} people with a value of the target are too few rows to learn from")
