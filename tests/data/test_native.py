"""pandas, polars and pyarrow in, the same kind out: index, order, types and untouched columns kept."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discretion as dc
from discretion.errors import DataError

LEVELS = {"t": [("a", "vowel"), ("e", "vowel"), ("k", "other"), ("m", "other")]}


def generalize(frame: Any) -> Any:
    return dc.Generalize(levels={"t": 1})(dc.Dataset(frame, hierarchies=LEVELS)).to_native()


def swap(frame: Any, *columns: str) -> Any:
    return dc.RankSwap(columns=columns, percent=100)(frame, seed=5)


# --- pandas ----------------------------------------------------------------------------------------------------


def test_pandas_index_order_and_untouched_columns() -> None:
    stamps = pd.date_range("2020-01-01", periods=4, tz="Europe/Madrid")
    frame = pd.DataFrame(
        {
            "when": stamps,
            "x": [4.0, 3.0, 2.0, 1.0],
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "odd": pd.Series([{"a": 1}, None, {"a": 2}, {"a": 3}]),
        },
        index=pd.Index([7, 7, "b", None], name="key"),
    )
    new = dc.Mdav(columns=["x"], k=2)(frame)
    assert new["x"].tolist() == [3.5, 3.5, 1.5, 1.5]
    pd.testing.assert_frame_equal(new.drop(columns="x"), frame.drop(columns="x"))
    assert list(new.columns) == list(frame.columns) and new.index.equals(frame.index) and new.index.name == "key"


def test_pandas_multi_index_and_rows_taken() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "t": list("aekm")}, index=index)
    data = dc.Dataset(frame).take(np.array([3, 0]))
    pd.testing.assert_frame_equal(data.to_native(), frame.iloc[[3, 0]])


def test_pandas_column_labels_that_are_not_text() -> None:
    frame = pd.DataFrame(np.arange(8.0).reshape(4, 2), columns=pd.Index([10, 20], name="code"))
    new = dc.Mdav(columns=["20"], k=2)(frame)
    assert new.columns.equals(frame.columns) and new.columns.name == "code"
    assert new[10].equals(frame[10]) and new[20].tolist() == [2, 2, 6, 6]


@pytest.mark.parametrize(
    "kind", ["Int64", "Int8", "UInt16", "int64", "int32", "Float32", "float32", "Float64", "int64[pyarrow]"]
)
def test_pandas_number_types_stay(kind: str) -> None:
    cells = [1, 2, 3, 4] if kind in ("int64", "int32", "float32") else [1, None, 3, 4]
    frame = pd.DataFrame({"x": pd.array(cells, dtype=kind)})
    new = swap(frame, "x")
    assert new["x"].dtype == frame["x"].dtype
    assert sorted(new["x"].dropna().tolist()) == sorted(frame["x"].dropna().tolist())
    assert new["x"].isna().tolist() == frame["x"].isna().tolist()


def test_pandas_large_whole_numbers_with_missing_stay_exact() -> None:
    frame = pd.DataFrame({"x": pd.array([2**53 + 1, None, 2**53 + 3], dtype="Int64")})
    assert sorted(swap(frame, "x")["x"].dropna().tolist()) == [2**53 + 1, 2**53 + 3]


@pytest.mark.parametrize("kind", ["string", "object", "str"])
def test_pandas_text_types_stay(kind: str) -> None:
    frame = pd.DataFrame({"t": pd.Series(["a", "e", None, "k"], dtype=kind)})
    new = generalize(frame)
    assert new["t"].dtype == frame["t"].dtype
    assert new["t"].fillna("-").tolist() == ["vowel", "vowel", "-", "other"]


def test_pandas_categories_keep_every_value() -> None:
    frame = pd.DataFrame({"t": pd.Categorical(["a", "e", None, "k"], categories=["k", "e", "a"], ordered=True)})
    new = generalize(frame)
    assert str(new["t"].dtype) == "category"
    assert new["t"].astype(object).fillna("-").tolist() == ["vowel", "vowel", "-", "other"]
    hidden = dc.Dataset(frame).with_columns({}, suppressed={"t": np.array([True, False, False, False])})
    assert hidden.to_native()["t"].dtype == frame["t"].dtype  # nothing new in it: the same ordered categories


def test_pandas_whole_numbers_become_fractions_only_where_they_must() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3, 5], "y": [1, 2, 3, 5]})
    assert dc.Mdav(columns=["x"], k=2)(frame).dtypes.to_dict() == {"x": np.float64, "y": np.int64}
    assert dc.Mdav(columns=["x"], k=2, integers=True)(frame).dtypes.to_dict() == {"x": np.int64, "y": np.int64}


def test_pandas_changed_afterwards_does_not_change_the_data() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3, 4]})
    data = dc.Dataset(frame)
    frame.loc[0, "x"] = 99.0
    frame["y"] = 0
    assert data.number("x").tolist() == [1, 2]
    assert data.to_native().to_dict("list") == {"x": [1.0, 2.0], "y": [3, 4]}


def test_pandas_refusals() -> None:
    with pytest.raises(DataError, match="two columns of the same name"):
        dc.Dataset(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="two columns of the same name"):
        dc.Dataset(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(DataError, match="column 'm' mixes kinds of values") as caught:
        dc.Dataset(pd.DataFrame({"m": ["secret", 7]}))
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match=r"infinite values in 'x' \(1\)"):
        dc.Dataset(pd.DataFrame({"x": [1.0, np.inf]}))


# --- polars ----------------------------------------------------------------------------------------------------


def test_polars_types_stay() -> None:
    frame = pl.DataFrame(
        {
            "x": pl.Series([1.5, 2.5, 3.5, None], dtype=pl.Float32),
            "n": pl.Series([1, 2, 3, 4], dtype=pl.Int16),
            "c": pl.Series(["p", "q", None, "p"], dtype=pl.Categorical),
            "e": pl.Series(["lo", "hi", "lo", None], dtype=pl.Enum(["lo", "hi"])),
            "d": [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1), dt.date(2022, 1, 1)],
            "l": [["a"], [], None, ["b", "c"]],
            "t": pl.Series(["a", "e", None, "k"], dtype=pl.Categorical),
        }
    )
    new = swap(generalize(frame), "x", "n")
    assert new.schema == frame.schema and new.columns == frame.columns
    assert new.select("c", "e", "d", "l").equals(frame.select("c", "e", "d", "l"))
    assert new["t"].cast(pl.String).to_list() == ["vowel", "vowel", None, "other"]
    assert new["x"].is_null().to_list() == [False, False, False, True]


def test_polars_nan_in_an_untouched_column_stays_nan() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, float("nan"), None, 2.0]})
    assert swap(frame, "x")["y"].equals(frame["y"], null_equal=True)


def test_polars_lazy_frames_are_collected() -> None:
    assert dc.Mdav(columns=["x"], k=2)(pl.LazyFrame({"x": [1, 3]}))["x"].to_list() == [2, 2]


def test_missing_codes_of_an_untouched_column_go_out_as_they_came() -> None:
    data = dc.Dataset(pl.DataFrame({"x": [1, 2, 3], "y": [1, 99, 3]}), missing_codes={"y": 99})
    assert swap(data, "x").to_native()["y"].to_list() == [1, 99, 3]
    assert swap(data, "y").to_native()["y"].to_list()[1] is None


# --- pyarrow ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_pyarrow_text_types_stay(kind: pa.DataType) -> None:
    frame = pa.table({"t": pa.array(["a", "e", None, "k"]).cast(kind), "x": pa.array([1, 2, 3, 4], pa.int16())})
    new = generalize(frame)
    assert new.schema.types == frame.schema.types and new.column("x").equals(frame.column("x"))
    assert new.column("t").to_pylist() == ["vowel", "vowel", None, "other"]


def test_pyarrow_numbers_stay_and_do_not_come_from_text() -> None:
    frame = pa.table({"x": pa.array([1.5, 2.5, None], pa.float32()), "n": pa.array([1, 2, 3], pa.uint8())})
    assert swap(frame, "x", "n").schema.types == [pa.float32(), pa.uint8()]
    coded = dc.Dataset(frame, hierarchies={"n": [(1, "1"), (2, "1"), (3, "3")]})
    published = dc.Generalize(levels={"n": 1})(coded).to_native().column("n")
    assert published.to_pylist() == ["1", "1", "3"]  # labels, as in the other libraries


def test_pyarrow_rows_taken_and_two_columns_of_one_name() -> None:
    frame = pa.table({"x": [1, 2, 3], "d": [dt.date(2020, 1, day) for day in (1, 2, 3)]})
    assert dc.Dataset(frame).take(np.array([2, 0])).to_native().equals(frame.take([2, 0]))
    with pytest.raises(DataError, match="two columns of the same name"):
        dc.Dataset(pa.table([[1], [2]], names=["a", "a"]))


# --- all of them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_data_without_rows_comes_back_without_rows(make: Any) -> None:
    frame = make({"x": np.array([], dtype=np.float64)})
    new = dc.Dataset(frame).to_native()
    assert type(new) is type(frame) and new.shape == (0, 1)


@pytest.mark.parametrize("thing", [{"x": [1]}, [1, 2], "data.csv", None, pd.Series([1]), pl.Series([1])])
def test_what_is_no_frame_is_refused(thing: object) -> None:
    with pytest.raises(DataError, match="expected a pandas, polars or pyarrow frame"):
        dc.Dataset(thing)
