"""`discretion demo`: the main job from beginning to end."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from discretion.release.example import write_example
from tests.cli.conftest import Cli
from tests.release.survey import files_of


def test_the_demo_publishes_a_checked_release(tmp_path: Path, cli: Cli) -> None:
    done = cli("demo", "--out", tmp_path / "demo", "--json")
    assert done.code == 0
    assert all(found["holds"] for found in done.json()["requirements"])
    names = ["codebook.html", "codebook.md", "codebook.xml", "data.csv", "report.html", "report.json"]
    assert sorted(files_of(tmp_path / "demo" / "release")) == names
    data = pl.read_csv(tmp_path / "demo" / "release" / "data.csv")
    assert len(data) == 30_000 and not {"name", "person_id", "birth_date"} & set(data.columns)
    assert data.schema["income"] == pl.Int64 and max(len(str(weight)) for weight in data["weight"]) <= 8
    old = pl.read_csv(tmp_path / "demo" / "census.csv")["age"].ge(80).sum()
    assert 0.9 * old < data["age"].eq(">= 80").sum() <= old, "but for values taken out, the oldest are in an open group"
    assert "private journal" in done.err
    before = files_of(tmp_path)
    done = cli("demo", "--out", tmp_path / "demo")
    assert done.code == 3 and "--force" in done.err and files_of(tmp_path) == before
    done = cli("run", tmp_path / "demo" / "plan.yaml", "--force")  # what the demo tells the user to try next
    assert done.code == 0


def test_a_demo_that_fails_publishes_nothing_and_gives_one_json_document(tmp_path: Path, cli: Cli) -> None:
    assert cli("demo", "--out", tmp_path / "demo", "--rows", 1000).code == 2
    plan = write_example(tmp_path / "demo", 1000)
    plan.write_text(plan.read_text(encoding="utf-8").replace("at_most: 0.1}", "at_most: 0.0001}"), encoding="utf-8")
    done = cli("run", plan, "--json")
    assert done.code == 4 and done.json()["error"]["kind"] == "RequirementNotMet"
    assert not (tmp_path / "demo" / "release").exists() and not (tmp_path / "demo" / "private").exists()


def test_the_example_is_valid(tmp_path: Path, cli: Cli) -> None:
    plan = write_example(tmp_path / "x", 2000)
    assert cli("run", plan, "--dry-run").code == 0
