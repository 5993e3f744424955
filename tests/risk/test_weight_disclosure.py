"""What exact weights tell, against guessing by hand; rare and extreme values of single columns."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError


def by_hand(weights: list[float], shown: list[str], values: list[str]) -> list[float]:
    """For each record: the most frequent value of the others with its weight and published value, ties at random."""
    people = list(zip(weights, shown, values, strict=True))
    result = []
    for i, (weight, public, value) in enumerate(people):
        others = Counter(v for j, (w, s, v) in enumerate(people) if (w, s) == (weight, public) and j != i)
        if not others:
            others = Counter(v for _, s, v in people if s == public)
        best = [v for v, count in others.items() if count == max(others.values())]
        result.append(1 / len(best) if value in best else 0.0)
    return result


@pytest.mark.parametrize("seed", range(15))
def test_guesses_agree_with_those_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    values = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1]).tolist()
    weights = rng.integers(1, int(rng.integers(2, 12)), n).astype(float).tolist()
    shown = [{"a": "ab", "b": "ab"}.get(value, "cd") for value in values]
    before = pl.DataFrame({"area": values, "w": weights})
    after = pl.DataFrame({"area": shown, "w": weights})
    score = dc.WeightDisclosure(weight="w", columns=["area"])(
        dc.Dataset(before), dc.Dataset(after).matched_to(dc.Dataset(before), np.arange(n))
    )
    assert score.per_record == pytest.approx(by_hand(weights, shown, values))
    usual = sum(
        max(Counter(v for s, v in zip(shown, values, strict=True) if s == public).values()) for public in set(shown)
    )
    assert score.detail["chance"] == pytest.approx(usual / n)


def test_columns_of_very_many_values_are_counted_not_laid_out() -> None:
    n = 100_000  # a matrix of published by true values would need 80 GB
    frame = dc.Dataset(pl.DataFrame({"code": np.arange(n), "w": np.arange(n) // 2 % 7 + 1.0}))
    score = dc.WeightDisclosure(weight="w", columns=["code"])(frame, frame)
    assert score.value == score.detail["chance"] == 1.0  # published as it is: nothing is left to tell


def test_weights_of_the_design_tell_the_generalized_region() -> None:
    people = dc.datasets.census(3000, seed=1)
    released = dc.Generalize(levels={"region": 1})(people)
    score = dc.WeightDisclosure()(people, released)
    assert score.detail["target"] == "region"
    assert score.value > 0.75 > score.detail["chance"] + 0.2
    shuffled = released.take(np.random.default_rng(1).permutation(len(released)))
    assert dc.WeightDisclosure()(people, shuffled).value == pytest.approx(score.value)
    nameless = (
        shuffled.drop(["person_id", "name"]).frame.sample(2900, seed=1).drop("birth_date", "savings", "household")
    )
    outside = dc.Dataset(nameless, schema=people.schema.only(nameless.columns))
    unmatched = dc.WeightDisclosure(columns=["region"])(people, outside)
    assert unmatched.value > unmatched.detail["chance"] + 0.2 and unmatched.per_record is None
    equal = people.with_columns({"weight": np.full(len(people), 7.5)})
    told = dc.WeightDisclosure(columns=["region"])(equal, dc.Generalize(levels={"region": 1})(equal))
    assert told.value == pytest.approx(told.detail["chance"], abs=0.01)
    same = dc.WeightDisclosure()(people, people)
    assert same.value == same.detail["chance"] == 1


def test_changed_weights_of_unmatched_rows_are_an_error() -> None:
    before = pl.DataFrame({"area": ["a", "b", "a"], "w": [1.0, 2.0, 3.0]})
    after = pl.DataFrame({"area": ["a", "b"], "w": [1.5, 2.0]})
    with pytest.raises(DataError, match="weights were changed"):
        dc.WeightDisclosure(weight="w", columns=["area"])(before, after)


def test_rare_categories_and_extremes_are_counted_by_hand() -> None:
    rng = np.random.default_rng(1)
    income = np.concatenate([rng.normal(100, 10, 96), [1000.0, 1000.0, -800.0, np.nan]])
    job = ["nurse"] * 60 + ["clerk"] * 37 + ["mayor"] * 2 + [None]
    code = [0] * 50 + [1] * 49 + [2]
    frame = pl.DataFrame({"income": income, "job": job, "code": code})
    score = dc.RareValues(k=3, columns=["income", "job", "code"])(frame)
    found = score.detail["per_column"]
    assert found == {
        "income": {"extremes": 3, "fewest": 1},
        "job": {"rare_categories": 2, "fewest": 2},
        "code": {"rare_categories": 1, "fewest": 1},
    }
    risky = {96: 0.5, 97: 0.5, 98: 1.0, 99: 1.0}
    assert score.per_record.tolist() == pytest.approx([risky.get(row, 0.0) for row in range(100)])
    assert score.value == pytest.approx(0.04)
    assert dc.RareValues(k=2, columns=["job"])(frame).value == 0


def test_numbers_of_which_most_are_equal_are_extreme_by_the_others() -> None:
    savings = [0.0] * 80 + list(np.linspace(10, 30, 30)) + [5000.0]
    score = dc.RareValues(columns=["savings"])(pl.DataFrame({"savings": savings}))
    assert score.detail["per_column"] == {"savings": {"extremes": 1, "fewest": 1}}


def test_rare_sets_are_counted_as_values_of_their_own() -> None:
    sets = [["a"]] * 5 + [["a", "b"], ["b", "a"], ["c"], []] + [[]] * 5 + [None]
    data = dc.Dataset(pl.DataFrame({"ills": sets}), roles={"ills": "sensitive"}, types={"ills": "set"})
    score = dc.RareValues(k=3)(data)
    assert score.detail["per_column"] == {"ills": {"rare_sets": 3, "fewest": 1, "alone": 1}}
    assert score.value == pytest.approx(3 / 15)
    assert score.per_record is not None and score.per_record[5:8].tolist() == [0.5, 0.5, 1.0]
    (column,) = dc.assess(data, data, measures=[dc.RareValues(k=3)]).columns
    assert "3 records have a rare set (1 of them one that nobody else has)" in column.notes
