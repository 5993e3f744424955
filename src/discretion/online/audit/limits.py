"""Size and overlap of query sets: weaker than the audit, cheap, and on top of it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Ints


def size_problem(people_in_set: int, people: int, least: int) -> str | None:
    """Say what is wrong with the size of a set: too few people in it, or too few outside.

    Everybody together is allowed. An empty set is too: that nobody is in it is public, and nobody's value is told.
    Both sides count, because a small set is as good as its complement to whoever knows the total. Alone this stops
    nobody: a tracker asks for two allowed sets that differ by one person. The audit does.
    """
    if 0 < people_in_set < least:
        return "too few people are in a query set"
    if people_in_set and 0 < people - people_in_set < least:
        return "too few people are outside a query set"
    return None


class AnsweredSets:
    """All different answered sets as bit maps, to see how many records a new one shares with each."""

    def __init__(self) -> None:
        self._bits = np.zeros((16, 0), np.uint8)
        self.count = 0
        self._names: set[bytes] = set()

    def add(self, members: Ints, records: int) -> None:
        """Remember a set."""
        packed = self._packed(members, records)
        name = _name(packed)
        if name in self._names or len(members) == 0:
            return
        self._names.add(name)
        if len(packed) > self._bits.shape[1]:
            wider = np.zeros((len(self._bits), len(packed)), np.uint8)
            wider[:, : self._bits.shape[1]] = self._bits
            self._bits = wider
        if self.count == len(self._bits):
            self._bits = np.vstack([self._bits, np.zeros_like(self._bits)])
        self._bits[self.count, : len(packed)] = packed
        self.count += 1

    def largest_overlap(self, members: Ints, records: int) -> int:
        """Give how many records a set shares at most with an answered one; asking the same set again shares none."""
        whole = self._packed(members, records)
        if self.count == 0 or _name(whole) in self._names:
            return 0
        packed = whole[: self._bits.shape[1]]
        common = np.bitwise_count(self._bits[: self.count, : len(packed)] & packed)
        return int(common.sum(axis=1, dtype=np.int64).max())

    @staticmethod
    def _packed(members: Ints, records: int) -> NDArray[np.uint8]:
        mask = np.zeros(records, np.bool_)
        mask[members] = True
        return np.packbits(mask)


def _name(packed: NDArray[np.uint8]) -> bytes:
    """Give a short name of a set that does not change when records are appended."""
    return hashlib.sha256(packed.tobytes().rstrip(b"\0")).digest()


def overlap_within(sets: list[Ints], records: int) -> int:
    """Give how many records two different sets of one question share at most."""
    seen, most = AnsweredSets(), 0
    for members in sets:
        most = max(most, seen.largest_overlap(members, records))
        seen.add(members, records)
    return most
