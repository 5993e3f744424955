from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference


def test_suppressed_and_changed_cells() -> None:
    x = pl.DataFrame({"a": [1.0, 2, 3, None], "b": ["u", "v", None, "w"]})
    y = pl.DataFrame({"a": [1.0, 5, None, None], "b": ["u", None, "v", "w"]})
    score = dc.ChangedShare(columns=["a", "b"])(x, y)
    assert score.value == 4 / 8
    assert score.detail["per_column"] == {
        "a": {"suppressed": 0.25, "changed": 0.25},
        "b": {"suppressed": 0.25, "changed": 0.25},
    }
    assert score.detail["records_touched"] == 0.5
    assert score.per_record is not None
    assert score.per_record.tolist() == [0, 1, 1, 0]


def test_a_study_counts_what_its_steps_did() -> None:
    people = dc.Dataset(
        pl.DataFrame({"region": list("aabbc"), "income": [1, 2, 3, 4, 5], "name": list("vwxyz")}),
        roles={"region": "quasi", "income": "sensitive", "name": "identifier"},
    )
    released = dc.LocalSuppression(columns=["region"], k=2)(people)
    score = dc.ChangedShare()(people, released)
    hidden = released.suppressed_cells["region"]
    assert hidden > 0
    assert [score.value, score.detail["suppressed"]] == pytest.approx([hidden / 10] * 2)
    assert dc.ChangedShare()(people, released.drop(["region"])).detail["columns_not_released"] == ["region"]


def test_weights_count() -> None:
    roles = {"w": "weight", "a": "quasi"}
    x = dc.Dataset(pl.DataFrame({"a": [1, 2], "w": [1.0, 3.0]}), roles=roles)
    y = dc.Dataset(pl.DataFrame({"a": [1, 3], "w": [1.0, 3.0]}), roles=roles)
    assert dc.ChangedShare()(x, y).value == 0.75
    assert dc.VariableChange(standardize=False)(x, y).value == pytest.approx(0.75 * 0.5)


def test_variable_change_by_its_definition() -> None:
    x = dc.Dataset(
        pl.DataFrame({"n": [1.0, 2, 3, None], "g": ["low", "mid", "high", "low"], "c": ["u", "v", "v", None]}),
        orders={"g": ["low", "mid", "high"]},
    )
    y = pl.DataFrame({"n": [1.0, 4, None, 7], "g": ["low", "high", "low", None], "c": ["u", "u", None, None]})
    score = dc.VariableChange(columns=["n", "g", "c"])(x, y)
    wanted = {"n": (0 + 2 / np.pi * np.arctan(2) + 1 + 1) / 4, "g": (0 + 0.5 + 1 + 1) / 4, "c": (0 + 1 + 1 + 0) / 4}
    assert score.detail["per_column"] == pytest.approx(wanted)
    assert score.value == pytest.approx(np.mean(list(wanted.values())))


def test_units_matter_only_when_asked() -> None:
    rng = np.random.default_rng(0)
    x = pl.DataFrame({"a": rng.normal(size=50)})
    y = x + 0.1
    plain, own = dc.VariableChange(columns=["a"]), dc.VariableChange(columns=["a"], standardize=False)
    assert plain(x * 1000, y * 1000).value == pytest.approx(plain(x, y).value)
    assert own(x * 1000, y * 1000).value > 0.9 > own(x, y).value


@pytest.mark.peers
def test_categories_of_sdcmicro() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "06_IL_variables_cat.json").read_text())
    keys = list(golden["indiv"])
    read = {"columns": keys, "null_values": ["NA"], "schema_overrides": dict.fromkeys(keys, pl.String)}
    x = pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv"), **read)
    y = pl.read_csv(reference("golden", "sdcmicro", "in_testdata_keys_somesupp.csv"), **read)
    score = dc.VariableChange(columns=keys)(x, y)
    assert score.detail["per_column"] == pytest.approx(golden["indiv"], abs=1e-12)
    assert score.value == pytest.approx(golden["total"], rel=1e-9)


def test_large_whole_numbers_are_compared_to_the_last() -> None:
    x = pl.DataFrame({"a": [2**60, 2**60 + 1, None, 5]})
    y = pl.DataFrame({"a": [2**60 + 1, 2**60 + 1, None, 5]})
    assert dc.ChangedShare(columns=["a"])(x, y).value == 0.25


@pytest.mark.parametrize("measure", [dc.ChangedShare, dc.VariableChange, dc.Marginals, dc.RangeQueries])
def test_the_unit_of_a_date_is_no_change(measure: type[dc.Measure]) -> None:
    x = pl.DataFrame({"a": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 3, 1), eager=True)})
    for unit in (pl.Datetime("us"), pl.Datetime("ms")):
        y = x.cast(unit)
        assert measure(columns=["a"])(x, y).value == 0
        moved = y.with_columns(pl.col("a") + pl.duration(days=20))
        assert measure(columns=["a"])(x, moved).value == pytest.approx(
            measure(columns=["a"])(x, x.with_columns(pl.col("a") + pl.duration(days=20))).value
        )
