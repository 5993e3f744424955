from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import xlsxwriter

from discretion.data.detect import propose
from discretion.data.read import read
from discretion.data.write import write
from discretion.errors import DataError, PlanError

NAMES = ["a.parquet", "a.arrow", "a.xlsx", "a.jsonl", "a.json", "a.dta", "a.sav", "a.sas7bdat", "a.xpt"]


@pytest.mark.parametrize("name", NAMES)
def test_broken_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"PAR1 Secretia nonsense" * 50)
    with pytest.raises(DataError) as caught:
        read(file)
    assert name in str(caught.value) and "Secretia" not in str(caught.value)
    file.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        read(file)


def test_cut_off_parquet(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pl.DataFrame({"a": range(1000)}).write_parquet(file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read(file)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.jsonl", "a.sav", "a.xlsx"])
def test_columns_and_no_rows(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write(pl.DataFrame({"age": [1], "b": ["x"]}), file)
    assert read(file, columns=["b"]).columns == ("b",)
    with pytest.raises(DataError, match="did you mean 'age'"):
        read(file, columns=["agee"])
    if name in ("a.parquet", "a.arrow"):
        write(pl.DataFrame({"age": [1]}).head(0), file, overwrite=True)
        with pytest.raises(DataError, match="no rows"):
            read(file)


def test_arrow_stream(tmp_path: Path) -> None:
    file = tmp_path / "a.arrow"
    pl.DataFrame({"a": [1, 2]}).write_ipc_stream(file)
    assert read(file).frame["a"].to_list() == [1, 2]
    with pytest.raises(DataError, match="unknown column 'b'"):
        read(file, columns=["b"])


def workbook(path: Path, **sheets: list[list[object]]) -> Path:
    with xlsxwriter.Workbook(path) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return path


def test_excel_sheets(tmp_path: Path) -> None:
    file = workbook(
        tmp_path / "a.xlsx", one=[["a"], [1]], two=[["a"], ["01"]], twice=[["a", "b", "a"], [1, 2, 3]], none=[]
    )
    assert read(file).frame["a"].to_list() == [1]
    assert read(file, sheet="two").frame["a"].to_list() == ["01"]
    assert read(file, sheet=2).frame["a"].to_list() == ["01"]
    assert len(read(file, sheet="one", header=False)) == 2
    with pytest.raises(PlanError, match="did you mean 'two'"):
        read(file, sheet="twoo")
    with pytest.raises(PlanError, match="4 sheets"):
        read(file, sheet=9)
    with pytest.raises(DataError, match="more than one column named 'a'"):
        read(file, sheet="twice")
    with pytest.raises(DataError, match="is empty"):
        read(file, sheet="none")


def test_json_lines_with_late_fields(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('{"a": 1}\n' * 3000 + '{"a": 1.5, "late": "x"}\n')
    frame = read(file).frame
    assert frame.columns == ["a", "late"] and frame["a"][-1] == 1.5
    file.write_text('{"a": {"b": 1}}\n')
    with pytest.raises(DataError, match="flatten"):
        read(file)


def test_spss_codes_stay_codes(tmp_path: Path) -> None:
    import pyreadstat

    file = tmp_path / "a.sav"
    frame = pl.DataFrame({"q": [1.0, 2.0, None], "r": [1.25, 2.0, 3.0], "t": ["x", "", "y"]})
    pyreadstat.write_sav(
        frame, str(file), variable_value_labels={"q": {1.0: "yes", 2.0: "no"}}, variable_format={"q": "F8.0"}
    )
    data = read(file)
    assert data.frame["q"].to_list() == [1, 2, None] and data.frame["q"].dtype == pl.Int64
    assert data.frame["t"].to_list() == ["x", None, "y"]
    assert dict(data.schema["q"].value_labels) == {1: "yes", 2: "no"}


@pytest.mark.parametrize("extension", ["dta", "sav"])
def test_labels_of_codes_that_are_stored_with_decimals(tmp_path: Path, extension: str) -> None:
    import pyreadstat

    file = tmp_path / f"a.{extension}"
    frame = pl.DataFrame({"sex": [1.0, 2.0] * 20, "partner": [1.0, None] * 20, "pay": [i + 0.5 for i in range(40)]})
    labels = {"sex": {1: "man", 2: "woman"}, "partner": {1: "yes", 2: "no"}, "pay": {-9: "refused"}}
    getattr(pyreadstat, f"write_{extension}")(frame, str(file), variable_value_labels=labels)
    data = read(file)
    data = data.with_columns({name: data.frame[name].cast(pl.Float64) for name in labels})
    assert {name: data.is_labelled(name) for name in labels} == {"sex": True, "partner": True, "pay": False}
    assert {one.column: one.type for one in propose(data)} == {
        "sex": "nominal", "partner": "nominal", "pay": "continuous"
    }  # fmt: skip
