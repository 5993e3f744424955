"""How each column takes part in a multidimensional split, and how a group's range of it is published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.value_trees import ValueTree, value_tree
from discretion.data.codes import ColumnCodes, as_texts
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Ints

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.mondrian import SplitColumn

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

    def take(self, rows: Ints) -> Self:
        """Give the column of some records."""
        return replace(self, codes=self.codes[rows], original=self.original.gather(rows))

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
        means = pl.Series(self.name, group_means(x.reshape(-1, 1), groups.of, groups.count)[:, 0]).fill_nan(None)
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
        values = distinct.gather(order)
        return OrderedRange(name, ranked, codes.missing >= 0, values, data.frame[name], representation)
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
