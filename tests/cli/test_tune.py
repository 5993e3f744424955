"""`discretion tune`: the plan of the best, the map, the table; faults with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

import discretion as dc
from tests.cli.conftest import Cli
from tests.release.survey import PLAN, line_of, put_survey, without

TUNE = """\
tune:
  methods:
    - rank-swap: {columns: [income], percent: {grid: [1, 10, 60]}}
    - - rank-swap: {columns: [income], percent: 20}
      - mdav: {columns: [savings], k: {grid: [3, 10]}}
  risk: {rank-interval: {columns: [income], percent: 5}}
  utility: {variable-change: {columns: [income, savings]}}
  max_risk: 0.5
  runs: 2
"""
BASE = without(PLAN, "- rank-swap", "- additive-noise", "- distance-linkage") + TUNE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_survey(tmp_path, BASE)
    (tmp_path / "seed").write_text("7\n")
    return tmp_path


def test_the_best_plan_runs(folder: Path, cli: Cli) -> None:
    done = cli("tune", folder / "plan.yaml", "--out", folder / "best.yaml", "--seed-file", folder / "seed")
    assert done.code == 0 and "best under the limit" in done.err
    assert {"rank-swap", "(percent=10)"} <= set(done.out.split())
    plan = dc.Plan.load(folder / "best.yaml")
    assert [step.method.kind for step in plan.steps] == ["generalize", "rank-swap"] and not plan.tune
    assert [r.part.kind for r in plan.requirements] == ["k-anonymity", "rank-interval"]
    assert cli("run", folder / "best.yaml", "--quiet").code == 0


def test_the_best_plan_meets_the_requirements_of_the_plan(folder: Path, cli: Cli) -> None:
    """The weakest swap keeps the limit of the section, and not the requirement."""
    wanted = "requirements:\n  - sd-interval: {columns: [income], percent: 10, at_most: 0.2}\n"
    text = BASE.replace("requirements:\n", wanted).replace("max_risk: 0.5", "max_risk: 0.9")
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    done = cli("tune", folder / "plan.yaml", "--out", folder / "best.yaml", "--seed-file", folder / "seed")
    assert done.code == 0 and "does not meet the plan's requirements (sd-interval)" in done.err
    assert "of fresh draws" in done.err and "no method changes" not in done.err
    assert cli("run", folder / "best.yaml", "--quiet").code == 0
    text = text.replace(
        "    - - rank-swap: {columns: [income], percent: 20}\n      - mdav: {columns: [savings], k: {grid: [3, 10]}}\n",
        "",
    )
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    assert "no method changes savings" in cli("tune", folder / "plan.yaml").err


def test_json_agrees_with_python(folder: Path, cli: Cli) -> None:
    content = cli("tune", folder / "plan.yaml", "--seed-file", folder / "seed", "--json").json()
    plan = dc.Plan.load(folder / "plan.yaml")
    methods, measures = plan.tune["methods"], {key: plan.tune[key] for key in ("risk", "utility", "max_risk", "runs")}
    before = [step.method for step in plan.steps]
    found = dc.tune(plan.read(), methods, before=before, seed=7, **measures)
    assert [p["risk"] for p in content["points"]] == [p.risk for p in found.points]
    assert content["best"]["label"] == found.best.label and content["version"] == 1
    assert content["not_tried"] == []


def test_maps_are_written_whole_and_not_over_others(folder: Path, cli: Cli) -> None:
    maps = [folder / "map.svg", folder / "map.html"]
    done = cli("tune", folder / "plan.yaml", "--map", maps[0], "--map", maps[1], "--quiet")
    assert done.code == 0 and done.err == "" and maps[0].read_text().startswith("<svg")
    assert "<script>" in maps[1].read_text() and "http" not in maps[1].read_text()
    assert cli("tune", folder / "plan.yaml", "--map", maps[0]).code == 3
    assert cli("tune", folder / "plan.yaml", "--map", maps[0], "--force").code == 0
    assert cli("tune", folder / "plan.yaml", "--map", folder / "map.png").code == 2
    assert cli("tune", folder / "plan.yaml", "--out", folder / "best.txt").code == 2


def test_no_solution_shows_the_map_and_fails(folder: Path, cli: Cli) -> None:
    put_survey(folder, BASE.replace("max_risk: 0.5", "max_risk: 0.0001"))
    call = ("tune", folder / "plan.yaml", "--seed-file", folder / "seed")
    done = cli(*call, "--out", folder / "best.yaml", "--map", folder / "map.svg")
    assert done.code == 5 and "nearest: rank-swap (percent=60)" in done.err
    assert (folder / "map.svg").exists() and not (folder / "best.yaml").exists()


def test_the_cache_folder_is_used(folder: Path, cli: Cli) -> None:
    call = ("tune", folder / "plan.yaml", "--cache", folder / "kept", "--seed-file", folder / "seed", "--json")
    first = cli(*call).json()
    files = {f: f.stat().st_mtime_ns for f in (folder / "kept").iterdir()}
    assert cli(*call).json() == first and {f: f.stat().st_mtime_ns for f in (folder / "kept").iterdir()} == files


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("{grid: [1, 10, 60]}", "{grid: []}", "- rank-swap: {columns: [income], percent: {", "grid"),
        ("k: {grid: [3, 10]}", "k: {grid: [1, 10]}", "- mdav", "k: "),
        ("rank-interval:", "rank-intervall:", "risk:", "did you mean 'rank-interval'"),
        ("variable-change", "average-divergence", "utility:", "cannot guide tuning"),
        ("max_risk", "max_risc", "max_risc", "did you mean 'max_risk'"),
        ("runs: 2", "runs: 0", "tune:", "runs"),
    ],
)
def test_faults_have_their_line(folder: Path, cli: Cli, old: str, new: str, line: str, words: str) -> None:
    plan = BASE.replace(old, new)
    put_survey(folder, plan)
    done = cli("tune", folder / "plan.yaml")
    assert done.code == 2 and words in done.err
    assert f"line {line_of(plan, line)} " in done.err


def test_an_unfinished_plan_is_not_run_and_a_plan_without_the_section_not_tuned(folder: Path, cli: Cli) -> None:
    done = cli("run", folder / "plan.yaml")
    assert done.code == 2 and "discretion tune" in done.err
    put_survey(folder, PLAN)
    done = cli("tune", folder / "plan.yaml")
    assert done.code == 2 and "no `tune` section" in done.err
    put_survey(folder, BASE.replace("  max_risk: 0.5\n", ""))
    assert cli("tune", folder / "plan.yaml", "--quiet").code == 0
    assert cli("tune", folder / "plan.yaml", "--out", folder / "x.yaml").code == 2
