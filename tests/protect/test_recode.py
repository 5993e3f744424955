from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import PlanError
from discretion.learning.columns import is_range, ranges_holding
from discretion.method import Decision

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


@pytest.mark.parametrize("whole", [False, True])
def test_quantile_labels_do_not_tell_the_smallest_and_the_largest_value(whole: bool) -> None:
    costs = np.random.default_rng(3).lognormal(8, 0.6, 500)
    costs = np.round(costs, 0 if whole else 2)
    labels = dc.Recode(column="x", quantiles=3)(pl.DataFrame({"x": costs}))["x"]
    counts = labels.value_counts()["count"]
    assert int((counts - 500 / 3).abs().max()) <= 0.05 * 500 / 3 + 1
    low, high = (next(label for label in set(labels) if label.startswith(sign)) for sign in ("< ", ">= "))
    cuts = [float(label.split()[1]) for label in (low, high)]
    assert all(cut == float(f"{cut:.3g}") for cut in cuts)
    middle = f"[{cuts[0]:g}, {cuts[1] - 1:g}]" if whole else f"[{cuts[0]:g}, {cuts[1]:g})"
    assert labels.to_list() == [low if c < cuts[0] else high if c >= cuts[1] else middle for c in costs]


def test_quantiles_keep_the_digits_that_the_intervals_need() -> None:
    years = np.random.default_rng(4).integers(1990, 1999, 400)
    labels = dc.Recode(column="x", quantiles=3)(pl.DataFrame({"x": years}))["x"]
    assert sorted(labels.unique().to_list()) == ["< 1993", ">= 1996", "[1993, 1995]"]
    same = pl.DataFrame({"x": [0.0] * 90 + list(range(1, 11))})
    assert dc.Recode(column="x", quantiles=2)(same)["x"].unique().to_list() == ["*"]


def test_open_intervals_hold_what_is_beyond_their_bound() -> None:
    assert all(is_range(label) for label in ("< 20", "<= 1990-01-31", "> 65", ">= 3.5"))
    assert not any(is_range(label) for label in ("<=50K", ">", "< nan", "> inf"))
    holding = ranges_holding(["19", "20", "65.5"], ["< 20", "<= 20", "> 20", ">= 20"], "x")
    assert holding.tolist() == [[True, True, False, False], [False, True, False, True], [False, False, True, True]]


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
    assert again.frame["x"].to_list() == ["< 2", ">= 2"]


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


def test_intervals_of_a_width_go_on_in_the_next_delivery() -> None:
    method = dc.Recode(column="age", width=10)
    ctx = dc.Context(0, "1")
    decision = Decision.from_json(method.decide(dc.Dataset(AGES), ctx).to_json())
    new = pl.DataFrame({"age": [3, 69, 70, 95, None]})
    assert method.perform(dc.Dataset(new), decision, ctx).frame["age"].to_list() == [
        "[0, 9]", "[60, 69]", "[70, 79]", "[90, 99]", None,
    ]  # fmt: skip
    with pytest.raises(dc.DataError, match="1 values are not whole"):
        method.perform(dc.Dataset(pl.DataFrame({"age": [24.5, 3.0]})), decision, ctx)


def test_decimal_widths_put_a_bound_into_the_upper_interval() -> None:
    data = pl.DataFrame({"x": [0.1, 0.3, 0.35, 0.7]})
    assert dc.Recode(column="x", width=0.1)(data)["x"].to_list() == ["[0.1, 0.2)", *["[0.3, 0.4)"] * 2, "[0.7, 0.8)"]


