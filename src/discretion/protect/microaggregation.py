"""MDAV: records are published as what stands for a small group of similar ones (P15, P16)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.method import Decision, Purpose
from discretion.part import Columns
from discretion.protect.microaggregation_groups import (
    Encoded,
    Microaggregation,
    Replace,
    encode,
    kind_of,
    labels_by_pattern,
    publish,
    require_k,
    standardized,
    values_of,
)
from discretion.protect.ordered import mix_ties

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.microaggregate import Members

# Groups of records that are more than numbers: mixed columns, binary columns, sets and texts.


def mixed_members(columns: Sequence[Encoded], k: int, ctx: Context) -> Members:
    """Group records of numbers, ranks and categories by Gower's distance."""
    from discretion.kernels.microaggregate import CATEGORY, NUMBER, RANK, MixedSpace, group_members, groups_in

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
        from discretion.kernels.microaggregate import SetSpace, group_members, groups_in

        rows = len(self.starts) - 1
        require_k(rows, k, [self.name])
        space = SetSpace(self.starts, self.items, len(self.values) + 1)
        return group_members(groups_in(space, rows, k, ctx.progress))

    def of_groups(self, series: pl.Series, members: Members, replace: Replace) -> pl.Series:
        """Give for each group the items that more than half of its records have."""
        import polars as pl
        import pyarrow as pa

        from discretion.kernels.microaggregate import most_have

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
    letters: Ints32

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
        from discretion.kernels.microaggregate import TextSpace, group_members, groups_in

        rows = len(self.thing)
        require_k(rows, k, [self.column.name])
        report = partial(ctx.progress, 0, rows, "microaggregation")
        space = TextSpace(self.thing, self.starts, self.letters, report)
        return group_members(groups_in(space, rows, k, ctx.progress))

    def of_groups(self, series: pl.Series, members: Members, replace: Replace) -> pl.Series:
        """Give for each group the text of it with the least sum of distances to the others."""
        from discretion.kernels.microaggregate import medoids

        members, lost = _without_missing(series, members, replace)
        found = medoids(self.thing, self.starts, self.letters, members.order, members.starts)
        return self.column.decode(np.where(lost, np.nan, found), series)


def _without_missing(series: pl.Series, members: Members, replace: Replace) -> tuple[Members, Bools]:
    """Leave out the records that miss the value, and tell which groups have no value because of them."""
    from discretion.kernels.microaggregate import group_members

    absent = series.is_null().to_numpy()
    lost = np.zeros(members.n_groups, dtype=np.bool_)
    if replace == "all":
        lost[members.labels[absent & (members.labels >= 0)]] = True
        return members, lost
    kept = group_members(np.where(absent, -1, members.labels))
    return kept, np.zeros(kept.n_groups, dtype=np.bool_)


_ON_NUMBERS = ("euclidean", "robust-mahalanobis")
Distance = Literal["euclidean", "robust-mahalanobis", "gower", "cosine", "jaccard", "edit"]


def _split(value: object) -> object:
    """Take a block written as one text, `a+b` (as on the command line), apart."""
    if isinstance(value, list | tuple):
        return tuple(item.split("+") if isinstance(item, str) else item for item in value)
    return value


Blocks = Annotated[tuple[Columns, ...], BeforeValidator(_split)]


