"""Which cells of a table may be published without making others computable: sparse elimination modulo a prime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discretion.kernels.arrays import Bools, Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel
from discretion.kernels.table_elimination_field import PRIME, inverse, minus, plus, times
from discretion.kernels.table_elimination_ratios import EMPTY, exchange, new_ratios, shares_ratio
from discretion.kernels.table_elimination_work import PIVOTS, USED, Work, clear, reduce, settle, spread, tally

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


def _new_work(columns: Columns, n_rows: int, targets: Columns, primary: Bools, single: Bools) -> Work:
    t = len(primary)
    vectors = 2
    target_start, row_targets = transposed(targets, n_rows)
    inside_start, inside = _singles_inside(targets, primary, single)
    room = 4 * len(columns[1]) + 2 * n_rows
    slots = 1 << max(int(8 * t).bit_length(), 4)
    work = Work(
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


def _grown(work: Work) -> Work:
    """Give the state with twice the room for entries."""
    room = 2 * len(work.entry_row) + len(work.u)
    larger = {}
    for name in ("entry_row", "entry_value", "entry_pivot", "entry_next"):
        old = getattr(work, name)
        larger[name] = np.zeros(room, old.dtype)
        larger[name][: len(old)] = old
    return work._replace(**larger)


def _renewed(work: Work, columns: Ints) -> Work:
    """Give the same span by other pivots: those of short columns first, which leave little of the long ones.

    Totals come first in most orders, and their pivots have entries in nearly all rows. What lies in the span, and the
    random vectors with it, does not depend on the pivots.
    """
    by_length = columns[np.argsort(np.diff(work.column_start)[columns], kind="stable")]
    while not _pivots_of(work, by_length):
        work = _grown(work)
    return work


@kernel
def _pivots_of(w: Work, columns: Ints) -> bool:
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
def _begin(w: Work, target_start: Ints, target_rows: Ints32, vectors: int) -> None:
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
def _offer_all(w: Work, order: Ints, start: int, stop: int, accepted: Bools, vectors: int) -> int:
    """Offer candidates one after the other, as long as there is room; give how far it came."""
    n = len(w.u)
    for place in range(start, stop):
        if len(w.entry_row) - w.counts[USED] < n:
            return place
        accepted[place] = _offer(w, order[place], vectors)
    return stop


@helper
def _offer(w: Work, column: int, vectors: int) -> bool:
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
def _best_row(w: Work, listed: int) -> int:
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
def _none_computable(w: Work, hit: int, vectors: int) -> bool:
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
def _add_pivot(w: Work, row: int, scale: int, listed: int) -> None:
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
