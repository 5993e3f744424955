"""Columns of two data sets made comparable: numbers and ordered values by distance, categories by agreement.

A value that was generalized is compared on the level at which it was published: an intruder who knows an age of 34 and
sees the interval [30, 39] generalizes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.data.codes import as_texts, set_keys
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Levels as HierarchyLevels
from discretion.data.hierarchy import canonical
from discretion.data.large_integers import as_differences
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints32
from discretion.risk.identity.distance_columns import is_range, ranges_holding

if TYPE_CHECKING:
    import polars as pl

Levels8 = NDArray[np.uint8]

MOST_SIMILARITIES = 100_000_000
"""Pairs of distinct values whose similarity is computed (one byte each)."""


@dataclass(frozen=True)
class NumberPair:
    """A column with an order on both sides, in standard deviations of the intruder's values; NaN is missing."""

    name: str
    known: Floats = field(repr=False)
    published: Floats = field(repr=False)


@dataclass(frozen=True)
class CategoryPair:
    """A column of categories on both sides, as codes that mean the same on both; −1 is missing."""

    name: str
    known: Ints32 = field(repr=False)
    published: Ints32 = field(repr=False)
    known_values: tuple[str, ...] = field(repr=False)
    published_values: tuple[str, ...] = field(repr=False)
    agreement: Levels8 | None = field(default=None, repr=False)
    """`agreement[known code, published code]`, 0 for values that differ; None: equal codes agree"""


Pair = NumberPair | CategoryPair


@dataclass(frozen=True)
class Compared:
    """The columns that are compared, and those that say nothing because no value can ever agree."""

    pairs: tuple[Pair, ...]
    left_out: tuple[str, ...]


def compare_columns(
    known: Dataset, released: Dataset, columns: Sequence[str], named: bool, who: str, similarity: Sequence[float] = ()
) -> Compared:
    """Make columns comparable; one whose values have nothing in common is refused where it was named."""
    pairs: list[Pair] = []
    mute = []
    for name in columns:
        pair = _by_similarity(_pair(known, released, name, who), similarity, who)
        if isinstance(pair, CategoryPair) and not _can_agree(pair):
            mute.append(name)
        else:
            pairs.append(pair)
    if mute and (named or not pairs):
        raise DataError(
            f"{who}: no value of {', '.join(map(repr, mute))} in the original occurs in the release, so that nothing "
            "can be compared; leave the column out, or give its hierarchy if it was generalized"
        )
    return Compared(tuple(pairs), tuple(mute))


def _by_similarity(pair: Pair, thresholds: Sequence[float], who: str) -> Pair:
    """Let categories that resemble each other agree in part: a level for each similarity reached, one for equality."""
    if not thresholds or not isinstance(pair, CategoryPair) or pair.agreement is not None:
        return pair
    from discretion.kernels.pattern_counts import similarity_levels

    known, published = _used(pair.known), _used(pair.published)
    if known.size * published.size > MOST_SIMILARITIES:
        raise DataError(
            f"{who}: column {pair.name!r} has {known.size} values in the original and {published.size} in the release; "
            f"similarity is computed for up to {MOST_SIMILARITIES:,} pairs of values; leave `text_similarity` out"
        )
    one, other = ([pair.known_values[code] for code in codes] for codes in (known, published))
    return replace(
        pair,
        known=_renumbered(pair.known, known),
        published=_renumbered(pair.published, published),
        known_values=tuple(one),
        published_values=tuple(other),
        agreement=similarity_levels(one, other, thresholds),
    )


def _used(codes: Ints32) -> Ints32:
    return np.unique(codes[codes >= 0])


def _renumbered(codes: Ints32, used: Ints32) -> Ints32:
    return np.where(codes < 0, -1, np.searchsorted(used, codes)).astype(np.int32)


def _can_agree(pair: CategoryPair) -> bool:
    if pair.agreement is not None:
        return bool(pair.agreement.any())
    return bool(np.isin(pair.known[pair.known >= 0], pair.published[pair.published >= 0]).any())


def _pair(known: Dataset, released: Dataset, name: str, who: str) -> Pair:
    for data in (known, released):
        data.require([name])
        if data.count_missing(name) == len(data):
            raise DataError(f"{who}: column {name!r} has no values")
    nested = [data.frame.schema[name].is_nested() for data in (known, released)]
    if any(nested) and not all(nested):
        raise DataError(f"{who}: column {name!r} holds sets on one side and single values on the other")
    if all(nested):
        return _categories(name, set_keys(known.frame[name]), set_keys(released.frame[name]))
    if _is_generalized(known, released, name):
        return _generalized(known, released, name)
    one, other = _places(known, name), _places(released, name)
    if one is not None and other is not None:
        if not known.schema[name].order:
            one, other = as_differences([known.frame[name], released.frame[name]]) or (one, other)
        sd = _sd(one)
        return NumberPair(name, one / sd, other / sd)
    return _by_range(_categories(name, _texts(known.frame[name]), _texts(released.frame[name])))


def _by_range(pair: CategoryPair) -> CategoryPair:
    """Let a published interval, set or mask agree with the values inside it."""
    mine, theirs = _used(pair.known), _used(pair.published)
    one, other = [pair.known_values[code] for code in mine], [pair.published_values[code] for code in theirs]
    ranges = np.array([is_range(label) for label in other], dtype=np.bool_) & ~np.isin(theirs, mine)
    if not ranges.any():
        return pair
    equal = mine[:, None] == theirs[None, :]
    return replace(
        pair,
        known=_renumbered(pair.known, mine),
        published=_renumbered(pair.published, theirs),
        known_values=tuple(one),
        published_values=tuple(other),
        agreement=(equal | (ranges & ranges_holding(one, other, pair.name))).astype(np.uint8),
    )


