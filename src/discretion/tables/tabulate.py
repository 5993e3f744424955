"""Tables from microdata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.cells import (
    Cells,
    Contributions,
    Packer,
    Response,
    Status,
    Weights,
    as_rules_read,
    build,
    row_keys,
)
from discretion.tables.dimensions import Dimension
from discretion.tables.previous import Previous, beside

_MOST = 2**62


@dataclass(frozen=True, eq=False)
class AdditionStep:
    """Cells that are added to the one above them along one tree of one variable; every parent has all its parts."""

    variable: int
    tree: int
    child: Ints32
    parent: Ints32


@dataclass(frozen=True, eq=False)
class Closure:
    """The cells of a table in lexicographic order of their codes, and the steps that add them up."""

    codes: Ints32
    """(m, d)"""
    place: Ints32
    """the cell of each row of leaves that was given"""
    steps: tuple[AdditionStep, ...]
    """in the order in which they must be taken: every cell but those of leaves is a parent in exactly one step"""

    def __len__(self) -> int:
        return len(self.codes)

    def upward(self) -> tuple[Ints32, Ints]:
        """Give (k, m) the cell above each cell along each tree in use, −1 where there is none, and the k variables."""
        trees = list(dict.fromkeys((step.variable, step.tree) for step in self.steps))
        above = np.full((len(trees), len(self)), -1, np.int32)
        for step in self.steps:
            above[trees.index((step.variable, step.tree)), step.child] = step.parent
        return above, np.array([variable for variable, _ in trees], np.int64)


def closed(leaves: Ints32, dims: Sequence[Dimension], variables: Sequence[int]) -> Closure:
    """Find every cell of the table over some variables that lies above given rows of leaves.

    The variables are rolled up one after the other, level by level from the bottom; the others are at their total.
    Only cells with records occur. Time O(cells·log cells·variables), memory O(cells·variables).
    """
    packing = _Packing([len(dim) if j in variables else 1 for j, dim in enumerate(dims)])
    rows = np.zeros_like(leaves)
    rows[:, list(variables)] = leaves[:, list(variables)]
    keys, place = _distinct(packing.pack(rows))
    growing = _Growing(keys, packing)
    for j in sorted(variables):
        growing.roll_up(j, dims[j])
    keys = growing.keys()
    order = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    steps = tuple(AdditionStep(step.variable, step.tree, rank[step.child], rank[step.parent]) for step in growing.steps)
    return Closure(packing.unpack([word[order] for word in keys]), rank[place], steps)


class _Packing:
    """Rows of codes as one 64-bit number, or as several where one does not suffice; they order as the rows do."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.word: list[int] = []
        room, number = 1, 0
        for size in sizes:
            if room * size > _MOST:
                room, number = 1, number + 1
            room *= size
            self.word.append(number)
        self.radix = [1] * len(sizes)
        for j in reversed(range(len(sizes) - 1)):
            if self.word[j] == self.word[j + 1]:
                self.radix[j] = self.radix[j + 1] * sizes[j + 1]

    def pack(self, codes: Ints32) -> list[Ints]:
        """Give the words of each row."""
        words = [np.zeros(len(codes), np.int64) for _ in range(self.word[-1] + 1)]
        for j, radix in enumerate(self.radix):
            words[self.word[j]] += codes[:, j].astype(np.int64) * radix
        return words

    def codes(self, words: list[Ints], j: int) -> Ints:
        """Give the codes of one variable."""
        found: Ints = words[self.word[j]] // self.radix[j] % self.sizes[j]
        return found

    def unpack(self, words: list[Ints]) -> Ints32:
        """Give the rows of codes."""
        rows = np.empty((len(words[0]), len(self.sizes)), np.int32)
        for j in range(len(self.sizes)):
            rows[:, j] = self.codes(words, j)
        return rows


