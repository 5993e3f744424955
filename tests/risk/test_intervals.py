from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError
from discretion.release.ranking import chance_of


def naive_rank_interval(true: np.ndarray, published: np.ndarray, percent: float) -> float:
    """R1 as the catalogue writes it, ties by the widest interval."""
    ranked = sorted(published)
    n, hits = len(ranked), 0
    w = int(percent * n / 200)
    for x, y in zip(true, published, strict=True):
        places = [i for i, v in enumerate(ranked) if v == y]
        low, high = ranked[max(places[0] - w, 0)], ranked[min(places[-1] + w, n - 1)]
        hits += low <= x <= high
    return hits / n


def test_rank_interval_against_the_definition() -> None:
    rng = np.random.default_rng(1)
    for percent in (2, 10, 55, 200):
        x = rng.integers(0, 12, 80).astype(float)
        y = x + rng.integers(-2, 3, 80)
        got = dc.RankInterval(columns=["x"], percent=percent)(
            pl.DataFrame({"x": x}), pl.DataFrame({"x": y}), align="position"
        ).value
        assert got == pytest.approx(naive_rank_interval(x, y, percent))


def test_sd_interval_against_the_definition() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 300))
    got = dc.SdInterval(columns=["x"], percent=30)(
        pl.DataFrame({"x": x}), pl.DataFrame({"x": y}), align="position"
    ).value
    assert got == pytest.approx(np.mean(np.abs(x - y) <= 0.3 * x.std(ddof=1)))


def test_interval_risk_counts_records_inside_in_all_columns() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    inside = np.abs(x - y) <= 0.5 * y.std(axis=0, ddof=1)
    names = ["a", "b"]
    score = dc.IntervalRisk(columns=names, sd_share=0.5)(
        pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names), align="position"
    )
    assert score.value == pytest.approx(inside.all(axis=1).mean())
    assert score.detail["per_column"] == pytest.approx(dict(zip(names, inside.mean(axis=0), strict=True)))


def test_suppressed_values_are_safe_and_unknown_ones_left_out() -> None:
    x = pl.DataFrame({"x": [1.0, 2.0, 3.0, None, 5.0]})
    y = pl.DataFrame({"x": [1.0, None, 9.0, 4.0, 5.0]})
    score = dc.SdInterval(columns=["x"], percent=1)(x, y)
    assert score.value == pytest.approx(2 / 4)
    assert score.detail["values_tested"] == 4


def test_chance_level_is_what_independent_values_reach() -> None:
    rng = np.random.default_rng(4)
    x, y = (pl.DataFrame({"x": rng.normal(size=20_000)}) for _ in range(2))
    score = dc.IntervalRisk(columns=["x"], sd_share=0.2)(x, y, align="position")
    assert score.value == pytest.approx(score.detail["chance"], abs=0.01)


def test_a_column_without_values_cannot_be_attacked() -> None:
    x = pl.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(dc.DataError, match="has no values to attack"):
        dc.IntervalRisk(columns=["x"])(x, pl.DataFrame({"x": [None, None]}, schema={"x": pl.Float64}))


def test_a_single_record_published_as_it_is_is_disclosed() -> None:
    one = pl.DataFrame({"x": [3.0]})
    for measure in (dc.SdInterval(columns=["x"]), dc.IntervalRisk(columns=["x"]), dc.RankInterval(columns=["x"])):
        assert measure(one, one).value == 1.0


def test_per_record_counts_the_values_there_are_and_hidden_ones_are_said() -> None:
    true = pl.DataFrame({"x": [1.0, 2.0, None, None], "y": [1.0, None, 5.0, None]})
    shown = pl.DataFrame({"x": [1.0, None, None, 9.0], "y": [1.0, None, 5.0, None]})
    score = dc.SdInterval(columns=["x", "y"])(true, shown)
    np.testing.assert_array_equal(score.per_record, [1.0, 0.0, 1.0, np.nan])
    assert score.detail["values_hidden"] == 1
    assert "missing in the release and count as safe" in score.meaning
    assert dc.IntervalRisk(columns=["x", "y"])(true, shown).detail["values_hidden"] == 1


