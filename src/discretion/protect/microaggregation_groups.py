"""What the methods that aggregate groups of records share: their fields, missing values, and the released values."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, Scale
from discretion.protect.noise_keep import Precision, decimals_of
from discretion.protect.ordered import mixed_order
from discretion.protect.outliers import robust_scale

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.microaggregate import How, Members

# The columns that microaggregation works on: as numbers, ranks or categories, and back again.

Kind = Literal["number", "ordinal", "nominal"]


@dataclass(frozen=True)
class Encoded:
    """One column as numbers; ranks and categories are 0 … size−1 in their order. NaN is missing."""

    name: str
    kind: Kind
    values: Floats
    size: int = 0
    examples: Ints | None = None
    """a row that has each rank or category (any row for one that does not occur)"""

    def decode(self, values: Floats, series: pl.Series) -> pl.Series:
        """Give values, ranks or categories as the column's own values; NaN as null. `series` is the original."""
        import polars as pl

        absent = np.isnan(values)
        if self.examples is not None:
            codes = np.where(absent, 0, values).astype(np.int64)
            found = series.gather(self.examples[codes])
        elif series.dtype.is_temporal():
            found = pl.Series(np.where(absent, 0, np.round(values)).astype(np.int64)).cast(series.dtype)
        else:
            return pl.Series(values, nan_to_null=True)
        return pl.select(pl.when(pl.Series(~absent)).then(found)).to_series() if absent.any() else found


def kind_of(data: Dataset, name: str) -> Kind:
    """Tell whether a column is averaged (numbers, dates), ordered or only compared."""
    kind, dtype = data.type_of(name), data.frame.schema[name]
    if kind == "set" or dtype.is_nested():
        raise DataError(f"column {name!r} holds sets; they are aggregated alone, with distance: jaccard")
    if kind == "ordinal":
        return "ordinal"
    averaged = dtype.is_temporal() or (dtype.is_numeric() and kind != "nominal")
    return "number" if averaged else "nominal"


def encode(data: Dataset, name: str) -> Encoded:
    """Give a column by its kind."""
    import polars as pl

    kind = kind_of(data, name)
    if kind == "number":
        series = data.frame[name]
        if series.dtype.is_temporal():
            return Encoded(name, kind, series.to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return Encoded(name, kind, data.number(name))
    codes = data.codes(name)
    used = np.flatnonzero(codes.first_rows >= 0)
    used = used[used != codes.missing]
    ranks, size = _ranks(data, name, kind, codes.series.gather(codes.first_rows[used]))
    rank = np.full(max(codes.size, 1), np.nan)
    rank[used] = ranks
    examples = np.zeros(max(size, 1), dtype=np.int64)
    examples[ranks] = codes.first_rows[used]
    return Encoded(name, kind, rank[codes.codes] if len(codes.codes) else np.empty(0), size, examples)


def _ranks(data: Dataset, name: str, kind: Kind, distinct: pl.Series) -> tuple[Ints, int]:
    """Number distinct values in the order of the schema, of the type, or of the values; and say how many there are."""
    import polars as pl

    declared = {text: place for place, text in enumerate(data.schema[name].order)}
    dtype = distinct.dtype
    if declared:
        texts = [canonical(value) for value in distinct.to_list()]
        unknown = [text for text in texts if text not in declared]
        if unknown:
            raise DataError(f"column {name!r} has {len(unknown)} values that its order does not list")
        return np.array([declared[text] for text in texts], dtype=np.int64), len(declared)
    if isinstance(dtype, pl.Enum):
        return distinct.to_physical().to_numpy().astype(np.int64), len(dtype.categories)
    if kind == "ordinal" and not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean):
        raise DataError(f"column {name!r} is ordinal, but nothing says in which order; give it under `orders`")
    plain = distinct if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean else distinct.cast(pl.String)
    ranks = np.empty(len(distinct), dtype=np.int64)
    ranks[plain.arg_sort().to_numpy()] = np.arange(len(distinct))
    return ranks, len(distinct)


Aggregate = Literal["mean", "median", "mode"]
Replace = Literal["all", "one"]
Grouping = Callable[[Floats], NDArray[np.signedinteger]]
"""From a complete matrix of records to the group of each."""


