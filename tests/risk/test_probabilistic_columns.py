"""How columns of two data sets are made comparable."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

import discretion as dc

AGES = [23, 27, 31, 38, 44, 46, 52, 59, 63, 64]
REGIONS = ["a", "a", "b", "b", "c", "c", "d", "d", "a", "c"]
TREE = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})


def data() -> dc.Dataset:
    return dc.Dataset(
        pl.DataFrame({"age": AGES, "region": REGIONS}),
        roles={"age": "quasi", "region": "quasi"},
        hierarchies={"age": dc.Hierarchy.intervals(width=10, levels=3), "region": TREE},
    )


def test_generalized_values_are_compared_on_the_level_published() -> None:
    """Anonymity sets are the classes of the release: the intruder generalizes too."""
    released = dc.Generalize(levels={"age": 1, "region": 1})(data())
    score = dc.ProbabilisticLinkage()(data(), released)
    sizes = released.class_sizes(["age", "region"])
    assert score.per_record is not None
    np.testing.assert_allclose(score.per_record, 1 / sizes)
    assert dc.LearnedLinkage(folds=0)(data(), released).value == pytest.approx((1 / sizes).mean())


def test_a_generalized_file_from_elsewhere() -> None:
    labels = dc.Generalize(levels={"age": 1, "region": 1})(data()).frame
    score = dc.ProbabilisticLinkage()(data(), labels)
    assert score.detail["columns"] == ["age", "region"]
    here = dc.ProbabilisticLinkage()(data(), dc.Generalize(levels={"age": 1, "region": 1})(data()))
    assert score.value == pytest.approx(here.value)
    renamed = labels.with_columns(pl.col("region").replace_strict({"north": "x", "south": "y"}))
    assert dc.ProbabilisticLinkage()(data(), renamed).detail["not_compared"] == ["region"]


def test_cells_on_different_levels_agree_with_all_that_lies_below_them() -> None:
    source = data()
    labels = ["a", "north", "north", "b", "south", "c", "south", "d", "*", "*"]
    levels = np.array([0, 1, 1, 0, 1, 0, 1, 0, 2, 2])
    frame = pl.DataFrame({"age": AGES, "region": labels})
    released = dc.Dataset(frame, schema=source.schema).matched_to(source, np.arange(10)).with_levels({"region": levels})
    score = dc.ProbabilisticLinkage(columns=["region"])(source, released)
    below = {"north": "ab", "south": "cd", "*": "abcd"}
    agrees = np.array([[mine in below.get(label, label) for label in labels] for mine in REGIONS])
    assert score.per_record is not None
    np.testing.assert_allclose(score.per_record, np.diag(agrees) / agrees.sum(axis=1))
    assert score.detail["per_column"]["region"]["u"][1] == pytest.approx(agrees.mean())
    with pytest.raises(dc.DataError, match="different levels for different records"):
        dc.LearnedLinkage(columns=["region"])(source, released)


def test_ordered_categories_and_dates_agree_within_a_tolerance() -> None:
    order = ["low", "middle", "high", "top"]
    rank = np.random.default_rng(1).integers(0, 4, 80)
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=7 * i) for i in range(80)]
    known = dc.Dataset(pl.DataFrame({"rank": [order[r] for r in rank], "day": days}), orders={"rank": order})
    moved = [order[min(r + 1, 3)] for r in rank]
    shifted = [day + dt.timedelta(days=1) for day in days]
    published = dc.Dataset(pl.DataFrame({"rank": moved, "day": shifted}), orders={"rank": order})
    score = dc.ProbabilisticLinkage(columns=["rank", "day"], tolerance_sd=(0.01, 1.0))(known, published)
    detail = score.detail["per_column"]
    assert detail["rank"]["levels"] == ["differs", "within 1 sd", "within 0.01 sd"]
    near = np.abs(rank[:, None] - np.minimum(rank + 1, 3)[None, :]) <= rank.std(ddof=1)
    same = rank[:, None] == np.minimum(rank + 1, 3)[None, :]
    np.testing.assert_allclose(detail["rank"]["u"], [1 - near.mean(), near.mean() - same.mean(), same.mean()])
    assert detail["day"]["u"][2] == pytest.approx(1 / 80)
    assert score.value == 1.0


def test_numbers_declared_nominal_agree_only_when_equal() -> None:
    known = dc.Dataset(pl.DataFrame({"code": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0]}), types={"code": "nominal"})
    published = dc.Dataset(
        pl.DataFrame({"code": [1.0, 2.0, 3.0, 4.0], "x": [1.0, 2.0, 3.0, 4.0]}), types={"code": "nominal"}
    )
    detail = dc.ProbabilisticLinkage(columns=["code", "x"])(known, published).detail
    assert detail["per_column"]["code"]["levels"] == ["differs", "agrees"]
    assert detail["per_column"]["code"]["u"] == [0.75, 0.25]


def test_missing_is_no_evidence() -> None:
    """Whoever has nothing could be anybody; who lacks one column is found by the other."""
    known = pl.DataFrame({"a": [1.0, 2.0, None, 9.0], "c": ["x", None, None, "y"]})
    published = pl.DataFrame({"a": [1.0, 2.0, 30.0, 9.0], "c": ["x", "z", "w", "y"]})
    score = dc.ProbabilisticLinkage(columns=["a", "c"])(known, published)
    assert score.per_record is not None
    assert score.per_record.tolist() == [1.0, 1.0, 0.25, 1.0]
    assert score.detail["per_column"]["a"]["missing_share"] == 0.25
    assert score.detail["per_column"]["c"]["missing_share"] == 0.5


@pytest.mark.parametrize("measure", [dc.ProbabilisticLinkage, dc.LearnedLinkage])
class TestRefused:
    def test_nothing_in_common(self, measure: type[dc.Measure]) -> None:
        known, published = pl.DataFrame({"c": ["x", "y"]}), pl.DataFrame({"c": ["u", "v"]})
        with pytest.raises(dc.DataError, match="no value of 'c' in the original occurs in the release"):
            measure(columns=["c"])(known, published)

    def test_no_values(self, measure: type[dc.Measure]) -> None:
        known = pl.DataFrame({"c": [None, None]}, schema={"c": pl.Float64})
        with pytest.raises(dc.DataError, match="column 'c' has no values"):
            measure(columns=["c"])(known, known)

    def test_sets_on_one_side(self, measure: type[dc.Measure]) -> None:
        known = pl.DataFrame({"c": [["a"], ["b"]]})
        with pytest.raises(dc.DataError, match="holds sets on one side"):
            measure(columns=["c"])(known, pl.DataFrame({"c": ["a", "b"]}), align="position")

    def test_no_roles(self, measure: type[dc.Measure]) -> None:
        known = pl.DataFrame({"c": ["x", "y"]})
        with pytest.raises(dc.PlanError, match="give `columns`"):
            measure()(known, known)


def test_ranges_that_stand_in_no_hierarchy_agree_with_what_is_inside() -> None:
    known = pl.DataFrame({"age": [20, 30, 40, 50], "job": ["a", "b", "c", "d"]})
    released = pl.DataFrame({"age": ["[20, 30]", "[20, 30]", "[40, 50)", "50"], "job": ["{a, b}", "{a, b}", "c", "d"]})
    score = dc.ProbabilisticLinkage(columns=["age", "job"])(known, released)
    assert score.per_record is not None
    assert score.per_record.tolist() == [0.5, 0.5, 1.0, 1.0]


def test_large_whole_numbers_keep_their_last_digits() -> None:
    frame = pl.DataFrame({"number": [2**60 + i for i in range(8)]})
    assert dc.ProbabilisticLinkage(columns=["number"])(frame, frame).value == 1.0


def test_local_recoding_from_elsewhere_is_compared_on_its_levels() -> None:
    source = data()
    labels = pl.DataFrame({"age": AGES, "region": ["a", "north", "north", "b", "south", "c", "south", "d", "*", "*"]})
    levels = np.array([0, 1, 1, 0, 1, 0, 1, 0, 2, 2])
    marked = dc.Dataset(labels, schema=source.schema).matched_to(source, np.arange(10)).with_levels({"region": levels})
    attack = dc.ProbabilisticLinkage(columns=["region"])
    assert attack(source, labels).value == attack(source, marked).value
