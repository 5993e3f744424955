"""Learned distances from one record to many at a time, column by column, so that several pairs share an instruction."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Index, Ints32
from discretion.kernels.jit import helper

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
