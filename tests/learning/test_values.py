"""Columns become the matrix that a model sees, and nothing depends on the order of the rows."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.learning.columns import Labels, Numbers, labels_of, merge, outside_view, read_column
from discretion.learning.fitting import MOST_LEVELS, build_case, encode, filled, folds, medians_of, weights_of


def design(frame: pl.DataFrame, **schema: object) -> object:
    data = dc.Dataset(frame, **schema)  # type: ignore[arg-type]
    return encode([{name: read_column(data, name) for name in data.columns}])[0]


def test_categories_become_indicators_with_missing_as_one_of_them() -> None:
    made = design(pl.DataFrame({"c": ["b", None, "a", "b"]}))
    assert made.names == ("c = a", "c = b", "c = (missing)")  # type: ignore[attr-defined]
    assert made.x.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]  # type: ignore[attr-defined]


def test_missing_numbers_are_marked_and_filled_by_the_median_of_the_training_rows() -> None:
    made = design(pl.DataFrame({"v": [1.0, None, 5.0, 9.0, 100.0]}))
    assert made.names == ("v", "v = (missing)")  # type: ignore[attr-defined]
    x = made.x  # type: ignore[attr-defined]
    assert np.isnan(x[1, 0]) and x[:, 1].tolist() == [0, 1, 0, 0, 0]
    assert filled(x, medians_of(x[:4]))[1, 0] == 5.0
    assert medians_of(np.array([[np.nan], [np.nan]])).tolist() == [0.0]


def test_ordered_categories_many_categories_and_dates_are_one_column() -> None:
    ordered = design(pl.DataFrame({"size": ["low", "high", "mid"]}), orders={"size": ["low", "mid", "high"]})
    assert ordered.x.ravel().tolist() == [0, 2, 1]  # type: ignore[attr-defined]
    many = design(pl.DataFrame({"zip": [f"{i:04d}" for i in range(MOST_LEVELS + 1)][::-1]}))
    assert many.x.ravel().tolist() == list(range(MOST_LEVELS, -1, -1))  # type: ignore[attr-defined]
    days = design(pl.DataFrame({"d": [dt.date(1970, 1, 3), dt.date(1970, 1, 1)]}))
    assert days.x.ravel().tolist() == [2, 0]  # type: ignore[attr-defined]


def test_numbers_that_the_schema_calls_categories_are_categories() -> None:
    made = design(pl.DataFrame({"sex": [1, 2, 1]}), types={"sex": "nominal"})
    assert made.names == ("sex = 1", "sex = 2")  # type: ignore[attr-defined]


def test_sets_are_refused() -> None:
    with pytest.raises(dc.DataError, match="holds sets"):
        labels_of(dc.Dataset(pl.DataFrame({"s": [["a"], ["b"]]})), "s")


def test_merge_gives_one_list_of_names() -> None:
    one, two = Labels(np.array([0, 1, -1]), ("b", "c")), Labels(np.array([0, 1]), ("a", "c"))
    first, second = merge([one, two])
    assert first.names == second.names == ("a", "b", "c")
    assert first.codes.tolist() == [1, 2, -1] and second.codes.tolist() == [0, 2]


REGIONS = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})


def test_a_generalized_column_is_known_at_the_level_of_the_release() -> None:
    data = dc.Dataset(pl.DataFrame({"r": ["a", "c", "d", None]}), hierarchies={"r": REGIONS})
    released = dc.Generalize(levels={"r": 1})(data)
    known, published = outside_view(data, released, "r", aligned=True)
    assert isinstance(known, Labels) and isinstance(published, Labels)
    assert known.names == published.names == ("north", "south")
    assert known.codes.tolist() == published.codes.tolist() == [0, 1, 1, -1]
    other = dc.Dataset(pl.DataFrame({"r": ["b"]}), schema=data.schema)
    known, _ = outside_view(other, released, "r", aligned=False)
    assert isinstance(known, Labels) and [known.names[c] for c in known.codes] == ["north"]


def test_levels_that_differ_by_record_follow_the_record() -> None:
    data = dc.Dataset(pl.DataFrame({"r": ["a", "c", "d"]}), hierarchies={"r": REGIONS})
    released = data.with_columns({"r": ["a", "south", "*"]}, levels={"r": np.array([0, 1, 2])})
    known, _ = outside_view(data, released, "r", aligned=True)
    assert isinstance(known, Labels) and [known.names[c] for c in known.codes] == ["a", "south", "*"]
    other = dc.Dataset(pl.DataFrame({"r": ["b"]}), schema=data.schema)
    with pytest.raises(dc.DataError, match="different levels"):
        outside_view(other, released, "r", aligned=False)


def test_a_recoded_column_without_hierarchy_needs_matched_rows() -> None:
    before, after = pl.DataFrame({"v": [1.0, 2.0, 30.0]}), pl.DataFrame({"v": ["low", "low", "high"]})
    one, two = dc.Dataset(before), dc.Dataset(after)
    known, published = outside_view(one, two, "v", aligned=True)
    assert isinstance(known, Labels) and known is published
    with pytest.raises(dc.DataError, match="other categories in the release"):
        outside_view(one, two, "v", aligned=False)


def test_a_perturbed_category_with_a_new_label_is_not_taken_for_a_recoding() -> None:
    before = dc.Dataset(pl.DataFrame({"c": ["a", "a", "b"]}))
    known, _ = outside_view(before, dc.Dataset(pl.DataFrame({"c": ["a", "new", "b"]})), "c", aligned=True)
    assert isinstance(known, Labels) and [known.names[c] for c in known.codes] == ["a", "a", "b"]
    known, _ = outside_view(before, dc.Dataset(pl.DataFrame({"c": ["A", "A", "B"]})), "c", aligned=True)
    assert isinstance(known, Labels) and [known.names[c] for c in known.codes] == ["A", "A", "B"]


def test_perturbed_categories_and_numbers_are_known_as_they_are() -> None:
    one, two = (
        dc.Dataset(pl.DataFrame({"c": ["a", "b"], "v": [1, 2]})),
        dc.Dataset(pl.DataFrame({"c": ["b", "b"], "v": [3.5, 4]})),
    )
    known, _ = outside_view(one, two, "c", aligned=True)
    assert isinstance(known, Labels) and known.codes.tolist() == [0, 1]
    known, published = outside_view(one, two, "v", aligned=False)
    assert isinstance(known, Numbers) and known.values.tolist() == [1, 2]
    assert isinstance(published, Numbers) and published.values.tolist() == [3.5, 4]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(5, 30))
def test_a_case_is_the_same_for_every_order_of_the_rows(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "a": rng.choice([1.0, 2.0, None], n).tolist(),
            "b": rng.choice(["x", "y", None], n).tolist(),
            "y": rng.choice(["p", "q"], n).tolist(),
        },
        schema={"a": pl.Float64, "b": pl.String, "y": pl.String},
    )
    other = frame.with_columns(pl.Series("a", rng.choice([1.0, 2.0, 3.0], n)))
    order = rng.permutation(n)
    one = build_case(dc.Dataset(frame), dc.Dataset(other), ["a", "b"], "y", who="test")
    two = build_case(dc.Dataset(frame[order]), dc.Dataset(other[order]), ["a", "b"], "y", who="test")
    np.testing.assert_array_equal(one.known.x, two.known.x)
    np.testing.assert_array_equal(one.published.x, two.published.x)
    assert isinstance(one.truth, Labels) and isinstance(two.truth, Labels)
    np.testing.assert_array_equal(one.truth.codes, two.truth.codes)
    truth = np.array([one.names[code] for code in one.truth.codes])
    back = np.empty(n, dtype=object)
    back[one.order] = truth
    assert back.tolist() == frame["y"].to_list()


def test_folds_are_even_within_classes() -> None:
    codes = np.array([0] * 50 + [1] * 10 + [-1] * 3)
    fold = folds(Labels(codes, ("a", "b")), 5, np.random.default_rng(1))
    assert np.bincount(fold[codes == 0]).tolist() == [10] * 5
    assert np.bincount(fold[codes == 1]).tolist() == [2] * 5
    with pytest.raises(dc.DataError, match="3 rows cannot be divided into 5 folds"):
        folds(Numbers(np.zeros(3)), 5, np.random.default_rng(1))


def test_weights() -> None:
    data = dc.Dataset(pl.DataFrame({"w": [1.0, 2.0]}), roles={"w": "weight"})
    assert weights_of(data, "test").tolist() == [1, 2]  # type: ignore[union-attr]
    assert weights_of(dc.Dataset(pl.DataFrame({"w": [1.0]})), "test") is None
    for bad in ([1.0, None], [-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(dc.DataError, match="weights in column 'w'"):
            weights_of(dc.Dataset(pl.DataFrame({"w": bad}), roles={"w": "weight"}), "test")
