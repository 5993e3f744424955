from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discretion as dc

DATA = pl.DataFrame({"x": [1.0, 2.5, 7.5, -1.0, -4.0, None, 10.0], "n": [1, 2, 8, -1, -4, None, 10], "t": ["a"] * 7})


@pytest.mark.parametrize(
    ("how", "x", "n"),
    [
        ("nearest", [0, 0, 10, 0, -5, None, 10], [0, 0, 10, 0, -5, None, 10]),
        ("down", [0, 0, 5, -5, -5, None, 10], [0, 0, 5, -5, -5, None, 10]),
        ("up", [5, 5, 10, 0, 0, None, 10], [5, 5, 10, 0, 0, None, 10]),
    ],
)
def test_directions(how: str, x: list[float | None], n: list[int | None]) -> None:
    result = dc.Round(columns=["x", "n"], base=5, how=how)(DATA)
    assert result["x"].to_list() == x and result["n"].to_list() == n
    assert result.schema == DATA.schema


@given(
    x=st.floats(-1e9, 1e9),
    base=st.sampled_from([0.01, 0.1, 0.25, 1, 3, 5, 10, 1000]),
    how=st.sampled_from(["nearest", "random", "up", "down"]),
    seed=st.integers(0, 99),
)
def test_results_are_multiples_nearby_and_stay(x: float, base: float, how: str, seed: int) -> None:
    method = dc.Round(columns=["x"], base=base, how=how)
    y = method(pl.DataFrame({"x": [x]}), seed=seed)["x"][0]
    slack = base * 1e-6 + abs(x) * 1e-9
    assert abs(y - x) <= (base / 2 if how == "nearest" else base) + slack
    assert y <= x + slack or how != "down"
    assert y >= x - slack or how != "up"
    assert y / base == pytest.approx(round(y / base), abs=1e-6, rel=1e-9)
    assert method(pl.DataFrame({"x": [y]}), seed=seed + 1)["x"][0] == y, "a multiple stays"


def test_decimal_bases_give_clean_numbers() -> None:
    data = pl.DataFrame({"x": [0.3, 0.29, 0.31, 0.7]})
    assert dc.Round(columns=["x"], base=0.1, how="down")(data)["x"].to_list() == [0.3, 0.2, 0.3, 0.7]
    assert dc.Round(columns=["x"], base=0.1, how="up")(data)["x"].to_list() == [0.3, 0.3, 0.4, 0.7]


def test_random_rounding_is_unbiased() -> None:
    x = np.random.default_rng(1).random(200_000) * 100
    for base in (5, 30):
        y = dc.Round(columns=["x"], base=base, how="random")(pl.DataFrame({"x": x}), seed=2)["x"].to_numpy()
        change = y - x
        assert abs(change.mean()) <= 4 * change.std() / np.sqrt(len(x))
        inside = (x > 10) & (x < 12)
        assert abs(change[inside].mean()) <= 4 * change[inside].std() / np.sqrt(inside.sum())
        assert set(np.unique(y % base)) == {0.0}


def test_draws_follow_the_seed_only_when_random() -> None:
    method = dc.Round(columns=["x"], base=5, how="random")
    data = pl.DataFrame({"x": np.arange(100.0)})
    assert method(data, seed=1).equals(method(data, seed=1))
    assert not method(data, seed=1).equals(method(data, seed=2))


def test_types() -> None:
    small = pl.DataFrame({"x": pl.Series([250, 100], dtype=pl.UInt8)})
    assert dc.Round(columns=["x"], base=50)(small).schema["x"] == pl.UInt8
    wide = dc.Round(columns=["x"], base=100, how="up")(small)["x"]
    assert wide.to_list() == [300, 100] and wide.dtype == pl.Int64
    assert dc.Round(columns=["n"], base=2.5)(DATA).schema["n"] == pl.Float64


@pytest.mark.parametrize("fields", [{"base": 0}, {"base": -1}, {"base": float("inf")}, {"base": 5, "how": "sideways"}])
def test_wrong_parameters(fields: dict[str, object]) -> None:
    with pytest.raises(dc.PlanError, match=r"base|how"):
        dc.Round(columns=["x"], **fields)


def test_refused_in_words() -> None:
    with pytest.raises(dc.DataError, match="column 't' is text"):
        dc.Round(columns=["t"], base=5)(DATA)
    with pytest.raises(dc.DataError, match="column 'x' has no values"):
        dc.Round(columns=["x"], base=5)(DATA.with_columns(x=pl.lit(None, dtype=pl.Float64)))


def test_large_counts_go_up_and_down_like_small_ones() -> None:
    data = pl.DataFrame({"x": [1e9 + 0.4, -1e9 - 0.4, 1e12 + 0.25]})
    assert dc.Round(columns=["x"], base=1, how="up")(data)["x"].to_list() == [1e9 + 1, -1e9, 1e12 + 1]
    assert dc.Round(columns=["x"], base=1, how="down")(data)["x"].to_list() == [1e9, -1e9 - 1, 1e12]
    cents = pl.DataFrame({"x": [1e7 + 0.008, 1234567.89]})
    assert dc.Round(columns=["x"], base=0.01, how="down")(cents)["x"].to_list() == [1e7, 1234567.89]
    many = pl.DataFrame({"x": np.full(20_000, 1e9 + 0.4)})
    share = float((dc.Round(columns=["x"], base=1, how="random")(many, seed=3)["x"] > 1e9).mean())  # type: ignore[arg-type]
    assert abs(share - 0.4) < 4 * np.sqrt(0.24 / 20_000)


def naive(x: int, base: int, how: str) -> set[int]:
    """The multiples that whole numbers may become."""
    low = x // base * base
    if low == x:
        return {x}
    if how in ("down", "up"):
        return {low if how == "down" else low + base}
    if how == "random":
        return {low, low + base}
    if 2 * (x - low) == base:
        return {low if low // base % 2 == 0 else low + base}
    return {low if 2 * (x - low) < base else low + base}


@given(
    x=st.lists(st.integers(-(2**62), 2**62) | st.integers(-20, 20), min_size=1, max_size=5),
    base=st.sampled_from([1, 2, 3, 10, 1000, 2**40]),
    how=st.sampled_from(["nearest", "random", "up", "down"]),
)
def test_whole_numbers_keep_every_digit(x: list[int], base: int, how: str) -> None:
    data = pl.DataFrame({"x": [*x, None]})
    *rounded, last = dc.Round(columns=["x"], base=base, how=how)(data, seed=1)["x"].to_list()
    assert last is None
    assert all(new in naive(old, base, how) for old, new in zip(x, rounded, strict=True))


def test_whole_numbers_beyond_64_bits_are_refused() -> None:
    data = pl.DataFrame({"x": pl.Series([2**63 + 5, 1], dtype=pl.UInt64)})
    with pytest.raises(dc.DataError, match="column 'x': its numbers are too large to be rounded"):
        dc.Round(columns=["x"], base=10)(data)
