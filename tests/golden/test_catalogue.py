"""The worked values of the catalogue, by code."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion import datasets

AGES = (42, 28, 50, 23, 12, 68, 30, 46, 55, 61)


def test_p3_generalization_gives_the_printed_table() -> None:
    original, printed = datasets.generalization_example()
    levels = {name: int(np.max(level)) for name, level in printed.levels.items()}
    result = dc.Generalize(levels=levels)(original)
    for name in printed.columns:
        assert result.frame[name].to_list() == printed.frame[name].to_list()
    first_three = list(printed.columns[:3])
    assert dc.KAnonymity(k=3, columns=first_three)(result).holds
    assert dc.KAnonymity(k=1, columns=list(printed.columns))(result).value == 1


def test_p10_noise_variance_is_half_of_the_variance() -> None:
    original = datasets.noise_example()[0]
    method = dc.AdditiveNoise(columns=["age"], variance_share=0.5)
    sd = method.decide(original, dc.Context(0, "1"))["sd"][0]
    assert sd**2 == pytest.approx(147.105)


def test_p13_rank_swap_moves_at_most_the_window() -> None:
    original, printed = datasets.rank_swap_example()
    name = original.columns[0]
    ranks = original.frame[name].rank("ordinal").to_numpy().astype(int)
    moved = printed.frame[name].rank("ordinal").to_numpy().astype(int)
    assert np.abs(ranks - moved).max() <= 3
    for seed in range(50):
        swapped = dc.RankSwap(columns=[name], percent=30)(original, seed=seed).frame[name]
        assert np.abs(ranks - swapped.rank("ordinal").to_numpy().astype(int)).max() <= 3
        assert sorted(swapped.to_list()) == sorted(original.frame[name].to_list())


def test_p15_microaggregation_of_ten_ages() -> None:
    data = pl.DataFrame({"age": AGES})
    mdav = dc.Mdav(columns=["age"], k=3)(data)
    assert sorted(set(mdav["age"].round(2).to_list())) == [21.0, 42.0, 61.33]
    assert dc.Sse(columns=["age"])(data, mdav).value == pytest.approx(442.667, abs=1e-3)
    whole = dc.Mdav(columns=["age"], k=3, integers=True)(data)
    assert whole["age"].to_list() == [42, 21, 42, 21, 21, 61, 42, 42, 61, 61]
    best = dc.OptimalMicroaggregation(columns=["age"], k=3)(data)
    assert dc.Sse(columns=["age"])(data, best).value == pytest.approx(311.417, abs=1e-3)


def test_m1_k_anonymity() -> None:
    assert dc.KAnonymity(k=3)(datasets.three_anonymous()).value == 3
    verdict = dc.KAnonymity(k=2)(datasets.generalized_release())
    assert verdict.value == 1 and not verdict.holds
    alone = {tuple(c.key.values()) for c in verdict.failing if c.size == 1}
    assert any({"Education", "40***", "Married"} <= set(key) for key in alone)


def test_r10_partial_knowledge() -> None:
    data = datasets.people_without_names()
    by_name = {name.lower(): name for name in data.columns}
    occupation, postcode, sex = (by_name[name] for name in ("occupation", "zip", "sex"))

    def risk(columns: list[str], row: int) -> float:
        per_record = dc.SampleUniqueness(columns=columns)(data).per_record
        assert per_record is not None
        return float(per_record[row])

    assert risk([occupation], 8) == 1
    assert risk([postcode, sex], 1) == 1 / 2
    assert risk([postcode], 1) == 1 / 3
    assert risk([sex], 1) == 1 / 4


def test_r11_distance_linkage() -> None:
    original, first, second = datasets.linkage_example()
    columns = list(original.columns)
    attack = dc.DistanceLinkage(columns=columns, standardize=False)
    assert attack(original, first).value == pytest.approx(0.6)
    assert attack(original, first).detail["reid_d"] == pytest.approx(0.6)
    score = attack(original, second)
    assert score.detail["reid_d"] == pytest.approx(0.4)
    assert score.value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("release", "on", "mse", "mae", "mre"),
    [
        (1, "values", 10.375, 2.344, 0.2013),
        (1, "correlation", 6.233e-4, 0.017654, 0.017716),
        (1, "covariance", 36.602, 5.0877, 0.080997),
        (2, "values", 1202.93, 27.043, 1.7503),
        (2, "correlation", 1.814e-6, 9.523e-4, 9.557e-4),
        (2, "covariance", 5650.34, 45.8747, 0.212277),
    ],
)
def test_u1_nine_errors(release: int, on: str, mse: float, mae: float, mre: float) -> None:
    tables = datasets.error_example()
    columns = list(tables[0].columns)
    for measure, want in ((dc.Mse, mse), (dc.Mae, mae), (dc.Mre, mre)):
        assert measure(columns=columns, on=on)(tables[0], tables[release]).value == pytest.approx(want, rel=5e-4)


def test_u3_average_divergence() -> None:
    original, first, second = datasets.divergence_example()
    measure = dc.AverageDivergence(columns=list(original.columns))
    assert measure(original, first).value == pytest.approx(2563.01, abs=0.005)
    assert measure(original, second).value == pytest.approx(2722.62, abs=0.005)
    assert measure(original, first).detail["mean_absolute_difference"] == pytest.approx(41.6733, abs=1e-4)
    assert measure(original, second).detail["mean_absolute_difference"] == pytest.approx(337.28, abs=1e-2)


def test_u5_precision_and_u9_height() -> None:
    original, one_age, all_ages, ages_and_zip, top = datasets.precision_example()
    assert dc.Precision()(original).value == 1
    assert dc.Precision()(one_age).value == pytest.approx(0.9375)
    assert dc.Precision()(all_ages).value == pytest.approx(0.75)
    assert dc.Precision()(ages_and_zip).value == pytest.approx(0.25)
    assert dc.Height()(top).value == 4


def test_u6_iloss() -> None:
    original, one_age, *_ = datasets.precision_example()
    age = next(name for name in original.columns if "age" in name.lower())
    score = dc.ILoss(columns=[age], weights={age: 2})(one_age)
    assert score.per_record is not None
    assert score.per_record.max() == pytest.approx(2 / 7)
    assert score.value == pytest.approx(2 / 7 / 4)


def test_u7_and_u8_class_sizes() -> None:
    two_four, pairs, seven = datasets.class_sizes()
    for data, average in ((two_four, 1.5), (pairs, 1.0), (seven, 3.5)):
        assert dc.AverageClassSize(k=2, columns=list(data.columns))(data).value == pytest.approx(average)
    assert dc.Discernibility(columns=list(two_four.columns))(two_four).value == 20
    assert dc.Discernibility(columns=list(pairs.columns))(pairs).value == 12


def test_u8_suppressed_record_costs_the_whole_data() -> None:
    pairs = datasets.class_sizes()[1]
    kept = pairs.take(np.arange(4), suppressed=True)
    assert dc.Discernibility(columns=list(pairs.columns))(kept).value == 4 + 4 + 2 * 6


def test_u10_non_uniform_entropy() -> None:
    plain, fives, tens = datasets.entropy_example()
    name = plain.columns[0]
    measure = dc.NonUniformEntropy(columns=[name])
    assert measure(plain, fives).value == pytest.approx(13.51, abs=5e-3)
    assert measure(plain, tens).value == pytest.approx(23.22, abs=5e-3)
