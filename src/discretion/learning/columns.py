"""One column of several data sets: how its values are read, and which values of one agree with which of another.

Linkage by distance and by probability, attacks on synthetic data, models and utility all compare a column of an
original with the same column of a release. Whether its values stand on a line or are categories follows from the type
of the column and from what the comparison is for (`reading_of`; tests/learning/test_columns.py prints the table). How
they become places on the line, or codes that mean the same in every data set, is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from discretion.data.codes import ColumnCodes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import ENDS, HierarchyLevels, canonical, end_or_nan, interval_bounds
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import source_of

if TYPE_CHECKING:
    import polars as pl

Purpose = Literal["distance", "agreement", "synthetic", "model", "utility"]
"""What columns are compared for: distance linkage; probabilistic and learned linkage; attacks on synthetic data; models
(designs, clusters); statistics of utility."""
Reading = Literal["number", "time", "rank", "few", "category"]
"""How values are read: on a line by size, time or place in an order; `few`: whole numbers that are categories unless
the other side has more of them; as categories."""

_EXACT = 2**53
"""Floats hold every whole number up to this."""


def reading_of(data: Dataset, name: str, purpose: Purpose) -> Reading:
    """Tell how a column is read for a purpose."""
    data.require([name])
    kind, type_, order = data.frame.schema[name], data.type_of(name), order_of(data, name)
    if purpose in ("distance", "agreement"):
        if order:
            return "rank" if _stands_in(data, name, order) else "category"
        if type_ == "nominal":
            return "category"
        if kind.is_numeric():
            return "number"
        written = purpose == "distance" and type_ == "date" and _as_dates(data.frame[name]) is not None
        return "time" if written or kind.is_temporal() else "category"
    if type_ == "nominal" and (purpose == "synthetic" or kind.is_numeric()):
        return "category"
    if kind.is_numeric() and (purpose == "synthetic" or not order):
        return "few" if data.is_category(name) and purpose != "utility" else "number"
    if kind.is_temporal():
        return "few" if data.is_category(name) and purpose != "utility" else "time"
    return "rank" if order and purpose == "synthetic" and _stands_in(data, name, order) else "category"


def on_a_line(tables: Sequence[Dataset], name: str, purpose: Purpose) -> list[Floats] | None:
    """Give a column as places on one line, missing as NaN; None where some have categories, or others."""
    readings = {reading_of(table, name, purpose) for table in tables}
    if "category" in readings or readings == {"few"}:
        return None
    if readings == {"rank"}:
        return _ranks([table.codes(name) for table in tables], order_of(tables[0], name))
    if readings == {"time"}:
        return _times([table.frame[name] for table in tables])
    if "time" in readings or "rank" in readings:
        return None
    return [table.number(name) for table in tables] if purpose in ("model", "utility") else exact_numbers(tables, name)


def order_of(data: Dataset, name: str) -> tuple[str, ...]:
    """Give the labels of a column from low to high: as declared, or those of an Enum."""
    import polars as pl

    kind = data.frame.schema[name]
    return data.schema[name].order or (tuple(kind.categories) if isinstance(kind, pl.Enum) else ())


def _stands_in(data: Dataset, name: str, order: Sequence[str]) -> bool:
    """Tell whether each value has its place in an order; generalized ones have not."""
    return {canonical(value) for value in data.codes(name).values if value is not None} <= set(order)


def _ranks(columns: Sequence[ColumnCodes], order: Sequence[str]) -> list[Floats] | None:
    index = {label: float(place) for place, label in enumerate(order)}
    found = [[np.nan if v is None else index.get(canonical(v), -1.0) for v in column.values] for column in columns]
    if any(-1.0 in places for places in found):
        return None
    return [np.array(places or [np.nan])[column.codes] for places, column in zip(found, columns, strict=True)]


def _times(columns: Sequence[pl.Series]) -> list[Floats] | None:
    """Give times in one unit; None where there is none that dates, times of day and durations share."""
    import polars as pl

    columns = [cast("pl.Series", _as_dates(column)) if column.dtype == pl.String else column for column in columns]
    if any(column.dtype != columns[0].dtype for column in columns):
        dates, spans = (
            all(isinstance(column.dtype, family) for column in columns)
            for family in ((pl.Date, pl.Datetime), pl.Duration)
        )
        if not (dates or spans):
            return None
        columns = [column.cast(pl.Datetime("us") if dates else pl.Duration("us")) for column in columns]
    return [column.to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy() for column in columns]


def _as_dates(series: pl.Series) -> pl.Series | None:
    """Read text as dates; None where some of it is none."""
    import polars as pl

    if series.dtype != pl.String:
        return None
    dates = series.str.to_date("%Y-%m-%d", strict=False)
    return None if dates.null_count() > series.null_count() else dates


def exact_numbers(tables: Sequence[Dataset], name: str) -> list[Floats]:
    """Give numbers as floats; whole ones beyond 2^53 as differences from the smallest of them all.

    Differences between numbers stay the same, and two numbers that differ stay different as long as they lie less than
    2^53 apart.
    """
    import polars as pl

    columns = [table.frame[name] for table in tables]
    ends: list[Any] = [end for column in columns for end in (column.min(), column.max()) if end is not None]
    whole = all(column.dtype.is_integer() for column in columns)
    if not whole or not ends or max(abs(int(end)) for end in ends) <= _EXACT:
        return [table.number(name) for table in tables]
    low = pl.lit(min(int(end) for end in ends), dtype=pl.Int128)
    return [pl.select(column.cast(pl.Int128) - low).to_series().cast(pl.Float64).to_numpy() for column in columns]


def code_together(tables: Sequence[Dataset], name: str, *, by_text: bool = True) -> tuple[list[Ints], tuple[str, ...]]:
    """Give the categories of several data sets the same codes, in the order of their text or as they occur.

    −1 is missing.
    """
    columns = [table.codes(name) for table in tables]
    texts = [_texts(table, name) for table in tables]
    values = list(dict.fromkeys(text for each in texts for text in each if text is not None))
    values = sorted(values) if by_text else values
    index: dict[str | None, int] = {text: code for code, text in enumerate(values)}
    codes = [np.array([index.get(text, -1) for text in each] or [-1], np.int64) for each in texts]
    return [lookup[column.codes] for lookup, column in zip(codes, columns, strict=True)], tuple(values)


def text_of(value: object) -> str:
    """Write a value so that equal ones, and no others, are written alike everywhere (sets as `set_keys` does)."""
    if isinstance(value, list):
        return "".join(sorted({f"{len(item.encode())}:{item}" for item in map(canonical, value)}))
    return canonical(value)


def _texts(data: Dataset, name: str) -> list[str | None]:
    """Write the value of each code of a column, None for missing; kept with the data."""

    def make() -> list[str | None]:
        return [None if value is None else text_of(value) for value in data.codes(name).values]

    return data.cached(("texts", name), make)


def sd_of(x: Floats) -> float:
    """Give the standard deviation (N−1) of the values present; 1 where they do not vary."""
    present = x[~np.isnan(x)]
    sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    return sd if sd > 0 else 1.0


@dataclass(frozen=True)
class ComparedColumn:
    """A column of an intruder's and of a release: places on a line, or categories with those that agree with each."""

    name: str
    known: Floats
    published: Floats
    alike: Ints | None = None
    """for categories: for each code the codes of the release that agree with it (−1: none)"""
    values: tuple[str, ...] = ()
    """what the codes stand for"""
    ranged: bool = False
    """the release shows intervals, sets or masks that stand in no hierarchy"""

    @property
    def is_incomparable(self) -> bool:
        """Tell whether no category of the release agrees with any that the intruder has: the column tells nothing."""
        if self.alike is None or np.isnan(self.published).all():
            return False
        known = np.unique(self.known[~np.isnan(self.known)]).astype(np.int64)
        return bool(len(known)) and not bool((self.alike[known] >= 0).any())

    @property
    def has_gaps(self) -> bool:
        """Tell whether a value is missing on either side."""
        return bool(np.isnan(self.known).any() or np.isnan(self.published).any())


