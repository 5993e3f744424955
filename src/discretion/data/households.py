"""Households: records that belong together, the data reduced to one record for each, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.native import take_in
from discretion.data.schema import Role
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints

if TYPE_CHECKING:
    import polars as pl


def publishable(data: Dataset) -> Dataset:
    """Give the data as it may be written.

    Households and people (roles `household` and `unit`) are numbered anew, 1, 2, … in the order in which they appear:
    the old numbers stand in other files, and could tell the old order; which records belong together stays. A
    quasi-identifier with several kinds of missing values (codes for refused and for not asked, or a code and empty
    cells) has one from now on: classes were counted that way, and a rare code would tell their members apart.
    """
    new = {name: _renumbered(data, name) for name in data.having("household", "unit")}
    new |= {name: data.frame[name] for name in _kinds_of_missing(data)}
    return data.with_columns(new) if new else data


def codes_lost(data: Dataset) -> tuple[str, ...]:
    """Name the columns of which values that are missing had codes in the original and have none any more."""
    origin, numbered = data.origin, data.having("household", "unit")
    declared = [name for name in data.columns if data.schema[name].missing_codes and name in data.changed]
    named = [name for name in declared if name in origin.columns and name not in numbered]
    if not named or data.has_new_rows:
        return ()
    before = take_in(origin.to_native())[0]
    return tuple(name for name in named if before[name].null_count() < origin.count_missing(name))


def codes_without_definition(data: Dataset, spss: bool) -> tuple[str, ...]:
    """Name the columns that go out with codes which the original file defined and the new one cannot define."""
    defined = [name for name in data.columns if data.schema[name].missing_ranges and name not in data.changed]
    return () if spss else tuple(defined)


def _kinds_of_missing(data: Dataset) -> list[str]:
    """Name the quasi-identifiers that would go out with several kinds of missing values."""
    named = [
        name
        for name in data.having("quasi", "geography", "stratum")
        if data.schema[name].missing_codes and name not in data.changed
    ]
    if not named or data.has_new_rows:
        return []
    written = take_in(data.to_native())[0]
    missing = {name: data.frame[name].is_null() for name in named}
    return [name for name in named if written[name].filter(missing[name]).n_unique() > 1]


def _renumbered(data: Dataset, column: str) -> pl.Series:
    """Number households or people 1, 2, … as they appear, in the type of the old ids where it can hold them."""
    import polars as pl

    coded, before = data.codes(column), data.frame.schema[column]
    codes, first = np.unique(coded.codes, return_index=True)
    present = codes != coded.missing
    codes, first = codes[present], first[present]
    taken = {canonical(code) for code in data.schema[column].missing_codes}
    free = [number for number in range(1, len(codes) + len(taken) + 1) if str(number) not in taken]
    numbers = np.zeros(coded.size, dtype=np.int64)
    numbers[codes[np.argsort(first)]] = free[: len(codes)]
    new = pl.Series(column, numbers[coded.codes])
    new = new.set(pl.Series(coded.codes == coded.missing), None)
    if before.is_numeric():
        fits = new.cast(before, strict=False)
        return fits if fits.null_count() == new.null_count() else new
    return new.cast(pl.String)


def person_column(data: Dataset, named: str = "") -> str:
    """Give the column that tells who a row is about: the named one, or the only one with the role identifier."""
    if named:
        data.require([named])
        return named
    found = data.having("identifier")
    if len(found) == 1:
        return found[0]
    if not found:
        raise PlanError("no column has the role identifier; one must say who a row is about")
    raise PlanError(f"several columns have the role identifier ({', '.join(found)}); name the one of the people")


def person_ids(data: Dataset, column: str) -> pl.Series:
    """Give for each row who it is about, by the data it came from (the column may be gone); everybody has one row."""
    origin = data.origin
    origin.require([column])
    if count := origin.count_missing(column):
        raise DataError(f"column {column!r} has {count} missing values; it must say of every row who it is about")
    ids = origin.frame[column].gather(data.row_ids.astype(np.uint32))
    if count := len(ids) - ids.n_unique():
        raise DataError(f"column {column!r} has {count} rows of people who have one already; one row each is needed")
    return ids


class PersonDraws:
    """Random numbers that belong to people and values: the same for the same person, value, step and decision.

    Draw for a cell: u = E(H(person) ⊕ H(value)), H a keyed hash and E the keyed cipher of `keyed_mix`, all keys from
    the stream of the step without its data. About a microsecond for each person.
    """

    def __init__(self, data: Dataset, named: str, ctx: Context) -> None:
        self._ctx = ctx
        key = ctx.key("person", steady=True)
        ids = person_ids(data, person_column(data.origin, named)).to_list()
        self._persons = np.array([_word(key, canonical(one)) for one in ids], dtype=np.uint64)

    def uniforms(self, column: str, values: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Give a number between 0 and 1 (neither included) for each row, `values` a word for the value it has."""
        from discretion.kernels.order import keyed_mix

        inner = self._ctx.within(column)
        mixed = keyed_mix(values, inner.key("value", steady=True))
        words = keyed_mix(self._persons ^ mixed, inner.key("cell", steady=True))
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def of_numbers(self, column: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give a number between 0 and 1 for each row of a numeric column."""
        return self.uniforms(column, (x + 0.0).view(np.uint64))


def _word(key: bytes, text: str) -> int:
    return int.from_bytes(keyed_hash(key, text)[:8], "big")


@dataclass(frozen=True)
class Households:
    """The households of some data: the household of each record, a record and the size of each household."""

    column: str
    """the column that tells them apart; empty where every record stands for itself"""
    of: Ints
    first_rows: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    def count_varying(self, data: Dataset, column: str) -> int:
        """Count the households whose members differ in a column (missing is a value of its own)."""
        if len(self) == len(self.of):
            return 0
        series = data.frame[column]
        if series.dtype.is_nested():
            codes = data.codes(column).codes
            differs = codes != codes[self.first_rows][self.of]
        else:  # cell by cell: numbering the values of columns that nobody asks for (names) would take far longer
            series = series.fill_nan(None) if series.dtype.is_float() else series
            differs = series.ne_missing(series.gather(self.first_rows[self.of])).to_numpy()
        varying = np.zeros(len(self), dtype=np.bool_)
        varying[self.of[differs]] = True
        return int(varying.sum())

    def require_constant(self, data: Dataset, columns: Iterable[str]) -> None:
        """Raise if the members of a household differ in one of the columns."""
        data.require(columns)
        counts = {name: self.count_varying(data, name) for name in columns}
        if problems := [_varies(name, count, self.column) for name, count in counts.items() if count]:
            raise DataError("\n".join(problems))

    def codes(self, data: Dataset, columns: Sequence[str]) -> Ints:
        """Number the households by the values of columns that are constant in each."""
        return data.classes(columns).ids[self.first_rows]

    def kinds(self, data: Dataset, columns: Sequence[str]) -> Ints:
        """Number the households so that equal numbers mean: as many members, with the same values, order aside."""
        from discretion.kernels.swap import multiset_ids

        codes = data.classes(columns).ids if columns else np.zeros(len(data), dtype=np.int64)
        return multiset_ids(self.of, codes)

    def present(self, data: Dataset, columns: Sequence[str]) -> NDArray[np.bool_]:
        """Tell which households have no missing value in columns that are constant in each."""
        known = np.ones(len(self), dtype=np.bool_)
        for name in columns:
            coded = data.codes(name)
            known &= coded.codes[self.first_rows] != coded.missing
        return known

    def exchange(self, data: Dataset, pairs: Sequence[Sequence[int]], columns: Sequence[str]) -> Dataset:
        """Let pairs of households (two lists of their numbers) exchange the values of columns constant in each."""
        partner = np.full(len(self), -1, dtype=np.int64)
        partner[pairs[0]], partner[pairs[1]] = pairs[1], pairs[0]
        source = np.arange(len(data))
        moves = partner[self.of] >= 0
        source[moves] = self.first_rows[partner[self.of[moves]]]
        levels = {name: data.levels[name] for name in columns if name in data.levels}
        return data.with_columns(
            {name: data.frame[name].gather(source.astype(np.uint32)) for name in columns},
            levels={name: level if isinstance(level, int) else level[source] for name, level in levels.items()},
        )


def _varies(column: str, count: int, household: str) -> str:
    return f"column {column!r} is not constant within {count} households (column {household!r})"


def find_households(data: Dataset, named: str = "") -> Households:
    """Find the households by the column named, or by the one with that role; without either each record is one."""
    column = named or _by_role(data)
    if not column:
        rows = np.arange(len(data))
        return Households("", rows, rows, np.ones(len(data), dtype=np.int64))
    data.require([column])
    if count := data.count_missing(column):
        raise DataError(f"the household column {column!r} has {count} missing values")
    classes = data.classes([column])
    return Households(column, classes.ids, classes.first_rows, classes.counts)


def _by_role(data: Dataset) -> str:
    found = data.having("household")
    if len(found) > 1:
        raise PlanError(f"several columns have the role household ({', '.join(found)}); name one as `household`")
    return found[0] if found else ""


def unit_codes(data: Dataset, roles: Sequence[Role] = ("household", "unit")) -> tuple[Ints, ...]:
    """Number the unit of each record, once for each column whose role is `household` or `unit` (or one of these).

    Records of one household, panel person or employer protect each other badly: whoever knows the unit knows them all.
    A unit column that is not published any more is read from the data the rows came from, because what it says stays
    true. Records whose unit is missing count as one unit together, the strict reading. A column in which every record
    stands alone is left out: it changes nothing.
    """

    root = data.origin
    names = dict.fromkeys((*data.having(*roles), *root.having(*roles)))

    def make() -> tuple[Ints, ...]:
        from discretion.kernels.classes import class_ids

        found = []
        for name in names:
            coded = (data if name in data.columns else root).codes(name)
            codes = coded.codes if name in data.columns else coded.codes[data.row_ids]
            units = class_ids([codes], [coded.size], len(data))
            if len(units.counts) < data.records:
                found.append(units.ids.astype(np.int64))
        return tuple(found)

    return data.cached(("units", tuple(names)), make)


def count_units(units: Sequence[Ints], groups: NDArray[np.integer[Any]], count: int) -> Ints | None:
    """Count the different units of each group, the fewest over all kinds of units; None where none are declared.

    A record of group −1 is left out. Time O(n) plus a short sort in each group; memory linear.
    """
    from discretion.kernels.rollup import sensitive_triples

    owners = groups.astype(np.int32)
    ones = np.ones(len(owners), np.int64)
    distinct = [np.diff(sensitive_triples(owners, of, ones, count, int(of.max(initial=-1)) + 1)[0]) for of in units]
    return np.asarray(np.minimum.reduce(distinct)) if distinct else None


def at_household_level(
    data: Dataset, homes: Households, settings: Mapping[str, Any], work: Callable[[Dataset], Dataset]
) -> Dataset:
    """Let `work` change the data reduced to one record per household, and give the members what it gave to them."""
    reduced = one_per_household(data, homes, settings)
    return _merge(data, homes, reduced, work(reduced))


def one_per_household(data: Dataset, homes: Households, settings: Mapping[str, Any]) -> Dataset:
    """Reduce the data to one record per household, with the columns that are constant in every household.

    A column that varies inside households cannot stand in the settings of the method that is to be applied.
    """
    varying = {name: homes.count_varying(data, name) for name in data.columns}
    named = set(_texts(settings))
    if wrong := [_varies(name, count, homes.column) for name, count in varying.items() if count and name in named]:
        raise DataError("\n".join(wrong))
    return data.take(homes.first_rows).drop(name for name, count in varying.items() if count)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in the fields of a part: the names of columns are among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*_texts(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _merge(data: Dataset, homes: Households, reduced: Dataset, result: Dataset) -> Dataset:
    """Give the members of each household that is left what the method gave to its one record."""
    if result.origin is not reduced.origin:
        raise PlanError("at household level a method must keep or drop households, not make new ones")
    by_id = np.argsort(reduced.row_ids, kind="stable")
    kept = by_id[np.searchsorted(reduced.row_ids[by_id], result.row_ids)]
    place_of = np.full(len(homes), -1, dtype=np.int64)
    place_of[kept] = np.arange(len(result))
    place = place_of[homes.of]
    before = reduced.frame[kept]
    if len(kept) < len(homes):
        data = data.take(place >= 0, suppressed=result.lost_records > reduced.lost_records)
        place = place[place >= 0]
    changed = [name for name in result.columns if not _same(before, result, name)]
    if taken := [name for name in changed if name in data.columns and name not in reduced.columns]:
        raise PlanError(f"at household level: the method makes a column {taken[0]!r}, which the data has already")
    columns = {name: column for name, column in result.schema.columns.items() if name in result.columns}
    schema = replace(data.schema, columns=MappingProxyType({**data.schema.columns, **columns}))
    new = data.with_columns(
        {name: result.frame[name].gather(place.astype(np.uint32)) for name in changed},
        levels={name: level if isinstance(level, int) else level[place] for name, level in result.levels.items()},
        suppressed={name: result.suppressed(name)[place] for name in result.suppressed_cells},
    ).with_schema(schema)
    gone = [name for name in reduced.columns if name not in result.columns]
    return new.drop(gone) if gone else new


def _same(before: Any, result: Dataset, column: str) -> bool:
    if column not in before.columns or before.schema[column] != result.frame.schema[column]:
        return False
    return bool(before[column].equals(result.frame[column]))


def find_units(data: Dataset, *, households: bool = True) -> Ints | None:
    """Number the people behind the rows, or the households: by a column with that role or the role unit, or by the
    identifier with the most values where it repeats.

    Of several such columns the one with the fewest values counts; a row without a value stands for itself. None where
    every row does.
    """

    def make() -> Ints | None:
        names = data.having("unit", "household") if households else data.having("unit")
        found = [_numbered(data, name) for name in names]
        told = [_numbered(data, name) for name in data.having("identifier")]
        found += sorted(told, key=lambda units: -int(units.max(initial=-1)))[:1]
        fewest = min(found, key=lambda units: int(units.max(initial=-1)), default=None)
        return None if fewest is None or int(fewest.max(initial=-1)) + 1 == len(data) else fewest

    return data.cached(("units", households), make)


def people_of(data: Dataset) -> Ints | None:
    """Number the people behind the records, where a column has the role `unit`; None where each has one record.

    A column that is not published any more is read from the data the rows came from. Of several columns the one with
    the fewest values counts; a record without a value stands for itself.
    """
    root = data.origin
    names = dict.fromkeys((*data.having("unit"), *(() if data.has_new_rows else root.having("unit"))))

    def make() -> Ints | None:
        found = [
            _numbered(data, name) if name in data.columns else _numbered(root, name)[data.row_ids] for name in names
        ]
        fewest = min(found, key=lambda units: len(np.unique(units)), default=None)
        if fewest is None or len(np.unique(fewest)) == len(data):
            return None
        return np.unique(fewest, return_inverse=True)[1].astype(np.int64)

    return data.cached(("people", tuple(names)), make)


def _numbered(data: Dataset, column: str) -> Ints:
    coded = data.codes(column)
    units = coded.codes.astype(np.int64)
    if coded.missing >= 0:
        units = np.where(units == coded.missing, coded.size + np.arange(len(units)), units)
    return np.unique(units, return_inverse=True)[1].astype(np.int64)
