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
    blocks = percent * len(present) / 100 >= 2  # a block of one could only stay as it is
    if not blocks:
        with pytest.raises(dc.DataError, match="reaches no other rank"):
            dc.BlockRankSwap(columns=["x"], percent=percent)(data, seed=seed)
    for method in (dc.RankSwap, dc.BlockRankSwap) if blocks else (dc.RankSwap,):
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


LEVELS = ["none", "primary", "secondary", "tertiary"]


def school(rows: int = 200) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame({"school": rng.choice(LEVELS, rows), "id": np.arange(rows)})


@pytest.mark.parametrize("method", [dc.RankSwap, dc.BlockRankSwap])
class TestOrdered:
    def test_order_of_the_schema(self, method: type[dc.Method]) -> None:
        data = dc.Dataset(school(), orders={"school": LEVELS})
        result = method(columns=["school"], percent=10)(data, seed=1)
        assert result.frame["school"].sort().equals(data.frame["school"].sort())
        place = {level: number for number, level in enumerate(LEVELS)}
        pairs = zip(data.frame["school"], result.frame["school"], strict=True)
        moves = [abs(place[a] - place[b]) for a, b in pairs]
        assert max(moves) == 1, "10 percent of the ranks never jump over a whole category"

    def test_enum_keeps_its_type(self, method: type[dc.Method]) -> None:
        data = school().with_columns(pl.col("school").cast(pl.Enum(LEVELS)))
        result = method(columns=["school"], percent=50)(data, seed=1)
        assert result.schema == data.schema
        assert not result.equals(data)

    def test_dates(self, method: type[dc.Method]) -> None:
        days = pl.DataFrame({"born": pl.Series(range(100), dtype=pl.Int32).cast(pl.Date)})
        result = method(columns=["born"], percent=5)(days, seed=1)
        assert result["born"].sort().equals(days["born"])
        assert (result["born"].to_physical() - days["born"].to_physical()).abs().max() <= 5  # type: ignore[operator]

    def test_missing_categories_stay(self, method: type[dc.Method]) -> None:
        holes = school().with_columns(
            pl.when(pl.col("id") % 5 == 0).then(None).otherwise(pl.col("school")).alias("school")
        )
        result = method(columns=["school"], percent=50)(dc.Dataset(holes, orders={"school": LEVELS}), seed=1).frame
        assert result["school"].is_null().equals(holes["school"].is_null())
        assert result["school"].drop_nulls().sort().equals(holes["school"].drop_nulls().sort())

    def test_text_without_an_order(self, method: type[dc.Method]) -> None:
        with pytest.raises(dc.DataError, match="column 'school' is text without an order"):
            method(columns=["school"], percent=50)(school())

    def test_a_category_outside_the_order_is_named(self, method: type[dc.Method]) -> None:
        data = dc.Dataset(school(), orders={"school": LEVELS[:3]})
        with pytest.raises(dc.DataError, match="1 categories are not in its order: 'tertiary'"):
            method(columns=["school"], percent=50)(data)

    def test_one_category_only(self, method: type[dc.Method]) -> None:
        data = dc.Dataset(school().with_columns(school=pl.lit("none")), orders={"school": LEVELS})
        with pytest.raises(dc.DataError, match="column 'school' is constant"):
            method(columns=["school"], percent=50)(data)

    def test_shares_left_out_stay_where_they_are(self, method: type[dc.Method]) -> None:
        x = np.random.default_rng(2).permutation(1000).astype(float)
        data = pl.DataFrame({"x": x})
        swapped = method(columns=["x"], percent=20, bottom_share=0.1, top_share=0.05)(data, seed=1)["x"].to_numpy()
        out = (x < 100) | (x >= 950)
        assert np.array_equal(swapped[out], x[out])
        assert (swapped[~out] != x[~out]).mean() > 0.9
        assert np.array_equal(np.sort(swapped), np.sort(x))

    def test_shares_out_of_range(self, method: type[dc.Method]) -> None:
        with pytest.raises(dc.PlanError, match="together must be less than 1"):
            method(columns=["x"], percent=20, bottom_share=0.5, top_share=0.5)
        with pytest.raises(dc.PlanError, match="top_share"):
            method(columns=["x"], percent=20, top_share=-0.1)
