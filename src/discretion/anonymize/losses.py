"""What a node costs: the losses a search can minimize, and how little each could cost at least.

The conventions are those of ARX, so that scores can be compared. n records, `sup` of them suppressed, c the size of a
class, share the leaves below a value divided by all leaves of its hierarchy, g and s the weights of generalization and
suppression (both 1 unless the factor says otherwise):

- `loss`: per column (Σ_kept g·c·share + Σ_sup (share + s·(1 − share)) − g·n/leaves) / (n − g·n/leaves), cut to ten
  digits, not below 0; geometric mean of 1 + loss, minus 1.
  A column that is summarized inside the classes loses, per kept record, the different values of its class over all that
  occur, and s per suppressed one; other losses leave it out.
- `precision-loss`: per column (g·(n − sup)·level/height + s·sup) / n; arithmetic mean.
- `height`: the level of each column; sum. Ignores suppression.
- `entropy`: per column −[g·Σ_v n_v·log2(n_v / n_group(v)) + s·Σ_u c_u·log2(c_u / sup)], v over the values of all
  records as they came (whatever the lowest level allowed), u over the generalized values among the suppressed; sum.
- `normalized-entropy`: the `entropy` of each column over its value with everything in one group; sum.
- `entropy-based`: per record log Π leaves / log Π all leaves, suppressed records 1; sum (Gionis & Tassa).
- `kl`: mean over the records of log2(p / q), p the share of the record's original combination, q that of its class
  spread evenly over the combinations of leaves it covers; suppressed records are one class that covers all. `kl-arx`
  sums p·log2(p / q) over the records, as ARX does: frequent combinations count twice.
- `aecs`: n / (s·classes kept + g if anything is suppressed).
- `discernibility`: Σ_kept c² + n·sup. `discernibility-star`: Σ c² over all classes, suppressed ones too.
- `payout`: what the publisher of `profitability` misses: Σ_kept (benefit·entropy-based loss + loss·π where an attack
  pays) + benefit·sup. The amounts are those of that model, and columns without hierarchies do not count.
- `ambiguity`: Σ_kept c·Π leaves + sup·Π all leaves, the products over the columns: how many records of the original
  domain a published record could stand for (Goldberger & Tassa 2010, as ARX computes it).

A weight w of a column multiplies its loss inside the aggregate (in the geometric mean 1 + w·loss; in ARX the factor
stands outside, where it changes nothing), the largest weight counting as 1. Classes do not know columns, so that
`aecs`, `discernibility`, `ambiguity`, `kl` and `payout` take no weights. A missing value stays missing: it counts as
one leaf. The aggregate `rank` compares the columns' losses in descending order, the first difference deciding (in their
first ten digits, since beyond them equal losses differ by rounding); the score is the largest of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from discretion.anonymize.records import NodeClasses, RollUp, SearchRecords, Steps
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.rollup import histogram, sensitive_triples, sums_by_field

LossName = Literal[
    "loss",
    "height",
    "precision-loss",
    "aecs",
    "discernibility",
    "discernibility-star",
    "entropy",
    "normalized-entropy",
    "entropy-based",
    "ambiguity",
    "kl",
    "kl-arx",
    "payout",
]
OF_CLASSES = ("aecs", "discernibility", "discernibility-star", "ambiguity", "kl", "kl-arx", "payout")
"""Losses of whole classes or combinations, which have no part for each column to weigh and to put together."""
AggregateName = Literal["geometric-mean", "mean", "sum", "max", "rank"]

_DIGITS = 1e10


@dataclass(frozen=True)
class Outcome:
    """A node with the classes that would be suppressed."""

    steps: Steps
    classes: NodeClasses
    gone: Bools
    kept: int
    suppressed: int
    squares: float
    roll: RollUp

    def suppressed_values(self) -> list[Ints]:
        """For each column, the suppressed records with each generalized value."""
        fields, places = self.roll.fields(self.steps)
        if not self.suppressed:
            found = np.zeros(places, np.int64)
        else:
            found = histogram(self.classes.keys, self.classes.counts, self.gone, fields, places)
        return np.split(found, fields[1:, 3])

    def sums_of_suppressed(self, laid: tuple[Ints, list[list[int]]]) -> Ints:
        """For each column, add up a figure of the generalized values (see `laid_out`) over the suppressed."""
        figures, starts = laid
        fields = self.roll.fields_at([own[step] for own, step in zip(starts, self.steps, strict=True)])
        return sums_by_field(self.classes.keys, self.classes.counts, self.gone, fields, figures)


def laid_out(figures: Sequence[Sequence[Ints]]) -> tuple[Ints, list[list[int]]]:
    """Put a figure for each value of each step of each column into one array, and say where each step begins."""
    sizes = [len(step) for column in figures for step in column]
    starts = iter(np.cumsum([0, *sizes]).tolist())
    every = np.concatenate([step for column in figures for step in column])
    return every, [[next(starts) for _ in column] for column in figures]


class Loss(ABC):
    """A figure to minimize."""

    counts_classes: ClassVar[bool] = False
    """Whether the bound needs the number of classes that can be kept."""

    def __init__(
        self,
        records: SearchRecords,
        weights: Floats,
        factor: float,
        aggregate: AggregateName,
        alike: Callable[[], Ints] | None = None,
    ) -> None:
        self.records = records
        self.n = records.n
        self.weights = weights
        self.aggregate = _AGGREGATES[aggregate]
        self.ranks = aggregate == "rank"
        """whether ties of the score are decided by the other columns"""
        self.alike = alike
        """gives, for each record, how many have its original combination; without it, that of the lowest levels"""
        self.suppression = 2 * factor if factor < 0.5 else 1.0
        self.generalization = 1.0 if factor <= 0.5 else 1.0 - 2.0 * (factor - 0.5)
        self.allowed = self.n
        """the suppressed records allowed; a search sets it"""

    @abstractmethod
    def score(self, outcome: Outcome) -> float:
        """Give the loss of a node."""

    def tie(self, outcome: Outcome) -> tuple[float, ...]:  # noqa: ARG002
        """Give what decides between nodes of the same score, before their height."""
        return ()

    def class_costs(self, steps: Steps, classes: NodeClasses, roll: RollUp) -> Floats | None:  # noqa: ARG002
        """Give what each class alone loses, for models that suppress some of many equal classes; None: all the same."""
        return None

    @abstractmethod
    def floor_everywhere(self) -> Floats:
        """Give a lower bound of the loss of every node of the lattice, whatever is suppressed."""

    @abstractmethod
    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:
        """Give a lower bound for each node (a row of steps) that suppresses at least so many records.

        `most`: the classes it can keep at most.
        """


class ColumnLoss(Loss):
    """A loss that adds up what is lost column by column."""

    @abstractmethod
    def plain(self, place: int) -> Floats:
        """Give what a column loses at least at each of its steps, whatever is suppressed."""

    @abstractmethod
    def exact(self, outcome: Outcome) -> Floats:
        """Give what each column loses at a node."""

    def column_floor(self, place: int, step: int, least: Ints) -> Floats:
        """Give what a column loses at least at a step, when at least so many records are suppressed."""
        return np.full(len(least), self.plain(place)[step])

    def score(self, outcome: Outcome) -> float:
        """Aggregate the columns' losses."""
        if self.ranks:
            return self.tie(outcome)[0]
        lost = (self.exact(outcome) * self.weights).tolist()
        if self.aggregate is _geometric:  # as there, without a detour through arrays
            return math.expm1(sum(map(math.log1p, lost)) / len(lost))
        return float(self.aggregate(lost))

    def tie(self, outcome: Outcome) -> tuple[float, ...]:
        """Under the aggregate `rank`, give the columns' losses in descending order, equal ones with equal digits."""
        if not self.ranks:
            return ()
        lost = (self.exact(outcome) * self.weights).tolist()
        return tuple(sorted((float(f"{round(value, 9):.10g}") for value in lost), reverse=True))

    @cached_property
    def _plain(self) -> list[Floats]:
        return [self.plain(place) * self.weights[place] for place in range(len(self.records.axes))]

    def floor_everywhere(self) -> Floats:
        """Spread the columns' losses along the axes of the lattice."""
        axes = len(self.records.axes)
        spread = [
            values.reshape([-1 if place == axis else 1 for axis in range(axes)])
            for place, values in enumerate(self._plain)
        ]
        return np.broadcast_to(self.aggregate([*spread, *self.further]), self.records.shape)

    @property
    def further(self) -> list[Floats]:
        """What columns outside the lattice lose at least, whatever the node."""
        return []

    def floor(self, steps: Ints, least: Ints, most: Floats | None = None) -> Floats:  # noqa: ARG002
        """Aggregate the columns' bounds."""
        values = []
        for place, axis in enumerate(self.records.axes):
            own = np.empty(len(steps))
            for step in range(axis.steps):
                here = steps[:, place] == step
                if here.any():
                    own[here] = self.column_floor(place, step, least[here])
            values.append(own * self.weights[place])
        return np.asarray(self.aggregate([*values, *self.further]))


