"""Prove protection in bulk: one linear program shows for many cells at once how far they can be from their values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discretion.context import Context
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker, Found
from discretion.tables.attacker_system import Matrix
from discretion.tables.linear_program import RAY

SLACK = 1e-9
"""Share of a cell (at least of 1) by which floating-point sums may miss; nothing beyond it is overlooked."""
EXACT = 1e-6
"""An interval narrower than this share of the cell (at least of 1) gives the cell away."""
STALL = 3
"""Bulk programs in a row that decide few cells before cells are taken one by one."""
FEW = 0.01
"""Share of the open sides that a bulk program should decide."""


@dataclass(eq=False)
class Targets:
    """Cells, or sums of cells, and how far from their values they must be able to lie."""

    rows: Matrix
    """(targets × unknowns) how each deviates"""
    value: Floats
    """(targets,) what each is at deviation 0"""
    lower: Floats
    """(targets,) how far below it must reach"""
    upper: Floats
    """(targets,) how far above"""
    idle: Bools
    """(targets,) which need nothing; their bounds are noted on the way"""
    whole: bool = False
    """whether values are whole numbers, so that an interval with only one of them gives it away"""
    below: Floats = field(init=False)
    """(targets,) how far below it was seen to reach"""
    above: Floats = field(init=False)
    below_exact: Bools = field(init=False)
    """(targets,) whether it reaches no farther"""
    above_exact: Bools = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.value)
        self.below, self.above = np.zeros(n), np.zeros(n)
        self.below_exact, self.above_exact = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._weight = np.asarray(abs(self.rows).sum(axis=1)).ravel()
        still = self._weight == 0
        self.below_exact[still] = self.above_exact[still] = True

    @cached_property
    def scale(self) -> Floats:
        """What counts as large for each target."""
        return np.maximum(np.abs(np.nan_to_num(self.value)), 1.0)

    @cached_property
    def room(self) -> Floats:
        """How far a target with no level required must reach on one side, so as not to be found exactly."""
        return np.ones(len(self.value)) if self.whole else EXACT * self.scale

    @cached_property
    def either(self) -> Bools:
        """Targets that must only not be found exactly."""
        return (self.lower <= 0) & (self.upper <= 0)

    def open_at(self, at: int | slice) -> tuple[Any, Any]:
        """Tell for one target or several whether the lower and the upper bound are not decided yet."""
        slack = SLACK * self.scale[at]
        narrow = (np.maximum(self.below[at], self.above[at]) < self.room[at] - slack) & ~self.idle[at]
        low = np.where(self.either[at], narrow, self.below[at] < self.lower[at] - slack) & ~self.below_exact[at]
        high = np.where(self.either[at], narrow, self.above[at] < self.upper[at] - slack) & ~self.above_exact[at]
        return low, high

    @property
    def met(self) -> Bools:
        """Targets seen to reach what they must, and to have room enough that they are not found exactly."""
        slack = SLACK * self.scale
        wide = np.maximum(self.below, self.above) >= self.room - slack
        reached = (self.below >= self.lower - slack) & (self.above >= self.upper - slack)
        return wide & (self.either | reached)

    def see(self, found: Found) -> None:
        """Note how far every target deviates in one possible table, or without end along a direction."""
        off, loss = self.rows @ found.z, found.missed * self._weight
        grown = self.rows @ found.ray
        np.maximum(self.above, np.where(grown > RAY, np.inf, off - loss), out=self.above)
        np.maximum(self.below, np.where(grown < -RAY, np.inf, -off - loss), out=self.below)


@dataclass(eq=False)
class Clock:
    """Time left, and progress."""

    seconds: float | None
    ctx: Context
    label: str = "audit"
    silent: bool = False
    """whether progress is reported elsewhere"""
    start: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.seconds is not None and self.spent > self.seconds

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def tell(self, done: int, total: int) -> None:
        """Report progress; may raise `Cancelled`."""
        if not self.silent:
            self.ctx.progress(done, total, self.label)


def certify(attacker: Attacker, targets: Targets, clock: Clock, *, exact: Bools | None = None) -> None:
    """Decide every target, first many per program with random objectives, then one by one; `exact` ones to the end.

    A table that agrees with everything published and in which a cell deviates by what it needs proves that side of the
    cell; a random combination of all undecided sides pushes many at once. What is left when time is over stays open.
    """
    push_many(attacker, targets, clock)
    undecided = np.flatnonzero(np.logical_or(*targets.open_at(slice(None))))
    _singly(attacker, targets, clock, undecided, lambda i, side: bool(targets.open_at(i)[side]))
    narrow = np.flatnonzero(~targets.met & ~targets.idle)
    _singly(attacker, targets, clock, narrow, None)
    if exact is not None:
        _limits(attacker, targets)
        _singly(attacker, targets, clock, np.flatnonzero(exact), None)


def push_many(attacker: Attacker, targets: Targets, clock: Clock, patience: int = STALL) -> None:
    """Push all undecided sides at once with random weights, until programs decide few more."""
    rng = clock.ctx.rng
    total = len(targets.value)
    stalled, turned = 0, targets.rows.T.tocsr()
    while stalled < patience and not clock.over:
        down, up = targets.open_at(slice(None))
        left = int(down.sum() + up.sum())
        if not left:
            return
        clock.tell(total - int((down | up).sum()), total)
        rise = rng.random(total) / np.maximum(targets.upper, EXACT * targets.scale) * up
        fall = rng.random(total) / np.maximum(targets.lower, EXACT * targets.scale) * down
        both = targets.either & (rng.random(total) < 0.5)
        targets.see(attacker.push(turned @ (np.where(both, 0.0, rise) - np.where(targets.either & ~both, 0.0, fall))))
        decided = left - int(sum(side.sum() for side in targets.open_at(slice(None))))
        stalled = stalled + 1 if decided <= FEW * left else 0


def _singly(
    attacker: Attacker, targets: Targets, clock: Clock, chosen: Ints, wanted: Callable[[int, int], bool] | None
) -> None:
    """Find the bounds of chosen targets that are wanted and not exact yet, one program each."""
    sides = ((targets.below, targets.below_exact, -1.0), (targets.above, targets.above_exact, 1.0))
    for number, i in enumerate(chosen.tolist()):
        clock.tell(number, len(chosen))
        for side, (reached, done, sign) in enumerate(sides):
            if clock.over:
                return
            if not done[i] and (wanted is None or wanted(i, side)):
                far, found = attacker.reach(sign * targets.rows[[i]])
                targets.see(found)
                reached[i], done[i] = max(far, reached[i]), True


def _limits(attacker: Attacker, targets: Targets) -> None:
    """Mark bounds that are exact because they reach what the a-priori bounds and single sums allow."""
    low, high = attacker.limits
    for reached, done, limit in (
        (targets.below, targets.below_exact, -_dot(targets.rows, low)),
        (targets.above, targets.above_exact, _dot(targets.rows, high)),
    ):
        done[:] |= reached >= limit - SLACK * targets.scale


def _dot(rows: Matrix, bounds: Floats) -> Floats:
    """Add up bounds that may be infinite."""
    finite = rows @ np.where(np.isfinite(bounds), bounds, 0.0)
    endless = rows @ (~np.isfinite(bounds)).astype(np.float64) > 0
    sums: Floats = np.where(endless, np.inf if (bounds > 0).any() else -np.inf, finite)
    return sums
