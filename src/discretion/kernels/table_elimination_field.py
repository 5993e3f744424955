"""Arithmetic modulo the prime 2⁶¹ − 1: exact elimination without fractions.

Remainders look random, so that a branch on them costs more than the arithmetic: the sign bit (`>> 63`) stands for it.
"""

from __future__ import annotations

from discretion.kernels.arrays import Ints
from discretion.kernels.jit import helper

PRIME = (1 << 61) - 1
"""A Mersenne prime: the remainder needs shifts only, and a sum of two remainders fits 64 bits."""

_LOW30 = (1 << 30) - 1
_LOW31 = (1 << 31) - 1


@helper
def plus(a: int, b: int) -> int:
    """Add two remainders."""
    total = a + b - PRIME
    return total + (PRIME & (total >> 63))


@helper
def minus(a: int, b: int) -> int:
    """Subtract two remainders."""
    difference = a - b
    return difference + (PRIME & (difference >> 63))


@helper
def _folded(x: int) -> int:
    low = (x & PRIME) + (x >> 61)
    return low - PRIME if low >= PRIME else low


@helper
def times(a: int, b: int) -> int:
    """Multiply two remainders; table structures have ±1 nearly everywhere, so those come first."""
    if a == 1:
        return b
    if b == 1:
        return a
    if a == PRIME - 1:
        return minus(0, b)
    if b == PRIME - 1:
        return minus(0, a)
    a_high, a_low, b_high, b_low = a >> 31, a & _LOW31, b >> 31, b & _LOW31
    middle = a_low * b_high + a_high * b_low
    upper = _folded(a_high * b_high * 2 + (middle >> 30) + ((middle & _LOW30) << 31))
    return _folded(upper + a_low * b_low)


@helper
def inverse(a: int) -> int:
    """Give the remainder whose product with `a` is 1 (Fermat: the power PRIME − 2)."""
    if a == 1 or a == PRIME - 1:
        return a
    power, result, exponent = a, 1, PRIME - 2
    while exponent > 0:
        if exponent & 1:
            result = times(result, power)
        power = times(power, power)
        exponent >>= 1
    return result


@helper
def invert_all(values: Ints, n: int, scratch: Ints) -> None:
    """Replace the first n remainders (none 0) by their inverses, with one inversion for all."""
    if n == 0:
        return
    product = 1
    for i in range(n):
        scratch[i] = product
        product = times(product, values[i])
    back = inverse(product)
    for i in range(n - 1, -1, -1):
        value = values[i]
        values[i] = times(back, scratch[i])
        back = times(back, value)