class LeafLoss(ColumnLoss):
    """`loss`: the share of the domain that a value could stand for."""

    def _normalized(self, place: int, total: Floats) -> Floats:
        domain = self.records.axes[place].domain
        low = self.generalization * self.n / domain
        if domain == 1:
            return np.zeros_like(total)
        return np.floor(np.maximum((total - low) / (self.n - low), 0.0) * _DIGITS) / _DIGITS

    @cached_property
    def _leaf_sums(self) -> list[list[int]]:
        return [
            [int(counts @ leaves) for counts, leaves in zip(marginals, axis.leaves, strict=True)]
            for axis, marginals in zip(self.records.axes, self.records.marginals, strict=True)
        ]

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        sums = np.array(self._leaf_sums[place], float) / self.records.axes[place].domain
        return self._normalized(place, self.generalization * sums)

    @cached_property
    def _extras(self) -> list[list[tuple[Floats, Floats]]]:
        """What suppressing records adds at least: the cheapest first, as cumulated records and cumulated cost."""
        result = []
        for axis, marginals in zip(self.records.axes, self.records.marginals, strict=True):
            curves = []
            for counts, leaves in zip(marginals, axis.leaves, strict=True):
                share = leaves / axis.domain
                extra = share * (1 - self.generalization) + self.suppression * (1 - share)
                curves.append(_cheapest(counts, extra))
            result.append(curves)
        return result

    def column_floor(self, place: int, step: int, least: Ints) -> Floats:
        """Add what the cheapest suppressed records cost."""
        total = self.generalization * self._leaf_sums[place][step] / self.records.axes[place].domain
        return self._normalized(place, total + np.interp(least, *self._extras[place][step]))

    def class_costs(self, steps: Steps, classes: NodeClasses, roll: RollUp) -> Floats:
        """Aggregate records × share over the columns."""
        own = [
            self.weights[place] * classes.counts * axis.leaves[steps[place]][values] / axis.domain
            for place, (axis, values) in enumerate(zip(self.records.axes, roll.values(classes), strict=True))
        ]
        return np.round(self.aggregate(own), 12)

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        steps, n, g, away = outcome.steps, self.n, self.generalization, outcome.suppressed
        lost = outcome.sums_of_suppressed(self._leaves).tolist() if away else [0] * len(steps)
        shares = [0.0] * len(steps)
        for place, (axis, step) in enumerate(zip(self.records.axes, steps, strict=True)):
            if axis.domain > 1:
                gone = lost[place] / axis.domain
                kept = self._leaf_sums[place][step] / axis.domain - gone
                total = g * kept + (gone + self.suppression * (away - gone))
                low = g * n / axis.domain
                shares[place] = math.floor(max((total - low) / (n - low), 0.0) * _DIGITS) / _DIGITS
        return np.array(shares)

    @cached_property
    def _leaves(self) -> tuple[Ints, list[list[int]]]:
        return laid_out([axis.leaves for axis in self.records.axes])


