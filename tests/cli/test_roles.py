"""`discretion roles IN`: proposals with reasons, and a plan that does not run before it was confirmed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.data.write import write
from tests.cli.conftest import Cli
from tests.release.survey import survey


def test_roles_are_proposed_with_reasons(tmp_path: Path, cli: Cli) -> None:
    survey().write_csv(tmp_path / "survey.csv")
    done = cli("roles", tmp_path / "survey.csv", "--json")
    proposals = {item["column"]: item for item in done.json()["roles"]}
    assert list(proposals) == survey().columns
    assert proposals["person_id"]["role"] == "identifier" and proposals["age"]["role"] == "quasi"
    assert proposals["income"]["role"] == "sensitive" and proposals["income"]["distinct"] == 240
    assert all(item["reason"] for item in proposals.values())
    assert "P-0" not in done.out + done.err  # no reason quotes a cell
    table = cli("roles", tmp_path / "survey.csv").out
    assert "person_id" in table and "identifier" in table and "240 rows" in table


@pytest.mark.parametrize("folder", ["", "plans", "plans/deep"])
def test_the_plan_runs_only_after_it_was_confirmed(
    tmp_path: Path, cli: Cli, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / folder).mkdir(exist_ok=True, parents=True)
    survey().rename({"sex": "no", "region": "a: b #c"}).write_csv(tmp_path / "raw" / "survey.csv", separator=";")
    monkeypatch.chdir(tmp_path)
    plan = Path(folder) / "plan.yaml"
    assert cli("roles", "raw/survey.csv", "--out", plan, "--delimiter", ";").code == 0
    done = cli("run", plan)
    assert done.code == 2 and "confirmed: true" in done.err and not (plan.parent / "release").exists()
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    done = cli("run", plan)
    assert done.code == 0, done.err
    header = (plan.parent / "release" / "data.csv").read_text().partition("\n")[0]
    assert header == "age;no;a: b #c;income;savings"
    assert "k-anonymity: reached" in done.out and "FAILS" not in done.out


def test_a_labelled_file_runs_after_confirmation(tmp_path: Path, cli: Cli) -> None:
    number, woman = pl.int_range(pl.len()).cast(pl.Float64), (pl.col("sex") == "f").cast(pl.Float64)
    frame = survey().select("age", "income", respondent=number, gender=woman + 1)
    schema = dc.Dataset(frame).schema.with_column("gender", value_labels={1.0: "man", 2.0: "woman"})
    write(dc.Dataset(frame, schema=schema), tmp_path / "survey.sav")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.sav", "--out", plan).code == 0
    text = plan.read_text()
    assert "respondent: identifier" in text and "gender: nominal" in text and "drop-identifiers" in text
    plan.write_text(text.replace("confirmed: false", "confirmed: true"))
    assert cli("run", plan).code == 0
    left = text.replace("confirmed: false", "confirmed: true").replace("  respondent: identifier", "  # respondent")
    plan.write_text(left.replace("  - drop-identifiers\n", "").replace("output: release", "output: other"))
    done = cli("run", plan)
    assert done.code == 2 and "'respondent' has no role and looks like an identifier" in done.err


def test_a_file_with_nothing_to_protect_by_gets_a_plan_that_says_so(tmp_path: Path, cli: Cli) -> None:
    survey().select("income").write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan).code == 0
    assert "\nsteps: none\n" in plan.read_text() and "\nrequirements: none\n" in plan.read_text()
    assert cli("run", plan).code == 2
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    done = cli("run", plan)
    assert done.code == 0 and "published without steps and requirements in" in " ".join(done.err.split())


def test_a_file_without_identifiers_gets_no_step_that_needs_them(tmp_path: Path, cli: Cli) -> None:
    survey().select("age", "sex", "income").write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan).code == 0
    assert "drop-identifiers" not in plan.read_text()
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    assert cli("run", plan).code == 0


def test_an_existing_plan_is_kept_unless_forced(tmp_path: Path, cli: Cli) -> None:
    survey().write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    plan.write_text("mine")
    done = cli("roles", tmp_path / "survey.csv", "--out", plan)
    assert done.code == 3 and "--force" in done.err and plan.read_text() == "mine"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan, "--force").code == 0
    assert "confirmed: false" in plan.read_text()
