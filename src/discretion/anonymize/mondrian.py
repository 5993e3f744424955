"""Mondrian: records are divided, column by column, into groups that look alike (LeFevre et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.group_judge import GroupJudge
from discretion.anonymize.split_columns import Groups, Representation, value_range
from discretion.context import Context, Progress
from discretion.data.dataset import Dataset
from discretion.method import Decision
from discretion.protect.class_models import ReachesModels

if TYPE_CHECKING:
    from discretion.kernels.mondrian import SplitColumn

Ints = NDArray[np.int64]


class Mondrian(ReachesModels, kind="mondrian"):
    """Divide the records into groups of at least k and publish each group's range instead of the values.

    All records are one group at first. A group is divided by the column in which it is widest, at the median, as long
    as both sides have k records and satisfy all models; if no column can be divided, the group stays. Numbers and dates
    are divided by value, categories along their hierarchy (between the children of the lowest common label), categories
    without one by their order. Published are intervals ("[12, 28]") or means of numbers and dates, the lowest common
    label of a hierarchy, else the set of values ("{a, b}"); one value alone stays as it is.

    Guarantees k-anonymity over `columns`, missing as a category of its own, and the other models in every group. Does
    not protect against attribute disclosure unless a model asks for it. Missing values are divided from the others
    first; where fewer than k are left, they share a group with values, which are then suppressed in that column.

    `strict`: equal values of a column stay on the same side; otherwise those equal to the median go to both sides,
    which gives smaller groups whose ranges touch (not along hierarchies), and which of several equal records goes where
    follows their order. The width of a column is relative to its range (numbers) or number of values. Time
    O(n·columns·log(n/k)); models other than k-anonymity are asked once per round for all groups together.

    References
    ----------
    LeFevre, DeWitt & Ramakrishnan (2006), Mondrian multidimensional k-anonymity, ICDE; catalogue M1, P2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"age": [25, 31, 28, 47, 52, 60], "sex": ["m", "f", "m", "f", "f", "m"]})
    >>> dc.Mondrian(columns=["age", "sex"], k=3)(people).rows()[2:4]
    [('[25, 31]', '{f, m}'), ('[47, 60]', '{f, m}')]
    """

    strict: bool = True
    """keep records with equal values together; otherwise those at the median go to both sides"""
    representation: Representation = "interval"
    """what numbers and dates are published as: the interval of the group, or its mean"""

    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Records were put into groups, and each value was replaced by the range of its group, so that no record can be "
        "told from the others of its group by these columns."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Divide the records, and publish what each group has in common."""
        data.require(self.columns)
        judge = GroupJudge(data, self.columns, self.k, self.models, self.kind)
        judge.refuse_impossible()
        ranges = [value_range(data, name, self.representation) for name in judge.columns]
        groups = divide([one.split() for one in ranges], judge, self.strict, ctx.progress)
        judge.confirm(groups.of, groups.count)
        values: dict[str, Any] = {}
        hidden: dict[str, NDArray[np.bool_]] = {}
        levels: dict[str, NDArray[np.int64]] = {}
        for number, one in enumerate(ranges):
            ctx.progress(number, len(ranges), f"{ctx.step}: {one.name}")
            made = one.publish(groups)
            values[one.name] = made.values
            if made.hidden is not None:
                hidden[one.name] = made.hidden
            if made.levels is not None:
                levels[one.name] = made.levels
        return data.with_columns(values, levels=levels, suppressed=hidden)


def divide(
    columns: Sequence[SplitColumn], judge: GroupJudge, strict: bool, progress: Progress, records: Ints | None = None
) -> Groups:
    """Divide records (all, or some that are named) as long as the judge lets both sides stand."""
    from discretion.kernels.mondrian import mondrian_groups

    if judge.by_size:
        groups = mondrian_groups(columns, judge.k, strict, progress)
        return Groups(groups, int(groups.max()) + 1)
    return _divide_by_models(columns, judge, strict, progress, records)


def _divide_by_models(
    columns: Sequence[SplitColumn], judge: GroupJudge, strict: bool, progress: Progress, records: Ints | None
) -> Groups:
    """Divide in rounds: every open group proposes its next split, the models judge all sides at once."""
    from discretion.kernels.mondrian import apply_splits, find_splits, prepare

    work, space = prepare(columns)
    n = len(work.places)
    bounds, attempts = np.array([[0, n]]), np.zeros(1, np.int64)
    ready: list[Ints] = []
    sides = np.empty(n, np.int32)
    while len(bounds):
        progress(n - int(np.diff(bounds).sum()), n, "splitting")
        found = np.zeros((len(bounds), 5), np.int64)
        find_splits(work, space, bounds, attempts, judge.k, strict, found, sides)
        proposed = found[:, 0] >= 0
        ready.append(bounds[~proposed])
        bounds, found = bounds[proposed], found[proposed]
        if not len(bounds):
            break
        agreed = _both_stand(sides, proposed, judge, records)
        middles = np.zeros(len(bounds), np.int64)
        apply_splits(work, bounds, found, agreed, middles)
        left = np.column_stack([bounds[agreed, 0], middles[agreed]])
        right = np.column_stack([middles[agreed], bounds[agreed, 1]])
        attempts = np.concatenate([found[~agreed, 0] + 1, np.zeros(2 * len(left), np.int64)])
        bounds = np.concatenate([bounds[~agreed], left, right])
    ends = np.concatenate(ready)
    ends = ends[np.argsort(ends[:, 0])]
    groups = np.empty(n, np.int32)
    groups[work.places] = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends).ravel())
    return Groups(groups, len(ends))


def _both_stand(
    sides: NDArray[np.int32], proposed: NDArray[np.bool_], judge: GroupJudge, records: Ints | None
) -> NDArray[np.bool_]:
    """Tell for each proposed split whether both sides satisfy the models."""
    rows = np.flatnonzero(sides >= 0)
    number = np.cumsum(proposed) - 1
    renumbered = 2 * number[sides[rows] >> 1] + (sides[rows] & 1)
    table = judge.table(renumbered, 2 * int(proposed.sum()), rows if records is None else records[rows])
    failing = judge.failing(table)
    return np.asarray(~(failing[0::2] | failing[1::2]))