class SummarizedLoss(LeafLoss):
    """`loss` with columns that are summarized inside the classes: the values of a class, over all that occur."""

    @cached_property
    def _costs(self) -> list[Floats]:
        """What a record of a class with so many different values loses in each column."""
        sizes = [entries.domain.size for entries in self.records.summarized.values()]
        return [self.generalization * np.arange(size + 1) / size for size in sizes]

    @property
    def further(self) -> list[Floats]:
        """Classes only get more values when they are merged; a record that goes costs what its suppression does."""
        own = []
        pairs = zip(self.records.summarized.values(), self._costs, strict=True)
        for place, (entries, costs) in enumerate(pairs, len(self.records.axes)):
            different = np.bincount(entries.combination, minlength=len(self.records.counts))
            lost = np.minimum(costs[different], self.suppression) @ self.records.counts / self.n
            own.append(np.asarray(lost * self.weights[place] * (1 - 1e-12)))
        return own

    def exact(self, outcome: Outcome) -> Floats:
        """Add the columns outside the lattice."""
        classes, numbers = outcome.roll.numbered(outcome.steps)
        kept = np.where(outcome.gone, 0, classes.counts)
        own = []
        for entries, costs in zip(self.records.summarized.values(), self._costs, strict=True):
            starts = sensitive_triples(
                numbers[entries.combination], entries.values, entries.counts, len(classes), entries.domain.size
            )[0]
            own.append((kept @ costs[np.diff(starts)] + self.suppression * outcome.suppressed) / self.n)
        return np.concatenate([super().exact(outcome), own])


