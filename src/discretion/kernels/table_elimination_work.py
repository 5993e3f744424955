"""The state of an elimination over the inner cells of a table, and its two elementary steps.

Published cells are columns of 0 and 1 over the inner cells (rows). Each independent one becomes a pivot: a column with
1 in its pivot row, free of the rows of earlier pivots. Beside them stand a few random vectors u that are orthogonal to
every pivot: arbitrary in rows without pivot, computed in the others. A column lies in the span of the pivots exactly
when every such vector is orthogonal to it, so that one number per column, u·column, tells whether the cell can be
computed from what is published.
"""

from __future__ import annotations

from typing import NamedTuple

from discretion.kernels.arrays import Bools, Ints, Ints32
from discretion.kernels.jit import helper
from discretion.kernels.table_elimination_field import minus, plus, times

PIVOTS, USED, SLOTS = 0, 1, 2
"""Places in `Work.counts`: pivots so far, entries in their columns, slots of the table of ratios in use."""

_BITS = 32


class Work(NamedTuple):
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
def reduce(w: Work, rows: Ints32, start: int, stop: int) -> int:
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
def clear(w: Work, n: int) -> None:
    """Forget the column in `value`."""
    for i in range(n):
        row = w.listed[i]
        w.value[row] = 0
        w.marked[row] = False


@helper
def spread(w: Work, row: int, vectors: int) -> int:
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
def _changes(w: Work, row: int, vectors: int) -> bool:
    """Tell whether u changes in a row: in most rows that were reached the changes cancel out."""
    changed = False
    for v in range(vectors):
        changed = changed or w.du[row, v] != 0
    return changed


@helper
def _pass_on(w: Work, row: int, vectors: int, n: int) -> int:
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
def tally(w: Work, moved: int, vectors: int) -> int:
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
def settle(w: Work, moved: int, hit: int, vectors: int, keep: bool) -> None:
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