class _Growing:
    """Cells found so far, in blocks: first those of leaves, then each block of totals."""

    def __init__(self, keys: list[Ints], packing: _Packing) -> None:
        self.packing = packing
        self.blocks = [keys]
        self.steps: list[AdditionStep] = []
        self.size = len(keys[0])

    def keys(self) -> list[Ints]:
        """Give the words of all cells, and merge the blocks."""
        if len(self.blocks) > 1:
            self.blocks = [[np.concatenate(words) for words in zip(*self.blocks, strict=True)]]
        return self.blocks[0]

    def roll_up(self, j: int, dim: Dimension) -> None:
        """Add the totals along one variable."""
        keys = self.keys()
        here = [(np.arange(self.size), keys, self.packing.codes(keys, j))]
        done = dim.leaves.copy()
        for tree, (parent, depth) in enumerate(zip(dim.parents, dim.depths, strict=True)):
            wanted = (parent >= 0) & ~done[parent]
            for level in range(int(depth.max()), 0, -1):
                found = self._level(j, tree, here, parent, wanted & (depth == level))
                here += [found] if len(found[0]) else []
            done |= depth >= 0

    def _level(
        self,
        j: int,
        tree: int,
        here: Sequence[tuple[Ints, list[Ints], Ints]],
        parent: Ints32,
        chosen: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> tuple[Ints, list[Ints], Ints]:
        """Lift the cells with the chosen codes one step; give number, words and code of the new cells."""
        radix, word = self.packing.radix[j], self.packing.word[j]
        children, lifted = [], []
        for numbers, words, codes in here:
            rows = np.flatnonzero(chosen[codes])
            if len(rows):
                moved = [array[rows] for array in words]
                moved[word] += (parent[codes[rows]].astype(np.int64) - codes[rows]) * radix
                children.append(numbers[rows])
                lifted.append(moved)
        if not children:
            return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
        new, number = _distinct([np.concatenate(words) for words in zip(*lifted, strict=True)])
        first, self.size = self.size, self.size + len(new[0])
        child = np.concatenate(children)
        self.steps.append(AdditionStep(j, tree, child.astype(np.int32), (first + number).astype(np.int32)))
        self.blocks.append(new)
        return np.arange(first, self.size), new, self.packing.codes(new, j)


def _distinct(words: list[Ints]) -> tuple[list[Ints], Ints]:
    """Give the distinct rows in order, and for each row which of them it is."""
    if len(words) == 1:
        keys, number = np.unique(words[0], return_inverse=True)
        return [keys], number
    order = np.lexsort(words[::-1])
    sorted_words = [word[order] for word in words]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for word in sorted_words:
        new[1:] |= word[1:] != word[:-1]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return [word[new] for word in sorted_words], number


@dataclass(eq=False)
class Amounts:
    """The figures of one response in n cells; what no record makes necessary is None and follows from the others."""

    value: Floats
    count: Ints
    top: Floats
    """(n, t)"""
    ids: Ints32
    """(n, t)"""
    gross: Floats | None = None
    """None: equal to `value`, as nothing is negative"""
    negative: Ints | None = None
    """None: 0"""
    open_count: Ints | None = None
    """None: equal to `count`, as nobody waived protection"""
    open_top: Floats | None = None
    """None: the first of `top`"""
    requested: Floats | None = None
    """None: not known"""

    @property
    def sums(self) -> Iterator[NDArray[Any]]:
        """The figures that add up."""
        yield from (a for a in (self.value, self.count, self.gross, self.negative, self.open_count) if a is not None)

    @property
    def maxima(self) -> Iterator[Floats]:
        """The figures of which the largest counts."""
        yield from (a for a in (self.open_top, self.requested) if a is not None)


@dataclass(eq=False)
class Figures:
    """Cells with everything that is added up."""

    codes: Ints32
    """(n, d)"""
    amounts: tuple[Amounts, ...]
    """one entry per response"""
    weight: Floats
    key: Floats | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def sums(self) -> Iterator[NDArray[Any]]:
        """The figures that add up."""
        for amounts in self.amounts:
            yield from amounts.sums
        yield self.weight
        if self.key is not None:
            yield self.key

    def take(self, rows: NDArray[Any]) -> Figures:
        """Give some of the cells."""
        return _joined([self], lambda arrays: arrays[0][rows])

    @staticmethod
    def stack(parts: Sequence[Figures], rows: NDArray[Any] | None = None) -> Figures:
        """Put cells one after the other (and give some of them); all parts have the same figures."""
        if rows is None:
            return parts[0] if len(parts) == 1 else _joined(parts, np.concatenate)
        return _joined(parts, lambda arrays: np.concatenate(arrays)[rows])


def _joined(parts: Sequence[Figures], join: Any) -> Figures:
    def each(items: Sequence[Any]) -> Any:
        return None if items[0] is None else join(items)

    amounts = tuple(
        Amounts(**{field.name: each([getattr(one, field.name) for one in same]) for field in fields(Amounts)})
        for same in zip(*(part.amounts for part in parts), strict=True)
    )
    return Figures(
        join([part.codes for part in parts]),
        amounts,
        join([part.weight for part in parts]),
        each([part.key for part in parts]),
    )


def blank(codes: Ints32, like: Figures) -> Figures:
    """Give cells in which nothing is yet, with the figures another set of cells has."""
    n = len(codes)

    def empty(array: Any, fill: float = 0) -> Any:
        if array is None:
            return None
        shape = (n, *array.shape[1:])
        return np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)

    amounts = tuple(
        Amounts(**{f.name: empty(getattr(one, f.name), -1 if f.name == "ids" else 0) for f in fields(Amounts)})
        for one in like.amounts
    )
    return Figures(codes, amounts, empty(like.weight), empty(like.key))


