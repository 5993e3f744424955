"""What becomes of each class: decided on the table of classes, looked up for the rows that pass by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS
from discretion.data.codes import add_counts, plain
from discretion.data.dataset import Dataset, Level, Piece
from discretion.engines.scan import Scan
from discretion.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_CODE = "discretion:code"
_MOST = 1 << 62
"""Numbers of combinations stay below this; before they reach it, those that occur are numbered anew."""


class Lookup(Protocol):
    """What becomes of rows by their class."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns by which a class is found."""

    @property
    def by_place(self) -> bool:
        """Whether records of a class have different fates, by where they stand."""


@dataclass(frozen=True)
class ClassNumbers:
    """Numbers classes: by the numbers of their values in each column, put together. It can travel to other machines."""

    columns: tuple[str, ...]
    values: tuple[pl.DataFrame, ...]
    """the different values of each column with their numbers"""
    known: tuple[NDArray[np.int64] | None, ...]
    """after a column, the combinations up to it that occur, in order, where they are numbered anew"""

    @classmethod
    def of(cls, table: Dataset, columns: Sequence[str], rows: NDArray[np.int64]) -> ClassNumbers:
        """Number the classes of which these are rows, 0 … len(rows)−1 in an order of their own."""
        distinct, known = [], []
        key, combinations = np.zeros(len(rows), np.int64), 1
        for place, name in enumerate(columns):
            series = plain(table.series(name).gather(rows))
            values = series.unique().to_frame().with_row_index(_CODE)
            distinct.append(values)
            key = key * len(values) + _codes(series, values)
            combinations *= len(values)
            following = table.codes(columns[place + 1]).size if place + 1 < len(columns) else _MOST
            occurring = np.unique(key) if combinations * following >= _MOST else None
            if occurring is not None:
                key, combinations = np.searchsorted(occurring, key), len(occurring)
            known.append(occurring)
        return cls(tuple(columns), tuple(distinct), tuple(known))

    def __call__(self, data: Dataset) -> NDArray[np.int64]:
        """Give the number of the class of each row."""
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