class AggregatesGroups(StratifiedMethod):
    """The fields of methods that replace values by what stands for a group of at least k."""

    columns: Columns = ()
    """numeric columns to aggregate together; without it, the numeric quasi-identifiers and sensitive columns"""
    k: int = Field(3, ge=2)
    """smallest group size"""
    aggregate: Aggregate = "mean"
    """what stands for a group: its mean, its median, or its most frequent value (the smallest of equals)"""
    replace: Replace = "all"
    """replace all values of a group, or one of each column, drawn at random ("blurring": no k-anonymity)"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""
    precision: Precision = "full"
    """`full`: publish all digits of means; `original`: round to the number of decimals of the column (whole numbers
    stay whole), after which means hold only nearly"""

    by_group: ClassVar[bool] = True

    def in_precision(self, before: Dataset, after: Dataset, columns: Sequence[str]) -> Dataset:
        """Round the new numbers as the plan says; a value of the column's precision lies on the same side of a center.

        (Rounding is monotone and leaves such values alone: what an intruder says of centers next to a value still
        holds.)
        """
        if self.precision == "full":
            return after
        import polars as pl

        new = {}
        numbers = [name for name in columns if before.is_numeric(name) and after.frame.schema[name].is_float()]
        for name, digits in decimals_of(before, numbers).items():
            rounded = pl.Series(np.round(after.number(name), digits) + 0.0).fill_nan(None)
            kind = before.frame.schema[name]
            new[name] = rounded.cast(kind) if kind.is_integer() else rounded
        return after.with_columns(new) if new else after


class Microaggregation(AggregatesGroups):
    """A method that groups similar records on numeric columns and replaces values by what stands for their group."""

    scale: ClassVar[Scale] = "blocks"

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Group the records and replace their values."""
        columns = data.choose(self.columns, "perturb")
        x = data.numbers(columns)
        labels = labels_by_pattern(x, columns, self.k, lambda part: self._groups(part, ctx))
        encoded = [Encoded(name, "number", data.number(name)) for name in columns]
        values = values_of(data, encoded, labels, self.aggregate, self.replace)
        new = publish(data, values, labels, self.replace, self.integers or self.aggregate == "mode", ctx)
        return self.in_precision(data, new, columns)

    @abstractmethod
    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group records without missing values; give the group of each."""


def standardized(x: Floats) -> Floats:
    """Divide each column by its standard deviation (1/N), constant columns by one."""
    sd = x.std(axis=0)
    return np.asarray(x / np.where(sd > 0, sd, 1.0))


def require_k(rows: int, k: int, columns: Sequence[str]) -> None:
    """Raise if there are fewer records than a group needs."""
    if rows < k:
        raise DataError(f"k = {k} is larger than the {rows} records with values in {', '.join(columns)}")


def labels_by_pattern(x: Floats, columns: Sequence[str], k: int, group: Grouping) -> Members:
    """Group records with those that miss the same values; those with a rare pattern, or without values, are in none."""
    from discretion.kernels.classes import patterns
    from discretion.kernels.microaggregate import group_members

    require_k(len(x), k, columns)
    missing = np.isnan(x)
    if not missing.any():
        return group_members(group(x))
    missing |= _hide_rare_patterns(x, missing, k)[:, None]
    labels = np.full(len(x), -1, dtype=np.int64)
    kinds, pattern = patterns(missing)
    parts = np.split(np.argsort(pattern, kind="stable"), np.cumsum(np.bincount(pattern, minlength=len(kinds)))[:-1])
    first = 0
    for absent, rows in zip(kinds, parts, strict=True):
        if not absent.all():
            found = group(np.ascontiguousarray(x[np.ix_(rows, np.flatnonzero(~absent))]))
            labels[rows] = found + np.int64(first)
            first += int(found.max()) + 1
    return group_members(labels)


def _hide_rare_patterns(x: Floats, missing: Bools, k: int) -> Bools:
    """Choose the records whose values must be suppressed so that every pattern of missing values has k records."""
    from discretion.kernels.classes import patterns

    pattern = patterns(missing)[1]
    counts = np.bincount(pattern)
    empty = missing.all(axis=1)
    hidden: Bools = (counts < k)[pattern] & ~empty
    lacking = k - int((hidden | empty).sum())
    if not (hidden | empty).any() or lacking <= 0:
        return hidden
    largest = (pattern == counts.argmax()) & ~hidden & ~empty
    if largest.sum() - lacking < k:
        raise DataError(f"too few records with values to build groups of k = {k} beside those with missing values")
    rows = np.flatnonzero(largest)
    seen = ~missing[rows[0]]
    part = x[np.ix_(rows, np.flatnonzero(seen))]
    spread = part.std(axis=0)
    distance = (((part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) ** 2).sum(axis=1)
    hidden[rows[np.argsort(-distance, kind="stable")[:lacking]]] = True
    return hidden


def values_of(
    data: Dataset, columns: Sequence[Encoded], members: Members, aggregate: Aggregate, replace: Replace
) -> dict[str, pl.Series]:
    """Give for each column the value of each group: numbers as asked for, the median rank, the most frequent category.

    A group in which somebody misses the value has none where all values are replaced, else the value of the others.
    """
    from discretion.kernels.microaggregate import group_values

    how: Mapping[str, How] = {"number": aggregate, "ordinal": "low-median", "nominal": "mode"}
    found = {}
    for column in columns:
        values = group_values(column.values, members, how[column.kind], skip_missing=replace == "one")
        found[column.name] = column.decode(values, data.frame[column.name])
    return found


def publish(
    data: Dataset, values: Mapping[str, pl.Series], members: Members, replace: Replace, integers: bool, ctx: Context
) -> Dataset:
    """Give the data with the values of groups; what is lost where nobody misses a value is marked as suppressed."""
    import polars as pl

    from discretion.kernels.microaggregate import choose_one

    new, hidden = {}, {}
    for name, of_groups in values.items():
        series = data.frame[name]
        present = ~_missing(series)
        if replace == "one":
            chosen = choose_one(members, present, ctx.within(name).rng)
            groups = np.flatnonzero(chosen >= 0)
            places = np.arange(len(series))
            places[chosen[groups]] = len(series) + groups
            whole = integers and series.dtype.is_integer()  # the values that stay are not to pass through fractions
            drawn = of_groups.round().cast(series.dtype) if whole else of_groups
            both = pl.concat([series.to_frame(name), drawn.alias(name).to_frame()], how="vertical_relaxed")
            new[name] = both[name].gather(places)
            continue
        in_group = members.labels >= 0
        spread = of_groups.gather(np.where(in_group, members.labels, 0)) if len(of_groups) else series
        if not in_group.all():
            spread = pl.select(pl.when(pl.Series(in_group)).then(spread)).to_series()
        new[name] = spread
        lost = _missing(spread) & present
        if lost.any():
            hidden[name] = lost
    changed = data.with_columns(new, integers=integers)
    return changed.with_columns({}, suppressed=hidden) if hidden else changed


def _missing(series: pl.Series) -> Bools:
    absent = series.is_null()
    return np.asarray(((absent | series.is_nan()) if series.dtype.is_float() else absent).to_numpy())


# Microaggregation along one axis: sort the records by a projection and cut (P16).

_ROBUST_ROWS = 10_000
"""A robust axis is computed on at most this many records, drawn at random, to bound its time."""
_DIRECTIONS = 1_000
"""Records through which projection pursuit looks, drawn at random where there are more."""


class ProjectionMicroaggregation(Microaggregation, kind="projection-microaggregation"):
    """Replace values by the mean of k records that follow each other along one axis through the data.

    The records are sorted by their first principal component (of the columns divided by their standard deviation, its
    sign such that the first column counts positively) and cut into groups of k, the last of k to 2k−1. `axis: robust`
    takes the component of a robust covariance (minimum covariance determinant), which outliers do not turn; `axis:
    pursuit` the direction, of those from the medians through a record, along which the records are spread most by their
    median absolute deviation (columns divided by theirs); `axis: z-scores` the sum of the standardized values;
    `sort_by` sorts by a column instead. Much faster than `Mdav`,
    and loses more the less one axis says about all columns. No axis keeps apart what lies beside it: outliers that
    project among ordinary records share groups with them and spoil their means, also with a robust axis.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all values are replaced; with
    `replace: one` it does not hold. Does not protect against attribute disclosure inside a group. Means of the columns
    hold exactly (with `aggregate: mean`, all values replaced, nothing suppressed).

    Missing values are treated as by `Mdav`: records are grouped with those that miss the same columns, and rare
    patterns are suppressed. The robust covariance starts from random subsets of at most 10,000 records, and of more
    than 1,000 records the pursuit tries 1,000 directions, so that another seed may give other groups. Of equal records
    cut in two, a keyed mix of their place in the file says which go where. Time O(n log n), memory linear.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1), single-axis methods; Rousseeuw & Van Driessen (1999),
    Technometrics 41(3); Croux & Ruiz-Gazen (2005), J. Multivariate Analysis 95(1); Templ (2008), TDP 1(2); catalogue
    P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> data = pl.DataFrame({"a": [1.0, 9.0, 2.0, 8.0], "b": [10.0, 50.0, 20.0, 60.0]})
    >>> dc.ProjectionMicroaggregation(columns=["a", "b"], k=2)(data).rows()
    [(1.5, 15.0), (8.5, 55.0), (1.5, 15.0), (8.5, 55.0)]
    """

    axis: Literal["component", "robust", "pursuit", "z-scores"] = "component"
    """what records are sorted by: first principal component, the same of a robust covariance or by projection pursuit,
    or the sum of z-scores"""
    sort_by: str | None = None
    """a numeric column to sort by instead of an axis; it need not be one of `columns`"""

    scale: ClassVar[Scale] = "columns"
    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are exact where groups are replaced by their means; variances are too small, correlations too large, "
        "tails and percentiles smoothed."
    )
    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of records that follow each other along one axis, so "
        "that no record can be told from the others of its group by these columns (unless the settings say that one "
        "value per group was replaced)."
    )

    @model_validator(mode="after")
    def _one_order(self) -> Self:
        if self.sort_by is not None and self.axis != "component":
            raise ValueError("give `axis` or `sort_by`, not both")
        return self

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and to sort by, and those that form groups."""
        return (*super().holds(data), *([self.sort_by] if self.sort_by else []))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Sort, cut, and replace the values."""
        if self.sort_by is None:
            return super().rewrite(data, decision, ctx)
        columns = data.choose(self.columns, "perturb")
        if data.count_missing(self.sort_by):
            raise DataError(f"column {self.sort_by!r} has missing values; records cannot be sorted by it")
        x = np.column_stack([data.numbers(columns), data.number(self.sort_by)])
        members = labels_by_pattern(x, columns, self.k, lambda part: _cut(part[:, -1], self.k, ctx))
        encoded = [Encoded(name, "number", data.number(name)) for name in columns]
        values = values_of(data, encoded, members, self.aggregate, self.replace)
        new = publish(data, values, members, self.replace, self.integers or self.aggregate == "mode", ctx)
        return self.in_precision(data, new, columns)

    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group complete records."""
        ctx.progress(0, len(x), ctx.step)
        center, spread = x.mean(axis=0), x.std(axis=0)
        direction = np.ones(x.shape[1])
        if self.axis == "component" and x.shape[1] > 1:
            z = (x - center) / np.where(spread > 0, spread, 1.0)
            direction = _first_component(z.T @ z)
        elif self.axis == "robust" and x.shape[1] > 1:
            center, spread, direction = _robust(x, spread, ctx)
        elif self.axis == "pursuit" and x.shape[1] > 1:
            center, spread, direction = _pursued(x, ctx)
        score = np.zeros(len(x))
        for j in range(x.shape[1]):  # column by column: the same numbers for the same record, wherever it stands
            ctx.progress(0, len(x), ctx.step)
            score += (x[:, j] - center[j]) * (direction[j] / spread[j] if spread[j] > 0 else 0.0)
        return _cut(score, self.k, ctx)


