"""The algebra of the linear audit: a random null vector of all rows so far, and the inverse of their pivot columns.

A row is a set of elements (a bit map); an element belongs to a column (person) and carries a weight. `inverse_matrix`
is T = B⁻¹ for the square matrix B of rows × pivot columns. All numbers are modulo a prime.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.jit import helper, kernel

# Arithmetic modulo a prime below 2⁶³ in 64-bit words.
#
# A product with a fixed factor w uses Shoup's trick: with ⌊w·2⁶⁴/p⌋ at hand, the quotient is one high product and the
# remainder is off by at most one p.

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


Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@kernel
def quotients(weights: Words, p: np.uint64) -> Words:
    """Prepare weights for products."""
    found = np.empty_like(weights)
    for place in range(len(weights)):
        found[place] = quotient(weights[place], p)
    return found


@kernel
def weighted_sum(x: Words, owner: Ints, weight: Words, ready: Words, elements: Ints, p: np.uint64) -> np.uint64:
    """Give the product of a row with a vector: Σ weight·x over the elements of the row.

    Without owners every element is a column of its own, of weight 1: then x alone is read, which takes half the time.
    """
    low, high = ZERO, ZERO
    if len(owner) == 0:
        for e in elements:
            low += low_half(x[e])
            high += high_half(x[e])
        return from_halves(low, high, p)
    for e in elements:
        w, value = weight[e], x[owner[e]]
        if w != ONE:
            value = times(value, w, ready[e], p)
        low += low_half(value)
        high += high_half(value)
    return from_halves(low, high, p)


@kernel
def block_sums(
    y: Words, owner: Ints, weight: Words, ready: Words, elements: Ints, bits: int, sums: Words, p: np.uint64
) -> None:
    """Put Σ weight·y per block of 2^bits columns into `sums`; without owners as in `weighted_sum`."""
    low, high = np.zeros_like(sums), np.zeros_like(sums)
    for e in elements if len(owner) == 0 else elements[:0]:
        low[e >> bits] += low_half(y[e])
        high[e >> bits] += high_half(y[e])
    for e in elements[:0] if len(owner) == 0 else elements:
        w, value, place = weight[e], y[owner[e]], owner[e] >> bits
        if w != ONE:
            value = times(value, w, ready[e], p)
        low[place] += low_half(value)
        high[place] += high_half(value)
    for place in range(len(sums)):
        sums[place] = from_halves(low[place], high[place], p)


@kernel
def set_bits(line: Bytes, places: Ints) -> None:
    """Set bits of a bit map, the first one highest."""
    for place in places:
        line[place >> 3] |= np.uint8(128 >> (place & 7))


@helper
def _coefficient(
    bits: Bytes, row: int, weight: Words, first: Ints, order: Ints, column: int, p: np.uint64
) -> np.uint64:
    total = ZERO
    for place in range(first[column], first[column + 1]):
        e = order[place]
        if (bits[row, e >> 3] >> (7 - (e & 7))) & 1:
            total = plus(total, weight[e], p)
    return total


@kernel
def row_at_columns(mask: Bytes, weight: Words, first: Ints, order: Ints, columns: Ints, p: np.uint64) -> Words:
    """Give the entries of one new row (a bit map with one line) in some columns."""
    found = np.empty(len(columns), dtype=np.uint64)
    for place in range(len(columns)):
        found[place] = _coefficient(mask, 0, weight, first, order, columns[place], p)
    return found


@kernel
def column_of_rows(
    bits: Bytes, stored: Ints, powers: Ints, weights: Words, first: Ints, order: Ints, column: int, p: np.uint64
) -> Words:
    """Give the entries of all kept rows in one column."""
    found = np.empty(len(stored), dtype=np.uint64)
    for place in range(len(stored)):
        row = stored[place]
        found[place] = _coefficient(bits, row, weights[powers[row]], first, order, column, p)
    return found


@kernel
def combine_rows(inverse_matrix: Words, size: int, entries: Words, p: np.uint64) -> Words:
    """Give `entries`·T: how the new row is made of the kept ones, as far as the pivot columns tell."""
    total = np.zeros(size, dtype=np.uint64)
    for i in range(size):
        entry = entries[i]
        if entry == ONE:
            for j in range(size):
                sum_ = total[j] + inverse_matrix[i, j]
                total[j] = sum_ - p if sum_ >= p else sum_
        elif entry != ZERO:
            ready = quotient(entry, p)
            for j in range(size):
                total[j] = plus(total[j], times(inverse_matrix[i, j], entry, ready, p), p)
    return total


@kernel
def combine_columns(inverse_matrix: Words, size: int, entries: Words, p: np.uint64) -> Words:
    """Give T·`entries`: how the pivot columns move when the new column does."""
    others = np.flatnonzero(entries > ONE)
    ready = np.empty(len(others), dtype=np.uint64)
    for place in range(len(others)):
        ready[place] = quotient(entries[others[place]], p)
    mask = np.zeros(size, dtype=np.uint64)
    for j in range(size):
        if entries[j] == ONE:
            mask[j] = ~ZERO
    found = np.empty(size, dtype=np.uint64)
    for i in range(size):
        low, high = ZERO, ZERO
        for j in range(size):
            value = inverse_matrix[i, j] & mask[j]
            low += low_half(value)
            high += high_half(value)
        total = from_halves(low, high, p)
        for place in range(len(others)):
            j = others[place]
            total = plus(total, times(inverse_matrix[i, j], entries[j], ready[place], p), p)
        found[i] = total
    return found


@kernel
def made_at_columns(
    bits: Bytes,
    stored: Ints,
    powers: Ints,
    weights: Words,
    first: Ints,
    order: Ints,
    columns: Ints,
    made_of: Words,
    p: np.uint64,
) -> Words:
    """Give what the kept rows, each `made_of` times, add up to in some columns."""
    found = np.zeros(len(columns), dtype=np.uint64)
    for place in range(len(stored)):
        factor, row = made_of[place], stored[place]
        if factor == ZERO:
            continue
        ready, weight = quotient(factor, p), weights[powers[row]]
        for c in range(len(columns)):
            entry = _coefficient(bits, row, weight, first, order, columns[c], p)
            if entry == ONE:
                found[c] = plus(found[c], factor, p)
            elif entry != ZERO:
                found[c] = plus(found[c], times(entry, factor, ready, p), p)
    return found


@kernel
def block_with_rest(sums: Words, stored_sums: Words, stored: Ints, made_of: Words, start: int, p: np.uint64) -> int:
    """Find the first block of columns, from `start`, where the new row is not what the kept rows make; or −1."""
    ready = np.empty(len(stored), dtype=np.uint64)
    for place in range(len(stored)):
        ready[place] = quotient(made_of[place], p)
    for block in range(start, len(sums)):
        total = ZERO
        for place in range(len(stored)):
            if made_of[place] != ZERO:
                value = stored_sums[stored[place], block]
                total = plus(total, times(value, made_of[place], ready[place], p), p)
        if total != sums[block]:
            return block
    return -1


@kernel
def grow(inverse_matrix: Words, size: int, made_of: Words, moves: Words, rest: np.uint64, p: np.uint64) -> None:
    """Give T the new row and column; `rest` is the entry of the reduced row in its pivot column."""
    over = inverse(rest, p)
    for i in range(size):
        factor = product(moves[i], over, p)
        inverse_matrix[i, size] = minus(ZERO, factor, p)
        if factor != ZERO:
            ready = quotient(factor, p)
            for j in range(size):
                sum_ = inverse_matrix[i, j] + times(made_of[j], factor, ready, p)
                inverse_matrix[i, j] = sum_ - p if sum_ >= p else sum_
    for j in range(size):
        inverse_matrix[size, j] = minus(ZERO, product(made_of[j], over, p), p)
    inverse_matrix[size, size] = over


@kernel
def shrink(inverse_matrix: Words, size: int, p: np.uint64) -> None:
    """Undo `grow`: `size` is the size after it."""
    last = size - 1
    rest = inverse(inverse_matrix[last, last], p)
    for i in range(last):
        factor = product(inverse_matrix[i, last], rest, p)
        if factor != ZERO:
            ready = quotient(factor, p)
            for j in range(last):
                taken = times(inverse_matrix[last, j], factor, ready, p)
                inverse_matrix[i, j] = minus(inverse_matrix[i, j], taken, p)


@kernel
def shifted(x: Words, moves: Words, shift: np.uint64, p: np.uint64) -> Words:
    """Give x − shift·moves."""
    ready = quotient(shift, p)
    found = np.empty_like(x)
    for place in range(len(x)):
        found[place] = minus(x[place], times(moves[place], shift, ready, p), p)
    return found


@kernel
def ratio(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Give a/b."""
    return product(a, inverse(b, p), p)
