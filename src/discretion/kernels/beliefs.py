"""Who has everybody's values puts it all together: one record for each person, and swapped values were exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32, Keys, Progress
from discretion.kernels.jit import lean_kernel

_ROUNDS = 60
"""Rounds of messages at most, and of those in which everybody also hears what they said themselves."""
_BALANCING, _AT_FIRST = 2, 20
"""Times that beliefs are scaled to one record a person and one person a record, in each round and at first."""
_SETTLED = 1e-3
"""Change of the largest belief, on the mean of the people, below which the rounds end."""


def match_all(
    starts: Ints,
    records: Ints32,
    weights: Floats,
    sizes: tuple[Floats, Floats],
    exchanges: Sequence[Ints],
    doubt: float,
    progress: Progress,
) -> Iterator[Floats]:
    """Yield how many pairs there are of each kind of person and of record that may be a pair, all matched at once.

    The pairs of person i stand at `starts[i]` to `starts[i + 1]`, with their records and log likelihoods; there are
    `sizes` people and records of each kind. Each person has one record and each record one person. Of a column whose
    values were exchanged in pairs each possible pair (true value u, published v) is a move u → v, of which there must
    be as many as of v → u: `exchanges` has for each column the number of each pair's move, −1 where it says nothing; 2g
    and 2g + 1 are each other's reverse.
    `doubt`: how likely a reverse move is not seen. Messages are passed between pairs whose moves are each other's
    reverse (belief propagation: what a pair hears is what the others know without it), damped, and scaled by rows and
    columns in turn (Sinkhorn). Close where partners of partners are other people, overconfident where they are few and
    meet again. With exchanges a second answer follows in the same array: messages that repeat what they heard, so that
    beliefs become decisions, which find more where the first were nearly right. Time linear in the pairs, memory 16
    bytes a pair and 16 for each column.
    """
    base, beliefs = np.empty(len(records)), np.empty(len(records))
    scale = np.ones(int(records.max(initial=-1)) + 1)
    column, top, before = np.empty(len(scale)), np.zeros(len(starts) - 1), np.zeros(len(starts) - 1)
    messages = [np.ones(len(records)) for _ in exchanges]
    seen = [np.empty((int(moves.max(initial=-1)) | 1) + 1) for moves in exchanges]
    _likely(starts, weights, base)
    beliefs[:] = base
    for _ in range(_AT_FIRST):
        _balance(starts, records, beliefs, *sizes, scale, column, top)
    if not exchanges:
        yield beliefs
        return
    for repeats in (0.0, 1.0):
        for number in range(_ROUNDS):
            progress(number, _ROUNDS, "beliefs about everybody")
            before[:] = top
            for moves, message, counts in zip(exchanges, messages, seen, strict=True):
                counts[:] = 0.0
                _told(starts, moves, message, beliefs, sizes[0], repeats, counts)
            beliefs[:] = base
            for moves, message, counts in zip(exchanges, messages, seen, strict=True):
                _heard(moves, counts, doubt, message, beliefs)
            _scaled(records, scale, beliefs)
            for _ in range(_BALANCING):
                _balance(starts, records, beliefs, *sizes, scale, column, top)
            if np.abs(top - before).mean() < _SETTLED:
                break
        yield beliefs


@lean_kernel
def _likely(starts: Ints, weights: Floats, base: Floats) -> None:
    """Turn log weights into weights, the largest of each person 1."""
    for i in range(starts.size - 1):
        most = -np.inf
        for p in range(starts[i], starts[i + 1]):
            most = max(most, weights[p])
        for p in range(starts[i], starts[i + 1]):
            base[p] = np.exp(weights[p] - most)


@lean_kernel
def _scaled(records: Ints32, scale: Floats, beliefs: Floats) -> None:
    """Begin with the scales of the records that the last round found."""
    for p in range(records.size):
        beliefs[p] *= scale[records[p]]


@lean_kernel
def _balance(
    starts: Ints, records: Ints32, beliefs: Floats, people: Floats, places: Floats, scale: Floats, column: Floats,
    top: Floats,
) -> None:  # fmt: skip
    """Scale to one record a person, then to one person a record, then to one record a person; note the largest."""
    for i in range(starts.size - 1):
        row = 0.0
        for p in range(starts[i], starts[i + 1]):
            row += beliefs[p]
        for p in range(starts[i], starts[i + 1]):
            beliefs[p] *= people[i] / max(row, 1e-300)
    column[:] = 0.0
    for p in range(records.size):
        column[records[p]] += beliefs[p]
    for r in range(scale.size):
        column[r] = max(column[r], 1e-12) / places[r]
        scale[r] /= column[r]
    for i in range(starts.size - 1):
        row, most = 0.0, 0.0
        for p in range(starts[i], starts[i + 1]):
            beliefs[p] /= column[records[p]]
            row += beliefs[p]
            most = max(most, beliefs[p])
        top[i] = most / max(row, 1e-300)
        for p in range(starts[i], starts[i + 1]):
            beliefs[p] *= people[i] / max(row, 1e-300)


@lean_kernel
def _told(
    starts: Ints, moves: Ints, message: Floats, beliefs: Floats, people: Floats, repeats: float, counts: Floats
) -> None:
    """Count how many make each move, by what is believed of each person, without what was heard unless it `repeats`."""
    for i in range(starts.size - 1):
        row = 0.0
        for p in range(starts[i], starts[i + 1]):
            row += beliefs[p] if repeats > 0.0 else beliefs[p] / message[p]
        for p in range(starts[i], starts[i + 1]):
            if moves[p] >= 0 and row > 0.0:
                counts[moves[p]] += people[i] * (beliefs[p] if repeats > 0.0 else beliefs[p] / message[p]) / row


@lean_kernel
def _heard(moves: Ints, counts: Floats, doubt: float, message: Floats, beliefs: Floats) -> None:
    """Hear from those who would have made the reverse move, half of it in a round."""
    for p in range(moves.size):
        if moves[p] >= 0:
            message[p] = np.sqrt(message[p] * (counts[moves[p] ^ 1] + doubt))
            beliefs[p] *= message[p]


@lean_kernel
def mark_moves(true: Ints, shown: Ints, values: int, who: Ints32, record: Ints32, bits: Keys) -> None:
    """Note the move from a true to a shown value of each pair, in one bit (several moves may share one)."""
    places = np.int64(64 * bits.size)
    for p in range(who.size):
        u, v = true[who[p]], shown[record[p]]
        if u >= 0 and v >= 0 and u != v:
            place = (u * values + v) % places
            bits[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@lean_kernel
def find_reverse(true: Ints, shown: Ints, values: int, who: Ints32, record: Ints32, bits: Keys, found: Bools) -> None:
    """Tell for each pair whether it moves nothing or the reverse of its move was noted."""
    places = np.int64(64 * bits.size)
    for p in range(who.size):
        u, v = true[who[p]], shown[record[p]]
        found[p] = True
        if u >= 0 and v >= 0 and u != v:
            place = (v * values + u) % places
            found[p] = (bits[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) != np.uint64(0)
