from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discretion.release.report.charts import FEWEST_IN_BAR, draw_histogram, histogram_of
from tests.release.report.html import read

values = st.one_of(
    arrays(np.float64, st.integers(1, 400), elements=st.floats(-1e6, 1e6, allow_subnormal=False)),
    arrays(np.float64, st.integers(1, 400), elements=st.integers(-20, 20).map(float)),
    arrays(np.float64, st.integers(50, 400), elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 1e9])),
)


@given(values, st.integers(0, 10))
@settings(max_examples=80, deadline=None)
def test_every_bar_stands_for_ten_original_records(x: np.ndarray, seed: int) -> None:
    y = x + np.random.default_rng(seed).normal(0, 1, len(x))
    found = histogram_of("x", x, y)
    if found is None:
        return
    assert min(found.counts) >= FEWEST_IN_BAR
    assert sum(found.counts) == len(x)
    assert list(found.edges) == sorted(set(found.edges))
    inside = np.searchsorted(found.edges, x, side="left")
    assert np.bincount(inside, minlength=len(found.edges) + 1).tolist() == list(found.counts)
    assert all(abs(share * 1000 - round(share * 1000)) < 1e-9 for share in (*found.original, *found.released))
    assert read(draw_histogram(found)).faults == []


@given(st.integers(100, 3000), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_edges_are_round_and_say_nothing_about_extremes(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).lognormal(8, 1.2, n)
    found = histogram_of("x", x, x)
    assert found is not None
    assert all(abs(edge / found.width - round(edge / found.width)) < 1e-6 for edge in found.edges)
    assert found.edges[-1] < x.max()
    assert float(f"{found.width:.0e}") == pytest.approx(found.width)


@pytest.mark.parametrize("x", [np.arange(49.0), np.full(500, 3.0), np.array([]), np.r_[np.zeros(499), 1.0]])
def test_too_few_records_or_values_give_no_histogram(x: np.ndarray) -> None:
    assert histogram_of("x", x, x) is None


def test_years_keep_their_digits() -> None:
    years = np.random.default_rng(1).integers(1950, 2010, 2000).astype(float)
    found = histogram_of("year", years, years)
    assert found is not None
    assert found.width == 2
    assert "1,980" in draw_histogram(found)


def test_the_release_may_lie_elsewhere() -> None:
    x = np.random.default_rng(1).normal(size=300)
    found = histogram_of("x", x, x + 100)
    assert found is not None
    assert found.released[-1] == 1.0
    assert sum(found.released[:-1]) == 0
