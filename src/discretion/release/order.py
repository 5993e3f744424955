"""The order of the published rows: where a row stands must not tell whose it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.households import publishable
from discretion.kernels.arrays import Ints
from discretion.kernels.order import keyed_mix

if TYPE_CHECKING:
    import polars as pl

    from discretion.measure import Score

Order = Literal["permute", "keep"]

_PIECE = 1 << 18

ORDERS: dict[str, str] = {
    "permute": "The rows stand in a random order: the place of a row tells nothing about it.",
    "keep": "The rows stand in the order of the original file: where that file was sorted, the place of a row and the "
    "rows around it can tell values that were hidden or changed.",
}
"""What is said about the order of the rows, in public and on the terminal."""
HOUSEHOLDS_PERMUTED = (
    "The households stand in a random order, and so do the members within each: the members of a household stand "
    "together, which tells no more than its number does. Otherwise the place of a row tells nothing about it."
)
HOUSEHOLDS_ANEW = "The numbers of households were given anew, in the order of the release."
UNITS_ANEW = (
    "The numbers of people in {} were given anew, in the order of the release: they tell which records belong to one "
    "person, and no longer whose they are."
)


def order_words(order: str, data: Dataset) -> str:
    """Say in what order published rows stand, which numbers were given anew, and what that means."""
    homes, units = data.having("household"), data.having("unit")
    said = [HOUSEHOLDS_PERMUTED if order == "permute" and homes else ORDERS[order]]
    said += [HOUSEHOLDS_ANEW] if homes else []
    said += [UNITS_ANEW.format(", ".join(units))] if units else []
    return " ".join(said)


def missing_words(lost: Sequence[str], undefined: Sequence[str]) -> Iterator[str]:
    """Say of which columns codes for missing values are gone, or go out without what defines them."""
    if lost:
        yield f"Codes for missing values in {', '.join(lost)} became plain missing values: reasons are no longer told."
    if undefined:
        yield (
            f"Codes for missing values in {', '.join(undefined)} are written as they are; which numbers are such codes "
            "only an SPSS file can tell."
        )


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

    def column(name: str) -> Iterator[pl.Series]:
        """Give a column in pieces: texts are joined, not all at once."""
        whole = data.series(name)
        return (whole.slice(start, _PIECE) for start in range(0, len(whole), _PIECE))

    mixed = keyed_mix(positions, order_key(seed, published_digest(len(data), data.frame.schema, column)))
    units = data.having("household")
    if not units:
        from discretion.kernels.order import key_order

        return key_order(mixed).astype(np.int64)
    coded = data.codes(units[0])
    first = np.where(coded.codes == coded.missing, positions, coded.first_rows[coded.codes])
    return np.lexsort((mixed, mixed[first]))


def reordered(data: Dataset, order: Ints) -> Dataset:
    """Put the rows in an order, and number households and people anew as they appear (see `publishable`)."""
    return publishable(data.take(order))


def in_order_of(score: Score, order: Ints) -> Score:
    """Give a score whose figures per record follow the rows in another order."""
    if score.per_record is None or len(score.per_record) != len(order):
        return score
    more = {name: values[order] for name, values in score.more_per_record.items()}
    return replace(score, per_record=score.per_record[order], more_per_record=more)


def order_key(seed: int, published: bytes) -> bytes:
    """Give the key of the order: of the seed, and of what is published (`published_digest`)."""
    return keyed_hash(Context(seed).secret, "row order", published)[:16]


def published_digest(
    rows: int, kinds: Mapping[str, pl.DataType], column: Callable[[str], Iterator[pl.Series]]
) -> bytes:
    """Hash what is published, row by row as it stands.

    `column` gives the values of a column in their order, in one piece or in several.
    """
    import polars as pl

    found = hashlib.blake2b(str(rows).encode())
    for name, kind in kinds.items():
        found.update(f"\0{name}\0{kind}\0".encode())
        if kind.is_numeric():
            for part in column(name):
                found.update(np.ascontiguousarray(part.cast(pl.Float64).to_numpy()).tobytes())
        elif kind.is_nested():
            found.update(b"[")
            for number, part in enumerate(column(name)):
                found.update((", " * bool(number) + repr(part.to_list())[1:-1]).encode())
            found.update(b"]")
        else:
            for part in column(name):
                found.update(part.is_null().to_numpy().tobytes())
            for number, part in enumerate(column(name)):
                joined = part.cast(pl.String).fill_null("").str.join("\0").item()
                found.update(("\0" * bool(number) + str(joined or "")).encode())
    return found.digest()
