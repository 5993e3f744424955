"""One column of the intruder's and of the release, as places on a line or as categories with those that agree."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.large_integers import as_differences
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.risk.identity.intruder import View
from discretion.risk.identity.truthful import source_of

if TYPE_CHECKING:
    import polars as pl

# Which published ranges hold a value: intervals of numbers or dates, sets of categories, masks.
#
# Groups are published as ranges that need stand in no hierarchy: [48, 58], [0.5, 2), < 20, >= 65, {nurse, doctor},
# 4083*. An intruder who knows an age of 50 sees that it lies in the first. A star stands for any character, stars
# alone for any value.

_INTERVAL = re.compile(r"([\[(])\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*([\])])")
_OPEN = re.compile(r"([<>])(=?)\s*([^<>=]+?)\s*")
_SET = re.compile(r"\{(.+)\}", re.DOTALL)

Reading = Callable[[str], float]

MOST_PAIRS = 50_000_000
"""Pairs of a known value and a published range that are looked at."""


def is_range(label: str) -> bool:
    """Tell whether a label is a set, an interval of numbers or dates, or a mask."""
    return "*" in label or _SET.fullmatch(label) is not None or _bounds(label) is not None


def ranges_holding(values: Sequence[str], labels: Sequence[str], column: str) -> NDArray[np.bool_]:
    """Tell for each value and each label whether the label is a range that holds the value."""
    if len(values) * len(labels) > MOST_PAIRS:
        raise DataError(
            f"column {column!r}: {len(values):,} known values against {len(labels):,} published ranges are too many to "
            "compare; leave the column out of `columns`, or generalize by a hierarchy"
        )
    found = np.zeros((len(values), len(labels)), np.bool_)
    readings: tuple[Reading, ...] = (float, _day)
    places = {read: np.array([_or_nan(read, value) for value in values]) for read in readings}
    index = {value: row for row, value in enumerate(values)}
    for at, label in enumerate(labels):
        if (bounds := _bounds(label)) is not None:
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


def _day(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None).timestamp()


def _or_nan(read: Reading, text: str) -> float:
    try:
        return read(text)
    except (ValueError, OverflowError):
        return float("nan")


def _bounds(label: str) -> tuple[Reading, float, float, tuple[bool, bool]] | None:
    """Read an interval: how its ends are read, the ends, and whether they belong to it."""
    readings: tuple[Reading, ...] = (float, _day)
    if (side := _OPEN.fullmatch(label)) is not None:
        ends = ((read, _or_nan(read, side[3])) for read in readings)
        read, end = next((one for one in ends if math.isfinite(one[1])), (float, math.nan))
        within = (bool(side[2]), bool(side[2]))
        if math.isnan(end):
            return None
        return (read, -math.inf, end, within) if side[1] == "<" else (read, end, math.inf, within)
    match = _INTERVAL.fullmatch(label)
    if match is None:
        return None
    for read in readings:
        low, high = _or_nan(read, match[2]), _or_nan(read, match[3])
        if low <= high:
            return read, low, high, (match[1] == "[", match[4] == "]")
    return None


@dataclass(frozen=True)
class Compared:
    """One column on both sides: places on a line, or categories with those of the release that agree with each."""

    name: str
    known: Floats
    published: Floats
    alike: Ints | None = None
    """for categories: for each code of the intruder's the codes of the release that agree (−1: none)"""

    @property
    def is_mute(self) -> bool:
        """Tell whether no category of the release agrees with any that the intruder has: the column tells nothing."""
        if self.alike is None or np.isnan(self.published).all():
            return False
        known = np.unique(self.known[~np.isnan(self.known)]).astype(np.int64)
        return bool(len(known)) and not bool((self.alike[known] >= 0).any())

    @property
    def has_gaps(self) -> bool:
        """Tell whether a value is missing on either side."""
        return bool(np.isnan(self.known).any() or np.isnan(self.published).any())