class Mdav(Microaggregation, kind="mdav"):
    """Replace each record's values by the mean of its group of at least k similar records.

    Groups of k to 2k−1 records are built by MDAV: the record farthest from the center and its k−1 nearest form a
    group, then the record farthest from that one and its nearest, until fewer than 3k are left. Ties go to the lowest
    row.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all columns are in one block and
    all values are replaced; it is up to you to name all quasi-identifiers. With `blocks` k-anonymity holds over each
    block on its own and not over several; with `replace: one` it does not hold at all. Does not protect against
    attribute disclosure inside a group: similar records have similar secrets. Means of numeric columns hold exactly
    (with `aggregate: mean`, all values replaced, nothing suppressed); variances shrink.

    Numbers (and dates) become the mean, median or most frequent value of their group, ordinal columns the lower
    median in the order of the schema or of the type, nominal columns the most frequent value, the first in order of
    equally frequent ones. Records are compared by one of these distances:

    - `euclidean` (numbers; the default for them): on columns divided by their standard deviation. Time about
      O(n log n) for few columns, memory linear in n.
    - `robust-mahalanobis` (numbers): the same on columns that were turned and scaled by the covariance of the bulk
      (minimum covariance determinant), so that related columns count once and outliers do not set the scale.
    - `gower` (numbers, dates, ordinal, nominal; the default when one column is not a number): the sum over the columns
      of |x − y| / range, of the difference of ranks / (number of ranks − 1), and of 0 or 1.
    - `cosine` (columns of 0 and 1, or true and false): one minus the cosine; the most frequent value is released.
    - `jaccard` (one column of sets): 1 − |A ∩ B| / |A ∪ B|; the items that more than half the group have are released.
    - `edit` (one column of texts): the number of characters to insert, delete or replace; the text of the group with
      the least sum of distances to it is released. The center is the best of at most 64 texts of the column.

    For `gower`, `jaccard` and `edit` every record left is looked at for every group: time O(n²/k), memory linear
    in n; 100,000 records of five columns take seconds, ten times as many about a hundred times as long. Your own
    distance and aggregate: `with_functions`.

    Missing values stay missing. With `euclidean` and `cosine`, records are grouped with those that miss the same
    columns; where fewer than k records share a pattern of missing values, their values in these columns are suppressed,
    so that the guarantee holds. With the other distances, missing is a category of its own, at the largest distance
    from every value; where a group has it beside values, the column is suppressed for the whole group.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1); Domingo-Ferrer & Torra (2005), DMKD 11; Gower (1971),
    Biometrics 27(4); catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.Mdav(columns=["age"], k=3)(ages)["age"].round(2).to_list()
    [42.0, 21.0, 42.0, 21.0, 21.0, 61.33, 42.0, 42.0, 61.33, 61.33]
    >>> people = pl.DataFrame({"age": [30, 32, 34, 70, 72, 74], "town": ["a", "a", "b", "b", "c", "c"]})
    >>> dc.Mdav(columns=["age", "town"], k=3)(people).rows()
    [(32.0, 'a'), (32.0, 'a'), (32.0, 'a'), (72.0, 'c'), (72.0, 'c'), (72.0, 'c')]
    """

    columns: Columns = ()
    """columns to aggregate together; without it, the numeric quasi-identifiers and sensitive columns"""
    blocks: Blocks = ()
    """instead of `columns`: lists of columns, each grouped on its own (on the command line: a+b,c)"""
    distance: Distance | None = None
    """how records are compared; without it, euclidean for numbers, gower as soon as one column is not a number"""

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are exact where groups are replaced by their means; variances are too small, correlations too large, "
        "tails and percentiles smoothed."
    )
    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of similar records, so that no record can be told from "
        "the others of its group by the columns that were grouped together (unless the settings name blocks, between "
        "which this does not hold, or say that one value per group was replaced, after which it does not hold at all); "
        "what is published is still close to each member."
    )

    @model_validator(mode="after")
    def _one_list_of_columns(self) -> Self:
        named = [name for block in self.blocks for name in block]
        if self.blocks and self.columns:
            raise ValueError("give `columns` or `blocks`, not both")
        if any(not block for block in self.blocks):
            raise ValueError("`blocks` has a block without columns")
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"`blocks` names {twice[0]!r} twice")
        if both := set(named) & set(self.by):
            raise ValueError(f"{min(both)!r} stands both in `blocks` and in `by`")
        return self

    def with_functions(
        self,
        *,
        distance: Callable[[tuple[Any, ...], tuple[Any, ...]], float] | None = None,
        aggregate: Callable[[list[tuple[Any, ...]]], Sequence[Any]] | None = None,
    ) -> Mdav:
        """Give the method with a distance or an aggregate of your own, in Python; it cannot be written into a plan.

        `distance(one, other)` takes two records (tuples of the values of the block's columns, missing as None) and
        gives a number of at least 0; the center is the best of at most 64 records. `aggregate(records)` takes the
        records of a group and gives one value for each column. A column that somebody in the group misses is suppressed
        for the whole group; where one value per group is replaced, the function does not see records that miss a
        value. Time O(n²/k) calls of your distance.

        Examples
        --------
        >>> import polars as pl, discretion as dc
        >>> words = pl.DataFrame({"word": ["a", "bb", "ccc", "dddddd", "eeeeeee", "ffffffff"]})
        >>> by_length = lambda one, other: abs(len(one[0]) - len(other[0]))
        >>> longest = lambda records: (max((word for word, in records), key=len),)
        >>> method = dc.Mdav(columns=["word"], k=3).with_functions(distance=by_length, aggregate=longest)
        >>> method(words)["word"].to_list()
        ['ccc', 'ccc', 'ccc', 'ffffffff', 'ffffffff', 'ffffffff']
        """
        return MdavWithFunctions.build(self, distance, aggregate)

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        named = [name for block in self.blocks for name in block]
        return self._reads_also(data, named or data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Group the records, block by block, and replace their values by what stands for the group."""
        blocks = self.blocks or (data.choose(self.columns, "perturb"),)
        names = [name for block in blocks for name in block]
        data.require(names)
        new = data
        for block in blocks:
            new = self._aggregate_block(new, block, ctx)
        return self.in_precision(data, new, names)

    def _aggregate_block(self, data: Dataset, block: tuple[str, ...], ctx: Context) -> Dataset:
        distance = self._distance(data, block)
        plain = distance in _ON_NUMBERS and self.aggregate == "mean" and self.replace == "all"
        if plain and len(block) == 1 and not data.count_missing(block[0]):
            means = _means_of_one(data.number(block[0]), self.k, block, ctx)
            return data.with_columns({block[0]: means}, integers=self.integers)
        members = self._members(data, block, distance, ctx)
        values = self._values(data, block, distance, members)
        integers = self.integers or self.aggregate == "mode" or distance == "cosine"
        return publish(data, values, members, self.replace, integers, ctx)

    def _distance(self, data: Dataset, block: tuple[str, ...]) -> Distance:
        chosen = self.distance
        if chosen in ("jaccard", "edit") and len(block) > 1:
            raise PlanError(f"mdav: distance: {chosen} is for one column, got {len(block)}; give them in `blocks`")
        if chosen is None:
            numbers = all(kind_of(data, name) == "number" and data.is_numeric(name) for name in block)
            return "euclidean" if numbers else "gower"
        return chosen

    def _members(self, data: Dataset, block: tuple[str, ...], distance: Distance, ctx: Context) -> Members:
        """Group the records."""
        if distance in _ON_NUMBERS:
            robust = block if distance == "robust-mahalanobis" else ()
            return labels_by_pattern(data.numbers(block), block, self.k, lambda part: self._groups(part, ctx, robust))
        if distance == "gower":
            return mixed_members([encode(data, name) for name in block], self.k, ctx)
        if distance == "cosine":
            return binary_members(data, block, self.k, ctx)
        kind = Sets if distance == "jaccard" else Texts
        return kind.of(data, block[0]).members(self.k, ctx)

    def _values(
        self, data: Dataset, block: tuple[str, ...], distance: Distance, members: Members
    ) -> dict[str, pl.Series]:
        """Give what stands for each group, column by column."""
        if distance in ("jaccard", "edit"):
            kind = Sets if distance == "jaccard" else Texts
            return {block[0]: kind.of(data, block[0]).of_groups(data.frame[block[0]], members, self.replace)}
        if distance in _ON_NUMBERS:
            columns = [Encoded(name, "number", data.number(name)) for name in block]
        else:
            columns = [encode(data, name) for name in block]
        aggregate = "mode" if distance == "cosine" else self.aggregate
        return values_of(data, columns, members, aggregate, self.replace)

    def _groups(self, x: Floats, ctx: Context, robust: tuple[str, ...] = ()) -> NDArray[np.signedinteger]:
        """Group complete records of numbers by MDAV; those of columns named as `robust` are whitened."""
        from discretion.kernels.mdav import mdav_groups
        from discretion.kernels.microaggregate import cut_labels, mdav_bounds
        from discretion.kernels.order import sorted_with_order

        if x.shape[1] == 1:
            ranked, order = sorted_with_order(x[:, 0])
            return cut_labels(mdav_bounds(ranked, self.k, order), mix_ties(ranked, order, ctx))
        if robust:
            from discretion.protect.outliers import fit_ellipse

            ellipse = fit_ellipse(x, 0.975, robust, ctx)
            root = np.linalg.cholesky(ellipse.covariance)
            return mdav_groups(np.linalg.solve(root, (x - ellipse.center).T).T.copy(), self.k, ctx.progress)
        return mdav_groups(standardized(x), self.k, ctx.progress)


def _means_of_one(x: Floats, k: int, columns: Sequence[str], ctx: Context) -> Floats:
    """Give the means of groups on one complete column, without listing the groups."""
    from discretion.kernels.microaggregate import mdav_bounds, replace_by_mean
    from discretion.kernels.order import sorted_with_order

    require_k(len(x), k, columns)
    ranked, order = sorted_with_order(x)
    return replace_by_mean(ranked, mdav_bounds(ranked, k, order), mix_ties(ranked, order, ctx))


# MDAV with a distance and an aggregate written in Python.

Record = tuple[Any, ...]
DistanceFunction = Callable[[Record, Record], float]
AggregateFunction = Callable[[list[Record]], Sequence[Any]]


class MdavWithFunctions(Mdav):
    """MDAV with functions of the user; made by `Mdav.with_functions`."""

    _user_distance: DistanceFunction | None = PrivateAttr(None)
    _user_aggregate: AggregateFunction | None = PrivateAttr(None)

    @classmethod
    def build(cls, plain: Mdav, distance: DistanceFunction | None, aggregate: AggregateFunction | None) -> Self:
        """Take over the fields of a plain method and add the functions."""
        if distance is None and aggregate is None:
            raise PlanError("mdav: give a `distance` or an `aggregate` function, or both")
        made = cls(**{name: getattr(plain, name) for name in type(plain).model_fields})
        made._user_distance, made._user_aggregate = distance, aggregate
        return made

    def settings(self, *, public: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """Refuse: a function cannot be written down, and a plan without it would be another method."""
        raise PlanError("mdav: a method with functions of your own cannot be written into a plan or a report")

    def _aggregate_block(self, data: Dataset, block: tuple[str, ...], ctx: Context) -> Dataset:
        distance: Distance = "gower" if self._user_distance is not None else self._distance(data, block)
        members = self._members(data, block, distance, ctx)
        values = self._values(data, block, distance, members)
        return publish(data, values, members, self.replace, self.integers, ctx)

    def _members(self, data: Dataset, block: tuple[str, ...], distance: Distance, ctx: Context) -> Members:
        from discretion.kernels.microaggregate import group_members, groups_in

        if self._user_distance is None:
            return super()._members(data, block, distance, ctx)
        records = data.frame.select(block).rows()
        require_k(len(records), self.k, block)
        space = _FunctionSpace(records, self._user_distance, ctx)
        return group_members(groups_in(space, len(records), self.k, ctx.progress))

    def _values(
        self, data: Dataset, block: tuple[str, ...], distance: Distance, members: Members
    ) -> dict[str, pl.Series]:
        if self._user_aggregate is None:
            return super()._values(data, block, distance, members)
        frame = data.frame.select(block)
        records = frame.rows()
        found = [self._stands_for(records, members, group, block) for group in range(members.n_groups)]
        return {name: _series(name, [row[j] for row in found], frame[name].dtype) for j, name in enumerate(block)}

    def _stands_for(self, records: list[Record], members: Members, group: int, block: tuple[str, ...]) -> Record:
        """Ask the user's function what stands for a group."""
        rows = members.order[members.starts[group] : members.starts[group + 1]]
        chosen = [records[row] for row in rows]
        absent = [any(_is_missing(record[j]) for record in chosen) for j in range(len(block))]
        if self.replace == "one":
            chosen = [record for record in chosen if not any(map(_is_missing, record))]
        if not chosen or (all(absent) and self.replace == "all"):
            return (None,) * len(block)
        value = self._user_aggregate(chosen) if self._user_aggregate is not None else ()
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != len(block):
            raise DataError(f"mdav: the aggregate function must give {len(block)} values, one for each column")
        if self.replace == "one":
            return tuple(value)
        return tuple(None if gone else item for gone, item in zip(absent, value, strict=True))


class _FunctionSpace:
    """A `Space` whose distances are calls of a Python function."""

    def __init__(self, records: list[Record], distance: DistanceFunction, ctx: Context) -> None:
        from discretion.kernels.microaggregate import Medoid, spread_out

        self._records, self._distance = records, distance
        in_order = sorted(range(len(records)), key=lambda row: repr(records[row]))
        rows = np.arange(len(records))
        found = []
        for place in spread_out(len(records)):
            found.append(self.to_record(in_order[place], rows))
            ctx.progress(0, len(records), "microaggregation")
        self._center = Medoid(np.array(found), rows)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        return self._center.to_center(rows)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        one, records, distance = self._records[row], self._records, self._distance
        found = np.array([float(distance(one, records[other])) for other in rows])
        if not (np.isfinite(found).all() and (found >= 0).all()):
            raise DataError("mdav: the distance function gave a negative or infinite number, or none")
        return found

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        self._center.remove(rows[places])


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _series(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    """Make a column of the old type where the values allow it (whole numbers may become fractions)."""
    import polars as pl

    if dtype.is_numeric():
        return pl.Series(name, values, strict=False)
    try:
        return pl.Series(name, values, dtype=dtype)
    except (TypeError, pl.exceptions.PolarsError):
        raise DataError(f"mdav: the aggregate function gave values that do not fit column {name!r}") from None


# V-MDAV: microaggregation whose groups grow where records lie close together (P16).


class VariableMdav(Microaggregation, kind="variable-mdav"):
    """Replace values by the mean of a group of k to 2k−1 similar records, larger where records lie close together.

    V-MDAV: the record farthest from the mean of all records and its k−1 nearest form a group; then the record left
    that is nearest to the group joins, as long as its distance to the group is less than `gamma` times its distance to
    the nearest other record left. The last records, fewer than k, join the nearest group that has fewer than 2k−1.
    Distances are Euclidean on columns divided by their standard deviation; ties go to the lowest row. On data in
    clusters the groups follow the clusters, and as a rule less is lost than with `Mdav` (not where all clusters have
    exactly k records); on scattered data about as much or more.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all values are replaced; with
    `replace: one` it does not hold. Does not protect against attribute disclosure inside a group. Means of the columns
    hold exactly (with `aggregate: mean`, all values replaced, nothing suppressed).

    Missing values are treated as by `Mdav`: records are grouped with those that miss the same columns, and rare
    patterns are suppressed. Time about O(n log n) for few columns, memory linear in n.

    References
    ----------
    Solanas & Martínez-Ballesté (2006), V-MDAV: a multivariate microaggregation with variable group size, COMPSTAT;
    catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [20, 21, 22, 23, 60, 61, 62, 90, 91, 92]})
    >>> dc.VariableMdav(columns=["age"], k=3, gamma=1.1)(ages)["age"].to_list()
    [21.5, 21.5, 21.5, 21.5, 61.0, 61.0, 61.0, 91.0, 91.0, 91.0]
    """

    gamma: float = Field(0.2, ge=0)
    """how readily groups grow: about 0.2 for scattered data, about 1.1 for data in clusters; 0: not at all"""

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are exact where groups are replaced by their means; variances are too small, correlations too large, "
        "tails and percentiles smoothed."
    )
    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of similar records, so that no record can be told from "
        "the others of its group by these columns (unless the settings say that one value per group was replaced); "
        "what is published is still close to each member."
    )

    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group complete records."""
        from discretion.kernels.mdav import vmdav_groups

        return vmdav_groups(standardized(x), self.k, self.gamma, ctx.progress)
