"""Equal values: the place in the file does not tell who moves far or which group somebody goes to."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.kernels.order import break_ties, keyed_mix, sorted_with_order
from discretion.method import Method

KEY = bytes(range(16))


@pytest.mark.parametrize("n", [1, 2, 50, 5000])
def test_ties_are_broken_by_the_mix_of_the_row(n: int) -> None:
    x = np.random.default_rng(n).integers(0, max(2, n // 20), n).astype(float)
    values, order = sorted_with_order(x)
    mixed = keyed_mix(np.arange(n), KEY)
    assert break_ties(values, order, KEY).tolist() == sorted(range(n), key=lambda row: (x[row], mixed[row]))


@pytest.mark.parametrize("block", [1, 7, 64, 999])
def test_ties_are_broken_alike_whatever_the_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).choice([0.0, 1.0, *np.arange(2, 900)], 1000, p=[0.4, 0.1, *np.full(898, 0.5 / 898)])
    values, order = sorted_with_order(x)
    whole = break_ties(values, order, KEY)
    monkeypatch.setattr("discretion.kernels.order._TIES", block)
    assert break_ties(values, order, KEY).tolist() == whole.tolist()


METHODS = [
    (dc.RankSwap(columns=["x"], percent=1), 50),
    (dc.BlockRankSwap(columns=["x"], percent=1), 50),
    (dc.IndividualRanking(columns=["x"], k=7), 50),
    (dc.OptimalMicroaggregation(columns=["x"], k=5), 4),
    (dc.ProjectionMicroaggregation(columns=["x"], k=7), 50),
    (dc.Mdav(columns=["x"], k=7), 50),
]


@pytest.mark.parametrize(("method", "length"), METHODS, ids=[method.kind for method, _ in METHODS])
def test_the_position_does_not_tell_who_of_equals_is_changed(method: Method, length: int) -> None:
    """Runs of equal values, cut by groups and windows that do not end where a run does."""
    count = 2000 // length
    runs = np.repeat(np.cumsum(np.random.default_rng(2).lognormal(0, 2, count)), length)
    frame = pl.DataFrame({"x": runs})
    place = np.tile(np.arange(length), count)
    correlations = []
    for seed in range(8):
        moved = method(frame, seed=seed)["x"].to_numpy() - runs
        assert (moved != 0).any()
        for sign in (1, -1):
            touched = moved * sign > 1e-12
            if touched.any() and not touched.all():
                correlations.append(np.corrcoef(place, touched)[0, 1])
    # by row order the lower half of each run moves down and the upper half up: |correlation| about .3 and more
    assert abs(np.mean(correlations[::2])) < 0.06 and abs(np.mean(correlations[1::2])) < 0.06
    again = method(frame, seed=3)["x"].to_numpy()
    assert np.array_equal(again, method(frame, seed=3)["x"].to_numpy())
    assert not np.array_equal(again, method(frame, seed=4)["x"].to_numpy())


@pytest.mark.parametrize("kind", [dc.IndividualRanking, dc.OptimalMicroaggregation])
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_missing_values_beside_ties(kind: type, aggregate: str) -> None:
    x = pl.Series("x", [None, 3.0, 1.0, 3.0, None, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0])
    got = kind(columns=["x"], k=3, aggregate=aggregate)(x.to_frame(), seed=1)["x"]
    assert got.is_null().to_list() == x.is_null().to_list()
    counts = got.drop_nulls().value_counts()["count"]
    assert counts.min() >= 3
    if aggregate == "mean":
        assert got.sum() == pytest.approx(x.sum())
