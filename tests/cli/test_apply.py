"""`discretion apply KIND IN OUT`: options from the method's fields, files and pipes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from tests.cli.conftest import Cli, spawn
from tests.release.survey import files_of, put_survey, survey


@pytest.fixture
def file(tmp_path: Path) -> Path:
    put_survey(tmp_path)
    return tmp_path / "survey.csv"


def test_help_shows_what_the_method_does_and_its_fields(cli: Cli) -> None:
    done = cli("apply", "mdav", "--help")
    assert done.code == 0 and done.err == ""
    words = " ".join(done.out.split())
    assert "Replace each record's values by the mean of its group of at least k similar records." in words
    assert "--k NUMBER smallest group size [default: 3]" in words
    assert "--columns A,B,…" in words and "--integers / --no-integers round columns of whole numbers back" in words
    assert "Domingo-Ferrer" in words and ">>>" not in words


def test_the_list_of_methods(cli: Cli) -> None:
    out = cli("apply", "--help").out
    assert "mdav" in out and "rank-swap" in out and "k-anonymity" not in out and "il1s" not in out


def test_a_file_is_protected_as_in_python(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    done = cli("apply", "mdav", file, out, "--columns", "income, savings", "--k", 7, "--json", "--keep-order")
    assert done.code == 0 and done.json() == {
        "version": 1,
        "kind": "mdav",
        "rows": 240,
        "columns": survey().columns,
        "written": True,
    }
    assert "nothing was required of this file" in done.err
    expected = dc.Mdav(columns=["income", "savings"], k=7)(survey())
    assert pl.read_csv(out).equals(expected)


def test_mappings_lists_and_hierarchies(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    rule = 'age={"intervals": {"width": 10, "levels": 4}}'
    hierarchies = ["--hierarchy", rule, "--hierarchy", f"region={tmp_path / 'region.csv'}"]
    assert cli("apply", "generalize", file, out, "--levels", "age=2,region=1", *hierarchies).code == 0
    new = pl.read_csv(out)
    assert set(new["region"]) == {"land"} and set(new["age"]) <= {"[0, 19]", "[20, 39]", "[40, 59]", "[60, 79]"}
    options = ["--column", "age", "--cuts", "0,30,120", "--labels", "young,old", "--force"]
    assert cli("apply", "recode", file, out, *options).code == 0
    assert set(pl.read_csv(out)["age"]) == {"young", "old"}


def test_roles_by_option_and_by_plan(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    assert cli("apply", "drop-identifiers", file, out, "--identifier", "person_id,sex").code == 0
    assert pl.read_csv(out).columns == ["age", "region", "income", "savings"]
    assert cli("apply", "drop-identifiers", file, out, "--plan", tmp_path / "plan.yaml", "--force").code == 0
    assert pl.read_csv(out).columns == ["age", "sex", "region", "income", "savings"]
    done = cli("apply", "drop-identifiers", file, out, "--identifier", "persn_id", "--force")
    assert done.code == 2 and "did you mean 'person_id'" in done.err


def test_the_seed_file_decides_the_draws(file: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "seed").write_text("77")
    noise = ["additive-noise", file]
    options = ["--columns", "income", "--sd-share", "0.2", "--keep-order"]
    for name in ("a", "b"):
        assert cli("apply", *noise, tmp_path / f"{name}.csv", *options, "--seed-file", tmp_path / "seed").code == 0
    assert cli("apply", *noise, tmp_path / "c.csv", *options).code == 0
    texts = files_of(tmp_path)
    assert texts["a.csv"] == texts["b.csv"] != texts["c.csv"]
    assert pl.read_csv(tmp_path / "a.csv").equals(dc.AdditiveNoise(columns=["income"], sd_share=0.2)(survey(), seed=77))


def test_the_seed_file_refuses_another_strength(file: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("seed", "new", tmp_path / "seed").code == 0
    kept = (tmp_path / "seed").read_bytes()

    def noise(share: str, *more: str) -> int:
        options = ["--columns", "income", "--sd-share", share, "--seed-file", tmp_path / "seed", "--force", *more]
        return cli("apply", "additive-noise", file, tmp_path / "a.csv", *options).code

    assert noise("0.2", "--dry-run") == 0 and (tmp_path / "seed").read_bytes() == kept
    assert [noise("0.2"), noise("0.2"), noise("0.4")] == [0, 0, 2]


def test_pipes(tmp_path: Path) -> None:
    done = spawn("apply", "top-code", "-", "-", "--column", "age", "--at", "40", "-q", text=survey().write_csv())
    assert done.code == 0 and done.err == ""
    assert pl.read_csv(done.out.encode())["age"].max() == 40


def test_dry_run_existing_files_and_force(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    swap = ["apply", "rank-swap", file, out, "--columns", "income", "--percent", "5"]
    done = cli(*swap, "--dry-run", "--json")
    assert done.code == 0 and done.json()["written"] is False and not out.exists()
    out.write_text("precious")
    done = cli(*swap)
    assert done.code == 3 and "--force" in done.err and out.read_text() == "precious"
    assert cli(*swap, "--force").code == 0 and len(pl.read_csv(out)) == 240


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["mdaw"], 2, "did you mean 'mdav'"),
        (["k-anonymity"], 2, "unknown method 'k-anonymity'"),
        (["rank-swap", "--columns", "income"], 2, "--percent"),
        (["rank-swap", "--columns", "income", "--percent", "0"], 2, "greater than 0"),
        (["rank-swap", "--columns", "income", "--percent", "101"], 2, "less than or equal to 100"),
        (["rank-swap", "--columns", "income", "--percent", "many"], 2, "percent"),
        (["rank-swap", "--colums", "income", "--percent", "5"], 2, "--columns"),
        (["additive-noise", "--columns", "income"], 2, "exactly one of"),
        (["additive-noise", "--columns", "income", "--sd-share", "1", "--distribution", "cauchy"], 2, "laplace"),
        (["rank-swap", "--columns", "sex", "--percent", "5"], 3, "column 'sex' is text"),
        (["rank-swap", "--columns", "incom", "--percent", "5"], 3, "did you mean 'income'"),
        (["rank-swap", "--percent", "5"], 2, "give --columns"),
        (["mdav", "--columns", "income", "--k", "500"], 3, "k = 500 is larger than the 240 records"),
        (["generalize", "--levels", "age=1", "--hierarchy", "age"], 2, "expected COLUMN=FILE"),
        (["generalize", "--levels", "age=1", "--hierarchy", "age={x"], 2, "--hierarchy age: not valid YAML"),
        (["generalize", "--levels", "age=1"], 2, "column 'age' has no hierarchy"),
    ],
)
def test_faults(file: Path, tmp_path: Path, cli: Cli, arguments: list[str], code: int, words: str) -> None:
    before = files_of(tmp_path)
    done = cli("apply", arguments[0], file, tmp_path / "new.csv", *arguments[1:])
    assert done.code == code and words in done.err and done.out == ""
    assert files_of(tmp_path) == before


def test_missing_and_empty_input(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    for name in ("none.csv", "empty.csv", "header.csv"):
        done = cli("apply", "mdav", tmp_path / name, tmp_path / "new.csv", "--columns", "a", "--json")
        assert done.code == 3 and name in done.err and done.json()["error"]["kind"] == "DataError"
    assert not (tmp_path / "new.csv").exists()


def test_parts_inside_parts(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    inner = "top-code:{column: income, at: 20000}"
    done = cli("apply", "at-household-level", file, out, "--household", "person_id", "--method", inner)
    assert done.code == 0, done.err
    assert pl.read_csv(out)["income"].max() == 20000
    measure = "sample-uniqueness:{columns: [sex, region]}"
    done = cli("apply", "suppress-by-risk", file, out, "--at-most", "0.01", "--measure", measure, "--force",
               "--columns", "sex")  # fmt: skip
    assert done.code == 0, done.err
    expected = dc.SuppressByRisk(
        at_most=0.01, columns=["sex"], measure={"sample-uniqueness": {"columns": ["sex", "region"]}}
    )
    assert pl.read_csv(out)["sex"].null_count() == expected(survey())["sex"].null_count()
    help_text = " ".join(cli("apply", "mondrian", "--help").out.split())
    assert "--models KIND[:FIELDS]" in help_text and "may be given several times" in help_text


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("exists.csv", 3, "exists; overwrite it with --force"),
        ("none/new.csv", 3, "there is no folder"),
        (".", 3, "is a folder"),
        ("new.xyz", 2, "the extension .xyz is not known"),
        ("new.sas7bdat", 2, "name it .xpt"),
        ("new.duckdb", 2, "name the table to write"),
    ],
)
def test_the_output_is_looked_at_before_the_work(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, target: str, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exists.csv").write_text("precious")
    for command in (
        ["apply", "mdav", "no-such-input.csv", target, "--columns", "a"],
        ["anonymize", "no-such-input.csv", target, "--quasi", "a", "--k", "2"],
    ):
        done = cli(*command)
        if target == ".":
            assert done.code in (2, 3) and "no-such-input" not in done.err
        else:
            assert done.code == code and words in done.err and "no-such-input" not in done.err
        assert "format=" not in done.err and "--format" not in done.err
    assert Path("exists.csv").read_text() == "precious"


def test_data_and_json_cannot_both_go_to_standard_output(file: Path, cli: Cli) -> None:
    for command in (
        ["apply", "mdav", file, "-", "--columns", "income"],
        ["anonymize", file, "-", "--quasi", "sex", "--k", 2],
    ):
        done = cli(*command, "--json")
        assert done.code == 2 and "both go to standard output" in done.json()["error"]["message"]
    done = cli("apply", "mdav", file, "-", "--columns", "income", "--json", "--dry-run")
    assert done.code == 0 and done.json()["written"] is False


def test_structured_fields_are_written_as_in_a_plan(file: Path, tmp_path: Path, cli: Cli) -> None:
    expected = dc.LocalSuppression(columns=["age", "sex"], k=2, subsets=[{"columns": ["age"], "k": 4}])(survey())
    for number, text in enumerate(("[{columns: [age], k: 4}]", '[{"columns": ["age"], "k": 4}]')):
        out = tmp_path / f"{number}.csv"
        done = cli("apply", "local-suppression", file, out, "--columns", "age,sex", "--k", 2, "--subsets", text)
        assert done.code == 0, done.err
        assert pl.read_csv(out)["age"].null_count() == expected["age"].null_count() > 0
    matrix = "{sex: {f: {f: 1, m: 0}, m: {f: 1, m: 0}}}"
    done = cli("apply", "pram", file, tmp_path / "p.csv", "--columns", "sex", "--matrix", matrix)
    assert done.code == 0 and set(pl.read_csv(tmp_path / "p.csv")["sex"]) == {"f"}, done.err
    for kind, *options in (
        ("local-suppression", "--subsets"), ("pram", "--matrix"), ("group-categories", "--column", "sex", "--groups"),
    ):  # fmt: skip
        done = cli("apply", kind, file, tmp_path / "q.csv", *options, "{a: [b}")
        assert done.code == 2 and f"{options[-1]}: not valid YAML or JSON" in done.err


def test_the_help_shows_how_structured_fields_are_written(cli: Cli) -> None:
    words = " ".join(cli("apply", "local-suppression", "--help").out.split())
    assert "--subsets YAML" in words and "--linked YAML" in words and "--importance COLUMN=VALUE,…" in words
    assert "--columns A,B,…" in words and "--k NUMBER" in words
    assert "--cuts A,B,…" in " ".join(cli("apply", "recode", "--help").out.split())
    text = cli("apply", "pram", "--help").out
    assert "\n  References:\n" in text and "-----" not in text


def test_missing_codes_and_types(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,007\nNA,010\n-9,012\n12,003\n")
    out = tmp_path / "out.csv"
    rounding = ["apply", "round", tmp_path / "in.csv", out, "--keep-order", "--base", "10", "--columns"]
    done = cli(*rounding, "a")
    assert done.code == 3 and "1 of its 4 values is no number" in done.err and "NA" not in done.err
    assert cli(*rounding, "a", "--missing-codes", "a=NA|-9").code == 0
    assert pl.read_csv(out)["a"].to_list() == [0, None, None, 10]
    done = cli(*rounding, "b", "--force")
    assert done.code == 3 and "--type COLUMN=continuous" in done.err
    assert cli(*rounding, "a,b", "--force", "--missing-codes", "{a: [NA]}", "--type", "b=continuous").code == 0
    assert pl.read_csv(out)["b"].to_list() == [10, 10, 10, 0]
    done = cli(*rounding, "a", "--force", "--type", "a=numeric")
    assert done.code == 2 and "--type a: unknown type 'numeric'" in done.err
    done = cli(*rounding, "a", "--force", "--missing-codes", "NA")
    assert done.code == 2 and "--missing-codes 'NA': expected COLUMN=CODE" in done.err


def test_options_add_to_what_the_plan_says_of_a_column(file: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new.csv"
    plan = ["--plan", tmp_path / "plan.yaml", "--type", "person_id=nominal"]
    assert cli("apply", "drop-identifiers", file, out, *plan).code == 0
    assert "person_id" not in pl.read_csv(out).columns


def test_columns_that_tell_who_somebody_is_are_named(tmp_path: Path, cli: Cli) -> None:
    people = dc.datasets.census(300, seed=1).frame.select("person_id", "household", "age", "income")
    people.write_csv(tmp_path / "in.csv")
    call = ("apply", "additive-noise", tmp_path / "in.csv", tmp_path / "out.csv", "--columns", "income", "--force")
    words = "person_id (identifier), household (household)"
    assert words in " ".join(cli(*call, "--sd-share", 0.2).err.split())
    told = cli(*call, "--sd-share", 0.2, "--identifier", "person_id", "--household", "household")
    assert "look as if they told" not in told.err


@pytest.mark.parametrize("keep", [(), ("--keep-order",)])
def test_numbers_of_people_are_not_written(tmp_path: Path, cli: Cli, keep: tuple[str, ...]) -> None:
    frame = pl.DataFrame({"patient_no": [70001, 70001, 70014, 70014], "cost": [1.0, 2.0, 3.0, 4.0]})
    frame.write_csv(tmp_path / "in.csv")
    call = ("apply", "additive-noise", tmp_path / "in.csv", tmp_path / "out.csv", "--columns", "cost")
    done = cli(*call, "--sd-share", 0.2, "--unit", "patient_no", *keep)
    assert done.code == 0 and "numbers of people in patient_no were given anew" in " ".join(done.err.split())
    assert sorted(pl.read_csv(tmp_path / "out.csv")["patient_no"]) == [1, 1, 2, 2]
