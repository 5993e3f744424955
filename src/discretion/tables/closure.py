"""All cells of a table and who adds up to whom, found on packed codes before any figure is added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Ints, Ints32
from discretion.tables.dimensions import Dimension

_MOST = 2**62


@dataclass(frozen=True, eq=False)
class AdditionStep:
    """Cells that are added to the one above them along one tree of one variable; every parent has all its parts."""

    variable: int
    tree: int
    child: Ints32
    parent: Ints32


@dataclass(frozen=True, eq=False)
class Closure:
    """The cells of a table in lexicographic order of their codes, and the steps that add them up."""

    codes: Ints32
    """(m, d)"""
    place: Ints32
    """the cell of each row of leaves that was given"""
    steps: tuple[AdditionStep, ...]
    """in the order in which they must be taken: every cell but those of leaves is a parent in exactly one step"""

    def __len__(self) -> int:
        return len(self.codes)

    def upward(self) -> tuple[Ints32, Ints]:
        """Give (k, m) the cell above each cell along each tree in use, −1 where there is none, and the k variables."""
        trees = list(dict.fromkeys((step.variable, step.tree) for step in self.steps))
        above = np.full((len(trees), len(self)), -1, np.int32)
        for step in self.steps:
            above[trees.index((step.variable, step.tree)), step.child] = step.parent
        return above, np.array([variable for variable, _ in trees], np.int64)


def closed(leaves: Ints32, dims: Sequence[Dimension], variables: Sequence[int]) -> Closure:
    """Find every cell of the table over some variables that lies above given rows of leaves.

    The variables are rolled up one after the other, level by level from the bottom; the others are at their total.
    Only cells with records occur. Time O(cells·log cells·variables), memory O(cells·variables).
    """
    packing = _Packing([len(dim) if j in variables else 1 for j, dim in enumerate(dims)])
    rows = np.zeros_like(leaves)
    rows[:, list(variables)] = leaves[:, list(variables)]
    keys, place = _distinct(packing.pack(rows))
    growing = _Growing(keys, packing)
    for j in sorted(variables):
        growing.roll_up(j, dims[j])
    keys = growing.keys()
    order = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    steps = tuple(AdditionStep(step.variable, step.tree, rank[step.child], rank[step.parent]) for step in growing.steps)
    return Closure(packing.unpack([word[order] for word in keys]), rank[place], steps)


class _Packing:
    """Rows of codes as one 64-bit number, or as several where one does not suffice; they order as the rows do."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.word: list[int] = []
        room, number = 1, 0
        for size in sizes:
            if room * size > _MOST:
                room, number = 1, number + 1
            room *= size
            self.word.append(number)
        self.radix = [1] * len(sizes)
        for j in reversed(range(len(sizes) - 1)):
            if self.word[j] == self.word[j + 1]:
                self.radix[j] = self.radix[j + 1] * sizes[j + 1]

    def pack(self, codes: Ints32) -> list[Ints]:
        """Give the words of each row."""
        words = [np.zeros(len(codes), np.int64) for _ in range(self.word[-1] + 1)]
        for j, radix in enumerate(self.radix):
            words[self.word[j]] += codes[:, j].astype(np.int64) * radix
        return words

    def codes(self, words: list[Ints], j: int) -> Ints:
        """Give the codes of one variable."""
        found: Ints = words[self.word[j]] // self.radix[j] % self.sizes[j]
        return found

    def unpack(self, words: list[Ints]) -> Ints32:
        """Give the rows of codes."""
        rows = np.empty((len(words[0]), len(self.sizes)), np.int32)
        for j in range(len(self.sizes)):
            rows[:, j] = self.codes(words, j)
        return rows


class _Growing:
    """Cells found so far, in blocks: first those of leaves, then each block of totals."""

    def __init__(self, keys: list[Ints], packing: _Packing) -> None:
        self.packing = packing
        self.blocks = [keys]
        self.steps: list[AdditionStep] = []
        self.size = len(keys[0])

    def keys(self) -> list[Ints]:
        """Give the words of all cells, and merge the blocks."""
        if len(self.blocks) > 1:
            self.blocks = [[np.concatenate(words) for words in zip(*self.blocks, strict=True)]]
        return self.blocks[0]

    def roll_up(self, j: int, dim: Dimension) -> None:
        """Add the totals along one variable."""
        keys = self.keys()
        here = [(np.arange(self.size), keys, self.packing.codes(keys, j))]
        done = dim.leaves.copy()
        for tree, (parent, depth) in enumerate(zip(dim.parents, dim.depths, strict=True)):
            wanted = (parent >= 0) & ~done[parent]
            for level in range(int(depth.max()), 0, -1):
                found = self._level(j, tree, here, parent, wanted & (depth == level))
                here += [found] if len(found[0]) else []
            done |= depth >= 0

    def _level(
        self,
        j: int,
        tree: int,
        here: Sequence[tuple[Ints, list[Ints], Ints]],
        parent: Ints32,
        chosen: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> tuple[Ints, list[Ints], Ints]:
        """Lift the cells with the chosen codes one step; give number, words and code of the new cells."""
        radix, word = self.packing.radix[j], self.packing.word[j]
        children, lifted = [], []
        for numbers, words, codes in here:
            rows = np.flatnonzero(chosen[codes])
            if len(rows):
                moved = [array[rows] for array in words]
                moved[word] += (parent[codes[rows]].astype(np.int64) - codes[rows]) * radix
                children.append(numbers[rows])
                lifted.append(moved)
        if not children:
            return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
        new, number = _distinct([np.concatenate(words) for words in zip(*lifted, strict=True)])
        first, self.size = self.size, self.size + len(new[0])
        child = np.concatenate(children)
        self.steps.append(AdditionStep(j, tree, child.astype(np.int32), (first + number).astype(np.int32)))
        self.blocks.append(new)
        return np.arange(first, self.size), new, self.packing.codes(new, j)


def _distinct(words: list[Ints]) -> tuple[list[Ints], Ints]:
    """Give the distinct rows in order, and for each row which of them it is."""
    if len(words) == 1:
        keys, number = np.unique(words[0], return_inverse=True)
        return [keys], number
    order = np.lexsort(words[::-1])
    sorted_words = [word[order] for word in words]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for word in sorted_words:
        new[1:] |= word[1:] != word[:-1]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return [word[new] for word in sorted_words], number
