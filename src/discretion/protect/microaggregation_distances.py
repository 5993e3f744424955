"""Groups of records that are more than numbers: mixed columns, binary columns, sets and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.protect.microaggregation_columns import Encoded, encode
from discretion.protect.microaggregation_groups import Replace, labels_by_pattern, require_k

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.groups import Members

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def mixed_members(columns: Sequence[Encoded], k: int, ctx: Context) -> Members:
    """Group records of numbers, ranks and categories by Gower's distance."""
    from discretion.kernels.gower_tree import CATEGORY, NUMBER, RANK, MixedSpace
    from discretion.kernels.groups import group_members
    from discretion.kernels.groups_mdav import groups_in

    kinds = {"number": NUMBER, "ordinal": RANK, "nominal": CATEGORY}
    rows = len(columns[0].values)
    require_k(rows, k, [column.name for column in columns])
    space = MixedSpace(
        np.array([column.values for column in columns]),
        [kinds[column.kind] for column in columns],
        [column.size for column in columns],
    )
    return group_members(groups_in(space, rows, k, ctx.progress))


def binary_members(data: Dataset, names: Sequence[str], k: int, ctx: Context) -> Members:
    """Group records of zeros and ones by the angle between them: MDAV on vectors of length one."""
    from discretion.kernels.mdav import mdav_groups

    x = np.column_stack([_zeros_and_ones(data, name) for name in names])
    return labels_by_pattern(x, names, k, lambda part: mdav_groups(unit_vectors(part), k, ctx.progress))


def unit_vectors(x: Floats) -> Floats:
    """Scale records to length one; records of zeros get a dimension of their own, at right angles to all others."""
    length = np.sqrt((x**2).sum(axis=1))
    empty = length == 0
    scaled = x / np.where(empty, 1.0, length)[:, None]
    return np.column_stack([scaled, empty.astype(np.float64)]) if empty.any() else scaled


def _zeros_and_ones(data: Dataset, name: str) -> Floats:
    import polars as pl

    data.require([name])
    series = data.frame[name]
    if series.dtype == pl.Boolean or series.dtype.is_numeric():
        x = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        if np.isin(x[~np.isnan(x)], (0.0, 1.0)).all():
            return np.asarray(x)
    raise DataError(f"column {name!r} is not binary (true and false, or 0 and 1), which distance: cosine needs")


@dataclass(frozen=True)
class Sets:
    """A column of sets: record i has `items[starts[i]:starts[i + 1]]`; a missing set has one item of its own."""

    name: str
    starts: Ints
    items: Ints
    values: pl.Series
    """what each item stands for, without the item for missing sets"""

    @classmethod
    def of(cls, data: Dataset, name: str) -> Sets:
        """Number the items of a column of sets in their order."""
        import polars as pl

        series = data.frame[name]
        if isinstance(series.dtype, pl.Array):
            series = series.arr.to_list()
        if not isinstance(series.dtype, pl.List):
            raise DataError(f"column {name!r} does not hold sets (lists of items), which distance: jaccard needs")
        long = pl.DataFrame({"row": np.arange(len(series)), "item": series}).explode("item").drop_nulls().unique()
        values = long["item"].unique().sort()
        codes = pl.DataFrame({"item": values, "code": np.arange(len(values))})
        coded = long.join(codes, on="item").select("row", "code")
        absent = np.flatnonzero(series.is_null().to_numpy())
        extra = pl.DataFrame({"row": absent, "code": np.full(len(absent), len(values))}, schema=coded.schema)
        coded = pl.concat([coded, extra]).sort("row", "code")
        counts = np.bincount(coded["row"].to_numpy(), minlength=len(series))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(name, starts, coded["code"].to_numpy().astype(np.int64), values)

    def members(self, k: int, ctx: Context) -> Members:
        """Group the records by Jaccard's distance."""
        from discretion.kernels.groups import group_members
        from discretion.kernels.groups_mdav import SetSpace, groups_in

        rows = len(self.starts) - 1
        require_k(rows, k, [self.name])
        space = SetSpace(self.starts, self.items, len(self.values) + 1)
        return group_members(groups_in(space, rows, k, ctx.progress))

    def of_groups(self, series: pl.Series, members: Members, replace: Replace) -> pl.Series:
        """Give for each group the items that more than half of its records have."""
        import polars as pl
        import pyarrow as pa

        from discretion.kernels.groups_mdav import most_have

        members, lost = _without_missing(series, members, replace)
        bounds, items = most_have(self.starts, self.items, len(self.values) + 1, members.order, members.starts)
        items = np.minimum(items, max(len(self.values) - 1, 0))  # the item for missing sets occurs in lost groups only
        flat = self.values.gather(items) if len(self.values) else self.values
        if not len(self.values):
            bounds = np.zeros_like(bounds)
        found = pl.Series(pa.LargeListArray.from_arrays(bounds, flat.to_arrow())).cast(pl.List(self.values.dtype))
        found = pl.select(pl.when(pl.Series(~lost)).then(found)).to_series() if lost.any() else found
        return found.cast(series.dtype) if isinstance(series.dtype, pl.List) else found


