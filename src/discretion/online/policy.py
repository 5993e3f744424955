"""Policies: in which way questions are answered, and how far a user may go."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from discretion.online.declared import Declared, Name
from discretion.privacy.accounting import Accountant

Period = Literal["day", "week", "month", "quarter", "year", "ever"]


class ExactPolicy(Declared):
    """True answers, by base groups of at least ten people or under the audit of all earlier answers.

    Whole and bounded numbers: sums over fixed, disjoint groups, each with the share of people it covers. Other numbers:
    refused when with all earlier answers a sum would determine anybody's value; close guesses are not prevented. Yes or
    no, few values, many values at a bound: refused. Which questions of a column are refused never depends on values.
    """

    mode: Literal["exact+audit"] = "exact+audit"
    """true answers by base groups, or under the audit of all earlier ones"""
    min_query_size: int = Field(5, ge=2)
    """smallest number of people in a query set, and of people outside it"""
    max_overlap: int | None = Field(None, ge=0)
    """largest number of people that two query sets under the audit may share; none: only the audit decides"""
    variance: bool = False
    """whether variances are answered under the audit (squares together with sums); by base groups they never are"""
    interval_audit: bool = False
    """whether sums by base groups must also leave values uncertain by `interval_percent`, or become bounds"""
    interval_percent: float = Field(10.0, gt=0, le=100)
    """least width of what an attacker can infer about a value, in percent of its declared bounds"""
    over_all_users: bool = True
    """whether all users together are audited as one attacker, beside each by itself"""


class DpPolicy(Declared):
    """Noisy answers that spend a privacy budget."""

    mode: Literal["dp"]
    """differential privacy"""
    epsilon: float = Field(gt=0, strict=True)
    """budget of a user in one period, for all tables about the same people"""
    delta: float = Field(0.0, ge=0, lt=1, strict=True)
    """δ of the budget; needed for zCDP accounting and for groups whose keys are not declared"""
    accountant: Accountant = "pure"
    """how answers add up: pure ε, (ε,δ) or zero-concentrated"""
    period: Period = "ever"
    """after how long a user has the budget again; `ever`: never"""
    epsilon_per_query: float = Field(0.1, gt=0, strict=True)
    """what an answer spends when the question does not say"""
    max_epsilon_per_query: float | None = Field(None, gt=0, strict=True)
    """most that one answer may spend; none: the whole budget"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """level of the intervals given with each answer"""


class PerturbedPolicy(Declared):
    """Answers changed a little, the same for the same records: cell keys, rounding, size control.

    Carries no guarantee, and is never chosen unless the owner names it: many answers together may give somebody away.
    Of sensitive columns that say yes or no, or have fewer than 12 values, nothing is told.
    """

    mode: Literal["perturbed"]
    """cell-key perturbation, rounding and size control"""
    min_query_size: int = Field(5, ge=1)
    """answers over fewer people are refused or shown as missing"""
    deviation: int = Field(2, ge=0)
    """largest change of a count by its cell key; 0: no perturbation"""
    variance: float = Field(1.0, gt=0)
    """variance of the change of a count"""
    magnitude_percent: float = Field(100.0, ge=0, le=100)
    """largest change of a sum by its cell key, in percent of its three largest contributions (weighed .5, .3, .2), or
    of the mean size of a value or three standard deviations (up to a power of two) where that is larger; of whole
    numbers at least `deviation`"""
    max_answers: int | None = Field(None, ge=1)
    """figures of one sensitive column that all users together are told; none: 24, or half as many as there are people
    if that is fewer. Who spends m figures on one person is off by about 2·√(3/m) standard deviations or more"""
    rounding_base: float | None = Field(None, gt=0)
    """answers are rounded to multiples of it; none: not rounded"""


Policy = Annotated[ExactPolicy | DpPolicy | PerturbedPolicy, Field(discriminator="mode")]
MODES = ("exact+audit", "dp", "perturbed")


def _which(given: Any) -> str | None:
    if isinstance(given, str):
        return "name"
    found = given.get("mode", MODES[0]) if isinstance(given, dict) else getattr(given, "mode", None)
    return found if isinstance(found, str) else None


PolicyOrName = Annotated[
    Annotated[ExactPolicy, Tag("exact+audit")]
    | Annotated[DpPolicy, Tag("dp")]
    | Annotated[PerturbedPolicy, Tag("perturbed")]
    | Annotated[Name, Tag("name")],
    Discriminator(
        _which,
        custom_error_type="policy",
        custom_error_message=f"expected a policy with the mode {', '.join(MODES)}, or the name of a policy",
    ),
]
"""A policy in place, or the name of one."""
