"""A Dataset never changes, never shows values, and carries row ids, levels and suppressed cells along."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Hierarchy
from discretion.errors import DataError, PlanError
from discretion.measure import align, match_by


def people() -> Dataset:
    frame = pl.DataFrame(
        {
            "name": ["Ana", "Bo", "Cy", "Di"],
            "age": [31, 42, 42, 77],
            "income": [10.5, None, 30.5, 999_123.25],
            "town": ["u", "u", "v", "w"],
        }
    )
    roles = {"name": "identifier", "age": "quasi", "income": "sensitive"}
    hierarchies = {"age": Hierarchy.intervals(width=10, levels=3)}
    return Dataset(frame, roles=roles, hierarchies=hierarchies)


def test_repr_shows_roles_and_shape_but_no_value() -> None:
    text = repr(people())
    assert text == "Dataset(4 rows × 4 columns: name [identifier], age [quasi], income [sensitive], town)"


# --- nothing is changed in place ------------------------------------------------------------------------------------


def test_derived_data_leaves_its_source_alone() -> None:
    data = people()
    before = data.frame.clone()
    sizes = data.class_sizes(["age", "town"]).copy()
    new = data.with_columns({"age": np.array([1, 1, 1, 1])}, levels={"age": 1})
    new = new.with_columns({}, suppressed={"town": np.array([True, False, False, False])})
    new = new.drop(["name"]).take(np.array([3, 0]), suppressed=True)
    assert data.frame.equals(before) and list(data.columns) == before.columns
    assert data.levels == {} and data.suppressed_cells == {} and data.lost_records == 0
    assert data.class_sizes(["age", "town"]).tolist() == sizes.tolist()
    assert new.levels == {"age": 1} and new.lost_records == 2 and new.suppressed_cells == {"town": 1}


def test_a_changed_column_is_not_read_from_the_cache() -> None:
    data = people()
    data.number("age"), data.codes("age"), data.classes(["age", "town"]), data.class_counts(["age", "town"])
    data.class_sizes(["age", "town"], "wildcard"), data.count_missing("town")
    new = data.with_columns({"age": np.array([5, 5, 5, 5])})
    assert new.number("age").tolist() == [5, 5, 5, 5]
    assert new.class_sizes(["age", "town"]).tolist() == [2, 2, 1, 1]
    assert sorted(new.class_counts(["age", "town"])) == [1, 1, 2]
    hidden = new.with_columns({}, suppressed={"town": np.array([False, False, True, True])})
    assert hidden.class_sizes(["age", "town"]).tolist() == [2, 2, 2, 2] and hidden.count_missing("town") == 2
    assert hidden.class_sizes(["age", "town"], "wildcard").tolist() == [4, 4, 4, 4]


def test_large_data_lets_go_of_arrays_and_keeps_results(monkeypatch: pytest.MonkeyPatch) -> None:
    data = people()

    def computed() -> list[object]:
        return [data.number("age").tolist(), data.codes("town").codes.tolist(), data.class_sizes(["age"]).tolist()]

    before, kept = computed(), data.cached(("result", "age"), object)
    codes, classes = data.codes("town"), data.classes(["age"])
    data.forget()
    assert data.codes("town") is codes and data.classes(["age"]) is classes  # four rows are not large
    monkeypatch.setattr("discretion.data.dataset._LARGE", 4)
    data.forget()
    assert data.codes("town") is not codes and data.classes(["age"]) is not classes
    assert computed() == before and data.cached(("result", "age"), object) is kept


@pytest.mark.parametrize("column", ["age", "income"])
def test_arrays_cannot_be_written_to(column: str) -> None:
    data = people()
    with pytest.raises(ValueError, match="read-only"):
        data.number(column)[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        data.numbers([column])[0] = 0


def test_changing_the_frame_afterwards_does_not_change_the_data() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    data = Dataset(frame)
    frame[0, "a"] = 99
    frame.drop_in_place("b")
    assert data.to_native().to_dict(as_series=False) == {"a": [1, 2], "b": [3, 4]}


# --- row ids ---------------------------------------------------------------------------------------------------


def test_row_ids_go_through_taking_twice_and_stacking() -> None:
    data = people()
    some = data.take(np.array([3, 1, 2])).take(np.array([True, False, True]))
    assert some.row_ids.tolist() == [3, 2] and some.frame["name"].to_list() == ["Di", "Cy"]
    parts = [data.take(np.array([3, 1])), data.take(np.array([2, 0]))]
    whole = Dataset.stack(parts, like=data)
    assert whole.frame.equals(data.frame) and whole.row_ids.tolist() == [0, 1, 2, 3]


def test_stacking_keeps_the_order_of_rows_that_were_shuffled_before() -> None:
    shuffled = people().take(np.array([2, 0, 3, 1]))
    parts = [shuffled.take(np.array([0, 3])), shuffled.take(np.array([2, 1]))]
    whole = Dataset.stack(parts, like=shuffled)
    assert whole.row_ids.tolist() == [2, 0, 3, 1]
    assert whole.frame.equals(shuffled.frame)
    fewer = Dataset.stack([shuffled.take(np.array([3])), shuffled.take(np.array([2, 0]))], like=shuffled)
    assert fewer.row_ids.tolist() == [2, 3, 1]


def test_stacking_puts_levels_masks_and_lost_records_together() -> None:
    data = people()
    upper = data.take(np.array([0, 2])).with_columns({"age": np.array(["a", "b"])}, levels={"age": 1})
    lower = data.take(np.array([1, 3])).with_columns({"age": np.array(["*", "*"])}, levels={"age": 2})
    lower = lower.with_columns({}, suppressed={"town": np.array([False, True])})
    lower = lower.take(np.array([True, True]), suppressed=True)
    whole = Dataset.stack([upper, lower], like=data)
    assert whole.levels["age"].tolist() == [1, 2, 1, 2]
    assert whole.suppressed("town").tolist() == [False, False, False, True]
    assert whole.frame["age"].to_list() == ["a", "*", "b", "*"]


def test_measures_align_by_row_id() -> None:
    data = people()
    one, other = align(data, data.take(np.array([3, 0])))
    assert one.frame["name"].to_list() == other.frame["name"].to_list() == ["Di", "Ana"]
    with pytest.raises(DataError, match="rows that the original does not have"):
        align(data.take(np.array([0, 1])), data)
    with pytest.raises(DataError, match="4 rows and the release 1"):
        align(data, Dataset(data.frame.head(1).drop("name")))


def test_matching_by_an_id_column() -> None:
    data = people()
    outside = Dataset(data.frame.select("name", "town").reverse().head(3))
    matched = match_by(data, outside, "name")
    assert matched.row_ids.tolist() == [3, 2, 1] and matched.origin is data
    with pytest.raises(DataError, match="'town' has missing or repeated values"):
        match_by(data, outside, "town")
    stranger = Dataset(pl.DataFrame({"name": ["Zoe"]}))
    with pytest.raises(DataError, match="1 ids of the release do not stand") as caught:
        match_by(data, stranger, "name")
    assert "Zoe" not in str(caught.value)


def test_a_cell_missing_only_in_the_release_counts_as_suppressed() -> None:
    data = people()
    release = Dataset(data.frame.with_columns(town=pl.Series(["u", None, "v", "w"])))
    matched = release.matched_to(data, np.arange(4))
    assert matched.suppressed_cells == {"town": 1}  # income was missing before


# --- levels ----------------------------------------------------------------------------------------------------


def test_levels_of_data_from_outside_are_inferred() -> None:
    data = people()
    release = Dataset(data.frame.with_columns(age=pl.Series(["[30, 39]", "[40, 59]", "*", "[70, 79]"])))
    assert release.matched_to(data, np.arange(4)).cell_levels("age").tolist() == [1, 2, 3, 1]
    assert data.cell_levels("age") == 0
    assert data.with_columns({"town": ["u"] * 4}).cell_levels("age") == 0


def test_the_level_of_a_label_of_two_levels_is_that_of_its_column() -> None:
    frame = pl.DataFrame({"x": ["a", "b", "c"]})
    data = Dataset(frame, hierarchies={"x": [("a", "p", "*"), ("b", "p", "*"), ("c", "c", "*")]})
    release = Dataset(pl.DataFrame({"x": ["p", "p", "c"]})).matched_to(data, np.arange(3))
    assert np.array_equal(release.cell_levels("x"), [1, 1, 1])
    mixed = Dataset(pl.DataFrame({"x": ["p", "b", "c"]})).matched_to(data, np.arange(3))
    with pytest.raises(DataError, match="1 different values stand at two levels"):
        mixed.cell_levels("x")
    assert mixed.with_levels({"x": 1}).cell_levels("x") == 1


def test_a_column_without_hierarchy_says_which_have_one() -> None:
    with pytest.raises(DataError, match="'town' has no hierarchy; columns with one: age"):
        people().hierarchy("town")


# --- missing, infinite, absent -----------------------------------------------------------------------------------


def test_null_nan_and_codes_are_all_missing() -> None:
    frame = pl.DataFrame({"x": [1.0, math.nan, None, -9.0, 2.0], "t": ["a", "?", None, "b", "?"]})
    data = Dataset(frame, missing_codes={"x": [-9], "t": "?"})
    assert data.count_missing("x") == 3 and data.count_missing("t") == 3
    assert np.isnan(data.number("x")).tolist() == [False, True, True, True, False]
    assert data.class_sizes(["x"]).tolist() == [1, 3, 3, 3, 1]
    assert data.class_key(["x", "t"], 1) == {"x": None, "t": None}
    assert data.class_key(["x", "t"], 3) == {"x": None, "t": "b"}


@pytest.mark.parametrize(
    ("cells", "code", "left"),
    [
        ([99, 1], 99, [None, 1]),
        ([99, 1], "99", [None, 1]),
        ([99.0, 1.5], "99.0", [None, 1.5]),
        ([99.5, 1.5], 99.5, [None, 1.5]),
        ([math.inf, 1.5], math.inf, [None, 1.5]),
        ([2**53 + 1, 2**53], 2**53 + 1, [None, 2**53]),
        (["v2", "v2.0"], "v2", [None, "v2.0"]),
        (["n.0", "n"], "n.0", [None, "n"]),
        (["99", "1"], 99, [None, "1"]),
        ([99, 1], "unknown", [99, 1]),
    ],
)
def test_missing_codes_match_as_numbers_or_as_text(cells: list[object], code: object, left: list[object]) -> None:
    assert Dataset(pl.DataFrame({"x": cells}), missing_codes={"x": code}).frame["x"].to_list() == left


def test_missing_codes_of_a_set_column_are_refused() -> None:
    with pytest.raises(DataError, match="column 'x' holds sets"):
        Dataset(pl.DataFrame({"x": [["a"], ["b"]]}), missing_codes={"x": "a"})


def test_infinity_is_an_error_that_names_every_column() -> None:
    frame = pl.DataFrame({"a": [1.0, math.inf], "b": [0.5, 0.5], "c": [-math.inf, math.inf]})
    with pytest.raises(DataError, match=r"infinite values in 'a' \(1\), 'c' \(2\)"):
        Dataset(frame)


def test_absent_text_and_constant_columns() -> None:
    data = people()
    with pytest.raises(DataError, match="unknown column 'incme'; did you mean 'income'"):
        data.number("incme")
    with pytest.raises(DataError, match="column 'town' is text; a numeric column is needed"):
        data.number("town")
    with pytest.raises(DataError, match="column 'income' has 1 missing values"):
        data.numbers(["income"], missing="error")
    with pytest.raises(DataError, match="column 'age' is constant"):
        data.take(np.array([1, 2])).require_spread(["age"])
    with pytest.raises(DataError, match="column 'income' has no values"):
        data.take(np.array([1])).require_spread(["income"])


def test_columns_are_chosen_by_role_or_must_be_named() -> None:
    data = people()
    assert data.choose((), "classes") == ("age",)
    assert data.choose((), "perturb") == ("age", "income")
    assert data.choose((), "compare") == ("age", "income", "town")
    assert data.choose((), "compare-numbers") == ("age", "income")
    with pytest.raises(PlanError, match="the data has no roles; give `columns`"):
        Dataset(data.frame).choose((), "classes")
    with pytest.raises(PlanError, match="quasi-identifiers"):
        Dataset(data.frame, roles={"income": "sensitive"}).choose((), "classes")
    with pytest.raises(PlanError, match="named twice"):
        data.choose(("age", "age"), "classes")


def test_an_empty_frame_is_data_without_rows() -> None:
    data = Dataset(pl.DataFrame(schema={"a": pl.Int64, "b": pl.String}), roles={"a": "quasi"})
    assert len(data) == 0 and data.class_sizes(["a", "b"]).tolist() == [] and data.number("a").tolist() == []
    assert data.to_native().schema == {"a": pl.Int64, "b": pl.String}


def test_a_release_is_matched_to_the_rows_of_a_part_of_the_data() -> None:
    """Rows are positions in the data given, which may be a part of other data or in another order."""
    whole = dc.Dataset(pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), roles={"x": "quasi"})
    part = whole.take(np.array([3, 0, 2]))
    released = pl.DataFrame({"x": [4.0, 1.0, 3.0]})
    assert dc.Mae(columns=["x"])(part, released).value == 0.0
    shuffled = whole.take(np.array([3, 2, 1, 0]))
    assert dc.ValueAgreement(columns=["x"])(shuffled, pl.DataFrame({"x": [4.0, 3.0, 2.0, 1.0]})).value == 1.0


def test_nan_in_a_release_is_suppressed_as_null_is() -> None:
    source = dc.Dataset(pl.DataFrame({"x": [1.0, 2.0, float("nan")]}), roles={"x": "quasi"})
    for empty in (None, float("nan")):
        released = dc.Dataset(pl.DataFrame({"x": [1.0, empty, empty]}, schema={"x": pl.Float64}))
        assert released.matched_to(source, np.arange(3)).suppressed_cells == {"x": 1}


def test_measures_share_the_part_of_the_original_that_a_release_has() -> None:
    """Otherwise every measure would copy the original and encode it anew."""
    whole = dc.Dataset(pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), roles={"x": "quasi"})
    released = whole.take(np.array([1, 3]))
    first, second = align(whole, released)[0], align(whole, released)[0]
    assert first is second
    assert first.frame["x"].to_list() == [2.0, 4.0]
    other = whole.take(np.array([3, 1, 0]))
    assert align(other, released)[0].frame["x"].to_list() == [2.0, 4.0]
    moved = released.with_columns({"x": pl.Series([7.0, 8.0])})
    assert align(whole, moved)[0] is first
