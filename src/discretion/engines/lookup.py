"""What becomes of each class: decided on the table of classes, looked up for the rows that pass by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset, Level
from discretion.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_CODE = "discretion:code"
_MOST = 1 << 62
"""Numbers of combinations stay below this; before they reach it, those that occur are numbered anew."""


@dataclass(frozen=True)
class ClassLookup:
    """The values that replace those of each class, and whether its records are dropped.

    A class is found by the numbers of its values in each column, put together to one number; it can travel to other
    machines.
    """

    values: tuple[pl.DataFrame, ...]
    """the different values of each column with their numbers"""
    known: tuple[NDArray[np.int64] | None, ...]
    """after a column, the combinations up to it that occur, in order, where they are numbered anew"""
    places: NDArray[np.int64]
    """for each class, in the order of its number, its row in `made`; −1 where its records are dropped"""
    made: pl.DataFrame
    hidden: Mapping[str, NDArray[np.bool_]]
    levels: Mapping[str, Level]

    @classmethod
    def of(cls, before: Dataset, after: Dataset, columns: Sequence[str]) -> ClassLookup:
        """Note what became of the classes of a table, whose rows are told apart by their ids."""

        rows = before.classes(columns).first_rows
        distinct, known = [], []
        key, combinations = np.zeros(len(rows), np.int64), 1
        for place, name in enumerate(columns):
            series = before.series(name).gather(rows)
            values = series.unique().to_frame().with_row_index(_CODE)
            distinct.append(values)
            key = key * len(values) + _codes(series, values)
            combinations *= len(values)
            following = before.codes(columns[place + 1]).size if place + 1 < len(columns) else _MOST
            occurring = np.unique(key) if combinations * following >= _MOST else None
            if occurring is not None:
                key, combinations = np.searchsorted(occurring, key), len(occurring)
            known.append(occurring)
        order = np.argsort(after.row_ids)
        wanted = before.row_ids[rows]
        found = np.minimum(np.searchsorted(after.row_ids, wanted, sorter=order), max(len(after) - 1, 0))
        found = order[found] if len(after) else found
        kept = after.row_ids[found] == wanted if len(after) else np.zeros(len(rows), np.bool_)
        places = np.empty(len(rows), np.int64)
        places[key] = np.where(kept, np.cumsum(kept) - 1, -1)
        taken = after.take(found[kept])
        return cls(
            tuple(distinct),
            tuple(known),
            places,
            taken.frame.select(columns),
            {name: taken.suppressed(name) for name in columns if name in taken.suppressed_cells},
            {name: level for name, level in taken.levels.items() if name in columns},
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns by which a class is found, which are those that are replaced."""
        return tuple(self.made.columns)

    def rewrite(self, data: Dataset) -> Dataset:
        """Replace the values of rows, and drop those of the classes that are dropped."""
        places = self.places[self._number(data)]
        if (places < 0).any():
            data, places = data.take(places >= 0, suppressed=True), places[places >= 0]
        levels = {name: level if isinstance(level, int) else level[places] for name, level in self.levels.items()}
        hidden = {name: mask[places] for name, mask in self.hidden.items()}
        values = {name: self.made[name].gather(places) for name in self.columns}
        return data.with_columns(values, levels=levels, suppressed=hidden)

    def _number(self, data: Dataset) -> NDArray[np.int64]:
        key = np.zeros(len(data), np.int64)
        for name, values, known in zip(self.columns, self.values, self.known, strict=True):
            codes = _codes(data.series(name), values)
            key = key * len(values) + codes
            unknown = codes < 0
            if known is not None:
                order = np.argsort(key)  # sorted keys are found several times as fast
                place = np.empty(len(key), np.int64)
                place[order] = np.searchsorted(known, key[order])
                place = np.minimum(place, len(known) - 1)
                unknown = unknown | (known[place] != key)
                key = place
            if unknown.any():
                raise DataError("the classes were counted in other data; decide anew on this one")
        return key


def _codes(series: pl.Series, values: pl.DataFrame) -> NDArray[np.int64]:
    """Give the number of each value, −1 for one that was not counted."""
    import polars as pl

    name = series.name
    frame = series.cast(values.schema[name]).to_frame()
    joined = frame.join(values, on=name, how="left", nulls_equal=True, maintain_order="left")
    return joined[_CODE].cast(pl.Int64).fill_null(-1).to_numpy()
