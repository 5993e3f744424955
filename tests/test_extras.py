"""Libraries of the extras: where one is absent, the error names the extra to install, and everything else works."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.online.ledger import open_ledger
from discretion.online.server import create_app
from discretion.parties import encrypted
from discretion.parties.intersection import hash_to_group
from discretion.parties.sharing import load_mpyc
from tests.online.services import NOISE, students

ROOT = Path(dc.__file__).parent
PROJECT = ROOT.parents[1] / "pyproject.toml"
EXTRAS: dict[str, list[str]] = {
    extra: [re.split(r"[\[<>=]", text)[0] for text in texts]
    for extra, texts in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"].items()
    if extra in ("io", "online", "outputs", "parties")
}
OPTIONAL = {*(name for names in EXTRAS.values() for name in names), "starlette"}
AFTER_THE_DOOR = {"app.py", "guard.py", "protocol.py", "rest.py"}
"""Files of `online/server` and `web` that only `create_app` and `serve` import, after they asked for the library."""


def _service(folder: Path) -> Path:
    dc.datasets.students().frame.write_csv(folder / "students.csv")
    assert run(["serve", str(folder / "service.yaml"), "--draft", str(folder / "students.csv"), "--quiet"]) == 0
    return folder / "service.yaml"


def _table(columns: Any = ("sex",)) -> dc.Cells:
    return dc.tabulate(dc.datasets.students().frame, by=list(columns))


def _cli(*arguments: object) -> None:
    """Raise what the command says, as an error would."""
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    raise dc.errors.MissingLibrary(done.stderr.strip())


_BLOCKED = """
import sys
sys.modules["uvicorn"] = None
from discretion.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
QUESTION = "SELECT count(*) FROM students"
BASE = "postgresql://127.0.0.1:1/base"
FRAME = pl.DataFrame({"a": [1, 2]})
AGE = {"age": {"lower": 0, "upper": 120, "step": 1}}
USES: list[tuple[str, str, Callable[[Path], Any]]] = [
    ("pyreadstat", "io", lambda folder: dc.write(FRAME, folder / "a.sav")),
    ("pyreadstat", "io", lambda folder: dc.write(FRAME, folder / "a.dta")),
    *(("pyreadstat", "io", lambda folder, end=end: dc.read(_some(folder / f"a.{end}")))
      for end in ("sav", "zsav", "dta", "sas7bdat", "xpt")),
    ("fastexcel", "io", lambda folder: dc.read(_some(folder / "a.xlsx"))),
    ("xlsxwriter", "io", lambda folder: dc.write(FRAME, folder / "a.xlsx")),
    ("xlsxwriter", "io", lambda folder: _table().publish(folder / "a.xlsx")),
    ("psycopg", "io", lambda _: dc.read(BASE, table="t")),
    ("psycopg", "io", lambda _: dc.write(FRAME, BASE, table="t")),
    ("psycopg", "online", lambda _: open_ledger(BASE)),
    ("psycopg", "online", lambda folder: students(ledger=BASE)),
    ("pandas", "io", lambda _: students().ask("SELECT sum(income) FROM students WHERE sex = 'male'").to_pandas()),
    ("fastapi", "online", lambda _: create_app(students())),
    ("uvicorn", "online", lambda folder: _cli("serve", _service(folder), "--quiet")),
    ("opendp", "online", lambda _: students(NOISE).ask(QUESTION)),
    ("httpx", "online", lambda _: dc.connect("http://127.0.0.1:1", "dk_key").ask(QUESTION)),
    ("pandas", "outputs", lambda folder: dc.outputs.ResearchProject(folder, FRAME)),
    ("statsmodels", "outputs", lambda folder: dc.outputs.ResearchProject(folder, FRAME).olsr("a ~ 1", FRAME)),
    ("matplotlib", "outputs", lambda folder: dc.outputs.ResearchProject(folder, FRAME).hist(FRAME, "a")),
    ("mpyc", "parties", lambda _: load_mpyc()),
    ("gmpy2", "parties", lambda folder: encrypted.Keys.make(folder / "keys", AGE)),
    ("tenseal", "parties", lambda folder: encrypted.Keys.make(folder / "keys", AGE, "ckks")),
    ("rbcl", "parties", lambda _: hash_to_group(b"a")),
    ("cryptography", "parties", lambda folder: dc.parties.make_identity("a", folder)),
    ("fastapi", "parties", lambda _: encrypted.create_app()),
    ("uvicorn", "parties", lambda _: _cli("party", "server", "--quiet")),
    ("httpx", "parties", lambda folder: encrypted.begin("http://127.0.0.1:1", encrypted.Keys.make(folder / "k", AGE))),
]  # fmt: skip


def _some(file: Path) -> Path:
    file.write_bytes(b"something")
    return file


def test_every_optional_library_is_tried() -> None:
    assert {package for package, *_ in USES} == {name for names in EXTRAS.values() for name in names}


@pytest.mark.parametrize(
    ("package", "extra", "use"), USES, ids=[f"{package}-{i}" for i, (package, *_) in enumerate(USES)]
)
def test_the_error_names_the_extra(
    package: str, extra: str, use: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(dc.DiscretionError, match=rf'needs the library {package}; pip install "discretion\[{extra}\]"'):
        use(tmp_path)
    assert not (tmp_path / "a.xlsx").is_file() or (tmp_path / "a.xlsx").read_bytes() == b"something"


def test_there_is_one_door() -> None:
    """`need` imports optional libraries and names an extra that has them; other imports stand behind it."""
    asked: set[tuple[str, str]] = set()
    for file in ROOT.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not any(word in text for word in ("need(", *OPTIONAL)):
            continue
        tree = ast.parse(text)
        typing_only = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "need":
                module, _, extra = node.args
                asked.add((ast.literal_eval(module).partition(".")[0], ast.literal_eval(extra)))
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            roots = {name.partition(".")[0] for name in names} & OPTIONAL
            if roots and node not in typing_only and file.name not in AFTER_THE_DOOR:
                assert roots <= {"sqlglot", "psycopg"} and node not in tree.body, f"{file.name} imports {roots}"
    web = {(package, extra) for package, extra in asked if extra == "web"}
    assert web == {("uvicorn", "web"), ("fastapi", "web"), ("python_multipart", "web")}
    asked -= web
    assert asked == {(package, extra) for package, extra, _ in USES}
    assert all(package in EXTRAS[extra] for package, extra in asked)


def test_every_module_can_be_imported_without_extras() -> None:
    """Also what comes along with the extras is not needed; `discretion demo` runs (tests/packaging tries it)."""
    script = f"""
import pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL | {"h11", "anyio"}!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
import discretion
failed = []
for found in pkgutil.walk_packages(discretion.__path__, "discretion."):
    if not found.name.endswith("__main__"):
        try:
            __import__(found.name)
        except ModuleNotFoundError:
            failed.append(found.name)
for name in dir(discretion):
    getattr(discretion, name)
print(*failed)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    server = {f"discretion.online.server.{name}" for name in ("app", "guard", "protocol")}
    assert set(done.stdout.split()) == server | {"discretion.web.app"}
