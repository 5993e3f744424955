from __future__ import annotations

import datetime as dt
import errno
import gzip
import io
import os
import sys
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discretion as dc
from discretion.data import files
from discretion.data.dataset import Dataset
from discretion.data.read import read
from discretion.data.schema import Column, Schema
from discretion.data.write import write
from discretion.errors import DataError, PlanError

FRAME = pl.DataFrame(
    {
        "whole": [1, None, -3],
        "wide": [2**40, 5, None],
        "real": [0.1 + 0.2, 1e-7, None],
        "name": ["Zoë Müller", 'say "hi",\nthen; go | on', None],
        "zip": ["01234", "99999", None],
        "flag": [True, None, False],
        "day": [dt.date(2020, 1, 31), None, dt.date(1950, 12, 1)],
        "moment": [dt.datetime(2020, 1, 31, 10, 30), None, dt.datetime(1999, 12, 31, 23, 59, 59)],
        "kind": pl.Series(["a", "b", None], dtype=pl.Categorical),
        "set": [["x", "y"], ["z"], None],
    }
)
TEXTLIKE = ["csv", "csv.gz", "tsv", "xlsx", "jsonl", "json", "parquet", "arrow", "feather", "dta", "sav", "xpt"]


def expected(extension: str) -> pl.DataFrame:
    """What comes back: types that a format lacks come back as its nearest."""
    frame = FRAME
    if extension not in ("parquet", "arrow", "feather"):
        frame = frame.with_columns(pl.col("kind").cast(pl.String))
    if extension in ("dta", "sav", "xpt"):
        frame = frame.with_columns(pl.col("flag").cast(pl.Int64))
    if extension in ("csv", "csv.gz", "tsv", "xlsx", "dta", "sav", "xpt"):
        frame = frame.with_columns(pl.col("set").list.join("|"))
    return frame


def same(left: pl.DataFrame, right: pl.DataFrame) -> None:
    assert left.columns == right.columns
    moments = pl.col(pl.Datetime).cast(pl.Datetime("us"))
    left, right = left.with_columns(moments), right.with_columns(moments)
    assert [str(a) for a in left.dtypes] == [str(b) for b in right.dtypes]
    assert left.rows() == right.rows()


