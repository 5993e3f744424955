"""Which cells of a table may be published without making others computable: sparse elimination modulo a prime."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel

# Targets that are multiples of each other, found by the ratio of their products with two random vectors.
#
# Somebody who knows one of two such cells can compute the other, and learns something unless the one is part of the
# other and what they differ by is published anyway (`kin`). A table of ratios counts for each how many targets that
# have it are single (known to somebody), how many primary (to be protected), and the kin of those.

# The state of an elimination over the inner cells of a table, and its two elementary steps.
#
# Published cells are columns of 0 and 1 over the inner cells (rows). Each independent one becomes a pivot: a column
# with 1 in its pivot row, free of the rows of earlier pivots. Beside them stand a few random vectors u that are
# orthogonal to every pivot: arbitrary in rows without pivot, computed in the others. A column lies in the span of the
# pivots exactly when every such vector is orthogonal to it, so that one number per column, u·column, tells whether the
# cell can be computed from what is published.

# Arithmetic modulo the prime 2⁶¹ − 1: exact elimination without fractions.
#
# Remainders look random, so that a branch on them costs more than the arithmetic: the sign bit (`>> 63`) stands for
# it.

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


PIVOTS, USED, SLOTS = 0, 1, 2
"""Places in `Work.counts`: pivots so far, entries in their columns, slots of the table of ratios in use."""

_BITS = 32


class EliminationArrays(NamedTuple):
    """Arrays of one elimination: n rows, m candidate columns, t targets, v random vectors."""

    column_start: Ints
    column_rows: Ints32
    """the candidates: rows of each"""
    target_start: Ints
    targets: Ints32
    """for each row the targets that contain it"""
    primary: Bools
    """(t) targets that must not be computable"""
    single: Bools
    """(t) targets that somebody knows, who may use it against others"""
    inside_start: Ints
    inside: Ints32
    """for each primary target the rows of the single targets of one row that are part of it"""
    own_kin: Ints32
    """(t) 1 for primary targets of several rows that are single themselves"""
    u: Ints
    """(n, v) random vectors orthogonal to all pivots"""
    sums: Ints
    """(t, v) their products with the targets"""
    pivot_of: Ints
    """(n) the pivot of each row, −1 where it has none"""
    pivot_row: Ints
    """(n) the row of each pivot"""
    pivot_start: Ints
    """(n + 1) where the entries of each pivot begin"""
    entry_row: Ints32
    entry_value: Ints
    entry_pivot: Ints32
    entry_next: Ints
    """the entries of pivots beside the pivot row; the next entry in the same row, −1 at the end"""
    row_head: Ints
    """(n) the first entry of each row"""
    row_entries: Ints
    """(n) how many there are"""
    value: Ints
    """(n) scratch: a column being reduced; zero between calls"""
    marked: Bools
    """(n) scratch: rows in `listed`"""
    listed: Ints
    """(n) scratch: rows touched"""
    bits: Ints
    """scratch: pivots still to be visited"""
    du: Ints
    """(n, v) scratch: change of u"""
    moved: Ints
    """(n) scratch: rows where u changes"""
    in_moved: Bools
    ds: Ints
    """(t, v) scratch: change of sums"""
    hit: Ints
    """(t) scratch: targets whose sums change"""
    in_hit: Bools
    keys: Ints
    """(t) ratio of the first two sums of each target, −1 for targets that are not compared"""
    new_keys: Ints
    """(t) scratch"""
    kin: Ints32
    """(t) single parts of a primary target that differ from it by what is published: their owner learns nothing"""
    new_kin: Ints32
    """(t) scratch"""
    scratch: Ints
    """(t) scratch"""
    slot_key: Ints
    slot_counts: Ints32
    """table of ratios: how many targets with a ratio are single, how many primary, and the sum of their kin"""
    counts: Ints


@helper
def reduce(w: EliminationArrays, rows: Ints32, start: int, stop: int) -> int:
    """Write a 0/1 column, free of pivot rows, to `value`; give how many rows of `listed` it touched."""
    n, first, last = 0, w.counts[PIVOTS], -1
    for i in range(start, stop):
        row = rows[i]
        w.value[row] = 1
        w.marked[row] = True
        w.listed[n] = row
        n += 1
        k = w.pivot_of[row]
        if k >= 0:
            w.bits[k // _BITS] |= 1 << (k % _BITS)
            first, last = min(first, k), max(last, k)
    word = first // _BITS
    while word <= last // _BITS:
        if w.bits[word] == 0:
            word += 1
            continue
        for bit in range(_BITS):
            if (w.bits[word] >> bit) & 1 == 0:
                continue
            k = word * _BITS + bit
            pivot = w.pivot_row[k]
            factor = w.value[pivot]
            w.value[pivot] = 0
            if factor == 0:
                continue
            for e in range(w.pivot_start[k], w.pivot_start[k + 1]):
                row = w.entry_row[e]
                w.value[row] = minus(w.value[row], times(factor, w.entry_value[e]))
                if not w.marked[row]:
                    w.marked[row] = True
                    w.listed[n] = row
                    n += 1
                later = w.pivot_of[row]
                if later >= 0:
                    w.bits[later // _BITS] |= 1 << (later % _BITS)
                    last = max(last, later)
        w.bits[word] = 0
        word += 1
    return n


@helper
def clear(w: EliminationArrays, n: int) -> None:
    """Forget the column in `value`."""
    for i in range(n):
        row = w.listed[i]
        w.value[row] = 0
        w.marked[row] = False


@helper
def spread(w: EliminationArrays, row: int, vectors: int) -> int:
    """Carry a change of u in a row without pivot (in `du`) on to the pivots; give how many rows change."""
    w.moved[0] = row
    w.in_moved[row] = True
    n = _pass_on(w, row, vectors, 1)
    for word in range((w.counts[PIVOTS] - 1) // _BITS, -1, -1):
        if w.bits[word] == 0:
            continue
        for bit in range(_BITS - 1, -1, -1):
            if (w.bits[word] >> bit) & 1 == 1 and _changes(w, w.pivot_row[word * _BITS + bit], vectors):
                n = _pass_on(w, w.pivot_row[word * _BITS + bit], vectors, n)
        w.bits[word] = 0
    return n


@helper
def _changes(w: EliminationArrays, row: int, vectors: int) -> bool:
    """Tell whether u changes in a row: in most rows that were reached the changes cancel out."""
    changed = False
    for v in range(vectors):
        changed = changed or w.du[row, v] != 0
    return changed


@helper
def _pass_on(w: EliminationArrays, row: int, vectors: int, n: int) -> int:
    """Change u in the rows of the pivots that have an entry in this row."""
    e = w.row_head[row]
    while e >= 0:
        k = w.entry_pivot[e]
        pivot = w.pivot_row[k]
        for v in range(vectors):
            w.du[pivot, v] = minus(w.du[pivot, v], times(w.entry_value[e], w.du[row, v]))
        if not w.in_moved[pivot]:
            w.in_moved[pivot] = True
            w.moved[n] = pivot
            n += 1
        w.bits[k // _BITS] |= 1 << (k % _BITS)
        e = w.entry_next[e]
    return n


@helper
def tally(w: EliminationArrays, moved: int, vectors: int) -> int:
    """Add up how the sums of the targets change; give how many do."""
    n = 0
    for i in range(moved):
        row = w.moved[i]
        if not _changes(w, row, vectors):
            continue
        for j in range(w.target_start[row], w.target_start[row + 1]):
            target = w.targets[j]
            for v in range(vectors):
                w.ds[target, v] = plus(w.ds[target, v], w.du[row, v])
            if not w.in_hit[target]:
                w.in_hit[target] = True
                w.hit[n] = target
                n += 1
    return n


@helper
def settle(w: EliminationArrays, moved: int, hit: int, vectors: int, keep: bool) -> None:
    """Make the changes of u and sums count, or forget them."""
    for i in range(moved):
        row = w.moved[i]
        w.in_moved[row] = False
        for v in range(vectors):
            if keep:
                w.u[row, v] = plus(w.u[row, v], w.du[row, v])
            w.du[row, v] = 0
    for i in range(hit):
        target = w.hit[i]
        w.in_hit[target] = False
        for v in range(vectors):
            if keep:
                w.sums[target, v] = plus(w.sums[target, v], w.ds[target, v])
            w.ds[target, v] = 0


EMPTY = -1
_MIX = 0x9E3779B97F4A7C1
_ENDLESS = PRIME
"""The ratio of a target whose second product is 0 and first is not."""


@helper
def _slot(w: EliminationArrays, key: int) -> int:
    mask = len(w.slot_key) - 1
    place = ((key * _MIX) >> 20) & mask
    while w.slot_key[place] != key and w.slot_key[place] != EMPTY:
        place = (place + 1) & mask
    return place


@helper
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


@helper
def shares_ratio(w: EliminationArrays, first: int, second: int) -> bool:
    """Tell whether a primary target has the ratio of two products: what has them, once published, gives it away."""
    key = times(first, inverse(second)) if second != 0 else _ENDLESS
    place = _slot(w, key)
    found: bool = w.slot_key[place] == key and w.slot_counts[place, 1] > 0
    return found


@helper
def new_ratios(w: EliminationArrays, hit: int) -> None:
    """Compute the ratios that the targets in `hit` are about to have."""
    n = 0
    for i in range(hit):
        target = w.hit[i]
        second = plus(w.sums[target, 1], w.ds[target, 1])
        if second != 0:
            w.scratch[n] = second
            n += 1
    invert_all(w.scratch, n, w.new_keys)
    n = 0
    for i in range(hit):
        target = w.hit[i]
        first, second = plus(w.sums[target, 0], w.ds[target, 0]), plus(w.sums[target, 1], w.ds[target, 1])
        if second != 0:
            w.new_keys[i] = times(first, w.scratch[n])
            n += 1
        else:
            w.new_keys[i] = EMPTY if first == 0 else _ENDLESS
        w.new_kin[i] = w.own_kin[target]
        for j in range(w.inside_start[target], w.inside_start[target + 1]):
            row = w.inside[j]
            w.new_kin[i] += plus(w.u[row, 0], w.du[row, 0]) == first


@helper
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


@helper
def rebuild(w: EliminationArrays) -> None:
    """Fill the table of ratios anew, without the ratios nobody has any more."""
    w.slot_key[:] = EMPTY
    w.counts[SLOTS] = 0
    for target in range(len(w.keys)):
        if w.keys[target] != EMPTY:
            _count(w, w.keys[target], target, w.kin[target], 1)


STEP = 256
"""Candidates between two reports of progress."""

_LARGE = 4000
"""Rows from which on pivots are made anew now and then."""

_SHARE = 2
"""They are when the rows without pivot are fewer by this part than the last time."""

_ENTRY_WEIGHT = 4
"""What a pivot that depends on a row counts, beside a target that does, when pivot rows are chosen."""

Columns = tuple[Ints, Ints32]
"""Columns of 0 and 1 over the inner cells: where each begins, and the rows of all (ascending in each)."""


def publishable(
    columns: Columns,
    order: Ints,
    n_rows: int,
    targets: Columns,
    primary: Bools,
    single: Bools,
    progress: Callable[[int, int], None] | None = None,
    hopeful: Callable[[int, Bools], bool] | None = None,
) -> Bools:
    """Go through candidate columns in an order and publish each that makes no primary target computable.

    `columns` holds the published cells over the inner cells, `order` the candidates; a target is a column too: primary
    ones must not lie in the span of what is published. With any single target (one that somebody knows) no primary
    target may be computable by means of one single one either. Targets must be different columns. The answer, one entry
    per place of `order`, is the largest set that going through in this order allows: a refused candidate stays refused.
    `hopeful` is asked now and then with how many candidates are done and what was accepted; if it says no, the rest
    count as refused.

    Exact modulo 2⁶¹ − 1. A table's minors are small whole numbers, which this prime does not divide; the products with
    random vectors that stand for "in the span" are wrong with a chance of about 2⁻⁶¹ per comparison.
    """
    work = _new_work(columns, n_rows, targets, primary, single)
    vectors = work.u.shape[1]
    accepted = np.zeros(len(order), np.bool_)
    done, step = 0, STEP if hopeful is None else STEP // 2
    renew = n_rows // _SHARE if n_rows >= _LARGE else n_rows + 1
    while done < len(order) and (hopeful is None or hopeful(done, accepted)):
        stop = min(done + step, len(order))
        if len(work.entry_row) - work.counts[USED] < n_rows:
            work = _grown(work)
        done = int(_offer_all(work, order, done, stop, accepted, vectors))
        if work.counts[PIVOTS] >= renew:
            work = _renewed(work, order[:done][accepted[:done]])
            renew = int(work.counts[PIVOTS]) + (n_rows - int(work.counts[PIVOTS])) // _SHARE + 1
        if progress is not None:
            progress(done, len(order))
    return accepted


def _random(shape: tuple[int, int]) -> Ints:
    """Give numbers that look random, the same on every machine (splitmix64), below the prime and not 0."""
    x: Keys = np.arange(1, shape[0] * shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x % np.uint64(PRIME - 1) + np.uint64(1)).astype(np.int64).reshape(shape)


def transposed(columns: Columns, n_rows: int) -> Columns:
    """Give for each row the columns that contain it, ascending."""
    start, rows = columns
    numbers = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    by_row = np.argsort(rows, kind="stable")
    begin = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=begin[1:])
    return begin, numbers[by_row]


def _singles_inside(targets: Columns, primary: Bools, single: Bools) -> Columns:
    """Give for each primary target the rows of the single targets of one row that are part of it."""
    start, rows = targets
    known = np.zeros(int(rows.max(initial=0)) + 1, np.bool_)
    length = np.diff(start)
    known[rows[start[:-1][single & (length == 1)]]] = True
    kept = np.repeat(primary, length) & known[rows]
    begin = np.zeros(len(start), np.int64)
    np.cumsum(np.bincount(np.repeat(np.arange(len(length)), length)[kept], minlength=len(length)), out=begin[1:])
    return begin, rows[kept]


def _new_work(columns: Columns, n_rows: int, targets: Columns, primary: Bools, single: Bools) -> EliminationArrays:
    t = len(primary)
    vectors = 2
    target_start, row_targets = transposed(targets, n_rows)
    inside_start, inside = _singles_inside(targets, primary, single)
    room = 4 * len(columns[1]) + 2 * n_rows
    slots = 1 << max(int(8 * t).bit_length(), 4)
    work = EliminationArrays(
        column_start=columns[0],
        column_rows=columns[1],
        target_start=target_start,
        targets=row_targets,
        primary=primary,
        single=single,
        inside_start=inside_start,
        inside=inside,
        own_kin=(primary & single & (np.diff(targets[0]) > 1)).astype(np.int32),
        u=_random((n_rows, vectors)),
        sums=np.zeros((t, vectors), np.int64),
        pivot_of=np.full(n_rows, -1, np.int64),
        pivot_row=np.zeros(n_rows, np.int64),
        pivot_start=np.zeros(n_rows + 1, np.int64),
        entry_row=np.zeros(room, np.int32),
        entry_value=np.zeros(room, np.int64),
        entry_pivot=np.zeros(room, np.int32),
        entry_next=np.zeros(room, np.int64),
        row_head=np.full(n_rows, -1, np.int64),
        row_entries=np.zeros(n_rows, np.int64),
        value=np.zeros(n_rows, np.int64),
        marked=np.zeros(n_rows, np.bool_),
        listed=np.zeros(n_rows, np.int64),
        bits=np.zeros(n_rows // 32 + 1, np.int64),
        du=np.zeros((n_rows, vectors), np.int64),
        moved=np.zeros(n_rows, np.int64),
        in_moved=np.zeros(n_rows, np.bool_),
        ds=np.zeros((t, vectors), np.int64),
        hit=np.zeros(t, np.int64),
        in_hit=np.zeros(t, np.bool_),
        keys=np.full(t, EMPTY, np.int64),
        new_keys=np.zeros(t, np.int64),
        kin=np.zeros(t, np.int32),
        new_kin=np.zeros(t, np.int32),
        scratch=np.zeros(t, np.int64),
        slot_key=np.full(slots, EMPTY, np.int64),
        slot_counts=np.zeros((slots, 3), np.int32),
        counts=np.zeros(3, np.int64),
    )
    _begin(work, targets[0], targets[1], vectors)
    return work


def _grown(work: EliminationArrays) -> EliminationArrays:
    """Give the state with twice the room for entries."""
    room = 2 * len(work.entry_row) + len(work.u)
    larger = {}
    for name in ("entry_row", "entry_value", "entry_pivot", "entry_next"):
        old = getattr(work, name)
        larger[name] = np.zeros(room, old.dtype)
        larger[name][: len(old)] = old
    return work._replace(**larger)


def _renewed(work: EliminationArrays, columns: Ints) -> EliminationArrays:
    """Give the same span by other pivots: those of short columns first, which leave little of the long ones.

    Totals come first in most orders, and their pivots have entries in nearly all rows. What lies in the span, and the
    random vectors with it, does not depend on the pivots.
    """
    by_length = columns[np.argsort(np.diff(work.column_start)[columns], kind="stable")]
    while not _pivots_of(work, by_length):
        work = _grown(work)
    return work


@kernel
def _pivots_of(w: EliminationArrays, columns: Ints) -> bool:
    """Make pivots of columns in the order given, instead of those there are; tell whether there was room."""
    w.pivot_of[:] = -1
    w.row_head[:] = -1
    w.row_entries[:] = 0
    w.counts[PIVOTS], w.counts[USED] = 0, 0
    for i in range(len(columns)):
        if len(w.entry_row) - w.counts[USED] < len(w.u):
            return False
        listed = reduce(w, w.column_rows, w.column_start[columns[i]], w.column_start[columns[i] + 1])
        row = _best_row(w, listed)
        if row >= 0:
            _add_pivot(w, row, inverse(w.value[row]), listed)
        clear(w, listed)
    return True


@kernel
def _begin(w: EliminationArrays, target_start: Ints, target_rows: Ints32, vectors: int) -> None:
    """Compute the products of the targets with the random vectors, and their ratios."""
    t = len(w.primary)
    for target in range(t):
        w.hit[target] = target
        for i in range(target_start[target], target_start[target + 1]):
            for v in range(vectors):
                w.ds[target, v] = plus(w.ds[target, v], w.u[target_rows[i], v])
    if vectors > 1:
        new_ratios(w, t)
        exchange(w, t)
    settle(w, 0, t, vectors, True)


@kernel
def _offer_all(w: EliminationArrays, order: Ints, start: int, stop: int, accepted: Bools, vectors: int) -> int:
    """Offer candidates one after the other, as long as there is room; give how far it came."""
    n = len(w.u)
    for place in range(start, stop):
        if len(w.entry_row) - w.counts[USED] < n:
            return place
        accepted[place] = _offer(w, order[place], vectors)
    return stop


@helper
def _offer(w: EliminationArrays, column: int, vectors: int) -> bool:
    start, stop = w.column_start[column], w.column_start[column + 1]
    first, second = 0, 0
    for i in range(start, stop):
        first, second = plus(first, w.u[w.column_rows[i], 0]), plus(second, w.u[w.column_rows[i], 1])
    if first == 0 and second == 0:
        return True
    if shares_ratio(w, first, second):
        return False
    listed = reduce(w, w.column_rows, start, stop)
    row = _best_row(w, listed)
    scale = inverse(w.value[row])
    w.du[row, 0] = minus(0, times(first, scale))
    w.du[row, 1] = minus(0, times(second, scale))
    moved = spread(w, row, vectors)
    hit = tally(w, moved, vectors)
    allowed = _none_computable(w, hit, vectors)
    if allowed and vectors > 1:
        new_ratios(w, hit)
        allowed = not exchange(w, hit)
    settle(w, moved, hit, vectors, allowed)
    if allowed:
        _add_pivot(w, row, scale, listed)
    clear(w, listed)
    return allowed


@helper
def _best_row(w: EliminationArrays, listed: int) -> int:
    """Choose the pivot row of a reduced column: the one on which fewest targets and pivots depend."""
    best, least = -1, -1
    for i in range(listed):
        row = w.listed[i]
        if w.value[row] == 0:
            continue
        score = w.target_start[row + 1] - w.target_start[row] + _ENTRY_WEIGHT * w.row_entries[row]
        if best < 0 or score < least:
            best, least = row, score
    return best


@helper
def _none_computable(w: EliminationArrays, hit: int, vectors: int) -> bool:
    for i in range(hit):
        target = w.hit[i]
        if not w.primary[target]:
            continue
        zero = True
        for v in range(vectors):
            zero = zero and plus(w.sums[target, v], w.ds[target, v]) == 0
        if zero:
            return False
    return True


@helper
def _add_pivot(w: EliminationArrays, row: int, scale: int, listed: int) -> None:
    k, used = w.counts[PIVOTS], w.counts[USED]
    w.pivot_of[row] = k
    w.pivot_row[k] = row
    w.pivot_start[k] = used
    for i in range(listed):
        other = w.listed[i]
        if other == row or w.value[other] == 0:
            continue
        w.entry_row[used] = other
        w.entry_value[used] = times(w.value[other], scale)
        w.entry_pivot[used] = k
        w.entry_next[used] = w.row_head[other]
        w.row_head[other] = used
        w.row_entries[other] += 1
        used += 1
    w.pivot_start[k + 1] = used
    w.counts[PIVOTS] = k + 1
    w.counts[USED] = used
