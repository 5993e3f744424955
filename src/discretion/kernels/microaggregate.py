"""Groups of records: how they are formed, who is in each, what stands for it (mean, median, most frequent value)."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discretion.kernels.arrays import Bools, Floats, Index, Ints, Ints32, Progress, as_integers, as_matrix, as_vector
from discretion.kernels.jit import helper, kernel, lean_helper, lean_kernel

# Running sums that do not drift when values are added and taken away millions of times.


@lean_helper
def add_exactly(total: Floats, value: float) -> None:
    """Add a value to a sum kept as (sum, rounding error), after Neumaier: it is `total[0] + total[1]`."""
    before = total[0]
    after = before + value
    if abs(before) >= abs(value):
        total[1] += (before - after) + value
    else:
        total[1] += (value - after) + before
    total[0] = after


# Microaggregation of one column (P15): where to cut the sorted values, and the mean of each piece.
#
# Both ways of cutting take values in ascending order and return the bounds of the groups: the first position of each
# group in ascending order, and n at the end. Group g is `values[bounds[g]:bounds[g + 1]]`.


def mdav_bounds(values: ArrayLike, k: int, order: ArrayLike | None = None) -> Ints:
    """Cut sorted values by MDAV: k at the end farthest from the mean of the rest, then k at the other end.

    This goes on while 3k or more are left; of 2k … 3k−1 one more group of k is taken at the farthest end; the
    rest is the last group. Fewer than 2k values are one group.

    `order` gives the row of each sorted value (equal values by ascending row; positions count as rows
    without it). It decides when both ends are equally far: the end with the lowest row goes first, where
    of equal values cut in two by a border the lowest rows have left first. The groups are therefore those
    of the plain multivariate algorithm on one column, up to an exchange of records with equal values,
    which no released value can show. Time and memory O(n); no NaN.
    """
    x = _checked(values, k)
    rows = np.arange(x.size) if order is None else as_integers(order)
    is_bound = np.zeros(x.size + 1, np.bool_)
    runs = np.array([0, 0, x.size, x.size])  # see _low_end_first
    _mdav_bounds(x, k, rows, is_bound, np.zeros(2), runs)
    return np.flatnonzero(is_bound)


def optimal_bounds(values: ArrayLike, k: int) -> Ints:
    """Cut sorted values into groups of at least k with the least sum of squared errors (Hansen & Mukherjee).

    Of equally good cuts the one with the shortest last group is taken, then with the shortest before it,
    and so on. Time O(k·n), memory O(n); no NaN.
    """
    x = _checked(values, k)
    cost = np.full(x.size + 1, np.inf)  # of the best cut of the first i values
    start = np.zeros(x.size + 1, np.int64)  # of the last group in that cut
    inverse = 1.0 / np.arange(1, 2 * k)  # of group sizes, because a division takes longer than all the rest
    is_bound = np.zeros(x.size + 1, np.bool_)
    _optimal_bounds(x, k, cost, start, inverse, is_bound)
    return np.flatnonzero(is_bound)


def replace_by_mean(values: ArrayLike, bounds: ArrayLike, order: ArrayLike) -> Floats:
    """Return for each row (by its original number) the mean of its group.

    `order` gives the row of each sorted value. A group of equal values keeps exactly that value. Time O(n).
    """
    x = as_vector(values)
    out = np.empty(x.size)
    _replace_by_mean(x, as_integers(bounds), as_integers(order), out)
    return out


def _checked(values: ArrayLike, k: int) -> Floats:
    x = as_vector(values)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if x.size < k:
        raise ValueError(f"a group needs k = {k} values, got {x.size}")
    return x


@lean_kernel
def _mdav_bounds(x: Floats, k: int, rows: Ints, is_bound: Bools, total: Floats, runs: Ints) -> None:
    """Mark the bounds; `total` is the sum of what is left and its rounding error."""
    low, high = 0, x.size  # what is left is x[low:high]
    is_bound[low] = is_bound[high] = True
    for i in range(x.size):
        add_exactly(total, x[i])
    while high - low >= 2 * k:
        center = (total[0] + total[1]) / (high - low)
        from_low = _low_end_first(x, rows, low, high, center, runs)
        pair = high - low >= 3 * k
        if from_low or pair:
            for i in range(low, low + k):
                add_exactly(total, -x[i])
            low += k
            is_bound[low] = True
        if pair or not from_low:
            for i in range(high - k, high):
                add_exactly(total, -x[i])
            high -= k
            is_bound[high] = True
        if not pair:
            break


@lean_helper
def _low_end_first(x: Floats, rows: Ints, low: Index, high: Index, center: float, runs: Ints) -> bool:
    """Is the low end farther from the center than the high end (or as far, with a lower row)?

    `runs` keeps the bounds of the equal values at the low end (0, 1) and at the high end (2, 3) from call to
    call, so that finding them takes O(n) over all calls.
    """
    below = (x[low] - center) * (x[low] - center)
    above = (x[high - 1] - center) * (x[high - 1] - center)
    if below != above:
        return bool(below > above)
    if runs[1] <= low:
        runs[0] = runs[1] = low
        while runs[0] > 0 and x[runs[0] - 1] == x[low]:
            runs[0] -= 1
    while runs[1] < x.size and x[runs[1]] == x[low]:
        runs[1] += 1
    if runs[2] >= high:
        runs[2] = runs[3] = high
        while runs[3] < x.size and x[runs[3]] == x[high - 1]:
            runs[3] += 1
    while runs[2] > 0 and x[runs[2] - 1] == x[high - 1]:
        runs[2] -= 1
    low_row = _lowest_row(rows, runs[0], runs[1], low, high)
    return low_row <= _lowest_row(rows, runs[2], runs[3], low, high)


@lean_helper
def _lowest_row(rows: Ints, start: Index, end: Index, low: Index, high: Index) -> int:
    """Return the lowest row left of a run of equal values, from which the lowest rows left first."""
    left = min(end, high) - max(start, low)
    return int(rows[end - left])


@lean_kernel
def _optimal_bounds(x: Floats, k: int, cost: Floats, start: Ints, inverse: Floats, is_bound: Bools) -> None:
    cost[0] = 0.0
    for end in range(k, x.size + 1):
        # Sums are taken around the group's largest value. A group of range R has an error of at least
        # R²/2, and the sums stay below size·R², so that the subtraction below loses no more than a few
        # digits.
        largest = x[end - 1]
        total, squares, best = 0.0, 0.0, np.inf
        for size in range(1, min(2 * k - 1, end) + 1):
            gap = largest - x[end - size]
            total += gap
            squares += gap * gap
            if size >= k:
                candidate = cost[end - size] + (squares - total * total * inverse[size - 1])
                if candidate < best:
                    best = candidate
                    start[end] = end - size
        cost[end] = best
    end = x.size
    while end > 0:
        is_bound[end] = True
        end = start[end]
    is_bound[0] = True


@lean_kernel
def _replace_by_mean(x: Floats, bounds: Ints, order: Ints, out: Floats) -> None:
    for g in range(bounds.size - 1):
        start, end = bounds[g], bounds[g + 1]
        # Averaging what exceeds the first value leaves a group of equal values exactly as it is.
        excess = 0.0
        for i in range(start, end):
            excess += x[i] - x[start]
        mean = x[start] + excess / (end - start)
        for i in range(start, end):
            out[order[i]] = mean


# MDAV for any distance: the plain algorithm, which looks at every record left for every group.
#
# What records are and how far they are from each other is the business of a `Space`; this file only finds the farthest
# and the nearest, forms the groups, and forgets the records that have one.

# Records that are sets of items, compared by Jaccard's distance.


class SetSpace:
    """A `Space` of sets: record i has `items[starts[i]:starts[i + 1]]`, numbers from 0 to n_items − 1, each once.

    The distance is 1 − |A ∩ B| / |A ∪ B|, and 0 between two empty sets. The center of the records left is the share of
    them that has each item; the distance to it is 1 − Σ min / Σ max, which is the same for shares of 0 and 1. One pass
    over the records takes time linear in their items.
    """

    def __init__(self, starts: Ints, items: Ints, n_items: int) -> None:
        self._starts, self._items = starts, items
        self._counts = np.bincount(items, minlength=n_items)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        return _to_shares(self._starts, self._items, rows, self._counts / max(rows.size, 1))

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        marked = np.zeros(self._counts.size)
        marked[self._items[self._starts[row] : self._starts[row + 1]]] = 1.0
        return _to_shares(self._starts, self._items, rows, marked)

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        _uncount(self._starts, self._items, rows[places], self._counts)


def most_have(starts: Ints, items: Ints, n_items: int, order: Ints, bounds: Ints) -> tuple[Ints, Ints]:
    """Return for each group (rows `order[bounds[g]:bounds[g + 1]]`) the items that more than half of it have.

    The result is like the input: bounds of the groups' items, and the items in ascending order.
    """
    kept = _most_have(starts, items, n_items, order, bounds, np.zeros(0, np.int64))
    found = np.empty(kept[-1], np.int64)
    _most_have(starts, items, n_items, order, bounds, found)
    return kept, found


@kernel
def _to_shares(starts: Ints, items: Ints, rows: Ints, shares: Floats) -> Floats:
    total = shares.sum()
    out = np.zeros(rows.size)
    for i in range(rows.size):
        both, size = 0.0, 0
        for at in range(starts[rows[i]], starts[rows[i] + 1]):
            both += shares[items[at]]
            size += 1
        union = size + total - both
        out[i] = max(1.0 - both / union, 0.0) if union > 0 else 0.0
    return out


@kernel
def _uncount(starts: Ints, items: Ints, rows: Ints, counts: Ints) -> None:
    for row in rows:
        for at in range(starts[row], starts[row + 1]):
            counts[items[at]] -= 1


@kernel
def _most_have(starts: Ints, items: Ints, n_items: int, order: Ints, bounds: Ints, found: Ints) -> Ints:
    counts = np.zeros(n_items, np.int64)
    kept = np.zeros(bounds.size, np.int64)
    for g in range(bounds.size - 1):
        size = bounds[g + 1] - bounds[g]
        kept[g + 1] = kept[g]
        for row in order[bounds[g] : bounds[g + 1]]:
            for item in items[starts[row] : starts[row + 1]]:
                counts[item] += 1
                if 2 * counts[item] > size and 2 * (counts[item] - 1) <= size:
                    if found.size:
                        found[kept[g + 1]] = item
                    kept[g + 1] += 1
        for row in order[bounds[g] : bounds[g + 1]]:
            for item in items[starts[row] : starts[row + 1]]:
                counts[item] = 0
        if found.size:
            found[kept[g] : kept[g + 1]].sort()
    return kept


# Records that are texts, compared by the edit distance of Levenshtein.


class TextSpace:
    """A `Space` of texts: row i has the distinct text `thing[i]`, text t the `letters[starts[t]:starts[t + 1]]`.

    The distance is the least number of characters to insert, delete or replace. The center is the one of at most 64
    texts, taken evenly from the distinct texts in their order, that is nearest to the records left. One pass takes as
    many distances as there are distinct texts left, each in time |a|·|b|; memory 64 numbers a distinct text.
    """

    def __init__(self, thing: Ints, starts: Ints, letters: Ints32, report: Callable[[], object] | None = None) -> None:
        self._thing, self._starts, self._letters = thing, starts, letters
        self._counts = np.bincount(thing, minlength=starts.size - 1)
        candidates = spread_out(starts.size - 1)
        distances = np.empty((candidates.size, starts.size - 1))
        for place, text in enumerate(candidates):
            distances[place] = _edits(starts, letters, int(text), self._counts)
            if report is not None:
                report()
        self._center = Medoid(distances, thing)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        return self._center.to_center(rows)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        return np.asarray(_edits(self._starts, self._letters, int(self._thing[row]), self._counts)[self._thing[rows]])

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        gone = rows[places]
        np.subtract.at(self._counts, self._thing[gone], 1)
        self._center.remove(gone)


def medoids(thing: Ints, starts: Ints, letters: Ints32, order: Ints, bounds: Ints) -> Ints:
    """Return for each group (rows `order[bounds[g]:bounds[g + 1]]`) the text with the least sum of distances to it.

    Of equally good texts the lowest number is taken. Time O(n·k) distances.
    """
    return _medoids(thing, starts, letters, order, bounds)


@kernel
def _edits(starts: Ints, letters: Ints32, text: int, counts: Ints) -> Floats:
    """Compute the distance of a text to all texts that some record left has."""
    longest = 0
    for t in range(counts.size):
        longest = max(longest, starts[t + 1] - starts[t])
    row = np.empty(longest + 1, np.int64)
    out = np.zeros(counts.size)
    for t in range(counts.size):
        if counts[t] > 0:
            out[t] = _edit(letters, starts[text], starts[text + 1], starts[t], starts[t + 1], row)
    return out


@helper
def _edit(letters: Ints32, a: int, a_end: int, b: int, b_end: int, row: Ints) -> int:
    while a < a_end and b < b_end and letters[a] == letters[b]:
        a += 1
        b += 1
    while a < a_end and b < b_end and letters[a_end - 1] == letters[b_end - 1]:
        a_end -= 1
        b_end -= 1
    size = b_end - b
    for j in range(size + 1):
        row[j] = j
    for i in range(a, a_end):
        corner, row[0] = row[0], i - a + 1
        for j in range(size):
            replaced = corner + (letters[i] != letters[b + j])
            corner = row[j + 1]
            row[j + 1] = min(replaced, corner + 1, row[j] + 1)
    return int(row[size])


@kernel
def _medoids(thing: Ints, starts: Ints, letters: Ints32, order: Ints, bounds: Ints) -> Ints:
    longest = 0
    for t in range(starts.size - 1):
        longest = max(longest, starts[t + 1] - starts[t])
    row = np.empty(longest + 1, np.int64)
    out = np.zeros(bounds.size - 1, np.int64)
    for g in range(out.size):
        least = np.int64(2**62)
        for at in order[bounds[g] : bounds[g + 1]]:
            text, total = thing[at], np.int64(0)
            for other in order[bounds[g] : bounds[g + 1]]:
                t = thing[other]
                total += _edit(letters, starts[text], starts[text + 1], starts[t], starts[t + 1], row)
            if total < least or (total == least and text < out[g]):
                least, out[g] = total, text
    return out


_REPORT_SECONDS = 0.2
_CANDIDATES = 64


class RecordSpace(Protocol):
    """Records and their distances. The records left stand in places 0 … left−1, which change as records leave."""

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left (`rows`, by place) to their center."""

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left (`rows`, by place) to a record, which may have left."""

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget the records at some places (descending): the last record left moves to each place in turn."""


