"""Who did not answer: gaps that a method keeps tell records apart."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import discretion as dc

_KEYS = ("region", "sex", "diag")


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    rng = np.random.default_rng(5)
    n = 600
    bmi = np.where(rng.random(n) < 0.25, np.nan, rng.normal(27, 5, n).round(1))
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("ABCDE"), n),
            "sex": rng.choice(["m", "f"], n),
            "diag": rng.choice([f"D{i}" for i in range(20)], n),
            "bmi": bmi,
        }
    ).with_columns(pl.col("bmi").fill_nan(None))
    return dc.Dataset(frame, roles={"region": "quasi", "sex": "quasi", "diag": "sensitive", "bmi": "sensitive"})


def _classes(people: dc.Dataset, *columns: str) -> Counter[tuple[object, ...]]:
    frame = people.frame.with_columns(gap=pl.col("bmi").is_null())
    return Counter(frame.select(*_KEYS, *columns).rows())


def test_a_shuffled_column_tells_who_did_not_answer(people: dc.Dataset) -> None:
    released = dc.Shuffle(columns=["bmi"], predictors=["sex"])(people, seed=1)
    score = dc.DistanceLinkage(columns=[*_KEYS, "bmi"])(people, released)
    by_gap, without = _classes(people, "gap"), _classes(people)
    alone = sum(size == 1 for size in by_gap.values()) / len(people)
    # whoever picks any of the records with the same keys and the same gap is right for one in each class
    assert score.value >= len(by_gap) / len(people) - 1e-12
    assert len(by_gap) > 1.2 * len(without)
    assert score.detail["eliminated_certain"] == pytest.approx(alone)
    assert score.detail["gaps"] == ["bmi"]
    assert "(worst case; also who has no value in bmi)" in score.detail["intruder"]


def test_the_method_need_not_be_known_for_it(people: dc.Dataset) -> None:
    released = dc.Shuffle(columns=["bmi"], predictors=["sex"])(people, seed=1)
    unaware = {"knows_method": False}
    plain = dc.DistanceLinkage(columns=[*_KEYS, "bmi"], intruder=unaware)(people, released)
    blind = dc.DistanceLinkage(columns=[*_KEYS], intruder=unaware)(people, released)
    assert plain.value > 1.2 * blind.value
    together = dc.AssignmentLinkage(columns=[*_KEYS, "bmi"])(people, released)
    assert together.value > 1.2 * dc.AssignmentLinkage(columns=[*_KEYS])(people, released).value


def test_gaps_of_a_generalized_column_are_used() -> None:
    ages = [20, 21, None, 24, 22, 23, None, 28]
    data = dc.Dataset(
        pl.DataFrame({"age": ages, "sex": list("mmmmffff")}),
        roles={"age": "quasi", "sex": "quasi"},
        hierarchies={"age": {"intervals": {"width": 20, "levels": 2}}},
    )
    released = dc.Generalize(levels={"age": 1})(data, seed=1)
    assert released.frame["age"].null_count() == 2
    score = dc.DistanceLinkage(columns=["age", "sex"])(data, released)
    # of each sex one has no age and is known for certain, the other three are alike
    assert score.value == pytest.approx(4 / 8)
    assert score.detail["known_reid"] == pytest.approx(2 / 8)


def test_imputed_gaps_tell_nothing() -> None:
    original = dc.Dataset(
        pl.DataFrame({"a": [1, None, 1, None], "b": list("xxxx")}), roles={"a": "quasi", "b": "quasi"}
    )
    released = original.with_columns({"a": pl.Series([1, 1, 1, 1], dtype=pl.Int64)})
    score = dc.DistanceLinkage(columns=["a", "b"], intruder={"knows_method": False})(original, released)
    assert score.value == pytest.approx(1 / 4)
    assert score.detail["gaps"] == []


def test_values_with_errors_do_not_tell_who_lacks_one(people: dc.Dataset) -> None:
    released = dc.Shuffle(columns=["bmi"], predictors=["sex"])(people, seed=1)
    intruder = {"error": {"share": 0.1}}
    score = dc.DistanceLinkage(columns=[*_KEYS, "bmi"], intruder=intruder)(people, released)
    assert score.detail["gaps"] == []


def _texts(x: NDArray[np.float64]) -> dc.Dataset:
    names = ["a", "b", "c"]
    frame = pl.DataFrame(x, schema=names).with_columns(pl.col(names).fill_nan(None).cast(pl.Int64).cast(pl.String))
    return dc.Dataset(frame, roles=dict.fromkeys(names, "quasi"), types=dict.fromkeys(names, "nominal"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["distance", "assignment"])
def test_against_all_pairs(seed: int, kind: str) -> None:
    """Three columns with gaps, one kept, one suppressed further, one partly imputed: compared pair by pair."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(seed)
    n = 60
    known = rng.integers(0, 3, (n, 3)).astype(float)
    known[rng.random((n, 3)) < 0.3] = np.nan
    shown = known.copy()
    shown[rng.random(n) < 0.2, 1] = np.nan
    shown[np.isnan(shown[:, 2]) & (rng.random(n) < 0.5), 2] = 1.0
    costs = np.empty((n, n))
    for person, q in enumerate(known):
        for record, p in enumerate(shown):
            gap, void = np.isnan(q), np.isnan(p)
            excluded = gap[0] != void[0] or (gap[1] and not void[1]) or (void[2] and not gap[2])
            costs[person, record] = np.inf if excluded else (~gap & ~void & (q != p)).sum()
    if kind == "assignment":
        score = dc.AssignmentLinkage(columns=["a", "b", "c"], missing="match")(_texts(known), _texts(shown))
        rows, linked = linear_sum_assignment(costs)
        assert score.detail["total_distance"] == pytest.approx(costs[rows, linked].sum() / 3)
        return
    attack = dc.DistanceLinkage(columns=["a", "b", "c"], missing="match", intruder={"knows_method": False})
    nearest = costs == costs.min(axis=1, keepdims=True)
    assert attack(_texts(known), _texts(shown)).value == pytest.approx((np.diag(nearest) / nearest.sum(axis=1)).mean())