def table_figures(entries: Contributions, dims: Sequence[Dimension], variables: Sequence[int], t: int) -> Figures:
    """Give all cells of the table over some of the variables; the others are at their total."""
    cells = closed(entries.inner_codes, dims, variables)
    spread = entries.spread
    found = rolled(_inner_figures(entries, ~spread, t), cells)
    if spread.any():
        _add_spread(found, cells, entries, np.flatnonzero(spread))
    return found


def rolled(inner: Figures, cells: Closure) -> Figures:
    """Put inner cells (rows of the closure) in their places and add them up to all totals."""
    from discretion.kernels.rollup import add_along, larger_along, top_along

    found = blank(cells.codes, inner)
    for one, whole in zip(inner.sums, found.sums, strict=True):
        np.add.at(whole, cells.place, one)
    for one_amounts, amounts in zip(inner.amounts, found.amounts, strict=True):
        for one, whole in zip(one_amounts.maxima, amounts.maxima, strict=True):
            np.maximum.at(whole, cells.place, one)
        every = np.arange(len(inner), dtype=np.int32)
        top_along(one_amounts.top, one_amounts.ids, every, amounts.top, amounts.ids, cells.place)
    for step in cells.steps:
        for column in found.sums:
            add_along(column, step.child, step.parent)
        for amounts in found.amounts:
            for column in amounts.maxima:
                larger_along(column, step.child, step.parent)
            top_along(amounts.top, amounts.ids, step.child, amounts.top, amounts.ids, step.parent)
    return found


def _inner_figures(entries: Contributions, alone: NDArray[np.bool_], t: int) -> Figures:
    """Give the figures of the inner cells: sums of all entries, respondents only of those that are in one cell."""
    n = len(entries.inner_codes)
    amounts = tuple(_amounts(entries, r, np.flatnonzero(alone), n, t) for r in range(len(entries.names)))
    return Figures(
        entries.inner_codes,
        amounts,
        _summed(entries.inner, entries.weight, n),
        None if entries.key is None else _summed(entries.inner, entries.key, n),
    )


def _amounts(entries: Contributions, r: int, alone: Ints, n: int, t: int) -> Amounts:
    from discretion.kernels.rollup import top_along

    x = entries.x[:, r]
    rows = alone[~np.isnan(x[alone])]
    inner, size = entries.inner[rows], np.abs(x[rows])
    is_open, asked = rows[~entries.waived[rows]], rows[entries.requested[rows]]
    signed, waived = bool((x < 0).any()), bool(entries.waived.any())
    found = Amounts(
        value=_summed(entries.inner, np.nan_to_num(x), n),
        count=_counted(inner, n),
        top=np.zeros((n, t)),
        ids=np.full((n, t), -1, np.int32),
        gross=_summed(inner, size, n) if signed else None,
        negative=_counted(inner[x[rows] < 0], n) if signed else None,
        open_count=_counted(entries.inner[is_open], n) if waived else None,
        open_top=_largest(entries.inner[is_open], np.abs(x[is_open]), n) if waived else None,
        requested=_largest(entries.inner[asked], np.abs(x[asked]), n) if entries.knows_requests else None,
    )
    who = entries.contributor[rows]
    every = np.arange(len(rows), dtype=np.int32)
    top_along(size[:, None], who[:, None], every, found.top, found.ids, inner.astype(np.int32))
    return found


def _summed(place: Ints, amounts: Floats, n: int) -> Floats:
    return np.bincount(place, amounts, n).astype(np.float64, copy=False)