def groups_in(space: RecordSpace, n: int, k: int, progress: Progress | None = None) -> Ints32:
    """Group n records by MDAV so that every group has k to 2k−1; return the group of each row.

    While 3k or more records are left: the record farthest from their center and the k−1 nearest to it are a group; of
    the others, the one farthest from that record and the k−1 nearest to it are the next. Of 2k … 3k−1 records left,
    one more group around the farthest from the center is taken; the rest is the last group. Ties go to the lowest
    row; groups are numbered as they are formed. `progress(done, total, "microaggregation")` is called several times a
    second and may raise to cancel. Distances must be finite.

    Each pair of groups takes three passes over the records left: time O(n²/k) distances, memory linear in n.
    """
    if k < 1 or n < k:
        raise ValueError(f"a group needs k ≥ 1 records and there must be as many: k = {k}, n = {n}")
    work = _Work(space, n, k)
    reported = perf_counter()
    while work.left >= 2 * k:
        is_pair = work.left >= 3 * k
        outer = _farthest(space.to_center(work.rows), work.rows)
        distances = space.to_record(int(work.rows[outer]), work.rows)
        chosen = _nearest(distances, work.rows, k)
        distances[chosen] = -1.0
        opposite = int(work.rows[_farthest(distances, work.rows)])
        work.take(chosen)
        if not is_pair:
            break
        work.take(_nearest(space.to_record(opposite, work.rows), work.rows, k))
        if progress is not None and perf_counter() - reported > _REPORT_SECONDS:
            progress(n - work.left, n, "microaggregation")
            reported = perf_counter()
    work.take(np.arange(work.left))
    if progress is not None:
        progress(n, n, "microaggregation")
    return work.labels


