"""Households: records that belong together, methods applied to whole households, and exchange of their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.errors import DataError, PlanError
from discretion.method import Decision, Method
from discretion.part import confidential, parse

Ints = NDArray[np.int64]


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
        codes = data.codes(column).codes
        differs = codes != codes[self.first_rows][self.of]
        return len(np.unique(self.of[differs]))

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
        from discretion.kernels.record_swap import multiset_ids

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


def geography_of(data: Dataset, named: Sequence[str], kind: str) -> tuple[str, ...]:
    """Give the geography columns named, or those with that role, and check that there is more than one area."""
    if not named and not data.having("geography"):
        raise PlanError(f"{kind}: no column has the role geography; give `geography`")
    chosen = data.choose(named or data.having("geography"), "classes")
    if len(data) and len(data.classes(chosen)) < 2:
        raise DataError(f"{kind}: all records lie in one area ({', '.join(chosen)}); there is nowhere to swap to")
    return chosen


def as_pairs(partner: Ints) -> list[list[int]]:
    """Write who exchanges with whom as two lists, each pair once."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    return [first.tolist(), partner[first].tolist()]


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


def _accept(value: Any) -> Method:
    part = value if isinstance(value, Method) else parse(value, "method")
    if not isinstance(part, Method):
        raise PlanError("expected a method")
    return part


AnyMethod = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(lambda method: method.to_plan()),
    WithJsonSchema({"description": "a method: its kind, or {kind: {fields}}"}),
]
"""A method as a field: a Method, its kind, or `{kind: {fields}}`."""


class AtHouseholdLevel(Method, kind="at-household-level"):
    """Apply a method to households as wholes, so that all members get the same change.

    The data is reduced to one record per household with the columns that are constant in every household (region,
    weight, …); the method is applied to these; then every member gets the values of its household. If the method drops
    households (sampling, suppression of records), all their members go. A column that varies inside households cannot
    be named: the error says which, and in how many households. Guarantees what the method guarantees, for households:
    k-anonymity at this level means k households. Does not protect what distinguishes the members. Missing values as in
    the method. Time linear, besides the method's.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, Wiley (data with a hierarchy of units); catalogue P1–P22.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> inner = dc.Pram(columns=["region"], keep_share=0.7)
    >>> moved = dc.AtHouseholdLevel(method=inner)(people, seed=7)
    >>> moved.frame.group_by("household").n_unique()["region"].max()
    1
    """

    method: AnyMethod = confidential()
    """the method to apply: its kind with its fields, for example {pram: {columns: [region], keep_share: 0.7}}"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household"""

    @property
    def by_group(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.by_group)

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.seeded)

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        """As the method inside."""
        return bool(self.method.perturbs)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """As the method inside, for households."""
        return f"All members of a household got the same change: {self.method.guarantee}"

    def settings(self, *, public: bool = False) -> dict[str, Any]:
        """Give the fields; of the method inside, `public` leaves out its own confidential ones."""
        fields = super().settings(public=public)
        return {"method": {self.method.kind: self.method.settings(public=True)}, **fields} if public else fields

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Let the method decide on the households."""
        reduced = self._reduce(data, self._homes(data))
        return Decision(MappingProxyType({"households": dict(self.method.decide(reduced, ctx).values)}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Let the method rewrite the households, and give the members what it gave to them."""
        homes = self._homes(data)
        reduced = self._reduce(data, homes)
        inner = Decision(MappingProxyType(decision["households"]))
        return _merge(data, homes, reduced, self.method.perform(reduced, inner, ctx))

    def _homes(self, data: Dataset) -> Households:
        homes = find_households(data, self.household)
        if not homes.column:
            raise PlanError(f"{self.kind}: no column has the role household; name one as `household`")
        return homes

    def _reduce(self, data: Dataset, homes: Households) -> Dataset:
        varying = {name: homes.count_varying(data, name) for name in data.columns}
        named = set(_texts(self.method.settings()))
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
        raise PlanError("at-household-level needs a method that keeps or drops households, not one that makes new ones")
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
        raise PlanError(f"at-household-level: the method makes a column {taken[0]!r}, which the data has already")
    columns = {name: column for name, column in result.schema.columns.items() if name in result.columns}
    schema = Schema(MappingProxyType({**data.schema.columns, **columns}))
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
