"""Hierarchies: every way to build one, and errors that name the value and the level."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.data.hierarchy import Hierarchy, HierarchyLevels, canonical, hierarchy_text
from discretion.errors import DataError, PlanError
from discretion.learning.columns import ranges_holding


def labels(hierarchy: Hierarchy, value: object, *others: object) -> list[str]:
    """Give the labels of one value from level 0 to the top."""
    levels = hierarchy.bind([value, *others], "x")
    row = levels.leaf_index[canonical(value)]
    return [column[row] for column in levels.table]


# --- tables and files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["a;p;*\nb;p;*\nc;q;*\n", "a,p,*\nb,p,*\nc,q,*\n", "\ufeffa; p ;*\r\nb;p;*\r\n\r\nc;q;*"]
)
def test_csv_with_either_delimiter(tmp_path: Path, text: str) -> None:
    file = tmp_path / "h.csv"
    file.write_bytes(text.encode())
    assert Hierarchy.read(file).bind([]).table == (("a", "b", "c"), ("p", "p", "q"), ("*", "*", "*"))


def test_csv_with_quotes_and_old_encoding(tmp_path: Path) -> None:
    file = tmp_path / "h.csv"
    file.write_bytes('"a;b";"x, y"\n"Mün\nster";z\n'.encode("cp1252"))
    assert Hierarchy.read(file).bind([]).table == (("a;b", "Mün\nster"), ("x, y", "z"))


def test_values_and_labels_with_commas_do_not_hide_the_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "h.csv"
    table = (("a, b, c, d", "e, f, g, h"), ("x, y, z", 'said "no"'), ("all; of\nthem", "all; of\nthem"))
    file.write_text(hierarchy_text(table))
    assert Hierarchy.read(file).bind([]).table == table
    file.write_text("a;b,x,*\nc,x,*\n")
    assert Hierarchy.read(file).bind([]).table == (("a;b", "c"), ("x", "x"), ("*", "*"))
    with pytest.raises(PlanError, match="delimiter: one character"):
        Hierarchy.read(file, delimiter="::")


def test_file_faults(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "ragged.csv").write_text("a;p;*\nb;p\nc;q;*\nd;q\n")
    with pytest.raises(PlanError, match=r"no hierarchy file .*none\.csv"):
        Hierarchy.read(tmp_path / "none.csv")
    with pytest.raises(PlanError, match="empty"):
        Hierarchy.read(tmp_path / "empty.csv")
    with pytest.raises(PlanError, match=r"2 rows do not have 3 levels.* first in row 2"):
        Hierarchy.read(tmp_path / "ragged.csv")


def test_numbers_and_booleans_in_rows_are_written_as_the_data_writes_them() -> None:
    assert labels(Hierarchy.of([(1.0, "low"), (2.5, "high")]), 1) == ["1", "low"]
    assert labels(Hierarchy.of([(True, "any"), (False, "any")]), True) == ["true", "any"]


def test_a_value_listed_twice_and_a_level_that_does_not_nest() -> None:
    with pytest.raises(PlanError, match="lists 'a' more than once"):
        Hierarchy.of([("a", "p"), ("b", "p"), ("a", "q")])
    with pytest.raises(PlanError, match="at level 1 'p' has the parents 'north' and 'south' at level 2"):
        Hierarchy.of([("a", "p", "north"), ("b", "p", "south")])


def test_error_names_the_first_ten_values_without_a_parent_and_their_number() -> None:
    levels = HierarchyLevels((("a",), ("*",)), "job", written=True)
    with pytest.raises(DataError) as caught:
        levels.rows([*(f"j{number:02d}" for number in range(13)), "a"])
    message = str(caught.value)
    assert "column 'job'" in message and "13 of 14" in message and "(13 in all)" in message
    assert "'j09'" in message and "'j10'" not in message


# --- intervals -------------------------------------------------------------------------------------------------


def test_whole_numbers_get_closed_intervals_that_double() -> None:
    ages = Hierarchy.intervals(width=5, levels=4)
    assert labels(ages, 23, 99) == ["23", "[20, 24]", "[20, 29]", "[20, 39]", "*"]
    assert labels(ages, 20.0, 99)[1] == "[20, 24]"
    assert labels(ages, -3, 99)[1] == "[-5, -1]"


def test_fractions_get_half_open_intervals() -> None:
    assert labels(Hierarchy.intervals(width=5, levels=2), 24.5, 20)[1] == "[20, 25)"
    assert labels(Hierarchy.intervals(width=2.5, levels=2), 3, 9)[1] == "[2.5, 5)"


def test_origin_moves_the_bounds_of_every_level() -> None:
    assert labels(Hierarchy.intervals(width=10, levels=3, origin=5), 23, 99) == ["23", "[15, 24]", "[5, 24]", "*"]


@settings(deadline=None, derandomize=True)
@given(
    width=st.sampled_from([0.1, 0.05, 0.7, 1e-3, 3, 1000]),
    origin=st.sampled_from([0, 0.1, -7, 1e6]),
    steps=st.sets(st.integers(-500, 500), min_size=1, max_size=40),
    tenths=st.booleans(),
)
def test_a_value_lies_in_the_interval_that_names_it(width: float, origin: float, steps: set[int], tenths: bool) -> None:
    values = [round(origin + step * width / (10 if tenths else 1), 9) for step in steps]
    levels = Hierarchy.intervals(width=width, levels=4, origin=origin).bind(values, "x")  # nests, or raises
    for leaf, label in zip(levels.table[0], levels.table[1], strict=True):
        low, high = (float(bound) for bound in label[1:-1].split(", "))
        slack = 1e-6 * width
        assert low - slack <= float(leaf) < high + (1 if label.endswith("]") else 0) + slack
        assert not abs(float(leaf) - high) < slack or label.endswith("]")


def test_bounds_of_large_fractions_stay_apart() -> None:
    levels = Hierarchy.intervals(width=0.5, levels=2).bind([1234567.0, 1234567.5], "x")
    assert levels.table[1] == ("[1234567, 1234567.5)", "[1234567.5, 1234568)")


def test_explicit_cuts_per_level() -> None:
    hierarchy = Hierarchy.intervals(cuts=[[0, 18, 65, 120], [0, 65, 120]])
    assert labels(hierarchy, 17, 80) == ["17", "[0, 17]", "[0, 64]", "*"]
    with pytest.raises(DataError, match="column 'age': 2 values lie outside the cuts 0 to 120"):
        hierarchy.bind([-1, 5, 120], "age")
    assert labels(Hierarchy.intervals(cuts=[[0, 10, 20], [-5, 10, 50]]), 3) == ["3", "[0, 9]", "[-5, 9]"]


def test_cuts_that_do_not_nest_are_refused_before_any_value_shows_it() -> None:
    with pytest.raises(PlanError, match="do not nest: level 2 cuts at 20, where level 1 has no cut"):
        Hierarchy.intervals(cuts=[[0, 10, 30, 70], [0, 20, 70]])
    with pytest.raises(PlanError, match="level 3 cuts at 10, where level 2 has no cut"):
        Hierarchy.intervals(cuts=[[0, 10, 20], [0, 20], [0, 10, 20]])


_CUTS = st.lists(st.integers(0, 9), min_size=2, max_size=6, unique=True).map(sorted)


@given(st.lists(_CUTS, min_size=1, max_size=3))
@settings(deadline=None)
def test_cuts_are_taken_if_and_only_if_no_interval_is_split_above(cuts: list[list[int]]) -> None:
    tenths = [step / 10 for step in range(-5, 100)]

    def place(row: list[int], x: float) -> int | None:
        return next((i for i, (a, b) in enumerate(pairwise(row)) if a <= x < b), None)

    def splits(fine: list[int], coarse: list[int]) -> bool:
        return any(
            place(fine, x) == place(fine, y) and place(fine, x) is not None and place(coarse, x) != place(coarse, y)
            for x, y in pairwise(tenths)
        )

    if any(splits(fine, coarse) for fine, coarse in pairwise(cuts)):
        with pytest.raises(PlanError, match="do not nest"):
            Hierarchy.intervals(cuts=cuts)
    else:
        Hierarchy.intervals(cuts=cuts)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"width": 5},
        {"width": 0, "levels": 2},
        {"width": 5, "levels": 0},
        {"width": 5, "levels": 2, "cuts": [[0, 1]]},
        {"cuts": [[5]]},
        {"cuts": [[5, 5]]},
        {"cuts": [["low", "high"]]},
        {"cuts": [[0, float("nan"), 5]]},
        {"width": float("nan"), "levels": 2},
        {"breadth": 5},
    ],
)
def test_wrong_intervals_are_plan_errors(fields: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="intervals"):
        Hierarchy.of({"intervals": fields})


def test_intervals_of_text_and_of_nothing() -> None:
    with pytest.raises(DataError, match="column 'job': an intervals hierarchy needs numbers"):
        Hierarchy.intervals(width=5, levels=2).bind(["nurse"], "job")
    with pytest.raises(DataError, match="column 'age': the hierarchy has no values"):
        Hierarchy.intervals(width=5, levels=2).bind([], "age")


# --- masking ---------------------------------------------------------------------------------------------------


def test_masking_goes_from_the_right_to_all_stars() -> None:
    assert labels(Hierarchy.masking(), 80222, 97001) == ["80222", "8022*", "802**", "80***", "8****", "*****"]


def test_masking_from_the_left_with_another_character() -> None:
    assert labels(Hierarchy.masking(side="left", character="#"), "abc", "xyz") == ["abc", "#bc", "##c", "###"]


def test_masking_keeps_the_first_characters_until_the_top() -> None:
    assert labels(Hierarchy.masking(keep=3), "80222", "97001") == ["80222", "8022*", "802**", "*****"]


def test_masking_pads_values_of_uneven_length() -> None:
    levels = Hierarchy.masking().bind(["802", "80222", "9"], "zip")
    assert levels.table[1] == ("802**", "8022*", "9****")
    assert levels.table[3] == ("80***", "80***", "9****")
    assert set(levels.table[-1]) == {"*****"}


def test_wrong_masking() -> None:
    for fields in ({"character": "**"}, {"keep": -1}, {"side": "middle"}, {"kep": 1}):
        with pytest.raises(PlanError, match="masking"):
            Hierarchy.of({"masking": fields})


# --- groups, trees, dates ----------------------------------------------------------------------------------------


def test_groups_level_by_level_others_stay() -> None:
    hierarchy = Hierarchy.groups({"pet": ["cat", "dog"], "big": "cow"}, {"animal": ["pet", "big"]})
    assert labels(hierarchy, "cat", "cow", "oak") == ["cat", "pet", "animal", "*"]
    assert labels(hierarchy, "cow", "cat", "oak") == ["cow", "big", "animal", "*"]
    assert labels(hierarchy, "oak", "cat") == ["oak", "oak", "oak", "*"]
    assert labels(Hierarchy.groups({"low": [1, 2.0]}, top=False), 2, 7) == ["2", "low"]


def test_groups_of_one_level_need_no_levels() -> None:
    level = {"public": ["AOK", "TK"], "private": "Alpha"}
    full = Hierarchy.of({"groups": {"levels": [level]}})
    assert Hierarchy.of({"groups": level}) == full == Hierarchy.groups(level)
    assert Hierarchy.of({"groups": {**level, "top": False}}) == Hierarchy.groups(level, top=False)
    assert Hierarchy.of({"groups": {"top": ["AOK"]}}) == Hierarchy.groups({"top": ["AOK"]})
    for wrong in ({}, ["AOK"], {"level": [level]}, {"levels": level}, {"north": {"a": ["b"]}}):
        with pytest.raises(PlanError, match=r"groups: .*or level by level \{groups: \{levels: \["):
            Hierarchy.of({"groups": wrong})


def test_a_member_of_two_groups() -> None:
    with pytest.raises(DataError, match="column 'x': 'cat' is in two groups at level 1"):
        Hierarchy.groups({"pet": ["cat"], "wild": ["cat"]}).bind(["cat"], "x")


def test_tree_of_uneven_depth_repeats_its_lowest_value() -> None:
    tree = {"all": {"north": {"a-land": ["a1", "a2"]}, "south": ["s1"]}}
    hierarchy = Hierarchy.tree(tree)
    assert labels(hierarchy, "a1") == ["a1", "a-land", "north", "all"]
    assert labels(hierarchy, "s1") == ["s1", "s1", "south", "all"]


def test_tree_with_several_roots_gets_a_top_and_an_empty_branch_is_a_value() -> None:
    hierarchy = Hierarchy.tree({"single": None, "couple": ["married", "partners"]})
    assert labels(hierarchy, "single") == ["single", "single", "*"]
    assert labels(hierarchy, "married") == ["married", "couple", "*"]


def test_empty_trees_and_rows_are_plan_errors() -> None:
    for spec in ({"tree": {}}, {"tree": {"a": []}}, {"table": []}, [], ["a", "b"], {}, {"a": 1, "b": 2}, 7):
        with pytest.raises(PlanError):
            Hierarchy.of(spec)


def test_dates() -> None:
    hierarchy = Hierarchy.dates("month", "quarter", "year", "decade")
    expected = ["1987-08-03", "1987-08", "1987-Q3", "1987", "1980s", "*"]
    assert labels(hierarchy, dt.date(1987, 8, 3)) == expected == labels(hierarchy, "1987-08-03")
    with pytest.raises(PlanError, match="fine to coarse"):
        Hierarchy.dates("year", "month")
    with pytest.raises(PlanError, match="did you mean 'decade'"):
        Hierarchy.dates("decades")
    with pytest.raises(DataError, match="column 'born': a dates hierarchy needs dates") as caught:
        hierarchy.bind(["3 August 1987"], "born")
    assert "1987" not in str(caught.value)  # a person's cell is not quoted


@pytest.mark.parametrize(
    ("written", "month"),
    [
        (["03.08.1987", "1.12.1990"], "1987-08"),  # dots: the day first, whatever the values
        (["3/8/1987", "28/2/1990"], "1987-08"),
        (["8/3/1987", "2/28/1990"], "1987-08"),
        (["03-08-1987", "28-02-1990"], "1987-08"),
        (["3/8/1987 10:15", "28/2/1990 11:00"], "1987-08"),
    ],
)
def test_dates_as_people_write_them(written: list[str], month: str) -> None:
    assert labels(Hierarchy.dates("month", "year"), *written)[1:3] == [month, "1987"]


def test_days_and_months_that_cannot_be_told_apart_are_an_error() -> None:
    with pytest.raises(DataError, match="column 'born': the days and months of its dates cannot be told apart"):
        Hierarchy.dates("month").bind(["3/8/1987", "4/5/1990"], "born")
    with pytest.raises(DataError, match="and 2 of 3 different values are none"):
        Hierarchy.dates("month").bind(["28/13/1987", "4/5/1990", "x"], "born")


def test_open_intervals() -> None:
    hierarchy = Hierarchy.of({"intervals": {"cuts": [["-inf", 20, 65, "inf"], ["-inf", 65, "inf"]]}})
    assert labels(hierarchy, 17, 30, 90) == ["17", "< 20", "< 65", "*"] and labels(hierarchy, 90)[1:3] == [
        ">= 65",
        ">= 65",
    ]
    assert Hierarchy.of(json.loads(json.dumps(hierarchy.to_plan()))) == hierarchy
    assert labels(Hierarchy.intervals(cuts=[[0, 2.5, float("inf")]]), 3.7, 1)[1] == ">= 2.5"
    held = ranges_holding(["17", "20", "65", "90"], ["< 20", ">= 65"], "age")  # attacks read the labels alike
    assert held.T.tolist() == [[True, False, False, False], [False, False, True, True]]
    with pytest.raises(PlanError, match="one of them finite"):
        Hierarchy.intervals(cuts=[[float("-inf"), float("inf")]])


# --- levels ----------------------------------------------------------------------------------------------------


def test_level_of_labels_and_the_label_that_stands_at_two_levels() -> None:
    levels = HierarchyLevels((("a", "b", "c"), ("p", "p", "c"), ("*", "*", "*")), "x")
    assert levels.level_of(["a", "p", "*"]).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="column 'x': 1 different values stand at two levels"):
        levels.level_of(["a", "p", "c"])
    assert levels.level_of(["p", "c"]).tolist() == [1, 1], "one level has them all"
    with pytest.raises(DataError, match="1 different values stand at no level of the hierarchy"):
        levels.level_of(["a", "zz"])


def test_leaves_under_and_missing_level() -> None:
    levels = HierarchyLevels((("a", "b", "c"), ("p", "p", "q")), "x")
    assert levels.leaves_under(1) == {"p": 2, "q": 1} and levels.leaves_under(0) == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(DataError, match="level 2 does not exist; the hierarchy has levels 0 to 1"):
        levels.labels(["a"], 2)


@pytest.mark.parametrize(
    "hierarchy",
    [
        Hierarchy.intervals(width=0.1, levels=3, origin=2),
        Hierarchy.intervals(cuts=[[0, 1], [0, 2]]),
        Hierarchy.masking(keep=1, side="left"),
        Hierarchy.groups({"g": ["a"]}, top=False),
        Hierarchy.dates("year"),
        Hierarchy.of([("a", "*")]),
    ],
    ids=lambda h: h.rule,
)
def test_what_a_plan_writes_is_read_back(hierarchy: Hierarchy) -> None:
    assert Hierarchy.of(hierarchy.to_plan()) == hierarchy


@pytest.mark.parametrize("rule", ["groups", "masking", "dates", "intervals"])
def test_errors_about_levels_made_from_the_data_tell_numbers_and_no_values(rule: str) -> None:
    known, secret = {
        "groups": (["ann", "bob"], "zyxomma"),
        "masking": (["1234", "1299"], "7731"),
        "dates": (["2001-02-03", "2001-05-06"], "1931-07-13"),
        "intervals": ([1, 5, 9], 7731),
    }[rule]
    spec: object = {"groups": {"levels": [{"people": ["ann"]}]}, "intervals": {"width": 5, "levels": 3}}.get(rule, {})
    made = Hierarchy.of({rule: spec})
    levels = made.bind(known, "x")
    with pytest.raises(DataError, match="no parent for 1 of 1 values") as caught:
        levels.rows([str(secret)])
    assert str(secret) not in str(caught.value)
    if rule == "groups":  # what is in no group stays, and stands at two levels
        with pytest.raises(DataError, match="column 'x': 1 different values stand at two levels") as caught:
            made.bind([*known, secret], "x").level_of(["ann", "people", str(secret)])
        assert str(secret) not in str(caught.value)
