"""The values of a column as models read them, and the same column as somebody outside knows it.

A release may show a column in less detail than the original (intervals, groups). Whoever uses the release, to attack it
or to work with it, brings what they know to the same detail; `outside_view` does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Levels, canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints

# Columns as the matrix a model is fitted to.
#
# Numbers stay as they are; missing ones are filled by the median of the training rows when a model is fitted and are
# marked in a column of their own. Categories become one 0/1 column each, missing among them; ordered categories, and
# categories of more than `MOST_LEVELS` values, become one column of ranks.

MOST_LEVELS = 64
"""Categories of a column that get a 0/1 column each; with more, the matrix would outgrow the data."""


@dataclass(frozen=True)
class Design:
    """Rows as numbers: `names` of the matrix columns, the data column each comes from, and which are 0/1."""

    x: Floats
    names: tuple[str, ...]
    sources: tuple[str, ...]
    indicators: Bools

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.integer]) -> Design:
        """Give some rows."""
        return Design(self.x[rows], self.names, self.sources, self.indicators)

    def only(self, columns: Sequence[str]) -> Design:
        """Give the design of some of the data columns."""
        kept = np.array([source in columns for source in self.sources], dtype=np.bool_)
        places = np.flatnonzero(kept)
        return Design(
            self.x[:, kept],
            tuple(self.names[place] for place in places),
            tuple(self.sources[place] for place in places),
            self.indicators[kept],
        )

    def scaled(self, like: Design) -> Floats:
        """Give complete rows in which columns count alike: numbers by the spread of `like`, categories as 1."""
        medians = medians_of(like.x)
        sd = np.array([_spread(column) for column in like.x.T]) if len(like.names) else np.ones(0)
        scale = np.where(self.indicators, np.sqrt(2.0), sd)
        return (filled(self.x, medians) - medians) / scale


def _spread(column: Floats) -> float:
    present = column[~np.isnan(column)]
    sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    return sd if sd > 0 else 1.0


def medians_of(x: Floats) -> Floats:
    """Give the median of each column's values, 0 for a column without any."""
    return np.array([float(np.median(c[~np.isnan(c)])) if (~np.isnan(c)).any() else 0.0 for c in x.T])


def filled(x: Floats, medians: Floats) -> Floats:
    """Put medians in place of missing values."""
    absent = np.isnan(x)
    return np.where(absent, medians, x) if absent.any() else x


def encode(readings: Sequence[Mapping[str, Values]]) -> list[Design]:
    """Encode several readings of the same columns alike, so that a model fitted to one can be asked about another."""
    blocks: list[list[Floats]] = [[] for _ in readings]
    names: list[str] = []
    sources: list[str] = []
    indicators: list[bool] = []
    for column in readings[0]:
        parts, titles, flags = _encode_column(column, [reading[column] for reading in readings])
        for place, part in enumerate(parts):
            blocks[place].append(part)
        names += titles
        sources += [column] * len(titles)
        indicators += flags
    flags_array = np.array(indicators, dtype=np.bool_)
    return [Design(np.hstack(block), tuple(names), tuple(sources), flags_array) for block in blocks]


def _encode_column(column: str, parts: Sequence[Values]) -> tuple[list[Floats], list[str], list[bool]]:
    labels = [part for part in parts if isinstance(part, Labels)]
    if labels and len(labels) < len(parts):
        raise DataError(f"column {column!r} is a number in one data set and a category in the other")
    if labels:
        labels = merge(labels)
        if not labels[0].ordered and len(labels[0].names) <= MOST_LEVELS:
            levels = [*range(len(labels[0].names)), *([-1] if any((part.codes < 0).any() for part in labels) else [])]
            titles = [f"{column} = {'(missing)' if level < 0 else labels[0].names[level]}" for level in levels]
            return (
                [np.asarray(part.codes[:, None] == np.array(levels)[None, :], dtype=np.float64) for part in labels],
                titles,
                [True] * len(levels),
            )
        return _ranks(column, [np.where(part.codes < 0, np.nan, part.codes.astype(np.float64)) for part in labels])
    return _ranks(column, [part.values for part in parts if isinstance(part, Numbers)])


