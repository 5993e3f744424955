"""The attacker: how closely suppressed cells can be computed from everything that is published."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import RAY, LinearProgram, Matrix, power_above

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


# What an attacker can write down about a table with gaps: unknowns, equations, and what is fixed by them at once.


@dataclass(frozen=True, eq=False)
class Prior:
    """What the attacker knows of the cells before the table appears; everything given holds together.

    Nothing given: no inner cell is negative, and no count is 0 where no empty cell is listed. `Prior.of(cells)` is what
    everybody knows of a table.
    """

    percent: float | None = None
    """every suppressed cell is known beforehand to within this percentage of its value"""
    lower: Floats | None = None
    """(cells,) a bound known for each cell, −inf where there is none"""
    upper: Floats | None = None
    """(cells,) the same from above, inf where there is none"""
    negative: bool = False
    """whether cells may be negative, so that 0 is no bound"""
    empty: bool = False
    """whether listed counts may be of nobody for all the attacker knows; otherwise they are at least 1, where no empty
    cell is listed"""

    def __post_init__(self) -> None:
        if self.percent is not None and not isinstance(self.percent, int | float):
            raise PlanError("prior: `percent` must be a number")
        if self.percent is not None and not self.percent > 0:
            raise PlanError("prior: `percent` must be positive; an attacker who knows the cells needs no table")

    @classmethod
    def of(cls, cells: Cells, given: Prior | Mapping[str, Any] | None = None) -> Prior:
        """Give what is known; where it is not said, cells may be negative in a table with negative contributions."""
        if isinstance(given, Prior):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise PlanError("prior: expected entries like {percent: 50} or {negative: true}")
        below = (cells.inner_value < 0).any() or (cells.value < 0).any() or (cells.response.negative > 0).any()
        fields = {field.name for field in dataclass_fields(cls)}
        for name in given or {}:
            if name not in fields:
                raise PlanError(f"prior: {unknown('entry', str(name), sorted(fields))}")
        return cls(**{"negative": bool(below), **(given or {})})

    def least(self, cells: Cells) -> Floats:
        """(inner cells,) give what each has at least: 0, but 1 where counts are shown and no empty cell is listed.

        What is listed is not empty then: three gaps that add up to 3 people are 1 each.
        """
        if self.negative:
            return np.full(len(cells.inner_codes), -np.inf)
        least: Floats = ((cells.inner_cell >= 0) & self._are_filled(cells)).astype(np.float64)
        return least

    def _are_filled(self, cells: Cells) -> bool:
        value = cells.value[: _listed(cells)]
        counted = cells.response.frequency and not self.negative and not self.empty
        return bool(counted and (value == np.round(value)).all() and (value >= 1).all())

    def raised(self, cells: Cells) -> Bools:
        """(cells,) tell which have at least 1 without a listed part of which that follows.

        In linked tables those that are sums of combinations no table lists.
        """
        sums = cells.relations()
        found: Bools = (cells.x.transposed.dot(self.least(cells)) < 1) & self._are_filled(cells)
        found[sums.indices[sums.data > 0]] = False
        found[_listed(cells) :] = False
        return found

    def packed(self, cells: Cells) -> dict[int, list[int]]:
        """Give for raised cells that have others inside such ones, with no inner cell in common, smallest first."""
        members = {cell: cells.x.transposed.row(cell).tolist() for cell in np.flatnonzero(self.raised(cells)).tolist()}
        holding: dict[int, list[int]] = {}
        found: dict[int, list[int]] = {}
        for cell in sorted(members, key=lambda cell: len(members[cell])):
            own, taken = set(members[cell]), set[int]()
            beside = dict.fromkeys(other for inner in members[cell] for other in holding.get(inner, ()))
            for other in sorted(beside, key=lambda other: len(members[other])):
                if (
                    own.issuperset(members[other])
                    and taken.isdisjoint(members[other])
                    and len(members[other]) < len(own)
                ):
                    taken.update(members[other])
                    found.setdefault(cell, []).append(other)
            for inner in members[cell]:
                holding.setdefault(inner, []).append(cell)
        return found

    def floor(self, cells: Cells) -> Floats:
        """(cells,) give what each has at least: what its inner cells, or listed cells that are parts of it, have."""
        floor: Floats = cells.x.transposed.dot(self.least(cells))
        raised = self.raised(cells)
        if not raised.any():
            return floor
        floor, sums = np.maximum(floor, raised), cells.relations()
        for cell, inside in self.packed(cells).items():  # the smaller ones come first
            floor[cell] = max(floor[cell], floor[inside].sum())
        totals, single = np.full(sums.shape[0], -1), np.bincount(sums.rows, sums.data > 0, sums.shape[0]) == 1
        totals[sums.rows[sums.data > 0]] = sums.indices[sums.data > 0]
        while True:
            parts = np.bincount(sums.rows, np.where(sums.data < 0, floor[sums.indices], 0.0), sums.shape[0])
            before = floor.copy()
            np.maximum.at(floor, totals[single], parts[single])
            if (floor == before).all():
                return floor

    def room(self, cells: Cells) -> Floats:
        """(cells,) give how far below its value each may be believed to lie; 0 where the value is not known."""
        if self.negative:
            return np.full(len(cells), np.inf)
        return np.maximum(np.nan_to_num(cells.value) - self.floor(cells), 0.0)

    def bounds(self, cells: Cells, suppressed: Bools) -> tuple[Floats, Floats]:
        """Give the bounds of every cell; the true value must lie between them."""
        m, value = len(cells), cells.value
        low = np.full(m, -np.inf) if self.negative else self.floor(cells)
        high = np.full(m, np.inf)
        for name, given in (("lower", self.lower), ("upper", self.upper)):
            if given is not None and np.shape(given) != (m,):
                raise PlanError(f"prior: `{name}` must have {m} entries, one per cell")
        if self.lower is not None:
            low = np.fmax(low, np.asarray(self.lower, np.float64))
        if self.upper is not None:
            high = np.fmin(high, np.asarray(self.upper, np.float64))
        if self.percent is not None:
            low = np.fmax(low, value - np.abs(value) * self.percent / 100)
            high = np.fmin(high, value + np.abs(value) * self.percent / 100)
        outside = int((suppressed & ((value < low) | (value > high))).sum())
        if outside:
            hint = "" if self.negative else "; say negative=True where cells may be below 0"
            raise DataError(f"{outside} suppressed cells lie outside the bounds the attacker is said to know{hint}")
        return low, high


def _listed(cells: Cells) -> int:
    """Give how many cells the table itself has: what stands beside it, differences and earlier cells, come after."""
    return len(cells) if cells.wide is None else cells.wide.cells


@dataclass(frozen=True, eq=False)
class System:
    """Deviations z of the unknowns from their true (or some possible) values.

    row_low ≤ A z ≤ row_high (both 0 for published sums), low ≤ z ≤ high; a cell deviates by its row of `members` z.
    """

    A: Matrix
    """(rows × unknowns)"""
    row_low: Floats
    row_high: Floats
    low: Floats
    """(unknowns,) smallest deviation"""
    high: Floats
    """(unknowns,) largest deviation"""
    spread: Matrix
    """(n_inner × unknowns) which inner cells an unknown is the sum of; the rest follow at once"""
    block: Ints
    """(unknowns,) the connected part of the system an unknown is in"""
    center: Floats
    """(cells,) the value of each cell at z = 0: the true one where it is known"""
    members: Matrix
    """(cells × unknowns) how a cell deviates"""

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return len(self.low)


def system(
    cells: Cells,
    suppressed: Bools,
    prior: Prior | None = None,
    *,
    known: Bools | None = None,
    floor: Floats | None = None,
) -> System:
    """Write down what is published: the unknown inner cells and every sum of them that follows from published cells.

    `known` marks inner cells the attacker knows besides, `floor` what an inner cell has at least (its own part). A
    published total with published parts is replaced by what is left for its suppressed parts: rows get short and
    independent parts of the table fall apart. Unknowns that follow at once (alone in a row, or in a row that leaves
    no room) are taken out. Time O(non-zeros of x).
    """
    prior = prior or Prior.of(cells)
    cell_low, cell_high = prior.bounds(cells, suppressed)
    own = cells.inner_cell
    hidden = (own < 0) | suppressed[own]
    if known is not None:
        hidden &= ~known
    x = cells.x.to_scipy()
    rows, right = _equations(cells, suppressed, x, hidden)
    low = np.where(own >= 0, cell_low[own], -np.inf if prior.negative else 0.0)
    high = np.where(own >= 0, cell_high[own], np.inf)
    if floor is not None and not prior.negative:
        low = np.maximum(low, floor)
    y = _possible(cells.inner_value, hidden, rows, right, low, high)
    groups = spread(cells, hidden)
    below, above = groups.T @ np.where(hidden, low - y, 0.0), groups.T @ np.where(hidden, high - y, 0.0)
    A, free = _reduced(without_repeats(rows @ groups), below)
    groups = groups[:, free]
    members = (x.T.tocsr() @ groups).tocsr()
    ranged = _ranged(cells, suppressed, prior)
    center = np.where(np.isnan(cells.value), x.T @ y, cells.value)
    A, row_low, row_high = _with_ranges(A, members, ranged, cell_low - center, cell_high - center)
    return System(A, row_low, row_high, below[free], above[free], groups.tocsr(), blocks(A), center, members)


def _equations(cells: Cells, suppressed: Bools, x: Matrix, hidden: Bools) -> tuple[Matrix, Floats]:
    """Give the rows (× inner cells) of what published cells say about hidden inner cells, and their right sides.

    By induction over the size of cells the rows say the same as one row for each published cell: the row of a total
    minus the rows of its published parts, which are smaller. Totals with one part repeat it and are left as they are.
    """
    from scipy.sparse import csr_array, diags_array, vstack

    sums = cells.relations()
    part_count = np.bincount(sums.rows, sums.data < 0, sums.shape[0])
    totals = sums.indices[sums.data > 0]
    usable = (part_count >= 2) & ~suppressed[totals] & (np.bincount(sums.rows, sums.data > 0, sums.shape[0]) == 1)
    unknown = x.T @ hidden.astype(np.float64)
    is_part = sums.data < 0
    rest = np.bincount(
        sums.rows, np.where(is_part & suppressed[sums.indices], unknown[sums.indices], 0.0), sums.shape[0]
    )
    order = np.flatnonzero(usable)
    order = order[np.lexsort((rest[order], totals[order]))]
    first = np.r_[True, totals[order][1:] != totals[order][:-1]] if len(order) else np.zeros(0, np.bool_)
    chosen = order[first]
    plain = ~suppressed & (unknown > 0)
    plain[totals[chosen]] = False
    signed = csr_array((sums.data.astype(np.float64), sums.indices, sums.indptr), shape=sums.shape)[chosen]
    left = (abs(signed) - _positive(signed)) @ diags_array(suppressed.astype(np.float64))
    inside = x.T.tocsr()
    rows = vstack([left @ inside, inside[np.flatnonzero(plain)]]).tocsr()
    shown = np.where(suppressed, 0.0, np.nan_to_num(cells.value))
    right = np.r_[signed @ shown, shown[plain]] - rows @ np.where(hidden, 0.0, np.nan_to_num(cells.inner_value))
    rows = (rows @ diags_array(hidden.astype(np.float64))).tocsr()
    rows.eliminate_zeros()
    return rows, right


def _positive(matrix: Matrix) -> Matrix:
    kept = matrix.copy()
    kept.data = np.maximum(kept.data, 0.0)
    return kept


def _possible(y: Floats, hidden: Bools, rows: Matrix, right: Floats, low: Floats, high: Floats) -> Floats:
    """Give the inner values, or some that agree with everything published where the true ones are not there."""
    if not np.isnan(y[hidden]).any():
        return np.nan_to_num(y)
    from scipy import optimize

    places, unit = np.flatnonzero(hidden), power_above(right)
    solve: Any = optimize.linprog
    bounds = np.column_stack((low, high))[places] / unit
    found = solve(np.zeros(len(places)), A_eq=rows[:, places], b_eq=right / unit, bounds=bounds)
    if found.status != 0:
        raise DataError(
            "no table agrees with the published cells: their sums, or the bounds given, contradict each other"
        )
    filled: Floats = np.nan_to_num(y)
    filled[places] = found.x * unit
    return filled


def spread(cells: Cells, hidden: Bools) -> Matrix:
    """Give the matrix of inner cells × unknowns: inner cells that are in exactly the same cells are one unknown."""
    from scipy.sparse import csr_array

    places = np.flatnonzero(hidden)
    unknown = np.arange(len(places))
    if (cells.inner_cell < 0).any():
        marks = np.random.default_rng(0).integers(0, 2**63, (len(cells), 2), dtype=np.int64)
        sums = [np.add.reduceat(marks[cells.x.indices, k], cells.x.indptr[:-1])[places] for k in (0, 1)]
        unknown = np.unique(np.column_stack(sums), axis=0, return_inverse=True)[1].ravel()
    count = int(unknown.max()) + 1 if len(places) else 0
    return csr_array((np.ones(len(places)), (places, unknown)), shape=(len(hidden), count))


def without_repeats(rows: Matrix) -> Matrix:
    """Drop empty rows and all but one of equal ones."""
    rows = rows.tocsr()
    rows.eliminate_zeros()
    marks = np.random.default_rng(0).random((rows.shape[1], 2))
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    keys = (rows @ marks)[filled].round(9)
    kept = np.sort(np.unique(keys, axis=0, return_index=True)[1]) if len(filled) else filled
    return rows[filled[kept]].tocsr()


def _reduced(A: Matrix, below: Floats) -> tuple[Matrix, Ints]:
    """Take out unknowns that follow at once, again and again; give the rows left and the unknowns left."""
    fixed = np.zeros(A.shape[1], np.bool_)
    room = np.where(np.isfinite(below), -below, np.inf)
    entries = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    while True:
        live = ~fixed[A.indices]
        count = np.bincount(entries[live], minlength=A.shape[0])
        space = np.bincount(entries[live], room[A.indices[live]], A.shape[0])
        closed = (count == 1) | ((count > 0) & (space <= 0))
        if not closed.any():
            break
        fixed[A.indices[closed[entries] & live]] = True
    free = np.flatnonzero(~fixed)
    return without_repeats(A[:, free].tocsr()), free


def _ranged(cells: Cells, suppressed: Bools, prior: Prior) -> Ints:
    """Give the suppressed totals whose bounds say more than those of their parts."""
    if prior.percent is None and prior.lower is None and prior.upper is None:
        return np.flatnonzero(suppressed & prior.raised(cells))
    inner = np.zeros(len(cells), np.bool_)
    inner[cells.inner_cell[cells.inner_cell >= 0]] = True
    return np.flatnonzero(suppressed & ~inner)


def _with_ranges(A: Matrix, members: Matrix, cells: Ints, low: Floats, high: Floats) -> tuple[Matrix, Floats, Floats]:
    from scipy.sparse import vstack

    zero = np.zeros(A.shape[0])
    if not len(cells):
        return A, zero, zero
    return vstack([A, members[cells]]).tocsr(), np.r_[zero, low[cells]], np.r_[zero, high[cells]]


def blocks(A: Matrix) -> Ints:
    """Number the connected parts of the system; unknowns in no row are parts of their own."""
    from scipy.sparse import block_array
    from scipy.sparse.csgraph import connected_components

    if not A.shape[1]:
        return np.zeros(0, np.int64)
    if not A.shape[0]:
        return np.arange(A.shape[1])
    found = connected_components(block_array([[None, A], [A.T, None]]).tocsr(), directed=False)[1]
    blocks: Ints = np.unique(found[A.shape[0] :], return_inverse=True)[1].astype(np.int64)
    return blocks


# How closely suppressed cells can be computed from it.


@dataclass(frozen=True, eq=False)
class Found:
    """Tables an attacker must hold possible: deviations, and any multiple of an endless direction besides."""

    z: Floats
    """(unknowns,)"""
    ray: Floats
    """(unknowns,) 0 where there is no such direction"""
    missed: float
    """by how much the deviations miss the sums they must keep"""


class Block(LinearProgram):
    """One connected part of the system as a linear program that stays in the solver: only its objective changes."""

    def __init__(self, whole: System, unknowns: Ints, rows: Ints) -> None:
        self.unknowns = unknowns
        self._own = whole.row_low[rows], whole.row_high[rows]
        super().__init__(
            whole.A[rows][:, unknowns],
            (whole.low[unknowns], whole.high[unknowns]),
            self._own,
            np.zeros(len(unknowns)),
            primal=True,
        )

    def tie(self, row: int, tied: bool) -> None:
        """Hold a sum (number inside the block) at its value, or let it go again."""
        low, high = self._own
        self.bound_row(row, *((0.0, 0.0) if tied else (float(low[row]), float(high[row]))))


class Attacker:
    """Somebody who has the published cells, knows how they add up, and has a linear program.

    Unknowns are inner cells; cells are sums of them. The true table is one of those that agree with everything
    published; over all of them the attacker looks for the smallest and the largest value of a suppressed cell. `prior`
    says what is known beforehand (nothing given: no inner cell is negative), `known` which inner cells the attacker
    knows (its own), `floor` what it contributed to each inner cell itself. Independent parts of the table are programs
    of their own, made when they are first needed, and each goes on from its last solution.

    The interval is right to the solver's accuracy, and never wider than the truth by more than that: what a solution
    misses of the published sums is taken off.

    References
    ----------
    Fischetti & Salazar (2000), J. Amer. Statist. Assoc. 95; Hundepool et al. (2012), ch. 4; catalogue T8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.attacker import Attacker
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [3, 4, 5, 9]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").mark([{"row": "a"}, {"row": "b"}], "unsafe")
    >>> cells = cells.mark([{"row": r, "col": c} for r in "ab" for c in "xy"], "unsafe")
    >>> Attacker(cells).interval(cells.index({"row": "a", "col": "x"}))
    (0.0, 8.0)
    """

    def __init__(
        self,
        cells: Cells,
        *,
        suppressed: Bools | None = None,
        prior: Prior | None = None,
        known: Bools | None = None,
        floor: Floats | None = None,
    ) -> None:
        if cells.status.released is not None:
            raise PlanError("the audit is for suppression: this table publishes other values than the true ones")
        hidden = cells.suppressed if suppressed is None else np.asarray(suppressed, np.bool_)
        if hidden.shape != (len(cells),):
            raise PlanError(f"suppressed: expected {len(cells)} entries, one per cell, got the shape {hidden.shape}")
        self._take(system(cells, hidden, prior, known=known, floor=floor))

    @classmethod
    def on(cls, known: System) -> Attacker:
        """Give an attacker who has a system written down already."""
        new = cls.__new__(cls)
        new._take(known)
        return new

    def _take(self, known: System) -> None:
        self.system = known
        self.solved = 0
        """linear programs solved so far"""
        self._open = np.bincount(known.A.indices, minlength=known.size) == 0
        self._loose_low, self._loose_high = known.low.copy(), known.high.copy()
        self._blocks: dict[int, Block] = {}
        order = np.argsort(known.block, kind="stable")
        self._unknowns = np.split(order, np.cumsum(np.bincount(known.block))[:-1]) if len(order) else []
        self._rows = _rows_by_block(known)

    def __repr__(self) -> str:
        return f"Attacker({self.system.size} unknowns, {self.system.A.shape[0]} sums, {len(self._unknowns)} parts)"

    def interval(self, cell: int) -> tuple[float, float]:
        """Give the smallest and the largest value a cell can have; both are its value when it is published."""
        below, above = self.deviations(self.system.members[[cell]])
        value = float(self.system.center[cell])
        return value + below, value + above

    def deviations(self, target: Matrix) -> tuple[float, float]:
        """Give how far below and above its center a sum of unknowns (one row) can lie: (≤ 0, ≥ 0)."""
        return -self.reach(-target)[0], self.reach(target)[0]

    def reach(self, target: Matrix) -> tuple[float, Found]:
        """Give how far a sum of unknowns can deviate, and a table in which it does.

        What that table misses of the published sums is taken off.
        """
        objective = np.zeros(self.system.size)
        objective[target.indices] = target.data
        found = self.push(objective)
        if not len(target.indices):
            return 0.0, found
        if float(target.data @ found.ray[target.indices]) > RAY:
            return np.inf, found
        far = float(target.data @ found.z[target.indices])
        return max(far - found.missed * len(target.indices), 0.0), found

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """Bounds of the deviation of each unknown that follow from its own bounds and from single sums."""
        whole = self.system
        high = whole.high.copy()
        if np.isfinite(whole.low).all():
            rows = np.repeat(np.arange(whole.A.shape[0]), np.diff(whole.A.indptr))
            room = whole.row_high - whole.A @ whole.low
            np.minimum.at(high, whole.A.indices, room[rows] + whole.low[whole.A.indices])
        return whole.low, high

    def push(self, objective: Floats, end: float = np.inf) -> Found:
        """Give a table that makes an objective over the unknowns largest, part by part.

        Parts that the objective does not touch, those in which it has no end, and those that are not done when the
        clock (`time.monotonic`) says `end`, stay as they are.
        """
        z, ray = np.zeros(self.system.size), np.zeros(self.system.size)
        loose = self._open & (objective != 0)
        z[loose] = np.where(objective[loose] > 0, self._loose_high[loose], self._loose_low[loose])
        ray[loose] = np.where(np.isinf(z[loose]), np.sign(z[loose]), 0.0)
        z[loose] = np.where(np.isinf(z[loose]), 0.0, z[loose])
        missed = 0.0
        for number in np.unique(self.system.block[(objective != 0) & ~self._open]).tolist():
            block = self.part(number)
            found, endless = block.farthest(objective[block.unknowns], end - time.monotonic())
            self.solved += 1
            if endless:
                ray[block.unknowns] = found / np.abs(found).max()
            else:
                missed = max(missed, block.missed(found))
                z[block.unknowns] = found
        return Found(z, ray, missed)

    def tie(self, row: int, tied: bool) -> None:
        """Hold a row of the system at 0, or give it its own bounds back."""
        whole = self.system
        first, last = whole.A.indptr[row : row + 2]
        if first == last:
            return
        number = int(whole.block[whole.A.indices[first]])
        place = int(np.searchsorted(self._rows[number], row))
        self.part(number).tie(place, tied)

    def narrow(self, unknowns: Ints, low: Floats, high: Floats) -> None:
        """Give unknowns other bounds (of their deviations), for an attacker who knows more; or their own back."""
        self._loose_low[unknowns], self._loose_high[unknowns] = low, high
        block = self.system.block[unknowns]
        for number in np.unique(block).tolist():
            chosen = np.flatnonzero((block == number) & ~self._open[unknowns])
            if len(chosen):
                part = self.part(number)
                part.bound(np.searchsorted(part.unknowns, unknowns[chosen]), low[chosen], high[chosen])

    def part(self, number: int) -> Block:
        """Give one connected part of the system as a linear program."""
        if number not in self._blocks:
            self._blocks[number] = Block(self.system, self._unknowns[number], self._rows[number])
        return self._blocks[number]


def _rows_by_block(whole: System) -> list[Ints]:
    """Give the rows of each connected part."""
    if not whole.size:
        return []
    filled = np.flatnonzero(np.diff(whole.A.indptr) > 0)
    block = whole.block[whole.A.indices[whole.A.indptr[filled]]]
    count = int(whole.block.max()) + 1
    return np.split(filled[np.argsort(block, kind="stable")], np.cumsum(np.bincount(block, minlength=count))[:-1])
