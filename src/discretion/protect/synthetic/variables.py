"""Columns as a generator sees them, numbers or codes of levels and back; the distribution of a column of numbers."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

# The distribution of one column of numbers: point masses, and values that are never anybody's own.

SHARED = 10
"""Fewest people whose common value may be drawn as it is."""
_SPIKE = 0.05
_FEW = 20
"""A column with at most so many different values has no spikes: those that many share are drawn as they are anyway."""
_TIMES, _OFTEN = 5.0, 50.0
"""Where nobody says who the people are, rows of one person look like people: a value of many rows then counts as shared
if it has so many times the rows that values have in the middle, or so many rows."""
_BESIDE = 3.0
"""People at both sides of a drawn place between whose values a number is drawn."""
_DENSE = 4.0
_TOGETHER = 10
"""Neighboring values of which a common divisor is taken: those of few people spoil it for their neighbors only."""
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class NumberMargin:
    """A sorted column without its spikes: its different values, the people behind each, the step between values.

    A person with several values counts as a part in each. Only a value that is `shared` can be drawn as it is; between
    two others numbers are interpolated, however many rows of one person or household repeat them.
    """

    grid: Floats
    people: Floats
    shared: Bools
    spikes: Floats
    step: float
    """what all values are multiples of; 0 where there is no such step"""
    stretch: float = 1.0
    """rows that look like one person, where nobody says who the people are"""

    @classmethod
    def of(cls, values: Floats, units: Ints | None = None) -> NumberMargin:
        """Learn the distribution from the values present, and whom they belong to (without it, each to somebody)."""
        grid, place, rows = np.unique(values, return_inverse=True, return_counts=True)
        heads, people = _people(place, len(grid), units)
        often = (rows > _SPIKE * len(values)) & (heads >= SHARED) if len(grid) > _FEW else np.zeros(len(grid), np.bool_)
        if len(grid) == 1:
            often[:] = True  # one value for everybody: there is nothing between it and another
        step, rest = _step(grid, heads), ~often
        stretch, least = 1.0, float(SHARED)
        if units is None and rest.any() and not _dense(grid[rest], step):
            least = max(least, min(_TIMES * float(np.median(heads[rest])), _OFTEN, _SPIKE * len(values)))
            alone = heads[rest & (heads < least)]
            stretch = float(np.median(alone)) if len(alone) else 1.0
        return cls(grid[rest], people[rest], heads[rest] >= least, grid[often], step, stretch)

    @cached_property
    def total(self) -> float:
        """The number of people."""
        return float(np.cumsum(self.people)[-1])

    @cached_property
    def middles(self) -> Floats:
        """For each value the middle place of the people who have it."""
        return np.cumsum(self.people) - self.people / 2

    @cached_property
    def _line(self) -> tuple[Floats, Floats]:
        """The line through the values at their middle places; level where a value is shared, and with a step between
        two such values."""
        if not self.shared.any():
            return self.middles, self.grid
        full = self.people / 2
        half = np.where(self.shared, np.maximum(full - 0.5, 0.0), 0.0)
        step = self.shared[1:] & self.shared[:-1]
        left, right = (np.where(self.shared & np.append(*ends), full, half) for ends in ((False, step), (step, False)))
        at = np.column_stack([self.middles - left, self.middles + right]).ravel()
        kept = np.column_stack([np.ones(len(self.grid), np.bool_), self.shared]).ravel()
        return at[kept], np.repeat(self.grid, 2)[kept]

    @cached_property
    def _levels_before(self) -> NDArray[np.int32]:
        """For each place between the points of the line the number of points before it that end a level piece."""
        level = np.diff(self._line[1]) == 0
        return np.cumsum(np.concatenate([[False], np.append(level, False) | np.append(False, level)]), dtype=np.int32)

    def places(self, values: Floats) -> Ints:
        """Find the place of each value among the different ones."""
        order = np.argsort(values)  # in their order, the search runs through memory instead of leaping about in it
        places = np.empty(len(values), np.int64)
        places[order] = np.searchsorted(self.grid, values[order])
        return places

    def spike_of(self, values: Floats) -> Ints:
        """Give the number of the spike each value is, −1 where it is none."""
        if not len(self.spikes):
            return np.full(len(values), -1)
        place = np.minimum(np.searchsorted(self.spikes, values), len(self.spikes) - 1)
        return np.where(self.spikes[place] == values, place, -1)

    def ends_of(self, width: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """For both ends: the value of the person at place `width`, and the median of the people from there to the end.

        Not their mean: from the largest drawn value and the tenth it would give the amount of one who has far more than
        all others.
        """
        some = min(width * self.stretch, self.total / 2)
        few = slice(0, int(np.searchsorted(self.middles, some)) + 1)
        many = slice(max(int(np.searchsorted(self.middles, self.total - some, "right")) - 1, 0), None)
        people, ends = self.people[few], self.middles[many] + self.people[many] / 2
        low = np.clip(some - (self.middles[few] - people / 2), 0, people)
        high = np.clip(ends - (self.total - some), 0, self.people[many])
        first, last = np.flatnonzero(low)[-1], np.flatnonzero(high)[0]
        return (
            (float(self.grid[few][first]), _median(self.grid[few], low)),
            (float(self.grid[many][last]), _median(self.grid[many], high)),
        )

    def smooth(self, places: Ints, width: float, rng: np.random.Generator, keep_extremes: bool = False) -> Floats:
        """Move each value by up to `width` people in the sorted column, and interpolate between different values.

        Moments are nearly kept, whole numbers stay whole, and the sparse ends of the column are blurred most: what lies
        beyond the median of the `width` people at an end is drawn evenly from there to the first of them instead,
        unless extremes are kept.
        """
        at, _ = self._line
        if not len(at) or at[0] == at[-1]:
            return self.grid[places]
        people = self.people[places]
        whole = min(width * self.stretch, self.total / 2)
        beside = min(_BESIDE * self.stretch, whole / 2)
        among = (rng.random(len(places)) - 0.5) * np.maximum(people - 1, 0)
        rank = self.middles[places] + among + rng.uniform(-1, 1, len(places)) * (whole - beside)
        long = at[-1] - at[0]
        rank = at[0] + long - np.abs(np.mod(rank - at[0], 2 * long) - long)  # what runs over an end comes back
        drawn = self._between(rank, beside, rng)
        if not keep_extremes:
            (low, least), (high, most) = self.ends_of(width)
            even = rng.random(len(drawn))
            drawn = np.where(drawn < least, low + even * (least - low), drawn)
            drawn = np.where(drawn > most, high + even * (most - high), drawn)
        return self.rounded(drawn)

    def _between(self, rank: Floats, beside: float, rng: np.random.Generator) -> Floats:
        """Interpolate; where no shared value is near, anywhere between the values `beside` people before and after.

        Between neighbors alone, two people who have nearly the same would be drawn, rounded, with their own values: as
        many places fall into their small gap as into a wide one.
        """
        at, values = self._line
        order = np.argsort(rank)
        rank = rank[order]
        below, above = (np.clip(rank + side * beside, at[0], at[-1]) for side in (-1, 1))
        marks = self._levels_before
        near = marks[np.searchsorted(at, above, "right")] > marks[np.searchsorted(at, below, "left")]
        low, high = np.interp(below, at, values), np.interp(above, at, values)
        drawn = np.empty(len(rank))
        drawn[order] = np.where(near, np.interp(rank, at, values), low + rng.random(len(rank))[order] * (high - low))
        return drawn

    def rounded(self, values: Floats) -> Floats:
        """Round to the step of the column."""
        if not self.step:
            return values
        # multiples of 0.01 are computed as k / 100, which is the float that stands in the data
        per_one = round(1 / self.step) if self.step < 1 else 0
        return np.round(values * per_one) / per_one if per_one else np.round(values / self.step) * self.step

    def to_plain(self) -> dict[str, Any]:
        """Give the distribution as plain data."""
        arrays = {name: pack(getattr(self, name)) for name in ("grid", "people")}
        shared = pack(self.shared.astype(np.int64))
        return {**arrays, "shared": shared, "spikes": self.spikes.tolist(), "step": self.step, "stretch": self.stretch}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> NumberMargin:
        """Read a distribution that was saved."""
        spikes = np.asarray(known["spikes"], np.float64)
        shared = unpack(known["shared"]) > 0
        grid, people = unpack(known["grid"]), unpack(known["people"])
        return cls(grid, people, shared, spikes, float(known["step"]), float(known["stretch"]))


def without_few(variable: Variable) -> Variable:
    """Take the numbers out that few people share, where altogether fewer than `SHARED` people have such numbers.

    Nothing could be drawn between them. They become the nearest value that many people have, or missing where there is
    none; columns of which most possible values occur (ages) stay.
    """
    values = variable.values
    there = np.flatnonzero(~np.isnan(values))
    if variable.size or not len(there) or (len(there) == len(values) and (values == values[0]).all()):
        return variable
    units = variable.units
    margin = NumberMargin.of(values[there], None if units is None else units[there])

    def people(rows: Ints) -> int:
        return len(rows) if units is None else len(np.unique(units[rows]))

    if len(margin.grid) > _FEW and _dense(margin.grid, margin.step):
        return variable
    common = np.sort(np.concatenate([margin.spikes, margin.grid[margin.shared]]))
    if not len(margin.grid) and len(common) == 1 and people(there) < SHARED:
        common = common[:0]
    free = there[~np.isin(values[there], common)]
    if not len(free) or people(free) >= SHARED:
        return variable
    new = values.copy()
    new[free] = common[np.abs(values[free][:, None] - common).argmin(axis=1)] if len(common) else np.nan
    return replace(variable, values=new)


def not_drawn(data: Dataset, variables: Sequence[Variable]) -> list[str]:
    """Name the columns whose numbers are all or partly not drawn, being those of too few people."""
    numbers = [variable for variable in variables if not variable.size]
    return [v.column for v in numbers if not np.array_equal(v.values, as_number(data, v.column), equal_nan=True)]


def _people(place: Ints, size: int, units: Ints | None) -> tuple[Floats, Floats]:
    """Count the people who have each value, and the same with people of several values as parts that add up to one."""
    if units is None:
        rows = np.bincount(place, minlength=size).astype(np.float64)
        return rows, rows
    who = np.unique(units, return_inverse=True)[1].astype(np.int64)
    pairs = np.unique(who * size + place)
    owner, value = pairs // size, pairs % size
    parts = 1.0 / np.bincount(owner)[owner]
    heads = np.bincount(value, minlength=size).astype(np.float64)
    return heads, np.asarray(np.bincount(value, parts, size), np.float64)


def _dense(grid: Floats, step: float) -> bool:
    """Tell whether most multiples of the step occur, the ends aside: then a value says nothing about who has it."""
    inner = grid[len(grid) // 20 : len(grid) - len(grid) // 20]
    return bool(step and (inner[-1] - inner[0]) / step <= _DENSE * len(inner))


def _median(grid: Floats, people: Floats) -> float:
    """Give the value in the middle of the people."""
    return float(grid[np.searchsorted(np.cumsum(people), people.sum() / 2)])


def _step(grid: Floats, heads: Floats) -> float:
    """Find what the values are multiples of, all but those of fewer than `SHARED` people: a power of a tenth, or a
    whole number. Otherwise the cents, or the odd amount, of one person would tell that he is there."""

    def fits(multiples: Bools) -> bool:
        others = float(heads[~multiples].sum())
        return not others or (others < SHARED <= float(heads[multiples].sum()))

    for decimals in range(_MOST_DECIMALS + 1):
        scaled = grid * 10.0**decimals
        whole: Bools = np.abs(scaled - np.round(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1.0)
        if not fits(whole):
            continue
        if np.abs(scaled).max(initial=0.0) >= 2**53:
            return 0.0
        if decimals:
            return 10.0**-decimals
        numbers = np.round(scaled[whole]).astype(np.int64)
        parts = np.gcd.reduceat(numbers, np.arange(0, len(numbers), _TOGETHER))
        found = sorted({int(np.gcd.reduce(numbers)), *parts.tolist()} - {0}, reverse=True)
        # one value alone is a multiple of itself: such a step leaves the values of many people out, and is not taken
        return float(next((one for one in found if fits(whole & (np.mod(np.round(scaled), one) == 0))), 1))
    return 0.0


# Arrays inside a decision: as text, so that a model stays small and can be saved with the plan.


def pack(array: NDArray[Any]) -> str:
    """Write an array as text: its type, then its compressed bytes; whole numbers in the narrowest type that fits."""
    if array.dtype.kind in "iu" and array.size:
        kind = np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
        array = array.astype(kind, copy=False)
    kept = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return f"{kept.dtype.str}:{base64.b64encode(zlib.compress(kept.data, 1)).decode()}"


def unpack(text: str, narrowed: bool = False) -> NDArray[Any]:
    """Read an array that `pack` wrote; whole numbers come back as 64-bit integers, or as narrow as they were kept."""
    kind, _, content = text.partition(":")
    found = np.frombuffer(zlib.decompress(base64.b64decode(content)), dtype=kind)
    wide = found.dtype.kind in "iu" and not narrowed
    return found.astype(np.int64 if wide else found.dtype.newbyteorder("="), copy=wide)


MOST_LEVELS = 10_000
_ALONE_SHARE = 0.5
_FEW_LEVELS = 30
_LOOKED_AT = 1000
_MOST_ITEMS = 200
_SAME = 1.05
"""Pairs of values per level up to which a column counts as the same for all rows of a level."""
_ONE_TO_ONE = 0.9
"""Values per level from which on a column is taken for another name of the levels."""


@dataclass(frozen=True)
class Variable:
    """One column, or one item of a column of sets: numbers (NaN: missing), or codes 0 … size−1."""

    column: str
    values: Floats
    size: int = 0
    """number of levels; 0 for numbers"""
    ordered: bool = True
    """whether the codes have an order of their own"""
    item: int = -1
    """of a column of sets: the item, or −2 for whether there is a set at all"""
    units: Ints | None = None
    """the person or household each row belongs to, where the data says so"""

    def part(self, rows: Ints) -> Variable:
        """Give the variable of some rows."""
        units = None if self.units is None else self.units[rows]
        return replace(self, values=self.values[rows], units=units)

    @property
    def rows_per_unit(self) -> float:
        """Rows that a person or household has, on average."""
        return 1.0 if self.units is None else len(self.units) / max(len(np.unique(self.units)), 1)

    def level_counts(self) -> Ints:
        """For each level the number of people (or households) that have it."""
        codes = codes_of(self.values)
        if self.units is not None:
            codes = np.unique(self.units * self.size + codes) % self.size
        return np.bincount(codes, minlength=self.size)

    @property
    def key(self) -> str:
        """The name of the variable."""
        return self.column if self.item == -1 else f"{self.column}/{self.item}"

    @property
    def weight(self) -> int:
        """How late the variable is drawn: numbers early, nominal columns of many levels last."""
        return _NUMBER_WEIGHT if not self.size else self.size


_NUMBER_WEIGHT = 3


@dataclass(frozen=True)
class ColumnKind:
    """How a column is written: what a generated code stands for."""

    column: str
    kind: str
    """number, level or set"""
    labels: tuple[Any, ...] = ()
    """the levels (missing as None), or the items of the sets"""
    missing: bool = False
    """of sets: whether it is drawn first that there is a set: some are missing, or all are empty"""

    def to_plain(self) -> dict[str, Any]:
        """Give the description as plain data."""
        return {"column": self.column, "kind": self.kind, "labels": list(self.labels), "missing": self.missing}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> ColumnKind:
        """Read a description that was saved."""
        return cls(known["column"], known["kind"], tuple(known["labels"]), bool(known["missing"]))

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the column's variables."""
        if self.kind != "set":
            return (self.column,)
        first = (f"{self.column}/-2",) if self.missing else ()
        return (*first, *(f"{self.column}/{item}" for item in range(len(self.labels))))

    def series(self, drawn: Mapping[str, Floats], dtype: pl.DataType) -> pl.Series:
        """Write generated numbers as a column of the data's type."""
        import polars as pl

        if self.kind == "number":
            values = pl.Series(self.column, drawn[self.column]).fill_nan(None)
            return _as_number(values, dtype)
        if self.kind == "level":
            levels = pl.Series(self.column, [_plain_to(label, dtype) for label in self.labels], dtype=dtype)
            return levels.gather(drawn[self.column].astype(np.int64))
        return self._sets(drawn, dtype)

    def _sets(self, drawn: Mapping[str, Floats], dtype: pl.DataType) -> pl.Series:
        import polars as pl

        members = np.column_stack([drawn[key] > 0 for key in self.keys])[:, int(self.missing) :]
        rows = [[self.labels[item] for item in np.flatnonzero(row)] for row in members]
        series = pl.Series(self.column, rows, dtype=dtype)
        if not self.missing:
            return series
        return series.set(pl.Series(drawn[f"{self.column}/-2"] == 0), None)