def _counted(place: Ints, n: int) -> Ints:
    return np.bincount(place, minlength=n).astype(np.int64, copy=False)


def _largest(place: Ints, amounts: Floats, n: int) -> Floats:
    most = np.zeros(n)
    np.maximum.at(most, place, amounts)
    return most


def _add_spread(found: Figures, cells: Closure, entries: Contributions, rows: Ints) -> None:
    """Count respondents that are in several inner cells once in each cell above them."""
    from discretion.kernels.rollup import add_respondents

    rows = rows[np.argsort(entries.contributor[rows], kind="stable")]
    who = entries.contributor[rows]
    bounds = np.flatnonzero(np.r_[True, who[1:] != who[:-1], True])
    above, variable = cells.upward()
    place = cells.place[entries.inner[rows]]
    none, nobody = np.zeros(0), np.zeros(0, np.int64)
    for r, one in enumerate(found.amounts):
        figures = (
            none if one.gross is None else one.gross,
            one.count,
            nobody if one.negative is None else one.negative,
            nobody if one.open_count is None else one.open_count,
            none if one.open_top is None else one.open_top,
            none if one.requested is None else one.requested,
            one.top,
            one.ids,
        )
        x = np.ascontiguousarray(entries.x[rows, r])
        add_respondents(bounds, place, above, variable, who, x, entries.waived[rows], entries.requested[rows], figures)


MOST_EMPTY = 5_000_000
"""Cells that may be listed when empty ones are kept."""


def cells_of(
    entries: Contributions,
    dims: tuple[Dimension, ...],
    tables: tuple[tuple[str, ...], ...],
    top: int,
    empty: str,
    contributors: Sequence[Any],
    notes: tuple[str, ...] = (),
) -> Cells:
    """Roll contributions up to all cells of all tables."""
    place = {dim.name: j for j, dim in enumerate(dims)}
    variables = [[place[name] for name in table] for table in tables]
    parts = [table_figures(entries, dims, columns, top) for columns in variables]
    if entries.weights != "contributions" and (entries.weight != 1).any():
        parts = [_as_read(part, entries, dims, columns, top) for part, columns in zip(parts, variables, strict=True)]
    if empty == "keep":
        parts = [with_empty(part, dims, columns) for part, columns in zip(parts, variables, strict=True)]
        entries = _with_empty_inner(entries, dims)
    figures, in_table = united(parts, dims, empty == "keep")
    inner_values = [
        np.bincount(entries.inner, np.nan_to_num(entries.x[:, r]), len(entries.inner_codes)).astype(np.float64)
        for r in range(len(entries.names))
    ]
    return Cells(
        dims=dims,
        codes=figures.codes,
        responses=responses_of(figures, entries, inner_values),
        tables=tables,
        in_table=in_table,
        inner_codes=entries.inner_codes,
        weighted_count=figures.weight,
        status=Status.empty(len(figures)),
        key=None if figures.key is None else figures.key % 1.0,
        contributors=contributors,
        source=entries,
        notes=notes,
    )


def _as_read(
    part: Figures, entries: Contributions, dims: Sequence[Dimension], variables: Sequence[int], top: int
) -> Figures:
    """Put the largest contributions, as the rules are to read weights, in the place of weighted ones."""
    others, origin = as_rules_read(entries, top)
    number = np.zeros(int(others.contributor.max(initial=-1)) + 1, np.int32)
    number[others.contributor] = entries.contributor[origin]
    read = table_figures(others, dims, variables, top).amounts
    amounts = tuple(
        replace(
            one,
            top=new.top,
            ids=np.where(new.ids >= 0, number[new.ids], -1).astype(np.int32),
            open_top=new.open_top,
            requested=new.requested,
        )
        for one, new in zip(part.amounts, read, strict=True)
    )
    return replace(part, amounts=amounts)


def responses_of(figures: Figures, entries: Contributions, inner_values: Sequence[Floats]) -> tuple[Response, ...]:
    """Take the figures apart by response; figures that are the same are one array."""
    return tuple(
        Response(
            name=name,
            value=one.value,
            count=one.count,
            gross=one.value if one.gross is None else one.gross,
            top=one.top,
            top_ids=one.ids,
            negative=np.zeros(len(figures), np.int64) if one.negative is None else one.negative,
            open_count=one.count if one.open_count is None else one.open_count,
            open_top=one.top[:, 0] if one.open_top is None else one.open_top,
            requested=one.requested,
            inner_value=inner_value,
            frequency=entries.frequency,
        )
        for name, one, inner_value in zip(entries.names, figures.amounts, inner_values, strict=True)
    )


