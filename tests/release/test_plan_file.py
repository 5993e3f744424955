"""A plan is the same thing in YAML, TOML, JSON and Python, and survives being saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import discretion as dc
from discretion.data.documents import parse_yaml, to_yaml
from discretion.errors import PlanError
from tests.release.survey import PLAN, put_survey, survey

TOML = """\
title = "A small survey"
data = "survey.csv"
steps = [
  {generalize = {levels = {age = 3, region = 1}}},
  {rank-swap = {columns = ["income"], percent = 10}},
  {additive-noise = {columns = "savings", sd_share = 0.1}},
]
measures = ["sample-uniqueness", {il1s = {columns = ["income", "savings"]}}]
requirements = [
  {k-anonymity = {k = 3}},
  {distance-linkage = {columns = ["income", "savings"], at_most = 1.0}},
]
output = {folder = "out", journal = "secret"}

[roles]
person_id = "identifier"
age = "quasi"
sex = "quasi"
region = ["quasi", "stratum"]
income = "sensitive"
savings = "sensitive"

[hierarchies]
age = {intervals = {width = 10, levels = 4}}
region = "region.csv"
"""


def test_yaml_toml_and_json_give_the_same_plan(tmp_path: Path) -> None:
    from_yaml = dc.Plan.load(put_survey(tmp_path))
    (tmp_path / "plan.toml").write_text(TOML)
    (tmp_path / "plan.json").write_text(json.dumps(yaml.safe_load(PLAN), indent="\t"))
    assert dc.Plan.load(tmp_path / "plan.toml") == from_yaml
    assert dc.Plan.load(tmp_path / "plan.json") == from_yaml
    assert dc.Plan.from_dict(yaml.safe_load(PLAN), tmp_path) == from_yaml
    assert [step.method for step in from_yaml.steps] == [
        dc.Generalize(levels={"age": 3, "region": 1}),
        dc.RankSwap(columns=["income"], percent=10),
        dc.AdditiveNoise(columns=["savings"], sd_share=0.1),
    ]
    assert from_yaml.requirements[1].at_most == 1.0
    assert from_yaml.schema["region"].roles == ("quasi", "stratum")


FULL = {
    "title": "Ünïcode: no, yes & 1e-3",
    "data": {"path": "survey.csv", "delimiter": ",", "encoding": "utf-8"},
    "roles": {"person_id": "identifier", "age": "quasi", "region": ["quasi", "geography"]},
    "confirmed": False,
    "types": {"age": "continuous", "savings": "continuous"},
    "orders": {"sex": ["f", "m"]},
    "hierarchies": {
        "age": {"intervals": {"width": 0.00001, "levels": 2, "origin": 5}},
        "region": [["no", "1e3", "*"], ["0123", "y", "*"]],
        "sex": {"masking": {"character": "*", "keep": 0, "side": "right"}},
    },
    "missing_codes": {"savings": [-9, "NO", 1e-7]},
    "steps": [{"rank-swap": {"columns": ["income"], "percent": 1e-5, "publish": True}}, {"drop-identifiers": {}}],
    "measures": [{"average-class-size": {"k": 3, "publish": True}}, {"precision": {}}],
    "requirements": [{"il1s": {"at_most": 1e-5, "at_least": 0}}, {"k-anonymity": {"k": 3, "publish": True}}],
    "output": {"folder": "out", "journal": "secret", "format": "parquet"},
    "seed_file": "keep/seed",
}


@pytest.mark.parametrize("name", ["again.yaml", "again.yml", "again.json"])
def test_what_is_saved_is_loaded_again(tmp_path: Path, name: str) -> None:
    plan = dc.Plan.from_dict(FULL, tmp_path)
    assert plan.to_dict() == FULL
    plan.save(tmp_path / name)
    again = dc.Plan.load(tmp_path / name)
    assert again == plan and again.to_dict() == FULL
    assert again.steps[0].publish and again.measures[0].publish and again.requirements[1].publish
    assert not again.schema["savings"].has_role  # a type alone is no role


def test_a_plan_is_not_saved_under_another_extension(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan\.txt.*\.yaml"):
        dc.Plan().save(tmp_path / "plan.txt")
    assert not list(tmp_path.iterdir())


def test_yaml_words_mean_what_they_say() -> None:
    text = "a: [no, NO, on, y, 0123, 08001, 1:30, 2020-01-31, 1e-3, 1e3, .5, -2, true, null, ~]\n"
    assert parse_yaml(text).content["a"] == [
        "no", "NO", "on", "y", "0123", "08001", "1:30", "2020-01-31", 0.001, 1000.0, 0.5, -2, True, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value", ["no", "1e3", "0x1F", "1_000", "12:30", "~", "", "true", "2020-01-31", "=", "- a", "a: b"]
)
def test_text_stays_text_through_yaml_here_and_for_other_readers(value: str) -> None:
    written = to_yaml({"a": [value]})
    assert parse_yaml(written).content == {"a": [value]} == yaml.safe_load(written)


def test_paths_start_at_the_folder_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_survey(tmp_path / "plans")
    (tmp_path / "plans" / "key").write_bytes(b"sixteen bytes or more of it")
    (tmp_path / "plans" / "all.csv").write_text("age\n1\n")
    plan_file = tmp_path / "plans" / "plan.yaml"
    plan_file.write_text(
        "data: survey.csv\n"
        "roles: {person_id: identifier, age: quasi}\n"
        "hierarchies:\n  region: {file: region.csv}\n  sex: {file: {path: region.csv, delimiter: ;}}\n"
        "steps:\n  - pseudonymize: {key_file: key}\n"
        "measures:\n  - sample-uniqueness: {population: all.csv}\n"
        "output: out\nseed_file: seed\n"
    )
    monkeypatch.chdir(tmp_path)
    plan = dc.Plan.load("plans/plan.yaml")
    assert plan.schema["region"].hierarchy == plan.schema["sex"].hierarchy
    assert len(plan.read()) == len(survey())
    assert Path(plan.resolve("out")) == tmp_path / "plans" / "out"
    assert Path(plan.steps[0].method.key_file) == tmp_path / "plans" / "key"
    assert Path(plan.measures[0].measure.population) == tmp_path / "plans" / "all.csv"
    assert plan.resolve("/elsewhere/x.csv") == "/elsewhere/x.csv"
    assert plan.resolve("duckdb:///x?table=t") == "duckdb:///x?table=t" and plan.resolve("-") == "-"
