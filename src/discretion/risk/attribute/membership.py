"""Membership inference: can it be told who is in the data, or in the data behind a generator? (R7)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, load_population
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values, merge, outside_view
from discretion.learning.fitting import (
    Case,
    Design,
    Model,
    ModelField,
    Pool,
    Task,
    attack,
    build_case,
    choose_features,
    choose_target,
    content_order,
    encode,
    match_rows,
    seeds,
    train,
    train_shadows,
)
from discretion.measure import RiskShare, Score, as_percent
from discretion.method import AnyMethod, Method
from discretion.part import Columns, path_field
from discretion.risk.synthetic.records import EncodedRecords, by_value, common_columns, encode_together, wilson

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


class MembershipInference(RiskShare, kind="membership-inference"):
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

    aligned: ClassVar[bool] = False

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


LEAST_FOR_SHADOWS = 40
_BINS = 10
_MOST_SUBSETS = 24
_LEARNED_ROWS = 200_000
_RATES = (0.001, 0.01)
_EXPOSED = 0.01


class GeneratorMembership(RiskShare, kind="generator-membership"):
    """Share of people recognized as members of the data behind a synthetic file, when few others are taken for members.

    The intruder knows the generator and everybody's records (the worst case), and not who is in the data. They run the
    generator `shadows` times on random halves of the people, all copies of a run together, and note how each file
    treats each person: how many rows agree on all columns, on all but one, on some triples, and how near the nearest
    number lies. What such files look like with and without a person teaches them to tell members in files that were
    kept aside. Exact copies and nearest records alone miss leaks that this finds.

    The value is the share of members recognized when 1 % of the others are taken for members; 1 % is guessing. The
    detail has the same at 0.1 %, both also for the 1 % of people who are most exposed (chosen on other runs than those
    they are judged on, against non-members of their own; at least ten people), Wilson's intervals given the threshold,
    and the area under the ROC curve. `interval` is that of the value, by people: the runs of one are not independent. A
    share of others smaller than one of them is read at one.

    Attacks the generator, not one file: the data sets behind the shadows are half as large, which exposes people a
    little more. Halves are made of people where a column has the role unit, else household. Numbers are compared in
    tenths of the original. Does not show what a better attack would find. Time: `shadows` runs of the generator and as
    many counts of at most 24 combinations of columns; memory linear.

    References
    ----------
    Stadler, Oprisanu & Troncoso (2022); Carlini et al. (2022); Houssiau et al. (2022); catalogue R7, P23.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(400, seed=1)
    >>> attack = dc.GeneratorMembership(generator={"sample": {"share": 0.9}}, columns=["age", "income", "occupation"])
    >>> attack(people, people).value > 0.5  # a sample of true records gives its members away
    True
    """

    generator: AnyMethod | None = None
    """the generator to attack; without it the steps that made the release (of data that no step made: as it is)"""
    columns: Columns = ()
    """columns the intruder knows; without it all but identifiers, weights, households and units"""
    shadows: int = Field(16, ge=8)
    """runs of the generator on random halves of the people"""
    sample: int | None = Field(None, ge=LEAST_FOR_SHADOWS)
    """people drawn at random who are taken for all of them, which bounds the time for large data; fewer people expose
    each of them more. Without it everybody"""

    aligned: ClassVar[bool] = False
    of_steps: ClassVar[bool] = True

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Run the generator on halves, learn from some runs, attack the others."""
        made = released.steps if self.generator is None else (self.generator,)
        steps = [step for step in made if isinstance(step, Method)]
        named = common_columns(self.columns, "compare", [original, released], self.kind)
        order = by_value(encode_together([original, original], named, self.kind).tables[0])
        people = _people(original)
        everybody = int(people.max(initial=-1)) + 1
        if self.sample is not None and self.sample < everybody:
            few = ctx.within("people").rng.permutation(everybody) < self.sample
            order = order[few[people[order]]]
        known = original.take(order)
        people = _people(known)
        if (count := int(people.max(initial=-1)) + 1) < LEAST_FOR_SHADOWS:
            raise DataError(f"{self.kind}: {count} people are too few rows to tell members from others")
        seen, files = self._shadows(known, steps, people, ctx)
        columns = common_columns(self.columns, "compare", [known, *files], self.kind)
        signals = _signals(encode_together([known, *files], columns, self.kind), ctx.within("subsets").rng)
        found = _attack(signals, seen)
        per_record = None
        if count == everybody:
            per_record = np.empty(len(order))
            per_record[order] = found.per_record
        return self._score(found, seen, people, everybody, [step.kind for step in steps], columns, per_record)

    def _shadows(
        self, original: Dataset, steps: Sequence[Method], people: Ints, ctx: Context
    ) -> tuple[Bools, list[Dataset]]:
        """Run the generator on halves of the people, of each pair of runs on the two halves of the same cut."""
        rng, count = ctx.rng, int(people.max()) + 1
        seen, files = np.zeros((2 * (self.shadows // 2), len(original)), np.bool_), []
        for number in range(len(seen)):
            ctx.progress(number, len(seen), f"{self.kind}: shadows")
            if number % 2 == 0:
                chosen = rng.permutation(count) < count // 2
            seen[number] = chosen[people] if number % 2 == 0 else ~chosen[people]
            half = original.take(np.flatnonzero(seen[number]))
            part = Dataset(half.frame, schema=half.schema)
            for place, step in enumerate(steps):
                try:
                    part = step.on_part().run(part, ctx.within(f"shadow {number}/{place}")).data
                except Infeasible as error:  # such as classes of k that half of the people do not fill
                    raise DataError(f"{self.kind}: half of the people are too few for {step.kind}") from error
            if not len(part):
                raise DataError(f"{self.kind}: the generator wrote no rows for half of the people")
            files.append(part)
        return seen, files

    def _score(
        self, found: _Attacked, seen: Bools, people: Ints, everybody: int, kinds: list[str], columns: Sequence[str],
        per_record: Floats | None,
    ) -> Score:  # fmt: skip
        members, others = found.scores[seen], found.scores[~seen]
        few = found.exposed
        rates = {
            "all": _rates(members, others),
            "most_exposed": _rates(found.scores[seen & few], found.scores[~seen & few]),
        }
        both = area(members, others)
        strict, exposed = rates["all"]["0.01"]["share"], rates["most_exposed"]["0.01"]["share"]
        low, high = _interval(found.scores, seen, people)
        count = int(people.max()) + 1
        drawn = (
            f" Measured with {count:,} people drawn from all: the fewer people, the more each is exposed."
            if count < everybody
            else ""
        )
        meaning = (
            f"With 1% false alarms an intruder recognizes {as_percent(strict)} (interval {as_percent(low)} to "
            f"{as_percent(high)}) of the people behind {', '.join(kinds) or 'the data as it is'}, "
            f"and {as_percent(exposed)} of the most exposed hundredth (guessing 1%).{drawn}"
        )
        return self.score(
            strict, meaning, per_record,
            chance=0.01, interval=[low, high], rates=rates, auc=both.value, auc_interval=list(both.interval),
            generator=kinds, columns=list(columns), shadows=len(seen), people_tested=count,
            members=len(members), non_members=len(others),
        )  # fmt: skip


def _interval(scores: Floats, seen: Bools, people: Ints) -> tuple[float, float]:
    """Give a 95 % interval of the share recognized at 1 %, the runs of one person (or household) not independent.

    The threshold has its own error, that of the share of others above it; both are those of means over people. Where
    nobody is recognized, Wilson's interval for as many people.
    """
    others = np.sort(scores[~seen])[::-1]
    threshold = others[min(int(0.01 * len(others)), len(others) - 1)]
    count = int(people.max()) + 1
    hits, alarms = (
        np.bincount(people, ((scores >= threshold) & who).sum(0), count)
        / np.maximum(np.bincount(people, who.sum(0), count), 1)
        for who in (seen, ~seen)
    )
    share = recognized(scores[seen], scores[~seen], 0.01) / int(seen.sum())
    steep = min(share / 0.01, 10.0)  # how fast the share moves with the threshold: about the ratio of the two
    error = float(np.hypot(hits.std(), steep * alarms.std()) / np.sqrt(count))
    return (max(0.0, share - 1.96 * error), min(1.0, share + 1.96 * error)) if hits.any() else wilson(0, count)


def _people(data: Dataset) -> Ints:
    """Number the people: by unit, by household, or row by row."""
    named = (*data.having("unit"), *data.having("household"))
    if not named:
        return np.arange(len(data))
    return np.asarray(np.unique(data.codes(named[0]).codes, return_inverse=True)[1], np.int64)


def _rates(members: Floats, others: Floats) -> dict[str, Any]:
    """Give the share of members above the threshold that a share of the others passes; below 1/others: that of one."""
    found: dict[str, Any] = {"members": len(members), "non_members": len(others)}
    for share in _RATES:
        hits = recognized(members, others, share)
        found[f"{share:g}"] = {"share": hits / len(members), "interval": list(wilson(hits, len(members)))}
    return found


def _signals(records: EncodedRecords, rng: np.random.Generator) -> Floats:
    """Give what each file (second axis) says of each person (third): counts of rows that agree, nearest numbers."""
    codes = _codes(records)
    width = len(records.columns)
    subsets = [tuple(range(width))]
    subsets += [s for s in combinations(range(width), width - 1) if s] if width > 1 else []
    triples = list(combinations(range(width), 3)) if width > 4 else []
    room = max(0, _MOST_SUBSETS - len(subsets))
    picked = rng.permutation(len(triples))[:room]
    subsets = [*subsets[:_MOST_SUBSETS], *(triples[i] for i in sorted(picked))]
    people, *files = codes
    found = [np.array([_agreeing(people[:, subset], file[:, subset]) for file in files]) for subset in subsets]
    numeric = np.flatnonzero(~records.nominal)
    if len(numeric):
        found.append(_nearness(records, numeric))
    return np.array(found)


def _codes(records: EncodedRecords) -> list[Ints]:
    """Give all columns as whole numbers: categories as they are, numbers in tenths of the original, missing apart."""
    original = records.tables[0]
    coded = [np.zeros(table.shape, np.int64) for table in records.tables]
    for j, nominal in enumerate(records.nominal):
        known = original[:, j][~np.isnan(original[:, j])]
        cuts = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS)) if len(known) and not nominal else None
        for codes, table in zip(coded, records.tables, strict=True):
            values = table[:, j]
            place = values if cuts is None else np.searchsorted(cuts, values, side="right")
            codes[:, j] = np.where(np.isnan(values), -1, np.nan_to_num(place)).astype(np.int64) + 1
    return coded


def _agreeing(people: Ints, file: Ints) -> Floats:
    """Count for each person the rows of a file that have the same codes, as a logarithm."""
    from discretion.kernels.classes import class_ids

    both = np.concatenate([people, file])
    sizes = [int(column.max(initial=0)) + 1 for column in both.T]
    ids = class_ids([np.ascontiguousarray(column) for column in both.T], sizes, len(both)).ids
    counts = np.bincount(ids[len(people) :], minlength=int(ids.max()) + 1)
    return np.log1p(counts[ids[: len(people)]])


def _nearness(records: EncodedRecords, numeric: Ints) -> Floats:
    """Give minus the logarithm of the distance to the nearest row, over the columns of numbers; missing as the mean."""
    from scipy.spatial import cKDTree

    tables = [table[:, numeric] * records.weights[numeric] for table in records.tables]
    middle = np.nan_to_num(np.nanmean(tables[0], axis=0)) if len(tables[0]) else 0.0
    people, *files = (np.where(np.isnan(table), middle, table) for table in tables)
    return np.array([-np.log(cKDTree(file).query(people)[0] + 1e-6) for file in files])


@dataclass(frozen=True)
class _Attacked:
    """Scores of each person (second axis) by file; who is among the most exposed, for each file by the other files."""

    scores: Floats
    exposed: Bools
    per_record: Floats


def _attack(signals: Floats, seen: Bools) -> _Attacked:
    """Learn on one half of the files what tells a member, score the people in the other, and the other way round."""
    runs, people = seen.shape
    fold = (np.arange(runs) // 2) % 2
    scores, exposed, total = np.zeros((runs, people)), np.zeros((runs, people), np.bool_), np.zeros(people)
    for held in (0, 1):
        train, test = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        inside = np.array([_centered(signals[:, train], seen[train], leave_out=i) for i in range(len(train))])
        weights = _learned(inside.transpose(0, 2, 1).reshape(-1, len(signals)), seen[train].ravel())
        known = np.tensordot(inside, weights, (1, 0))
        outside = np.array([_centered(signals[:, train], seen[train], signals[:, run]) for run in test])
        scores[test] = np.tensordot(outside, weights, (1, 0))
        apart = _mean(known, seen[train]) - _mean(known, ~seen[train])
        most = np.argsort(-apart, kind="stable")[: min(people, max(10, round(_EXPOSED * people)))]
        exposed[np.ix_(test, most)] = True
        total += apart
    return _Attacked(scores, exposed, total / 2)


def _mean(values: Floats, chosen: Bools) -> Floats:
    return np.asarray((values * chosen).sum(0) / np.maximum(chosen.sum(0), 1))


def _centered(signals: Floats, seen: Bools, given: Floats | None = None, *, leave_out: int = -1) -> Floats:
    """Compare signals with those of files without the person, in standard deviations (half the person's, half all)."""
    use = ~seen
    if leave_out >= 0:
        use = use.copy()
        use[leave_out] = False
    target = signals[:, leave_out] if given is None else given
    count = np.maximum(use.sum(0), 1)
    mean = (signals * use).sum(1) / count
    square = ((signals - mean[:, None]) ** 2 * use).sum(1) / np.maximum(count - 1, 1)
    pooled = square.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.maximum((square + pooled) / 2, 1e-12))
    return np.asarray((target - mean) / spread)


def _learned(signals: Floats, seen: Bools) -> Floats:
    """Fit what each signal is worth: a logistic regression of "member" on the signals."""
    from sklearn.linear_model import LogisticRegression

    rows = slice(None, None, max(1, len(signals) // _LEARNED_ROWS))
    fitted = LogisticRegression(max_iter=200).fit(np.clip(signals[rows], -20, 20), seen[rows])
    return np.asarray(fitted.coef_[0])