def _cut(score: Floats, k: int, ctx: Context) -> NDArray[np.signedinteger]:
    from discretion.kernels.microaggregate import cut_labels, fixed_bounds

    return cut_labels(fixed_bounds(len(score), k), mixed_order(score, None, ctx)[1])


def _first_component(covariance: Floats) -> Floats:
    """Give the eigenvector of the largest eigenvalue, with a positive first entry."""
    return _counted_up(np.linalg.eigh(covariance)[1][:, -1])


def _counted_up(vector: Floats) -> Floats:
    """Give a direction the sign with which its first entry is positive."""
    return np.asarray(vector * np.sign(vector[np.flatnonzero(np.abs(vector) > 1e-12)[0]]))


def _pursued(x: Floats, ctx: Context) -> tuple[Floats, Floats, Floats]:
    """Give medians and robust spreads, and the direction through a record in which the records are spread most."""
    center, scale = (np.array(part) for part in zip(*map(robust_scale, x.T), strict=True))
    if not (scale > 0).any():
        return center, scale, np.ones(x.shape[1])
    rows = np.sort(ctx.rng.choice(len(x), min(len(x), _ROBUST_ROWS), replace=False))
    z = (x[rows] - center) / np.where(scale > 0, scale, 1.0)
    tried = z if len(z) <= _DIRECTIONS else z[np.sort(ctx.rng.choice(len(z), _DIRECTIONS, replace=False))]
    length = np.sqrt((tried**2).sum(axis=1))
    tried = tried[length > 0] / length[length > 0, None]
    spreads = np.zeros(len(tried))
    for place, direction in enumerate(tried):
        ctx.progress(place, len(tried), ctx.step)
        along = sum(z[:, j] * share for j, share in enumerate(direction))
        spreads[place] = np.median(np.abs(along - np.median(along)))
    if not spreads.any():
        raise DataError("more than half of the records agree; no direction has a median deviation")
    return center, scale, _counted_up(tried[np.argmax(spreads)])