def compare_column(known: Dataset, released: Dataset, name: str, original: Dataset | None = None) -> ComparedColumn:
    """Compare what an intruder knows with a release: as places on a line where both have them, or as categories.

    With the `original` for a distance: what its rows tell about codes of the release is used, and numbers on one side
    with unrelated text on the other are refused.
    """
    purpose: Purpose = "agreement" if original is None else "distance"
    lines = on_a_line([known, released], name, purpose)
    if lines is not None:
        return ComparedColumn(name, lines[0], lines[1])
    levels = _hierarchy_of(released if original is None else original, name, strict=original is not None)
    ranged = _has_ranges(released, name)
    book: Mapping[str, Sequence[str]] = {}
    if original is not None:
        on_line = [reading_of(data, name, purpose) != "category" for data in (known, released)]
        book = {} if on_line[1] else _codebook(original, known, released, name)
        related = book or levels or ranged or _is_text_of(known, released, name)
        if on_line[0] != on_line[1] and not related:
            text, ordered = ("the data", "the release") if on_line[1] else ("the release", "the intruder's data")
            raise DataError(
                f"column {name!r} is text in {text} and ordered in {ordered}, and no hierarchy relates the two; "
                "give the column a hierarchy, or leave it out of `columns`"
            )
    (theirs, mine), texts = code_together([released, known], name, by_text=original is None)
    return _compare_categories(name, mine, theirs, texts, levels, book, ranged)