def _as_number(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    import polars as pl

    if dtype.is_integer() or dtype.is_temporal():
        values = values.round().cast(pl.Int64)
        return values.cast(pl.Int32).cast(dtype) if dtype == pl.Date else values.cast(dtype)
    return values.cast(dtype)


def _plain_to(label: Any, dtype: pl.DataType) -> Any:
    return label if label is None or not dtype.is_float() else float(label)


def describe(data: Dataset, column: str, who: str) -> tuple[ColumnKind, tuple[Variable, ...]]:
    """Read a column for learning: what its values stand for, and its variables."""
    import polars as pl

    dtype = data.frame.schema[column]
    if not isinstance(data.levels.get(column, 0), int):
        raise DataError(f"{who}: column {column!r} was generalized record by record; synthesize the data before that")
    if isinstance(dtype, pl.List):
        return _describe_sets(data, column, who)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise DataError(f"{who}: column {column!r} holds values of the type {dtype}, which cannot be drawn; drop it")
    if is_number(data, column):
        values = as_number(data, column)
        if dtype.is_integer() and np.fmax.reduce(np.abs(values), initial=0.0) > 2**53:
            raise DataError(
                f"{who}: column {column!r} has whole numbers beyond 2^53, which are not told apart as quantities; give "
                "it the role identifier, or write it as text"
            )
        return ColumnKind(column, "number"), (Variable(column, values),)
    kind = ColumnKind(column, "level", _labels(data, column))
    return kind, (_levels(data, kind),)


def reread(data: Dataset, kind: ColumnKind) -> tuple[Variable, ...]:
    """Read a column as it was read for learning; a level that was not seen then counts as missing, or as the first."""
    if kind.kind == "number":
        return (Variable(kind.column, as_number(data, kind.column)),)
    if kind.kind == "set":
        return _set_variables(data, kind)
    return (_levels(data, kind),)


def is_number(data: Dataset, column: str) -> bool:
    """Tell whether a column is drawn as numbers: quantities and dates, not codes with few values."""
    if data.frame.schema[column].is_temporal():
        return True
    return data.is_numeric(column) and data.is_quantity(column) and not data.is_category(column)


def as_number(data: Dataset, column: str) -> Floats:
    """Give a column of quantities or dates as floats: dates as days, times as their smallest unit."""
    import polars as pl

    series = data.frame[column]
    if series.dtype.is_temporal():
        return series.to_physical().cast(pl.Float64).to_numpy()
    return data.number(column)


def count_values(data: Dataset, column: str) -> int:
    """Count the different values of a column up to two, missing being one beside others: 0 where all are missing."""
    missing = data.count_missing(column)
    if missing:
        return 0 if missing == len(data) else 2
    series = data.series(column)
    if series.dtype.is_object():  # refused by its type
        return 2
    return 2 if series.head(_LOOKED_AT).n_unique() > 1 else min(series.n_unique(), 2)


def too_many_levels(data: Dataset, column: str) -> str:
    """Say why a column cannot be drawn level by level: it names people, or is free text; empty where it can."""
    coded = data.codes(column)
    counts = coded.counts_and_rows[0]
    if coded.missing >= 0:
        counts = np.delete(counts, coded.missing)
    counts = counts[counts > 0]
    alone = int((counts == 1).sum())
    if len(counts) > MOST_LEVELS:
        return f"has {len(counts):,} different values; more than {MOST_LEVELS:,} cannot be drawn"
    if len(counts) > _FEW_LEVELS and alone > _ALONE_SHARE * len(data):
        return f"has {len(counts):,} different values in {len(data):,} rows, most of them of one person only"
    return ""


def fewest_rows(variable: Variable, min_support: int) -> int:
    """Give the fewest people with a level for it to be drawn.

    Where nobody says who the people are, the rows of one look like several. A column of many levels of which most have
    but a few rows may number people, or cases: a level then needs as many rows as a number that is drawn as it is.
    """
    if variable.units is not None or variable.size <= _FEW_LEVELS:
        return min_support
    counts = variable.level_counts()
    return max(min_support, SHARED) if float(np.median(counts[counts > 0])) < SHARED else min_support


def profile_of(data: Dataset, column: str) -> tuple[str, ...]:
    """Name the columns whose values together tell the levels of a column apart, each level having one: somebody's.

    A number of people or cases that was taken for a category has such columns (sex, year of birth, diagnosis); a place
    or an occupation has coarser levels of itself, which do not tell its own apart. Empty where there are none.
    """
    import polars as pl

    coded = data.codes(column)
    if coded.size <= _FEW_LEVELS:
        return ()
    level = pl.Series("level", coded.codes)
    levels = level.n_unique()
    if len(data) < 2 * levels:
        return ()
    found = {}
    for name in data.columns:
        if name == column or data.frame.schema[name].is_nested():
            continue
        codes = data.codes(name)
        if 1 < codes.size < _ONE_TO_ONE * levels:
            pairs = pl.DataFrame([level, pl.Series("other", codes.codes)]).n_unique()
            if pairs <= levels * _SAME:
                found[name] = pl.Series(name, codes.codes)
    if len(found) < 2 or pl.DataFrame(list(found.values())).n_unique() < levels / 2:
        return ()
    return tuple(found)


def _labels(data: Dataset, column: str) -> tuple[Any, ...]:
    """List the levels that occur, in their own order or by value; missing last."""
    coded = data.codes(column)
    present = [value for value in coded.values if value is not None]
    order = data.schema[column].order
    if order:
        places = {text: place for place, text in enumerate(order)}
        present.sort(key=lambda value: (places.get(canonical(value), len(places)), canonical(value)))
    elif _is_enum(data, column):
        places = {text: place for place, text in enumerate(data.frame.schema[column].categories.to_list())}  # type: ignore[attr-defined]
        present.sort(key=lambda value: places[str(value)])
    elif data.is_numeric(column):
        present.sort()
    else:
        present.sort(key=canonical)
    return (*present, *([None] if data.count_missing(column) else []))


def _is_enum(data: Dataset, column: str) -> bool:
    import polars as pl

    return isinstance(data.frame.schema[column], pl.Enum)


def _levels(data: Dataset, kind: ColumnKind) -> Variable:
    coded = data.codes(kind.column)
    place = {label: float(code) for code, label in enumerate(kind.labels)}
    unknown = place.get(None, 0.0)
    numbers = np.array([place.get(value, unknown) for value in coded.values] or [0.0])
    ordered = bool(data.schema[kind.column].order) or _is_enum(data, kind.column) or data.is_numeric(kind.column)
    ordered = ordered and None not in kind.labels
    return Variable(kind.column, numbers[coded.codes], len(kind.labels), ordered or len(kind.labels) <= 2)


def _describe_sets(data: Dataset, column: str, who: str) -> tuple[ColumnKind, tuple[Variable, ...]]:
    items = data.frame[column].explode().drop_nulls().unique().sort().to_list()
    if len(items) > _MOST_ITEMS:
        raise DataError(
            f"{who}: column {column!r} holds sets of {len(items):,} different items; at most {_MOST_ITEMS} can be "
            "drawn one by one: group the items first, or drop the column"
        )
    kind = ColumnKind(column, "set", tuple(items), bool(data.count_missing(column)) or not items)
    return kind, _set_variables(data, kind)


def _set_variables(data: Dataset, kind: ColumnKind) -> tuple[Variable, ...]:
    import polars as pl

    series = data.frame[kind.column]
    found = []
    if kind.missing:
        found.append(Variable(kind.column, series.is_not_null().cast(pl.Float64).to_numpy(), 2, item=-2))
    for number, item in enumerate(kind.labels):
        has = series.list.contains(item).fill_null(False).cast(pl.Float64).to_numpy()
        found.append(Variable(kind.column, has, 2, item=number))
    return tuple(found)


def by_key(variables: Sequence[Variable]) -> dict[str, Floats]:
    """Give the values of variables by their names."""
    return {variable.key: variable.values for variable in variables}


def codes_of(values: Floats) -> Ints:
    """Give codes as whole numbers."""
    return values.astype(np.int64)
