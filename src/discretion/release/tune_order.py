"""In which order settings are tried when time is short, and which are worth repeating on all rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from discretion.release.front import possible_front
from discretion.release.tune_result import Point
from discretion.release.tune_scales import Scale
from discretion.release.tune_space import Setting

_ERRORS = 2.0
"""Standard errors by which a figure of a sample may be too bad."""


@dataclass(frozen=True)
class Screening:
    """The figures of a sample, and which settings they make worth repeating on all rows.

    A sample misjudges: figures vary from run to run, and a risk depends on the number of rows, more for some methods
    than for others. So the first round takes what may lie on the front given the errors, and of every method at least
    the setting nearest to it; each further round takes what the figures on all rows do not rule out, if the settings
    that were not repeated gained as much as those that were.
    """

    points: Mapping[int, Point]
    utility: Scale
    max_risk: float | None = None
    min_utility: float | None = None

    def first(self) -> list[int]:
        """Name the settings of the first round, those nearest to the limit first (for a time budget)."""
        numbers = list(self.points)
        found = [self.points[number] for number in numbers]
        costs = [self.utility.cost(point.utility) for point in found]
        errors = [[_error(point, name) for point in found] for name in ("risk", "utility")]
        on_front = possible_front([point.risk for point in found], costs, errors[0], errors[1])
        chosen = [numbers[place] for place in on_front]
        missed = {point.setting.entry for point in found} - {self.points[number].setting.entry for number in chosen}
        probes = [self._nearest(entry) for entry in sorted(missed)]
        return [*sorted(chosen, key=self._distance), *probes]

    def further(self, sure: Mapping[int, Point], left: Collection[int]) -> list[int]:
        """Name the settings of `left` that the confirmed ones do not rule out, if they gained as much by all rows."""
        both = [number for number in sure if number in self.points]
        found: list[int] = []
        for number in left if both else ():
            point = self.points[number]
            own = [other for other in both if self.points[other].setting.entry == point.setting.entry] or both
            ratio = min(_ratio(sure[other].risk, self.points[other].risk) for other in own)
            risk = (point.risk - _ERRORS * _error(point, "risk")) * ratio
            cost = self._least_cost(point, [(sure[other], self.points[other]) for other in own])
            if not any(self._rules_out(other, risk, cost) for other in sure.values()):
                found.append(number)
        return sorted(found, key=self._distance)

    def _least_cost(self, point: Point, pairs: Sequence[tuple[Point, Point]]) -> float:
        """Give the cost of a point if it fell as much as that of a confirmed one, by difference or by ratio."""
        cost = self.utility.cost
        own = cost(point.utility) - _ERRORS * _error(point, "utility")
        least = own - max(cost(before.utility) - cost(after.utility) for after, before in pairs)
        if (ideal := self.utility.ideal) is None:
            return least
        zero = cost(ideal)
        ratio = min(_ratio(cost(after.utility) - zero, cost(before.utility) - zero) for after, before in pairs)
        return min(least, zero + max(own - zero, 0.0) * ratio)

    def _rules_out(self, sure: Point, risk: float, cost: float) -> bool:
        """Tell whether a confirmed point is better than another would be at best, also for the limit."""
        own = self.utility.cost(sure.utility)
        if not (sure.risk <= risk and own <= cost and (sure.risk < risk or own < cost)):
            return False
        if self.max_risk is not None and risk <= self.max_risk < sure.worst_risk:
            return False
        worst = self.utility.cost(sure.worst_utility)
        return self.min_utility is None or not cost <= self.utility.cost(self.min_utility) < worst

    def _nearest(self, entry: int) -> int:
        """Give the setting of a method that others dominate by the least share of the ranges."""
        risks = [point.risk for point in self.points.values()]
        costs = [self.utility.cost(point.utility) for point in self.points.values()]
        wide, high = (max(max(values) - min(values), 1e-300) for values in (risks, costs))

        def behind(number: int) -> float:
            point = self.points[number]
            cost = self.utility.cost(point.utility)
            return max(
                min((point.risk - x) / wide, (cost - y) / high) for x, y in zip(risks, costs, strict=True)
            )  # fmt: skip

        return min((n for n, point in self.points.items() if point.setting.entry == entry), key=behind)

    def _distance(self, number: int) -> float:
        point = self.points[number]
        if self.max_risk is not None:
            return abs(point.risk - self.max_risk)
        return 0.0 if self.min_utility is None else abs(point.utility - self.min_utility)


def _error(point: Point, name: str) -> float:
    """Give the standard error of a mean over the runs."""
    return float(getattr(point, f"{name}_spread")) / math.sqrt(point.runs)


def _ratio(on_all: float, on_sample: float) -> float:
    """Give how a figure fell from the sample to all rows, at most 1; one below 0 cannot be scaled and stays."""
    return min(on_all / on_sample, 1.0) if on_sample > 0 and on_all >= 0 else 1.0


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
