"""The limits, budgets and counts of tuning: their defaults, and which make sense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from discretion.errors import PlanError

RUNS, SAMPLE, DRAWS = 3, 5_000, 10
ALL_ROWS = 50_000
"""Data up to which settings are tried on all rows, if methods and measures are quick."""
CONFIDENCE, KEPT_SHARE = 0.95, 0.95
"""A chosen setting keeps the limit in this share of fresh draws, with this confidence."""


def tolerance_bound(values: Sequence[float]) -> float:
    """Give the bound below which, with 95 % confidence, at least 95 % of further values lie: mean + k·sd.

    The values are taken as a normal sample; k = t'₀.₉₅(z₀.₉₅·√n)/√n with n − 1 degrees of freedom (noncentral t). It
    exceeds the bound of the mean itself, mean + t₀.₉₅·sd/√n. Equal values are their own bound, one value too.
    """
    n = len(values)
    if n < 2 or max(values) - min(values) <= 1e-12 * max(map(abs, values)):
        return max(values)
    from scipy.stats import nct, norm

    k = float(nct.ppf(CONFIDENCE, n - 1, norm.ppf(KEPT_SHARE) * math.sqrt(n))) / math.sqrt(n)
    return max(fmean(values) + k * stdev(values), *values)


def check_numbers(
    *,
    max_risk: float | None = None,
    min_utility: float | None = None,
    seconds: float | None = None,
    runs: int = RUNS,
    sample: int | str | None = "auto",
    draws: int = DRAWS,
) -> None:
    """Refuse limits, budgets and counts that make no sense, all at once."""
    problems = []
    if max_risk is not None and min_utility is not None:
        problems.append("max_risk and min_utility: give one of them; the other figure is what is made best")
    for name, value in (("max_risk", max_risk), ("min_utility", min_utility), ("seconds", seconds)):
        if value is not None and not (_is_number(value) and math.isfinite(value)):
            problems.append(f"{name}: expected a number")
    if seconds is not None and _is_number(seconds) and not seconds > 0:
        problems.append("seconds: expected a number above 0")
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        problems.append("runs: expected a whole number of at least 1")
    if not isinstance(draws, int) or isinstance(draws, bool) or draws < 2:
        problems.append("draws: expected a whole number of at least 2")
    if sample not in (None, "auto") and (not isinstance(sample, int) or isinstance(sample, bool) or sample < 2):
        problems.append("sample: expected auto, a whole number of rows, at least 2, or nothing for all rows")
    if problems:
        raise PlanError(problems)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
