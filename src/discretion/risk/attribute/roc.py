"""Members told from non-members: the area under the ROC curve with DeLong's interval, shares with Newcombe's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.risk.synthetic.success_rates import wilson

Interval = tuple[float, float]


def newcombe(hits: int, trials: int, other_hits: int, other_trials: int, confidence: float = 0.95) -> Interval:
    """Give Newcombe's interval of the difference of two independent shares (his method 10)."""
    one, other = hits / trials, other_hits / other_trials
    low, high = wilson(hits, trials, confidence)
    other_low, other_high = wilson(other_hits, other_trials, confidence)
    down = np.sqrt((one - low) ** 2 + (other_high - other) ** 2)
    up = np.sqrt((high - one) ** 2 + (other - other_low) ** 2)
    return float(one - other - down), float(one - other + up)


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve: the probability that a member scores higher than a non-member, ties half."""

    value: float
    interval: Interval


def area(members: Floats, others: Floats, *, paired: bool = False, confidence: float = 0.95) -> Area:
    """Give the area and its interval by DeLong's structural components, in O(n log n).

    `paired`: row i of both is the same person, once as a member and once not; the variance then is that of the person's
    two components together (Obuchowski's for clusters of two). Where the groups are separated completely that variance
    is zero and certainty would be claimed; Wilson's interval for the smaller group stands instead.
    """
    from scipy.stats import norm, rankdata

    m, n = len(members), len(others)
    if m == 0 or n == 0:
        raise DataError("a ROC curve needs members and non-members")
    together = rankdata(np.concatenate([members, others]))
    of_members = (together[:m] - rankdata(members)) / n
    of_others = 1 - (together[m:] - rankdata(others)) / m
    value = float(of_members.mean())
    if m < 2 or n < 2:
        return Area(value, (0.0, 1.0))
    if paired:
        variance = float((of_members + of_others).var(ddof=1)) / m
    else:
        variance = float(of_members.var(ddof=1)) / m + float(of_others.var(ddof=1)) / n
    if variance == 0:
        fewer = min(m, n)
        return Area(value, wilson(value * fewer, fewer, confidence))
    half = float(norm.ppf(0.5 + confidence / 2)) * float(np.sqrt(variance))
    return Area(value, (max(0.0, value - half), min(1.0, value + half)))


def recognized(members: Floats, others: Floats, share: float) -> float:
    """Count the members recognized when this share of the others is taken for members; ties are decided by lot."""
    ranked = np.sort(others)[::-1]
    allowed = share * len(others)
    threshold = float(ranked[min(int(allowed), len(others) - 1)])
    above, tied = int((members > threshold).sum()), int((members == threshold).sum())
    others_above, others_tied = int((others > threshold).sum()), int((others == threshold).sum())
    return above + min(1.0, (allowed - others_above) / others_tied) * tied
