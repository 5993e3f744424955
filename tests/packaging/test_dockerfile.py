"""The Dockerfile of the service: its lines are run outside a container, its command answers a question."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.cli.serve import web
from tests.packaging.environments import ROOT, checked, clean_environment, copy_sources, empty_environment

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LINES: list[tuple[str, str]] = [
    (word, rest) for word, rest in re.findall(r"^([A-Z]+)\s+(.*)$", TEXT.replace("\\\n", " "), flags=re.MULTILINE)
]
FOLDERS = ("/build", "/data", "/ledger", "/home")
SERVICE = """
tables:
  people:
    source: people.csv
    columns:
      sex: {role: public, type: category, categories: [female, male]}
      income: {role: sensitive, type: number, bounds: [0, 1000]}
policies:
  noise: {mode: dp, epsilon: 5.0, epsilon_per_query: 1.0}
policy: noise
users:
  ann: {}
ledger: sqlite:////ledger/ledger.db
"""


def given(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def inside(text: str, root: Path) -> str:
    """Put the folders of the container below a folder of ours."""
    return re.sub(rf"(?<![\w.-])({'|'.join(FOLDERS)})(?![\w-])", lambda found: f"{root}{found[1]}", text)


def test_the_image_runs_without_rights_and_keeps_what_it_must() -> None:
    (image,), (user,), (volumes,) = given("FROM"), given("USER"), given("VOLUME")
    assert re.fullmatch(r"python:3\.\d+-slim", image), "the name of the base image, without a registry"
    assert int(user) > 0 and f"--uid {user} " in " ".join(given("RUN"))
    assert json.loads(volumes) == ["/data", "/ledger"]
    assert [word for word, _ in LINES].index("USER") < [word for word, _ in LINES].index("CMD")
    copied = [name for rest in given("COPY") for name in rest.split()[:-1]]
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert let_in[0] == "*" and {name[1:] for name in let_in if name.startswith("!")} == set(copied)
    command, (check,) = json.loads(given("CMD")[0]), given("HEALTHCHECK")
    assert command[:2] == ["discretion", "serve"] and given("EXPOSE") == [
        f"{command[command.index('--port') + 1]} 8080"
    ]
    (app,) = re.findall(r"`discretion web ([^`]+)`", TEXT.replace("\n# ", " "))
    options = {parameter.opts[0] for parameter in web.params}
    assert {word for word in app.split() if word.startswith("--")} <= options, "the image has the web app too"
    assert "web]" in " ".join(given("RUN"))
    code = json.loads(check[check.index("[") :])[-1]
    with socket.create_server(("127.0.0.1", 0)) as app_port, socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
        taken.close()
        code = code.replace(":8000/", f":{free}/").replace("8080", str(app_port.getsockname()[1]))
        checked(sys.executable, "-c", code, env=clean_environment())
        app_port.close()
        assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode


def test_the_command_answers_from_this_environment(spare: Path) -> None:
    serves(spare, Path(sys.executable), clean_environment(PYTHONPATH=str(ROOT / "src")))


@pytest.mark.slow
def test_the_lines_run_in_an_empty_environment(spare: Path) -> None:
    """Everything but the user, who is made in a container only: here the service runs as that
    number where it may, otherwise as who runs the tests."""
    programs = empty_environment(spare / "environment")
    variables = clean_environment(PATH=f"{programs}:{os.environ['PATH']}")
    for rest in given("COPY"):
        *_, target = rest.split()
        assert target in ("/build/", "/build/src")
    copy_sources(spare / "build")
    ran = 0
    for line in given("RUN"):
        if "useradd" not in line:
            checked("sh", "-ec", inside(line, spare), env=variables)
            ran += 1
    assert ran == len(given("RUN")) - 1
    serves(spare, programs / "python", variables)


def _user(python: Path) -> int | None:
    """Give the number of the container's user where we may become that user, and he may run this Python."""
    user = int(given("USER")[0])
    try:
        subprocess.run([python, "-c", ""], user=user, group=user, check=True)
    except (PermissionError, subprocess.CalledProcessError):
        return None
    return user


def serves(root: Path, python: Path, variables: dict[str, str]) -> None:
    """Start the command on volumes of our own, ask one question, ask for its health, and stop it."""
    for name in FOLDERS:
        (root / name[1:]).mkdir(exist_ok=True)
    pl.DataFrame({"sex": ["female", "male"] * 500, "income": range(1000)}).write_csv(root / "data/people.csv")
    (root / "data/service.yaml").write_text(inside(SERVICE, root))
    user = _user(python)
    if user is not None:
        for name in ("data", "data/people.csv", "data/service.yaml", "ledger", "home"):
            os.chown(root / name, user, user)
    options = {"env": {**variables, "HOME": str(root / "home")}, "cwd": root / "data", "user": user, "group": user}
    start = [str(python), "-m", "discretion"]
    key = checked(*start, "key", "add", "service.yaml", "ann", "--quiet", **options).stdout.strip()
    _, *command = [inside(word, root) for word in json.loads(given("CMD")[0])]
    command[command.index("--port") + 1] = "0"  # the container's own port may be taken here
    with subprocess.Popen([*start, *command], stderr=subprocess.PIPE, text=True, **options) as process:  # type: ignore[call-overload]
        try:
            seen = []
            for line in process.stderr:
                seen.append(line)
                if "listening on" in line:
                    break
            assert seen and "listening on" in seen[-1], "".join(seen)
            port = seen[-1].split(":")[-1].split()[0]
            with dc.connect(f"http://127.0.0.1:{port}", key) as service:
                answer = service.ask("SELECT count(*) AS n FROM people")
            assert abs(answer.frame["n"].item() - 1000) < 100 and answer.mode == "dp"
            (check,) = given("HEALTHCHECK")
            words = json.loads(check[check.index("[") :])
            checked(python, *(word.replace(":8000/", f":{port}/") for word in words[1:]), env=variables)
        finally:
            process.terminate()
            process.stderr.read()
        assert process.wait(60) == 0
    assert {file.name for file in (root / "ledger").iterdir()} >= {"ledger.db"}
    assert {file.name for file in (root / "data").iterdir()} == {"people.csv", "service.yaml", "service.keys.json"}
    assert checked(*start, "ledger", "verify", root / "ledger/ledger.db", **options).returncode == 0
