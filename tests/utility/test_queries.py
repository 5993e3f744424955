from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def draw(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"a": rng.normal(size=n), "b": rng.uniform(size=n), "c": rng.choice(list("pqrstuvw"), n)})


FIELDS = {"columns": ["a", "b", "c"]}


def test_same_data_answers_the_same() -> None:
    x = draw(300, 0)
    assert dc.RangeQueries(**FIELDS)(x, x.sample(fraction=1, shuffle=True, seed=1)).value == 0


def test_queries_select_what_was_asked_for() -> None:
    x = draw(4000, 0)
    for size, share in ((1, 0.1), (2, 0.1), (3, 0.3)):
        score = dc.RangeQueries(**FIELDS, size=size, selectivity=share)(x, x)
        assert score.detail["mean_share"] == pytest.approx(share, rel=0.15)


def test_error_of_a_known_change() -> None:
    x = pl.DataFrame({"c": ["u"] * 50 + ["v"] * 50})
    y = pl.DataFrame({"c": ["u"] * 80 + ["v"] * 20})
    score = dc.RangeQueries(columns=["c"], selectivity=0.5)(x, y)
    assert score.value == pytest.approx(0.6)  # whichever category is asked for: |50 − 80|/50
    assert score.detail["percentile_95"] == pytest.approx(0.6)


def test_counts_do_not_depend_on_size_and_weights_are_repetitions() -> None:
    rng = np.random.default_rng(1)
    x = draw(200, 0).with_columns(pl.Series("w", rng.integers(1, 5, 200)))
    y = draw(200, 1).with_columns(pl.Series("w", rng.integers(1, 5, 200)))
    roles = {"w": "weight", "a": "quasi", "b": "quasi", "c": "quasi"}
    ones = [dc.Dataset(f.drop("w"), roles={k: v for k, v in roles.items() if k != "w"}) for f in (x, y)]
    twice = pl.concat([y.drop("w")] * 2)
    assert dc.RangeQueries()(ones[0], twice).value == pytest.approx(dc.RangeQueries()(*ones).value, rel=1e-9)
    weighted = [dc.Dataset(f, roles=roles) for f in (x, y)]
    answers = dc.RangeQueries(columns=["c"])(*weighted).value
    repeated = [f.select(pl.exclude("w").repeat_by("w").explode()) for f in (x, y)]
    assert answers == pytest.approx(dc.RangeQueries(columns=["c"])(*repeated).value, rel=1e-9)


def test_the_floor_bounds_small_counts() -> None:
    x = pl.DataFrame({"a": np.arange(1000.0)})
    gone = pl.DataFrame({"a": np.full(1000, -1.0)})
    assert dc.RangeQueries(columns=["a"], selectivity=0.01)(x, gone).value == pytest.approx(1)
    low = dc.RangeQueries(columns=["a"], selectivity=0.01, floor_share=0.5)(x, gone)
    assert low.value == pytest.approx(low.detail["mean_share"] / 0.5)
    assert low.detail["below_floor"] == 500


def test_noise_costs_more_the_more_of_it() -> None:
    x = draw(1000, 0)
    found = [
        dc.RangeQueries(columns=["a", "b"])(x, dc.AdditiveNoise(columns=["a", "b"], sd_share=sd)(x, seed=1)).value
        for sd in (0.01, 0.3, 3)
    ]
    assert found == sorted(found)
    assert found[2] > 3 * found[0]


def test_seed_decides_and_nothing_to_ask_is_an_error() -> None:
    x, y = draw(200, 0), draw(200, 1)
    measure = dc.RangeQueries(**FIELDS)
    assert measure(x, y, seed=1).value == measure(x, y, seed=1).value != measure(x, y, seed=2).value
    empty = pl.DataFrame({"a": [None, None]}, schema={"a": pl.Float64})
    with pytest.raises(dc.DataError, match="no column of the original has a value"):
        dc.RangeQueries(columns=["a"])(empty, empty)
