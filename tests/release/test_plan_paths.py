"""Paths in the parts of a plan start at the plan's folder, however deep the part lies, and are written likewise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import discretion as dc
from discretion.part import all_parts, holds_parts
from discretion.release.plan import map_paths
from tests.release.survey import ROLES, survey

KNOWN = {"columns": ["sex", "region"]}
UNIQUE = {"sample-uniqueness": {**KNOWN, "population": "people.csv"}}
CONTENT: dict[str, Any] = {
    "data": "survey.csv",
    "roles": ROLES,
    "steps": [
        {"suppress-by-risk": {"at_most": 0.9, "measure": UNIQUE, "columns": ["sex"]}},
        {
            "at-household-level": {
                "method": {"suppress-by-risk": {"at_most": 0.9, "measure": UNIQUE, "columns": ["sex"]}},
                "household": "person_id",
            }
        },
        {"optimal-generalization": {"models": [{"k-map": {"k": 2, "population": "people.csv", **KNOWN}}], **KNOWN}},
        {"km-generalization": {"columns": ["region"], "k": 2, "item_hierarchy": "regions.csv"}},
    ],
    "measures": [UNIQUE],
    "requirements": [{"reidentification-bound": {"at_most": 1.0, "measure": UNIQUE}}],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan, its data and what its parts name; the working folder is another one."""
    home, elsewhere = tmp_path / "plans", tmp_path / "elsewhere"
    home.mkdir(), elsewhere.mkdir()
    survey().write_csv(home / "survey.csv")
    survey(2000, seed=9).write_csv(home / "people.csv")
    (home / "regions.csv").write_text("coast;*\nhills;*\nplain;*\n")
    (home / "plan.yaml").write_text(yaml.safe_dump(CONTENT))
    monkeypatch.chdir(elsewhere)
    return home


def paths_in(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.endswith(".csv"):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from paths_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from paths_in(inner)


def test_paths_at_every_depth_start_at_the_folder_of_the_plan(folder: Path) -> None:
    plan = dc.Plan.load(folder / "plan.yaml")
    found = [path for section in ("steps", "measures", "requirements") for path in paths_in(plan.to_dict()[section])]
    assert sorted(found) == [*[str(folder / "people.csv")] * 5, str(folder / "regions.csv")]
    release = plan.run(seed=1, out=folder / "out")
    assert release.may_publish


def test_saved_plans_name_files_beside_them_by_name_alone(folder: Path) -> None:
    dc.Plan.load(folder / "plan.yaml").save(folder / "again.yaml")
    content = yaml.safe_load((folder / "again.yaml").read_text())
    assert set(paths_in(content)) == {"survey.csv", "people.csv", "regions.csv"}
    dc.Plan.load(folder / "plan.yaml").save(Path("moved.yaml"))
    moved = yaml.safe_load(Path("moved.yaml").read_text())
    assert set(paths_in(moved)) == {str(folder / name) for name in ("survey.csv", "people.csv", "regions.csv")}
    for copy in (folder / "again.yaml", Path("moved.yaml")):
        assert dc.Plan.load(copy).steps == dc.Plan.load(folder / "plan.yaml").steps


def test_parts_built_in_python_are_relative_to_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    method = dc.SuppressByRisk(
        at_most=0.9, columns=["sex"], measure={"sample-uniqueness": {"population": "people.csv"}}
    )
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=1)
    plan = study.apply(method).plan()
    plan.save(folder.parent / "plan.json")
    saved = json.loads((folder.parent / "plan.json").read_text())
    assert list(paths_in(saved["steps"])) == ["plans/people.csv"]
    study.apply(method).release(folder / "out", no_requirements=True)
    journal = yaml.safe_load((folder / "out-private" / "plan.yaml").read_text())
    assert list(paths_in(journal["steps"])) == [str(folder / "people.csv")]


def test_paths_of_parts_inside_are_not_public(folder: Path) -> None:
    release = dc.Plan.load(folder / "plan.yaml").run(seed=1, out=folder / "out")
    for file in (folder / "out").glob("report.*"):
        assert str(folder) not in file.read_text(), file.name
    settings = release.facts()["steps"][0]["settings"]
    assert settings == {"measure": {"sample-uniqueness": {**KNOWN, "population": "people.csv"}}, "columns": ["sex"]}


def test_confidential_fields_of_parts_inside_are_not_public() -> None:
    method = dc.SuppressByRisk(at_most=0.5, measure={"individual-risk": {"share": 0.0731, "columns": ["sex"]}})
    secret = type(method.measure).confidential_fields()
    shown = method.settings(public=True)["measure"]["individual-risk"]
    assert not set(shown) & set(secret) and shown["columns"] == ["sex"]


def test_what_is_no_path_stays() -> None:
    def change(path: str) -> str:
        return "changed/" + path

    for spec in (
        "sample-uniqueness",
        {"sample-uniqueness": None},
        {"no-such-part": {"population": "x.csv"}},
        {"a": 1, "b": 2},
        {"sample-uniqueness": {"population": "(data in memory)", "unknown": "x.csv"}},
        {"km-generalization": {"k": 2, "item_hierarchy": {"tree": {"*": {"a": ["b.csv"]}}}}},
    ):
        assert map_paths(spec, change) == spec
    for given, wanted in (
        ({"file": "x.csv"}, {"file": "changed/x.csv"}),
        ({"file": {"path": "x.csv", "delimiter": ";"}}, {"file": {"path": "changed/x.csv", "delimiter": ";"}}),
    ):
        spec = {"km-generalization": {"k": 2, "item_hierarchy": given}}
        assert map_paths(spec, change) == {"km-generalization": {"k": 2, "item_hierarchy": wanted}}


def test_urls_and_full_paths_stay() -> None:
    for path in ("https://example.org/people.csv", "/data/people.csv", "postgresql://host/db"):
        plan = dc.Plan.from_dict({"measures": [{"sample-uniqueness": {"population": path}}]}, base="plans")
        assert plan.measures[0].to_plan()["sample-uniqueness"]["population"] == path


def test_fields_that_hold_parts_are_marked() -> None:
    marked = {
        (part.kind, name) for part in all_parts() for name, field in part.model_fields.items() if holds_parts(field)
    }
    assert {
        ("at-household-level", "method"), ("suppress-by-risk", "measure"), ("reidentification-bound", "measure"),
        ("local-suppression", "models"), ("suppress-records", "models"), ("mondrian", "models"),
        ("local-recoding", "models"), ("optimal-generalization", "models"),
    } <= marked  # fmt: skip
    for part in all_parts():
        for name in ("models", "method", "measure"):
            field = part.model_fields.get(name)
            assert field is None or holds_parts(field) or "Literal" in str(field.annotation), f"{part.kind}.{name}"


def test_people_are_read_from_the_file_named(folder: Path) -> None:
    """The population decides: with one in which nobody is unique, no cell is suppressed."""
    many = pl.concat([survey()] * 20)
    many.write_csv(folder / "people.csv")
    step = {"suppress-by-risk": {"at_most": 0.9, "measure": UNIQUE, "columns": ["sex"]}}
    (folder / "one.yaml").write_text(yaml.safe_dump({**CONTENT, "steps": [step], "requirements": []}))
    release = dc.Plan.load(folder / "one.yaml").run(seed=1)
    assert release.data.frame["sex"].null_count() == 0
