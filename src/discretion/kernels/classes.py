"""Equivalence classes: which rows agree on all of a set of integer-coded columns, and how many they are.

Codes are packed into one 64-bit key per row (mixed radix). When the next column would overflow 64 bits, the
keys so far are replaced by dense class numbers. Few possible keys are counted by address, many by hashing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Codes, Floats, Ints, Ints32, Keys, as_vector
from discretion.kernels.hashing import count_by_hash, dense_ids_by_address, dense_ids_by_hash

_BLOCK = 1 << 15  # rows packed together: their keys stay in the second-level cache
_ADDRESSES = 1 << 22  # possible keys up to which a table with a place for each is the fastest
_INT32_ROWS = 2**31 - 1


class RowClasses(NamedTuple):
    """The classes of rows that agree on all columns, numbered in order of first appearance."""

    ids: Ints32
    """class of each row"""
    counts: Ints
    """rows in each class"""
    first_row: Ints
    """the first row of each class"""


def class_ids(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None = None) -> RowClasses:
    """Number the distinct combinations of codes in order of first appearance, and count their rows.

    Column j holds codes 0 … cardinalities[j]−1 in any integer type. Without columns all rows are one class;
    their number `n` must then be given. Time O(n·columns), memory up to 50 bytes a row.
    """
    keys, radix = _packed_keys(columns, cardinalities, n)
    return _dense(keys, radix)


def class_counts(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None = None) -> Ints:
    """Return the sizes of the classes, in no particular order; with many classes faster than `class_ids`."""
    keys, radix = _packed_keys(columns, cardinalities, n)
    if _has_addresses(keys, radix):
        return dense_ids_by_address(keys, radix)[1]
    return count_by_hash(keys)


def class_sums(ids: ArrayLike, n_classes: int, weights: ArrayLike) -> Floats:
    """Return the sum of the weights in each class. Time O(n)."""
    members = np.asarray(ids)
    values = as_vector(weights)
    if members.shape != values.shape:
        raise ValueError(f"{members.size} rows but {values.size} weights")
    sums: Floats = np.bincount(members, values, n_classes).astype(np.float64, copy=False)  # empty input: integers
    return sums


def distinct_rows(x: Floats) -> RowClasses:
    """Find equal rows of a matrix of numbers (exactly equal; −0.0 equals 0.0; no NaN). Time O(n·columns)."""
    columns, cardinalities = [], []
    for j in range(x.shape[1]):
        bits = (x[:, j] + 0.0).view(np.uint64)  # adding 0.0 copies the column and turns −0.0 into 0.0
        codes = _dense(bits, 0)
        columns.append(codes.ids)
        cardinalities.append(codes.counts.size)
    return class_ids(columns, cardinalities, x.shape[0])


def patterns(marks: Bools) -> tuple[Bools, Ints]:
    """Find the distinct rows of a matrix of marks, in ascending order, and which each row is. Time O(n·columns)."""
    columns = [np.ascontiguousarray(marks[:, j]).view(np.uint8) for j in range(marks.shape[1])]
    classes = class_ids(columns, [2] * len(columns), marks.shape[0])
    distinct, place = np.unique(marks[classes.first_row], axis=0, return_inverse=True)
    return distinct, np.asarray(place.ravel()[classes.ids], np.int64)


def _packed_keys(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None) -> tuple[Keys, int]:
    """Return one key per row, equal exactly where all columns are equal, and a bound above all keys."""
    n = _checked_length(columns, cardinalities, n)
    keys = np.zeros(n, np.uint64)
    radix = 1
    waiting: list[tuple[Codes, int]] = []
    for column, cardinality in zip(columns, cardinalities, strict=True):
        codes, possible = column, cardinality
        if radix * possible >= 2**64:
            _pack(keys, waiting, radix)
            keys, radix = _rerank(keys, radix)
            waiting = []
        if radix * possible >= 2**64:  # so many codes are possible that few can occur: at most n do
            codes, possible = _rerank(codes.astype(np.uint64), possible)
        waiting.append((codes, possible))
        radix *= possible
    _pack(keys, waiting, radix)
    return keys, radix


def _rerank(keys: Keys, radix: int) -> tuple[Keys, int]:
    """Replace keys by dense numbers; both are below 2³¹, so that two of them fit into 64 bits."""
    dense = _dense(keys, radix)
    return dense.ids.astype(np.uint64), dense.counts.size


def _pack(keys: Keys, columns: list[tuple[Codes, int]], radix: int) -> None:
    """Append columns to the keys, a block of rows at a time, in 32 bits as long as they suffice."""
    narrow: type[np.uint32 | np.uint64] = np.uint32 if radix < 2**32 else np.uint64
    for start in range(0, keys.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = keys[rows].astype(narrow)
        for column, cardinality in columns:
            np.multiply(block, narrow(cardinality), out=block)
            np.add(block, column[rows].astype(narrow), out=block)
        keys[rows] = block


def _checked_length(columns: Sequence[Codes], cardinalities: Sequence[int], n: int | None) -> int:
    if n is None:
        if not columns:
            raise ValueError("without columns the number of rows must be given")
        n = columns[0].size
    if n > _INT32_ROWS:
        raise ValueError(f"at most 2**31 - 1 rows, got {n}")
    for j, (column, cardinality) in enumerate(zip(columns, cardinalities, strict=True)):
        if column.shape != (n,):
            raise ValueError(f"column {j} has shape {column.shape}, expected ({n},)")
        if n and (column.max() >= cardinality or column.min() < 0):
            raise ValueError(f"column {j} has codes outside 0 … {cardinality - 1}")
    return n


def _dense(keys: Keys, radix: int) -> RowClasses:
    """Replace keys by class numbers; all keys are below `radix` (0 when nothing is known of them)."""
    numbering = dense_ids_by_address(keys, radix) if _has_addresses(keys, radix) else dense_ids_by_hash(keys)
    return RowClasses(*numbering)


def _has_addresses(keys: Keys, radix: int) -> bool:
    """Are possible keys few enough for a table with a place for each, which must be cleared first?"""
    return 0 < radix <= min(_ADDRESSES, 64 + 16 * keys.size)
