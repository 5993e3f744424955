from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest

import discretion as dc

SIZES = (10, 12, 10, 10)


def population(people: int, seed: int, dependent: bool = False) -> pl.DataFrame:
    """Give a population over 12,000 cells: independent columns with few frequent and many rare values."""
    rng = np.random.default_rng(seed)
    columns = {}
    for j, size in enumerate(SIZES):
        shares = 1 / np.arange(1, size + 1)
        columns[f"k{j}"] = rng.choice(size, people, p=shares / shares.sum())
    if dependent:
        columns["k1"] = np.where(rng.random(people) < 0.7, columns["k0"], columns["k1"])
    return pl.DataFrame(columns)


def truth(people: pl.DataFrame, drawn: np.ndarray) -> tuple[pl.DataFrame, int, float]:
    """Give the sample, its uniques that are population uniques, and the right matches of an intruder among them."""
    keys = people.columns
    sample = people.with_columns(F=pl.len().over(keys)).filter(pl.Series(drawn)).with_columns(f=pl.len().over(keys))
    unique = sample.filter(pl.col("f") == 1)
    return sample.select(keys), int((unique["F"] == 1).sum()), float((1 / unique["F"]).sum())


@pytest.mark.parametrize(("share", "about"), [(0.05, 120), (0.2, 480)])
def test_simulated_population_of_12_000_cells(share: float, about: int) -> None:
    tau = []
    for seed in range(4):
        people = population(60_000, seed)
        sample, unique, right = truth(people, np.random.default_rng(99 + seed).random(people.height) < share)
        score = dc.LogLinearRisk(columns=people.columns, share=share)(sample)
        assert score.detail["cells"] == 12_000
        assert abs(score.detail["misfit"]) < 4
        tau.append((score.detail["tau1"], unique, score.detail["tau2"], right))
    estimate, real, matches, right = np.mean(tau, axis=0)
    assert estimate == pytest.approx(real, rel=0.06)
    assert matches == pytest.approx(right, rel=0.04)
    assert real == pytest.approx(about, rel=0.1)


def test_dependence_needs_its_interaction() -> None:
    people = population(60_000, 7, dependent=True)
    sample, unique, _ = truth(people, np.random.default_rng(1).random(people.height) < 0.1)
    main = dc.LogLinearRisk(columns=people.columns, share=0.1)(sample)
    joint = dc.LogLinearRisk(columns=people.columns, share=0.1, interactions=[["k0", "k1"]])(sample)
    assert main.detail["misfit"] > 20
    assert abs(joint.detail["misfit"]) < 4
    assert joint.detail["tau1"] == pytest.approx(unique, rel=0.15)
    assert abs(main.detail["tau1"] - unique) > 2 * abs(joint.detail["tau1"] - unique)


def naive(frame: pl.DataFrame, margins: list[tuple[str, ...]], pi: float) -> tuple[float, float]:
    """Fit on a dictionary of all cells, margin by margin, and sum over the sample uniques."""
    names = frame.columns
    values = [sorted(frame[name].unique().to_list()) for name in names]
    count = dict.fromkeys(itertools.product(*values), 0)
    for row in frame.rows():
        count[row] += 1
    mean = dict.fromkeys(count, 1.0)
    for _, margin in itertools.product(range(200), margins):
        kept = [names.index(name) for name in margin]
        seen: dict[tuple[object, ...], float] = {}
        made: dict[tuple[object, ...], float] = {}
        for cell in count:
            key = tuple(cell[i] for i in kept)
            seen[key] = seen.get(key, 0) + count[cell]
            made[key] = made.get(key, 0) + mean[cell]
        for cell in mean:
            key = tuple(cell[i] for i in kept)
            mean[cell] *= seen[key] / made[key] if made[key] else 0
    others = [mean[cell] / pi * (1 - pi) for cell, f in count.items() if f == 1]
    return sum(math.exp(-x) for x in others), sum((1 - math.exp(-x)) / x for x in others)