def _robust(x: Floats, spread: Floats, ctx: Context) -> tuple[Floats, Floats, Floats]:
    """Give robust centers and spreads, and the first component of the robust correlation."""
    from sklearn.covariance import MinCovDet

    varied = np.flatnonzero(spread > 0)
    center, scale, direction = x.mean(axis=0), spread.copy(), np.ones(x.shape[1])
    if len(varied) < 2:
        return center, scale, direction
    if len(x) < 2 * (len(varied) + 1):
        raise DataError(f"{len(x)} records are too few for a robust covariance of {len(varied)} columns")
    rng = ctx.rng
    rows = np.sort(rng.choice(len(x), _ROBUST_ROWS, replace=False)) if len(x) > _ROBUST_ROWS else np.arange(len(x))
    z = (x[np.ix_(rows, varied)] - center[varied]) / spread[varied]
    ranked, half = np.sort(z, axis=0), len(z) // 2
    if (ranked[half:] == ranked[: len(z) - half]).any():
        raise DataError("more than half of the records agree in one column; a robust covariance does not exist")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that half of the records lie on a plane, which is no fault here
        fit = MinCovDet(random_state=int(rng.integers(2**31))).fit(z)
    variance = np.diag(fit.covariance_)
    sd = np.sqrt(np.where(variance > 0, variance, 1.0))
    center[varied] += fit.location_ * spread[varied]
    scale[varied] = spread[varied] * sd
    direction[varied] = _first_component(fit.covariance_ / np.outer(sd, sd))
    return center, scale, direction