class PrecisionLoss(ColumnLoss):
    """`precision-loss`: level divided by height, suppressed records counting as the top."""

    def _raised(self, place: int, step: int) -> float:
        axis = self.records.axes[place]
        return self.generalization * (axis.low + step) / axis.height if axis.height else 0.0

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        none = np.zeros(1, np.int64)
        return np.array([self.column_floor(place, step, none)[0] for step in range(self.records.shape[place])])

    def column_floor(self, place: int, step: int, least: Ints) -> Floats:
        """Add what the cheapest suppressed records cost."""
        raised = self._raised(place, step)
        extra = self.suppression - raised
        gone = least if extra >= 0 else np.full(len(least), self.allowed)
        return np.asarray((self.n * raised + gone * extra) / self.n)

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        kept = self.n - outcome.suppressed
        return np.array(
            [
                (kept * self._raised(place, step) + outcome.suppressed * self.suppression) / self.n
                for place, step in enumerate(outcome.steps)
            ]
        )


class HeightLoss(ColumnLoss):
    """`height`: the levels themselves."""

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        axis = self.records.axes[place]
        return axis.low + np.arange(axis.steps, dtype=float)

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        return np.array([axis.low + step for axis, step in zip(self.records.axes, outcome.steps, strict=True)], float)


class EntropyLoss(ColumnLoss):
    """`entropy`: bits lost when values are replaced by their groups."""

    @cached_property
    def _bits(self) -> list[Floats]:
        result = []
        for axis, marginals in zip(self.records.axes, self.records.marginals, strict=True):
            own = np.maximum(marginals[0], 1).astype(float)
            bits = [
                0.0 - float((marginals[0] * np.log2(own / np.maximum(counts[group], 1))).sum())
                for counts, group in zip(marginals, axis.groups, strict=True)
            ]
            result.append(np.array(bits) + axis.bits)
        return result

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        return np.floor(self.generalization * self._bits[place] * _DIGITS) / _DIGITS

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        values = np.empty(len(self.records.axes))
        for place, counts in enumerate(outcome.suppressed_values()):
            gone = counts[counts > 0]
            hidden = -float((gone * np.log2(gone / max(outcome.suppressed, 1))).sum())
            values[place] = self.generalization * self._bits[place][outcome.steps[place]] + self.suppression * hidden
        return np.floor(values * _DIGITS) / _DIGITS


