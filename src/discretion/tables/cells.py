"""Cells: a table of aggregates with its additive structure, the tables wing's Dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, keyed_hash
from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.dimensions import Dimension

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.adjustment import Adjusted
    from discretion.tables.audit import Audit
    from discretion.tables.cell_key import Perturbed
    from discretion.tables.controlled_rounding import Rounded
    from discretion.tables.dimensions import Dimension
    from discretion.tables.previous import Beside, Differences, Wide
    from discretion.tables.restructure import Restructured
    from discretion.tables.rules.rule import Rule
    from discretion.tables.suppression import Protected


@dataclass(frozen=True, eq=False, repr=False)
class Response:
    """The figures of one response variable in every cell (m cells, t largest contributions)."""

    name: str
    """the response column; `count` for a table of frequencies"""
    value: Floats
    """(m,) what the table shows: the (weighted) sum, or the (weighted) number of records"""
    count: Ints
    """(m,) respondents that contribute, never weighted; several records of one respondent are one"""
    gross: Floats
    """(m,) sum of the absolute contributions; equal to `value` where none is negative"""
    top: Floats
    """(m, t) largest absolute contributions, weighted, descending; 0 where there are fewer"""
    top_ids: Ints32
    """(m, t) the respondents behind `top` (numbers; equal numbers are the same respondent), −1 where there is none"""
    negative: Ints
    """(m,) respondents whose contribution is negative"""
    open_count: Ints
    """(m,) respondents that have not waived protection"""
    open_top: Floats
    """(m,) the largest contribution among respondents that have not waived protection"""
    requested: Floats | None
    """(m,) the largest contribution among respondents that requested protection; None where nobody was asked"""
    inner_value: Floats
    """(n_inner,) the sum in each inner cell: `value == x.transposed.dot(inner_value)`"""
    frequency: bool = False
    """whether the table counts records"""
    counted: bool = True
    """whether `count` is known (ready-made cells may come without)"""

    def __repr__(self) -> str:
        return f"Response({self.name!r}, {len(self.value)} cells, {self.top.shape[1]} largest contributions)"


Mark = Literal["safe", "unsafe", "must-publish", "preferred", "plain"]
"""What a person can decide about a cell: never sensitive, sensitive, never suppressed, suppressed before others when
complementary cells are chosen; `plain` takes such decisions back."""

_FLAGS = ("primary", "secondary", "safe", "must_publish", "preferred")
_NUMBERS = ("lower_required", "upper_required", "cost", "released")


@dataclass(frozen=True, eq=False)
class Status:
    """One entry per cell in every array; arrays are read-only, `changed` gives new ones."""

    primary: Bools
    """sensitive by a rule or by decision"""
    secondary: Bools
    """suppressed to protect others"""
    safe: Bools
    """declared not sensitive; rules leave it alone, it may still be suppressed for others"""
    must_publish: Bools
    """may not be suppressed"""
    preferred: Bools
    """taken first when complementary cells are chosen"""
    reason: NDArray[np.uint32]
    """bit i is set where `reasons[i]` made the cell sensitive"""
    reasons: tuple[str, ...]
    """the kinds of the rules applied, and `manual`"""
    lower_required: Floats
    """how far below its value the lower bound an attacker finds must lie (0 for cells that are not sensitive)"""
    upper_required: Floats
    """how far above its value the upper bound must lie"""
    cost: Floats | None = None
    """what suppressing a cell costs, where the user gives it; otherwise the engine decides"""
    released: Floats | None = None
    """the values that go out, where they are not the true ones (rounding, adjustment, perturbation)"""

    @classmethod
    def empty(cls, m: int) -> Status:
        """Give the status of a table about which nothing was decided."""
        no = np.zeros(m, np.bool_)
        zero = np.zeros(m)
        for array in (no, zero):
            array.flags.writeable = False
        return cls(no, no, no, no, no, np.zeros(m, np.uint32), (), zero, zero)

    def changed(self, **changes: Any) -> Status:
        """Give a status with some arrays replaced; shapes, types and contradictions are checked."""
        m = len(self.primary)
        checked: dict[str, Any] = {}
        for name, given in changes.items():
            if name == "reasons":
                checked[name] = tuple(given)
                continue
            if name not in (*_FLAGS, *_NUMBERS, "reason"):
                raise PlanError(unknown("status", name, (*_FLAGS, *_NUMBERS, "reason", "reasons")))
            if given is None and name in ("cost", "released"):
                checked[name] = None
                continue
            kind = np.bool_ if name in _FLAGS else np.uint32 if name == "reason" else np.float64
            array = np.array(given, dtype=kind)
            if array.shape != (m,):
                raise PlanError(f"{name}: expected {m} entries, one per cell, got the shape {array.shape}")
            if name in ("lower_required", "upper_required", "cost") and not np.all(np.greater_equal(array, 0)):
                raise PlanError(f"{name}: must not be negative or missing")
            array.flags.writeable = False
            checked[name] = array
        new = replace(self, **checked)
        new._check()
        return new

    def _check(self) -> None:
        if len(self.reasons) > 32:
            raise PlanError("at most 32 rules can be applied to one table")
        clash = int((self.primary & self.must_publish).sum())
        if clash:
            raise PlanError(
                f"{clash} cells are sensitive and must be published; mark them safe if they may go out "
                "(a waiver, a decision), or let them be suppressed"
            )
        clash = int((self.secondary & self.must_publish).sum())
        if clash:
            raise PlanError(f"{clash} cells are suppressed and must be published")
        clash = int((self.primary & self.safe).sum())
        if clash:
            raise PlanError(f"{clash} cells are both sensitive and safe")

    @property
    def suppressed(self) -> Bools:
        """Which cells do not go out: primary and secondary; with other values to go out, those that have none."""
        if self.released is not None:
            return np.isnan(self.released)
        return self.primary | self.secondary


MANUAL = "manual"
"""The reason of cells that a person declared unsafe."""


def chosen(cells: Cells, where: Any) -> Bools:
    """Give a mask of cells from labels (`{"region": "A"}`, or a list of such), a mask, or cell numbers."""
    if isinstance(where, Mapping):
        return cells.where(where)
    if isinstance(where, list | tuple) and where and all(isinstance(item, Mapping) for item in where):
        hit = np.zeros(len(cells), np.bool_)
        for item in where:
            hit |= cells.where(item)
        return hit
    array = np.asarray(where)
    if array.dtype == np.bool_ and array.shape == (len(cells),):
        return array
    mask = np.zeros(len(cells), np.bool_)
    if array.size == 0:
        return mask
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= len(cells):
        raise PlanError(f"expected labels, a mask of {len(cells)} cells, or cell numbers below {len(cells)}")
    mask[array] = True
    return mask


def mark_cells(cells: Cells, where: Any, decision: Mark) -> Cells:
    """Record a decision about some cells.

    `safe` takes them out of the sensitive ones and keeps rules off them; `unsafe` makes them sensitive (they need no
    more than not to be found exactly, unless required levels are given with `with_status`); `must-publish` forbids
    suppressing them; `preferred` has them suppressed first; `plain` takes these decisions back.
    """
    if decision not in get_args(Mark):
        raise PlanError(unknown("mark", str(decision), get_args(Mark)))
    hit = chosen(cells, where)
    if not hit.any():
        raise PlanError("no cell of the table is meant: the codes exist, but the cells are empty or not published")
    status = cells.status
    if decision == "unsafe":
        return cells.with_status(**_unsafe(status, hit))
    if decision in ("must-publish", "preferred"):
        name = decision.replace("-", "_")
        return cells.with_status(**{name: getattr(status, name) | hit})
    changes: dict[str, Any] = {"safe": status.safe | hit, **_cleared(status, hit)}
    if decision == "plain":
        changes = _taken_back(status, hit)
    return cells.with_status(**changes)


def _unsafe(status: Status, hit: Bools) -> dict[str, Any]:
    reasons = status.reasons if MANUAL in status.reasons else (*status.reasons, MANUAL)
    bit = np.uint32(1 << reasons.index(MANUAL))
    return {
        "primary": status.primary | hit,
        "safe": status.safe & ~hit,
        "reason": np.where(hit, status.reason | bit, status.reason),
        "reasons": reasons,
    }


def unsafe_by_hand(status: Status) -> Bools:
    """Tell which cells a person declared unsafe (rules may find them sensitive as well)."""
    if MANUAL not in status.reasons:
        return np.zeros(len(status.primary), np.bool_)
    told: Bools = (status.reason & np.uint32(1 << status.reasons.index(MANUAL))) > 0
    return told


def _taken_back(status: Status, hit: Bools) -> dict[str, Any]:
    by_hand = hit & unsafe_by_hand(status)
    bit = np.uint32(1 << status.reasons.index(MANUAL)) if by_hand.any() else np.uint32(0)
    reason = np.where(by_hand, status.reason & ~bit, status.reason)
    return {
        **_cleared(status, by_hand & (reason == 0)),
        "reason": reason,
        "safe": status.safe & ~hit,
        "must_publish": status.must_publish & ~hit,
        "preferred": status.preferred & ~hit,
    }


def _cleared(status: Status, hit: Bools) -> dict[str, Any]:
    return {
        "primary": status.primary & ~hit,
        "reason": np.where(hit, np.uint32(0), status.reason),
        "lower_required": np.where(hit, 0.0, status.lower_required),
        "upper_required": np.where(hit, 0.0, status.upper_required),
    }


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix in compressed rows: row i has `indices[indptr[i]:indptr[i+1]]` (ascending) with `data` beside them."""

    indptr: Ints
    indices: Ints32
    data: NDArray[np.int8]
    shape: tuple[int, int]

    @classmethod
    def from_pairs(cls, rows: Ints, columns: Ints, shape: tuple[int, int], data: Any = None) -> Sparse:
        """Build the matrix from its non-zero places (each given once)."""
        order = np.lexsort((columns, rows))
        indptr = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
        values = np.ones(len(rows), np.int8) if data is None else np.asarray(data, np.int8)[order]
        return cls(indptr, columns[order].astype(np.int32), values, shape)

    @property
    def nnz(self) -> int:
        """The number of non-zero places."""
        return len(self.indices)

    def row(self, i: int) -> Ints32:
        """Give the columns of one row."""
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    @cached_property
    def rows(self) -> Ints:
        """The row of every non-zero place."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @cached_property
    def transposed(self) -> Sparse:
        """The matrix with rows and columns exchanged."""
        return Sparse.from_pairs(self.indices.astype(np.int64), self.rows, (self.shape[1], self.shape[0]), self.data)

    def dot(self, vector: Any) -> Floats:
        """Multiply by a column vector: one number per row."""
        terms = np.asarray(vector, np.float64)[self.indices] * self.data
        sums: Floats = np.bincount(self.rows, terms, self.shape[0]).astype(np.float64, copy=False)
        return sums

    def dense(self) -> NDArray[np.int8]:
        """Give the matrix with all its zeros (for small tables and tests)."""
        full = np.zeros(self.shape, np.int8)
        full[self.rows, self.indices] = self.data
        return full

    def to_scipy(self) -> Any:
        """Give the matrix as a `scipy.sparse.csr_array` of floats."""
        from scipy.sparse import csr_array

        return csr_array((self.data.astype(np.float64), self.indices, self.indptr), shape=self.shape)


_MOST = 2**62


@dataclass(frozen=True, eq=False)
class Packer:
    """Turns rows of codes into numbers; where 64 bits do not suffice, prefixes are replaced by their rank.

    Rows that were not there when it was made get −1. Numbers order as rows do (lexicographically).
    """

    sizes: tuple[int, ...]
    prefixes: tuple[Ints | None, ...]
    order: Ints
    sorted_keys: Ints

    @classmethod
    def fit(cls, codes: NDArray[Any], sizes: Sequence[int]) -> Packer:
        """Learn the rows; they should be distinct for `find`. Time O(rows·columns + sorting)."""
        keys = np.zeros(len(codes), np.int64)
        radix = 1
        prefixes: list[Ints | None] = []
        for j, size in enumerate(sizes):
            if radix * size > _MOST:
                known = np.unique(keys)
                keys = np.searchsorted(known, keys).astype(np.int64)
                radix = len(known)
                prefixes.append(known)
            else:
                prefixes.append(None)
            keys = keys * size + codes[:, j]
            radix *= size
        order = np.argsort(keys, kind="stable")
        return cls(tuple(sizes), tuple(prefixes), order, keys[order])

    def keys(self, codes: NDArray[Any]) -> Ints:
        """Give the number of each row; −1 for a prefix that was not there."""
        keys = np.zeros(len(codes), np.int64)
        absent = np.zeros(len(codes), np.bool_)
        for j, (size, known) in enumerate(zip(self.sizes, self.prefixes, strict=True)):
            if known is not None:
                place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
                absent |= known[place] != keys
                keys = place.astype(np.int64)
            keys = keys * size + codes[:, j]
        keys[absent] = -1
        return keys

    def find(self, codes: NDArray[Any]) -> Ints:
        """Give the position of each row among those learned, −1 where it was not there."""
        keys = self.keys(codes)
        if not len(self.order):
            return np.full(len(codes), -1, np.int64)
        place = np.minimum(np.searchsorted(self.sorted_keys, keys), len(self.order) - 1)
        return np.where(self.sorted_keys[place] == keys, self.order[place], -1).astype(np.int64)


def row_keys(codes: NDArray[Any], sizes: Sequence[int]) -> Ints:
    """Give a number per row, equal exactly where the rows are, ordered as they are."""
    return Packer.fit(codes, sizes).keys(codes) if _product(sizes) > _MOST else plain_keys(codes, sizes)


def plain_keys(codes: NDArray[Any], sizes: Sequence[int]) -> Ints:
    """Pack rows whose numbers fit into 62 bits."""
    keys = np.zeros(len(codes), np.int64)
    for j, size in enumerate(sizes):
        keys *= size
        keys += codes[:, j]
    return keys


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


Weights = Literal["contributions", "respondents", "unweighted"]
"""What a weight w means for the rules: the respondent contributes w·x; it stands for w respondents of x each; or it
contributes x to a cell that is weighted."""


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """One entry for each respondent in each inner cell (combination of leaves) it contributes to."""

    names: tuple[str, ...]
    """the response variables"""
    frequency: bool
    """whether records are counted"""
    inner_codes: Ints32
    """(n_inner, d) the leaves of each inner cell"""
    inner: Ints
    """(p,) the inner cell of each entry, ascending"""
    contributor: Ints32
    """(p,) the number of the respondent"""
    x: Floats
    """(p, responses) what it contributes, weighted; NaN where it gives no value"""
    weight: Floats
    """(p,) sum of the weights of its records"""
    waived: Bools
    """(p,) whether the respondent waived protection"""
    requested: Bools
    """(p,) whether it requested protection"""
    key: Floats | None = None
    """(p,) sum of the record keys"""
    knows_requests: bool = False
    """whether it is known who requested protection"""
    weights: Weights = "contributions"
    """what weights mean for the rules"""

    def __len__(self) -> int:
        return len(self.inner)

    def __repr__(self) -> str:
        return f"Contributions({len(self)} entries in {len(self.inner_codes)} inner cells)"

    def regrouped(self, codes: Ints32, sizes: tuple[int, ...]) -> Contributions:
        """Give the contributions after the leaves of the inner cells became other ones (rolled up)."""
        return build(self, codes[self.inner], sizes)

    @property
    def spread(self) -> Bools:
        """(p,) entries of respondents that contribute to several inner cells."""
        several: Bools = np.bincount(self.contributor, minlength=1)[self.contributor] > 1
        return several


def build(entries: Contributions, codes: NDArray[np.int32], sizes: tuple[int, ...]) -> Contributions:
    """Sort entries by inner cell, and add up those of one respondent in one cell.

    `codes` has the leaves of each entry. Entries are put in order of their values inside a cell, so that sums do not
    depend on the order of the records. Time O(p log p).
    """
    keys = row_keys(codes, sizes)
    order = np.lexsort((entries.contributor, *entries.x.T, keys))
    cells, first, inner = np.unique(keys[order], return_index=True, return_inverse=True)
    sorted_entries = replace(
        entries,
        inner_codes=np.ascontiguousarray(codes[order[first]], dtype=np.int32).reshape(len(cells), codes.shape[1]),
        inner=inner.astype(np.int64),
        contributor=entries.contributor[order],
        x=entries.x[order],
        weight=entries.weight[order],
        waived=entries.waived[order],
        requested=entries.requested[order],
        key=None if entries.key is None else entries.key[order],
    )
    return _one_per_respondent(sorted_entries)


def _one_per_respondent(entries: Contributions) -> Contributions:
    """Add up the entries of one respondent in one inner cell; values missing in all of them stay missing."""
    if not len(entries) or np.bincount(entries.contributor).max() <= 1:
        return entries
    order = np.lexsort((entries.contributor, entries.inner))
    inner, who = entries.inner[order], entries.contributor[order]
    starts = np.flatnonzero(np.r_[True, (inner[1:] != inner[:-1]) | (who[1:] != who[:-1])])
    if len(starts) == len(inner):
        return entries
    x = entries.x[order]
    present = np.add.reduceat((~np.isnan(x)).astype(np.int64), starts, axis=0)
    sums = np.add.reduceat(np.nan_to_num(x), starts, axis=0)
    return replace(
        entries,
        inner=inner[starts],
        contributor=who[starts],
        x=np.where(present > 0, sums, np.nan),
        weight=np.add.reduceat(entries.weight[order], starts),
        waived=np.logical_and.reduceat(entries.waived[order], starts),
        requested=np.logical_or.reduceat(entries.requested[order], starts),
        key=None if entries.key is None else np.add.reduceat(entries.key[order], starts),
    )


def as_rules_read(entries: Contributions, top: int) -> tuple[Contributions, Ints]:
    """Give the contributions whose largest the rules look at, and the entry each is made from.

    A weight of 2.4 that stands for respondents is two of x and one of 0.4·x; of more than `top` none is looked at.
    """
    plain = entries.x / np.where(entries.weight > 0, entries.weight, 1.0)[:, None]
    if entries.weights == "unweighted":
        return replace(entries, x=plain), np.arange(len(entries))
    whole = np.minimum(np.floor(entries.weight), top).astype(np.int64)
    part = np.where(whole < top, entries.weight - whole, 0.0)
    copies = np.maximum(whole + (part > 0), 1)
    origin = np.repeat(np.arange(len(entries)), copies)
    share = np.ones(len(origin))
    last = np.cumsum(copies) - 1
    share[last] = np.where(copies > whole, part, 1.0)
    return replace(
        entries,
        inner=entries.inner[origin],
        contributor=np.arange(len(origin), dtype=np.int32),
        x=plain[origin] * share[:, None],
        weight=share,
        waived=entries.waived[origin],
        requested=entries.requested[origin],
        key=None,
    ), origin


# Who adds up to whom: inner cells to published cells, parts to totals.


def incidence(cells: Cells) -> Sparse:
    """Give the matrix of inner cells × published cells. Time and memory O(inner cells × cells above each)."""
    n = len(cells.inner_codes)
    first_table = cells.in_table.argmax(axis=1)
    rows, columns = [], []
    for number, table in enumerate(cells.tables):
        places = [cells.dim(name) for name in table]
        above = [cells.dims[j].ancestors[cells.inner_codes[:, j]] for j in places]
        for slots in product(*(range(table_above.shape[1]) for table_above in above)):
            codes = np.zeros((n, len(cells.dims)), np.int32)
            for j, table_above, slot in zip(places, above, slots, strict=True):
                codes[:, j] = table_above[:, slot]
            inner = np.flatnonzero((codes >= 0).all(axis=1))
            found = cells.find(codes[inner])
            kept = (found >= 0) & (first_table[found] == number)
            rows.append(inner[kept])
            columns.append(found[kept])
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (n, len(cells)))


def parent(cells: Cells, j: int, tree: int = 0) -> Ints:
    """Give for each cell the one a step up along a variable, −1 at its total or outside the tree."""
    above = cells.dims[j].parents[tree][cells.codes[:, j]]
    lifted = np.flatnonzero(above >= 0)
    codes = cells.codes[lifted].copy()
    codes[:, j] = above[lifted]
    found = np.full(len(cells), -1, np.int64)
    found[lifted] = cells.find(codes)
    return found


def relations(cells: Cells) -> Sparse:
    """Give a row for every total: +1 for it, −1 for its parts along one tree of one variable."""
    rows, columns, signs, count = [], [], [], 0
    for j, dim in enumerate(cells.dims):
        for tree in range(len(dim.parents)):
            above = parent(cells, j, tree)
            parts = np.flatnonzero((above >= 0) & ~_told_before(dim, tree)[dim.parents[tree][cells.codes[:, j]]])
            totals, row = np.unique(above[parts], return_inverse=True)
            rows += [count + np.arange(len(totals)), count + row]
            columns += [totals, parts]
            signs += [np.ones(len(totals), np.int8), np.full(len(parts), -1, np.int8)]
            count += len(totals)
    for one, other in _equal_cells(cells) if len(cells.tables) > 1 else ():
        rows.append(np.array([count, count]))
        columns.append(np.array([one, other]))
        signs.append(np.array([1, -1], np.int8))
        count += 1
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (count, len(cells)), np.concatenate(signs))


def _told_before(dim: Dimension, tree: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which codes have the same children in an earlier tree, so that the relation is already there."""
    told = np.zeros(len(dim), np.bool_)
    for code in np.flatnonzero(~dim.leaves).tolist() if tree else ():
        mine = dim.children(code, tree).tolist()
        told[code] = any(dim.children(code, earlier).tolist() == mine for earlier in range(tree))
    return told


