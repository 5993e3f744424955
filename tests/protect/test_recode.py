from __future__ import annotations

import polars as pl
import pytest

import discretion as dc

AGES = pl.DataFrame({"age": [12, 23, 28, None, 42, 68]})


def test_cuts_labels_and_the_closed_last_interval() -> None:
    result = dc.Recode(column="age", cuts=[12, 28, 68])(AGES)["age"].to_list()
    assert result == ["[12, 27]", "[12, 27]", "[28, 68]", None, "[28, 68]", "[28, 68]"]


def test_width_counts_from_the_origin() -> None:
    result = dc.Recode(column="age", width=10, origin=5)(AGES)["age"].to_list()
    assert result == ["[5, 14]", "[15, 24]", "[25, 34]", None, "[35, 44]", "[65, 74]"]


def test_fractions_get_half_open_labels() -> None:
    data = pl.DataFrame({"x": [0.5, 1.25]})
    assert dc.Recode(column="x", width=1)(data)["x"].to_list() == ["[0, 1)", "[1, 2)"]


def test_quantiles_hold_about_equally_many() -> None:
    data = pl.DataFrame({"x": [float(i) for i in range(100)]})
    counts = dc.Recode(column="x", quantiles=4)(data)["x"].value_counts()["count"].to_list()
    assert counts == [25, 25, 25, 25]


def test_value_outside_the_cuts_is_counted_not_shown() -> None:
    with pytest.raises(dc.DataError, match="2 values lie outside the cuts 12 to 30") as error:
        dc.Recode(column="age", cuts=[12, 30])(AGES)
    assert "68" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of"),
        ({"cuts": [1, 2], "width": 3}, "exactly one of"),
        ({"cuts": [2, 1]}, "ascending"),
        ({"cuts": [1, 2, 3], "labels": ["a"]}, "2 intervals need as many labels"),
        ({"width": 5, "labels": ["a"]}, "`labels` go with"),
        ({"width": 0}, "width"),
        ({"quantiles": 1}, "quantiles"),
    ],
)
def test_wrong_parameters(fields: dict[str, object], message: str) -> None:
    with pytest.raises(dc.PlanError, match=message):
        dc.Recode(column="age", **fields)


def test_a_saved_decision_recodes_new_data_the_same_way() -> None:
    method = dc.Recode(column="x", quantiles=2)
    first, second = pl.DataFrame({"x": [0.0, 1, 2, 3]}), pl.DataFrame({"x": [0.5, 2.5]})
    decision = method.decide(dc.Dataset(first), dc.Context(0, "1"))
    again = method.perform(dc.Dataset(second), decision, dc.Context(0, "1"))
    assert again.frame["x"].to_list() == ["[0, 1.5)", "[1.5, 3]"]


class TestGeneralize:
    data = dc.Dataset(
        pl.DataFrame({"age": [23, 25, None], "zip": ["60020", "60021", "70000"]}),
        roles={"age": "quasi", "zip": "quasi"},
        hierarchies={"age": dc.Hierarchy.intervals(width=5, levels=3), "zip": dc.Hierarchy.masking()},
    )

    def test_labels_levels_and_missing(self) -> None:
        result = dc.Generalize(levels={"age": 1, "zip": 2})(self.data)
        assert result.frame["age"].to_list() == ["[20, 24]", "[25, 29]", None]
        assert result.frame["zip"].to_list() == ["600**", "600**", "700**"]
        assert dict(result.levels) == {"age": 1, "zip": 2}

    def test_in_two_steps_is_the_same_as_in_one(self) -> None:
        twice = dc.Generalize(levels={"zip": 4})(dc.Generalize(levels={"zip": 2})(self.data))
        assert twice.frame.equals(dc.Generalize(levels={"zip": 4})(self.data).frame)

    def test_detail_cannot_be_put_back(self) -> None:
        with pytest.raises(dc.PlanError, match="stands at level 2; detail cannot be put back"):
            dc.Generalize(levels={"zip": 1})(dc.Generalize(levels={"zip": 2})(self.data))

    def test_all_faults_at_once(self) -> None:
        bare = dc.Dataset(
            self.data.frame, roles={"age": "quasi"}, hierarchies={"age": self.data.schema["age"].hierarchy}
        )
        with pytest.raises(dc.PlanError) as error:
            dc.Generalize(levels={"age": 9, "zip": 1})(bare)
        assert len(error.value.problems) == 2
        assert "levels 0 to 3" in str(error.value) and "'zip' has no hierarchy" in str(error.value)

    def test_values_without_a_parent_are_named(self) -> None:
        rows = [("60020", "north", "*"), ("60021", "north", "*")]
        data = dc.Dataset(self.data.frame, hierarchies={"zip": rows})
        with pytest.raises(dc.DataError, match="no parent for 1 of 3 values: '70000'"):
            dc.Generalize(levels={"zip": 1})(data)
