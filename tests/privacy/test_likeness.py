from __future__ import annotations

import math

import polars as pl
import pytest

import discretion as dc

NAMED = {"columns": ["q"], "sensitive": ["s"]}
TABLE = pl.DataFrame({"q": [1] * 4 + [2] * 4, "s": list("xxxyxyyy")})


def test_basic_likeness_by_hand() -> None:
    verdict = dc.BetaLikeness(beta=0.5, enhanced=False, **NAMED)(TABLE)
    assert verdict.value == 0.5 and verdict.holds
    assert not dc.BetaLikeness(beta=0.49, enhanced=False, **NAMED)(TABLE).holds


def test_enhanced_likeness_bounds_frequent_values() -> None:
    frame = pl.DataFrame({"q": [1] * 5 + [2] * 5, "s": ["x"] * 5 + ["x"] * 4 + ["y"]})
    # x: P = 0.9, Q = 1 in class 1: gain 1/9 above −ln 0.9 = 0.105
    basic = dc.BetaLikeness(beta=2, enhanced=False, sensitive=["s"], columns=["q"])(frame)
    enhanced = dc.BetaLikeness(beta=2, sensitive=["s"], columns=["q"])(frame)
    assert basic.holds and not enhanced.holds
    assert enhanced.value == pytest.approx(2 * (1 / 9) / -math.log(0.9))
    assert [item.key for item in enhanced.failing] == [{"q": "1"}]


def test_a_column_with_one_value_tells_nothing() -> None:
    frame = pl.DataFrame({"q": [1, 2], "s": ["x", "x"]})
    assert dc.BetaLikeness(beta=0.1, **NAMED)(frame).value == 0
    assert dc.DeltaDisclosure(delta=0.1, **NAMED)(frame).value == 0


def test_delta_disclosure_is_strict() -> None:
    verdict = dc.DeltaDisclosure(delta=1, **NAMED)(TABLE)
    assert verdict.value == 1 and not verdict.holds  # Q/P = 1/2
    assert dc.DeltaDisclosure(delta=1.001, **NAMED)(TABLE).holds


def test_delta_disclosure_and_values_that_do_not_occur() -> None:
    frame = pl.DataFrame({"q": [1] * 3 + [2] * 3, "s": list("xyzxyy")})
    strict = dc.DeltaDisclosure(delta=5, **NAMED)(frame)
    assert math.isinf(strict.value) and strict.failing_count == 1
    assert strict.detail["classes_without_some_value"] == {"s": 1}
    lenient = dc.DeltaDisclosure(delta=5, absent="ignore", **NAMED)(frame)
    assert lenient.holds and lenient.value == pytest.approx(1.0)


def test_alpha_k_reports_share_and_size() -> None:
    verdict = dc.AlphaK(alpha=0.8, k=5, **NAMED)(TABLE)
    assert verdict.value == 0.75 and not verdict.holds
    assert verdict.detail["k"] == 4 and verdict.failing_count == 2
    assert "smallest class 4, required 5" in verdict.meaning
    assert dc.AlphaK(alpha=0.75, k=4, **NAMED)(TABLE).holds
    assert not dc.AlphaK(alpha=0.7, k=4, **NAMED)(TABLE).holds
    assert not dc.PSensitive(p=2, k=5, **NAMED)(TABLE).holds
