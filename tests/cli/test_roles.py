"""`discretion roles IN`: proposals with reasons, and a plan that does not run before it was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert header == "age,no,a: b #c,income,savings"


def test_an_existing_plan_is_kept_unless_forced(tmp_path: Path, cli: Cli) -> None:
    survey().write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    plan.write_text("mine")
    done = cli("roles", tmp_path / "survey.csv", "--out", plan)
    assert done.code == 3 and "--force" in done.err and plan.read_text() == "mine"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan, "--force").code == 0
    assert "confirmed: false" in plan.read_text()