class NormalizedEntropyLoss(EntropyLoss):
    """`normalized-entropy`: the bits lost, as a share of all that a column could lose."""

    @cached_property
    def _whole(self) -> Floats:
        whole = []
        for axis, marginals in zip(self.records.axes, self.records.marginals, strict=True):
            own = marginals[0][marginals[0] > 0]
            whole.append(axis.bits - float((own * np.log2(own / self.n)).sum()))
        return np.asarray(np.maximum(np.array(whole), 1 / _DIGITS))  # a column of one value loses nothing

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        return np.asarray(super().plain(place) / self._whole[place])

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        return np.asarray(super().exact(outcome) / self._whole)


class EntropyBasedLoss(ColumnLoss):
    """`entropy-based`: the logarithm of the combinations a record could stand for, as a share of the largest."""

    @cached_property
    def _parts(self) -> list[list[Floats]]:
        """What a record with each value loses, by column and step; a suppressed one loses the column's part."""
        return [[np.log(leaves) / self._log_all for leaves in axis.leaves] for axis in self.records.axes]

    @cached_property
    def _log_all(self) -> float:
        return max(float(sum(np.log(axis.domain) for axis in self.records.axes)), 1 / _DIGITS)

    @cached_property
    def _sums(self) -> list[Floats]:
        pairs = zip(self._parts, self.records.marginals, strict=True)
        return [np.array([c @ p for p, c in zip(parts, counts, strict=True)]) for parts, counts in pairs]

    def plain(self, place: int) -> Floats:
        """Give the loss of each step when nothing is suppressed."""
        return self.generalization * self._sums[place]

    def column_floor(self, place: int, step: int, least: Ints) -> Floats:
        """Add what the cheapest suppressed records cost."""
        parts = self._parts[place][step]
        extra = parts * (1 - self.generalization) + self.suppression * (self._column(place) - parts)
        added = np.interp(least, *_cheapest(self.records.marginals[place][step], extra))
        return np.asarray(self.plain(place)[step] + added)

    def _column(self, place: int) -> float:
        return float(np.log(self.records.axes[place].domain)) / self._log_all

    def exact(self, outcome: Outcome) -> Floats:
        """Count what the suppressed records really cost."""
        values = np.empty(len(self.records.axes))
        for place, counts in enumerate(outcome.suppressed_values()):
            step = outcome.steps[place]
            gone = float(counts @ self._parts[place][step])
            hidden = gone + self.suppression * (outcome.suppressed * self._column(place) - gone)
            values[place] = self.generalization * (self._sums[place][step] - gone) + hidden
        return values


def _cheapest(counts: Ints, extra: Floats) -> tuple[Floats, Floats]:
    """Give what suppressing records adds at least: the cheapest first, as cumulated records and cumulated cost."""
    order = np.argsort(extra, kind="stable")
    cost = np.cumsum((counts * extra)[order])
    return np.append(0.0, np.cumsum(counts[order])), np.append(0.0, cost)


def _geometric(values: Sequence[Floats]) -> Floats:
    total = np.log1p(values[0])
    for value in values[1:]:
        total = total + np.log1p(value)
    return np.asarray(np.expm1(total / len(values)))


def _sum(values: Sequence[Floats]) -> Floats:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return np.asarray(total)


def _largest(values: Sequence[Floats]) -> Floats:
    total = values[0]
    for value in values[1:]:
        total = np.maximum(total, value)
    return np.asarray(total)


_AGGREGATES: dict[AggregateName, Callable[[Sequence[Floats]], Floats]] = {
    "geometric-mean": _geometric,
    "mean": lambda values: _sum(values) / len(values),
    "sum": _sum,
    "max": _largest,
    "rank": _largest,
}
