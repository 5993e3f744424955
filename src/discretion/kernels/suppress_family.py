"""Which sets of columns a search tries to suppress in a record, from the cheapest to all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from discretion.kernels.arrays import Floats, Ints

_MOST_SETS = 256


def column_sets(costs: Floats, allowed: Ints, spread: Ints) -> tuple[Ints, Floats]:
    """Give sets of the allowed columns (bits) and what each costs, cheapest first; the last is all of them.

    All sets where these are few. Otherwise all small ones, and a chain that adds one column after the other (those
    that cost little and have many values, `spread`, first), as far as they are not too many with one further column.
    """
    columns = [int(j) for j in allowed]
    found: set[frozenset[int]] = set()
    size = 0
    for size in range(1, len(columns) + 1):
        more = [frozenset(chosen) for chosen in combinations(columns, size)]
        if size > 1 and len(found) + len(more) > _MOST_SETS:
            break
        found.update(more)
    chain = sorted(columns, key=lambda j: (costs[j], -spread[j], j))
    prefixes = [frozenset(chain[:end]) for end in range(size, len(columns) + 1)]
    found.update(prefixes)
    for prefix in prefixes:
        if len(found) + len(columns) <= _MOST_SETS:
            found.update(prefix | {j} for j in columns)
    ordered = sorted(found, key=lambda chosen: (sum(costs[j] for j in chosen), len(chosen), sorted(chosen)))
    masks = np.array([sum(1 << j for j in chosen) for chosen in ordered], np.int64)
    return masks, np.array([sum(costs[j] for j in chosen) for chosen in ordered], np.float64)


def promising(sets: Ints, costs: Floats, spread: Ints, fresh: int, most: int) -> Ints:
    """Choose some of the sets, in their order: those from `fresh` on before the others.

    Of these, sets that contain one another come first (a record finds the smallest of them that suffices), then those
    whose columns have many values for their cost.
    """
    if len(sets) <= most:
        return np.arange(len(sets))
    bits = sets[:, None] >> np.arange(len(spread)) & 1
    promise = (bits * np.log(np.maximum(spread, 1))).sum(axis=1) / costs
    nested = np.zeros(len(sets), np.bool_)
    inner = sets[-1]
    for place in range(len(sets) - 1, -1, -1):  # from the largest set down
        if sets[place] & ~inner == 0:
            nested[place] = True
            inner = sets[place]
    order = np.lexsort((-promise, ~nested, np.arange(len(sets)) < fresh))
    return np.sort(order[:most])


def stages(set_costs: Floats) -> list[int]:
    """Cut the sets into stages of similar cost; give the end of each stage."""
    ends: list[int] = []
    first = set_costs[0] if len(set_costs) else 0.0
    for place, cost in enumerate(set_costs):
        if cost > 1.5 * first:
            ends.append(place)
            first = cost
    return [*ends, len(set_costs)]
