from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest

from discretion.data.read import read
from discretion.data.text import Dialect, sniff
from discretion.errors import DataError, PlanError

ROWS = [
    ("1", "Zoë Müller", "12{d}5", "2020-01-31"),
    ("2", "O'Hara", "0{d}25", ""),
    ("3", "Ana", "-3{d}0", "2021-12-01"),
]


def table(delimiter: str, decimal: str, header: bool, quoting: str) -> str:
    rows = [tuple(cell.format(d=decimal) for cell in row) for row in ROWS]
    if header:
        rows.insert(0, ("id", "who", "amount", "day"))

    def cell(text: str) -> str:
        return f'"{text}"' if quoting == "all" or delimiter in text else text

    return "\n".join(delimiter.join(map(cell, row)) for row in rows) + "\n"


@pytest.mark.parametrize(
    ("delimiter", "decimal", "encoding", "header", "quoting"),
    list(itertools.product(",;\t|", ".,", ["utf-8", "utf-8-sig", "cp1252"], [True, False], ["all", "needed"])),
)
def test_dialects_are_found(
    tmp_path: Path, delimiter: str, decimal: str, encoding: str, header: bool, quoting: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(table(delimiter, decimal, header, quoting).encode(encoding))
    assert sniff(file) == Dialect(delimiter, decimal, encoding, header)  # type: ignore[arg-type]
    frame = read(file).frame
    number = frame.columns[2]
    assert frame[number].to_list() == [12.5, 0.25, -3.0]
    assert frame[frame.columns[1]][0] == "Zoë Müller"
    assert str(frame.dtypes[3]) == "Date"


def test_dialect_is_reported_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_bytes("straße;wert\nä;1,5\nö;2,5\n".encode("cp1252"))
    said: list[str] = []
    read(file, report=said.append)
    assert said == ["read as: delimiter ';', decimal comma, encoding cp1252, header in the first row"]


def test_encoding_that_shows_late_is_found_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "late.csv"
    file.write_bytes(b"a,b\n" + b"1,plain\n" * 60_000 + "2,Köln\n".encode("cp1252"))
    said: list[str] = []
    assert sniff(file).encoding == "utf-8"
    assert read(file, report=said.append).frame["b"][-1] == "Köln"
    assert "cp1252" in said[0]


def test_gzip_and_utf16(tmp_path: Path) -> None:
    packed, wide = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    packed.write_bytes(gzip.compress(b"a;b\n1;x\n"))
    wide.write_bytes("a\tb\n1\tä\n".encode("utf-16"))
    assert sniff(packed).delimiter == ";"
    assert read(packed).frame["a"].to_list() == [1]
    assert sniff(wide).encoding == "utf-16"
    assert read(wide).frame["b"].to_list() == ["ä"]
    packed.write_bytes(gzip.compress(b"a;b\n1;x\n" * 1000)[:-20])
    with pytest.raises(DataError, match="gzip"):
        read(packed)


def test_everything_can_be_overridden(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a;b,c\n1;2,3\n", encoding="utf-8")
    assert sniff(file, delimiter=",").delimiter == ","
    assert read(file, delimiter=",").columns == ("a;b", "c")
    assert len(read(file, header=False)) == 2
    assert read(file, delimiter=";", decimal=",").frame["b,c"].to_list() == [2.3]
    assert read(file, delimiter=";", decimal=".").frame["b,c"].to_list() == ["2,3"]
    file.write_text("a,b\n'x,1',2\n", encoding="utf-8")
    assert read(file, quote="'").frame.row(0) == ("x,1", 2)


def test_preamble_single_quotes_and_stray_quotes(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(b"sep=;\r\na;b\r\n1;x, y\r\n")
    assert sniff(file).skipped == 1
    assert read(file).frame.row(0) == (1, "x, y")
    file.write_bytes(b"'a','b'\n'1','x, y'\n'2','z'\n")
    assert sniff(file).quote == "'"
    file.write_bytes(b'a,b\n1,5" disk\n2,3" disk\n')
    assert sniff(file).quote == ""
    assert read(file).frame["b"].to_list() == ['5" disk', '3" disk']


def test_thousands_are_not_decimals(tmp_path: Path) -> None:
    file = tmp_path / "t.tsv"
    file.write_bytes(b"a\tb\n1\t1,234\n2\t12,500\n")
    assert sniff(file).decimal == "."
    assert read(file).frame["b"].to_list() == [1234, 12500]
    file.write_bytes(b"a;b\n1,5;1.234\n2,5;3.000\n3,5;7,25\n")
    assert read(file).frame["b"].to_list() == [1234, 3000, 7.25]


def test_header_of_numbers_above_numbers_is_none(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,2019,2020\n1,5,6\n2,7,8\n", encoding="utf-8")
    assert sniff(file).header
    file.write_text("m,Berlin\nf,Köln\nm,Berlin\nf,Bonn\n", encoding="utf-8")
    assert not sniff(file).header


def test_sniffing_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        sniff(tmp_path / "a.csv")


def test_impossible_settings_are_all_reported(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read(file, delimiter=";;", decimal="x", encoding="utf-99", quote="''")
    assert len(caught.value.problems) == 4
