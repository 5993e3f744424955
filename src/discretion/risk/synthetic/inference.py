"""Inference: does the release tell the secret of somebody whose other values are known?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Score
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    ControlledAttack,
    EncodedRecords,
    Rate,
    by_value,
    common_columns,
    control_group,
    draw,
    encode_together,
    excess_risk,
)


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
