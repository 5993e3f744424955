"""Mondrian: records are divided, column by column, into groups that look alike (LeFevre et al. 2006)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.judge import GroupJudge, GroupsRecords, common_columns
from discretion.anonymize.problem import Settings, classes_of
from discretion.anonymize.value_trees import ValueTree, value_tree
from discretion.context import Context, Progress
from discretion.data.codes import ColumnCodes, as_texts, plain
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.engines.lookup import ClassLookup
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.method import Decision, Purpose
from discretion.part import Scale
from discretion.privacy.k_anonymity import KAnonymity

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.mondrian import SplitColumn, SplitSpace, Work

Representation = Literal["interval", "mean"]


@dataclass(frozen=True)
class Groups:
    """A grouping of the records: the group of each record, and the number of groups."""

    of: NDArray[np.int32]
    count: int


@dataclass(frozen=True)
class Published:
    """A column with what its groups have in common: values, cells that were hidden, levels where there are any."""

    values: Any
    hidden: Bools | None = None
    levels: Ints | None = None


@dataclass(frozen=True)
class ValueRange(ABC):
    """A column whose groups are ranges of codes; code 0 stands for missing values where there are any."""

    name: str
    codes: NDArray[np.uint32]
    has_missing: bool

    @abstractmethod
    def split(self) -> SplitColumn:
        """Say how the column may be split."""

    def take(self, rows: Ints) -> Self:
        """Give the column of some records."""
        return replace(self, codes=self.codes[rows])

    @abstractmethod
    def _describe(self, groups: Groups, low: Ints, high: Ints, shown: Bools) -> Published:
        """Publish what groups have in common; groups that are not `shown` have missing values."""

    def publish(self, groups: Groups) -> Published:
        """Replace each value by what its group has in common; values grouped with missing ones are hidden."""
        from discretion.kernels.mondrian import group_ends

        low, high = group_ends(self.codes, groups.of, groups.count)
        mixed = (low == 0) & (high > 0) & self.has_missing
        made = self._describe(groups, low, high, (low > 0) | (not self.has_missing))
        hidden = mixed[groups.of] & (self.codes > 0) if mixed.any() else None
        if made.hidden is not None:
            hidden = made.hidden if hidden is None else hidden | made.hidden
        return Published(made.values, hidden, made.levels)


@dataclass(frozen=True)
class OrderedRange(ValueRange):
    """Numbers and dates: split at the median, published as an interval or as the mean."""

    values: pl.Series
    """the distinct values in order"""
    original: pl.Series
    representation: Representation
    counts: Ints | None
    """how many records each row stands for"""

    def take(self, rows: Ints) -> Self:
        """Give the column of some records."""
        counts = None if self.counts is None else self.counts[rows]
        return replace(self, codes=self.codes[rows], original=self.original.gather(rows), counts=counts)

    def split(self) -> SplitColumn:
        """Split anywhere; the width is the distance of the values."""
        import polars as pl

        from discretion.kernels.mondrian import SplitColumn

        numbers = self.values.to_physical().cast(pl.Float64).to_numpy()
        spread = float(numbers[-1] - numbers[0]) if len(numbers) else 0.0
        places = (numbers - numbers[0]) / spread if spread > 0 else np.zeros(len(numbers))
        return SplitColumn(self.codes, _with_missing(places, self.has_missing), None, self.has_missing)

    def _describe(self, groups: Groups, low: Ints, high: Ints, shown: Bools) -> Published:
        if self.representation == "mean":
            return Published(self._means(groups))
        return Published(self._intervals(groups, low, high, shown))

    def _means(self, groups: Groups) -> pl.Series:
        import polars as pl

        from discretion.kernels.mdav import group_means

        x = self.original.to_physical().cast(pl.Float64).to_numpy()
        found = group_means(x.reshape(-1, 1), groups.of, groups.count, self.counts)
        means = pl.Series(self.name, found[:, 0]).fill_nan(None)
        return means if self.original.dtype.is_numeric() else means.round().cast(pl.Int64).cast(self.original.dtype)

    def _intervals(self, groups: Groups, low: Ints, high: Ints, shown: Bools) -> pl.Series:
        import polars as pl

        texts = as_texts(self.values)
        if self.values.dtype.is_float():
            texts = texts.str.strip_suffix(".0")
        pairs, numbers = _distinct_pairs(low, high, shown)
        shift = int(self.has_missing)
        frame = pl.DataFrame(
            {"a": texts.gather(pairs[:, 0] - shift), "b": texts.gather(pairs[:, 1] - shift)},
            schema={"a": pl.String, "b": pl.String},
        )
        label = pl.when(pl.col("a") == pl.col("b")).then(pl.col("a")).otherwise(pl.format("[{}, {}]", "a", "b"))
        return _spread(self.name, frame.select(label.alias(self.name)).to_series(), numbers, groups)


@dataclass(frozen=True)
class CategoryRange(ValueRange):
    """Categories without a hierarchy: split by their order, published as the set of values in the group."""

    texts: tuple[str, ...]

    def split(self) -> SplitColumn:
        """Split anywhere; the width is the share of the categories."""
        from discretion.kernels.mondrian import SplitColumn

        places = np.linspace(0, 1, len(self.texts))
        return SplitColumn(self.codes, _with_missing(places, self.has_missing), None, self.has_missing)

    def _describe(self, groups: Groups, low: Ints, high: Ints, shown: Bools) -> Published:  # noqa: ARG002
        import polars as pl

        from discretion.kernels.classes import class_ids

        shift = int(self.has_missing)
        pairs = class_ids([groups.of, self.codes], [groups.count, len(self.texts) + shift], len(self.codes))
        table = pl.DataFrame(
            {"group": groups.of[pairs.first_row], "code": self.codes[pairs.first_row].astype(np.int64) - shift}
        ).filter(pl.col("code") >= 0)
        table = table.sort("group", "code").with_columns(
            pl.Series("text", self.texts, dtype=pl.String).gather(table.sort("group", "code")["code"])
        )
        sets = table.group_by("group", maintain_order=True).agg("text")
        joined = pl.col("text").list.join(", ")
        as_set = pl.concat_str(pl.lit("{"), joined, pl.lit("}"))
        labels = sets.select(pl.when(pl.col("text").list.len() == 1).then(joined).otherwise(as_set)).to_series()
        numbers = np.full(groups.count, len(labels), np.int64)
        numbers[sets["group"].to_numpy()] = np.arange(len(labels))
        numbers[~shown] = len(labels)
        return Published(_spread(self.name, labels, numbers, groups))


@dataclass(frozen=True)
class TreeRange(ValueRange):
    """Categories with a hierarchy: split between the children of a label, published as the lowest common label."""

    tree: ValueTree

    def split(self) -> SplitColumn:
        """Split where two children of the lowest common label meet; the width is the share of the leaves."""
        from discretion.kernels.mondrian import SplitColumn

        places = np.linspace(0, 1, self.tree.leaves)
        boundary = _with_missing(self.tree.boundary, self.has_missing).astype(np.uint8)
        return SplitColumn(self.codes, _with_missing(places, self.has_missing), boundary, self.has_missing)

    def _describe(self, groups: Groups, low: Ints, high: Ints, shown: Bools) -> Published:
        import polars as pl

        shift = int(self.has_missing)
        left, right = np.maximum(low - shift, 0), np.maximum(high - shift, 0)
        while (apart := left != right).any():
            left = np.where(apart, self.tree.parents[left], left)
            right = np.where(apart, self.tree.parents[right], right)
        nodes = np.where(shown, left, np.where(high > 0, self.tree.hidden, self.tree.missing))
        labels = pl.Series(self.name, self.tree.labels, dtype=pl.String)
        hidden = (nodes == self.tree.hidden)[groups.of] & (self.codes >= shift)
        return Published(
            labels.gather(nodes[groups.of]), hidden if hidden.any() else None, self.tree.levels[nodes][groups.of]
        )


def value_range(data: Dataset, name: str, representation: Representation) -> ValueRange:
    """Choose how a column is split: by value, along its hierarchy, or by the order of its categories."""
    kind = data.type_of(name)
    if kind == "set":
        raise DataError(f"column {name!r} holds sets; generalize their items by km-generalization")
    codes = data.codes(name)
    dtype = data.frame.schema[name]
    if dtype.is_numeric() or dtype.is_temporal():
        used, distinct = _distinct(codes)
        order = distinct.arg_sort().to_numpy().astype(np.int64)
        ranked = _ranked(codes, used[order])
        values = plain(distinct.gather(order))
        return OrderedRange(name, ranked, codes.missing >= 0, values, data.frame[name], representation, data.counts)
    if data.origin.schema[name].hierarchy is not None:
        tree = value_tree(data, name)
        leaf = tree.records.astype(np.uint32)
        shifted = np.where(leaf == tree.missing, 0, leaf + 1).astype(np.uint32) if tree.has_missing else leaf
        return TreeRange(name, shifted, tree.has_missing, tree)
    used, distinct = _distinct(codes)
    texts = [canonical(value) for value in distinct.to_list()]
    declared = {text: place for place, text in enumerate(data.schema[name].order)}
    chosen = sorted(range(len(texts)), key=lambda i: (declared.get(texts[i], len(declared)), texts[i]))
    ranked = _ranked(codes, used[np.array(chosen, np.int64)])
    return CategoryRange(name, ranked, codes.missing >= 0, tuple(texts[i] for i in chosen))


def _distinct(codes: ColumnCodes) -> tuple[Ints, pl.Series]:
    """Give the codes that occur and their values."""
    used = np.flatnonzero(codes.first_rows >= 0)
    used = used[used != codes.missing]
    return used, codes.series.gather(codes.first_rows[used])


def _ranked(codes: ColumnCodes, in_order: Ints) -> NDArray[np.uint32]:
    """Number the values by their order; missing values have 0 where there are any."""
    rank = np.zeros(max(codes.size, 1), np.uint32)
    rank[in_order] = np.arange(len(in_order)) + (codes.missing >= 0)
    return np.asarray(rank[codes.codes])


def _with_missing(places: NDArray[Any], has_missing: bool) -> NDArray[Any]:
    """Put missing values before the first value."""
    return np.concatenate([[0], places]) if has_missing or not len(places) else places


def _distinct_pairs(low: Ints, high: Ints, shown: Bools) -> tuple[Ints, Ints]:
    """Number the distinct ranges; groups that are not shown get the number after the last."""
    from discretion.kernels.classes import class_ids

    size = int(high.max()) + 1
    rows = np.flatnonzero(shown)
    found = class_ids([low[rows], high[rows]], [size, size], len(rows))
    numbers = np.full(len(low), len(found.counts), np.int64)
    numbers[rows] = found.ids
    return np.column_stack([low[rows][found.first_row], high[rows][found.first_row]]), numbers


def _spread(name: str, labels: pl.Series, numbers: Ints, groups: Groups) -> pl.Series:
    """Give each record the label of its group; the number after the last label stands for none."""
    import polars as pl

    known = pl.concat([labels.cast(pl.String), pl.Series([None], dtype=pl.String)])
    return known.gather(numbers[groups.of].astype(np.uint32)).alias(name)


# Dropping the records that widen their group more than they are worth, within a limit.


def rows_to_keep(
    columns: Sequence[SplitColumn], groups: Groups, judge: GroupJudge, allowed: int, by_bits: bool, progress: Progress
) -> Ints:
    """Find the records to keep: in rounds, each group proposes the records at one end of one column.

    Those that gain most for each record are dropped first, as long as the limit and the models allow; a group whose
    proposal the models refuse proposes nothing more. What is dropped depends on the values only.
    """
    from discretion.kernels.mondrian import best_trims, cost_tables

    codes = np.column_stack([column.codes for column in columns]).astype(np.int32)
    counts = judge.counts
    widths = cost_tables(columns, by_bits, counts)
    kept = np.ones(len(codes), np.bool_)
    still_open = np.ones(groups.count, np.bool_)
    left = allowed
    while left > 0:
        progress(allowed - left, allowed, "suppression")
        rows = np.flatnonzero(kept & still_open[groups.of])
        rows = rows[np.argsort(groups.of[rows], kind="stable")]
        numbers, sizes = np.unique(groups.of[rows], return_counts=True)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        weights = np.empty(0, np.int64) if counts is None else counts[rows]
        found = best_trims(codes[rows], starts, widths, judge.k, left, weights)
        chosen = _within(found.gains, found.counts, left)
        if not chosen.any():
            break
        out = _proposed(codes[rows], np.repeat(np.arange(len(numbers)), sizes), found.columns, found.at_top, chosen)
        refused = _refused(np.repeat(np.arange(len(numbers)), sizes), out, rows, chosen, judge)
        out &= ~np.repeat(refused, sizes)
        kept[rows[out]] = False
        left -= int(out.sum() if counts is None else weights[out].sum())
        still_open[numbers[(found.gains <= 0) | refused]] = False
    return np.flatnonzero(kept)


def _within(gains: NDArray[np.float64], counts: Ints, left: int) -> Bools:
    """Choose proposals, the largest gains first, as long as their records fit."""
    chosen = np.zeros(len(gains), np.bool_)
    for place in np.argsort(-gains, kind="stable").tolist():
        if gains[place] <= 0 or left == 0:
            break
        if counts[place] <= left:
            chosen[place] = True
            left -= int(counts[place])
    return chosen


def _proposed(codes: NDArray[np.int32], of: Ints, columns: Ints, at_top: Bools, chosen: Bools) -> Bools:
    """Mark the records that the chosen groups propose to drop."""
    own = codes[np.arange(len(of)), columns[of]]
    low = np.full(len(columns), np.iinfo(np.int32).max, np.int32)
    high = np.full(len(columns), -1, np.int32)
    np.minimum.at(low, of, own)
    np.maximum.at(high, of, own)
    return np.asarray(chosen[of] & (own == np.where(at_top, high, low)[of]))


def _refused(of: Ints, out: Bools, rows: Ints, chosen: Bools, judge: GroupJudge) -> Bools:
    """Tell which of the chosen groups would break a model without the records they propose to drop."""
    refused = np.zeros(len(chosen), np.bool_)
    if judge.by_size:
        return refused
    remain = chosen[of] & ~out
    number = np.cumsum(chosen) - 1
    table = judge.table(number[of[remain]], int(chosen.sum()), rows[remain])
    refused[chosen] = judge.failing(table)
    return refused


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
    follows their order; classes with counts, and rows that stay in their files, are divided strictly only. Time
    O(n·columns·log(n/k)), for dropping O(n·columns²) in each round; models other than k-anonymity are asked once per
    round for all groups together.

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
    scale: ClassVar[Scale] = "classes"
    perturbs: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    guarantee: ClassVar[str] = (
        "Records were put into groups, and each value was replaced by the range of its group, so that no record can be "
        "told from the others of its group by these columns."
    )

    def refuse_scan(self, remote: bool = False) -> None:
        """Raise where equal records would be told apart: those at a median stand in the files, and are not counted."""
        super().refuse_scan(remote)
        if not self.strict:
            raise PlanError(f"{self.kind} with `strict: false` needs all rows in memory; leave `strict` as it is")

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:
        """Divide the classes of all records, and note what becomes of each."""
        models = [*self.models, *([KAnonymity(k=self.k)] if self.k else [])]
        columns = data.choose(common_columns(models, self.columns), "classes")
        table = classes_of(data, Settings(tuple(models), self.columns))
        done = self._divided(table, Context(0, self.kind))
        return Decision(decision.values, lookup=ClassLookup.of(table, done, columns)), table.records - done.records

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Divide the records, and publish what each group has in common."""
        return self._divided(data, ctx) if decision.lookup is None else decision.lookup.rewrite(data)

    def _divided(self, data: Dataset, ctx: Context) -> Dataset:
        if not self.strict:
            data.require_rows(f"{self.kind} with `strict: false`")
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
        allowed = self._allowed(data.records)
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
        groups = mondrian_groups(columns, judge.k, strict, progress, by_bits, judge.counts)
        return Groups(groups, int(groups.max()) + 1)
    return _divide_by_models(*prepare(columns, by_bits, judge.counts), judge, strict, progress, records)


def _divide_by_models(
    work: Work, space: SplitSpace, judge: GroupJudge, strict: bool, progress: Progress, records: Ints | None
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