def _equal_cells(cells: Cells) -> list[tuple[int, int]]:
    """Find cells of linked tables that consist of the same inner cells although their codes differ."""
    members = cells.x.transposed
    mixed = np.arange(1, len(cells.inner_codes) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    filled = np.flatnonzero(np.diff(members.indptr) > 0)
    if not len(filled):
        return []
    signature = np.add.reduceat(mixed[members.indices], members.indptr[filled])
    order = np.argsort(signature, kind="stable")
    pairs = []
    for before, after in pairwise(order.tolist()):
        one, other = int(filled[before]), int(filled[after])
        if signature[before] == signature[after] and np.array_equal(members.row(one), members.row(other)):
            pairs.append((one, other))
    return pairs


# A table as a long frame, for the outside or for the office.


def frame(cells: Cells, internal: bool) -> pl.DataFrame:
    """Give codes, the values that go out, and whether a cell is suppressed; `internal` adds the secrets."""
    import polars as pl

    hidden = cells.suppressed
    columns: dict[str, object] = {
        dim.name: np.array(dim.codes, dtype=object)[cells.codes[:, j]].tolist() for j, dim in enumerate(cells.dims)
    }
    released = cells.value if cells.status.released is None else cells.status.released
    columns[cells.response.name] = pl.Series(np.where(hidden, np.nan, released)).fill_nan(None)
    columns["suppressed"] = hidden
    shown = pl.DataFrame(columns)
    return shown.with_columns(_secrets(cells)) if internal else shown


def _secrets(cells: Cells) -> list[pl.Series]:
    import polars as pl

    status = cells.status
    reasons = [
        ", ".join(name for bit, name in enumerate(status.reasons) if mask >> bit & 1) for mask in status.reason.tolist()
    ]
    labels = np.select(
        [status.primary, status.secondary, status.must_publish, status.safe],
        ["primary", "secondary", "must-publish", "safe"],
        "published",
    )
    top = [pl.Series(f"top_{k + 1}", cells.top[:, k]) for k in range(cells.top.shape[1])]
    return [
        pl.Series("true_value", cells.value),
        pl.Series("respondents", cells.count),
        pl.Series("weighted_count", cells.weighted_count),
        *top,
        pl.Series("status", labels.tolist(), dtype=pl.String),
        pl.Series("reason", reasons, dtype=pl.String),
        pl.Series("lower_required", status.lower_required),
        pl.Series("upper_required", status.upper_required),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """The published cells of one table, or of several linked tables over the same records.

    Only non-empty cells are kept, with their totals; cells stand in lexicographic order of their codes, so that the
    grand total is the first. A cell of linked tables that occurs in several of them is one cell; variables that a table
    does not use are at their total. `x` tells which published cells each inner cell (non-empty combination of leaves of
    all variables) belongs to; everything an attacker can add up follows from it. The repr never shows values.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": ["A", "A", "B"], "sector": ["x", "y", "x"], "turnover": [10.0, 20.0, 5.0]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover")
    >>> cells
    Cells(turnover by region × sector: 8 cells, 3 inner; 0 sensitive, 0 suppressed)
    >>> cells.value.tolist()
    [35.0, 15.0, 20.0, 30.0, 10.0, 20.0, 5.0, 5.0]
    """

    dims: tuple[Dimension, ...]
    """the d classifying variables"""
    codes: Ints32
    """(m, d) the code of each cell in each variable: numbers into `dims[j].codes`, 0 is the total"""
    responses: tuple[Response, ...]
    """the figures, one entry per response variable"""
    tables: tuple[tuple[str, ...], ...]
    """the variables of each table"""
    in_table: Bools
    """(m, number of tables) which tables a cell belongs to"""
    inner_codes: Ints32
    """(n_inner, d) the leaves of each inner cell"""
    weighted_count: Floats
    """(m,) sum of the weights of the records (their number without weights)"""
    status: Status
    """what is decided about each cell"""
    active: int = 0
    """the response that `value`, `count`, `top` and the rules refer to"""
    key: Floats | None = None
    """(m,) cell keys in [0, 1) for consistent perturbation: sums of the record keys modulo 1"""
    contributors: Sequence[Any] = ()
    """the id of each respondent number; empty where records are the respondents (numbers are rows)"""
    source: Contributions | None = None
    """the contributions the table was made from, where it was made from records"""
    notes: tuple[str, ...] = field(default=())
    """what happened on the way (records left out, totals computed)"""
    beside: Beside | None = None
    """earlier releases that its readers have too; see `tabulate`"""
    differences: Differences | None = None
    """what the rules found about differences of published cells"""
    rules: tuple[Rule, ...] = ()
    """the rules that were applied; they judge sums of suppressed cells too"""
    wide: Wide | None = None
    """the structure of a table that was widened by what stands beside it; see `widened`"""

    def __post_init__(self) -> None:
        for array in (self.codes, self.in_table, self.inner_codes, self.weighted_count):
            array.flags.writeable = False
        for response in self.responses:
            for array in vars(response).values():
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        shown = " and ".join(" × ".join(table) for table in self.tables)
        names = ", ".join(response.name for response in self.responses)
        return (
            f"Cells({names} by {shown}: {len(self):,} cells, {len(self.inner_codes):,} inner; "
            f"{int(self.primary.sum()):,} sensitive, {int(self.suppressed.sum()):,} suppressed)"
        )

    def drawing(self, ctx: Context, *settings: object) -> Context:
        """Give a context whose draws belong to this table and these settings: another table draws independently."""
        labels = repr((self.tables, [(dim.name, dim.codes) for dim in self.dims], self.response.name))
        arrays = (self.codes, self.value, self.inner_codes, self.inner_value)
        return ctx.keyed(
            lambda: repr(settings).encode(),
            lambda: keyed_hash(ctx.secret, labels, *(np.ascontiguousarray(array).tobytes() for array in arrays)),
        )

    # --- the figures of the active response --------------------------------------------------------------------------

    @property
    def response(self) -> Response:
        """The active response."""
        return self.responses[self.active]

    @property
    def value(self) -> Floats:
        """(m,) the true value of each cell."""
        return self.response.value

    @property
    def count(self) -> Ints:
        """(m,) respondents in each cell, unweighted."""
        return self.response.count

    @property
    def top(self) -> Floats:
        """(m, t) the largest contributions, descending."""
        return self.response.top

    @property
    def top_ids(self) -> Ints32:
        """(m, t) who made them; −1 where there is none."""
        return self.response.top_ids

    @property
    def inner_value(self) -> Floats:
        """(n_inner,) the true value of each inner cell."""
        return self.response.inner_value

    def of_response(self, name: str) -> Cells:
        """Give the table of another response, with nothing decided yet."""
        names = [response.name for response in self.responses]
        if name not in names:
            raise PlanError(unknown("response", name, names))
        return replace(self, active=names.index(name), status=Status.empty(len(self)), differences=None, rules=())

    @property
    def coalition(self) -> int:
        """How many respondents the rules applied let put together what they know: the most any of them does."""
        return max((rule.together() for rule in self.rules), default=1)

    # --- status ------------------------------------------------------------------------------------------------------

    @property
    def primary(self) -> Bools:
        """(m,) sensitive cells."""
        return self.status.primary

    @property
    def secondary(self) -> Bools:
        """(m,) cells suppressed to protect others."""
        return self.status.secondary

    @property
    def respondents_known(self) -> bool:
        """Whether it is known who contributes to inner cells, or how many."""
        return self.source is not None or (self.response.counted and bool((self.inner_cell >= 0).all()))

    @property
    def suppressed(self) -> Bools:
        """(m,) cells that do not go out: primary or secondary."""
        return self.status.suppressed

    @property
    def lower_required(self) -> Floats:
        """(m,) protection a sensitive cell needs below its value."""
        return self.status.lower_required

    @property
    def upper_required(self) -> Floats:
        """(m,) protection a sensitive cell needs above its value."""
        return self.status.upper_required

    def with_status(self, **changes: Any) -> Cells:
        """Give the table with some arrays of its status replaced: `with_status(secondary=mask)`; see `Status`."""
        return replace(self, status=self.status.changed(**changes))

    def with_released(self, values: Any) -> Cells:
        """Give the table with other values to go out (rounded, adjusted, perturbed)."""
        if self.beside is not None and self.beside.names:
            raise PlanError(
                "previous: earlier releases are taken into account by suppression only, and what they show would not "
                "be held against other values than the true ones; suppress, or leave `previous` out"
            )
        return self.with_status(released=values)

    def apply_rules(
        self, rules: Rule | Mapping[str, Any] | Sequence[Rule | Mapping[str, Any]], *, responses: str = "active"
    ) -> Cells:
        """Find the sensitive cells, why they are, and how much protection they need; see `rules.apply`."""
        from discretion.tables.rules.rule import apply

        return apply(self, rules, responses)

    def mark(self, where: Any, mark: Mark) -> Cells:
        """Decide about cells by hand: `mark({"region": "A", "sector": "x"}, "must-publish")`; see `mark_cells`."""

        return mark_cells(self, where, mark)

    def restructure(
        self, rules: Sequence[Rule | Mapping[str, Any]], *, keep: Sequence[str] = (), ordered: Sequence[str] = ()
    ) -> Restructured:
        """Roll categories up until no cell is sensitive; see `restructure.restructure`."""
        from discretion.tables.restructure import restructure

        return restructure(self, rules, keep=keep, ordered=ordered)

    def audit(self, **options: Any) -> Audit:
        """Find out how closely an attacker can bound every suppressed cell; see `audit.audit`."""
        from discretion.tables.audit import audit

        return audit(self, **options)

    def suppress(self, engine: Any = "elimination", **options: Any) -> Protected:
        """Suppress complementary cells until sensitive ones cannot be computed; see `suppression.suppress`."""
        from discretion.tables.suppression import suppress

        return suppress(self, engine, **options)

    def suppress_by_hand(self, where: Any, **options: Any) -> Protected:
        """Suppress complementary cells of one's own choice, and audit; see `suppression.suppress_by_hand`."""
        from discretion.tables.suppression import suppress_by_hand

        return suppress_by_hand(self, where, **options)

    def round_random(self, base: float, **options: Any) -> Rounded:
        """Round every cell up or down by chance, right on average; see `rounding.round_random`."""
        from discretion.tables.controlled_rounding import round_random

        return round_random(self, base, **options)

    def round_controlled(self, base: float, **options: Any) -> Rounded:
        """Round to multiples of a base that still add up; see `controlled_rounding.round_controlled`."""
        from discretion.tables.controlled_rounding import round_controlled

        return round_controlled(self, base, **options)

    def adjust(self, **options: Any) -> Adjusted:
        """Move sensitive cells to safe values and others as little as possible; see `adjustment.adjust`."""
        from discretion.tables.adjustment import adjust

        return adjust(self, **options)

    def perturb(self, **options: Any) -> Perturbed:
        """Add noise that is the same for the same cell in every table; see `cell_key.perturb`."""
        from discretion.tables.cell_key import perturb

        return perturb(self, **options)

    def loss(self, audit: Audit | None = None) -> dict[str, float]:
        """Tell what protection has cost: cells and value suppressed, intervals, deviations; see `loss.loss_of`."""
        from discretion.tables.suppression import loss_of

        return loss_of(self, audit)

    def publish(self, path: str | Path, **options: Any) -> None:
        """Write the table as CSV (long or pivoted), Excel or JSON; see `publish.publish`."""
        from discretion.tables.publish import publish

        publish(self, path, **options)

    # --- finding cells -----------------------------------------------------------------------------------------------

    def dim(self, name: str) -> int:
        """Give the place of a variable in `dims`."""
        names = [dim.name for dim in self.dims]
        if name not in names:
            raise PlanError(unknown("variable", name, names))
        return names.index(name)

    def where(self, codes: Mapping[str, Any]) -> Bools:
        """Tell which cells have these codes (a label or a list of labels per variable; others may be anything)."""
        hit = np.ones(len(self), np.bool_)
        for name, labels in codes.items():
            j = self.dim(name)
            wanted = self.dims[j].find(labels if isinstance(labels, list | tuple | set) else [labels])
            hit &= np.isin(self.codes[:, j], wanted)
        return hit

    def index(self, codes: Mapping[str, Any]) -> int:
        """Give the number of one cell; variables that are not named are at their total."""
        row = [int(dim.find([codes[dim.name]])[0]) if dim.name in codes else 0 for dim in self.dims]
        for name in codes:
            self.dim(name)
        found = int(self.find(np.array([row], np.int32))[0])
        if found < 0:
            raise PlanError("there is no such cell: it is empty, or not in the table")
        return found

    def find(self, codes: NDArray[Any]) -> Ints:
        """Give the number of the cell with each row of codes, −1 where there is none."""
        return self._finder.find(codes)

    @cached_property
    def _finder(self) -> Packer:
        return Packer.fit(self.codes, [len(dim) for dim in self.dims])

    def label(self, cell: int) -> dict[str, str]:
        """Give the codes of one cell by variable."""
        return {dim.name: dim.codes[code] for dim, code in zip(self.dims, self.codes[cell], strict=True)}

    # --- additive structure ------------------------------------------------------------------------------------------

    @cached_property
    def x(self) -> Sparse:
        """(n_inner × m) which published cells each inner cell is part of: `value == x.transposed.dot(inner_value)`."""

        return incidence(self) if self.wide is None else self.wide.x

    @cached_property
    def inner_cell(self) -> Ints:
        """(n_inner,) the published cell that is this inner cell, −1 where linked tables do not publish it."""
        return self.find(self.inner_codes) if self.wide is None else self.wide.inner_cell

    def relations(self) -> Sparse:
        """(r × m) the sums the tables show: a row has +1 at a total, −1 at its parts, and times `value` gives 0.

        For each variable, tree and non-leaf code, and for cells of linked tables with the same inner cells (+1, −1).
        Columns that nest although no hierarchy says so are seen by `x` only: an audit uses `x`.
        """
        return self._relations

    @cached_property
    def _relations(self) -> Sparse:

        return relations(self)

    def parent(self, dim: int | str, tree: int = 0) -> Ints:
        """(m,) the cell one step up along a variable, −1 at its total."""

        return parent(self, self.dim(dim) if isinstance(dim, str) else dim, tree)

    # --- looking -----------------------------------------------------------------------------------------------------

    def frame(self, *, internal: bool = False) -> pl.DataFrame:
        """Give the table as a long frame: codes, values (suppressed ones missing) and whether they are suppressed.

        `internal` adds what must not go out: true values, respondents, largest contributions, why a cell is sensitive.
        """

        return frame(self, internal)
