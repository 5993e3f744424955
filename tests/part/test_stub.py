"""The stub of the public names: editors and type checkers know every part and its fields."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import discretion

ROOT = Path(discretion.__file__).parents[2]
RIGHT = """
from pathlib import Path

import discretion as dc

people = dc.read(Path("people.csv"), hierarchies={"age": Path("age.csv")})
group = dc.Mdav(columns=["income"], k=5)
names = dc.Pseudonymize(columns=["name"], key_file=Path("secret"))
known = dc.SampleUniqueness(columns=["age"], population=Path("all.csv"))
told = dc.Pseudonymize(columns=["name"], key_file="secret"), dc.SampleUniqueness(population="all.csv")
plan = dc.Plan(seed_file=Path("seed"), data={"path": Path("people.csv")}, made_from={"journal": Path("private")})
runs = plan.read(Path("people.csv")), plan.run(Path("people.csv"), out=Path("out")), plan.with_data(Path("other.csv"))
found = dc.assess(people, Path("released.csv"), measures=[known]).ranked
"""
WRONG = """
import discretion as dc

dc.Mdav(columns=["income"], kk=5)  # a field that is not there
dc.RankSwap(columns=["income"])  # one that is needed
dc.Mdav(columns=["income"], k="five")
dc.Mdavv
dc.assess(1, 2).ranket
dc.Plan.load("plan.yaml").stepss
"""


def test_the_stub_is_current() -> None:
    """`make stubs` writes it again after a part was added or a field changed."""
    text = runpy.run_path(str(ROOT / "docs" / "stubs.py"))["stub"]()
    assert (Path(discretion.__file__).parent / "__init__.pyi").read_text(encoding="utf-8") == text


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def faults(text: str, pattern: str) -> set[tuple[str, int]]:
    return {(Path(found[1]).name, int(found[2])) for found in re.finditer(pattern, text, flags=re.MULTILINE)}


EXPECTED = {("wrong.py", number) for number, line in enumerate(WRONG.splitlines(), 1) if line.startswith("dc.")}


def test_pyright_finds_a_misspelled_field(scripts: Path) -> None:
    pytest.importorskip("basedpyright", reason="pyright comes with `basedpyright` (extra dev), which brings node along")
    settings = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    (scripts / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scripts)
    assert faults(done.stdout, r"^\s*(\S+\.py):(\d+):\d+ - error") == EXPECTED, done.stdout


@pytest.mark.slow
def test_mypy_finds_a_misspelled_field(scripts: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(scripts / "cache"), "right.py", "wrong.py"]
    command += ["--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scripts)
    assert faults(done.stdout, r"^(\S+\.py):(\d+): error") == EXPECTED, done.stdout
