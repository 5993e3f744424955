"""Mondrian: records are divided, column by column, into groups that look alike (LeFevre et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.group_fields import GroupsRecords
from discretion.anonymize.group_judge import GroupJudge
from discretion.anonymize.split_columns import Groups, Representation, ValueRange, value_range
from discretion.context import Context, Progress
from discretion.data.dataset import Dataset
from discretion.method import Decision

if TYPE_CHECKING:
    from discretion.kernels.mondrian import Space, SplitColumn, Work

Ints = NDArray[np.int64]


class Mondrian(GroupsRecords, kind="mondrian"):
    """Divide the records into groups of at least k and publish each group's range instead of the values.

    All records are one group at first. A group is divided by the column that loses most in it, at the median, as long
    as both sides have k records and satisfy all models; if no column can be divided, the group stays. Numbers and dates
    are divided by value, categories along their hierarchy (between the children of the lowest common label), categories
    without one by their order. Published are intervals ("[12, 28]") or means of numbers and dates, the lowest common
    label of a hierarchy, else the set of values ("{a, b}"); one value alone stays as it is.

    Guarantees k-anonymity over `columns`, missing as a category of its own, and the other models in every group. Does
    not protect against attribute disclosure unless a model asks for it. Missing values are divided from the others
    first; where fewer than k are left, they share a group with values, which are then suppressed in that column.

    What a column loses in a group, times its importance: with `loss` the width of the group's range relative to that of
    the column (numbers) or to its number of values, whatever lies between; with `entropy` the bits of its values, the
    mean of log2(records of the whole data in the range / records with the value), so that an outlier does not make all
    other values look close. The other losses of `optimal-generalization` name no column (those of classes are least
    when groups are smallest, whichever way they are divided) or need levels, which ranges do not have. A column of
    importance 0 is divided only where its missing values are.

    With `suppression_limit`, the records at an end of a group's range are dropped where they cost the others more than
    they are worth, the worst first: a dropped record loses every column whole. Every group keeps k records and
    satisfies the models; none is dropped where the models would not hold for the rest by itself.

    `strict`: equal values of a column stay on the same side; otherwise those equal to the median go to both sides,
    which gives smaller groups whose ranges touch (not along hierarchies), and which of several equal records goes where
    follows their order. Time O(n·columns·log(n/k)), for dropping O(n·columns²) in each round; models other than
    k-anonymity are asked once per round for all groups together.

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

    loss: Literal["loss", "entropy"] = "loss"
    """by what the column is chosen that divides a group: the width of its range, or the bits that its values lose"""
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
        weights = self._weights(judge.columns)
        ranges = [value_range(data, name, self.representation) for name in judge.columns]
        columns = [replace(one.split(), weight=float(weight)) for one, weight in zip(ranges, weights, strict=True)]
        groups = divide(columns, judge, self.strict, ctx.progress, by_bits=self.loss == "entropy")
        kept = self._kept(data, columns, groups, judge, ctx)
        judge.confirm(groups.of[kept], groups.count, kept)
        if len(kept) < len(data):
            data, groups = data.take(kept, suppressed=True), Groups(groups.of[kept], groups.count)
            ranges = [one.take(kept) for one in ranges]
        return _published(data, ranges, groups, ctx)

    def _kept(
        self, data: Dataset, columns: Sequence[SplitColumn], groups: Groups, judge: GroupJudge, ctx: Context
    ) -> Ints:
        """Choose the records to keep; all are, where the models do not hold for the rest by itself."""
        from discretion.anonymize.trim import rows_to_keep

        allowed = self._allowed(len(data))
        if allowed:
            kept = rows_to_keep(columns, groups, judge, allowed, self.loss == "entropy", ctx.progress)
            if judge.stands_alone(data, groups.of, kept):
                return kept
        return np.arange(len(data))


def _published(data: Dataset, ranges: Sequence[ValueRange], groups: Groups, ctx: Context) -> Dataset:
    """Replace each column by what its groups have in common."""
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
    columns: Sequence[SplitColumn],
    judge: GroupJudge,
    strict: bool,
    progress: Progress,
    records: Ints | None = None,
    by_bits: bool = False,
) -> Groups:
    """Divide records (all, or some that are named) as long as the judge lets both sides stand."""
    from discretion.kernels.mondrian import mondrian_groups, prepare

    if judge.by_size:
        groups = mondrian_groups(columns, judge.k, strict, progress, by_bits)
        return Groups(groups, int(groups.max()) + 1)
    return _divide_by_models(*prepare(columns, by_bits), judge, strict, progress, records)


def _divide_by_models(
    work: Work, space: Space, judge: GroupJudge, strict: bool, progress: Progress, records: Ints | None
) -> Groups:
    """Divide in rounds: every open group proposes its next split, the models judge all sides at once."""
    from discretion.kernels.mondrian import apply_splits, find_splits

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
