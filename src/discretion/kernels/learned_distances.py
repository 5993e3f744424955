"""Distances that are linear in their parameters: weighted mean, OWA, bilinear form, Choquet integral (R15).

Two records differ by x_j = v_j² in column j, where v_j is the difference of numbers (in standard deviations) or 0/1 for
categories; a difference with a missing value is the column's mean difference. Each distance is Σ p_k·φ_k(v); what φ is
depends on the form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Progress
from discretion.kernels.jit import helper, kernel

# Projections onto the parameters a distance may have: the simplex, positive matrices of trace 1, monotone measures.

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


# Learned distances from one record to many at a time, column by column, so that several pairs share an instruction.

TILE = 1024  # records compared together: their differences stay in the cache


@helper
def tile_differences(
    query: Floats, published: Floats, nominal: Bools, missing: Floats, begin: Index, width: Index, v: Floats
) -> None:
    """Write the differences of one record from the `width` records from `begin` on; `published` is (columns, n)."""
    for j in range(query.size):
        one, column, out = query[j], published[j], v[j]
        unknown = np.sqrt(missing[j])
        if np.isnan(one):
            out[:width] = unknown
        elif nominal[j]:
            for t in range(width):
                out[t] = 1.0 if column[begin + t] != one else 0.0
            for t in range(width):
                out[t] = unknown if np.isnan(column[begin + t]) else out[t]
        else:
            for t in range(width):
                gap = one - column[begin + t]
                out[t] = unknown if np.isnan(gap) else gap


@helper
def tile_distances(form: Index, p: Floats, v: Floats, bit: Ints32, out: Floats) -> None:
    """Write the distances of a tile from its differences, which are lost; forms are numbered as in `learned_distances`.

    `bit` is (columns, TILE), for the names of the columns while they are sorted.
    """
    if form == 0:
        _weighted(p, v, out)
    elif form == 1:
        _ordered(p, v, out)
    elif form == 2:
        _bilinear(p, v, out)
    elif form == 3:
        _choquet(p, v, bit, out)
    else:
        _pairs(p, v, out)


@helper
def _weighted(p: Floats, v: Floats, out: Floats) -> None:
    out[:] = 0.0
    for j in range(v.shape[0]):
        weight, row = p[j], v[j]
        for t in range(out.size):
            out[t] += weight * row[t] * row[t]


@helper
def _ordered(p: Floats, v: Floats, out: Floats) -> None:
    d, width = v.shape[0], out.size
    for j in range(d):
        for t in range(width):
            v[j, t] *= v[j, t]
    for last in range(d - 1, 0, -1):  # bubble sort of all pairs at once, the smallest last
        for j in range(last):
            one, other = v[j], v[j + 1]
            for t in range(width):
                larger, smaller = max(one[t], other[t]), min(one[t], other[t])
                one[t], other[t] = larger, smaller
    out[:] = 0.0
    for j in range(d):
        weight, row = p[j], v[j]
        for t in range(width):
            out[t] += weight * row[t]


@helper
def _bilinear(p: Floats, v: Floats, out: Floats) -> None:
    d = v.shape[0]
    out[:] = 0.0
    for a in range(d):
        one = v[a]
        for b in range(a, d):
            weight = p[a * d + b] + (p[b * d + a] if b > a else 0.0)
            other = v[b]
            for t in range(out.size):
                out[t] += weight * one[t] * other[t]
    for t in range(out.size):  # positive semidefinite: only rounding makes it negative
        out[t] = max(out[t], 0.0)


@helper
def _choquet(p: Floats, v: Floats, bit: Ints32, out: Floats) -> None:
    d, width = v.shape[0], out.size
    for j in range(d):
        for t in range(width):
            v[j, t] *= v[j, t]
            bit[j, t] = np.int32(1 << j)
    for last in range(d - 1, 0, -1):  # bubble sort of all pairs at once, the largest last
        for j in range(last):
            one, other, name, next_name = v[j], v[j + 1], bit[j], bit[j + 1]
            for t in range(width):
                swap = one[t] > other[t]
                x, y, a, b = one[t], other[t], name[t], next_name[t]
                one[t] = y if swap else x
                other[t] = x if swap else y
                name[t] = b if swap else a
                next_name[t] = a if swap else b
    for t in range(width):
        left = p.size - 1
        below, total = 0.0, 0.0
        for j in range(d):
            total += p[left] * (v[j, t] - below)
            below = v[j, t]
            left -= bit[j, t]
        out[t] = total


@helper
def _pairs(p: Floats, v: Floats, out: Floats) -> None:
    d = v.shape[0]
    out[:] = 0.0
    at = d
    for a in range(d):
        one = v[a]
        for t in range(out.size):
            out[t] += p[a] * one[t] * one[t]
        for b in range(a + 1, d):
            smaller, larger, other = p[at], p[at + 1], v[b]
            for t in range(out.size):
                x, y = one[t] * one[t], other[t] * other[t]
                out[t] += smaller * min(x, y) + larger * max(x, y)
            at += 2


WEIGHTED, OWA, BILINEAR, CHOQUET, CHOQUET_PAIRS = 0, 1, 2, 3, 4
TIE = 1e-9  # relative difference up to which two distances are equal: only rounding separates them
_ZERO = 1e-15  # and the absolute one, for distances that are 0
_BLOCK = 1 << 24  # pairs between two reports of progress
_STEEPEST = 50.0  # exponents are cut here: exp(50) is certain enough


class Records(NamedTuple):
    """Two sides to be compared, (records, columns); categories as whole numbers, NaN where missing."""

    known: Floats
    published: Floats
    nominal: Bools
    missing: Floats
    """squared difference that counts where a value is missing, for each column"""


class NearestRecords(NamedTuple):
    """For each query: the k nearest of the release, how many are tied at the least distance, whether its own is."""

    near: Ints
    distance: Floats
    """the least distance"""
    size: Ints
    right: Bools
    first: Ints
    """the lowest row at the least distance"""


def feature_count(form: int, columns: int) -> int:
    """Give the number of parameters of a form."""
    if form in (WEIGHTED, OWA):
        return columns
    return 1 << columns if form == CHOQUET else columns * columns


def features(form: int, differences: Floats) -> Floats:
    """Give φ for rows of differences v; time O(rows·parameters)."""
    out = np.empty((differences.shape[0], feature_count(form, differences.shape[1])))
    _fill_features(form, np.ascontiguousarray(differences, np.float64), out)
    return out


def differences(records: Records, first: Ints, second: Ints) -> Floats:
    """Give the differences v of some pairs."""
    out = np.empty((first.size, records.known.shape[1]))
    _fill_differences(records.known, records.published, records.nominal, records.missing, first, second, out)
    return out


def nearest(
    form: int, records: Records, p: Floats, rows: Ints, own: Ints, k: int, progress: Progress
) -> NearestRecords:
    """Compare the queries `rows` with the whole release; `own[q]` is the right row of query q, −1 if none."""
    m = rows.size
    k = min(k, records.published.shape[0])
    found = NearestRecords(np.empty((m, k), np.int64), np.empty(m), np.empty(m, np.int64), np.empty(m, np.bool_),
                    np.empty(m, np.int64))  # fmt: skip
    step = max(1, _BLOCK // records.published.shape[0])
    by_column = np.ascontiguousarray(records.published.T)
    for start in range(0, m, step):
        progress(start, m, "distances")
        _nearest(form, records.known, by_column, records.nominal, records.missing, p, rows, own, start,
                 min(m, start + step), found.near, found.distance, found.size, found.right, found.first)  # fmt: skip
    return found


def soft_count(form: int, records: Records, p: Floats, rows: Ints, own: Ints, near: Ints, scale: float) -> tuple[
    float, float, Floats
]:  # fmt: skip
    """Give Σ 1/(1 + Σ_j exp(−(d_j − d_own)/scale)) over the queries, the hard count on the candidates, the gradient.

    `near` holds the candidates j of each query. A query without own record does not count. Time
    O(candidates·parameters).
    """
    gradient = np.zeros(p.size)
    soft, hard = _soft_count(form, records.known, records.published, records.nominal, records.missing, p, rows, own,
                             near, scale, gradient)  # fmt: skip
    return soft, hard, gradient


@helper
def _difference(
    known: Floats, published: Floats, nominal: Bools, missing: Floats, a: Index, b: Index, v: Floats
) -> None:
    for j in range(v.size):
        one, other = known[a, j], published[b, j]
        if np.isnan(one) or np.isnan(other):
            v[j] = np.sqrt(missing[j])
        elif nominal[j]:
            v[j] = 1.0 if one != other else 0.0
        else:
            v[j] = one - other


@helper
def _sort_descending(x: Floats) -> None:
    for i in range(1, x.size):
        value = x[i]
        j = i
        while j > 0 and x[j - 1] < value:
            x[j] = x[j - 1]
            j -= 1
        x[j] = value


@helper
def _choquet_features(x: Floats, phi: Floats) -> None:
    """φ_S = min of x over S minus max of x outside S where positive: at most one set for each column."""
    phi[:] = 0.0
    left = phi.size - 1
    below = 0.0
    for _ in range(x.size):
        lowest, where = np.inf, 0
        for j in range(x.size):
            if left >> j & 1 and x[j] < lowest:
                lowest, where = x[j], j
        phi[left] += lowest - below
        below = lowest
        left &= ~(1 << where)


@helper
def _pair_features(x: Floats, phi: Floats) -> None:
    """Single columns, then for each pair of columns the smaller and the larger."""
    d = x.size
    phi[:d] = x
    at = d
    for a in range(d):
        for b in range(a + 1, d):
            phi[at] = min(x[a], x[b])
            phi[at + 1] = max(x[a], x[b])
            at += 2


@helper
def _features_of(form: Index, v: Floats, x: Floats, phi: Floats) -> None:
    d = v.size
    for j in range(d):
        x[j] = v[j] * v[j]
    if form == 2:
        for a in range(d):
            for b in range(d):
                phi[a * d + b] = v[a] * v[b]
    elif form == 3:
        _choquet_features(x, phi)
    elif form == 4:
        _pair_features(x, phi)
    else:
        if form == 1:
            _sort_descending(x)
        phi[:] = x


@helper
def _distance(p: Floats, phi: Floats) -> float:
    total = 0.0
    for k in range(p.size):
        total += p[k] * phi[k]
    return total


@kernel
def _fill_features(form: int, v: Floats, out: Floats) -> None:
    x = np.empty(v.shape[1])
    for i in range(v.shape[0]):
        _features_of(form, v[i], x, out[i])


@kernel
def _fill_differences(
    known: Floats, published: Floats, nominal: Bools, missing: Floats, first: Ints, second: Ints, out: Floats
) -> None:
    for i in range(first.size):
        _difference(known, published, nominal, missing, first[i], second[i], out[i])


@kernel
def _nearest(
    form: int, known: Floats, published: Floats, nominal: Bools, missing: Floats, p: Floats, rows: Ints, own: Ints,
    start: int, stop: int, near: Ints, least: Floats, size: Ints, right: Bools, first: Ints,
) -> None:  # fmt: skip
    d, n = published.shape
    k = near.shape[1]
    v, bit = np.empty((d, TILE)), np.empty((d, TILE), np.int32)
    distance = np.empty(n)
    kept = np.empty(k)
    for q in range(start, stop):
        for begin in range(0, n, TILE):
            width = min(TILE, n - begin)
            tile_differences(known[rows[q]], published, nominal, missing, begin, width, v)
            tile_distances(form, p, v, bit, distance[begin : begin + width])
        filled = 0
        for b in range(n):
            here = distance[b]
            if filled < k or here < kept[filled - 1]:
                at = filled if filled < k else k - 1
                while at > 0 and kept[at - 1] > here:
                    kept[at] = kept[at - 1]
                    near[q, at] = near[q, at - 1]
                    at -= 1
                kept[at] = here
                near[q, at] = b
                filled = min(filled + 1, k)
        limit = max(kept[0] * (1.0 + TIE), kept[0] + _ZERO)
        count = 0
        lowest = -1
        for b in range(n):
            if distance[b] <= limit:
                count += 1
                if lowest < 0:
                    lowest = b
        least[q] = kept[0]
        size[q] = count
        first[q] = lowest
        right[q] = own[q] >= 0 and distance[own[q]] <= limit


@kernel
def _soft_count(
    form: int, known: Floats, published: Floats, nominal: Bools, missing: Floats, p: Floats, rows: Ints, own: Ints,
    near: Ints, scale: float, gradient: Floats,
) -> tuple[float, float]:  # fmt: skip
    d, k, parameters = known.shape[1], near.shape[1], p.size
    v, x, mine = np.empty(d), np.empty(d), np.empty(parameters)
    phi = np.empty(parameters)
    pull = np.empty(parameters)
    soft, hard = 0.0, 0.0
    for q in range(rows.size):
        if own[q] < 0:
            continue
        _difference(known, published, nominal, missing, rows[q], own[q], v)
        _features_of(form, v, x, mine)
        d_own = _distance(p, mine)
        pull[:] = 0.0
        total, tied, beaten = 0.0, 1, False
        for c in range(k):
            if near[q, c] == own[q]:
                continue
            _difference(known, published, nominal, missing, rows[q], near[q, c], v)
            _features_of(form, v, x, phi)
            gap = _distance(p, phi) - d_own
            if gap < -TIE * d_own - _ZERO:
                beaten = True
            elif gap <= TIE * d_own + _ZERO:
                tied += 1
            e = np.exp(min(max(-gap / scale, -_STEEPEST), _STEEPEST))
            total += e
            for f in range(parameters):
                pull[f] += e * (phi[f] - mine[f])
        share = 1.0 / (1.0 + total)
        soft += share
        if not beaten:
            hard += 1.0 / tied
        for f in range(parameters):
            gradient[f] += share * share * pull[f] / scale
    return soft, hard
