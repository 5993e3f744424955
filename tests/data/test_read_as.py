"""Reading with a schema that is ready, as plans and commands do."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.data.read import read_as
from discretion.data.schema import Schema
from discretion.data.write import check_output

TEXT = "v,s,z\n1.5,a|b,007\nNA,b,010\n-9,,003\n"
SCHEMA = Schema.build(
    roles={"v": "sensitive"},
    types={"s": "set", "z": "continuous"},
    missing_codes={"v": ["NA", "-9"]},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TEXT)
    return tmp_path / "a.csv"


def test_the_schema_decides_how_cells_are_read(file: Path) -> None:
    data = read_as(file, SCHEMA)
    assert data.frame["v"].to_list() == [1.5, None, None]
    assert data.frame["s"].to_list() == [["a", "b"], ["b"], None]
    assert data.frame["z"].to_list() == [7, 10, 3]
    assert data.schema["v"].roles == ("sensitive",)


def test_columns_that_the_file_lacks(file: Path) -> None:
    more = SCHEMA.with_column("w", type="nominal")
    with pytest.raises(dc.PlanError, match="unknown column 'w'"):
        read_as(file, more)
    assert read_as(file, more, partial=True).columns == ("v", "s", "z")
    with pytest.raises(dc.PlanError, match="unknown option 'delimeter'; did you mean 'delimiter'"):
        read_as(file, SCHEMA, delimeter=";")


def test_missing_codes_of_a_plan_that_are_words_leave_numbers(file: Path) -> None:
    plan = dc.Plan.from_dict(
        {
            "data": str(file),
            "roles": {"v": "sensitive"},
            "missing_codes": {"v": ["NA", -9]},
            "steps": [{"round": {"columns": ["v"], "base": 1}}],
        }
    )
    assert plan.read().frame["v"].to_list() == [1.5, None, None]
    assert plan.run(seed=1).data.frame["v"].null_count() == 2


def test_what_another_schema_says_is_added() -> None:
    both = SCHEMA.overlaid(Schema.build(types={"v": "continuous"}, roles={"s": "quasi"}))
    assert both["v"].roles == ("sensitive",) and both["v"].type == "continuous"
    assert both["v"].missing_codes == ("NA", "-9")
    assert both["s"].type == "set" and both["s"].roles == ("quasi",)


@pytest.mark.parametrize("rows", [5, 60_000])
def test_a_gzip_file_that_was_cut_off_or_changed_is_damaged(tmp_path: Path, rows: int) -> None:
    draw = random.Random(7)
    packed = gzip.compress(("a,b\n" + "".join(f"{i},{draw.random()}\n" for i in range(rows))).encode())
    middle = len(packed) // 2
    file = tmp_path / "a.csv.gz"
    file.write_bytes(packed)
    assert len(dc.read(file)) == rows
    for content in (packed[:middle], packed[:-4], packed[:middle] + b"\xaa\x55" + packed[middle + 2 :]):
        file.write_bytes(content)
        with pytest.raises(dc.DataError, match="damaged"):
            dc.read(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(dc.DataError, match="not a gzip file, although its name says so"):
        dc.read(file)


def test_nul_bytes_far_into_a_file_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"a,b\n" + b"1,some text\n" * 40_000 + b"1,so\0me\n2,x\n")
    with pytest.raises(dc.DataError, match=r"cells with NUL bytes in the columns 'b' \(1\)"):
        dc.read(file)


def test_a_place_to_write_is_looked_at_as_writing_does(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1]})
    there = tmp_path / "there.csv"
    there.write_text("precious")
    for place in (there, tmp_path / "none" / "a.csv", tmp_path / "a.xyz", tmp_path / "a.ods", tmp_path / "b.duckdb",
                  tmp_path / "none" / "b.sqlite", tmp_path):  # fmt: skip
        with pytest.raises(dc.DiscretionError) as early:
            check_output(place)
        with pytest.raises(dc.DiscretionError) as late:
            dc.write(frame, place)
        assert str(early.value) == str(late.value) and type(early.value) is type(late.value)
    for place in ("-", tmp_path / "new.csv", f"duckdb:///{tmp_path}/b.duckdb?table=t"):
        check_output(place)
    check_output(there, overwrite=True)
    assert there.read_text() == "precious" and [item.name for item in tmp_path.iterdir()] == ["there.csv"]