def united(parts: Sequence[Figures], dims: Sequence[Dimension], unordered: bool = False) -> tuple[Figures, Bools]:
    """Put the cells of linked tables together in order of their codes, each once, and tell where each occurs."""
    if len(parts) == 1 and not unordered:
        return parts[0], np.ones((len(parts[0]), 1), np.bool_)
    source = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    keys = row_keys(np.concatenate([part.codes for part in parts]), [len(dim) for dim in dims])
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    in_table = np.zeros((len(first), len(parts)), np.bool_)
    in_table[number, source] = True
    return Figures.stack(parts, first), in_table


def with_empty(cells: Figures, dims: Sequence[Dimension], variables: Sequence[int], *, leaves: bool = False) -> Figures:
    """Add the cells of a table that have no records; only those of `leaves`, where asked for."""
    listed = [np.flatnonzero(dim.leaves) if leaves else np.arange(len(dim)) for dim in dims]
    choices = [codes if j in variables else np.zeros(1, np.int64) for j, codes in enumerate(listed)]
    every = _combinations(choices)
    known = Packer.fit(cells.codes, [len(dim) for dim in dims]).find(every)
    new = every[known < 0]
    return Figures.stack([cells, blank(new, cells)])


def _with_empty_inner(entries: Contributions, dims: Sequence[Dimension]) -> Contributions:
    every = _combinations([np.flatnonzero(dim.leaves) for dim in dims])
    number: Ints = Packer.fit(every, [len(dim) for dim in dims]).find(entries.inner_codes)
    return replace(entries, inner_codes=every, inner=number[entries.inner])


def _combinations(choices: Sequence[Any]) -> Ints32:
    total = prod(len(choice) for choice in choices)
    if total > MOST_EMPTY:
        raise DataError(
            f"with its empty cells the table would have {total:,} cells, more than {MOST_EMPTY:,}; "
            "use `empty='drop'` or fewer variables"
        )
    grid = np.meshgrid(*choices, indexing="ij")
    return np.column_stack([axis.ravel() for axis in grid]).astype(np.int32)


MISSING = "(missing)"
"""The code of records whose classifying value is missing."""

Missing = Literal["category", "ignore", "error"]
Empty = Literal["drop", "keep"]
COUNT = "count"
"""The name of the response of a table of frequencies."""


