"""`discretion hierarchy make`, `show` and `check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from discretion.data.hierarchy import Hierarchy
from tests.cli.conftest import Cli, spawn

PEOPLE = (
    "age,zip,job,born\n23,08001,nurse,1990-05-01\n25,08002,clerk,1985-11-30\n41,09001,,1962-02-02\n41,08001,nurse,\n"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path / "people.csv"


@pytest.mark.parametrize(
    ("column", "options", "rule"),
    [
        ("age", ["--intervals", "5", "--levels", "3"], Hierarchy.intervals(width=5, levels=3)),
        ("age", ["--intervals", "5", "--levels", "2", "--origin", "1"], Hierarchy.intervals(5, 2, 1)),
        (
            "age",
            ["--cuts", "0,20,40,60", "--cuts", "[0, 40, 60]"],
            Hierarchy.intervals(cuts=[[0, 20, 40, 60], [0, 40, 60]]),
        ),
        ("zip", ["--masking"], Hierarchy.masking()),
        ("zip", ["--masking", "--keep", "2", "--side", "left"], Hierarchy.masking(keep=2, side="left")),
        ("born", ["--dates", "month, year"], Hierarchy.dates("month", "year")),
        (
            "job",
            ["--groups", "{health: [nurse], desk: [clerk]}"],
            Hierarchy.groups({"health": ["nurse"], "desk": ["clerk"]}),
        ),
    ],
)
def test_a_hierarchy_is_made_as_in_python(
    data: Path, tmp_path: Path, cli: Cli, column: str, options: list[str], rule: Hierarchy
) -> None:
    import discretion as dc

    out = tmp_path / "h.csv"
    done = cli("hierarchy", "make", data, column, *options, "-o", out)
    assert done.code == 0, done.err
    values = [value for value in dc.read(data).codes(column).values if value is not None]
    assert Hierarchy.read(out).bind([]).table == rule.bind(values).table
    assert done.out == "" and "written" in done.err
    assert cli("hierarchy", "check", out, "--data", data, "--column", column).code == 0


def test_a_tree_from_a_file_must_have_every_value(data: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "tree.yaml").write_text('"*":\n  health: [nurse, doctor]\n  desk: [clerk]\n')
    done = cli("hierarchy", "make", data, "job", "--tree", tmp_path / "tree.yaml", "-q")
    assert done.code == 0 and done.err == ""
    assert done.out == "nurse;health;*\ndoctor;health;*\nclerk;desk;*\n"
    (tmp_path / "tree.yaml").write_text('{"*": {"health": ["nurse"]}}')
    done = cli("hierarchy", "make", data, "job", "--tree", tmp_path / "tree.yaml", "-o", tmp_path / "h.csv")
    assert done.code == 3 and "no parent for 1 of 2 values: 'clerk'" in done.err and not (tmp_path / "h.csv").exists()


def test_json_and_pipes(data: Path, tmp_path: Path, cli: Cli) -> None:
    done = cli("hierarchy", "make", data, "zip", "--masking", "--keep", 3, "--json", "-q")
    assert done.json()["rows"][0] == ["08001", "0800*", "080**", "*****"] and done.json()["values"] == 3
    done = cli("hierarchy", "make", data, "zip", "--masking", "--json", "--out", "-")
    assert done.code == 2 and "--json and --out -" in done.err
    done = spawn("hierarchy", "make", "-", "zip", "--masking", "-q", text=PEOPLE)
    assert done.code == 0 and done.out.startswith("08001;0800*;080**;08***;0****;*****\n")
    shown = spawn("hierarchy", "show", "-", "--json", text=done.out).json()
    assert [level["labels"] for level in shown["levels"]] == [3, 2, 2, 2, 1, 1]
    assert shown["levels"][1] == {
        "level": 1, "labels": 2, "smallest": 1, "mean": 1.5, "largest": 2, "first": ["0800*", "0900*"],
    }  # fmt: skip


def test_show_prints_each_level(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "h.csv").write_text("a;x;*\nb;x;*\nc;y;*\n")
    done = cli("hierarchy", "show", tmp_path / "h.csv")
    words = " ".join(done.out.split())
    assert done.code == 0 and "3 values" in words and "0 3 1 1 1 a, b, c" in words and "1 2 1 1.5 2 x, y" in words
    (tmp_path / "h.csv").write_text("a;x;*\nb;x\n")
    assert cli("hierarchy", "show", tmp_path / "h.csv").code == 2


def test_check_tells_every_fault_and_its_exit_code(data: Path, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "h.csv"
    file.write_text("nurse;x;p;*\nclerk;x;q;*\n")
    done = cli("hierarchy", "check", file)
    assert done.code == 2 and "labels of level 1 with several parents at level 2 (1): 'x'" in done.err
    file.write_text("nurse;health;*\nbaker;food;*\n")
    done = cli("hierarchy", "check", file, "--data", data, "--column", "job", "--json")
    assert done.code == 3 and "values of the column without a row, of 2 (1): 'clerk'" in done.err
    found = done.json()
    assert found["holds"] is False and [f["kind"] for f in found["findings"]] == ["no-row", "unused"]
    assert [f["fault"] for f in found["findings"]] == [True, False]
    done = cli("hierarchy", "check", file, "-q")
    assert done.code == 0 and done.err == "" and done.out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["make", "people.csv", "age"], 2, "exactly one of --masking, --intervals"),
        (["make", "people.csv", "age", "--masking", "--intervals", "5"], 2, "not 2"),
        (["make", "people.csv", "age", "--intervals", "5"], 2, "--intervals needs --levels"),
        (
            ["make", "people.csv", "age", "--intervals", "5", "--levels", "2", "--keep", "1"],
            2,
            "--keep goes with --masking",
        ),
        (["make", "people.csv", "age", "--cuts", "0,10,30,70", "--cuts", "0,20,70"], 2, "do not nest"),
        (["make", "people.csv", "age", "--cuts", "0,ten"], 2, "--cuts '0,ten': expected numbers"),
        (["make", "people.csv", "age", "--cuts", "0,30"], 3, "1 values lie outside the cuts"),
        (["make", "people.csv", "job", "--intervals", "5", "--levels", "2"], 3, "needs numbers"),
        (["make", "people.csv", "aje", "--masking"], 3, "did you mean 'age'"),
        (["make", "people.csv", "age", "--masking", "-o", "people.csv"], 3, "overwrite it with --force"),
        (["make", "people.csv", "age", "--masking", "-o", "none/h.csv"], 3, "there is no folder"),
        (["make", "people.csv", "job", "--groups", "{x: [nurse"], 2, "--groups: not valid YAML"),
        (["make", "people.csv", "job", "--groups", "[nurse]"], 2, "groups"),
        (["make", "people.csv", "job", "--tree", "none.yaml"], 2, "no file 'none.yaml'"),
        (["make", "people.csv", "born", "--dates", "week"], 2, "unknown level 'week'"),
        (["show", "none.csv"], 2, "no hierarchy file"),
        (["check", "people.csv", "--data", "people.csv"], 2, "give both --data IN and --column"),
        (["check", "-", "--data", "-", "--column", "age"], 2, "cannot both be standard input"),
    ],
)
def test_faults(
    data: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(data.parent)
    done = cli("hierarchy", *arguments)
    assert done.code == code and words in done.err, done.err
    assert [item.name for item in data.parent.iterdir()] == ["people.csv"] and data.read_text() == PEOPLE


def test_values_that_a_file_cannot_keep(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "a.csv").write_text('x,y\n" north",1\nsouth,2\n')
    done = cli("hierarchy", "make", tmp_path / "a.csv", "x", "--masking")
    assert done.code == 3 and "1 values begin or end with spaces" in done.err
