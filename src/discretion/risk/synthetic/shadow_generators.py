"""Membership in the data behind a generator, told by shadow generators that were trained with and without a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Better, Measure, Score, as_percent
from discretion.method import AnyMethod, Method
from discretion.part import Columns, Family
from discretion.risk.attribute.membership import area, recognized
from discretion.risk.synthetic.records import EncodedRecords, by_value, common_columns, encode_together, wilson

LEAST_PEOPLE = 40
_BINS = 10
_MOST_SUBSETS = 24
_LEARNED_ROWS = 200_000
_RATES = (0.001, 0.01)
_EXPOSED = 0.01


class GeneratorMembership(Measure, kind="generator-membership"):
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
    sample: int | None = Field(None, ge=LEAST_PEOPLE)
    """people drawn at random who are taken for all of them, which bounds the time for large data; fewer people expose
    each of them more. Without it everybody"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False
    of_steps: ClassVar[bool] = True
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

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
        if (count := int(people.max(initial=-1)) + 1) < LEAST_PEOPLE:
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
                part = step.on_part().run(part, ctx.within(f"shadow {number}/{place}")).data
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
