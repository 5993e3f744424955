"""Number or count 64-bit keys: by address when the keys are small, else by hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Ints, Ints32, Keys
from discretion.kernels.jit import kernel, lean_helper, lean_kernel

# A keyed hash of many numbers that is as fast as reading them (NH: sums of products of 32-bit halves).
#
# For two different lists of one length, and random keys, each of the three sums is the same with probability at most
# 2⁻³², and all three with at most 2⁻⁹⁶ (Black, Halevi, Krawczyk, Krovetz & Rogaway, CRYPTO 1999; the keys of each sum
# are those of the one before, shifted by one pair). This holds while keys and sums stay secret.

MORE_KEYS = 2
"""How many keys are needed beyond one for each number."""

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MINUS_ZERO = np.uint64(0x8000000000000000)
_INFINITE = np.uint64(0x7FF0000000000000)
_NAN = np.uint64(0x7FF8000000000000)


def hash_floats(values: NDArray[np.float64], keys: Keys) -> Keys:
    """Return three sums for a list of numbers; −0.0 counts as 0.0, and every NaN as the same. Time O(n)."""
    if len(keys) < len(values) + MORE_KEYS:
        raise ValueError(f"{len(values)} numbers need {len(values) + MORE_KEYS} keys, got {len(keys)}")
    given = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    given.flags.writeable = False
    sums = np.zeros(3, np.uint64)
    _sums(given, keys, sums)
    return sums


@lean_kernel
def _sums(words: Keys, keys: Keys, sums: Keys) -> None:
    one, two, three = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(words.size):
        word = words[i]
        word = np.uint64(0) if word == _MINUS_ZERO else word
        word = _NAN if word & ~_MINUS_ZERO > _INFINITE else word
        high = word >> _HALF
        one += ((word + keys[i]) & _LOW) * ((high + (keys[i] >> _HALF)) & _LOW)
        two += ((word + keys[i + 1]) & _LOW) * ((high + (keys[i + 1] >> _HALF)) & _LOW)
        three += ((word + keys[i + 2]) & _LOW) * ((high + (keys[i + 2] >> _HALF)) & _LOW)
    sums[0], sums[1], sums[2] = one, two, three


_FIRST_TABLE = 1 << 15
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: multiplying by it spreads the bits


@lean_kernel
def count_places(places: Ints, start: int, counts: NDArray[np.signedinteger[Any]], first: Ints) -> None:
    """Add rows to the counts of their places, and note the first row of each; the rows are numbered from `start`."""
    for row in range(places.size):
        place = places[row]
        if counts[place] == 0:
            first[place] = start + row
        counts[place] += 1


def dense_ids_by_address(keys: Keys, radix: int) -> tuple[Ints32, Ints, Ints]:
    """Number keys 0 … radix−1 by a table with one place for each; return ids, counts and first rows.

    Time O(n + radix), memory 4 bytes for each possible key.
    """
    most = min(keys.size, radix)
    ids = np.empty(keys.size, np.int32)
    counts = np.zeros(most, np.int64)
    first_row = np.empty(most, np.int64)
    distinct = _number_by_address(keys, np.zeros(radix, np.int32), ids, counts, first_row)
    return ids, counts[:distinct], first_row[:distinct]


def dense_ids_by_hash(keys: Keys) -> tuple[Ints32, Ints, Ints]:
    """Number any keys by a hash table that grows with the distinct ones; return ids, counts and first rows.

    Time O(n) expected, memory up to 32 bytes for each distinct key.
    """
    n = keys.size
    keys = keys.view()
    keys.flags.writeable = False  # one kernel for all kinds of keys
    ids = np.empty(n, np.int32)
    seen = np.empty(n, np.uint64)  # the distinct keys: reading them by class spares the way through first_row
    counts = np.empty(n, np.int64)
    first_row = np.empty(n, np.int64)
    table = np.zeros(_FIRST_TABLE, np.int32)
    row, distinct = _number_by_hash(keys, 0, 0, table, seen, ids, counts, first_row)
    while row < n:
        expected = min(n, 2 * distinct + distinct * (n - row) // row)
        table = np.zeros(1 << (2 * expected - 1).bit_length(), np.int32)
        _fill_table(seen[:distinct], table)
        row, distinct = _number_by_hash(keys, row, distinct, table, seen, ids, counts, first_row)
    return ids, counts[:distinct].copy(), first_row[:distinct].copy()


def count_by_hash(keys: Keys) -> Ints:
    """Return how often each distinct key occurs, in no particular order.

    Keys are first spread over parts small enough for their tables to stay in the cache, which is twice as
    fast as numbering. Time O(n) expected, memory 24 bytes a row.
    """
    part_bits = max(1, keys.size // 2048).bit_length()
    parted, starts = _partition(keys, part_bits)
    largest = int(np.diff(starts).max())
    counts = np.empty(keys.size, np.int64)
    table = np.empty(1 << (2 * largest).bit_length(), np.int32)
    distinct = _count_parts(parted, starts, table, counts)
    return counts[:distinct].copy()


@lean_kernel
def _number_by_address(keys: Keys, table: Ints32, ids: Ints32, counts: Ints, first_row: Ints) -> int:
    distinct = 0
    for row in range(keys.size):
        key = keys[row]
        number = table[key]  # 1 + the class; 0 says that the key is new
        if number == 0:
            first_row[distinct] = row
            distinct += 1
            number = distinct
            table[key] = number
        ids[row] = number - 1
        counts[number - 1] += 1
    return distinct


@lean_kernel
def _number_by_hash(
    keys: Keys,
    row: int,
    distinct: int,
    table: Ints32,
    seen: Keys,
    ids: Ints32,
    counts: Ints,
    first_row: Ints,
) -> tuple[int, int]:
    """Go on at `row` to the end, or until the table is half full; return where it stopped and the classes."""
    limit = table.size // 2
    while row < keys.size and distinct < limit:
        key = keys[row]
        place = _place(key, table)
        number = table[place]  # 1 + the class; 0 says that the place is empty
        while number != 0 and seen[number - 1] != key:
            place = (place + 1) & (table.size - 1)
            number = table[place]
        if number == 0:
            table[place] = distinct + 1
            seen[distinct] = key
            counts[distinct] = 1
            first_row[distinct] = row
            ids[row] = distinct
            distinct += 1
        else:
            counts[number - 1] += 1
            ids[row] = number - 1
        row += 1
    return row, distinct


@lean_helper
def _place(key: np.uint64, table: Ints32) -> int:
    """Return where the search for a key begins; the size of the table is a power of two."""
    return int(_spread(key) >> np.uint64(32)) & (table.size - 1)


@lean_helper
def _spread(key: np.uint64) -> np.uint64:
    """Mix the bits of a key. The high half is folded in first: small whole floats differ only there."""
    return (key ^ (key >> np.uint64(32))) * _GOLDEN


@lean_kernel
def _fill_table(seen: Keys, table: Ints32) -> None:
    for number in range(seen.size):
        place = _place(seen[number], table)
        while table[place] != 0:
            place = (place + 1) & (table.size - 1)
        table[place] = number + 1


@kernel
def _partition(keys: Keys, part_bits: int) -> tuple[Keys, Ints]:
    """Reorder keys by the highest bits of their mix; return them and where each part starts."""
    shift = np.uint64(64 - part_bits)
    starts = np.zeros((1 << part_bits) + 2, np.int64)  # of part p at p + 1 while keys are placed, then at p
    for row in range(keys.size):
        starts[int(_spread(keys[row]) >> shift) + 2] += 1
    for part in range(2, starts.size):
        starts[part] += starts[part - 1]
    parted = np.empty_like(keys)
    for row in range(keys.size):
        part = int(_spread(keys[row]) >> shift)
        parted[starts[part + 1]] = keys[row]
        starts[part + 1] += 1
    return parted, starts[:-1]


@kernel
def _count_parts(parted: Keys, starts: Ints, table: Ints32, counts: Ints) -> int:
    """Count each part by its own table; the distinct keys overwrite the keys already counted."""
    distinct = 0
    for part in range(starts.size - 1):
        start, end = starts[part], starts[part + 1]
        size = 1
        while size < 2 * (end - start):  # a key that fills one part must not make all the tables large
            size *= 2
        own = table[:size]
        own[:] = 0
        for row in range(start, end):
            key = parted[row]
            place = _place(key, own)
            number = own[place]
            while number != 0 and parted[number - 1] != key:
                place = (place + 1) & (size - 1)
                number = own[place]
            if number == 0:
                parted[distinct] = key
                counts[distinct] = 1
                distinct += 1
                own[place] = distinct
            else:
                counts[number - 1] += 1
    return distinct
