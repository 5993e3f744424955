"""What all commands share: help, versions, usage faults, colors, closed pipes, quick start."""

from __future__ import annotations

import os
import pty
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import discretion
from discretion.cli import few_threads
from discretion.cli.app import app, run
from discretion.cli.console import print_table
from tests.cli.conftest import Cli, spawn


def test_help_and_version(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0 and done.err == "" and "Exit codes" in done.out
    for command in ("demo", "run", "check", "apply", "assess", "parts", "roles"):
        assert re.search(rf"^  {command} ", done.out, re.MULTILINE)
        assert cli(command, "--help").code == 0
    assert discretion.__version__ in cli("--version").out


@pytest.mark.parametrize("arguments", [[], ["rum"], ["run"], ["run", "--no-such-option", "x"], ["demo", "--rows", "5"]])
def test_usage_faults_exit_2_and_leave_stdout_empty(cli: Cli, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.code == 2 and done.out == "" and "Usage" in done.err


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run the command line with a terminal for all three streams; give all it shows."""
    reader, writer = pty.openpty()
    full = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "discretion", *arguments], stdin=writer, stdout=writer, stderr=writer, env=full
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            block = os.read(reader, 65_536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(reader)
    assert process.wait() == 0
    return shown.decode()


COLOR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-9]|4[0-9]|9[0-7]|10[0-7])\b[0-9;]*m")


def test_no_color_on_request(tmp_path: Path) -> None:
    from tests.release.survey import put_survey

    shown = on_a_terminal("run", str(put_survey(tmp_path)), NO_COLOR="1")
    assert "Risk and utility" in shown and not COLOR.search(shown)


def test_no_escapes_without_a_terminal() -> None:
    assert "\x1b" not in spawn("parts").out


def test_a_closed_pipe_is_no_fault() -> None:
    command = f"{sys.executable} -m discretion parts --json | head -c 20"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == "" and len(done.stdout) == 20


# --- start-up ------------------------------------------------------------------------------------------------------


def cpu_seconds(*arguments: str) -> float:
    """Give the CPU time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_start_up_costs_little_more_than_numpy() -> None:
    commands = [("-c", "import numpy"), ("-c", "import discretion"), ("-m", "discretion", "--help")]
    rounds = [[cpu_seconds(*command) for command in commands] for _ in range(6)]
    numpy, imported, helped = (min(times) for times in zip(*rounds, strict=True))
    assert imported <= 1.5 * numpy
    assert helped <= 2.5 * numpy


@pytest.mark.parametrize("columns", ["80", "100"])
def test_no_figure_is_cut_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    figures = [f"{10**i}.12345" for i in range(3, 12)]
    print_table("Title", ("name", *figures), [("a-long-name-of-a-measure and words", *figures)], numeric=range(1, 10))
    shown = capsys.readouterr().out
    assert (
        all(shown.count(figure) >= 2 for figure in figures) and "a-long-name-of-a-measure" in shown and "…" not in shown
    )


def test_an_unexpected_error_is_one_line_that_quotes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("income 4711 of Ann")

    monkeypatch.setattr(app, "main", broken)
    assert run(["parts", "--json"]) == 1
    told = "".join(capsys.readouterr())
    assert "ValueError" in told and "line" in told
    assert "4711" not in told and "Traceback" not in told


def test_short_commands_use_one_thread(tmp_path: Path) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("x\n1\n")
    with large.open("wb") as stream:
        stream.truncate(40_000_000)

    def threads(*arguments: object, **given: str) -> str | None:
        environment = dict(given)
        few_threads([str(one) for one in arguments], environment)
        return environment.get("POLARS_MAX_THREADS")

    assert threads("demo", "--force") == threads("apply", "mdav", small, "out.csv") == "1"
    assert threads("apply", "mdav", small, "out.csv", POLARS_MAX_THREADS="4") == "4"
    others = [("demo", "--rows", 10**6), ("apply", "mdav", large, "o"), ("apply", "mdav", "-", "-"), ("run", small), ()]
    assert all(threads(*arguments) is None for arguments in others)