@pytest.mark.parametrize("extension", TEXTLIKE)
def test_round_trip_and_same_bytes(tmp_path: Path, extension: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, again = tmp_path / f"a.{extension}", tmp_path / f"b.{extension}"
    write(FRAME, file)
    back = read(file)
    same(back.frame, expected(extension))
    write(back, again)
    same(read(again).frame, expected(extension))
    write(FRAME, again, overwrite=True)
    assert file.read_bytes() == again.read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == [file.name, again.name]


def test_no_time_of_writing_in_the_bytes(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    plain = pl.DataFrame({"a": [1.5]})
    for extension, writer, places in (
        ("sav", pyreadstat.write_sav, [(92, 109)]),
        ("xpt", pyreadstat.write_xport, [(144, 176), (464, 496)]),
        ("dta", lambda frame, path: pyreadstat.write_dta(frame, path, version=14), None),
    ):
        ours, theirs = tmp_path / f"a.{extension}", tmp_path / f"b.{extension}"
        write(plain, ours)
        writer(plain, str(theirs))
        left, right = ours.read_bytes(), theirs.read_bytes()
        start = left.find(b"<timestamp>") + 12
        fields = places or [(start, start + 17)]
        different = {place for place in range(len(left)) if left[place] != right[place]}
        assert len(left) == len(right)
        assert different and all(any(a <= place < b for a, b in fields) for place in different)
        assert all(b"00:00" in left[a:b] for a, b in fields)


@pytest.mark.parametrize(("delimiter", "decimal"), [(";", ","), (",", ","), ("|", "."), ("\t", ",")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_csv_styles(tmp_path: Path, delimiter: str, decimal: str, encoding: str) -> None:
    file = tmp_path / "a.csv"
    frame = FRAME.drop("set")
    write(frame, file, delimiter=delimiter, decimal=decimal, encoding=encoding)
    back = read(file, delimiter=delimiter, decimal=decimal)
    same(back.frame, frame.with_columns(pl.col("kind").cast(pl.String)))


def test_sets_come_back_when_declared(tmp_path: Path) -> None:
    write(FRAME, tmp_path / "a.csv")
    assert read(tmp_path / "a.csv", types={"set": "set"}).frame["set"].to_list() == FRAME["set"].to_list()
    with pytest.raises(DataError, match="'set'"):
        write(pl.DataFrame({"set": [["a|b"]]}), tmp_path / "b.csv")


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    texts = ["0.1", "1e-7", "123456789.123", "5e-324", "-9.876543210987654e149", "-0.0", "2.0"]
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    write(pl.DataFrame({"v": [float(t) for t in texts]}), first)
    data = read(first)
    assert data.frame["v"].to_list() == [float(t) for t in texts]
    write(data, second)
    assert first.read_bytes() == second.read_bytes()


def test_nan_is_missing_and_missing_codes_stay(tmp_path: Path) -> None:
    write(pl.DataFrame({"v": [1.5, float("nan")]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "v\n1.5\n\n"
    data = Dataset(pl.DataFrame({"v": [1, -9]}), missing_codes={"v": [-9]})
    write(data, tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == "v\n1\n-9\n"


def test_pandas_and_pyarrow(tmp_path: Path) -> None:
    for number, frame in enumerate([pd.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]})]):
        write(frame, tmp_path / f"{number}.csv")
        write(Dataset(frame), tmp_path / f"{number}d.csv")
        assert (tmp_path / f"{number}.csv").read_text() == (tmp_path / f"{number}d.csv").read_text() == "a\n1\n2\n"


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=raw, flush=lambda: None))
    write(pl.DataFrame({"a": [1.5]}), "-", delimiter=";", decimal=",")
    assert raw.getvalue() == b"a\n1,5\n"
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    write(pl.DataFrame({"a": [1]}), "-")
    assert text.getvalue() == "a\n1\n"
    with pytest.raises(PlanError, match="only CSV"):
        write(pl.DataFrame({"a": [1]}), "-", format="xlsx")


# --- labels ---------------------------------------------------------------------------------------------------


def labelled() -> Dataset:
    frame = pl.DataFrame({"sex": [1, 2, None], "score": [1.5, 2.0, 3.0], "job": ["a", "b", "c"]})
    schema = Schema(
        MappingProxyType(
            {
                "sex": Column(label="Geschlecht", value_labels={1: "männlich", 2: "weiblich"}),
                "score": Column(label="Score"),
                "job": Column(value_labels={"a": "actor"}),
            }
        )
    )
    return Dataset(frame, schema=schema)


@pytest.mark.parametrize("extension", ["dta", "sav", "xpt"])
def test_labels_survive(tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"a.{extension}"
    write(labelled(), file)
    schema = read(file, roles={"sex": "quasi"}).schema
    assert schema["sex"].label == "Geschlecht" and schema["score"].label == "Score"
    assert schema["sex"].roles == ("quasi",)
    if extension != "xpt":
        assert dict(schema["sex"].value_labels) == {1: "männlich", 2: "weiblich"}
    if extension == "sav":
        assert dict(schema["job"].value_labels) == {"a": "actor"}


@pytest.mark.parametrize("extension", ["dta", "sav"])
def test_labels_of_changed_columns_are_left_out(tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"a.{extension}"
    write(labelled().with_columns({"sex": ["man", "woman", None]}), file)
    schema = read(file).schema
    assert not schema["sex"].value_labels and schema["sex"].label == "Geschlecht"


# --- whole or not at all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["csv", "parquet", "xlsx", "dta"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), RuntimeError("broken")]
)
@pytest.mark.parametrize("existing", [True, False])
def test_failure_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, failure: BaseException, existing: bool
) -> None:
    file = tmp_path / f"a.{extension}"
    if existing:
        file.write_bytes(b"old")

    def midway(*args: Any, **options: Any) -> None:
        (temporary,) = [item for item in tmp_path.iterdir() if item != file]
        temporary.write_bytes(b"half")
        raise failure

    for name in ("write_binary", "write_labelled"):
        monkeypatch.setattr(files, name, midway)
    monkeypatch.setattr("discretion.data.write._to_text", midway)
    kind = DataError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(kind):
        write(FRAME, file, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ([file.name] if existing else [])
    assert not existing or file.read_bytes() == b"old"


def test_failing_replace_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match="disk is full"):
        write(FRAME, file, overwrite=True)
    assert file.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_existing_target_and_bad_places(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    write(FRAME, file)
    with pytest.raises(DataError, match=r"exists; overwrite=True replaces it$"):
        write(FRAME, file)
    with pytest.raises(DataError, match="is a folder"):
        write(FRAME, tmp_path, format="csv")
    with pytest.raises(DataError, match="no folder"):
        write(FRAME, tmp_path / "nowhere" / "a.csv")
    file.chmod(0o600)
    write(FRAME, file, overwrite=True)
    assert file.stat().st_mode & 0o777 == 0o600
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    write(FRAME.head(1), link, overwrite=True)
    assert link.is_symlink() and len(read(file)) == 1


# --- what formats cannot hold ---------------------------------------------------------------------------------------


def test_refusals(tmp_path: Path) -> None:
    one = pl.DataFrame({"a": [1]})
    for name, said in [("a.sas7bdat", "xpt"), ("a.xls", "xlsx"), ("a.nope", "not known")]:
        with pytest.raises(PlanError, match=said):
            write(one, tmp_path / name)
    with pytest.raises(PlanError, match="sheet"):
        write(one, tmp_path / "a.csv", sheet="x")
    with pytest.raises(DataError, match="'a b'"):
        write(pl.DataFrame({"a b": [1]}), tmp_path / "a.dta")
    with pytest.raises(DataError, match="'long'"):
        write(pl.DataFrame({"long": [1]}), tmp_path / "a.dta")
    with pytest.raises(PlanError, match="sheet"):
        write(one, tmp_path / "a.xlsx", sheet="a/b")
    with pytest.raises(DataError, match="15 digits"):
        write(pl.DataFrame({"a": [2**60]}), tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="15 digits"):
        write(pl.DataFrame({"a": [2**60]}), tmp_path / "a.sav")
    with pytest.raises(DataError, match="no columns"):
        write(pl.DataFrame(), tmp_path / "a.csv")
    with pytest.raises(DataError, match="objects"):
        write(pl.DataFrame({"a": [{"b": 1}]}), tmp_path / "a.csv")
    with pytest.raises(DataError, match="lacks characters of 'a'") as caught:
        write(pl.DataFrame({"a": ["漢字"]}), tmp_path / "a.csv", encoding="cp1252")
    assert "漢" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_gzip_holds_no_time_or_name(tmp_path: Path) -> None:
    write(FRAME, tmp_path / "a.csv.gz")
    content = (tmp_path / "a.csv.gz").read_bytes()
    assert content[3] == 0 and content[4:8] == b"\0\0\0\0"
    assert gzip.decompress(content).startswith(b"whole,")


def _with_user_missing(path: Path) -> None:
    import pyreadstat

    frame = pd.DataFrame({"sex": [1.0, 2.0] * 20, "vote": [1.0, 2.0, 88.0, 99.0] * 10, "pay": [-8.0, *range(900, 939)]})
    labels = {"vote": {1: "A", 2: "B", 88: "Refused", 99: "Don't know"}}
    missing = {"vote": [88, 99], "pay": [{"lo": -9, "hi": -1}]}
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels, missing_ranges=missing)


def test_user_missing_codes_of_spss_stay_where_a_column_is_untouched(tmp_path: Path) -> None:
    import pyreadstat

    _with_user_missing(tmp_path / "in.sav")
    data = dc.read(tmp_path / "in.sav")
    assert data.schema["vote"].missing_codes == (88, 99) and data.count_missing("vote") == 20
    assert data.schema["pay"].missing_codes == (-8,) and data.count_missing("pay") == 1
    dc.write(dc.AdditiveNoise(columns=["pay"], sd_share=0.1)(data, seed=3), tmp_path / "out.sav")
    frame, found = pyreadstat.read_sav(str(tmp_path / "out.sav"), user_missing=True)
    assert frame["vote"].tolist() == [1.0, 2.0, 88.0, 99.0] * 10
    assert found.missing_ranges == {"vote": [{"lo": 88.0, "hi": 88.0}, {"lo": 99.0, "hi": 99.0}]}
    assert found.variable_value_labels["vote"][88.0] == "Refused"
    assert frame["pay"].isna().sum() == 1 and not (frame["pay"] < 0).any()  # changed: plain missing, nothing defined
    again = dc.read(tmp_path / "out.sav")
    assert again.frame["vote"].equals(data.frame["vote"])


def test_what_becomes_of_codes_for_missing_values_is_said(tmp_path: Path) -> None:
    _with_user_missing(tmp_path / "in.sav")
    data = dc.read(tmp_path / "in.sav", roles={"sex": "quasi", "vote": "sensitive", "pay": "sensitive"})
    release = dc.Study(data, 2**127 + 1).apply(dc.AdditiveNoise(columns=["pay"], sd_share=0.1)).release()
    notes = " ".join(release.notes)
    assert "missing values in pay became plain missing" in notes
    assert "missing values in vote are written as they are" in notes  # the plan writes CSV
    assert 88 in dc.Dataset(release.to_native()).frame["vote"].to_list()


def test_a_quasi_identifier_goes_out_with_one_kind_of_missing() -> None:
    """Classes count the missing as one value: a code that one person has would tell that person apart."""
    frame = pl.DataFrame({"school": [1] * 6 + [-9] * 5 + [-8], "x": [0.5] * 12})
    roles = {"school": "quasi", "x": "other"}
    data = dc.Dataset(frame, roles=roles, missing_codes={"school": [-9, -8]})
    release = dc.Study(data, 2**127 + 1).release(requirements=[dc.KAnonymity(k=6)])
    assert release.findings[0].holds
    out = release.to_native()["school"]
    assert out.value_counts()["count"].min() >= 6 and out.null_count() == 6
    assert "missing values in school became plain missing" in " ".join(release.notes)
    single = dc.Dataset(frame, roles=roles, missing_codes={"school": [-9]}, types={"school": "nominal"})
    kept = dc.Study(single, 2**127 + 1).release().to_native()["school"]
    assert sorted(kept) == sorted(frame["school"])  # one kind of missing: as it came in


@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_true_and_false_stay_as_they_were_written(tmp_path: Path, yes: str, no: str) -> None:
    text = f"who,alone\nann,{yes}\nbob,{no}\ncyd,\n"
    (tmp_path / "in.csv").write_text(text)
    data = dc.read(tmp_path / "in.csv")
    assert data.frame["alone"].to_list() == [True, False, None]
    dc.write(data, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text
