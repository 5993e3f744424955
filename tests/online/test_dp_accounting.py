"""Accounting never says less than was lost."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import PlanError
from discretion.online.declare import DpPolicy
from discretion.online.dp.answer import policy_budget, policy_cost, policy_filter
from discretion.online.dp.composition import advanced, numerical, parallel, parallel_replace, sequential
from discretion.privacy import accounting
from discretion.privacy.accounting import MICRO, NANO, Cost, PrivacyFilter, cost, epsilon_of_rho, nano_rho_within

amounts = st.floats(1e-9, 50, allow_nan=False)
deltas = st.floats(1e-9, 0.3)


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Give the exact δ of the Gaussian mechanism at ε (Balle & Wang 2018)."""
    from scipy.stats import norm

    mu = math.sqrt(2 * rho)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def exact_delta(epsilon: float, answers: int, total: float) -> float:
    """Give the exact δ of `answers` randomized responses together: what no composition may undercut."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    found = 0.0
    for yes in range(answers + 1):
        ways = math.comb(answers, yes)
        a, b = p**yes * (1 - p) ** (answers - yes), (1 - p) ** yes * p ** (answers - yes)
        found += ways * max(0.0, a - math.exp(total) * b)
    return found


@pytest.mark.parametrize("amount", [-1, 2**62 + 1, 0.5, True])
def test_amounts_are_whole_numbers_in_range(amount: float) -> None:
    with pytest.raises(PlanError, match="micro_epsilon"):
        Cost(micro_epsilon=amount)  # type: ignore[arg-type]


def test_written_decimals_are_taken_as_written() -> None:
    assert cost(epsilon=0.1, rho=0.1, delta=1e-9) == Cost(100_000, 100_000_000, 1)
    assert cost(epsilon=0.1 + 0.2).micro_epsilon == 300_001


@given(amounts, deltas)
def test_costs_are_rounded_up_and_budgets_down(epsilon: float, delta: float) -> None:
    spent, limit = (
        cost(epsilon=epsilon, rho=epsilon, delta=delta),
        PrivacyFilter(epsilon, delta).left(Cost(), "approximate"),
    )
    written = Fraction(repr(epsilon))
    assert Fraction(spent.micro_epsilon, MICRO) >= written > Fraction(spent.micro_epsilon - 1, MICRO)
    assert Fraction(spent.nano_rho, NANO) >= written
    assert Fraction(limit.micro_epsilon, MICRO) <= written
    assert Fraction(limit.nano_delta, NANO) <= Fraction(repr(delta)) <= Fraction(spent.nano_delta, NANO)


@settings(deadline=None)
@given(st.floats(1e-6, 20), st.floats(1e-9, 0.3))
def test_concentrated_privacy_converts_to_no_less_than_the_gaussian_loses(rho: float, delta: float) -> None:
    epsilon = epsilon_of_rho(rho, delta)
    assert gaussian_delta(rho, epsilon) <= delta * (1 + 1e-6) + 1e-12
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-6


def test_the_conversion_agrees_with_the_library() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    for scale in (0.7, 2.0, 30.0):
        map_ = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1)
        for delta in (1e-3, 1e-6):
            assert epsilon_of_rho(1 / (2 * scale**2), delta) == pytest.approx(map_.epsilon(delta), rel=1e-4)


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-3, 10), st.floats(1e-9, 0.1))
def test_the_budget_of_concentrated_privacy_is_the_largest_that_fits(epsilon: float, delta: float) -> None:
    nano = nano_rho_within(epsilon, delta)
    assert epsilon_of_rho(Fraction(nano, NANO), delta) <= epsilon < epsilon_of_rho(Fraction(nano + 1, NANO), delta)


@pytest.mark.parametrize("accountant", ["pure", "approximate", "zcdp"])
def test_a_budget_spent_in_many_answers_stays_within_what_was_promised(accountant: str) -> None:
    policy = DpPolicy(mode="dp", epsilon=2, delta=1e-5, accountant=accountant, epsilon_per_query=0.03)  # type: ignore[arg-type]
    limit, each = policy_filter(policy), policy_cost(policy)
    answers = 0
    spent = Cost()
    while limit.admits(spent + each):
        spent += each
        answers += 1
    epsilon, delta = accounting.as_epsilon_delta(spent, policy.delta / 2)
    assert epsilon <= policy.epsilon and delta <= policy.delta
    assert answers == 66 if accountant != "zcdp" else answers > 1000
    left = limit.left(spent, policy.accountant)
    assert limit.left(Cost(), policy.accountant) == policy_budget(policy) and not left.covers(each)


spendings = st.builds(Cost, st.integers(0, 3 * MICRO), st.integers(0, NANO // 2), st.integers(0, 40))


@settings(deadline=None, max_examples=30)
@given(spendings, spendings, st.floats(0.1, 5), st.sampled_from([0, 1e-6, 1e-8]))
def test_nothing_that_was_spent_is_forgiven(one: Cost, more: Cost, epsilon: float, delta: float) -> None:
    """What fits is within (ε, δ) whatever it was spent in, and who spent more never has more left."""
    limit = PrivacyFilter(epsilon, delta)
    if limit.admits(one):
        read = float(delta) / 2 if one.nano_rho else 0
        found, slack = accounting.as_epsilon_delta(one, read)
        assert found <= epsilon * (1 + 1e-9) and slack <= delta * (1 + 1e-9)
    assert not limit.admits(one + more) or limit.admits(one)
    for accountant in ("pure", "approximate", "zcdp"):
        before, after = limit.left(one, accountant), limit.left(one + more, accountant)  # type: ignore[arg-type]
        assert before.covers(after)
        if limit.admits(one):
            assert limit.admits(one + before) or (accountant == "approximate" and one.nano_rho == 0)
            assert not limit.admits(one + before + Cost(3, 3 if accountant == "zcdp" else 0))


def test_pure_spending_beside_concentrated_is_what_the_gaussian_and_the_worst_of_pure_lose() -> None:
    """E + ε(R, δ/2) covers the exact loss of a Gaussian beside an answer that always loses its whole ε."""
    limit, gaussian = PrivacyFilter(1.0, 1e-5), Cost(0, 20_000_000)
    most = limit.left(gaussian, "pure").micro_epsilon / MICRO
    assert 0.1 < most < 1 and gaussian_delta(0.02, 1 - most) <= 1e-5 / 2
    assert limit.left(Cost(), "zcdp").nano_rho > limit.left(Cost(500_000), "zcdp").nano_rho > 0
    assert PrivacyFilter(5).left(gaussian, "pure") == Cost()  # without δ nothing covers it


def test_sequential_and_parallel_composition() -> None:
    first, second = Cost(100_000, 0, 3), Cost(250_000, 0, 1)
    assert sequential([first, second]) == Cost(350_000, 0, 4)
    assert parallel([first, second]) == Cost(250_000, 0, 3)
    assert parallel_replace([first, second, Cost(1)]) == Cost(350_000, 0, 4)
    assert sequential([]) == parallel([]) == Cost()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.floats(0.001, 1.0), st.floats(1e-9, 0.1))
def test_advanced_composition_never_undercuts_the_exact_loss(answers: int, epsilon: float, slack: float) -> None:
    each = cost(epsilon=epsilon)
    found = advanced([each] * answers, slack)
    assert found.micro_epsilon <= sequential([each] * answers).micro_epsilon
    true = exact_delta(epsilon, answers, found.micro_epsilon / MICRO)
    assert true <= found.nano_delta / NANO + 1e-12


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.floats(1e-9, 0.1))
def test_advanced_composition_is_rounded_up(epsilons: list[float], slack: float) -> None:
    getcontext().prec = 40
    costs = [cost(epsilon=e) for e in epsilons]
    losses = [Decimal(c.micro_epsilon) / MICRO for c in costs]
    mean = sum(e * (e.exp() - 1) / (e.exp() + 1) for e in losses)
    spread = (2 * (1 / Decimal(slack)).ln() * sum(e * e for e in losses)).sqrt()
    found = Decimal(advanced(costs, slack).micro_epsilon) / MICRO
    assert found >= min(mean + spread, sum(losses))


def test_wrong_accounting_is_refused() -> None:
    with pytest.raises(PlanError, match="needs a δ"):
        policy_budget(DpPolicy(mode="dp", epsilon=1, accountant="zcdp"))
    with pytest.raises(PlanError, match="privacy budget"):
        PrivacyFilter(0)
    with pytest.raises(PlanError, match="δ between"):
        epsilon_of_rho(0.1, 0)
    with pytest.raises(PlanError, match="finite"):
        cost(epsilon=math.inf)
    with pytest.raises(PlanError, match="ρ already"):
        advanced([Cost(0, 5)], 1e-6)
    with pytest.raises(PlanError, match="slack"):
        advanced([Cost(5)], 0)


def test_budgets_add_and_the_larger_counts_side_by_side() -> None:
    a, b = dc.DifferentialPrivacy(epsilon=0.1, delta=1e-7), dc.DifferentialPrivacy(epsilon=0.2)
    assert (a + b) == dc.DifferentialPrivacy(epsilon=0.3, delta=1e-7)
    assert (a | b) == dc.DifferentialPrivacy(epsilon=0.2, delta=1e-7)
    assert (a + b).covers(a | b) and not a.covers(b)
    assert dc.DifferentialPrivacy(epsilon=0.5).laplace_scale(1) == 2
    swap = {"adjacency": "replace"}
    c, d = (dc.DifferentialPrivacy(epsilon=e, **swap) for e in (0.1, 0.2))
    assert (c | d).epsilon == 0.3


def test_budgets_that_mean_nothing_are_refused() -> None:
    with pytest.raises(PlanError, match="epsilon"):
        dc.DifferentialPrivacy(epsilon=0)
    with pytest.raises(PlanError, match="cannot be put together"):
        dc.DifferentialPrivacy(epsilon=1) + dc.DifferentialPrivacy(epsilon=1, adjacency="replace")
    with pytest.raises(PlanError, match="reaches 1"):
        dc.DifferentialPrivacy(epsilon=1, delta=0.6) + dc.DifferentialPrivacy(epsilon=1, delta=0.6)


@pytest.mark.parametrize(("epsilon", "answers"), [(0.1, 60), (0.5, 20), (1.0, 5)])
def test_a_fixed_batch_costs_at_most_what_theorems_say_and_at_least_the_truth(epsilon: float, answers: int) -> None:
    """Between the exact δ of randomized responses together and the bounds that hold on paper."""
    batch, slack = [cost(epsilon=epsilon)] * answers, 1e-5
    found = numerical(batch, slack)
    assert found.micro_epsilon <= advanced(batch, slack).micro_epsilon <= sequential(batch).micro_epsilon
    assert exact_delta(epsilon, answers, found.micro_epsilon / MICRO) <= slack * (1 + 1e-9)
    assert exact_delta(epsilon, answers, 0.98 * found.micro_epsilon / MICRO) > slack, "nearly the least"


@pytest.mark.parametrize("seed", range(8))
def test_a_fixed_batch_of_different_costs_against_every_combination_of_outcomes(seed: int) -> None:
    """The worst mechanisms of several (ε, δ) together, outcome by outcome: the ε found is enough, and hardly more."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([10_000, 50_000, 123_457, 300_000, 700_001, 1_500_000], rng.integers(2, 10))
    batch = [Cost(int(size), 0, int(rng.choice([0, 10, 1000]))) for size in sizes]
    slack = float(rng.choice([1e-3, 1e-6]))
    allowed = slack + sum(one.nano_delta for one in batch) / NANO
    signs = np.array(list(itertools.product((1, -1), repeat=len(batch))))
    losses = signs * np.array([one.micro_epsilon / MICRO for one in batch])
    kept = math.prod(1 - one.nano_delta / NANO for one in batch)

    def delta(epsilon: float) -> float:
        loss, chance = losses.sum(axis=1), (1 / (1 + np.exp(-losses))).prod(axis=1)
        return 1 - kept + kept * float((chance * np.maximum(0, -np.expm1(epsilon - loss))).sum())

    found = numerical(batch, slack).micro_epsilon / MICRO
    assert delta(found) <= allowed * (1 + 1e-9)
    assert delta(found - 0.002) > allowed, "two thousandths less would not be enough"


