"""Errors speak of the options of the command, not of the parameters of the library."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from discretion.cli.console import in_options
from tests.cli.conftest import Cli

APPLY = ["apply", "round", "in.csv", "out.csv"]


@pytest.mark.parametrize(
    ("message", "on_files", "on_plans"),
    [
        ("'a' exists; overwrite=True replaces it", *["'a' exists; overwrite it with --force"] * 2),
        ("rename them, or give header=False", "give --no-header", "give `header: false` under `data`"),
        ("give the right one with encoding=, such as", "with --encoding, such", "with `encoding` under `data`, such"),
        ("the right delimiter= and quote=", "--delimiter and --quote", "`delimiter` under `data` and `quote` under"),
        ("or give quote='' if", "give --quote '' if", "give `quote: ''` under `data` if"),
        ("or say which it is with format=", "with --format", "with `format` under `data`"),
        ("name a table with table= or give a query=; tables", "--table or give a --query;", "`table` under `data`"),
        ("delimiter: one character is needed", "--delimiter: one", "delimiter: one"),
        ("declare them in `missing_codes`", "with --missing-codes COLUMN=CODE", "in `missing_codes`"),
        ("give `columns`", "give --columns", "give `columns`"),
        ("give exactly one of `base`, `x`", "give exactly one of --base, `x`", "one of `base`, `x`"),
        ("the column a=b stays", "a=b stays", "a=b stays"),
    ],
)
def test_words(message: str, on_files: str, on_plans: str) -> None:
    assert on_files in in_options(message, APPLY)
    assert on_plans in in_options(message, ["run", "plan.yaml", "--json"])


def test_columns_are_given_differently_to_each_command() -> None:
    assert in_options("give `columns`", ["anonymize", "a", "b"]) == "give --quasi"
    assert "--quasi and --sensitive, or `columns` in --measure" in in_options("give `columns`", ["assess", "a", "b"])
    assert in_options("give `columns`", []) == "give `columns`"
    assert in_options("give `columns`", ["apply", "nonsense"]) == "give `columns`"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"a,a\n1,2\n", [], "where the first row holds no names but values, give --no-header)"),
        (b"a,b\n1,2\n3\n4,5,6\n", [], "give the right --delimiter and --quote"),
        (b"a,b\n1,\xe4\n", ["--encoding", "ascii"], "give the right one with --encoding"),
        (b"a,b\n1,2\n\x003,4\n5,6\n", [], "has NUL bytes, first in line 3; the file is damaged"),
        ("a,b\n1,2\n".encode("utf-16-le"), [], "--encoding, such as utf-16"),
        (b"a,b\n1,2\nx,3\n-,4\n", [], "2 of its 3 values are no numbers; if they stand for missing values, declare them"
         " with --missing-codes"),
        (b"a,b\n1,2\n", ["--delimiter", "::"], "--delimiter: one character is needed"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(tmp_path: Path, cli: Cli, content: bytes, options: list[str], words: str) -> None:
    (tmp_path / "in.csv").write_bytes(content)
    done = cli("apply", "round", tmp_path / "in.csv", tmp_path / "out.csv", "--columns", "a", "--base", "5", *options)
    assert done.code in (2, 3) and words in done.err and not (tmp_path / "out.csv").exists()
    assert "=" not in done.err.replace("COLUMN=CODE", "")


def test_options_that_tell_how_a_file_is_read(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.dat").write_text("1|'x'\n12|'y'\n")
    options = ["--no-header", "--quote", "'", "--format", "csv", "--columns", "column_1", "--base", "5", "--keep-order"]
    done = cli("apply", "round", tmp_path / "in.dat", tmp_path / "out.csv", *options)
    assert done.code == 0, done.err
    assert (tmp_path / "out.csv").read_text() == "column_1|column_2\n0|x\n10|y\n"
    done = cli("apply", "round", tmp_path / "in.dat", tmp_path / "new.csv", "--columns", "a", "--base", "5")
    assert done.code == 2 and done.err.rstrip().endswith("or say which it is with --format")


def test_a_damaged_gzip_file_is_called_damaged(tmp_path: Path, cli: Cli) -> None:
    packed = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(100_000)))
    for name, content in {"cut": packed[: len(packed) // 2], "junk": b"junk that is no gzip\n"}.items():
        (tmp_path / f"{name}.csv.gz").write_bytes(content)
        done = cli("apply", "round", tmp_path / f"{name}.csv.gz", tmp_path / "out.csv", "--columns", "a", "--base", "5")
        assert done.code == 3 and "damaged" in done.err and not (tmp_path / "out.csv").exists()
