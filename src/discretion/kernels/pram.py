"""Random moves between categories: alias tables of a transition matrix, one uniform number and O(1) per draw (P17)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.kernels.arrays import Floats, Ints32, as_matrix, as_vector
from discretion.kernels.jit import helper, kernel

Places = NDArray[np.uint32]


class AliasTables(NamedTuple):
    """One alias table per row of a transition matrix of K categories, and one for missing values (code K)."""

    size: int
    """K, the number of categories"""
    bounds: Floats
    """for each row and hit column: the hit's probability of being kept"""
    options: Places
    """for each row and hit column: what is taken if it is kept, and if not"""


def alias_tables(matrix: ArrayLike) -> AliasTables:
    """Build the alias table of each row of a square matrix of probabilities whose rows sum to one.

    Time and memory O(K²) for K categories.
    """
    rows = as_matrix(matrix)
    if rows.shape[0] != rows.shape[1] or not len(rows):
        raise ValueError(f"expected a square matrix, got {rows.shape[0]} × {rows.shape[1]}")
    if rows.min() < 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-9:
        raise ValueError("the rows of the matrix must be probabilities that sum to one")
    size = len(rows)
    stay, other = _alias_tables(rows / rows.sum(axis=1, keepdims=True))
    options = np.full((size + 1, size, 2), size, np.uint32)
    options[:size, :, 0] = np.arange(size)
    options[:size, :, 1] = other
    return AliasTables(size, np.append(stay, np.ones((1, size)), axis=0).ravel(), options.ravel())


def move(codes: NDArray[np.integer[Any]], uniforms: ArrayLike, tables: AliasTables, out: Places) -> None:
    """Draw the new category of each code by the row of its old one; the code K (missing) stays.

    `uniforms` are independent numbers in [0, 1), one for each code; `out` is overwritten. Time O(n).
    """
    old = np.require(codes, dtype=np.int32, requirements=["C", "A", "W"])
    numbers = as_vector(uniforms)
    if not old.shape == numbers.shape == out.shape:
        raise ValueError(f"{old.size} codes, {numbers.size} uniform numbers and {out.size} places do not fit")
    if old.size and (old.min() < 0 or old.max() > tables.size):
        raise ValueError(f"codes outside 0 … {tables.size}")
    _move(old, numbers, tables.size, tables.bounds, tables.options, out)


@kernel
def _alias_tables(rows: Floats) -> tuple[Floats, Ints32]:
    size = rows.shape[0]
    stay = np.ones((size, size))
    other = np.zeros((size, size), np.int32)
    light = np.empty(size, np.int64)
    heavy = np.empty(size, np.int64)
    for row in range(size):
        _fill_row(rows[row] * size, stay[row], other[row], light, heavy)
    return stay, other


@helper
def _fill_row(mass: Floats, stay: Floats, other: Ints32, light: Any, heavy: Any) -> None:
    """Fill up each column of less than average mass from one of more (Walker, Vose)."""
    lights, heavies = 0, 0
    for j in range(mass.size):
        other[j] = j
        if mass[j] < 1.0:
            light[lights] = j
            lights += 1
        else:
            heavy[heavies] = j
            heavies += 1
    while lights > 0 and heavies > 0:
        lights -= 1
        low = light[lights]
        high = heavy[heavies - 1]
        stay[low] = mass[low]
        other[low] = high
        mass[high] -= 1.0 - mass[low]
        if mass[high] < 1.0:
            heavies -= 1
            light[lights] = high
            lights += 1


@kernel
def _move(codes: Ints32, uniforms: Floats, size: int, bounds: Floats, options: Places, out: Places) -> None:
    """Address the answer by arithmetic: a branch that nobody can predict costs five times as much."""
    for i in range(codes.size):
        scaled = uniforms[i] * size
        hit = min(int(scaled), size - 1)
        place = int(codes[i]) * size + hit
        out[i] = options[2 * place + int(scaled - hit >= bounds[place])]
