"""Words of the law: each question by its attack, what is public of it, the annex and the kit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.errors import DataError, PlanError
from discretion.measure import Score
from discretion.part import index
from discretion.release.criteria import Annex, criteria_of, residual_risk
from tests.release.survey import PLAN, put_survey

ADVICE = "title: A small survey\nadvice: {by: 'B. Officer, DPO', on: 2026-11-18, text: Only for researchers.}\n"


def score(measure: str, value: float, chance: float) -> Score:
    return Score(measure, value, "lower", "risk", "", {"chance": chance})


def test_every_attack_belongs_to_one_question() -> None:
    from discretion.release.criteria import _CRITERIA

    known = [kind for _, _, kinds in _CRITERIA for kind in kinds]
    attacks = {entry.kind for entry in index().values() if entry.family == "risk"}
    assert len(known) == len(set(known)) and set(known) <= attacks
    assert attacks - set(known) <= {"quasi-identifiers", "granularity"}  # no success of an attacker


def test_the_attack_that_gains_most_answers() -> None:
    single, link, infer = criteria_of(
        [
            score("distance-linkage", 0.3, 0.01),
            score("probabilistic-linkage", 0.5, 0.4),
            score("group-attack", 0.4, 0.4),
        ]
    )
    assert single.attack is None and single.finding.startswith("not measured")
    assert link.attack is not None and link.attack.measure == "distance-linkage" and "30 of 100" in link.finding
    assert "marketer" in link.attacker and infer.attack is not None and infer.attack.gain == 0
    text = residual_risk((single, link, infer))
    assert "Distance linkage" in text and "the controller decides" in text and "singling out" in text
    assert "better than guessing" in residual_risk((single, infer))


def made(folder: Path) -> dc.Release:
    plan = PLAN.replace("title: A small survey\n", ADVICE).replace("percent: 10", "percent: 7.31")
    plan = plan.replace("[income, savings], at_most: 1.0", "[age, sex, region, income, savings], at_most: 1")
    put_survey(folder, plan)
    return dc.Plan.load(folder / "plan.yaml").run(seed=5 * 10**20)


def test_the_public_learns_only_what_is_public(tmp_path: Path) -> None:
    made(tmp_path)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = {one["criterion"]: one for one in report["criteria"]}
    assert found["singling out"]["attack"] == "sample-uniqueness"
    assert found["linkability"]["value"] is None and "confidential" in found["linkability"]["finding"]
    assert "whose figure is shown here" in report["residual_risk"]
    public = (tmp_path / "out" / "report.html").read_text()
    assert "In the words of the law" in public and "Officer" not in public and "researchers" not in json.dumps(report)
    assert "B. Officer" in (tmp_path / "secret" / "report.html").read_text()


def test_annex_and_kit_come_from_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = made(tmp_path)
    annex = Annex.open(tmp_path / "out", tmp_path / "secret")
    link = annex.criteria[1].attack
    judged = next(one for one in release.findings if one.kind == "distance-linkage")
    assert link is not None and link.success == pytest.approx(judged.value)
    files = {path.name: path.read_text() for path in annex.write(tmp_path / "annex")}
    assert set(files) == {
        "annex.md", "annex.html", "intruder-test.md", "intruder-test.html", "intruder-form.csv",
        "intruder-evaluation.csv",
    }  # fmt: skip
    assert "Only for researchers." in files["annex.md"] and "Residual risk" in files["annex.html"]
    assert "age, sex and region" in files["intruder-test.md"] and "income and savings" in files["intruder-test.md"]
    assert (tmp_path / "annex").stat().st_mode & 0o777 == 0o700
    assert run(["annex", str(tmp_path / "secret"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["residual_risk"] == annex.residual
    assert run(["annex", str(tmp_path / "secret"), "--out", str(tmp_path / "annex")]) == 3
    assert run(["annex", str(tmp_path / "nothing")]) == 3
    with pytest.raises(DataError, match="no journal"):
        Annex.open(tmp_path)


def test_annex_and_kit_are_about_what_is_published_and_name_earlier_releases(tmp_path: Path) -> None:
    dc.datasets.census(300, seed=1).to_native().select("person_id", "age", "sex", "income").write_csv(
        tmp_path / "p.csv"
    )
    roles = {"person_id": "identifier", "age": "quasi", "sex": "quasi", "income": "sensitive"}
    steps = [{"drop-identifiers": {"columns": ["age", "person_id"]}}]
    content = {"data": str(tmp_path / "p.csv"), "roles": roles, "steps": steps, "measures": ["sample-uniqueness"]}
    content |= {"requirements": [{"k-anonymity": {"k": 3}}]}
    dc.Plan.from_dict(content).run(out=tmp_path / "a", journal=tmp_path / "a-private", seed=2**70)
    again = dc.Plan.from_dict({**content, "previous": [str(tmp_path / "a-private")]})
    again.run(out=tmp_path / "b", journal=tmp_path / "b-private", seed=2**70)
    files = {path.name: path.read_text() for path in Annex.open(tmp_path / "b").write(tmp_path / "annex")}
    assert "rare by sex and look" in files["intruder-test.md"] and not re.search(
        r"\bage\b", files["annex.md"].split("## Means")[0]
    )
    assert (
        "Earlier releases of the same people" in files["annex.md"] and "beside a (by its journal)" in files["annex.md"]
    )
    assert "only with the releases that the plan names" in files["annex.md"]


def test_advice_needs_name_day_and_text(tmp_path: Path) -> None:
    put_survey(tmp_path, "advice: {by: somebody}\n" + PLAN)
    with pytest.raises(PlanError, match=r"plan\.yaml, line 1.*name and function"):
        dc.Plan.load(tmp_path / "plan.yaml")
