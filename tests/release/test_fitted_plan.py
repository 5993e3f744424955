"""Plans that carry what their steps decided: written, read, used on the next delivery, and kept from the public."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.data.documents import to_toml
from discretion.method import Decision
from tests.cli.conftest import Cli, cli  # noqa: F401 - a fixture
from tests.release.survey import ROLES, put_survey, survey
from tests.release.test_confidential import holders, public_texts

STEPS = (
    dc.TopCode(column="income", quantile=0.8, by=["sex"]),
    dc.RankSwap(columns=["savings"], percent=9),
    dc.Pram(columns=["region"], keep_share=0.7, invariant=True),
    dc.Recode(column="age", quantiles=4),
    dc.AdditiveNoise(columns=["savings"], sd_share=0.1),
    dc.GroupCategories(column="region", smaller_than=80),
)


def fitted(seed: int = 1) -> dc.Study:
    study = dc.Study(dc.Dataset(survey(seed=seed), roles=ROLES), seed=7)
    for step in STEPS:
        study = study.apply(step)
    return study


@pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
def test_decisions_survive_the_file_and_are_used_on_the_next_delivery(tmp_path: Path, suffix: str) -> None:
    first = fitted()
    plan = first.plan(fitted=True)
    path = tmp_path / f"plan.{suffix}"
    plan.save(path)
    loaded = dc.Plan.load(path)
    assert loaded.steps == plan.steps
    assert {step.id: step.decision for step in loaded.steps if step.decision} == first.decisions
    release = loaded.run(survey(seed=5), seed=8)
    assert [done.reused for done in release.study.done] == [True, False, True, True, True, True]
    assert release.study.decisions == first.decisions
    direct = plan.run(survey(seed=5), seed=8, reuse=first.decisions)
    assert release.data.frame.equals(direct.data.frame)
    anew = first.plan().run(survey(seed=5), seed=8)
    assert anew.study.decisions != first.decisions and not anew.data.frame.equals(release.data.frame)


def test_bounds_of_the_first_delivery_hold_in_the_second() -> None:
    first = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=7).apply(dc.TopCode(column="income", quantile=0.5))
    bound = first.decisions["1-top-code"]["bound"]
    second = first.plan(fitted=True).run(survey(seed=5), seed=1)
    assert second.data.frame["income"].max() == bound != survey(seed=5)["income"].median()


def test_a_plan_without_decisions_decides_anew() -> None:
    plan = fitted().plan(fitted=True)
    assert plan.has_decisions and not fitted().plan().has_decisions
    repeated = plan.run(survey(seed=5), seed=8).study
    assert all(step.decision is None for step in repeated.plan().steps)
    assert [step.decision for step in repeated.plan(fitted=True).steps] == [step.decision for step in plan.steps]
    assert plan.steps[1].decision is None  # swapping works on rows together


def test_given_decisions_come_before_those_of_the_plan() -> None:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=7).apply(dc.TopCode(column="income", quantile=0.5))
    other = Decision({"bound": 12_345.0, "value": 12_345.0})
    released = study.plan(fitted=True).run(survey(), seed=1, reuse={"1-top-code": other})
    assert released.data.frame["income"].max() == 12_345.0


def test_decisions_stand_inside_their_step(tmp_path: Path) -> None:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=7).apply(dc.Recode(column="age", cuts=[0, 40, 120]))
    plan = study.plan(fitted=True)
    assert plan.to_dict()["steps"] == [
        {"recode": {"column": "age", "cuts": [0.0, 40.0, 120.0], "decision": study.decisions["1-recode"].to_plan()}}
    ]
    plan.save(tmp_path / "plan.yaml")
    text = (tmp_path / "plan.yaml").read_text()
    assert "    decision:\n      cuts: [0.0, 40.0, 120.0]\n" in text
    plan.save(tmp_path / "plan.toml")
    assert 'decision = "{\\"cuts\\": [0.0, 40.0, 120.0]' in (tmp_path / "plan.toml").read_text()


# --- bad input ---------------------------------------------------------------------------------------------------


def plan_with(decision: object, kind: str = "top-code", **fields: object) -> dict[str, object]:
    chosen = fields or {"column": "income", "quantile": 0.9}
    return {"roles": ROLES, "steps": [{kind: {**chosen, "decision": decision}}]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (plan_with([1, 2]), r"\(steps\.1\.top-code\.decision\): expected a mapping"),
        (plan_with("{1"), "not valid JSON"),
        (plan_with("[1]"), "expected a mapping"),
        (plan_with({}, "rank-swap", columns=["income"], percent=5), "rank-swap works on rows together"),
        (plan_with({}, "at-household-level", method={"mdav": {"columns": ["income"]}}), "works on rows together"),
    ],
)
def test_wrong_decisions_are_faults_of_the_plan(content: dict[str, object], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.Plan.from_dict(content)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"cuts": [1, 2]}, "no entry 'bound'; it belongs to another step"),
        ({"bound": {"a": 1}, "value": "x"}, "step 1-top-code: the saved decision does not fit this method"),
    ],
)
def test_decisions_that_do_not_fit_are_refused_when_the_step_runs(decision: object, words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.Plan.from_dict(plan_with(decision)).run(survey(), seed=1)


def test_toml_says_what_it_cannot_write() -> None:
    assert to_toml({"a": 'x\x7fé"', "b": {"odd key": [1, 2.5, True]}}) == (
        'a = "x\\u007fé\\""\n\n[b]\n"odd key" = [1, 2.5, true]\n'
    )
    with pytest.raises(dc.PlanError, match=r"write this plan as \.yaml or \.json"):
        to_toml({"a": [None]})


# --- private -----------------------------------------------------------------------------------------------------

SECRET = "731.07319"
SECRET_PLAN = f"""\
data: survey.csv
roles:
{"".join(f"  {name}: {role}" + chr(10) for name, role in ROLES.items())}
steps:
  - additive-noise:
      columns: [income]
      sd_share: 0.1
      decision: {{columns: [income], decimals: {{}}, sd: [{SECRET}]}}
  - local-suppression: {{columns: [sex, region], k: 37}}
