"""Privacy loss in whole numbers: millionths of ε, billionths of ρ and δ. Costs are rounded up, budgets down.

Three ways to count: `pure` (ε only), `approximate` (ε and δ add up) and `zcdp` (zero-concentrated: ρ adds up, which
lets many small answers cost less). A number that a person wrote is taken as the decimal that was written: 0.1 is
100,000 millionths and not one more.
"""

from __future__ import annotations

import math
from fractions import Fraction

from discretion.errors import PlanError
from discretion.online.ledger.entries import Cost
from discretion.online.policy import Accountant, DpPolicy

MICRO = 10**6
NANO = 10**9
_FLOAT_MARGIN = 1 + 1e-12
"""covers the rounding of the logarithms and roots below, which err by less than 1e-14"""

Number = float | int | Fraction


def exact(value: Number) -> Fraction:
    """Take a number as it was written: 0.1 is one tenth."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError("a privacy loss is a finite number")
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def units_up(value: Number, unit: int) -> int:
    """Give the number of units, rounded up."""
    return math.ceil(exact(value) * unit)


def units_down(value: Number, unit: int) -> int:
    """Give the number of units, rounded down."""
    return math.floor(exact(value) * unit)


def cost(*, epsilon: Number = 0, rho: Number = 0, delta: Number = 0) -> Cost:
    """Give what an answer spends, each amount rounded up.

    Examples
    --------
    >>> cost(epsilon=0.1, delta=1e-6)
    Cost(micro_epsilon=100000, nano_rho=0, nano_delta=1000)
    """
    return Cost(units_up(epsilon, MICRO), units_up(rho, NANO), units_up(delta, NANO))


def budget(epsilon: Number, delta: Number, accountant: Accountant) -> Cost:
    """Give what may be spent under (ε, δ), each amount rounded down.

    Zero-concentrated accounting uses half of δ to turn ρ into (ε, δ), the other half is left for groups whose keys are
    not declared: together they stay within (ε, δ).
    """
    if accountant == "pure":
        return Cost(units_down(epsilon, MICRO))
    if not 0 < exact(delta) < 1:
        raise PlanError(f"{accountant} accounting needs a δ between 0 and 1")
    if accountant == "approximate":
        return Cost(units_down(epsilon, MICRO), 0, units_down(delta, NANO))
    half = exact(delta) / 2
    return Cost(0, nano_rho_within(epsilon, half), units_down(half, NANO))


def policy_budget(policy: DpPolicy) -> Cost:
    """Give what a user may spend in a period: the limit for the ledger."""
    return budget(policy.epsilon, policy.delta, policy.accountant)


def policy_cost(policy: DpPolicy, *, delta: Number = 0) -> Cost:
    """Give what an answer spends when the question does not say: the policy's ε per question.

    Under zero-concentrated accounting it is the ρ of a single answer that alone would be (ε per question, δ/2).
    """
    if policy.accountant == "zcdp":
        rho = nano_rho_within(policy.epsilon_per_query, exact(policy.delta) / 2)
        return Cost(0, max(rho, 1), units_up(delta, NANO))
    return cost(epsilon=policy.epsilon_per_query, delta=delta)


def epsilon_of_rho(rho: Number, delta: Number) -> float:
    """Give an ε for which ρ-zCDP implies (ε, δ): never too small.

    For every order α > 1, δ ≤ exp((α−1)(αρ−ε))/(α−1)·(1−1/α)^α (Canonne, Kamath & Steinke 2020, proposition 12). Each α
    gives a valid ε, so a search that misses the best one errs on the safe side.
    """
    loss, probability = exact(rho), exact(delta)
    if not 0 < probability < 1:
        raise PlanError("ρ becomes (ε, δ) only with a δ between 0 and 1")
    if loss < 0:
        raise PlanError("a privacy loss is not negative")
    if loss == 0:
        return 0.0
    r, log_delta = float(loss), math.log(probability.numerator) - math.log(probability.denominator)

    def bound(t: float) -> float:
        above = math.exp(t)
        alpha = 1 + above
        return alpha * r + math.log(above / alpha) - (log_delta + math.log(alpha)) / above

    low, high = -20.0, 40.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if bound(a) <= bound(b) else (a, high)
    simple = r + 2 * math.sqrt(-r * log_delta)
    return max(0.0, min(bound((low + high) / 2), simple)) * _FLOAT_MARGIN


def nano_rho_within(epsilon: Number, delta: Number) -> int:
    """Give the most billionths of ρ that imply (ε, δ)."""
    if exact(epsilon) <= 0:
        return 0
    low, high = 0, NANO
    while exact(epsilon_of_rho(Fraction(high, NANO), delta)) <= exact(epsilon):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        fits = exact(epsilon_of_rho(Fraction(middle, NANO), delta)) <= exact(epsilon)
        low, high = (middle, high) if fits else (low, middle)
    return low


def as_epsilon_delta(spent: Cost, delta: Number = 0) -> tuple[float, float]:
    """Say what was spent as (ε, δ); `delta` is the δ at which ρ is read, and is added to the δ spent."""
    epsilon = Fraction(spent.micro_epsilon, MICRO)
    spent_delta = Fraction(spent.nano_delta, NANO)
    if spent.nano_rho:
        read = epsilon_of_rho(Fraction(spent.nano_rho, NANO), delta)
        epsilon += Fraction(units_up(read, MICRO), MICRO)
        spent_delta += exact(delta)
    return float(epsilon), float(spent_delta)
