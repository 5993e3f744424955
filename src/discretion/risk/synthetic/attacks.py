"""Attacks on synthetic files: closest records, inference, linkability, singling out, replicated uniques."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_units
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Score, as_percent
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    ControlledAttack,
    EncodedRecords,
    Rate,
    UnalignedRisk,
    by_value,
    common_columns,
    control_group,
    draw,
    draw_people,
    encode_together,
    excess_risk,
    wilson,
)


class ClosestRecord(UnalignedRisk, kind="closest-record"):
    """Share of released records that are closer to a record of the data than to one of a control group.

    A release that learned the population is as close to people it was not made from as to those it was: the value is
    then 1/2 (`chance`). A copy has 1. Every released record is judged. The larger group is reduced at random to as many
    people as the smaller one has, with all their rows: a copy of any of them counts, and people who are told by a unit,
    household or repeated identifier stay whole in both groups. A released record that is as close to both counts one
    half. The distance is the mean over the columns of |x − y|/range (numbers) and 0 or 1 (categories); missing against
    a value counts 1. The detail has Wilson's interval, the median and 5th percentile of the distance to the closest
    record (DCR) of the data and of the control group, of the ratio between the nearest and the second nearest (NNDR;
    near 0: one record sticks out as the source), and the share of exact copies. `per_record` follows the rows of the
    release.

    A small distance is not a disclosure by itself, and a large one no protection where single columns are secret: it
    looks at whole records only. Released records made from the same person are not independent, which the interval
    does not know. Time about O(n·log n) where few columns matter, O(n²) at worst; memory linear.

    References
    ----------
    Platzer & Reutterer (2021), Frontiers in Big Data 4; catalogue R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 3)), schema=list("abc"))
    >>> dc.ClosestRecord(columns=list("abc"), holdout=people[200:])(people[:200], people[:200]).value
    1.0
    """

    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Find the nearest original and the nearest control record of each released record."""
        others = control_group(self.holdout, original, self.kind)
        tables = (original, released, others)
        columns = common_columns(self.columns, "compare", tables, self.kind)
        records = encode_together(tables, columns, self.kind)
        people, published, control = records.tables
        who, whom = find_units(original), find_units(others)
        if who is None or whom is None:
            who, whom = np.arange(len(people)), np.arange(len(control))
        size = min(len(np.unique(who)), len(np.unique(whom)))
        if size < 2:
            raise DataError(f"{self.kind}: both the original and the holdout need at least two records")
        found = []
        for table, unit, step in ((people, who, "people"), (control, whom, "control")):
            group = table[draw_people(table, unit, size, ctx.within(step).rng)]
            found.append(_nearest_two(group, published, records.nominal, records.weights, ctx))
        closer = np.where(found[0][:, 0] < found[1][:, 0], 1.0, np.where(found[0][:, 0] == found[1][:, 0], 0.5, 0.0))
        value = float(closer.mean())
        low, high = wilson(float(closer.sum()), len(closer), self.confidence)
        meaning = (
            f"{as_percent(value)} of the released records are closer to a record of the data than to one of the "
            f"control group (by chance 50%; {self.confidence:.0%} interval {low:.3f} to {high:.3f})."
        )
        return self.score(
            value,
            meaning,
            closer,
            chance=0.5,
            interval=[low, high],
            confidence=self.confidence,
            to_data=_distances(found[0]),
            to_control=_distances(found[1]),
            share_as_close=float((closer == 0.5).mean()),
            group_size=size,
            columns=list(columns),
        )


def _nearest_two(group: Floats, published: Floats, nominal: Any, weights: Floats, ctx: Context) -> Floats:
    from discretion.kernels.trees import GowerTree

    total, _ = GowerTree(group, nominal, weights).nearest(published, 2, ctx.progress)
    return np.asarray(total / group.shape[1])


