"""Agreement patterns of all pairs of records: how often each occurs, and the best pattern of each record.

A pair's pattern is one number in mixed radix: level of column j times `place[j]`, summed. Nothing is kept of a pair but
this number, and that only for the few thousand pairs of a tile; time O(pairs·columns), memory O(records + patterns).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Index, Ints, Ints32, Progress
from discretion.kernels.jit import helper, kernel

# Similarity of short texts after Jaro and Winkler, for names and addresses that were typed differently.

_PREFIX = 4  # letters at the beginning that count more
_PREFIX_WEIGHT = 0.1


def similarity_levels(one: Sequence[str], other: Sequence[str], thresholds: Sequence[float]) -> NDArray[np.uint8]:
    """Give for each pair of texts how many thresholds their similarity reaches, one level more where they are equal.

    Time O(len(one)·len(other)·length²), memory one byte a pair.
    """
    letters_a, start_a = _letters(one)
    letters_b, start_b = _letters(other)
    levels = np.zeros((len(one), len(other)), np.uint8)
    longest = int(max(np.diff(start_a).max(initial=0), np.diff(start_b).max(initial=0)))
    _levels(letters_a, start_a, letters_b, start_b, np.sort(np.asarray(thresholds, np.float64)), longest, levels)
    return levels


def _letters(texts: Sequence[str]) -> tuple[Ints32, Ints]:
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return np.array([ord(letter) for text in texts for letter in text], np.int32), start


@helper
def jaro_winkler(a: Ints32, b: Ints32, used_a: NDArray[np.bool_], used_b: NDArray[np.bool_]) -> float:
    """Give the similarity of two texts, from 0 (no letter in common) to 1 (equal)."""
    n, m = a.size, b.size
    if n == 0 or m == 0:
        return 1.0 if n == m else 0.0
    reach = max(max(n, m) // 2 - 1, 0)
    used_a[:n] = False
    used_b[:m] = False
    common = 0
    for i in range(n):
        for j in range(max(0, i - reach), min(m, i + reach + 1)):
            if not used_b[j] and a[i] == b[j]:
                used_a[i] = True
                used_b[j] = True
                common += 1
                break
    if common == 0:
        return 0.0
    turned, j = 0, 0
    for i in range(n):
        if used_a[i]:
            while not used_b[j]:
                j += 1
            turned += a[i] != b[j]
            j += 1
    jaro = (common / n + common / m + (common - turned // 2) / common) / 3.0
    same = 0
    while same < min(_PREFIX, n, m) and a[same] == b[same]:
        same += 1
    return jaro + same * _PREFIX_WEIGHT * (1.0 - jaro)


@kernel
def _levels(
    letters_a: Ints32, start_a: Ints, letters_b: Ints32, start_b: Ints, thresholds: Floats, longest: int,
    levels: NDArray[np.uint8],
) -> None:  # fmt: skip
    used_a, used_b = np.empty(longest, np.bool_), np.empty(longest, np.bool_)
    for i in range(levels.shape[0]):
        a = letters_a[start_a[i] : start_a[i + 1]]
        for k in range(levels.shape[1]):
            b = letters_b[start_b[k] : start_b[k + 1]]
            similarity = jaro_winkler(a, b, used_a, used_b)
            level = 0
            for t in range(thresholds.size):
                level += similarity >= thresholds[t]
            levels[i, k] = level + (similarity >= 1.0)


_TILE = 2048  # pairs whose patterns stay in the first-level cache
_PAIRS = 1 << 25  # pairs between two reports of progress

Levels8 = NDArray[np.uint8]


class Rules(NamedTuple):
    """How the columns are compared. Level 0 of a column is "missing" where `offset` is 1, "differs" where it is 0."""

    tolerances: Floats
    """(numbers, tolerances): a difference counts a level for each tolerance it does not exceed"""
    tables: tuple[Levels8, ...]
    """levels of two codes, for the categories that have a table; others have an empty one: equal codes agree"""
    offset: Ints
    """1 where a value of the column is missing somewhere, numbers first"""
    place: Ints
    """what one level of the column adds to the pattern, numbers first"""


class Side(NamedTuple):
    """Distinct records of one side."""

    numbers: Floats
    """(numbers, records), NaN where missing"""
    codes: Ints32
    """(categories, records), −1 where missing"""
    weight: Ints
    """how many records are equal to this one, itself included"""
    row: Ints
    """the lowest row of them"""


class Best(NamedTuple):
    """The patterns of highest rank of each record of the first side."""

    rank: Ints
    size: Ints
    """how many records of the second side have that rank with it"""
    row: Ints
    """the lowest row of these"""


def count_patterns(one: Side, other: Side, rules: Rules, patterns: int, progress: Progress) -> Ints:
    """Count each pattern over all pairs, equal records as often as they occur."""
    counts = np.zeros(patterns, np.int64)
    tables = _flat(rules)
    for start, stop in _blocks(one, other, progress, "comparing all pairs"):
        _count(start, stop, one.numbers, one.codes, one.weight, other.numbers, other.codes, other.weight,
               rules.tolerances, tables, rules.offset, rules.place, counts)  # fmt: skip
    return counts


def best_patterns(one: Side, other: Side, rules: Rules, rank: Ints32, progress: Progress) -> Best:
    """Find for each record of `one` the pairs whose pattern has the highest rank."""
    n = one.weight.size
    best = Best(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
    tables = _flat(rules)
    for start, stop in _blocks(one, other, progress, "linking"):
        _best(start, stop, one.numbers, one.codes, other.numbers, other.codes, other.weight, other.row,
              rules.tolerances, tables, rules.offset, rules.place, rank, best.rank, best.size, best.row)  # fmt: skip
    return best


def pair_patterns(one: Side, other: Side, rules: Rules, first: Ints, second: Ints) -> Ints:
    """Give the pattern of some pairs of records (by position in the sides)."""
    out = np.empty(first.size, np.int64)
    _pairs(one.numbers, one.codes, other.numbers, other.codes, rules.tolerances, _flat(rules), rules.offset,
           rules.place, first, second, out)  # fmt: skip
    return out


def _blocks(one: Side, other: Side, progress: Progress, label: str) -> Iterator[tuple[int, int]]:
    n = one.weight.size
    step = max(1, _PAIRS // max(1, other.weight.size))
    for start in range(0, n, step):
        progress(start, n, label)
        yield start, min(n, start + step)
    progress(n, n, label)


def _flat(rules: Rules) -> tuple[Levels8, Ints, Ints]:
    sizes = np.array([table.size for table in rules.tables], np.int64)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    values = np.concatenate([np.zeros(1, np.uint8), *(table.ravel() for table in rules.tables)])
    width = np.array([table.shape[1] if table.size else 0 for table in rules.tables], np.int64)
    return values, start + 1, width


@helper
def _tile_numbers(
    i: Index, numbers_a: Floats, numbers_b: Floats, tolerances: Floats, offset: Ints, place: Ints, begin: Index,
    size: Index, gaps: Floats, out: Ints32,
) -> None:  # fmt: skip
    """Add the levels of the numbers of record i and the `size` records from `begin` on."""
    for j in range(numbers_a.shape[0]):
        value = numbers_a[j, i]
        column = numbers_b[j]
        unit = np.int32(place[j])
        for t in range(size):
            gaps[t] = abs(value - column[begin + t])
        for q in range(tolerances.shape[1]):
            limit = tolerances[j, q]
            for t in range(size):
                out[t] += unit * np.int32(gaps[t] <= limit)
        if offset[j]:
            for t in range(size):
                out[t] += unit * np.int32(gaps[t] >= 0.0)  # not so for NaN


@helper
def _tile_codes(
    i: Index, codes_a: Ints32, codes_b: Ints32, tables: tuple[Levels8, Ints, Ints], offset: Ints, place: Ints,
    begin: Index, size: Index, out: Ints32,
) -> None:  # fmt: skip
    """Add the levels of the categories; `offset` and `place` begin with those of the categories."""
    values, start, width = tables
    for c in range(codes_a.shape[0]):
        code = codes_a[c, i]
        unit = np.int32(place[c])
        if code < 0:
            continue
        column = codes_b[c]
        if width[c]:
            row = start[c] + code * width[c]
            for t in range(size):
                if column[begin + t] >= 0:
                    out[t] += unit * np.int32(values[row + column[begin + t]])
        else:
            for t in range(size):
                out[t] += unit * np.int32(column[begin + t] == code)
        if offset[c]:
            for t in range(size):
                out[t] += unit * np.int32(column[begin + t] >= 0)


@helper
def _tile_patterns(
    i: Index, numbers_a: Floats, codes_a: Ints32, numbers_b: Floats, codes_b: Ints32, tolerances: Floats,
    tables: tuple[Levels8, Ints, Ints], offset: Ints, place: Ints, begin: Index, size: Index, gaps: Floats, out: Ints32,
) -> None:  # fmt: skip
    """Write the patterns of record i with the `size` records from `begin` on."""
    out[:size] = 0
    numbers = numbers_a.shape[0]
    _tile_numbers(i, numbers_a, numbers_b, tolerances, offset, place, begin, size, gaps, out)
    _tile_codes(i, codes_a, codes_b, tables, offset[numbers:], place[numbers:], begin, size, out)


@kernel
def _count(
    first: int, stop: int, numbers_a: Floats, codes_a: Ints32, weight_a: Ints, numbers_b: Floats, codes_b: Ints32,
    weight_b: Ints, tolerances: Floats, tables: tuple[Levels8, Ints, Ints], offset: Ints, place: Ints, counts: Ints,
) -> None:  # fmt: skip
    gaps = np.empty(_TILE, np.float64)
    patterns = np.empty(_TILE, np.int32)
    for i in range(first, stop):
        for begin in range(0, weight_b.size, _TILE):
            size = min(_TILE, weight_b.size - begin)
            _tile_patterns(i, numbers_a, codes_a, numbers_b, codes_b, tolerances, tables, offset, place, begin, size,
                           gaps, patterns)  # fmt: skip
            for t in range(size):
                counts[patterns[t]] += weight_a[i] * weight_b[begin + t]


@kernel
def _best(
    first: int, stop: int, numbers_a: Floats, codes_a: Ints32, numbers_b: Floats, codes_b: Ints32, weight_b: Ints,
    row_b: Ints,
    tolerances: Floats, tables: tuple[Levels8, Ints, Ints], offset: Ints, place: Ints, rank: Ints32,
    best: Ints, size_of: Ints, row_of: Ints,
) -> None:  # fmt: skip
    gaps = np.empty(_TILE, np.float64)
    patterns = np.empty(_TILE, np.int32)
    for i in range(first, stop):
        top = np.int32(-1)
        number = np.int64(0)
        lowest = np.int64(0)
        for begin in range(0, weight_b.size, _TILE):
            size = min(_TILE, weight_b.size - begin)
            _tile_patterns(i, numbers_a, codes_a, numbers_b, codes_b, tolerances, tables, offset, place, begin, size,
                           gaps, patterns)  # fmt: skip
            for t in range(size):
                here = rank[patterns[t]]
                if here >= top:
                    if here > top:
                        top = here
                        number = np.int64(0)
                        lowest = row_b[begin + t]
                    number += weight_b[begin + t]
                    lowest = min(lowest, row_b[begin + t])
        best[i] = top
        size_of[i] = number
        row_of[i] = lowest


@kernel
def _pairs(
    numbers_a: Floats, codes_a: Ints32, numbers_b: Floats, codes_b: Ints32, tolerances: Floats,
    tables: tuple[Levels8, Ints, Ints], offset: Ints, place: Ints, first: Ints, second: Ints, out: Ints,
) -> None:  # fmt: skip
    n_numbers = numbers_a.shape[0]
    values, start, width = tables
    for p in range(first.size):
        a, b = first[p], second[p]
        pattern = np.int64(0)
        for j in range(n_numbers):
            gap = abs(numbers_a[j, a] - numbers_b[j, b])
            level = np.int64(0)
            for q in range(tolerances.shape[1]):
                level += np.int64(gap <= tolerances[j, q])
            if offset[j] and not np.isnan(gap):
                level += 1
            pattern += level * place[j]
        for c in range(codes_a.shape[0]):
            one, other = codes_a[c, a], codes_b[c, b]
            if one < 0 or other < 0:
                continue
            level = np.int64(values[start[c] + one * width[c] + other]) if width[c] else np.int64(one == other)
            pattern += (level + offset[n_numbers + c]) * place[n_numbers + c]
        out[p] = pattern
