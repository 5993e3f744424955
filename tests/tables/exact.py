"""Exact linear algebra with fractions: what can be computed from published cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Vector = list[Fraction]


class Span:
    """The combinations of some vectors, kept in row echelon form."""

    def __init__(self) -> None:
        self.basis: dict[int, Vector] = {}

    def reduced(self, vector: Vector) -> Vector:
        vector = list(vector)
        for place, row in sorted(self.basis.items()):
            if vector[place]:
                factor = vector[place]
                vector = [a - factor * b for a, b in zip(vector, row, strict=True)]
        return vector

    def add(self, vector: Vector) -> None:
        vector = self.reduced(vector)
        place = next((i for i, a in enumerate(vector) if a), None)
        if place is not None:
            self.basis[place] = [a / vector[place] for a in vector]

    def holds(self, vector: Vector) -> bool:
        return not any(self.reduced(vector))

    def copy(self) -> Span:
        new = Span()
        new.basis = dict(self.basis)
        return new


def columns(x: NDArray[np.int8]) -> list[Vector]:
    """Give the columns of inner cells × published cells."""
    return [[Fraction(int(a)) for a in x[:, j]] for j in range(x.shape[1])]


def unit(n: int, i: int) -> Vector:
    return [Fraction(int(j == i)) for j in range(n)]


def learned(span: Span, cell: Vector, own: list[int]) -> bool:
    """Tell whether somebody who knows inner cells can compute a cell, beyond what everybody can."""
    with_own = span.copy()
    for row in own:
        with_own.add(unit(len(cell), row))
    others = [a if i not in own else Fraction(0) for i, a in enumerate(cell)]
    return with_own.holds(cell) and any(others) and not span.holds(others)
