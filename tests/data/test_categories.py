"""0/1 and few-valued whole numbers are categories for attacks and measures; the declared type wins."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def people(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    sex = rng.choice(["f", "m"], rows)
    survived = (rng.random(rows) < np.where(sex == "f", 0.8, 0.2)).astype(int)
    return pl.DataFrame({"sex": sex, "survived": survived, "income": rng.normal(50, 9, rows)})


@pytest.mark.parametrize(
    ("values", "is_category"),
    [
        ([0, 1] * 15, True),
        ([0.0, 1.0, None] * 15, True),
        ([0, 1] * 10, False),  # too few records to tell
        (list(range(10)) * 5, True),
        (list(range(10)) * 4, False),
        (list(range(11)) * 9, False),
        ([0.5, 1.0] * 40, False),
        ([float("nan"), 2.0, 3.0] * 40, True),
    ],
)
def test_few_whole_numbers_in_many_records(values: list[float], is_category: bool) -> None:
    data = dc.Dataset(pl.DataFrame({"x": values}))
    assert data.is_category("x") is is_category
    assert data.is_quantity("x")  # methods asked for such a column treat it as numbers


def test_the_declared_type_wins() -> None:
    frame = pl.DataFrame({"x": [0, 1] * 40})
    assert not dc.Dataset(frame, types={"x": "continuous"}).is_category("x")
    assert not dc.Dataset(frame, types={"x": "ordinal"}).is_category("x")
    assert dc.Dataset(pl.DataFrame({"x": list(range(80))}), types={"x": "nominal"}).is_category("x")


def test_a_category_that_noise_moved_is_a_number_and_a_part_of_the_rows_still_a_category() -> None:
    data = dc.Dataset(people(), roles={"survived": "sensitive"})
    assert data.take(np.arange(7)).is_category("survived")
    assert not dc.AdditiveNoise(columns=["survived"], sd_share=0.5, precision="full")(data, seed=1).is_category(
        "survived"
    )
    assert dc.RankSwap(columns=["survived"], percent=5)(data, seed=1).is_category("survived")


def test_a_model_classifies_zero_and_one() -> None:
    """As a number nobody is within 10% of a standard deviation; as a category the sex tells it for four of five."""
    data = dc.Dataset(people(), roles={"sex": "quasi", "survived": "sensitive"})
    score = dc.ModelDisclosure()(data, data)
    majority = float(np.bincount(data.frame["survived"].to_numpy()).max() / len(data))
    assert score.detail["chance"] == pytest.approx(majority)
    assert score.value == pytest.approx(0.8, abs=0.06) and score.value > score.detail["chance"] + 0.15
    declared = dc.Dataset(people(), roles={"sex": "quasi", "survived": "sensitive"}, types={"survived": "continuous"})
    assert dc.ModelDisclosure()(declared, declared).value < 0.3


def test_measures_of_numbers_leave_categories_out_unless_named() -> None:
    data = dc.Dataset(people(), roles={"sex": "quasi", "survived": "sensitive", "income": "sensitive"})
    assert set(dc.IntervalRisk()(data, data).detail["per_column"]) == {"income"}
    assert dc.IntervalRisk(columns=["survived"])(data, data).value == 1
    assert set(dc.Il1s()(data, data).detail["per_column"]) == {"income"}
    noisy = dc.AdditiveNoise(sd_share=0.9)(data, seed=1)
    assert not noisy.frame["survived"].equals(data.frame["survived"])
