"""Rows of codes as single 64-bit numbers, and finding rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Ints

_MOST = 2**62


@dataclass(frozen=True, eq=False)
class Packer:
    """Turns rows of codes into numbers; where 64 bits do not suffice, prefixes are replaced by their rank.

    Rows that were not there when it was made get −1. Numbers order as rows do (lexicographically).
    """

    sizes: tuple[int, ...]
    prefixes: tuple[Ints | None, ...]
    order: Ints
    sorted_keys: Ints

    @classmethod
    def fit(cls, codes: NDArray[Any], sizes: Sequence[int]) -> Packer:
        """Learn the rows; they should be distinct for `find`. Time O(rows·columns + sorting)."""
        keys = np.zeros(len(codes), np.int64)
        radix = 1
        prefixes: list[Ints | None] = []
        for j, size in enumerate(sizes):
            if radix * size > _MOST:
                known = np.unique(keys)
                keys = np.searchsorted(known, keys).astype(np.int64)
                radix = len(known)
                prefixes.append(known)
            else:
                prefixes.append(None)
            keys = keys * size + codes[:, j]
            radix *= size
        order = np.argsort(keys, kind="stable")
        return cls(tuple(sizes), tuple(prefixes), order, keys[order])

    def keys(self, codes: NDArray[Any]) -> Ints:
        """Give the number of each row; −1 for a prefix that was not there."""
        keys = np.zeros(len(codes), np.int64)
        absent = np.zeros(len(codes), np.bool_)
        for j, (size, known) in enumerate(zip(self.sizes, self.prefixes, strict=True)):
            if known is not None:
                place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
                absent |= known[place] != keys
                keys = place.astype(np.int64)
            keys = keys * size + codes[:, j]
        keys[absent] = -1
        return keys

    def find(self, codes: NDArray[Any]) -> Ints:
        """Give the position of each row among those learned, −1 where it was not there."""
        keys = self.keys(codes)
        if not len(self.order):
            return np.full(len(codes), -1, np.int64)
        place = np.minimum(np.searchsorted(self.sorted_keys, keys), len(self.order) - 1)
        return np.where(self.sorted_keys[place] == keys, self.order[place], -1).astype(np.int64)


def row_keys(codes: NDArray[Any], sizes: Sequence[int]) -> Ints:
    """Give a number per row, equal exactly where the rows are, ordered as they are."""
    return Packer.fit(codes, sizes).keys(codes) if _product(sizes) > _MOST else plain_keys(codes, sizes)


def plain_keys(codes: NDArray[Any], sizes: Sequence[int]) -> Ints:
    """Pack rows whose numbers fit into 62 bits."""
    keys = np.zeros(len(codes), np.int64)
    for j, size in enumerate(sizes):
        keys *= size
        keys += codes[:, j]
    return keys


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
