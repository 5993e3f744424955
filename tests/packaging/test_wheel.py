"""The wheel: what is in it, and that it is enough."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, build_wheel, checked, clean_environment, empty_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "discretion"
    wanted = {
        str(Path("discretion") / file.relative_to(package))
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".nbi", ".nbc")
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("discretion-")}
        texts = {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    assert names == wanted and {"discretion/py.typed", "discretion/__init__.pyi"} <= names
    ahead = {"discretion/kernels/built.zip"}  # where `make kernels` was run
    assert {Path(name).suffix for name in names - ahead} == {".py", ".pyi", ".typed", ".html", ".css", ".js", ".yaml"}
    assert not any(str(ROOT) in text or str(Path.home()) + "/" in text for text in texts.values())
    assert not any(word in name.split("/") for name in names for word in ("tests", "docs", "demo"))


def test_the_unpacked_wheel_works(wheel: Path, tmp_path: Path) -> None:
    """Without the folder of the sources: parts are found, templates are read, the command answers."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    script = f"""
import sys
sys.path[:] = [{str(tmp_path / "site")!r}, *(path for path in sys.path if path != {str(ROOT / "src")!r})]
import discretion as dc
assert dc.__file__.startswith({str(tmp_path)!r})
from discretion.release.report.page import template
template("assessment.html")
from discretion.cli.app import run
sys.exit(run(["parts", "--json"]))
"""
    done = checked(sys.executable, "-I", "-c", script, cwd=tmp_path)
    assert '"mdav"' in done.stdout


@pytest.mark.slow
def test_the_demo_runs_in_an_empty_environment(wheel: Path, spare: Path, tmp_path: Path) -> None:
    """Installed without extras, as a newcomer does it; compiled kernels go to a cache of their own."""
    programs = empty_environment(spare)
    variables = clean_environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    constraints = ROOT / "constraints.txt"
    checked(programs / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel, env=variables)
    checked(programs / "discretion", "demo", "--out", "demo", cwd=tmp_path, env=variables)
    assert {"data.csv", "report.html", "report.json"} <= {file.name for file in (tmp_path / "demo/release").iterdir()}
    absent = "import discretion as dc\ntry: dc.read('a.sav')\nexcept dc.errors.MissingLibrary as error: print(error)"
    (tmp_path / "a.sav").write_bytes(b"something")
    done = checked(programs / "python", "-c", absent, cwd=tmp_path, env=variables)
    assert done.stdout == 'reading SPSS files needs the library pyreadstat; pip install "discretion[io]"\n'