class TestGroupCategories:
    jobs = pl.DataFrame({"job": ["nurse"] * 5 + ["doctor"] * 3 + ["mayor"] * 2 + ["judge", None]})

    def test_groups_and_the_others(self) -> None:
        result = dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})(self.jobs)["job"]
        assert result.to_list() == ["health"] * 8 + ["mayor"] * 2 + ["judge", None]

    def test_small_categories_are_pooled(self) -> None:
        result = dc.GroupCategories(column="job", smaller_than=3, label="rest")(self.jobs)["job"]
        assert result.to_list() == ["nurse"] * 5 + ["doctor"] * 3 + ["rest"] * 3 + [None]

    def test_a_small_pool_takes_the_next_category(self) -> None:
        result = dc.GroupCategories(column="job", smaller_than=2)(self.jobs)["job"]
        assert result.to_list() == ["nurse"] * 5 + ["doctor"] * 3 + ["other"] * 3 + [None]

    @given(
        st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60), st.integers(2, 9), st.sampled_from(["z", "a"])
    )
    def test_every_category_left_is_large_enough(self, values: list[str], least: int, label: str) -> None:
        method = dc.GroupCategories(column="x", smaller_than=least, label=label)
        data = pl.DataFrame({"x": values})
        if len(values) < least:
            with pytest.raises(dc.DataError, match="fewer values than a category needs"):
                method(data)
            return
        result = method(data)["x"]
        before, after = data["x"].value_counts(), dict(result.value_counts().iter_rows())
        assert min(after.values()) >= least
        if before["count"].min() >= least and label not in values:  # type: ignore[operator]
            assert result.equals(data["x"])

    def test_the_next_delivery(self) -> None:
        ctx = dc.Context(0, "1")
        new = pl.DataFrame({"job": ["nurse", "judge", "astronaut", None]})
        by_size = dc.GroupCategories(column="job", smaller_than=3)
        by_name = dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})
        wanted = (["nurse", "other", "other", None], ["health", "judge", "astronaut", None])
        for method, want in zip((by_size, by_name), wanted, strict=True):
            decision = Decision.from_json(method.decide(dc.Dataset(self.jobs), ctx).to_json())
            assert method.perform(dc.Dataset(new), decision, ctx).frame["job"].to_list() == want

    def test_numbers_and_booleans_are_categories_too(self) -> None:
        data = pl.DataFrame({"code": [1, 2, 3], "yes": [True, False, None]})
        assert dc.GroupCategories(column="code", groups={"low": [1, 2]})(data)["code"].to_list() == ["low", "low", "3"]
        assert dc.GroupCategories(column="yes", groups={"any": [True]})(data)["yes"].to_list() == ["any", "false", None]

    def test_the_order_follows(self) -> None:
        levels = ["none", "primary", "secondary", "tertiary"]
        data = dc.Dataset(pl.DataFrame({"s": ["none", "tertiary", "primary"]}), orders={"s": levels})
        result = dc.GroupCategories(column="s", groups={"school": ["primary", "secondary"]})(data)
        assert result.schema["s"].order == ("none", "school", "tertiary")
        assert dc.TopCode(column="s", at="school")(result).frame["s"].to_list() == ["none", "school", "school"]

    def test_categorical_stays_categorical(self) -> None:
        data = self.jobs.with_columns(pl.col("job").cast(pl.Categorical))
        result = dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})(data)
        assert result.schema["job"] == pl.Categorical

    def test_unknown_categories_are_all_named_with_a_hint(self) -> None:
        with pytest.raises(dc.DataError) as error:
            dc.GroupCategories(column="job", groups={"health": ["nurs", "doctr"]})(self.jobs)
        assert "'nurs'; did you mean 'nurse'" in str(error.value) and "did you mean 'doctor'" in str(error.value)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({}, "exactly one of `groups` and `smaller_than`"),
            ({"groups": {"a": ["x"]}, "smaller_than": 2}, "exactly one of"),
            ({"groups": {}}, "at least one label"),
            ({"groups": {"a": []}}, "at least one member"),
            ({"groups": {"a": ["x"], "b": ["x"]}}, "'x' is in two groups, 'a' and 'b'"),
            ({"smaller_than": 1}, "smaller_than"),
        ],
    )
    def test_wrong_parameters(self, fields: dict[str, object], message: str) -> None:
        with pytest.raises(dc.PlanError, match=message):
            dc.GroupCategories(column="job", **fields)

    def test_columns_that_cannot_be_grouped(self) -> None:
        with pytest.raises(dc.DataError, match="column 'job' has no values"):
            dc.GroupCategories(column="job", smaller_than=2)(self.jobs.with_columns(job=pl.lit(None, dtype=pl.String)))
        with pytest.raises(dc.DataError, match="column 'sets' holds sets"):
            dc.GroupCategories(column="sets", smaller_than=2)(pl.DataFrame({"sets": [["a"], ["b"]]}))

    def test_from_the_command_line(self) -> None:
        from discretion.cli.apply import build_part

        fields = {f"field_{name}": None for name in dc.GroupCategories.model_fields}
        built = build_part("group-categories", fields | {"field_column": "job", "field_groups": "health=nurse|doctor"})
        assert built == dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})


