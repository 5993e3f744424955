"""Parts of other packages: found by their entry point, without installing or importing them first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

from tests.release.survey import PLAN, put_survey, survey

EXAMPLE = Path(__file__).parents[1] / "example_package"


def install(site: Path, *, name: str = "discretion-example", points: dict[str, str] | None = None) -> Path:
    """Write what an installer would: the metadata of a package with its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = points or project["entry-points"]["discretion.parts"]
    folder = site / f"{name.replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n")
    lines = "".join(f"{kind} = {value}\n" for kind, value in points.items())
    (folder / "entry_points.txt").write_text(f"[discretion.parts]\n{lines}")
    return site


def python(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(EXAMPLE / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def discretion(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "discretion", *arguments)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def test_it_is_listed_and_described(site: Path) -> None:
    listed = json.loads(discretion(site, "parts", "--json").stdout)["parts"]
    (found,) = [part for part in listed if part["kind"] == "negate"]
    assert found["name"] == "Negate" and found["family"] == "method" and found["summary"].startswith("Turn the sign")
    help_text = " ".join(discretion(site, "apply", "negate", "--help").stdout.split())
    assert "Turn the sign of every value" in help_text and "--plus NUMBER what is added to every value" in help_text


def test_apply_and_python_use_it(site: Path, tmp_path: Path) -> None:
    survey().write_csv(tmp_path / "in.csv")
    done = discretion(
        site,
        "apply",
        "negate",
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        "--columns",
        "age",
        "--plus",
        7,
        "--keep-order",
    )
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "out.csv")["age"].to_list() == (7 - survey()["age"]).to_list()
    code = "import discretion as dc; print(dc.Negate.__module__, 'negate' in dc.parts(), 'Negate' in dir(dc))"
    assert python(site, "-c", code).stdout.split() == ["discretion_example", "True", "True"]


def test_a_plan_uses_it_and_its_confidential_field_stays_private(site: Path, tmp_path: Path) -> None:
    plan = PLAN.replace(
        "  - rank-swap: {columns: [income], percent: 10}", "  - negate: {columns: [income], plus: 0.0731}"
    )
    done = discretion(site, "run", put_survey(tmp_path, plan + "order: keep\n"), "-q")
    assert done.returncode == 0, done.stderr
    published = pl.read_csv(tmp_path / "out" / "data.csv")["income"]
    assert published.to_list() == pytest.approx((0.0731 - survey()["income"]).to_list())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["steps"][1]["kind"] == "negate" and report["steps"][1]["withheld"] == ["plus"]
    assert "0.0731" not in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"mdav": "discretion_example:Negate"}, "redefines the kind 'mdav'"),
        ({"turn": "discretion_example:Negate"}, "gives a part of kind 'negate'; the two must agree"),
        ({"negate": "discretion_example:Context"}, "is not a discretion part"),
        ({"negate": "discretion_example:Missing"}, "package 'discretion-other' cannot be loaded: AttributeError"),
        ({"negate": "no_such_module:Negate"}, "package 'discretion-other' cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_broken_package_is_named(tmp_path: Path, points: dict[str, str], words: str) -> None:
    done = discretion(install(tmp_path, name="discretion-other", points=points), "parts")
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_two_packages_with_one_kind(tmp_path: Path) -> None:
    install(tmp_path)
    install(tmp_path, name="discretion-twin")
    done = discretion(tmp_path, "parts")
    assert done.returncode == 2 and "redefines the kind 'negate'" in done.stderr


def test_a_class_of_the_same_name_and_kind_does_not_replace_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "pirate.py").write_text(
        "from discretion.protect.microaggregation import Mdav as Real\n"
        "class Mdav(Real, kind='mdav'):\n    '''A pirate.'''\n"
    )
    done = python(tmp_path, "-c", "import pirate")
    assert done.returncode == 1
    assert "the kind 'mdav' is already registered by discretion.protect.microaggregation.Mdav" in done.stderr