def test_the_baseline_knows_the_best_guess_for_everybody() -> None:
    """A third of the incomes are 0: whoever says 0 for everybody is right for them, random matching far less often."""
    rng = np.random.default_rng(5)
    x = np.where(rng.random(3000) < 1 / 3, 0.0, rng.lognormal(10, 1, 3000))
    frame = pl.DataFrame({"x": x})
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=0.5)(frame, seed=1)
    for measure in (dc.IntervalRisk(columns=["x"], sd_share=0.05), dc.SdInterval(columns=["x"], percent=5)):
        score = measure(frame, noisy)
        tolerance = 0.05 * np.std(noisy["x"].to_numpy() if measure.kind == "interval-risk" else x, ddof=1)
        best = max(np.mean(np.abs(x - guess) <= tolerance) for guess in np.linspace(0, 60_000, 300))
        assert score.detail["best_constant"] == pytest.approx(best, abs=0.05)
        assert chance_of(score) == score.detail["best_constant"] > 2 * score.detail["chance"]


@pytest.mark.parametrize("measure", [dc.RankInterval, dc.SdInterval, dc.IntervalRisk])
def test_more_records_than_the_single_guess_looks_at(measure: Any) -> None:
    rng = np.random.default_rng(3)
    true = rng.exponential(100, 30_000)
    true[::7] = np.nan
    noisy = np.where(rng.random(30_000) < 0.2, np.nan, true + rng.normal(0, 50, 30_000))
    large = measure(columns=["x"])(frame := pl.DataFrame({"x": true}), pl.DataFrame({"x": noisy}), align="position")
    small = measure(columns=["x"])(frame[::3], pl.DataFrame({"x": noisy[::3]}), align="position")
    assert large.detail["best_constant"] == pytest.approx(small.detail["best_constant"], abs=0.02)


def test_outliers_have_wider_intervals_and_nobody_near_them() -> None:
    rng = np.random.default_rng(3)
    bulk = rng.normal(size=(400, 2))
    true = np.vstack([bulk, [[40.0, -40.0], [0.0, 0.0], [np.nan, 1.0]]])
    shown = true + 0.2 * rng.normal(size=true.shape)
    shown[400] = true[400] + 0.2  # moved as much as the others, and still recognized
    original, released = (pl.DataFrame(x, schema=["a", "b"]) for x in (true, shown))
    score = dc.OutlierInterval(columns=["a", "b"], sd_share=0.002)(original, released, align="position")
    assert score.per_record is not None and score.detail["records_tested"] == 402
    assert score.per_record[400] and not score.per_record[402]
    assert 0 < score.detail["isolated"] <= score.value < 0.2
    assert score.detail["weighted"] > score.value  # who is found is far out
    same = dc.OutlierInterval(columns=["a", "b"])(original, original)
    assert same.value == 1.0 > same.detail["chance"]
    gone = released.with_columns(a=pl.lit(None, pl.Float64), b=pl.lit(1.0))
    with pytest.raises(DataError, match="'a' does not vary"):
        dc.OutlierInterval(columns=["a", "b"])(original, gone, align="position")


def test_isolation_as_a_matrix_of_all_pairs_tells_it() -> None:
    rng = np.random.default_rng(4)
    true = rng.normal(size=(120, 3))
    shown = np.round(true + 0.05 * rng.normal(size=true.shape), 1)  # ties
    original, released = (pl.DataFrame(x, schema=["a", "b", "c"]) for x in (true, shown))
    score = dc.OutlierInterval(columns=["a", "b", "c"], sd_share=0.02, isolation=0.2)(original, released)
    y = (shown - shown.mean(0)) / shown.std(0, ddof=1)
    pairs = np.linalg.norm(y[:, None] - y[None], axis=2) + np.diag(np.full(len(y), np.inf))
    assert score.per_record is not None
    assert score.detail["isolated"] == pytest.approx((score.per_record & (pairs.min(1) > 0.2)).mean())
