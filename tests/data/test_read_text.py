from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from discretion.data.read import read
from discretion.errors import DataError, PlanError


def put(tmp_path: Path, content: str | bytes, name: str = "data.csv") -> Path:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_types_of_cells(tmp_path: Path) -> None:
    file = put(
        tmp_path,
        "i,f,z,plus,big,b,d,t,s,e\n"
        "1,1.5,01234,+34600,12345678901234567890,true,2020-01-31,2020-01-31T10:00:00,x,\n"
        "-2, 2 ,99999,+34601,1,FALSE,,2021-01-31T10:00:00.5,,\n",
    )
    frame = read(file).frame
    kinds = dict(zip(frame.columns, map(str, frame.dtypes), strict=True))
    assert kinds["i"] == "Int64" and kinds["f"] == "Float64" and kinds["b"] == "Boolean"
    assert kinds["z"] == kinds["plus"] == kinds["big"] == kinds["s"] == kinds["e"] == "String"
    assert kinds["d"] == "Date" and kinds["t"].startswith("Datetime")
    assert frame["z"].to_list() == ["01234", "99999"]
    assert frame["b"].to_list() == [True, False]
    assert frame["e"].null_count() == 2 and frame["s"].null_count() == 1


@pytest.mark.parametrize(
    ("usual", "late", "expected"),
    [
        ("1", "01234", "String"),
        ("1.5", "007.5", "String"),
        ("1", "2.5", "Float64"),
        ("1", "x", "String"),
        ("2020-01-31", "2020-02-30", "String"),
        ("", "2020-01-31", "Date"),
        ("", "7", "Int64"),
        ("true", "maybe", "String"),
        ("1", "99999999999999999999", "String"),
    ],
)
def test_types_hold_for_the_whole_file(tmp_path: Path, usual: str, late: str, expected: str) -> None:
    file = put(tmp_path, "a,v\n" + f"1,{usual}\n" * 20_000 + f"1,{late}\n")
    column = read(file).frame["v"]
    assert str(column.dtype) == expected
    if expected == "String":
        assert column[0] == usual and column[-1] == late


def test_missing_codes_only_where_listed(tmp_path: Path) -> None:
    file = put(tmp_path, "a,b\n1,NA\n2,5\nNA,6\n-9,7\n")
    plain = read(file).frame
    assert plain["a"].to_list() == ["1", "2", "NA", "-9"]
    coded = read(file, missing_codes={"a": ["NA", -9]})
    assert coded.frame["a"].to_list() == [1, 2, None, None]
    assert coded.frame["b"][0] == "NA"


def test_schema_columns_sets_and_numbers_by_declaration(tmp_path: Path) -> None:
    file = put(tmp_path, "a,s,z\n1,x|y,010\n2,,020\n")
    data = read(file, roles={"a": "quasi"}, types={"s": "set", "z": "continuous"})
    assert data.frame["s"].to_list() == [["x", "y"], None]
    assert data.frame["z"].to_list() == [10, 20]
    assert data.having("quasi") == ("a",)
    assert read(file, columns=["z", "a"]).columns == ("z", "a")
    with pytest.raises(DataError, match="did you mean"):
        read(file, columns=["aa"])
    with pytest.raises(PlanError, match="unknown column"):
        read(file, roles={"nope": "quasi"})


def test_line_breaks_and_quotes_in_cells(tmp_path: Path) -> None:
    file = put(tmp_path, 'a,b\n1,"two\nlines, and ""quotes"""\n2,\n')
    assert read(file).frame["b"].to_list() == ['two\nlines, and "quotes"', None]