class _ColumnByColumn(AggregatesGroups):
    """A method that sorts each column, cuts it into groups and replaces the values of each group."""

    columns: Columns = ()
    """numeric columns, each aggregated on its own; without it, the numeric quasi-identifiers and sensitive columns"""

    scale: ClassVar[Scale] = "columns"
    effect: ClassVar[str] = (
        "Means are exact and the distribution of the column is nearly so; variances are a little too small."
    )
    guarantee: ClassVar[str] = (
        "Each value was replaced by what stands for a small group of neighboring values, column by column (unless the "
        "settings say that one value per group was replaced); over several columns together, records can still be told "
        "apart."
    )

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to aggregate and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Cut each sorted column and replace the values present."""
        columns = data.choose(self.columns, "perturb")
        plain = self.aggregate == "mean" and self.replace == "all"
        before, new = data, dict[str, Floats]()
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{ctx.step}: {name}")
            missing = data.count_missing(name)
            present = np.flatnonzero(~np.isnan(data.number(name))) if missing else None
            require_k(len(data) - missing, self.k, [name])
            if plain:
                new[name] = self._means(data.number(name), present, ctx.within(name))
            else:
                data = self._aggregated(data, name, present, ctx)
        ctx.progress(len(columns), len(columns), ctx.step)
        return self.in_precision(before, data.with_columns(new, integers=self.integers) if plain else data, columns)

    def _means(self, x: Floats, present: Ints | None, ctx: Context) -> Floats:
        """Give each value the mean of its group, without listing the groups."""
        from discretion.kernels.microaggregate import replace_by_mean

        ranked, rows = mixed_order(x, present, ctx)
        if present is None:
            return replace_by_mean(ranked, self._bounds(ranked), rows)
        filled = np.full(len(x), np.nan)
        filled[present] = replace_by_mean(ranked, self._bounds(ranked), np.searchsorted(present, rows))
        return filled

    def _aggregated(self, data: Dataset, name: str, present: Ints | None, ctx: Context) -> Dataset:
        """Replace the values of one column by what stands for their groups."""
        from discretion.kernels.microaggregate import cut_labels, group_members

        x = data.number(name)
        ranked, rows = mixed_order(x, present, ctx.within(name))
        if present is None:
            labels = cut_labels(self._bounds(ranked), rows)
        else:
            labels = np.full(len(x), -1)
            labels[present] = cut_labels(self._bounds(ranked), np.searchsorted(present, rows))
        members = group_members(labels)
        values = values_of(data, [Encoded(name, "number", x)], members, self.aggregate, self.replace)
        return publish(data, values, members, self.replace, self.integers or self.aggregate == "mode", ctx)

    @abstractmethod
    def _bounds(self, ranked: Floats) -> Ints:
        """Cut sorted values into groups: the first position of each, and the number of values at the end."""


class IndividualRanking(_ColumnByColumn, kind="individual-ranking"):
    """Replace each value by the mean of k neighboring values, each column on its own.

    Each column is sorted and cut into groups of k; the last group has k to 2k−1. Guarantees that each published value
    of a column is shared by at least k records, when all values are replaced. Does *not* give k-anonymity over several
    columns: each is grouped on its own, and the combination of a record's values stays nearly unique. Keeps the
    columns' distributions best of all microaggregation, and protects least: a value lies between its neighbors. Means
    hold exactly with `aggregate: mean`. Equal values may stand on both sides of a cut; a keyed mix of their place in
    the file says which. Missing values stay missing. Time O(n), memory linear.

    References
    ----------
    Defays & Nanopoulos (1993); Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1); catalogue P15.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.IndividualRanking(columns=["age"], k=3)(ages)["age"].to_list()
    [39.333333333333336, 21.0, 58.5, 21.0, 21.0, 58.5, 39.333333333333336, 39.333333333333336, 58.5, 58.5]
    """

    purpose: ClassVar[Purpose] = "hide exact numbers"

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.microaggregate import fixed_bounds

        return fixed_bounds(len(ranked), self.k)


class OptimalMicroaggregation(_ColumnByColumn, kind="optimal-microaggregation"):
    """Replace each value by the mean of its group, each column on its own, with the least possible squared error.

    The groups of at least k consecutive values that minimize the sum of squared errors are found exactly. Guarantees
    that each published value of a column is shared by at least k records, when all values are replaced. Does *not* give
    k-anonymity over several columns: each is grouped on its own. The groups are those that are best for the mean; with
    `aggregate: median` or `mode` they are the same. Of equal values cut in two, a keyed mix of their place in the file
    says which go where. Missing values stay missing. Time O(n log n + k·n), memory linear.

    References
    ----------
    Hansen & Mukherjee (2003), IEEE TKDE 15(4); catalogue P15.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.OptimalMicroaggregation(columns=["age"], k=3)(ages)["age"].to_list()
    [46.0, 23.25, 46.0, 23.25, 23.25, 61.333333333333336, 23.25, 46.0, 61.333333333333336, 61.333333333333336]
    """

    purpose: ClassVar[Purpose] = "hide exact numbers"

    def _bounds(self, ranked: Floats) -> Ints:
        from discretion.kernels.microaggregate import optimal_bounds

        return optimal_bounds(ranked, self.k)
