from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.integers(-5, 5), st.none()), min_size=4, max_size=60),
    percent=st.floats(30, 100),
    seed=st.integers(0, 2**64),
)
def test_marginal_and_missing_places_are_exact(values: list[int | None], percent: float, seed: int) -> None:
    data = pl.DataFrame({"x": pl.Series(values, dtype=pl.Int32)})
    present = [v for v in values if v is not None]
    if len(set(present)) < 2 or percent * len(present) / 100 < 1:
        with pytest.raises(dc.DataError):
            dc.RankSwap(columns=["x"], percent=percent)(data, seed=seed)
        return
    for method in (dc.RankSwap, dc.BlockRankSwap):
        swapped = method(columns=["x"], percent=percent)(data, seed=seed)["x"]
        assert swapped.dtype == pl.Int32
        assert swapped.is_null().to_list() == [v is None for v in values]
        assert sorted(swapped.drop_nulls().to_list()) == sorted(present)


@pytest.mark.parametrize("percent", [0, -1, 100.5, 150])
def test_percent_out_of_range(percent: float) -> None:
    with pytest.raises(dc.PlanError, match="percent"):
        dc.RankSwap(percent=percent)


def test_window_without_a_partner_says_what_is_needed() -> None:
    data = pl.DataFrame({"x": np.arange(50.0)})
    with pytest.raises(dc.DataError, match=r"at least 2 percent is needed"):
        dc.RankSwap(columns=["x"], percent=1)(data)


def test_no_rank_moves_farther_than_the_window() -> None:
    data = pl.DataFrame({"x": np.random.default_rng(0).permutation(1000).astype(float)})
    for seed in range(20):
        swapped = dc.RankSwap(columns=["x"], percent=5)(data, seed=seed)
        assert (swapped["x"] - data["x"]).abs().max() <= 50  # type: ignore[operator]
        shuffled = dc.BlockRankSwap(columns=["x"], percent=5)(data, seed=seed)
        assert ((shuffled["x"] // 50) == (data["x"] // 50)).all()


def test_columns_are_swapped_independently() -> None:
    data = pl.DataFrame({"x": np.arange(200.0), "y": np.arange(200.0)})
    swapped = dc.RankSwap(columns=["x", "y"], percent=20)(data, seed=1)
    assert not (swapped["x"] == swapped["y"]).all()