class _Work:
    """The records left and the groups formed."""

    def __init__(self, space: RecordSpace, n: int, k: int) -> None:
        self.space, self.k, self.left, self.group = space, k, n, 0
        self.labels = np.full(n, -1, np.int32)
        self._rows = np.arange(n)

    @property
    def rows(self) -> Ints:
        return self._rows[: self.left]

    def take(self, places: Ints) -> None:
        """Make the records at some places the next group."""
        places = np.sort(places)[::-1].copy()
        self.labels[self.rows[places]] = self.group
        self.space.remove(self.rows, places)
        _remove_places(self._rows, self.left, places)
        self.left -= places.size
        self.group += 1


@kernel
def _remove_places(values: Ints, left: int, places: Ints) -> None:
    """Fill each place (descending) with the last value left."""
    for place in places:
        left -= 1
        values[place] = values[left]


@kernel
def _farthest(distances: Floats, rows: Ints) -> int:
    best = 0
    for i in range(1, distances.size):
        if distances[i] > distances[best] or (distances[i] == distances[best] and rows[i] < rows[best]):
            best = i
    return best


@kernel
def _nearest(distances: Floats, rows: Ints, k: int) -> Ints:
    """Return the places of the k nearest; of equal distances the lowest rows."""
    best, best_rows, places = np.full(k, np.inf), np.full(k, np.int64(2**62)), np.empty(k, np.int64)
    for i in range(distances.size):
        distance, row = distances[i], rows[i]
        if distance > best[k - 1] or (distance == best[k - 1] and row > best_rows[k - 1]):
            continue
        j = k - 1
        while j > 0 and (best[j - 1] > distance or (best[j - 1] == distance and best_rows[j - 1] > row)):
            best[j], best_rows[j], places[j] = best[j - 1], best_rows[j - 1], places[j - 1]
            j -= 1
        best[j], best_rows[j], places[j] = distance, row, i
    return places


