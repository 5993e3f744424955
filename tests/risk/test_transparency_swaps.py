"""Who knows that ranks were swapped finds more than whoever picks any candidate of the windows, or the nearest."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import Context
from discretion.release.gate import judge
from discretion.release.plan import Requirement

INFORMED = {"knows_method": True}


def table(n: int, d: int, seed: int, shape: str = "normal") -> dc.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    if shape == "related":
        x = np.sqrt(0.1) * x + np.sqrt(0.9) * rng.normal(size=(n, 1))
    elif shape == "ties":
        x = np.round(3 * x)
    elif shape == "zeros":
        x = np.exp(x) * (rng.random((n, d)) < 0.6)
    return dc.Dataset(pl.DataFrame(x, schema=[f"c{j}" for j in range(d)]))


def uniform_pick(data: dc.Dataset, released: dc.Dataset, percent: float) -> float:
    """Find the right one by picking any record inside all the windows: the mean of one over their number."""
    n = len(data)
    before, after = (np.argsort(np.argsort(side.frame.to_numpy(), axis=0), axis=0) for side in (data, released))
    inside = (np.abs(before[:, None] - after[None]) <= int(n * percent / 100)).all(axis=2)
    assert np.diag(inside).all()
    return float((1 / inside.sum(axis=1)).mean())


@pytest.mark.parametrize(("n", "d", "percent"), [(300, 2, 10), (600, 2, 5), (600, 3, 10), (500, 4, 20), (400, 1, 10)])
@pytest.mark.parametrize("records", [None, 0.5])
def test_informed_beats_the_nearest_and_any_candidate(n: int, d: int, percent: float, records: float | None) -> None:
    found = {"plain": 0.0, "informed": 0.0, "any": 0.0}
    for seed in range(4):
        data = table(n, d, seed)
        released = dc.RankSwap(percent=percent, columns=data.columns)(data, seed=seed)
        score = dc.DistanceLinkage(columns=data.columns, intruder={**INFORMED, "records": records})(data, released)
        figures = ("plain", "informed", "eliminated", "matched")
        assert score.value == max(score.detail[name] for name in figures if name in score.detail)
        found["plain"] += score.detail["plain"] / 4
        found["informed"] += score.detail["informed"] / 4
        found["any"] += uniform_pick(data, released, percent) / 4
    assert found["informed"] >= found["plain"]
    least = 0.9 if d == 1 else 1.2  # one column: a few hits in all
    assert found["informed"] > least * found["any"]


@pytest.mark.parametrize("shape", ["normal", "related", "ties", "zeros"])
@pytest.mark.parametrize("kind", [dc.RankSwap, dc.BlockRankSwap])
def test_more_is_found_whatever_the_shape(kind: type[dc.Method], shape: str) -> None:
    plain, informed = np.mean(
        [
            [score.detail["plain"], score.detail["informed"]]
            for seed in range(3)
            for data in [table(400, 3, seed, shape)]
            for released in [kind(columns=data.columns, percent=10)(data, seed=seed)]  # type: ignore[call-arg]
            for score in [dc.DistanceLinkage(columns=data.columns, intruder=INFORMED)(data, released)]
        ],
        axis=0,
    )
    assert informed > 1.05 * plain


def test_following_the_exchange_unravels_swapping() -> None:
    """Three independent columns: a wrong candidate would have to pass for six partners too."""
    data = table(1000, 3, 1)
    released = dc.RankSwap(columns=data.columns, percent=10)(data, seed=1)
    score = dc.DistanceLinkage(columns=data.columns, intruder=INFORMED)(data, released)
    assert score.value > 0.99 and score.detail["partners_followed"] is True
    assert "partners" in score.meaning
    some = dc.DistanceLinkage(columns=data.columns, intruder={**INFORMED, "records": 500})(data, released)
    assert some.detail["partners_followed"] is False and some.value < 0.5


def test_partners_are_not_followed_through_blocks_and_of_some_records_where_there_are_too_many_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = table(300, 2, 1)
    blocks = dc.BlockRankSwap(columns=data.columns, percent=10)(data, seed=1)
    assert "partners_followed" not in dc.DistanceLinkage(columns=data.columns, intruder=INFORMED)(data, blocks).detail
    released = dc.RankSwap(columns=data.columns, percent=10)(data, seed=1)
    monkeypatch.setattr("discretion.risk.identity.linkage._PAIRS_THOROUGH", 100)
    monkeypatch.setattr("discretion.risk.identity.transparency.attack._WALKED", 100)
    large = dc.DistanceLinkage(columns=data.columns, intruder=INFORMED)(data, released)
    assert large.detail["partners_followed"] is True and large.detail["targets"] == 200
    assert large.detail["informed"] > large.detail["plain"]


def people(n: int, seed: int) -> dc.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) * 0.6 + 0.8 * rng.normal(size=(n, 2))
    frame = pl.DataFrame({"pay": np.round(np.exp(7 + x[:, 0]), 2), "rent": np.round(np.exp(6 + x[:, 1]), 2)})
    frame = frame.with_columns(area=pl.Series(rng.integers(0, 20, n)).cast(pl.String))
    return dc.Dataset(frame, roles={"area": "quasi"})


def test_who_puts_together_what_is_known_of_everybody_unravels_columns_that_look_safe() -> None:
    """One column of distinct values and an area of fifty people: partners of partners tell nearly everybody."""
    data = people(1_000, 5)
    released = dc.RankSwap(columns=["pay"], percent=20)(data, seed=5)
    detail = dc.DistanceLinkage(columns=["pay", "area"])(data, released).detail
    assert detail["plain"] < 0.1 and detail["eliminated"] < 0.2 and detail["matched"] > 0.6
    assert detail["named"]["people"] > 100 and detail["named"]["right"] > 0.95
    two = dc.RankSwap(columns=["pay", "rent"], percent=20)(data, seed=5)
    assert dc.DistanceLinkage(columns=["pay", "rent"])(data, two).value > 0.9
    alone = dc.RankSwap(columns=["pay"], percent=20)(data, seed=5)
    assert dc.DistanceLinkage(columns=["pay"])(data, alone).value < 0.05  # nothing else tells anybody


def test_dropped_records_do_not_hide_the_others() -> None:
    """Ranks are shifted by as many places as records were dropped; who knows the original widens the windows."""
    data = people(1_000, 6)
    swapped = dc.RankSwap(columns=["pay"], percent=10)(data, seed=6)
    kept = dc.Sample(share=0.98)(swapped, seed=6)
    detail = dc.DistanceLinkage(columns=["pay", "area"])(data, kept).detail
    whole = dc.DistanceLinkage(columns=["pay", "area"])(data, swapped).detail
    assert detail["known_of"]["pay"].startswith("rank-swap") and detail["partners_followed"] is False
    assert 0.5 * whole["matched"] < detail["matched"] <= 1 and detail["plain"] < 0.15


def test_what_takes_too_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discretion.risk.identity.linkage._WALKED_SAMPLED", 10)
    data = people(300, 7)
    released = dc.RankSwap(columns=["pay"], percent=10)(data, seed=7)
    score = dc.DistanceLinkage(columns=["pay", "area"], sample=100)(data, released)
    assert score.detail["matched"] is None and "Not tried, because it takes too long here" in score.meaning
    whole = dc.DistanceLinkage(columns=["pay", "area"])(data, released)
    assert whole.detail["matched"] is not None and "Not tried" not in whole.meaning
    for sample, holds in ((100, False), (0, True)):
        limit = Requirement(dc.DistanceLinkage(columns=["pay", "area"], sample=sample), at_most=1.0)
        found = judge(limit, data, released, Context(0))
        assert found.holds is holds and ("or leave `sample` out" in found.explain()) is not holds


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(25, 60),
    values=st.sampled_from([3, 10, 10**6]),
    shares=st.sampled_from([(0.0, 0.0), (0.2, 0.1)]),
    kind=st.sampled_from([dc.RankSwap, dc.BlockRankSwap]),
    gaps=st.sampled_from([0.0, 0.15]),
    hidden=st.sampled_from([0.0, 0.1]),
    mixed=st.booleans(),
)
def test_nobody_is_left_without_candidate(
    seed: int, n: int, values: int, shares: tuple[float, float], kind: type[dc.Method], gaps: float, hidden: float,
    mixed: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, (n, 3)).astype(float)
    x[:2] = [[0] * 3, [values] * 3]
    x[2:][rng.random((n - 2, 3)) < gaps] = np.nan
    data = dc.Dataset(pl.DataFrame(x, schema=["a", "b", "c"], nan_to_null=True))
    swapped = ["a", "b"] if mixed else ["a", "b", "c"]
    step = kind(columns=swapped, percent=20, bottom_share=shares[0], top_share=shares[1])  # type: ignore[call-arg]
    released = step(data, seed=seed)
    mask = rng.random((n, 3)) < hidden
    frame = released.frame.with_columns(
        pl.when(pl.Series(mask[:, j])).then(None).otherwise(pl.col(name)).alias(name)
        for j, name in enumerate(released.columns)
    )
    hidden_too = dc.Dataset(frame).matched_to(data, np.arange(n))
    score = dc.DistanceLinkage(
        columns=["a", "b", "c"], intruder={**INFORMED, "method": [step, dc.LocalSuppression(k=2)]}
    )(data, hidden_too)
    assert score.detail["without_candidate"] == 0
    assert 0 <= score.detail["informed"] <= 1