def comparable(original: Dataset, released: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the columns that a distance can compare: ordered in both, or categories that have something in common."""
    found = []
    for name in columns:
        try:
            incomparable = compare_column(original, released, name, original).is_incomparable
        except DataError:
            continue
        if not incomparable:
            found.append(name)
    return tuple(found)


def _hierarchy_of(data: Dataset, name: str, *, strict: bool) -> HierarchyLevels | None:
    """Give the hierarchy of a column; `strict`: one that does not have all the values is an error, not none."""
    root = data.origin
    if name not in root.columns or root.schema[name].hierarchy is None:
        return None
    try:
        return data.hierarchy(name)
    except DataError:
        if strict:
            raise
        return None


def _has_ranges(released: Dataset, name: str) -> bool:
    """Tell whether a release shows intervals, sets or masked values."""
    import polars as pl

    if released.frame.schema[name] not in (pl.String, pl.Categorical, pl.Enum):
        return False
    return any(text is not None and is_range(text) for text in _texts(released, name))


def _is_text_of(known: Dataset, released: Dataset, name: str) -> bool:
    """Tell whether a release shows the intruder's values, and no others, as text: groups of one value each."""
    mine, shown = (set(_texts(data, name)) - {None} for data in (known, released))
    return bool(shown) and shown <= mine


def _compare_categories(
    name: str,
    mine: Ints,
    theirs: Ints,
    texts: tuple[str, ...],
    levels: HierarchyLevels | None,
    book: Mapping[str, Sequence[str]],
    ranged: bool,
) -> ComparedColumn:
    """Find the categories that agree; a generalized one agrees with everything below or inside it.

    `book`: the published categories that stand for a value by a codebook.
    """
    index = {text: code for code, text in enumerate(texts)}
    alike = np.arange(len(texts)).reshape(-1, 1)
    if levels is not None:
        alike = np.column_stack([alike, np.full((len(texts), levels.height), -1)])
        for code, text in enumerate(texts):
            row = levels.leaf_index.get(text)
            if row is not None:
                alike[code, 1:] = [index.get(level[row], -1) for level in levels.table[1:]]
    shown = np.zeros(len(texts) + 1, np.bool_)
    shown[theirs[theirs >= 0]] = True
    alike = np.where(shown[alike], alike, -1)
    if book:
        coded = [[index[label] for label in book.get(text, ()) if label in index] for text in texts]
        width = max(map(len, coded))
        alike = np.column_stack([alike, [[*codes, *[-1] * (width - len(codes))] for codes in coded]])
    if ranged:
        own = set(mine.tolist())
        ranges = [code for code, text in enumerate(texts) if shown[code] and code not in own and is_range(text)]
        alike = np.column_stack([alike, _inside(texts, ranges, name)])
        inside = set() if levels is None else {label for level in levels.table for label in level}
        ranged = any(texts[code] not in inside for code in ranges)
    one, other = (np.where(codes < 0, np.nan, codes.astype(np.float64)) for codes in (mine, theirs))
    return ComparedColumn(name, one, other, _once(alike), texts, ranged)


def _codebook(original: Dataset, known: Dataset, released: Dataset, name: str) -> dict[str, Sequence[str]]:
    """Read off which published label stands for each of the intruder's values; empty where no rule is to be seen.

    Recoded numbers, coded extremes and grouped categories have names that need not tell what they hold, but a codebook
    tells it. It is read off the rows that belong together: each label holds an interval of the original's numbers, or
    each category has one label, and labels stand for several values. A number between two intervals agrees with both.
    """
    if name not in original.columns:
        return {}
    source = source_of(original, released)
    if source is None:
        return {}
    before, after = source.codes(name), released.codes(name)
    there = (before.codes != before.missing) & (after.codes != after.missing)
    first, second = before.codes[there].astype(np.int64), after.codes[there].astype(np.int64)
    values, labels = (int(np.count_nonzero(np.bincount(codes, minlength=1))) for codes in (first, second))
    if 2 * labels > values + 1:
        return {}
    pairs = np.column_stack(np.divmod(np.unique(first * after.size + second), after.size))
    if len(pairs) > values:
        return {}
    mine = known.codes(name)
    codes, rows = np.unique(mine.codes[mine.codes != mine.missing], return_index=True)
    own, shown = _texts(known, name), _texts(released, name)
    texts = [str(own[code]) for code in codes]
    places = on_a_line([source, known], name, "distance")
    if places is None:
        was = _texts(source, name)
        told = {str(was[value]): (str(shown[label]),) for value, label in pairs.tolist()}
        return {text: told[text] for text in texts if text in told} if there.sum() >= 2 * values else {}
    held = _intervals(places[0][there], after.codes[there], places[1][mine.codes != mine.missing][rows])
    return {text: [str(shown[label]) for label in found] for text, found in zip(texts, held, strict=False)}


def _intervals(places: Floats, labels: Ints, wanted: Floats) -> list[list[int]]:
    """Give for each place the labels it may have; none where the labels do not hold intervals apart from each other."""
    order = np.lexsort((labels, places))
    starts = np.flatnonzero(np.append(True, labels[order][1:] != labels[order][:-1]))
    names = labels[order][starts]
    if len(np.unique(names)) < len(names):
        return []
    low, high = places[order][starts], places[order][np.append(starts[1:], len(order)) - 1]
    at = np.maximum(np.searchsorted(low, wanted, "right") - 1, 0)
    between = (wanted > high[at]) & (at + 1 < len(names))
    return [[int(names[i]), *([int(names[i + 1])] if gap else [])] for i, gap in zip(at, between, strict=True)]


def _once(alike: Ints) -> Ints:
    """Name each published category once for a value (a label may stand at several levels): shares are added up."""
    alike = np.sort(alike, axis=1)[:, ::-1]
    again = alike[:, 1:] == alike[:, :-1]
    alike[:, 1:][again] = -1
    return np.ascontiguousarray(alike)


def _inside(texts: Sequence[str], ranges: list[int], name: str) -> Ints:
    """Give for each value the published ranges that hold it, by their codes (−1 to fill up)."""
    holding = ranges_holding(texts, [texts[code] for code in ranges], name)
    found = np.full((len(texts), int(holding.sum(axis=1).max(initial=0))), -1, dtype=np.int64)
    rows, places = np.nonzero(holding)
    first = np.concatenate([[0], np.cumsum(holding.sum(axis=1))])[rows]
    found[rows, np.arange(len(rows)) - first] = np.array(ranges, dtype=np.int64)[places]
    return found


# Which published ranges hold a value: intervals of numbers or dates, sets of categories, masks.
#
# Groups are published as ranges that need stand in no hierarchy: [48, 58], [0.5, 2), < 20, >= 65, {nurse, doctor},
# 4083*. An intruder who knows an age of 50 sees that it lies in the first. A star stands for any character, stars
# alone for any value.

_SET = re.compile(r"\{(.+)\}", re.DOTALL)

MOST_PAIRS = 50_000_000
"""Pairs of a known value and a published range that are looked at."""


def is_range(label: str) -> bool:
    """Tell whether a label is a set, an interval of numbers or dates, or a mask."""
    return "*" in label or _SET.fullmatch(label) is not None or interval_bounds(label) is not None


def ranges_holding(values: Sequence[str], labels: Sequence[str], column: str) -> NDArray[np.bool_]:
    """Tell for each value and each label whether the label is a range that holds the value."""
    if len(values) * len(labels) > MOST_PAIRS:
        raise DataError(
            f"column {column!r}: {len(values):,} known values against {len(labels):,} published ranges are too many to "
            "compare; leave the column out of `columns`, or generalize by a hierarchy"
        )
    found = np.zeros((len(values), len(labels)), np.bool_)
    places = {read: np.array([end_or_nan(read, value) for value in values]) for read in ENDS}
    index = {value: row for row, value in enumerate(values)}
    for at, label in enumerate(labels):
        if (bounds := interval_bounds(label)) is not None:
            read, low, high, closed = bounds
            x = places[read]
            found[:, at] = (x >= low if closed[0] else x > low) & (x <= high if closed[1] else x < high)
        elif (members := _SET.fullmatch(label)) is not None:
            rows = [index[member] for member in members[1].split(", ") if member in index]
            found[rows, at] = True
        elif "*" in label:
            mask = re.compile(".".join(map(re.escape, label.split("*"))) if label.strip("*") else ".*", re.DOTALL)
            found[:, at] = [mask.fullmatch(value) is not None for value in values]
    return found


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


def read_column(data: Dataset, column: str) -> Values:
    """Read a column for a model: numbers and dates as numbers, what is or names a category as labels."""
    numbers = on_a_line([data], column, "model")
    return labels_of(data, column) if numbers is None else Numbers(numbers[0])


def numbers_of_both(
    original: Dataset, released: Dataset, column: str, purpose: Purpose = "model"
) -> tuple[Numbers, Numbers] | None:
    """Read a column as numbers of one unit in both data sets; None where it is not a number, or not alike, in both."""
    found = on_a_line([original, released], column, purpose)
    return None if found is None else (Numbers(found[0]), Numbers(found[1]))


def labels_of(data: Dataset, column: str) -> Labels:
    """Read a column of categories; names in their declared order, otherwise sorted, so that rows do not matter."""
    if data.frame.schema[column].is_nested():
        raise DataError(f"column {column!r} holds sets; a model needs single values, leave it out of the features")
    (codes,), found = code_together([data], column)
    order = order_of(data, column)
    if not order or not set(found) <= set(order):
        return Labels(codes, found)
    names = tuple(name for name in order if name in set(found))
    place = np.array([*(names.index(name) for name in found), -1], np.int64)
    return Labels(place[codes], names, ordered=True)


def outside_view(
    original: Dataset,
    released: Dataset,
    column: str,
    *,
    aligned: bool,
    categories: bool = False,
    purpose: Purpose = "model",
) -> tuple[Values, Values]:
    """Give a column as it is known outside, at the detail of the release, and as it is published.

    Numbers and categories of the same domain are known as they are. A column that was generalized is generalized for
    the one outside too, by its hierarchy; one that was recoded without a hierarchy is known by the label of the
    person's own record, which needs `aligned` rows. `categories`: also numbers are read as names; for `utility`
    few-valued whole numbers are read as numbers.
    """
    if not categories and (numbers := numbers_of_both(original, released, column, purpose)) is not None:
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


def _hierarchy_for(released: Dataset, column: str, leaves: Sequence[str]) -> HierarchyLevels:
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
