"""Draws that belong to people: the same noise in the next delivery, as long as nothing that matters changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.method import Method

N = 4000
ROLES = {"id": "identifier", "x": "sensitive", "c": "sensitive"}


def people(n: int = N) -> dc.Dataset:
    rng = np.random.default_rng(1)
    return dc.Dataset(
        pl.DataFrame({"id": rng.permutation(n) + 100, "x": rng.normal(50, 10, n), "c": rng.choice(["a", "b", "d"], n)}),
        roles=ROLES,
    )


def next_year(data: dc.Dataset) -> dc.Dataset:
    """Give another delivery: another order, some people gone, a third of the values changed."""
    rng = np.random.default_rng(2)
    frame = data.frame[rng.permutation(N)[:3500]]
    changed = rng.random(len(frame)) < 0.3
    x = np.where(changed, frame["x"].to_numpy() + 1, frame["x"].to_numpy())
    c = pl.Series("c", np.where(changed, "a", frame["c"].to_numpy()))
    return dc.Dataset(frame.with_columns(pl.Series("x", x), c), roles=ROLES)


def noise(method: Method, data: dc.Dataset, decision: Any = None) -> tuple[pl.DataFrame, Any]:
    study = dc.Study(data, 9).apply(dc.DropIdentifiers()).apply(method, decision=decision)
    assert "id" not in study.current.columns
    out = data.frame.with_columns(new=study.current.number("x"))
    return out.with_columns(noise=pl.col("new") - pl.col("x")), study.decisions[f"2-{method.kind}"]


METHODS = [
    dc.AdditiveNoise(columns=["x"], sd_share=0.3, by_person=True),
    dc.AdditiveNoise(columns=["x"], sd_share=0.3, distribution="laplace", by_person=True),
    dc.MultiplicativeNoise(columns=["x"], sd=0.2, by_person=True),
    dc.MultiplicativeNoise(columns=["x"], sd=0.2, distribution="lognormal", by_person=True),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.kind}-{method.distribution}")
def test_an_unchanged_value_keeps_its_noise_and_a_changed_one_gets_fresh_noise(method: Method) -> None:
    first = people()
    one, decision = noise(method, first)
    two, _ = noise(method, next_year(first), decision)
    both = one.join(two, on="id", suffix="_2")
    same = both.filter(pl.col("x") == pl.col("x_2"))
    assert len(same) > 2000 and np.array_equal(same["new"].to_numpy(), same["new_2"].to_numpy())
    other = both.filter(pl.col("x") != pl.col("x_2"))
    relative = np.corrcoef(other["noise"] / other["x"], other["noise_2"] / other["x_2"])[0, 1]
    assert len(other) > 800 and abs(relative) < 0.1


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.kind}-{method.distribution}")
def test_the_distribution_is_the_one_without_it(method: Method) -> None:
    data = people(10 * N)
    out, _ = noise(method, data)
    plain, _ = noise(method.model_copy(update={"by_person": False}), data)
    quantiles = [np.quantile(frame["noise"], np.linspace(0.05, 0.95, 19)) for frame in (out, plain)]
    assert np.abs(quantiles[0] - quantiles[1]).max() < 0.06 * plain["noise"].std()
    assert abs(np.corrcoef(out["noise"], plain["noise"])[0, 1]) < 0.06
    assert abs(np.corrcoef(out["noise"], out["x"])[0, 1]) < 0.06 if method.kind == "additive-noise" else True


def test_with_another_decision_the_noise_is_independent() -> None:
    method = METHODS[0]
    one, _ = noise(method, people())
    later = dc.Dataset(
        people().frame.with_columns(pl.when(pl.col("id") == 100).then(500.0).otherwise("x").alias("x")), roles=ROLES
    )
    two, _ = noise(method, later)  # fitted anew: the standard deviation is another one
    assert abs(np.corrcoef(one["noise"], two["noise"])[0, 1]) < 0.06
    strong, _ = noise(dc.AdditiveNoise(columns=["x"], sd_share=0.6, by_person=True), people())
    assert abs(np.corrcoef(one["noise"], strong["noise"])[0, 1]) < 0.06


@pytest.mark.parametrize(
    "method",
    [
        dc.Pram(columns=["c"], keep_share=0.5, by_person=True),
        dc.RandomizedResponse(columns=["c"], truth_share=0.25, by_person=True),
    ],
    ids=["pram", "randomized-response"],
)
def test_categories_move_alike_in_the_next_delivery(method: Method) -> None:
    first, later = people(), next_year(people())
    one = dc.Study(first, 9).apply(method)
    two = dc.Study(later, 9).apply(method, decision=one.decisions[f"1-{method.kind}"])
    a = first.frame.with_columns(new=one.current.frame["c"])
    both = a.join(later.frame.with_columns(new=two.current.frame["c"]), on="id", suffix="_2")
    same = both.filter(pl.col("c") == pl.col("c_2"))
    assert (same["new"] == same["new_2"]).all() and 0.4 < (same["new"] == same["c"]).mean() < 0.6
    changed = both.filter(pl.col("c") != pl.col("c_2"))
    assert 0.2 < (changed["new"] == changed["new_2"]).mean() < 0.6


def test_who_is_who_must_be_known() -> None:
    method = METHODS[0]
    frame = people().frame
    with pytest.raises(PlanError, match="no column has the role identifier"):
        method(frame, seed=1)
    two = dc.Dataset(frame.with_columns(name=pl.col("id")), roles={**ROLES, "name": "identifier"})
    with pytest.raises(PlanError, match="several columns have the role identifier"):
        method(two, seed=1)
    named = method.model_copy(update={"person": "id"})
    assert named(two, seed=1).frame["x"].to_list() == named(people(), seed=1).frame["x"].to_list()
    twice = dc.Dataset(frame.with_columns(id=pl.col("id") // 2), roles=ROLES)
    with pytest.raises(DataError, match="rows of people who have one already"):
        method(twice, seed=1)
    unknown = dc.Dataset(frame.with_columns(id=pl.when(pl.col("id") > 110).then(pl.col("id"))), roles=ROLES)
    with pytest.raises(DataError, match="'id' has 11 missing values"):
        method(unknown, seed=1)
