"""Classes of a more general node of a lattice from those of a less general one.

The codes of all columns of a class are packed into bit fields of one or more 64-bit words, at places that stay the
same from the data to the top of the lattice. Going up replaces some fields by those of their parents and adds up the
classes that have become equal: one pass with a hash table, over classes instead of records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Keys
from discretion.kernels.jit import helper, kernel, lean_kernel


@kernel
def small_cells(codes: Ints32, counts: Ints, parents: Ints32, sizes: Ints, k: int) -> tuple[Ints, Ints]:
    """Count, at each combination of levels of three columns, the records in cells below k and the cells of k or more.

    `codes` has a row per column; `parents[j, level]` maps the codes of column j from a level to the next;
    `sizes[j, level]` is the number of codes at a level, 0 above the top. Time O(records + cells at all levels).
    """
    levels = np.zeros(3, np.int64)
    for j in range(3):
        for level in range(sizes.shape[1]):
            levels[j] += sizes[j, level] > 0
    small = np.zeros((levels[0], levels[1], levels[2]), np.int64)
    big = np.zeros((levels[0], levels[1], levels[2]), np.int64)
    b, c = sizes[1, 0], sizes[2, 0]
    first = np.zeros(sizes[0, 0] * b * c, np.int32)  # at most 2³¹ − 1 records
    for row in range(counts.size):
        first[(codes[0, row] * b + codes[1, row]) * c + codes[2, row]] += np.int32(counts[row])
    for x in range(levels[0]):
        if x > 0:
            first = _roll(first, parents[0, x - 1], 1, sizes[0, x - 1], sizes[0, x], b * c)
        second = first
        for y in range(levels[1]):
            if y > 0:
                second = _roll(second, parents[1, y - 1], sizes[0, x], sizes[1, y - 1], sizes[1, y], c)
            third = second
            for z in range(levels[2]):
                if z > 0:
                    rows = sizes[0, x] * sizes[1, y]
                    third = _roll(third, parents[2, z - 1], rows, sizes[2, z - 1], sizes[2, z], 1)
                records, cells = 0, 0
                for cell in range(third.size):
                    size = third[cell]
                    cells += size >= k
                    records += size if size < k else 0
                small[x, y, z], big[x, y, z] = records, cells
    return small, big


@helper
def _roll(table: Ints32, parent: Ints32, outer: int, before: int, after: int, inner: int) -> Ints32:
    """Add up the cells of one axis by their parents."""
    result = np.zeros(outer * after * inner, np.int32)
    for o in range(outer):
        for old in range(before):
            source = (o * before + old) * inner
            target = (o * after + parent[old]) * inner
            for i in range(inner):
                result[target + i] += table[source + i]
    return result


# Figures of cells added to those of the cells above them, and of respondents that are in many cells.


@kernel
def add_along(column: NDArray[Any], child: Ints32, parent: Ints32) -> None:
    """Add each child's figure to its parent's, in order."""
    for k in range(child.size):
        column[parent[k]] += column[child[k]]


@kernel
def larger_along(column: Floats, child: Ints32, parent: Ints32) -> None:
    """Give each parent the largest figure of its children."""
    for k in range(child.size):
        column[parent[k]] = max(column[parent[k]], column[child[k]])


@kernel
def top_along(values: Floats, ids: Ints32, child: Ints32, top: Floats, who: Ints32, parent: Ints32) -> None:
    """Merge the largest contributions of each child into those of its parent.

    Places hold values in descending order, −1 in `ids` where there is none; of equal values the lower id comes first.
    No respondent may be in two children of one parent. Time O(children·places).
    """
    for k in range(child.size):
        for s in range(values.shape[1]):
            if ids[child[k], s] >= 0:
                _insert(top, who, parent[k], values[child[k], s], ids[child[k], s])


@helper
def _insert(top: Floats, who: Ints32, cell: int, value: float, name: int) -> None:
    """Put one contribution among the largest of a cell."""
    t = top.shape[1]
    k = t
    while k > 0 and (
        who[cell, k - 1] < 0 or value > top[cell, k - 1] or (value == top[cell, k - 1] and name < who[cell, k - 1])
    ):
        k -= 1
    if k == t:
        return
    for move in range(t - 1, k, -1):
        top[cell, move] = top[cell, move - 1]
        who[cell, move] = who[cell, move - 1]
    top[cell, k] = value
    who[cell, k] = name


@kernel
def cells_of_respondent(
    place: Ints32, above: Ints32, variable: Ints, cells: Ints32, entries: Ints32
) -> tuple[Ints32, Ints32, int]:
    """List every cell above the inner cells of one respondent, with the entry that leads there.

    `place` has the inner cell of each entry, `above` the cell above each along each tree (−1: none), trees in order of
    their `variable`. Gives the lists, which may have grown, and how many places are in use; a cell stands there once
    for each entry below it. Time O(cells listed · trees).
    """
    used = 0
    trees = variable.size
    for e in range(place.size):
        start = used
        cells, entries, used = _append(cells, entries, used, place[e], e)
        tree = 0
        while tree < trees:
            end = tree
            while end < trees and variable[end] == variable[tree]:
                end += 1
            at = start
            while at < used:
                for k in range(tree, end):
                    up = above[k, cells[at]]
                    if up >= 0:
                        cells, entries, used = _append(cells, entries, used, up, e)
                at += 1
            tree = end
    return cells, entries, used


@helper
def _append(cells: Ints32, entries: Ints32, used: int, cell: int, entry: int) -> tuple[Ints32, Ints32, int]:
    if used == cells.size:
        more_cells, more_entries = np.empty(2 * used, np.int32), np.empty(2 * used, np.int32)
        more_cells[:used] = cells
        more_entries[:used] = entries
        cells, entries = more_cells, more_entries
    cells[used] = cell
    entries[used] = entry
    return cells, entries, used + 1


@kernel
def add_respondents(
    bounds: Ints,
    place: Ints32,
    above: Ints32,
    variable: Ints,
    who: Ints32,
    x: Floats,
    waived: Bools,
    requested: Bools,
    figures: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints32],
) -> None:
    """Count respondents in every cell they are in, with all they contribute to it added up first.

    Respondent g has the entries `bounds[g]:bounds[g+1]`; `x` is one response, NaN where there is none. `figures` are
    gross, count, negative, open count, open top, requested, top and ids of all cells; those of length 0 are not wanted.
    A respondent waived protection in a cell when all its entries there did, and asked for it when one of them did.
    Time O(entries · cells above each · log), memory that of one respondent's cells.
    """
    gross, count, negative, open_count, open_top, wanted, top, ids = figures
    cells, entries = np.empty(1024, np.int32), np.empty(1024, np.int32)
    for g in range(bounds.size - 1):
        low = bounds[g]
        cells, entries, used = cells_of_respondent(place[low : bounds[g + 1]], above, variable, cells, entries)
        order = np.argsort(cells[:used], kind="mergesort")
        at = 0
        while at < used:
            cell = cells[order[at]]
            total, present, all_waived, any_requested = 0.0, False, True, False
            while at < used and cells[order[at]] == cell:
                e = low + entries[order[at]]
                at += 1
                all_waived = all_waived and waived[e]
                any_requested = any_requested or requested[e]
                if not np.isnan(x[e]):
                    present = True
                    total += x[e]
            if not present:
                continue
            size = abs(total)
            count[cell] += 1
            if gross.size:
                gross[cell] += size
                negative[cell] += total < 0
            if open_count.size and not all_waived:
                open_count[cell] += 1
                open_top[cell] = max(open_top[cell], size)
            if wanted.size and any_requested:
                wanted[cell] = max(wanted[cell], size)
            _insert(top, ids, cell, size, who[low])


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Room:
    """Memory for the classes of one node, used again for the next: fresh pages cost more than what is done in them."""

    def __init__(self, rows: int, words: int, values: int = 0) -> None:
        self.slots = np.empty(1 << max(4, (2 * rows - 1).bit_length()), np.int32)
        self.merged = np.empty((rows, words), np.uint64)
        self.sums = np.empty(rows, np.int64)
        self.numbers = np.empty(rows, np.int32)
        self.table = np.empty((rows, values), np.int32)


def merge(
    keys: Keys, counts: Ints, keep: Keys, moves: Ints, tables: Keys, room: Room | None = None
) -> tuple[Keys, Ints, Ints32]:
    """Replace fields and add up equal classes, numbered in order of first appearance.

    `keys` has a row of words for each class; `keep` masks the fields that stay; each row of `moves` is (word, shift,
    mask, offset) of a field to replace by `tables[offset + field]`, which is already shifted to its place. Gives the
    keys and counts of the new classes, and the new class of each old one; they stand in the room given, until it is
    used again. Time O(classes), memory about 32 bytes a class.
    """
    n, words = keys.shape
    room = Room(n, words) if room is None else room
    slots, numbers = room.slots[: 1 << max(4, (2 * n - 1).bit_length())], room.numbers[:n]
    slots.fill(-1)
    work = _merge_words if words > 1 else _merge
    found = work(keys, counts, keep, moves, tables, slots, room.merged, room.sums, numbers)
    return room.merged[:found], room.sums[:found], numbers


@kernel
def _merge(
    keys: Keys,
    counts: Ints,
    keep: Keys,
    moves: Ints,
    tables: Keys,
    slots: Ints32,
    merged: Keys,
    sums: Ints,
    numbers: Ints32,
) -> int:
    """Merge keys of one word."""
    mask = np.uint64(slots.size - 1)
    shifts = moves[:, 1].astype(np.uint64)
    fields = moves[:, 2].astype(np.uint64)
    offsets = moves[:, 3].copy()
    found = 0
    for row in range(keys.shape[0]):
        old = keys[row, 0]
        key = old & keep[0]
        for move in range(shifts.size):
            key |= tables[offsets[move] + np.int64((old >> shifts[move]) & fields[move])]
        mixed = key * _GOLDEN
        place = (mixed ^ (mixed >> np.uint64(32))) & mask
        number = slots[place]
        while number >= 0 and merged[number, 0] != key:
            place = (place + np.uint64(1)) & mask
            number = slots[place]
        if number < 0:
            number = found
            slots[place] = found
            merged[found, 0] = key
            sums[found] = counts[row]
            found += 1
        else:
            sums[number] += counts[row]
        numbers[row] = number
    return found


@kernel
def _merge_words(
    keys: Keys,
    counts: Ints,
    keep: Keys,
    moves: Ints,
    tables: Keys,
    slots: Ints32,
    merged: Keys,
    sums: Ints,
    numbers: Ints32,
) -> int:
    """Merge keys of several words; the next free row of `merged` holds the key that is being looked for."""
    mask = slots.size - 1
    found = 0
    for row in range(keys.shape[0]):
        for word in range(keys.shape[1]):
            merged[found, word] = keys[row, word] & keep[word]
        for move in range(moves.shape[0]):
            word = moves[move, 0]
            field = (keys[row, word] >> np.uint64(moves[move, 1])) & np.uint64(moves[move, 2])
            merged[found, word] |= tables[moves[move, 3] + np.int64(field)]
        mixed = np.uint64(0)
        for word in range(keys.shape[1]):
            mixed = (mixed ^ merged[found, word]) * _GOLDEN
            mixed ^= mixed >> np.uint64(32)
        place = np.int64(mixed & np.uint64(mask))
        number = slots[place]
        while number >= 0 and not _same(merged, number, found):
            place = (place + 1) & mask
            number = slots[place]
        if number < 0:
            number = found
            slots[place] = found
            sums[found] = counts[row]
            found += 1
        else:
            sums[number] += counts[row]
        numbers[row] = number
    return found


@kernel
def add_rows(table: Ints32, numbers: Ints32, wanted: Ints, result: Ints32) -> None:
    """Add up the rows of a table by their new numbers; rows for which 0 is wanted are left as they are."""
    for number in range(wanted.size):
        if wanted[number] > 0:
            result[number] = 0
    for row in range(numbers.size):
        number = numbers[row]
        if wanted[number] > 0:
            for place in range(table.shape[1]):
                result[number, place] += table[row, place]


@helper
def _same(keys: Keys, one: Index, other: Index) -> bool:
    equal = True
    for word in range(keys.shape[1]):
        equal &= keys[one, word] == keys[other, word]
    return equal


@kernel
def small_classes(counts: Ints, k: int) -> tuple[int, int]:
    """Count the classes with fewer than k records, and their records."""
    classes = 0
    records = 0
    for row in range(counts.size):
        if counts[row] < k:
            classes += 1
            records += counts[row]
    return classes, records


@kernel
def figures(counts: Ints, gone: Bools) -> tuple[int, int, int, int, float]:
    """Describe the classes that are not gone: number, records, smallest, largest, sum of squares."""
    classes = 0
    records = 0
    smallest = 0
    largest = 0
    squares = 0.0
    for row in range(counts.size):
        if gone[row] or counts[row] == 0:
            continue
        size = counts[row]
        classes += 1
        records += size
        squares += float(size) * float(size)
        if smallest == 0 or size < smallest:
            smallest = size
        largest = max(largest, size)
    return classes, records, smallest, largest, squares


@kernel
def histogram(keys: Keys, counts: Ints, chosen: Bools, fields: Ints, places: int) -> Ints:
    """Count the records of the chosen classes by the value of each field.

    Each row of `fields` is (word, shift, mask, offset): the value v of the field is counted at offset + v.
    """
    result = np.zeros(places, np.int64)
    for row in range(counts.size):
        if chosen[row]:
            for j in range(fields.shape[0]):
                field = (keys[row, fields[j, 0]] >> np.uint64(fields[j, 1])) & np.uint64(fields[j, 2])
                result[fields[j, 3] + np.int64(field)] += counts[row]
    return result


@kernel
def sums_by_field(keys: Keys, counts: Ints, chosen: Bools, fields: Ints, figures: Ints) -> Ints:
    """Add up, for each field and over the chosen classes, records × the figure of the field's value."""
    result = np.zeros(fields.shape[0], np.int64)
    for row in range(counts.size):
        if chosen[row]:
            for j in range(fields.shape[0]):
                field = (keys[row, fields[j, 0]] >> np.uint64(fields[j, 1])) & np.uint64(fields[j, 2])
                result[j] += counts[row] * figures[fields[j, 3] + np.int64(field)]
    return result


