"""The order of the published rows: where a row stands must not tell whose it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.kernels.arrays import Ints
from discretion.kernels.order import keyed_mix

if TYPE_CHECKING:
    import polars as pl

    from discretion.measure import Score

Order = Literal["permute", "keep"]

ORDERS: dict[str, str] = {
    "permute": "The rows stand in a random order: the place of a row tells nothing about it.",
    "keep": "The rows stand in the order of the original file: where that file was sorted, the place of a row and the "
    "rows around it can tell values that were hidden or changed.",
}
"""What is said about the order of the rows, in public and on the terminal."""
HOUSEHOLDS_PERMUTED = (
    "The households stand in a random order, and so do the members within each: the members of a household stand "
    "together, which tells no more than its number does. Otherwise the place of a row tells nothing about it. The "
    "numbers of households were given anew, in the order of the release."
)


def order_words(order: str, data: Dataset) -> str:
    """Say in what order published rows stand, and what that means."""
    return HOUSEHOLDS_PERMUTED if order == "permute" and data.having("household") else ORDERS[order]


def permuted(data: Dataset, seed: int) -> Dataset:
    """Put the rows in an order that only the holder of the seed can tell; row ids keep where each row came from."""
    return reordered(data, secret_order(data, seed))


def secret_order(data: Dataset, seed: int) -> Ints:
    """Draw the order of the rows: the place in the data of each row to be published.

    The order is that of the rows' positions enciphered under a key made of the seed, the number of rows and what is
    published: the same release is written alike, and the order of another delivery, or of the same data protected in
    another way, is independent. Where a household id is published the members of a household stay together, in an
    order of their own. Time O(n), with households O(n·log n); sorting bucket by bucket gives the same.
    """
    positions = np.arange(len(data))
    mixed = keyed_mix(positions, keyed_hash(Context(seed).secret, "row order", _fingerprint(data))[:16])
    units = data.having("household")
    if not units:
        from discretion.kernels.order import key_order

        return key_order(mixed).astype(np.int64)
    coded = data.codes(units[0])
    first = np.where(coded.codes == coded.missing, positions, coded.first_rows[coded.codes])
    return np.lexsort((mixed, mixed[first]))


def reordered(data: Dataset, order: Ints) -> Dataset:
    """Put the rows in an order, and number the households anew as they appear: old numbers could tell the old order."""
    new = data.take(order)
    units = new.having("household")
    return new.with_columns({name: _renumbered(new, name) for name in units}) if units else new


def in_order_of(score: Score, order: Ints) -> Score:
    """Give a score whose figures per record follow the rows in another order."""
    if score.per_record is None or len(score.per_record) != len(order):
        return score
    more = {name: values[order] for name, values in score.more_per_record.items()}
    return replace(score, per_record=score.per_record[order], more_per_record=more)


def _fingerprint(data: Dataset) -> bytes:
    """Hash what is published, row by row as it stands."""
    import polars as pl

    found = hashlib.blake2b(str(len(data)).encode())
    for name in data.columns:
        column = data.frame[name]
        found.update(f"\0{name}\0{column.dtype}\0".encode())
        if column.dtype.is_numeric():
            found.update(np.ascontiguousarray(data.number(name)).tobytes())
        elif column.dtype.is_nested():
            found.update(repr(column.to_list()).encode())
        else:
            texts = column.cast(pl.String)
            found.update(texts.is_null().to_numpy().tobytes())
            found.update("\0".join(texts.fill_null("").to_list()).encode())
    return found.digest()


def _renumbered(data: Dataset, column: str) -> pl.Series:
    """Number the households 1, 2, … as they appear, in the type of the old ids where it can hold them."""
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