def compare_column(view: View, name: str) -> Compared:
    """Give a column of both sides as places on a line where both have an order, otherwise as categories."""
    known, published = places_of(view.known, name), places_of(view.released, name)
    if known is not None and published is not None:
        exact = as_differences([view.known.frame[name], view.released.frame[name]])
        if exact is not None and not _has_order(view, name):
            known, published = exact
        return Compared(name, known, published)
    book = _codebook(view, name) if published is None else {}
    related = bool(book) or _has_hierarchy(view, name) or _has_ranges(view.released, name)
    if (known is None) != (published is None) and not related:
        texts, numbers = ("the release", "the intruder's data") if published is None else ("the data", "the release")
        raise DataError(
            f"column {name!r} is text in {texts} and ordered in {numbers}, and no hierarchy relates the two; "
            "give the column a hierarchy, or leave it out of `columns`"
        )
    return _categories(view, name, book)


def comparable(original: Dataset, released: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the columns that a distance can compare: ordered in both, or categories that have something in common."""
    view = View(original, original, released, np.empty(0, np.int64), tuple(columns), worst_case=True)
    found = []
    for name in columns:
        try:
            mute = compare_column(view, name).is_mute
        except DataError:
            continue
        if not mute:
            found.append(name)
    return tuple(found)


def unused(columns: Sequence[str]) -> str:
    """Say which columns a linkage could not compare; a coded column is safe only from those who lack the codes."""
    if not columns:
        return ""
    them = "them" if len(columns) > 1 else "it"
    return (
        f" Not compared: {', '.join(columns)}, whose published values have nothing in common with the original's; "
        f"give a hierarchy that relates {them}, or the figure understates the risk."
    )


def places_of(data: Dataset, name: str) -> Floats | None:
    """Give the places of an ordered column (numbers, dates, positions in the order); None for categories."""
    import polars as pl

    series, kind = data.frame[name], data.type_of(name)
    order = data.schema[name].order or (tuple(series.dtype.categories) if isinstance(series.dtype, pl.Enum) else ())
    if order:
        return _positions(data, name, tuple(order))
    if kind == "nominal":
        return None
    if series.dtype.is_numeric():
        return data.number(name)
    return _days(series) if kind == "date" else None


def _positions(data: Dataset, name: str, order: tuple[str, ...]) -> Floats | None:
    """Give positions in an order; None where some labels do not stand in it (generalized)."""
    codes = data.codes(name)
    index = {label: float(place) for place, label in enumerate(order)}
    found = [np.nan if value is None else index.get(canonical(value), -1.0) for value in codes.values]
    if -1.0 in found:
        return None
    return np.array(found)[codes.codes] if codes.size else np.empty(0)


def _days(series: pl.Series) -> Floats | None:
    import polars as pl

    if series.dtype == pl.String:
        dates = series.str.to_date("%Y-%m-%d", strict=False)
        if dates.null_count() > series.null_count():
            return None
        series = dates
    if isinstance(series.dtype, pl.Datetime):
        series = series.cast(pl.Datetime("us", series.dtype.time_zone))
    return series.to_physical().cast(pl.Float64).to_numpy()


def _has_hierarchy(view: View, name: str) -> bool:
    return name in view.original.columns and view.original.schema[name].hierarchy is not None


def _has_order(view: View, name: str) -> bool:
    return bool(view.known.schema[name].order or view.released.schema[name].order)


def _has_ranges(released: Dataset, name: str) -> bool:
    """Tell whether a release shows intervals, sets or masked values."""
    import polars as pl

    if released.frame.schema[name] not in (pl.String, pl.Categorical, pl.Enum):
        return False
    return any(value is not None and is_range(_text(value)) for value in released.codes(name).values)


def _categories(view: View, name: str, book: Mapping[str, Sequence[str]]) -> Compared:
    """Number the categories of both sides together; a generalized one agrees with everything below or inside it.

    `book`: the published categories that stand for a value by a codebook.
    """
    index: dict[str, int] = {}
    published = _codes(view.released, name, index)
    size = len(index)
    known = _codes(view.known, name, index)
    texts = list(index)
    alike = np.arange(len(texts)).reshape(-1, 1)
    if _has_hierarchy(view, name):
        levels = view.original.hierarchy(name)
        alike = np.column_stack([alike, np.full((len(texts), levels.height), -1)])
        for code, text in enumerate(texts):
            row = levels.leaf_index.get(text)
            if row is not None:
                alike[code, 1:] = [index.get(level[row], -1) for level in levels.table[1:]]
    alike = np.where(alike < size, alike, -1)
    if book:
        coded = [[index[label] for label in book.get(text, ()) if label in index] for text in texts]
        width = max(map(len, coded))
        alike = np.column_stack([alike, [[*codes, *[-1] * (width - len(codes))] for codes in coded]])
    if _has_ranges(view.released, name):
        own = set(np.unique(known[~np.isnan(known)]).astype(np.int64).tolist())
        ranges = [code for code, text in enumerate(texts[:size]) if code not in own and is_range(text)]
        alike = np.column_stack([alike, _inside(texts, ranges, name)])
    return Compared(name, known, published, _once(alike))


def _codebook(view: View, name: str) -> dict[str, Sequence[str]]:
    """Read off which published label stands for each of the intruder's values; empty where no rule is to be seen.

    Recoded numbers, coded extremes and grouped categories have names that need not tell what they hold, but a codebook
    tells it. It is read off the rows that belong together: each label holds an interval of the original's numbers, or
    each category has one label, and labels stand for several values. A number between two intervals agrees with both.
    """
    if name not in view.original.columns:
        return {}
    source = source_of(view.original, view.released)
    if source is None:
        return {}
    before, after = source.codes(name), view.released.codes(name)
    there = (before.codes != before.missing) & (after.codes != after.missing)
    first, second = before.codes[there].astype(np.int64), after.codes[there].astype(np.int64)
    values, labels = (int(np.count_nonzero(np.bincount(codes, minlength=1))) for codes in (first, second))
    if 2 * labels > values + 1:
        return {}
    pairs = np.column_stack(np.divmod(np.unique(first * after.size + second), after.size))
    if len(pairs) > values:
        return {}
    mine = view.known.codes(name)
    codes, rows = np.unique(mine.codes[mine.codes != mine.missing], return_index=True)
    texts = [_text(mine.values[code]) for code in codes]
    places, own = places_of(source, name), places_of(view.known, name)
    if places is None or own is None:
        told = {_text(before.values[value]): (_text(after.values[label]),) for value, label in pairs.tolist()}
        return {text: told[text] for text in texts if text in told} if there.sum() >= 2 * values else {}
    held = _intervals(places[there], after.codes[there], own[mine.codes != mine.missing][rows])
    return {text: [_text(after.values[label]) for label in found] for text, found in zip(texts, held, strict=False)}


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


def _inside(texts: list[str], ranges: list[int], name: str) -> Ints:
    """Give for each value the published ranges that hold it, by their codes (−1 to fill up)."""
    holding = ranges_holding(texts, [texts[code] for code in ranges], name)
    found = np.full((len(texts), int(holding.sum(axis=1).max(initial=0))), -1, dtype=np.int64)
    rows, places = np.nonzero(holding)
    first = np.concatenate([[0], np.cumsum(holding.sum(axis=1))])[rows]
    found[rows, np.arange(len(rows)) - first] = np.array(ranges, dtype=np.int64)[places]
    return found


def _codes(data: Dataset, name: str, index: dict[str, int]) -> Floats:
    codes = data.codes(name)
    found = [np.nan if value is None else float(index.setdefault(_text(value), len(index))) for value in codes.values]
    return np.array(found)[codes.codes] if codes.size else np.empty(0)


def _text(value: Any) -> str:
    return "|".join(sorted(map(canonical, value))) if isinstance(value, list) else canonical(value)
