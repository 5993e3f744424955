"""In which order settings are tried when time is short, and which are worth repeating on all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from discretion.release.front import possible_front
from discretion.release.tune_result import Point
from discretion.release.tune_scales import Scale
from discretion.release.tune_space import Setting


def candidates(
    points: Mapping[int, Point], utility: Scale, max_risk: float | None, min_utility: float | None
) -> list[int]:
    """Name the settings that may lie on the front, those nearest to the limit first (for a time budget)."""
    numbers = list(points)
    found = [points[number] for number in numbers]
    costs = [utility.cost(point.utility) for point in found]
    errors = [
        [getattr(point, name) / math.sqrt(point.runs) for point in found] for name in ("risk_spread", "utility_spread")
    ]
    chosen = possible_front([point.risk for point in found], costs, errors[0], errors[1])

    def distance(place: int) -> float:
        if max_risk is not None:
            return abs(found[place].risk - max_risk)
        return 0.0 if min_utility is None else abs(found[place].utility - min_utility)

    return [numbers[place] for place in sorted(chosen, key=distance)]


def coarse_first(settings: Sequence[Setting]) -> list[int]:
    """Order the settings such that every beginning covers each grid evenly: ends first, then halves of the gaps."""
    groups: dict[int, list[int]] = {}
    for number, setting in enumerate(settings):
        groups.setdefault(setting.entry, []).append(number)
    spread = [[group[place] for place in halving(len(group))] for group in groups.values()]
    longest = max(len(group) for group in spread)
    return [group[place] for place in range(longest) for group in spread if place < len(group)]


def halving(size: int) -> list[int]:
    """Give 0 … size − 1 in the order last, first, middle, then the middles of what lies between."""
    order = [size - 1, 0] if size > 1 else [0]
    gaps = [(0, size - 1)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return order
