from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, PlanError

CELLS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", None]), st.integers(1, 9)), min_size=1)


@given(CELLS)
def test_weighted_counts_by_the_named_columns_stay_and_the_weight_tells_no_more(
    rows: list[tuple[str, str, int]],
) -> None:
    frame = pl.DataFrame(rows, schema={"g": pl.String, "h": pl.String, "w": pl.Float64}, orient="row")
    issued = dc.ReissueWeights(by=["g", "h"], weight="w", smallest=1)(frame)
    sums = [one.group_by("g", "h").agg(pl.col("w").sum()).sort("g", "h") for one in (frame, issued)]
    assert sums[0].drop("w").equals(sums[1].drop("w")) and np.allclose(sums[0]["w"], sums[1]["w"])
    assert issued.group_by("g", "h").agg(pl.col("w").n_unique())["w"].max() == 1


def test_without_columns_everybody_has_the_mean_and_missing_stays_missing() -> None:
    frame = pl.DataFrame({"w": [1.0, None, 3.0], "x": [1, 2, 3]})
    issued = dc.ReissueWeights(weight="w")(frame)
    assert issued["w"].to_list() == [2.0, None, 2.0] and issued["x"].to_list() == [1, 2, 3]


def test_small_groups_and_unclear_columns_are_refused() -> None:
    frame = pl.DataFrame({"g": ["a"] * 10 + ["b"] * 9, "w": [1.0] * 19})
    with pytest.raises(DataError, match="1 groups of g have fewer than 10"):
        dc.ReissueWeights(by="g", weight="w")(frame)
    with pytest.raises(PlanError, match="no columns have the role weight"):
        dc.ReissueWeights(by="g")(frame)


def test_the_weight_of_the_census_no_longer_tells_the_region() -> None:
    people = dc.datasets.census(5000, seed=1)
    coarse = dc.Generalize(levels={"region": 1})(people)
    issued = dc.ReissueWeights(by=["region"])(coarse)

    def told(data: dc.Dataset) -> float:
        """The share of people whose region is right when guessed from the published region and weight."""
        known = pl.DataFrame({"true": people.frame["region"], "seen": data.frame["region"], "w": data.frame["weight"]})
        best = known.group_by("seen", "w", "true").len().group_by("seen", "w").agg(pl.col("len").max())
        return float(best["len"].sum()) / len(people)

    assert told(coarse) > 0.8 > told(issued)
    only_region = pl.DataFrame({"true": people.frame["region"], "seen": coarse.frame["region"]})
    alone = only_region.group_by("seen", "true").len().group_by("seen").agg(pl.col("len").max())["len"].sum()
    assert told(issued) == pytest.approx(alone / len(people))


def test_new_weights_have_as_many_digits_as_asked() -> None:
    frame = pl.DataFrame({"w": [1.0, 1.0, 2.0]})
    assert dc.ReissueWeights(weight="w")(frame)["w"].to_list() == [1.33333] * 3
    exact = dc.ReissueWeights(weight="w", digits=17)(frame)["w"]
    assert exact.sum() == pytest.approx(4.0, rel=1e-15)
