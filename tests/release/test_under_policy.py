"""Plans under a policy: what it demands is required, what is weaker needs a waiver, all of it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import PlanError, RequirementNotMet
from discretion.release.plan import Plan
from discretion.release.table_plan import TablePlan
from discretion.release.under_policy import unkept

HEAD = "Ada Stone, head of disclosure control"
ROLES = {"age": "quasi", "sex": "quasi", "town": ["quasi", "geography"], "illness": "sensitive", "weight": "weight"}
STEPS = [{"shuffle": {"columns": ["age"]}}]


def people(rows: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "age": rng.choice([20, 40, 60], rows),
            "sex": rng.choice(["f", "m"], rows),
            "town": rng.choice(["A", "B"], rows),
            "illness": rng.choice(["flu", "none", "measles"], rows),
            "weight": rng.uniform(300, 400, rows),
        }
    )


def plan(**more: Any) -> Plan:
    return Plan.from_dict({"roles": ROLES, "steps": STEPS, "policy": "scientific-use", **more})


def waiver(requirement: str, **more: Any) -> dict[str, Any]:
    return {"requirement": requirement, "by": HEAD, "why": "two islands of 731 people", **more}


def test_a_plan_takes_its_requirements_from_the_policy() -> None:
    found = plan()
    assert [one.part.kind for one in found.requirements] == [
        "k-anonymity", "distance-linkage", "detail-limits", "detail-limits",
    ]  # fmt: skip
    assert all(one.by_policy == "scientific-use" for one in found.requirements)
    assert "requirements" not in found.to_dict() and found.to_dict()["policy"] == "scientific-use"
    assert Plan.from_dict(found.to_dict()).requirements == found.requirements


def test_stricter_requirements_of_the_plan_take_the_place_of_the_policys() -> None:
    found = plan(requirements=[{"k-anonymity": {"k": 8}}, {"detail-limits": {"max_columns": 9}}])
    assert [one.to_plan() for one in found.requirements if not one.by_policy] == [
        {"k-anonymity": {"k": 8}}, {"detail-limits": {"max_columns": 9}},
    ]  # fmt: skip
    assert sum(one.part.kind == "k-anonymity" for one in found.requirements) == 1
    assert sum(one.part.kind == "detail-limits" for one in found.requirements) == 3


WEAKER: list[dict[str, Any]] = [
    {"k-anonymity": {"k": 2}},
    {"k-anonymity": {"k": 9, "missing": "wildcard"}},
    {"k-anonymity": {"k": 9, "missing": "ignore"}},
    {"k-anonymity": {"k": 9, "columns": ["age", "sex"]}},
    {"k-anonymity": {"k": 9, "count": "records"}},
    {"distance-linkage": {"at_most": 0.06}},
    {"distance-linkage": {"at_most": 0.01, "columns": ["age"]}},
    {"distance-linkage": {"at_most": 0.01, "intruder": {"knows_method": False}}},
    {"detail-limits": {"min_area_population": 20}},
    {"detail-limits": {"min_category_size": 50, "columns": ["sex"]}},
]


@pytest.mark.parametrize("weak", WEAKER, ids=str)
def test_weaker_requirements_need_a_waiver(weak: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"requirements.1\): [a-z-]+ is weaker than the policy 'scientific-use'"):
        plan(requirements=[weak])
    kind = next(iter(weak))
    names = ["geography", "detail"] if kind == "detail-limits" else [kind]
    found = plan(requirements=[weak], waivers=[waiver(name) for name in names])
    assert [one.to_plan() for one in found.requirements if one.part.kind == kind] == [weak]


def test_all_quasi_identifiers_by_name_are_as_strict() -> None:
    found = plan(requirements=[{"k-anonymity": {"k": 3, "columns": ["age", "sex", "town"]}}])
    assert not any(one.by_policy for one in found.requirements if one.part.kind == "k-anonymity")


BAD_WAIVERS = {
    "no name": ({"requirement": "k-anonymity", "why": "x"}, "needs the name of who allowed it"),
    "no reason": ({"requirement": "k-anonymity", "by": HEAD}, "needs its reason"),
    "somebody": ({"requirement": "k-anonymity", "by": "Joe Doe, intern", "why": "x"}, "may not waive k-anonymity"),
    "nobody may": (waiver("steps"), "nobody may waive steps"),
    "unknown": (waiver("k-anonimity"), "did you mean 'k-anonymity'?"),
    "field": ({**waiver("k-anonymity"), "on": 1}, "unknown field 'on'"),
    "columns": (waiver("k-anonymity", columns=["age"]), "`columns` can be given for roles"),
}


@pytest.mark.parametrize("case", BAD_WAIVERS)
def test_waivers_that_do_not_count_are_errors_with_their_place(case: str) -> None:
    given, told = BAD_WAIVERS[case]
    with pytest.raises(PlanError) as caught:
        plan(waivers=[given])
    assert any("(waivers.1)" in one and told in one for one in caught.value.problems), caught.value.problems


def test_waivers_without_a_policy_are_an_error() -> None:
    with pytest.raises(PlanError, match="the plan names no policy"):
        Plan.from_dict({"roles": ROLES, "waivers": [waiver("k-anonymity")]})


SAFEGUARDS: dict[str, dict[str, Any]] = {
    "row-order": {"order": "keep"},
    "known-method": {"knows_method": False},
    "withheld-parameters": {"requirements": [{"k-anonymity": {"k": 3, "publish": True}}]},
    "confirmed-telling": {"confirmed_telling": ["illness"]},
    "small-seed": {"demo": True},
    "roles": {"roles": {**ROLES, "age": "sensitive"}},
}


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_safeguards_need_a_waiver(name: str) -> None:
    found = plan(**SAFEGUARDS[name])
    data = dc.Dataset(people(), schema=found.schema)
    problems = unkept(found, data, data.columns)
    waivable = name in ("row-order", "confirmed-telling", "roles")
    assert len(problems) == 1 and (f"requirement: {name}" in problems[0]) == waivable
    assert ("nobody may waive it" in problems[0]) != waivable
    if waivable:
        assert not unkept(plan(**SAFEGUARDS[name], waivers=[waiver(name)]), data, data.columns)


@pytest.mark.parametrize("role", ["sensitive", "other", "weight", "stratum", "unit"])
def test_a_column_that_others_know_cannot_leave_the_count_by_another_role(role: str) -> None:
    found = plan(roles={**{name: ROLES[name] for name in ("age", "town", "illness")}, "sex": role})
    data = dc.Dataset(people().drop("weight"), schema=found.schema)
    assert any("requirement: roles" in text and "sex" in text for text in unkept(found, data, data.columns))
    partly = plan(**{"roles": found.to_dict()["roles"], "waivers": [waiver("roles", columns=["age"])]})
    assert any("requirement: roles" in text for text in unkept(partly, data, data.columns))


def test_a_geography_that_nothing_counts_needs_a_waiver() -> None:
    found = plan(roles={**ROLES, "town": "geography"})
    data = dc.Dataset(people(), schema=found.schema)
    assert any("requirement: roles" in text and "town" in text for text in unkept(found, data, data.columns))


def test_a_release_shows_policy_and_waivers(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    people().write_csv(source)
    text = {"data": str(source), "roles": ROLES, "steps": STEPS, "policy": "scientific-use"}
    release = Plan.from_dict({**text, "waivers": [waiver("distance-linkage")]}).run(
        out=tmp_path / "public", journal=tmp_path / "private", seed=2**70 + 1
    )
    assert {one.kind for one in release.findings} == {"k-anonymity", "detail-limits"}
    facts = json.loads((tmp_path / "public" / "report.json").read_text())
    assert facts["policy"]["name"] == "scientific-use"
    assert facts["waivers"] == [{"requirement": "distance-linkage", "by": HEAD}]
    assert any(note.startswith("Waived: distance-linkage, by Ada Stone") for note in facts["notes"])
    page = (tmp_path / "public" / "report.html").read_text()
    assert "Waived: distance-linkage" in page and "731" not in page and "731" not in json.dumps(facts)
    journal = json.loads((tmp_path / "private" / "journal.json").read_text())
    (kept,) = journal["waivers"]
    assert kept["why"].startswith("two islands") and kept["demanded"] == [{"distance-linkage": {"at_most": 0.05}}]
    assert journal["policy"]["requirements"][0]["why"]
    assert "two islands of 731 people" in (tmp_path / "private" / "report.html").read_text()
    assert Plan.load(tmp_path / "private" / "plan.yaml").waivers == release.plan.waivers


def test_a_release_below_the_policy_is_refused(tmp_path: Path) -> None:
    few = people(40)
    source = tmp_path / "people.csv"
    few.write_csv(source)
    found = Plan.from_dict({"data": str(source), "roles": ROLES, "steps": STEPS, "policy": "public-use"})
    with pytest.raises(RequirementNotMet, match=r"detail-limits[^\n]*\n    too fine: "):
        found.run(out=tmp_path / "public", seed=2**70 + 1)
    assert not (tmp_path / "public").exists()


def test_a_study_can_be_released_under_a_policy(tmp_path: Path) -> None:
    schema = dc.Schema.build(roles=ROLES)
    study = dc.Study(dc.Dataset(people(), schema=schema), seed=2**70 + 1).apply(dc.Shuffle(columns=["age"]))
    with pytest.raises(PlanError, match="row-order"):
        study.release(tmp_path / "public", order="keep", policy="scientific-use", waivers=[waiver("distance-linkage")])
    release = study.release(policy="scientific-use", waivers=[waiver("distance-linkage")])
    assert release.plan.policy is not None and len(release.findings) == 3


def test_a_policy_of_ones_own_is_found_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("scenario: scientific-file\nextends: scientific-use\n")
    (tmp_path / "plan.yaml").write_text("roles: {age: quasi}\npolicy: ours.yaml\n")
    found = Plan.load(tmp_path / "plan.yaml")
    assert found.policy is not None and found.policy.lineage == ("ours", "scientific-use")
    found.save(tmp_path / "again.yaml")
    assert "policy: ours.yaml" in (tmp_path / "again.yaml").read_text()


def table(**more: Any) -> TablePlan:
    inner = {"by": ["town", "illness"], **more.pop("table", {})}
    return TablePlan.from_dict({"table": inner, "policy": "research-output", **more})


def test_tables_take_the_rules_of_their_policy() -> None:
    assert [rule.kind for rule in table().rules] == ["threshold", "group-disclosure"]
    assert [rule.kind for rule in table(table={"value": "weight"}).rules] == ["threshold", "p-percent", "dominance"]
    own = table(table={"rules": [{"threshold": {"minimum": 12}}]})
    assert [rule.settings() for rule in own.rules if rule.kind == "threshold"] == [{"minimum": 12}]
    with pytest.raises(PlanError, match="threshold is weaker than the policy 'research-output' demands: `min"):
        table(table={"rules": ["threshold"]})
    by = {"requirement": "threshold", "by": "Bo Lind, output checker", "why": "agreed with the ministry"}
    assert [rule.settings() for rule in table(table={"rules": ["threshold"]}, waivers=[by]).rules] == [{}, {}]


def test_tables_cannot_escape_by_marks_audit_options_or_override() -> None:
    for more in ({"marks": [{"safe": {"town": "A"}}]}, {"audit": {"attacker": "outsider"}}):
        with pytest.raises(PlanError, match=r"does not allow this: .*nobody may waive it"):
            table(table=more)
    release = table(table={"protect": "none"}).run(people(30))
    with pytest.raises(PlanError, match="only with a waiver of `audit`"):
        release.overridden("because")


def test_a_policy_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(PlanError, match="has no rules for tables; it is for public-file"):
        TablePlan.from_dict({"table": {"by": ["town"]}, "policy": "public-use"})
    with pytest.raises(PlanError, match="requires nothing of files; it is for research-output"):
        Plan.from_dict({"roles": ROLES, "policy": "research-output"})


def two_sensitive(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    roles = {**ROLES, "income": "sensitive"}
    made = Plan.from_dict({"roles": roles, "steps": STEPS, "policy": "public-use", "requirements": lines})
    return [{**one.to_plan(), "by": one.by_policy} for one in made.requirements if "l-diversity" in one.part.kind]


def test_lines_for_single_columns_cover_a_demand_together() -> None:
    of = [{"distinct-l-diversity": {"l": l_, "sensitive": [name]}} for name, l_ in (("illness", 2), ("income", 3))]
    assert two_sensitive(of) == [{**one, "by": ""} for one in of]
    (own, added) = two_sensitive(of[1:])  # stricter on one column, and the policy on both
    assert own["by"] == "" and added == {"distinct-l-diversity": {"l": 2}, "by": "public-use"}
    with pytest.raises(PlanError, match=r"`l` is 1, 2 is demanded"):
        two_sensitive([{"distinct-l-diversity": {"l": 1, "sensitive": ["illness"]}}, of[1]])


def released(tmp_path: Path) -> Path:
    people().write_csv(tmp_path / "people.csv")
    steps = [{"drop-identifiers": {"columns": ["town", "weight"]}}, *STEPS]
    made = plan(data=str(tmp_path / "people.csv"), steps=steps, requirements=[{"distance-linkage": {"at_most": 0.04}}])
    made.run(out=tmp_path / "first", journal=tmp_path / "first-journal", seed=2**70)
    return tmp_path / "first-journal"


def test_a_coarser_copy_of_a_release_stands_under_the_policy_too(tmp_path: Path) -> None:
    journal = released(tmp_path)
    group = {"group-categories": {"column": "illness", "groups": {"ill": ["flu", "measles"]}}}
    further = {"from": str(journal), "steps": [group], "policy": "scientific-use"}
    release = Plan.from_dict(further).run(out=tmp_path / "coarse", journal=tmp_path / "coarse-journal", seed=2**70)
    kinds = [one.kind for one in release.findings]
    assert kinds == ["k-anonymity", "distance-linkage", "detail-limits"]  # places and weights went before
    assert "Released under the policy scientific-use" in release.notes[0]
    weak = {**further, "requirements": [{"k-anonymity": {"k": 2}}]}
    with pytest.raises(PlanError, match="k-anonymity is weaker than the policy"):
        Plan.from_dict(weak).run(out=tmp_path / "weak", seed=2**70)
    with pytest.raises(PlanError, match="row-order"):
        Plan.from_dict({**further, "order": "keep"}).run(out=tmp_path / "kept", seed=2**70)


def test_tuning_keeps_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from discretion.cli.app import run

    people().write_csv(tmp_path / "people.csv")
    text = f"""
