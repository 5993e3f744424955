"""The search itself: the node with the least loss among those that satisfy the models.

Small and medium lattices are searched with proof. Every node has a lower bound of its loss (see `losses`) and of the
records it must suppress (see `projections`); a first answer comes from a walk up and a few local improvements; then the
nodes whose bound is below it are evaluated, layer by layer from the most general down. Records that an evaluated node
suppresses because of monotone models are suppressed by every node below it too, and of a class that fails a convex
model only so much can be kept there (see `kernels.classes`), which raises the bounds of those; most are never
evaluated. Nothing is assumed to be monotone that is not: where a model says nothing about other nodes, these are
evaluated in the order of their bounds.

In lattices of more than a million nodes local search with restarts comes first, and then always the node that could be
the best of all, so that the bound rises as fast as it can. Lattices too large to list, or to finish in the time given,
get the best answer found, and the bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.explorer import Explorer, Node, OutOfTime
from discretion.anonymize.records import Steps
from discretion.kernels.arrays import Floats, Ints

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
    reached = best is not None and (bound > best.score or (bound == best.score and not explorer.loss.ranks))
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
