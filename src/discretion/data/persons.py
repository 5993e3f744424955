"""The people in the data: who each row is about, by the column that identifies them, and draws that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    import polars as pl


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
