"""Results: only those that many samples of the data give (M8), and rules that cannot be mined (M7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from discretion.context import Context, Progress, ignore_progress
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.associations import RuleField, RuleThresholds, items_of
from discretion.learning.columns import Labels, Numbers, Values, read_column
from discretion.learning.fitting import Design, Fitted, Model, Task, accept_model, content_order, encode, fit, seeds
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns, FrozenMapping, confidential


class ResultPrivacy(PrivacyModel, kind="result-privacy"):
    """Given association rules are not found by whoever mines the release at the stated thresholds.

    A rule `flu|cough -> asthma` is found if the share of records with all its items (support) is at least `min_support`
    and the share of those with the given items that have the others too (confidence) is at least `min_confidence`; a
    set of items without an arrow is found if it is frequent. Items are the members of a column of sets ("flu|cough", or
    lists); with several columns, or columns of categories, an item is written `column=value`.

    Guarantees that a miner with these thresholds, or higher ones, does not find the rules. Does not protect against
    lower thresholds: a rule just below them is still there to be counted, so choose thresholds at which nobody would
    take it for a rule. Says nothing about people. Missing cells could be what was taken out: the default reading fills
    them so that each rule is as strong as it can be (`wildcard`); the other readings stand in the detail. The value is
    the number of rules that are found. Time linear in the records for each rule.

    References
    ----------
    Verykios, Elmagarmid, Bertino, Saygin & Dasseni (2004), IEEE TKDE 16(4); Bonchi & Ferrari (2010),
    Privacy-Aware Knowledge Discovery; catalogue M7.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> baskets = pl.DataFrame({"ills": ["flu|cough", "flu|cough", "flu", "cough|asthma"]})
    >>> verdict = dc.ResultPrivacy(rules=["flu -> cough"], min_support=0.5, min_confidence=0.6)(baskets)
    >>> verdict.holds, verdict.failing[0].key  # two of four records have both, two of three with flu have cough
    (False, {'rule': 'flu -> cough'})
    """

    rules: tuple[RuleField, ...] = confidential(min_length=1)
    """rules that must not be found, such as `flu|cough -> asthma`; without an arrow, sets that must not be frequent"""
    min_support: float = confidential(ge=0, le=1)
    """share of the records that must have all items of a rule for a miner to see it"""
    min_confidence: float = confidential(0.0, ge=0, le=1)
    """share of the records with the given items that must have the others for a miner to call it a rule"""
    columns: Columns = ()
    """columns whose values are items; without it, all that hold sets or categories, identifiers aside"""
    missing: Missing = Field("wildcard")
    """how a missing cell counts: as whatever makes the rule strongest (wildcard), as no item, or not at all (ignore)"""

    attacker: ClassVar[str] = "somebody who mines the release for rules at the stated thresholds or higher ones"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count each rule under every reading of missing cells."""
        before = items_of(released if original is None else original, self.columns, self.kind)
        before.check(self.rules, self.kind)
        items = before.of(released)
        thresholds = RuleThresholds(self.min_support, self.min_confidence)
        readings: tuple[Missing, ...] = ("category", "wildcard", "ignore")
        counted = {rule: {reading: items.strength(rule, reading) for reading in readings} for rule in self.rules}
        found = [rule for rule in self.rules if thresholds.found(rule, counted[rule][self.missing])]
        failing = tuple(FailingClass({"rule": str(rule)}, counted[rule][self.missing].both) for rule in found)
        return Verdict(
            model=self.kind,
            holds=not found,
            value=float(len(found)),
            required=0.0,
            meaning=f"{len(found)} of {len(self.rules)} rules are found at the stated thresholds.",
            failing_count=len(found),
            failing_records=max((int(item.size) for item in failing), default=0),
            detail={
                "columns": list(items.columns),
                "rules": {
                    str(rule): {
                        reading: {"support": one.support, "confidence": one.confidence} for reading, one in each.items()
                    }
                    for rule, each in counted.items()
                },
            },
            find_failing=lambda: tuple(sorted(failing, key=lambda item: item.size)),
        )


