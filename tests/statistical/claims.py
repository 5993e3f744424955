"""Black-box checks of privacy claims: draws on neighboring data, and what they prove about ε at least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from discretion.online.backends import open_backend
from discretion.online.declare import TableSpec
from discretion.online.dp.answer import Ingredient, PricedQuery
from discretion.online.dp.mechanisms import Additive

DRAWS = 20_000
CONFIDENCE = 1 - 1e-6

NoiseOf = Callable[[PricedQuery, Ingredient], Additive]


def clopper_pearson(hits: int, draws: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Give exact bounds of a probability."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, draws - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, draws - hits)) if hits < draws else 1.0
    return low, high


def epsilon_at_least(often: int, seldom: int, draws: int, delta: float = 0.0) -> float:
    """Give the ε that an event proves: seen `often` on one data set and `seldom` on its neighbor."""
    low, high = clopper_pearson(often, draws)[0], clopper_pearson(seldom, draws)[1]
    return math.log((low - delta) / high) if low > delta else 0.0


@dataclass(frozen=True)
class Trial:
    """A priced question, two neighboring tables, and the noise that is really used (a planted bug may change it)."""

    priced: PricedQuery
    first: pl.DataFrame
    second: pl.DataFrame
    noise: NoiseOf = PricedQuery.noise
    computed_as: TableSpec | None = None
    """the declaration by which the database really clamps and bounds; none: the one of the price"""

    def true_numbers(self, frame: pl.DataFrame, part: Ingredient) -> list[int]:
        table = self.computed_as or self.priced.table
        backend = open_backend([table], {table.name: frame})
        found = backend.bounded(self.priced.query)
        backend.close()
        column = self.priced.column(part.aggregate)
        return [number for group in found.values() for number in part.numbers(group, column)]

    def epsilon_at_least(self, delta: float = 0.0, further: float = 0.0, draws: int = DRAWS) -> float:
        """Give the ε that is proved by the event in which every number is as far as in the second table, or further.

        `further` moves the border by so many standard deviations: for Gaussian noise the tail is what tells.
        """
        inside = [np.ones(draws, np.bool_), np.ones(draws, np.bool_)]
        for part in self.priced.parts:
            before, after = self.true_numbers(self.first, part), self.true_numbers(self.second, part)
            signs = np.sign(np.array(after, dtype=np.int64) - np.array(before, dtype=np.int64))
            noise = self.noise(self.priced, part)
            border = np.array(after) + signs * further * math.sqrt(noise.variance)
            for side, true in enumerate((before, after)):
                changed = np.flatnonzero(signs)
                drawn = repeated(noise, [true[i] for i in changed], draws)
                inside[side] &= np.all(signs[changed] * (drawn - border[changed]) >= 0, axis=1)
        return epsilon_at_least(int(inside[1].sum()), int(inside[0].sum()), draws, delta)


def repeated(noise: Additive, values: Sequence[int], draws: int) -> NDArray[np.int64]:
    """Release the same values many times: one line per release."""
    flat = noise.release(list(values) * draws)
    return np.array(flat, dtype=np.int64).reshape(draws, len(values))


def best_event(first: Sequence[int], second: Sequence[int]) -> float:
    """Give the ε that single outcomes prove: the outcome is picked on one half of the draws and judged on the other."""
    half = len(first) // 2
    outcomes = sorted({*first, *second})
    a, b = (np.array([list(x[:half]).count(o) for o in outcomes], dtype=float) for x in (first, second))
    picked = outcomes[int(np.argmax((a + 1) / (b + 1)))]
    often, seldom = list(first[half:]).count(picked), list(second[half:]).count(picked)
    return epsilon_at_least(often, seldom, len(first) - half)
