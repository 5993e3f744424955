from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.part import parse


def test_formula_with_a_sampling_fraction() -> None:
    data = pl.DataFrame({"a": [1, 2, 3, 4, 4, 5, 5, 6, 6, 6]})
    score = dc.SampleUniqueness(columns=["a"], share=0.2)(data)
    assert score.value == pytest.approx(0.2 * 3 / (0.2 * 3 + 2 * 0.8 * 2))
    assert score.detail["share_unique"] == 0.3


def test_population_file(tmp_path: Path) -> None:
    sample = pl.DataFrame({"a": ["p", "q", "r", "r"], "b": [1, 1, 1, 1]})
    population = pl.concat([sample, pl.DataFrame({"a": ["q", "s"], "b": [1, 1]})])
    file = tmp_path / "population.csv"
    population.write_csv(file)
    by_file = dc.SampleUniqueness(columns=["a", "b"], population=str(file))(sample)
    in_memory = dc.SampleUniqueness(columns=["a", "b"], population=population)(sample)
    assert by_file.value == in_memory.value == 0.5
    written = dc.SampleUniqueness(columns=["a"], population=population).to_plan()
    with pytest.raises(dc.PlanError, match="save that data and give the path"):
        parse(written)


def test_estimate_against_a_simulated_population() -> None:
    rng = np.random.default_rng(7)
    keys = rng.zipf(1.6, 40_000) % 20_000
    sample = rng.random(40_000) < 0.3
    truth = dc.SampleUniqueness(columns=["a"], population=pl.DataFrame({"a": keys}))(pl.DataFrame({"a": keys[sample]}))
    estimate = dc.SampleUniqueness(columns=["a"], share=0.3)(pl.DataFrame({"a": keys[sample]}))
    counts = np.bincount(keys, minlength=20_000)
    drawn = np.bincount(keys[sample], minlength=20_000)
    correct = (drawn == 1).sum() / counts[drawn == 1].sum()
    assert estimate.value == pytest.approx(correct, abs=0.03)
    assert truth.value == pytest.approx(((counts == 1) & (drawn == 1)).sum() / (drawn == 1).sum())


def test_nobody_is_unique() -> None:
    data = pl.DataFrame({"a": [1, 1]})
    assert dc.SampleUniqueness(columns=["a"])(data).value == 0
    assert dc.SampleUniqueness(columns=["a"], population=data)(data).value == 0
    assert dc.SampleUniqueness(columns=["a"], share=0.5)(data).value == 0


def test_a_raw_population_is_generalized_like_the_release() -> None:
    areas = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"area": ["a", "c"]}), roles={"area": "quasi"}, hierarchies={"area": areas})
    everybody = pl.DataFrame({"area": ["a", "b", "c"]})
    score = dc.SampleUniqueness(population=everybody)(dc.Generalize(levels={"area": 1})(data))
    assert score.value == 0.5
    assert score.detail["not_in_population"] == 0
    strange = dc.SampleUniqueness(population=pl.DataFrame({"area": ["a"]}))(data)
    assert strange.detail["not_in_population"] == 1


# --- the warning about perturbed quasi-identifiers, which all measures of uniqueness share ---------------------------


def people() -> dc.Dataset:
    return dc.datasets.census(600, seed=1)


PERTURBING: list[tuple[dc.Method, str]] = [
    (dc.AdditiveNoise(columns=["age"], sd_share=0.1), "age"),
    (dc.AdditiveNoise(columns=["income"], sd_share=0.1), "income"),
    (dc.RankSwap(columns=["age"], percent=10), "age"),
    (dc.RankSwap(columns=["income"], percent=10), "income"),
    (dc.Mdav(columns=["age", "income"], k=5), "age"),
    (dc.Pram(columns=["sex"], keep_share=0.8), "sex"),
    (dc.RandomizedResponse(columns=["marital_status"], truth_share=0.7), "marital_status"),
]
TRUTHFUL: list[dc.Method] = [
    dc.Sample(share=0.5),
    dc.Recode(column="age", width=10),
    dc.TopCode(column="age", quantile=0.9),
    dc.TopCode(column="income", quantile=0.9),
    dc.BottomCode(column="income", quantile=0.1),
    dc.Round(columns=["age"], base=5),
    dc.GroupCategories(column="sex", groups={"anybody": ["female", "male"]}),
    dc.LocalSuppression(columns=["age", "sex"], k=3),
    dc.Mondrian(columns=["age", "sex", "region"], k=5),
]


