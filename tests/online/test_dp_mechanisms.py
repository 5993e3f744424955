"""Mechanisms: the right amount of noise, the library's own account within the claim, nothing that overflows."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.errors import PlanError, QueryRefused
from discretion.online.declare import ColumnSpec
from discretion.online.dp import mechanisms, sensitivity
from discretion.online.dp.answer import in_order
from discretion.online.dp.mechanisms import (
    Additive,
    ExponentialChoice,
    ExtremeValue,
    ModalCategory,
    PrivacyLoss,
    QuantileValue,
    RandomAnswer,
    ThresholdedCounts,
    scores,
    value_of_step,
)
from discretion.online.dp.sensitivity import Sensitivity, Unit
from discretion.privacy import accounting as shared
from discretion.privacy.accounting import LARGEST

pytest.importorskip("opendp")

ONE = sensitivity.counts(Unit())


def laplace_outside(scale: float, reach: int) -> float:
    q = math.exp(-1 / scale)
    return 2 * q ** (reach + 1) / (1 + q)


@given(st.floats(0.1, 1e6), st.floats(0.5, 0.9999))
def test_the_reach_of_laplace_noise_is_exact(scale: float, confidence: float) -> None:
    noise = Additive(ONE, PrivacyLoss("epsilon", Fraction(1 / scale)))
    reach = noise.accuracy(confidence)
    assert laplace_outside(noise.scale, reach) <= (1 - confidence) * (1 + 1e-9)
    assert reach == 0 or laplace_outside(noise.scale, reach - 1) > (1 - confidence) * (1 - 1e-9)


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_reach_of_gaussian_noise_is_enough_and_hardly_more(sd: float, confidence: float) -> None:
    noise = Additive(ONE, PrivacyLoss("rho", Fraction(1 / (2 * sd * sd))))
    weights = {d: math.exp(-d * d / (2 * noise.scale**2)) for d in range(-2000, 2001)}
    total = sum(weights.values())

    def inside(reach: int) -> float:
        return sum(weights[d] for d in range(-reach, reach + 1)) / total

    reach = noise.accuracy(confidence)
    assert inside(reach) >= confidence
    assert reach < 2 or inside(reach - 2) < confidence


def test_the_variance_of_laplace_noise() -> None:
    noise = Additive(ONE, PrivacyLoss.micro_epsilon(500_000))
    q = math.exp(-1 / noise.scale)
    law = [(1 - q) / (1 + q) * q ** abs(d) for d in range(-200, 201)]
    assert noise.variance == pytest.approx(sum(p * d * d for p, d in zip(law, range(-200, 201), strict=True)))


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 10**6), st.integers(1, 2**31), st.sampled_from(["epsilon", "rho"]))
def test_the_library_never_charges_more_than_was_allowed(units: int, step: int, measure: str) -> None:
    sizes = Sensitivity(1, step, step * step, step, "")
    loss = PrivacyLoss.micro_epsilon(units) if measure == "epsilon" else PrivacyLoss.nano_rho(units * 1000)
    spends: list[float] = []
    told = mechanisms.checked

    def listen(made: object, spent: float, allowed: Fraction) -> object:
        spends.append(spent)
        return told(made, spent, allowed)

    with pytest.MonkeyPatch.context() as patch:
        for room in (mechanisms, shared):
            patch.setattr(room, "checked", listen)
        Additive(sizes, loss).prepare()
    (spent,) = spends
    assert loss.amount * Fraction(999_999, 10**6) <= Fraction(spent) <= loss.amount


def test_a_mechanism_that_costs_too_much_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (mechanisms, shared):
        monkeypatch.setattr(room, "scale_above", lambda value: value / 2)
    for loss in (PrivacyLoss.micro_epsilon(1_000_000), PrivacyLoss.nano_rho(1_000_000)):
        with pytest.raises(PlanError, match="nothing was drawn"):
            Additive(ONE, loss).release([1])


def test_huge_figures_and_huge_noise_do_not_wrap_around() -> None:
    noise = Additive(ONE, PrivacyLoss.micro_epsilon(1_000_000))
    high, low = noise.release([10**30, -(10**30)])
    assert abs(high - LARGEST) < 1000 and abs(low + LARGEST) < 1000
    with pytest.raises(QueryRefused, match="larger than any figure"):
        Additive(sensitivity.totals(Unit(), 0, 2**52), PrivacyLoss.micro_epsilon(1)).release([0])
    assert noise.release([]) == []


def test_no_loss_is_no_mechanism() -> None:
    with pytest.raises(PlanError, match="above 0"):
        PrivacyLoss.micro_epsilon(0)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "loss", [PrivacyLoss.micro_epsilon(700_000), PrivacyLoss.nano_rho(50_000_000)], ids=["epsilon", "rho"]
)
def test_the_threshold_is_the_least_that_keeps_to_delta(rows: int, adjacency: str, loss: PrivacyLoss) -> None:
    delta = Fraction(1, 10**4)
    found = ThresholdedCounts(sensitivity.people(Unit(rows, adjacency)), loss, delta)  # type: ignore[arg-type]
    scale, keys = found.noise.scale, found.sensitivity.l0
    if loss.measure == "epsilon":
        q = math.exp(-1 / scale)
        told = [q**k / (1 + q) for k in (found.threshold - 1, found.threshold - 2)]
        assert keys * told[0] <= delta < keys * told[1]
    else:
        weights = [math.exp(-d * d / (2 * scale**2)) for d in range(-400, 401)]
        told = [sum(weights[400 + k :]) / sum(weights) for k in (found.threshold - 1, found.threshold - 3)]
        assert keys * told[0] <= delta < keys * told[1]
    assert found._measurement is not None


def test_thresholded_counts_keep_large_keys_and_drop_small_ones_without_order() -> None:
    found = ThresholdedCounts(sensitivity.people(Unit()), PrivacyLoss.micro_epsilon(1_000_000), Fraction(1, 10**9))
    released = found.release({9: 5000, 1: 1, 4: 4000, 0: 3000})
    assert list(released) == [0, 4, 9]
    assert all(value >= found.threshold for value in released.values())
    with pytest.raises(QueryRefused, match="δ above 0"):
        ThresholdedCounts(sensitivity.people(Unit()), PrivacyLoss.micro_epsilon(1), Fraction(0))
    assert sorted([("b",), (None,), ("a",)], key=in_order) == [("a",), ("b",), (None,)]


def test_two_coins_tell_the_truth_three_times_in_four() -> None:
    coins = RandomAnswer(("yes", "no"), PrivacyLoss("epsilon", Fraction(math.log(3))))
    assert coins.truth == pytest.approx(0.75, abs=1e-9)
    share, error = coins.estimate(["yes"] * 400 + ["no"] * 600, "yes")
    assert share == pytest.approx(2 * 0.4 - 0.5, abs=1e-6)
    assert error == pytest.approx(0.03098, abs=1e-4)
    with pytest.raises(PlanError, match="two different"):
        RandomAnswer(("yes",), PrivacyLoss.micro_epsilon(1))
    with pytest.raises(PlanError, match="declared categories"):
        coins.release(["perhaps"])


# --- quantiles ----------------------------------------------------------------------------------------------------

AGE = ColumnSpec(role="sensitive", type="number", bounds=(0, 80), grid=8)
MUCH = PrivacyLoss.micro_epsilon(200_000_000)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(-40, 40), st.integers(1, 9))
def test_one_step_always_scores_zero_and_scores_are_distances(bins: list[int], target: int, part: int) -> None:
    found = scores(bins, part, 10, target)
    assert max(found) == 0
    data = [step + 0.5 for step, count in enumerate(bins) for _ in range(count)]
    for step, score in enumerate(found):
        g = [
            (10 - part) * sum(x < border for x in data) - part * sum(x >= border for x in data)
            for border in (step, step + 1)
        ]
        low = -math.inf if step == 0 else g[0]
        high = math.inf if step == len(bins) - 1 else g[1]
        assert score == -max(0, low - target, target - high)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 300), min_size=8, max_size=8), st.sampled_from([0.1, 0.5, 0.9]))
def test_with_little_noise_the_interval_holds_the_quantile(bins: list[int], share: float) -> None:
    found = QuantileValue(AGE, share, Unit(), MUCH, 0.999).find(bins)
    data = sorted(10 * step + 5 for step, count in enumerate(bins) for _ in range(count))
    assert found.lower <= found.value <= found.upper
    if data:
        low, high = data[max(0, math.ceil(share * len(data)) - 1)], data[min(len(data) - 1, int(share * len(data)))]
        assert found.lower <= high and found.upper >= low


@pytest.mark.parametrize(
    "loss", [PrivacyLoss.micro_epsilon(500_000), PrivacyLoss.nano_rho(30_000_000)], ids=["epsilon", "rho"]
)
def test_intervals_of_quantiles_cover_as_often_as_they_say(loss: PrivacyLoss) -> None:
    bins = [0, 5, 80, 3, 0, 0, 40, 2]
    median = QuantileValue(AGE, 0.5, Unit(), loss, 0.9)
    covered = sum(found.lower <= 25 <= found.upper for found in (median.find(bins) for _ in range(300)))
    assert covered >= 245


def test_a_minimum_leaves_few_records_outside() -> None:
    bins = [0, 0, 30, 500, 500, 500, 40, 0]
    for which, inside in (("min", (2, 3)), ("max", (5, 6))):
        found = ExtremeValue(AGE, which, Unit(), PrivacyLoss.micro_epsilon(3_000_000), 0.999999)  # type: ignore[arg-type]
        steps = {int(found.find(bins).value // 10) for _ in range(100)}
        assert steps <= set(inside)
    assert found.rank_error == 2 * found.target - 1


def test_steps_of_integers_stand_for_integers() -> None:
    whole = ColumnSpec(role="sensitive", type="integer", bounds=(0, 100), grid=100)
    assert value_of_step(whole, 37) == 37
    coarse = ColumnSpec(role="sensitive", type="integer", bounds=(0, 100), grid=8)
    assert value_of_step(coarse, 1) == 13
    assert value_of_step(AGE, 1) == 15


def test_choices_need_candidates_and_the_mode_is_likely() -> None:
    with pytest.raises(PlanError, match="at least one"):
        ExponentialChoice(sensitivity.mode_scores(Unit()), MUCH).choose([])
    letters = ColumnSpec(role="sensitive", type="category", categories=("a", "b"))
    mode = ModalCategory(letters, Unit(2, "replace"), PrivacyLoss.micro_epsilon(2_000_000), 0.95)
    assert mode.find([1, 500]) == "b"
    assert mode.count_error == math.ceil(2 * 2 / 2 * (1 + 2.0**-40) * math.log(2 / 0.05))
