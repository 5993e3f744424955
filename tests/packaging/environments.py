"""Empty environments for what is installed, and the wheel that is installed into them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import discretion

ROOT = Path(discretion.__file__).parents[2]
SOURCES = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src")


def checked(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment that knows nothing of this one; what it said stands in the failure."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def clean_environment(**more: str) -> dict[str, str]:
    """Give the variables of this process without those that change what Python imports."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, **more}


def copy_sources(folder: Path) -> Path:
    """Copy what a wheel is built from, as a fresh clone has it."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources; nothing is downloaded."""
    pytest.importorskip("build", reason="the wheel is built with `build` (extra dev)")
    pytest.importorskip("hatchling", reason="the wheel is built with `hatchling` (extra dev)")
    source = copy_sources(folder / "source")
    checked(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def empty_environment(folder: Path) -> Path:
    """Make an environment with pip alone; give the folder of its programs. Skips where nothing can be fetched."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    asked = [programs / "python", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "click"]
    if subprocess.run(asked, capture_output=True, check=False, env=clean_environment()).returncode:
        pytest.skip("the package index cannot be reached")
    return programs