def _ranks(column: str, parts: Sequence[Floats]) -> tuple[list[Floats], list[str], list[bool]]:
    if not any(np.isnan(part).any() for part in parts):
        return [part.reshape(-1, 1) for part in parts], [column], [False]
    stacked = [np.column_stack([part, np.isnan(part).astype(np.float64)]) for part in parts]
    return stacked, [column, f"{column} = (missing)"], [False, True]


def choose_target(data: Dataset, named: str, who: str) -> str:
    """Give the column to predict: the named one, or the only sensitive one."""
    if named:
        data.require([named])
        return named
    sensitive = data.having("sensitive")
    if len(sensitive) == 1:
        return sensitive[0]
    listed = f" (sensitive: {', '.join(sensitive)})" if sensitive else ""
    raise PlanError(f"{who}: give `target`, the column to predict{listed}")


def choose_features(
    original: Dataset, released: Dataset, named: Sequence[str], target: str, *, who: str, quasi: bool
) -> tuple[str, ...]:
    """Give the columns to predict from: the named ones, or those of the roles that both data sets have."""
    if target in named:
        raise PlanError(f"{who}: {target!r} is the target and cannot be a feature")
    if named:
        original.require(named)
        released.require(named)
        if len(set(named)) < len(named):
            raise PlanError(f"{who}: a feature is named twice")
        return tuple(named)
    chosen = original.choose((), "classes" if quasi else "compare")
    single = [name for name in chosen if name in released.columns and name != target and not _is_set(original, name)]
    if not single:
        raise PlanError(f"{who}: no column is left to predict from; give `features`")
    return tuple(single)


def _is_set(data: Dataset, column: str) -> bool:
    import polars as pl

    return isinstance(data.frame.schema[column], pl.List | pl.Array)