def _distances(nearest: Floats) -> dict[str, float]:
    """Sum up distances to the nearest and second nearest record; two records at distance zero have the ratio 1."""
    ratio = np.where(nearest[:, 1] > 0, nearest[:, 0] / np.where(nearest[:, 1] > 0, nearest[:, 1], 1.0), 1.0)
    return {
        "dcr_median": float(np.median(nearest[:, 0])),
        "dcr_5th_percentile": float(np.quantile(nearest[:, 0], 0.05)),
        "nndr_median": float(np.median(ratio)),
        "nndr_5th_percentile": float(np.quantile(ratio, 0.05)),
        "share_identical": float((nearest[:, 0] == 0).mean()),
    }


@dataclass(frozen=True)
class _Outcome:
    """How one target column was guessed."""

    target: str
    attack: Rate
    control: Rate
    baseline: float
    right: Floats
    """per original record; NaN where it was not attacked"""


class InferenceRisk(ControlledAttack, kind="inference-risk"):
    """Share of people whose secret the release gives away to somebody who knows their other values, beyond chance.

    The intruder knows `columns` of a person, takes the released record nearest to them (mixed distance; records equal
    in these columns are one, with their most frequent value or their median) and guesses its value of the target. A
    guess is right when it is equal, for numbers when it lies within `percent` of the original's standard
    deviation. What can be guessed as well about people outside the data is true of everybody and no harm from being in
    it: the value is the excess over the control group, (a − c)/(1 − c), for the target where it is greatest; Wilson
    intervals, and the rate of the best constant guess (`baseline`), are in the detail.

    People whose target is missing are not attacked. Only one way of guessing is tried: a model may do better
    (`ModelDisclosure`). Time about O(attacks·log n) where few columns matter, O(attacks·n) at worst; memory linear.

    References
    ----------
    Article 29 Working Party (2014), Opinion 05/2014; Elliot et al. (2020), correct attribution; catalogue R5, R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 3)), schema=["a", "b", "income"])
    >>> attack = dc.InferenceRisk(columns=["a", "b"], targets=["income"], holdout=people[200:])
    >>> attack(people[:200], people[:200]).value
    1.0
    """

    columns: Columns = ()
    """columns the intruder knows; without it, the quasi-identifiers"""
    targets: Columns = ()
    """columns the intruder wants to know; without it, the sensitive ones"""
    percent: float = Field(5, ge=0)
    """a number is known when the guess is within this percentage of the column's standard deviation"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess each target of both groups from the nearest released record."""
        others = control_group(self.holdout, original, self.kind)
        tables = (original, released, others)
        targets = self._targets(original, released)
        for table in tables:
            table.require(targets)
        known = tuple(n for n in common_columns(self.columns, "classes", tables, self.kind) if n not in targets)
        if not known:
            raise PlanError(f"{self.kind}: the intruder knows nothing besides the targets; give `columns`")
        records = encode_together(tables, (*known, *targets), self.kind)
        outcomes = [self._attack(records, known, name, tables, ctx.within(name)) for name in targets]
        risks = [excess_risk(o.attack, o.control, self.confidence) for o in outcomes]
        worst = outcomes[int(np.argmax([risk.value for risk in risks]))]
        per_target = {
            o.target: {"attack": o.attack.share, "control": o.control.share, "baseline": o.baseline, "risk": r.value}
            for o, r in zip(outcomes, risks, strict=True)
        }
        complete = all(np.isnan(o.right).sum() == original.count_missing(o.target) for o in outcomes)
        return self.compare(
            worst.attack,
            worst.control,
            worst.baseline,
            f"guesses {worst.target} right",
            np.nan_to_num(np.fmax.reduce([o.right for o in outcomes])) if complete else None,
            target=worst.target,
            columns=list(known),
            per_target=per_target,
        )

    def _targets(self, original: Dataset, released: Dataset) -> tuple[str, ...]:
        if self.targets:
            return original.choose(self.targets, "compare")
        if not original.having("sensitive"):
            raise PlanError(f"{self.kind}: no column is sensitive; give `targets`")
        found = tuple(name for name in original.having("sensitive") if name in released.columns)
        if not found:
            raise DataError(f"{self.kind}: the release has none of the sensitive columns; give `targets`")
        return found

    def _attack(
        self, records: EncodedRecords, known: tuple[str, ...], target: str, tables: tuple[Dataset, ...], ctx: Context
    ) -> _Outcome:
        """Guess one target from the nearest distinct released record."""
        from discretion.kernels.trees import GowerTree

        at = [records.columns.index(name) for name in known]
        own = records.columns.index(target)
        absent = [_absent(table[:, own], tables[i], target) for i, table in enumerate(records.tables)]
        people, published, control = (t[~gone][:, [*at, own]] for t, gone in zip(records.tables, absent, strict=True))
        for table, name in ((people, "original"), (published, "release"), (control, "holdout")):
            if not len(table):
                raise DataError(f"{self.kind}: the {name} has no value of {target!r}")
        number = not records.nominal[own]
        spread = float(people[:, -1].std(ddof=1)) if number and len(people) > 1 else 0.0
        tolerance = self.percent / 100 * spread
        points, guesses = _distinct(published, number, ctx)
        rows = draw(people, self.attacks, ctx.within("people").rng)
        chosen = [people[rows], control[draw(control, self.attacks, ctx.within("control").rng)]]
        tree = GowerTree(points, records.nominal[at], records.weights[at])
        right = []
        for group in chosen:
            nearest = tree.nearest(group[:, :-1], 1, ctx.progress)[1][:, 0]
            right.append(np.abs(guesses[nearest] - group[:, -1]) <= tolerance)
        constant = _best_constant(published[:, -1], tolerance)
        baseline = float((np.abs(chosen[0][:, -1] - constant) <= tolerance).mean())
        per_record = np.full(len(absent[0]), np.nan)
        per_record[np.flatnonzero(~absent[0])[rows]] = right[0]
        attack, outside = (Rate(int(hits.sum()), len(hits)) for hits in right)
        return _Outcome(target, attack, outside, baseline, per_record)