def tabulate(
    data: Any,
    by: Sequence[str] | Sequence[Sequence[str]],
    value: str | Sequence[str] | None = None,
    *,
    hierarchies: Mapping[str, Any] | None = None,
    weight: str | Literal[False] | None = None,
    contributor: str | None = None,
    top: int = 3,
    missing: Missing = "category",
    empty: Empty = "drop",
    waivers: Sequence[Any] | str | None = None,
    requests: Sequence[Any] | str | None = None,
    record_key: str | None = None,
    weights: Weights = "contributions",
    previous: Sequence[Cells | Previous] = (),
) -> Cells:
    """Count records, or add up response variables, by classifying variables, with all totals.

    `by` names the variables of a table, or is a list of such lists: linked tables over the same records, one system in
    which a cell that several tables show is one cell. Without `value` the table counts records; with several values it
    has several responses. Hierarchies default to those of the data; a variable without one has a total above its
    values. `weight` defaults to the column with that role (False: none); the cell value is weighted, the number of
    respondents is not; records of weight 0 are left out, since they add nothing behind which others could hide.
    `weights` says what a weight w means to rules that look at contributions: `"contributions"`, the
    respondent contributes w × value (the default: from weights of 1 on no other finds more cells sensitive);
    `"respondents"`, it stands for w respondents of that value each, as in τ-ARGUS (a weight of 2.4: two, and one of 0.4
    times the value); `"unweighted"`, it contributes its value to a weighted cell. `contributor` names the column
    of respondents: several records of one are added up within a cell first. `top` is how many of the largest
    contributions are kept, for the rules. Records without a classifying value are a category of their own, left out, or
    an error; a missing response is no contribution. `empty="keep"` also lists cells without records. `waivers` and
    `requests` name respondents (or a true/false column) that waived or asked for protection. `record_key` names a
    column of random numbers in [0, 1) for cell keys. `previous` are tables that went out earlier (as `suppress` left
    them, of the same records; `Previous.matched` takes those of another delivery): readers have them too, so that
    rules, suppression and audit take them into account.

    Time O(n log n + cells·variables), memory linear in records and non-empty cells (respondents that occur in many
    cells cost one entry per cell they are in).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": ["A", "A", "B"], "sector": ["x", "y", "x"], "turnover": [10.0, 20.0, 5.0]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover")
    >>> cells.index({"sector": "x"}), float(cells.value[cells.index({"sector": "x"})])
    (1, 15.0)
    """
    data = Dataset.of(data, "a table")
    tables = table_lists(by)
    _check_options(top, missing, empty, weights)
    if weights == "respondents" and contributor is not None:
        raise PlanError(
            "weights: respondents with several records (`contributor`) cannot stand for others; use another"
        )
    names = list(dict.fromkeys(name for table in tables for name in table))
    data.require(names)
    if not len(data):
        raise DataError("the data has no rows; there is nothing to tabulate")
    check_hierarchies(hierarchies, names)
    trees = list((hierarchies or {}).values())
    if isinstance(data, Scan) and data.store.remote:
        from discretion.tables.ready import from_classes

        weight = None if weight is False or (weight is None and not data.having("weight")) else "weight"
        more = {"value": value, "weight": weight, "contributor": contributor, "waivers": waivers, "requests": requests,
                "record_key": record_key, "previous": previous or None}  # fmt: skip
        refuse_remote([name for name, one in more.items() if one is not None], len(tables))
        return from_classes(
            data.table([*names, *_names_in(trees, data)]), names, hierarchies or {}, top, missing, empty
        )
    used = (value, weight, contributor, waivers, requests, record_key, trees)
    data = data.projected([*names, *data.having("weight"), *_names_in(used, data)])
    variables = [coded(data, name, (hierarchies or {}).get(name), missing) for name in names]
    placed = classified(variables)
    rows = placed[_weights(data, weight)[placed] > 0]
    if not len(rows) and len(placed):
        raise DataError(f"all {len(placed)} records have the weight 0; there is nothing to tabulate")
    respondents = _respondents(data, contributor)
    records = _entries(data, rows, respondents, value, weight, waivers, requests, record_key)
    dims = tuple(dim for dim, _ in variables)
    codes = np.column_stack([codes[rows] for _, codes in variables]).astype(np.int32)
    entries = replace(build(records, codes, tuple(len(dim) for dim in dims)), weights=weights)
    left_out, idle = len(data) - len(placed), len(placed) - len(rows)
    notes: tuple[str, ...] = (f"{left_out} records without a classifying value were left out",) if left_out else ()
    notes += (f"{idle} records of weight 0 were left out: they hide nobody",) if idle else ()
    cells = cells_of(entries, dims, tables, top, empty, respondents.ids, notes)
    return (
        replace(cells, beside=beside(cells, records, codes.astype(np.int64), rows, data, previous))
        if previous
        else cells
    )


def refuse_remote(asked: Sequence[str], tables: int = 1) -> None:
    """Raise if a table of rows on a cluster asks for more than to count their combinations of values."""
    if tables > 1:
        asked = [*asked, "linked tables"]
    if asked:
        raise PlanError(
            f"{', '.join(asked)}: on a Spark cluster a table counts records by one list of variables; for what "
            "single records contribute use the engine `duckdb`"
        )


def _names_in(given: Any, data: Dataset) -> list[str]:
    """List the columns that options name, however deep."""
    if isinstance(given, str):
        return [given] if given in data.columns else []
    inner = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else ()
    return [name for one in inner for name in _names_in(one, data)]


def _check_options(top: int, missing: str, empty: str, weights: str) -> None:
    problems = []
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        problems.append("top: expected a whole number; at least 1 contribution must be kept")
    if missing not in get_args(Missing):
        problems.append(f"missing: {unknown('choice', str(missing), get_args(Missing))}")
    if empty not in get_args(Empty):
        problems.append(f"empty: {unknown('choice', str(empty), get_args(Empty))}")
    if weights not in get_args(Weights):
        problems.append(f"weights: {unknown('reading', str(weights), get_args(Weights))}")
    if problems:
        raise PlanError(problems)