@pytest.mark.parametrize(("method", "column"), PERTURBING, ids=lambda part: getattr(part, "kind", part))
def test_perturbation_is_noticed(method: dc.Method, column: str) -> None:
    data = people()
    released = method(data, seed=1)
    columns = ["age", "sex", "marital_status", "income"]
    for score in (dc.SampleUniqueness(columns=columns)(released), dc.SampleUniqueness(columns=columns)(data, released)):
        assert column in score.detail["perturbed"]
        assert column in score.detail["warning"] and score.detail["warning"] in score.meaning
    untouched = [name for name in columns if released.frame[name].equals(data.frame[name])]
    assert "warning" not in dc.SampleUniqueness(columns=untouched)(released).detail


@pytest.mark.parametrize("method", TRUTHFUL, ids=lambda part: part.kind)
def test_recoding_sampling_and_suppression_are_not_perturbation(method: dc.Method) -> None:
    data = people()
    released = method(data, seed=1)
    score = dc.SampleUniqueness(columns=["age", "sex", "region", "income"])(data, released)
    assert "warning" not in score.detail and "Warning" not in score.meaning


def test_generalization_is_not_perturbation() -> None:
    areas = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"area": list("abcd") * 9}), roles={"area": "quasi"}, hierarchies={"area": areas})
    local = dc.LocalRecoding(k=10)(data, seed=1)
    for released in (dc.Generalize(levels={"area": 1})(data), local):
        assert "warning" not in dc.SampleUniqueness()(released).detail


@pytest.mark.parametrize(
    ("before", "after", "perturbed"),
    [
        (["a", "b", "c"], ["a", "a", "c"], False),  # b joined a
        (["a", "b", "c"], ["b", "a", "c"], True),  # exchanged
        (["a", "a", "b"], ["a", "b", "b"], True),  # one value in two ways
        (["a", "b", None], ["x", "y", "z"], False),  # renamed
        ([1, 5, 9], [2, 5, 7], False),  # in order
        ([1, 5, 9], [9.5, 5.2, 1.1], False),  # the other way round
        ([1, 5, 9], [3, 2, 8], True),  # noise on values that occur once
        ([1, 1, 5, 5, 9], [70, 70, 5, 5, 60], False),  # groups with new codes
        ([1, 5, 9], ["1-5", "1-5", "9"], False),  # intervals
    ],
)
def test_what_counts_as_perturbation(before: list[object], after: list[object], perturbed: bool) -> None:
    score = dc.SampleUniqueness(columns=["a"])(pl.DataFrame({"a": before}), pl.DataFrame({"a": after}))
    assert ("warning" in score.detail) == perturbed


@pytest.mark.parametrize(
    "measure",
    [
        dc.IndividualRisk(columns=["age"], share=0.1),
        dc.HouseholdRisk(columns=["age"], share=0.1),
        dc.LogLinearRisk(columns=["age"], share=0.1),
        dc.PopulationUniqueness(columns=["age"], share=0.1),
        dc.AttackerRisk(columns=["age"]),
    ],
    ids=lambda part: part.kind,
)
def test_every_measure_of_uniqueness_warns(measure: dc.Measure) -> None:
    data = people()
    swapped = dc.RankSwap(columns=["age"], percent=10)(data, seed=1)
    assert measure(swapped).detail["perturbed"] == ["age"]
    assert "Warning" in measure(swapped).meaning
    assert "warning" not in measure(data).detail


def test_a_release_whose_rows_cannot_be_matched_is_not_judged() -> None:
    score = dc.SampleUniqueness(columns=["a"])(pl.DataFrame({"a": [1, 2, 3]}), pl.DataFrame({"a": [2, 1]}))
    assert "warning" not in score.detail


def test_nothing_counted_is_no_zero_risk() -> None:
    table = pl.DataFrame({"a": [1, None], "b": [None, 2]})
    with pytest.raises(dc.DataError, match="nothing is counted"):
        dc.SampleUniqueness(columns=["a", "b"], missing="ignore")(table)


def test_local_recoding_and_groups_from_elsewhere_are_not_taken_for_perturbation() -> None:
    before = pl.DataFrame({"zip": ["40831", "40831", "40832", "97206"], "job": ["a", "a", "b", "c"]})
    coarser = pl.DataFrame({"zip": ["40831", "4083*", "4083*", "*"], "job": ["{a, b}", "a", "{a, b}", "c"]})
    score = dc.SampleUniqueness(columns=["zip", "job"])(before, coarser)
    assert "warning" not in score.detail
    swapped = before.with_columns(pl.Series("job", ["b", "a", "a", "c"]))
    assert dc.SampleUniqueness(columns=["zip", "job"])(before, swapped).detail["perturbed"] == ["job"]