def weights_of(data: Dataset, who: str) -> Floats | None:
    """Give the weights of the rows, where a column has that role."""
    named = data.having("weight")
    if not named:
        return None
    if len(named) > 1:
        raise DataError(f"{who}: several weight columns ({', '.join(named)})")
    weights = data.number(named[0])
    if np.isnan(weights).any() or (weights < 0).any() or not weights.sum() > 0:
        raise DataError(
            f"{who}: the weights in column {named[0]!r} must be numbers of at least 0, not all 0, none missing"
        )
    return weights


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; NaN is missing."""

    values: Floats

    def take(self, rows: NDArray[np.integer]) -> Numbers:
        """Give some rows."""
        return Numbers(self.values[rows])

    @property
    def missing(self) -> Bools:
        """Tell which values are missing."""
        return np.isnan(self.values)


@dataclass(frozen=True)
class Labels:
    """A column of names: codes into `names`, −1 for missing; `ordered` when the order of the names means something."""

    codes: Ints
    names: tuple[str, ...]
    ordered: bool = False

    def take(self, rows: NDArray[np.integer]) -> Labels:
        """Give some rows."""
        return Labels(self.codes[rows], self.names, self.ordered)

    @property
    def missing(self) -> Bools:
        """Tell which values are missing."""
        return self.codes < 0


Values = Numbers | Labels


def is_number(data: Dataset, column: str) -> bool:
    """Tell whether a column is used as a number: numbers and dates, unless they are categories (see `is_category`)."""
    return _may_count(data, column) and not data.is_category(column)


def _may_count(data: Dataset, column: str) -> bool:
    """Tell whether a column holds numbers or dates that the schema does not call names or grades."""
    data.require([column])
    kind = data.frame.schema[column]
    if kind.is_numeric():
        return data.type_of(column) != "nominal" and not data.schema[column].order
    return kind.is_temporal()


def numbers_of(data: Dataset, column: str) -> Numbers:
    """Read a column of numbers; dates count days or smaller units."""
    if data.is_numeric(column):
        return Numbers(data.number(column))
    import polars as pl

    physical = data.frame[column].to_physical().cast(pl.Float64)
    return Numbers(physical.fill_null(float("nan")).to_numpy())


def numbers_of_both(
    original: Dataset, released: Dataset, column: str, *, few: bool = False
) -> tuple[Numbers, Numbers] | None:
    """Read a column as numbers of one unit in both data sets; None where it is not a number, or not alike, in both.

    `few`: few-valued whole numbers are read as numbers too, for means and distances of distributions.
    """
    import polars as pl

    if not (_may_count(original, column) and _may_count(released, column)):
        return None
    if not few and original.is_category(column) and released.is_category(column):
        return None  # a category that noise turned into other numbers is compared as numbers
    series = [data.frame[column] for data in (original, released)]
    if series[0].dtype == series[1].dtype or all(data.is_numeric(column) for data in (original, released)):
        return numbers_of(original, column), numbers_of(released, column)
    for family, unit in (((pl.Date, pl.Datetime), pl.Datetime("us")), ((pl.Duration,), pl.Duration("us"))):
        if all(isinstance(one.dtype, family) for one in series):
            micros = [one.cast(unit).to_physical().cast(pl.Float64).fill_null(float("nan")) for one in series]
            return Numbers(micros[0].to_numpy()), Numbers(micros[1].to_numpy())
    return None


def labels_of(data: Dataset, column: str) -> Labels:
    """Read a column of categories; names in their declared order, otherwise sorted, so that rows do not matter."""
    import polars as pl

    coded = data.codes(column)
    kind = data.frame.schema[column]
    if isinstance(kind, pl.List | pl.Array):
        raise DataError(f"column {column!r} holds sets; a model needs single values, leave it out of the features")
    texts = [None if value is None else canonical(value) for value in coded.values]
    names, ordered = _in_order(data, column, sorted({text for text in texts if text is not None}))
    number = {name: code for code, name in enumerate(names)}
    lookup = np.array([-1 if text is None else number[text] for text in texts], dtype=np.int64)
    codes = lookup[coded.codes] if len(lookup) else np.full(len(data), -1, dtype=np.int64)
    return Labels(codes, names, ordered)


def _in_order(data: Dataset, column: str, found: list[str]) -> tuple[tuple[str, ...], bool]:
    import polars as pl

    kind = data.frame.schema[column]
    order = data.schema[column].order or (tuple(kind.categories.to_list()) if isinstance(kind, pl.Enum) else ())
    if not order or not set(found) <= set(order):
        return tuple(found), False
    return tuple(name for name in order if name in set(found)), True


def read_column(data: Dataset, column: str) -> Values:
    """Read a column as its type says."""
    return numbers_of(data, column) if is_number(data, column) else labels_of(data, column)


def outside_view(
    original: Dataset, released: Dataset, column: str, *, aligned: bool, categories: bool = False, few: bool = False
) -> tuple[Values, Values]:
    """Give a column as it is known outside, at the detail of the release, and as it is published.

    Numbers and categories of the same domain are known as they are. A column that was generalized is generalized for
    the one outside too, by its hierarchy; one that was recoded without a hierarchy is known by the label of the
    person's own record, which needs `aligned` rows. `categories`: also numbers are read as
    names; `few`: few-valued whole numbers are read as numbers.
    """
    if not categories and (numbers := numbers_of_both(original, released, column, few=few)) is not None:
        return numbers
    published = labels_of(released, column)
    levels = _levels(released, column)
    if levels is not None:
        return _generalized(original, released, column, levels), published
    known = labels_of(original, column)
    both_numeric = original.is_numeric(column) and released.is_numeric(column)
    if both_numeric or set(published.names) <= set(known.names):
        return known, published
    if aligned and not original.is_numeric(column) and not _recoded(known, published):
        return known, published
    if not aligned:
        raise DataError(
            f"column {column!r} has other categories in the release than in the original, and no hierarchy tells how "
            "they belong together; give a hierarchy or leave the column out"
        )
    return published, published


def _recoded(known: Labels, published: Labels) -> bool:
    """Tell whether each category has one published label: it was grouped or renamed, not perturbed."""
    shown = ~(known.missing | published.missing)
    pairs = np.unique(np.column_stack([known.codes[shown], published.codes[shown]]), axis=0)
    return len(pairs) == len(np.unique(pairs[:, 0]))


def _levels(released: Dataset, column: str) -> Ints | None:
    """Give the level of each cell where a column was generalized by its hierarchy."""
    if released.origin.schema[column].hierarchy is None:
        return None
    try:
        levels = np.broadcast_to(released.cell_levels(column), len(released))
    except DataError:
        return None
    return np.asarray(levels, dtype=np.int64) if (levels > 0).any() else None


def _generalized(data: Dataset, released: Dataset, column: str, levels: Ints) -> Labels:
    """Give original values at the level of the release; where levels differ, at that of the person's own record."""
    coded = data.codes(column)
    texts = [None if value is None else canonical(value) for value in coded.values]
    leaves = [text for text in texts if text is not None]
    present = levels[~released.frame[column].is_null().to_numpy()]
    single = len(np.unique(present)) == 1
    if not single and len(data) != len(released):
        raise DataError(
            f"column {column!r} is generalized to different levels in different records; other people's values can be "
            "brought to one level only"
        )
    hierarchy = _hierarchy_for(released, column, leaves)
    used = np.full(len(data), int(present[0])) if single else levels
    shown = np.full(len(data), -1, dtype=np.int64)
    numbers: dict[str, int] = {}
    for level in np.unique(used):
        labels = iter(hierarchy.labels(leaves, int(level)))
        lookup = [-1 if text is None else numbers.setdefault(next(labels), len(numbers)) for text in texts]
        rows = used == level
        shown[rows] = np.array(lookup, dtype=np.int64)[coded.codes[rows]]
    return merge([Labels(shown, tuple(numbers))])[0]


