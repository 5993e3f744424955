from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import Context
from discretion.release.gate import judge
from discretion.release.plan import Requirement


def naive(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Reid_k and Reid_d by comparing everything with everything, on standardized columns."""
    sd = np.array([s if (s := c.std(ddof=1)) > 0 else 1.0 for c in x.T])
    x, y = x / sd, y / sd
    reid_k = reid_d = 0.0
    for i, row in enumerate(x):
        distance = np.sqrt(((y - row) ** 2).sum(axis=1))
        nearest = np.flatnonzero(distance <= distance.min() * (1 + 1e-9))
        reid_d += nearest[0] == i
        reid_k += (i in nearest) / len(nearest)
    return reid_k / len(x), reid_d / len(x)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 40), d=st.integers(1, 4), values=st.sampled_from([2, 4, 1000]))
def test_against_all_pairs_with_ties_and_duplicates(seed: int, n: int, d: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, (n, d)).astype(float)
    y = x + rng.integers(-1, 2, (n, d))
    names = [f"v{j}" for j in range(d)]
    frames = [pl.DataFrame(values, schema=names) for values in (x, y)]
    score = dc.DistanceLinkage(columns=names)(*frames, align="position")
    reid_k, reid_d = naive(x, y)
    assert score.value == pytest.approx(reid_k)
    assert score.detail["reid_d"] == pytest.approx(reid_d)


def test_microaggregation_is_attacked_by_one_over_the_group_size() -> None:
    x = np.random.default_rng(1).normal(size=(600, 2))
    data = pl.DataFrame(x, schema=["a", "b"])
    for k in (3, 6):
        score = dc.DistanceLinkage(columns=["a", "b"])(data, dc.Mdav(columns=["a", "b"], k=k)(data))
        assert score.value <= 1 / k


def test_planted_truth() -> None:
    """Half of the records are published as they are, half are moved far away onto each other's places."""
    x = np.arange(100.0)
    y = x.copy()
    y[50:] = x[50:][::-1]
    frame = pl.DataFrame({"x": x}), pl.DataFrame({"x": y})
    score = dc.DistanceLinkage(columns=["x"])(*frame)
    assert score.value == 0.5
    assert score.detail["known_reid"] == 0.5
    assert score.per_record is not None and score.per_record[:50].all() and not score.per_record[50:].any()


def test_missing_values_are_linked_on_what_is_known() -> None:
    x = pl.DataFrame({"a": [1.0, 2.0, None], "b": [1.0, None, None]})
    y = pl.DataFrame({"a": [1.0, 2.1, 5.0], "b": [1.0, 7.0, None]})
    score = dc.DistanceLinkage(columns=["a", "b"])(x, y)
    assert score.per_record is not None
    assert score.per_record.tolist() == [1.0, 1.0, 1 / 3]


def test_without_columns_all_quasi_identifiers_are_linked() -> None:
    data = dc.datasets.census(200, seed=1)
    score = dc.DistanceLinkage()(data, dc.Generalize(levels={"age": 1})(data))
    assert score.detail["columns"] == list(data.having("quasi"))
    with pytest.raises(dc.DataError, match="none of the quasi-identifiers"):
        dc.DistanceLinkage()(data, data.drop(data.having("quasi")))


def test_more_than_ten_columns() -> None:
    x = np.random.default_rng(2).normal(size=(150, 12))
    y = x + np.random.default_rng(3).normal(size=x.shape) * 2
    names = [f"v{j}" for j in range(12)]
    score = dc.DistanceLinkage(columns=names)(pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names))
    assert score.value == pytest.approx(naive(x, y)[0])


def test_a_sample_of_people_is_linked_as_all_are_and_judged_by_the_upper_end() -> None:
    """Each of the people drawn is found as often as when everybody is looked for, by the plain and the informed."""
    people, columns = dc.datasets.census(900, seed=1).drop(["household"]), ["age", "income", "savings"]
    for method in (dc.AdditiveNoise(columns=columns, sd_share=0.1), dc.RankSwap(columns=columns, percent=4)):
        released = method(people, seed=3)
        whole, drawn = (dc.DistanceLinkage(columns=columns, sample=size)(people, released) for size in (0, 300))
        every, some = np.asarray(whole.per_record), np.asarray(drawn.per_record)
        chosen = ~np.isnan(some)
        assert 50 <= chosen.sum() <= 300 and chosen.sum() == drawn.detail["targets"]
        if whole.value == whole.detail["informed"]:  # elimination, which needs everybody, is left out of a sample
            assert some[chosen] == pytest.approx(every[chosen])
        low, high = drawn.detail["interval"]
        assert low <= drawn.value <= high and low - 0.05 <= whole.detail["informed"] <= high + 0.05
        assert f"Looked for {chosen.sum():,} people drawn at random" in drawn.meaning
    between = (drawn.value + high) / 2
    required = Requirement(dc.DistanceLinkage(columns=columns, sample=300), at_most=between)
    found = judge(required, people, released, Context(0))
    assert not found.holds and found.value == pytest.approx(high, abs=0.05) and "by a sample" in found.explain()