def classified(coded: Sequence[tuple[Dimension, Ints32]]) -> Ints:
    """Give the rows that have a code of every variable."""
    rows = np.flatnonzero(np.logical_and.reduce([codes >= 0 for _, codes in coded]))
    if not len(rows):
        raise DataError("every record lacks a classifying value; nothing is left to tabulate")
    return rows


def _entries(
    data: Dataset,
    rows: Ints,
    respondents: _Respondents,
    value: str | Sequence[str] | None,
    weight: str | Literal[False] | None,
    waivers: Sequence[Any] | str | None,
    requests: Sequence[Any] | str | None,
    record_key: str | None,
) -> Contributions:
    """Give one entry per record; they are not yet put into cells."""
    return Contributions(
        names=_value_names(value),
        frequency=value is None,
        inner_codes=np.zeros((0, 0), np.int32),
        inner=np.zeros(len(rows), np.int64),
        contributor=respondents.number[rows],
        x=_responses(data, value, weight)[rows],
        weight=_weights(data, weight)[rows],
        waived=_flags(data, respondents, waivers, "waivers")[rows],
        requested=_flags(data, respondents, requests, "requests")[rows],
        key=None if record_key is None else _record_keys(data, record_key)[rows],
        knows_requests=requests is not None,
    )


def table_lists(by: Any) -> tuple[tuple[str, ...], ...]:
    """Read `by`: the variables of one table, or a list of such lists for linked tables."""
    if isinstance(by, str):
        by = [by]
    if not isinstance(by, Sequence) or not by:
        raise PlanError("by: name at least one classifying variable")
    lists = [
        [item] if isinstance(item, str) else list(item) if isinstance(item, list | tuple) else [item] for item in by
    ]
    if not all(isinstance(name, str) for one in lists for name in one):
        raise PlanError("by: expected names of columns, or a list of such lists")
    tables = (
        [tuple(item for one in lists for item in one)]
        if all(isinstance(i, str) for i in by)
        else list(map(tuple, lists))
    )
    for table in tables:
        if not table or len(set(table)) < len(table):
            raise PlanError("by: each table needs variables, each named once")
    if len(set(map(frozenset, tables))) < len(tables):
        raise PlanError("by: two of the tables have the same variables")
    return tuple(tables)


def check_hierarchies(hierarchies: Mapping[str, Any] | None, names: Sequence[str]) -> None:
    """Refuse hierarchies of variables that no table has."""
    for name in hierarchies or {}:
        if name not in names:
            raise PlanError(f"hierarchies: {unknown('variable', name, names)}")


def coded(data: Dataset, name: str, spec: Any, missing: Missing) -> tuple[Dimension, Ints32]:
    """Give the variable and the leaf of each record; −1 for records that are left out."""
    column = data.codes(name)
    values = [value for value in column.values if value is not None]
    dim = _dimension(data, name, spec, values)
    gaps = data.count_missing(name)
    if gaps and missing == "error":
        raise DataError(f"column {name!r} has {gaps} missing values; say `missing='category'` or `missing='ignore'`")
    if gaps and missing == "category" and MISSING not in dim.index:
        dim = dim.with_leaf(MISSING)
    lookup = np.full(column.size, -1, np.int32)
    lacking: list[str] = []
    for code, value in enumerate(column.values):
        if value is not None:
            lookup[code] = dim.index.get(canonical(value), -1)
            if lookup[code] < 0 or not dim.leaves[lookup[code]]:
                lacking.append(canonical(value))
    if lacking:
        raise DataError(
            f"column {name!r}: {len(lacking)} values are not leaves of the hierarchy: "
            f"{', '.join(map(repr, lacking[:10]))}{' …' if len(lacking) > 10 else ''}"
        )
    if gaps and missing == "category":
        lookup[column.missing] = dim.index[MISSING]
    return dim, lookup[column.codes]


def _dimension(data: Dataset, name: str, spec: Any, values: list[Any]) -> Dimension:
    if isinstance(spec, Mapping) and set(spec) == {"columns"}:
        return from_columns(data, [name, *spec["columns"]])
    if isinstance(spec, list | tuple) and any(isinstance(item, Mapping) and set(item) == {"columns"} for item in spec):
        return Dimension.join([_dimension(data, name, item, values) for item in spec])
    if spec is not None:
        return Dimension.of(name, spec, values)
    if data.schema[name].hierarchy is not None:
        level = data.levels.get(name, 0)
        if not isinstance(level, int):
            raise DataError(f"column {name!r} has values at several levels of its hierarchy; give `hierarchies`")
        return Dimension.from_levels(name, data.hierarchy(name), level)
    return Dimension.flat(name, _ordered(data, name, values) or [MISSING])


