"""Evaluating nodes of a lattice, and remembering what each evaluation says about the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.judge import Judge
from discretion.anonymize.losses import Loss, Outcome
from discretion.anonymize.records import Axis, RollUp, SearchRecords, Steps
from discretion.context import Progress
from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.rollup import figures, small_cells

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
_ROUNDED = 2e-9
"""How far the score of the aggregate `rank`, which has ten digits, may lie below the loss."""


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
        if self.loss.ranks:  # nodes of the same score, which is rounded, may still be better
            return self.best.score + max(self.best.score, 1.0) * _ROUNDED
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


# Walks through a lattice: a first answer, and better ones near it.


def climb(explorer: Explorer, start: Steps) -> None:
    """Walk up from a node, each time where the bound grows least; evaluate some nodes on the way; improve the best."""
    path = [start]
    while path[-1] != explorer.top:
        choices = raised(path[-1], explorer.top)
        path.append(choices[int(np.argmin(explorer.bounds(np.array(choices))))])
    for place in _tried(explorer, path):
        explorer.evaluate(path[place])
    improve(explorer)


def _tried(explorer: Explorer, path: list[Steps]) -> Iterator[int]:
    """Choose nodes of a path: halve it where only enough generalization helps, else every second one."""
    if explorer.allowed >= explorer.records.n:
        yield from range(0, len(path), 2)
        return
    low, high = 0, len(path) - 1
    while low < high:
        middle = (low + high) // 2
        yield middle
        low, high = (low, middle) if explorer.evaluated[path[middle]].holds else (middle + 1, high)
    yield low


def improve(explorer: Explorer) -> None:
    """Try the neighbors of the best node, the most promising first, until none is better."""
    center = None
    while explorer.best is not None and explorer.best.steps != center:
        center = explorer.best.steps
        near = [steps for steps in _neighbors(center, explorer.top) if steps not in explorer.evaluated]
        if not near:
            return
        bounds = explorer.bounds(np.array(near))
        for place in np.argsort(bounds, kind="stable")[: 3 * len(center)].tolist():
            if bounds[place] < explorer.ceiling:
                explorer.evaluate(near[place])


def restart(explorer: Explorer, rng: np.random.Generator) -> None:
    """Change the best node at a few places, go where it gets better, as long as it could become the best."""
    kept = explorer.best
    if kept is None:
        return
    steps = list(kept.steps)
    for place in rng.choice(len(steps), size=min(3, len(steps)), replace=False).tolist():
        steps[place] = int(rng.integers(0, explorer.top[place] + 1))
    node = explorer.evaluate(tuple(steps))
    while node.holds:
        better = _better_neighbor(explorer, node)
        if better is None:
            return
        node = better


def _better_neighbor(explorer: Explorer, node: Node) -> Node | None:
    near = np.array(_neighbors(node.steps, explorer.top))
    bounds = explorer.bounds(near)
    found = node
    for place in np.argsort(bounds, kind="stable")[: 2 * len(node.steps)].tolist():
        if bounds[place] < min(found.score, explorer.ceiling):
            tried = explorer.evaluate(tuple(near[place].tolist()))
            found = tried if tried.holds and tried.rank < found.rank else found
    return None if found is node else found


def raised(steps: Steps, top: Steps) -> list[Steps]:
    """List the direct successors of a node."""
    return [
        (*steps[:place], step + 1, *steps[place + 1 :])
        for place, (step, most) in enumerate(zip(steps, top, strict=True))
        if step < most
    ]


def _neighbors(steps: Steps, top: Steps) -> list[Steps]:
    """List the nodes one step away, up or down, and those one step up in one column and down in another."""
    lowered = [(*steps[:place], step - 1, *steps[place + 1 :]) for place, step in enumerate(steps) if step > 0]
    higher = raised(steps, top)
    swapped = [other for lower in lowered for other in raised(lower, top) if other != steps]
    return list(dict.fromkeys([*lowered, *swapped, *higher]))


_PROVABLE = 1_000_000
"""Nodes up to which a search without a time limit goes on until the proof."""
_USUAL_SECONDS = 50.0
"""Time for larger lattices, when none is given."""
_WALKING = 0.25
"""Share of the time for walks, where the proof may not be reached."""
_SEARCHING = 0.9
"""Share of the time for the search of a large lattice; the rest is for the bound."""
_CHUNK = 1 << 17
"""Nodes that are bounded together."""
_LOOK_AHEAD = 4096
"""Nodes of a large lattice that are bounded together."""
_BATCH = 256
"""Nodes that are bounded together where they are evaluated in the order of their bounds."""


@dataclass(frozen=True)
class SearchResult:
    """What a search has found."""

    best: Node | None
    proven: bool
    bound: float


def search(explorer: Explorer, seconds: float | None = None) -> SearchResult:
    """Find the best node; with proof where the lattice can be listed and the time suffices."""
    large = explorer.records.nodes > _PROVABLE
    limit = _USUAL_SECONDS if seconds is None and large else seconds
    floor = None if explorer.least is None else explorer.loss.floor_everywhere()

    def until(share: float) -> None:
        explorer.deadline = None if limit is None else explorer.started + share * limit

    last = _SEARCHING if large else 1.0
    until(_WALKING if large and floor is not None else last)
    in_order = not explorer.judge.teaches
    straight = in_order and limit is None and floor is not None
    done = straight or _in_time(lambda: _walk(explorer, floor, large))
    until(last)
    sweep = _go_up if in_order else _close_in if large else _sweep
    proven = floor is not None and (done or large) and _in_time(lambda: sweep(explorer, floor))
    explorer.deadline = None
    if explorer.best is None:
        explorer.evaluate(explorer.top)  # whether anything is possible at all, whatever the time
    return _found(explorer, floor, proven)


def _in_time(work: Callable[[], None]) -> bool:
    """Tell whether a piece of work was finished before the time was over."""
    try:
        work()
    except OutOfTime:
        return False
    return True


def _walk(explorer: Explorer, floor: Floats | None, large: bool) -> None:
    first_answer(explorer, floor)
    if large:
        _walk_on(explorer)


def _found(explorer: Explorer, floor: Floats | None, proven: bool) -> SearchResult:
    best = explorer.best
    if proven:
        return SearchResult(best, True, math.nan if best is None else best.score)
    bound = _partial_bound(explorer) if floor is None else _open_bound(explorer, floor)
    reached = best is not None and (bound > explorer.ceiling if explorer.loss.ranks else bound >= best.score)
    return SearchResult(best, reached, bound if best is None else min(bound, best.score))


def first_answer(explorer: Explorer, floor: Floats | None) -> None:
    """Evaluate the node that could be the best of all; if it is not, walk up from there."""
    start: Steps = (0,) * len(explorer.top)
    lowest = -math.inf
    if floor is not None and explorer.least is not None:
        open_floor = np.where(explorer.least <= explorer.allowed, floor, math.inf).ravel()
        lowest = float(open_floor.min())
        if math.isinf(lowest):
            return
        nodes = np.flatnonzero(open_floor <= lowest)
        start = _steps(explorer, nodes[[np.argmin(_heights(explorer).ravel()[nodes])]])[0]
    node = explorer.evaluate(start)
    if not (node.holds and node.score <= lowest + abs(lowest) * 1e-12):
        climb(explorer, start)


def _walk_on(explorer: Explorer) -> None:
    """Restart near the best node until the time for it is over; the draws are always the same."""
    rng = np.random.default_rng(0)
    if explorer.best is None:
        explorer.evaluate(explorer.top)
        improve(explorer)
    deadline = explorer.deadline
    while explorer.best is not None and (deadline is None or time.monotonic() < deadline):
        restart(explorer, rng)
        if len(explorer.evaluated) >= explorer.records.nodes:
            return


def _sweep(explorer: Explorer, floor: Floats) -> None:
    """Evaluate what the bounds leave over, from the most general nodes down."""
    for layer in _layers(explorer, floor):
        explorer.tell_below()
        for start in range(0, len(layer), _CHUNK):
            _evaluate_open(explorer, floor, layer[start : start + _CHUNK])


def _close_in(explorer: Explorer, floor: Floats) -> None:
    """Raise the bound of a large lattice: always look at the node that could be the best of all.

    Where it must suppress too much, so does everything below the most general node above it that must as well. That one
    is found by halving a path to the top, and all that is below is closed at once.
    """
    explorer.tell_below()
    cost = floor.ravel()
    nodes = np.flatnonzero(_is_open(explorer, floor))
    nodes = nodes[np.argsort(cost[nodes], kind="stable")]
    closed = np.zeros(floor.shape, np.bool_)
    waiting: list[tuple[float, Steps]] = []
    start = 0
    while waiting or start < len(nodes):
        if start < len(nodes) and not (waiting and waiting[0][0] < cost[nodes[start]]):
            explorer.check_time()
            here = nodes[start : start + _LOOK_AHEAD]
            start += len(here)
            here = here[~closed.ravel()[here] & _is_open(explorer, floor, here)]
            rows = _steps(explorer, here)
            for pair in zip(explorer.bounds(np.array(rows)).tolist(), rows, strict=True) if rows else ():
                if pair[0] < explorer.ceiling:
                    heappush(waiting, pair)
            continue
        explorer.bound, steps = heappop(waiting)
        if not explorer.bound < explorer.ceiling:
            return
        if not closed[steps] and explorer.dooms(steps):
            highest = _highest_doomed(explorer, floor, closed, steps)
            closed[tuple(slice(0, step + 1) for step in highest)] = True


def _highest_doomed(explorer: Explorer, floor: Floats, closed: NDArray[np.bool_], steps: Steps) -> Steps:
    """Find a most general node above one that must suppress too much, and must as well."""
    path = [steps]
    while path[-1] != explorer.top:
        path.append(min(raised(path[-1], explorer.top), key=lambda higher: float(floor[higher])))
    low, high = 0, len(path) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if explorer.dooms(path[middle]) else (low, middle)
    found = path[low]
    for place in np.argsort([-most for most in explorer.top], kind="stable").tolist():
        while found[place] < explorer.top[place]:
            higher = (*found[:place], found[place] + 1, *found[place + 1 :])
            if not (closed[higher] or explorer.dooms(higher)):
                break
            found = higher
    return found


def _go_up(explorer: Explorer, floor: Floats) -> None:
    """Evaluate what the bounds leave over, the least loss first.

    Where a node that fails says nothing about others, all with a smaller loss than the optimum must be looked at,
    whatever the order. Without suppression the loss is its bound: the first node that satisfies the models is the best.
    """
    nodes = np.flatnonzero(_is_open(explorer, floor))
    nodes = nodes[np.argsort(floor.ravel()[nodes], kind="stable")]
    for start in range(0, len(nodes), _BATCH):
        _evaluate_open(explorer, floor, nodes[start : start + _BATCH])


def _evaluate_open(explorer: Explorer, floor: Floats, nodes: Ints) -> None:
    """Evaluate those of some nodes that can still be the best, in the order of their bounds."""
    explorer.check_time()
    nodes = nodes[_is_open(explorer, floor, nodes)]
    if not len(nodes):
        return
    rows = _steps(explorer, nodes)
    bounds = explorer.bounds(np.array(rows))
    for place in np.argsort(bounds, kind="stable").tolist():
        if not bounds[place] < explorer.ceiling:
            break
        explorer.evaluate(rows[place])


def _layers(explorer: Explorer, floor: Floats) -> Iterator[Ints]:
    """List the nodes that the bounds leave over by height, the highest first."""
    explorer.tell_below()
    nodes = np.flatnonzero(_is_open(explorer, floor))
    heights = _heights(explorer).ravel()[nodes]
    order = np.argsort(-heights, kind="stable")
    nodes, heights = nodes[order], heights[order]
    yield from np.split(nodes, np.flatnonzero(np.diff(heights)) + 1)


def _is_open(explorer: Explorer, floor: Floats, nodes: Ints | None = None) -> NDArray[np.bool_]:
    """Tell which nodes could still satisfy the models and be better than the best."""
    least = np.zeros(1, np.int32) if explorer.least is None else explorer.least.ravel()
    cost = floor.ravel()
    if nodes is not None:
        least, cost = least[nodes], cost[nodes]
    return np.asarray((least <= explorer.allowed) & (cost < explorer.ceiling))


def _heights(explorer: Explorer) -> NDArray[np.int16]:
    """Give the sum of the steps of every node of a listed lattice."""
    shape = explorer.records.shape
    total = np.zeros([1] * len(shape), np.int16)
    for place, steps in enumerate(shape):
        along = np.arange(steps, dtype=np.int16)
        total = total + along.reshape([-1 if place == axis else 1 for axis in range(len(shape))])
    return total


def _steps(explorer: Explorer, nodes: Ints) -> list[Steps]:
    return list(zip(*(axis.tolist() for axis in np.unravel_index(nodes, explorer.records.shape)), strict=True))


def _open_bound(explorer: Explorer, floor: Floats) -> float:
    """Give the least bound of the nodes of a listed lattice that are not excluded."""
    explorer.tell_below()
    nodes = np.flatnonzero(_is_open(explorer, floor))
    nodes = nodes[np.argsort(floor.ravel()[nodes], kind="stable")]
    lowest = math.inf
    for start in range(0, len(nodes), _CHUNK):
        if floor.ravel()[nodes[start]] >= lowest:
            break
        rows = _steps(explorer, nodes[start : start + _CHUNK])
        bounds = explorer.bounds(np.array(rows))
        bounds[[place for place, row in enumerate(rows) if row in explorer.evaluated]] = math.inf
        lowest = min(lowest, float(bounds.min()))
    return lowest


def _partial_bound(explorer: Explorer) -> float:
    """Bound by some of the columns: the least loss when all the others could stay as they are."""
    records = explorer.records
    chosen: list[int] = []
    nodes = 1
    for place in np.argsort([-axis.sizes[0] for axis in records.axes], kind="stable").tolist():
        if nodes * records.shape[place] <= _PROVABLE:
            chosen.append(place)
            nodes *= records.shape[place]
    lowest = math.inf
    for start in range(0, nodes, _CHUNK):
        part = np.arange(start, min(start + _CHUNK, nodes))
        low = np.zeros((len(part), len(records.axes)), np.int64)
        high = np.tile(np.array(explorer.top), (len(part), 1))  # what these columns say alone, the others being gone
        grids = np.unravel_index(part, [records.shape[place] for place in chosen])
        for place, grid in zip(chosen, grids, strict=True):
            low[:, place] = high[:, place] = grid
        bounds = explorer.bounds_given(low, explorer.projections.least(high))
        lowest = min(lowest, float(bounds.min()))
    return lowest