@pytest.mark.parametrize(
    "interactions",
    [
        [],
        [("a", "b")],
        [("a", "b"), ("b", "c")],
        [("a", "b"), ("b", "c"), ("a", "c")],
        [("a", "b"), ("c", "d")],
        [("a", "b", "c")],
        [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")],
    ],
)
def test_against_a_naive_fit(interactions: list[tuple[str, ...]]) -> None:
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.integers(0, 3, 40) * rng.integers(0, 2, 40) for name in "abcd"})
    score = dc.LogLinearRisk(columns=frame.columns, interactions=interactions, share=0.25)(frame)
    tau1, tau2 = naive(frame, [*interactions, ("a",), ("b",), ("c",), ("d",)], 0.25)
    assert score.detail["tau1"] == pytest.approx(tau1, rel=1e-6)
    assert score.detail["tau2"] == pytest.approx(tau2, rel=1e-6)
    assert score.per_record is not None
    assert score.per_record.sum() == pytest.approx(tau1, rel=1e-6)
    assert score.value == pytest.approx(tau1 / score.detail["sample_uniques"], rel=1e-6)


def test_misfit_is_summed_over_all_cells() -> None:
    frame = pl.DataFrame({"a": [0, 0, 0, 1, 1, 2], "b": [0, 1, 1, 1, 1, 0]})
    observed = np.array([[1, 2], [0, 2], [1, 0]])
    mean = np.outer([3, 2, 1], [2, 4]) / 6
    want = (((observed - mean) ** 2) - observed).sum() / math.sqrt(2 * (mean**2).sum())
    assert dc.LogLinearRisk(columns=["a", "b"], share=0.5)(frame).detail["misfit"] == pytest.approx(want)


def test_a_whole_population_has_only_population_uniques() -> None:
    frame = pl.DataFrame({"a": [1, 2, 2], "b": [1, 2, 2]})
    score = dc.LogLinearRisk(columns=["a", "b"], population_size=3)(frame)
    assert (score.value, score.detail["tau1"], score.detail["tau2"]) == (1, 1, 1)
    nobody = dc.LogLinearRisk(columns=["a"], share=0.5)(pl.DataFrame({"a": [1, 1]}))
    assert (nobody.value, nobody.detail["tau1"], nobody.detail["tau2"]) == (0, 0, 0)


def test_missing_values_are_a_category_or_left_out() -> None:
    frame = pl.DataFrame({"a": ["x", "x", "y", None], "b": [1, 1, 2, 2]})
    as_category = dc.LogLinearRisk(columns=["a", "b"], share=0.5)(frame)
    filled = dc.LogLinearRisk(columns=["a", "b"], share=0.5)(frame.with_columns(pl.col("a").fill_null("?")))
    left_out = dc.LogLinearRisk(columns=["a", "b"], share=0.5, missing="ignore")(frame)
    complete = dc.LogLinearRisk(columns=["a", "b"], share=0.5)(frame[:3])
    assert as_category.value == filled.value and left_out.value == complete.value
    assert left_out.per_record is not None
    assert np.isnan(left_out.per_record).tolist() == [False, False, False, True]


def test_what_is_refused() -> None:
    frame = pl.DataFrame({name: range(50) for name in "abc"})
    chain = [["a", "b"], ["b", "c"]]
    with pytest.raises(dc.DataError, match=r"125,000 cells, more than `max_cells` 100,000"):
        dc.LogLinearRisk(columns=["a", "b", "c"], share=0.5, interactions=chain, max_cells=100_000)(frame)
    assert dc.LogLinearRisk(columns=["a", "b", "c"], share=0.5, max_cells=1)(frame).detail["cells"] == 125_000
    with pytest.raises(dc.DataError, match="not among `columns`"):
        dc.LogLinearRisk(columns=["a", "b"], share=0.5, interactions=chain)(frame)
    with pytest.raises(dc.DataError, match="population of 10 is smaller than 50"):
        dc.LogLinearRisk(columns=["a"], population_size=10)(frame)
    with pytest.raises(dc.PlanError, match="either `share` or `population_size`"):
        dc.LogLinearRisk(columns=["a"])
    with pytest.raises(dc.PlanError, match="at least two columns"):
        dc.LogLinearRisk(columns=["a"], share=0.5, interactions=[["a"]])
