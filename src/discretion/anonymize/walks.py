"""Walks through a lattice: a first answer, and better ones near it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discretion.anonymize.explorer import Explorer, Node
from discretion.anonymize.records import Steps


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