@dataclass(frozen=True)
class ClassLookup:
    """The values that replace those of each class, and whether its records are dropped."""

    numbers: ClassNumbers
    places: NDArray[np.int64]
    """for each class, in the order of its number, its row in `made`; −1 where its records are dropped"""
    made: pl.DataFrame
    hidden: Mapping[str, NDArray[np.bool_]]
    levels: Mapping[str, Level]

    by_place: ClassVar[bool] = False

    @classmethod
    def of(cls, before: Dataset, after: Dataset, columns: Sequence[str]) -> ClassLookup:
        """Note what became of the classes of a table, whose rows are told apart by their ids."""
        rows = before.classes(columns).first_rows
        numbers = ClassNumbers.of(before, columns, rows)
        order = np.argsort(after.row_ids)
        wanted = before.row_ids[rows]
        found = np.minimum(np.searchsorted(after.row_ids, wanted, sorter=order), max(len(after) - 1, 0))
        found = order[found] if len(after) else found
        kept = after.row_ids[found] == wanted if len(after) else np.zeros(len(rows), np.bool_)
        places = np.empty(len(rows), np.int64)
        places[numbers(before.take(rows))] = np.where(kept, np.cumsum(kept) - 1, -1)
        taken = after.take(found[kept])
        return cls(
            numbers,
            places,
            taken.frame.select(columns),
            {name: taken.suppressed(name) for name in columns if name in taken.suppressed_cells},
            {name: level for name, level in taken.levels.items() if name in columns},
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns by which a class is found, which are those that are replaced."""
        return self.numbers.columns

    def rewrite(self, data: Dataset) -> Dataset:
        """Replace the values of rows, and drop those of the classes that are dropped."""
        places = self.places[self.numbers(data)]
        if (places < 0).any():
            data, places = data.take(places >= 0, suppressed=True), places[places >= 0]
        levels = {name: level if isinstance(level, int) else level[places] for name, level in self.levels.items()}
        hidden = {name: mask[places] for name, mask in self.hidden.items()}
        values = {name: self.made[name].gather(places) for name in self.columns}
        return data.with_columns(values, levels=levels, suppressed=hidden)


def _codes(series: pl.Series, values: pl.DataFrame) -> NDArray[np.int64]:
    """Give the number of each value, −1 for one that was not counted."""
    import polars as pl

    name = series.name
    frame = plain(series.cast(values.schema[name])).to_frame()
    joined = frame.join(values, on=name, how="left", nulls_equal=True, maintain_order="left")
    return joined[_CODE].cast(pl.Int64).fill_null(-1).to_numpy()


@dataclass(frozen=True)
class CellLookup:
    """The cells that the records of each class lose; of some classes the records that stand last lose others."""

    numbers: ClassNumbers
    cells: NDArray[np.int64]
    """for each class, in the order of its number, a set of cells as bits"""
    places: NDArray[np.int64]
    """where the records stand that lose others, in order"""
    others: NDArray[np.int64]
    """and what these lose"""
    names: Mapping[str, int]
    """the columns that lose cells: by any of which bits"""

    @classmethod
    def of(
        cls, data: Scan, table: Dataset, origin: NDArray[np.int64], counts: NDArray[np.int64],
        cells: NDArray[np.int64], names: Mapping[str, int],
    ) -> CellLookup:  # fmt: skip
        """Note what was decided for the classes of some data, of which some were divided.

        `origin`: the row of the table that each part belongs to, `counts` and `cells`: its records and what they lose.
        The records of a class follow its parts in the order of their places.
        """
        numbers = ClassNumbers.of(table, table.columns, np.arange(len(table)))
        number = numbers(table)
        first = np.searchsorted(origin, np.arange(len(table)))
        of_class = np.empty(len(table), np.int64)
        of_class[number] = cells[first]
        later = np.delete(np.arange(len(origin)), first)
        later = later[np.argsort(number[origin[later]], kind="stable")]
        last = add_counts(number[origin[later]], counts[later], len(table))
        places = np.empty(0, np.int64)
        if len(later):
            places = _last_places(data, table.columns, _LastPlaces(numbers, last))
        order = np.argsort(places)
        return cls(numbers, of_class, places[order], np.repeat(cells[later], counts[later])[order], names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns by which a class is found."""
        return self.numbers.columns

    @property
    def by_place(self) -> bool:
        """Whether some classes were divided."""
        return len(self.places) > 0

    def rewrite(self, data: Dataset, batch: int) -> Dataset:
        """Make the cells of a batch missing, and mark them."""
        return data.with_columns({}, suppressed=self._masks(data, data.row_ids % BATCH_ROWS + batch * BATCH_ROWS))

    def count(self, piece: Piece) -> dict[str, int]:
        """Count the cells that a batch loses in each column."""
        masks = self._masks(piece.data, np.arange(piece.place, piece.place + len(piece)))
        return {name: int(mask.sum()) for name, mask in masks.items()}

    def _masks(self, data: Dataset, places: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        cells = self.cells[self.numbers(data)]
        if self.by_place:
            found = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
            cells = np.where(self.places[found] == places, self.others[found], cells)
        coded = {name: data.codes(name) for name in self.names}
        return {name: (cells & self.names[name] != 0) & (c.codes != c.missing) for name, c in coded.items()}


def _last_places(data: Scan, columns: Sequence[str], ask: _LastPlaces) -> NDArray[np.int64]:
    """Give the places, those of a class after the other; no more than these are in memory."""
    if data.store.remote:
        return np.asarray(reduce(ask.merge, data.each_batch(columns, ask, ask.merge))[:, 1])
    held = np.empty((0, 2), np.int64)

    def look(piece: Piece) -> None:
        nonlocal held
        held = ask.merge(held, ask(piece))

    data.each_batch(columns, look)
    return np.asarray(held[:, 1])


@dataclass(frozen=True)
class _LastPlaces:
    """Finds where the last records of some classes stand: pairs of class and place, in this order."""

    numbers: ClassNumbers
    last: NDArray[np.int64]
    """how many of each class"""

    def __call__(self, piece: Piece) -> NDArray[np.int64]:
        number = self.numbers(piece.data)
        rows = np.flatnonzero(self.last[number])
        return self._cut(np.column_stack([number[rows], rows + piece.place]))

    def merge(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put what was found in batches together."""
        return self._cut(np.concatenate([one, other]))

    def _cut(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        ends = np.searchsorted(pairs[:, 0], pairs[:, 0], side="right")
        return np.asarray(pairs[ends - np.arange(len(pairs)) <= self.last[pairs[:, 0]]])
