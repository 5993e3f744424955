"""Arithmetic modulo a prime below 2⁶³ in 64-bit words.

A product with a fixed factor w uses Shoup's trick: with ⌊w·2⁶⁴/p⌋ at hand, the quotient is one high product and the
remainder is off by at most one p.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.jit import helper

Words = NDArray[np.uint64]

ZERO, ONE = np.uint64(0), np.uint64(1)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@helper
def high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """Give the upper 64 bits of a product."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    first, second = a_low * b_high, a_high * b_low
    middle = ((a_low * b_low) >> _HALF) + (first & _LOW) + (second & _LOW)
    return a_high * b_high + (first >> _HALF) + (second >> _HALF) + (middle >> _HALF)


@helper
def quotient(w: np.uint64, p: np.uint64) -> np.uint64:
    """Give ⌊w·2⁶⁴/p⌋ for w < p < 2⁶³, by long division."""
    rest, found = w, ZERO
    for _ in range(64):
        rest <<= ONE
        found <<= ONE
        if rest >= p:
            rest -= p
            found |= ONE
    return found


@helper
def times(x: np.uint64, w: np.uint64, w_quotient: np.uint64, p: np.uint64) -> np.uint64:
    """Give x·w mod p, with the quotient of w."""
    rest = x * w - high_product(x, w_quotient) * p
    return rest - p if rest >= p else rest


@helper
def product(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Give a·b mod p."""
    return times(a, b, quotient(b, p), p)


@helper
def inverse(a: np.uint64, p: np.uint64) -> np.uint64:
    """Give 1/a mod p, by Fermat: a to the power p − 2."""
    power, base, left = ONE, a, p - np.uint64(2)
    while left > ZERO:
        if left & ONE:
            power = product(power, base, p)
        base = product(base, base, p)
        left >>= ONE
    return power


@helper
def plus(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Give a + b mod p."""
    total = a + b
    return total - p if total >= p else total


@helper
def minus(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Give a − b mod p."""
    return a - b if a >= b else a + p - b


@helper
def from_halves(low: np.uint64, high: np.uint64, p: np.uint64) -> np.uint64:
    """Give low + 2³²·high mod p."""
    return plus(low % p, product(high % p, (ONE << _HALF) % p, p), p)


@helper
def low_half(a: np.uint64) -> np.uint64:
    """Give the lower 32 bits."""
    return a & _LOW


@helper
def high_half(a: np.uint64) -> np.uint64:
    """Give the upper 32 bits."""
    return a >> _HALF
