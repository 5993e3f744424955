"""The mean of 1/F for a class of F people of whom f were sampled: the individual risk of Benedetti & Franconi (R10).

Given f, the people of the class who were not sampled follow a negative binomial distribution with parameters f and p,
p = f/F̂ the estimated sampling fraction of the class. Then, with z = (1−p)/p,

    E(1/F | f) = (p^f / f)·₂F₁(f, f; f+1; 1−p) = ∫₀¹ u^(f−1) / (1 + z·u) du.

The textbook sums lose all digits for large f and for p near 0 or 1. Every way taken below adds positive terms only, or
shrinks its errors from step to step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_LARGE = 10.0
"""class size from which the series ends soon for every p"""
_STEEP = 9.0
"""z up to which the series ends soon for every class size, and above which the recursion shrinks errors"""
_NODES = 16
_PANEL = 2.0
_BLOCK = 4096


def mean_inverse_size(sampled: ArrayLike, people: ArrayLike) -> Floats:
    """Give E(1/F | f) for classes of `sampled` records (at least 1, fractions allowed) that stand for `people` people.

    Exact to about 1e-14 for all sizes and sampling fractions; 1/f where nobody else is thought to be in the population.
    """
    f, total = np.broadcast_arrays(np.asarray(sampled, np.float64), np.asarray(people, np.float64))
    total = np.maximum(total, f)
    z = (total - f) / f
    found = np.empty(f.shape)
    one = (f == 1) & (z > 0)
    series = ~one & ((f >= _LARGE) | (z <= _STEEP))
    whole = ~one & ~series & (f % 1 == 0)
    rest = ~(one | series | whole)
    found[one] = np.log1p(z[one]) / z[one]
    found[series] = _series(f[series], total[series])
    found[whole] = _recursion(f[whole], z[whole])
    found[rest] = _quadrature(f[rest], z[rest])
    return found


def approximate_inverse_size(sampled: ArrayLike, people: ArrayLike) -> Floats:
    """Give p/(f−(1−p)) for classes of more than two records, the exact figure for the others (as sdcMicro does)."""
    f, total = np.broadcast_arrays(np.asarray(sampled, np.float64), np.asarray(people, np.float64))
    total = np.maximum(total, f)
    p = f / total
    small = f <= 2
    found = p / np.where(small, 1.0, f - (1 - p))
    found[small] = mean_inverse_size(f[small], total[small])
    return np.where(total == f, 1 / f, found)


def _series(f: Floats, people: Floats) -> Floats:
    """Sum (p/f)·Σ_j q^j·j!/((f+1)…(f+j)), all terms positive, dropping the classes that have enough terms; q = 1−p."""
    q = (people - f) / people
    total = np.ones_like(f)
    active = np.arange(f.size)
    term, j = np.ones_like(f), 0
    while active.size:
        fs, qs = f[active], q[active]
        term = term * ((j + 1) * qs / (fs + 1 + j))
        total[active] += term
        j += 1
        # what is left is below term·(geometric series in q), and below term·(j+f)/(f−1) for every q
        left = term * np.minimum(qs / np.maximum(1 - qs, 1e-300), (j + fs) / np.maximum(fs - 1, 1e-300))
        going = left > 1e-17 * total[active]
        active, term = active[going], term[going]
    return np.asarray(total / people)


def _recursion(f: Floats, z: Floats) -> Floats:
    """Go from r(1) = ln(1+z)/z by r(f+1) = (1/f − r(f))/z, which divides errors by z at each step."""
    found = np.log1p(z) / z
    for step in range(1, int(f.max(initial=1))):
        go_on = f > step
        found[go_on] = (1 / step - found[go_on]) / z[go_on]
    return found


def _quadrature(f: Floats, z: Floats) -> Floats:
    """Integrate e^(−f·t) / (1 + z·e^(−t)) over t ≥ 0 by Gauss–Legendre rules on short panels."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    found = np.empty_like(f)
    for start in range(0, f.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        end = 40 + np.log1p(z[part].max())
        panels = int(np.ceil(end / _PANEL))
        t = (((nodes + 1) / 2)[None, :] + np.arange(panels)[:, None]).ravel() * _PANEL
        w = np.tile(weights, panels) * (_PANEL / 2)
        found[part] = (np.exp(-np.outer(f[part], t)) / (1 + np.outer(z[part], np.exp(-t)))) @ w
    return found
