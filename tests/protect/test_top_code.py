from __future__ import annotations

import polars as pl
import pytest

import discretion as dc

DATA = pl.DataFrame({"x": [1, 2, 3, 4, 100], "y": [1.0, 2.0, None, 4.0, 100.0]})


def test_cut_keeps_the_type_and_missing_values() -> None:
    assert dc.TopCode(column="x", at=3)(DATA)["x"].to_list() == [1, 2, 3, 3, 3]
    assert dc.TopCode(column="y", at=3.5)(DATA)["y"].to_list() == [1.0, 2.0, None, 3.5, 3.5]
    assert dc.BottomCode(column="x", at=3)(DATA)["x"].to_list() == [3, 3, 3, 4, 100]


def test_mean_of_the_tail_keeps_the_mean() -> None:
    coded = dc.TopCode(column="y", at=3, replace="mean")(DATA)["y"]
    assert coded.to_list() == [1.0, 2.0, None, 52.0, 52.0]
    assert coded.mean() == DATA["y"].mean()


def test_flag_makes_text() -> None:
    assert dc.TopCode(column="x", at=3, replace="flag")(DATA)["x"].to_list() == ["1", "2", "3", "> 3", "> 3"]
    labeled = dc.BottomCode(column="x", at=2, replace="flag", label="low")(DATA)["x"].to_list()
    assert labeled == ["low", "2", "3", "4", "100"]


def test_a_bound_between_whole_numbers_makes_fractions() -> None:
    assert dc.TopCode(column="x", at=2.5)(DATA)["x"].to_list() == [1.0, 2.0, 2.5, 2.5, 2.5]


def test_quantile_is_found_on_the_values_present() -> None:
    decision = dc.TopCode(column="y", quantile=0.5).decide(dc.Dataset(DATA), dc.Context(0, "1"))
    assert decision["bound"] == 3.0


@pytest.mark.parametrize(
    "fields", [{}, {"at": 1, "quantile": 0.5}, {"quantile": 1.5}, {"at": 1, "label": "x"}, {"at": float("inf")}]
)
def test_wrong_parameters(fields: dict[str, object]) -> None:
    with pytest.raises(dc.PlanError):
        dc.TopCode(column="x", **fields)


def test_groups_with_confusing_names_stay_apart() -> None:
    data = pl.DataFrame({"g": ["None", "None", None, None], "h": ["a, h=b"] * 4, "x": [1.0, 2.0, 100.0, 200.0]})
    coded = dc.TopCode(column="x", quantile=0.5, by=["g", "h"])(data)["x"]
    assert coded.to_list() == [1.0, 1.5, 100.0, 150.0]
