"""Whom the rows speak about: elements (records), their people, and the answered rows as bit maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Ints

_FIRST_ROWS = 16


def ascending(numbers: Ints) -> Ints:
    """Give numbers in ascending order without repetition; quick when they are so already.

    Sorting and looking at neighbors is many times quicker than `np.unique`, which hashes every number.
    """
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    found = np.sort(numbers)
    fresh = np.empty(len(found), np.bool_)
    fresh[0] = True
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    return found if fresh.all() else found[fresh]


def longer(lines: NDArray[Any], number: int) -> NDArray[Any]:
    """Give the same lines with room for more; what is not used yet takes no memory."""
    grown = np.zeros((number, lines.shape[1]), lines.dtype)
    grown[: len(lines)] = lines
    return grown


class Elements:
    """Records and the person each belongs to; only ever extended."""

    def __init__(self, owner: Ints) -> None:
        self.owner = np.zeros(0, np.int64)
        self.people = 0
        self.extend(owner)

    def extend(self, owner: Ints, people: int = 0) -> None:
        """Add records; their owners are known people or the next new ones."""
        added = np.asarray(owner, np.int64)
        if added.ndim != 1 or (len(added) and added.min() < 0):
            raise DataError("the people of new records are given as a list of numbers from 0")
        self.owner = np.append(self.owner, added)
        self.people = max(self.people, people, int(added.max()) + 1 if len(added) else 0)
        self.order = np.argsort(self.owner, kind="stable").astype(np.int64)
        counts = np.bincount(self.owner, minlength=self.people)
        self.first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.is_alone = len(self.owner) == self.people and bool((self.owner == np.arange(self.people)).all())
        """whether every record is a person of its own, numbered alike"""
        self.is_first = np.zeros(len(self.owner), np.bool_)
        self.is_first[self.order[self.first[:-1][counts > 0]]] = True

    def one_of(self, person: int) -> int:
        """Give the first record of a person."""
        if not 0 <= person < self.people or self.first[person] == self.first[person + 1]:
            raise DataError(f"there is no record of person number {person}")
        return int(self.order[self.first[person]])

    def checked(self, members: Ints | Bools) -> Ints:
        """Give a query set (numbers or a mask over all records) as ascending numbers."""
        given = np.asarray(members)
        if given.dtype == np.bool_:
            if given.shape != self.owner.shape:
                raise DataError(f"a mask of a query set has one entry for each of the {len(self.owner)} records")
            return np.flatnonzero(given).astype(np.int64)
        numbers = ascending(given.astype(np.int64, copy=False))
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= len(self.owner)):
            raise DataError(f"a query set names a record outside 0 … {len(self.owner) - 1}")
        return numbers


class RowStore:
    """Rows as bit maps over the elements; the last rows can be taken back."""

    def __init__(self) -> None:
        self.count = 0
        self.bits = np.zeros((_FIRST_ROWS, 0), np.uint8)
        self.powers = np.zeros(_FIRST_ROWS, np.int64)
        self.members: dict[int, Ints] = {}

    def extend(self, elements: int) -> None:
        """Make room for more elements, which are in no row yet."""
        more = -(-elements // 8) - self.bits.shape[1]
        if more > 0:
            self.bits = np.hstack([self.bits, np.zeros((len(self.bits), more), np.uint8)])

    def append(self, members: Ints, power: int) -> int:
        """Keep a row and give its number; its members stay listed until `settle`."""
        from discretion.kernels.null_vector import set_bits

        if self.count == len(self.bits):
            more = 3 * self.count
            self.bits = longer(self.bits, self.count + more)
            self.powers = np.append(self.powers, np.zeros(more, np.int64))
        self.bits[self.count] = 0
        set_bits(self.bits[self.count], members)
        self.powers[self.count] = power
        self.members[self.count] = members
        self.count += 1
        return self.count - 1

    def settle(self) -> None:
        """Keep only the bit maps."""
        self.members.clear()

    def drop_last(self) -> None:
        """Take the last row back."""
        self.count -= 1
        self.members.pop(self.count, None)