def _sd(x: Floats) -> float:
    present = x[~np.isnan(x)]
    sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    return sd if sd > 0 else 1.0


def _places(data: Dataset, name: str) -> Floats | None:
    """Give a column as places on a line; None for categories without an order."""
    import polars as pl

    kind = data.frame.schema[name]
    order = data.schema[name].order or (tuple(kind.categories) if isinstance(kind, pl.Enum) else ())
    if order:
        place = {text: float(at) for at, text in enumerate(order)}
        codes = data.codes(name)
        found = [np.nan if value is None else place.get(canonical(value), np.nan) for value in codes.values]
        lacking = sum(value is not None and canonical(value) not in place for value in codes.values)
        return None if lacking else np.array(found)[codes.codes]
    if data.schema[name].type == "nominal":
        return None
    if kind.is_numeric():
        return data.number(name)
    if not kind.is_temporal():
        return None
    series = data.frame[name]
    if isinstance(kind, pl.Datetime | pl.Duration):  # the two sides may count in different units
        series = series.cast(type(kind)("us"))
    return series.to_physical().cast(pl.Float64).to_numpy()


def _texts(series: pl.Series) -> pl.Series:
    """Write values so that equal ones are equal on both sides: whole numbers without a decimal point."""
    import polars as pl

    kind = series.dtype
    if kind.is_float():
        clean = series.fill_nan(None)
        whole = (clean == clean.round()) & (clean.abs() < 2.0**53)
        as_text = (
            pl.when(whole).then(clean.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(clean.cast(pl.String))
        )
        return pl.select(as_text).to_series()
    return as_texts(series)


def _categories(name: str, known: pl.Series, published: pl.Series) -> CategoryPair:
    """Code the categories of both sides together, in the order of their text (so that row order does not matter)."""
    import polars as pl

    values = pl.concat([known.rename("v"), published.rename("v")]).drop_nulls().unique().sort()
    index = pl.DataFrame({"v": values, "code": np.arange(len(values), dtype=np.int32)})

    def codes(texts: pl.Series) -> Ints32:
        joined = pl.DataFrame({"v": texts}).join(index, on="v", how="left", maintain_order="left")
        return joined["code"].fill_null(-1).to_numpy().astype(np.int32)

    listed = tuple(values.to_list())
    return CategoryPair(name, codes(known), codes(published), listed, listed)


def _is_generalized(known: Dataset, released: Dataset, name: str) -> bool:
    """Tell whether the published values stand on a higher level of the hierarchy."""
    recorded = released.levels.get(name)
    if recorded is not None and not isinstance(known.levels.get(name), int | np.ndarray):
        return bool(np.any(recorded))
    if known.is_numeric(name) and released.is_numeric(name):
        return False
    has_hierarchy = released.schema[name].hierarchy is not None or released.origin.schema[name].hierarchy is not None
    return has_hierarchy and bool(np.any(_levels_found(released, name)))


def _levels_found(released: Dataset, name: str) -> int | NDArray[np.int64]:
    """Give the levels of the cells, 0 where the labels stand in no hierarchy (ranges, other values)."""
    try:
        return released.cell_levels(name)
    except DataError:
        return 0


def _generalized(known: Dataset, released: Dataset, name: str) -> CategoryPair:
    """Compare on the level each cell was published at."""
    import polars as pl

    hierarchy = released.hierarchy(name)
    texts = _texts(known.frame[name])
    levels: int | NDArray[np.int64] = released.cell_levels(name)
    published = _texts(released.frame[name])
    if isinstance(levels, int) or len(np.unique(levels)) == 1:
        level = levels if isinstance(levels, int) else int(levels[0])
        distinct = texts.drop_nulls().unique()
        label = dict(zip(distinct, _labels(hierarchy, distinct.to_list(), level), strict=True))
        return _categories(name, texts.replace_strict(label, return_dtype=pl.String), published)
    return _on_several_levels(name, hierarchy, texts, published, levels)


def _labels(hierarchy: HierarchyLevels, values: list[str], level: int) -> list[str | None]:
    """Give labels at a level; a value that the hierarchy does not know agrees with nothing."""
    inside = [value for value in values if value in hierarchy.leaf_index]
    label = dict(zip(inside, hierarchy.labels(inside, level), strict=True))
    return [label.get(value, value) for value in values]


def _on_several_levels(
    name: str, hierarchy: HierarchyLevels, texts: pl.Series, published: pl.Series, levels: NDArray[np.int64]
) -> CategoryPair:
    """Code (label, level) on the published side, and say which of the intruder's values lie below each."""
    import polars as pl

    mine = texts.drop_nulls().unique().sort()
    cells = pl.DataFrame({"v": published, "level": levels})
    theirs = cells.drop_nulls().unique().sort("level", "v").with_row_index("code")
    above = {int(level): _labels(hierarchy, mine.to_list(), int(level)) for level in theirs["level"].unique()}
    agreement = np.zeros((len(mine), len(theirs)), np.uint8)
    for code, label, level in theirs.iter_rows():
        agreement[:, code] = [value == label for value in above[level]]
    index = pl.DataFrame({"v": mine, "code": np.arange(len(mine), dtype=np.int32)})
    one = pl.DataFrame({"v": texts}).join(index, on="v", how="left", maintain_order="left")["code"]
    other = cells.join(theirs, on=["v", "level"], how="left", maintain_order="left")["code"].cast(pl.Int32)
    return CategoryPair(
        name,
        one.fill_null(-1).to_numpy().astype(np.int32),
        other.fill_null(-1).to_numpy().astype(np.int32),
        tuple(mine.to_list()),
        tuple(theirs["v"].to_list()),
        agreement,
    )