data: {tmp_path / "people.csv"}
policy: scientific-use
roles: {{age: quasi, sex: quasi, town: [quasi, geography], illness: sensitive, weight: weight}}
tune:
  methods:
    - shuffle: {{columns: [age], predictors: [sex]}}
    - rank-swap: {{columns: [age], percent: {{grid: [1, 50]}}}}
  max_risk: 0.05
  risk: {{distance-linkage: {{}}}}
  utility: {{il1s: {{columns: [age]}}}}
"""
    (tmp_path / "tune.yaml").write_text(text)
    best = tmp_path / "best.yaml"
    assert run(["tune", str(tmp_path / "tune.yaml"), "--out", str(best), "--quiet"]) == 0, capsys.readouterr().err
    found = Plan.load(best)
    assert found.policy is not None and found.policy.name == "scientific-use"
    assert {one.part.kind for one in found.requirements if one.by_policy} == {
        "k-anonymity", "distance-linkage", "detail-limits",
    }  # fmt: skip
    assert [one.at_most for one in found.requirements if one.part.kind == "distance-linkage"] == [0.05]
    weak = text.replace("max_risk: 0.05", "max_risk: 0.5")
    (tmp_path / "weak.yaml").write_text(weak)
    assert run(["tune", str(tmp_path / "weak.yaml"), "--out", str(tmp_path / "far.yaml"), "--quiet"]) == 0
    kept = Plan.load(tmp_path / "far.yaml").requirements  # the limit of the search does not weaken the policy
    assert [one.at_most for one in kept if one.part.kind == "distance-linkage"] == [0.05]


def test_accepting_what_two_releases_tell_needs_a_waiver(tmp_path: Path) -> None:
    journal = released(tmp_path)
    steps = [{"drop-identifiers": {"columns": ["town", "weight"]}}, *STEPS]
    again = {"data": str(tmp_path / "people.csv"), "steps": steps}
    for place in ({"journal": str(journal), "accepted": "ok"}, {"folder": str(tmp_path / "first")}):
        asked = plan(**{**again, "previous": [place]})
        problems = unkept(asked, dc.Dataset(people(), schema=asked.schema), ["age", "sex", "illness"])
        assert any("requirement: previous" in one for one in problems)
        allowed = plan(**{**again, "previous": [place], "waivers": [waiver("previous")]})
        assert not unkept(allowed, dc.Dataset(people(), schema=asked.schema), ["age", "sex", "illness"])
    with pytest.raises(PlanError, match="nobody may waive previous"):
        plan(**{**again, "policy": "public-use", "previous": [], "waivers": [waiver("previous")]})


def test_a_place_without_the_role_of_a_place_needs_a_waiver() -> None:
    frame = people().rename({"town": "region"})
    roles = {"age": "quasi", "sex": "quasi", "region": "quasi", "illness": "sensitive"}
    asked = Plan.from_dict({"roles": roles, "steps": STEPS, "policy": "scientific-use"})
    problems = unkept(asked, dc.Dataset(frame, schema=asked.schema), ["age", "sex", "region", "illness"])
    (told,) = problems
    assert "'region' looks like a place" in told and "lacks the role of a place" in told
    assert "write `region: [quasi, geography]`" in told and "requirement: roles, columns: [region]" in told


def test_what_nobody_may_waive_is_not_offered() -> None:
    """A column whose name says nothing may be called sensitive; a sex may not, and nobody can allow it."""
    frame = people().rename({"illness": "q7"})
    roles = {"age": "quasi", "sex": "sensitive", "q7": "sensitive", "town": ["quasi", "geography"]}
    asked = Plan.from_dict({"roles": roles, "steps": STEPS, "policy": "public-use"})
    (told,) = unkept(asked, dc.Dataset(frame.drop("weight"), schema=asked.schema), list(roles))
    assert "'sex' looks like something others know" in told and "write `sex: [quasi, sensitive]`, or drop it" in told
    assert "nobody may waive it under this policy" in told and "waivers:" not in told
    with pytest.raises(PlanError, match=r"weaker than the policy 'public-use'.*nobody may waive it"):
        plan(policy="public-use", requirements=[{"k-anonymity": {"k": 2}}])
