"""Which cells of a table may be published without making others computable: sparse elimination modulo a prime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Ints, Ints32, Keys
from discretion.kernels.jit import lean_helper, lean_kernel

# Targets that are multiples of each other, found by the ratio of two random vectors in their rows.
#
# Somebody who knows one of two such cells can compute the other, and learns something unless the one is part of the
# other and what they differ by is published anyway (`kin`). A table of ratios counts for each how many targets that
# have it are single (known to somebody), how many primary (to be protected), and the kin of those.

# The state of an elimination over the cells of a table, and its two elementary steps.
#
# Every cell is a row. What is known is a column over the rows: a relation between cells (a total and its parts), which
# everybody knows, or a single cell that is published. Each independent column becomes a pivot: it has 1 in its pivot
# row and nothing in the rows of earlier pivots. Beside them stand a few random vectors u that are orthogonal to every
# pivot: arbitrary in rows without pivot, computed in the others. A cell can be computed from what is known exactly when
# every such vector is 0 in its row. Relations are short, and published cells have one entry: the pivots stay short,
# which they do not when cells are written as sums of inner cells.
#
# Where nobody knows a single cell most candidates need no look at the primary rows. They are taken in stages: u is 0 in
# all candidates of a stage, as if they were published already, so that a primary row in which it is not 0 stays unknown
# whatever is decided about them. The others are written as sums of rows without pivot, once, and each watches one of
# these, the last in the order: while this one is not published the primary row is not known either.

# Arithmetic modulo the prime 2⁶¹ − 1: exact elimination without fractions.
#
# Remainders look random, so that a branch on them costs more than the arithmetic: the sign bit (`>> 63`) stands for
# it.

PRIME = (1 << 61) - 1
"""A Mersenne prime: the remainder needs shifts only, and a sum of two remainders fits 64 bits."""

_LOW30 = (1 << 30) - 1
_LOW31 = (1 << 31) - 1


@lean_helper
def plus(a: int, b: int) -> int:
    """Add two remainders."""
    total = a + b - PRIME
    return total + (PRIME & (total >> 63))


@lean_helper
def minus(a: int, b: int) -> int:
    """Subtract two remainders."""
    difference = a - b
    return difference + (PRIME & (difference >> 63))


@lean_helper
def _folded(x: int) -> int:
    low = (x & PRIME) + (x >> 61)
    return low - PRIME if low >= PRIME else low


@lean_helper
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


@lean_helper
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


@lean_helper
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


PIVOTS, USED, SLOTS, RELATIONS = 0, 1, 2, 3
"""Places in `counts`: pivots so far, entries in their columns, slots of the table of ratios in use, and how many of the
pivots are relations."""

_BITS = 32


class EliminationArrays(NamedTuple):
    """Arrays of one elimination: n rows, v random vectors."""

    target: Bools
    """(n) rows that are primary or single"""
    primary: Bools
    """(n) cells that must not be computable"""
    single: Bools
    """(n) cells, or sums of some, that somebody knows, who may use it against others"""
    inside_start: Ints
    inside: Ints32
    """for each primary row the rows of single inner cells that are part of it"""
    own_kin: Ints32
    """(n) 1 for primary rows of several inner cells that are single themselves"""
    lines: Ints
    """(n, 4 v) what is needed of a row at once: `u`, `du`, `pivot_of`, `row_head`, `settled_start`, `settled_stop`"""
    u: Ints
    """(n, v) random vectors orthogonal to all pivots"""
    pivot_of: Ints32
    """(n) the pivot of each row, −1 where it has none"""
    pivot_row: Ints32
    """(n) the row of each pivot"""
    pivot_start: Ints
    pivot_stop: Ints
    """(n) where the entries of each pivot begin and end"""
    entry_row: Ints32
    entry_value: Ints
    entry_link: Ints32
    """the entries of pivots beside the pivot row; of each, four times the pivot row plus 1 or 2 where the value is 1 or
    −1 (it is hardly anything else), and the next entry in the same row (of those not settled), −1 at the end: what is
    needed on the way through a row stands together, and the value is not looked up"""
    row_head: Ints32
    """(n) the first of these entries of each row"""
    row_entries: Ints32
    """(n) how many there are in all"""
    settled_start: Ints32
    settled_stop: Ints32
    settled: Ints32
    settled_value: Ints
    """the entries of relations by row: four times the pivot row of the column, plus 1 or 2 as in `entry_link`, and the
    value"""
    relation_start: Ints
    relation_rows: Ints32
    ties_start: Ints
    ties: Ints32
    """the rows of each relation, and the relations of each row"""
    open_rows: Ints32
    """for each relation how many of its rows are not known"""
    class_of: Ints32
    """(n) another row of the same class, at the end the row itself: two rows that are all a relation leaves open are
    multiples of each other"""
    gives_away: Bools
    """(n) whether the class of a row that stands for it has a primary row"""
    known: Bools
    """(n) rows seen to be computable: published ones, and those that a relation leaves alone, again and again"""
    late: Ints32
    """(n) the place of each row in the order, behind all for those that stay unknown"""
    watched: Ints32
    """(n) the row that each primary row watches, −1 for none"""
    first_watcher: Ints32
    next_watcher: Ints32
    last_watcher: Ints32
    """(n) a list of those that watch each row: the first, and what follows and goes before each of them"""
    value: Ints
    """(n) scratch: a column being reduced; zero between calls"""
    marked: Bools
    """(n) scratch: rows in `listed`"""
    listed: Ints32
    """(n) scratch: rows touched"""
    bits: Ints
    """scratch: pivots still to be visited"""
    filled: Ints
    """scratch: words of `bits` that are not 0"""
    du: Ints
    """(n, v) scratch: change of u"""
    moved: Ints32
    """(n) scratch: rows where u changes"""
    in_moved: Bools
    hit: Ints32
    """(n) scratch: targets among them"""
    keys: Ints
    """(n) ratio of the two vectors in each target, −1 for rows that are not compared"""
    new_keys: Ints
    """(n) scratch"""
    kin: Ints32
    """(n) single parts of a primary row that differ from it by what is published: their owner learns nothing"""
    new_kin: Ints32
    """(n) scratch"""
    scratch: Ints
    """(n) scratch"""
    queue: Ints32
    """(n) scratch"""
    slot_key: Ints
    slot_counts: Ints32
    """table of ratios: how many targets with a ratio are single, how many primary, and the sum of their kin"""
    counts: Ints


@lean_helper
def _put(bits: Ints, filled: Ints, k: int) -> None:
    """Note a number as to be visited."""
    word = k // _BITS
    bits[word] |= 1 << (k % _BITS)
    filled[word // _BITS] |= 1 << (word % _BITS)


@lean_helper
def _lowest(word: int) -> int:
    """Give the place of the lowest bit that is set, of 32: the number of bits below it."""
    x = (word & -word) - 1
    x -= (x >> 1) & 0x55555555
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 63


@lean_helper
def _taken(bits: Ints, filled: Ints, at: int) -> int:
    """Take the lowest number to be visited; `at` is a word of `filled` below which there is none. −1 for no number."""
    while at < len(filled) and filled[at] == 0:
        at += 1
    if at == len(filled):
        return -1
    word = at * _BITS + _lowest(filled[at])
    left = bits[word]
    bits[word] = left & (left - 1)
    if bits[word] == 0:
        filled[at] &= filled[at] - 1
    return word * _BITS + _lowest(left)


@lean_helper
def reduce(w: EliminationArrays, n: int) -> int:
    """Free the column in `value` (rows in `listed`) of pivot rows and known ones; give how many rows it has touched."""
    first = w.counts[PIVOTS]
    for i in range(n):
        k = w.pivot_of[w.listed[i]]
        if k >= 0:
            _put(w.bits, w.filled, k)
            first = min(first, k)
    k = _taken(w.bits, w.filled, first // _BITS**2)
    while k >= 0:
        pivot = w.pivot_row[k]
        factor = w.value[pivot]
        w.value[pivot] = 0
        if factor != 0:
            for e in range(w.pivot_start[k], w.pivot_stop[k]):
                row = w.entry_row[e]
                if w.known[row]:
                    continue
                w.value[row] = minus(w.value[row], times(factor, w.entry_value[e]))
                if not w.marked[row]:
                    w.marked[row] = True
                    w.listed[n] = row
                    n += 1
                    if w.pivot_of[row] >= 0:
                        _put(w.bits, w.filled, w.pivot_of[row])
        k = _taken(w.bits, w.filled, k // _BITS**2)
    return n


@lean_helper
def clear(w: EliminationArrays, n: int) -> None:
    """Forget the column in `value`."""
    for i in range(n):
        row = w.listed[i]
        w.value[row] = 0
        w.marked[row] = False


@lean_helper
def spread(w: EliminationArrays, n: int, vectors: int) -> int:  # noqa: PLR0912 - one loop over starts and pivots
    """Carry changes of u in n rows without pivot (in `du` and `moved`) on to the pivots; give how many rows change."""
    du, moved, in_moved, pivot_of, pivot_row = w.du, w.moved, w.in_moved, w.pivot_of, w.pivot_row
    top = w.counts[PIVOTS]
    starts, at, low = n, 0, 0
    while True:
        if at < starts:
            row = moved[at]
            in_moved[row] = True
            at += 1
        else:
            k = _taken(w.bits, w.filled, low)
            if k < 0:
                break
            low = k // _BITS**2
            row = pivot_row[top - k]
            still = True
            for v in range(vectors):
                still = still and du[row, v] == 0
            if still:
                continue
        for e in range(w.settled_start[row], w.settled_stop[row]):
            pivot, value = w.settled[e] >> 2, w.settled[e] & 3
            for v in range(vectors):
                if value == 1:
                    du[pivot, v] = minus(du[pivot, v], du[row, v])
                elif value == 2:
                    du[pivot, v] = plus(du[pivot, v], du[row, v])
                else:
                    du[pivot, v] = minus(du[pivot, v], times(w.settled_value[e], du[row, v]))
            if not in_moved[pivot]:
                in_moved[pivot] = True
                moved[n] = pivot
                n += 1
                _put(w.bits, w.filled, top - pivot_of[pivot])
        e = w.row_head[row]
        while e >= 0:
            pivot, value = w.entry_link[e, 0] >> 2, w.entry_link[e, 0] & 3
            for v in range(vectors):
                if value == 1:
                    du[pivot, v] = minus(du[pivot, v], du[row, v])
                elif value == 2:
                    du[pivot, v] = plus(du[pivot, v], du[row, v])
                else:
                    du[pivot, v] = minus(du[pivot, v], times(w.entry_value[e], du[row, v]))
            if not in_moved[pivot]:
                in_moved[pivot] = True
                moved[n] = pivot
                n += 1
                _put(w.bits, w.filled, top - pivot_of[pivot])
            e = w.entry_link[e, 1]
    return n


@lean_helper
def _changes(w: EliminationArrays, row: int, vectors: int) -> bool:
    """Tell whether u changes in a row: in most rows that were reached the changes cancel out."""
    changed = False
    for v in range(vectors):
        changed = changed or w.du[row, v] != 0
    return changed


@lean_helper
def targets_hit(w: EliminationArrays, moved: int, vectors: int) -> int:
    """List the targets in whose row u changes; give how many do."""
    n = 0
    for i in range(moved):
        row = w.moved[i]
        if w.target[row] and _changes(w, row, vectors):
            w.hit[n] = row
            n += 1
    return n


@lean_helper
def settle(w: EliminationArrays, moved: int, vectors: int, keep: bool) -> None:
    """Make the changes of u count, or forget them."""
    for i in range(moved):
        row = w.moved[i]
        w.in_moved[row] = False
        for v in range(vectors):
            if keep:
                w.u[row, v] = plus(w.u[row, v], w.du[row, v])
            w.du[row, v] = 0


@lean_helper
def learn(w: EliminationArrays, row: int) -> None:
    """Mark a row as known, and those that relations then leave alone; two that one leaves open get into one class."""
    w.known[row] = True
    w.queue[0] = row
    done, n = 0, 1
    while done < n:
        row = w.queue[done]
        done += 1
        for j in range(w.ties_start[row], w.ties_start[row + 1]):
            w.open_rows[w.ties[j]] -= 1
            if w.open_rows[w.ties[j]] > 2:
                continue
            first, second = _left_open(w, w.ties[j])
            if first >= 0:
                join(w, first, second)
            elif second >= 0:
                w.known[second] = True
                w.queue[n] = second
                n += 1


@lean_helper
def _left_open(w: EliminationArrays, relation: int) -> tuple[int, int]:
    """Give two rows of a relation that are not known; the first, or both, are −1 where there are fewer."""
    first, second = -1, -1
    for i in range(w.relation_start[relation], w.relation_start[relation + 1]):
        if not w.known[w.relation_rows[i]]:
            first, second = second, w.relation_rows[i]
    return first, second


@lean_helper
def join(w: EliminationArrays, first: int, second: int) -> None:
    """Put two rows in one class."""
    first, second = _root(w, first), _root(w, second)
    w.class_of[first] = second
    w.gives_away[second] = w.gives_away[second] or w.gives_away[first]


@lean_helper
def _root(w: EliminationArrays, row: int) -> int:
    while w.class_of[row] != row:
        w.class_of[row] = w.class_of[w.class_of[row]]
        row = w.class_of[row]
    return row


EMPTY = -1
_MIX = 0x9E3779B97F4A7C1
_ENDLESS = PRIME
"""The ratio of a target whose second number is 0 and first is not."""


@lean_helper
def _slot(w: EliminationArrays, key: int) -> int:
    mask = len(w.slot_key) - 1
    place = ((key * _MIX) >> 20) & mask
    while w.slot_key[place] != key and w.slot_key[place] != EMPTY:
        place = (place + 1) & mask
    return place


@lean_helper
def _count(w: EliminationArrays, key: int, target: int, kin: int, step: int) -> bool:
    """Add a target to a ratio (step 1) or take it away (−1); tell whether somebody then knows another's cell."""
    place = _slot(w, key)
    if w.slot_key[place] == EMPTY:
        w.slot_key[place] = key
        w.slot_counts[place] = 0
        w.counts[SLOTS] += 1
    counts = w.slot_counts[place]
    counts[0] += step * w.single[target]
    counts[1] += step * w.primary[target]
    counts[2] += step * kin
    clash: bool = counts[0] * counts[1] > counts[2]
    return clash


