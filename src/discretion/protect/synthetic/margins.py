"""The distribution of one column of numbers: point masses, and values that are never anybody's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.protect.synthetic.packing import pack, unpack

_SPIKE = 0.05
_FEW = 20
"""A column with at most so many different values has no spikes: all its values are shared."""
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class NumberMargin:
    """A sorted column without its spikes: its different values, how often each occurs, and the step between values."""

    grid: Floats
    counts: Ints
    spikes: Floats
    step: float
    """what all values are multiples of; 0 where there is no such step"""

    @classmethod
    def of(cls, values: Floats) -> NumberMargin:
        """Learn the distribution from the values present."""
        grid, counts = np.unique(values, return_counts=True)
        often = counts > _SPIKE * len(values) if len(grid) > _FEW else np.zeros(len(grid), np.bool_)
        if len(grid) == 1:
            often[:] = True  # one value for everybody: there is nothing between it and another
        return cls(grid[~often], counts[~often].astype(np.int64), grid[often], _step(grid))

    @cached_property
    def ends(self) -> Ints:
        """For each value the number of people with it or a smaller one."""
        return np.cumsum(self.counts)

    def places(self, values: Floats) -> Ints:
        """Find the place of each value among the different ones."""
        return np.searchsorted(self.grid, values)

    def spike_of(self, values: Floats) -> Ints:
        """Give the number of the spike each value is, −1 where it is none."""
        if not len(self.spikes):
            return np.full(len(values), -1)
        place = np.minimum(np.searchsorted(self.spikes, values), len(self.spikes) - 1)
        return np.where(self.spikes[place] == values, place, -1)

    def smooth(self, places: Ints, width: float, rng: np.random.Generator) -> Floats:
        """Move each value by up to `width` people in the sorted column, and interpolate between neighbors.

        Moments are kept, whole numbers stay whole, and the sparse ends of the column are blurred most.
        """
        n = int(self.ends[-1]) if len(self.ends) else 0
        if n < 2 or len(self.grid) < 2:
            return self.grid[places]
        among = rng.random(len(places)) * (self.counts[places] - 1)
        rank = self.ends[places] - self.counts[places] + among + rng.uniform(-1, 1, len(places)) * min(width, n / 2)
        rank = np.abs(rank)
        rank = np.where(rank > n - 1, 2 * (n - 1) - rank, rank)
        return self.at(np.clip(rank, 0, n - 1))

    def at(self, rank: Floats) -> Floats:
        """Give the value at a place of the sorted column, between two people by interpolation."""
        n = int(self.ends[-1])
        low = np.minimum(rank.astype(np.int64), n - 2)
        below = self.grid[np.searchsorted(self.ends, low, "right")]
        above = self.grid[np.searchsorted(self.ends, low + 1, "right")]
        return self.rounded(below + (rank - low) * (above - below))

    def rounded(self, values: Floats) -> Floats:
        """Round to the step of the column."""
        if not self.step:
            return values
        # multiples of 0.01 are computed as k / 100, which is the float that stands in the data
        per_one = round(1 / self.step) if self.step < 1 else 0
        return np.round(values * per_one) / per_one if per_one else np.round(values / self.step) * self.step

    def to_plain(self) -> dict[str, Any]:
        """Give the distribution as plain data."""
        return {"grid": pack(self.grid), "counts": pack(self.counts), "spikes": self.spikes.tolist(), "step": self.step}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> NumberMargin:
        """Read a distribution that was saved."""
        spikes = np.asarray(known["spikes"], np.float64)
        return cls(unpack(known["grid"]), unpack(known["counts"]), spikes, float(known["step"]))


def _step(grid: Floats) -> float:
    """Find what all values are multiples of: a power of a tenth, or a whole number."""
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = grid * 10.0**decimals
        whole: Bools = np.abs(scaled - np.round(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1.0)
        if not whole.all():
            continue
        if np.abs(scaled).max(initial=0.0) >= 2**53:
            return 0.0
        divisor = int(np.gcd.reduce(np.round(scaled).astype(np.int64))) if not decimals else 1
        return float(divisor or 1) if not decimals else 10.0**-decimals
    return 0.0
