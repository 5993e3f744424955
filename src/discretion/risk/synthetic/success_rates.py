"""How often an attack succeeds, on the people in the data and on a control group: rates, risk and their intervals.

A release about a population tells something about everybody, also about people who are not in it. What it gives away
about the people in it is how much more often an attack succeeds on them: with the attack rate a and the control rate c,
risk = (a − c) / (1 − c), the share of those that would have been safe without being in the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discretion.errors import DataError


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