def test_what_cannot_be_composed_numerically() -> None:
    with pytest.raises(PlanError, match="ρ"):
        numerical([Cost(0, 5)], 1e-6)
    with pytest.raises(PlanError, match="slack"):
        numerical([Cost(5)], 0)
    assert numerical([], 1e-6) == Cost()
    assert numerical([Cost(1_000_000)], 1e-9) == Cost(1_000_000), "one answer is worth its ε"
    both = numerical([Cost(100_000, 0, 10)] * 50, 1e-6)
    assert both.nano_delta == 500 + 1000 and both.micro_epsilon < 5_000_000


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_what_a_filter_admits_keeps_its_budget_by_privacy_loss_distributions(epsilon: float, share: float) -> None:
    """The dearest batch that a filter admits, pure answers and Gaussian noise mixed, is within (ε, δ) in truth."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    delta, answers = 1e-6, 8
    budget = PrivacyFilter(epsilon, delta)
    pure = cost(epsilon=share * epsilon / answers).micro_epsilon if share else 0
    left = budget.left(Cost(pure * answers), "zcdp").nano_rho // answers
    assert budget.admits(Cost(pure * answers, left * answers))
    assert not budget.admits(Cost(pure * answers, (left + 1000) * answers))
    sigma = math.sqrt(1 / (2 * left / NANO))
    whole = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3).self_compose(answers)
    if pure:
        worst = common.DifferentialPrivacyParameters(pure / MICRO, 0)
        step = pld.from_privacy_parameters(worst, value_discretization_interval=1e-3)
        whole = whole.compose(step.self_compose(answers))
    assert whole.get_epsilon_for_delta(delta) <= epsilon