Key = tuple[Any, ...]
"""A result on its grid: equal for samples that give the same result."""

STATISTICS: Mapping[str, Callable[[Floats], Floats]] = {
    "mean": lambda x: np.nanmean(x, axis=0),
    "median": lambda x: np.nanmedian(x, axis=0),
    "sd": lambda x: np.nanstd(x, axis=0, ddof=1),
    "correlation": lambda x: _correlations(x[~np.isnan(x).any(axis=1)]),
}
"""Figures of numeric columns that can be judged; anything else is a model of scikit-learn."""
_LEVEL = 0.95
"""Confidence of the interval of the largest excess, over all records at once."""
_SCORED = 10
"""Samples whose models are scored on all records, for each of the most recurrent results."""


def _correlations(x: Floats) -> Floats:
    return np.asarray(np.corrcoef(x, rowvar=False))[np.triu_indices(x.shape[1], 1)]


def _accept(value: Any) -> str | Model:
    return value if isinstance(value, str) and value in STATISTICS else accept_model(value)


ResultField = Annotated[
    str | Model,
    PlainValidator(_accept),
    PlainSerializer(lambda value: value if isinstance(value, str) else value.to_plan()),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}], "description": "statistic, or name of a model"}),
]


class IntegralPrivacy(PrivacyModel, kind="integral-privacy"):
    """A statistic or model recurs over many random samples of the data, and no record is needed to get it.

    `samples` samples of `sample_share` of the records are drawn and the result is computed on each, rounded to the
    declared `grid`: figures and coefficients by their steps, trees by their columns, cut points and answers, any other
    model by its predictions at the declared `points`. The result of all records holds if it is among the `k` most
    recurrent ones, at least `min_share` of the samples give it, and no record is in those samples more often, or less
    often, than in all samples by more than `max_excess` (judged by the upper limit of a 95 % interval over all records
    at once: with few samples that give the result, the limit is far off and the model does not hold). `choose` gives,
    among the `k` most recurrent results that meet this, the most accurate one.

    Guarantees that the result could have come from many different groups of people, each of them nearly as often with a
    person as without. It is not a guarantee against membership inference or for several results together (differential
    privacy is), and says nothing about records that are much like each other. Rows with a missing target train no
    model; missing values are left out of statistics. Time: `samples` times that of the result.

    References
    ----------
    Torra & Navarro-Arribas (2016), Integral privacy, CANS; Senavirathne & Torra (2019), Trans. Data Privacy 12(2);
    catalogue M8.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": np.tile(np.arange(20, 80), 10)})
    >>> dc.IntegralPrivacy(result="mean", columns=["age"], grid={"age": 5}, samples=300)(ages).holds
    True
    >>> dc.IntegralPrivacy(result="mean", columns=["age"], grid={"age": 0.001}, samples=300)(ages).holds
    False
    """

    result: ResultField
    """what would be released: mean, median, sd, correlation, or a model (`tree`, `linear`, a class of scikit-learn)"""
    columns: Columns = ()
    """numeric columns of a statistic; features of a model"""
    target: str = ""
    """what a model predicts"""
    grid: FrozenMapping[str, float] = Field({}, validate_default=True)
    """steps to which results are rounded: by column for figures, cut points and coefficients (the target's for
    predictions and the intercept, that of the first column for a correlation); `"*"`: for all that are not named"""
    points: FrozenMapping[str, tuple[str | float, ...]] = Field({}, validate_default=True)
    """values of each feature, all combined, at which the predictions of a model are compared and would be released"""
    samples: int = Field(1000, ge=20, le=1_000_000)
    """number of samples drawn"""
    sample_share: float = Field(0.5, gt=0, lt=1)
    """share of the records in each sample"""
    k: int = Field(5, ge=1)
    """how many of the most recurrent results may be released"""
    min_share: float = confidential(0.1, gt=0, le=1)
    """share of the samples that must give the result"""
    max_excess: float = confidential(0.25, gt=0, le=1)
    """how much more often, or less often, than in all samples a record may be in those that give the result"""

    attacker: ClassVar[str] = "somebody who knows all records but one and sees the one result that is released"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.columns:
            raise ValueError("`columns` are needed: those of the statistic, or the features of the model")
        if isinstance(self.result, str):
            if self.target or self.points:
                raise ValueError("a statistic has no `target` and no `points`")
            if self.result == "correlation" and len(self.columns) < 2:
                raise ValueError("a correlation needs two columns or more")
        elif not self.target or self.target in self.columns:
            raise ValueError("a model needs a `target` that is none of its `columns`")
        if any(step <= 0 for step in self.grid.values()):
            raise ValueError("grid: a step is larger than 0")
        if self.points and set(self.points) != set(self.columns):
            raise ValueError("points: give values for every one of the `columns`, and for nothing else")
        return self

    def check(self, released: Any, ctx: Context | None = None, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Judge the result that all records give."""
        data, ctx = Dataset.of(released), ctx or Context(0, self.kind)
        drawn = self._draw(data, ctx)
        return replace(self._judge(drawn, drawn.of_all), attacker=self.attacker)

    def choose(self, data: Any, *, seed: int = 0, progress: Progress = ignore_progress) -> IntegralResult:
        """Give the most accurate of the most recurrent results that may be released."""
        drawn = self._draw(Dataset.of(data), Context(seed, self.kind, progress))
        judged = [(key, self._judge(drawn, key)) for key, _ in drawn.recurrent(self.k)]
        holding = [
            (drawn.accuracy(key), -place, key, verdict) for place, (key, verdict) in enumerate(judged) if verdict
        ]
        if not holding:
            raise Infeasible(
                f"{self.kind}: none of the {len(judged)} most recurrent results may be released (the first comes from "
                f"{judged[0][1].value:.1%} of the samples, largest excess up to "
                f"{judged[0][1].detail['excess_interval'][1]:.2f}); a coarser `grid`, a simpler model or more "
                "`samples` help"
            )
        accuracy, _, key, verdict = max(holding, key=lambda one: one[:2])
        verdict = replace(verdict, attacker=self.attacker)
        return IntegralResult(drawn.told(key), verdict.value, verdict, accuracy, drawn.shares(self.k))

    def _draw(self, data: Dataset, ctx: Context) -> _Drawn:
        data.require([*self.columns, *([self.target] if self.target else [])])
        size = round(self.sample_share * len(data))
        if size < 2 or size >= len(data):
            raise DataError(f"{self.kind}: {len(data)} records are too few for samples of {self.sample_share:.0%}")
        source = _Figures(self, data) if isinstance(self.result, str) else _Models(self, data, self.result)
        rng = ctx.rng
        states = seeds(ctx.within("models").rng)
        of_all = source.result(source.order, next(states))
        members = []
        results = []
        for number in range(self.samples):
            if number % 20 == 0:
                ctx.progress(number, self.samples, self.kind)
            inside = rng.permutation(len(data)) < size
            rows = source.order[inside]
            members.append(np.packbits(np.isin(np.arange(len(data)), rows)))
            results.append(source.result(rows, next(states)))
        ctx.progress(self.samples, self.samples, self.kind)
        return _Drawn(source, members, results, of_all, len(data), size / len(data))

    def _judge(self, drawn: _Drawn, key: Key) -> Verdict:
        share = drawn.results.count(key) / len(drawn.results)
        among = [one for one, _ in drawn.recurrent(self.k)]
        record, excess, interval = drawn.largest_excess(key)
        holds = share >= self.min_share and key in among and interval[1] <= self.max_excess
        if share < self.min_share or key not in among:
            why = f"The result comes from {share:.1%} of the samples: it does not recur often enough."
        elif interval[1] <= self.max_excess:
            why = f"The result comes from {share:.1%} of the samples, and no record is needed to get it."
        elif interval[0] > self.max_excess:
            why = f"The result comes from {share:.1%} of the samples, but one record is in too many or too few of them."
        else:
            why = f"The result comes from {share:.1%} of the samples: too few of them to say that no record is needed."
        return Verdict(
            model=self.kind,
            holds=holds,
            value=share,
            required=self.min_share,
            meaning=why,
            failing_count=0 if holds else 1,
            failing_records=int(interval[0] > self.max_excess),
            find_failing=lambda: () if holds else (FailingClass({"result": str(drawn.told(key))}, share),),
            detail={
                "result": drawn.told(key),
                "most_recurrent": drawn.shares(self.k),
                "different_results": len(set(drawn.results)),
                "largest_excess": excess,
                "excess_interval": list(interval),
                "record": record,
            },
        )


@dataclass(frozen=True)
class IntegralResult:
    """A result that may be released: what it is, the share of samples that give it, and the verdict."""

    result: Any
    share: float
    verdict: Verdict
    accuracy: float
    """of a statistic minus its distance from that of all records in steps of the grid; of a model its score on them"""
    recurrent: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


@dataclass(frozen=True)
class _Drawn:
    """The samples, who was in them, and the result of each."""

    source: _Figures | _Models
    members: list[NDArray[np.uint8]]
    """for each sample who is in it, as bits"""
    results: list[Key]
    of_all: Key
    records: int
    rate: float

    def recurrent(self, k: int) -> list[tuple[Key, int]]:
        """Give the most recurrent results, ties in order of their text so that no order of rows decides."""
        counted = Counter(self.results)
        return sorted(counted.items(), key=lambda one: (-one[1], repr(one[0])))[:k]

    def shares(self, k: int) -> list[dict[str, Any]]:
        return [{"result": self.told(key), "share": n / len(self.results)} for key, n in self.recurrent(k)]

    def rows(self, sample: int) -> Bools:
        return np.unpackbits(self.members[sample], count=self.records).astype(np.bool_)

    def largest_excess(self, key: Key) -> tuple[int | None, float, tuple[float, float]]:
        """Find the record whose presence, or absence, goes most with a result.

        Gives how far its share of the samples that give the result is from that of all samples, and the exact binomial
        interval of this, over all records at once.
        """
        from scipy.stats import beta

        giving = [number for number, one in enumerate(self.results) if one == key]
        if not giving:
            return None, 1.0, (0.0, 1.0)
        count = len(giving)
        inside = np.zeros(self.records, dtype=np.int64)
        for number in giving:
            inside += self.rows(number)
        record = int(np.abs(inside / count - self.rate).argmax())
        hits = int(inside[record])
        tail = (1 - _LEVEL) / 2 / self.records
        low = float(beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
        high = float(beta.ppf(1 - tail, hits + 1, count - hits)) if hits < count else 1.0
        nearest = max(low - self.rate, self.rate - high, 0.0)
        return record, abs(hits / count - self.rate), (nearest, max(high - self.rate, self.rate - low))

    def told(self, key: Key) -> Any:
        return self.source.told(key)

    def accuracy(self, key: Key) -> float:
        giving = [number for number, one in enumerate(self.results) if one == key][:_SCORED]
        return self.source.accuracy(key, self.of_all, [np.flatnonzero(self.rows(number)) for number in giving])


class _Figures:
    """A statistic of numeric columns on a grid."""

    def __init__(self, part: IntegralPrivacy, data: Dataset) -> None:
        self.x = data.numbers(part.columns)
        self.order = content_order([Numbers(column) for column in self.x.T])
        self.compute = STATISTICS[str(part.result)]
        pairs = [(a, f"{a}, {b}") for i, a in enumerate(part.columns) for b in part.columns[i + 1 :]]
        named = pairs if part.result == "correlation" else [(name, name) for name in part.columns]
        self.names = [name for _, name in named]
        self.steps = np.array([_step(part.grid, first, part.kind) for first, _ in named])
        if empty := [name for name in part.columns if data.count_missing(name) == len(data)]:
            raise DataError(f"{part.kind}: {empty[0]!r} has no values")

    def result(self, rows: Ints, seed: int) -> Key:  # noqa: ARG002
        import warnings

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            figures = np.atleast_1d(self.compute(self.x[rows]))
        return tuple(None if np.isnan(one) else round(one) for one in (figures / self.steps).tolist())

    def told(self, key: Key) -> dict[str, float | None]:
        known = zip(self.names, key, self.steps.tolist(), strict=True)
        return {name: None if one is None else one * step for name, one, step in known}

    def accuracy(self, key: Key, of_all: Key, samples: list[Ints]) -> float:  # noqa: ARG002
        return -float(sum(abs(a - b) for a, b in zip(key, of_all, strict=True) if a is not None and b is not None))


def _step(grid: Mapping[str, float], name: str, kind: str) -> float:
    if name not in grid and "*" not in grid:
        raise PlanError(f'{kind}: grid: give the step to which results of {name!r} are rounded, or one for all ("*")')
    return grid.get(name, grid.get("*", 1.0))


class _Models:
    """A model of scikit-learn, compared by what would be released of it."""

    def __init__(self, part: IntegralPrivacy, data: Dataset, model: Model) -> None:
        self.part, self.model = part, model
        known: dict[str, Values] = {name: read_column(data, name) for name in part.columns}
        self.goal = read_column(data, part.target)
        self.order = content_order([*known.values(), self.goal])
        self.task: Task = "classification" if isinstance(self.goal, Labels) else "regression"
        asked = [_crossed(part.points, known, part.kind)] if part.points else []
        self.design, *questions = encode([known, *asked])
        self.asked = questions[0] if questions else None
        model.build(self.task)

    def fitted(self, rows: Ints, seed: int) -> Fitted:
        return fit(self.model, self.task, self.design, self.goal, rows, seed)

    def result(self, rows: Ints, seed: int) -> Key:
        made = self.fitted(rows, seed)
        if self.asked is not None:
            return tuple(self._answer(one) for one in made.predict(self.asked).tolist())
        estimator = made.estimator
        if estimator is None:
            return (self._answer(int(made.classes[0])),)
        if hasattr(estimator, "tree_"):
            return self._branch(estimator, 0, made.classes)
        return self._coefficients(estimator, made.classes)

    def _answer(self, value: float) -> Any:
        if isinstance(self.goal, Labels):
            return self.goal.names[int(value)]
        return round(value / _step(self.part.grid, self.part.target, self.part.kind))

    def _branch(self, estimator: Any, node: int, classes: Ints) -> Key:
        """Write a tree from a node on: column, cut point on its grid, both sides; or the answer of a leaf."""
        tree = estimator.tree_
        left, right = tree.children_left[node], tree.children_right[node]
        if left == right:
            value = tree.value[node][0]
            return (
                self._answer(int(classes[int(value.argmax())]) if self.task == "classification" else float(value[0])),
            )
        sides = self._branch(estimator, left, classes), self._branch(estimator, right, classes)
        if sides[0] == sides[1] and len(sides[0]) == 1:
            return sides[0]  # a split whose sides answer alike tells nothing but about the sample
        column = int(tree.feature[node])
        if self.design.indicators[column]:
            return (self.design.names[column], None, *sides)
        step = _step(self.part.grid, self.design.sources[column], self.part.kind)
        return (self.design.names[column], round(float(tree.threshold[node]) / step), *sides)

    def _coefficients(self, estimator: Any, classes: Ints) -> Key:
        """Give coefficients in the units of the columns, whatever a pipeline divided them by."""
        steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
        last = steps[-1]
        if not hasattr(last, "coef_") or len(steps) > 2 or (len(steps) == 2 and not hasattr(steps[0], "scale_")):
            raise PlanError(
                f"{self.part.kind}: {self.model.title} is neither a tree nor a linear model; give the `points` at "
                "which its predictions are compared"
            )
        weights = np.atleast_2d(last.coef_)
        constant = np.atleast_1d(last.intercept_).astype(np.float64)
        if len(steps) == 2:
            weights = weights / steps[0].scale_
            constant = constant - weights @ steps[0].mean_
        unit = [_step(self.part.grid, source, self.part.kind) for source in self.design.sources]
        first = _step(self.part.grid, self.part.target, self.part.kind)
        answers = tuple(self._answer(int(one)) for one in classes)
        rows = [
            (round(start / first), *(round(w / u) for w, u in zip(row, unit, strict=True)))
            for start, row in zip(constant.tolist(), weights.tolist(), strict=True)
        ]
        return ("linear", answers, *rows)

    def told(self, key: Key) -> Any:
        """Write a result in the units of the data."""
        part = self.part
        step = 1.0 if isinstance(self.goal, Labels) else _step(part.grid, part.target, part.kind)

        def answer(one: Any) -> Any:
            return one if isinstance(one, str) else one * step

        def branch(one: Key) -> Any:
            if len(one) == 1:
                return answer(one[0])
            name, cut, low, high = one
            if cut is None:
                return {f"not {name}": branch(low), name: branch(high)}
            at = cut * _step(part.grid, name, part.kind)
            return {f"{name} <= {at:.12g}": branch(low), f"{name} > {at:.12g}": branch(high)}

        if self.asked is not None:
            return [answer(one) for one in key]
        if key[0] != "linear" or len(key) == 1:
            return branch(key)
        units = [
            _step(part.grid, part.target, part.kind),
            *(_step(part.grid, s, part.kind) for s in self.design.sources),
        ]
        named = ["(intercept)", *self.design.names]
        return [{name: one * unit for name, one, unit in zip(named, row, units, strict=True)} for row in key[2:]]

    def accuracy(self, key: Key, of_all: Key, samples: list[Ints]) -> float:  # noqa: ARG002
        """Give the mean score on all records of the models of some samples that give a result."""
        present = np.flatnonzero(~self.goal.missing)
        design: Design = self.design.take(present)
        truth = self.goal.codes[present] if isinstance(self.goal, Labels) else self.goal.values[present]
        scores = []
        for rows in samples:
            predicted = self.fitted(rows, 0).predict(design)
            right = (predicted == truth).mean() if isinstance(self.goal, Labels) else -np.mean((predicted - truth) ** 2)
            scores.append(float(right))
        return float(np.mean(scores))


def _crossed(points: Mapping[str, tuple[Any, ...]], known: Mapping[str, Values], kind: str) -> dict[str, Values]:
    """Combine the declared values of all features."""
    rows = list(product(*(points[name] for name in known)))
    made: dict[str, Values] = {}
    for place, (name, values) in enumerate(known.items()):
        given = [row[place] for row in rows]
        if isinstance(values, Numbers):
            if any(isinstance(one, str) for one in given):
                raise PlanError(f"{kind}: points: {name!r} is a number")
            made[name] = Numbers(np.array(given, dtype=np.float64))
        else:
            number = {label: code for code, label in enumerate(values.names)}
            if unknown := [one for one in given if str(one) not in number]:
                raise PlanError(f"{kind}: points: {name!r} has no value {unknown[0]!r}")
            codes = np.array([number[str(one)] for one in given], dtype=np.int64)
            made[name] = Labels(codes, values.names, values.ordered)
    return made