@kernel
def sum_of_products(keys: Keys, counts: Ints, gone: Bools, fields: Ints, factors: Floats) -> float:
    """Add up, over the classes that are not gone, records × the product of a factor for each field's value."""
    total = 0.0
    for row in range(counts.size):
        if not gone[row]:
            product = float(counts[row])
            for j in range(fields.shape[0]):
                field = (keys[row, fields[j, 0]] >> np.uint64(fields[j, 1])) & np.uint64(fields[j, 2])
                product *= factors[fields[j, 3] + np.int64(field)]
            total += product
    return total


def sensitive_triples(owners: Ints32, values: Ints, counts: Ints, classes: int, size: int) -> tuple[Ints, Ints, Ints]:
    """Add up counts by class and value: starts of each class, values and counts, sorted by class, then value.

    `owners` is the class of each entry, or −1 for none; values are 0 … size−1. Time O(entries + classes + size): the
    entries are sorted by value, and these by class, by counting. Memory linear.
    """
    given = np.flatnonzero(owners >= 0)
    values, counts, owners_of = (np.ascontiguousarray(x, dtype=np.int64) for x in (values, counts, owners))
    by_value, by_class = np.empty_like(given), np.empty_like(given)
    _sort_by(values, given, _starts(values[given], size), by_value)
    starts = _starts(owners_of[given], classes)
    _sort_by(owners_of, by_value, starts.copy(), by_class)
    out_values, out_counts = np.empty(len(given), np.int64), np.zeros(len(given), np.int64)
    ends = np.zeros(classes + 1, np.int64)
    found = _triples(by_class, starts, values, counts, out_values, out_counts, ends)
    return ends, out_values[:found], out_counts[:found]


def _starts(labels: Ints, size: int) -> Ints:
    """Give where each of the labels 0 … size−1 begins when they are sorted, and their number."""
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=size))])


@lean_kernel
def _sort_by(labels: Ints, order: Ints, places: Ints, result: Ints) -> None:
    """Sort entries by label (stable); `places` says where each label begins, and is used up."""
    for i in range(order.size):
        label = labels[order[i]]
        result[places[label]] = order[i]
        places[label] += 1


@lean_kernel
def _triples(
    order: Ints, starts: Ints, values: Ints, counts: Ints, out_values: Ints, out_counts: Ints, ends: Ints
) -> int:
    found = 0
    for number in range(starts.size - 1):
        first = found
        for place in range(starts[number], starts[number + 1]):
            entry = order[place]
            if found == first or out_values[found - 1] != values[entry]:
                out_values[found] = values[entry]
                found += 1
            out_counts[found - 1] += counts[entry]
        ends[number + 1] = found
    return found
