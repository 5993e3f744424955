"""Sums that everybody knows take noise away, by as much as least squares says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.release.attack_set import attack_set

SUM = ["income", "wage", "rent"]


def people(rows: int = 20_000, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({"wage": rng.normal(50, 9, rows), "rent": rng.normal(20, 5, rows)})
    return frame.select(income=pl.col("wage") + pl.col("rent"), wage="wage", rent="rent")


@pytest.mark.parametrize("sds", [(3.0, 3.0, 3.0), (1.0, 3.0, 6.0), (4.0, 0.0, 2.0)])
def test_the_error_falls_as_least_squares_says(sds: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(2)
    frame = people()
    noisy = frame.with_columns(
        pl.Series(name, frame[name].to_numpy() + rng.normal(0, sd, len(frame)))
        for name, sd in zip(SUM, sds, strict=True)
    )
    found = dc.IdentityDenoising()(frame, noisy).detail["per_column"]
    variance = np.square(sds)
    for name, own in zip(SUM, variance, strict=True):
        left = own - own**2 / variance.sum()  # Σ − Σa(aᵀΣa)⁻¹aᵀΣ of one sum with factors ±1
        assert found[name]["rmse_before"] ** 2 == pytest.approx(own, rel=0.05, abs=1e-9)
        assert found[name]["rmse_after"] ** 2 == pytest.approx(left, rel=0.05, abs=1e-9)


def test_sums_that_the_release_keeps_tell_nothing_more() -> None:
    frame = people(2000)
    noisy = dc.AdditiveNoise(columns=["wage", "rent"], sd_share=0.4)(frame, seed=1)
    kept = dc.RestoreEditRules(rules="income == wage + rent")(noisy)
    score = dc.IdentityDenoising()(frame, kept)
    assert score.value == score.detail["chance"]
    wage = dc.IdentityDenoising()(frame, noisy).detail["per_column"]["wage"]
    assert wage["rmse_after"] < 0.6 * wage["rmse_before"]  # income as it was, the others with noise


def test_several_sums_are_used_together() -> None:
    rng = np.random.default_rng(3)
    frame = people(5000).with_columns(tax=pl.col("rent") * 0.1).with_columns(net=pl.col("income") - pl.col("tax"))
    rules = ["income == wage + rent", "net == income - tax"]
    names = frame.columns
    noisy = frame.with_columns(pl.Series(n, frame[n].to_numpy() + rng.normal(0, 2, len(frame))) for n in names)
    both = dc.IdentityDenoising(rules=rules)(frame, noisy).detail["per_column"]["income"]["rmse_after"]
    one = dc.IdentityDenoising(rules=rules[:1])(frame, noisy).detail["per_column"]["income"]["rmse_after"]
    assert both < one < 2
    a = np.array([[1.0, -1, -1, 0, 0], [-1.0, 0, 0, 1, 1]])  # income, wage, rent, tax, net
    left = 4 * (np.eye(5) - a.T @ np.linalg.inv(a @ a.T) @ a)
    assert both**2 == pytest.approx(left[0, 0], rel=0.06)


def test_it_runs_where_sums_hold_and_only_there() -> None:
    frame = people(500).with_columns(age=pl.Series(np.arange(500) % 60))
    noisy = dc.AdditiveNoise(columns=SUM, sd_share=0.4)(frame, seed=1)
    roles = {"age": "quasi", **dict.fromkeys(SUM, "sensitive")}
    original, released = (dc.Dataset(one, roles=roles) for one in (frame, noisy))
    assert "identity-denoising" in [one.kind for one in attack_set(original, released)]
    apart = dc.Dataset(frame.drop("rent"), roles={name: role for name, role in roles.items() if name != "rent"})
    assert "identity-denoising" not in [one.kind for one in attack_set(apart, apart)]
    with pytest.raises(dc.DataError, match="no sum of published numbers"):
        dc.IdentityDenoising()(apart, apart)
    with pytest.raises(dc.PlanError, match="is no sum"):
        dc.IdentityDenoising(rules="age >= 0")(original, released)


def test_records_with_missing_parts_are_left_out() -> None:
    frame = people(300).with_columns(rent=pl.when(pl.int_range(pl.len()) < 50).then(None).otherwise("rent"))
    noisy = dc.AdditiveNoise(columns=SUM, sd_share=0.4)(frame, seed=1)
    assert dc.IdentityDenoising(rules="income == wage + rent")(frame, noisy).detail["records"] == 250


def test_declared_ranges_are_used_as_well() -> None:
    rng = np.random.default_rng(9)
    frame = pl.DataFrame({"wage": rng.lognormal(8, 0.6, 2000), "rent": rng.lognormal(5, 1.0, 2000)})
    frame = frame.with_columns(income=pl.col("wage") + pl.col("rent"))
    noise = rng.normal(0, 0.5, (2000, 3)) * frame.to_numpy().std(axis=0)
    noisy = frame + pl.DataFrame(noise, schema=frame.columns)
    true, seen = frame.to_numpy(), noisy.to_numpy()
    a = np.array([[1.0, 1.0, -1.0]])
    sigma = noise.T @ noise / len(noise)
    guess = seen - (seen @ a.T) @ np.linalg.inv(a @ sigma @ a.T) @ a @ sigma
    rules = ("income == wage + rent", "rent >= 0", "wage BETWEEN 0 AND 100000")
    original = Dataset(frame, schema=Schema(edit_rules=rules))
    found = dc.IdentityDenoising()(original, noisy).detail["per_column"]
    clipped = np.sqrt(((np.maximum(guess, [0, 0, -np.inf]) - true) ** 2).mean(axis=0))
    assert [found[name]["rmse_after"] for name in ("wage", "rent")] == pytest.approx(clipped[:2].tolist())
    assert clipped[1] < 0.95 * np.sqrt(((guess - true) ** 2).mean(axis=0))[1]


def test_a_declared_sum_that_is_not_true_hides_no_true_one() -> None:
    frame = people(2000)
    noisy = frame.with_columns(wage=pl.col("wage") + pl.Series(np.random.default_rng(3).normal(0, 9, 2000)))
    original = Dataset(frame, schema=Schema(edit_rules=("income == 2 * wage + rent",)))
    assert dc.IdentityDenoising()(original, noisy).detail["per_column"]["wage"]["rmse_after"] < 1e-6
