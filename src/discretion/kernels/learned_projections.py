"""Projections onto the parameters a distance may have: the simplex, positive matrices of trace 1, monotone measures."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Floats
from discretion.kernels.jit import kernel

_SWEEPS = 2000
_SETTLED = 1e-10


def onto_simplex(p: Floats) -> Floats:
    """Give the nearest vector with parts of at least 0 that sum to 1. Time O(n log n)."""
    descending = np.sort(p)[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, p.size + 1)
    kept = np.flatnonzero(descending > excess)[-1]
    projected: Floats = np.maximum(p - excess[kept], 0.0)
    return np.asarray(projected / projected.sum())


def onto_trace_one(p: Floats) -> Floats:
    """Give the nearest positive semidefinite matrix of trace 1 (flat, row by row): its eigenvalues onto the simplex."""
    d = round(p.size**0.5)
    square = p.reshape(d, d)
    values, vectors = np.linalg.eigh((square + square.T) / 2.0)
    return np.asarray((vectors * onto_simplex(values)) @ vectors.T).ravel()


def onto_monotone(p: Floats) -> Floats:
    """Give the nearest monotone measure: μ(S) by the bits of S, 0 for the empty set, 1 for all, larger for larger sets.

    Dykstra's alternating projections onto the conditions μ(S) ≤ μ(S ∪ j); what rounding leaves is then raised. Time
    O(sweeps·columns·2^columns).
    """
    clipped = np.clip(p, 0.0, 1.0)
    if _is_monotone(clipped) and p[1:-1].size and np.array_equal(clipped[1:-1], p[1:-1]):
        return _with_ends(clipped)
    return _with_ends(_monotone(np.ascontiguousarray(p, np.float64), _SWEEPS, _SETTLED))


def _is_monotone(mu: Floats) -> bool:
    sets = np.arange(mu.size)
    return all((mu[sets] <= mu[sets | 1 << j]).all() for j in range(mu.size.bit_length() - 1))


def _with_ends(mu: Floats) -> Floats:
    mu = mu.copy()
    mu[0], mu[-1] = 0.0, 1.0
    for j in range(mu.size.bit_length() - 1):  # raising along one column after the other reaches every set above
        sets = np.arange(mu.size)
        without = sets[(sets >> j & 1) == 0]
        mu[without | 1 << j] = np.maximum(mu[without | 1 << j], mu[without])
    return np.minimum(mu, 1.0)


@kernel
def _monotone(p: Floats, sweeps: int, settled: float) -> Floats:
    size = p.size
    columns = 0
    while 1 << columns < size:
        columns += 1
    mu = p.copy()
    mu[0], mu[size - 1] = 0.0, 1.0
    memory = np.zeros((columns, size))  # what each condition moved last time, to be taken back first
    for _ in range(sweeps):
        change = 0.0
        for j in range(columns):
            for lower in range(size):
                upper = lower | 1 << j
                if upper == lower:
                    continue
                fixed_low, fixed_high = lower == 0, upper == size - 1
                low = mu[lower] - (0.0 if fixed_low else memory[j, lower])
                high = mu[upper] + (0.0 if fixed_high else memory[j, lower])
                gap = low - high
                move = 0.0
                if gap > 0.0 and not (fixed_low and fixed_high):
                    move = gap if fixed_low or fixed_high else gap / 2.0
                new_low = low if fixed_low else low - move
                new_high = high if fixed_high else high + move
                change = max(change, abs(new_low - mu[lower]), abs(new_high - mu[upper]))
                mu[lower], mu[upper] = new_low, new_high
                memory[j, lower] = -move
        if change < settled:
            break
    return mu
