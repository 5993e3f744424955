"""One secret prime: a random vector that is orthogonal to every answered row, kept up to date.

Let Q be the rows answered so far (over the field GF(p)). Person i is determined, that is e_i is a combination of
rows, exactly when every null vector of Q is 0 at i. One *random* null vector x is kept:

- A new row q that is a combination of kept rows has q·x = 0. One that is not has q·x ≠ 0 except with probability
  1/p, so that the test "is it new?" costs one sum over the query set.
- For a new row a pivot column b is sought, and x moves along the null vector w of the kept rows with w_b = 1 until
  q·x = 0. On the pivot columns w is −T·c, where c is column b of the kept rows and T the inverse of their pivot
  columns.
- A determined person has x_i = 0 *for certain*; anybody else has it with probability 1/p. The mistake of this test is
  a refusal too many, never an answer too many.

Only pivot columns can be determined (a combination of rows that vanishes on all pivot columns is 0), so that t entries
are looked at, not n. A row costs O(|q| + t²) and O(t·(n/block + block)) for the pivot at worst.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Ints
from discretion.online.audit.elements import Elements, RowStore, longer

Words = NDArray[np.uint64]

_BLOCK_BITS = 9
BLOCK = 2**_BLOCK_BITS
"""Columns whose products with a fixed random vector are kept together, to find pivots quickly."""
_PORTIONS = ((0, 4), (4, 64), (64, BLOCK))
"""columns of a block that are tried together: in most questions one of the first is a pivot"""
_FIRST_CAPACITY = 16


@dataclass
class Step:
    """What a new row would change."""

    pivot: int
    made_of: Words
    moves: Words
    rest: np.uint64
    pivots_after: Words
    pivot_after: np.uint64
    kept: tuple[Words, np.uint64] = field(default=(np.zeros(0, np.uint64), np.uint64(0)))

    def zeros(self, pivots: Ints) -> Ints:
        """Give the columns that are 0 afterwards."""
        found = pivots[self.pivots_after == 0]
        return found if self.pivot_after != 0 else np.append(found, np.int64(self.pivot))


class NullVector:
    """The state for one prime."""

    def __init__(self, prime: int, generator: np.random.Generator, elements: Elements) -> None:
        self.prime = np.uint64(prime)
        self._generator = generator
        self._elements = elements
        self.size = 0
        self.x = np.zeros(0, np.uint64)
        self.y = np.zeros(0, np.uint64)
        self.weights = np.zeros((2, 0), np.uint64)
        self.ready = np.zeros((2, 0), np.uint64)
        self.inverse = np.zeros((_FIRST_CAPACITY, _FIRST_CAPACITY), np.uint64)
        self.pivots = np.zeros(0, np.int64)
        self.stored = np.zeros(0, np.int64)
        self.sums = np.zeros((_FIRST_CAPACITY, 0), np.uint64)
        self.is_pivot = np.zeros(0, np.bool_)
        self.extend()

    def _draw(self, count: int) -> Words:
        return self._generator.integers(1, int(self.prime), count, dtype=np.uint64)

    def extend(self) -> None:
        """Take in new people and new elements: fresh unknowns that occur in no kept row."""
        from discretion.kernels.null_vector import quotients

        people, new = self._elements.people, self._elements.people - len(self.x)
        self.x = np.append(self.x, self._draw(new))
        self.y = np.append(self.y, self._draw(new))
        self.is_pivot = np.append(self.is_pivot, np.zeros(new, np.bool_))
        start = self.weights.shape[1]
        fresh = self._draw(2 * (len(self._elements.owner) - start)).reshape(2, -1)
        fresh[0, self._elements.is_first[start:]] = 1
        self.weights = np.hstack([self.weights, fresh])
        ready = [quotients(np.ascontiguousarray(row), self.prime) for row in fresh]
        self.ready = np.hstack([self.ready, np.vstack(ready)])
        blocks = -(-people // BLOCK)
        self.sums = np.hstack([self.sums, np.zeros((len(self.sums), blocks - self.sums.shape[1]), np.uint64)])

    def plan(self, row: int, power: int, store: RowStore) -> Step | None:
        """Work out what a stored row would change; None when it is a combination of kept rows."""
        from discretion.kernels import null_vector as algebra

        p, members = self.prime, store.members[row]
        about = self._elements
        weight, ready = self.weights[power], self.ready[power]
        product = np.uint64(algebra.weighted_sum(self.x, self._owner(power), weight, ready, members, p))
        if product == 0:
            return None
        line = store.bits[row : row + 1]
        entries = algebra.row_at_columns(line, weight, about.first, about.order, self.pivots, p)
        made_of = algebra.combine_rows(self.inverse, self.size, entries, p)
        self._remember_sums(row, power, store)
        pivot, rest, column = self._find_pivot(row, line, weight, made_of, store)
        moves = algebra.combine_columns(self.inverse, self.size, column, p)
        shift = np.uint64(algebra.ratio(p - product, rest, p))
        after = algebra.shifted(self.x[self.pivots], moves, shift, p)
        own = np.uint64((int(self.x[pivot]) + int(shift)) % int(p))
        return Step(pivot, made_of, moves, rest, after, own)

    def _remember_sums(self, row: int, power: int, store: RowStore) -> None:
        from discretion.kernels.null_vector import block_sums

        if row >= len(self.sums):
            self.sums = longer(self.sums, max(row + 1, 4 * len(self.sums)))
        weight, ready, members = self.weights[power], self.ready[power], store.members[row]
        block_sums(self.y, self._owner(power), weight, ready, members, _BLOCK_BITS, self.sums[row], self.prime)

    def _owner(self, power: int) -> Ints:
        """Give the people of the records; none where records are people and have no weights (sums, power 0)."""
        return self._elements.owner[:0] if power == 0 and self._elements.is_alone else self._elements.owner

    def _find_pivot(
        self, row: int, line: NDArray[np.uint8], weight: Words, made_of: Words, store: RowStore
    ) -> tuple[int, np.uint64, Words]:
        """Find a column where the row differs from what the kept rows make of it."""
        from discretion.kernels import null_vector as algebra

        p, about, block = self.prime, self._elements, -1
        while True:
            block = algebra.block_with_rest(self.sums[row], self.sums, self.stored, made_of, block + 1, p)
            if block < 0:
                raise ArithmeticError("a new row has no pivot column")  # contradicts q·x ≠ 0
            columns = np.arange(block * BLOCK, min((block + 1) * BLOCK, about.people), dtype=np.int64)
            columns = columns[~self.is_pivot[columns]]
            own = algebra.row_at_columns(line, weight, about.first, about.order, columns, p)
            order = np.argsort(own == 0, kind="stable")
            columns, own = columns[order], own[order]
            kept = (store.bits, self.stored, store.powers, self.weights, about.first, about.order)
            for start, end in _PORTIONS:
                made = algebra.made_at_columns(*kept, columns[start:end], made_of, p)
                differing = np.flatnonzero(made != own[start:end])
                if len(differing):
                    place = start + int(differing[0])
                    rest = np.uint64((int(own[place]) - int(made[place - start])) % int(p))
                    return int(columns[place]), rest, algebra.column_of_rows(*kept, columns[place], p)

    def keep(self, step: Step, row: int) -> None:
        """Make a planned row part of the state."""
        from discretion.kernels.null_vector import grow

        if self.size == len(self.inverse):
            capacity = max(_FIRST_CAPACITY, 2 * self.size)
            larger = np.zeros((capacity, capacity), np.uint64)
            larger[: self.size, : self.size] = self.inverse
            self.inverse = larger
        grow(self.inverse, self.size, step.made_of, step.moves, step.rest, self.prime)
        step.kept = (self.x[self.pivots], self.x[step.pivot])
        self.x[self.pivots] = step.pivots_after
        self.x[step.pivot] = step.pivot_after
        self.pivots = np.append(self.pivots, np.int64(step.pivot))
        self.stored = np.append(self.stored, np.int64(row))
        self.is_pivot[step.pivot] = True
        self.size += 1

    def undo(self, step: Step) -> None:
        """Forget the row kept last."""
        from discretion.kernels.null_vector import shrink

        shrink(self.inverse, self.size, self.prime)
        self.size -= 1
        self.pivots, self.stored = self.pivots[:-1], self.stored[:-1]
        self.is_pivot[step.pivot] = False
        self.x[self.pivots], self.x[step.pivot] = step.kept
