"""`discretion run`: publishes whole, exits with the right code, and keeps stdout for results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, spawn
from tests.release.survey import PLAN, files_of, line_of, put_survey, survey


def names(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir())


BEFORE = ["plan.yaml", "region.csv", "survey.csv"]


def test_run_publishes_and_shows_tables(tmp_path: Path, cli: Cli) -> None:
    done = cli("run", put_survey(tmp_path))
    assert done.code == 0
    assert names(tmp_path) == sorted([*BEFORE, "out", "secret"])
    assert "Risk and utility" in done.out and "sample-uniqueness" in done.out and "holds" in done.out
    assert "published in" in done.err and "read as" in done.err


def test_json_is_all_of_stdout(tmp_path: Path, cli: Cli) -> None:
    done = cli("run", put_survey(tmp_path), "--json")
    content = done.json()
    assert content["version"] == 1 and content["records"] == 240
    assert content["folder"] == str(tmp_path / "out") and content["journal"] == str(tmp_path / "secret")
    measured = {score["measure"] for score in content["scores"]}
    assert measured == {"sample-uniqueness", "il1s", "distance-linkage"}  # the last whether it is named or not
    assert all(found["holds"] for found in content["requirements"])
    assert "published" in done.err


def test_quiet_says_nothing_but_the_result(tmp_path: Path, cli: Cli) -> None:
    done = cli("run", put_survey(tmp_path), "--json", "--quiet")
    assert done.err == "" and done.json()["records"] == 240


@pytest.mark.parametrize("as_json", [False, True])
def test_unmet_requirements_exit_4_and_publish_nothing(tmp_path: Path, cli: Cli, as_json: bool) -> None:
    path = put_survey(tmp_path, PLAN.replace("k: 3", "k: 239"))
    done = cli("run", path, *(["--json"] if as_json else []))
    assert done.code == 4 and names(tmp_path) == BEFORE
    assert "k-anonymity: reached" in done.err and "required 239 (short by" in done.err
    if as_json:
        error = done.json()["error"]
        assert error["kind"] == "RequirementNotMet" and error["exit_code"] == 4 and "k-anonymity" in error["message"]
    else:
        assert "FAILS" in done.out  # the figures, to see what to strengthen


def test_a_wrong_plan_exits_2_with_every_fault(tmp_path: Path, cli: Cli) -> None:
    plan = PLAN.replace("rank-swap", "rank-swop").replace("sensitive", "sensible")
    done = cli("run", put_survey(tmp_path, plan), "--json")
    assert done.code == 2 and names(tmp_path) == BEFORE
    assert done.err.count("plan.yaml, line") == 3 and "did you mean 'rank-swap'" in done.err
    assert done.json()["error"]["kind"] == "PlanError"


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("data: survey.csv", "data: none.csv", 3, "none.csv"),
        ("columns: savings", "columns: sex", 3, "column 'sex' is text"),
        ("  income: sens", "  incme: sens", 2, "did you mean 'income'"),
        ("output: {folder: out, journal: secret}", "", 2, "names no `output`"),
        ("output: {folder: out, journal: secret}", "output: {folder: out, journal: out/secret}", 2, "each other"),
        ("title: A small survey", "confirmed: false", 2, "confirmed: true"),
    ],
)
def test_other_faults(tmp_path: Path, cli: Cli, old: str, new: str, code: int, words: str) -> None:
    done = cli("run", put_survey(tmp_path, PLAN.replace(old, new)))
    assert done.code == code and words in done.err and done.out == "" and names(tmp_path) == BEFORE


def test_a_large_file_need_not_be_in_memory(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_survey(tmp_path)
    assert "--engine duckdb" not in cli("check", path).err
    monkeypatch.setattr("discretion.release.run._LARGE", 10)
    assert "--engine duckdb" in cli("check", path).err


def test_existing_output_is_refused_before_any_work_and_forced(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    assert cli("run", path).code == 0
    before = files_of(tmp_path)
    again = cli("run", path)
    assert again.code == 3 and "exists" in again.err and "--force" in again.err
    assert "read as" not in again.err  # nothing was read yet
    assert files_of(tmp_path) == before
    assert cli("run", path, "--force").code == 0
    assert files_of(tmp_path) != before and set(files_of(tmp_path)) == set(before)


def test_dry_run_writes_nothing(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    done = cli("run", path, "--dry-run", "--json")
    assert done.code == 0 and done.json()["plan"] == "valid" and names(tmp_path) == BEFORE
    path.write_text(PLAN + "confirmed: false\n")
    assert cli("run", path, "--dry-run").code == 2
    path.write_text(PLAN)
    (tmp_path / "region.csv").write_text("coast;land\n")
    assert cli("run", path, "--dry-run").code == 3


def test_folders_and_seed_by_option(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "seed").write_text(f"{2**100}\n")
    for number in "12":
        options = ["--out", tmp_path / f"o{number}", "--journal", tmp_path / f"j{number}"]
        assert cli("run", path, "--seed-file", tmp_path / "seed", *options).code == 0
    assert files_of(tmp_path / "o1") == files_of(tmp_path / "o2")
    assert int((tmp_path / "j1" / "seed").read_text().split()[0], 16) == 2**100
    assert cli("run", path, "--out", tmp_path / "o3", "--journal", tmp_path / "j3").code == 0
    assert files_of(tmp_path / "o3")["data.csv"] != files_of(tmp_path / "o1")["data.csv"]


def test_a_seed_file_is_made_used_and_asked_before_it_is_used_otherwise(tmp_path: Path, cli: Cli) -> None:
    path, seed = put_survey(tmp_path), tmp_path / "my.seed"
    made = cli("seed", "new", seed)
    assert made.code == 0 and "keep it secret" in made.err and seed.stat().st_mode & 0o777 == 0o600
    assert cli("seed", "new", seed).code == 3
    kept = seed.read_bytes()
    options = ["--seed-file", seed, "--out", tmp_path / "o"]
    assert cli("run", path, *options, "--dry-run").code == 0
    assert cli("check", path, "--seed-file", seed).code == 0
    assert seed.read_bytes() == kept
    assert cli("run", path, *options).code == 0
    assert seed.read_bytes().startswith(kept.strip()) and len(seed.read_text().splitlines()) == 2
    used = seed.read_bytes()
    path.write_text(PLAN.replace("sd_share: 0.1", "sd_share: 0.2"))
    for done in (cli("run", path, *options, "--force"), cli("check", path, "--seed-file", seed)):
        assert done.code == 2 and "can be averaged" in done.err and "different here: 3-additive-noise" in done.err
    assert seed.read_bytes() == used


def test_a_small_seed_is_refused_unless_the_plan_is_a_demonstration(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "seed").write_text("7")
    done = cli("run", path, "--seed-file", tmp_path / "seed")
    assert done.code == 2 and "small seed" in done.err and not (tmp_path / "out").exists()
    path.write_text(PLAN + "demo: true\n")
    done = cli("run", path, "--seed-file", tmp_path / "seed")
    assert done.code == 0 and "come from a small seed" in done.err


def test_the_seed_does_not_lie_in_the_public_folder(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "pub").mkdir()
    (tmp_path / "pub" / "seed").write_text("1")
    done = cli("run", path, "--seed-file", tmp_path / "pub" / "seed", "--out", tmp_path / "pub", "--force")
    assert done.code == 2 and "secret" in done.err and names(tmp_path / "pub") == ["seed"]


def test_another_delivery_with_the_decisions_of_the_first(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path, PLAN.replace("at_most: 1.0", "at_most: 1"))
    assert cli("run", path).code == 0
    survey(seed=4).with_columns(savings=survey(seed=4)["savings"] * 100).write_csv(tmp_path / "next.csv")
    options = ["--data", tmp_path / "next.csv", "--reuse", tmp_path / "secret", "--out", tmp_path / "o2"]
    assert cli("run", path, *options, "--journal", tmp_path / "j2").code == 0
    first, second = (json.loads((tmp_path / j / "decisions.json").read_text()) for j in ("secret", "j2"))
    assert first == second and first["3-additive-noise"]["sd"]
    journal = json.loads((tmp_path / "j2" / "journal.json").read_text())
    assert journal["input"]["file"] == str(tmp_path / "next.csv")
    done = cli("run", path, "--reuse", tmp_path / "nowhere", "--out", tmp_path / "o3", "--journal", tmp_path / "j3")
    assert done.code == 2 and "no saved decisions" in done.err


def test_data_from_standard_input(tmp_path: Path) -> None:
    path = put_survey(tmp_path)
    done = spawn("run", path, "--data", "-", "--json", "-q", text=survey(300, seed=3).write_csv())
    assert done.code == 0 and done.json()["records"] == 300 and done.err == ""


def test_a_plan_from_standard_input(tmp_path: Path) -> None:
    plan = put_survey(tmp_path)
    done = spawn("run", "-", "--quiet", folder=tmp_path, text=plan.read_text())
    assert done.code == 0 and (tmp_path / "out" / "data.csv").is_file()
    wrong = spawn("run", "-", folder=tmp_path, text="data: [")
    assert wrong.code == 2 and "standard input, line 1" in wrong.err


@pytest.mark.parametrize("command", [("run", "--dry-run"), ("run",), ("check",)])
def test_unknown_columns_exit_2_with_every_place_before_any_work(
    tmp_path: Path, cli: Cli, command: tuple[str, ...]
) -> None:
    plan = PLAN.replace("columns: [income], percent", "columns: [incom], percent").replace(
        "columns: savings", "columns: svings"
    )
    plan = plan.replace("il1s: {columns: [income, savings]}", "il1s: {columns: [inc]}").replace(
        "k: 3}", "k: 3, columns: [sexe]}"
    )
    done = cli(command[0], put_survey(tmp_path, plan), *command[1:])
    assert done.code == 2 and done.out == "" and names(tmp_path) == BEFORE
    assert "plan is valid" not in done.err and done.err.count("plan.yaml, line ") == 4
    line = line_of(plan, "- rank-swap")
    assert f"line {line} (steps.2.rank-swap.columns.1): unknown column 'incom'; did you mean 'income'?" in done.err
