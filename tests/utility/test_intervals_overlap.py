from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

Z = 1.959963984540054


def test_means_by_hand() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=50), rng.normal(0.2, 2, size=80)
    ends = []
    for data in (x, y):
        half = Z * data.std(ddof=1) / np.sqrt(len(data))
        ends.append((data.mean() - half, data.mean() + half))
    common = min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0])
    wanted = (common / (ends[0][1] - ends[0][0]) + common / (ends[1][1] - ends[1][0])) / 2
    score = dc.IntervalOverlap(columns=["a"])(pl.DataFrame({"a": x}), pl.DataFrame({"a": y}))
    assert score.value == pytest.approx(wanted)
    assert score.detail["estimates"]["a"]["original"] == pytest.approx(list(ends[0]))


def test_shares_of_categories_and_disjoint_intervals() -> None:
    x, y = pl.DataFrame({"a": ["u"] * 50 + ["v"] * 50}), pl.DataFrame({"a": ["u"] * 95 + ["v"] * 5})
    score = dc.IntervalOverlap(columns=["a"])(x, y)
    assert score.value == 0
    assert score.detail["disjoint"] == 2
    assert dc.IntervalOverlap(columns=["a"])(x, x).value == 1


def test_two_samples_overlap_as_the_docstring_says() -> None:
    rng = np.random.default_rng(1)
    found = [
        dc.IntervalOverlap(columns=["a"])(*(pl.DataFrame({"a": rng.normal(size=100)}) for _ in range(2))).value
        for _ in range(300)
    ]
    assert np.mean(found) == pytest.approx(0.71, abs=0.03)


def test_constants() -> None:
    same = pl.DataFrame({"a": [1.0, 1, 1]})
    assert dc.IntervalOverlap(columns=["a"])(same, same).value == 1
    assert dc.IntervalOverlap(columns=["a"])(same, same * 2).value == 0
    assert dc.IntervalOverlap(columns=["a"])(same, pl.DataFrame({"a": [0.0, 1, 2]})).value == 0.5


def test_regression_against_numpy() -> None:
    rng = np.random.default_rng(2)
    frames = []
    for n in (200, 150):
        x, g = rng.normal(size=n), rng.choice(list("uv"), n)
        w = rng.uniform(0.5, 3, n)
        frames.append(pl.DataFrame({"x": x, "g": g, "y": 2 * x + (g == "v") + rng.normal(size=n) * (1 + x**2), "w": w}))
    roles = {"x": "quasi", "g": "quasi", "y": "sensitive", "w": "weight"}
    score = dc.IntervalOverlap(target="y", columns=["x", "g"])(*(dc.Dataset(f, roles=roles) for f in frames))
    intervals = []
    for frame in frames:
        design = np.column_stack([np.ones(len(frame)), frame["x"], frame["g"] == "u"]).astype(float)
        w, y = frame["w"].to_numpy(), frame["y"].to_numpy()
        bread = np.linalg.inv(design.T @ (design * w[:, None]))
        beta = bread @ design.T @ (w * y)
        scores = design * (w * (y - design @ beta))[:, None]
        se = np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * len(frame) / (len(frame) - 3))
        intervals.append(np.column_stack([beta - Z * se, beta + Z * se]))
    for place, name in enumerate(["(constant)", "x", "g = u"]):
        assert score.detail["estimates"][name]["original"] == pytest.approx(intervals[0][place], rel=1e-8)
        assert score.detail["estimates"][name]["released"] == pytest.approx(intervals[1][place], rel=1e-8)
    assert score.detail["intervals"] == 3


def test_regression_sees_a_lost_dependence() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    original = pl.DataFrame({"x": x, "y": x + rng.normal(size=400)})
    broken = original.with_columns(pl.Series("y", rng.permutation(original["y"].to_numpy())))
    assert dc.IntervalOverlap(columns=["x", "y"])(original, broken).value == pytest.approx(1)
    slope = dc.IntervalOverlap(columns=["x"], target="y")(original, broken).detail["estimates"]["x"]
    assert slope["overlap"] == 0
    assert slope["shift_in_standard_errors"] > 10


def test_bad_input() -> None:
    x = pl.DataFrame({"a": [1.0, 2, 3], "g": list("uvw")})
    with pytest.raises(dc.PlanError, match="cannot explain itself"):
        dc.IntervalOverlap(columns=["a", "g"], target="a")(x, x)
    with pytest.raises(dc.DataError, match="not a number"):
        dc.IntervalOverlap(columns=["a"], target="g")(x, x)
    with pytest.raises(dc.DataError, match="3 records for 3 coefficients"):
        dc.IntervalOverlap(columns=["g"], target="a")(x, x)
    with pytest.raises(dc.DataError, match="fewer than two values"):
        dc.IntervalOverlap(columns=["a"])(x, x.with_columns(pl.lit(None, pl.Float64).alias("a")))


def test_a_shift_is_counted_in_standard_errors_of_the_original() -> None:
    x = pl.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    error = np.std(x["a"].to_numpy(), ddof=1) / 2
    moved = dc.IntervalOverlap(columns=["a"])(x, x + 0.5).detail["estimates"]["a"]
    assert moved["shift_in_standard_errors"] == pytest.approx(0.5 / error)
