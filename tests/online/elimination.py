"""The naive reference of the audit: exact elimination over the rationals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def reduced(rows: Sequence[Sequence[int | Fraction]]) -> list[list[Fraction]]:
    """Give the reduced row echelon form without zero rows."""
    matrix = [[Fraction(value) for value in row] for row in rows]
    width, done = (len(matrix[0]) if matrix else 0), 0
    for column in range(width):
        found = next((i for i in range(done, len(matrix)) if matrix[i][column]), None)
        if found is None:
            continue
        matrix[done], matrix[found] = matrix[found], matrix[done]
        lead = matrix[done][column]
        matrix[done] = [value / lead for value in matrix[done]]
        for i, row in enumerate(matrix):
            if i != done and row[column]:
                factor = row[column]
                matrix[i] = [a - factor * b for a, b in zip(row, matrix[done], strict=True)]
        done += 1
    return matrix[:done]


def determined(rows: Sequence[Sequence[int | Fraction]]) -> set[int]:
    """Give the columns whose unit vector is a combination of the rows.

    In reduced form a combination with one nonzero entry only is one row: pivots stand in no other row.
    """
    return {row.index(1) for row in reduced(rows) if sum(value != 0 for value in row) == 1}
