from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, wasserstein_distance

import discretion as dc


def figures(x: pl.DataFrame, y: pl.DataFrame, column: str = "a", **more: object) -> dict[str, float]:
    found: dict[str, float] = dc.Marginals(columns=[column], **more)(x, y).detail["per_column"][column]
    return found


def test_categories_by_their_definitions() -> None:
    x, y = pl.DataFrame({"a": list("uuvvw")}), pl.DataFrame({"a": [*"uvvvv", None, *"uvvv"]})
    p, q = np.array([0.4, 0.4, 0.2, 0]), np.array([0.2, 0.7, 0, 0.1])
    found = figures(x, y)
    assert found["hellinger"] == pytest.approx(np.sqrt(1 - np.sqrt(p * q).sum()))
    assert found["total-variation"] == pytest.approx(np.abs(p - q).sum() / 2)
    assert found["kolmogorov"] == found["wasserstein"] == found["total-variation"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=2, max_size=40),
    st.lists(st.integers(-5, 5), min_size=2, max_size=40),
)
def test_numbers_as_scipy_compares_them(a: list[int], b: list[int]) -> None:
    found = figures(pl.DataFrame({"a": a}), pl.DataFrame({"a": b}))
    span = max(*a, *b) - min(*a, *b)
    assert found["kolmogorov"] == pytest.approx(ks_2samp(a, b, method="asymp").statistic, abs=1e-12)
    assert found["wasserstein"] == pytest.approx(wasserstein_distance(a, b) / span if span else 0.0, abs=1e-12)
    assert 0 <= found["total-variation"] <= found["hellinger"] * np.sqrt(2) + 1e-12 <= np.sqrt(2) + 1e-9
    assert found["hellinger"] ** 2 <= found["total-variation"] + 1e-12


def test_weights_are_repetitions() -> None:
    rng = np.random.default_rng(0)
    x = pl.DataFrame(
        {"a": rng.integers(0, 9, 40).astype(float), "b": rng.choice(list("xyz"), 40), "w": rng.integers(1, 5, 40)}
    )
    y = x.with_columns(pl.Series("a", rng.integers(0, 9, 40).astype(float)), pl.Series("w", rng.integers(1, 4, 40)))
    weighted = [dc.Dataset(frame, roles={"w": "weight", "a": "quasi", "b": "quasi"}) for frame in (x, y)]
    repeated = [frame.select(pl.exclude("w").repeat_by("w").explode()) for frame in (x, y)]
    for distance in ("hellinger", "total-variation", "kolmogorov", "wasserstein"):
        one = dc.Marginals(distance=distance)(*weighted).value
        assert one == pytest.approx(dc.Marginals(columns=["a", "b"], distance=distance)(*repeated).value, abs=1e-12)


def test_missing_counts() -> None:
    x, y = pl.DataFrame({"a": [1.0, 2, 3, 4]}), pl.DataFrame({"a": [1.0, None, None, 4]})
    found = figures(x, y)
    assert found["total-variation"] == pytest.approx(0.5)
    assert found["kolmogorov"] == pytest.approx(0.5)
    assert found["wasserstein"] == pytest.approx(0.5 * (1 / 4) * (2 / 3) + 0.5)
    gone = figures(x, pl.DataFrame({"a": [None] * 3}, schema={"a": pl.Float64}))
    assert [gone[name] for name in ("hellinger", "total-variation", "kolmogorov", "wasserstein")] == [1, 1, 1, 1]


def test_sizes_compare_and_a_generalized_column_has_nothing_in_common() -> None:
    rng = np.random.default_rng(0)
    for n in (300, 3000):
        x, y = pl.DataFrame({"a": rng.normal(size=n)}), pl.DataFrame({"a": rng.normal(0.5, 1, size=4 * n)})
        assert figures(x, y)["kolmogorov"] == pytest.approx(0.197, abs=0.06)
    cut = pl.DataFrame({"a": ["low", "high"] * 150})
    assert figures(pl.DataFrame({"a": rng.normal(size=300)}), cut)["hellinger"] == pytest.approx(1.0)


def test_value_is_the_mean_of_the_chosen_distance() -> None:
    x = pl.DataFrame({"a": list("uuvv"), "b": list("kkll")})
    y = pl.DataFrame({"a": list("uuvv"), "b": list("kkkk")})
    score = dc.Marginals(columns=["a", "b"], distance="total-variation")(x, y)
    assert score.value == 0.25
    assert "most for b" in score.meaning