requirements: none
output: {{folder: out, journal: secret}}
"""


def test_decisions_are_not_public(tmp_path: Path) -> None:
    release = dc.Plan.load(put_survey(tmp_path, SECRET_PLAN)).run(seed=1)
    texts = public_texts(tmp_path / "out")
    assert holders(texts, SECRET) == [] == holders(texts, "731.073") and SECRET not in json.dumps(release.facts())
    assert all("decision" not in step for step in release.facts()["steps"])
    for shown in (repr(release), repr(release.plan), repr(release.study), str(release.plan.steps[0])):
        assert SECRET not in shown
    private = public_texts(tmp_path / "secret")
    assert {"plan.yaml", "decisions.json"} <= set(holders(private, SECRET))


def test_only_the_owner_may_read_a_plan_with_decisions(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("title: old\n")
    path.chmod(0o644)
    fitted().plan().save(path)
    assert path.stat().st_mode & 0o777 == 0o644
    fitted().plan(fitted=True).save(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_journal_keeps_what_steps_on_rows_counted_and_reached(tmp_path: Path) -> None:
    release = dc.Plan.load(put_survey(tmp_path, SECRET_PLAN)).run(seed=1)
    noise, suppression = json.loads((tmp_path / "secret" / "journal.json").read_text())["steps"]
    assert noise["reused"] is True and "facts" not in noise
    decision = release.study.done[1].decision
    assert suppression["reused"] is False
    assert suppression["facts"]["cells"] == decision["cells"] and "rows" not in suppression["facts"]
    (reached,) = suppression["facts"]["reached"]
    assert reached["model"] == "k-anonymity" and reached["value"] >= 37
    assert holders(public_texts(tmp_path / "out"), '"reached"') == []


def test_facts_of_groups_and_households_leave_out_their_rows() -> None:
    data = dc.datasets.census(600, seed=1)
    study = dc.Study(data, seed=3)
    by_sex = dc.LocalSuppression(columns=["region", "marital_status"], k=3, by=["sex"])
    done = study.apply(by_sex).done[-1]
    facts = by_sex.facts(done.decision)
    assert set(facts["groups"]) == {"sex=female", "sex=male"}
    assert all(set(group) == {"cells", "missing", "reached"} for group in facts["groups"].values())
    homes = dc.AtHouseholdLevel(method=dc.SuppressRecords(columns=["region", "municipality"], k=2, limit=1))
    facts = homes.facts(study.apply(homes).done[-1].decision)
    assert set(facts["households"]) == {"share", "reached"}


# --- the command line --------------------------------------------------------------------------------------------


def test_run_says_that_decisions_were_used_again(tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    put_survey(tmp_path)
    plan = fitted().plan(fitted=True, no_requirements=True)
    plan.save(tmp_path / "plan.yaml")
    survey(seed=5).write_csv(tmp_path / "next.csv")
    done = cli("run", tmp_path / "plan.yaml", "--data", tmp_path / "next.csv", "--out", tmp_path / "out")
    assert done.code == 0 and "5 of 6 steps used what they decided on an earlier delivery" in done.err
    released = pl.read_csv(tmp_path / "out" / "data.csv", infer_schema=False)
    ages = plan.steps[3].decision
    assert ages is not None and set(released["age"]) == set(ages["labels"])
