"""Linkability: does the release bring two things together that somebody knows about one person?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.measure import Score
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    ControlledAttack,
    Rate,
    by_value,
    common_columns,
    control_group,
    draw,
    encode_together,
)


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