@dataclass(frozen=True)
class Texts:
    """A column of texts: record i has the distinct text `thing[i]`, made of `letters[starts[t]:starts[t + 1]]`."""

    column: Encoded
    thing: Ints
    starts: Ints
    letters: NDArray[np.int32]

    @classmethod
    def of(cls, data: Dataset, name: str) -> Texts:
        """Number the distinct texts of a column; missing is a text that is farther from all others than they can be."""
        import polars as pl

        series = data.frame[name]
        if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
            raise DataError(f"column {name!r} is not text, which distance: edit needs")
        column = encode(data, name)
        examples = np.empty(0, np.int64) if column.examples is None or not len(series) else column.examples
        distinct = series.cast(pl.String).gather(examples)
        texts = distinct.fill_null("").to_list()
        coded = [np.frombuffer(text.encode("utf-32-le"), dtype=np.int32) for text in texts]
        coded.append(np.full(max((len(text) for text in texts), default=0) + 1, -1, dtype=np.int32))
        starts = np.concatenate([[0], np.cumsum([len(text) for text in coded])]).astype(np.int64)
        thing = np.where(np.isnan(column.values), len(texts), column.values).astype(np.int64)
        return cls(column, thing, starts, np.concatenate(coded))

    def members(self, k: int, ctx: Context) -> Members:
        """Group the records by edit distance."""
        from discretion.kernels.groups import group_members
        from discretion.kernels.groups_mdav import TextSpace, groups_in

        rows = len(self.thing)
        require_k(rows, k, [self.column.name])
        report = partial(ctx.progress, 0, rows, "microaggregation")
        space = TextSpace(self.thing, self.starts, self.letters, report)
        return group_members(groups_in(space, rows, k, ctx.progress))

    def of_groups(self, series: pl.Series, members: Members, replace: Replace) -> pl.Series:
        """Give for each group the text of it with the least sum of distances to the others."""
        from discretion.kernels.groups_mdav import medoids

        members, lost = _without_missing(series, members, replace)
        found = medoids(self.thing, self.starts, self.letters, members.order, members.starts)
        return self.column.decode(np.where(lost, np.nan, found), series)


def _without_missing(series: pl.Series, members: Members, replace: Replace) -> tuple[Members, NDArray[np.bool_]]:
    """Leave out the records that miss the value, and tell which groups have no value because of them."""
    from discretion.kernels.groups import group_members

    absent = series.is_null().to_numpy()
    lost = np.zeros(members.n_groups, dtype=np.bool_)
    if replace == "all":
        lost[members.labels[absent & (members.labels >= 0)]] = True
        return members, lost
    kept = group_members(np.where(absent, -1, members.labels))
    return kept, np.zeros(kept.n_groups, dtype=np.bool_)