def _hierarchy_for(released: Dataset, column: str, leaves: Sequence[str]) -> Levels:
    """Give the hierarchy of the release, made wider when other people have values that its original did not."""
    levels = released.hierarchy(column)
    recipe = released.origin.schema[column].hierarchy
    if recipe is None or all(leaf in levels.leaf_index for leaf in leaves):
        return levels
    wide = recipe.bind([*levels.table[0], *leaves], column)
    if not all(leaf in wide.leaf_index for leaf in leaves):
        lacking = len({leaf for leaf in leaves if leaf not in wide.leaf_index})
        raise DataError(f"column {column!r}: the hierarchy does not have {lacking} of the values of the other people")
    return wide


def merge(parts: Sequence[Labels]) -> list[Labels]:
    """Give several readings of a column one list of names."""
    first = parts[0]
    if all(part.names == first.names for part in parts) and list(first.names) == sorted(first.names):
        return list(parts)
    everything = {name for part in parts for name in part.names}
    longest = max(parts, key=lambda part: len(part.names)).names
    ordered = all(part.ordered for part in parts) and everything <= set(longest)
    names = longest if ordered else tuple(sorted(everything))
    number = {name: code for code, name in enumerate(names)}
    merged = []
    for part in parts:
        lookup = np.array([*(number[name] for name in part.names), -1], dtype=np.int64)
        merged.append(Labels(lookup[part.codes], names, ordered))
    return merged


def content_order(columns: Sequence[Values]) -> Ints:
    """Order rows by what they hold: the same records give the same order however the file is sorted."""
    keys = [column.values if isinstance(column, Numbers) else column.codes for column in columns]
    return np.lexsort(keys[::-1]).astype(np.int64)
