"""MDAV with a distance and an aggregate written in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import PrivateAttr

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.protect.microaggregation import Distance, Mdav
from discretion.protect.microaggregation_groups import require_k

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.groups import Members

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
        from discretion.protect.microaggregation_groups import publish

        distance: Distance = "gower" if self._user_distance is not None else self._distance(data, block)
        members = self._members(data, block, distance, ctx)
        values = self._values(data, block, distance, members)
        return publish(data, values, members, self.replace, self.integers, ctx)

    def _members(self, data: Dataset, block: tuple[str, ...], distance: Distance, ctx: Context) -> Members:
        from discretion.kernels.groups import group_members
        from discretion.kernels.groups_mdav import groups_in

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
        from discretion.kernels.groups_mdav import Medoid, spread_out

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