def spread_out(n: int) -> Ints:
    """Choose at most 64 of n sorted things, evenly: the candidates for a center of things that cannot be averaged."""
    return np.unique(np.linspace(0, n - 1, min(n, _CANDIDATES)).round().astype(np.int64))


class Medoid:
    """The center of things that cannot be averaged: of some candidates the one nearest to all records left.

    `distances[c, t]` is the distance of candidate c to thing t, `thing` the thing of each row. Memory is that of at
    most 64 distances a thing.
    """

    def __init__(self, distances: Floats, thing: Ints) -> None:
        self._distances, self._thing = distances, thing
        self._totals = distances @ np.bincount(thing, minlength=distances.shape[1]).astype(np.float64)

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record to the center."""
        nearest = self._distances[int(self._totals.argmin())]
        return np.asarray(nearest[self._thing[rows]])

    def remove(self, rows: Ints) -> None:
        """Forget some records."""
        self._totals -= self._distances[:, self._thing[rows]].sum(axis=1)


How = Literal["mean", "median", "low-median", "mode"]

_MEAN, _MEDIAN, _LOW_MEDIAN, _MODE = 0, 1, 2, 3
_CODES: dict[How, int] = {"mean": _MEAN, "median": _MEDIAN, "low-median": _LOW_MEDIAN, "mode": _MODE}


class Members(NamedTuple):
    """The rows of each group: group g has `order[starts[g]:starts[g + 1]]`, in ascending order."""

    labels: Ints  # group of each row, −1 for a row that is in none
    order: Ints
    starts: Ints

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return self.starts.size - 1


def group_members(labels: ArrayLike) -> Members:
    """List the rows of each group from the group of each row; −1 stands for none. Time and memory O(n)."""
    groups = as_integers(labels)
    n_groups = int(groups.max(initial=-1)) + 1
    if groups.size and groups.min() < -1:
        raise ValueError("groups are numbered from 0; −1 stands for none")
    return Members(groups, *_members(groups, n_groups))


def group_values(x: ArrayLike, members: Members, how: How, *, skip_missing: bool = False) -> Floats:
    """Return one value for each group.

    `mean`: a group of equal values keeps exactly that value. `median`: of an even number of values the mean of the
    two in the middle. `low-median`: the lower of these two, which is always a value of the group. `mode`: the most
    frequent value, the smallest of equally frequent ones. NaN is missing: a group with a missing value has NaN, or
    the value of the others if `skip_missing`. Time O(n·log k).
    """
    values = as_vector(x)
    if values.size != members.labels.size:
        raise ValueError(f"{members.labels.size} rows but {values.size} values")
    return _group_values(values, members.order, members.starts, _CODES[how], skip_missing)


def choose_one(members: Members, present: Bools, rng: np.random.Generator) -> Ints:
    """Draw for each group one of its rows that are `present`; −1 where there is none."""
    return _choose_one(members.order, members.starts, present, rng.random(members.n_groups))


def cut_labels(bounds: ArrayLike, order: ArrayLike) -> Ints:
    """Return the group of each row from the bounds of groups in sorted values and the row of each sorted value."""
    edges = as_integers(bounds)
    labels = np.empty(edges[-1], np.int64)
    labels[as_integers(order)] = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    return labels


def fixed_bounds(n: int, k: int) -> Ints:
    """Cut n sorted values into groups of k; the last has the rest too: k to 2k−1."""
    if n < k:
        raise ValueError(f"a group needs k = {k} values, got {n}")
    return np.append(np.arange(n // k) * k, n)


@kernel
def _members(groups: Ints, n_groups: int) -> tuple[Ints, Ints]:
    starts = np.zeros(n_groups + 1, np.int64)
    for g in groups:
        if g >= 0:
            starts[g + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(starts[n_groups], np.int64)
    place = starts[:-1].copy()
    for row in range(groups.size):
        g = groups[row]
        if g >= 0:
            order[place[g]] = row
            place[g] += 1
    return order, starts


@kernel
def _group_values(x: Floats, order: Ints, starts: Ints, how: int, skip_missing: bool) -> Floats:
    n_groups = starts.size - 1
    out = np.full(n_groups, np.nan)
    largest = 0
    for g in range(n_groups):
        largest = max(largest, starts[g + 1] - starts[g])
    buffer = np.empty(largest)
    for g in range(n_groups):
        size = 0
        for i in range(starts[g], starts[g + 1]):
            value = x[order[i]]
            if not np.isnan(value):
                buffer[size] = value
                size += 1
        if size == 0 or (size < starts[g + 1] - starts[g] and not skip_missing):
            continue
        if how == _MEAN:
            excess = 0.0  # above the first value: 0 for equal values, so no rounding there
            for i in range(size):
                excess += buffer[i] - buffer[0]
            out[g] = buffer[0] + excess / size
            continue
        values = buffer[:size]
        values.sort()
        if how == _MODE:
            best, run = 0, 0
            for i in range(size):
                run = run + 1 if i > 0 and values[i] == values[i - 1] else 1
                if run > best:
                    best, out[g] = run, values[i]
        else:
            low, high = values[(size - 1) // 2], values[size // 2]
            out[g] = low if how == _LOW_MEDIAN else low + (high - low) / 2
    return out


@kernel
def _choose_one(order: Ints, starts: Ints, present: Bools, shares: Floats) -> Ints:
    chosen = np.full(starts.size - 1, -1, np.int64)
    for g in range(chosen.size):
        count = 0
        for i in range(starts[g], starts[g + 1]):
            count += present[order[i]]
        wanted = int(shares[g] * count)
        for i in range(starts[g], starts[g + 1]):
            if present[order[i]]:
                if wanted == 0:
                    chosen[g] = order[i]
                    break
                wanted -= 1
    return chosen


# Records of numbers, ranks and categories, compared by a distance of Gower's type.

NUMBER, RANK, CATEGORY = 0, 1, 2
_BLOCK = 2048  # records whose distances stay in the first-level cache while the columns are added up


class MixedSpace:
    """A `Space` of records with numbers, ranks and categories.

    The distance is the sum over the columns of |x − y| / range (numbers), |rank − rank| / (m − 1) (ordinal, m ranks)
    and 0 or 1 (nominal). Against a missing value (NaN) every value has the distance 1, two missing values 0. The center
    of the records left has the mean of numbers, the lower median of ranks, the most frequent category (the first of
    equally frequent ones), and nothing where more records miss the value than have it (for categories: where missing is
    the most frequent). One pass over n records takes O(n·d), several records in one instruction.

    `columns` is (d, n); ranks and categories are the numbers 0 … sizes[j]−1. Memory three times the input.
    """

    def __init__(self, columns: ArrayLike, kinds: ArrayLike, sizes: ArrayLike) -> None:
        given = as_matrix(columns)
        self._kinds, self._sizes = np.asarray(kinds, np.int64), np.asarray(sizes, np.int64)
        self._whole = given.copy()
        self._weights = np.ones(len(given))
        for j, (kind, m) in enumerate(zip(self._kinds, self._sizes, strict=True)):
            if kind == CATEGORY:
                self._whole[j, np.isnan(given[j])] = m  # a code of its own
            else:
                self._weights[j] = 1 / max(m - 1, 1) if kind == RANK else _inverse_range(given[j])
        self._left = self._whole.copy()
        slots = np.where(self._kinds == NUMBER, 0, self._sizes + 1)
        self._offsets = np.concatenate([[0], np.cumsum(slots)])
        self._counts = np.zeros(self._offsets[-1], np.int64)
        self._present = np.zeros(len(given), np.int64)
        self._sums = np.zeros((len(given), 2))
        rows = np.arange(given.shape[1])
        _count(self._whole, rows, self._kinds, self._offsets, self._counts, self._present, self._sums, 1)
        self._nominal = self._kinds == CATEGORY
        self._buffer = np.empty(given.shape[1])

    def to_center(self, rows: Ints) -> Floats:
        """Give the distance of each record left to the center."""
        center = _center(self._kinds, self._offsets, self._counts, self._present, self._sums, rows.size)
        return self._distances(center, rows.size)

    def to_record(self, row: int, rows: Ints) -> Floats:
        """Give the distance of each record left to a record."""
        return self._distances(self._whole[:, row].copy(), rows.size)

    def _distances(self, q: Floats, left: int) -> Floats:
        _distances(self._left, left, self._nominal, self._weights, q, self._buffer)
        return self._buffer[:left]

    def remove(self, rows: Ints, places: Ints) -> None:
        """Forget some records."""
        gone = rows[places]
        _count(self._whole, gone, self._kinds, self._offsets, self._counts, self._present, self._sums, -1)
        _remove_columns(self._left, rows.size, places)


def _inverse_range(x: Floats) -> float:
    low, high = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
    return float(1 / (high - low)) if high > low else 0.0


@kernel
def _count(
    x: Floats, rows: Ints, kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, sign: int
) -> None:
    """Add records to the figures from which the center is made, or take them away."""
    for j in range(x.shape[0]):
        for row in rows:
            value = x[j, row]
            if np.isnan(value):
                continue
            present[j] += sign
            if kinds[j] == NUMBER:
                add_exactly(sums[j], sign * value)
            else:
                counts[offsets[j] + int(value)] += sign


@kernel
def _center(kinds: Ints, offsets: Ints, counts: Ints, present: Ints, sums: Floats, left: int) -> Floats:
    center = np.full(kinds.size, np.nan)
    for j in range(kinds.size):
        if kinds[j] == CATEGORY:
            center[j] = np.argmax(counts[offsets[j] : offsets[j + 1]])
        elif 2 * present[j] < left or present[j] == 0:
            continue
        elif kinds[j] == NUMBER:
            center[j] = (sums[j, 0] + sums[j, 1]) / present[j]
        else:
            center[j] = _low_median(counts, offsets[j], present[j])
    return center


@helper
def _low_median(counts: Ints, start: int, total: int) -> int:
    rank, below = 0, counts[start]
    while 2 * below < total:
        rank += 1
        below += counts[start + rank]
    return rank


@kernel
def _distances(x: Floats, left: int, nominal: Bools, weights: Floats, q: Floats, out: Floats) -> None:
    for first in range(0, left, _BLOCK):
        total = out[first : min(first + _BLOCK, left)]
        total[:] = 0.0
        for j in range(q.size):
            column, at, weight = x[j, first : first + total.size], q[j], weights[j]
            if nominal[j]:
                for i in range(total.size):
                    total[i] += 1.0 if column[i] != at else 0.0
            elif np.isnan(at):
                for i in range(total.size):
                    total[i] += 0.0 if np.isnan(column[i]) else 1.0
            else:
                for i in range(total.size):
                    gap = abs(column[i] - at) * weight  # equal differences of whole numbers give equal distances
                    total[i] += 1.0 if np.isnan(gap) else gap


@kernel
def _remove_columns(x: Floats, left: int, places: Ints) -> None:
    for place in places:
        left -= 1
        for j in range(x.shape[0]):
            x[j, place] = x[j, left]