def _ordered(data: Dataset, name: str, values: list[Any]) -> list[Any]:
    """Put the values of a variable in the order the schema gives, or in their own."""
    import polars as pl

    order = data.schema[name].order
    if order:
        place = {text: number for number, text in enumerate(order)}
        return sorted(values, key=lambda value: (place.get(canonical(value), len(place)), canonical(value)))
    if data.frame.schema[name] == pl.Enum:
        return [value for value in data.frame.schema[name].categories if value in set(values)]  # type: ignore[attr-defined]
    return sorted(values, key=lambda v: (0, v, "") if isinstance(v, int | float) else (1, 0, canonical(v)))


def from_columns(data: Any, columns: Sequence[str]) -> Dimension:
    """Read a hierarchy off the data: the first column has the leaves, each further one a coarser grouping."""
    data = Dataset.of(data)
    data.require(columns)
    distinct = data.frame.select(columns).drop_nulls().unique().sort(columns)
    rows = [[canonical(value) for value in row] for row in distinct.iter_rows()]
    return Dimension.of(columns[0], rows)


@dataclass(frozen=True)
class _Respondents:
    number: Ints32
    ids: tuple[Any, ...]
    """the id of each number; empty where records are respondents"""


def _respondents(data: Dataset, column: str | None) -> _Respondents:
    if column is None:
        return _Respondents(np.arange(len(data), dtype=np.int32), ())
    data.require([column])
    gaps = data.count_missing(column)
    if gaps:
        raise DataError(f"column {column!r} has {gaps} missing values; every record needs its respondent")
    coded = data.codes(column)
    return _Respondents(coded.codes.astype(np.int32), tuple(coded.values))


def _value_names(value: str | Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return (COUNT,)
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names):
        raise PlanError("value: name at least one response, each once")
    return names


def _responses(data: Dataset, value: str | Sequence[str] | None, weight: str | Literal[False] | None) -> Floats:
    weights = _weights(data, weight)
    if value is None:
        return weights[:, None].copy()
    return data.numbers(_value_names(value)) * weights[:, None]


def _weights(data: Dataset, weight: str | Literal[False] | None) -> Floats:
    if weight is None:
        having = data.having("weight")
        if len(having) > 1:
            raise PlanError(f"the data has {len(having)} weights ({', '.join(having)}); name one in `weight`")
        weight = having[0] if having else False
    if weight is False:
        return np.ones(len(data))
    if not isinstance(weight, str):
        raise PlanError("weight: expected the name of a column, or False for no weights")
    given: Floats = data.numbers([weight], missing="error")[:, 0]
    if not (given >= 0).all():
        raise DataError(f"column {weight!r} has {int((given < 0).sum())} negative weights")
    return given


def _flags(data: Dataset, respondents: _Respondents, given: Sequence[Any] | str | None, what: str) -> Bools:
    """Tell for each record whether its respondent is named."""
    if given is None:
        return np.zeros(len(data), np.bool_)
    if isinstance(given, str):
        import polars as pl

        data.require([given])
        if data.frame.schema[given] != pl.Boolean:
            raise DataError(f"{what}: the column {given!r} must hold true and false")
        return data.frame[given].fill_null(False).to_numpy()
    if not respondents.ids:
        raise PlanError(f"{what}: respondents can be named only when `contributor` names their column")
    number = {canonical(name): i for i, name in enumerate(respondents.ids) if name is not None}
    lacking = [name for name in given if canonical(name) not in number]
    if lacking:
        raise DataError(f"{what}: {len(lacking)} of {len(given)} respondents do not occur in the data")
    named: Ints = np.array([number[canonical(name)] for name in given], np.int64)
    return np.isin(respondents.number, named)


def _record_keys(data: Dataset, column: str) -> Floats:
    keys: Floats = data.numbers([column], missing="error")[:, 0]
    if not ((keys >= 0) & (keys < 1)).all():
        raise DataError(f"column {column!r}: record keys must lie in [0, 1)")
    return keys