@lean_helper
def shares_ratio(w: EliminationArrays, first: int, second: int) -> bool:
    """Tell whether a primary target has the ratio of two numbers: what has them, once published, gives it away."""
    key = times(first, inverse(second)) if second != 0 else _ENDLESS
    place = _slot(w, key)
    found: bool = w.slot_key[place] == key and w.slot_counts[place, 1] > 0
    return found


@lean_helper
def new_ratios(w: EliminationArrays, hit: int) -> None:
    """Compute the ratios that the targets in `hit` are about to have."""
    n = 0
    for i in range(hit):
        target = w.hit[i]
        second = plus(w.u[target, 1], w.du[target, 1])
        if second != 0:
            w.scratch[n] = second
            n += 1
    invert_all(w.scratch, n, w.new_keys)
    n = 0
    for i in range(hit):
        target = w.hit[i]
        first, second = plus(w.u[target, 0], w.du[target, 0]), plus(w.u[target, 1], w.du[target, 1])
        if second != 0:
            w.new_keys[i] = times(first, w.scratch[n])
            n += 1
        else:
            w.new_keys[i] = EMPTY if first == 0 else _ENDLESS
        w.new_kin[i] = w.own_kin[target]
        for j in range(w.inside_start[target], w.inside_start[target + 1]):
            row = w.inside[j]
            w.new_kin[i] += plus(w.u[row, 0], w.du[row, 0]) == first


