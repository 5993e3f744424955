"""Evaluating nodes of a lattice, and remembering what each evaluation says about the others."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.judge import Judge
from discretion.anonymize.lattice import Axis
from discretion.anonymize.losses import Loss, Outcome
from discretion.anonymize.records import RollUp, SearchRecords, Steps
from discretion.context import Progress
from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.projections import small_cells
from discretion.kernels.rollup import figures

# What three columns alone say about every node: records that must be suppressed, classes that can be kept.
#
# A record in a cell of fewer than k records over some of the columns is in a class of fewer than k records over all of
# them. So the records in small cells, counted for every combination of levels of three columns, bound the suppressed
# records of every node with these levels from below; and the cells of k records or more bound the classes that can be
# kept from above. Without evaluating a node, most of the lattice is excluded in a few milliseconds.

Grid = NDArray[np.int32]

_VALUES = 512
"""The largest column that is counted at its lowest level; larger ones from the first level that fits."""
_CELLS = 1 << 21
"""The largest table of three columns."""
_FEW_CELLS = 1 << 20
_CELLS_PER_ROW = 32
"""Cells of all tables, at all levels, together: as many as cost little, or as many for each combination of values."""
_COUNTED = 40_000_000
"""Records counted into tables, together."""
_GRIDS = 1 << 29
"""Entries of grids that are compared with tables when all nodes are bounded at once."""


class Projections:
    """Tables over three columns, and the bounds they give."""

    def __init__(self, records: SearchRecords, k: int) -> None:
        self._records = records
        self._k = k
        self._tables: list[tuple[tuple[int, ...], Ints, Ints]] = []
        for chosen in _choose(records.axes, len(records.counts)):
            small, big = _count(records, chosen, k)
            self._tables.append((chosen, small, big))
        self._tables.sort(key=lambda table: (-float(table[1].mean()), table[0]))

    def least(self, steps: Ints) -> Ints:
        """Give the records that each node (a row of steps) must suppress at least."""
        result = np.zeros(len(steps), np.int64)
        for chosen, small, _ in self._tables:
            np.maximum(result, small[tuple(steps[:, list(chosen)].T)], out=result)
        return result

    def least_everywhere(self) -> Grid:
        """Give the records that must be suppressed at least, for every node of the lattice."""
        shape = self._records.shape
        grid = np.zeros(shape, np.int32)
        for chosen, small, _ in self._tables[: max(1, _GRIDS // grid.size)]:
            if small.any():
                np.maximum(grid, _spread(small.astype(np.int32), chosen, len(shape)), out=grid)
        return grid

    def most(self, steps: Ints, least: Ints) -> Floats:
        """Give the classes that each node can keep at most, given the records it suppresses at least."""
        result = (self._records.n - least) / max(self._k, 1)
        sizes = [np.log(np.array(axis.sizes, float))[steps[:, j]] for j, axis in enumerate(self._records.axes)]
        total = np.sum(sizes, axis=0)
        best = total
        for chosen, _, big in self._tables:
            cells = np.log(np.maximum(big[tuple(steps[:, list(chosen)].T)], 0.5))
            best = np.minimum(best, total - sum(sizes[j] for j in chosen) + cells)
        return np.asarray(np.minimum(np.floor(result), np.round(np.exp(np.minimum(best, 80.0)) + 0.49)))


def _choose(axes: tuple[Axis, ...], combinations_of_values: int) -> list[tuple[int, ...]]:
    """Choose the triples of columns to count: the small ones first, as long as the work stays small."""
    lowest = [axis.sizes[_first(axis)] for axis in axes]
    totals = [sum(axis.sizes[_first(axis) :]) for axis in axes]
    sized = [
        (math.prod(totals[j] for j in chosen), chosen)
        for chosen in combinations(range(len(axes)), min(3, len(axes)))
        if math.prod(lowest[j] for j in chosen) <= _CELLS
    ]
    result, cells, counted = [], 0, 0
    for every, chosen in sorted(sized):
        cells += every
        counted += combinations_of_values
        if cells > max(_FEW_CELLS, _CELLS_PER_ROW * combinations_of_values) or counted > _COUNTED:
            break
        result.append(chosen)
    return result


def _first(axis: Axis) -> int:
    """The lowest step that is counted: that of a column with many values is a higher one."""
    fitting = [step for step, size in enumerate(axis.sizes) if size <= _VALUES]
    return fitting[0] if fitting else axis.steps - 1


def _count(records: SearchRecords, chosen: tuple[int, ...], k: int) -> tuple[Ints, Ints]:
    """Count the table of up to three columns; a column that is not there has one value and one level.

    At steps below the lowest counted one, at least as much is suppressed as there, and nothing is known of the classes.
    """
    axes = [records.axes[j] for j in chosen]
    firsts = [_first(axis) for axis in axes]
    steps = max(axis.steps - first for axis, first in zip(axes, firsts, strict=True))
    widest = max(axis.sizes[first] for axis, first in zip(axes, firsts, strict=True))
    parents = np.zeros((3, max(steps - 1, 1), widest), np.int32)
    sizes = np.zeros((3, steps), np.int64)
    sizes[:, 0] = 1
    codes = np.zeros((3, len(records.counts)), np.int32)
    for row, (place, axis, first) in enumerate(zip(chosen, axes, firsts, strict=True)):
        codes[row] = records.codes[place] if first == 0 else axis.groups[first][records.codes[place]]
        sizes[row, : axis.steps - first] = axis.sizes[first:]
        for step, up in enumerate(axis.up[first:]):
            parents[row, step, : len(up)] = up
    small, big = small_cells(codes, records.counts, parents, sizes, k)
    shape = tuple(axis.steps - first for axis, first in zip(axes, firsts, strict=True))
    small, big = small.reshape(shape), big.reshape(shape)
    for place, first in enumerate(firsts):
        if first:
            below = [(first, 0) if place == other else (0, 0) for other in range(len(axes))]
            small = np.pad(small, below, mode="edge")
            big = np.pad(big, below, constant_values=records.n)
    return small, big


def _spread(table: Grid, chosen: tuple[int, ...], axes: int) -> Grid:
    """Lay a table of a few columns along the axes of the lattice."""
    shape = [1] * axes
    for size, place in zip(table.shape, chosen, strict=True):
        shape[place] = size
    return table.reshape(shape)


LISTED = 20_000_000
"""Nodes up to which a lattice is listed as a whole."""
_AXES = 60
"""Columns up to which a lattice is listed (arrays have at most 64 axes)."""
_PROMPT = 1 << 20
"""Nodes up to which the nodes below an evaluated one are told at once; in larger lattices layer by layer."""
_SLACK = 1e-12
"""A node must be better by this share to be worth looking for."""


class OutOfTime(Exception):
    """The time given is over."""


@dataclass(frozen=True)
class Node:
    """A node that was evaluated."""

    steps: Steps
    holds: bool
    """whether it satisfies the models within the suppression limit"""
    score: float
    """its loss; NaN where the evaluation stopped early"""
    suppressed: int
    """suppressed records; where the evaluation stopped early, at least so many"""
    classes: int
    """classes that are kept"""
    smallest: int
    largest: int
    exact: bool = True
    """false where the evaluation stopped early, because more would be suppressed than allowed"""
    tie: tuple[float, ...] = ()
    """what decides between nodes of the same score"""
    least: int = 0
    """records that every less general node suppresses, as far as this one tells"""

    @property
    def rank(self) -> tuple[float, tuple[float, ...], int, Steps]:
        """The order of solutions: by score, then by what the loss says of ties, by height, by levels."""
        return self.score, self.tie, sum(self.steps), self.steps


class Explorer:
    """Evaluates nodes and keeps the best, and bounds the others."""

    def __init__(
        self,
        records: SearchRecords,
        roll: RollUp,
        judge: Judge,
        loss: Loss,
        allowed: int,
        progress: Progress | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.records, self.judge, self.loss, self.allowed = records, judge, loss, allowed
        self._roll = roll
        self._progress = progress
        self._waiting: list[tuple[Steps, int]] = []
        self.deadline: float | None = None
        self.bound = 0.0
        """what no node can be better than, as far as a search has told; for the progress"""
        self.evaluated: dict[Steps, Node] = {}
        self.best: Node | None = None
        self.top: Steps = tuple(steps - 1 for steps in records.shape)
        self.projections = Projections(records, judge.smallest_class)
        listed = records.nodes <= LISTED and len(records.axes) <= _AXES
        self.least = self.projections.least_everywhere() if listed else None
        """for each node of a listed lattice, the records it must suppress at least"""

    # --- evaluating ------------------------------------------------------------------------------------------

    def evaluate(self, steps: Steps) -> Node:
        """Judge a node and compute its loss, once; stop early where too much must be suppressed."""
        known = self.evaluated.get(steps)
        if known is not None:
            return known
        self._tick()
        node = self.evaluated[steps] = self._judged(steps, self.allowed)
        if node.holds and (self.best is None or node.rank < self.best.rank):
            self.best = node
        self._learn(steps, node.least)
        return node

    def look_at(self, steps: Steps) -> Node:
        """Evaluate a node to the end, whatever the time and however much it suppresses; the best stays the best."""
        known = self.evaluated.get(steps)
        if known is not None and known.exact:
            return known
        return self._judged(steps, self.records.n)

    def _judged(self, steps: Steps, enough: int) -> Node:
        judged = self.judge.judge(steps, enough)
        classes, kept, smallest, largest, squares = figures(judged.classes.counts, judged.gone)
        suppressed = self.records.n - kept
        exact = judged.complete
        score, tie = math.nan, tuple[float, ...]()
        if exact:
            outcome = Outcome(steps, judged.classes, judged.gone, classes, suppressed, squares, self._roll)
            score, tie = self.loss.score(outcome), self.loss.tie(outcome)
        holds = exact and not judged.broken and suppressed <= self.allowed and classes > 0
        least = max(judged.least, 1) if judged.dooms and self.allowed == 0 else judged.least
        return Node(steps, holds, score, suppressed, classes, smallest, largest, exact, tie, least)

    def dooms(self, steps: Steps) -> bool:
        """Evaluate a node, and tell whether every less general one must suppress too much."""
        return self.evaluate(steps).least > self.allowed

    def _tick(self) -> None:
        if self._progress is not None and len(self.evaluated) % 16 == 0:
            self._progress(len(self.evaluated), self.records.nodes, self._so_far)
        self.check_time()

    @property
    def _so_far(self) -> str:
        """Say what is done, the best loss found, and what no node can be better than."""
        found = "" if self.best is None else f", {self.best.score:.4g} found"
        return f"evaluating generalizations{found}" + (f", at least {self.bound:.4g}" if self.bound > 0 else "")

    def check_time(self) -> None:
        """Raise `OutOfTime` when the time given is over."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime

    # --- what the nodes below must suppress too -------------------------------------------------------------------

    def _learn(self, steps: Steps, least: int) -> None:
        if self.least is None or least <= self.least[steps]:
            return
        if self.least.size <= _PROMPT:
            _raise(self.least, steps, least)
        else:
            self._waiting.append((steps, least))

    def tell_below(self) -> None:
        """Let the nodes below those evaluated since the last time know what they must suppress."""
        waiting, self._waiting = self._waiting, []
        if self.least is None or not waiting:
            return
        if len(waiting) <= 2 * self.least.ndim:
            for steps, least in waiting:
                _raise(self.least, steps, least)
            return
        for steps, least in waiting:
            self.least[steps] = max(self.least[steps], least)
        for axis in range(self.least.ndim):
            downward = np.flip(self.least, axis)
            np.maximum.accumulate(downward, axis=axis, out=downward)

    # --- bounds ----------------------------------------------------------------------------------------------

    @property
    def ceiling(self) -> float:
        """What a node must stay below to matter."""
        if self.best is None:
            return math.inf
        if self.loss.ranks:  # nodes of the same score may still be better
            return math.nextafter(self.best.score + abs(self.best.score) * _SLACK, math.inf)
        return self.best.score - abs(self.best.score) * _SLACK

    def least_suppressed(self, steps: Ints) -> Ints:
        """Give the records that each node (a row of steps) must suppress at least, as far as is known."""
        return self.projections.least(steps) if self.least is None else self.least[tuple(steps.T)].astype(np.int64)

    def bounds(self, steps: Ints) -> Floats:
        """Give the least loss of each node (a row of steps), infinite where too much must be suppressed."""
        return self.bounds_given(steps, self.least_suppressed(steps))

    def bounds_given(self, steps: Ints, least: Ints) -> Floats:
        """Give the least loss of nodes that must suppress at least so many records."""
        most = self.projections.most(steps, least) if self.loss.counts_classes else None
        return np.where(least > self.allowed, math.inf, self.loss.floor(steps, least, most))


def _raise(grid: NDArray[np.int32], steps: Steps, least: int) -> None:
    below = tuple(slice(0, step + 1) for step in steps)
    np.maximum(grid[below], least, out=grid[below])
