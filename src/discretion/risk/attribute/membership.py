"""Membership inference: can it be told who is in the data? (R7)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, load_population
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.learning.cases import Case, build_case, match_rows
from discretion.learning.columns import Labels, Numbers, Values, merge, outside_view
from discretion.learning.estimators import Model, ModelField, Task
from discretion.learning.fitting import Pool, attack, seeds, train, train_shadows
from discretion.learning.values import Design, choose_features, choose_target, content_order, encode
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, path_field
from discretion.risk.synthetic.records import wilson

# Members told from non-members: the area under the ROC curve with DeLong's interval, shares with Newcombe's.


Interval = tuple[float, float]


def newcombe(hits: int, trials: int, other_hits: int, other_trials: int, confidence: float = 0.95) -> Interval:
    """Give Newcombe's interval of the difference of two independent shares (his method 10)."""
    one, other = hits / trials, other_hits / other_trials
    low, high = wilson(hits, trials, confidence)
    other_low, other_high = wilson(other_hits, other_trials, confidence)
    down = np.sqrt((one - low) ** 2 + (other_high - other) ** 2)
    up = np.sqrt((high - one) ** 2 + (other - other_low) ** 2)
    return float(one - other - down), float(one - other + up)


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve: the probability that a member scores higher than a non-member, ties half."""

    value: float
    interval: Interval


def area(members: Floats, others: Floats, *, paired: bool = False, confidence: float = 0.95) -> Area:
    """Give the area and its interval by DeLong's structural components, in O(n log n).

    `paired`: row i of both is the same person, once as a member and once not; the variance then is that of the person's
    two components together (Obuchowski's for clusters of two). Where the groups are separated completely that variance
    is zero and certainty would be claimed; Wilson's interval for the smaller group stands instead.
    """
    from scipy.stats import norm, rankdata

    m, n = len(members), len(others)
    if m == 0 or n == 0:
        raise DataError("a ROC curve needs members and non-members")
    together = rankdata(np.concatenate([members, others]))
    of_members = (together[:m] - rankdata(members)) / n
    of_others = 1 - (together[m:] - rankdata(others)) / m
    value = float(of_members.mean())
    if m < 2 or n < 2:
        return Area(value, (0.0, 1.0))
    if paired:
        variance = float((of_members + of_others).var(ddof=1)) / m
    else:
        variance = float(of_members.var(ddof=1)) / m + float(of_others.var(ddof=1)) / n
    if variance == 0:
        fewer = min(m, n)
        return Area(value, wilson(value * fewer, fewer, confidence))
    half = float(norm.ppf(0.5 + confidence / 2)) * float(np.sqrt(variance))
    return Area(value, (max(0.0, value - half), min(1.0, value + half)))


def recognized(members: Floats, others: Floats, share: float) -> float:
    """Count the members recognized when this share of the others is taken for members; ties are decided by lot."""
    ranked = np.sort(others)[::-1]
    allowed = share * len(others)
    threshold = float(ranked[min(int(allowed), len(others) - 1)])
    above, tied = int((members > threshold).sum()), int((members == threshold).sum())
    others_above, others_tied = int((others > threshold).sum()), int((others == threshold).sum())
    return above + min(1.0, (allowed - others_above) / others_tied) * tied


# Membership by shadow models: the attack on a model that was trained on the release.


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


# Membership by nearness: how far is a person's record from the nearest published one?

QUERIES = 4096
"""People looked up between two reports of progress."""


def nearest_distances(
    original: Dataset, released: Dataset, outside: Dataset, features: Sequence[str], who: str, ctx: Context
) -> tuple[Floats, Floats]:
    """Give the distance to the nearest published record of each person in the data and of each person outside.

    Numbers are divided by their standard deviation in the original, a differing category counts 1; columns that were
    generalized are compared at the level of the release.
    """
    inside = {name: outside_view(original, released, name, aligned=False) for name in features}
    others = {name: outside_view(outside, released, name, aligned=False)[0] for name in features}
    known, published, other = encode(
        [
            {name: view[0] for name, view in inside.items()},
            {name: view[1] for name, view in inside.items()},
            others,
        ]
    )
    points = published.scaled(known)
    asked = np.vstack([known.scaled(known), other.scaled(known)])
    found = _nearest(asked, points, who, ctx)
    return found[: len(known)], found[len(known) :]


def _nearest(asked: Floats, points: Floats, who: str, ctx: Context) -> Floats:
    """Give each query's distance to the nearest point; equal points and queries are looked at once."""
    from sklearn.neighbors import NearestNeighbors

    distinct, place = np.unique(asked, axis=0, return_inverse=True)
    targets = np.unique(points, axis=0)
    search = NearestNeighbors(n_neighbors=1).fit(targets)
    found = np.empty(len(distinct))
    for start in range(0, len(distinct), QUERIES):
        ctx.progress(start, len(distinct), who)
        some = distinct[start : start + QUERIES]
        nearest = search.kneighbors(some, return_distance=False)[:, 0]
        found[start : start + QUERIES] = np.linalg.norm(some - targets[nearest], axis=1)  # a copy is at exactly 0
    ctx.progress(len(distinct), len(distinct), who)
    return found[place.ravel()]


_NO_PEOPLE_OUTSIDE = (
    "give `holdout`, people who are not in the data, to attack the release, or `model` to attack a model; only for "
    "synthetic rows whose steps are known some people are put aside by itself"
)


@dataclass(frozen=True)
class Evidence:
    """Scores of members and of others, the higher the likelier a member, and where the intruder says "member"."""

    members: Floats
    others: Floats
    threshold: float
    paired: bool = False
    per_record: Floats | None = None


class MembershipInference(Measure, kind="membership-inference"):
    """Probability that an intruder can tell a person who is in the data from one who is not.

    Against a **release** (no `model`): the intruder measures how near a person's record lies to the nearest published
    one, and says "member" when it is near. This needs `holdout`, people of the same population who are not in the
    data; without such a control group nearness says nothing. For synthetic rows made here a fifth of the people is put
    aside and the steps are carried out again on the others, where no `holdout` is given.

    Against a **model** trained on the release: shadow models (`shadows` of them, trained on random halves of the
    records the intruder has: in the worst case everybody's) teach the intruder how such a model treats records that
    it has seen. With `holdout` the attacked model is trained on the whole release; without, on a random half, and
    then on the other half, so that each person is a member once and a non-member once.

    The value is the area under the ROC curve (AUC): ½ is guessing, 1 is certainty. The detail has its interval
    (DeLong), the share of members recognized when only `false_positive_share` of the others are taken for members
    (with Wilson's interval, given the threshold), and the `advantage`, TPR − FPR at the intruder's own threshold
    (with Newcombe's interval). An average near ½ does not protect the few who are recognized at low false positive
    rates: look at both.

    Time: for a release a nearest-neighbor search, for a model `shadows` + 2 fits. Memory linear.

    References
    ----------
    Shokri, Stronati, Song & Shmatikov (2017); Yeom et al. (2018); Carlini et al. (2022); DeLong et al. (1988);
    catalogue R7.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(600, seed=1)
    >>> full_tree = "sklearn.tree:DecisionTreeClassifier"
    >>> heart = dc.MembershipInference(target="sex", features=["income", "age"], model=full_tree)
    >>> rule = dc.MembershipInference(target="sex", features=["income", "age"], model="logit")
    >>> heart(people, people).value > 0.7, rule(people, people).value < 0.6
    (True, True)
    """

    model: ModelField | None = None
    """model under attack (tree, forest, logit, …, or a scikit-learn class); without it, the release is attacked"""
    target: str = ""
    """column that the model under attack predicts; without it, the only sensitive column"""
    features: Columns = ()
    """columns the intruder knows, and the model uses; without it, all but identifiers, weights and households"""
    holdout: Population | None = path_field(None)
    """file (or Dataset) of people of the same population who are not in the data; needed against a release, but for
    synthetic rows made here"""
    shadows: int = Field(8, ge=2)
    """shadow models to train"""
    false_positive_share: float = Field(0.01, gt=0, lt=1)
    """share of non-members taken for members at which the recognized members are counted"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @property
    def lacks_people_outside(self) -> str:
        """What to give, where there is nothing to attack but synthetic rows, of whose people some are put aside."""
        return _NO_PEOPLE_OUTSIDE if self.model is None and self.holdout is None else ""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Attack the release or a model trained on it."""
        outside = None if self.holdout is None else load_population(self.holdout)
        if outside is not None and not len(outside):
            raise DataError(f"{self.kind}: the holdout has no rows")
        if self.model is not None:
            evidence, facts = self._against_model(self.model, original, released, outside, ctx)
            what = f"The {facts['model']} model trained on the release tells"
        elif outside is not None:
            evidence, facts = self._against_release(original, released, outside, ctx)
            what = "The nearest published record tells"
        else:
            raise PlanError(f"{self.kind}: {self.lacks_people_outside}")
        found = area(evidence.members, evidence.others, paired=evidence.paired)
        low, high = found.interval
        detail = self._rates(evidence) | facts
        tpr = detail["true_positive_share"]
        return self.score(
            found.value,
            f"{what} a member from a non-member with probability {found.value:.3g} ({low:.3g} to {high:.3g}; "
            f"guessing 0.5); {as_percent(tpr)} of members are recognized at "
            f"{as_percent(self.false_positive_share)} false alarms.",
            per_record=evidence.per_record,
            chance=0.5,
            auc_interval=[low, high],
            **detail,
        )

    def _rates(self, evidence: Evidence) -> dict[str, Any]:
        """Give the shares recognized at the low false positive rate and at the intruder's own threshold."""
        members, others = evidence.members, evidence.others
        strict = recognized(members, others, self.false_positive_share)
        hits, alarms = int((members >= evidence.threshold).sum()), int((others >= evidence.threshold).sum())
        return {
            "false_positive_share": self.false_positive_share,
            "true_positive_share": strict / len(members),
            "true_positive_interval": list(wilson(strict, len(members))),
            "advantage": hits / len(members) - alarms / len(others),
            "advantage_interval": list(newcombe(hits, len(members), alarms, len(others))),
            "members": len(members),
            "non_members": len(others),
        }

    def _against_release(
        self, original: Dataset, released: Dataset, outside: Dataset, ctx: Context
    ) -> tuple[Evidence, dict[str, Any]]:
        features = choose_features(original, released, self.features, "", who=self.kind, quasi=False)
        outside.require(features)
        inside, other = nearest_distances(original, released, outside, features, self.kind, ctx)
        threshold = float(np.median(np.concatenate([-inside, -other])))
        facts = {
            "features": list(features),
            "median_distance": {"members": float(np.median(inside)), "non_members": float(np.median(other))},
            "exact_copies": {"members": float((inside == 0).mean()), "non_members": float((other == 0).mean())},
        }
        farther = 1 - np.searchsorted(np.sort(other), inside, side="right") / len(other)
        return Evidence(-inside, -other, threshold, per_record=farther), facts

    def _against_model(
        self, model: Model, original: Dataset, released: Dataset, outside: Dataset | None, ctx: Context
    ) -> tuple[Evidence, dict[str, Any]]:
        target = choose_target(original, self.target, self.kind)
        features = choose_features(original, released, self.features, target, who=self.kind, quasi=False)
        facts = {"target": target, "features": list(features), "model": model.title, "shadows": self.shadows}
        if outside is not None:
            outside.require([*features, target])
            scores = attack_holdout(original, released, outside, features, target, model, self.shadows, ctx)
            return Evidence(scores.members, scores.others, 0.0, per_record=scores.per_record), facts
        original, released, aligned = match_rows(original, released, self.kind)
        if not aligned:
            raise DataError(
                f"{self.kind}: the rows of the release cannot be matched to the original's; give `holdout`, people who "
                "are not in the data"
            )
        scores = attack_halves(original, released, features, target, model, self.shadows, ctx)
        return Evidence(scores.members, scores.others, 0.0, paired=True, per_record=scores.per_record), facts
