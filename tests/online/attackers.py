"""Attackers who know bounds, whole numbers and all answers: which sets they ask about, and what they find out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, eye_array, hstack, vstack

Masks = NDArray[np.bool_]
PRIMES = (2, 3, 5, 7, 11)


def focus(people: int, rng: np.random.Generator, singled: int = 14) -> Iterator[Masks]:
    """Single out a few people and take all others as cover: about fifteen questions, however many people there are."""
    chosen = rng.choice(people, singled, replace=False)
    cover = np.ones(people, np.bool_)
    cover[chosen] = False
    yield cover.copy()
    while True:
        asked = cover & (np.arange(people) < people * 9 // 10)
        asked[chosen] = rng.random(singled) < 0.5
        yield asked


def modular(people: int, rng: np.random.Generator) -> Iterator[tuple[int, Masks]]:
    """Give for each modulus m the m + 1 sets over a target (0) and all blocks but one: their sums add up to x mod m."""
    for m in range(2, 12):
        others = rng.permutation(np.arange(1, people))
        blocks = others[: (m + 1) * (len(others) // (m + 1))].reshape(m + 1, -1)
        for left_out in range(m + 1):
            asked = np.zeros(people, np.bool_)
            asked[0] = True
            asked[np.delete(blocks, left_out, axis=0).ravel()] = True
            yield m, asked


def random_sets(people: int, rng: np.random.Generator) -> Iterator[Masks]:
    """Choose everybody with probability one half."""
    while True:
        yield rng.random(people) < 0.5


def determined(sets: NDArray[np.int64], values: NDArray[np.int64], top: int) -> int:
    """Count the people whose value bounds 0 … top, whole numbers and the true sums leave no choice: integer programs.

    Any other solution shows for everybody who differs in it that the value is not determined; who never differs is
    asked for by a program of their own, with a larger and with a smaller value. The verdict is exact.
    """
    people = len(values)
    sums = LinearConstraint(csr_array(sets), sets @ values, sets @ values)
    free = np.zeros(people, np.bool_)
    for person in range(people):
        for low, high in ((values[person] + 1, top), (0, values[person] - 1)):
            if free[person] or low > high:
                continue
            lower, upper = np.zeros(people), np.full(people, float(top))
            lower[person], upper[person] = low, high
            found = milp(np.zeros(people), constraints=sums, integrality=np.ones(people), bounds=Bounds(lower, upper))
            assert found.status in (0, 2)
            if found.status == 0:
                free |= np.round(found.x).astype(np.int64) != values
    return int((~free).sum())


def interval(
    sets: NDArray[np.int64], values: NDArray[np.int64], top: int, person: int, known: Masks
) -> tuple[int, int]:
    """Give the smallest and largest value of a person for somebody who heard the sums and knows some people."""
    people = len(values)
    sums = LinearConstraint(csr_array(sets), sets @ values, sets @ values)
    bounds = Bounds(np.where(known, values, 0), np.where(known, values, top))
    cost = np.zeros(people)
    ends = []
    for side in (1, -1):
        cost[person] = side
        found = milp(cost, constraints=sums, integrality=np.ones(people), bounds=bounds)
        assert found.status == 0
        ends.append(round(side * found.fun))
    return ends[0], ends[1]


def residues(sets: NDArray[np.int64], prime: int) -> Masks:
    """Say whose value modulo a prime the sums tell: e_i lies in the row space over the field of that many elements."""
    rows = sets % prime
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        at = next((r for r in range(len(pivots), len(rows)) if rows[r, column]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[[top, at]] = rows[[at, top]]
        rows[top] = rows[top] * pow(int(rows[top, column]), -1, prime) % prime
        for r in range(len(rows)):
            if r != top and rows[r, column]:
                rows[r] = (rows[r] - rows[r, column] * rows[top]) % prime
        pivots.append(column)
    told = np.zeros(rows.shape[1], np.bool_)
    for number, column in enumerate(pivots):
        told[column] = np.count_nonzero(rows[number]) == 1
    return told


def least_squares(sets: NDArray[np.int64], told: NDArray[np.float64], prior: float) -> NDArray[np.float64]:
    """Reconstruct values from sums: the values nearest to a prior guess among those that fit best."""
    guess = np.full(sets.shape[1], prior)
    return guess + np.linalg.lstsq(sets.astype(np.float64), told - sets @ guess, rcond=1e-9)[0]


def linear_program(sets: NDArray[np.int64], told: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Reconstruct values from sums: within the bounds, with the smallest sum of absolute errors (Dinur & Nissim)."""
    questions, people = sets.shape
    rows, error = csr_array(sets.astype(np.float64)), eye_array(questions)
    system = vstack([hstack([rows, -error]), hstack([-rows, -error])])
    cost = np.concatenate([np.zeros(people), np.ones(questions)])
    bounds = [(low, high)] * people + [(0, None)] * questions
    found = linprog(cost, A_ub=system, b_ub=np.concatenate([told, -told]), bounds=bounds)
    return np.asarray(found.x[:people], np.float64)