@lean_helper
def exchange(w: EliminationArrays, hit: int) -> bool:
    """Put the new ratios in the place of the old ones; tell whether somebody would know another's cell.

    Then the old ones are back.
    """
    if 2 * w.counts[SLOTS] > len(w.slot_key):
        rebuild(w)
    for i in range(hit):
        if w.keys[w.hit[i]] != EMPTY:
            _count(w, w.keys[w.hit[i]], w.hit[i], w.kin[w.hit[i]], -1)
    for i in range(hit):
        if w.new_keys[i] != EMPTY:
            _count(w, w.new_keys[i], w.hit[i], w.new_kin[i], 1)
    clash = False
    for i in range(hit):
        clash = clash or (w.new_keys[i] != EMPTY and _count(w, w.new_keys[i], w.hit[i], 0, 0))
    if not clash:
        for i in range(hit):
            w.keys[w.hit[i]] = w.new_keys[i]
            w.kin[w.hit[i]] = w.new_kin[i]
        return False
    for i in range(hit):
        if w.new_keys[i] != EMPTY:
            _count(w, w.new_keys[i], w.hit[i], w.new_kin[i], -1)
    for i in range(hit):
        if w.keys[w.hit[i]] != EMPTY:
            _count(w, w.keys[w.hit[i]], w.hit[i], w.kin[w.hit[i]], 1)
    return True