def test_blank_lines_are_not_rows(tmp_path: Path) -> None:
    assert len(read(put(tmp_path, "a,b\n1,2\n\n3,4\n\n"))) == 2
    assert len(read(put(tmp_path, "a\n1\n\n3\n"))) == 3
    with pytest.raises(DataError, match="blank lines"):
        read(put(tmp_path, "a,b\n1,2\n\n,\n"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a;b\n1;2\n")))
    assert read("-").frame.row(0) == (1, 2)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(DataError, match="standard input is empty"):
        read("-")
    with pytest.raises(PlanError, match="only CSV"):
        read("-", format="parquet")


def test_pipes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a,b\n1,2\n",))
    writer.start()
    assert read(pipe).frame.row(0) == (1, 2)
    writer.join()


SECRET = "Secretia"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"a,b\n1,{SECRET}\n2,{SECRET},3\n4,{SECRET},5,6\n", ["2 rows", "line 3", "3 cells"]),
        (f"a,b,c\n1,{SECRET},1\n2,{SECRET}\n", ["1 row ", "line 3", "2 cells"]),
        (f'a,b,c\n1,"{SECRET}\nx",1\n2,{SECRET}\n', ["1 row ", "line 4", "2 cells"]),
        (f'a,b\n1,"{SECRET}\n2,{SECRET}\n', ["quote"]),
        ("a,b,a\n1,2,3\n", ["more than one column named 'a'"]),
        ("a,b\n", ["no rows"]),
        ("", ["is empty"]),
        ("\n\n", ["is empty"]),
    ],
)
def test_faults_of_text_files(tmp_path: Path, content: str, said: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        read(put(tmp_path, content))
    message = str(caught.value)
    assert all(text in message for text in said), message
    assert "data.csv" in message
    assert SECRET not in message and SECRET not in repr(caught.value.__cause__)


def test_wrong_encoding_names_the_place(tmp_path: Path) -> None:
    file = put(tmp_path, b"a,b\n1,x\n2,K\xf6ln\n")
    with pytest.raises(DataError, match=r"utf-8.*byte 11 \(line 3\)"):
        read(file, encoding="utf-8")
    with pytest.raises(DataError, match=r"ascii"):
        read(file, encoding="ascii")
    file = put(tmp_path, b"a,b\n1,x\x81\n2,K\xf6ln\n")
    with pytest.raises(DataError, match=r"cp1252.*line 2"):
        read(file)
    assert read(file, encoding="latin-1").frame["b"][1] == "Köln"


def test_faults_of_paths(tmp_path: Path) -> None:
    put(tmp_path, "a\n1\n", "census.csv")
    with pytest.raises(DataError, match=r"did you mean 'census.csv'"):
        read(tmp_path / "cenus.csv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        read(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(PlanError, match=r"\.parquet"):
        read(put(tmp_path, "a\n1\n", "a.xyz"))
    assert len(read(put(tmp_path, "a\n1\n", "a.xyz"), format="csv")) == 1
    with pytest.raises(PlanError, match="did you mean 'parquet'"):
        read(tmp_path / "census.csv", format="parkuet")


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    file = put(tmp_path, "a\n1\n")
    with pytest.raises(PlanError) as caught:
        read(file, sheet="x", table="t")
    assert len(caught.value.problems) == 2
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(PlanError, match="delimiter"):
        read(tmp_path / "a.parquet", delimiter=";")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1;6.023,95\n2;12,5\n3;1.234.567,00\n", [6023.95, 12.5, 1234567.0]),
        ('a,b\n1,"6,023.95"\n2,12.5\n3,"1,234,567"\n', [6023.95, 12.5, 1234567.0]),
        ("a;b;c\n1;5.100;2,5\n2;850;3,5\n3;-1.200;1,5\n", [5100, 850, -1200]),
        ("a;b;c\n1;5.10;2,5\n2;850;3,5\n", ["5.10", "850"]),
        ("a;b;c\n1;0.100;2,5\n2;850;3,5\n", ["0.100", "850"]),
    ],
)
def test_marks_between_thousands_are_read(tmp_path: Path, text: str, values: list[object]) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert read(tmp_path / "t.csv").frame["b"].to_list() == values


def test_marks_that_come_late_are_read(tmp_path: Path) -> None:
    rows = [f"{i % 900};2,5" for i in range(6000)] + ["1.234;2,5", "5;2,5"]
    (tmp_path / "t.csv").write_text("a;b\n" + "\n".join(rows))
    found = read(tmp_path / "t.csv").frame["a"]
    assert found.to_list() == [*(i % 900 for i in range(6000)), 1234, 5]


def test_points_that_may_part_thousands_are_asked_about(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    cells = [f"{i}.{100 + 10 * i}" for i in range(1, 21)]
    file.write_text("id;kosten\n" + "\n".join(f"x{cell};{cell}" for cell in cells))
    with pytest.raises(DataError, match=r"'kosten' every '\.' stands before three digits"):
        read(file)
    assert read(file, decimal=",").frame["kosten"].to_list() == [int(cell.replace(".", "")) for cell in cells]
    assert read(file, decimal=".").frame["kosten"].to_list() == [float(cell) for cell in cells]
    file.write_text("id;kosten;v\n" + "\n".join(f"x;{cell};2.5" for cell in cells))  # another column tells
    assert read(file).frame["kosten"].to_list() == [float(cell) for cell in cells]


def test_text_declared_to_be_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,5 EUR\n2,7\n")
    with pytest.raises(DataError, match="column 'b' has the type `continuous`, but is text: 1 of its 2 values"):
        read(tmp_path / "t.csv", types={"b": "continuous"})
