"""Perturbation tables: how likely each deviation is for each count, of all such laws the least predictable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discretion.errors import PlanError
from discretion.kernels.arrays import Floats, Ints

TOLERANCE = 1e-12
"""How closely mean and variance of the laws are met, as a share of the variance."""

_ROUNDS = 200


@dataclass(frozen=True, eq=False, repr=False)
class PerturbationTable:
    """For each count (the last row: that count and all larger) the probability of each deviation.

    Every row has mean 0 and the wanted variance, gives no negative count and none of the results that are not to
    appear, and has the largest entropy of all such laws. A count of 0 stays 0: nothing else has mean 0.
    Like the parameters it comes from, the table is confidential.
    """

    deviations: Ints
    """(k,) the possible deviations, ascending"""
    probability: Floats
    """(rows, k) one row for each count 0, 1, …; impossible deviations have 0"""
    variance: float
    maximum: int

    def __post_init__(self) -> None:
        self.deviations.flags.writeable = False
        self.probability.flags.writeable = False

    def __repr__(self) -> str:
        return f"PerturbationTable({len(self.probability)} rows × {len(self.deviations)} deviations)"

    @property
    def entropy(self) -> Floats:
        """(rows,) the entropy of each row, in nats."""
        p = self.probability
        bits: Floats = np.where(p > 0, p * np.log(np.where(p > 0, 1 / np.maximum(p, 1e-300), 1.0)), 0.0).sum(axis=1)
        return bits

    def deviation(self, count: Ints, key: Floats) -> Ints:
        """Look up the deviation of each cell by its count and its key in [0, 1)."""
        row = np.minimum(count, len(self.probability) - 1)
        edges = np.cumsum(self.probability, axis=1)
        edges /= edges[:, -1:]
        place = (key[:, None] >= edges[row, :-1]).sum(axis=1) if len(row) else np.zeros(0, np.int64)
        found: Ints = self.deviations[place]
        return found


def perturbation_table(
    variance: float, maximum: int, *, forbidden: int = 0, stay: float | None = None
) -> PerturbationTable:
    """Make the perturbation table of largest entropy.

    `variance` is that of the noise, `maximum` its largest absolute deviation. Results from 1 to `forbidden` never
    appear (small counts are moved away). `stay` fixes the probability that a count does not change. O(maximum²).

    References
    ----------
    Marley & Leaver (2011), Proc. ISI World Congress; Giessing (2016), in Privacy in Statistical Databases;
    catalogue T6.

    Examples
    --------
    >>> from discretion.tables.cell_key_table import perturbation_table
    >>> table = perturbation_table(2.0, 4)
    >>> abs(table.probability @ table.deviations).round(9).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    _check(variance, maximum, forbidden, stay)
    deviations = np.arange(-maximum, maximum + 1)
    rows = np.zeros((maximum + forbidden + 1, len(deviations)))
    rows[0, maximum] = 1.0
    for count in range(1, len(rows)):
        result = count + deviations
        possible = (result >= 0) & ~((result >= 1) & (result <= forbidden))
        where = f"a count of {count}"
        rows[count, possible] = _law(deviations[possible].astype(np.float64), variance, stay, where)
    return PerturbationTable(deviations, rows, variance, maximum)


def _check(variance: float, maximum: int, forbidden: int, stay: float | None) -> None:
    problems = []
    if not np.isfinite(variance) or variance <= 0:
        problems.append(f"variance: expected a number above 0, got {variance!r}")
    if maximum < 1:
        problems.append(f"maximum: expected at least 1, got {maximum!r}")
    if forbidden < 0:
        problems.append(f"forbidden: expected at least 0, got {forbidden!r}")
    if stay is not None and not 0 <= stay < 1:
        problems.append(f"stay: expected a share of at least 0 and below 1, got {stay!r}")
    if problems:
        raise PlanError(problems)


def _law(support: Floats, variance: float, stay: float | None, where: str) -> Floats:
    if stay is None or not (support == 0).any():
        return largest_entropy(support, variance, where)
    moved = support != 0
    law = np.zeros(len(support))
    law[~moved] = stay
    law[moved] = (1 - stay) * largest_entropy(support[moved], variance / (1 - stay), where)
    return law


def largest_entropy(support: Floats, variance: float, where: str = "perturbation") -> Floats:
    """Give the law on some numbers with mean 0 and a given variance that has the largest entropy.

    It is p(d) ∝ exp(a·d + b·d²); a and b minimize the convex function log Σ exp(a·d + b·d²) − b·variance, by Newton's
    method. On the border of what is possible there is only one law, on two numbers (or three with 0).
    """
    least, most = _possible(support, where)
    if not least - 1e-12 <= variance <= most + 1e-12:
        raise PlanError(
            f"{where}: unbiased noise has a variance from {least:g} to {most:g}; "
            "choose one in between, or a larger maximum"
        )
    if variance - least < 1e-9 * max(least, 1.0):
        return _two_points(support, support[support <= 0].max(), support[support >= 0].min())
    if most - variance < 1e-9 * most:
        return _two_points(support, support.min(), support.max())
    return _newton(support, variance)


def _possible(support: Floats, where: str) -> tuple[float, float]:
    """Give the smallest and the largest variance that noise of mean 0 can have."""
    below, above = support[support <= 0], support[support >= 0]
    if not len(below) or not len(above):
        raise PlanError(
            f"{where}: there is no unbiased noise, as all possible results lie on one side; "
            "choose a larger maximum, or fewer results that must not appear"
        )
    return float(abs(below.max()) * above.min()), float(abs(support.min()) * support.max())


def _two_points(support: Floats, low: float, high: float) -> Floats:
    law = np.zeros(len(support))
    if high == low:
        law[support == low] = 1.0
        return law
    law[support == low] = high / (high - low)
    law[support == high] = -low / (high - low)
    return law


def _newton(support: Floats, variance: float) -> Floats:
    """Minimize the dual by Newton steps, shortened until the dual falls or its slope halves.

    The dual is flat at its bottom: it tells a point from the best one only to the root of the machine's precision. The
    slope, which is the error of mean and variance, tells them apart to the precision itself, and ends the search.
    """
    scale = np.abs(support).max()
    s = support / scale
    features = np.column_stack((s, s * s))
    goal = np.array([0.0, variance / scale**2])

    def dual(point: Floats) -> tuple[float, Floats, Floats]:
        log = features @ point
        top = log.max()
        p = np.exp(log - top)
        total = p.sum()
        p /= total
        return float(top + np.log(total) - goal @ point), p, p @ features - goal

    at = np.zeros(2)
    value, p, slope = dual(at)
    for _ in range(_ROUNDS):
        error = np.abs(slope).max()
        if error <= TOLERANCE * goal[1]:
            break
        centered = features - p @ features
        curve = (centered * p[:, None]).T @ centered
        step = np.linalg.solve(curve + 1e-15 * np.trace(curve) * np.eye(2), slope)
        length = 1.0
        while length > 1e-9:
            new = dual(at - length * step)
            if new[0] <= value - 1e-4 * length * float(slope @ step) or np.abs(new[2]).max() <= error / 2:
                break
            length /= 2
        else:
            break
        at, (value, p, slope) = at - length * step, new
    return p