def test_intervals_of_large_numbers_have_exact_bounds() -> None:
    data = pl.DataFrame({"x": [1234567890123, 1234567890140]})
    recoded = dc.Recode(column="x", width=5)(data)["x"].to_list()
    assert recoded == ["[1234567890120, 1234567890124]", "[1234567890140, 1234567890144]"]
    halves = dc.Recode(column="x", width=0.5)(pl.DataFrame({"x": [1e12, 1e12 + 0.6]}))["x"].to_list()
    assert halves == ["[1000000000000, 1000000000000.5)", "[1000000000000.5, 1000000000001)"]
    cut = dc.Recode(column="x", cuts=[0, 1234567890123, 1234567890140])(data)["x"].to_list()
    assert set(cut) == {"[1234567890123, 1234567890140]"}


def test_far_too_many_intervals_are_refused() -> None:
    with pytest.raises(dc.DataError, match=r"column 'x': a width of 1 gives \d+ intervals; at most 1000000"):
        dc.Recode(column="x", width=1)(pl.DataFrame({"x": [0.0, 1e12]}))
    with pytest.raises(dc.DataError, match="too large for intervals of width 1"):
        dc.Recode(column="x", width=1)(pl.DataFrame({"x": [1e17, 1e17 + 32]}))


OLD = pl.DataFrame({"age": [3, 25, 61, 79, 85, 99], "x": [1, 2, 3, 4, 5, 6]})


def test_a_coded_column_is_not_generalized_to_labels_that_are_false() -> None:
    people = dc.Dataset(OLD, hierarchies={"age": dc.Hierarchy.intervals(width=20, levels=2)})
    coded = dc.TopCode(column="age", at=79)(people)
    with pytest.raises(PlanError, match=r"'age' was top- or bottom-coded .* false for 2 records .* open ends"):
        dc.Generalize(levels={"age": 1})(coded)
    assert dc.Generalize(levels={"age": 2})(coded).frame["age"].to_list() == ["*"] * 6
    low = dc.BottomCode(column="age", at=25)(people)
    with pytest.raises(PlanError, match="false for 1 records"):
        dc.Generalize(levels={"age": 1})(low)


def test_a_coded_column_is_generalized_where_the_labels_stay_true() -> None:
    cuts = dc.Hierarchy.intervals(cuts=[[0, 20, 40, 60, float("inf")]])
    people = dc.Dataset(OLD, hierarchies={"age": cuts})
    want = ["[0, 19]", "[20, 39]", ">= 60", ">= 60", ">= 60", ">= 60"]
    for data in (people, dc.TopCode(column="age", at=79)(people)):
        assert dc.Generalize(levels={"age": 1})(data).frame["age"].to_list() == want


def test_small_categories_join_one_that_is_called_other_in_any_letters() -> None:
    frame = pl.DataFrame({"job": ["nurse"] * 9 + ["Other"] * 6 + ["smith"] * 2})
    new = dc.GroupCategories(column="job", smaller_than=5)(frame, seed=1)["job"]
    assert new.to_list() == ["nurse"] * 9 + ["Other"] * 8


def test_labels_that_are_overlapping_ranges_are_refused() -> None:
    with pytest.raises(PlanError, match="overlap"):
        dc.Recode(column="age", cuts=[0, 20, 60], labels=["[0, 20]", "[15, 60]"])
    assert dc.Recode(column="age", cuts=[0, 20, 60], labels=["0 to 19", "20 and more"]).labels
