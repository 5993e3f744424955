"""Several data sets on one scale: numbers as they are, everything else as categories they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, load_population
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import code_together, on_a_line
from discretion.measure import RiskShare, Score, as_percent
from discretion.part import path_field

# How often an attack succeeds, on the people in the data and on a control group: rates, risk and their intervals.
#
# A release about a population tells something about everybody, also about people who are not in it. What it gives away
# about the people in it is how much more often an attack succeeds on them: with the attack rate a and the control rate
# c, risk = (a − c) / (1 − c), the share of those that would have been safe without being in the data.


@dataclass(frozen=True)
class Rate:
    """Successes among trials."""

    successes: int
    trials: int

    @property
    def share(self) -> float:
        """The observed share."""
        return self.successes / self.trials

    def interval(self, confidence: float) -> tuple[float, float]:
        """Give Wilson's score interval, which also holds for few trials and rates near 0 and 1."""
        return wilson(self.successes, self.trials, confidence)


def wilson(successes: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Give Wilson's (1927) interval for a proportion."""
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    from statistics import NormalDist  # a report needs this interval, and scipy takes longer to import

    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    share = successes / trials
    center = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return (0.0 if successes == 0 else max(center - half, 0.0)), (
        1.0 if successes == trials else min(center + half, 1.0)
    )


@dataclass(frozen=True)
class Risk:
    """(attack − control) / (1 − control), with an interval; negative when the control group is hit more often."""

    value: float
    low: float
    high: float


def excess_risk(attack: Rate, control: Rate, confidence: float = 0.95) -> Risk:
    """Compare the rates on the people in the data and on the control group.

    risk = 1 − (1 − a)/(1 − c) is one minus a ratio of two proportions; its interval is made from their Wilson intervals
    by variance recovery (Donner & Zou 2012), which needs no normal approximation of the ratio.
    """
    if control.successes == control.trials:
        raise DataError(
            "the attack succeeds on every person of the control group: what it finds is true of everybody, and nothing "
            "can be said about the people in the data; attack a rarer value or with fewer known columns"
        )
    safe, usual = 1 - attack.share, 1 - control.share
    (high_a, low_a), (high_c, low_c) = ([1 - x for x in rate.interval(confidence)] for rate in (attack, control))
    product = safe * usual
    below = product + math.sqrt(max(product**2 - low_a * high_c * (2 * safe - low_a) * (2 * usual - high_c), 0.0))
    least = low_a * (2 * safe - low_a) / below if below > 0 else 0.0
    above = product + math.sqrt(max(product**2 - high_a * low_c * (2 * safe - high_a) * (2 * usual - low_c), 0.0))
    most = above / (low_c * (2 * usual - low_c))
    return Risk(1 - safe / usual, 1 - most, 1 - least)


def rates_detail(attack: Rate, control: Rate, baseline: float, risk: Risk, confidence: float) -> dict[str, Any]:
    """Give all figures as plain data."""
    return {
        "attack_rate": attack.share,
        "attack_interval": list(attack.interval(confidence)),
        "control_rate": control.share,
        "control_interval": list(control.interval(confidence)),
        "baseline": baseline,
        "risk": risk.value,
        "risk_interval": [risk.low, risk.high],
        "attacks": attack.trials,
        "control_attacks": control.trials,
        "confidence": confidence,
    }


# What attacks with a control group share: fields, and the score that compares the two groups.


class UnalignedRisk(RiskShare):
    """A risk of a release whose rows need not belong to anybody, with people outside the data beside it."""

    holdout: Population | None = path_field(None)
    """file (or Dataset) with the same columns about people who are not in the original: the control group"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """coverage of the intervals"""

    aligned: ClassVar[bool] = False


class ControlledAttack(UnalignedRisk):
    """An attack that succeeds or fails, on people in the data and on people outside it."""

    attacks: int = Field(2000, ge=1)
    """most attacks on each group; fewer when there are fewer records"""

    def compare(
        self,
        attack: Rate,
        control: Rate,
        baseline: float,
        what: str,
        per_record: NDArray[Any] | None = None,
        **detail: Any,
    ) -> Score:
        """Give the risk of being in the data; `what` completes "The attack …"."""
        risk = excess_risk(attack, control, self.confidence)
        value = min(max(risk.value, 0.0), 1.0)
        meaning = (
            f"The attack {what} for {as_percent(attack.share)} of the people in the data and for "
            f"{as_percent(control.share)} of people outside it (guessing: {as_percent(baseline)}): being in the data "
            f"gives {as_percent(value)} away ({self.confidence:.0%} interval {risk.low:.3f} to {risk.high:.3f})."
        )
        figures = rates_detail(attack, control, baseline, risk, self.confidence)
        return self.score(value, meaning, per_record, chance=0.0, **figures, **detail)  # people outside are deducted


@dataclass(frozen=True)
class EncodedRecords:
    """The same columns of several data sets. Numbers: NaN is missing; categories: missing is one of them."""

    columns: tuple[str, ...]
    tables: tuple[Floats, ...]
    """one (rows, columns) matrix for each data set, in the order given"""
    nominal: Bools
    weights: Floats
    """1 / range over all data sets: a number differs from another by at most 1; 0 for categories"""

    def part(self, names: Sequence[str]) -> tuple[list[Floats], Bools, Floats]:
        """Give the tables of some columns, contiguous, with their kinds and weights."""
        at = [self.columns.index(name) for name in names]
        return [np.ascontiguousarray(table[:, at]) for table in self.tables], self.nominal[at], self.weights[at]


def control_group(holdout: Any, original: Dataset, who: str) -> Dataset:
    """Load the control group; without one the attack cannot run."""
    if holdout is None:
        raise PlanError(
            f"{who}: without a control group nothing tells what the release gives away about the people in the data "
            "from what is true of everybody; give `holdout`: a file (or Dataset) with the same columns about people "
            "who are not in the original and whom the method has not seen (put a random part of the data aside first)"
        )
    found = load_population(holdout)
    if not len(found):
        raise DataError(f"{who}: the holdout has no rows")
    if not found.schema.columns and original.schema.columns:
        found = Dataset(found.frame, schema=original.schema.only(found.columns))
    return found


def common_columns(named: Sequence[str], purpose: Any, tables: Sequence[Dataset], who: str) -> tuple[str, ...]:
    """Give the named columns, which all data sets must have, or the default ones that all have."""
    first, *rest = tables
    chosen = first.choose(named, purpose)
    if named:
        for table in rest:
            table.require(chosen)
        return chosen
    both = tuple(name for name in chosen if all(name in table.columns for table in rest))
    if not both:
        raise DataError(f"{who}: no column of the original stands in the release; give `columns`")
    return both


def encode_together(tables: Sequence[Dataset], columns: Sequence[str], who: str) -> EncodedRecords:
    """Encode columns of the original, the release and other data sets; the original comes first, the release second.

    A column of numbers (or of dates, or with a declared order) in all of them is compared by differences, any other by
    equality of its values as text. A category column of which no released value occurs in the original was recoded:
    comparing it would find nothing and look safe, so it is refused.
    """
    kinds, weights = [], []
    matrices = [np.empty((len(table), len(columns)), dtype=np.float64) for table in tables]
    for j, name in enumerate(columns):
        numbers = on_a_line(tables, name, "synthetic")
        values = _categories(tables, name, who) if numbers is None else numbers
        for matrix, column in zip(matrices, values, strict=True):
            matrix[:, j] = column
        kinds.append(numbers is None)
        weights.append(0.0 if numbers is None else _inverse_range(numbers))
    return EncodedRecords(tuple(columns), tuple(matrices), np.array(kinds, np.bool_), np.array(weights))


def _categories(tables: Sequence[Dataset], name: str, who: str) -> list[Floats]:
    """Give the codes of categories; missing is one of them, the last."""
    codes, values = code_together(tables, name)
    present = [np.unique(column[column >= 0]) for column in codes[:2]]
    if all(map(len, present)) and not np.isin(present[0], present[1]).any():
        raise DataError(
            f"{who}: no value of column {name!r} in the release occurs in the original (it was generalized or coded "
            "anew); do the same to the original first, or leave the column out"
        )
    return [np.where(column < 0, len(values), column).astype(np.float64) for column in codes]


def _inverse_range(columns: Sequence[NDArray[np.float64]]) -> float:
    low = min(float(np.fmin.reduce(x, initial=np.inf)) for x in columns)
    high = max(float(np.fmax.reduce(x, initial=-np.inf)) for x in columns)
    return 1 / (high - low) if high > low else 0.0


def by_value(table: Floats) -> Ints:
    """Order records by their values, so that draws do not depend on the order of the rows."""
    return np.lexsort(table.T[::-1])


def draw_people(table: Floats, units: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Draw people without replacement, with all their records; people stand in the order of their first by value."""
    order = by_value(table)
    names, first = np.unique(units[order], return_index=True)
    ranked = names[np.argsort(first)]
    chosen = ranked if size >= len(ranked) else rng.choice(ranked, size, replace=False)
    return order[np.isin(units[order], chosen)]


def draw(table: Floats, size: int, rng: np.random.Generator) -> Ints:
    """Draw records without replacement; which ones depends on their values and the generator only."""
    order = by_value(table)
    return order if size >= len(order) else order[np.sort(rng.choice(len(order), size, replace=False))]