@lean_helper
def rebuild(w: EliminationArrays) -> None:
    """Fill the table of ratios anew, without the ratios nobody has any more."""
    w.slot_key[:] = EMPTY
    w.counts[SLOTS] = 0
    for target in range(len(w.keys)):
        if w.keys[target] != EMPTY:
            _count(w, w.keys[target], target, w.kin[target], 1)


STEP = 256
"""Candidates between two reports of progress."""
TOGETHER = 16
"""How many times as many candidates are taken then, where nobody knows a single cell."""
PARTS = 2
"""A stage has this part of the candidates that are left."""
MOST_PARTS = 8
"""But at least this part of all."""
FEWEST = 256
"""And so many."""

_ENTRY_WEIGHT = 4
"""What a pivot that depends on a row counts, beside a target that does, when pivot rows are chosen."""

Columns = tuple[Ints, Ints32]
"""Lists of rows: where each begins, and the rows of all."""


class Relations(NamedTuple):
    """Sums of rows that are 0: each begins at `start`; `sign` is 1 or −1 for each of the rows."""

    start: Ints
    rows: Ints32
    sign: NDArray[np.int8]


def publishable(
    relations: Relations,
    order: Ints,
    primary: Bools,
    single: Bools,
    inside: Columns,
    own_kin: Ints32,
    progress: Callable[[int, int], None] | None = None,
    hopeful: Callable[[int, Bools], bool] | None = None,
    start: EliminationArrays | None = None,
) -> Bools:
    """Go through candidate rows in an order and publish each that makes no primary row computable.

    Rows are cells, tied by `relations`, which must be all there are; `order` holds the candidates. With any single row
    (one that somebody knows) no primary row may be computable by means of one single one either; `inside` has the
    single inner cells that each primary row contains, and `own_kin` marks primary rows of several inner cells that are
    single themselves. Primary and single rows must be different cells. The answer, one entry per place of `order`, is
    the largest set that going through in this order allows: a refused candidate stays refused. `hopeful` is asked now
    and then with how many candidates are done and what was accepted; if it says no, the rest count as refused. `start`
    is what `begun` gives for this order, or for one that differs only by candidates without pivot there which come
    earlier now: they would not be pivots here either, so that the pivots are the same. It is not changed.

    Exact modulo 2⁶¹ − 1. A table's minors are small whole numbers, which this prime does not divide; the random numbers
    that stand for "computable" are wrong with a chance of about 2⁻⁶¹ per comparison.
    """
    work = begun(relations, order, primary, single, inside, own_kin) if start is None else _copied(start)
    accepted = np.zeros(len(order), np.bool_)
    alone, done, stage = bool(single.any()), 0, 0
    step = STEP * TOGETHER if not alone else STEP if hopeful is None else STEP // 2
    while done < len(order) and (hopeful is None or hopeful(done, accepted)):
        if not alone and done == stage:
            left = len(order) - done
            stage = done + min(max(left // PARTS, len(order) // MOST_PARTS, FEWEST), left)
            _begin_stage(work, done, stage, _random((len(primary), 1)))
        stop = min(done + step, len(order) if alone else stage)
        if len(work.entry_row) - work.counts[USED] < len(primary):
            work = _grown(work)
        done = int((_offer_each if alone else _offer_stage)(work, order, done, stop, accepted))
        if progress is not None:
            progress(done, len(order))
    return accepted


def begun(
    relations: Relations, order: Ints, primary: Bools, single: Bools, inside: Columns, own_kin: Ints32
) -> EliminationArrays:
    """Give the state before the first candidate: the relations are pivots, in rows as late in the order as can be."""
    work = _new_work(relations, primary, single, inside, own_kin, 2 if single.any() else 1)
    work.late[:] = len(order)
    work.late[order] = np.arange(len(order))
    return _related(work, relations)


def _copied(work: EliminationArrays) -> EliminationArrays:
    """Give a state that can be changed without changing this one."""
    lines = _lines(*work.lines.shape)
    lines[:] = work.lines
    copies = {name: array.copy() for name, array in work._asdict().items() if name not in _KEPT}
    return work._replace(**copies, **_views(lines))


_KEPT = {"lines", "u", "du", "pivot_of", "row_head", "settled_start", "settled_stop", "settled", "settled_value"} | {
    "target", "primary", "single", "inside_start", "inside", "own_kin", "relation_start", "relation_rows", "ties_start",
    "ties",
}  # fmt: skip
"""Arrays that are parts of the lines, or never change."""


def _random(shape: tuple[int, int]) -> Ints:
    """Give numbers that look random, the same on every machine (splitmix64), below the prime and not 0."""
    x: Keys = np.arange(1, shape[0] * shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x % np.uint64(PRIME - 1) + np.uint64(1)).astype(np.int64).reshape(shape)


def _new_work(
    relations: Relations, primary: Bools, single: Bools, inside: Columns, own_kin: Ints32, vectors: int
) -> EliminationArrays:
    n = len(primary)
    room = 4 * len(relations.rows) + 2 * n
    length = np.diff(relations.start)
    ties = np.repeat(np.arange(len(length), dtype=np.int32), length)[np.argsort(relations.rows, kind="stable")]
    ties_start = np.r_[0, np.cumsum(np.bincount(relations.rows, minlength=n))]
    lines = _lines(n, 4 * vectors)
    lines[:, :vectors] = _random((n, vectors))
    lines.view(np.int32)[:, 4 * vectors + 2 : 4 * vectors + 4] = -1
    compared = int((primary | single).sum()) if vectors > 1 else 0
    slots = 1 << max(int(8 * compared).bit_length(), 4)
    return EliminationArrays(
        target=primary | single,
        primary=primary,
        single=single,
        inside_start=inside[0],
        inside=inside[1],
        own_kin=own_kin,
        **_views(lines),
        pivot_row=np.zeros(n, np.int32),
        pivot_start=np.zeros(n, np.int64),
        pivot_stop=np.zeros(n, np.int64),
        entry_row=np.zeros(room, np.int32),
        entry_value=np.zeros(room, np.int64),
        entry_link=np.full((room, 2), -1, np.int32),
        row_entries=np.zeros(n, np.int32),
        settled=np.zeros(0, np.int32),
        settled_value=np.zeros(0, np.int64),
        relation_start=relations.start,
        relation_rows=relations.rows,
        ties_start=ties_start,
        ties=ties,
        open_rows=np.zeros(len(length), np.int32),
        class_of=np.arange(n, dtype=np.int32),
        gives_away=primary.copy(),
        known=np.zeros(n, np.bool_),
        late=np.zeros(n, np.int32),
        watched=np.full(n, -1, np.int32),
        first_watcher=np.full(n, -1, np.int32),
        next_watcher=np.full(n, -1, np.int32),
        last_watcher=np.full(n, -1, np.int32),
        value=np.zeros(n, np.int64),
        marked=np.zeros(n, np.bool_),
        listed=np.zeros(n, np.int32),
        bits=np.zeros(n // _BITS + 1, np.int64),
        filled=np.zeros(n // _BITS**2 + 1, np.int64),
        moved=np.zeros(n, np.int32),
        in_moved=np.zeros(n, np.bool_),
        hit=np.zeros(n, np.int32),
        keys=np.full(n, EMPTY, np.int64),
        new_keys=np.zeros(n, np.int64),
        kin=np.zeros(n, np.int32),
        new_kin=np.zeros(n, np.int32),
        scratch=np.zeros(n, np.int64),
        queue=np.zeros(n, np.int32),
        slot_key=np.full(slots, EMPTY, np.int64),
        slot_counts=np.zeros((slots, 3), np.int32),
        counts=np.zeros(4, np.int64),
    )


def _views(lines: Ints) -> dict[str, Any]:
    """Give the arrays that stand together in lines."""
    vectors = lines.shape[1] // 4
    small = lines.view(np.int32)[:, 4 * vectors :]
    names = ("settled_start", "settled_stop", "pivot_of", "row_head")
    large = {"lines": lines, "u": lines[:, :vectors], "du": lines[:, vectors : 2 * vectors]}
    return large | {name: small[:, k] for k, name in enumerate(names)}


def _lines(n: int, width: int) -> Ints:
    """Give n lines of 4 or 8 numbers, each within a line of the processor's cache: what is needed of a row at once."""
    spare = np.zeros(width * n + 8, np.int64)
    first = -(spare.ctypes.data // 8) % 8
    return spare[first : first + width * n].reshape(n, width)


def _grown(work: EliminationArrays) -> EliminationArrays:
    """Give the state with twice the room for entries."""
    room = 2 * len(work.entry_row) + len(work.u)
    larger = {}
    for name in ("entry_row", "entry_value", "entry_link"):
        old = getattr(work, name)
        larger[name] = np.full((room, *old.shape[1:]), -1, old.dtype)
        larger[name][: len(old)] = old
    return work._replace(**larger)


def _related(work: EliminationArrays, relations: Relations) -> EliminationArrays:
    """Make pivots of the relations, the shortest first; then u and the ratios.

    Their rows are as late as can be, so that what is offered first needs no reduction, and of rows that are never
    offered those that are seldom a total: this fills in least.
    """
    count, done = len(relations.start) - 1, 0
    totals = np.bincount(relations.rows[relations.sign > 0], minlength=len(work.late))
    late = work.late * (int(totals.max(initial=0)) + 1) - totals
    by_length = np.argsort(np.diff(relations.start), kind="stable")
    while (done := int(_relation_pivots(work, by_length, done, *relations, late))) < count:
        work = _grown(work)
    work.counts[RELATIONS] = work.counts[PIVOTS]
    used = int(work.counts[USED])
    by_row = np.argsort(work.entry_row[:used], kind="stable")
    work.settled_stop[:] = np.cumsum(work.row_entries)
    work.settled_start[1:] = work.settled_stop[:-1]
    work = work._replace(settled=work.entry_link[by_row, 0], settled_value=work.entry_value[by_row])
    _begin(work, work.u.shape[1])
    return work


@lean_kernel
def _relation_pivots(
    w: EliminationArrays, order: Ints, done: int, start: Ints, rows: Ints32, sign: NDArray[np.int8], late: Ints
) -> int:
    """Make pivots of relations, in rows as late as can be, as long as there is room; give how far it came."""
    for place in range(done, len(order)):
        if len(w.entry_row) - w.counts[USED] < len(w.u):
            return place
        n = 0
        for i in range(start[order[place]], start[order[place] + 1]):
            w.value[rows[i]] = 1 if sign[i] > 0 else PRIME - 1
            w.marked[rows[i]] = True
            w.listed[n] = rows[i]
            n += 1
        n = reduce(w, n)
        best, most = -1, 0
        for i in range(n):
            row = w.listed[i]
            if w.value[row] != 0 and (best < 0 or late[row] > most):
                best, most = row, late[row]
        if best >= 0:
            _add_pivot(w, best, inverse(w.value[best]), n, False)
        clear(w, n)
    return len(order)


@lean_kernel
def _begin(w: EliminationArrays, vectors: int) -> None:
    """Make the random vectors orthogonal to the pivots, and compute the ratios of the targets."""
    for k in range(w.counts[PIVOTS] - 1, -1, -1):
        for v in range(vectors):
            total = 0
            for e in range(w.pivot_start[k], w.pivot_stop[k]):
                total = plus(total, times(w.entry_value[e], w.u[w.entry_row[e], v]))
            w.u[w.pivot_row[k], v] = minus(0, total)
    if vectors == 1:
        for row in range(len(w.known)):
            w.known[row] = w.u[row, 0] == 0
        for relation in range(len(w.open_rows)):
            for i in range(w.relation_start[relation], w.relation_start[relation + 1]):
                w.open_rows[relation] += not w.known[w.relation_rows[i]]
            if w.open_rows[relation] == 2:
                join(w, *_left_open(w, relation))
    else:
        n = 0
        for row in range(len(w.target)):
            if w.target[row]:
                w.hit[n] = row
                n += 1
        new_ratios(w, n)
        exchange(w, n)


@lean_kernel
def _begin_stage(w: EliminationArrays, start: int, stop: int, random: Ints) -> None:
    """Make u 0 in the candidates of a stage, and find out what the primary rows that they could give away watch.

    Known rows are left out of relations on the way: what follows from what is known adds nothing.
    """
    for row in range(len(w.known)):
        w.u[row, 0] = 0 if start <= w.late[row] < stop else random[row, 0]
        w.watched[row] = w.first_watcher[row] = -1
    for k in range(w.counts[PIVOTS] - 1, -1, -1):
        total, kept = 0, w.pivot_start[k]
        if not w.known[w.pivot_row[k]]:
            for e in range(w.pivot_start[k], w.pivot_stop[k]):
                row = w.entry_row[e]
                if w.known[row]:
                    continue
                total = plus(total, times(w.entry_value[e], w.u[row, 0]))
                if k < w.counts[RELATIONS]:
                    w.entry_row[kept], w.entry_value[kept] = row, w.entry_value[e]
                    kept += 1
        if k < w.counts[RELATIONS]:
            w.pivot_stop[k] = kept
        w.u[w.pivot_row[k], 0] = minus(0, total)
    for row in range(len(w.known)):
        if w.primary[row] and w.u[row, 0] == 0 and not w.known[row]:
            watch(w, row, _latest(w, row, -1))


@lean_kernel
def _offer_stage(w: EliminationArrays, order: Ints, start: int, stop: int, accepted: Bools) -> int:
    """Offer candidates of the stage that was begun, as long as there is room; give how far it came."""
    for place in range(start, stop):
        if len(w.entry_row) - w.counts[USED] < len(w.u):
            return place
        cell = order[place]
        if not w.known[cell] and not w.gives_away[_root(w, cell)] and _offer_alone(w, cell):
            learn(w, cell)
        accepted[place] = w.known[cell]
        if not accepted[place]:
            w.late[cell] = len(order)
    return stop


@lean_helper
def watch(w: EliminationArrays, target: int, row: int) -> None:
    """Let a primary row watch another row than before."""
    old, after, before = w.watched[target], w.next_watcher[target], w.last_watcher[target]
    if old >= 0:
        if before >= 0:
            w.next_watcher[before] = after
        else:
            w.first_watcher[old] = after
        if after >= 0:
            w.last_watcher[after] = before
    first = w.first_watcher[row]
    w.watched[target], w.next_watcher[target], w.last_watcher[target] = row, first, -1
    if first >= 0:
        w.last_watcher[first] = target
    w.first_watcher[row] = target


@lean_helper
def _alone(w: EliminationArrays, row: int) -> int:
    """Write a row as a sum of rows without pivot, in `value`; give how many rows of `listed` were touched."""
    w.value[row] = 1
    w.marked[row] = True
    w.listed[0] = row
    return reduce(w, 1)


@lean_helper
def _latest(w: EliminationArrays, target: int, without: int) -> int:
    """Give the row offered last of those without pivot that a row is the sum of; −1 for none but `without`."""
    listed, best = _alone(w, target), -1
    for i in range(listed):
        row = w.listed[i]
        if row != without and w.value[row] != 0 and (best < 0 or w.late[row] > w.late[best]):
            best = row
    clear(w, listed)
    return best


@lean_helper
def _offer_alone(w: EliminationArrays, cell: int) -> bool:
    return _offer_free(w, cell) if w.pivot_of[cell] < 0 else _offer_tied(w, cell)


@lean_helper
def _offer_free(w: EliminationArrays, cell: int) -> bool:
    """Publish a row without pivot unless a primary row watches it and is the sum of nothing else."""
    target = w.first_watcher[cell]
    while target >= 0:
        after, other = w.next_watcher[target], _latest(w, target, cell)
        if other < 0:
            return False
        watch(w, target, other)
        target = after
    _add_pivot(w, cell, 1, 0, True)
    return True


@lean_helper
def _offer_tied(w: EliminationArrays, cell: int) -> bool:
    """Publish a row that has a pivot, unless a primary row would be known: a row of its sum gets another pivot.

    Where u is not 0 in the cell this must be a row where it is not 0 either, as it stays 0 in the stage's candidates.
    """
    listed = _alone(w, cell)
    outside = w.u[cell, 0] != 0
    row = _best_row(w, listed, outside)
    if row < 0:
        clear(w, listed)
        return True
    k, used, scale = w.counts[PIVOTS], w.counts[USED], inverse(w.value[row])
    w.du[row, 0] = minus(0, times(w.u[cell, 0], scale)) if outside else 1
    w.moved[0] = row
    moved, hit = spread(w, 1, 1), 0
    for i in range(moved):
        target = w.moved[i]
        if w.primary[target] and w.du[target, 0] != 0 and not w.known[target]:
            watched = w.watched[target]
            lost = outside and watched < 0 and plus(w.u[target, 0], w.du[target, 0]) == 0
            if lost or (watched >= 0 and w.value[watched] != 0):
                w.hit[hit] = target
                hit += 1
    _add_pivot(w, row, scale, listed, True)
    clear(w, listed)
    allowed = True
    for i in range(hit):
        w.queue[i] = _latest(w, w.hit[i], -1) if allowed else -1
        allowed = allowed and w.queue[i] >= 0
    settle(w, moved, 1, allowed and outside)
    if allowed:
        for i in range(hit):
            watch(w, w.hit[i], w.queue[i])
    else:
        _take_back(w, row, k, used)
    return allowed


@lean_helper
def _take_back(w: EliminationArrays, row: int, k: int, used: int) -> None:
    """Undo the last pivot."""
    for e in range(w.counts[USED] - 1, used - 1, -1):
        w.row_head[w.entry_row[e]] = w.entry_link[e, 1]
        w.row_entries[w.entry_row[e]] -= 1
    w.pivot_of[row] = -1
    w.counts[PIVOTS], w.counts[USED] = k, used


@lean_kernel
def _offer_each(w: EliminationArrays, order: Ints, start: int, stop: int, accepted: Bools) -> int:
    """Offer candidates one by one, as long as there is room; give how far it came."""
    for place in range(start, stop):
        if len(w.entry_row) - w.counts[USED] < len(w.u):
            return place
        accepted[place] = _offer(w, order[place], 2)
    return stop


@lean_helper
def _offer(w: EliminationArrays, cell: int, vectors: int) -> bool:
    known = True
    for v in range(vectors):
        known = known and w.u[cell, v] == 0
    if known:
        return True
    if shares_ratio(w, w.u[cell, 0], w.u[cell, vectors - 1]):
        return False
    listed = _alone(w, cell)
    row = _best_row(w, listed, False)
    scale = inverse(w.value[row])
    for v in range(vectors):
        w.du[row, v] = minus(0, times(w.u[cell, v], scale))
    w.moved[0] = row
    moved = spread(w, 1, vectors)
    hit = targets_hit(w, moved, vectors)
    allowed = _none_computable(w, hit, vectors)
    if allowed:
        new_ratios(w, hit)
        allowed = not exchange(w, hit)
    settle(w, moved, vectors, allowed)
    if allowed:
        _add_pivot(w, row, scale, listed, True)
    clear(w, listed)
    return allowed


@lean_helper
def _best_row(w: EliminationArrays, listed: int, outside: bool) -> int:
    """Choose the pivot row of a reduced column: the one on which fewest targets and pivots depend; −1 for none.

    With `outside` it is one in which u is not 0.
    """
    best, least = -1, -1
    for i in range(listed):
        row = w.listed[i]
        if w.value[row] == 0 or (outside and w.u[row, 0] == 0):
            continue
        score = w.target[row] + _ENTRY_WEIGHT * w.row_entries[row]
        if best < 0 or score < least:
            best, least = row, score
    return best


@lean_helper
def _none_computable(w: EliminationArrays, hit: int, vectors: int) -> bool:
    for i in range(hit):
        target = w.hit[i]
        if not w.primary[target]:
            continue
        zero = True
        for v in range(vectors):
            zero = zero and plus(w.u[target, v], w.du[target, v]) == 0
        if zero:
            return False
    return True


@lean_helper
def _add_pivot(w: EliminationArrays, row: int, scale: int, listed: int, linked: bool) -> None:
    k, used = w.counts[PIVOTS], w.counts[USED]
    w.pivot_of[row] = k
    w.pivot_row[k] = row
    w.pivot_start[k] = used
    for i in range(listed):
        other = w.listed[i]
        if other == row or w.value[other] == 0:
            continue
        w.entry_row[used] = other
        value = times(w.value[other], scale)
        w.entry_value[used] = value
        w.entry_link[used, 0] = 4 * row + (value == 1) + 2 * (value == PRIME - 1)
        if linked:
            w.entry_link[used, 1] = w.row_head[other]
            w.row_head[other] = used
        w.row_entries[other] += 1
        used += 1
    w.pivot_stop[k] = used
    w.counts[PIVOTS] = k + 1
    w.counts[USED] = used