def _absent(values: Floats, table: Dataset, name: str) -> Bools:
    missing = np.isnan(values)
    codes = table.codes(name)
    return missing | np.asarray(codes.codes == codes.missing) if codes.missing >= 0 else missing


def _distinct(published: Floats, number: bool, ctx: Context) -> tuple[Floats, Floats]:
    """Merge released records that are equal in the known columns; their guess is the median or the most frequent value.

    Merged records stand in a random order, so that distances that are equal by chance are broken at random.
    """
    table = published[by_value(published)]
    known = table[:, :-1]
    change = (known[1:] != known[:-1]) & ~(np.isnan(known[1:]) & np.isnan(known[:-1]))
    starts = np.concatenate([[0], np.flatnonzero(change.any(axis=1)) + 1])
    stops = np.append(starts[1:], len(table))
    secrets = table[:, -1]  # ascending inside each group
    guesses = (
        (secrets[(starts + stops - 1) // 2] + secrets[(starts + stops) // 2]) / 2
        if number
        else _modes(secrets, starts, stops)
    )
    order = ctx.within("ties").rng.permutation(len(starts))
    return known[starts][order], guesses[order]


def _modes(secrets: Floats, starts: Ints, stops: Ints) -> Floats:
    """Give the most frequent value of each group of sorted values, the smallest of several."""
    first = np.zeros(len(secrets), np.bool_)
    first[starts] = True
    first[1:] |= secrets[1:] != secrets[:-1]
    runs = np.flatnonzero(first)
    lengths = np.diff(np.append(runs, len(secrets)))
    group = np.searchsorted(starts, runs, "right") - 1
    best = np.lexsort((secrets[runs], -lengths, group))
    return np.asarray(secrets[runs[best[np.searchsorted(group[best], np.arange(len(stops)))]]])


def _best_constant(values: Floats, tolerance: float) -> float:
    """Give the constant that is within the tolerance of most released values."""
    ladder = np.sort(values)
    reach = np.searchsorted(ladder, ladder + 2 * tolerance, "right") - np.arange(len(ladder))
    best: Any = int(reach.argmax())
    return float(ladder[best] + tolerance)


class _Side(NamedTuple):
    """The columns of one source: where they stand, and how they are compared."""

    at: list[int]
    nominal: Bools
    weights: Floats


class Linkability(ControlledAttack, kind="linkability"):
    """Share of people whose data in two sources the release links, beyond what it does for people outside it.

    One source knows the columns `first` of a person, another the columns `second`, and nothing tells that both speak
    about the same one. The intruder looks for the `neighbors` released records nearest to each (mixed distance: numbers
    by their range, categories 0 or 1); the attack succeeds when a released record is among both. The value is the
    excess over the control group, (a − c)/(1 − c), with Wilson intervals in the detail; the baseline is the
    chance that two random sets of released records meet. Ties are broken at random.

    A column missing in both records counts as equal. It does not see links through other columns or with outside
    knowledge of the method. Time about O(attacks·log n) where few columns matter, O(attacks·n) at worst; memory linear.

    References
    ----------
    Article 29 Working Party (2014), Opinion 05/2014; catalogue R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 4)), schema=list("abcd"))
    >>> attack = dc.Linkability(first=["a", "b"], second=["c", "d"], holdout=people[200:])
    >>> attack(people[:200], people[:200]).value
    1.0
    """

    first: Columns = ()
    """columns that one source knows; without both, the first half of the quasi-identifiers"""
    second: Columns = ()
    """columns that the other source knows; without both, the second half of the quasi-identifiers"""
    neighbors: int = Field(1, ge=1)
    """released records that are looked at for each source"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Look for the nearest released records from both sides."""
        others = control_group(self.holdout, original, self.kind)
        if self.neighbors > len(released):
            raise DataError(f"{self.kind}: the release has {len(released)} records, fewer than `neighbors`")
        first, second = self._sides(original, released, others)
        columns = (*first, *second)
        records = encode_together((original, released, others), columns, self.kind)
        people, published, control = records.tables
        mixed = ctx.within("ties").rng.permutation(by_value(published))
        sides = []
        for names in (first, second):
            at = [columns.index(name) for name in names]
            sides.append(_Side(at, records.nominal[at], records.weights[at]))
        rows = draw(people, self.attacks, ctx.within("people").rng)
        control_rows = draw(control, self.attacks, ctx.within("control").rng)
        targets = np.concatenate([people[rows], control[control_rows]])
        linked = _linked(published[mixed], targets, sides, self.neighbors, ctx)
        per_record = None
        if len(rows) == len(people):
            per_record = np.zeros(len(people))
            per_record[rows] = linked[: len(rows)]
        return self.compare(
            Rate(int(linked[: len(rows)].sum()), len(rows)),
            Rate(int(linked[len(rows) :].sum()), len(control_rows)),
            _chance(len(released), self.neighbors),
            "links both sources",
            per_record,
            first=list(first),
            second=list(second),
        )

    def _sides(self, original: Dataset, released: Dataset, others: Dataset) -> tuple[tuple[str, ...], tuple[str, ...]]:
        tables = (original, released, others)
        if bool(self.first) != bool(self.second):
            raise PlanError(f"{self.kind}: give both `first` and `second`, or neither")
        if self.first:
            if both := set(self.first) & set(self.second):
                raise PlanError(f"{self.kind}: column {min(both)!r} stands in `first` and in `second`")
            return tuple(common_columns(side, "classes", tables, self.kind) for side in (self.first, self.second))  # type: ignore[return-value]
        quasi = common_columns((), "classes", tables, self.kind)
        if len(quasi) < 2:
            raise PlanError(f"{self.kind}: fewer than two quasi-identifiers; give `first` and `second`")
        return quasi[: len(quasi) // 2], quasi[len(quasi) // 2 :]


def _linked(published: Floats, targets: Floats, sides: list[_Side], k: int, ctx: Context) -> Bools:
    """Tell for which targets the nearest released records from both sides have one in common."""
    from discretion.kernels.trees import GowerTree

    found = []
    for side in sides:
        tree = GowerTree(published[:, side.at], side.nominal, side.weights)
        found.append(tree.nearest(targets[:, side.at], k, ctx.progress)[1])
    linked = np.zeros(len(targets), np.bool_)
    for i in range(k):
        linked |= (found[0][:, [i]] == found[1]).any(axis=1)
    return linked


def _chance(n: int, k: int) -> float:
    """Give the probability that two random sets of k of n meet."""
    if 2 * k > n:
        return 1.0
    return -math.expm1(sum(math.log1p(-k / (n - i)) for i in range(k)))


_TRIES = 5  # sets of columns tried for a released record


@dataclass(frozen=True)
class Description:
    """Conditions on a few columns: a value between two bounds, or (both NaN) no value."""

    columns: Ints
    low: Floats
    high: Floats

    def fits(self, table: Floats, rows: Ints | None = None) -> Ints:
        """Give the rows that meet all conditions, of all or of some."""
        for j, low, high in zip(self.columns, self.low, self.high, strict=True):
            x = table[:, j] if rows is None else table[rows, j]
            met = np.isnan(x) if np.isnan(low) else (x >= low) & (x <= high)
            rows = np.flatnonzero(met) if rows is None else rows[met]
        return np.arange(len(table)) if rows is None else rows


class SinglingOut(ControlledAttack, kind="singling-out"):
    """Share of descriptions learned from the release that fit exactly one person in the data, beyond chance.

    The intruder takes a released record, looks at `size` of its columns, and widens the values (numbers: an interval
    of neighboring values; categories: the value itself) as far as the description still fits this one released record.
    The attack succeeds when exactly one original record fits it. The same descriptions are tried on as many people of
    the control group; the value is the excess (a − c)/(1 − c), with the Wilson intervals in the detail. Each released
    record is used at most once. `per_record`: was the original record singled out by some description?

    A description that fits one person in n on average singles somebody out in 1/e of all cases without knowing
    anything (`trivial` in the detail): only the excess over the control group counts. It does not see an intruder who
    knows something about a certain person (`Linkability`, `InferenceRisk`). Missing is a value like others.
    Time O(attacks·n); memory linear.

    References
    ----------
    Cohen & Nissim (2020), PNAS 117(15); Article 29 Working Party (2014), Opinion 05/2014; catalogue R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 4)), schema=list("abcd"))
    >>> copied, others = people[:200], people[200:]
    >>> dc.SinglingOut(columns=list("abcd"), holdout=others)(copied, copied).value
    1.0
    """

    columns: Columns = ()
    """columns the descriptions may use; without it, all but identifiers and weights"""
    size: int = Field(3, ge=1)
    """columns in a description (all columns, if there are fewer)"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Describe released records and look for them in both groups."""
        others = control_group(self.holdout, original, self.kind)
        tables = (original, released, others)
        columns = common_columns(self.columns, "compare", tables, self.kind)
        records = encode_together(tables, columns, self.kind)
        people, _, control = records.tables
        equal = min(len(people), len(control))  # the chance to fit exactly one depends on how many there are
        in_data, outside = np.zeros(len(people), np.bool_), np.zeros(len(control), np.bool_)
        in_data[draw(people, equal, ctx.within("people").rng)] = True
        outside[draw(control, equal, ctx.within("control").rng)] = True
        tried, hits, control_hits = 0, 0, 0
        singled = np.zeros(len(people), np.bool_)
        for description in _descriptions(records, self.size, self.attacks, ctx):
            found = description.fits(people)
            if len(found) == 1:
                singled[found] = True
            tried += 1
            hits += int(in_data[found].sum() == 1)
            control_hits += int(outside[description.fits(control)].sum() == 1)
        if not tried:
            raise DataError(
                f"{self.kind}: no released record is alone with the values of {min(self.size, len(columns))} columns; "
                "give a larger `size` or more `columns`"
            )
        trivial = (1 - 1 / equal) ** (equal - 1)
        what = "describes exactly one person"
        rates = Rate(hits, tried), Rate(control_hits, tried)
        return self.compare(
            *rates, trivial, what, singled.astype(np.float64), trivial=trivial, columns=list(columns), group_size=equal
        )


def _descriptions(records: EncodedRecords, size: int, attacks: int, ctx: Context) -> Iterator[Description]:
    """Yield descriptions that fit exactly one released record, at most one for each record."""
    published = records.tables[1][by_value(records.tables[1])]
    rng = ctx.within("descriptions").rng
    ladders = [np.sort(x[~np.isnan(x)]) for x in published.T]
    order = rng.permutation(len(published))[:attacks]
    count = min(size, len(records.columns))
    for number, row in enumerate(order):
        if number % 64 == 0:
            ctx.progress(number, len(order), ctx.step)
        for _ in range(_TRIES):
            chosen = np.sort(rng.choice(len(records.columns), count, replace=False))
            found = _widest(published, row, chosen, records.nominal[chosen], ladders)
            if found is not None:
                yield found
                break


def _widest(published: Floats, row: int, chosen: Ints, nominal: Bools, ladders: Sequence[Floats]) -> Description | None:
    """Shrink intervals around a released record until it is alone in them; None if it never is."""
    values = published[row, chosen]
    rows: Ints | None = None
    wide = len(published) // 4 if not nominal.all() else 0
    while True:
        low, high = values.copy(), values.copy()
        for i in np.flatnonzero(~nominal & ~np.isnan(values)):
            low[i], high[i] = _around(ladders[chosen[i]], values[i], wide)
        description = Description(chosen, low, high)
        rows = description.fits(published, rows)
        if len(rows) == 1:
            return description
        if wide == 0:
            return None
        wide //= 2


def _around(ladder: Floats, value: float, wide: int) -> tuple[float, float]:
    """Give the values so many places below and above a value; infinite beyond the ends."""
    if wide == 0:
        return value, value
    below = int(np.searchsorted(ladder, value, "left")) - wide
    above = int(np.searchsorted(ladder, value, "right")) - 1 + wide
    return (
        float(ladder[below]) if below >= 0 else -np.inf,
        float(ladder[above]) if above < len(ladder) else np.inf,
    )


class _Keys(NamedTuple):
    """The same classes over several data sets."""

    ids: tuple[Ints, ...]
    counts: tuple[Ints, ...]


def _keys(tables: tuple[Floats, ...]) -> _Keys:
    """Number the combinations of values over all data sets and count them in each; missing is a value."""
    from discretion.kernels.classes import distinct_rows

    stacked = np.concatenate(tables)
    for j in np.flatnonzero(np.isnan(stacked).any(axis=0)):
        stacked[np.isnan(stacked[:, j]), j] = np.finfo(np.float64).max
    found = distinct_rows(stacked)
    ids = tuple(np.split(found.ids.astype(np.int64), np.cumsum([len(table) for table in tables])[:-1]))
    return _Keys(ids, tuple(np.bincount(each, minlength=len(found.counts)) for each in ids))


def _advantage(keys: _Keys) -> dict[str, float]:
    """Give the replication advantage: keys of people found in the release minus those of people outside the data.

    Also for people whose key nobody else has, in the data or outside it.
    """
    found = [keys.counts[1][keys.ids[side]] > 0 for side in (0, 2)]
    alone = keys.counts[0] + keys.counts[2] == 1
    rare = [hit[alone[keys.ids[side]]] for hit, side in zip(found, (0, 2), strict=True)]
    shares = [float(hit.mean()) for hit in found]
    figures = {"found": shares[0], "control_found": shares[1], "advantage": shares[0] - shares[1]}
    if all(len(hit) for hit in rare):
        figures["advantage_of_uniques"] = float(rare[0].mean() - rare[1].mean())
    return figures


NO_HOLDOUT = "only a holdout, people outside the data, tells what chance gives"


class ReplicatedUniques(UnalignedRisk, kind="replicated-uniques"):
    """Share of the original records that are alone with their key values, in the data and in the release (repU).

    Somebody who knows the key of a person who is alone with it finds exactly one released record, and may take it for
    that person. The value is a share of all original records, as published; the share of the uniques is in the detail,
    with those of the release (`unique_in_release`), and Wilson's interval. With `holdout`, the detail compares with
    the same figure for people outside the data (alone if nobody in the data has their key, as they would be there: a
    smaller group has more uniques among themselves): what chance replicates; and has the replication advantage, the
    share of people whose key the release has minus that of people outside (`advantage`, for keys of one person
    `advantage_of_uniques`): 0 for a generator that copies nobody. `per_record`: is the record a replicated unique?

    Missing is a value like others. Continuous columns are unique anyway and hardly replicated: recode them first. It
    does not see records that are nearly the same. Time linear.

    References
    ----------
    Raab, Nowok & Dibben (2024), Practical privacy metrics for synthetic data; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> original = pl.DataFrame({"zip": ["1", "2", "3", "3"]})
    >>> dc.ReplicatedUniques(columns=["zip"])(original, pl.DataFrame({"zip": ["1", "2", "2", "3"]})).value
    0.25
    """

    columns: Columns = ()
    """the key: columns an intruder may know; without it, the quasi-identifiers"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count keys that occur once in both."""
        tables = [original, released]
        if self.holdout is not None:
            tables.append(control_group(self.holdout, original, self.kind))
        columns = common_columns(self.columns, "classes", tables, self.kind)
        coded = list(encode_together(tables, columns, self.kind).tables)
        if self.holdout is not None:
            coded[2] = coded[2][draw(coded[2], len(original), ctx.rng)]
        keys = _keys(tuple(coded))
        unique = [count[ids] == 1 for ids, count in zip(keys.ids, keys.counts, strict=True)]
        alone = keys.counts[1][keys.ids[0]] == 1
        replicated = unique[0] & alone
        rate = Rate(int(replicated.sum()), len(original))
        detail: dict[str, Any] = {
            "unique_in_original": float(unique[0].mean()),
            "unique_in_release": float(unique[1].mean()),
            "share_of_uniques": float(replicated.sum() / max(int(unique[0].sum()), 1)),
            "interval": list(rate.interval(self.confidence)),
            "columns": list(columns),
        }
        meaning = (
            f"{as_percent(rate.share)} of the people are alone with their key values and alone with them in the "
            f"release ({as_percent(detail['share_of_uniques'])} of those who are alone)"
        )
        if self.holdout is not None:
            outside = (keys.counts[0][keys.ids[2]] == 0) & (keys.counts[1][keys.ids[2]] == 1)
            control = Rate(int(outside.sum()), len(outside))
            detail |= _against(rate, control, self.confidence) | {"chance": control.share} | _advantage(keys)
            meaning += (
                f"; outside the data {as_percent(control.share)}. The release has the key of "
                f"{as_percent(detail['found'])} of the people and of {as_percent(detail['control_found'])} of others"
            )
        else:
            detail["baseline"] = NO_HOLDOUT
            meaning += f"; no baseline: {NO_HOLDOUT}"
        return self.score(rate.share, f"{meaning}.", replicated.astype(np.float64), **detail)


class Disco(UnalignedRisk, kind="disco"):
    """Share of the people whose secret the release states with certainty, and rightly (DiSCO).

    The intruder knows the key of a person. When all released records with this key have the same value of the target,
    the release seems to disclose it (disclosive in synthetic); the record counts when this is its true value (correct
    in original). The value is a share of all original records, for the target where it is largest; the detail has for
    each target also the share whose key occurs in the release at all (`key_in_release`), whose key is disclosive there
    (`disclosive`), and who would be disclosed by the original itself (`in_original`), and Wilson's interval. With
    `holdout`, the detail compares with the same figure for people outside the data: a target that the key determines
    for everybody is disclosed without anybody being in the data. `per_record`: is some target disclosed?

    Missing is a value like others. A target with very many values is seldom homogeneous: recode it first. Probable
    but not certain values are not seen (`InferenceRisk`). Time linear.

    References
    ----------
    Raab, Nowok & Dibben (2024), Practical privacy metrics for synthetic data; catalogue R8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> original = pl.DataFrame({"zip": ["1", "2", "3", "3"], "ill": ["yes", "no", "yes", "no"]})
    >>> release = pl.DataFrame({"zip": ["1", "1", "2", "3"], "ill": ["yes", "yes", "yes", "no"]})
    >>> dc.Disco(columns=["zip"], targets=["ill"])(original, release).value
    0.5
    """

    columns: Columns = ()
    """the key: columns an intruder may know; without it, the quasi-identifiers"""
    targets: Columns = ()
    """columns the intruder wants to know; without it, the sensitive ones"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Look for keys with one value of the target in the release."""
        tables = [original, released]
        if self.holdout is not None:
            tables.append(control_group(self.holdout, original, self.kind))
        targets = self._targets(original, tables)
        known = tuple(n for n in common_columns(self.columns, "classes", tables, self.kind) if n not in targets)
        if not known:
            raise PlanError(f"{self.kind}: the intruder knows nothing besides the targets; give `columns`")
        records = encode_together(tables, (*known, *targets), self.kind)
        keys = _keys(tuple(records.part(known)[0]))
        disclosed = np.zeros(len(original), np.bool_)
        per_target: dict[str, dict[str, Any]] = {}
        for name in targets:
            hits, figures = self._one(keys, tuple(records.part([name])[0]))
            disclosed |= hits
            per_target[name] = figures
        worst = max(per_target, key=lambda name: per_target[name]["disco"])
        value = float(per_target[worst]["disco"])
        meaning = f"For {as_percent(value)} of the people the release states {worst} with certainty, and rightly"
        against: dict[str, Any]
        if self.holdout is not None:
            against = {"chance": per_target[worst]["control_rate"]}
            meaning += f"; outside the data for {as_percent(per_target[worst]['control_rate'])}"
        else:
            against = {"baseline": NO_HOLDOUT}
            meaning += f"; no baseline: {NO_HOLDOUT}"
        return self.score(
            value,
            f"{meaning}.",
            disclosed.astype(np.float64),
            target=worst,
            columns=list(known),
            per_target=per_target,
            **against,
        )

    def _targets(self, original: Dataset, tables: list[Dataset]) -> tuple[str, ...]:
        if not self.targets and not original.having("sensitive"):
            raise PlanError(f"{self.kind}: no column is sensitive; give `targets`")
        named = self.targets or tuple(n for n in original.having("sensitive") if n in tables[1].columns)
        if not named:
            raise DataError(f"{self.kind}: the release has none of the sensitive columns; give `targets`")
        return common_columns(named, "compare", tables, self.kind)

    def _one(self, keys: _Keys, target: tuple[Floats, ...]) -> tuple[Bools, dict[str, Any]]:
        values = _keys(target).ids
        certain = _certain(keys.ids[1], values[1], len(keys.counts[0]))
        hits = certain[keys.ids[0]] == values[0]
        rate = Rate(int(hits.sum()), len(hits))
        figures: dict[str, Any] = {
            "disco": rate.share,
            "interval": list(rate.interval(self.confidence)),
            "key_in_release": float((keys.counts[1][keys.ids[0]] > 0).mean()),
            "disclosive": float((certain[keys.ids[0]] >= 0).mean()),
            "in_original": float((_certain(keys.ids[0], values[0], len(keys.counts[0]))[keys.ids[0]] >= 0).mean()),
        }
        if len(values) > 2:
            outside = certain[keys.ids[2]] == values[2]
            figures |= _against(rate, Rate(int(outside.sum()), len(outside)), self.confidence)
        return np.asarray(hits), figures


def _certain(ids: Ints, values: Ints, classes: int) -> Ints:
    """Give for each class the value that all its records have, −1 where they differ or there are none."""
    low, high = np.full(classes, np.iinfo(np.int64).max), np.full(classes, -1)
    np.minimum.at(low, ids, values)
    np.maximum.at(high, ids, values)
    return np.where(low == high, high, -1)


def _against(rate: Rate, control: Rate, confidence: float) -> dict[str, Any]:
    """Give the figures of the control group, and the risk of being in the data where it is defined."""
    figures: dict[str, Any] = {"control_rate": control.share, "control_interval": list(control.interval(confidence))}
    if control.successes < control.trials:
        risk = excess_risk(rate, control, confidence)
        figures |= {"risk": risk.value, "risk_interval": [risk.low, risk.high]}
    return figures
