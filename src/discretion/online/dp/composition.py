"""How privacy losses add up: one after the other, on disjoint people, and many small ones together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from discretion.errors import MissingLibrary, PlanError
from discretion.privacy.accounting import FREE, MICRO, NANO, Cost, Number, exact, units_up

_FLOAT_MARGIN = 1 + 1e-12
_GRID = 1e-4
"""steps of privacy loss distributions"""


def sequential(costs: Iterable[Cost]) -> Cost:
    """Add up answers about the same people: ε, ρ and δ each add.

    Holds when questions are chosen after earlier answers were seen.

    Examples
    --------
    >>> sequential([Cost(100_000), Cost(200_000)])
    Cost(micro_epsilon=300000, nano_rho=0, nano_delta=0)
    """
    total = FREE
    for one in costs:
        total += one
    return total


def parallel(costs: Iterable[Cost]) -> Cost:
    """Put together answers about disjoint people: each amount is the largest, not the sum.

    Holds only if no person is in two of the parts, whatever the data (groups of a column of which each person has one
    value), and only for `add-remove`: when a person is replaced, it may leave one part and enter another, which changes
    two of them (`parallel_replace`).

    Examples
    --------
    >>> parallel([Cost(100_000), Cost(200_000)])
    Cost(micro_epsilon=200000, nano_rho=0, nano_delta=0)
    """
    found = tuple(costs)
    return Cost(*(max((one.amounts[i] for one in found), default=0) for i in range(3)))


def parallel_replace(costs: Iterable[Cost]) -> Cost:
    """Put together answers about disjoint people, where neighbors replace one person: the two largest of each amount.

    The costs are those of `replace` itself or more: a person that leaves a part or enters it changes that part.
    """
    found = tuple(costs)
    return Cost(*(sum(sorted((one.amounts[i] for one in found), reverse=True)[:2]) for i in range(3)))


def _without_rho(costs: Iterable[Cost], slack: Number) -> tuple[Cost, ...]:
    """Return the costs of a batch that is composed in ε and δ; refuse others."""
    found = tuple(costs)
    if any(one.nano_rho for one in found):
        raise PlanError("such composition is for ε and δ; ρ already adds up well by itself")
    if not 0 < exact(slack) < 1:
        raise PlanError("the slack of a composition is a δ between 0 and 1")
    return found


def advanced(costs: Iterable[Cost], slack: Number) -> Cost:
    """Add up many answers with a smaller ε, for a little more δ (`slack`); never more than `sequential` in ε.

    ε = Σ εᵢ(e^εᵢ − 1)/(e^εᵢ + 1) + √(2·ln(1/slack)·Σ εᵢ²), δ = slack + Σ δᵢ. The costs must be fixed beforehand, not
    chosen after earlier answers; for a budget that is spent adaptively, use zero-concentrated accounting.

    References
    ----------
    Kairouz, Oh & Viswanath (2015), The composition theorem for differential privacy, theorem 3.5.

    Examples
    --------
    >>> advanced([Cost(10_000)] * 1000, slack=1e-6).micro_epsilon / 1e6 < 2
    True
    """
    found = _without_rho(costs, slack)
    total = sequential(found)
    losses = [one.micro_epsilon / MICRO for one in found]
    log_slack = -math.log(float(exact(slack)))
    mean = math.fsum(loss * math.tanh(loss / 2) for loss in losses)
    spread = math.sqrt(2 * log_slack * math.fsum(loss * loss for loss in losses))
    epsilon = units_up(Fraction((mean + spread) * _FLOAT_MARGIN), MICRO)
    if epsilon >= total.micro_epsilon:
        return total
    return Cost(epsilon, 0, total.nano_delta + units_up(slack, NANO))


def numerical(costs: Iterable[Cost], slack: Number) -> Cost:
    """Add up answers that were all fixed beforehand, by their privacy loss distributions: the least ε known at a δ.

    Each answer counts as the worst mechanism of its (ε, δ); the distributions are rounded up on a grid and convolved,
    and the ε at δ = slack + Σ δᵢ is read off and rounded up. Never more than `sequential` in ε. Valid for a batch whose
    questions and prices stand before the first answer is seen, and for nothing else: it must not decide whether one
    more question is answered, as `PrivacyFilter` does. Needs the package dp-accounting.

    Complexity: one Fourier transform per different cost.

    References
    ----------
    Koskela, Jälkö & Honkela (2020); Doroshenko, Ghazi, Kamath, Kumar & Manurangsi (2022), connect the dots.

    Examples
    --------
    >>> numerical([Cost(100_000)] * 100, slack=1e-6).micro_epsilon / 1e6 < 4.8
    True
    """
    found = _without_rho(costs, slack)
    total, delta = sequential(found), float(exact(slack))
    paid = Counter(one for one in found if one != FREE)
    if not paid:
        return FREE
    try:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        raise MissingLibrary("numerical composition needs a library; pip install dp-accounting") from None
    whole = None
    for one, times in paid.items():
        worst = common.DifferentialPrivacyParameters(one.micro_epsilon / MICRO, one.nano_delta / NANO)
        each = pld.from_privacy_parameters(worst, value_discretization_interval=_GRID).self_compose(times)
        whole = each if whole is None else whole.compose(each)
    read = math.inf if whole is None else whole.get_epsilon_for_delta(delta + total.nano_delta / NANO)
    epsilon = units_up(Fraction(max(0.0, read) * _FLOAT_MARGIN), MICRO) if math.isfinite(read) else total.micro_epsilon
    if epsilon >= total.micro_epsilon:
        return total
    return Cost(epsilon, 0, total.nano_delta + units_up(slack, NANO))
