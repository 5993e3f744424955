from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.risk.synthetic.records import Rate, excess_risk, wilson


def test_wilson_check_values() -> None:
    # Newcombe (1998), Table I, method 3
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_wilson_solves_the_score_equation() -> None:
    z = 1.959963984540054
    for successes, trials in ((3, 17), (40, 90), (99, 100)):
        for bound in wilson(successes, trials):
            assert abs(successes / trials - bound) == pytest.approx(z * np.sqrt(bound * (1 - bound) / trials), rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_risk_lies_in_its_interval(n: int, m: int, data: st.DataObject, confidence: float) -> None:
    attack = Rate(data.draw(st.integers(0, n)), n)
    control = Rate(data.draw(st.integers(0, m - 1)), m)
    risk = excess_risk(attack, control, confidence)
    assert risk.value == pytest.approx((attack.share - control.share) / (1 - control.share))
    assert risk.low <= risk.value + 1e-12
    assert risk.value <= risk.high + 1e-12
    assert risk.high <= 1 + 1e-12
    assert np.isfinite(risk.low)


def test_extremes() -> None:
    assert excess_risk(Rate(50, 50), Rate(0, 50)).value == 1.0
    assert excess_risk(Rate(50, 50), Rate(49, 50)).value == 1.0
    assert excess_risk(Rate(0, 50), Rate(0, 50)).value == 0.0
    assert excess_risk(Rate(0, 50), Rate(25, 50)).value == -1.0
    with pytest.raises(dc.DataError, match="true of everybody"):
        excess_risk(Rate(1, 2), Rate(2, 2))
    with pytest.raises(ValueError, match="3 successes of 2 trials"):
        wilson(3, 2)


@pytest.mark.parametrize(("a", "c"), [(0.3, 0.3), (0.9, 0.2), (0.05, 0.02), (0.99, 0.9)])
def test_interval_covers_the_true_risk_as_often_as_it_says(a: float, c: float) -> None:
    rng = np.random.default_rng(5)
    true = (a - c) / (1 - c)
    runs = 1500
    covered = 0
    for _ in range(runs):
        attack, control = Rate(int(rng.binomial(200, a)), 200), Rate(int(rng.binomial(150, c)), 150)
        if control.successes == control.trials:
            continue
        risk = excess_risk(attack, control)
        covered += risk.low <= true <= risk.high
    assert 0.925 < covered / runs < 0.985
