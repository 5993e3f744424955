from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def people(n: int = 1500, seed: int = 1) -> pl.DataFrame:
    frame = dc.datasets.census(n, seed=seed).frame.select("age", "sex", "region", "income", "hours")
    regions = {name: number for number, name in enumerate(sorted(frame["region"].unique()))}
    return frame.with_columns(
        birth_year=2024 - pl.col("age"),
        tax=(0.31 * pl.col("income")).round(2),
        area=pl.col("region").replace_strict(regions, return_dtype=pl.Int64).map_elements(lambda r: f"A{7 * r % 11}"),
    )


@pytest.mark.parametrize(
    ("protected", "by"),
    [("age", "birth_year"), ("income", "tax"), ("region", "area")],
)
def test_a_column_that_is_a_function_of_a_protected_one_is_found(protected: str, by: str) -> None:
    data = people()
    steps = {
        "age": dc.Recode(column="age", width=20),
        "income": dc.AdditiveNoise(columns=["income"], sd_share=0.5),
        "region": dc.Pram(columns=["region"], keep_share=0.5),
    }
    released = steps[protected](data, seed=1)
    score = dc.ColumnDependence()(data, released)
    assert score.detail["told"] == [[by, protected]]
    assert score.detail["column"] == protected and score.detail["source"] == by
    assert score.value > 0.9 > score.detail["chance"] + 0.3
    assert score.detail["per_column"].keys() == {protected}
    clean = dc.ColumnDependence()(data.drop(by), released.drop(by))
    assert clean.detail["told"] == [] and clean.value < 0.9


def test_the_share_is_what_a_rule_known_to_the_intruder_reaches() -> None:
    """An income rounded to thousands: the naive intruder takes it for the income itself."""
    data = people(3000)
    data = data.with_columns(rough=(pl.col("income") / 4000).round() * 4000 + 7)
    released = dc.AdditiveNoise(columns=["income"], sd_share=1.0)(data.drop("tax"), seed=1)
    score = dc.ColumnDependence(columns=["income"])(data.drop("tax"), released)
    x, y = (data[name].to_numpy() for name in ("income", "rough"))
    there = ~np.isnan(x)
    naive = np.mean(np.abs(y - 7 - x)[there] <= 0.05 * np.nanstd(x, ddof=1))
    assert naive - 0.1 < score.value < naive + 0.05


def test_columns_that_merely_go_together_and_columns_that_were_not_protected_raise_no_alarm() -> None:
    data = people().drop("birth_year", "tax", "area")
    assert dc.ColumnDependence()(data, data).value == 0
    released = dc.RankSwap(columns=["income", "hours"], percent=10)(dc.TopCode(column="age", at=60)(data), seed=1)
    score = dc.ColumnDependence()(data, released)
    assert score.detail["told"] == []
    rng = np.random.default_rng(1)
    alone = pl.DataFrame({"x": rng.normal(size=2000), "y": rng.normal(size=2000)})
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=0.5)(alone, seed=2)
    assert dc.ColumnDependence()(alone, noisy).detail["per_column"]["x"]["gain"] < 0.05


def test_what_the_own_column_tells_is_not_counted_twice() -> None:
    """Suppressed regions can be read off the area; without suppression the area adds nothing."""
    data = people().drop("birth_year", "tax")
    hidden = np.random.default_rng(1).random(len(data)) < 0.3
    gone = data.with_columns(region=pl.when(pl.lit(hidden)).then(None).otherwise(pl.col("region")))
    assert dc.ColumnDependence()(data, gone).detail["told"] == [["area", "region"]]
    renamed = data.with_columns(region=pl.lit("in ") + pl.col("region"))
    assert dc.ColumnDependence()(data, renamed).detail["told"] == []


def test_columns_that_were_one_are_named_whatever_was_done_to_each() -> None:
    people = dc.datasets.census(2000, seed=1).to_native().select("age", "income", "savings")
    people = people.with_columns(tax=0.31 * pl.col("income"))
    released = dc.RankSwap(columns=["income", "tax", "savings"], percent=5)(people, seed=7)
    score = dc.ColumnDependence()(people, released)
    assert score.detail["told"] == []
    assert sorted(score.detail["derived"]) == [["income", "tax"], ["tax", "income"]]
    assert "'tax' told 'income'" in score.meaning
    half = dc.RankSwap(columns=["income"], percent=5)(people, seed=7)
    assert dc.ColumnDependence()(people, half).detail["derived"] == []  # published as it was: it is among `told`
